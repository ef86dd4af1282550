"""The paper's first diagnostic and the conditions of its theorem, evaluated on a problem.

Both concern the highest-density core K = {U ≤ u_α} of an invariant target, U = -log π with π
normalised by an evidence. Both are heuristics, and say so in their results: what may be claimed
about the running chain is the certificate of a fit.
"""

from folt.paper.theorems.check import TheoremCheck, conditions
from folt.paper.theorems.cover import Covering, CoverSide, covering, covering_of

__all__ = ["CoverSide", "Covering", "TheoremCheck", "conditions", "covering", "covering_of"]
