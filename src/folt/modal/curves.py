"""The spectrum that draws of a posterior stand for, mode by mode, on a grid."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.fit import Fit
from folt.models.averaged import AveragedSpectrum
from folt.models.coherence import transfer
from folt.models.modal import ModalPosterior, Spectrum, response
from folt.models.powers import ModalPowersPosterior, seen
from folt.models.shapes import ModalShapesPosterior
from folt.problem.batching import map_points
from folt.types import Point, in_float64

DRAWS = 1_000


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
    draws = flat[np.linspace(0, len(flat) - 1, min(DRAWS, len(flat))).astype(int)]
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
    on_grid = spectrum._replace(frequency=grid)
    parts = [
        seen(on_grid, _only(found, j), posterior.exponent) for j in range(found.frequency.shape[0])
    ]
    return jnp.stack(parts), found.floor


def _of_shapes(
    context: tuple[ModalShapesPosterior, np.ndarray, tuple[np.ndarray, np.ndarray]], x: Point
) -> tuple[Float[Array, "m n"], Array, Float[Array, " n"]]:
    """The trace of the spectral matrix in squares of the scale of the ordinates.

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


def _only(found: PyTree, j: int) -> PyTree:
    """One mode of several, without the floor."""
    one = (value[j : j + 1] for value in found[:3])
    return type(found)(*one, jnp.zeros(()))


def _of_shape(
    context: tuple[ModalPosterior, Spectrum, np.ndarray], x: Point
) -> tuple[Float[Array, "m n"], Array]:
    posterior, spectrum, grid = context
    frequency, damping = posterior.modes(x)
    shape = response(spectrum.frequency, frequency, damping, posterior.floor)
    amplitude = jnp.mean(spectrum.psd / shape)
    parts = [
        response(grid, frequency[j : j + 1], damping[j : j + 1], 0.0)
        for j in range(frequency.shape[0])
    ]
    return amplitude * jnp.stack(parts), amplitude * posterior.floor
