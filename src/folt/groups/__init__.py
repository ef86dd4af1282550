"""Symmetry: groups that act on R^dim by orthogonal maps, all finite but `Rotation`.

Each group knows how its elements act, and a fundamental domain with one representative of every
orbit; groups that are small enough also list their elements. This room knows no densities.
"""

from folt.groups.base import Element, Group
from folt.groups.block_form import BlockForm
from folt.groups.generated import Generated
from folt.groups.joint import Joint
from folt.groups.parts import Blocks, Fixed, Part, Square, ZeroSum, ZeroSumRows
from folt.groups.permutation import Permutation
from folt.groups.product import Product
from folt.groups.reflection import Reflection
from folt.groups.relabelling import Relabelling
from folt.groups.rotation import Rotation
from folt.groups.signed import SignedArrangement, SignedPermutation
from folt.groups.trivial import Trivial
from folt.groups.within import Within
from folt.groups.zero_sum import zero_sum_basis

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
