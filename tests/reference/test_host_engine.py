"""The default engine: kernels that leave the target alone, few programs, work that is counted."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import folt
from folt.chains import autocorrelation_time, chances_to_leave, steps_worth_taking
from folt.groups import Permutation, Trivial
from folt.problem import Problem
from folt.proposals import Gaussian, Mixture, standard_normal
from folt.proposals.action import action_of
from folt.proposals.components import Components
from folt.proposals.sums import HostDistribution, ListedSum, components_of
from folt.reference import HostChains, host_chains
from folt.reference.host_moves import JumpKernel
from folt.reference.host_tempering import (
    PATHS_FROM,
    RandomWalks,
    Rung,
    TemperedPaths,
    Walk,
    mover_for,
)
from folt.reference.landscape import Landscape
from folt.reference.moving import Hamiltonian
from folt.sampling.options import Options
from folt.training.effort import EFFORTS

LEVEL = 1e-5  # about twenty checks: a false alarm about once in 5000 runs

MEANS = np.array([[-1.5, 0.0], [1.5, 0.5]])
MIXTURE = ([0.3, 0.7], MEANS, np.array([[[1.0, 0.0], [0.5, 1.2]], [[1.4, 0.0], [-0.3, 0.9]]]))


def mixture():
    weights, means, factors = MIXTURE
    return Mixture(jnp.log(jnp.array(weights)), jnp.asarray(means), jnp.asarray(factors))


def components():
    weights, means, factors = MIXTURE
    return Components(np.log(weights), means, factors)


def problem(**options):
    return Problem(mixture().log_prob, Trivial(2), **options)


def same_law(draws, exact):
    return min(stats.ks_2samp(draws[:, j], exact[:, j]).pvalue for j in range(2)) > LEVEL


# Kernels.


@dataclasses.dataclass
class Misjudged:
    """A proposal whose density is taken for that of another."""

    drawn: JumpKernel
    judged: JumpKernel

    def sample(self, generator, count):
        return self.drawn.sample(generator, count)

    def log_prob(self, points):
        return self.judged.log_prob(points)


def moved(tempered=1.0, jump_shift=0.0, steps=6):
    """Exact draws after some paths and jumps; a mutant paths on π^tempered or shifts q."""
    generator = np.random.default_rng(0)
    start = components().sample(generator, 4_000)
    target = Problem(lambda x: tempered * mixture().log_prob(x), Trivial(2))
    covariance = np.cov(start.T)
    jump = JumpKernel.around(start[:40] + 0.3, covariance, 0.6)
    shifted = dataclasses.replace(jump, origin=jump.origin + jump_shift)
    chains = Hamiltonian(Landscape(target), Misjudged(jump, shifted), start, covariance, 0.8)
    chains.size.log_average = math.log(0.7)
    for _ in range(steps):
        chains.move(generator)
        before = chains.states.points.copy()
        chains.jump(generator)
    accept = np.any(chains.states.points != before, axis=1)
    assert 0.05 < accept.mean() < 0.95
    chains.catch_up()
    values, gradients = Landscape(target).with_gradients(chains.states.points)
    np.testing.assert_allclose(chains.states.values, values, rtol=1e-12)
    np.testing.assert_allclose(chains.states.gradients, gradients, rtol=1e-10, atol=1e-12)
    return start, chains.states.points


def test_paths_and_jumps_leave_the_target_alone():
    start, end = moved()
    fresh = components().sample(np.random.default_rng(1), 20_000)
    assert np.mean(np.any(end != start, axis=1)) > 0.95
    assert same_law(end, fresh)
    assert not same_law(moved(tempered=0.7)[1], fresh)
    assert not same_law(moved(jump_shift=3.0)[1], fresh)


def test_jumps_cost_gradients_only_where_a_path_begins():
    generator = np.random.default_rng(3)
    start = components().sample(generator, 50)
    landscape = Landscape(Problem(mixture().log_prob, Trivial(2)))
    jump = JumpKernel.around(start, np.cov(start.T), 0.6)
    chains = Hamiltonian(landscape, jump, start, np.cov(start.T), 0.8)
    spent = landscape.gradients
    for _ in range(20):
        chains.jump(generator)
    assert landscape.gradients == spent
    chains.catch_up()
    assert 0 < landscape.gradients - spent <= 50
    expected = Landscape(landscape.problem).with_gradients(chains.states.points)[1]
    np.testing.assert_allclose(chains.states.gradients, expected, rtol=1e-10, atol=1e-12)


def test_jump_density_is_the_mixture_of_its_kernels():
    generator = np.random.default_rng(2)
    centres, covariance = generator.normal(size=(30, 3)), np.diag([1.0, 4.0, 0.2])
    jump = JumpKernel.around(centres, covariance, 0.5)
    factors = np.broadcast_to(jump.inverse, (30, 3, 3))
    plain = Components(np.full(30, -math.log(30.0)), centres, factors, 4.0)
    points = 3.0 * generator.normal(size=(20, 3))
    difference = jump.log_prob(points) - np.logaddexp.reduce(plain.log_terms(points), axis=1)
    np.testing.assert_allclose(difference, difference[0], rtol=1e-12)


def test_gradients_of_a_broken_symmetry_are_those_of_the_fold():
    target = Problem(mixture().log_prob, Permutation(2, 1), invariant=False)
    points = np.random.default_rng(3).normal(size=(7, 2))
    values, gradients = target.folded_gradients(points)
    expected = jax.jit(jax.vmap(jax.value_and_grad(target.folded().log_prob)))(jnp.asarray(points))
    np.testing.assert_allclose(values, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradients, expected[1], rtol=1e-10, atol=1e-12)


def along_the_ladder(temperature):
    """Exact draws of N(0, 9)^(1-λ)·N(1, 1)^λ at λ = .3, and those after paths at a temperature."""
    generator = np.random.default_rng(4)
    precision = 0.7 / 9.0 + 0.3
    exact = generator.normal(0.3 / precision, precision**-0.5, size=(2, 4_000, 2))
    start = HostDistribution(standard_normal(2, 3.0))
    landscape = Landscape(Problem(Gaussian(jnp.ones(2), jnp.eye(2)).log_prob, Trivial(2)))
    values = landscape(exact[0]), start.log_probs(exact[0])
    walk = Walk(exact[0], *values, math.log(0.8))
    move = TemperedPaths(4)
    end = move(generator, walk, Rung(landscape, start, temperature, np.eye(2) / precision))
    np.testing.assert_allclose(end.log_start, start.log_probs(end.points))
    assert np.mean(np.any(end.points != exact[0], axis=1)) > 0.9
    return end.points, exact[1]


def test_paths_along_the_ladder_leave_every_temperature_alone():
    assert same_law(*along_the_ladder(0.3))
    assert not same_law(*along_the_ladder(0.2))
    assert not same_law(*along_the_ladder(1.0))


# Reference runs.

SMALL = HostChains(particles=300, moves=8, chains=40, draws=50, longest=1)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_separate_modes_get_their_weights_without_a_prior(scale):
    """Modes 16 widths apart; five standard errors over chains, a false alarm in 1e6."""
    weights = jnp.log(jnp.array([0.3, 0.7]))
    means = scale * jnp.array([[-8.0, 0.0], [8.0, 3.0]])
    target = Mixture(weights, means, jnp.stack([jnp.eye(2) / scale] * 2))
    reference = SMALL(jax.random.key(1), Problem(target.log_prob, Trivial(2)))
    right = (reference.draws[:, :, 0] > 0).mean(axis=1)
    error = right.std() / math.sqrt(len(right))
    assert abs(right.mean() - 0.7) < 5 * error < 0.3
    assert abs(reference.log_evidence) < 0.6
    values = target.log_prob(jnp.asarray(reference.draws[3, 7]))
    assert reference.log_target[3, 7] == pytest.approx(float(values), rel=1e-12)


def narrow(dim):
    """A normalised Gaussian of many widths in a corner of its prior."""
    deviations = np.geomspace(0.01, 0.5, dim)
    target = Gaussian(jnp.full(dim, 1.0), jnp.diag(jnp.asarray(1.0 / deviations)))
    return Problem(target.log_prob, Trivial(dim), prior=standard_normal(dim, 2.0))


@pytest.mark.extended
def test_particles_keep_up_with_the_ladder_in_many_dimensions():
    """Seen in log Z, which is zero: four seeds gave -5 to -2, and 21 to 28 with random walks."""
    brief = dataclasses.replace(SMALL, moves=20, descents=0, chains=8, draws=4, warmup=1)
    walks = dataclasses.replace(brief, paths=0)
    keeping, lagging = (run(jax.random.key(0), narrow(40)).log_evidence for run in (brief, walks))
    assert abs(keeping) < 10.0
    assert abs(lagging) > 15.0


@pytest.mark.parametrize("paths", [0, 3])
def test_only_many_dimensions_with_a_gradient_are_walked_by_paths(paths):
    few, many = narrow(PATHS_FROM - 1), narrow(PATHS_FROM)
    box = folt.from_callable(lambda x: -0.5 * float(x @ x), PATHS_FROM, Trivial(PATHS_FROM))
    assert isinstance(mover_for(few, 20, paths), RandomWalks)
    assert isinstance(mover_for(many, 20, paths), TemperedPaths if paths else RandomWalks)
    assert isinstance(mover_for(box, 20, paths), RandomWalks)


def test_a_reference_run_is_reproducible_and_counts_what_it_costs():
    target = problem(prior=standard_normal(2, 3.0))
    first, second = (SMALL(jax.random.key(2), target) for _ in range(2))
    np.testing.assert_array_equal(first.draws, second.draws)
    tempered = 300 + first.exploration.rungs * 300 * SMALL.moves
    assert tempered < first.evaluations["value"] < tempered + 20_000
    moved = first.evaluations["gradient"] - first.exploration.gradients
    assert moved >= SMALL.chains * (SMALL.warmup + SMALL.draws)


def test_chances_to_leave_are_the_mean_acceptances():
    generator = np.random.default_rng(7)
    fresh, states = generator.normal(size=500), generator.normal(size=40)
    fresh[:5] = -np.inf
    expected = np.exp(np.minimum(fresh[None] - states[:, None], 0.0)).mean(axis=1)
    chances = chances_to_leave(fresh, states)
    np.testing.assert_allclose(chances, expected, rtol=1e-12)
    assert autocorrelation_time(chances) == pytest.approx(np.mean((2 - expected) / expected))
    assert autocorrelation_time(np.full(3, 0.5), 2) == pytest.approx(1.25 / 0.75)
    assert steps_worth_taking(np.full(100, 0.98), 1.1, 10) == 1
    assert steps_worth_taking(np.full(100, 0.5), 1.1, 10) == 5
    assert steps_worth_taking(np.full(100, 1e-6), 1.1, 10) == 10


# The whole.


def data_density(x, y):
    terms = -0.5 * ((y[:, None] - x.reshape(2, 2)[:, 0]) / jnp.exp(x.reshape(2, 2)[:, 1])) ** 2
    terms = terms - x.reshape(2, 2)[:, 1]
    prior = -0.5 * jnp.sum(x**2) / 4.0 - 4 * math.log(2.0) - 2.0 * math.log(2 * math.pi)
    return jnp.sum(jax.scipy.special.logsumexp(terms, axis=1)) + prior


def two_components(seed):
    generator = np.random.default_rng(seed)
    y = np.concatenate([generator.normal(-2, 0.7, 20), generator.normal(2, 1.0, 20)])
    return Problem(
        data_density, Permutation(2, 2), data=jax.device_put(y), prior=standard_normal(4, 2.0)
    )


class Compilations:
    """How many XLA programs are compiled, or taken from a cache on disk, while it listens."""

    def __init__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event, duration, **_):
        self.count += event == "/jax/core/compile/backend_compile_duration"


@pytest.fixture(scope="module")
def fits():
    one, two = two_components(0), two_components(1)
    jax.clear_caches()
    heard = Compilations()
    first = folt.sample(one, draws=1_000, progress=False)
    programs = heard.count
    second = folt.sample(two, draws=1_000, progress=False)
    return first, second, programs, heard.count - programs


@pytest.mark.extended
def test_few_programs_and_none_for_a_second_data_set(fits):
    _, _, programs, more = fits
    assert 1 <= programs <= 8
    assert more == 0


def test_the_default_fit_is_good(fits):
    for fit in fits[:2]:
        assert fit.accept_rate > 0.8
        assert fit.certificate.mixing.steps[0.05] <= 10
        assert fit.provenance["effort"] == "default"
        assert isinstance(fit.flow, Mixture)


def test_the_evidence_agrees_with_plain_importance_sampling(fits):
    """From the prior's own scale: five joint standard errors, a false alarm in 1e6."""
    fit, target = fits[0], two_components(0)
    points = fit.draws.reshape(-1, 4)
    wide = Gaussian.from_moments(points.mean(axis=0), 2.0 * np.cov(points.T))
    (part,) = components_of(wide)
    drawn = part.sample(np.random.default_rng(0), 40_000)
    summed = ListedSum((part,), action_of(target.group))
    logs = target.log_folds(drawn) - summed.log_sum(drawn)
    weights = np.exp(logs - logs.max())
    value = math.log(weights.mean()) + logs.max()
    error = weights.std() / weights.mean() / math.sqrt(len(weights))
    assert abs(fit.log_evidence.value - value) < 5 * math.hypot(
        error, fit.log_evidence.standard_error
    )


def test_a_start_saves_the_training(fits):
    first = fits[0]
    warm = folt.sample(two_components(1), draws=200, start=first, progress=False)
    assert warm.flow.components == first.flow.components
    assert warm.accept_rate > 0.8


# Effort.


def test_efforts():
    quick, default, thorough = (getattr(folt.Effort, n)() for n in ("quick", "default", "thorough"))
    assert quick.certification_draws < default.certification_draws
    assert default.particles >= 1_000
    assert default.moves >= 10
    assert thorough.rounds is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.moves = 3
    with pytest.raises(ValueError, match="positive particles"):
        dataclasses.replace(quick, particles=0)


def test_wrong_efforts_are_refused():
    target = two_components(0)
    with pytest.raises(ValueError, match=r"folt\.Effort"):
        folt.sample(target, effort="fast", progress=False)
    with pytest.raises(ValueError, match="no effort with preset 'paper'"):
        folt.sample(target, effort=folt.Effort.quick(), preset="paper", progress=False)


def test_an_effort_sets_what_is_spent():
    brief = dataclasses.replace(folt.Effort.quick(), particles=200, moves=4, chains=32, draws=20)
    fit = folt.sample(two_components(0), draws=50, effort=brief, progress=False)
    assert fit.provenance["effort"] == "quick"
    assert fit.steps_per_draw <= 2


def test_a_cap_on_evaluations_cuts_every_count_and_more_of_them_lengthen_walks():
    default = folt.Effort.default()
    capped, roomy = default.within(30_000), default.within(10**9)
    for name in ("particles", "moves", "chains", "fresh", "certification_draws"):
        assert getattr(capped, name) < getattr(default, name)
        assert getattr(roomy, name) == getattr(default, name)
    assert capped.walk_steps < default.walk_steps < roomy.walk_steps
    assert capped.evaluations == 30_000
    with pytest.raises(ValueError, match="at least 5000 evaluations, got 10"):
        default.within(10)


def test_black_boxes_are_capped_unless_the_effort_is_the_users_own():
    box = folt.from_callable(lambda x: -np.sum(x**2), 4, Permutation(2, 2))
    own = dataclasses.replace(folt.Effort.default(), particles=2_000)
    for pace, cap in ((1e-6, 400_000), (2e-4, 400_000), (2e-3, 60_000), (0.02, 30_000)):
        assert Options().effort_for(box, pace).evaluations == cap
        assert Options().effort_for(box, 1.4 * pace).evaluations == cap  # a slow day
    assert Options(effort=folt.Effort.quick()).effort_for(box, 1.0).evaluations == 30_000
    assert Options(effort=own).effort_for(box, 1.0) is own
    assert Options(effort=folt.Effort.thorough()).effort_for(box, 1.0).evaluations is None
    assert Options().effort_for(two_components(0), 1.0) == folt.Effort.default()
    assert Options(evaluations=50_000).effort_for(two_components(0), 1.0).evaluations == 50_000


@pytest.mark.parametrize("name", EFFORTS)
def test_no_effort_saves_on_the_search_for_modes(name):
    """Ten moves per temperature on a ladder half as close lost a mode of 3 %, called good."""
    effort, sampler = EFFORTS[name](), Options().sampler_for(two_components(0), EFFORTS[name]())
    assert effort.particles >= 1_000
    assert effort.moves >= 10
    assert sampler.share >= 0.8
    assert sampler.descents >= 64


@pytest.mark.parametrize(
    ("rhat", "ess", "every", "before", "grows"),
    [
        (1.01, 5_000.0, 1, math.inf, False),
        (1.05, 5_000.0, 1, math.inf, True),
        (1.01, 500.0, 1, math.inf, True),
        (1.05, 500.0, 2, 1.2, False),
        (1.15, 500.0, 2, 1.3, True),
        (1.29, 500.0, 2, 1.3, False),
        (math.inf, 0.0, 2, math.inf, False),
    ],
)
def test_chains_run_on_while_a_doubt_lessens(rhat, ess, every, before, grows):
    """Once for agreement or worth; further only out of doubt, and never for chains that stick."""
    nothing = np.empty((1, 1, 1))
    record = host_chains._Record(nothing, nothing, nothing[..., 0], (rhat, ess, ()))
    assert record.should_grow(every, before) == grows
