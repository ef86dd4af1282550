"""A class chain on the host: densities, orbit sums, probabilities of labels, draws.

NumPy computes what every block has under every label and class; loops over sets of blocks
(`folt.proposals.set_loops`) sum over all labellings.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from folt.batching import THREADS
from folt.proposals import set_loops
from folt.proposals.auction import potentials
from folt.proposals.class_chain import FLOOR, ClassChain
from folt.proposals.orbit_chain import LOWEST
from folt.types import HostPoints, HostValues

_T = TypeVar("_T")

_CHUNK = 1 << 18
"""Densities of blocks that are in memory at once, signs apart."""

LOST = 1e-250
"""Below this a sum is computed anew with better potentials."""


class Shares(NamedTuple):
    """Weighted probabilities of labels and classes given the blocks.

    Attributes:
        log_sums: log q_F at every point.
        blocks: that a label falls to a block in a class.
        directed: the same, less twice that of the flipped block where blocks have signs.
        steps: expected transitions, summed over the points.
    """

    log_sums: HostValues
    blocks: Float[np.ndarray, "n labels blocks classes"]
    directed: Float[np.ndarray, "n labels blocks classes"]
    steps: Float[np.ndarray, "steps classes classes"]


class HostChain:
    """What a class chain is asked for many points at once.

    Args:
        chain: the chain; its arrays are copied to the host.
    """

    def __init__(self, chain: ClassChain) -> None:
        self.chain, self.form = chain, chain.form
        self.classes, self.labels, self.size = chain.classes, chain.form.labels, chain.form.size
        self.means = np.asarray(chain.means, float)
        self.factors = np.tril(np.asarray(chain.factors, float))
        self.fixed_means = np.asarray(chain.fixed_means, float)
        self.fixed_factors = np.tril(np.asarray(chain.fixed_factors, float))
        self.log_first = _log_softmax(np.asarray(chain.log_weights, float))
        plain = np.exp(_log_softmax(np.asarray(chain.log_transitions, float)))
        self.steps = np.ascontiguousarray((1.0 - FLOOR) * plain + FLOOR / self.classes)
        self.turned = np.ascontiguousarray(self.steps.transpose(0, 2, 1))
        self.sets = set_loops.sets_of(self.labels)

    def log_sums(self, points: HostPoints) -> HostValues:
        """Return log q_F at every point."""
        return np.concatenate(self.mapped(self._log_sums, points))

    def shares(self, points: HostPoints, aims: np.ndarray, how: np.ndarray) -> Shares:
        """Probabilities of labels and classes with weights (see `set_loops.pulled`).

        Args:
            points: where; few enough for memory, see `mapped`.
            aims: (n, 3).
            how: nothing, or the settings of a regression.
        """
        signed, logs = self._log_densities(points)
        own, shift = self._scaled(logs)
        found, shares, steps = self._pulled(own, shift, aims, how)
        if np.any(found.ravel()[: len(points)] < LOST):
            own, shift = self._scaled(logs, careful=True)
            found, shares, steps = self._pulled(own, shift, aims, how)
        sums = np.maximum(found.ravel()[: len(points)], set_loops.SMALLEST)
        blocks = self._by_point(shares, len(points))
        directed = blocks
        if len(signed) > 1:
            # tanh of half the log odds of the two signs.
            directed = blocks * np.tanh(0.5 * (signed[0] - signed[1]))
        return Shares(np.log(sums) + shift.ravel()[: len(points)], blocks, directed, steps)

    def labellings(self, points: HostPoints, uniforms: np.ndarray | None = None) -> HostPoints:
        """The likeliest image of every point, classes together; or one drawn given the point.

        Args:
            points: where.
            uniforms: (n, 3·labels), to draw an image with its probability given the point.
        """
        choices = np.full((len(points), 3 * self.labels), -1.0) if uniforms is None else uniforms
        joined = np.concatenate([points, choices], axis=1)
        width = points.shape[1]
        parts = self.mapped(lambda rows: self._labelled(rows[:, :width], rows[:, width:]), joined)
        return np.concatenate(parts)

    def log_prob(self, points: HostPoints) -> HostValues:
        """Return the plain log density, labels as they are."""
        signed, _ = self._log_densities(points)
        own = np.einsum("njjc->njc", signed[0])
        reached = own[:, 0]
        for step, row in zip(self.steps, own.swapaxes(0, 1)[1:], strict=True):
            largest = reached.max(axis=1, keepdims=True)
            reached = np.log(np.exp(reached - largest) @ step) + largest + row
        return np.logaddexp.reduce(reached, axis=1)

    def sample(self, generator: np.random.Generator, count: int) -> HostPoints:
        """Return draws of the plain chain."""
        state = _categorical(generator, np.exp(self.log_first)[None], np.zeros(count, int))
        roots = np.linalg.inv(self.factors)
        blocks = np.empty((count, self.labels, self.size))
        fixed = self.fixed_means[state] + np.einsum(
            "nab,nb->na",
            np.linalg.inv(self.fixed_factors)[state],
            generator.standard_normal((count, self.fixed_means.shape[1])),
        )
        for label in range(self.labels):
            if label:
                state = _categorical(generator, self.steps[label - 1], state)
            noise = generator.standard_normal((count, self.size))
            moved = np.einsum("nab,nb->na", roots[label, state], noise)
            blocks[:, label] = self.means[label, state] + moved
        return np.asarray(self._joined(blocks, fixed))

    def _log_sums(self, points: HostPoints) -> HostValues:
        _, logs = self._log_densities(points)
        own, shift = self._scaled(logs)
        found = np.zeros((len(own), own.shape[-1] // self.classes))
        set_loops.totals(own, self.steps, self.sets, found)
        return self._finished(found, shift, logs, lambda better: self._again(logs, better))

    def _again(self, logs: np.ndarray, rows: np.ndarray) -> HostValues:
        """Return the log sums at points whose sums were lost, under potentials of an auction."""
        own, shift = self._scaled(logs[rows], careful=True)
        found = np.zeros((len(own), own.shape[-1] // self.classes))
        set_loops.totals(own, self.steps, self.sets, found)
        values = np.log(np.maximum(found.ravel()[: len(rows)], set_loops.SMALLEST))
        return values + shift.ravel()[: len(rows)]

    def _finished(
        self,
        found: np.ndarray,
        shift: np.ndarray,
        logs: np.ndarray,
        again: Callable[[np.ndarray], HostValues],
    ) -> HostValues:
        count = len(logs)
        sums = found.ravel()[:count]
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log(sums) + shift.ravel()[:count]
        faulty = np.isnan(logs).any(axis=(1, 2, 3))
        lost = np.flatnonzero(~(sums >= LOST) & ~faulty)
        if lost.size:
            values[lost] = again(lost)
        values[faulty] = np.nan
        return values

    def _pulled(
        self, own: np.ndarray, shift: np.ndarray, aims: np.ndarray, how: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        per_row = own.shape[-1] // self.classes
        padded = np.zeros((len(own) * per_row, 3))
        padded[: len(aims)] = aims
        found, shares = np.zeros((len(own), per_row)), np.zeros_like(own)
        steps = np.zeros_like(self.steps)
        padded = padded.reshape(len(own), per_row, 3)
        set_loops.pulled(
            own, self.steps, self.turned, self.sets, shift, padded, how, found, shares, steps
        )
        if self.classes == 1:
            steps[:] = shares[:, 0].sum()
        return found, shares, steps * self.steps

    def _labelled(self, points: HostPoints, choices: np.ndarray) -> HostPoints:
        signed, logs = self._log_densities(points)
        likeliest = bool(np.any(choices < 0.0))
        if likeliest:
            logs = functools.reduce(np.maximum, signed)
        things = np.zeros((len(points), self.labels), int)
        states, found = np.zeros_like(things), np.zeros(len(points))
        for careful in (False, True):
            own, _ = self._scaled(logs, careful=careful, apart=True)
            set_loops.labellings(own, self.steps, self.sets, choices, found, things, states)
            if np.all(found >= LOST):
                break
        blocks, fixed = self.split(points)
        moved = np.take_along_axis(blocks, things[..., None], axis=1)
        if len(signed) > 1:
            at = (np.arange(len(points))[:, None], np.arange(self.labels), things, states)
            odds = signed[0][at] - signed[1][at]
            level = np.log(choices[:, -self.labels :]) if not likeliest else 0.0
            level = level - np.log1p(-np.exp(level)) if not likeliest else level
            moved = np.where((odds >= level)[..., None], moved, -moved)
        return np.asarray(self._joined(moved, fixed))

    def _log_densities(self, points: HostPoints) -> tuple[list[np.ndarray], np.ndarray]:
        """Return log F(n, label, block, class) under every sign, and summed over the signs."""
        blocks, fixed = self.split(points)
        flat = blocks.reshape(-1, self.size)
        signs = (1.0, -1.0) if self.form.signed else (1.0,)
        diagonal = np.abs(np.diagonal(self.factors, axis1=-2, axis2=-1))
        constant = np.log(diagonal).sum(axis=-1) - 0.5 * self.size * math.log(2 * math.pi)
        found = [np.zeros((len(flat), self.labels * self.classes)) for _ in signs]
        for row in range(self.size):
            lines = self.factors[:, :, row].reshape(-1, self.size)
            centre = np.einsum("kb,kb->k", lines, self.means.reshape(-1, self.size))
            turned = flat @ lines.T
            for sign, total in zip(signs, found, strict=True):
                total += (turned - sign * centre) ** 2
        first = self._log_first(fixed)
        each = []
        for total in found:
            total *= -0.5
            total += constant.ravel()
            shape = (len(points), self.labels, self.labels, self.classes)
            logs = np.ascontiguousarray(total.reshape(shape).swapaxes(1, 2))
            logs[:, 0] += first[:, None]
            each.append(np.maximum(logs, LOWEST))
        return each, functools.reduce(np.logaddexp, each)

    def _log_first(self, fixed: np.ndarray) -> Float[np.ndarray, "n classes"]:
        away = fixed[:, None] - self.fixed_means
        standard = np.einsum("cab,ncb->nca", self.fixed_factors, away)
        diagonal = np.abs(np.diagonal(self.fixed_factors, axis1=-2, axis2=-1))
        constant = np.log(diagonal).sum(axis=-1) - 0.5 * fixed.shape[1] * math.log(2 * math.pi)
        return self.log_first + constant - 0.5 * (standard**2).sum(axis=-1)

    def _scaled(
        self, logs: np.ndarray, careful: bool = False, apart: bool = False
    ) -> tuple[set_loops.Densities, np.ndarray]:
        """Densities of at most one in rows of several points, and the log of the divisor.

        Divided by row and column maxima, or by the potentials of an auction.
        """
        table = logs.max(axis=-1)
        if careful:
            prices, nets = potentials(table)
            of_labels, of_blocks = prices[:, :, None], nets[:, None]
        else:
            of_blocks = table.max(axis=1, keepdims=True)
            of_labels = (table - of_blocks).max(axis=2, keepdims=True)
        own = np.exp(logs - (of_blocks + of_labels)[..., None])
        shift = of_blocks.sum(axis=(1, 2)) + of_labels.sum(axis=(1, 2))
        per_row = 1 if apart else set_loops.row_length(self.classes, len(logs))
        if per_row == 1:
            return own, shift[:, None]
        rows = np.minimum(np.arange(-(-len(own) // per_row) * per_row), len(own) - 1)
        own = own[rows].reshape(-1, per_row, *own.shape[1:])
        own = np.ascontiguousarray(own.transpose(0, 2, 3, 1, 4))
        return own.reshape(*own.shape[:3], -1), shift[rows].reshape(-1, per_row)

    def _by_point(self, shares: np.ndarray, count: int) -> np.ndarray:
        per_row = shares.shape[-1] // self.classes
        if per_row == 1:
            return shares
        apart = shares.reshape(*shares.shape[:3], per_row, self.classes).transpose(0, 3, 1, 2, 4)
        return apart.reshape(-1, *shares.shape[1:3], self.classes)[:count]

    def split(self, points: HostPoints) -> tuple[np.ndarray, np.ndarray]:
        """Return the blocks of points and their fixed coordinates."""
        blocks, fixed = self.form.split(points)
        return np.asarray(blocks), np.asarray(fixed)

    def _joined(self, blocks: np.ndarray, fixed: np.ndarray) -> HostPoints:
        flat = np.concatenate([blocks.reshape(len(blocks), self.labels * self.size), fixed], axis=1)
        return flat[:, np.argsort(self.form.order)]

    def mapped(self, function: Callable[[np.ndarray], _T], rows: np.ndarray) -> list[_T]:
        """Return a function of chunks that fit into memory, two at a time."""
        length = max(32, _CHUNK // (self.labels**2 * self.classes))
        chunks = [rows[i : i + length] for i in range(0, max(len(rows), 1), length)]
        if len(chunks) < 2:
            return [function(chunk) for chunk in chunks]
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(function, chunks))


def _log_softmax(logs: np.ndarray) -> np.ndarray:
    return logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True)


def _categorical(
    generator: np.random.Generator, rows: np.ndarray, chosen: Int[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """Return a state from the chosen row of probabilities, for every draw."""
    reached = np.cumsum(rows, axis=-1)
    uniform = generator.random(len(chosen)) * reached[chosen, -1]
    return np.minimum((uniform[:, None] >= reached[chosen]).sum(axis=1), rows.shape[-1] - 1)
