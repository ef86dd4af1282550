"""Finding modes: laws of descents, merging, masses, screening, audit and agreement.

Statistical tests use fixed seeds; where a level is stated it is the false-alarm rate over fresh
ones.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from cases import GROUPS
from folt.certificate import exploration
from folt.certificate.certify import audit
from folt.certificate.exploration import ExplorationFacts, ModeFacts
from folt.certificate.sentences import explored_words, modes_words
from folt.groups import Permutation, Reflection, SignedPermutation, Trivial
from folt.problem import Problem
from folt.problem.ratio import LogRatio, Target
from folt.proposals import Mixture, standard_normal
from folt.proposals.action import action_of
from folt.proposals.components import Components
from folt.proposals.sums import HostDistribution
from folt.reference import HostChains
from folt.reference.exploration import Explored, explorer, modes, polish, start, subset
from folt.reference.exploration.descents import descents, runaways
from folt.reference.exploration.explored import masses_of
from folt.reference.exploration.images import nearest_images, squared_distances
from folt.reference.exploration.modes import modes_of
from folt.reference.exploration.start import UnionStart, unexplained
from folt.reference.host_tempering import Ladder
from folt.reference.landscape import Landscape
from folt.types import root_key


def mixture_of(means, deviations, weights, group=None, prior=2.0):
    """Isotropic Gaussians, summed over all images of their means, as a problem."""
    means, dim = np.asarray(means, float), len(means[0])
    group = Trivial(dim) if group is None else group
    images = np.concatenate([np.asarray(group.orbit(jnp.asarray(mean))) for mean in means])
    scales = np.repeat(deviations, group.order)
    logs = np.log(np.repeat(weights, group.order) / group.order) - dim * np.log(scales)
    factors = np.eye(dim) / scales[:, None, None]
    mixture = Mixture(*map(jnp.asarray, (logs + dim * np.log(scales), images, factors)))
    return Problem(mixture.log_prob, group, prior=standard_normal(dim, prior) if prior else None)


def found_from(problem, points, scale=1.0, rounds=20):
    """The modes that descents from given points end in."""
    landscape, dim, left = Landscape(problem), problem.dim, [np.asarray(points)]

    def starts(count):
        chosen, left[0] = left[0][:count], left[0][count:]
        return chosen, np.zeros(len(chosen), int)

    widths = np.full(dim, scale)
    ends = descents(landscape.with_gradients, starts, widths, len(points), rounds)
    middle = np.zeros(dim)
    return ends, modes_of(landscape.with_gradients, ends, middle, widths, action_of(problem.group))


PAIR = ((-2.0, 0.5), (2.0, -1.0))


def test_descents_end_at_the_maxima_and_commute_with_the_group():
    """An image of a start ends in the image of its end, under every group."""
    for name in ("reflections", "permutation of blocks", "signed permutation", "joint square"):
        group = GROUPS[name]()
        centre = np.random.default_rng(1).normal(size=group.dim) * 2.0
        problem = mixture_of([centre], [0.5], [1.0], group)
        action = action_of(group)
        starts = np.random.default_rng(2).normal(size=(6, group.dim)) * 2.0
        moved = action.move(np.full(6, group.order - 1), starts)
        plain, _ = found_from(problem, starts)
        images, _ = found_from(problem, moved)
        expected = action.move(np.full(6, group.order - 1), plain.points)
        np.testing.assert_allclose(images.points, expected, atol=1e-6, err_msg=name)
        assert nearest_images(action, plain.points, centre, np.eye(group.dim))[1].max() < 0.05


def test_ends_that_are_images_are_one_mode_and_different_modes_stay_apart(monkeypatch):
    group = Permutation(2, 1)
    problem = mixture_of([(-2.0, 1.0), (0.0, 3.0)], [0.3, 0.3], [0.6, 0.4], group)
    starts = np.random.default_rng(0).normal(size=(40, 2)) * 2.0
    _, found = found_from(problem, starts)
    assert found.count == 2
    assert found.hits.sum() == 40
    np.testing.assert_allclose(np.exp(found.log_masses), [0.6, 0.4], rtol=0.02)
    monkeypatch.setattr(modes, "REACH", 1_000.0)  # a ball ten thousand times as large
    assert found_from(problem, starts)[1].count == 1


def test_ends_that_are_no_maxima_are_no_modes():
    """A search that ends on an endless slope counts as an end, not as a mode."""
    problem = Problem(lambda x: 5.0 * x[0] - 0.5 * x[1] ** 2, Trivial(2))
    ends, found = found_from(problem, np.ones((3, 2)))
    assert len(ends.values) == 3
    assert found is None


@pytest.mark.parametrize("name", GROUPS)
def test_nearest_images_are_images_and_none_is_nearer(name):
    group = GROUPS[name]()
    action, rng = action_of(group), np.random.default_rng(3)
    points, centre = rng.normal(size=(5, group.dim)), rng.normal(size=group.dim)
    factor = np.eye(group.dim)
    images, squares = nearest_images(action, points, centre, factor)
    every = action.images(points)
    brute = np.array([squared_distances(one, centre, factor).min() for one in every])
    np.testing.assert_allclose(squares, brute, rtol=1e-9)
    np.testing.assert_allclose(squared_distances(images, centre, factor), squares, rtol=1e-9)
    own = np.min(np.linalg.norm(every - images[:, None], axis=2), axis=1)
    np.testing.assert_allclose(own, 0.0, atol=1e-9)


@pytest.mark.parametrize("group", [Permutation(6, 2), SignedPermutation(4, 3)])
def test_large_groups_find_the_nearest_image_by_assignment(group):
    """Block by block where the metric is; 720 and 384 images are gone through to compare."""
    action, rng = action_of(group), np.random.default_rng(4)
    assert group.order > 120
    points, centre = rng.normal(size=(4, group.dim)), rng.normal(size=group.dim)
    form = group.block_form
    weights = np.ones(group.dim)
    for number, block in enumerate(form.places):
        weights[list(block)] = 1.0 + 0.3 * number
    factor = np.diag(weights)
    _, squares = nearest_images(action, points, centre, factor)
    every = action.images(points)
    brute = np.array([squared_distances(one, centre, factor).min() for one in every])
    np.testing.assert_allclose(squares, brute, rtol=1e-9)


def test_points_are_gathered_at_the_mode_nearest_under_any_label():
    """Images of draws around two modes under labels of their own come back to these labels."""
    group, rng = Permutation(3, 2), np.random.default_rng(6)
    means = rng.normal(size=(2, 6)) * 4.0
    problem = mixture_of(means, [0.2, 0.2], [0.5, 0.5], group)
    found, action = found_from(problem, means + 0.1)[1], action_of(group)
    own = np.repeat(found.points, 20, axis=0) + 0.2 * rng.normal(size=(40, 6))
    images, offsets = found.gathered(action, action.move(rng.integers(6, size=40), own))
    np.testing.assert_allclose(images, own, atol=1e-9)
    np.testing.assert_allclose(offsets, own - np.repeat(found.points, 20, axis=0), atol=1e-9)


@pytest.mark.extended
def test_chains_leap_among_modes_under_a_group_that_is_not_listed(monkeypatch):
    """Eight labels: a log density whose two modes hold 60 and 40 %, within four errors."""
    group, places = Permutation(8, 1), 2.0 * np.arange(8.0)
    assert not action_of(group).listed

    def log_density(x):
        own = jnp.sort(x)
        terms = [jnp.sum((own - places) ** 2), jnp.sum((own - places - 9.0) ** 2)]
        return jnp.logaddexp(*(jnp.log(jnp.array([0.6, 0.4])) - 0.5 * jnp.stack(terms) / 0.04))

    def leaps():
        """Mass of the modes by the chains, and the share of their steps that change the mode."""
        run = explored(Problem(log_density, group, prior=standard_normal(8, 12.0)))
        changes = np.diff(run.draws.mean(axis=-1) > 11.5, axis=1)
        return [mode.reference for mode in run.exploration.modes], changes.mean()

    masses, rate = leaps()
    assert masses == pytest.approx([0.6, 0.4], abs=0.15)
    # The mutant: every labelling at once, where fewer leaps arrive (measured .18 against .26).
    monkeypatch.setattr(modes.Modes, "gathered", lambda _, __, points: (points, points))
    assert leaps()[1] < 0.85 * rate


def test_masses_of_a_known_mixture():
    """.6, .3, .1 within four errors of 512 draws (about 1 in 5 000)."""
    group = Permutation(2, 2)
    means = [(-3.0, 0.0, 3.0, 0.0), (-1.0, 1.0, 2.0, 2.0), (-4.0, -2.0, 0.0, -2.0)]
    problem = mixture_of(means, [0.4, 0.25, 0.3], [0.6, 0.3, 0.1], group)
    _, found = found_from(problem, np.asarray(means) + 0.1)
    landscape, action = Landscape(problem), action_of(group)
    masses = masses_of(np.random.default_rng(0), landscape, found, action)
    np.testing.assert_allclose(masses.shares, [0.6, 0.3, 0.1], atol=4 * 0.03)
    assert abs(masses.log_evidence) < 0.15
    around = masses.around(np.random.default_rng(1), 1, 50)
    assert (found.distances(action, around).argmin(axis=1) == 1).mean() > 0.95


def test_components_and_a_union_know_their_gradients():
    rng = np.random.default_rng(5)
    factors = np.stack([np.diag(rng.uniform(0.5, 2.0, 3)) + 0.2 for _ in range(2)])
    for degrees in (5.0, math.inf):
        known = Components(np.log([0.3, 0.7]), rng.normal(size=(2, 3)), factors, degrees)
        start = HostDistribution(standard_normal(3, 3.0))
        for law in (known, UnionStart(start, known)):
            points, step = rng.normal(size=(4, 3)), 1e-6
            value = (
                law.log_probs
                if isinstance(law, UnionStart)
                else (lambda x, known=known: np.logaddexp.reduce(known.log_terms(x), axis=1))
            )
            values, gradients = law.with_gradients(points)
            np.testing.assert_allclose(values, value(points), rtol=1e-10)
            for j in range(3):
                away = step * np.eye(3)[j]
                slope = (value(points + away) - value(points - away)) / (2 * step)
                np.testing.assert_allclose(gradients[:, j], slope, rtol=1e-5, atol=1e-7)


def test_screening_finds_a_basin_that_descents_would_not_meet():
    """In six dimensions a mode of half the mass attracts about seven of 4 096 starts."""
    one = np.ones(6)
    problem = mixture_of([0 * one, 2.0 * one], [0.6, 0.25], [0.5, 0.5])
    _, wide = found_from(problem, np.zeros((4, 6)))
    assert wide.count == 1
    points = 2.0 * np.random.default_rng(0).normal(size=(4_096, 6))
    values = Landscape(problem)(points)
    chosen, excess = unexplained(action_of(problem.group), wide, points, values, 32)
    assert found_from(problem, chosen)[1].count == 2
    assert np.all(np.diff(excess) <= 0)
    assert found_from(problem, points[:32])[1].count == 1


def test_screening_looks_at_pieces_and_keeps_the_least_explained_of_all():
    """No piece is larger than the limit, and the narrow mode is found among them all."""
    one, sizes = np.ones(6), []
    problem = mixture_of([0 * one, 2.0 * one], [0.6, 0.25], [0.5, 0.5])
    _, wide = found_from(problem, np.zeros((4, 6)))
    rng = np.random.default_rng(0)

    class Starts:
        def many(self, count):
            sizes.append(count)
            return 2.0 * rng.normal(size=(count, 6))

    class Searching(explorer.Explorer):
        def __init__(self):
            self.landscape, self.action = Landscape(problem), action_of(problem.group)
            self.screening = 32

    chosen = Searching()._unexplained(Starts(), wide, 2 * explorer.SCREENED_AT_ONCE + 100)
    assert sizes == [explorer.SCREENED_AT_ONCE, explorer.SCREENED_AT_ONCE, 100]
    assert len(chosen) == 32
    np.testing.assert_allclose(found_from(problem, chosen)[1].points[0], 2.0, atol=0.01)


def explored(problem, seed=0, **changes):
    brief = HostChains(particles=300, moves=6, chains=32, draws=20, longest=1, **changes)
    return brief(root_key(seed), problem)


FAR = [np.zeros(3), np.full(3, 6.0)]
"""The second mode lies ten deviations of the prior away."""


def test_a_mode_beyond_the_prior_is_found_and_tempering_is_repaired(monkeypatch):
    problem = mixture_of(FAR, [0.4, 0.4], [0.5, 0.5], prior=1.0)
    run = explored(problem)
    assert run.exploration.ladders == 2
    assert run.exploration.agree
    shares = sorted(mode.reference for mode in run.exploration.modes)
    np.testing.assert_allclose(shares, [0.5, 0.5], atol=0.15)
    monkeypatch.setattr(start, "_LONGEST", 0.0)  # no stretch: nobody looks beyond the prior
    monkeypatch.setattr(start, "SHORTEST", -1e-9)
    assert len(explored(problem).exploration.modes) == 1


def test_descents_begin_at_the_modes_of_an_earlier_fit_as_well():
    """A spike that no search meets is found from a point beside it."""
    problem = mixture_of([np.zeros(4), np.full(4, 1.5)], [1.0, 0.01], [0.5, 0.5])
    assert len(explored(problem).exploration.modes) == 1
    assert len(explored(problem, known=np.full((1, 4), 1.501)).exploration.modes) == 2


def test_the_two_searches_must_agree(monkeypatch):
    """A mode that the reference has and the particles lost is a doubt; the rule can be lost."""
    modes_seen = (ModeFacts(0.6, 300, 0.6, 0.6), ModeFacts(0.4, 200, 0.4, 0.4))
    seen = ExplorationFacts(600, modes_seen, 0, 1_024, 90, 20, arrived=500)

    def with_second(*mode):
        return dataclasses.replace(seen, modes=(seen.modes[0], ModeFacts(*mode)))

    lost = with_second(0.4, 200, 0.02, 0.4, True, False, 0.1)
    assert seen.agree
    assert with_second(0.005, 1, 0.0, 0.005, True, True).agree  # light
    assert with_second(0.4, 200, 0.02, 0.4, True, False, 0.2).agree  # noise of few ancestors
    assert not lost.agree
    assert not with_second(0.4, 1, 0.4, 0.4, True, True).agree  # met by chance
    nothing = dataclasses.replace(seen, modes=())
    assert (nothing.agree, nothing.doubted) == (False, False)  # nothing was compared
    assert seen.smallest_basin == 3 / 500  # descents that were cut short do not count
    monkeypatch.setattr(exploration, "DIFFERENCE", 1.0)  # rule off
    assert lost.agree


def test_noise_of_few_ancestors_is_no_disagreement(monkeypatch):
    """Families of unequal size, each wholly in a mode or out of it: an alarm in 1 of 100 at most.

    2 000 ladders for every share; the largest rate of long runs is .004, so fresh seeds fail in
    fewer than 1 of 10 000. Without the ladder's own error up to half of them would be alarms.
    """
    rng = np.random.default_rng(0)
    rates = {}
    for errors in (exploration.ERRORS, 0.0):
        monkeypatch.setattr(exploration, "ERRORS", errors)
        alarms = []
        for share in (0.1, 0.3, 0.5, 0.7, 0.9):
            found = 0
            for _ in range(100):
                sizes = rng.multinomial(1_024, rng.dirichlet(np.full(40, 0.1)))
                ladder = Ladder(None, 0.0, None, np.repeat(np.arange(40), sizes))
                error = math.sqrt(share * (1.0 - share) / ladder.effective_ancestors)
                inside = (rng.uniform(size=(20, 40)) < share) @ sizes / 1_024
                found += sum(
                    not ModeFacts(share, 9, one, share, error=error).agreed for one in inside
                )
            alarms.append(found / 2_000)
        rates[errors] = max(alarms)
    assert rates[3.0] < 0.01
    assert rates[0.0] > 0.2


def test_ancestors_that_count():
    """Equal families count in full, one large one hardly; each set has the families it holds."""
    ladder = Ladder(None, 0.0, None, np.repeat(np.arange(8), 4))
    assert ladder.effective_ancestors == pytest.approx(8)
    one = ladder._replace(origins=np.r_[np.zeros(92, int), np.arange(1, 9)])
    assert one.ancestors == 9
    assert one.effective_ancestors == pytest.approx(100**2 / (92**2 + 8))
    within = np.stack([ladder.origins < 3, ladder.origins > 8], axis=1)
    np.testing.assert_array_equal(ladder.families(within), [3, 0])


def test_a_mode_must_have_been_met_more_often_in_more_dimensions():
    """Five hits say enough in three dimensions, not in twenty; those from rungs never do."""
    for dim, starts, rungs, often in ((3, 5, 0, True), (3, 4, 90, False), (20, 40, 0, False)):
        _, found = found_from(mixture_of([np.zeros(dim)], [0.5], [1.0]), np.ones((3, dim)))
        met = dataclasses.replace(found, hits=np.array([[starts, rungs, 0]]))
        assert met.often().tolist() == [often]


def test_newton_steps_follow_a_curved_ridge(monkeypatch):
    """A banana, along which whole steps lose: searches cut short do not each leave a mode."""
    ridge = Problem(lambda x: -0.5 * (x[0] / 2.0) ** 2 - 50.0 * (x[1] - x[0] ** 2) ** 2, Trivial(2))
    starts = np.stack([np.linspace(-3.0, 3.0, 12), np.zeros(12)], axis=1)
    _, found = found_from(ridge, starts, rounds=8)
    assert found.values.max() > -0.01
    monkeypatch.setattr(modes, "_STEPS", (1.0,))
    assert found_from(ridge, starts, rounds=8)[1].count > found.count


@pytest.mark.parametrize(("maxima", "saddles", "apart"), [(4, 2, 4 / 6), (2, 4, 0.0)])
def test_ends_of_which_most_are_no_maxima_are_not_scattered(maxima, saddles, apart):
    """Ends on saddles tell of slow descents; ripples stop descents at maxima."""
    turns = 2 * np.pi * np.arange(maxima + saddles)
    ends = np.stack([turns, np.where(np.arange(len(turns)) < maxima, 0.0, np.pi)], axis=1)

    def waves(points):
        return np.cos(points).sum(axis=1), -np.sin(points)

    share, _ = modes._maxima_apart(waves, ends, np.ones(2), action_of(Trivial(2)))
    assert share == pytest.approx(apart)


def test_descents_that_stop_at_ripples_confirm_nothing(monkeypatch):
    """Every descent ends at a maximum of its own, though all of them are one broad mode."""
    rippled = Problem(
        lambda x: jnp.sum(-0.5 * (x / 3.0) ** 2 + jnp.cos(10.0 * x)),
        Trivial(4),
        prior=standard_normal(4, 3.0),
    )
    found = explored(rippled).exploration
    assert found.rough
    assert found.chance_of_new > 0.5
    assert not found.agree
    assert not explored(mixture_of(PAIR, [0.3, 0.3], [0.5, 0.5])).exploration.rough
    monkeypatch.setattr(exploration, "ROUGH", 1.0)  # rule off
    assert not found.rough


@pytest.fixture(scope="module")
def of_one_mode():
    """Twenty dimensions, two exchangeable blocks: a ladder from the start would be long."""
    means = np.r_[-np.ones(10), np.ones(10)]
    problem = mixture_of([means], [0.3], [1.0], group=Permutation(2, 10))
    return problem, explored(problem, descents=30)


def test_a_ladder_from_the_one_mode_is_short_and_right(of_one_mode):
    problem, run = of_one_mode
    found = run.exploration
    assert (found.control, found.searchers) == (start.THIN, start.THIN)
    assert found.rungs < 8
    assert found.ancestors > 100
    assert abs(run.log_evidence) < 0.2  # the evidence of 300 particles; the truth is 0
    assert run.explored.ladder.walk.log_target == pytest.approx(
        Landscape(problem)(run.explored.ladder.walk.points)
    )


def test_a_search_for_a_start_is_no_ladder_and_funds_a_search_once(monkeypatch):
    """Where there is no prior it costs far more than the thin ladder, which counts many times."""
    spent, funds = [], []
    ladder, searched = explorer.Explorer._ladder, explorer.Explorer._searched

    def climbed(self, *arguments):
        spent.append(self._spent)
        found = ladder(self, *arguments)
        spent.append(self._spent)
        return found

    def seen(self, key, *arguments):
        funds.append(arguments[2] if len(arguments) > 2 else self._spent)
        return searched(self, key, *arguments)

    monkeypatch.setattr(explorer.Explorer, "_ladder", climbed)
    monkeypatch.setattr(explorer.Explorer, "_searched", seen)
    explored(mixture_of([np.ones(20)], [0.3], [1.0], prior=None), descents=30)
    before, after = spent[:2]
    assert before > 3 * (after - before)
    assert funds[0] == before + start.THIN_LADDERS * (after - before)


def test_two_modes_get_the_whole_ladder():
    problem = mixture_of([-np.ones(20), np.ones(20)], [0.3, 0.3], [0.5, 0.5])
    run = explored(problem, descents=30)
    assert run.exploration.control == 0
    assert run.exploration.rungs > 8


@pytest.mark.parametrize(
    "objection",
    ["none", "hits", "flat", "astray", "rough", "runaways", "weights", "elsewhere", "evidence"],
)
def test_every_objection_closes_the_gate(of_one_mode, objection):
    problem, run = of_one_mode
    found, modes, masses = run.explored, run.explored.modes, run.explored.masses
    ladder, one = found.ladder, np.eye(len(masses.points))[:, :1]
    moved = ladder.walk._replace(points=ladder.walk.points + 5.0 * (np.arange(300) < 30)[:, None])
    high = ladder._replace(log_evidence=masses.log_evidence + 1.5)
    changed = {
        "none": {},
        "hits": {"modes": dataclasses.replace(modes, hits=np.array([[3, 1, 0]]))},
        "flat": {"modes": dataclasses.replace(modes, peaked=np.array([False]))},
        "astray": {"modes": dataclasses.replace(modes, astray=modes.descents // 10)},
        "rough": {"modes": dataclasses.replace(modes, scattered=0.9)},
        "runaways": {"modes": dataclasses.replace(modes, runaways=1)},
        "weights": {"masses": dataclasses.replace(masses, belongings=one)},
        "elsewhere": {"ladder": ladder._replace(walk=moved)},
        "evidence": {"ladder": high},
    }[objection]
    said = start.one_mode(dataclasses.replace(found, **changed), action_of(problem.group))
    assert said == (objection == "none")


def test_particles_of_one_mode_that_are_deleted_are_missed(monkeypatch):
    """Rule six by deletion: the ladder's particles of one of two modes are replaced."""
    problem = mixture_of(PAIR, [0.3, 0.3], [0.5, 0.5])
    temper = explorer.temper

    def without_right(*arguments):
        ladder = temper(*arguments)
        points = ladder.walk.points
        left = np.flatnonzero(points[:, 0] < 0)
        rows = np.resize(left, len(points))
        return ladder._replace(walk=ladder.walk.at(rows))

    monkeypatch.setattr(explorer, "temper", without_right)
    run = explored(problem)
    assert run.exploration.ladders == 2
    assert not run.exploration.agree


def test_the_audit_finds_a_component_that_the_proposal_lacks(monkeypatch):
    problem = mixture_of(PAIR, [0.3, 0.3], [0.7, 0.3])
    _, found = found_from(problem, np.asarray(PAIR) + 0.1)
    around = found.components(np.array([0.7, 0.3]))
    lacking = Mixture(jnp.zeros(1), jnp.asarray([PAIR[0]]), jnp.eye(2)[None] / 0.3)
    whole = Mixture(
        jnp.log(jnp.array([0.7, 0.3])), jnp.asarray(PAIR), jnp.tile(jnp.eye(2) / 0.3, (2, 1, 1))
    )
    for proposal, missed in ((lacking, 0.43), (whole, 0.0)):
        ratio = LogRatio(Target(problem), proposal, problem.group)
        _, fresh = ratio.draw(jax.random.key(0), 500)
        share, error = audit(jax.random.key(1), ratio, fresh, around)
        assert abs(share - missed) < 0.1
        assert missed == 0.0 or share > 4 * error
    monkeypatch.setattr("folt.certificate.certify.UNDER_REACHED", 1e300)
    ratio = LogRatio(Target(problem), lacking, problem.group)
    _, fresh = ratio.draw(jax.random.key(0), 500)
    assert audit(jax.random.key(1), ratio, fresh, around)[0] == 0.0


def test_a_density_that_is_no_number_around_a_mode_counts_as_lost():
    plain = mixture_of(PAIR, [0.3, 0.3], [0.7, 0.3])
    broken = Problem(
        lambda x: jnp.where(x[0] > PAIR[1][0], jnp.nan, plain.log_prob(x)), plain.group
    )
    _, found = found_from(plain, np.asarray(PAIR) + 0.1)
    proposal = Mixture(
        jnp.log(jnp.array([0.7, 0.3])), jnp.asarray(PAIR), jnp.tile(jnp.eye(2) / 0.3, (2, 1, 1))
    )
    ratio = LogRatio(Target(broken), proposal, broken.group)
    _, fresh = LogRatio(Target(plain), proposal, plain.group).draw(jax.random.key(0), 500)
    share, error = audit(jax.random.key(1), ratio, fresh, found.components(np.ones(2)))
    assert abs(share - 0.25) < 0.1
    assert share > 4 * error


def test_a_problem_may_bring_its_own_start():
    """Far from the prior, where the ladder from it has nothing to climb; the answer is the same."""
    law = Mixture(jnp.zeros(1), jnp.full((1, 2), 30.0), 2.0 * jnp.eye(2)[None])
    near = Mixture(jnp.zeros(1), jnp.full((1, 2), 29.0), 0.3 * jnp.eye(2)[None])
    problem = Problem(law.log_prob, Trivial(2), prior=standard_normal(2, 1.0), start=near)
    run = explored(problem)
    assert run.exploration.rungs < 8
    np.testing.assert_allclose(run.draws.mean(axis=(0, 1)), [30.0, 30.0], atol=0.2)
    assert abs(run.log_evidence) < 0.2
    with pytest.raises(ValueError, match="start has dimension 3, the group acts on 2"):
        Problem(law.log_prob, Trivial(2), start=standard_normal(3, 1.0))


# What cannot be explored, or not wholly.


def test_descents_that_arrive_nowhere_claim_no_basin():
    """The largest value stands at a hard edge: no gradient vanishes there, and that is said."""

    def log_density(x):
        return jnp.where(jnp.all(x > 0), -jnp.sum(x), -jnp.inf)

    found = explored(Problem(log_density, Trivial(2), prior=standard_normal(2, 3.0))).exploration
    assert found.descents > 100
    assert found.modes == ()
    assert found.smallest_basin is None
    assert "descents arrived at a maximum" in explored_words(found)
    assert "no gradient" not in explored_words(found)


def boxed(values, dim, group=None, **options):
    """A vectorized function of values as a black box, explored."""
    group = Trivial(dim) if group is None else group
    return explored(folt.from_callable(values, dim, group, vectorized=True), **options)


def test_a_black_box_is_tempered_alone_and_says_so():
    """Its particles are polished if descents could have been paid for; that finds no basin."""
    run = boxed(lambda x: -0.5 * np.sum(x**2, axis=1), 2, Reflection(2, (0,)), descents=0)
    assert run.exploration.modes == ()
    assert "polished" not in explored_words(run.exploration)
    run = boxed(lambda x: -0.5 * np.sum(x**2, axis=1), 2, Reflection(2, (0,)))
    assert run.exploration.descents == 0
    assert run.exploration.smallest_basin is None
    assert "tempered particles alone" in explored_words(run.exploration)
    assert "polished without gradient into one mode" in explored_words(run.exploration)
    assert not run.exploration.compared  # what particles found says nothing of what they missed
    assert "disagree" not in modes_words(run.exploration)
    (mode,) = run.exploration.modes
    several = tuple(dataclasses.replace(mode, mass=mass) for mass in (0.2, 0.1, 0.7))
    shown = modes_words(dataclasses.replace(run.exploration, modes=several))
    assert shown.startswith("3 (70, 20, 10 %)")


def test_two_modes_of_a_black_box_are_polished_and_weighed():
    """Shares of .7 and .3 within four errors of the importance sampling and of the chains."""
    centres, widths = np.array([[3.0, 0, 0], [-3.0, 1, 0]]), np.array([[0.3, 1, 2], [0.5] * 3])

    def values(x):
        terms = -0.5 * (((x[:, None] - centres) / widths) ** 2).sum(axis=2)
        return np.logaddexp(*(terms - np.log(widths).sum(axis=1) + np.log([0.7, 0.3])).T)

    found = boxed(values, 3).exploration
    assert [mode.mass for mode in found.modes] == pytest.approx([0.7, 0.3], abs=0.1)
    assert [mode.reference for mode in found.modes] == pytest.approx([0.7, 0.3], abs=0.1)
    assert sum(mode.hits for mode in found.modes) == found.polished == polish.MOST_POLISHED


def test_differences_of_values_are_gradients():
    problem = mixture_of(PAIR, [0.6, 0.9], [0.5, 0.5])
    points = np.random.default_rng(5).normal(size=(7, 2))
    found = polish.Differences(Landscape(problem), np.full(2, 1e-4))(points)
    for values, exact in zip(found, Landscape(problem).with_gradients(points), strict=True):
        np.testing.assert_allclose(values, exact, rtol=1e-5)


def decays(points):
    """Three exponentials with noise: their labels, and what they have in common, form ridges."""
    time = np.linspace(0.0, 5.0, 60)
    noise = np.random.default_rng(7).normal(0.0, 0.03, 60)
    signal = 2 * np.exp(-6 * time) + 1.5 * np.exp(-1.5 * time) + np.exp(-0.3 * time) + noise
    rate, height = np.exp(np.minimum(points, 20).reshape(-1, 3, 2).T)
    curve = (height * np.exp(-rate * time[:, None, None])).sum(axis=1).T
    misfit = np.sum(((signal - curve) / 0.03) ** 2, axis=1)
    return -0.5 * misfit - 0.5 * np.sum(points**2, axis=1) / 4


def test_chains_of_three_exponentials_as_a_black_box_move():
    """R-hat was 2 and the chains worth 200 draws while they walked under averaged labels alone."""
    problem = folt.from_callable(decays, 6, Permutation(3, 2), vectorized=True)
    certificate = folt.sample(problem, evaluations=400_000, progress=False).certificate
    assert certificate.reference.rhat < 1.1
    assert certificate.reference.ess > 1_000
    outcome, advice = certificate.status.outcome, certificate.status.advice
    assert outcome.usable or "R-hat of the reference" in advice


def test_gradients_that_are_no_numbers_in_places_do_no_harm():
    def log_density(x):
        return -0.5 * jnp.sum(x**2) + jnp.where(x[0] > 3.0, jnp.sqrt(3.0 - x[0]), 0.0)

    problem = Problem(log_density, Trivial(2), prior=standard_normal(2, 3.0))
    assert len(explored(problem).exploration.modes) == 1


def test_a_flat_direction_is_kept_with_a_floor_and_said():
    def log_density(x):
        return -0.5 * x[0] ** 2 - jnp.where(jnp.abs(x[1]) < 2.0, 0.0, (jnp.abs(x[1]) - 2.0) ** 2)

    problem = Problem(log_density, Trivial(2), prior=standard_normal(2, 3.0))
    found = explored(problem).exploration.modes
    assert found
    assert not found[0].peaked


@pytest.mark.parametrize(
    ("tail", "count"),
    [
        (lambda t: 5.0 * t, 3),
        (lambda t: 0.5 * t - 3e-3 * t**2, 0),  # proper, and 83 widths of the start away
    ],
)
def test_descents_run_away_from_an_improper_density_alone(tail, count):
    """The second is proper: its descents stop short of its maximum and still gain there."""
    problem = Problem(lambda x: tail(x[1]) - 0.5 * x[0] ** 2, Trivial(2))
    ends, _ = found_from(problem, np.ones((3, 2)), rounds=40)
    assert len(ends.far(np.zeros(2), np.ones(2))) == 3
    gone = runaways(Landscape(problem).with_gradients, ends, np.zeros(2), np.ones(2))
    assert (gone.searches, gone.coordinate) == (count, count and 1)


def test_later_searches_do_not_hide_that_earlier_ones_ran_away():
    problem = mixture_of([[0.0, 0.0]], [0.5], [1.0])
    ends, found = found_from(problem, [[0.3, 0.1]])
    before = dataclasses.replace(found, runaways=3, runaway=1)
    gradients, action = Landscape(problem).with_gradients, action_of(problem.group)
    both = modes_of(gradients, ends, np.zeros(2), np.ones(2), action, before)
    assert (both.runaways, both.runaway) == (3, 1)


def test_a_fit_tells_what_was_explored_also_from_its_file(tmp_path):
    problem = mixture_of(PAIR, [0.3, 0.3], [0.5, 0.5])
    effort = dataclasses.replace(folt.Effort.quick(), particles=300, chains=48, draws=30)
    fit = folt.sample(problem, draws=200, effort=effort, progress=False)
    found = fit.certificate.exploration
    assert found.agree
    assert found.audited <= 0.01
    assert f"{found.descents:,} descents" in fit.certificate.assumption
    fit.save(tmp_path / "fit.nc")
    again = folt.load(tmp_path / "fit.nc").certificate
    assert again.exploration == found
    tree = fit.certificate.to_dict()["exploration"]
    assert tree["agree"] is True
    assert tree["smallest_basin"] == found.smallest_basin


def test_a_search_that_begins_with_some_rows_ends_with_all(monkeypatch):
    """Both runs estimate the same posterior; 5 errors of .13 deviations each, 1 in 10^6 and mean.

    A subset that stayed the target would have twice the deviations.
    """
    monkeypatch.setattr(subset, "ROWS", 64)
    data = folt.models.simulate_gaussian_mixture(root_key(3), 256, mu=(0.0, 5.0, 12.0))
    problem = folt.models.gaussian_mixture(data, 3)
    run = HostChains(particles=256, chains=32, draws=40)
    begun = run(root_key(1), problem)
    monkeypatch.setattr(subset, "ROWS", 65)
    whole = run(root_key(1), problem)
    assert (begun.exploration.rows, whole.exploration.rows) == (64, 0)
    assert begun.exploration.agree
    flat, other = (each.draws.reshape(-1, problem.dim) for each in (begun, whole))
    assert np.all(np.abs(flat.mean(axis=0) - other.mean(axis=0)) < 0.6 * other.std(axis=0))
    assert np.all(np.abs(np.log(flat.std(axis=0) / other.std(axis=0))) < 0.35)
    assert begun.log_evidence == pytest.approx(whole.log_evidence, abs=1.0)


def test_a_mode_that_only_all_rows_show_must_be_met_often():
    """One descent there is chance, five are none; what the subset barely found stays so."""
    one, two = mixture_of([[0.0, 0.0]], [0.5], [1.0]), [[0.0, 0.0], [9.0, 9.0]]
    both = mixture_of(two, [0.2, 0.2], [0.5, 0.5])
    _, few = found_from(one, [[0.3, 0.1]])
    ladder = None

    def inherited(barely, hits):
        _, found = found_from(both, [[0.1, 0.1]] + hits * [[9.1, 9.0]])
        known = Explored(ladder, few, barely=np.array([barely]))
        flags = subset._inherited(known, found, action_of(both.group))
        return dict(zip(found.points[:, 0].round().tolist(), flags.tolist(), strict=True))

    assert inherited(False, 1) == {0.0: False, 9.0: True}
    assert inherited(False, explorer.SOLID) == {0.0: False, 9.0: False}
    assert inherited(True, explorer.SOLID) == {0.0: True, 9.0: False}
