"""Where the search for modes with shapes begins: peaks of the spectrum and their singular vectors.

From the prior of fifty parameters nothing is found in reasonable time. The largest eigenvalue of
the spectral matrix, averaged over a few neighbours, peaks at the modes, and its eigenvector there
is nearly a shape. Guesses of all modes together are made at frequencies drawn in proportion to that
eigenvalue, and the best are kept. Newton's method goes uphill from some of them; the start is a
mixture of t distributions, narrow ones where it arrived and broad ones around the other guesses. So
tempering has a short way to go, and searches still begin in other places as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from folt.batching import map_points
from folt.modal.models.ordinates import FourierOrdinates
from folt.problem import Problem
from folt.proposals import Mixture
from folt.types import Point

if TYPE_CHECKING:
    from folt.modal.models.shapes import ModalShapesPosterior

_GUESSES, _KEPT = 512, 16
"""Guesses of all modes together, and those of the largest density that are kept."""

_SHARPEST = 0.005
"""Damping ratio of a peak as wide as the neighbours that are averaged."""

DAMPING_QUANTILES = (0.1, 0.6)
"""Prior quantiles between which damping ratios are guessed: those of most structures."""

RELATIVE_WIDTH, FREQUENCY_WIDTH, DAMPING_WIDTH, NOISE_WIDTH = 0.5, 0.1, 0.5, 0.3
"""Deviations of the t around a guess: of the entries of ψ relative to their root mean square, of
the others in their coordinates, in which the prior has deviation one."""

PAIR_WIDTH = 0.5
"""The same of correlations between forces."""

_FARTHEST = 4.0
"""Score beyond which a frequency counts as outside the prior."""

SMALLEST_NOISE = 1e-12
"""Least noise as a share of the largest eigenvalue, where rounding leaves none."""

_DEGREES = 5.0
"""Degrees of freedom of the t: guesses may be wrong by several deviations."""

_CLIMBED, _STEPS = 4, 40
"""Guesses from which Newton's method goes uphill, and its most steps. On the simulated tower with
four channels and with fifteen all of six such searches ended at one maximum."""

_DIFFERENCE = 1e-4
"""Step of the differences of gradients, in coordinates whose prior has deviation one; posterior
deviations are a few thousandths at least."""

_LONGEST_STEP = 1.0
"""Length of the longest step of Newton's method, in the same coordinates."""

SHORTER = 0.5 ** np.arange(0.0, 16.0, 2.0)
"""Factors on a step, all of which are tried."""

_ARRIVED = 1e-3
"""Gain in nats, promised by the quadratic, at which a search has arrived."""

_SAME = 0.05
"""Nats by which two ends of searches differ that are images of each other."""

STRETCHED = 1.5
"""Factor on the covariance around a maximum: wider than the posterior, which takes six temperatures
in 52 dimensions."""

_KNOWN = 0.9
"""Weight of the maxima in the start, where there are any."""


def averaging_reach(data: FourierOrdinates) -> int:
    """Frequencies on either side over which the spectral matrix is averaged.

    They are as wide as a sharp mode in the middle of the band, but at least as many as give the
    matrix its full rank.
    """
    at, n = np.asarray(data.frequency), data.real.shape[1]
    step = float(at[-1] - at[0]) / max(at.size - 1, 1)
    reach = max(round(_SHARPEST * 0.5 * (at[0] + at[-1]) / step), n // 2 + 1)
    return max(min(reach, at.size // 8), 1)


def averaged_matrices(data: FourierOrdinates) -> Float[np.ndarray, "k n n"]:
    """Real part of the spectral matrix at every frequency, averaged over a few neighbours."""
    at, n = np.asarray(data.frequency), data.real.shape[1]
    reach = averaging_reach(data)
    products = np.einsum("ki,kj->kij", data.real, data.real)
    products += np.einsum("ki,kj->kij", data.imaginary, data.imaginary)
    sums = np.concatenate([np.zeros((1, n, n)), np.cumsum(products, axis=0)])
    first = np.maximum(np.arange(at.size) - reach, 0)
    last = np.minimum(np.arange(at.size) + reach + 1, at.size)
    return (sums[last] - sums[first]) / (last - first)[:, None, None]


def spectrum_start(posterior: ModalShapesPosterior, data: FourierOrdinates, noises: int) -> Mixture:
    """A mixture of broad t distributions near the spectrum, in the coordinates of a posterior."""
    m, n = posterior.modes, posterior.channels
    values, vectors = np.linalg.eigh(averaged_matrices(data))
    at, largest = np.asarray(data.frequency), values[:, -1]
    rest = np.maximum(values[:, : max(n - m, 1)].mean(axis=1), SMALLEST_NOISE * largest)
    scores = np.asarray(posterior.frequency.pull(jnp.asarray(at)))
    usable = np.isfinite(scores) & (np.abs(scores) < _FARTHEST)
    chance = np.where(usable, largest, 0.0) if usable.any() else largest
    generator = np.random.default_rng(0)
    chosen = np.stack(
        [
            generator.choice(at.size, size=m, p=chance / chance.sum(), replace=False)
            for _ in range(_GUESSES)
        ]
    )
    damping_scores = ndtri(generator.uniform(*DAMPING_QUANTILES, chosen.shape))
    damping = np.asarray(posterior.damping.push(jnp.asarray(damping_scores)))
    # A resonance of unit power is 1/(πfξ) high, whatever was measured.
    roots = np.sqrt(largest[chosen] * math.pi * at[chosen] * damping)
    psi = np.asarray(posterior.psi.pull(jnp.asarray(roots[..., None] * vectors[chosen, :, -1])))
    noise = np.asarray(posterior.noise.pull(jnp.full((_GUESSES, noises), np.median(rest))))
    pairs = np.zeros((_GUESSES, 2 * posterior.pairs))  # of forces that may be correlated
    others = np.concatenate([pairs, noise], axis=1)
    spread = np.concatenate([pairs + PAIR_WIDTH, np.full(noise.shape, NOISE_WIDTH)], axis=1)
    entries = RELATIVE_WIDTH * np.sqrt(np.mean(psi**2, axis=2, keepdims=True))
    widths = [np.broadcast_to(entries, psi.shape), *_alike(chosen, FREQUENCY_WIDTH, DAMPING_WIDTH)]
    means = _points([psi, np.clip(scores, -_FARTHEST, _FARTHEST)[chosen], damping_scores], others)
    deviations = _points(widths, spread)
    densities = map_points(_log_density, (posterior, data), means)
    best = np.argsort(-np.nan_to_num(densities, nan=-np.inf))[:_KEPT]
    factors = np.eye(means.shape[1]) / deviations[best, None, :]
    return Mixture(jnp.zeros(_KEPT), jnp.asarray(means[best]), jnp.asarray(factors), _DEGREES)


def _log_density(
    context: tuple[ModalShapesPosterior, FourierOrdinates], x: Point
) -> Float[Array, ""]:
    posterior, data = context
    return posterior(x, data)


def _alike(like: np.ndarray, *values: float) -> list[np.ndarray]:
    return [np.full(like.shape, value) for value in values]


def _points(rows: list[np.ndarray], last: np.ndarray) -> Float[np.ndarray, "guess dim"]:
    """Return points from (ψ, f, ξ) of every mode of every guess, and what follows the modes."""
    psi, frequency, damping = rows
    blocks = np.concatenate([psi, frequency[..., None], damping[..., None]], axis=2)
    return np.concatenate([blocks.reshape(len(blocks), -1), last], axis=1)


class _Maximum(NamedTuple):
    """Where a search ended: log density, point and lower triangular root of its precision."""

    value: float
    point: Float[np.ndarray, " dim"]
    root: Float[np.ndarray, "dim dim"]


def sharpened(problem: Problem) -> Problem:
    """Return the problem with a start at the maxima that the best guesses of its start lead to.

    Maxima take the places of the guesses, weighted by Laplace's masses, at least as much as a tenth
    of an even share each; guesses that lead nowhere stay.
    """
    start = problem.start
    assert isinstance(start, Mixture)
    found: list[_Maximum] = []
    for guess in np.asarray(start.means)[:_CLIMBED]:
        end = _climbed(problem, guess)
        if end is not None and all(abs(end.value - other.value) > _SAME for other in found):
            found.append(end)
    if not found:
        return problem
    masses = np.array([end.value - np.sum(np.log(np.diag(end.root))) for end in found])
    shares = np.maximum(np.exp(masses - masses.max()), 0.1)
    weights = np.full(start.components, (1 - _KNOWN) / (start.components - len(found)))
    weights[: len(found)] = _KNOWN * shares / shares.sum()
    means, factors = np.array(start.means), np.array(start.factors)
    means[: len(found)] = [end.point for end in found]
    factors[: len(found)] = [end.root / math.sqrt(STRETCHED) for end in found]
    log_weights = jnp.asarray(np.log(weights))
    sharp = Mixture(log_weights, jnp.asarray(means), jnp.asarray(factors), _DEGREES)
    return eqx.tree_at(lambda p: p.start, problem, sharp)


def _climbed(problem: Problem, guess: Float[np.ndarray, " dim"]) -> _Maximum | None:
    """The maximum above a guess, by Newton's method with curvatures taken as positive."""
    x, steps = guess, _DIFFERENCE * np.eye(guess.size)
    for _ in range(_STEPS):
        values, slopes = problem.gradients(np.concatenate([x[None], x + steps, x - steps]))
        if not (np.isfinite(values[0]) and np.all(np.isfinite(slopes))):
            return None
        ahead, behind = np.split(slopes[1:], 2)
        curvature = (behind - ahead) / (2 * _DIFFERENCE)
        bends, axes = np.linalg.eigh(0.5 * (curvature + curvature.T))
        along = axes.T @ slopes[0]
        step = axes @ (along / np.maximum(np.abs(bends), 1.0))
        if bends[0] > 0 and 0.5 * along @ (along / bends) < _ARRIVED:
            # The inverse covariance is at least one in every direction, as it is in the prior.
            covariance = (axes / np.maximum(bends, 1.0)) @ axes.T
            return _Maximum(float(values[0]), x, np.linalg.inv(np.linalg.cholesky(covariance)))
        step *= min(1.0, _LONGEST_STEP / np.linalg.norm(step))
        trials = x + SHORTER[:, None] * step
        gains = np.nan_to_num(problem.log_probs(trials), nan=-np.inf)
        if gains.max() <= values[0]:
            return None
        x = trials[gains.argmax()]
    return None
