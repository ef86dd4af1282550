"""What chains, training and certificates need of a proposal folded over a group.

Distributions on the host: in NumPy where they are made of Gaussians, compiled elsewhere.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from folt.batching import LARGE_CHUNK, THREADS, map_keys, map_points
from folt.groups import Group
from folt.proposals.action import Action, action_of
from folt.proposals.blocks import BlockSum, blocks_of_mixture, pays
from folt.proposals.class_chain import ClassChain
from folt.proposals.components import Components, log_sum_exp, log_sum_of
from folt.proposals.elliptical import Gaussian, StudentT
from folt.proposals.fold import Folded
from folt.proposals.mixture import Mixture, OrbitSafety, Safety
from folt.proposals.pushed import SinhArcsinh
from folt.proposals.warped import FoldedWarped, Margins, WarpedComponents
from folt.types import (
    Density,
    Distribution,
    HostPoints,
    HostValues,
    Key,
    OrbitSummed,
    Point,
    Scalar,
    host_generator,
)

OrbitPart = Components | WarpedComponents
"""What a proposal on the host is made of."""

Summed = Components | FoldedWarped | BlockSum
"""The same after the sum over a group."""

_CHUNK_TERMS = 1 << 19
"""Terms of an orbit sum that are in memory at once."""

MOST_TERMS = 1 << 14
"""Images times components above which compiled code is faster."""


class OrbitSum(ABC):
    """A proposal q and its orbit sum q_F(z) = Σ_g q(g·z)."""

    @abstractmethod
    def log_sum(self, points: HostPoints) -> HostValues:
        """Return log q_F at many points; the same at every image of a point."""

    @abstractmethod
    def draw(self, key: Key, count: int) -> HostPoints:
        """Return draws of q, folded into D."""

    @abstractmethod
    def responsibilities(self, points: HostPoints) -> Float[np.ndarray, "n order"]:
        """q(g·z)/q_F(z) for every g, in the order of `group.elements`."""

    def label_shares(self, points: HostPoints) -> tuple[HostValues, HostValues | None]:
        """Return q(g·z)/q_F(z) at the likeliest g of every point and at the g likeliest on average.

        In a group beyond listing the first is that of a likely g, and the second may be None.
        """
        shares = self.responsibilities(points)
        return shares.max(axis=1), shares[:, shares.sum(axis=0).argmax()]


@dataclasses.dataclass(frozen=True, eq=False)
class ListedSum(OrbitSum):
    """Components over a group whose elements are listed: one larger set of components, in NumPy.

    Attributes:
        parts: sets of components whose log weights contain their share of the proposal.
        action: the group on the host.
    """

    parts: tuple[OrbitPart, ...]
    action: Action

    @functools.cached_property
    def folded(self) -> tuple[Summed, ...]:
        """The components of the folded proposal q_F."""
        blocks = blocks_of_mixture(self.action)
        return tuple(
            part.over(self.action.matrices)
            if blocks is None or not pays(part, blocks)
            else BlockSum(part, blocks)
            for part in self.parts
        )

    def log_sum(self, points: HostPoints) -> HostValues:
        """Return log q_F, chunk by chunk."""
        return self._mapped(functools.partial(log_sum_of, self.folded), points)

    def draw(self, key: Key, count: int) -> HostPoints:
        """Return draws of q, folded into D."""
        return self.action.fold(self.sample(host_generator(key), count))

    def sample(self, generator: np.random.Generator, count: int) -> HostPoints:
        """Draws of q before they are folded: parts in proportion to their weights."""
        shares = np.exp([np.logaddexp.reduce(part.log_weights) for part in self.parts])
        chosen = generator.choice(len(self.parts), count, p=shares / shares.sum())
        points = np.empty((count, self.action.group.dim))
        for number, part in enumerate(self.parts):
            rows = np.flatnonzero(chosen == number)
            points[rows] = part.sample(generator, rows.size)
        return points

    def responsibilities(self, points: HostPoints) -> Float[np.ndarray, "n order"]:
        """Return shares of the images, all components of an image together."""
        order = len(self.action.matrices)

        def shares(some: HostPoints) -> np.ndarray:
            logs = [
                log_sum_exp(part.log_terms(some).reshape(len(some), order, part.count // order))
                for part in self.folded
            ]
            total = functools.reduce(np.logaddexp, logs)
            total -= total.max(axis=1, keepdims=True)
            np.exp(total, out=total)
            return total / total.sum(axis=1, keepdims=True)

        return self._mapped(shares, points)

    def _mapped(
        self, function: Callable[[HostPoints], np.ndarray], points: HostPoints
    ) -> np.ndarray:
        """Return a function of chunks that fit into memory, two at a time."""
        terms = sum(part.count for part in self.folded)
        length = max(1, min(1024, _CHUNK_TERMS // terms))
        chunks = [points[i : i + length] for i in range(0, max(len(points), 1), length)]
        if len(chunks) == 1:
            return function(chunks[0])
        with ThreadPoolExecutor(THREADS) as pool:
            return np.concatenate(list(pool.map(function, chunks)))


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledSum(OrbitSum):
    """Any proposal over any group that can be enumerated, by compiled code."""

    proposal: Distribution
    group: Group

    def log_sum(self, points: HostPoints) -> HostValues:
        """Return log q_F, chunk by chunk."""
        return map_points(Folded.log_prob, self._folded, points, terms=self._folded.terms)

    def draw(self, key: Key, count: int) -> HostPoints:
        """Return draws of q, folded into D."""
        return map_keys(_draw, self._folded, key, count)

    def responsibilities(self, points: HostPoints) -> Float[np.ndarray, "n order"]:
        """Softmax of the terms of the sum."""
        logs = map_points(Folded.log_terms, self._folded, points, terms=self.group.order)
        logs = np.exp(logs - logs.max(axis=1, keepdims=True))
        return logs / logs.sum(axis=1, keepdims=True)

    def label_shares(self, points: HostPoints) -> tuple[HostValues, HostValues | None]:
        """Read off one likely image where the proposal sums itself over a group beyond listing."""
        if not isinstance(self.proposal, OrbitSummed):
            return super().label_shares(points)
        cost = self.proposal.orbit_cost
        return map_points(_likely_share, self.proposal, points, terms=cost), None

    @property
    def _folded(self) -> Folded:
        return Folded(self.proposal, self.group)


def _likely_share(proposal: OrbitSummed, z: Point) -> Scalar:
    log_share = proposal.log_prob(proposal.likeliest_image(z)) - proposal.log_orbit_sum(z)
    return jnp.minimum(jnp.exp(log_share), 1.0)


def _draw(folded: Folded, key: Key) -> Point:
    return folded.group.fold(folded.density.sample(key))  # type: ignore[attr-defined]


def summable(action: Action, components: int) -> bool:
    """Return whether components can be summed over the orbit on the host."""
    return action.listed and action.group.order * components <= MOST_TERMS


def orbit_sum(proposal: Distribution, group: Group) -> OrbitSum:
    """The orbit sum of a proposal: on the host for mixtures and class chains, else compiled."""
    if isinstance(proposal, ClassChain):
        return _chain_sum(proposal, None, 0.0)
    if isinstance(proposal, OrbitSafety) and isinstance(proposal.main, ClassChain):
        return _chain_sum(proposal.main, proposal.guard, proposal.weight)
    action = action_of(group)
    parts = parts_of(proposal) if action.listed else None
    if parts is None or group.order * sum(part.count for part in parts) > MOST_TERMS:
        return CompiledSum(proposal, group)
    return ListedSum(parts, action)


def _chain_sum(chain: ClassChain, guard: Distribution | None, weight: float) -> OrbitSum:
    """Imported late: only large groups need the loops over sets."""
    from folt.proposals.chain_sum import ChainSum

    return ChainSum(chain, guard, weight)


def parts_of(proposal: Distribution) -> tuple[OrbitPart, ...] | None:
    """A proposal as sets of components, behind margins or not; None if it is something else."""
    if isinstance(proposal, Safety):
        main, guard = parts_of(proposal.main), parts_of(proposal.guard)
        if main is None or guard is None:
            return None
        return (
            *(part.scaled(math.log1p(-proposal.weight)) for part in main),
            *(part.scaled(math.log(proposal.weight)) for part in guard),
        )
    if isinstance(proposal, SinhArcsinh):
        base = components_of(proposal.base)
        if base is None or len(base) != 1:
            return None
        arrays = (proposal.centre, proposal.log_scale, proposal.skew, proposal.log_tail)
        return (WarpedComponents(base[0], Margins(*(np.asarray(one, float) for one in arrays))),)
    return components_of(proposal)


def components_of(proposal: Distribution) -> tuple[Components, ...] | None:
    """Return a proposal as sets of components, or None if it is something else."""
    if isinstance(proposal, Safety):
        main, guard = components_of(proposal.main), components_of(proposal.guard)
        if main is None or guard is None:
            return None
        return (
            *(part.scaled(math.log1p(-proposal.weight)) for part in main),
            *(part.scaled(math.log(proposal.weight)) for part in guard),
        )
    if isinstance(proposal, Mixture):
        logs = np.asarray(proposal.log_weights, float)
        logs = logs - np.logaddexp.reduce(logs)
        arrays = (np.asarray(proposal.means), np.tril(np.asarray(proposal.factors)))
        return (Components(logs, *arrays, proposal.degrees),)
    if isinstance(proposal, (Gaussian, StudentT)):
        arrays = (np.asarray(proposal.mean)[None], np.tril(np.asarray(proposal.factor))[None])
        degrees = proposal.degrees if isinstance(proposal, StudentT) else math.inf
        return (Components(np.zeros(1), *arrays, degrees),)
    return None


class HostDistribution:
    """A distribution that is asked for many points at once.

    Args:
        distribution: any `Distribution`.
    """

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution
        self.parts = components_of(distribution)

    def log_probs(self, points: HostPoints) -> Float[np.ndarray, " n"]:
        """Return its log density at every point."""
        if self.parts is not None:
            return log_sum_of(self.parts, points)
        return map_points(_log_prob, self.distribution, points, length=LARGE_CHUNK)

    def with_gradients(self, points: HostPoints) -> tuple[Float[np.ndarray, " n"], HostPoints]:
        """Return its log density and the gradient of that at every point."""
        return map_points(_with_gradient, self.distribution, points, length=LARGE_CHUNK)

    def sample(self, key: Key, count: int) -> HostPoints:
        """So many independent draws."""
        if self.parts is None:
            return map_keys(_sample, self.distribution, key, count, length=LARGE_CHUNK, once=True)
        generator = host_generator(key)
        shares = np.exp([np.logaddexp.reduce(part.log_weights) for part in self.parts])
        counts = generator.multinomial(count, shares / shares.sum())
        drawn = [part.sample(generator, n) for part, n in zip(self.parts, counts, strict=True)]
        return np.concatenate(drawn)


def _log_prob(density: Density, point: Point) -> Scalar:
    return density.log_prob(point)


def _with_gradient(density: Density, point: Point) -> tuple[Scalar, Point]:
    return jax.value_and_grad(density.log_prob)(point)


def _sample(distribution: Distribution, key: Key) -> Point:
    return distribution.sample(key)
