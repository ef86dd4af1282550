"""Expectation-maximisation of a class chain over all labellings of the draws.

The expectation runs forwards and backwards through the sets of blocks, the maximisation is closed
form: weighted means and covariances of every label and class, expected transitions.

Moments of points under the labels and classes of a chain: what both steps of training need.

Weighted by one they are the expectation of orbit EM; weighted by clipped log ratios they are the
gradient of log-ratio regression.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from folt.groups import Group
from folt.proposals import ClassChain
from folt.proposals.class_chain import block_form_of
from folt.proposals.host_chain import HostChain
from folt.types import HostPoints, HostValues

_NOTHING = np.zeros(0)


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
        """Return all of them multiplied."""
        return Moments(*(factor * part for part in self))

    def plus(self, other: Moments) -> Moments:
        """Return both together."""
        return Moments(*(mine + yours for mine, yours in zip(self, other, strict=True)))


def expectation(chain: ClassChain, points: HostPoints) -> tuple[Moments, HostValues]:
    """Return the expected moments of the points under a chain, and log q_F at every point."""
    aims = np.zeros((len(points), 3))
    aims[:, 0] = 1.0
    return pulled_moments(chain, points, aims, _NOTHING)


def pulled_moments(
    chain: ClassChain, points: HostPoints, aims: np.ndarray, how: np.ndarray
) -> tuple[Moments, HostValues]:
    """Return moments with the weights of `folt.proposals.set_loops.pulled`, and log q_F."""
    host, dim = HostChain(chain), points.shape[1]

    def some(rows: np.ndarray) -> tuple[Moments, HostValues]:
        return _moments(host, rows[:, :dim], rows[:, dim:], how)

    parts = host.mapped(some, np.concatenate([points, aims], axis=1))
    total = parts[0][0]
    for part, _ in parts[1:]:
        total = total.plus(part)
    return total, np.concatenate([values for _, values in parts])


def _moments(
    host: HostChain, points: HostPoints, aims: np.ndarray, how: np.ndarray
) -> tuple[Moments, HostValues]:
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


SMOOTHING = 0.1
"""Expected transitions out of every class that are added, evenly spread."""


class _Spread(NamedTuple):
    """Covariances of the labelled draws, towards which those of classes are drawn."""

    blocks: Float[np.ndarray, "labels p p"]
    fixed: Float[np.ndarray, "f f"]


def maximisation(group: Group, moments: Moments, spread: _Spread) -> ClassChain:
    """Return the chain with these moments.

    Covariances are those under an inverse Wishart prior worth p + 2 draws of half the spread of
    the label, which keeps classes that few draws see from collapsing; one class needs no prior.
    """
    classes = len(moments.first)
    means, factors = _gaussians(moments.mass, moments.sums, moments.squares, spread.blocks[:, None])
    fixed_means, fixed_factors = _gaussians(
        moments.first, moments.fixed_sums, moments.fixed_squares, spread.fixed
    )
    arrays: Any = (
        np.log(moments.first + 1e-3),
        np.log(moments.steps + SMOOTHING / classes),
        means,
        factors,
        fixed_means,
        fixed_factors,
    )
    return ClassChain(group, *arrays)


def _gaussians(
    mass: Any, sums: Any, squares: Any, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    size = sums.shape[-1]
    mass = mass + 1e-8
    means = sums / mass[..., None]
    scatter = squares - mass[..., None, None] * means[..., :, None] * means[..., None, :]
    prior = 0.0 if mass.shape[-1] == 1 else size + 2.0
    covariance = (scatter + prior * 0.5 * spread) / (mass + prior)[..., None, None]
    return means, roots_of(covariance + 1e-8 * spread)


def roots_of(covariance: Float[np.ndarray, "*n p p"]) -> Float[np.ndarray, "*n p p"]:
    """Return the lower triangular roots of the precisions."""
    if covariance.shape[-1] == 0:
        return covariance
    return np.tril(np.linalg.inv(np.linalg.cholesky(covariance)))


def spread_of(group: Group, points: np.ndarray) -> _Spread:
    """Covariances of the blocks and of the fixed coordinates of labelled draws."""
    blocks, fixed = (np.asarray(part) for part in block_form_of(group).split(points))
    each = [np.cov(column.T).reshape(column.shape[1], -1) for column in blocks.swapaxes(0, 1)]
    still = np.cov(fixed.T).reshape(fixed.shape[1], -1) if fixed.shape[1] else np.zeros((0, 0))
    return _Spread(np.stack(each), still)


def starting_chain(
    generator: np.random.Generator, group: Group, points: np.ndarray, classes: int
) -> ClassChain:
    """Return classes that begin at draws chosen at random, half as wide as their labels."""
    spread = spread_of(group, points)
    blocks, fixed = (np.asarray(part) for part in block_form_of(group).split(points))
    if classes == 1:
        means, fixed_means, share = blocks.mean(axis=0)[:, None], fixed.mean(axis=0)[None], 1.0
    else:
        rows = generator.choice(len(points), classes, replace=len(points) < classes)
        means, fixed_means, share = blocks[rows].swapaxes(0, 1), fixed[rows], 0.5
    labels = len(spread.blocks)
    factors = np.repeat(roots_of(share * spread.blocks)[:, None], classes, axis=1)
    fixed_factors = np.repeat(roots_of(share * spread.fixed)[None], classes, axis=0)
    stay = np.log(0.5 * np.eye(classes) + 0.5 / classes)
    arrays: Any = (
        np.full(classes, -math.log(classes)),
        np.broadcast_to(stay, (labels - 1, classes, classes)),
        means,
        factors,
        fixed_means,
        fixed_factors,
    )
    return ClassChain(group, *arrays)


def chain_about(group: Group, points: np.ndarray, pivot: np.ndarray) -> ClassChain:
    """Return one class whose labels lie about the blocks of one draw, all equally narrow.

    A start that owes nothing to the labels under which the draws are given.
    """
    form = block_form_of(group)
    blocks = np.asarray(form.split(points)[0])
    pooled = np.cov(blocks.reshape(-1, form.size).T).reshape(form.size, form.size)
    means, fixed_means = (np.asarray(part) for part in form.split(pivot))
    factor = roots_of(pooled / form.labels**2)
    arrays: Any = (
        np.zeros(1),
        np.zeros((form.labels - 1, 1, 1)),
        means[:, None],
        np.broadcast_to(factor, (form.labels, 1, form.size, form.size)),
        fixed_means[None],
        roots_of(spread_of(group, points).fixed)[None],
    )
    return ClassChain(group, *arrays)


def fit_chain(
    generator: np.random.Generator,
    group: Group,
    points: Float[np.ndarray, "n dim"],
    start: ClassChain,
    batches: tuple[int, ...],
) -> tuple[ClassChain, list[float]]:
    """Return a class chain fitted to draws under one labelling of them, all others summed over.

    Args:
        generator: chooses the draws of every step.
        group: the group whose orbit is summed over.
        points: labelled draws; the labels matter only for the spread that keeps classes wide.
        start: the chain to begin with.
        batches: draws of every step; moments are averaged over steps that see only some.

    Returns:
        The chain, and the mean log likelihood before every step.
    """
    spread = spread_of(group, points)
    chain = start
    known: Moments | None = None
    likelihoods = []
    for number, size in enumerate(batches):
        some = min(size, len(points))
        rows = generator.choice(len(points), some, replace=False)
        moments, log_sums = expectation(chain, points[rows])
        moments = moments.times(1.0 / some)
        likelihoods.append(float(log_sums.mean()))
        share = 1.0 if known is None or some == len(points) else max(0.3, (number + 1) ** -0.5)
        known = moments if known is None else known.times(1 - share).plus(moments.times(share))
        chain = maximisation(group, known.times(len(points)), spread)
    return chain, likelihoods
