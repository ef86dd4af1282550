"""The tools, each as its documentation recommends: from a problem and a seed to draws.

All of them see the same log density in the same unconstrained coordinates. Tools that start from a
prior get a normal one that is half again as wide as the problem's own in every coordinate; what is
left of the prior is part of their likelihood, so that log Z is the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from folt.problem import Problem

CHAINS, WARMUP, DRAWS = 4, 1_000, 5_000


@dataclasses.dataclass
class Run:
    """What a tool made.

    Attributes:
        draws: (chain, draw, dim), any labels; equally weighted.
        effective: independent draws that they are worth, where the tool says so; None to look.
        evaluations: log densities and gradients, where they can be counted.
        log_evidence: log Z with its claimed error, where the tool has one.
    """

    draws: np.ndarray
    effective: float | None = None
    evaluations: int | None = None
    log_evidence: tuple[float, float | None] | None = None


class Base(NamedTuple):
    """A normal distribution about as wide as the prior, coordinate by coordinate."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, problem: Problem, seed: int) -> Base:
        """From draws of the problem's prior."""
        prior = problem.prior
        if prior is None:
            raise ValueError("this tool starts from a prior, and the problem has none")
        keys = jax.random.split(jax.random.key(seed), 2_000)
        points = np.asarray(jax.vmap(lambda key: prior.sample_and_log_prob(key)[0])(keys))
        return cls(points.mean(axis=0), 1.5 * points.std(axis=0))

    def log_prob(self, x: Any) -> Any:
        """Log density, of JAX or NumPy points."""
        z = (x - self.mean) / self.deviation
        constant = np.log(self.deviation).sum() + 0.5 * len(self.mean) * math.log(2 * math.pi)
        return -0.5 * (z**2).sum(axis=-1) - constant


def folt_default(problem: Problem, seed: int) -> Run:
    """`folt.sample(problem)`, default effort."""
    import folt

    fit = folt.sample(problem, seed=seed, progress=False)
    evidence = fit.log_evidence
    return Run(
        fit.draws,
        evaluations=sum(fit.evaluations.values()),
        log_evidence=(evidence.value, evidence.standard_error),
    )


def nuts(problem: Problem, seed: int) -> Run:
    """NumPyro's NUTS, 4 vectorised chains, 1000 + 5000 iterations, defaults; folded afterwards."""
    return _nuts(problem.log_prob, problem.dim, seed)


def nuts_ordered(problem: Problem, seed: int) -> Run:
    """The same with the coordinates by which components are sorted kept in ascending order."""
    from numpyro.distributions.transforms import OrderedTransform

    keys = jax.jacobian(problem.group.sort_keys)(jnp.zeros(problem.dim))
    places, ordered = np.asarray(keys).argmax(axis=1), OrderedTransform()

    def push(y: jax.Array) -> jax.Array:
        return y.at[places].set(ordered(y[places]))

    def log_density(y: jax.Array) -> jax.Array:
        own = y[places]
        return problem.log_prob(push(y)) + ordered.log_abs_det_jacobian(own, ordered(own))

    run = _nuts(log_density, problem.dim, seed)
    return dataclasses.replace(run, draws=np.asarray(jax.vmap(jax.vmap(push))(run.draws)))


def _nuts(log_density: Callable[[Any], Any], dim: int, seed: int) -> Run:
    from numpyro.infer import MCMC, NUTS

    sampler = MCMC(
        NUTS(potential_fn=lambda x: -log_density(x)),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = np.random.default_rng(seed).normal(size=(CHAINS, dim))
    fields = ("num_steps",)
    sampler.run(jax.random.key(seed), init_params=jnp.asarray(start), extra_fields=fields)
    steps = np.asarray(sampler.get_extra_fields(group_by_chain=True)["num_steps"])
    # The warm-up's steps are not recorded: they are counted as if like the others.
    evaluations = int(steps.sum() * (1 + WARMUP / DRAWS))
    return Run(np.asarray(sampler.get_samples(group_by_chain=True)), evaluations=evaluations)


def nutpie(problem: Problem, seed: int) -> Run:
    """nutpie 4 chains, 1000 + 5000 iterations, defaults, the density compiled by JAX."""
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    gradient = jax.jit(jax.value_and_grad(problem.log_prob))

    def make_log_density() -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        def log_density(x: np.ndarray) -> tuple[float, np.ndarray]:
            with jax.enable_x64(True):
                value, slope = gradient(x)
                return float(value), np.asarray(slope, np.float64)

        return log_density

    def make_expand(*_: Any) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        return lambda x: {"x": np.asarray(x)}

    model = from_pyfunc(
        problem.dim,
        make_log_density,
        make_expand,
        [np.dtype(np.float64)],
        [(problem.dim,)],
        ["x"],
    )
    trace = nutpie.sample(
        model, tune=WARMUP, draws=DRAWS, chains=CHAINS, seed=seed, progress_bar=False
    )
    steps = int(np.asarray(trace.sample_stats["n_steps"]).sum() * (1 + WARMUP / DRAWS))
    return Run(np.asarray(trace.posterior["x"]), evaluations=steps)


def tempered_smc(problem: Problem, seed: int) -> Run:
    """BlackJAX adaptive tempered SMC: 2000 particles, target ESS .5, 10 HMC moves of 10 steps.

    Before every temperature the metric is made anew from the particles, as BlackJAX's guide to
    tuning inner kernels advises, and the step size follows the acceptance of the temperature
    before, towards .65: a cloud with several modes is much wider than each of them.
    """
    import blackjax
    import blackjax.smc.resampling as resampling

    base, particles, moves, path = Base.of(problem, seed), 2_000, 10, 10

    def algorithm(variances: Any, step_size: Any) -> Any:
        parameters = {
            "step_size": jnp.full(1, step_size),
            "inverse_mass_matrix": variances[None],
            "num_integration_steps": jnp.full(1, path),
        }
        return blackjax.adaptive_tempered_smc(
            base.log_prob,
            lambda x: problem.log_prob(x) - base.log_prob(x),
            blackjax.hmc.build_kernel(),
            blackjax.hmc.init,
            parameters,
            resampling.systematic,
            0.5,
            num_mcmc_steps=moves,
        )

    @jax.jit
    def step(key: jax.Array, state: Any, step_size: Any) -> Any:
        return algorithm(state.particles.var(axis=0), step_size).step(key, state)

    generator = np.random.default_rng(seed)
    start = base.mean + base.deviation * generator.normal(size=(particles, problem.dim))
    step_size = 0.5 * problem.dim**-0.25
    state = algorithm(jnp.asarray(base.deviation**2), step_size).init(jnp.asarray(start))
    key, log_z, rounds = jax.random.key(seed), 0.0, 0
    while float(_temperature(state)) < 1.0:
        key, own = jax.random.split(key)
        state, facts = step(own, state, step_size)
        step_size *= math.exp(float(facts.update_info.acceptance_rate.mean()) - 0.65)
        log_z, rounds = log_z + float(facts.log_likelihood_increment), rounds + 1
    draws = np.asarray(state.particles)[None]
    count = particles * (1 + rounds * moves * path)
    return Run(draws, effective=particles, evaluations=count, log_evidence=(log_z, None))


def _temperature(state: Any) -> Any:
    return state.tempering_param if hasattr(state, "tempering_param") else state.lmbda


def flowmc(problem: Problem, seed: int) -> Run:
    """flowMC's bundle of splines and MALA: 20 chains, 50 + 50 steps, 20 + 20 loops, 10 epochs."""
    from flowMC.resource_strategy_bundle.RQSpline_MALA import RQSpline_MALA_Bundle
    from flowMC.Sampler import Sampler

    chains, steps, loops = 20, 50, 20
    key, own = jax.random.split(jax.random.key(seed))
    bundle = RQSpline_MALA_Bundle(
        own,
        chains,
        problem.dim,
        lambda x, data: problem.log_prob(x),
        n_local_steps=steps,
        n_global_steps=steps,
        n_training_loops=loops,
        n_production_loops=loops,
        n_epochs=10,
    )
    sampler = Sampler(
        n_dim=problem.dim,
        n_chains=chains,
        rng_key=key,
        resource_strategy_bundles=bundle,
        checkpoint_interval=0,
    )
    sampler.sample(jnp.asarray(np.random.default_rng(seed).normal(size=(chains, problem.dim))), {})
    draws = np.asarray(sampler.resources["positions_production"].data)
    return Run(draws, evaluations=2 * loops * chains * 2 * steps)


def pocomc(problem: Problem, seed: int) -> Run:
    """pocoMC with its defaults: 512 effective, 256 active particles."""
    import pocomc as poco
    from scipy.stats import norm

    base, values = Base.of(problem, seed), _values(problem)
    pairs = zip(base.mean, base.deviation, strict=True)
    sampler = poco.Sampler(
        poco.Prior([norm(mean, deviation) for mean, deviation in pairs]),
        lambda x: values(x) - base.log_prob(x),
        vectorize=True,
        random_state=seed,
    )
    sampler.run(progress=False)
    draws, weights, *_ = sampler.posterior()
    calls, (log_z, error) = int(sampler.calls), sampler.evidence()
    return _weighted(draws, weights, seed, calls, (float(log_z), float(error)))


def dynesty(problem: Problem, seed: int) -> Run:
    """dynesty's static nested sampling: 500 live points, random walks; defaults otherwise."""
    import dynesty as nested
    from scipy.special import ndtri

    base, values = Base.of(problem, seed), _values(problem, 1)

    def log_likelihood(x: np.ndarray) -> float:
        return float(values(x[None])[0] - base.log_prob(x))

    sampler = nested.NestedSampler(
        log_likelihood,
        lambda u: base.mean + base.deviation * ndtri(u),
        problem.dim,
        sample="rwalk",
        rstate=np.random.default_rng(seed),
    )
    sampler.run_nested(print_progress=False)
    found = sampler.results
    evidence = float(found.logz[-1]), float(found.logzerr[-1])
    weights = np.exp(found.logwt - found.logz[-1])
    return _weighted(found.samples, weights, seed, int(np.sum(found.ncall)), evidence)


def _values(problem: Problem, block: int = 256) -> Callable[[np.ndarray], np.ndarray]:
    """The density for many NumPy points, compiled for one size of block."""
    mapped = jax.jit(jax.vmap(problem.log_prob))

    def values(points: np.ndarray) -> np.ndarray:
        found = []
        with jax.enable_x64(True):
            for start in range(0, len(points), block):
                rows = np.minimum(np.arange(start, start + block), len(points) - 1)
                found.append(np.asarray(mapped(np.asarray(points, np.float64)[rows])))
        values = np.concatenate(found)[: len(points)]
        return np.where(np.isnan(values), -np.inf, values)

    return values


def _weighted(
    points: np.ndarray,
    weights: np.ndarray,
    seed: int,
    calls: int,
    evidence: tuple[float, float],
) -> Run:
    """Equally weighted draws of weighted ones; their worth is Kish's effective size."""
    shares = np.asarray(weights, float) / np.sum(weights)
    effective = float(1.0 / np.sum(shares**2))
    chosen = np.random.default_rng(seed).choice(len(points), 4_000, p=shares)
    return Run(np.asarray(points)[chosen][None], effective, calls, evidence)


TOOLS: dict[str, Callable[[Problem, int], Run]] = {
    "folt": folt_default,
    "nuts": nuts,
    "ordered": nuts_ordered,
    "nutpie": nutpie,
    "smc": tempered_smc,
    "flowmc": flowmc,
    "pocomc": pocomc,
    "dynesty": dynesty,
}
