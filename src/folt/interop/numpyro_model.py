"""A NumPyro model with its arguments, as functions of the values of its latent sites."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from numpyro import handlers, validation_enabled
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    Independent,
    Unit,
    constraints,
)
from numpyro.infer.util import compute_log_probs

from folt.interop.model import SiteValues, UnsummedTerms
from folt.interop.sites import Sites
from folt.types import Key, Point

Message = dict[str, Any]
"""What NumPyro records of one statement of a model."""

SiteTrace = dict[str, Message]

ONE_RUN_AT_A_TIME = threading.RLock()
"""NumPyro's handlers share one stack among all threads, and folt compiles in several."""


class Call(eqx.Module):
    """A model with its arguments, the arrays among them left out if they are the data."""

    model: Callable[..., object] = eqx.field(static=True)
    arguments: PyTree
    observed: tuple[str, ...] = eqx.field(static=True, default=())
    mixture: str | None = eqx.field(static=True, default=None)

    def log_terms(self, values: SiteValues, data: PyTree) -> UnsummedTerms:
        """Return the log density of every statement, at these values of the latent sites."""
        logs, trace = self.traced(values, data)
        found = UnsummedTerms({}, {}, {})
        for name, log in logs.items():
            factor = isinstance(trace[name]["fn"], Unit)
            of_its_kind = found.factors if factor else found.observed
            (found.priors if is_latent(trace[name]) else of_its_kind)[name] = log
        return found

    def component_terms(self, values: SiteValues, data: PyTree) -> Array:
        """Return the log weight plus log density of the mixture, (observation, component)."""
        assert self.mixture is not None
        site = self.traced(values, data)[1][self.mixture]
        terms = plain_base(site["fn"]).component_log_probs(site["value"])
        return jnp.reshape(terms, (-1, jnp.shape(terms)[-1]))

    def shown(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return latent and deterministic sites, in the order of the model."""
        _, trace = self.traced(values, data)
        return {
            name: jnp.asarray(site["value"])
            for name, site in trace.items()
            if is_latent(site) or site["type"] == "deterministic"
        }

    def observations(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return the values of the observed sites, which a factor has none of."""
        _, trace = self.traced(values, data)
        sites = {name: trace[name] for name in self.observed}
        return {
            name: jnp.asarray(site["value"])
            for name, site in sites.items()
            if not isinstance(site["fn"], Unit)
        }

    def completed(self, key: Key, values: SiteValues, data: PyTree) -> SiteValues:
        """Return all latent sites of a run of the model forwards."""
        trace = self.run(data, key, values)
        return {name: site["value"] for name, site in trace.items() if is_latent(site)}

    def transformed(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return the values: no site keeps a transform that its coordinate does not know."""
        return values

    def filled(self, data: PyTree) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
        """Return positional and keyword arguments, with the arrays put back."""
        if isinstance(self.arguments, Constants):
            return self.arguments.values
        return self.arguments if data is None else eqx.combine(data, self.arguments)

    def run(self, data: PyTree, key: Key, values: SiteValues | None = None) -> SiteTrace:
        """Run the model forwards from a key, with some sites given."""
        args, kwargs = self.filled(data)
        model = handlers.substitute(handlers.seed(self.model, key), data=values or {})
        with ONE_RUN_AT_A_TIME, validation_enabled(False):
            return handlers.trace(model).get_trace(*args, **kwargs)

    def traced(self, values: SiteValues, data: PyTree) -> tuple[SiteValues, SiteTrace]:
        """Return unsummed log densities by site, and the trace, at values of the latent sites."""
        args, kwargs = self.filled(data)
        model = handlers.seed(self.model, 0)
        # Arguments were validated when the sites were looked at; traced ones never can be.
        with ONE_RUN_AT_A_TIME, validation_enabled(False):
            return compute_log_probs(model, args, kwargs, values, False)


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


def split_call(
    model: Callable[..., object],
    arguments: PyTree,
    observed: tuple[str, ...],
    mixture: str | None = None,
) -> tuple[PyTree, Call]:
    """Return the arrays among the arguments as data, and the call without them.

    A model that needs the numbers themselves while it is traced, such as the largest group index
    for the size of a plate, keeps them: there is then no data to exchange.
    """
    arrays, rest = eqx.partition(arguments, _is_array)
    whole = Call(model, Constants(arguments), observed, mixture)
    if not jax.tree.leaves(arrays):
        return None, whole
    call = Call(model, rest, observed, mixture)

    def values(data: PyTree) -> list[PyTree]:
        trace = call.run(data, jax.random.key(0))
        return [site["value"] for site in trace.values() if site["type"] == "sample"]

    try:
        jax.eval_shape(values, arrays)
    except (NotImplementedError, *CONCRETE):  # the former by a prior that cannot be drawn from
        return None, whole
    return arrays, call


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (np.ndarray, jax.Array)) and leaf.dtype != object


class NumpyroPredictive(eqx.Module):
    """New values of the observed sites."""

    call: Call
    sites: Sites
    replicated: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, key: Key, x: Point, data: PyTree = None) -> SiteValues:
        """Draw one replicate of every observed site."""
        _, trace = self.call.traced(self.sites.push(x), data)
        keys = jax.random.split(key, len(self.replicated))
        return {
            name: _as_observed(trace[name]).sample(own)
            for name, own in zip(self.replicated, keys, strict=True)
        }


def _as_observed(site: Message) -> Distribution:
    """Return the distribution of all that was observed: without a plate it is that of one row."""
    function = site["fn"]
    shape = jnp.shape(site["value"])
    rows = shape[: len(shape) - function.event_dim]
    batch = jnp.broadcast_shapes(function.batch_shape, rows)
    return function if batch == function.batch_shape else function.expand(batch)


def plain_base(function: Any) -> Any:
    """Return a distribution without what plates and events wrap around it."""
    while isinstance(function, (Independent, ExpandedDistribution)):
        function = function.base_dist
    return function


def is_latent(site: Message) -> bool:
    """Return whether a site of a trace is a parameter."""
    return site["type"] == "sample" and not site["is_observed"]


def require_valid(functions: dict[str, tuple[Any, Any]]) -> None:
    """Refuse arguments of distributions that are wrong whatever the parameters are.

    NumPyro validates while a model is traced, which compiles dozens of small programs for matrices
    and learns nothing from parameters. So it is switched off there, and what does not depend on
    parameters is validated here, in NumPy.

    Raises:
        ValueError: naming the site, the distribution and the argument.
    """
    for name, pair in functions.items():
        both = (_nested(jax.tree.map(np.asarray, function)) for function in pair)
        for first, second in zip(*both, strict=True):
            others = second.get_args()
            for argument, value in first.get_args().items():
                constraint = first.arg_constraints[argument]
                fixed = np.array_equal(value, others[argument], equal_nan=True)
                if not fixed or constraints.is_dependent(constraint):
                    continue
                if not np.all(constraint(value)):
                    raise ValueError(
                        f"the {type(first).__name__} distribution of the site {name!r} has an "
                        f"invalid {argument}: {np.asarray(value)}"
                    )


def _nested(function: Any) -> list[Any]:
    """Return a distribution and those that it is made of."""
    found = [function]
    for value in vars(function).values():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            found += _nested(part) if isinstance(part, Distribution) else []
    return found
