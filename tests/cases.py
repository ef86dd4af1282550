"""Registries, name -> constructor: what is listed here goes through every law of its kind.

Constructors, not objects, so that nothing is built before the tests enter double precision.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from folt.flows import ClassChain
from folt.groups import (
    Blocks,
    Fixed,
    Generated,
    Group,
    Joint,
    Permutation,
    Product,
    Reflection,
    SignedPermutation,
    Square,
    Trivial,
    Within,
    ZeroSum,
    ZeroSumRows,
)

GROUPS: dict[str, Callable[[], Group]] = {
    "trivial": lambda: Trivial(3),
    "reflections": lambda: Reflection(5, (3, 1)),
    "permutation of blocks": lambda: Permutation(3, 2),
    "permutation by second": lambda: Permutation(4, 2, sort_by=1),
    "signed permutation": lambda: SignedPermutation(3, 4),
    "signed permutation by second": lambda: SignedPermutation(2, 3, sort_by=1),
    "signed permutation with scales": lambda: SignedPermutation(3, 3, unsigned=1),
    "mixture of mixtures": lambda: Generated([np.eye(4)[[1, 0, 2, 3]], np.eye(4)[[2, 3, 0, 1]]]),
    "triangle": lambda: Generated(
        [[[-0.5, -(0.75**0.5)], [0.75**0.5, -0.5]], [[1.0, 0.0], [0.0, -1.0]]]
    ),
    "product": lambda: Product(Permutation(3, 2), Reflection(2, (1,))),
    "nested product": lambda: Product(
        Product(Trivial(1), Permutation(2, 2)), SignedPermutation(2, 2)
    ),
    "joint with weights first": lambda: Joint(3, (Fixed(1), ZeroSum(), Blocks(2))),
    "joint square": lambda: Joint(3, (Square(), Fixed(2))),
    "within classes": lambda: Within(Joint(5, (ZeroSum(), Blocks(2))), [(4, 0, 2), (1, 3)]),
    "within one class": lambda: Within(Joint(3, (Blocks(1), ZeroSumRows())), [(0, 2)]),
    "joint transitions": lambda: Joint(3, (ZeroSumRows(),)),
    "joint of all parts": lambda: Joint(
        4, (Fixed(2), Blocks(2, sort_by=1), ZeroSum(), Square(), ZeroSumRows())
    ),
}


def random_chain(group: Group, classes: int, spread: float = 1.5, seed: int = 4) -> ClassChain:
    """A class chain with nothing special about it."""
    rng = np.random.default_rng(seed)
    form = group.block_form
    assert form is not None
    m, p, f = form.labels, form.size, len(form.fixed)

    def factors(*shape: int) -> np.ndarray:
        size = shape[-1]
        lower = np.tril(0.4 * rng.standard_normal((*shape, size)), -1)
        return lower + np.exp(0.3 * rng.standard_normal(shape))[..., None] * np.eye(size)

    arrays = (
        rng.standard_normal(classes),
        1.5 * rng.standard_normal((m - 1, classes, classes)),
        spread * rng.standard_normal((m, classes, p)),
        factors(m, classes, p),
        rng.standard_normal((classes, f)),
        factors(classes, f),
    )
    return ClassChain(group, *map(jnp.asarray, arrays))
