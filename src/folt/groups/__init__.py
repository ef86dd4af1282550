"""Symmetry: groups that act on R^dim by orthogonal maps, all finite but `Rotation`.

Each group knows how its elements act, and a fundamental domain with one representative of every
orbit; groups that are small enough also list their elements. This room knows no densities.
"""

from folt.groups.base import BlockForm, Element, Group
from folt.groups.joint import Joint, Within
from folt.groups.parts import Blocks, Fixed, Part, Square, ZeroSum, ZeroSumRows, zero_sum_basis
from folt.groups.permutation import Permutation, Relabelling
from folt.groups.product import Generated, Product
from folt.groups.reflection import Reflection, Trivial
from folt.groups.rotation import Rotation
from folt.groups.signed import SignedArrangement, SignedPermutation

__all__ = [
    "BlockForm",
    "Blocks",
    "Element",
    "Fixed",
    "Generated",
    "Group",
    "Joint",
    "Part",
    "Permutation",
    "Product",
    "Reflection",
    "Relabelling",
    "Rotation",
    "SignedArrangement",
    "SignedPermutation",
    "Square",
    "Trivial",
    "Within",
    "ZeroSum",
    "ZeroSumRows",
    "zero_sum_basis",
]
