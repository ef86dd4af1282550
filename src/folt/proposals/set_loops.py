"""The inner loops of sums over all labellings, compiled by numba.

Everything around them is NumPy. numba compiles them once, whatever the number of labels, where
programs of JAX unroll every layer of sets. Numbers are copied and compared one by one: an
assignment or a function of whole arrays would take longer to compile than all of a loop.
Classes of several points lie side by side in rows of about `ROW` numbers, so that rows are as
long as the processor likes and all sets of a few points fit into its memory.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from folt.proposals.auction import compiled
from folt.proposals.orbit_chain import layers, successors

SMALLEST = 1e-300
"""Below this a sum counts as lost."""

ROW = 16
"""Numbers in a row, about: classes times points that go through the sets together."""


class Sets(NamedTuple):
    """The sets of m things, smaller ones first, and what leads from one to the next.

    Attributes:
        starts: first row of the sets of size 0 to m, and the number of all.
        sources: for every set, rows of the sets without one of its members.
        members: which member that is.
        targets: for every set, rows of the sets with one more thing.
        missing: which thing that is.
        into: first entry of `sources` for the sets of every size.
        out_of: first entry of `targets`, likewise.
    """

    starts: Int[np.ndarray, " sizes"]
    sources: Int[np.ndarray, " steps"]
    members: Int[np.ndarray, " steps"]
    targets: Int[np.ndarray, " steps"]
    missing: Int[np.ndarray, " steps"]
    into: Int[np.ndarray, " sizes"]
    out_of: Int[np.ndarray, " sizes"]


@functools.lru_cache
def sets_of(m: int) -> Sets:
    """Return all sets of m things."""
    below, above = layers(m), successors(m)
    sizes = [1, *(len(layer.members) for layer in below)]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    sources = [layer.sources + starts[r] for r, layer in enumerate(below)]
    targets = [layer.targets + starts[r + 1] for r, layer in enumerate(above)]
    return Sets(
        starts,
        _flat(sources),
        _flat([layer.members for layer in below]),
        _flat(targets),
        _flat([layer.missing for layer in above]),
        np.concatenate([[0, 0], np.cumsum([part.size for part in sources])]),
        np.concatenate([[0], np.cumsum([part.size for part in targets])]),
    )


def _flat(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([part.ravel() for part in parts])


@compiled
def _times(values, matrix, product, first, last):  # type: ignore[no-untyped-def]
    """Classes in some rows times a matrix."""
    many = (last - first) * values.shape[1] // len(matrix)
    left = values[first:last].reshape(many, len(matrix))
    np.dot(left, matrix, product[first:last].reshape(many, len(matrix)))


@compiled
def _forward(own, steps, sets, sums, moved):  # type: ignore[no-untyped-def]
    """Sums over the orders within every set, and those times the transitions that follow."""
    m, width, classes = own.shape[0], own.shape[2], steps.shape[1]
    for k in range(width):
        moved[0, k] = 1.0
    for size in range(1, m + 1):
        first, last, at = sets.starts[size], sets.starts[size + 1], sets.into[size]
        for row in range(first, last):
            for k in range(width):
                sums[row, k] = 0.0
            for _ in range(size):
                below, thing = sets.sources[at], sets.members[at]
                for k in range(width):
                    sums[row, k] += moved[below, k] * own[size - 1, thing, k]
                at += 1
        if size < m and classes > 1:
            _times(sums, steps[size - 1], moved, first, last)


@compiled
def _backward(own, steps, turned, sets, sums, moved, above, value, shares, expected):  # type: ignore[no-untyped-def]
    """Probabilities of labels and classes; `above` holds the weight of the whole in its last row.

    `shares` and `expected` are added to, the latter before the transitions are multiplied in.
    """
    m, width, classes = own.shape[0], own.shape[2], steps.shape[1]
    for size in range(m - 1, -1, -1):
        first, last, at = sets.starts[size], sets.starts[size + 1], sets.out_of[size]
        for row in range(first, last):
            for k in range(width):
                value[row, k] = 0.0
            for _ in range(m - size):
                high, thing = sets.targets[at], sets.missing[at]
                for k in range(width):
                    part = above[high, k] * own[size, thing, k]
                    value[row, k] += part
                    shares[size, thing, k] += moved[row, k] * part
                at += 1
        if size > 0 and classes > 1:
            _times(value, turned[size - 1], above, first, last)
            many = (last - first) * width // classes
            left = sums[first:last].reshape(many, classes)
            product = np.dot(left.T, value[first:last].reshape(many, classes))
            for old in range(classes):
                for new in range(classes):
                    expected[size - 1, old, new] += product[old, new]
        elif size > 0:
            for row in range(first, last):
                for k in range(width):
                    above[row, k] = value[row, k]


@compiled
def totals(own, steps, sets, found):  # type: ignore[no-untyped-def]
    """The sum over all labellings at every point.

    Args:
        own: (blocks, labels, things, row), densities scaled to at most one.
        steps: (labels - 1, classes, classes), transitions.
        sets: of as many things.
        found: (blocks, row / classes), zeros to which the sums are added.
    """
    classes, width = steps.shape[1], own.shape[3]
    sums = np.empty((sets.starts[-1], width))
    moved = sums if classes == 1 else np.empty((sets.starts[-1], width))
    for block in range(own.shape[0]):
        _forward(own[block], steps, sets, sums, moved)
        for k in range(width):
            found[block, k // classes] += sums[-1, k]


@compiled
def pulled(own, steps, turned, sets, shift, aims, how, found, shares, expected):  # type: ignore[no-untyped-def]
    """Sums, and probabilities of labels and classes times the weight of every point.

    Args:
        own: as for `totals`.
        steps: likewise.
        turned: every transition matrix transposed.
        sets: likewise.
        shift: (blocks, points), log of what the densities were divided by.
        aims: (blocks, points, 3), per point a weight, and for a regression log π and the log of
            what else the proposal has there.
        how: nothing for weights as they are; for a regression the log share of this part of the
            proposal, the centre of h and the width beyond which no point pulls harder: the weight
            is then multiplied by the clipped log ratio and the part's share.
        found: (blocks, points), zeros to which the sums are added.
        shares: as `own`, zeros to which the probabilities are added.
        expected: as `steps`, to which expected transitions are added, still without their factor.
    """
    classes, width = steps.shape[1], own.shape[3]
    rows = sets.starts[-1]
    sums = np.empty((rows, width))
    moved = sums if classes == 1 else np.empty((rows, width))
    above, value = np.empty((rows, width)), np.empty((rows, width))
    for block in range(own.shape[0]):
        _forward(own[block], steps, sets, sums, moved)
        for k in range(width):
            found[block, k // classes] += sums[-1, k]
        for k in range(width):
            point = k // classes
            weight, total = aims[block, point, 0], max(found[block, point], SMALLEST)
            if len(how) > 0:
                main = how[0] + math.log(total) + shift[block, point]
                rest = aims[block, point, 2]
                high = max(main, rest)
                whole = high + math.log(math.exp(main - high) + math.exp(rest - high))
                ratio = aims[block, point, 1] - whole - how[1]
                weight *= min(max(ratio, -how[2]), how[2]) * math.exp(main - whole)
            above[rows - 1, k] = weight / total
        _backward(
            own[block], steps, turned, sets, sums, moved, above, value, shares[block], expected
        )


@compiled
def _largest(own, steps, sets, sums, moved):  # type: ignore[no-untyped-def]
    """`_forward` with maxima in the place of all sums, of one point."""
    m, classes = own.shape[0], own.shape[2]
    for k in range(classes):
        moved[0, k] = 1.0
    for size in range(1, m + 1):
        at = sets.into[size]
        for row in range(sets.starts[size], sets.starts[size + 1]):
            for k in range(classes):
                sums[row, k] = moved[row, k] = 0.0
            for _ in range(size):
                below, thing = sets.sources[at], sets.members[at]
                for k in range(classes):
                    candidate = moved[below, k] * own[size - 1, thing, k]
                    sums[row, k] = max(sums[row, k], candidate)
                at += 1
            if size < m:
                for old in range(classes):
                    for new in range(classes):
                        candidate = sums[row, old] * steps[size - 1, old, new]
                        moved[row, new] = max(moved[row, new], candidate)


@compiled
def _chosen(weights, count, uniform):  # type: ignore[no-untyped-def]
    """One of the first weights: the largest if the uniform number is negative, else at random."""
    place, total = 0, 0.0
    for k in range(count):
        total += weights[k]
        if weights[k] > weights[place]:
            place = k
    if uniform < 0.0:
        return place
    reached = 0.0
    for k in range(count):
        reached += weights[k]
        if reached > uniform * total:
            return k
    return count - 1


@compiled
def labellings(own, steps, sets, uniforms, found, things, states):  # type: ignore[no-untyped-def]
    """The likeliest labelling and classes of every point, or one drawn at random.

    A walk back from all things to none: the last label's class, the thing that carries it, the
    class before, and so on.

    Args:
        own: (points, labels, things, classes), densities scaled to at most one.
        steps: as for `totals`.
        sets: likewise.
        uniforms: (points, 2·labels), for the choices; negative for the likeliest.
        found: (points), where the largest sum of a class goes.
        things: (points, labels), where the thing of every label goes.
        states: (points, labels), where its class goes.
    """
    m, classes = own.shape[1], own.shape[3]
    sums = np.empty((sets.starts[-1], classes))
    largest = np.empty((sets.starts[-1], classes))
    weights = np.empty(max(m, classes))
    for n in range(own.shape[0]):
        likeliest = uniforms[n, 0] < 0.0
        # The sums of one class move on as they are.
        moved = largest if likeliest or classes > 1 else sums
        if likeliest:
            _largest(own[n], steps, sets, sums, moved)
        else:
            _forward(own[n], steps, sets, sums, moved)
        row, found[n] = sets.starts[-1] - 1, 0.0
        for k in range(classes):
            weights[k] = sums[row, k]
            found[n] = max(found[n], weights[k])
        state = _chosen(weights, classes, uniforms[n, 0])
        for size in range(m, 0, -1):
            at = sets.into[size] + (row - sets.starts[size]) * size
            for k in range(size):
                density = own[n, size - 1, sets.members[at + k], state]
                weights[k] = moved[sets.sources[at + k], state] * density
            place = at + _chosen(weights, size, uniforms[n, 2 * size - 1])
            row = sets.sources[place]
            things[n, size - 1], states[n, size - 1] = sets.members[place], state
            if size > 1:
                for k in range(classes):
                    weights[k] = sums[row, k] * steps[size - 2, k, state]
                state = _chosen(weights, classes, uniforms[n, 2 * size - 2])


def row_length(classes: int, count: int) -> int:
    """Return points whose classes lie side by side in one row."""
    return max(1, min(ROW // classes, count))


Densities = Float[np.ndarray, "blocks labels things row"]
