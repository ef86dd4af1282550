"""The grammar of a finite group acting orthogonally on R^dim.

A group supplies five primitives: its elements, how one acts, how two compose with the inverse,
and which one folds a point. Everything else is derived here, once.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from folt._types import Key, Point, Scalar

Element = Any
"""A pytree of small integer arrays that names one group element."""


class Group(eqx.Module):
    """A finite group G acting on R^dim by orthogonal maps, with a fundamental domain.

    The domain D is the set of points that `fold` leaves alone: one representative of every
    orbit. The first entry of `elements` is the identity.
    """

    dim: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def order(self) -> int:
        """Number of elements, |G| = s."""

    @property
    @abstractmethod
    def elements(self) -> Element:
        """All elements, stacked along a leading axis of length `order`, the identity first."""

    @abstractmethod
    def act(self, element: Element, x: Point) -> Point:
        """The image g·x of one point under one element."""

    @abstractmethod
    def inverse(self, element: Element) -> Element:
        """The element that undoes `element`."""

    @abstractmethod
    def folding_element(self, x: Point) -> Element:
        """The element g with g·x in the fundamental domain D."""

    @abstractmethod
    def describe(self, element: Element) -> str:
        """One element in words, for messages: "swap components 1 and 2"."""

    def fold(self, x: Point) -> Point:
        """The representative of x's orbit in D."""
        return self.act(self.folding_element(x), x)

    def orbit(self, x: Point) -> Float[Array, "order dim"]:
        """All images of x, in the order of `elements`."""
        return jax.vmap(self.act, in_axes=(0, None))(self.elements, x)

    def contains(self, x: Point) -> Bool[Array, ""]:
        """Whether x lies in the fundamental domain."""
        return jnp.all(self.fold(x) == x)

    def distance(self, x: Point, y: Point) -> Scalar:
        """Quotient distance d_G(x, y) = min over g of |x - g·y|."""
        return jnp.min(jnp.linalg.norm(x - self.orbit(y), axis=-1))

    def separation(self, x: Point) -> Scalar:
        """Distance from x to its nearest other image, min over g ≠ e of |x - g·x|.

        Zero where the stabiliser is not trivial; infinite for the trivial group.
        """
        moved = jnp.linalg.norm(x - self.orbit(x)[1:], axis=-1)
        return jnp.min(moved, initial=jnp.inf)

    def random_element(self, key: Key) -> Element:
        """One element drawn uniformly."""
        index = jax.random.randint(key, (), 0, self.order)
        return self.element(index)

    def element(self, index: Any) -> Element:
        """The element at a position of `elements`."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], self.elements)

    def random_image(self, key: Key, x: Point) -> Point:
        """A uniformly chosen image of x: how folded draws return to all labels."""
        return self.act(self.random_element(key), x)
