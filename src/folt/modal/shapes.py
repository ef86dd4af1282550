"""Mode shapes as engineers read them: unit length, one sign, intervals, MAC, a check of the fit.

**Sign convention.** A shape is known up to its sign. Here the mean shape of a mode, the direction
that agrees best with all draws, has its largest entry positive, and every draw has the sign that
agrees with this mean. Modes are numbered by frequency, draw by draw. Shapes have unit length.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from folt.batching import map_points
from folt.fit import Fit
from folt.modal.cross_spectra import OVERLAP, welch
from folt.modal.models.coherence import mode_pairs
from folt.modal.models.ordinates import FourierOrdinates, fourier_ordinates
from folt.modal.models.spectrum_start import averaged_matrices, averaging_reach
from folt.modal.spectrum import Measured, Record
from folt.problem import Problem
from folt.store.strict_json import Document
from folt.types import Key, Point, in_float64

STRETCHES = 20
"""Parts of the band over which ordinates are averaged to see whether it holds a peak."""

LEAST_PEAK = 4.5
"""Standard errors by which the highest average exceeds the median one, where there is a peak."""

REPLICATES = 100
"""Replicated records behind the predictive bands of singular values."""

INTERVAL = (0.025, 0.975)


def measured_channels(
    record: Record,
    band: tuple[float, float],
    *,
    segment: float | None = None,
    overlap: float = OVERLAP,
) -> Measured:
    """Return the averaged spectrum of a record together with the ordinates of all its channels.

    Args:
        record: at least two channels.
        band: lowest and highest frequency in Hz, around the modes.
        segment: seconds per segment of the averaged spectrum, which is for pictures here.
        overlap: share of a segment that the next one repeats.

    Raises:
        ValueError: the record or the band cannot be used, or the band holds no peak.
    """
    ordinates = fourier_ordinates(record, band, names=record.names)
    _require_peak(ordinates)
    return dataclasses.replace(
        welch(record, band, segment=segment, overlap=overlap),
        resolution=1 / record.duration,
        ordinates=ordinates,
        names=record.names,
    )


def _require_peak(data: FourierOrdinates) -> None:
    """Refuse a band in which nothing stands out of white noise."""
    count, channels = data.real.shape
    trace = np.sum(np.square(data.real) + np.square(data.imaginary), axis=1)
    width = max(count // STRETCHES, 1)
    average = np.convolve(trace, np.ones(width) / width, "valid")
    ratio = float(average.max() / np.median(average))
    if ratio < 1 + LEAST_PEAK / math.sqrt(width * channels):
        raise ValueError(
            f"the band {data.frequency[0]:.4g} to {data.frequency[-1]:.4g} Hz holds no peak, its "
            f"spectrum rises to {ratio:.3g} times its median only: expected a band around modes"
        )


def shape_draws(fit: Fit) -> Float[np.ndarray, "draw mode channel"]:
    """Return shapes of every draw, of unit length, by frequency, signed like their mean."""
    order = np.argsort(fit.posterior["frequency"], axis=-1)
    shapes = np.take_along_axis(fit.posterior["shape"], order[..., None], axis=-2)
    shapes = shapes.reshape(-1, *shapes.shape[-2:])
    for j in range(shapes.shape[1]):
        mean = mean_shape(shapes[:, j])
        shapes[:, j] *= np.where(shapes[:, j] @ mean < 0, -1.0, 1.0)[:, None]
    return shapes


def mean_shape(shapes: Float[np.ndarray, "draw channel"]) -> Float[np.ndarray, " channel"]:
    """Return the direction of the largest mean MAC with all draws, its largest entry positive."""
    mean = np.linalg.eigh(shapes.T @ shapes)[1][:, -1]
    return mean if mean[np.abs(mean).argmax()] > 0 else -mean


def shape_rows(fit: Fit, names: tuple[str, ...]) -> list[Document]:
    """One row per mode and channel: posterior mean and 95 % interval of an entry of the shape."""
    shapes = shape_draws(fit)
    mean = shapes.mean(axis=0)
    low, high = np.quantile(shapes, INTERVAL, axis=0)
    return [
        {
            "mode": j + 1,
            "channel": name,
            "mean": float(mean[j, c]),
            "low": float(low[j, c]),
            "high": float(high[j, c]),
        }
        for j in range(shapes.shape[1])
        for c, name in enumerate(names)
    ]


def mac_rows(fit: Fit, resolution: float) -> list[Document]:
    """One row per pair of modes: MAC with its 95 % interval, and whether they are told apart.

    MAC is the squared cosine between two shapes: zero at right angles, one for the same shape.
    Where forces may be correlated a row has the size of their coherence as well.

    Args:
        fit: with shapes.
        resolution: in Hz, 1/duration of the record.
    """
    shapes = shape_draws(fit)
    frequency = np.sort(fit.posterior["frequency"], axis=-1).reshape(-1, shapes.shape[1])
    coherence = _coherences(fit)
    rows = []
    for i in range(shapes.shape[1]):
        for j in range(i + 1, shapes.shape[1]):
            mac = np.sum(shapes[:, i] * shapes[:, j], axis=1) ** 2
            median, low, high = np.quantile(mac, (0.5, *INTERVAL))
            between: Document = {}
            if coherence is not None:
                ends = np.quantile(coherence[:, i, j], (0.5, *INTERVAL)).tolist()
                names = ("coherence", "coherence_low", "coherence_high")
                between = dict(zip(names, ends, strict=True))
            near = frequency[:, j] - frequency[:, i] < resolution
            rows.append(
                {
                    "mode": i + 1,
                    "other": j + 1,
                    "mac": float(median),
                    "mac_low": float(low),
                    "mac_high": float(high),
                    "closer_than_resolution": float(near.mean()),
                    **between,
                }
            )
    return rows


def _coherences(fit: Fit) -> Float[np.ndarray, "draw mode mode"] | None:
    """Sizes of the coherences between modal forces, modes by frequency, where they were fitted."""
    if "coherence" not in fit.posterior:
        return None
    order = np.argsort(fit.posterior["frequency"], axis=-1)
    pairs, modes = fit.posterior["coherence"], order.shape[-1]
    found = np.ones((*order.shape, modes))
    for number, (i, j) in enumerate(mode_pairs(modes)):
        found[..., i, j] = found[..., j, i] = pairs[..., number]
    found = np.take_along_axis(found, order[..., None], axis=-2)
    found = np.take_along_axis(found, order[..., None, :], axis=-1)
    return found.reshape(-1, *found.shape[-2:])


class SingularValues(NamedTuple):
    """Root singular values of the spectral matrix, measured and as the model would have them.

    Attributes:
        frequency: middles of neighbouring stretches that do not overlap.
        measured: (frequency, value), the largest first.
        low: lower end of the 95 % posterior predictive band.
        middle: its median.
        high: its upper end.
    """

    frequency: Float[np.ndarray, " k"]
    measured: Float[np.ndarray, "k n"]
    low: Float[np.ndarray, "k n"]
    middle: Float[np.ndarray, "k n"]
    high: Float[np.ndarray, "k n"]

    @property
    def outside(self) -> float:
        """Share of the measured values outside their bands: about 5 % where the model holds."""
        return float(np.mean((self.measured < self.low) | (self.measured > self.high)))


@in_float64
def singular_values(fit: Fit) -> SingularValues:
    """Singular values of the record beside those of records that posterior draws would give."""
    if fit.problem is None:
        raise ValueError("expected a fit with its problem: folt.load(path, problem=problem)")
    data = fit.problem.data
    reach = averaging_reach(data)
    centres = np.arange(reach, data.frequency.size - reach, 2 * reach + 1)
    flat = fit.draws.reshape(-1, fit.problem.dim)
    draws = flat[np.linspace(0, len(flat) - 1, REPLICATES).astype(int)]
    context = (fit.problem, jax.random.key(0))
    replicated = map_points(_replicate, context, (np.arange(REPLICATES), draws)) / data.scale
    many = [
        _roots(data._replace(real=one[..., 0], imaginary=one[..., 1]), centres)
        for one in replicated
    ]
    low, middle, high = np.quantile(np.stack(many), (INTERVAL[0], 0.5, INTERVAL[1]), axis=0)
    unit = float(data.scale)
    parts = (_roots(data, centres), low, middle, high)
    return SingularValues(data.frequency[centres], *(unit * part for part in parts))


def _replicate(context: tuple[Problem, Key], numbered: tuple[jax.Array, Point]) -> jax.Array:
    problem, key = context
    number, x = numbered
    return problem.replicates(jax.random.fold_in(key, number), x)["ordinates"]


def _roots(data: FourierOrdinates, centres: np.ndarray) -> Float[np.ndarray, "k n"]:
    values = np.linalg.eigvalsh(averaged_matrices(data)[centres])
    return np.sqrt(np.maximum(values[:, ::-1], 0.0))
