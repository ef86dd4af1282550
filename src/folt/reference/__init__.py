"""Draws to learn from and to certify with.

A sampler object is called as `sampler(key, problem, progress)` and returns a `Reference`: folded
draws by chain, with their health and their cost. Nobody supplies starting points.
"""

from folt.certificate.cautions import Caution, Concern, Reference, health
from folt.reference.host_chains import HostChains, Sampler, reference_for
from folt.reference.random_walk import AdaptiveRandomWalk
from folt.reference.supplied import Exact, Given
from folt.types import Progress

__all__ = [
    "AdaptiveRandomWalk",
    "Caution",
    "Concern",
    "Exact",
    "Given",
    "HostChains",
    "Progress",
    "Reference",
    "Sampler",
    "health",
    "reference_for",
]
