"""An averaged spectrum with its averages and the window it was seen through, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, ArrayLike, Float

from folt.models.modal import scaled_spectrum


class AveragedSpectrum(NamedTuple):
    """A window of an averaged spectrum, as `Problem.with_data` takes it.

    Attributes:
        frequency: in Hz.
        psd: ordinates divided by `scale`.
        averages: ν of every ordinate; its shape only, where the number is unknown.
        offsets: δ_i in Hz, where the analyser's window looks.
        weights: w_i, what it sees there; they add up to one.
        scale: the unit of `psd`.
    """

    frequency: Float[Array | np.ndarray, " n"]
    psd: Float[Array | np.ndarray, " n"]
    averages: Float[Array | np.ndarray, " n"]
    offsets: Float[Array | np.ndarray, " k"]
    weights: Float[Array | np.ndarray, " k"]
    scale: Float[Array | np.ndarray, ""]


def averaged_spectrum(
    frequency: ArrayLike | Sequence[float],
    psd: ArrayLike | Sequence[float],
    *,
    averages: ArrayLike | None = None,
    window: tuple[ArrayLike, ArrayLike] | None = None,
    scale: float | None = None,
) -> AveragedSpectrum:
    """Return a checked window with its ordinates scaled, as `Problem.with_data` takes it."""
    ordinates = np.asarray(psd, float)
    checked = scaled_spectrum(frequency, ordinates)
    if np.any(ordinates <= 0):
        raise ValueError("an averaged psd must be positive everywhere, got an ordinate of zero")
    unit = float(ordinates.mean()) if scale is None else scale
    if not 0 < unit < math.inf:
        raise ValueError(f"scale must be positive and finite, got {unit}")
    shape = np.asarray(1.0 if averages is None else averages, float)
    if shape.shape not in ((), ordinates.shape):
        raise ValueError(
            f"expected one number of averages, or one per ordinate ({ordinates.size}), "
            f"got shape {shape.shape}"
        )
    if not np.all((shape > 0) & np.isfinite(shape)):
        raise ValueError("averages must be positive and finite")
    offsets, weights = _window(window)
    if checked.frequency[0] + offsets.min() <= 0:
        raise ValueError(
            f"the window looks {-offsets.min():g} Hz below the lowest frequency, "
            f"{checked.frequency[0]:g} Hz: expected a band further from zero"
        )
    return AveragedSpectrum(
        np.asarray(checked.frequency),
        ordinates / unit,
        np.broadcast_to(shape, ordinates.shape).copy(),
        offsets,
        weights,
        np.asarray(unit),
    )


def _window(window: tuple[ArrayLike, ArrayLike] | None) -> tuple[np.ndarray, np.ndarray]:
    if window is None:
        return np.zeros(1), np.ones(1)
    offsets, weights = (np.asarray(values, float) for values in window)
    if offsets.ndim != 1 or offsets.shape != weights.shape or not offsets.size:
        raise ValueError(
            "expected a window of offsets and weights of one common length, "
            f"got shapes {offsets.shape} and {weights.shape}"
        )
    if not (np.all(weights > 0) and math.isclose(float(weights.sum()), 1.0, rel_tol=1e-6)):
        raise ValueError("the weights of a window must be positive and add up to one")
    return offsets, weights
