"""Figures of mode shapes: bars per channel with their intervals, singular values with bands.

The spectrum that draws of a posterior stand for, mode by mode, on a grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.batching import map_points
from folt.fit import Fit
from folt.modal.models.coherence import transfer
from folt.modal.models.powers import ModalPowersPosterior, resonance
from folt.modal.models.shapes import ModalShapesPosterior
from folt.modal.models.spectrum import AveragedSpectrum, ModalPosterior, Spectrum, response
from folt.modal.shapes import INTERVAL, SingularValues, shape_draws, singular_values
from folt.report.style import INK, LINE, PALETTE, QUIET, blank, styled
from folt.types import Point, in_float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DRAWS = 1_000


class Curves(NamedTuple):
    """Spectra of some draws: the whole, the part of every mode, and the floor."""

    grid: Float[np.ndarray, " n"]
    total: Float[np.ndarray, "draw n"]
    modes: Float[np.ndarray, "draw m n"]
    floor: Float[np.ndarray, " draw"]


@in_float64
def curves(
    fit: Fit,
    unit: float,
    points: int = 401,
    window: tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]] | None = None,
) -> Curves:
    """Spectra of up to a thousand draws, as the analyser would have seen them, modes by frequency.

    Args:
        fit: with its problem, of any model.
        unit: what the problem's ordinates have to be multiplied by.
        points: grid points from the first to the last frequency of the data.
        window: of the analyser, for a model of shapes, which does not know it.
    """
    if fit.problem is None:
        raise ValueError("expected a fit with its problem: folt.load(path, problem=problem)")
    data, posterior = fit.problem.data, fit.problem.log_density
    grid = np.linspace(data.frequency[0], data.frequency[-1], points)
    flat = fit.draws.reshape(-1, fit.problem.dim)
    draws = flat[np.linspace(0, len(flat) - 1, min(_DRAWS, len(flat))).astype(int)]
    if isinstance(posterior, ModalShapesPosterior):
        seen_through = (np.zeros(1), np.ones(1)) if window is None else window
        modes, floor, between = map_points(_of_shapes, (posterior, grid, seen_through), draws)
    else:
        between = 0.0
        function = _of_powers if isinstance(posterior, ModalPowersPosterior) else _of_shape
        modes, floor = map_points(function, (posterior, data, grid), draws)
    # Labels need not follow the frequencies; the modes of a picture do.
    order = np.argsort(np.asarray(fit.problem.parameters(draws)["frequency"]), axis=1)
    modes = np.take_along_axis(np.asarray(modes), order[..., None], axis=1)
    total = modes.sum(axis=1) + between + floor[:, None]
    return Curves(grid, unit * total, unit * modes, unit * floor)


def _of_powers(
    context: tuple[ModalPowersPosterior, AveragedSpectrum, np.ndarray], x: Point
) -> tuple[Float[Array, "m n"], Array]:
    posterior, spectrum, grid = context
    found = posterior.parts(x)
    at = (jnp.asarray(grid)[:, None] + jnp.asarray(spectrum.offsets)).reshape(-1)
    peaks = resonance(at, found.frequency, found.damping, posterior.exponent)
    parts = (found.power[:, None] * peaks).reshape(-1, len(grid), len(spectrum.offsets))
    return parts @ jnp.asarray(spectrum.weights), found.floor


def _of_shapes(
    context: tuple[ModalShapesPosterior, np.ndarray, tuple[np.ndarray, np.ndarray]], x: Point
) -> tuple[Float[Array, "m n"], Array, Float[Array, " n"]]:
    """Return the trace of the spectral matrix in squares of the scale of the ordinates.

    Returns:
        The part of every mode, the floor, and what correlated forces add between modes.
    """
    posterior, grid, (offsets, weights) = context
    found = posterior.parts(x)
    at = (jnp.asarray(grid)[:, None] + jnp.asarray(offsets)).reshape(-1)
    moved = transfer(at, found.frequency, found.damping, posterior.exponent)
    forced = moved[:, None] * (jnp.eye(len(moved)) if found.root is None else found.root)[..., None]
    matrix = jnp.real(jnp.einsum("iak,jak->ijk", forced, jnp.conj(forced)))
    matrix = matrix * (found.psi @ found.psi.T)[..., None]
    smeared = matrix.reshape(*matrix.shape[:2], len(grid), len(offsets)) @ jnp.asarray(weights)
    own = jnp.einsum("iik->ik", smeared)
    return own, jnp.sum(found.noise), jnp.sum(smeared, axis=(0, 1)) - jnp.sum(own, axis=0)


def _of_shape(
    context: tuple[ModalPosterior, Spectrum, np.ndarray], x: Point
) -> tuple[Float[Array, "m n"], Array]:
    posterior, spectrum, grid = context
    frequency, damping = posterior.modes(x)
    shape = response(spectrum.frequency, frequency, damping, posterior.floor)
    amplitude = jnp.mean(spectrum.psd / shape)
    parts = [
        response(grid, f[None], xi[None], 0.0) for f, xi in zip(frequency, damping, strict=True)
    ]
    return amplitude * jnp.stack(parts), amplitude * posterior.floor


ROTATED_FROM = 6
"""Channels from which on their names stand upright."""


def shape_pictures(fit: Fit, names: tuple[str, ...], unit: str = "") -> dict[str, Figure]:
    """Return the figures that shapes add to an identification, by the name of their file."""
    frequency = np.sort(fit.posterior["frequency"], axis=-1)
    middle = np.median(frequency.reshape(-1, frequency.shape[-1]), axis=0)
    return {
        "shapes": shapes_figure(shape_draws(fit), middle, names),
        "singular_values": singular_figure(singular_values(fit), frequency.shape[-1], unit),
    }


def shapes_figure(
    shapes: Float[np.ndarray, "draw mode channel"],
    frequency: Float[np.ndarray, " mode"],
    names: tuple[str, ...],
) -> Figure:
    """Return one row of bars per mode: the mean of every entry with its 95 % interval.

    Args:
        shapes: of unit length, signed alike.
        frequency: of every mode, in Hz, for the headings.
        names: of the channels.
    """
    mean = shapes.mean(axis=0)
    low, high = np.quantile(shapes, INTERVAL, axis=0)
    at = np.arange(len(names))
    with styled():
        figure = blank(max(5.2, 1.6 + 0.42 * len(names)), 0.9 + 1.35 * len(frequency))
        panels = figure.subplots(len(frequency), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for j, panel in enumerate(panels):
            colour = PALETTE[j % len(PALETTE)]
            panel.axhline(0.0, color=QUIET, linewidth=0.8)
            panel.bar(at, mean[j], width=0.62, color=colour, alpha=0.55, linewidth=0)
            _intervals(panel, at, low[j], high[j])
            panel.set_title(f"mode {j + 1}, {frequency[j]:.4f} Hz", loc="left", color=colour)
            panel.set_ylabel("shape")
            panel.grid(axis="y", color=LINE, linewidth=0.6)
            panel.set_axisbelow(True)
        room = 1.12 * max(float(np.abs(low).max()), float(np.abs(high).max()))
        panels[-1].set_ylim(-room, room)
        panels[-1].set_xticks(at, names, rotation=90 if len(names) >= ROTATED_FROM else 0)
        panels[-1].set_xlabel("channel")
    return figure


def _intervals(panel: Axes, at: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """95 % intervals as lines with short ends."""
    panel.vlines(at, low, high, color=INK, linewidth=1.3, zorder=3)
    for ends in (low, high):
        panel.hlines(ends, at - 0.14, at + 0.14, color=INK, linewidth=1.1, zorder=3)


def singular_figure(found: SingularValues, modes: int, unit: str = "") -> Figure:
    """Root singular values of the averaged spectral matrix over their predictive bands.

    Args:
        found: measured values and bands.
        modes: how many were fitted: one more singular value than that is drawn.
        unit: of the channels, for the axis.
    """
    shown = min(modes + 1, found.measured.shape[1])
    with styled():
        figure = blank(7.4, 4.2)
        panel = figure.subplots()
        for i in range(shown):
            colour = PALETTE[i % len(PALETTE)]
            panel.fill_between(
                found.frequency,
                found.low[:, i],
                found.high[:, i],
                color=colour,
                alpha=0.22,
                linewidth=0,
            )
            panel.plot(found.frequency, found.middle[:, i], color=colour, linewidth=1.2)
            panel.plot(
                found.frequency,
                found.measured[:, i],
                "o",
                markersize=3.6,
                markerfacecolor="white",
                markeredgecolor=colour,
                label=f"singular value {i + 1}",
            )
        panel.set_title(
            f"{100 * found.outside:.0f} % of the measured values lie outside their bands; about "
            "5 % do where the model holds",
            weight="normal",
        )
        panel.set_yscale("log")
        panel.set_xlim(found.frequency[0], found.frequency[-1])
        panel.set_xlabel("frequency, Hz")
        panel.set_ylabel(f"root singular value, {unit or 'unit'}/√Hz")
        figure.legend(loc="outside lower center", ncols=shown)
    return figure
