"""Short cards of long objects, and what a run says of itself where no terminal is."""

import io
import time

import jax.numpy as jnp
import numpy as np
import pytest

import folt
from brief import brief_fit
from cases import GROUPS
from folt.groups import Joint, Permutation, Product, SignedPermutation, ZeroSum
from folt.models import bayesian_mixture, gaussian_mixture, label_switching
from folt.problem.cards import CARD_WIDTH, MOST_CARD_LINES, Card, order_words
from folt.reference import HostChains
from folt.sampling.progress import Lines, Stages
from folt.sampling.spending import forecast, reference_work


@pytest.fixture(scope="module")
def fit():
    return brief_fit(label_switching(3, 2))


def is_short(shown):
    lines = repr(shown).splitlines()
    assert len(lines) <= MOST_CARD_LINES
    assert max(map(len, lines)) <= CARD_WIDTH
    return lines


def test_a_fit_shows_its_verdict_first(fit):
    lines = is_short(fit)
    status = fit.certificate.status
    assert status.name in lines[0]
    assert status.outcome.headline in lines[0]
    assert "6 labellings folded into one" in lines[1]
    assert f"{fit.log_evidence.value:.4f}" in repr(fit)
    assert "fit.summary()" in lines[-1]
    is_short(fit.certificate)
    assert repr(fit.certificate).splitlines()[0] == lines[0]
    html = fit._repr_html_()
    assert html.count("<tr>") == len(lines) - 1
    assert status.outcome.headline in html


def test_estimates_of_a_fit_are_those_of_its_draws(fit):
    values = fit.posterior["x0"]
    assert f"± {values.std():.2f}"[:5] in repr(fit)


@pytest.mark.parametrize(
    "make",
    [
        bayesian_mixture,
        lambda: gaussian_mixture(np.random.default_rng(0).normal(size=50), 4),
        lambda: label_switching(2, 2),
    ],
)
def test_a_problem_is_short(make):
    problem = make()
    lines = is_short(problem)
    assert f"{problem.dim} dimensions" in lines[0]
    assert f"{problem.group.order} labellings" in lines[0]
    assert "<table" in problem._repr_html_()


def test_a_problem_without_symmetry_says_so():
    problem = folt.Problem(lambda x: -x @ x, folt.groups.Trivial(2))
    assert "no relabelling symmetry" in repr(problem)
    broken = folt.models.broken_banana()
    assert "symmetry broken" in repr(broken)


def test_parameters_at_a_point_are_in_double_precision():
    problem = folt.Problem(lambda x: -x @ x, folt.groups.Trivial(2))
    values = problem.parameters(np.array([0.1, 0.2]))
    assert values["x1"].dtype == np.float64
    assert values["x1"] == 0.2


def test_one_sign_that_is_folded_is_not_said_to_ascend():
    """Two labels of parts that sum to zero are one coordinate with a sign."""
    group = Joint(2, [ZeroSum(), ZeroSum()])
    folded = np.asarray(group.fold(jnp.array([0.7, -0.2])))
    sign = "positive" if folded[0] <= 0 else "negative"
    problem = folt.Problem(lambda x: -(((x**2).sum() - 1.0) ** 2), group, names=["l[0]", "l[1]"])
    assert f"l[0] not {sign}" in str(problem)


def test_an_order_by_entries_of_several_arrays_names_each_array_once():
    names = [f"{name}[{unit}]" for unit in range(6) for name in ("w1", "b1", "w2")]
    words = order_words(SignedPermutation(3, 6), names)
    assert words == "the sum of w1, b1, w2 not negative and ascends"


def test_an_order_names_what_grows_with_a_coordinate_that_has_no_name():
    def constrain(x):
        return {"rate": jnp.exp(x[0::2]), "size": -x[1::2]}

    def log_density(x):
        return -((x - jnp.tile(jnp.array([0.0, 1.0]), 2)) ** 2).sum()

    for key, words in ((0, "rate ascends"), (1, "size descends")):
        group = Permutation(2, 2, key)
        problem = folt.Problem(log_density, group, constrain=constrain)
        assert words in repr(problem)
        assert words in brief_fit(problem).methods()
    plain = folt.Problem(log_density, group)
    assert "x1, x3 ascend" in repr(plain)


def test_a_model_that_cannot_be_traced_still_has_a_face():
    def constrain(x):
        raise RuntimeError("not now")

    problem = folt.Problem(lambda x: -x @ x, folt.groups.Trivial(2), constrain=constrain)
    assert "x0, x1" in repr(problem)


def test_an_effort_says_what_it_costs():
    for effort in (folt.Effort.quick(), folt.Effort.default(), folt.Effort.thorough()):
        lines = is_short(effort)
        assert effort.name in lines[0]
        assert f"{effort.particles:,} particles" in lines[1]
    assert "as long as it gains" in repr(folt.Effort.thorough())


def test_a_long_row_ends_with_a_sentence():
    long = "Not stated, because it is in doubt. " + "Total variation needs more. " * 9
    last = Card("x", (("Mixing", long),)).text().splitlines()[-1]
    assert last.endswith("needs more.")
    assert Card("x", (("Mixing", "word " * 40),)).text().endswith(" …")


def test_what_a_notebook_shows_is_escaped():
    card = Card("<b>", (("<script>", "a & b"),))
    assert "<script>" not in card.html()
    assert "&lt;b&gt;" in card.html()


@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_shown_in_a_few_lines(name):
    group = GROUPS[name]()
    is_short(group)
    is_short(Product(*(group for _ in range(30))))
    assert f"{group.order:,} elements" in group._repr_html_()


def test_a_long_stage_is_announced_once_and_a_short_one_is_not(capsys):
    stages = Stages()
    stages.expect("reference", 330_000, 80.2)
    stages.expect("sampling", 20_000, 9.0)
    assert capsys.readouterr().err == (
        "folt: reference will take about 1:20, some 330,000 log densities\n"
    )


def test_work_is_counted_before_it_is_done():
    """Tempering, paths or walks; orbits count where the symmetry is broken."""
    problem = folt.Problem(lambda x: -jnp.sum(x**2) / 2, Permutation(2, 1))
    run = HostChains(particles=10, moves=2, chains=3, draws=4, warmup=1, searchers=5)
    walks = (150 + 25 * 2) * 5 + 10 * 2 * 12
    assert reference_work(problem, run) == walks + 3 * 5 * 12
    box = folt.from_callable(lambda x: -np.sum(x**2) / 2, 2, Permutation(2, 1))
    assert reference_work(box, run) == walks + 3 * 5 * run.thin
    assert reference_work(problem, None) == 0
    account = folt.check(problem)
    assert account.pace > 0
    broken = folt.Problem(lambda x: -jnp.sum(x**2) / 2, Permutation(2, 1), invariant=False)
    assert forecast(broken, account, 100).evaluations == 200


def test_lines_say_stage_time_and_what_is_left():
    lines = Lines(io.StringIO())
    assert lines.line(0.0) is None
    lines.stage("training")
    begun = lines._stage[1]
    assert lines.line(begun + 25.0) == "folt: training 0:25"
    lines.tell(0.4, "round 3")
    assert lines.line(begun + 25.0) == "folt: training 0:25, 40 %, about 0:38 left, round 3"


def test_lines_are_written_while_work_goes_on_and_not_after():
    stream = io.StringIO()
    lines = Lines(stream, first=0.02)
    lines.start()
    lines.stage("sampling")
    waited = time.monotonic() + 10.0
    while not stream.getvalue() and time.monotonic() < waited:
        time.sleep(0.01)
    lines.stop()
    told = stream.getvalue()
    assert told.startswith("folt: sampling 0:00")
    time.sleep(0.1)
    assert stream.getvalue() == told
