"""The grammar of a finite group acting orthogonally on R^dim.

A group says what its elements are, how one acts, how two compose, how one is undone, and which
one folds a point. Everything else is derived here, once. This room knows no densities.

Actions that permute whole blocks of coordinates: what an orbit sum over subsets rests on.
"""

from __future__ import annotations

import dataclasses
import html
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

from folt.types import Key, Point, Scalar


@dataclasses.dataclass(frozen=True)
class BlockForm:
    """Which coordinates form the block of every label, and which carry no label.

    Attributes:
        places: one tuple of coordinates per label, all of one length p.
        fixed: coordinates that no element moves.
        signed: whether every block may change its sign besides.
    """

    places: tuple[tuple[int, ...], ...]
    fixed: tuple[int, ...] = ()
    signed: bool = False

    @property
    def labels(self) -> int:
        """Number of labels, m."""
        return len(self.places)

    @property
    def size(self) -> int:
        """Coordinates per block, p."""
        return len(self.places[0])

    @property
    def dim(self) -> int:
        """Coordinates in all."""
        return self.labels * self.size + len(self.fixed)

    @property
    def order(self) -> Int[np.ndarray, " dim"]:
        """The coordinates block by block, the fixed ones last."""
        return np.array([*(at for block in self.places for at in block), *self.fixed], int)

    def split(self, x: Any) -> tuple[Float[Any, "... m p"], Float[Any, "... f"]]:
        """Return the blocks of points and their fixed coordinates."""
        blocks = x[..., np.array(self.places, int)]
        return blocks, x[..., np.array(self.fixed, int)]

    def join(self, blocks: Any, fixed: Any) -> Float[Array, "... dim"]:
        """Return the points with these blocks and fixed coordinates."""
        flat = blocks.reshape(*blocks.shape[:-2], self.labels * self.size)
        return jnp.concatenate([flat, fixed], axis=-1)[..., np.argsort(self.order)]

    def shifted(self, start: int) -> BlockForm:
        """Return the same form of coordinates that begin at `start`."""
        places = tuple(tuple(at + start for at in block) for block in self.places)
        return dataclasses.replace(
            self, places=places, fixed=tuple(at + start for at in self.fixed)
        )


def rows_of(labels: int, size: int, start: int = 0) -> tuple[tuple[int, ...], ...]:
    """The coordinates of each row of a (labels, size) array laid out from `start` on."""
    places = start + np.arange(labels * size).reshape(labels, size)
    return tuple(map(tuple, places.tolist()))


Element = Any
"""A pytree of small integer arrays that names one group element."""

LARGEST_ENUMERATED = 50_000
"""Largest group whose elements are listed one by one; 8! = 40 320 is below it."""


_MOST_LINES = 12
"""Lines that a group takes to be shown."""


def require_enumerable(order: int) -> None:
    """Raise if a group has too many elements to be listed."""
    if order > LARGEST_ENUMERATED:
        raise ValueError(
            f"the {order} elements of this group are too many to be listed one by one (at most "
            f"{LARGEST_ENUMERATED}): acting, folding, averages and random elements work at any "
            "size, and sums over the orbit where the group permutes whole blocks"
        )


class Group(eqx.Module):
    """A finite group G acting on R^dim by orthogonal maps, with a fundamental domain.

    The domain D is the set of points that `fold` leaves alone: one representative of every
    orbit. All configuration is static, so equal groups compare equal and share compiled code.
    """

    dim: eqx.AbstractVar[int]

    def __repr__(self) -> str:
        lines = eqx.tree_pformat(self).splitlines()
        return "\n".join(lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], "  …"])

    def _repr_html_(self) -> str:
        """Return the same in a notebook, with the number of elements."""
        return f"<pre>{html.escape(repr(self))}</pre><p>{self.order:,} elements</p>"

    @property
    @abstractmethod
    def order(self) -> int:
        """Number of elements, |G| = s."""

    @property
    def log_order(self) -> float:
        """Log of the number of elements."""
        return math.log(self.order)

    @property
    @abstractmethod
    def elements(self) -> Element:
        """All elements, stacked along a leading axis of length `order`, the identity first.

        Raises:
            ValueError: there are more than `LARGEST_ENUMERATED`; nothing else here needs them.
        """

    @property
    def block_form(self) -> BlockForm | None:
        """Where the blocks are that the group permutes whole; None if it acts in another way."""
        return None

    @abstractmethod
    def act(self, element: Element, x: Point) -> Point:
        """Return the image g·x of one point under one element."""

    @abstractmethod
    def compose(self, first: Element, second: Element) -> Element:
        """Return the product ab, which acts as (ab)·x = a·(b·x)."""

    @abstractmethod
    def inverse(self, element: Element) -> Element:
        """Return the element that undoes `element`."""

    @abstractmethod
    def folding_element(self, x: Point) -> Element:
        """Return the element g with g·x in the fundamental domain D; the identity if x is there."""

    @abstractmethod
    def describe(self, element: Element) -> str:
        """Return one element in words, counting from one: "swap components 1 and 2"."""

    @property
    def identity(self) -> Element:
        """The element e that moves nothing."""
        return self.element(0)

    @property
    def generators(self) -> Element:
        """A stack of elements whose products are the whole group.

        A function is invariant under G if it is invariant under these, which makes the check
        cheap. Groups with a small generating set say so; the default leaves out the identity.
        """
        return jax.tree.map(lambda leaf: leaf[1:], self.elements)

    @property
    def factors(self) -> tuple[Element, ...]:
        """Stacks T_1, ..., T_r such that every g is t_r···t_1 with t_k in T_k in just one way.

        A sum over the group is then r nested sums over short stacks: for m labels m²/2 terms
        instead of m!. The default is a single stack, the group itself.
        """
        return (self.elements,)

    @property
    def neighbours(self) -> Element:
        """The elements of all factors but the identity, as one stack.

        Exchanges of two labels and single flips: what is nearest to the identity in a group that
        is too large to be listed. Of a group with a single factor these are all other elements.
        """
        others = [jax.tree.map(lambda leaf: leaf[1:], stack) for stack in self.factors]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *others)

    @property
    def listable(self) -> bool:
        """Whether the elements may be listed one by one."""
        return self.order <= LARGEST_ENUMERATED

    def element(self, index: ArrayLike) -> Element:
        """Return the element at a position of `elements`."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], self.elements)

    def fold(self, x: Point) -> Point:
        """Return the representative of x's orbit in D."""
        self.check_point(x)
        return self.act(self.folding_element(x), x)

    def orbit(self, x: Point) -> Float[Array, "order dim"]:
        """Return all images of x, in the order of `elements`."""
        self.check_point(x)
        return jax.vmap(self.act, in_axes=(0, None))(self.elements, x)

    def other_images(self, x: Point) -> Float[Array, "others dim"]:
        """Return the images of x under all elements but the identity, or under `neighbours`."""
        if self.listable:
            return self.orbit(x)[1:]
        self.check_point(x)
        return jax.vmap(self.act, in_axes=(0, None))(self.neighbours, x)

    def contains(self, x: Point) -> Bool[Array, ""]:
        """Return whether x lies in the fundamental domain: whether the identity folds it.

        Comparing elements, not points, keeps the answer free of rounding in the action.
        """
        self.check_point(x)
        same = jax.tree.map(jnp.array_equal, self.folding_element(x), self.identity)
        return jnp.all(jnp.stack(jax.tree.leaves(same)))

    def distance(self, x: Point, y: Point) -> Scalar:
        """Quotient distance d_G(x, y) = min over g of |x - g·y|."""
        self.check_point(x)
        return jnp.min(jnp.linalg.norm(x - self.orbit(y), axis=-1))

    def separation(self, x: Point) -> Scalar:
        """Distance from x to its nearest other image, min over g ≠ e of |x - g·x|.

        Zero where the stabiliser is not trivial; infinite for the trivial group. A group that
        cannot be listed is looked at through its `neighbours`.
        """
        moved = jnp.linalg.norm(x - self.other_images(x), axis=-1)
        return jnp.min(moved, initial=jnp.inf)

    def random_element(self, key: Key) -> Element:
        """Return one element drawn uniformly: the product of one uniform draw from every factor."""
        drawn = self.identity
        factors = self.factors
        for step, stack in zip(jax.random.split(key, len(factors)), factors, strict=True):
            index = jax.random.randint(step, (), 0, _length(stack))
            chosen = jax.tree.map(lambda leaf, at=index: jnp.asarray(leaf)[at], stack)
            drawn = self.compose(chosen, drawn)
        return drawn

    def random_image(self, key: Key, x: Point) -> Point:
        """Return a uniformly chosen image of x: how folded draws return to all labels."""
        self.check_point(x)
        return self.act(self.random_element(key), x)

    def average(self, matrix: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
        """Return the projection (1/s) Σ_g g M gᵀ onto the matrices that commute with the action.

        The covariance of an invariant distribution is such a matrix. Exact: the sum runs over
        `factors`, never over samples of the group.
        """
        if matrix.shape != (self.dim, self.dim):
            raise ValueError(f"expected a matrix ({self.dim}, {self.dim}), got {matrix.shape}")

        def conjugate(element: Element, value: Array) -> Array:
            on_rows = jax.vmap(self.act, in_axes=(None, 0))(element, value)
            return jax.vmap(self.act, in_axes=(None, 1), out_axes=1)(element, on_rows)

        return self._averaged(conjugate, matrix)

    def average_mean(self, vector: Point) -> Point:
        """Return the projection (1/s) Σ_g g·v onto the vectors that every element leaves alone."""
        self.check_point(vector)
        return self._averaged(self.act, vector)

    def check_point(self, x: ArrayLike) -> None:
        """Raise unless x is a single point of R^dim; costs nothing in compiled code."""
        if jnp.shape(x) != (self.dim,):
            raise ValueError(
                f"expected one point of shape ({self.dim},), got shape {jnp.shape(x)}; "
                "map over many points with jax.vmap"
            )

    def _averaged(self, image: Callable[[Element, Array], Array], value: Array) -> Array:
        """Mean of the images of a value, factor within factor: mean over T_r of ... over T_1.

        One scan through all stacks one after the other: `value` is what the current factor acts
        on, `total` its weighted sum so far, which takes the place of `value` at its end. So the
        memory is one image and the compiled code does not grow with the number of factors.
        """
        lengths = [_length(stack) for stack in self.factors]
        stack = jax.tree.map(lambda *leaves: np.concatenate(leaves), *self.factors)
        weights = np.repeat(1.0 / np.array(lengths), lengths).astype(value.dtype)
        ends = np.isin(np.arange(1, sum(lengths) + 1), np.cumsum(lengths))

        def add(carry: tuple[Array, Array], step: PyTree) -> tuple[tuple[Array, Array], None]:
            value, total = carry
            element, weight, last = step
            total = total + weight * image(element, value)
            return (jnp.where(last, total, value), jnp.where(last, 0.0, total)), None

        start = (value, jnp.zeros_like(value))
        return jax.lax.scan(add, start, (stack, weights, ends))[0][0]


def _length(stack: Element) -> int:
    return jax.tree.leaves(stack)[0].shape[0]
