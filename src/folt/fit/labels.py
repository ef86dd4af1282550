"""What a person reads as the label of an entry: what the user gave, or the number of a place.

Labels of an axis that relabelling permutes are places of the folded order. Read as names they
would mislead: nothing says that the component with the smallest mean is the first cultivar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from folt.fit.relabelling import SIGNS_BY, SORTED_BY

if TYPE_CHECKING:
    from folt.fit.fit import Fit


def has_labels(fit: Fit, axis: str) -> bool:
    """Return whether the labels of an axis are the user's, and not only positions.

    Files of older versions do not say it: there, what counts from zero is taken for positions.
    """
    labels = fit.coords.get(axis)
    if labels is None:
        return False
    return axis in fit.labelled or not np.array_equal(labels, np.arange(len(labels)))


def are_places(fit: Fit, axis: str) -> bool:
    """Return whether labels along an axis number places, and belong to nothing in particular.

    They do where relabelling permutes the axis, unless the user has chosen what it is sorted by.
    """
    if axis not in fit.exchanged_dims:
        return False
    order = fit.labels.partition(SIGNS_BY)[0]
    if not order.startswith(SORTED_BY):
        return True
    key = order.removeprefix(SORTED_BY)
    sorted_axes = [fit.dims[key][k] for k in fit.exchanged.get(key, ())] if key in fit.dims else []
    return bool(sorted_axes) and axis not in sorted_axes


def place_number(axis: str, i: int) -> str:
    """Return the place along an axis as a person counts it, such as `component 1`."""
    return f"{axis.removesuffix('_to')} {i + 1}"


def given_label(fit: Fit, axis: str, i: int) -> str | None:
    """Return the label that the user gave to an entry; None where it only has its place."""
    if not has_labels(fit, axis) or are_places(fit, axis):
        return None
    return str(fit.coords[axis][i])


def read_label(fit: Fit, axis: str, i: int) -> str | None:
    """Return the label as it stands in a sentence, where a bare number would say nothing."""
    label = given_label(fit, axis, i)
    if label is None or fit.coords[axis].dtype.kind not in "iufb":
        return label
    return f"{axis.removesuffix('_to')} {label}"


def axis_of_components(fit: Fit, count: int) -> str | None:
    """Return the axis along which a mixture of so many components has its weights.

    That is the axis of as many entries that relabelling permutes, before all that of weights; else
    one of weights. Another axis, such as that of the components that are alike among others, would
    number other things.
    """
    lengths: dict[str, int] = {}
    weights = []
    for name, axes in fit.dims.items():
        values = fit.posterior.get(name)
        if values is None or len(axes) != values.ndim - 2:
            continue
        lengths |= dict(zip(axes, values.shape[2:], strict=True))
        if len(axes) == 1 and (values >= 0.0).all() and np.allclose(values.sum(axis=-1), 1.0):
            weights.append(axes[0])
    permuted = [axis for axis in fit.exchanged_dims if not axis.endswith("_to")]
    among = [*(axis for axis in permuted if axis in weights), *permuted, *weights]
    return next((axis for axis in among if lengths.get(axis) == count), None)


def component_labels(fit: Fit, count: int) -> tuple[str, ...]:
    """Return labels of components for a table: those given, places where they name nothing.

    Where no labels were given they are positions, which count from zero as in `fit.posterior`.
    """
    axis = axis_of_components(fit, count)
    if axis is None or not has_labels(fit, axis):
        return tuple(map(str, range(count)))
    return tuple(given_label(fit, axis, k) or place_number(axis, k) for k in range(count))


def component_names(fit: Fit, count: int) -> tuple[str, ...]:
    """Return labels of components for a page: those given, or numbers from one."""
    axis = axis_of_components(fit, count)
    if axis is None or is_makeshift(axis, ""):
        return tuple(place_number("component", k) for k in range(count))
    return tuple(read_label(fit, axis, k) or place_number(axis, k) for k in range(count))


def is_makeshift(axis: str, name: str) -> bool:
    """Return whether a front-end made the name of an axis because the model gave none."""
    return "_dim_" in axis or axis in (name, f"{name}_dim")
