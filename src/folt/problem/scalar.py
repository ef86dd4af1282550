"""A log density takes one point and returns one number; asked without evaluating it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from folt.problem.problem import Problem
from folt.types import Scalar


def require_scalar(problem: Problem) -> None:
    """Raise unless the log density takes a point of R^dim and returns one real number.

    Raises:
        ValueError: with the expected and the received shape or type.
    """
    if problem.black_box is not None:
        problem.black_box.values(np.zeros((1, problem.dim)))
        return
    point = jax.ShapeDtypeStruct((problem.dim,), jnp.float64)
    arguments = (point,) if problem.data is None else (point, problem.data)
    try:
        with _indices_checked():
            result = eqx.filter_eval_shape(_call, problem.log_density, arguments)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"the log density cannot be evaluated at a point of shape ({problem.dim},), the "
            f"dimension of the group: {error}"
        ) from error
    shape, dtype = getattr(result, "shape", None), getattr(result, "dtype", type(result).__name__)
    if shape != () or not jnp.issubdtype(result.dtype, jnp.floating):
        raise ValueError(
            f"the log density must return one real number of shape (), "
            f"got shape {shape} and type {dtype}"
        )


@contextlib.contextmanager
def _indices_checked() -> Iterator[None]:
    """JAX reads x[5] of two coordinates as x[1] unless it is told to check.

    The switch is global: what another thread traces meanwhile is checked too, and nothing else.
    """
    before = jax.config.values["jax_check_static_indices"]
    jax.config.update("jax_check_static_indices", True)
    try:
        yield
    finally:
        jax.config.update("jax_check_static_indices", before)


@eqx.filter_jit
def _call(log_density: Callable[..., Scalar], arguments: tuple[PyTree, ...]) -> PyTree:
    """Compiled code remembers the shapes it has seen: the density is not traced again for them."""
    return log_density(*arguments)
