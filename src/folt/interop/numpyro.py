"""NumPyro models: sites traced, coordinates and symmetry found, data as leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from folt._types import Distribution, Key, Point, Scalar, in_float64
from folt.coordinates import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Logistic,
    LogNormal,
    Normal,
    Prior,
    Uniform,
)
from folt.interop.sites import (
    Exchangeable,
    SimplexRows,
    Site,
    Sites,
    arrange,
    known_coordinate,
)
from folt.problem import Problem, WithData

try:
    import numpyro.distributions as dist
    from numpyro import handlers
    from numpyro.distributions import biject_to, constraints
    from numpyro.infer.util import compute_log_probs
except ImportError as error:  # pragma: no cover
    raise ImportError("from_numpyro needs NumPyro: pip install 'folt[numpyro]'") from error

Trace = dict[str, dict[str, Any]]

ONE_RUN_AT_A_TIME = threading.RLock()
"""NumPyro's handlers share one stack among all threads, and folt compiles in several."""


@in_float64
def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    exchangeable: Exchangeable = "auto",
    **kwargs: Any,
) -> Problem:
    """A NumPyro model as a problem, with the symmetry it has.

    Every latent site gets coordinates in which relabelling is orthogonal: prior-normal ones where
    its prior is independent and has known quantiles, centred log-ratios for a simplex, logarithm,
    logit or identity otherwise. Arrays among the arguments become the problem's data, so that
    another data set of equal shape does not compile again (`problem.with_data`).

    Args:
        model: the model; discrete latent sites must be marginalised.
        *args: arguments of the model.
        exchangeable: names of the sites whose first axis is permuted together (transition
            matrices on both sides), which is then verified; "auto" looks for them; [] for none.
        **kwargs: keyword arguments of the model.

    Returns:
        A problem whose `constrain` gives latent and deterministic sites, with pointwise
        log-likelihood and posterior predictive for the observed ones.

    Raises:
        ValueError: a discrete latent site, unknown or unequal sites, NaN among the observations.
        SymmetryError: sites declared exchangeable that are not.
    """
    trace, other = (_traced(model, args, kwargs, seed) for seed in (0, 1))
    _require_observations(trace)
    latent = [name for name, site in trace.items() if _is_latent(site)]
    sites = [_site(trace[name], other[name]) for name in latent]
    data, call = _split(model, jax.tree.map(_on_host, (args, kwargs)))
    found = arrange(sites, exchangeable, lambda laid: ModelDensity(call, laid), data)
    density = ModelDensity(call, found.sites)
    observed = tuple(name for name, site in trace.items() if _is_observation(site))
    replicated = tuple(name for name in observed if not isinstance(trace[name]["fn"], dist.Unit))
    proper = all(_has_prior(trace[name]) for name in latent)
    return Problem(
        density,
        found.group,
        data=data,
        prior=ModelPrior(density, tuple(latent), data) if proper else None,
        names=found.sites.names(),
        constrain=WithData(Constrained(density)),
        unconstrain=density.sites.pull,
        pointwise=Pointwise(density, observed) if observed else None,
        predictive=Predictive(density, replicated) if replicated else None,
        dims=found.dims,
    )


class Call(eqx.Module):
    """A model with its arguments, the arrays among them left out if they are the data."""

    model: Callable[..., Any] = eqx.field(static=True)
    arguments: Any

    def filled(self, data: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments, with the arrays put back."""
        if isinstance(self.arguments, Constants):
            return self.arguments.values
        return self.arguments if data is None else eqx.combine(data, self.arguments)

    def run(self, data: Any, key: Key, values: dict[str, Array] | None = None) -> Trace:
        """The model run forwards from a key, with some sites given."""
        args, kwargs = self.filled(data)
        model = handlers.substitute(handlers.seed(self.model, key), data=values or {})
        with ONE_RUN_AT_A_TIME:
            return handlers.trace(model).get_trace(*args, **kwargs)


class Constants:
    """Arguments that compiled code takes as they are; not a pytree."""

    def __init__(self, values: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        self.values = values


CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
"""What JAX raises when a model asks for numbers while it is traced."""


def _split(model: Callable[..., Any], arguments: Any) -> tuple[Any, Call]:
    """The arrays among the arguments as data, and the call without them.

    A model that needs the numbers themselves while it is traced, such as the largest group index
    for the size of a plate, keeps them: there is then no data to exchange.
    """
    arrays, rest = eqx.partition(arguments, _is_array)
    if not jax.tree.leaves(arrays):
        return None, Call(model, Constants(arguments))
    call = Call(model, rest)

    def values(data: Any) -> list[Any]:
        trace = call.run(data, jax.random.key(0))
        return [site["value"] for site in trace.values() if site["type"] == "sample"]

    try:
        jax.eval_shape(values, arrays)
    except CONCRETE:
        return None, Call(model, Constants(arguments))
    return arrays, call


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, jax.Array)) and leaf.dtype != object


class ModelDensity(eqx.Module):
    """Log joint density of a model plus the log Jacobian of the coordinates."""

    call: Call
    sites: Sites

    def __call__(self, x: Point, data: Any = None) -> Scalar:
        """Log density at one point."""
        logs, _ = self.traced(x, data)
        return jnp.sum(jnp.stack(list(logs.values()))) + self.sites.log_slope(x)

    def traced(self, x: Point, data: Any, summed: bool = True) -> tuple[dict[str, Array], Trace]:
        """Log densities by site, and the trace, at the values of x."""
        args, kwargs = self.call.filled(data)
        model = handlers.seed(self.call.model, 0)
        values = self.sites.push(x)
        with ONE_RUN_AT_A_TIME:
            return compute_log_probs(model, args, kwargs, values, summed)


class ModelPrior(Distribution):
    """The prior of the latent sites, in the problem's coordinates."""

    density: ModelDensity
    latent: tuple[str, ...] = eqx.field(static=True)
    data: Any

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.density.sites.dim

    def log_prob(self, x: Point) -> Scalar:
        """Log densities of the latent sites plus the log Jacobian."""
        logs, _ = self.density.traced(x, self.data)
        total = jnp.sum(jnp.stack([logs[name] for name in self.latent]))
        return total + self.density.sites.log_slope(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """A run of the model forwards, sites with known priors drawn in their coordinates."""
        own_key, model_key = jax.random.split(key)
        known = self.density.sites.sample_known(own_key)
        values = {
            each.name: each.push(known[each.name])
            for each in self.density.sites.maps
            if each.name in known
        }
        trace = self.density.call.run(self.data, model_key, values)
        pieces = [
            known[each.name] if each.name in known else each.pull(trace[each.name]["value"])
            for each in self.density.sites.maps
        ]
        x = jnp.concatenate(pieces)
        return x, self.log_prob(x)


class Constrained(eqx.Module):
    """Latent and deterministic sites at a point."""

    density: ModelDensity

    def __call__(self, x: Point, data: Any = None) -> dict[str, Array]:
        """Values by name, in the order of the model."""
        _, trace = self.density.traced(x, data)
        return {
            name: jnp.asarray(site["value"])
            for name, site in trace.items()
            if _is_latent(site) or site["type"] == "deterministic"
        }


class Pointwise(eqx.Module):
    """Log-likelihood terms of the observed sites."""

    density: ModelDensity
    observed: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, x: Point, data: Any = None) -> dict[str, Array]:
        """One array of terms per observed site."""
        logs, _ = self.density.traced(x, data, summed=False)
        return {name: logs[name] for name in self.observed}


class Predictive(eqx.Module):
    """New values of the observed sites."""

    density: ModelDensity
    observed: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, key: Key, x: Point, data: Any = None) -> dict[str, Array]:
        """One replicate of every observed site."""
        _, trace = self.density.traced(x, data)
        keys = jax.random.split(key, len(self.observed))
        return {
            name: trace[name]["fn"].sample(own)
            for name, own in zip(self.observed, keys, strict=True)
        }


def _traced(model: Callable[..., Any], args: Any, kwargs: Any, seed: int) -> Trace:
    """One run of the model at arbitrary values of the latent sites."""
    generator = np.random.default_rng(seed)

    def arbitrary(site: dict[str, Any]) -> Any:
        if not _is_latent(site) or site["fn"].is_discrete:
            return None
        return _arbitrary_value(generator, site["fn"])

    seeded = handlers.substitute(handlers.seed(model, seed), substitute_fn=arbitrary)
    with ONE_RUN_AT_A_TIME:
        return handlers.trace(seeded).get_trace(*args, **kwargs)


def _arbitrary_value(generator: np.random.Generator, function: Any) -> Any:
    """Some value in the support, made without compiling where that is easy."""
    shape, support = tuple(function.shape()), _plain_support(function)
    if isinstance(support, type(constraints.simplex)):
        return generator.dirichlet(np.ones(shape[-1]), shape[:-1])
    bounds = _bounds(support)
    if bounds is None:
        transform = biject_to(function.support)
        return transform(generator.uniform(-1, 1, transform.inverse_shape(shape)))
    low, high = bounds
    if low is not None and high is not None:
        return low + (high - low) * generator.uniform(0.2, 0.8, shape)
    if low is not None:
        return low + generator.uniform(0.5, 1.5, shape)
    if high is not None:
        return high - generator.uniform(0.5, 1.5, shape)
    return generator.normal(size=shape)


def _plain_support(function: Any) -> Any:
    """The support of one entry, or of one event that is not made of entries."""
    support = function.support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def _is_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _is_observation(site: dict[str, Any]) -> bool:
    """Observed, with terms of its own: a lone `numpyro.factor` cannot be taken apart."""
    if site["type"] != "sample" or not site["is_observed"]:
        return False
    return not isinstance(site["fn"], dist.Unit) or site["fn"].batch_shape != ()


def _require_observations(trace: Trace) -> None:
    for name, site in trace.items():
        if site["type"] != "sample" or not site["is_observed"]:
            continue
        value = np.asarray(site["value"])
        if np.issubdtype(value.dtype, np.floating) and np.isnan(value).any():
            raise ValueError(
                f"the observed site {name!r} has {int(np.isnan(value).sum())} NaN: leave out "
                "missing observations or make them latent"
            )


def _has_prior(site: dict[str, Any]) -> bool:
    """Whether the site's own density is a normalised prior that can be drawn from."""
    base = _base(site["fn"])
    improper = isinstance(base, (dist.ImproperUniform, dist.MaskedDistribution))
    return site["scale"] is None and not improper


def _site(site: dict[str, Any], other: dict[str, Any]) -> Site:
    """A latent site as folt sees it; `other` is the same site in another run."""
    name, function = site["name"], site["fn"]
    if function.is_discrete:
        raise ValueError(
            f"the latent site {name!r} is discrete: marginalise it, for a mixture with "
            "numpyro.distributions.MixtureSameFamily or MixtureGeneral"
        )
    shape = tuple(function.shape())
    batch = len(function.batch_shape)
    if not _same(function.support, other["fn"].support):
        raise ValueError(
            f"the support of the latent site {name!r} depends on other sites: write it as a "
            "fixed-support site and transform it"
        )
    support = _plain_support(function)
    independent = site["scale"] is None and _same(function, other["fn"])
    if isinstance(support, type(constraints.simplex)):
        known = _base(function) if independent else None
        concentration = None
        if isinstance(known, dist.Dirichlet):
            concentration = np.broadcast_to(_np(known.concentration), shape)
        axes = tuple(range(len(shape) - 1))
        inner = (*shape[:-1], shape[-1] - 1)
        return Site(name, inner, SimplexRows(shape[-1], concentration), True, axes, False)
    bounds = _bounds(support)
    if bounds is None:
        transform = biject_to(function.support)
        inner = tuple(transform.inverse_shape(shape))
        return Site(name, inner, Bijected(transform), False, tuple(range(batch)), False)
    prior = known_prior(function, shape) if independent else None
    coordinate = known_coordinate(shape, *bounds, prior)
    axes = tuple(range(len(shape)))
    return Site(name, shape, coordinate, False, axes, bounds == (None, None))


class Bijected(eqx.Module):
    """One of NumPyro's own bijections, for supports without a coordinate of folt's."""

    transform: Any

    def push(self, x: Array) -> Array:
        """The constrained value."""
        return self.transform(x)

    def pull(self, value: Array) -> Array:
        """The unconstrained coordinates."""
        return self.transform._inverse(value)

    def log_slope(self, x: Array) -> Array:
        """Log Jacobian, one number per event."""
        return self.transform.log_abs_det_jacobian(x, self.transform(x))


def _bounds(support: Any) -> tuple[np.ndarray | None, np.ndarray | None] | None:
    """Lower and upper bound of real values; None for a support of another kind."""
    if isinstance(support, type(constraints.real)):
        return None, None
    if isinstance(support, constraints.interval):
        return _np(support.lower_bound), _np(support.upper_bound)
    if isinstance(support, constraints.greater_than):
        return _np(support.lower_bound), None
    if isinstance(support, constraints.less_than):
        return None, _np(support.upper_bound)
    return None


KNOWN: dict[type, Callable[[Any], Prior]] = {
    dist.Normal: lambda d: Normal(_np(d.loc), _np(d.scale)),
    dist.LogNormal: lambda d: LogNormal(_np(d.loc), _np(d.scale)),
    dist.Uniform: lambda d: Uniform(_np(d.low), _np(d.high)),
    dist.HalfNormal: lambda d: HalfNormal(_np(d.scale)),
    dist.HalfCauchy: lambda d: HalfCauchy(_np(d.scale)),
    dist.Exponential: lambda d: Exponential(1.0 / _np(d.rate)),
    dist.Laplace: lambda d: Laplace(_np(d.loc), _np(d.scale)),
    dist.Logistic: lambda d: Logistic(_np(d.loc), _np(d.scale)),
    dist.Cauchy: lambda d: Cauchy(_np(d.loc), _np(d.scale)),
    dist.Gumbel: lambda d: Gumbel(_np(d.loc), _np(d.scale)),
}
"""Priors whose quantiles folt knows exactly."""


def known_prior(function: Any, shape: tuple[int, ...]) -> Prior | None:
    """The prior of a site for prior-normal coordinates; None if its quantiles are not known."""
    base = _base(function)
    if type(base) not in KNOWN:
        return None
    prior = KNOWN[type(base)](base)
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape), prior)


def _base(function: Any) -> Any:
    while isinstance(function, (dist.Independent, dist.ExpandedDistribution)):
        function = function.base_dist
    return function


def _np(value: Any) -> np.ndarray:
    return np.asarray(value, float)


def _same(one: Any, other: Any) -> bool:
    """Whether two pytrees hold equal numbers: a prior that no other site has moved."""
    first, second = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(first) == len(second) and all(
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(first, second, strict=True)
    )


def _on_host(leaf: Any) -> Any:
    """JAX arrays as NumPy arrays, so that precision does not depend on where they were made."""
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf
