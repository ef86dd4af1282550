"""Diagnostics on known laws: exact widths, exact gaps, calibrated errors, honest refusals."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from folt.certificate.diagnostics.chains import (
    batch_means_ess,
    effective_size,
    frozen_chains,
    rhat_by_chance,
    split_rhat,
    summarise_chains,
)
from folt.certificate.diagnostics.coverage import DAMPING, agreement, coverage
from folt.certificate.diagnostics.evidence import (
    PLAIN_LIMIT,
    bridge_evidence,
    evidences,
    importance_evidence,
    psis_evidence,
)
from folt.certificate.diagnostics.pareto import pareto_tail
from folt.certificate.diagnostics.quantile_core import (
    RHOS,
    dkw_radius,
    gap_upper,
    proposal_core,
    published_gap,
    target_core,
    valid_gap,
)

N = 20_000
CASES = {"target": target_core, "proposal": proposal_core}


def uniform_grid(n=N):
    """The law of a uniform h without noise: its quantiles are its positions."""
    return np.random.default_rng(0).permutation((np.arange(n) + 0.5) / n)


@pytest.mark.parametrize("rho", RHOS)
def test_target_core_of_a_uniform_law(rho):
    """The median-centred interval of empirical mass 1-ρ+2ε is that wide."""
    core = target_core(uniform_grid(), rho)
    expected = 1.0 - rho + 2.0 * dkw_radius(N, 0.05)
    assert core.feasible
    assert core.n == N
    assert core.osc == pytest.approx(expected, abs=3 / N)
    assert core.low == pytest.approx(0.5 - expected / 2, abs=3 / N)
    inside = np.sum((uniform_grid() >= core.low) & (uniform_grid() <= core.high))
    assert inside >= expected * N - 1e-6  # never less mass than promised


@pytest.mark.parametrize("rho", RHOS)
def test_proposal_core_of_a_uniform_law(rho):
    """Q(1-ρ+ε) - Q(ρ-ε) of a uniform law is 1-2ρ+2ε; rounding goes outwards."""
    core = proposal_core(uniform_grid(), rho)
    expected = 1.0 - 2.0 * rho + 2.0 * dkw_radius(N, 0.05)
    assert expected - 1e-12 <= core.osc <= expected + 4 / N
    assert core.low + core.high == pytest.approx(1.0, abs=3 / N)


def test_the_radius_is_what_intervals_chosen_after_looking_need():
    """An interval's empirical mass exceeds its true one by more than 2ε in at most δ of samples.

    The worst interval of 400 uniform samples each (Kuiper's statistic); half the radius fails in
    well over δ of them, so that a radius halved by mistake would be noticed.
    """
    ordered = np.sort(np.random.default_rng(1).uniform(size=(400, 1_000)), axis=1)
    ranks = np.arange(1_000)
    above = ((ranks + 1) / 1_000 - ordered).max(axis=1)
    below = (ordered - ranks / 1_000).max(axis=1)
    excess, radius = above + below, dkw_radius(1_000, 0.05)
    assert (excess > 2 * radius).mean() <= 0.05
    assert (excess > radius).mean() > 0.15


def test_half_the_radius_of_a_proposal_core_would_be_noticed():
    """[Q(¼), Q(¾)] lies inside the reported interval in 95 % of samples; at half the radius not."""
    held, halved, radius = 0, 0, dkw_radius(1_000, 0.05)
    for h in np.random.default_rng(2).uniform(size=(400, 1_000)):
        core = proposal_core(h, 0.25)
        held += core.low <= 0.25 and core.high >= 0.75
        low, high = np.quantile(h, [0.25 - radius / 2, 0.75 + radius / 2])
        halved += low <= 0.25 and high >= 0.75
    assert held >= 380
    assert halved < 370


@pytest.mark.parametrize("protocol", CASES)
def test_numbers_follow_from_the_oscillation(protocol):
    core = CASES[protocol](3.0 * uniform_grid(), 0.05)
    assert core.osc == pytest.approx(core.high - core.low)
    assert core.gamma == pytest.approx(2.0 / (1.0 + math.exp(core.osc)))
    assert core.core_gap == pytest.approx(math.exp(-core.osc))


def test_larger_rho_never_widens_the_core():
    h = np.random.default_rng(1).standard_t(3, N)
    for function in CASES.values():
        widths = [function(h, rho).osc for rho in RHOS]
        assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(("rho", "fewest"), [(0.05, 2_952), (0.025, 11_805)])
def test_feasible_exactly_from_the_threshold(rho, fewest):
    assert fewest == math.ceil(2 * math.log(2 / 0.05) / rho**2)
    h = np.random.default_rng(2).normal(size=fewest)
    assert target_core(h, rho).feasible
    for core in (target_core(h[:-1], rho), target_core(np.tile(h, 3), rho, effective=fewest - 1)):
        assert not core.feasible
        assert (core.osc, core.gamma, core.core_gap, core.low, core.high) == (None,) * 5


def test_effective_size_counts_not_the_length():
    h = uniform_grid()
    assert target_core(h, 0.05, effective=4_000).osc > target_core(h, 0.05).osc
    assert target_core(h, 0.05, effective=10 * N).n == N
    assert not target_core(h, 0.05, effective=0.0).feasible


@pytest.mark.parametrize("protocol", CASES)
@pytest.mark.parametrize("values", [[], [np.nan] * 10, [-np.inf] * 5000, [1.0]])
def test_nothing_to_judge_gives_no_number(protocol, values):
    core = CASES[protocol](np.array(values), 0.05)
    assert not core.feasible
    assert core.osc is None
    assert core.gamma is None


def test_what_is_not_finite_lies_outside_the_target_core():
    clean = uniform_grid()
    few, many = clean.copy(), clean.copy()
    few[: N // 100] = -np.inf
    many[: N // 20] = np.nan
    core = target_core(few, 0.05)
    assert core.feasible
    assert core.dropped == N // 100
    assert core.osc > target_core(clean, 0.05).osc  # the mass must come from elsewhere
    assert not target_core(many, 0.05).feasible
    assert target_core(many, 0.1).feasible


def test_proposal_core_drops_and_counts():
    h = np.concatenate([uniform_grid(), np.full(300, -np.inf), [np.nan]])
    core = proposal_core(h, 0.05)
    assert core.dropped == 301
    assert core.n == N
    assert core.osc == proposal_core(uniform_grid(), 0.05).osc


def test_the_two_protocols_answer_different_questions():
    """A region that the proposal misses is invisible to its own draws."""
    generator = np.random.default_rng(3)
    proposal = generator.normal(0, 0.1, N)
    target = np.where(generator.uniform(size=N) < 0.2, 6.0, generator.normal(0, 0.1, N))
    assert proposal_core(proposal, 0.05).gamma > 0.8
    assert target_core(target, 0.05).gamma < 0.01


# The gap of finite independence chains, exactly.


def exact_gap(pi, q):
    """1 - λ₂ of the independence chain with (sub-probability) proposal q, by diagonalisation."""
    w = pi / q
    moves = q[None, :] * np.minimum(1.0, w[None, :] / w[:, None])
    np.fill_diagonal(moves, 0.0)
    np.fill_diagonal(moves, 1.0 - moves.sum(axis=1))
    root = np.sqrt(pi)
    symmetric = root[:, None] * moves / root[None, :]
    return 1.0 - np.linalg.eigvalsh(0.5 * (symmetric + symmetric.T))[-2]


def random_chains(count=300):
    generator = np.random.default_rng(4)
    for _ in range(count):
        states = generator.integers(2, 9)
        pi, q = generator.dirichlet(np.full(states, 0.7), size=2) + 1e-3
        mass = generator.choice([1.0, generator.uniform(0.05, 1.0)])
        yield pi / pi.sum(), mass * q / q.sum(), mass


def two_states():
    q = np.array([0.99, 0.01])
    pi = q * np.array([1.0, 3.0])
    return pi / pi.sum(), q


def test_published_functional_is_no_lower_bound():
    pi, q = two_states()
    assert np.ptp(np.log(pi / q)) == pytest.approx(math.log(3))
    assert exact_gap(pi, q) == pytest.approx(0.340, abs=1e-3)
    assert published_gap(math.log(3)) == pytest.approx(0.5)
    assert published_gap(math.log(3)) > exact_gap(pi, q)
    assert valid_gap(math.log(3)) <= exact_gap(pi, q)


def test_valid_gap_is_below_the_exact_gap_truncated_or_not():
    for pi, q, mass in random_chains():
        oscillation = np.ptp(np.log(pi / q))
        assert valid_gap(oscillation, mass) <= exact_gap(pi, q) * (1 + 1e-9)


def test_mutant_forgetting_the_mass_of_a_truncated_proposal():
    forgotten = [
        valid_gap(np.ptp(np.log(pi / q))) > exact_gap(pi, q) * (1 + 1e-9)
        for pi, q, mass in random_chains()
        if mass < 1.0
    ]
    assert any(forgotten)


def test_gap_upper_is_never_below_the_exact_gap():
    """With Z known, a sample maximum can only err upwards."""
    generator = np.random.default_rng(5)
    for pi, q, _ in random_chains(100):
        states = generator.choice(q.size, size=7, p=q / q.sum())
        assert gap_upper(np.log(pi / q)[states], 0.0) >= exact_gap(pi, q) * (1 - 1e-9)


def test_gap_upper_of_nothing_is_not_a_number():
    assert math.isnan(gap_upper(np.array([-np.inf, np.nan]), 0.0))
    assert gap_upper(np.array([-5.0, -np.inf]), 0.0) == 1.0


# Evidence.


def gaussian_ratios(generator, n, scale=1.5, log_z=2.0):
    """h of an unnormalised standard normal under N(0, scale²) proposals; log Z is known."""
    x = scale * generator.normal(size=n)
    return log_z + stats.norm.logpdf(x) - stats.norm.logpdf(x, scale=scale)


def test_evidence_of_a_known_pair_and_its_standard_error():
    """z-scores over 400 repeats: mean 0 ± .05, sd 1 ± .035, each tested at 4.5 standard errors."""
    generator = np.random.default_rng(6)
    fits = [importance_evidence(gaussian_ratios(generator, 2000)) for _ in range(400)]
    z = np.array([(fit.value - 2.0) / fit.standard_error for fit in fits])
    assert abs(z.mean()) < 4.5 * 0.05
    assert abs(z.std() - 1.0) < 4.5 * 0.0354


def test_draws_outside_the_support_count_as_zeros():
    h = np.concatenate([np.zeros(3000), np.full(1000, -np.inf)])
    evidence = importance_evidence(h)
    assert evidence.value == pytest.approx(math.log(0.75))
    assert evidence.standard_error == pytest.approx(math.sqrt(0.25 / 0.75 / 4000))
    assert evidence.draws == 4000


@pytest.mark.parametrize("h", [[], [0.0], [-np.inf] * 50, [np.nan] * 50])
def test_evidence_without_draws_is_infinitely_uncertain(h):
    evidence = importance_evidence(np.array(h))
    assert evidence.value == -math.inf
    assert evidence.standard_error == math.inf


@pytest.mark.parametrize("shape", [-0.3, 0.05, 0.3, 0.6, 1.0, 1.8])
def test_a_fitted_tail_is_the_likeliest(shape):
    """Of 3√n = 600 draws: shape and scale within 5 asymptotic errors, and as SciPy finds them."""
    weights = stats.genpareto.rvs(shape, scale=0.01, size=40_000, random_state=7)
    tail = pareto_tail(weights)
    assert tail.count == 600
    assert tail.shape == pytest.approx(shape, abs=5 * (1 + shape) / math.sqrt(tail.count))
    excess = np.sort(weights)[-tail.count :] - tail.threshold

    def likelihood(k, scale):
        return stats.genpareto.logpdf(excess, k, scale=scale).sum()

    other, _, scale = stats.genpareto.fit(excess, floc=0.0)
    assert likelihood(tail.shape, tail.scale) >= likelihood(other, scale) - 0.01


def test_a_nearly_missed_mode_is_not_smoothed_away():
    """Five of 20 000 weights hold 3 % of the mean: the smoothed value drops them, its error not."""
    weights = np.exp(0.01 * np.random.default_rng(3).normal(size=20_000))
    weights[:5] = 120.0
    weights /= weights.mean()
    found = psis_evidence(np.log(weights))
    assert abs(found.value) < 2 * found.standard_error


def test_a_tail_of_nothing():
    assert pareto_tail(np.ones(1000)).shape == -math.inf  # all weights equal
    assert pareto_tail(np.ones(4)).shape == math.inf  # too few to say


@pytest.mark.parametrize("shape", [0.5, 0.69])
def test_intervals_of_the_chosen_evidence_cover(shape):
    """95 % intervals cover at least 90 % of 200 repeats (false alarm 4e-3 at .95, each shape).

    Plain importance sampling is the mutant: at .69 it covers less than 85 %.
    """
    generator, chosen, plain = np.random.default_rng(8), 0, 0
    for _ in range(200):
        fresh = pareto_log_ratios(generator, shape, 20_000)
        smooth, usual = psis_evidence(fresh), importance_evidence(fresh)
        best = usual if usual.pareto_k < PLAIN_LIMIT else smooth
        chosen += abs(best.value) < 1.96 * best.standard_error
        plain += abs(usual.value) < 1.96 * usual.standard_error
    assert chosen >= 180
    assert shape < 0.69 or plain < 170


def pareto_log_ratios(generator, shape, n):
    """h whose weights e^h have mean one and a Pareto tail of this shape."""
    return shape / (1 - shape) * generator.exponential(1 - shape, n) + math.log1p(-shape)


def test_the_best_evidence_is_chosen_by_the_tail():
    generator = np.random.default_rng(9)
    for shape, method in ((0.2, "importance"), (0.65, "psis"), (1.4, "importance")):
        weights = -shape * np.log(generator.uniform(size=20_000))
        made = evidences(weights, generator.normal(size=(4, 500)))
        assert made.best.method == method
        assert made.best.pareto_k == made.importance.pareto_k
        assert made.best.method.why


def test_the_difference_of_two_estimates_knows_that_they_share_draws():
    """Scores over 200 repeats have deviation 1 ± .05 (4.5 errors); quadrature gives far less."""
    generator, scores, naive = np.random.default_rng(10), [], []
    for _ in range(200):
        fresh, target = lognormal_pair(generator, 0.5, 2_000, 2_000)
        made = evidences(fresh, target.reshape(4, 500))
        scores.append(made.difference.score)
        errors = (made.importance.standard_error, made.bridge.standard_error)
        naive.append(made.difference.value / math.hypot(*errors))
    assert abs(np.std(scores) - 1.0) < 4.5 * 0.05
    assert np.std(naive) < 1.0 - 4.5 * 0.05


def test_from_a_shape_of_one_on_the_larger_error_is_reported_and_the_two_are_compared():
    """A chain that sits where w is large, and proposals that hardly go there.

    The mutant that believes the bridge alone reports a fifth of the error.
    """
    generator = np.random.default_rng(12)
    fresh = 0.01 * generator.normal(size=20_000)
    fresh[:100] += 2.0 * generator.exponential(size=100)
    made = evidences(fresh, 0.01 * generator.normal(size=(4, 2_000)))
    assert made.importance.pareto_k >= 1.0
    assert made.best.method == "importance"
    assert made.best.standard_error > 5 * made.bridge.standard_error
    assert math.isnan(made.psis.value)
    assert math.isfinite(made.difference.score)
    vague = dataclasses.replace(made.bridge, standard_error=1.0)
    assert dataclasses.replace(made, bridge=vague).best is vague


def test_a_systematic_error_is_added_in_squares():
    found = importance_evidence(gaussian_ratios(np.random.default_rng(6), 2000))
    larger = math.hypot(3, found.standard_error)
    assert found.with_error(-3.0).standard_error == pytest.approx(larger)
    assert found.with_error(0.0) == found
    assert found.with_error(math.nan).standard_error == math.inf


@pytest.mark.parametrize("shape", [(40, 20, 3), (8, 100, 8), (1, 400, 2)])
def test_r_hat_exceeds_its_limit_by_chance_as_often_as_stated(shape):
    """A stated 10 % over all coordinates: between 3 and 10 % of 300 runs, each way at 1e-4.

    Chains in separate modes, one in eight of them, exceed it every time.
    """
    generator, limit, alarms = np.random.default_rng(17), rhat_by_chance(shape, 0.1), 0
    for _ in range(300):
        draws = generator.normal(size=shape)
        alarms += max(split_rhat(draws[..., j]) for j in range(shape[2])) > limit
    assert stats.binom.ppf(1e-4, 300, 0.03) <= alarms <= stats.binom.isf(1e-4, 300, 0.1)
    draws[: max(shape[0] // 8, 1), : shape[1] // (1 if shape[0] > 1 else 2), 0] += 4.0
    assert split_rhat(draws[..., 0]) > limit


def test_estimates_that_contradict_each_other_are_said():
    """A chain that lives where the proposals hardly go: fifty errors apart."""
    generator = np.random.default_rng(11)
    fresh, target = lognormal_pair(generator, 0.5, 5_000, 5_000)
    made = evidences(fresh, target.reshape(4, -1) - 0.3)
    assert abs(made.difference.score) > 10
    same = evidences(np.zeros(500), np.zeros((4, 100)))
    assert same.difference.score == 0.0
    assert same.bridge.standard_error < 1e-12


# Chains.


def autoregressive(generator, rho, chains=4, length=4000):
    noise = generator.normal(size=(chains, length)) * math.sqrt(1 - rho**2)
    values = np.empty_like(noise)
    values[:, 0] = generator.normal(size=chains)
    for t in range(1, length):
        values[:, t] = rho * values[:, t - 1] + noise[:, t]
    return values


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_sizes_of_an_autoregression(rho):
    """The truth is n(1-ρ)/(1+ρ); both estimators come within 35 %."""
    values = autoregressive(np.random.default_rng(8), rho)
    truth = values.size * (1 - rho) / (1 + rho)
    assert effective_size(values) == pytest.approx(truth, rel=0.35)
    assert batch_means_ess(values) == pytest.approx(truth, rel=0.35)
    assert split_rhat(values) == pytest.approx(1.0, abs=0.03)


def test_a_frozen_chain_is_found_before_anyone_is_asked():
    draws = np.random.default_rng(9).normal(size=(3, 400, 2))
    draws[1] = draws[1, :1]
    summary = summarise_chains(draws)
    assert summary.frozen == (1,)
    assert (summary.ess == 0).all()
    assert (summary.batch_means_ess == 0).all()
    assert np.isnan(summary.rhat).all()
    # ArviZ would have given a constant chain its full length.
    assert effective_size(np.ones((1, 400))) == 0.0
    assert batch_means_ess(np.ones((1, 400))) == 0.0


def test_frozen_is_read_off_acceptances_where_there_are_any():
    accepted = np.array([[True, False], [False, False]])
    assert frozen_chains(accepted) == (1,)
    draws = np.random.default_rng(0).normal(size=(2, 2, 1))
    assert summarise_chains(draws, accepted).frozen == (1,)


def test_chains_in_different_places_are_seen():
    draws = np.random.default_rng(10).normal(size=(2, 500, 2))
    draws[1, :, 0] += 5
    rhat = summarise_chains(draws).rhat
    assert rhat[0] > 1.5
    assert rhat[1] < 1.05


def test_a_single_chain_is_judged_by_its_halves(caplog):
    values = np.random.default_rng(11).normal(size=(1, 401))
    assert split_rhat(values) == pytest.approx(1.0, abs=0.05)
    values[0, 200:] += 5
    assert split_rhat(values) > 1.5
    assert not caplog.records


@pytest.mark.parametrize("length", [1, 2, 3])
def test_chains_too_short_to_judge(length):
    summary = summarise_chains(np.random.default_rng(0).normal(size=(2, length, 2)))
    assert (summary.ess == 0).all()
    assert np.isnan(summary.rhat).all()


def lognormal_pair(generator, scale, n, m, log_z=-3.0):
    """h at n proposals and m independent target draws; w is log-normal, h normal under both."""
    shift = log_z - 0.5 * scale**2
    fresh = shift + scale * generator.normal(size=n)
    target = shift + scale * (scale + generator.normal(size=m))
    return fresh, target


@pytest.mark.parametrize("scale", [0.3, 1.5])
def test_bridge_scores_are_standard_normal(scale):
    """Kolmogorov-Smirnov over 300 repeats at level 1e-4: value and error bar together."""
    generator = np.random.default_rng(11)
    scores = []
    for _ in range(300):
        fresh, target = lognormal_pair(generator, scale, 2_000, 2_000)
        found = bridge_evidence(fresh, target, target.size)
        scores.append((found.value + 3.0) / found.standard_error)
    assert stats.kstest(scores, "norm").pvalue > 1e-4


def test_mutant_bridge_that_reuses_the_proposals_is_caught():
    """States that are the proposals themselves (accepted by weight) ruin the error bar."""
    generator = np.random.default_rng(12)
    scores = []
    for _ in range(300):
        fresh, _ = lognormal_pair(generator, 1.5, 2_000, 1)
        weights = np.exp(fresh - fresh.max())
        states = generator.choice(fresh, size=2_000, p=weights / weights.sum())
        found = bridge_evidence(fresh, states, states.size)
        scores.append((found.value + 3.0) / found.standard_error)
    assert stats.kstest(scores, "norm").pvalue < 1e-4


def test_bridge_beats_importance_under_a_heavy_tail():
    """With log-weights of deviation 3 the importance error bar is fiction, the bridge's is not."""
    generator = np.random.default_rng(13)
    importance, bridge = [], []
    for _ in range(200):
        fresh, target = lognormal_pair(generator, 3.0, 1_000, 1_000)
        importance.append(importance_evidence(fresh).value + 3.0)
        bridge.append(bridge_evidence(fresh, target, target.size).value + 3.0)
    assert np.sqrt(np.mean(np.square(bridge))) < 0.5 * np.sqrt(np.mean(np.square(importance)))


def test_bridge_counts_dead_proposals_as_zeros():
    fresh, target = lognormal_pair(np.random.default_rng(14), 0.2, 10_000, 10_000)
    dead = np.concatenate([fresh, np.full(10_000, -np.inf)])
    found = bridge_evidence(dead, target, target.size)
    assert found.value == pytest.approx(-3.0 - math.log(2.0), abs=5 * found.standard_error)
    assert bridge_evidence(fresh, target, 0.0).standard_error == math.inf


@pytest.mark.parametrize("scale", [0.3, 1.0, 1.5])
def test_coverage_scores_are_standard_normal(scale):
    """Value, Ẑ and error bar over 300 repeats: deviation 1 ± .041, tested at 4.5 of these.

    The mutant that forgets the fresh draws, and with them the error of Ẑ, has larger scores.
    """
    generator = np.random.default_rng(15)
    scores, mutant = [], []
    for _ in range(300):
        fresh, target = lognormal_pair(generator, scale, 5_000, 5_000)
        found = coverage(target, fresh, exact=True)
        scores.append((found.value - 1.0) / found.standard_error)
        reached = 1 / (1 + DAMPING * np.exp(target + 3.0))
        known = reached.var() / reached.mean() ** 2 / reached.size
        mutant.append((found.value - 1.0) / math.sqrt(known))
    assert abs(np.std(scores) - 1.0) < 4.5 * 0.041
    assert abs(np.mean(scores)) < 4.5 * 0.058
    assert np.std(mutant) > 1.0 + 4.5 * 0.041


def test_coverage_is_one_minus_the_missed_mass_whatever_the_safety():
    """A guard's own mass in empty places lowers the raw form, not the corrected one."""
    generator = np.random.default_rng(16)
    missed, guard, n = 0.2, 0.02, 50_000
    flat = np.log((1 - missed) / (1 - guard))  # w where the proposal follows the target
    empty = generator.uniform(size=n) < guard
    fresh = np.where(empty, -30.0, flat)
    target = np.where(generator.uniform(size=n) < missed, 30.0, flat)
    found = coverage(target, fresh, exact=True)
    assert found.value == pytest.approx(1 - missed, abs=5 * found.standard_error)
    assert found.standard_error < 0.005
    assert found.raw == pytest.approx((1 - missed) * (1 - guard), abs=0.01)
    assert found.departs()


def test_agreement_is_uniform_for_equal_laws_and_small_for_others():
    """p-values over 200 repeats, each at most its Bonferroni claim."""
    generator = np.random.default_rng(17)
    small = 0
    for _ in range(200):
        chain, held_out = generator.normal(size=(2, 4, 250, 3))
        small += agreement(chain, held_out, exact=True).p_value < 0.01
    assert stats.binomtest(small, 200, 0.01, alternative="greater").pvalue > 1e-4
    found = agreement(chain, held_out + np.array([0.0, 0.5, 0.0]), exact=False)
    assert (found.coordinate, found.compared) == (1, "mean")
    assert found.p_value < 1e-10


def test_agreement_sees_a_symmetric_pair_of_far_modes():
    """3 % of the reference at ±20: the means agree, second moments and tails do not."""
    generator = np.random.default_rng(18)
    chain, held_out = generator.normal(size=(2, 4, 2_500, 1))
    far = generator.choice([-20.0, 0.0, 20.0], size=held_out.shape, p=[0.015, 0.97, 0.015])
    found = agreement(chain, held_out + far, exact=True)
    assert found.compared in ("second moment", "share beyond the outer quantiles")
    assert found.p_value < 1e-10
