"""The theorem's conditions on arrays, on known pairs of proposals, and facts about boundaries."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from folt.batching import map_keys, map_points
from folt.certificate.conditions import AMBIGUOUS
from folt.groups import Group, Permutation, Reflection, Trivial
from folt.models import broken_banana, gaussian_pair, label_switching
from folt.paper.theorems import conditions
from folt.paper.theorems.conditions import (
    cross_copy_gaps,
    hit_probability,
    theorem_conditions,
)
from folt.paper.theorems.oscillation import boundary_density_ratio, separation_table
from folt.problem.ratio import boundary_mass, label_switch_rate
from folt.proposals import Gaussian

# --- arrays ----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(copies=st.integers(2, 7), count=st.integers(1, 40), seed=st.integers(0, 2**20))
def test_gaps_against_the_definition(copies, count, seed):
    """Δ_j by loops over every choice of the first copy; the best choice wins."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(copies), rng.integers(copies, size=count)]) * 3 + 2
    values = rng.normal(size=labels.size) + rng.normal(0, 3, copies)[(labels - 2) // 3]
    first, gaps = cross_copy_gaps(values, labels)

    def by_hand(one):
        others = sorted(set(labels.tolist()) - {one})
        return {j: values[labels == j].min() - values[labels == one].max() for j in others}

    assert gaps == pytest.approx(by_hand(first))
    best = max(min(by_hand(one).values()) for one in set(labels.tolist()))
    assert min(gaps.values()) == pytest.approx(best)


def test_gaps_need_two_copies():
    with pytest.raises(ValueError, match="at least two copies, got 1"):
        cross_copy_gaps(np.arange(3.0), np.zeros(3, int))


@settings(max_examples=150, deadline=None)
@given(
    order=st.integers(1, 6),
    count=st.integers(1, 60),
    scales=st.tuples(*[st.floats(0.0, 20.0)] * 3),
    seed=st.integers(0, 2**20),
)
def test_the_repaired_lemma_is_never_violated(order, count, scales, seed):
    """osc_F ≤ 2r₁ + r_F surely, osc_U ≥ min Δ_j once the first copy and another are hit."""
    rng = np.random.default_rng(seed)
    within = scales[0] * rng.standard_t(2, count)
    residual = scales[1] * rng.exponential(size=count)
    table = rng.normal(size=(count, order)) + scales[2] * np.arange(order)
    drawn = rng.integers(order, size=count)
    found = theorem_conditions(
        within=within,
        residual=residual,
        unfolded=table[np.arange(count), drawn],
        copies=(table.ravel(), np.tile(np.arange(order), count)),
        order=order,
        alpha=0.1,
        draws=count,
    )
    assert found.folded_lemma
    assert found.osc_folded == pytest.approx(np.ptp(within - residual))
    if order == 1:
        assert (found.min_delta, found.unfolded_lemma, found.hit_probability) == (None, None, 0.0)
        return
    if found.primary in drawn and len(set(drawn.tolist())) > 1:
        assert found.unfolded_lemma
        assert found.osc_unfolded - found.osc_folded >= found.delta - 1e-9
    # mutant: (R) left out
    if scales[1] > 1.0 and count > 20 and scales[0] < 0.01:
        assert found.osc_folded > found.twice_r1


@pytest.mark.parametrize("order", [2, 6, 24])
def test_hit_probability_is_a_lower_bound(order):
    """Against inclusion and exclusion: copies of mass (1-α)/s each, the first and any other."""
    for alpha in (0.05, 0.3):
        share = (1 - alpha) / order
        for draws in (1, 5, 20, 100, 1000):
            missed = (1 - share) ** draws + (1 - (order - 1) * share) ** draws - alpha**draws
            bound = hit_probability(draws, order, alpha)
            assert bound <= 1 - missed + 1e-12
            if order == 2:
                assert bound >= 1 - missed - alpha**draws - 1e-12
    assert hit_probability(100, 1, 0.05) == 0.0


def test_the_unfolded_half_of_the_lemma_holds_as_often_as_promised():
    """Copies with h_U = 0 on the first and 5 elsewhere: osc_U ≥ 5 but for draws that miss.

    False alarm: the promise is 1 - 2(1-.9/4)^12 = .906; over 2 000 runs fewer than 87.5 % would be
    4.7 standard errors below it, probability 2e-6.
    """
    rng = np.random.default_rng(3)
    order, alpha, draws, runs = 4, 0.1, 12, 2000
    inside = rng.random((runs, draws)) < 1 - alpha
    labels = rng.integers(order, size=(runs, draws))
    first = (inside & (labels == 0)).any(axis=1)
    other = (inside & (labels != 0)).any(axis=1)
    promised = hit_probability(draws, order, alpha)
    assert promised == pytest.approx(0.906, abs=1e-3)
    assert np.mean(first & other) > 0.875


def test_comparison_follows_the_formula():
    found = theorem_conditions(
        within=np.array([0.0, 0.5]),
        residual=np.array([0.1, 0.2]),
        unfolded=np.array([0.0, 1.0, 9.0, 8.0]),
        copies=(np.array([0.0, 1.0, 9.0, 8.0]), np.array([0, 0, 1, 1])),
        order=2,
        alpha=0.1,
        draws=100,
        published=(3.0, 1.0),
        corrected=(4.0, 1.0),
    )
    assert (found.primary, found.deltas, found.min_delta) == (0, {1: 7.0}, 7.0)
    assert found.delta == pytest.approx(7.0 - 0.5 - 0.2)
    assert found.published.slack == 4.0
    assert found.published.sufficient
    assert found.published.unfolded == pytest.approx(9.0 + 2.0)
    assert found.published.share == pytest.approx(6.3 / 11.0)
    assert found.corrected.slack == 12.0
    assert not found.corrected.sufficient
    assert found.corrected.folded == pytest.approx(0.4 + 16.0)
    assert found.holds == {"M": True, "W": True, "R": True}


def test_what_is_not_finite_is_none():
    found = theorem_conditions(
        within=np.array([0.0, np.inf]),
        residual=np.array([0.0, np.inf]),
        unfolded=np.array([0.0, 1.0]),
        copies=(np.array([0.0, 1.0]), np.array([0, 1])),
        order=3,
        alpha=0.1,
        draws=2,
    )
    assert (found.twice_r1, found.residual, found.delta) == (None, None, None)
    assert found.holds == {"M": True, "W": False, "R": False}
    assert found.unhit == 1
    assert found.published.sufficient is None
    with pytest.raises(ValueError, match="as many values"):
        theorem_conditions(
            within=np.zeros(2),
            residual=np.zeros(3),
            unfolded=np.zeros(2),
            copies=(np.zeros(2), np.arange(2)),
            order=2,
            alpha=0.1,
            draws=2,
        )


# --- the figures in print --------------------------------------------------------------------


def test_the_printed_separation_table():
    rows = separation_table(6.0, (2, 5, 10, 20))
    assert [round(row.chi_squared, 2) for row in rows] == [5.99, 11.07, 18.31, 31.41]
    assert [round(row.needed, 2) for row in rows] == [4.90, 6.65, 8.56, 11.21]
    assert [row.clear for row in rows] == [True, False, False, False]
    assert boundary_density_ratio(6.0) == pytest.approx(0.022, abs=5e-4)
    assert boundary_density_ratio(0.0) == 1.0


# --- on problems -----------------------------------------------------------------------------


def draw_exactly(sampler, key):
    return sampler(key)


def draws_of(problem, count, seed=0):
    return map_keys(draw_exactly, problem.sampler, jax.random.key(seed), count)


def gaussian_at(mean, scale=1.0):
    mean = jnp.asarray(mean, float)
    return Gaussian(mean, jnp.eye(mean.shape[0]) / scale)


@pytest.fixture(scope="module")
def plane():
    problem = gaussian_pair(2, offset=4.0)
    return problem, draws_of(problem, 4000)


def test_conditions_hold_for_a_proposal_that_knows_one_copy(plane):
    """q_U sits on the right Gaussian: there h_U = -log 2, on the left at least (8 - 2R)·4 more."""
    problem, draws = plane
    right = gaussian_at([4.0, 0.0])
    check = conditions(problem, right, right, draws, log_evidence=0.0, alpha=0.3)
    found = check.conditions
    assert found.holds == {"M": True, "W": True, "R": True}
    assert found.folded_lemma
    assert found.unfolded_lemma
    assert found.primary == 0
    reach = math.sqrt(-2 * math.log(0.3))  # radius of the core
    # h_U(x) = log cosh(4x) - 4x - ... = -8x - log 2 far on the left, x = -4 + R at the nearest.
    assert found.min_delta == pytest.approx(8 * (4 - reach), rel=0.1)
    assert found.residual < 1e-3
    assert found.osc_folded < 1e-3
    assert found.published.sufficient
    assert found.published.folded < found.published.unfolded  # what the theorem promises
    assert check.covering.folded.published.radius < check.covering.unfolded.published.radius
    json.dumps(check.to_dict(), allow_nan=False)


def test_no_gap_for_a_proposal_that_knows_both_copies(plane):
    problem, draws = plane
    found = conditions(
        problem, gaussian_at([4.0, 0.0]), gaussian_at([0.0, 0.0], 4.0), draws, log_evidence=0.0
    ).conditions
    assert not found.holds["M"]
    assert found.min_delta < 0
    assert not found.published.sufficient
    assert found.folded_lemma


def test_copies_that_touch_leave_no_gap():
    """In ten dimensions the core of the published pair reaches its mirror: (M′) must fail.

    The printed table has Δ_j ≥ 4.69 here; the separation table next to it says that the cores
    touch, and then a continuous h_U has inf over one ≤ sup over the other.
    """
    problem = gaussian_pair(10)
    right = gaussian_at(np.eye(10)[0] * 3.0, 1.3)
    check = conditions(problem, right, right, draws_of(problem, 4000), log_evidence=0.0)
    assert not separation_table(6.0, (10,))[0].clear
    assert check.conditions.min_delta < 0
    assert check.covering.folded.published.overlap == 2  # not the h_max = 1 that is assumed


def test_labels_decide_how_large_the_residual_is():
    """A proposal in another chamber: r_F is huge on the sorted domain, at most log s on its own."""
    problem = label_switching(3, 2)
    blocks = np.array([[8.0, 0.3], [2.0, 0.5], [5.0, 0.8]])
    proposal = gaussian_at(blocks.ravel())
    draws = draws_of(problem, 2000)
    found = {
        labels: conditions(
            problem, proposal, proposal, draws, log_evidence=0.0, labels=labels
        ).conditions
        for labels in ("sorted", "proposal")
    }
    assert found["sorted"].residual > 20
    assert found["proposal"].residual <= math.log(6) + 1e-9
    for result in found.values():
        assert result.folded_lemma
        assert result.unfolded_lemma
        assert result.osc_folded == pytest.approx(found["sorted"].osc_folded)
        assert len(result.deltas) == 5
    with pytest.raises(ValueError, match="'sorted' or 'proposal', got 'none'"):
        conditions(problem, proposal, proposal, draws, log_evidence=0.0, labels="none")
    with pytest.raises(ValueError, match="broken symmetry"):
        conditions(
            broken_banana(),
            gaussian_at([0.0, 0.0]),
            gaussian_at([0.0, 0.0]),
            draws[:, :2],
            log_evidence=0.0,
        )


# --- boundaries ------------------------------------------------------------------------------


def folded_normal(offset):
    """Density of |x₁| under the pair."""
    return lambda x: norm.pdf(x, offset) + norm.pdf(x, -offset)


@pytest.mark.parametrize("offset", [3.0, 1.0, 0.5])
def test_boundary_mass_of_a_pair(offset):
    """All three shares by quadrature, within 4.5 standard errors: nine checks, 7e-5 together."""
    count, nudge = 8000, 0.1
    problem = gaussian_pair(2, offset)
    found = boundary_mass(
        problem.group, draws_of(problem, count), gaussian_at([offset, 0.0]), nudge=nudge
    )
    density = folded_normal(offset)
    mean = quad(lambda x: x * density(x), 0, 15)[0]
    spread = math.sqrt(1 + offset**2 - mean**2)
    crossing = quad(lambda x: norm.cdf(-x / (nudge * spread)) * density(x), 0, 15, points=[1])[0]
    near = quad(density, 0, spread)[0]

    def second(x):
        return density(x) / (1 + math.exp(2 * offset * x))

    ambiguity = quad(second, 0, 15)[0]
    for value, expected in (
        (found.crossing, crossing),
        (found.overlap, near),
        (found.ambiguity, ambiguity),
    ):
        # The second term: the standard deviation is itself estimated.
        tolerance = 4.5 * math.sqrt(expected * (1 - expected) / count) + 0.02 * expected + 1e-4
        assert abs(value - expected) < tolerance


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_labels_that_are_all_alike_are_ambiguous_but_for_one_in_s(blocks):
    """Full exchangeability: 1 - 1/s. The second-largest share, 1/s, would look harmless."""
    group = Permutation(blocks, 1)
    draws = np.random.default_rng(0).normal(size=(200, blocks))
    found = boundary_mass(group, draws, gaussian_at([0.0] * blocks)).ambiguity
    assert found == pytest.approx(1.0 - 1.0 / group.order)
    assert found > AMBIGUOUS
    assert blocks < 4 or 1.0 / group.order < AMBIGUOUS


def test_a_tie_in_the_sort_coordinate_is_near_the_boundary_but_not_near_a_mirror():
    """Blocks that differ in the coordinate that does not sort them are easily told apart."""
    rng = np.random.default_rng(5)
    blocks = rng.normal(size=(2000, 2, 2)) * [1.0, 0.1] + [[0.0, -3.0], [0.0, 3.0]]
    draws = blocks.reshape(2000, 4)
    sorted_draws = map_points(Group.fold, Permutation(2, 2), draws)
    wrong, right = Permutation(2, 2), Permutation(2, 2, sort_by=1)
    assert boundary_mass(wrong, sorted_draws).crossing > 0.01
    assert boundary_mass(right, draws).crossing == 0.0
    assert boundary_mass(right, draws).overlap < 0.01
    means = gaussian_at([0.0, -3.0, 0.0, 3.0])
    assert boundary_mass(wrong, draws, means).ambiguity < 1e-6
    assert boundary_mass(wrong, draws, means).mixed > 0.4
    assert boundary_mass(right, draws, means).mixed == 0.0


def test_the_trivial_group_has_no_boundary():
    draws = np.random.default_rng(0).normal(size=(100, 3))
    found = boundary_mass(Trivial(3), draws, gaussian_at([0.0, 0.0, 0.0]))
    assert (found.crossing, found.overlap, found.ambiguity) == (0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match=r"shape \(..., 3\), got \(100, 2\)"):
        boundary_mass(Trivial(3), draws[:, :2])
    with pytest.raises(ValueError, match="at least two draws"):
        boundary_mass(Trivial(3), draws[:1])


def test_label_switch_rate():
    """Known patterns; and 1 - 1/s for independent draws, within 4.5 standard errors."""
    mirror = Reflection(2, (0,))
    signs = np.array([1, 1, -1, -1, -1, 1, 1, 1, 1])  # two changes in eight steps
    chain = np.stack([signs * 2.0, np.arange(9.0)], axis=1)
    assert label_switch_rate(mirror, chain) == pytest.approx(2 / 8)
    both = np.stack([chain, np.abs(chain)])
    assert label_switch_rate(mirror, both) == pytest.approx(1 / 8)
    assert label_switch_rate(Trivial(2), chain) == 0.0
    problem = label_switching(3, 2)
    rate = label_switch_rate(problem.group, draws_of(problem, 3000))
    assert abs(rate - 5 / 6) < 4.5 * math.sqrt(5 / 36 / 3000)
    with pytest.raises(ValueError, match="at least two draws"):
        label_switch_rate(mirror, chain[:1])
