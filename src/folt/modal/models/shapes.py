"""Vibration modes with their shapes, from the Fourier transform of all channels.

The scaled transform F_k of n channels at the frequency f_k is complex normal with the covariance

    E_k = Σ_i ψ_i·ψ_iᵀ·L_i(f_k) + diag(S),

for modal forces that are flat within the band and uncorrelated with each other. ψ_i is the root of
the power of mode i times its shape of unit length, L_i its resonance (`powers.resonance`), S the
density of the noise of the sensors, one for all of them or one for each. With

    W_k = diag(1/L_i(f_k)) + (ψ_iᵀ diag(S)⁻¹ ψ_j)_ij,    v_k = (ψ_iᵀ diag(S)⁻¹ F_k)_i,

which are m x m and m whatever the number of channels,

    log|E_k| = Σ log S + Σ log L_i(f_k) + log|W_k|,
    F_kᴴ E_k⁻¹ F_k = F_kᴴ diag(S)⁻¹ F_k - v_kᴴ W_k⁻¹ v_k.

Correlated forces, `coherence`, have E_k = Σ_ij ψ_i·ψ_jᵀ·C_ij·t_i·conj(t_j) + diag(S) with complex
transfers t_i, whose phases then matter, and complex W_k and v_k that hold the transfers.

Nothing is averaged and no taper is applied: the raw transform carries all that the record says of
the band. The posterior repeats under 2^m·m! signed permutations of (ψ_i; f_i, ξ_i), whose last two
keep their sign. A point holds one row (ψ, f, ξ) per mode, then the coordinates of C, if there are
any, then S, in coordinates in which every prior is standard normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from folt.coordinates import LogNormal, Normal, PriorNormal, Uniform
from folt.coordinates.tails import normal_log_density
from folt.groups import Group, Product, SignedPermutation, Trivial
from folt.modal.models.coherence import (
    COHERENCE_SCALE,
    coherence_coordinates,
    coherence_root,
    correlated_group,
    correlated_pairs,
    mode_pairs,
    transfer,
)
from folt.modal.models.complex_normal import Shapes, log_complex_normal
from folt.modal.models.ordinates import (
    Channels,
    FourierOrdinates,
    fourier_ordinates,
    require_enough,
)
from folt.modal.models.powers import EXPONENTS, FLOOR_PRIOR, Motion
from folt.modal.models.spectrum import require_range
from folt.modal.models.spectrum_start import sharpened, spectrum_start
from folt.models.observations import number_of, positive
from folt.problem import Problem, WithData
from folt.proposals import standard_normal
from folt.types import Key, Point, Scalar, in_float64

SHAPE_SCALE = 1.0
"""Prior deviation of an entry of ψ, as a multiple of the root of a channel's power in the band."""


class ModalShapesPosterior(eqx.Module):
    """Complex normal likelihood times priors, all constants included: its integral is the evidence.

    Attributes:
        psi: coordinate of an entry of ψ.
        frequency: coordinate of a natural frequency.
        damping: coordinate of a damping ratio.
        noise: coordinate of a noise density.
        modes: number of modes, m.
        channels: number of channels, n.
        exponent: power of the frequency by which the quantity differs from the displacement.
        pairs: pairs of modes whose forces are correlated; none for uncorrelated forces.
    """

    psi: PriorNormal
    frequency: PriorNormal
    damping: PriorNormal
    noise: PriorNormal
    modes: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    exponent: int = eqx.field(static=True)
    pairs: int = eqx.field(static=True, default=0)

    @property
    def before_noise(self) -> int:
        """Coordinates before those of the noise."""
        return self.modes * (self.channels + 2) + 2 * self.pairs

    def parts(self, x: Point) -> Shapes:
        """Scaled shapes, frequencies, damping ratios and the noise of every channel."""
        n = self.channels
        size = self.modes * (n + 2)
        rows = x[:size].reshape(self.modes, n + 2)
        noise = self.noise.push(x[self.before_noise :])
        pairs = COHERENCE_SCALE * x[size : self.before_noise]
        return Shapes(
            self.psi.push(rows[:, :n]),
            self.frequency.push(rows[:, n]),
            self.damping.push(rows[:, n + 1]),
            jnp.broadcast_to(noise, (n,)),
            coherence_root(pairs, self.modes) if self.pairs else None,
        )

    def terms(self, x: Point, data: FourierOrdinates) -> Float[Array, " k"]:
        """Return log CN(F_k; 0, E_k) of every frequency."""
        return log_complex_normal(self.parts(x), data, self.exponent)

    def __call__(self, x: Point, data: FourierOrdinates) -> Scalar:
        """Return the log density at one point."""
        return jnp.sum(self.terms(x, data)) + jnp.sum(normal_log_density(x))

    def pointwise(self, x: Point, data: FourierOrdinates) -> dict[str, Array]:
        """Return the log likelihood of every frequency."""
        return {"ordinates": self.terms(x, data)}

    def predictive(self, key: Key, x: Point, data: FourierOrdinates) -> dict[str, Array]:
        """New ordinates in the unit of the data, real and imaginary parts along the last axis."""
        modes = self.parts(x)
        key_modes, key_noise = jax.random.split(key)
        shape = (*jnp.shape(data.real), 2)
        drawn = jax.random.normal(key_modes, (shape[0], 2, self.modes), x.dtype)
        at = (jnp.asarray(data.frequency), modes.frequency, modes.damping, self.exponent)
        forces = (drawn[:, 0] + 1j * drawn[:, 1]) / math.sqrt(2)
        if modes.root is not None:
            forces = forces @ modes.root.T
        moved = (forces * transfer(*at).T) @ modes.psi
        own = jax.random.normal(key_noise, shape, x.dtype) * jnp.sqrt(modes.noise / 2)[:, None]
        return {
            "ordinates": jnp.asarray(data.scale)
            * (jnp.stack([moved.real, moved.imag], axis=-1) + own)
        }

    def constrain(self, x: Point, data: FourierOrdinates) -> dict[str, Array]:
        """Frequencies in Hz, damping ratios, powers, shapes of unit length and noise densities."""
        modes = self.parts(x)
        length = jnp.linalg.norm(modes.psi, axis=1)
        noise = self.noise.push(x[self.before_noise :])
        unit = jnp.square(data.scale)
        coherence = {}
        if modes.root is not None:
            c = modes.root @ jnp.conj(modes.root.T)
            entries = jnp.stack([c[i, j] for i, j in mode_pairs(self.modes)])
            coherence = {"coherence": jnp.abs(entries), "phase": jnp.angle(entries)}
        return {
            "frequency": modes.frequency,
            "damping": modes.damping,
            "power": unit * jnp.square(length),
            "shape": modes.psi / length[:, None],
            **coherence,
            "noise": unit * (noise[0] if noise.shape == (1,) else noise),
        }

    def unconstrain(self, values: dict[str, Array], data: FourierOrdinates) -> Point:
        """Return the point with these parameters; a shape counts by its direction."""
        length = jnp.linalg.norm(values["shape"], axis=1)
        root = jnp.sqrt(values["power"]) / (data.scale * length)
        columns = [
            self.psi.pull(values["shape"] * root[:, None]),
            self.frequency.pull(values["frequency"])[:, None],
            self.damping.pull(values["damping"])[:, None],
        ]
        noise = self.noise.pull(jnp.atleast_1d(values["noise"]) / jnp.square(data.scale))
        rows = jnp.concatenate(columns, axis=1).reshape(-1)
        if not self.pairs:
            return jnp.concatenate([rows, noise])
        entries = values["coherence"] * jnp.exp(1j * values["phase"])
        pairs = coherence_coordinates(entries, self.modes) / COHERENCE_SCALE
        return jnp.concatenate([rows, pairs, noise])


@in_float64
def modal_shapes(
    record: Channels | FourierOrdinates,
    modes: int = 3,
    *,
    band: tuple[float, float] | None = None,
    frequency_range: tuple[float, float] | None = None,
    damping_range: tuple[float, float] = (0.001, 0.05),
    shape_scale: float = SHAPE_SCALE,
    noise_prior: tuple[float, float] = FLOOR_PRIOR,
    noise: Literal["common", "channel"] = "common",
    motion: Motion = "acceleration",
    forces: Literal["uncorrelated", "correlated"] = "uncorrelated",
    names: Sequence[str] | None = None,
) -> Problem:
    """Return the posterior of frequencies, damping ratios, shapes and noise given all channels.

    Every prior is normalised and no parameter is profiled, so evidences of different numbers of
    modes compare. The priors of powers and noise are relative to the mean square of the ordinates:
    that looks at the data once, through one number, the same for every number of modes. The search
    for the posterior begins at maxima near the peaks of the spectrum and their singular vectors;
    `Problem.with_data` keeps that start, so make the problem anew for a record of other modes.

    Args:
        record: a record, with its band; or its ordinates, from `fourier_ordinates` or
            `scaled_ordinates`.
        modes: number of modes, m.
        band: lowest and highest frequency in Hz, with a record.
        frequency_range: bounds of the uniform prior of every natural frequency, in Hz; the band,
            or else the range of the ordinates, if None.
        damping_range: bounds of the uniform prior of every damping ratio.
        shape_scale: deviation of the normal prior of every entry of ψ, the root of a mode's power
            times its shape, as a multiple of the root of the mean power of a channel in the band.
        noise_prior: median and log deviation of the log-normal prior of noise densities, as a
            multiple of the mean square of the ordinates.
        noise: one density for all sensors, or one for each channel.
        motion: what was measured.
        forces: whether the forces of different modes may be correlated: their coherences and
            phases are then parameters too, with a prior around zero.
        names: of the channels, for tables and messages; those of the record, if it has any.

    Raises:
        ValueError: one channel, too few frequencies for so many modes, or a setting out of range.
    """
    if isinstance(record, FourierOrdinates):
        data = record
    elif band is None:
        raise ValueError("expected a band, LOW and HIGH in Hz, with a record")
    else:
        names = names or getattr(record, "names", None)
        data = fourier_ordinates(record, band, names=names)
    at = np.asarray(data.frequency)
    bounds = frequency_range or band or (float(at[0]), float(at[-1]))
    require_range("frequency_range", bounds)
    require_range("damping_range", damping_range)
    positive(shape_scale=shape_scale, noise_median=noise_prior[0], noise_deviation=noise_prior[1])
    for name, chosen, known in (
        ("motion", motion, tuple(EXPONENTS)),
        ("noise", noise, ("common", "channel")),
        ("forces", forces, ("uncorrelated", "correlated")),
    ):
        if chosen not in known:
            raise ValueError(f"expected {name} {' or '.join(map(repr, known))}, got {chosen!r}")
    m, channels = number_of("modes", modes), data.real.shape[1]
    noises = channels if noise == "channel" else 1
    pairs = len(correlated_pairs(m)) if forces == "correlated" else 0
    require_enough(m, channels, at.size, noises + 2 * pairs)
    width = float(at[-1] - at[0])
    posterior = ModalShapesPosterior(
        psi=PriorNormal(Normal(0.0, shape_scale * math.sqrt(width))),
        frequency=PriorNormal(Uniform(*bounds)),
        damping=PriorNormal(Uniform(*damping_range)),
        noise=PriorNormal(LogNormal(math.log(noise_prior[0]), noise_prior[1])),
        modes=m,
        channels=channels,
        exponent=EXPONENTS[motion],
        pairs=pairs,
    )
    return sharpened(_problem(posterior, data, noises, names))


def _problem(
    posterior: ModalShapesPosterior,
    data: FourierOrdinates,
    noises: int,
    names: Sequence[str] | None,
) -> Problem:
    """The posterior with the signed permutations of its modes, and a start near the spectrum."""
    m, n = posterior.modes, posterior.channels
    group: Group = Product(SignedPermutation(m, n + 2, unsigned=2), Trivial(noises))
    if posterior.pairs:
        group = correlated_group(m, n + 2, noises)
    pairs = mode_pairs(m)[: posterior.pairs]
    rows = [
        [*(f"psi[{i},{c}]" for c in range(n)), f"frequency[{i}]", f"damping[{i}]"] for i in range(m)
    ]
    last = ["noise"] if noises == 1 else [f"noise[{c}]" for c in range(n)]
    return Problem(
        posterior,
        group,
        data=data,
        prior=standard_normal(group.dim),
        start=spectrum_start(posterior, data, noises),
        names=[
            *(name for row in rows for name in row),
            *(f"coherence_{part}[{i},{j}]" for i, j in pairs for part in ("real", "imaginary")),
            *last,
        ],
        constrain=WithData(posterior.constrain),
        unconstrain=WithData(posterior.unconstrain),
        pointwise=posterior.pointwise,
        predictive=posterior.predictive,
        # Engineers count modes by frequency; sums of shapes, the order of the fold, confuse them.
        sort_by=None if posterior.pairs else "frequency",
        sign=None if posterior.pairs else "largest",
        coords={"channel": names} if names else None,
        dims={
            **dict.fromkeys(("frequency", "damping", "power"), ("mode",)),
            "shape": ("mode", "channel"),
            **(dict.fromkeys(("coherence", "phase"), ("pair",)) if pairs else {}),
            **({} if noises == 1 else {"noise": ("channel",)}),
        },
    )


@in_float64
def simulate_shapes(key: Key, problem: Problem, x: ArrayLike) -> FourierOrdinates:
    """Data like those of a `modal_shapes` problem, drawn from its likelihood at x."""
    posterior, data = problem.log_density, problem.data
    if not isinstance(posterior, ModalShapesPosterior):
        raise ValueError("expected a problem that modal_shapes made")
    drawn = np.asarray(posterior.predictive(key, jnp.asarray(x, float), data)["ordinates"])
    real, imaginary = (drawn[..., part] / data.scale for part in range(2))
    return data._replace(real=real, imaginary=imaginary)
