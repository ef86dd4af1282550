"""Any function as a problem: NumPy code, a simulator, a likelihood behind a library call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, PyTree

from folt.groups import Group
from folt.models.observations import number_of
from folt.problem import Problem
from folt.problem.black_box import BlackBox, Gradient
from folt.types import Distribution


def from_callable(
    function: Callable[[np.ndarray], ArrayLike],
    dim: int,
    symmetry: Group,
    *,
    vectorized: bool = False,
    batch: int = 8192,
    workers: int = 1,
    gradient: Gradient | None = None,
    invariant: bool = True,
    prior: Distribution | None = None,
    names: Sequence[str] | None = None,
    constrain: Callable[[np.ndarray], dict[str, PyTree]] | None = None,
    unconstrain: Callable[..., PyTree] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Iterable[Any]] | None = None,
) -> Problem:
    """Return a problem whose log density is evaluated on the host, in batches.

    The reference run is then `folt.reference.HostChains`: tempered particles and chains in lock
    step, from the prior or, without one, from a search that needs no start. With a gradient the
    chains follow it and a fit may evaluate as often as one of a density in JAX; without one they
    walk at random, within the cap `evaluations=` of `folt.sample`.

    Args:
        function: log density, unnormalised: from a float64 point (dim,) to a number, or from
            points (n, dim) to n numbers if vectorized. -inf outside the support.
        dim: dimension of the point.
        symmetry: the group that leaves the function unchanged.
        vectorized: whether the function takes many points at once; far faster in NumPy.
        batch: most points handed to a vectorized function in one call.
        workers: processes that evaluate the function side by side, for calls that take
            milliseconds; they start with `folt.sample` and end with it. Same seed, same draws,
            whatever the number, unless a vectorized function lets the points of a batch touch
            each other. A script needs `if __name__ == "__main__":` around its work.
        gradient: from a point to its log density and gradient, `(value, (dim,))`, or from points
            to `((n,), (n, dim))` if vectorized. It is compared with differences of the function
            before anything else, and refused where it is wrong.
        invariant: False for a symmetry that does not hold exactly; the chain leaves the density
            invariant all the same.
        prior: a `Distribution` on R^dim to begin from.
        names: one name per coordinate.
        constrain: from one point to `{name: value}` in the parameters of interest, in NumPy.
        unconstrain: its inverse, so that draws made elsewhere can be used.
        dims: names of the axes of the parameters, `{name: (axis, ...)}`.
        coords: labels along named axes, `{axis: labels}`.

    Raises:
        ValueError: the group does not act on `dim` coordinates, or an argument is of the wrong
            kind.
    """
    if not callable(function):
        raise ValueError(f"expected a function, got {type(function).__name__}")
    if gradient is not None and not callable(gradient):
        raise ValueError(f"expected gradient to be a function, got {type(gradient).__name__}")
    for name, count in (("dim", dim), ("batch", batch), ("workers", workers)):
        number_of(name, count)
    black_box = BlackBox(function, vectorized, batch, workers, gradient)
    black_box.close()  # what cannot be sent to other processes is refused here
    if isinstance(symmetry, Group) and dim != symmetry.dim:
        raise ValueError(f"expected a group that acts on {dim} coordinates, got {symmetry.dim}")
    return Problem(
        black_box,
        symmetry,
        invariant=invariant,
        prior=prior,
        names=names,
        constrain=constrain,
        unconstrain=unconstrain,
        dims=dims,
        coords=coords,
    )
