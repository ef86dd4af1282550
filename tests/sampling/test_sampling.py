"""The whole algorithm: reproducible, exact, compiled once, and clear about bad input."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import folt
from folt.fit.text import cost_words
from folt.groups import Permutation, Trivial
from folt.models import broken_banana, gaussian_mixture, label_switching
from folt.paper.flow import SpectralCoupling
from folt.paper.training import PaperFlow
from folt.problem import Problem
from folt.problem.ratio import LogRatio, Target
from folt.proposals import Gaussian, Mixture, Pushed
from folt.proposals.fold import Folded
from folt.reference import Concern, Exact, HostChains
from folt.sampling import options, spending
from folt.training import OrbitMixture
from folt.training.effort import EFFORTS
from folt.training.proposal import made_accurate

LEVEL = 1e-4  # about twenty goodness-of-fit checks: a false alarm about once in 500 runs

EXACT = Exact(3_000, 20)
QUICK = OrbitMixture(size=4, labellings=1, rounds=4, fresh=1024)
CENTRES = np.array([[0.0, 0.5], [1.5, -0.5]])


@pytest.fixture(scope="module")
def problem():
    return label_switching(2, 2, CENTRES)


def sampled(problem, **options):
    settings = {"chains": 2, "draws": 400, "reference": EXACT, "flow": QUICK, "progress": False}
    return folt.sample(problem, **{**settings, **options})


@pytest.fixture(scope="module")
def fit(problem):
    return sampled(problem, seed=3)


def same_law(draws, exact):
    """Smallest p-value over coordinates of thinned draws (chain, draw, dim) and exact ones."""
    thinned = draws[:, ::10].reshape(-1, draws.shape[-1])
    return min(stats.ks_2samp(thinned[:, j], exact[:, j]).pvalue for j in range(exact.shape[1]))


def exact_draws(problem, count=20_000):
    """Exact draws on the fundamental domain, dealt from one chain."""
    return Exact(count, 20)(jax.random.key(77), problem).draws.reshape(-1, problem.dim)


# Reproducible.


def test_same_seed_same_draws_bit_for_bit(problem, fit):
    again = sampled(problem, seed=3)
    for name in ("draws", "log_ratio", "accepted"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fit, name))
    assert again.certificate.to_dict() == fit.certificate.to_dict()
    assert again.evaluations == fit.evaluations


def test_a_fifth_of_the_evaluations_buys_the_draws(problem, fit, monkeypatch):
    """Counted, so that a seed fixes the number; never fewer than the fewest."""
    few = sampled(problem, draws=None, flow=fit.flow)
    assert few.draws.shape == (2, spending.FEWEST, 4)
    monkeypatch.setattr(spending, "FEWEST", 10)
    bought, again = (sampled(problem, draws=None, flow=fit.flow) for _ in range(2))
    np.testing.assert_array_equal(bought.draws, again.draws)
    steps = 2 * bought.draws.shape[1] * bought.steps_per_draw
    before = bought.evaluations["value"] - steps
    assert 0.15 < steps / bought.evaluations["value"] < 0.2
    assert steps < before / 4
    assert "chosen by budget" in bought.summary()
    assert "chosen" not in fit.summary()


def test_budgets_count_gradients_and_are_bounded():
    bought = spending.draws_within_budget
    many = {"value": 400_000, "gradient": 0}
    assert bought(many, 1, 4, 10) == 25_000
    assert bought(many, 2, 4, 10) == bought(many, 1, 8, 10) == 12_500
    assert bought({"value": 100_000, "gradient": 100_000}, 1, 4, 10) == 25_000
    assert bought({"value": 10**9, "gradient": 0}, 1, 4, 10) == spending.MOST
    assert bought({"value": 10**9, "gradient": 0}, 1, 4, 200) == spending.NUMBERS // 800
    assert bought(many, 100, 4, 10) == bought(many, 1, 4, 10**6) == spending.FEWEST


def test_another_seed_other_draws(problem, fit):
    other = sampled(problem, seed=4)
    assert not np.isin(other.draws[..., 0], fit.draws[..., 0]).any()


def test_what_a_fit_says_of_itself(fit):
    assert fit.draws.shape == (2, 400, 4)
    assert set(fit.wall) == {"symmetry", "reference", "training", "sampling", "certificate"}
    assert fit.provenance["seed"] == 3
    assert fit.provenance["invariant"] is True
    assert fit.certificate.reference.exact
    assert fit.certificate.reference.draws == 3_000
    assert fit.certificate.safety.weight == 0.02
    assert fit.evaluations["value"] > 20_000  # at the least, one per fresh certificate draw
    assert fit.accept_rate > 0.8


def test_the_folded_law_is_exact(problem, fit):
    longer = fit.extend(4_000)
    assert same_law(longer.draws, exact_draws(problem)) > LEVEL


# Compiled once.


def counted_problem(data):
    """A two-component mixture's posterior that counts how often it is traced."""
    traces = {"count": 0}

    def log_density(x, y):
        traces["count"] += 1
        terms = -0.5 * ((y[:, None] - x) / 0.5) ** 2
        return jnp.sum(jnp.logaddexp(terms[:, 0], terms[:, 1])) - jnp.sum(x**2) / 18.0

    return Problem(log_density, Permutation(2, 1), data=data), traces


SMALL_RUN = HostChains(particles=128, moves=5, chains=16, draws=40, warmup=20)


@pytest.mark.parametrize("reference", ["run", "draws"])
def test_a_second_data_set_of_equal_shape_does_not_compile(reference):
    generator = np.random.default_rng(0)
    first, second = (generator.normal(size=12) + np.repeat([-1.0, 1.0], 6) for _ in range(2))
    problem, traces = counted_problem(first)
    draws = np.array([-1.0, 1.0]) + 0.2 * generator.normal(size=(900, 2))
    # The whole reference run with a proposal as it is; given draws with training.
    options = {"reference": draws, "chains": 1, "draws": 50}
    if reference == "run":
        options.update(reference=SMALL_RUN, flow=Gaussian(jnp.array([-1.0, 1.0]), 4 * jnp.eye(2)))
    one = sampled(problem, **options)
    seen = traces["count"]
    assert seen > 0
    two = sampled(problem.with_data(second), seed=8, **options)
    assert traces["count"] == seen
    assert not np.array_equal(one.draws, two.draws)
    assert one.evaluations["gradient"] > 0 or reference == "draws"


# Broken symmetry.


@pytest.fixture(scope="module")
def broken():
    richer = dataclasses.replace(QUICK, size=12, rounds=8, fresh=2048)
    return sampled(broken_banana(), seed=1, chains=4, draws=5_000, flow=richer)


def projections(points):
    """Several views of the banana in which its two arms differ."""
    x, y = points.T
    return {
        "x1": x,
        "x2": y,
        "sum": x + y,
        "difference": y - x,
        "x2 where x1 > 0": y[x > 0],
        "x2 where x1 < 0": y[x < 0],
        "bend": (y / (x**2 + 0.1)),
    }


def worst(points, exact):
    """Smallest p-value over the projections and over the share of points on the right."""
    p_values = [
        stats.ks_2samp(one, other).pvalue
        for one, other in zip(
            projections(points).values(), projections(exact).values(), strict=True
        )
    ]
    right = int((points[:, 0] > 0).sum())
    return min(*p_values, stats.binomtest(right, len(points), 0.5).pvalue)


def test_unfolding_recovers_a_law_without_symmetry(broken):
    keys = jax.random.split(jax.random.key(5), 20_000)
    exact = np.asarray(jax.vmap(broken.problem.sampler)(keys))
    thinned = broken.unfolded(seed=2)[:, ::10].reshape(-1, 2)
    assert worst(thinned, exact) > LEVEL
    # The mutant: labels given uniformly, as if the target were invariant.
    uniform = broken.draws[:, ::10].reshape(-1, 2).copy()
    uniform[:, 0] *= np.random.default_rng(0).choice([-1.0, 1.0], len(uniform))
    assert worst(uniform, exact) < LEVEL


# Evidence.


def test_log_evidence_of_normalised_targets_is_zero(fit, broken):
    """Within 4 standard errors (false alarm 6e-5 each); counting |G| twice would be log 2 off."""
    for one in (fit, broken):
        evidence = one.log_evidence
        assert abs(evidence.value) < 4 * evidence.standard_error
        assert np.log(one.group.order) > 20 * evidence.standard_error
    assert fit.log_evidence.pareto_k < 0.7


def test_a_constant_in_the_density_is_the_evidence(problem, fit):
    shifted = Problem(
        lambda x: problem.log_density(x) + 5.0, problem.group, sampler=problem.sampler
    )
    evidence = sampled(shifted, flow=fit.flow, draws=10).log_evidence
    assert abs(evidence.value - 5.0) < 4 * evidence.standard_error


# Options.


def test_labels_of_the_proposal_name_the_same_orbits(problem, fit):
    sorted_fit = sampled(problem, flow=fit.flow, seed=3)
    other = sampled(problem, flow=fit.flow, seed=3, labels="proposal")
    flat = jnp.asarray(other.draws.reshape(-1, 4))
    np.testing.assert_array_equal(
        jax.vmap(problem.group.fold)(flat), sorted_fit.draws.reshape(-1, 4)
    )
    np.testing.assert_array_equal(other.log_ratio, sorted_fit.log_ratio)
    terms = jax.vmap(Folded(other.proposal, problem.group).log_terms)(flat)
    # The likeliest labels, renumbered by one element for all draws alike.
    assert len(set(np.asarray(terms.argmax(axis=1)).tolist())) == 1


def test_a_distribution_is_proposed_from_as_it_is(problem, fit):
    assert eqx.tree_equal(sampled(problem, flow=fit.flow, draws=20).flow, fit.flow)


def test_an_earlier_fit_is_a_start(problem, fit):
    started = sampled(problem, start=fit, seed=9, draws=50)
    assert isinstance(started.flow, Mixture)
    assert started.flow.means.shape == fit.flow.means.shape
    assert started.certificate.qc["target"][0.25].gamma > 0.5
    assert started.evaluations["value"] < fit.evaluations["value"] + 50_000


def test_a_truncated_orbit_is_exact_and_never_better(problem):
    """Only draws that fall into the domain survive; the law is the same."""
    flow = Gaussian(jnp.asarray(CENTRES.ravel()), 0.9 * jnp.eye(4))
    whole = sampled(problem, flow=flow, draws=50)
    truncated = sampled(problem, flow=flow, draws=6_000, whole_orbit=False)
    assert not truncated.whole_orbit
    assert truncated.certificate.faults.died > 0
    assert truncated.accept_rate < whole.accept_rate
    assert same_law(truncated.draws, exact_draws(problem)) > LEVEL
    evidence = truncated.log_evidence
    assert abs(evidence.value) < 4 * evidence.standard_error
    assert truncated.extend(10).draws.shape == (2, 6_010, 4)


@pytest.mark.extended
def test_the_papers_preset_made_smaller(problem):
    tiny = PaperFlow(layers=2, width=8, steps=50)
    fit = sampled(problem, flow=tiny, preset="paper", draws=100)
    assert isinstance(fit.proposal, Pushed)  # no safety in the paper
    assert isinstance(fit.proposal.base, SpectralCoupling)
    assert fit.certificate.safety.weight == 0.0
    assert fit.provenance["preset"] == "paper"
    assert 0 < fit.accept_rate < 1


# Bad input.

BAD = {
    "draws": ({"draws": 0}, "draws to be a whole number of at least 1, got 0"),
    "chains": ({"chains": 0}, "chains to be a whole number of at least 1, got 0"),
    "preset": ({"preset": "fast"}, "expected preset 'default' or 'paper', got 'fast'"),
    "labels": ({"labels": "alphabetical"}, "expected labels 'sorted' or 'proposal'"),
    "few draws": ({"reference": np.zeros((30, 4))}, "at least 200 reference draws.*got 30"),
    "draws of another dimension": ({"reference": np.zeros((900, 3))}, r"\(draw, 4\)"),
    "complex draws": ({"reference": np.zeros((900, 4), complex)}, "real reference draws"),
    "a file that is not there": ({"reference": "nuts"}, "found nothing at nuts"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_are_refused(problem, name):
    options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        sampled(problem, **options)


def test_not_a_problem():
    with pytest.raises(ValueError, match=r"expected a folt.Problem, got function"):
        folt.sample(lambda x: -jnp.sum(x**2))


def usable_draws():
    return np.random.default_rng(0).normal(size=(900, 4)) + np.array([0.0, 0.5, 3.0, -0.5])


def spoilt(column, value):
    draws = usable_draws()
    draws[:, column] = value
    return draws


DEGENERATE = {
    "constant coordinate": (spoilt(3, 1.0), "constant coordinate 3"),
    "degenerate covariance": (spoilt(1, 2.0 * usable_draws()[:, 3]), "full rank|subspace"),
    "NaN": (spoilt(0, np.nan), "expected finite reference draws"),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_reference_draws_are_refused(problem, name):
    draws, message = DEGENERATE[name]
    if name == "degenerate covariance":
        draws[:, 1] = 2.0 * draws[:, 3]
    with pytest.raises(ValueError, match=message):
        sampled(problem, reference=draws)


def test_a_proposal_of_another_dimension_is_refused(problem):
    with pytest.raises(ValueError, match="dimension"):
        sampled(problem, flow=Gaussian(jnp.zeros(3), jnp.eye(3)))


def test_a_support_that_no_proposal_hits():
    far = Problem(lambda x: jnp.where(x[0] > 50.0, -x[0], -jnp.inf), Permutation(1, 1))
    draws = 60.0 + np.random.default_rng(0).exponential(size=(900, 1))
    nowhere = Gaussian(jnp.zeros(1), jnp.eye(1))
    with pytest.raises(ValueError, match="no proposal hit the support"):
        # Without the tail safety, whose guard sits on the reference draws and would hit it.
        sampled(far, reference=draws, flow=nowhere, preset="paper", draws=5, chains=1)


def test_a_flow_in_single_precision_is_judged_in_double():
    """Parameters in float32: h of a density near -1e6 would vary by .05, and does not."""

    def large(x):
        return -1e6 - 0.5 * jnp.sum(x**2)

    single = Gaussian(jnp.zeros(2, jnp.float32), jnp.eye(2, dtype=jnp.float32))
    problem = Problem(large, Trivial(2), sampler=lambda key: jax.random.normal(key, (2,)))
    double = made_accurate(single)
    assert double.mean.dtype == jnp.float64
    ratio = LogRatio(Target(problem), double, problem.group)
    _, h = ratio.draw(jax.random.key(0), 500)
    assert np.std(h) < 1e-8


def test_a_cap_says_what_it_cost():
    """Particles and proposals against the same effort without it; nothing where nothing is cut."""
    effort = folt.Effort.default()
    (caution,) = options.cap_cautions(effort.within(30_000))
    assert caution.concern is Concern.CAPPED
    cut = effort.within(30_000)
    assert caution.numbers["particles"] == cut.particles < caution.numbers["usual"]
    assert caution.numbers["blur"] == pytest.approx(
        (effort.certification_draws / cut.certification_draws) ** 0.5
    )
    assert "30000 evaluations" in str(caution)
    assert options.cap_cautions(effort) == ()
    assert options.cap_cautions(effort.within(10**9)) == ()


def test_the_summary_says_what_was_spent_and_what_more_would_buy(problem):
    fit = sampled(problem, seed=3)
    assert fit.provenance["spent"]["cpu_s"] > 0.0
    assert fit.provenance["spent"]["programs"] >= 0
    words = cost_words(fit)
    assert f"{fit.evaluations['value']} log densities" in words
    assert f"at most {100 * (1 - fit.accept_rate):.0f} % of acceptance" in words
    thorough = dataclasses.replace(fit, provenance={**fit.provenance, "effort": "thorough"})
    assert "thorough" not in cost_words(thorough)


def test_an_effort_may_be_a_word():
    problem = gaussian_mixture([-2.0, -1.8, 1.7, 2.2], 2)
    for word, effort in EFFORTS.items():
        asked = options.Options(effort=word)
        asked.require_usable(problem)
        assert asked.effort_for(problem, 1e-6) == effort()


def test_very_many_rows_halve_the_counts_of_an_effort_and_fewer_leave_it_alone(monkeypatch):
    problem = folt.models.gaussian_mixture(np.linspace(-2.0, 2.0, 400), 2)
    quick = folt.Effort.quick()
    asked = options.Options(effort=quick)
    assert asked.effort_for(problem, 1e-6) == quick
    assert asked.sampler_for(problem, quick).path_every == 1
    monkeypatch.setattr(options, "MANY_ROWS", 400)
    fewer = asked.effort_for(problem, 1e-6)
    assert 2 * fewer.certification_draws == quick.certification_draws
    assert fewer.training_draws + fewer.held_out_draws == fewer.chains * fewer.draws
    own = dataclasses.replace(quick, particles=512)
    assert options.Options(effort=own).effort_for(problem, 1e-6) == own
