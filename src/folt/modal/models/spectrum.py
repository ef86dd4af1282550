"""Closely spaced vibration modes from one measured spectrum: m! identical modes.

A structure with natural frequencies f_j and damping ratios ξ_j under broadband forcing shows

    S(ω) = A·h(ω),   h(ω) = Σ_j 1/((ω² - ω_j²)² + (2ξ_jω_jω)²) + c₀,   ω = 2πf,

and the ordinates of its periodogram are independent exponential variables of mean S (Whittle).
The amplitude A is profiled out, the priors are uniform, and a point holds their probits,
reshaping to (modes, 2), one row (f, ξ) each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from folt.coordinates import PriorNormal, Uniform
from folt.coordinates.tails import normal_log_density
from folt.groups import Permutation
from folt.problem import Problem
from folt.proposals import standard_normal
from folt.types import Key, Point, Scalar, in_float64


class Spectrum(NamedTuple):
    """A window of a power spectrum: frequencies in Hz and ordinates scaled to mean one."""

    frequency: Float[Array | np.ndarray, " n"]
    psd: Float[Array | np.ndarray, " n"]


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


class ModalPosterior(eqx.Module):
    """Whittle likelihood with profiled amplitude times uniform priors, in probit coordinates.

    With A = mean(Ŝ/h) the likelihood Σ(-log S - Ŝ/S) is -n·log A - Σ log h - n.
    """

    frequency: PriorNormal
    damping: PriorNormal
    floor: Float[Array | np.ndarray, ""]

    def modes(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """Return natural frequency in Hz and damping ratio of every mode."""
        rows = x.reshape(-1, 2)
        return self.frequency.push(rows[:, 0]), self.damping.push(rows[:, 1])

    def __call__(self, x: Point, spectrum: Spectrum) -> Scalar:
        """Return the log density at one point."""
        shape = response(spectrum.frequency, *self.modes(x), self.floor)
        count = shape.shape[0]
        log_amplitude = jnp.log(jnp.mean(spectrum.psd / shape))
        log_likelihood = -count * (log_amplitude + 1) - jnp.sum(jnp.log(shape))
        return log_likelihood + jnp.sum(normal_log_density(x))

    def constrain(self, x: Point) -> dict[str, Array]:
        """Return natural frequencies in Hz and damping ratios."""
        frequency, damping = self.modes(x)
        return {"frequency": frequency, "damping": damping}

    def unconstrain(self, values: dict[str, Array]) -> Point:
        """Return the point with these frequencies and damping ratios."""
        rows = [self.frequency.pull(values["frequency"]), self.damping.pull(values["damping"])]
        return jnp.stack(rows, axis=1).reshape(-1)


def response(
    at: Float[ArrayLike, " n"],
    frequency: Float[Array, " m"],
    damping: Float[Array, " m"],
    floor: ArrayLike,
) -> Float[Array, " n"]:
    """Return the spectral shape h at some frequencies in Hz, without its amplitude."""
    square = jnp.square(2 * math.pi * jnp.asarray(at))
    own_square = jnp.square(2 * math.pi * frequency)[:, None]
    width = 4 * jnp.square(damping)[:, None] * own_square
    return jnp.sum(1 / (jnp.square(square - own_square) + width * square), axis=0) + floor


@in_float64
def modal_spectrum(
    frequency: ArrayLike | Sequence[float],
    psd: ArrayLike | Sequence[float],
    modes: int = 3,
    *,
    frequency_range: tuple[float, float] = (0.7, 1.1),
    damping_range: tuple[float, float] = (0.001, 0.05),
    floor: float = 0.01,
) -> Problem:
    """The posterior of natural frequencies and damping ratios given one window of a spectrum.

    Args:
        frequency: frequencies in Hz, increasing.
        psd: the spectrum there, in any unit; only its shape matters.
        modes: number of modes, m.
        frequency_range: bounds of the uniform prior of every natural frequency, in Hz.
        damping_range: bounds of the uniform prior of every damping ratio.
        floor: c₀, the level of the flat background beside the modes.
    """
    group = Permutation(modes, 2)
    require_range("frequency_range", frequency_range)
    require_range("damping_range", damping_range)
    if not (math.isfinite(floor) and floor >= 0):
        raise ValueError(f"floor must be finite and not negative, got {floor}")
    spectrum = scaled_spectrum(frequency, psd)
    _require_enough(spectrum, modes, frequency_range)
    posterior = ModalPosterior(
        PriorNormal(Uniform(*frequency_range)),
        PriorNormal(Uniform(*damping_range)),
        np.asarray(floor, float),
    )
    return Problem(
        posterior,
        group,
        data=spectrum,
        prior=standard_normal(group.dim),
        names=[f"{name}[{j}]" for j in range(modes) for name in ("frequency", "damping")],
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        dims={"frequency": ("mode",), "damping": ("mode",)},
    )


def scaled_spectrum(
    frequency: ArrayLike | Sequence[float], psd: ArrayLike | Sequence[float]
) -> Spectrum:
    """A checked window with its ordinates scaled to mean one, as `Problem.with_data` takes it."""
    frequencies, ordinates = np.asarray(frequency, float), np.asarray(psd, float)
    if frequencies.ndim != 1 or frequencies.shape != ordinates.shape or not frequencies.size:
        raise ValueError(
            f"expected frequency and psd of one common length of at least one, "
            f"got shapes {frequencies.shape} and {ordinates.shape}"
        )
    if not (np.all(np.isfinite(frequencies)) and np.all(np.isfinite(ordinates))):
        raise ValueError("frequency and psd must be finite, got NaN or infinity")
    if np.any(np.diff(frequencies) <= 0) or np.any(frequencies <= 0):
        raise ValueError("frequency must be positive and strictly increasing")
    if np.any(ordinates < 0) or not np.any(ordinates > 0):
        raise ValueError("psd must not be negative anywhere nor zero throughout")
    return Spectrum(frequencies, ordinates / ordinates.mean())


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


def require_range(name: str, bounds: tuple[float, float]) -> None:
    """Refuse bounds that are not positive and increasing."""
    low, high = bounds
    if not 0 < low < high < math.inf:
        raise ValueError(f"{name} must be 0 < low < high, got {bounds}")


def _require_enough(spectrum: Spectrum, modes: int, frequency_range: tuple[float, float]) -> None:
    """Refuse a window that cannot say anything about this many modes."""
    parameters, count = 2 * modes + 1, spectrum.psd.size
    if count < parameters:
        raise ValueError(
            f"{modes} modes have {parameters} parameters with the amplitude; "
            f"expected at least as many ordinates, got {count}"
        )
    low, high = frequency_range
    if not np.any((spectrum.frequency >= low) & (spectrum.frequency <= high)):
        raise ValueError(
            f"no ordinate lies in the frequency_range {low} to {high} Hz; the window covers "
            f"{spectrum.frequency[0]} to {spectrum.frequency[-1]} Hz"
        )


@in_float64
def simulate_spectrum(
    key: Key,
    *,
    frequency: Sequence[float] = (0.80, 0.84, 0.87),
    damping: Sequence[float] = (0.01, 0.015, 0.02),
    floor: float = 0.01,
    band: tuple[float, float] = (0.7, 1.1),
    ordinates: int = 51,
) -> Spectrum:
    """A synthetic window: the modal shape times exponential noise, scaled to mean one.

    Args:
        key: a JAX random key.
        frequency: natural frequencies in Hz.
        damping: damping ratios, one per mode.
        floor: level of the flat background.
        band: first and last frequency of the window in Hz.
        ordinates: number of frequencies.
    """
    if len(frequency) != len(damping):
        raise ValueError(
            f"expected one damping ratio per frequency, "
            f"got {len(damping)} for {len(frequency)} frequencies"
        )
    grid = np.linspace(*band, ordinates)
    shape = response(grid, jnp.asarray(frequency, float), jnp.asarray(damping, float), floor)
    noise = jax.random.exponential(key, shape.shape, shape.dtype)
    return scaled_spectrum(grid, shape * noise)
