"""Moments of points under the labels and classes of a chain: what both steps of training need.

Weighted by one they are the expectation of orbit EM; weighted by clipped log ratios they are the
gradient of log-ratio regression.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt.flows import ClassChain
from folt.problem.orbits.host_chain import HostChain, Points, Values

NOTHING = np.zeros(0)


class Moments(NamedTuple):
    """Summed over the points, each with its weight.

    Attributes:
        first: visits of the first class.
        steps: transitions.
        mass: visits of every label and class.
        sums: blocks weighted by them.
        squares: outer products of blocks weighted by them.
        fixed_sums: coordinates without a label, weighted by the visits of the first class.
        fixed_squares: their outer products.
    """

    first: Float[np.ndarray, " classes"]
    steps: Float[np.ndarray, "steps classes classes"]
    mass: Float[np.ndarray, "labels classes"]
    sums: Float[np.ndarray, "labels classes p"]
    squares: Float[np.ndarray, "labels classes p p"]
    fixed_sums: Float[np.ndarray, "classes f"]
    fixed_squares: Float[np.ndarray, "classes f f"]

    def times(self, factor: float) -> Moments:
        """All of them multiplied."""
        return Moments(*(factor * part for part in self))

    def plus(self, other: Moments) -> Moments:
        """Both together."""
        return Moments(*(mine + yours for mine, yours in zip(self, other, strict=True)))


def expectation(chain: ClassChain, points: Points) -> tuple[Moments, Values]:
    """Expected moments of the points under a chain, and log q_F at every point."""
    aims = np.zeros((len(points), 3))
    aims[:, 0] = 1.0
    return pulled_moments(chain, points, aims, NOTHING)


def pulled_moments(
    chain: ClassChain, points: Points, aims: np.ndarray, how: np.ndarray
) -> tuple[Moments, Values]:
    """Moments with the weights of `folt.problem.orbits.set_loops.pulled`, and log q_F."""
    host, dim = HostChain(chain), points.shape[1]

    def some(rows: np.ndarray) -> tuple[Moments, Values]:
        return _moments(host, rows[:, :dim], rows[:, dim:], how)

    parts = host.mapped(some, np.concatenate([points, aims], axis=1))
    total = parts[0][0]
    for part, _ in parts[1:]:
        total = total.plus(part)
    return total, np.concatenate([values for _, values in parts])


def _moments(
    host: HostChain, points: Points, aims: np.ndarray, how: np.ndarray
) -> tuple[Moments, Values]:
    shares = host.shares(points, aims, how)
    blocks, fixed = host.split(points)
    flat = blocks.reshape(-1, host.size)
    outer = (flat[:, :, None] * flat[:, None, :]).reshape(len(flat), -1)
    even, odd = np.concatenate([np.ones((len(flat), 1)), outer], axis=1), flat
    squares, sums = [], []
    for label in range(host.labels):
        own = shares.blocks[:, label].reshape(-1, host.classes)
        squares.append(own.T @ even)
        if host.form.signed:
            own = shares.directed[:, label].reshape(-1, host.classes)
        sums.append(own.T @ odd)
    both = np.stack(squares)
    begun = shares.blocks[:, 0].sum(axis=1)
    found = Moments(
        first=begun.sum(axis=0),
        steps=shares.steps,
        mass=both[..., 0],
        sums=np.stack(sums),
        squares=both[..., 1:].reshape(host.labels, host.classes, host.size, host.size),
        fixed_sums=begun.T @ fixed,
        fixed_squares=np.einsum("nc,np,nq->cpq", begun, fixed, fixed),
    )
    return found, shares.log_sums
