"""The mixing certificate: bounds against exact finite chains, confidence against known laws."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from finite_chains import finite_chains, random_chains
from folt.certificate.diagnostics import coupling_bounds, mixing
from folt.certificate.diagnostics.coupling_bounds import (
    acceptance,
    binomial_upper,
    effective_sizes,
    ess_bound,
    mean_lower,
    meeting_estimate,
    threshold_ranks,
    total_variation_bound,
    variance_bound,
)
from folt.certificate.diagnostics.mixing import EPSILONS, Mixing, mixing_certificate
from folt.certificate.diagnostics.quantile_core import published_gap, valid_gap
from folt.certificate.documents import built
from known_ratios import (
    LAWS,
    Atoms,
    Exponentials,
    Regimes,
    credited_sizes,
    distances_hold,
    holds,
)

ROUNDING = 1e-12
STEPS = (0, 1, 2, 3, 5, 10, 30, 100, 1000)
LENGTHS = (2, 50, 1000)


@pytest.fixture(scope="module")
def chains():
    """1200 chains, a third of them truncated, on 2, 4 and 9 states."""
    generator = np.random.default_rng(0)
    return [random_chains(generator, 400, states) for states in (2, 4, 9)]


@pytest.fixture(scope="module")
def functions(chains):
    """An indicator of the stickiest state and a function without structure, for every chain."""
    generator = np.random.default_rng(1)
    return [
        (
            (batch.ratio == batch.ratio.max(axis=1, keepdims=True)).astype(float),
            generator.random(batch.target.shape),
        )
        for batch in chains
    ]


def test_gap_is_the_least_acceptance(chains):
    """The exact gap is 1/max w = a(max w), and the chains leave their targets alone."""
    for batch in chains:
        moved = np.einsum("bs,bst->bt", batch.target, batch.transition)
        np.testing.assert_allclose(moved, batch.target, atol=1e-14)
        np.testing.assert_allclose(batch.gap, 1 / batch.ratio.max(axis=1), rtol=1e-7, atol=1e-12)
        least = batch.at_thresholds()[0].min(axis=1)
        np.testing.assert_allclose(least, 1 / batch.ratio.max(axis=1), rtol=1e-10)


def test_valid_gap_is_a_lower_bound_and_the_published_one_is_not(chains):
    """κ·e^(-C) never exceeds the exact gap; without κ, or by 2/(1+e^C), some chain is below."""
    bounds, without_mass, published, exact = [], [], [], []
    for batch in chains:
        oscillation = np.ptp(np.log(batch.ratio), axis=1)
        bounds += [valid_gap(c, m) for c, m in zip(oscillation, batch.mass, strict=True)]
        without_mass += [valid_gap(c) for c in oscillation]
        published += [published_gap(c) for c in oscillation]
        exact += list(1 / batch.ratio.max(axis=1))
    exact = np.array(exact)
    assert len(exact) >= 1000
    assert (np.array(bounds) <= exact + ROUNDING).all()
    assert (np.array(without_mass) > exact + ROUNDING).any()
    assert (np.array(published) > exact + ROUNDING).any()


def test_published_gap_on_two_states():
    """q = (.99, .01) and osc = ln 3: the exact gap is .340 and the published formula gives .500."""
    proposal = np.array([[0.99, 0.01]])
    batch = finite_chains(proposal * np.array([1.0, 3.0]), proposal)
    assert batch.gap[0] == pytest.approx(0.34, abs=1e-12)
    assert published_gap(np.log(3.0)) == pytest.approx(0.5)
    assert valid_gap(np.log(3.0)) <= batch.gap[0]


def test_total_variation_is_bounded(chains):
    """From the proposal, for every chain and n; three mutants break it.

    Without the target's mass beyond t, with the mean acceptance in place of a(t), and with the
    published gap as a rate.
    """
    broken, looseness = {"mass": 0, "mean": 0, "published": 0}, []
    for batch in chains:
        accept, exceed, start = batch.at_thresholds()
        mean = (batch.target * accept).sum(axis=1)
        published = np.array([published_gap(c) for c in np.ptp(np.log(batch.ratio), axis=1)])
        for n in STEPS:
            distance = batch.distance(n)
            bound = total_variation_bound(n, accept, exceed, start)
            assert (bound >= distance - ROUNDING).all()
            lost = total_variation_bound(n, accept, 0.0, start)
            broken["mass"] += (lost < distance - 1e-9).sum()
            broken["mean"] += ((1 - mean) ** n < distance - 1e-9).sum()
            broken["published"] += ((1 - published) ** n < distance - 1e-9).sum()
            seen = distance > 1e-6
            if 0 < n <= 10:
                looseness.extend(bound[seen] / distance[seen])
    assert min(broken.values()) > 0, broken
    assert np.median(looseness) < 2.5


def test_total_variation_is_bounded_from_any_start(chains):
    """From the stickiest state; leaving out the start's mass beyond t breaks it there.

    From the proposal it may be left out, which is a theorem about starts that favour small w.
    """
    broken = 0
    for batch in chains:
        accept, exceed, _ = batch.at_thresholds()
        largest = batch.ratio.max(axis=1, keepdims=True)
        sticky = (batch.ratio == largest).astype(float)
        for n in STEPS:
            distance = batch.distance(n, sticky)
            bound = total_variation_bound(n, accept, exceed, (batch.ratio < largest).astype(float))
            assert (bound >= distance - ROUNDING).all()
            without = total_variation_bound(n, accept, exceed, 0.0)
            broken += (without < distance - 1e-9).sum()
            assert (without >= batch.distance(n) - ROUNDING).all()
    assert broken > 0


def test_variance_is_bounded(chains, functions):
    """Var(Pⁿf)/Var f for an indicator and a random f; without the remainder it is not."""
    broken = 0
    for batch, choices in zip(chains, functions, strict=True):
        accept, exceed, _ = batch.at_thresholds()
        for f in choices:
            spectrum, variance = batch.spectrum(f), batch.variance(f)
            ratio = (np.ptp(f, axis=1) ** 2 / variance)[:, None]
            for n in STEPS:
                share = (spectrum * batch.values ** (2 * n)).sum(axis=1) / variance
                slack = ROUNDING + 1e-14 * n  # of the n-th power of an eigenvalue
                assert (variance_bound(n, accept, exceed, ratio) >= share - slack).all()
                broken += (variance_bound(n, accept, 0 * exceed, ratio) < share - 1e-9).sum()
    assert broken > 0


def test_effective_size_is_bounded(chains, functions):
    """The effective size of N stationary steps; without the remainder it is overstated."""
    broken = 0
    for batch, choices in zip(chains, functions, strict=True):
        accept, exceed, _ = batch.at_thresholds()
        for f in choices:
            shares = batch.spectrum(f) / batch.variance(f)[:, None]
            ratio = np.ptp(f, axis=1) ** 2 / batch.variance(f)
            for count in LENGTHS:
                exact = count / inflation(shares, batch.values, count)
                terms = zip(accept, exceed, ratio, strict=True)
                bound = np.array([ess_bound(count, a, b, r) for a, b, r in terms])
                assert (bound <= exact * (1 + 1e-9)).all()
                mutant = [ess_bound(count, a, 0 * b) for a, b in zip(accept, exceed, strict=True)]
                broken += (np.array(mutant) > exact * (1 + 1e-6)).sum()
    assert broken > 0


def inflation(shares, values, count):
    """N·Var(mean of N stationary steps)/Var f from the spectral shares of f."""
    lags = np.arange(1, count)
    weights = 2.0 * (1.0 - lags / count)
    total = np.ones(len(shares))
    values = np.clip(values, 0.0, 1.0)
    for k in range(values.shape[1]):
        total += shares[:, k] * (values[:, k, None] ** lags @ weights)
    return total


def test_acceptance_is_the_mean_over_draws():
    """The cumulative form equals the plain mean, ties and dead proposals included."""
    generator = np.random.default_rng(2)
    fresh = np.round(generator.normal(0, 3, 500), 1)
    fresh[:40] = -np.inf
    coupling_bounds = np.concatenate([fresh[40:90], [-80.0, 30.0]])
    plain = np.exp(np.minimum(fresh - coupling_bounds[:, None], 0.0)).mean(axis=1)
    np.testing.assert_allclose(acceptance(fresh, coupling_bounds), plain, rtol=1e-12)


def test_meeting_estimate_is_the_mean_over_pairs():
    """The product of empirical laws gives what the mean over all pairs gives."""
    generator = np.random.default_rng(3)
    fresh, held_out = generator.normal(0, 1, 60), generator.normal(0.5, 1, (2, 25))
    fresh[:5] = -np.inf
    larger = np.maximum(fresh[5:, None], held_out.ravel()).ravel()
    numbers = np.array([0, 1, 4, 50])
    plain = [np.mean((1 - acceptance(fresh, larger)) ** n) for n in numbers]
    np.testing.assert_allclose(meeting_estimate(numbers, fresh, held_out), plain, rtol=1e-11)


# Confidence bounds


def test_binomial_upper_inverts_the_binomial():
    """P(at most k successes) = δ at the bound; a non-integer n lies between its neighbours."""
    for k, n in ((0, 10), (3, 10), (17, 4000)):
        assert stats.binom.cdf(k, n, binomial_upper(k, n, 0.01)) == pytest.approx(0.01)
    assert binomial_upper(0, 100, 0.05) == pytest.approx(1 - 0.05**0.01)
    assert binomial_upper(10, 10, 0.05) == 1.0
    assert binomial_upper(0, 0, 0.05) == 1.0
    between = binomial_upper(2, 20.5, 0.05)
    assert binomial_upper(2, 21, 0.05) < between < binomial_upper(2, 20, 0.05)
    with pytest.raises(ValueError, match="at least zero"):
        binomial_upper(-1, 10, 0.05)
    with pytest.raises(ValueError, match="between 0 and 1"):
        binomial_upper(1, 10, 0.0)


LAWS_ON_THE_UNIT_INTERVAL = {
    "rare": stats.bernoulli(0.02),
    "mostly one": stats.bernoulli(0.97),
    "U-shaped": stats.beta(0.1, 0.4),
    "concentrated": stats.beta(400, 10),
}


@pytest.mark.parametrize("name", LAWS_ON_THE_UNIT_INTERVAL)
@pytest.mark.parametrize("size", [30, 500])
def test_mean_lower_covers(name, size):
    """At δ = .1 the failures among 1000 repeats stay below the binomial 1e-4 quantile (8 checks).

    The sample mean as its own bound fails about every second time.
    """
    law, generator = LAWS_ON_THE_UNIT_INTERVAL[name], np.random.default_rng(4)
    values = law.rvs((1000, size), random_state=generator).astype(float)
    allowed = stats.binom.isf(1e-4, 1000, 0.1)
    assert (mean_lower(values, 0.1) > law.mean()).sum() <= allowed
    assert (values.mean(axis=1) > law.mean()).sum() > allowed


def test_mean_lower_is_sharper_than_empirical_bernstein():
    """At the level of one bound of the certificate, wherever the mean is not tiny."""
    generator, delta = np.random.default_rng(5), 0.05 / 48
    for law in LAWS_ON_THE_UNIT_INTERVAL.values():
        for size in (200, 2000, 20_000):
            values = law.rvs(size, random_state=generator).astype(float)
            demand = np.log(2 / delta)
            width = np.sqrt(2 * values.var(ddof=1) * demand / size) + 7 * demand / (3 * (size - 1))
            assert mean_lower(values, delta) >= max(values.mean() - width, 0.0)


def test_mean_lower_at_the_ends():
    assert mean_lower(np.zeros(50), 0.05) == 0.0
    assert 0.9 < mean_lower(np.ones(200), 0.05) < 1.0
    assert mean_lower(np.zeros((3, 0)), 0.05).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        mean_lower(np.array([0.5, 1.5]), 0.05)


# Coverage of the certificate


def failures(law, generator, repeats, delta, proposals=800, targets=400):
    drawn = (law.draw(generator, proposals, targets) for _ in range(repeats))
    made = [mixing_certificate(*draws, delta=delta, exact=True) for draws in drawn]
    if isinstance(law, Atoms):
        assert all(distances_hold(law, c) for c in made if holds(law, c))
    return sum(not holds(law, c) for c in made)


@pytest.mark.parametrize("name", LAWS)
def test_certificate_covers(name):
    """All bounds together fail in at most δ = .2 of 60 repeats (binomial, 1e-4 a check, 6 checks).

    Where all bounds hold, the exact distance after the certified steps is as certified.
    """
    allowed = stats.binom.isf(1e-4, 60, 0.2)
    assert failures(LAWS[name], np.random.default_rng(8), 60, 0.2) <= allowed


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("part", ["binomial_upper", "mean_lower"])
def test_mutant_with_point_estimates_fails(monkeypatch, name, part):
    """Taking shares or means at their word breaks the promise at every law."""
    if part == "binomial_upper":
        monkeypatch.setattr(coupling_bounds, part, lambda k, n, delta: np.asarray(k / n))
    else:
        monkeypatch.setattr(coupling_bounds, part, lambda values, delta: values.mean(axis=-1))
    allowed = stats.binom.isf(1e-4, 60, 0.2)
    assert failures(LAWS[name], np.random.default_rng(9), 60, 0.2) > allowed


def test_effective_size_stands_in_for_independence():
    """Chains with correlation .97: the bounds hold (40 repeats, 1e-4); counting draws fails."""
    law, generator, delta = LAWS["light proposal, Pareto index 5"], np.random.default_rng(10), 0.2
    failed, failed_counting = 0, 0
    for _ in range(40):
        fresh, held_out = law.draw(generator, 800, 1000, chains=4, correlation=0.97)
        failed += not holds(law, mixing_certificate(fresh, held_out, delta=delta))
        counted = mixing_certificate(fresh, held_out, delta=delta, exact=True)
        failed_counting += not holds(law, counted)
    allowed = stats.binom.isf(1e-4, 40, delta)
    assert failed <= allowed < failed_counting


@pytest.mark.extended
def test_refreshed_draws_count_as_they_came():
    """Chains 80 × 250 with R-hat near 1.8, moved four steps: the bounds hold (40 repeats, 1e-4).

    The mutant that reads the effective size off the renewed draws fails several times as often as
    it may.
    """
    law, generator, delta = Exponentials(1.3), np.random.default_rng(20), 0.05
    failed, failed_renewed = 0, 0
    for _ in range(40):
        fresh, raw = law.draw(generator, 4_000, 250, chains=80, correlation=0.995)
        moved = law.refreshed(generator, raw, 4)
        failed += not holds(law, mixing_certificate(fresh, moved, delta=delta, raw=raw))
        failed_renewed += not holds(law, mixing_certificate(fresh, moved, delta=delta))
    allowed = stats.binom.isf(1e-4, 40, delta)
    assert failed <= allowed
    assert failed_renewed > failed
    assert failed_renewed > 40 * delta


@pytest.mark.extended
def test_refreshment_earns_no_credit_where_weights_jump(monkeypatch):
    """Chains that switch slowly into a regime of large weights: the bounds hold (60 repeats, 1e-4).

    The mutant with credit, u = (1 - a(t))ᵏ for the share that stays, fails: the draws of the regime
    are the ones that never moved.
    """
    law, generator, failed, failed_mutant = Regimes(0.03, 30, 100), np.random.default_rng(22), 0, 0
    for _ in range(60):
        fresh, raw = law.draw(generator, 2_000, 250, chains=100)
        moved = law.refreshed(generator, raw, 2)
        failed += not holds(law, mixing_certificate(fresh, moved, raw=raw))
        with monkeypatch.context() as mutant:
            mutant.setattr(mixing, "effective_sizes", credited_sizes(2, fresh))
            failed_mutant += not holds(law, mixing_certificate(fresh, moved, raw=raw))
    allowed = stats.binom.isf(1e-4, 60, 0.05)
    assert failed <= allowed < failed_mutant


def test_a_threshold_without_exceedances_takes_the_lowest_size():
    """Never a larger one from a neighbour: the sizes of rare indicators fall or stay."""
    generator = np.random.default_rng(21)
    raw = np.repeat(generator.normal(size=(8, 50)), 10, axis=1)
    sizes = effective_sizes(raw, np.quantile(raw, [0.5, 0.9, 0.999, 1.0]))
    assert sizes[2:].max() <= sizes[:2].min()
    assert sizes.max() < 0.3 * raw.size


# The certificate itself


def gaussian_case(generator, scale, safety, proposals=20_000, targets=(4, 1250)):
    """π = N(0, scale²), q = N(0, 1) with a share `safety` of N(0, 3²)."""

    def log_ratio(x):
        body = np.log1p(-safety) + stats.norm.logpdf(x)
        with np.errstate(divide="ignore"):
            tail = np.log(safety) + stats.norm.logpdf(x, scale=3.0)
        return stats.norm.logpdf(x, scale=scale) - np.logaddexp(body, tail)

    wide = generator.random(proposals) < safety
    fresh = generator.normal(size=proposals) * np.where(wide, 3.0, 1.0)
    return log_ratio(fresh), log_ratio(scale * generator.normal(size=targets))


@pytest.fixture(scope="module")
def usual():
    """A good proposal: fresh and held-out log ratios and their certificate."""
    fresh, held_out = gaussian_case(np.random.default_rng(11), 1.04, 0.02)
    return fresh, held_out, mixing_certificate(fresh, held_out, exact=True, chain_length=1000)


def test_good_proposals_need_few_steps(usual):
    """At acceptance about .98 five steps reach total variation .05; at .945 forty are plenty."""
    fresh, held_out, certificate = usual
    accepted = np.minimum(1, np.exp(fresh - np.resize(held_out, fresh.size))).mean()
    assert 0.97 < accepted < 0.985
    assert certificate.steps[0.1] <= certificate.steps[0.05] <= 5
    assert certificate.steps[0.01] is not None
    assert certificate.reason is None
    worse = mixing_certificate(*gaussian_case(np.random.default_rng(12), 1.1, 0.02), exact=True)
    assert worse.steps[0.05] <= 10


def test_steps_are_the_smallest_that_the_bound_allows(usual):
    certificates = [usual[2]]
    certificates += [
        mixing_certificate(*gaussian_case(np.random.default_rng(13), scale, 0.0), exact=True)
        for scale in (1.2, 1.5, 0.8)
    ]
    for certificate in certificates:
        assert set(certificate.steps) == set(EPSILONS)
        for epsilon, n in certificate.steps.items():
            if n is not None:
                assert certificate.bound(n) <= epsilon < certificate.bound(n - 1)
        assert (np.diff(certificate.curve.bound) <= 0).all()
        assert len(certificate.curve.steps) <= 200
        curve = np.array(certificate.curve.bound)
        np.testing.assert_array_equal(certificate.bound(np.array(certificate.curve.steps)), curve)
        assert (np.array(certificate.curve.estimate) <= curve).all()


def test_survives_json(usual):
    certificate = usual[2]
    tree = json.loads(json.dumps(dataclasses.asdict(certificate), allow_nan=False))
    assert built(Mixing, tree) == certificate
    assert built(Mixing, dataclasses.asdict(certificate)) == certificate


def test_needs_no_normalising_constant(usual):
    """Adding a constant to h moves log t and log Z by it and changes nothing else."""
    fresh, held_out, certificate = usual
    moved = mixing_certificate(fresh - 700.0, held_out - 700.0, exact=True, chain_length=1000)
    assert moved.steps == certificate.steps
    assert moved.log_evidence == pytest.approx(certificate.log_evidence - 700.0)
    assert moved.ess == pytest.approx(certificate.ess)
    np.testing.assert_allclose(moved.curve.bound, certificate.curve.bound, rtol=1e-9)
    np.testing.assert_allclose(moved.curve.estimate, certificate.curve.estimate, atol=1e-9)


def test_variance_and_effective_size(usual):
    certificate = usual[2]
    grid = certificate.grid
    assert certificate.ess == certificate.ess_bound(1000)
    assert 1.0 <= certificate.ess <= 1000.0
    assert certificate.ess_bound(1000, 2.0) > certificate.ess
    assert certificate.variance_bound(0) == 1.0
    best = min(
        (1 - a) ** 4 + 4 * b * (1 - b / 2)
        for a, b in zip(grid.accept_lower, grid.exceed_upper, strict=True)
    )
    assert certificate.variance_bound(2) == pytest.approx(best)


def test_ranks_depend_on_the_count_alone():
    for count in (1, 4, 5, 300, 5000, 10**6):
        ranks = threshold_ranks(count)
        assert ranks[0] == 1
        assert ranks[-1] == max(count // 5, 1)
        assert (np.diff(ranks) > 0).all()
        assert ranks.size <= 16


def test_too_few_draws_are_named_and_the_number_asked_for_suffices():
    generator = np.random.default_rng(14)
    fresh, held_out = gaussian_case(generator, 1.0, 0.02, targets=(2, 50))
    certificate = mixing_certificate(fresh, held_out, exact=True)
    epsilon = max(epsilon for epsilon, n in certificate.steps.items() if n is None)
    assert certificate.bound(10**6) > epsilon
    assert certificate.reason.startswith(f"Total variation {epsilon}")
    needed = int(certificate.reason.split("about ")[1].split()[0])
    enough = gaussian_case(generator, 1.0, 0.02, targets=(1, needed))
    assert mixing_certificate(*enough, exact=True).steps[epsilon] <= 5


def test_too_few_proposals_are_named(usual):
    fresh, held_out, _ = usual
    mostly_dead = np.where(np.arange(2000) % 40 == 0, fresh[:2000], -np.inf)
    certificate = mixing_certificate(mostly_dead, held_out, exact=True)
    assert certificate.steps[0.1] is None
    assert "50 fresh proposals hit the support" in certificate.reason


def test_dependent_draws_count_less():
    """A chain that repeats each draw ten times is worth a tenth; the certificate knows."""
    fresh, held_out = gaussian_case(np.random.default_rng(15), 1.1, 0.02, targets=(4, 250))
    repeated = np.repeat(held_out, 10, axis=1)
    sizes = np.array(mixing_certificate(fresh, repeated).grid.effective)
    assert (sizes > 300).all()
    assert (sizes < 1500).all()
    given = mixing_certificate(fresh, repeated, effective=123.0)
    assert set(given.grid.effective) == {123.0}


def test_heavy_tails_are_named():
    """w with Pareto index 1/2: no number of steps is certified."""
    fresh, held_out = Exponentials(3.0).draw(np.random.default_rng(16), 2000, 5000)
    certificate = mixing_certificate(fresh, held_out, exact=True)
    assert certificate.steps[0.01] is None
    assert "heavy tail" in certificate.reason


def test_reference_that_misses_mass_is_named():
    """Held-out draws from one half of the target: the proposal finds larger w than all of them."""
    generator = np.random.default_rng(17)
    fresh = np.where(generator.random(4000) < 0.3, 2.0, 0.0) + generator.normal(0, 0.1, 4000)
    certificate = mixing_certificate(fresh, generator.normal(0, 0.1, (1, 4000)), exact=True)
    assert set(certificate.steps.values()) == {None}
    assert "miss a part of the target" in certificate.reason


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("fresh", np.nan, "not a number"),
        ("fresh", np.inf, "not a number"),
        ("held_out", np.nan, "not finite"),
        ("held_out", np.inf, "not finite"),
        ("held_out", -np.inf, "not finite"),
    ],
)
def test_faults_refuse(usual, where, value, words):
    draws = {"fresh": usual[0].copy(), "held_out": usual[1].copy()}
    draws[where].flat[7] = value
    certificate = mixing_certificate(**draws, exact=True, chain_length=10)
    assert words in certificate.reason
    assert certificate.reason.startswith("1 of")
    assert set(certificate.steps.values()) == {None}
    assert certificate.bound(10) == certificate.variance_bound(10) == 1.0
    assert certificate.ess is None
    tree = json.loads(json.dumps({**dataclasses.asdict(certificate), "log_evidence": None}))
    assert built(Mixing, tree).reason == certificate.reason


def test_degenerate_input_is_an_outcome(usual):
    """All proposals dead, constant h without and with a known size, a handful of draws."""
    fresh, held_out, _ = usual
    dead = mixing_certificate(np.full(50, -np.inf), held_out, exact=True)
    assert "None of 50" in dead.reason
    constant = mixing_certificate(np.zeros(2000), np.zeros((4, 500)))
    assert set(constant.steps.values()) == {None}
    assert "no effective size" in constant.reason
    assert mixing_certificate(np.zeros(2000), np.zeros((4, 500)), exact=True).steps[0.05] == 1
    few = mixing_certificate(fresh[:1], held_out[:1, :1], exact=True)
    assert set(few.steps.values()) == {None}
    assert few.reason is not None


@pytest.mark.wrong_shapes
def test_wrong_input_is_refused(usual):
    fresh, held_out, _ = usual
    with pytest.raises(ValueError, match=r"\(proposals,\), got \(1, 20000\)"):
        mixing_certificate(fresh[None], held_out)
    with pytest.raises(ValueError, match=r"\(chains, draws\), got \(5000,\)"):
        mixing_certificate(fresh, held_out.ravel())
    with pytest.raises(ValueError, match="delta"):
        mixing_certificate(fresh, held_out, delta=1.0)
