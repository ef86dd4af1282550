"""Sums of dense Gaussians over permutations of blocks, from the blocks' own products.

The square |F·(g·x - μ)|² is that of Σ_k V_k(a_k), where V_k(a) = F_k·(y_a - μ_k) is the part of
label k when it gets block a, and F_k the columns of its coordinates. All V are m² small products,
their inner products a table, and every one of the m! (or 2^m·m!) images a sum of few entries of it,
instead of a product with F of its own.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from folt.groups import BlockForm
from folt.proposals.action import Action
from folt.proposals.components import HARMLESS, Components
from folt.proposals.warped import WarpedComponents
from folt.types import HostPoints

SAVED = 3.0
"""Factor by which the table must need fewer multiplications than the images: its own are in smaller
products. Measured from 6 to 80 dimensions."""


class _Blocks(NamedTuple):
    """What every element of a group does to the blocks.

    Attributes:
        form: where the blocks are.
        given: the block that every label gets; plus the number of labels if its sign is turned.
    """

    form: BlockForm
    given: Int[np.ndarray, "order labels"]

    @property
    def alternatives(self) -> int:
        """What a label may get: any block, of either sign where signs turn."""
        return self.form.labels * (2 if self.form.signed else 1)


def blocks_of_mixture(action: Action) -> _Blocks | None:
    """Return how a listed group moves blocks; None where it does anything else."""
    form = action.group.block_form
    if form is None or form.labels < 2 or not action.listed:
        return None
    matrices, places = action.matrices, np.array(form.places, int)
    owner = np.full(form.dim, -1)
    owner[places] = np.arange(form.labels)[:, None]
    rows = matrices[:, places[:, 0]]
    source = np.abs(rows).argmax(axis=-1)
    turned = np.take_along_axis(rows, source[..., None], axis=-1)[..., 0] < 0
    given = owner[source] + form.labels * turned
    probe = np.arange(1.0, form.dim + 1.0)
    signs = np.where(turned, -1.0, 1.0)[..., None]
    expected = np.tile(probe, (len(matrices), 1))
    expected[:, places] = probe[places][owner[source]] * signs
    return _Blocks(form, given) if np.array_equal(matrices @ probe, expected) else None


def pays(part: Components | WarpedComponents, blocks: _Blocks) -> bool:
    """Return whether the table is cheaper than the images, and loses no digits that matter."""
    base = part.base if isinstance(part, WarpedComponents) else part
    m, p, dim = blocks.form.labels, blocks.form.size, base.dim
    choices, order = m * blocks.alternatives, len(blocks.given)
    table = choices * p * dim + choices**2 * dim + 4 * order * m * m
    monomials = (dim + 1) * (dim + 2) // 2
    each = dim**2 if base.direct or isinstance(part, WarpedComponents) else monomials
    if SAVED * table > order * each:
        return False
    places = np.array(blocks.form.places, int)
    roots = np.linalg.inv(base.factors)
    parts = [base.factors[:, :, own] @ roots[:, own] for own in places]
    largest = max(float(np.max(np.sum(part**2, axis=(1, 2)))) for part in parts)
    return bool(np.finfo(float).eps * largest <= HARMLESS)


class BlockSum:
    """x ↦ Σ_g p(g·x) of components, behind margins or not, over permutations of blocks.

    Args:
        part: the components.
        blocks: what the group's elements do.
    """

    def __init__(self, part: Components | WarpedComponents, blocks: _Blocks) -> None:
        self.base = part.base if isinstance(part, WarpedComponents) else part
        self.margins = part.margins if isinstance(part, WarpedComponents) else None
        self.blocks, self.count = blocks, len(blocks.given) * part.count

    @functools.cached_property
    def log_weights(self) -> Float[np.ndarray, " components"]:
        """Weights of all images."""
        return np.tile(self.base.log_weights, len(self.blocks.given))

    @functools.cached_property
    def entries(self) -> Int[np.ndarray, "order terms"]:
        """For every element the entries of the table that make up its square."""
        m, choices = self.blocks.form.labels, self.blocks.alternatives
        width = m * choices
        chosen = self.blocks.given + choices * np.arange(m)
        first, second = np.triu_indices(m, 1)
        pairs = width + chosen[:, first] * width + chosen[:, second]
        return np.concatenate([chosen, pairs], axis=1)

    def log_terms(self, points: HostPoints) -> Float[np.ndarray, "n components"]:
        """Return log w_k + log p_k(g·x) of every point, element and component."""
        form, n = self.blocks.form, len(points)
        blocks, fixed = form.split(points)
        if form.signed:
            blocks = np.concatenate([blocks, -blocks], axis=1)
        places, slopes = np.array(form.places, int), np.zeros((n, 1))
        given = [blocks] * form.labels
        if self.margins is not None:
            pulled = [self.margins.at(own).pull(blocks) for own in places]
            given = [y for y, _ in pulled]
            sums = np.concatenate([each.sum(axis=2) for _, each in pulled], axis=1)
            slopes = sums[:, self.entries[:, : form.labels]].sum(axis=2)
            fixed, of_fixed = self.margins.at(np.array(form.fixed, int)).pull(fixed)
            slopes += of_fixed.sum(axis=1)[:, None]
        squares = np.empty((n, len(self.blocks.given), self.base.count))
        for number in range(self.base.count):
            squares[:, :, number] = self._squares(number, given, fixed)
        terms = self.base.log_from_squares(squares)
        if self.margins is not None:
            terms += slopes[:, :, None]
        return terms.reshape(n, self.count)

    def _squares(
        self, number: int, given: list[np.ndarray], fixed: HostPoints
    ) -> Float[np.ndarray, "n order"]:
        """|factor·(g·y - mean)|² of one component at every image."""
        form = self.blocks.form
        factor, mean = self.base.factors[number], self.base.means[number]
        places, rest = np.array(form.places, int), np.array(form.fixed, int)
        pieces = [
            (each - mean[own]) @ factor[:, own].T for each, own in zip(given, places, strict=True)
        ]
        pieces.append(((fixed - mean[rest]) @ factor[:, rest].T)[:, None])
        stacked = np.concatenate(pieces, axis=1)
        products = stacked @ stacked.transpose(0, 2, 1)
        products *= 2.0
        alone = 0.5 * np.diagonal(products, axis1=1, axis2=2)[:, :-1] + products[:, :-1, -1]
        pairs = products[:, :-1, :-1].reshape(len(stacked), -1)
        table = np.concatenate([alone, pairs], axis=1)
        squares = table[:, self.entries].sum(axis=2)
        squares += 0.5 * products[:, -1, -1:]
        return np.maximum(squares, 0.0, out=squares)
