"""What every model asks of its data: finite numbers, enough of them, and not all the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


class _Spread(NamedTuple):
    """Middle and width of the observed values, per variable: what default priors are made of."""

    middle: Float[np.ndarray, "*variables"]
    width: Float[np.ndarray, "*variables"]


def series(data: ArrayLike, groups: int, word: str = "components") -> Float[np.ndarray, " n"]:
    """Return one-dimensional observations, at least as many as components.

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
    """Return observations in rows, variables in columns, at least as many rows as components.

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


def named_variables(data: object, given: Sequence[str] | None, count: int) -> dict[str, list[str]]:
    """Return names of the variables: those given, or those of a data frame or series.

    Raises:
        ValueError: as many names as variables were expected.
    """
    found: list[object] | None = None if given is None else list(given)
    if found is None and hasattr(data, "columns"):
        found = list(data.columns)
    elif found is None and isinstance(getattr(data, "name", None), str):
        found = [data.name]  # type: ignore[attr-defined]
    if found is None or (given is None and found == list(range(count))):
        return {}
    if len(found) != count:
        raise ValueError(f"expected {count} names of variables, got {len(found)}")
    return {"variable": [str(name) for name in found]}


def counts(data: ArrayLike, groups: int, word: str = "components") -> Float[np.ndarray, " n"]:
    """Return non-negative whole numbers.

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


def new_values(new: object, data: Float[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """Return where a density is predicted: values given, or a grid beyond the data."""
    if new is None:
        room = 0.15 * float(np.ptp(data))
        return np.linspace(data.min() - room, data.max() + room, _GRID)
    return _new(new, ())


def new_counts(new: object, data: Float[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """Return the counts to predict: those given, or all from zero past the largest."""
    if new is None:
        return np.arange(min(float(data.max()) * 1.25 + 2.0, 10.0 * _GRID))
    return counts(_new(new, ()), 1)


def new_rows(new: object, data: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "k p"]:
    """Return rows at which a density is predicted: those given, or the observed ones."""
    return np.asarray(data) if new is None else _new(new, data.shape[1:])


def new_rows_with_holes(new: object, data: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "k p"]:
    """Return rows whose missing entries, NaN, are predicted; one all missing if None."""
    missing = np.full((1, data.shape[1]), np.nan)
    return missing if new is None else _new(new, data.shape[1:], holes=True)


def steps_ahead(new: object, data: object) -> Float[np.ndarray, " k"]:
    """Return the steps 1, ..., k after the last observation, from their number; one if None."""
    del data
    count = 1 if new is None else number_of("the number of steps ahead", new)
    return np.arange(1.0, count + 1.0)


_GRID = 200
"""Points of a grid: a curve through them looks smooth at the width of a page."""


def _new(new: object, shape: tuple[int, ...], holes: bool = False) -> np.ndarray:
    """Return new observations, each of the shape of the observed ones.

    Raises:
        ValueError: they have another shape, or are not finite numbers.
    """
    values = _numbers(new)  # type: ignore[arg-type]
    if values.ndim == len(shape):
        values = values[None]
    if values.shape[1:] != shape or not len(values):
        own = f"(n, {shape[0]}), a column per variable," if shape else "(n,)"
        raise ValueError(f"expected new observations of shape {own} got {np.asarray(new).shape}")
    if np.isinf(values).any() or (not holes and np.isnan(values).any()):
        allowed = "finite numbers, or NaN where one is missing," if holes else "finite numbers,"
        wrong = values[np.isinf(values) if holes else ~np.isfinite(values)][0]
        raise ValueError(f"expected new observations to be {allowed} got {wrong}")
    return values


def spread_of(values: Float[np.ndarray, " n *variables"]) -> _Spread:
    """Return the midrange and range of every variable.

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
        found = _Spread(low / 2 + high / 2, high - low)
    if not np.all(np.isfinite(found.width)):
        raise ValueError(
            f"the observations reach from {np.min(low):g} to {np.max(high):g}, further than double "
            "precision can subtract: give them in other units"
        )
    return found


def number_of(word: str, value: object) -> int:
    """Return a positive whole number of components, states or factors.

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
