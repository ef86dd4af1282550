"""Vibration modes with powers of their own, from an averaged spectrum: m! identical modes.

Beside a natural frequency f_j and a damping ratio ξ_j every mode has a power p_j, and the sensors
have a noise floor N. The spectrum is

    S(f) = Σ_j p_j·L_j(f) + N,
    L_j(f) = (4ξ_jf_j³/π)·(f/f_j)^a / ((f² - f_j²)² + (2ξ_jf_jf)²),

with a = 4, 2 or 0 for acceleration, velocity or displacement under a flat load. L_j has unit area
for a = 0, so p_j is the mean square of the motion in mode j and N a density per hertz. What an
analyser reports is S seen through its window, Σ_i w_i·S(f + δ_i), and an ordinate averaged ν times
has the Gamma distribution of that mean and of shape ν.

A point holds, in the coordinates in which every prior is standard normal, one row (f, ξ, p) per
mode, then N, then the factor on ν where that is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Float

from folt.coordinates import LogNormal, PriorNormal, Uniform
from folt.coordinates.tails import normal_log_density
from folt.groups import Blocks, Fixed, Joint
from folt.modal.models.spectrum import AveragedSpectrum, averaged_spectrum, require_range
from folt.problem import Problem, WithData
from folt.proposals import standard_normal
from folt.types import Key, Point, Scalar, host_generator, in_float64

Motion = Literal["acceleration", "velocity", "displacement"]

EXPONENTS: dict[str, int] = {"displacement": 0, "velocity": 2, "acceleration": 4}
"""The power of the frequency by which each quantity differs from the displacement."""

POWER_PRIOR = (0.2, 1.5)
"""Median and log deviation of a mode's power, as a share of the power in the band."""

FLOOR_PRIOR = (0.01, 2.3)
"""Median and log deviation of the floor, as a multiple of the mean ordinate."""

AVERAGES_PRIOR = (8.0, 1.2)
"""Median and log deviation of the number of averages, where it is unknown."""


class _Modes(NamedTuple):
    """What the spectrum is made of, in the unit of the scaled ordinates."""

    frequency: Float[Array, " m"]
    damping: Float[Array, " m"]
    power: Float[Array, " m"]
    floor: Float[Array, ""]


class ModalPowersPosterior(eqx.Module):
    """Gamma likelihood times priors, all constants included: its integral is the evidence."""

    frequency: PriorNormal
    damping: PriorNormal
    power: PriorNormal
    floor: PriorNormal
    averages: PriorNormal | None
    modes: int = eqx.field(static=True)
    exponent: int = eqx.field(static=True)

    def parts(self, x: Point) -> _Modes:
        """Return frequencies, damping ratios, powers and the floor."""
        rows = x[: 3 * self.modes].reshape(self.modes, 3)
        return _Modes(
            self.frequency.push(rows[:, 0]),
            self.damping.push(rows[:, 1]),
            self.power.push(rows[:, 2]),
            self.floor.push(x[3 * self.modes]),
        )

    def factor(self, x: Point) -> Scalar:
        """Return what the averages are multiplied by: one where they are known."""
        return jnp.ones((), x.dtype) if self.averages is None else self.averages.push(x[-1])

    def terms(self, x: Point, spectrum: AveragedSpectrum) -> Float[Array, " n"]:
        """Log Gamma(Ŝ; shape ν, mean S) of every ordinate."""
        mean = expected_ordinates(spectrum, self.parts(x), self.exponent)
        shape = self.factor(x) * spectrum.averages
        ratio = shape * spectrum.psd / mean
        return shape * jnp.log(ratio) - ratio - gammaln(shape) - jnp.log(spectrum.psd)

    def __call__(self, x: Point, spectrum: AveragedSpectrum) -> Scalar:
        """Return the log density at one point."""
        return jnp.sum(self.terms(x, spectrum)) + jnp.sum(normal_log_density(x))

    def pointwise(self, x: Point, spectrum: AveragedSpectrum) -> dict[str, Array]:
        """The log likelihood of every ordinate."""
        return {"psd": self.terms(x, spectrum)}

    def constrain(self, x: Point, spectrum: AveragedSpectrum) -> dict[str, Array]:
        """Return frequencies in Hz, damping ratios, powers and floor in the unit of the data."""
        modes = self.parts(x)
        found = {
            "frequency": modes.frequency,
            "damping": modes.damping,
            "power": modes.power * spectrum.scale,
            "floor": modes.floor * spectrum.scale,
        }
        return found if self.averages is None else {**found, "averages": self.factor(x)}

    def unconstrain(self, values: dict[str, Array], spectrum: AveragedSpectrum) -> Point:
        """Return the point with these parameters."""
        columns = [
            self.frequency.pull(values["frequency"]),
            self.damping.pull(values["damping"]),
            self.power.pull(values["power"] / spectrum.scale),
        ]
        last = [self.floor.pull(values["floor"] / spectrum.scale)]
        last += [] if self.averages is None else [self.averages.pull(values["averages"])]
        return jnp.concatenate([jnp.stack(columns, axis=1).reshape(-1), jnp.stack(last)])


def resonance(
    at: Float[ArrayLike, " n"],
    frequency: Float[Array, " m"],
    damping: Float[Array, " m"],
    exponent: int,
) -> Float[Array, "m n"]:
    """L_j at some frequencies: the resonance of every mode, of unit area as a displacement."""
    return 1 / inverse_resonance(at, frequency, damping, exponent)


def inverse_resonance(
    at: Float[ArrayLike, " n"],
    frequency: Float[Array, " m"],
    damping: Float[Array, " m"],
    exponent: int,
) -> Float[Array, "m n"]:
    """1/L_j at some frequencies, for which nothing is divided at a single point."""
    at = jnp.asarray(at)
    own, ratio = frequency[:, None], damping[:, None]
    depth = math.pi / (4 * ratio * own**3) * own**exponent
    return depth * at**-exponent * (jnp.square(at**2 - own**2) + jnp.square(2 * ratio * own * at))


def expected_ordinates(
    spectrum: AveragedSpectrum, modes: _Modes, exponent: int
) -> Float[Array, " n"]:
    """Return the expected ordinates: S through the window of the analyser."""
    at = jnp.asarray(spectrum.frequency)[:, None] + jnp.asarray(spectrum.offsets)
    peaks = resonance(at.reshape(-1), modes.frequency, modes.damping, exponent)
    total = (modes.power @ peaks).reshape(at.shape)
    return total @ jnp.asarray(spectrum.weights) + modes.floor


@in_float64
def modal_powers(
    frequency: ArrayLike | Sequence[float],
    psd: ArrayLike | Sequence[float],
    modes: int = 3,
    *,
    averages: ArrayLike | None = None,
    frequency_range: tuple[float, float] | None = None,
    damping_range: tuple[float, float] = (0.001, 0.05),
    power_prior: tuple[float, float] = POWER_PRIOR,
    floor_prior: tuple[float, float] = FLOOR_PRIOR,
    averages_prior: tuple[float, float] = AVERAGES_PRIOR,
    motion: Motion = "acceleration",
    window: tuple[ArrayLike, ArrayLike] | None = None,
    scale: float | None = None,
) -> Problem:
    """The posterior of frequencies, damping ratios, powers and floor given an averaged spectrum.

    Every prior is normalised and no parameter is profiled, so evidences of different numbers of
    modes compare. The priors of powers and floor are relative to the mean ordinate unless `scale`
    is given: that looks at the data once, through one number, the same for every model.

    Args:
        frequency: frequencies in Hz, increasing.
        psd: the averaged spectrum there, positive.
        modes: number of modes, m.
        averages: ν, the effective number of averages, one or one per ordinate; inferred if None.
        frequency_range: bounds of the uniform prior of every natural frequency, in Hz; the range
            of `frequency` if None.
        damping_range: bounds of the uniform prior of every damping ratio.
        power_prior: median and log deviation of the log-normal prior of every power, as a share
            of scale times the width of the window in Hz.
        floor_prior: the same for the floor, as a multiple of scale.
        averages_prior: the same for ν where it is inferred.
        motion: what was measured.
        window: offsets in Hz and weights through which the analyser saw the spectrum; none if
            None.
        scale: unit of the priors of power and floor; the mean ordinate if None.
    """
    spectrum = averaged_spectrum(frequency, psd, averages=averages, window=window, scale=scale)
    at = spectrum.frequency
    bounds = (float(at[0]), float(at[-1])) if frequency_range is None else frequency_range
    require_range("frequency_range", bounds)
    require_range("damping_range", damping_range)
    if motion not in EXPONENTS:
        raise ValueError(f"expected motion {', '.join(EXPONENTS)}, got {motion!r}")
    known = averages is not None
    width = float(at[-1] - at[0])
    posterior = ModalPowersPosterior(
        frequency=PriorNormal(Uniform(*bounds)),
        damping=PriorNormal(Uniform(*damping_range)),
        power=_log_normal("power_prior", power_prior, width),
        floor=_log_normal("floor_prior", floor_prior),
        averages=None if known else _log_normal("averages_prior", averages_prior),
        modes=modes,
        exponent=EXPONENTS[motion],
    )
    return _problem(posterior, spectrum)


def _problem(posterior: ModalPowersPosterior, spectrum: AveragedSpectrum) -> Problem:
    """The posterior with the symmetry of its modes, where there are ordinates enough for them."""
    modes, known = posterior.modes, posterior.averages is None
    group = Joint(modes, (Blocks(3), Fixed(1 if known else 2)))
    if spectrum.frequency.size < group.dim:
        raise ValueError(
            f"{modes} modes have {group.dim} parameters with the floor; "
            f"expected at least as many ordinates, got {spectrum.frequency.size}"
        )
    blocks = [f"{n}[{j}]" for j in range(modes) for n in ("frequency", "damping", "power")]
    return Problem(
        posterior,
        group,
        data=spectrum,
        prior=standard_normal(group.dim),
        names=[*blocks, "floor"] if known else [*blocks, "floor", "averages"],
        constrain=WithData(posterior.constrain),
        unconstrain=WithData(posterior.unconstrain),
        pointwise=posterior.pointwise,
        dims=dict.fromkeys(("frequency", "damping", "power"), ("mode",)),
    )


def _log_normal(name: str, prior: tuple[float, float], unit: float = 1.0) -> PriorNormal:
    median, deviation = prior
    if not (0 < median < math.inf and 0 < deviation < math.inf):
        raise ValueError(f"{name} must be a positive median and log deviation, got {prior}")
    return PriorNormal(LogNormal(math.log(median * unit), deviation))


@in_float64
def simulate_powers(key: Key, problem: Problem, x: ArrayLike) -> AveragedSpectrum:
    """Data like those of a `modal_powers` problem, drawn from its likelihood at x."""
    posterior, spectrum = problem.log_density, problem.data
    if not isinstance(posterior, ModalPowersPosterior):
        raise ValueError("expected a problem that modal_powers made")
    point = jnp.asarray(x, float)
    mean = np.asarray(expected_ordinates(spectrum, posterior.parts(point), posterior.exponent))
    shape = float(posterior.factor(point)) * spectrum.averages
    noise = host_generator(key).gamma(shape) / shape
    return spectrum._replace(psd=mean * noise)
