"""Mixtures larger than Gauss-Newton affords: components split, then moved by Adam.

A dense Gauss-Newton step costs the square of the number of parameters. Where the mixture that it
ends with is still rough, every component is split in two, again and again, and the Huber-clipped
variance of h is lowered further by stochastic steps, whose cost grows with the number of parameters
only. The gradient is closed form: moments of the points under the shares of the components.

Adam for Gaussians that move in their own coordinates.

A step moves the mean of a Gaussian in units of its own spread and multiplies its factor from the
left, so that one learning rate suits narrow and wide ones. Moments of weighted points are all that
the gradient of Σ weight·log q needs: ∂log N/∂mean = u and ∂log N/∂turn = I - u·uᵀ with
u = factor·(x - mean).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from folt.proposals.components import Components, monomials
from folt.training.gauss_newton import Pool, huber, parameters_per_component
from folt.training.task import Bench, JudgedProposal
from folt.types import Progress

_SLOW, _FAST = 0.99, 0.9
"""Memories of Adam for squares and for slopes."""

RAMP = 20.0
"""Steps over which the learning rate grows at the beginning."""


class Adam:
    """Adam's running means of slopes and of their squares, for several arrays."""

    def __init__(self) -> None:
        self.known: list[tuple[np.ndarray, np.ndarray]] = []
        self.count = 0

    def __call__(self, slopes: list[np.ndarray]) -> list[np.ndarray]:
        """Where to go, in units of the learning rate."""
        self.count += 1
        if not self.known:
            self.known = [(np.zeros_like(slope), np.zeros_like(slope)) for slope in slopes]
        self.known = [
            (_FAST * mean + (1 - _FAST) * slope, _SLOW * square + (1 - _SLOW) * slope**2)
            for (mean, square), slope in zip(self.known, slopes, strict=True)
        ]
        fast, slow = 1 - _FAST**self.count, 1 - _SLOW**self.count
        return [mean / fast / (np.sqrt(square / slow) + 1e-8) for mean, square in self.known]


def cosine_rates(first: int, steps: int, total: int, peak: float) -> np.ndarray:
    """Learning rates of `steps` steps from number `first` on: a short ramp, then cosine to zero."""
    number = np.arange(first, first + steps) + 1.0
    ramp = np.minimum(number / min(RAMP, total), 1.0)
    decay = 0.5 * (1.0 + np.cos(math.pi * np.minimum(number / (total + 1.0), 1.0)))
    return peak * ramp * decay


def gaussian_slopes(
    means: Any, factors: Any, mass: np.ndarray, sums: np.ndarray, squares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients in mean and turn from the weighted moments Σw, Σw·x and Σw·x·xᵀ."""
    means, factors = np.asarray(means), np.tril(factors)
    away = sums - mass[..., None] * means
    crossed = sums[..., :, None] * means[..., None, :]
    scatter = squares - crossed - crossed.swapaxes(-1, -2)
    scatter += mass[..., None, None] * means[..., :, None] * means[..., None, :]
    turn = mass[..., None, None] * np.eye(means.shape[-1])
    turn = turn - factors @ scatter @ factors.swapaxes(-1, -2)
    return (factors @ away[..., None])[..., 0], np.tril(turn)


def moved_gaussians(
    means: Any, factors: Any, by: np.ndarray, turn: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and factors after a step; the turn's diagonal is the log of a scale."""
    factors = np.tril(factors)
    if factors.shape[-1] == 0:
        return np.asarray(means), factors
    step = np.linalg.solve(factors, by[..., None])[..., 0]
    diagonal = np.exp(np.diagonal(turn, axis1=-2, axis2=-1))
    left = np.tril(turn, -1) + diagonal[..., None] * np.eye(turn.shape[-1])
    return means + step, left @ factors


_TERMS = 11_000
"""Images times components of the largest mixture: what every evaluation of q_F costs. With 720
images and 16 components a fit of the galaxies took three times as long as with 8."""

_PARAMETERS = 16_384
"""Parameters of the largest mixture."""

OFFSET = 0.6
"""Where the halves of a component go, in units of its own spread."""


@dataclasses.dataclass(frozen=True)
class Refinement:
    """How a mixture whose h stays rough goes on: more components, fitted by stochastic steps.

    Attributes:
        rough: standard deviation of h over selection draws above which it is.
        flat: deviation at which the rounds end, read off the judged loss.
        components: most components.
        rounds: blocks of steps, each on fresh proposals.
        steps: Adam steps per round.
        batch: points per step.
        rate: peak learning rate, in units of a component's own spread.
        memory: rounds whose fresh proposals stay in the pool.
    """

    rough: float = 0.05
    flat: float = 0.015
    components: int = 192
    rounds: int = 20
    steps: int = 200
    batch: int = 2048
    rate: float = 0.04
    memory: int = 4

    def __call__(
        self, bench: Bench, best: JudgedProposal[Components], progress: Progress | None = None
    ) -> JudgedProposal[Components]:
        """Return the flattest mixture on the way, judged on selection draws and fresh proposals."""
        main, adam, fresh = best.main, Adam(), best.fresh
        order, most = bench.action.group.order, self.components
        most = min(most, _TERMS // order, _PARAMETERS // parameters_per_component(main.dim))
        while 2 * main.count <= most:
            main = doubled(bench.generator, main)
        recent: list[Pool] = []
        for number in range(self.rounds):
            recent = [*recent[1 - self.memory :], bench.resolved(main, [fresh])]
            pool = Pool(*map(np.concatenate, zip(bench.pool(main, []), *recent, strict=True)))
            width = min(max(best.spread, 0.1), 0.5)
            main = self._descended(bench.generator, main, pool, adam, width, number)
            found = bench.judge(main)
            fresh = found.fresh
            best = found if found.loss < best.loss else best
            if not math.isfinite(found.loss):
                main, adam, fresh = best.main, Adam(), best.fresh
            if best.loss < 0.5 * self.flat**2:
                break
            if progress is not None:
                message = f"{main.count} components, spread of h {best.spread:.4f}"
                progress((number + 1) / self.rounds, message)
        return best

    def _descended(
        self,
        generator: np.random.Generator,
        main: Components,
        pool: Pool,
        adam: Adam,
        width: float,
        number: int,
    ) -> Components:
        """Return the mixture after the steps of one round."""
        centre = main.means.mean(axis=0)
        images = (pool.images - centre).astype(np.float32)
        rest = pool.log_rest.astype(np.float32)
        target = pool.log_target - np.median(pool.log_target)  # what varies, in single precision
        target = target.astype(np.float32)
        log_weights, means, factors = main.log_weights, main.means - centre, main.factors
        rates = cosine_rates(number * self.steps, self.steps, self.rounds * self.steps, self.rate)
        rows_of = batches(generator, len(target), self.steps, self.batch)
        for rate, rows in zip(rates, rows_of, strict=True):
            part = Pool(images[rows], rest[rows], target[rows])
            slopes = _slopes(Components(log_weights, means, factors), part, width)
            step = [rate * direction for direction in adam(slopes)]
            log_weights = log_weights + step[0]
            log_weights -= np.logaddexp.reduce(log_weights)
            means, factors = moved_gaussians(means, factors, step[1], step[2])
        return Components(log_weights, means + centre, factors)


def _slopes(main: Components, pool: Pool, width: float) -> list[np.ndarray]:
    """Minus the gradient of the clipped variance of h in weights, means and turns of factors."""
    points, kept, dim = pool.images.shape
    powers = monomials(pool.images.reshape(-1, dim))
    terms = (powers @ _coefficients(main)).reshape(points, -1)
    largest = np.maximum(terms.max(axis=1), pool.log_rest)
    terms -= largest[:, None]
    shares = np.exp(terms, out=terms)
    total = shares.sum(axis=1) + np.exp(pool.log_rest - largest)
    h = pool.log_target - largest - np.log(total)
    pulls = np.clip(huber(h, width).centred, -width, width) / points
    shares *= (pulls / total)[:, None]
    moments = (shares.reshape(points * kept, -1).T @ powers).astype(float)
    rows, columns = np.triu_indices(dim)
    squares = np.empty((main.count, dim, dim))
    squares[:, rows, columns] = squares[:, columns, rows] = moments[:, : rows.size]
    mass = moments[:, -1]
    weights = np.exp(main.log_weights - np.logaddexp.reduce(main.log_weights))
    sums = moments[:, rows.size : -1]
    turns = gaussian_slopes(main.means, main.factors, mass, sums, squares)
    return [mass - weights * mass.sum(), *turns]


def _coefficients(main: Components) -> Float[np.ndarray, "monomials components"]:
    """Columns that take the monomials of a point to the logs of the terms, single precision."""
    precisions = np.swapaxes(main.factors, 1, 2) @ main.factors
    pulled = (precisions @ main.means[..., None])[..., 0]
    rows, columns = np.triu_indices(main.dim)
    double = np.where(rows == columns, -0.5, -1.0)
    constants = main.constants - 0.5 * np.sum(pulled * main.means, axis=-1)
    parts = [precisions[:, rows, columns] * double, pulled, constants[:, None]]
    return np.concatenate(parts, axis=1).T.astype(np.float32)


def batches(
    generator: np.random.Generator, count: int, steps: int, size: int
) -> Int[np.ndarray, "steps size"]:
    """Return indices that go through the points in random order before repeating any."""
    passes = -(-steps * size // count)
    order = np.concatenate([generator.permutation(count) for _ in range(passes)])
    return order[: steps * size].reshape(steps, size)


def doubled(generator: np.random.Generator, main: Components) -> Components:
    """Return every component split in two along a random direction, its first two moments kept.

    The halves sit at ±offset along a unit vector d of the component's own coordinates, with
    covariance I - offset²·ddᵀ there.
    """
    directions = generator.normal(size=main.means.shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    roots = np.linalg.inv(main.factors)
    pushed = (roots @ directions[..., None])[..., 0]
    covariances = roots @ roots.transpose(0, 2, 1)
    covariances -= OFFSET**2 * pushed[:, :, None] * pushed[:, None, :]
    factors = np.linalg.inv(np.linalg.cholesky(covariances))
    return Components(
        np.tile(main.log_weights - math.log(2), 2),
        np.concatenate([main.means + OFFSET * pushed, main.means - OFFSET * pushed]),
        np.tile(factors, (2, 1, 1)),
    )
