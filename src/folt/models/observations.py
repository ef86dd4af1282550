"""What every model asks of its data: finite numbers, enough of them, and not all the same."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


class Spread(NamedTuple):
    """Middle and width of the observed values, per variable: what default priors are made of."""

    middle: Float[np.ndarray, "*variables"]
    width: Float[np.ndarray, "*variables"]


def series(data: ArrayLike, groups: int, word: str = "components") -> Float[np.ndarray, " n"]:
    """One-dimensional observations, at least as many as components.

    Raises:
        ValueError: saying what is wrong with the data.
    """
    values = _numbers(data)
    if values.ndim != 1:
        raise ValueError(
            f"expected one-dimensional observations, got an array of shape {values.shape}"
        )
    return _checked(values, groups, word)


def table(data: ArrayLike, groups: int, word: str = "components") -> Float[np.ndarray, "n p"]:
    """Observations in rows, variables in columns, at least as many rows as components.

    Raises:
        ValueError: saying what is wrong with the data.
    """
    values = _numbers(data)
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(
            "expected a table of observations with one column per variable, "
            f"got an array of shape {values.shape}"
        )
    return _checked(values, groups, word)


def counts(data: ArrayLike, groups: int, word: str = "components") -> Float[np.ndarray, " n"]:
    """Non-negative whole numbers.

    Raises:
        ValueError: saying what is wrong with the data.
    """
    values = series(data, groups, word)
    faults = {
        "negative": values < 0,
        "fractional": values != np.round(values),
        "inexact": values > 2.0**53,  # neighbours of such numbers are the same in double precision
    }
    for fault, wrong in faults.items():
        if np.any(wrong):
            place = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"counts must be whole numbers from zero upwards, got the {fault} value "
                f"{values[place]:g} at index {place}"
            )
    return values


def spread(values: Float[np.ndarray, " n *variables"]) -> Spread:
    """Midrange and range of every variable.

    Raises:
        ValueError: a variable is constant, so that its range says nothing about scales.
    """
    low, high = values.min(axis=0), values.max(axis=0)
    constant = np.flatnonzero(np.atleast_1d(high == low))
    if constant.size:
        which = "all observations" if values.ndim == 1 else f"all values of column {constant[0]}"
        raise ValueError(
            f"{which} are equal to {np.atleast_1d(low)[constant[0]]:g}: no spread can be "
            "estimated from constant data"
        )
    with np.errstate(over="ignore"):
        found = Spread(low / 2 + high / 2, high - low)
    if not np.all(np.isfinite(found.width)):
        raise ValueError(
            f"the observations reach from {np.min(low):g} to {np.max(high):g}, further than double "
            "precision can subtract: give them in other units"
        )
    return found


def number_of(word: str, value: object) -> int:
    """A positive whole number of components, states or factors.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{word} must be a positive whole number, got {value!r}")
    return int(value)


def positive(**values: ArrayLike) -> None:
    """Refuse prior options that are not positive and finite.

    Raises:
        ValueError: naming the option.
    """
    for name, value in values.items():
        array = np.asarray(value, float)
        if not (np.all(np.isfinite(array)) and np.all(array > 0)):
            raise ValueError(f"{name} must be positive and finite, got {array}")


def finite(**values: ArrayLike) -> None:
    """Refuse prior options that are not finite.

    Raises:
        ValueError: naming the option.
    """
    for name, value in values.items():
        array = np.asarray(value, float)
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite, got {array}")


def _numbers(data: ArrayLike) -> np.ndarray:
    if np.ma.isMaskedArray(data) and np.ma.getmaskarray(data).any():
        raise ValueError("observations are missing: drop masked values, folt does not impute them")
    try:
        array = np.asarray(data)
        if array.dtype.kind not in "fiubO":
            raise TypeError
        return np.array(array, float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"observations must be numbers, got {_kind_of(data)} that cannot be read as such"
        ) from error


def _kind_of(data: ArrayLike) -> str:
    dtype = getattr(data, "dtype", None)
    return f"{type(data).__name__}" + (f" of {dtype}" if dtype is not None else "")


def _checked(values: np.ndarray, groups: int, word: str) -> np.ndarray:
    if not np.all(np.isfinite(values)):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        index = place[0] if len(place) == 1 else place
        value = values[place]
        advice = "is missing (NaN): drop it, folt does not impute" if math.isnan(value) else "is"
        ending = "" if math.isnan(value) else f" {value}, expected a finite number"
        raise ValueError(f"the observation at index {index} {advice}{ending}")
    if len(values) < groups:
        raise ValueError(
            f"expected at least as many observations as {word}, "
            f"got {len(values)} observations for {groups} {word}"
        )
    return values
