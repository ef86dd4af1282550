"""Subsets of m things, layer by layer: where the terms of a sum over all orders come from.

A sum over the m! orders of m things is built up set by set: which things stand in the first r
places matters, their order does not. Layer r holds the sets of size r; there are 2^m in all.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class Layer(NamedTuple):
    """The sets of one size and how they hang together with the next smaller ones.

    Attributes:
        members: the things in every set.
        sources: the position, in the layer below, of the set without that member.
        without: for every thing, the positions in the layer below of the sets that lack it.
        joined: the positions in this layer of those sets with the thing added.
    """

    members: Int[np.ndarray, "sets size"]
    sources: Int[np.ndarray, "sets size"]
    without: Int[np.ndarray, "things lacking"]
    joined: Int[np.ndarray, "things lacking"]


class Successors(NamedTuple):
    """The sets of one size and how they hang together with the next larger ones.

    Attributes:
        missing: the things that every set lacks.
        targets: the position, in the layer above, of the set with that thing added.
    """

    missing: Int[np.ndarray, "sets lacking"]
    targets: Int[np.ndarray, "sets lacking"]


@functools.lru_cache
def layers(m: int) -> tuple[Layer, ...]:
    """The layers of size 1 to m."""
    masks, position = _masks(m)
    things = np.arange(m)
    found = []
    for size in range(1, m + 1):
        above, below = masks[size], masks[size - 1]
        members = _things(above, m, size)
        sources = position[above[:, None] ^ (1 << members)]
        lacking = (below[None] >> things[:, None]) & 1 == 0
        without = np.nonzero(lacking)[1].reshape(m, -1)
        joined = position[below[without] | (1 << things)[:, None]]
        found.append(Layer(members, sources, without, joined))
    return tuple(found)


@functools.lru_cache
def successors(m: int) -> tuple[Successors, ...]:
    """For the layers of size 0 to m - 1, the sets above."""
    masks, position = _masks(m)
    found = []
    for size in range(m):
        missing = _things((1 << m) - 1 - masks[size], m, m - size)
        found.append(Successors(missing, position[masks[size][:, None] | (1 << missing)]))
    return tuple(found)


def _masks(m: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Sets as bit masks, by size, and the position of each mask among those of its size."""
    everything = np.arange(1 << m)
    sizes = _bits(everything, m).sum(axis=1)
    masks = [everything[sizes == size] for size in range(m + 1)]
    position = np.empty(1 << m, int)
    for own in masks:
        position[own] = np.arange(own.size)
    return masks, position


def _bits(masks: np.ndarray, m: int) -> np.ndarray:
    return masks[:, None] >> np.arange(m) & 1


def _things(masks: np.ndarray, m: int, size: int) -> np.ndarray:
    return np.nonzero(_bits(masks, m))[1].reshape(-1, size)
