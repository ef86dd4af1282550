"""A log density with its symmetry: the problem, its fold, its ratio to a proposal, its checks.

Every front-end makes a `Problem` and everything else takes one. Around it stand evaluation in
batches, black boxes, the fold over a group, sums over orbits, the check of a symmetry that was
stated and the detection of one that was not.
"""

from folt.problem.evaluated import GRADIENTS_PER_BLOCK, VALUES_PER_GRADIENT
from folt.problem.problem import Problem, WithData

__all__ = ["GRADIENTS_PER_BLOCK", "VALUES_PER_GRADIENT", "Problem", "WithData"]
