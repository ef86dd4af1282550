"""Fits that must not be trusted: each is caught, by what should catch it, and only by that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from folt.certificate.certify import Examined, certificate_from
from folt.certificate.diagnostics.chains import summarise_chains
from folt.certificate.facts import ReferenceFacts, SymmetryFacts
from folt.certificate.held_out import HeldOut
from folt.chains import run_chains
from folt.groups import Permutation, Trivial
from folt.problem import Problem
from folt.problem.ratio import BoundaryMass, LogRatio, Target
from folt.proposals import Gaussian, StudentT
from folt.reference import Concern, Exact
from missed import certificate_of

FACTS = SymmetryFacts(2, True, 0.0, True, BoundaryMass(0.0, 0.0, 0.0, 0.1, 1.0), None)
REFERENCE = ReferenceFacts(1.0, 20_000.0, True, 20_000, 0, 1.0, 20_000.0)
SWAP = Permutation(2, 1)
NEAR, FAR = jnp.array([0.0, 6.0]), jnp.array([20.0, 26.0])
MISSED = 0.3


class TwoPairs:
    """Two modes that are no images of each other, each with its mirror image."""

    def log_density(self, x):
        def pair(centre):
            images = jnp.stack([centre, centre[::-1]])
            return jax.nn.logsumexp(-0.5 * jnp.sum((x - images) ** 2, axis=1))

        weights = jnp.log(jnp.array([1.0 - MISSED, MISSED]))
        modes = weights + jnp.stack([pair(NEAR), pair(FAR)])
        return jax.nn.logsumexp(modes) - jnp.log(2.0) - jnp.log(2.0 * jnp.pi)

    def sample(self, key):
        which, noise, flip = jax.random.split(key, 3)
        centre = jnp.where(jax.random.uniform(which) < MISSED, FAR, NEAR)
        x = centre + jax.random.normal(noise, (2,))
        return jnp.where(jax.random.bernoulli(flip), x[::-1], x)


TARGET = TwoPairs()
PROBLEM = Problem(TARGET.log_density, SWAP, sampler=TARGET.sample)


def gaussian(mean, scale=1.0):
    mean = jnp.asarray(mean, float)
    return Gaussian(mean, jnp.eye(mean.size) / scale)


def certified(problem, proposal, seed=0, draws=2_000):
    """The certificate of a proposal as it is, without training and without a guard."""
    keys = jax.random.split(jax.random.key(seed), 3)
    ratio = LogRatio(Target(problem), proposal, problem.group)
    held_out = HeldOut(Exact(draws=20_000)(keys[0], problem).draws, exact=True)
    chains = run_chains(keys[1], ratio, 4, draws, 100)
    _, fresh = ratio.draw(keys[2], 20_000)
    examined = Examined.of(held_out.judge(ratio), fresh)
    return certificate_from(examined, chains, FACTS, REFERENCE, burn_in=100)


@pytest.fixture(scope="module")
def one_mode_missed():
    return certified(PROBLEM, gaussian(NEAR))


def test_a_missed_mode_is_caught_by_target_draws_and_coverage(one_mode_missed):
    certificate = one_mode_missed
    assert certificate.qc["target"][0.05].gamma < 1e-10
    assert abs(certificate.coverage.value - (1.0 - MISSED)) < 0.02
    assert certificate.coverage.departs()
    assert certificate.agreement.p_value < 1e-10
    assert certificate.mixing.steps[0.1] is None
    assert certificate.status.name == "uncovered"


def test_a_missed_mode_is_not_caught_by_proposal_draws(one_mode_missed):
    """Proposal draws never visit it: their core, the acceptance, R-hat and k̂ look perfect."""
    certificate = one_mode_missed
    assert certificate.qc["proposal"][0.05].gamma > 0.99
    assert certificate.chains.rhat < 1.01
    assert certificate.evidence.pareto_k < 0.7
    assert certificate.qc["proposal"][0.05].target_mass < 1.0 - MISSED + 0.02


def test_what_reference_and_proposal_both_miss_nobody_sees():
    """Held-out draws of one mode only, a proposal of that mode only: a good verdict, and wrong."""

    def blind(key):
        return NEAR + jax.random.normal(key, (2,))

    certificate = certified(Problem(TARGET.log_density, SWAP, sampler=blind), gaussian(NEAR))
    assert certificate.status.name == "good"
    # The sampler was declared exact, so nothing was searched: the certificate takes it at its word.
    assert "exact sampler" in certificate.assumption


def test_a_missed_mode_is_not_called_good_after_sampling_either():
    """With the guard the mode is reached once in a while: exact, but slow, and said so."""
    fit = folt.sample(PROBLEM, flow=gaussian(NEAR), draws=500, progress=False)
    assert fit.certificate.qc["target"][0.05].gamma < 0.1
    assert fit.certificate.status.name not in ("good", "fair")


def test_a_heavy_tail_cannot_be_certified():
    """A t with two degrees of freedom under a normal: most draws accepted, w unbounded."""
    tail = StudentT(jnp.zeros(1), jnp.eye(1), 2.0)
    problem = Problem(tail.log_prob, Trivial(1), sampler=tail.sample)
    certificate = certified(problem, gaussian([0.0]))
    steps = certificate.mixing.steps[0.05]
    assert steps is None or steps > 2_000  # what the chain's 2000 draws cannot show is said
    assert certificate.mixing.steps[0.01] is None
    assert certificate.mixing.reason is not None
    assert not certificate.status.outcome.usable


def test_the_same_tail_under_a_heavier_proposal_is_fine():
    tail = StudentT(jnp.zeros(1), jnp.eye(1), 2.0)
    problem = Problem(tail.log_prob, Trivial(1), sampler=tail.sample)
    certificate = certified(problem, StudentT(jnp.zeros(1), jnp.eye(1), 1.5))
    assert certificate.mixing.steps[0.05] <= 5
    assert certificate.status.name == "good"


def test_a_frozen_chain():
    """A proposal so narrow that no chain leaves its first state is said to be frozen."""
    narrow = gaussian(NEAR, 1e-9)
    keys = jax.random.split(jax.random.key(0), 3)
    ratio = LogRatio(Target(PROBLEM), narrow, SWAP)
    chains = run_chains(keys[1], ratio, 2, 50, 0)
    still = chains._replace(
        draws=np.repeat(chains.draws[:, :1], 50, axis=1), accepted=np.zeros((2, 50), bool)
    )
    assert summarise_chains(still.draws, still.accepted).frozen == (0, 1)
    held_out = HeldOut(Exact(draws=4_000)(keys[0], PROBLEM).draws, exact=True)
    _, fresh = ratio.draw(keys[2], 1_000)
    examined = Examined.of(held_out.judge(ratio), fresh)
    assert certificate_from(examined, still, FACTS, REFERENCE).status.name == "frozen"


def lopsided(x):
    """Symmetric near the origin, where nothing is known; not where the posterior lives."""
    far = jax.nn.logsumexp(-0.5 * jnp.sum((x - jnp.stack([FAR, FAR[::-1]])) ** 2, axis=1))
    return far + 0.5 * jax.nn.sigmoid(x[0] + x[1] - 30.0) * jnp.tanh(x[0] - x[1])


def test_a_symmetry_broken_where_the_posterior_lives():
    """The check at random points passes; the one at held-out draws does not."""
    assert folt.check(Problem(lopsided, SWAP)).holds
    draws = np.asarray(FAR) + np.random.default_rng(0).normal(size=(20, 200, 2))
    fit = folt.sample(
        Problem(lopsided, SWAP), reference=draws, flow=gaussian(FAR), draws=200, progress=False
    )
    assert fit.certificate.status.name == "broken symmetry"
    assert fit.certificate.symmetry.defect > 1e-3


def test_the_same_density_declared_broken_is_exact():
    draws = np.asarray(FAR) + np.random.default_rng(0).normal(size=(20, 200, 2))
    fit = folt.sample(
        Problem(lopsided, SWAP, invariant=False),
        reference=draws,
        flow=gaussian(FAR),
        draws=200,
        progress=False,
    )
    assert fit.certificate.status.name != "broken symmetry"
    assert not fit.certificate.symmetry.invariant


def slow_reference(correlation, chains=80, length=250):
    """Stationary autoregressions of a standard normal in the plane."""
    generator = np.random.default_rng(6)
    draws = generator.normal(size=(chains, length, 2))
    draws[:, 1:] *= np.sqrt(1 - correlation**2)
    for t in range(1, length):
        draws[:, t] += correlation * draws[:, t - 1]
    return draws


def test_a_slow_reference_stays_in_doubt_after_refreshment():
    """R-hat near 1.8 and 120 effective draws: refreshment renews the draws, not the verdict."""
    problem = Problem(lambda x: -0.5 * jnp.sum(x**2), Trivial(2))
    draws = slow_reference(0.99)
    fit = folt.sample(
        problem, reference=draws, flow=gaussian([0.0, 0.0]), draws=500, progress=False
    )
    facts = fit.certificate.reference
    assert facts.refreshed > 0
    assert facts.rhat > 1.5 > facts.refreshed_rhat
    assert facts.ess < 200 < facts.refreshed_ess
    assert fit.certificate.status.name == "reference in doubt"
    assert Concern.DISAGREEING_CHAINS in {caution.concern for caution in facts.cautions}
    assert "R-hat of the reference" in fit.summary()


@pytest.mark.parametrize("guarded", [False, True])
def test_three_percent_missed_are_never_good(guarded):
    """In a symmetric pair at ±20: the means agree, and everything else that could tell does."""
    certificate = certificate_of(0.03, 0, guarded=guarded, draws=2_000)
    assert certificate.status.name == ("heavy tail" if guarded else "uncovered")
    assert guarded or certificate.coverage.departs()
    assert abs(certificate.evidence.value) < 4 * certificate.evidence.standard_error or not guarded


def test_dead_proposals_do_not_shorten_the_burn_in():
    """Most proposals miss the support: every chain still takes all its steps after its start."""
    half = Problem(lambda x: jnp.where(x[0] > 0, -0.5 * x[0] ** 2, -jnp.inf), Trivial(1))
    ratio = LogRatio(Target(half), gaussian([-1.0]), half.group)
    drawn = []
    chains = run_chains(jax.random.key(3), Counting(ratio, drawn), 8, 20, 5)
    first = np.argmax(np.isfinite(drawn[0].reshape(8, 26)), axis=1)
    assert first.max() > 0
    assert sum(values.size for values in drawn) == 8 * (26 + first.max())
    assert np.isfinite(chains.log_ratio).all()


class Counting:
    """A log ratio that remembers what it drew."""

    def __init__(self, ratio, drawn):
        self.ratio, self.drawn, self.dim = ratio, drawn, ratio.dim

    def draw(self, key, count):
        points, values = self.ratio.draw(key, count)
        self.drawn.append(values)
        return points, values
