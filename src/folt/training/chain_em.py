"""Expectation-maximisation of a class chain over all labellings of the draws.

The expectation runs forwards and backwards through the sets of blocks, the maximisation is closed
form: weighted means and covariances of every label and class, expected transitions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt.flows import ClassChain
from folt.flows.class_chain import block_form_of
from folt.flows.orbit_chain import Logs, log_orbit_sums
from folt.groups import Group

BLOCK = 32
"""Points that go through the sets together: more do not fit into the processor's memory."""

SMOOTHING = 0.1
"""Expected transitions out of every class that are added, evenly spread."""


class Moments(NamedTuple):
    """What the maximisation needs, summed over the points.

    Attributes:
        first: expected visits of the first class.
        steps: expected transitions.
        mass: expected visits of every label and class.
        sums: blocks weighted by them.
        squares: outer products of blocks weighted by them.
        fixed_sums: coordinates without a label, weighted by the visits of the first class.
        fixed_squares: their outer products.
        log_likelihood: Σ log q_F.
    """

    first: Float[Array, " classes"]
    steps: Float[Array, "steps classes classes"]
    mass: Float[Array, "labels classes"]
    sums: Float[Array, "labels classes p"]
    squares: Float[Array, "labels classes p p"]
    fixed_sums: Float[Array, "classes f"]
    fixed_squares: Float[Array, "classes f f"]
    log_likelihood: Float[Array, ""]


def expectation(chain: ClassChain, points: Float[np.ndarray, "n dim"]) -> Moments:
    """Expected moments of the points under a chain."""
    return _expectation(chain, *in_blocks(points))


def in_blocks(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points in blocks of `BLOCK`, the last filled up with repeats of weight zero."""
    count = len(points)
    rows = np.arange(-(-count // BLOCK) * BLOCK)
    weights = (rows < count).astype(float)
    filled = points[np.minimum(rows, count - 1)]
    return filled.reshape(-1, BLOCK, points.shape[1]), weights.reshape(-1, BLOCK)


@eqx.filter_jit
def _expectation(chain: ClassChain, blocks: Any, weights: Any) -> Moments:
    first = jax.tree.map(jnp.zeros_like, jax.eval_shape(_moments, chain, blocks[0], weights[0]))

    def add(total: Moments, block: tuple[Array, Array]) -> tuple[Moments, None]:
        return jax.tree.map(jnp.add, total, _moments(chain, *block)), None

    return jax.lax.scan(add, first, (blocks, weights))[0]


def _moments(chain: ClassChain, points: Array, weights: Array) -> Moments:
    logs, signed = chain.logs(points)

    def likelihood(steps: Array, signed: Array) -> Array:
        densities = signed[0] if len(signed) == 1 else logsumexp(signed, axis=0)
        return jnp.sum(weights * log_orbit_sums(Logs(steps, densities)))

    # Derivatives of the log sum are the probabilities of labels, classes and signs.
    value, (steps, shares) = jax.value_and_grad(likelihood, argnums=(0, 1))(
        logs.transitions, signed
    )
    blocks, fixed = chain.form.split(points)
    signs = jnp.array([1.0, -1.0])[: len(shares)]
    directed = jnp.einsum("sjinc,s->jinc", shares, signs)
    carried = jnp.sum(shares, axis=0)
    begun = jnp.sum(carried[0], axis=0)
    return Moments(
        first=jnp.sum(begun, axis=0),
        steps=steps,
        mass=jnp.sum(carried, axis=(1, 2)),
        sums=jnp.einsum("jinc,nip->jcp", directed, blocks),
        squares=jnp.einsum("jinc,nip,niq->jcpq", carried, blocks, blocks),
        fixed_sums=begun.T @ fixed,
        fixed_squares=jnp.einsum("nc,np,nq->cpq", begun, fixed, fixed),
        log_likelihood=value,
    )


class Spread(NamedTuple):
    """Covariances of the labelled draws, towards which those of classes are drawn."""

    blocks: Float[np.ndarray, "labels p p"]
    fixed: Float[np.ndarray, "f f"]


def maximisation(group: Group, moments: Moments, spread: Spread) -> ClassChain:
    """The chain with these moments.

    Covariances are those under an inverse Wishart prior worth p + 2 draws of half the spread of
    the label, which keeps classes that few draws see from collapsing; one class needs no prior.
    """
    moments = jax.tree.map(np.asarray, moments)
    classes = len(moments.first)
    means, factors = _gaussians(moments.mass, moments.sums, moments.squares, spread.blocks[:, None])
    fixed_means, fixed_factors = _gaussians(
        moments.first, moments.fixed_sums, moments.fixed_squares, spread.fixed
    )
    arrays = (
        np.log(np.asarray(moments.first) + 1e-3),
        np.log(np.asarray(moments.steps) + SMOOTHING / classes),
        means,
        factors,
        fixed_means,
        fixed_factors,
    )
    return ClassChain(group, *map(jnp.asarray, arrays))


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
    """Lower triangular roots of the precisions."""
    if covariance.shape[-1] == 0:
        return covariance
    return np.tril(np.linalg.inv(np.linalg.cholesky(covariance)))


def spread_of(group: Group, points: np.ndarray) -> Spread:
    """Covariances of the blocks and of the fixed coordinates of labelled draws."""
    blocks, fixed = (np.asarray(part) for part in block_form_of(group).split(points))
    each = [np.cov(column.T).reshape(column.shape[1], -1) for column in blocks.swapaxes(0, 1)]
    still = np.cov(fixed.T).reshape(fixed.shape[1], -1) if fixed.shape[1] else np.zeros((0, 0))
    return Spread(np.stack(each), still)


def starting_chain(
    generator: np.random.Generator, group: Group, points: np.ndarray, classes: int
) -> ClassChain:
    """Classes that begin at draws chosen at random, half as wide as their labels."""
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
    arrays = (
        np.full(classes, -math.log(classes)),
        np.broadcast_to(stay, (labels - 1, classes, classes)),
        means,
        factors,
        fixed_means,
        fixed_factors,
    )
    return ClassChain(group, *map(jnp.asarray, arrays))


def chain_about(group: Group, points: np.ndarray, pivot: np.ndarray) -> ClassChain:
    """One class whose labels lie about the blocks of one draw, all equally narrow.

    A start that owes nothing to the labels under which the draws are given.
    """
    form = block_form_of(group)
    blocks = np.asarray(form.split(points)[0])
    pooled = np.cov(blocks.reshape(-1, form.size).T).reshape(form.size, form.size)
    means, fixed_means = (np.asarray(part) for part in form.split(pivot))
    factor = roots_of(pooled / form.labels**2)
    arrays = (
        np.zeros(1),
        np.zeros((form.labels - 1, 1, 1)),
        means[:, None],
        np.broadcast_to(factor, (form.labels, 1, form.size, form.size)),
        fixed_means[None],
        roots_of(spread_of(group, points).fixed)[None],
    )
    return ClassChain(group, *map(jnp.asarray, arrays))


def fit_chain(
    generator: np.random.Generator,
    group: Group,
    points: Float[np.ndarray, "n dim"],
    start: ClassChain,
    batches: tuple[int, ...],
) -> tuple[ClassChain, list[float]]:
    """A class chain fitted to draws under one labelling of them, all others summed over.

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
        moments = _scaled(expectation(chain, points[rows]), 1.0 / some)
        likelihoods.append(float(moments.log_likelihood))
        share = 1.0 if known is None or some == len(points) else max(0.3, (number + 1) ** -0.5)
        known = moments if known is None else _blend(known, moments, share)
        chain = maximisation(group, _scaled(known, len(points)), spread)
    return chain, likelihoods


def _blend(old: Moments, new: Moments, share: float) -> Moments:
    return jax.tree.map(lambda a, b: (1 - share) * a + share * b, old, new)


def _scaled(moments: Moments, factor: float) -> Moments:
    return jax.tree.map(lambda leaf: np.asarray(leaf) * factor, moments)
