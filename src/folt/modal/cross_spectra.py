"""Welch's method for several channels: the trace of the cross-spectral matrix, honestly weighted.

**What is averaged.** Segment k of a record, tapered by w, has the complex amplitudes Y_k(f) in C^C,
nearly Gaussian with covariance S(f), the cross-spectral matrix. Its estimate is the mean of
Y_k·Y_kᴴ over K segments. The trace is the mean of |Y_k|² = Σ_i λ_i·E_i, with λ_i the eigenvalues
of S and E_i exponential, so one segment counts as

    κ(f) = (tr S)²/tr S²

averages: 1 where one mode moves all channels together, C where their noises are independent. The
trace is nearly Gamma with that many times the averages (Satterthwaite). With r = tr Ŝ²/(tr Ŝ)²,
averaged over a few neighbours, κ = (1 - r/K)/(r - 1/K), because E tr Ŝ² = tr S² + (tr S)²/K and
E (tr Ŝ)² = (tr S)² + tr S²/K for a complex Wishart matrix.

**What overlaps.** Overlapping segments share samples, and a taper spreads every frequency over its
neighbours: both make ordinates correlated, and treating them as independent would count the same
data twice. For a locally flat spectrum the amplitudes k segments and b bins apart have the
correlation c(k, b), the transform of w[n]·w[n + k·hop], and the ordinates its square. Summed over
all b (Parseval) that is L·Σ_n w²[n]·w²[n + k·hop]/(Σ w²)², so every ordinate is worth

    ν = κ·K / Σ_k (1 - |k|/K)·L·Σ_n w²[n]·w²[n + k·hop]/(Σ w²)²

independent averages. As the overlap grows ν tends to κ·T/L: ν times the ordinates in a band B is
B·T, the number of independent values that a record of T seconds has there, whatever the taper.

**What is seen.** The expected ordinate is S convolved with the squared transform of the taper,
which raises the damping of a sharp peak. A Gauss rule for that kernel, a few offsets and weights,
is handed on so that the model is seen through the same window as the data.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.fft
import scipy.signal
from jaxtyping import Complex, Float

from folt.modal.spectrum import Measured, Record, within

OVERLAP = 0.75
"""Share of a segment that the next one repeats: a Hann taper then loses 3 % of the record."""

_SHARPEST = 0.01
"""Damping ratio of the sharpest peak that the default segment resolves."""

SEGMENTS = 8
"""Fewest segments, end to end, that the default makes of a record."""

NODES = 7
"""Offsets at which the model is evaluated for one ordinate: within 2 % for peaks whose half width
is three quarters of a bin or more, a damping of half a percent with the default segment."""

_NEIGHBOURS = 2
"""Ordinates on either side over which the rank of the cross-spectral matrix is averaged."""


def welch(
    record: Record,
    band: tuple[float, float],
    *,
    segment: float | None = None,
    overlap: float = OVERLAP,
) -> Measured:
    """Return the trace of the cross-spectral matrix of a record within a band.

    Args:
        record: the channels.
        band: lowest and highest frequency in Hz.
        segment: seconds per segment; `default_segment` if None.
        overlap: share of a segment that the next one repeats.

    Raises:
        ValueError: the band reaches beyond half the sampling rate, or the segment does not fit.
    """
    low, high = band
    if not 0 < low < high:
        raise ValueError(f"expected a band 0 < LOW < HIGH in Hz, got {low:g} to {high:g}")
    if high >= record.rate / 2:
        raise ValueError(
            f"the band ends at {high:g} Hz: expected less than half the sampling rate, "
            f"{record.rate / 2:g} Hz"
        )
    if not 0 <= overlap < 1:
        raise ValueError(f"expected an overlap from 0 to below 1, got {overlap:g}")
    seconds = default_segment(record, band) if segment is None else segment
    length = scipy.fft.next_fast_len(max(round(seconds * record.rate), 1), real=True)
    if not 8 <= length <= len(record.values):
        raise ValueError(
            f"a segment of {seconds:g} s does not fit a record of {record.duration:g} s: expected "
            f"more than {8 / record.rate:g} s and at most the whole record"
        )
    hop = max(round((1 - overlap) * length), 1)
    taper = scipy.signal.windows.hann(length, sym=False)
    frequency = np.arange(length // 2 + 1) * record.rate / length
    inside = within(frequency, band)
    amplitudes = _amplitudes(record, taper, hop, inside)
    matrices = _matrices(amplitudes)
    averages = effective_averages(taper, hop, amplitudes.shape[0])
    alone = effective_averages(taper, hop, amplitudes.shape[0], between_bins=False)
    return Measured(
        frequency=frequency[inside],
        psd=np.trace(matrices, axis1=1, axis2=2).real,
        averages=averages * effective_rank(matrices, alone),
        window=gauss_window(taper, record.rate),
        resolution=noise_bandwidth(taper) * record.rate / length,
        channels=record.values.shape[1],
        unit=record.unit,
    )


def default_segment(record: Record, band: tuple[float, float]) -> float:
    """Return seconds per segment: fine enough for a damping of 1 %, unless the record is too short.

    A mode at f with damping ξ is 2ξf wide at half power, a Hann taper of T seconds blurs by 1.5/T:
    half the width of the sharpest mode at the middle of the band. Longer segments would leave
    fewer averages; the blur that remains is part of the model.
    """
    centre = 0.5 * (band[0] + band[1])
    return min(1.5 / (_SHARPEST * centre), record.duration / SEGMENTS)


def _amplitudes(
    record: Record, taper: np.ndarray, hop: int, inside: np.ndarray
) -> Complex[np.ndarray, "segment frequency channel"]:
    """Y of every whole segment, each with its straight line removed, as a one-sided density."""
    length = taper.size
    count = (len(record.values) - length) // hop + 1
    unit = math.sqrt(2.0 / (record.rate * np.sum(taper**2)))
    found = np.empty((count, int(inside.sum()), record.values.shape[1]), complex)
    for k in range(count):
        piece = scipy.signal.detrend(record.values[k * hop : k * hop + length], axis=0)
        found[k] = unit * scipy.fft.rfft(taper[:, None] * piece, axis=0)[inside]
    return found


def _matrices(
    amplitudes: Complex[np.ndarray, "segment frequency channel"],
) -> Complex[np.ndarray, "frequency channel channel"]:
    rows = amplitudes.transpose(1, 2, 0)
    return rows @ rows.conj().transpose(0, 2, 1) / amplitudes.shape[0]


def effective_averages(
    taper: Float[np.ndarray, " length"], hop: int, segments: int, between_bins: bool = True
) -> float:
    """Return independent averages that overlapping, tapered segments are worth, per ordinate.

    Args:
        taper: the window w.
        hop: samples from one segment to the next.
        segments: their number, K.
        between_bins: whether to count the correlation of neighbouring ordinates too.
    """
    energy = float(np.sum(taper**2))
    total = 0.0
    for shift in range(min(segments, -(-taper.size // hop))):
        lag = shift * hop
        product = taper[: taper.size - lag] * taper[lag:]
        shared = taper.size * np.sum(product**2) if between_bins else np.sum(product) ** 2
        both_sides = 1.0 if shift == 0 else 2.0 * (1 - shift / segments)
        total += both_sides * float(shared) / energy**2
    return segments / total


def effective_rank(
    matrices: Complex[np.ndarray, "frequency channel channel"], averages: float
) -> Float[np.ndarray, " frequency"]:
    """κ = (tr S)²/tr S² of every ordinate, between one and the number of channels."""
    channels = matrices.shape[1]
    if channels == 1 or averages < 1.5:
        return np.ones(len(matrices))
    level = np.trace(matrices, axis1=1, axis2=2).real
    purity = np.sum(np.abs(matrices) ** 2, axis=(1, 2)) / level**2
    kernel = np.ones(2 * _NEIGHBOURS + 1)
    count = np.convolve(np.ones_like(purity), kernel, "same")
    mean = np.convolve(purity, kernel, "same") / count
    floor = 1 / channels + (1 - 1 / channels) / (averages + 1)
    mean = np.clip(mean, max(floor, 1.01 / averages), 1.0)
    return np.clip((1 - mean / averages) / (mean - 1 / averages), 1.0, channels)


def noise_bandwidth(taper: Float[np.ndarray, " length"]) -> float:
    """Width in bins of the flat filter that passes as much noise: 1.5 for Hann."""
    return float(taper.size * np.sum(taper**2) / np.sum(taper) ** 2)


def gauss_window(
    taper: Float[np.ndarray, " length"], rate: float, nodes: int = NODES, reach: float = 4.0
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Offsets in Hz and weights of a Gauss rule for the squared transform of a taper.

    The kernel within `reach` bins, on a fine grid, is a discrete measure. Among polynomials that
    are orthonormal in it, multiplication by the offset is a matrix whose eigenvalues are the nodes.
    """
    fine = 32
    at = np.arange(-round(reach * fine), round(reach * fine) + 1) / fine
    phase = np.exp(-2j * np.pi * at[:, None] * (np.arange(taper.size) / taper.size)[None, :])
    mass = np.abs(phase @ taper) ** 2
    mass /= mass.sum()
    powers = np.polynomial.legendre.legvander(at / reach, nodes - 1)
    basis = np.linalg.qr(np.sqrt(mass)[:, None] * powers)[0]
    offsets, vectors = np.linalg.eigh(basis.T @ (at[:, None] * basis))
    return offsets * rate / taper.size, vectors[0] ** 2
