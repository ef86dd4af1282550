"""The sites of a NumPyro model: supports, priors, and which of them depend on others."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, ArrayLike, PyTree
from numpyro import handlers, validation_enabled
from numpyro.distributions import biject_to, constraints

from folt import coordinates
from folt.interop.coordinates import Beta, Bounds
from folt.interop.numpyro_model import (
    CONCRETE,
    ONE_RUN_AT_A_TIME,
    Message,
    SiteTrace,
    is_latent,
    plain_base,
    require_valid,
)
from folt.interop.sites import (
    Site,
    bounded_site,
    opaque_site,
    require_numbers,
    simplex_site,
    zero_sum_site,
)


@dataclasses.dataclass(frozen=True)
class Seen:
    """What two runs of a model at different parameters show of it.

    Attributes:
        latent: for every latent site its distribution in both runs.
        scaled: latent sites whose log density is multiplied by something.
        observed: names of the sites with observations that have terms of their own.
        replicated: those of them that can be drawn again.
        values: the observations.
        plates: for every site in a plate the names of its axes, None for those of no plate.
        mixture: the observed site that is a mixture, if there is just one.
    """

    latent: dict[str, tuple[Any, Any]]
    scaled: frozenset[str]
    observed: tuple[str, ...]
    replicated: tuple[str, ...]
    values: dict[str, PyTree]
    plates: dict[str, tuple[str | None, ...]]
    mixture: str | None = None

    def sites(self) -> list[Site]:
        """Return the latent sites as folt sees them."""
        return [_site(name, *both, name in self.scaled) for name, both in self.latent.items()]

    @property
    def proper(self) -> bool:
        """Whether every latent site's own density is a normalised prior one can draw from."""
        return not self.scaled and not any(
            isinstance(plain_base(function), (dist.ImproperUniform, dist.MaskedDistribution))
            for function, _ in self.latent.values()
        )

    def require_numbers(self) -> None:
        """Refuse NaN among the observations."""
        for name, given in self.values.items():
            require_numbers("site", name, given)


def two_runs(
    model: Callable[..., object], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> Seen:
    """Return two runs of the model, compiled as one program where that is possible.

    Raises:
        ValueError: a discrete latent site.
    """
    traces: list[SiteTrace] = []

    def both(wanted: Callable[[dict[str, Any]], bool]) -> Any:
        traces.clear()
        traces.extend(_traced(model, args, kwargs, seed) for seed in (0, 1))
        names = [name for name, site in traces[0].items() if wanted(site)]
        functions = {name: tuple(trace[name]["fn"] for trace in traces) for name in names}
        values = {name: site["value"] for name, site in traces[0].items() if _is_observation(site)}
        return functions, values

    # A distribution of one's own may not leave compiled code: then the latent ones alone, and
    # where those cannot, or numbers are needed while tracing, the model runs as it is.
    for wanted in (_is_sampled, is_latent):
        try:
            # NumPyro validates arguments by dozens of small programs even where it learns nothing.
            with validation_enabled(False):
                functions, values = jax.jit(functools.partial(both, wanted))()
            require_valid(functions)
            break
        except (TypeError, *CONCRETE):
            continue
    else:
        functions, values = both(is_latent)
    first = traces[0]
    terms = tuple(name for name, site in first.items() if _has_terms(site))
    return Seen(
        latent={name: functions[name] for name, site in first.items() if is_latent(site)},
        scaled=frozenset(
            n for n, site in first.items() if n in functions and site["scale"] is not None
        ),
        observed=terms,
        replicated=tuple(name for name in terms if not isinstance(first[name]["fn"], dist.Unit)),
        values=values,
        plates={name: _plates(site) for name, site in first.items() if any(_plates(site))},
        mixture=_mixture(first),
    )


def _mixture(trace: SiteTrace) -> str | None:
    """Return the observed site that is a mixture; None if there is none, or several."""
    kinds = (dist.MixtureSameFamily, dist.MixtureGeneral)
    found = [
        name
        for name, site in trace.items()
        if _is_observation(site) and isinstance(plain_base(site["fn"]), kinds)
    ]
    return found[0] if len(found) == 1 else None


def _plates(site: Message) -> tuple[str | None, ...]:
    """Return the plate along every axis of a sampled site; None along the axes of an event."""
    if not _is_sampled(site):
        return ()
    shape, batch = tuple(site["fn"].shape()), len(site["fn"].batch_shape)
    axes: list[str | None] = [None] * len(shape)
    for frame in site["cond_indep_stack"]:
        axis = batch + frame.dim
        if 0 <= axis < batch and shape[axis] == frame.size:
            axes[axis] = frame.name
    return tuple(axes)


def _is_sampled(site: Message) -> bool:
    return bool(site["type"] == "sample")


def _traced(
    model: Callable[..., object], args: tuple[PyTree, ...], kwargs: dict[str, PyTree], seed: int
) -> SiteTrace:
    """Return one run of the model at arbitrary values of the latent sites."""
    generator = np.random.default_rng(seed)

    def arbitrary(site: Message) -> ArrayLike | None:
        if not is_latent(site):
            return None
        if site["fn"].is_discrete:
            raise ValueError(
                f"the latent site {site['name']!r} is discrete: marginalise it, for a mixture with "
                "numpyro.distributions.MixtureSameFamily or MixtureGeneral"
            )
        return _arbitrary_value(generator, site["fn"])

    seeded = handlers.substitute(handlers.seed(model, seed), substitute_fn=arbitrary)
    with ONE_RUN_AT_A_TIME:
        return handlers.trace(seeded).get_trace(*args, **kwargs)


def _arbitrary_value(generator: np.random.Generator, function: Any) -> Any:
    """Return some value in the support, made without compiling where that is easy."""
    shape, support = tuple(function.shape()), _plain_support(function)
    if isinstance(support, type(constraints.simplex)):
        return generator.dirichlet(np.ones(shape[-1]), shape[:-1])
    bounds = _raw_bounds(support)
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
    """Return the support of one entry, or of one event that is not made of entries."""
    support = function.support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def _is_observation(site: Message) -> bool:
    return site["type"] == "sample" and site["is_observed"]


def _has_terms(site: Message) -> bool:
    """Return whether it is observed, with terms of its own, which a lone `numpyro.factor` lacks."""
    if not _is_observation(site):
        return False
    return not isinstance(site["fn"], dist.Unit) or site["fn"].batch_shape != ()


def _site(name: str, function: Any, other: Any, scaled: bool) -> Site:
    """Return a latent site as folt sees it; `other` is its distribution in another run."""
    shape = tuple(function.shape())
    if not _same(function.support, other.support):
        raise ValueError(
            f"the support of the latent site {name!r} depends on other sites: write it as a "
            "fixed-support site and transform it"
        )
    support = _plain_support(function)
    independent = not scaled and _same(function, other)
    if isinstance(support, type(constraints.simplex)):
        known = plain_base(function) if independent else None
        concentration = None
        if isinstance(known, dist.Dirichlet):
            concentration = np.broadcast_to(_np(known.concentration), shape)
        return simplex_site(name, shape, concentration)
    if isinstance(support, type(constraints.zero_sum(1))) and support.event_dim == 1:
        return zero_sum_site(name, shape)
    bounds = _bounds(support)
    if bounds is None:
        transform = biject_to(function.support)
        inner = tuple(transform.inverse_shape(shape))
        axes = tuple(range(len(function.batch_shape)))
        return opaque_site(name, inner, Bijected(transform), axes, _is_ordered(support))
    prior = _known_prior(function, shape) if independent else None
    return bounded_site(name, shape, bounds, prior)


def _is_ordered(support: Any) -> bool:
    kinds = (constraints.ordered_vector, constraints.positive_ordered_vector)
    return isinstance(support, tuple(type(kind) for kind in kinds))


class Bijected(eqx.Module):
    """One of NumPyro's own bijections, for supports without a coordinate of folt's."""

    transform: Any

    def push(self, x: Array) -> Array:
        """Return the constrained value."""
        return self.transform(x)

    def pull(self, value: Array) -> Array:
        """Return the unconstrained coordinates."""
        return self.transform._inverse(value)

    def log_slope(self, x: Array) -> Array:
        """Return the log Jacobian, one number per event."""
        return self.transform.log_abs_det_jacobian(x, self.transform(x))


def _raw_bounds(support: Any) -> tuple[Any, Any] | None:
    """Return the lower and upper bound of real values; None for a support of another kind."""
    if isinstance(support, type(constraints.real)):
        return None, None
    if isinstance(support, constraints.interval):
        return support.lower_bound, support.upper_bound
    if isinstance(support, constraints.greater_than):
        return support.lower_bound, None
    if isinstance(support, constraints.less_than):
        return None, support.upper_bound
    return None


def _bounds(support: Any) -> Bounds | None:
    raw = _raw_bounds(support)
    if raw is None:
        return None
    low, high = (None if bound is None else _np(bound) for bound in raw)
    return low, high


_KNOWN: dict[type, Callable[[Any], coordinates.Prior | Beta]] = {
    dist.Normal: lambda d: coordinates.Normal(_np(d.loc), _np(d.scale)),
    dist.LogNormal: lambda d: coordinates.LogNormal(_np(d.loc), _np(d.scale)),
    dist.Uniform: lambda d: coordinates.Uniform(_np(d.low), _np(d.high)),
    dist.HalfNormal: lambda d: coordinates.HalfNormal(_np(d.scale)),
    dist.HalfCauchy: lambda d: coordinates.HalfCauchy(_np(d.scale)),
    dist.Exponential: lambda d: coordinates.Exponential(1.0 / _np(d.rate)),
    dist.Laplace: lambda d: coordinates.Laplace(_np(d.loc), _np(d.scale)),
    dist.Logistic: lambda d: coordinates.Logistic(_np(d.loc), _np(d.scale)),
    dist.Cauchy: lambda d: coordinates.Cauchy(_np(d.loc), _np(d.scale)),
    dist.Gumbel: lambda d: coordinates.Gumbel(_np(d.loc), _np(d.scale)),
    dist.Beta: lambda d: Beta(_np(d.concentration1), _np(d.concentration0)),
}
"""Priors whose quantiles folt knows exactly, and one that it can draw from: NumPyro's own draws of
it go through Gamma variables one by one, a millisecond for 36 of them."""


def _known_prior(function: Any, shape: tuple[int, ...]) -> coordinates.Prior | Beta | None:
    """Return the prior of a site whose quantiles or draws are known; None for any other."""
    base = plain_base(function)
    if type(base) not in _KNOWN:
        return None
    prior = _KNOWN[type(base)](base)
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape), prior)


def _np(value: ArrayLike) -> np.ndarray:
    return np.asarray(value, float)


def _same(one: PyTree, other: PyTree) -> bool:
    """Return whether two pytrees hold equal numbers: a prior that no other site has moved."""
    first, second = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(first) == len(second) and all(
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(first, second, strict=True)
    )
