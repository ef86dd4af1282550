"""Adam for Gaussians that move in their own coordinates.

A step moves the mean of a Gaussian in units of its own spread and multiplies its factor from the
left, so that one learning rate suits narrow and wide ones. Moments of weighted points are all that
the gradient of Σ weight·log q needs: ∂log N/∂mean = u and ∂log N/∂turn = I - u·uᵀ with
u = factor·(x - mean).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SLOW, FAST = 0.99, 0.9
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
            (FAST * mean + (1 - FAST) * slope, SLOW * square + (1 - SLOW) * slope**2)
            for (mean, square), slope in zip(self.known, slopes, strict=True)
        ]
        fast, slow = 1 - FAST**self.count, 1 - SLOW**self.count
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
