"""Which symmetry does a density have? Found by trying swaps, flips and rotations at random points.

What holds for the swap of two labels holds for every product of such swaps, so O(m) of them
settle m! permutations. Nothing is taken from names: a candidate counts if the density at random
points and at their images agrees to rounding.
"""

from folt.symmetry.findings import (
    Attempt,
    Factor,
    Kind,
    Reason,
    Remark,
    RotationFound,
    SymmetryFound,
)
from folt.symmetry.parts import detect

__all__ = [
    "Attempt",
    "Factor",
    "Kind",
    "Reason",
    "Remark",
    "RotationFound",
    "SymmetryFound",
    "detect",
]
