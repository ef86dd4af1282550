"""NumPyro models: sites traced, coordinates and symmetry found, data as leaves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from folt.interop.arrange import Exchangeable, arrange, problem_of, warn_without_data
from folt.interop.numpyro_model import NumpyroPredictive, split_call
from folt.interop.numpyro_sites import two_runs
from folt.problem import Problem
from folt.problem.named_values import Naming, SortKey
from folt.types import in_float64


@in_float64
def from_numpyro(
    model: Callable[..., object],
    *args: PyTree,
    exchangeable: Exchangeable = "auto",
    allow_rotation: bool = False,
    sort_by: str | SortKey | None = None,
    sign: str | None = None,
    **kwargs: PyTree,
) -> Problem:
    """Return a NumPyro model as a problem, with the symmetry it has.

    Every latent site gets coordinates in which relabelling is orthogonal: prior-normal ones where
    its prior is independent and has known quantiles, centred scores for a simplex, logarithm,
    scores between two bounds, or identity otherwise. Five or more exchangeable weights of a
    mixture get a free total, which leaves the evidence as it is. Arrays among the arguments,
    columns of pandas and lists of numbers become the problem's data, so that another data set of
    equal shape does not compile again (`problem.with_data`).

    Args:
        model: the model; discrete latent sites must be marginalised.
        *args: arguments of the model.
        exchangeable: names of the sites whose first axis is permuted together (transition
            matrices on both sides), which is then verified; `{name: slice}` where only some
            entries are alike; "auto" looks for them; [] for none.
        allow_rotation: leave rotations of labels into each other in the posterior, such as those of
            a factor model with Gaussian loadings, and fold signed permutations alone; by default
            they are divided out.
        sort_by: what labels are sorted by instead of the order of the fold: the name of a site with
            one number per label, or a function as for `Fit.relabelled`.
        sign: "largest", or a coordinate such as "loadings[0,1]" that is made positive, where signs
            may be flipped.
        **kwargs: keyword arguments of the model.

    Returns:
        A problem whose `constrain` gives latent and deterministic sites, with pointwise
        log-likelihood and posterior predictive for the observed ones. `symmetry_found` holds
        what was tried, what was found and what nearly held.

    Warns:
        UserWarning: nothing is folded although the model has repeated structure.

    Raises:
        ValueError: a discrete latent site, unknown or unequal sites, NaN among the observations.
        SymmetryError: sites declared exchangeable that are not.
        RotationError: a continuous rotation symmetry that cannot be divided out.
    """
    if not callable(model):
        raise ValueError(f"expected a NumPyro model, a function, got {type(model).__name__}")
    args, kwargs = jax.tree.map(_as_array, (args, kwargs), is_leaf=_is_list_of_numbers)
    shown = two_runs(model, args, kwargs)
    shown.require_numbers()
    data, call = split_call(
        model, jax.tree.map(_on_host, (args, kwargs)), shown.observed, shown.mixture
    )
    sites = shown.sites()
    forgotten = _forgotten(model, args, kwargs, [site.name for site in sites])
    if forgotten or not shown.values:
        warn_without_data(sites, forgotten)
    found = arrange(sites, exchangeable, call, data, "numpyro")
    predictive = (
        NumpyroPredictive(call, found.sites, shown.replicated) if shown.replicated else None
    )
    return problem_of(
        call,
        found,
        data,
        proper=shown.proper,
        allow_rotation=allow_rotation,
        predictive=predictive,
        dims=shown.plates,
        components=call if shown.mixture else None,
        naming=Naming(sort_by, sign),
    )


def _forgotten(
    model: Callable[..., object],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
    latent: Sequence[str],
) -> list[str]:
    """Return latent sites named like an argument that is None: observed, had it been given."""
    try:
        given = inspect.signature(model).bind(*args, **kwargs)
    except (TypeError, ValueError):  # not a function that tells its arguments
        return []
    given.apply_defaults()
    return [name for name in latent if name in given.arguments and given.arguments[name] is None]


def _is_list_of_numbers(node: object) -> bool:
    """Whether this is a list of numbers, or a table of them as a list of rows of one length."""
    if not isinstance(node, list) or not node:
        return False
    rows = node if all(isinstance(row, list | tuple) for row in node) else [node]
    same = len({len(row) for row in rows}) == 1
    return same and all(isinstance(one, int | float | np.number) for row in rows for one in row)


def _as_array(leaf: object) -> object:
    """Return the numbers of a list or of pandas, which JAX does not take; the rest as it is.

    Raises:
        ValueError: it holds something else than numbers.
    """
    if isinstance(leaf, list):
        return np.asarray(leaf)
    if type(leaf).__module__.partition(".")[0] != "pandas" or not hasattr(leaf, "to_numpy"):
        return leaf
    values = leaf.to_numpy()
    if values.dtype.kind not in "fiub":
        raise ValueError(
            f"expected numbers as data of the model, got a pandas {type(leaf).__name__} of "
            f"{values.dtype}"
        )
    return values


def _on_host(leaf: object) -> object:
    """Copy arrays to NumPy, so that their precision does not depend on where they were.

    JAX remembers by identity the buffer of an array that compiled code closed over; a sampler that
    ran before in single precision would leave its buffer to the same array here.
    """
    return np.array(leaf) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf
