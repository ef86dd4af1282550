"""Labels for draws that somebody else made: permuted, never averaged, never lost.

This is the remedy for chains that exist already. It makes labels consistent; it proves nothing
about the chain. Where the model can be run again, `folt.sample` folds it instead.
"""

from folt.interop.relabelling.methods import Ecr, GaussianOrbit, Pivot, Relabeller, Sort, Stephens
from folt.interop.relabelling.relabel import Health, Relabelled, relabel

__all__ = [
    "Ecr",
    "GaussianOrbit",
    "Health",
    "Pivot",
    "Relabelled",
    "Relabeller",
    "Sort",
    "Stephens",
    "relabel",
]
