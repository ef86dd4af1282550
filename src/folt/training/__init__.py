"""Training: from reference draws to a proposal.

A trainer is called with a key, a `TrainingTask` (draws, target values, symmetry, safety), an
earlier flow to start from or None, and a function to tell progress; it returns a `Distribution`.
"""

from folt.training.orbit_chain import OrbitChain, proposal_maker
from folt.training.orbit_em import score_regression
from folt.training.orbit_mixture import OrbitMixture
from folt.training.refinement import Refinement
from folt.training.task import Sample, TrainingTask, guard_of, invariant_guard
from folt.training.truncated import LikelyOrbits

__all__ = [
    "LikelyOrbits",
    "OrbitChain",
    "OrbitMixture",
    "Refinement",
    "Sample",
    "TrainingTask",
    "guard_of",
    "invariant_guard",
    "proposal_maker",
    "score_regression",
]
