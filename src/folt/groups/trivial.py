"""The trivial group: no symmetry at all."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from folt.groups.arguments import require_positive
from folt.groups.base import Element, Group
from folt.types import Point


class Trivial(Group):
    """The group {e} on R^dim; folding with it leaves everything as it was.

    Args:
        dim: dimension of the space.
    """

    dim: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        require_positive("dim", self.dim)

    @property
    def order(self) -> int:
        """One."""
        return 1

    @property
    def elements(self) -> Element:
        """The identity alone; it has no entries."""
        return np.zeros((1, 0), np.int32)

    @property
    def identity(self) -> Element:
        """The only element."""
        return np.zeros(0, np.int32)

    def act(self, element: Element, x: Point) -> Point:
        """The point itself."""
        return x

    def compose(self, first: Element, second: Element) -> Element:
        """The identity."""
        return second

    def inverse(self, element: Element) -> Element:
        """The identity."""
        return element

    def folding_element(self, x: Point) -> Element:
        """The identity: D is all of R^dim."""
        return self.identity

    def describe(self, element: Element) -> str:
        """Always "identity"."""
        return "identity"
