"""NumPyro models as functions of a point: density, prior, values, terms, replicates."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.interop.sites import Sites, uneven_sum
from folt.types import Distribution, Key, Point, Scalar

try:
    from numpyro import handlers, validation_enabled
    from numpyro.distributions import Unit
    from numpyro.infer.util import compute_log_probs
except ImportError as error:  # pragma: no cover
    raise ImportError("from_numpyro needs NumPyro: pip install 'folt[numpyro]'") from error

Message = dict[str, Any]
"""What NumPyro records of one statement of a model."""

Trace = dict[str, Message]

ONE_RUN_AT_A_TIME = threading.RLock()
"""NumPyro's handlers share one stack among all threads, and folt compiles in several."""


class Call(eqx.Module):
    """A model with its arguments, the arrays among them left out if they are the data."""

    model: Callable[..., object] = eqx.field(static=True)
    arguments: PyTree

    def filled(self, data: PyTree) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
        """Positional and keyword arguments, with the arrays put back."""
        if isinstance(self.arguments, Constants):
            return self.arguments.values
        return self.arguments if data is None else eqx.combine(data, self.arguments)

    def run(self, data: PyTree, key: Key, values: dict[str, Array] | None = None) -> Trace:
        """The model run forwards from a key, with some sites given."""
        args, kwargs = self.filled(data)
        model = handlers.substitute(handlers.seed(self.model, key), data=values or {})
        with ONE_RUN_AT_A_TIME, validation_enabled(False):
            return handlers.trace(model).get_trace(*args, **kwargs)


class Constants:
    """Arguments that compiled code takes as they are; not a pytree."""

    def __init__(self, values: tuple[tuple[PyTree, ...], dict[str, PyTree]]) -> None:
        self.values = values


CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
"""What JAX raises when a model asks for numbers while it is traced."""


def split_call(model: Callable[..., object], arguments: PyTree) -> tuple[PyTree, Call]:
    """The arrays among the arguments as data, and the call without them.

    A model that needs the numbers themselves while it is traced, such as the largest group index
    for the size of a plate, keeps them: there is then no data to exchange.
    """
    arrays, rest = eqx.partition(arguments, _is_array)
    if not jax.tree.leaves(arrays):
        return None, Call(model, Constants(arguments))
    call = Call(model, rest)

    def values(data: PyTree) -> list[PyTree]:
        trace = call.run(data, jax.random.key(0))
        return [site["value"] for site in trace.values() if site["type"] == "sample"]

    try:
        jax.eval_shape(values, arrays)
    except CONCRETE:
        return None, Call(model, Constants(arguments))
    return arrays, call


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (np.ndarray, jax.Array)) and leaf.dtype != object


class ModelDensity(eqx.Module):
    """Log joint density of a model plus the log Jacobian of the coordinates."""

    call: Call
    sites: Sites

    def __call__(self, x: Point, data: PyTree = None) -> Scalar:
        """Log density at one point."""
        logs, _ = self.traced(x, data)
        return jnp.sum(jnp.stack(list(logs.values()))) + self.sites.log_slope(x)

    def terms(self, x: Point, data: PyTree = None, uneven: bool = False) -> Float[Array, " terms"]:
        """Log density of every latent site in its coordinates, then that of all the rest.

        With `uneven` the terms of an observed site are summed with unequal weights.
        """
        logs, trace = self.traced(x, data, summed=False)
        slopes = self.sites.log_slopes(x)
        priors = [jnp.sum(logs.pop(name)) + slope for name, slope in slopes.items()]
        rest = [
            uneven_sum(each) if uneven and not isinstance(trace[name]["fn"], Unit) else each.sum()
            for name, each in logs.items()
        ]
        return jnp.stack([*priors, sum(rest, jnp.zeros(()))])

    def traced(self, x: Point, data: PyTree, summed: bool = True) -> tuple[dict[str, Array], Trace]:
        """Log densities by site, and the trace, at the values of x."""
        args, kwargs = self.call.filled(data)
        model = handlers.seed(self.call.model, 0)
        values = self.sites.push(x)
        # Arguments were validated when the sites were looked at; traced ones never can be.
        with ONE_RUN_AT_A_TIME, validation_enabled(False):
            return compute_log_probs(model, args, kwargs, values, summed)


class ModelPrior(Distribution):
    """The prior of the latent sites, in the problem's coordinates."""

    density: ModelDensity
    latent: tuple[str, ...] = eqx.field(static=True)
    data: PyTree

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
        x = self.density.sites.joined(
            [
                known[each.name] if each.name in known else each.pull(trace[each.name]["value"])
                for each in self.density.sites.maps
            ]
        )
        return x, self.log_prob(x)


class Constrained(eqx.Module):
    """Latent and deterministic sites at a point."""

    density: ModelDensity

    def __call__(self, x: Point, data: PyTree = None) -> dict[str, Array]:
        """Values by name, in the order of the model."""
        _, trace = self.density.traced(x, data)
        return {
            name: jnp.asarray(site["value"])
            for name, site in trace.items()
            if is_latent(site) or site["type"] == "deterministic"
        }


class Pointwise(eqx.Module):
    """Log-likelihood terms of the observed sites."""

    density: ModelDensity
    observed: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, x: Point, data: PyTree = None) -> dict[str, Array]:
        """One array of terms per observed site."""
        logs, _ = self.density.traced(x, data, summed=False)
        return {name: logs[name] for name in self.observed}


class Predictive(eqx.Module):
    """New values of the observed sites."""

    density: ModelDensity
    observed: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, key: Key, x: Point, data: PyTree = None) -> dict[str, Array]:
        """One replicate of every observed site."""
        _, trace = self.density.traced(x, data)
        keys = jax.random.split(key, len(self.observed))
        return {
            name: trace[name]["fn"].sample(own)
            for name, own in zip(self.observed, keys, strict=True)
        }


def is_latent(site: Message) -> bool:
    """Whether a site of a trace is a parameter."""
    return site["type"] == "sample" and not site["is_observed"]
