"""Sums of a proposal over the orbit of a point, on the host.

A group acts by matrices, a mixture of Gaussians folded over it is a larger mixture, and NumPy
evaluates that in one matrix product without compiling anything. What cannot be written so is summed
by compiled code behind the same interface, `OrbitSum`.
"""

from folt.problem.orbits.action import Action, action_of
from folt.problem.orbits.components import Components
from folt.problem.orbits.sums import CompiledSum, HostDistribution, ListedSum, OrbitSum, orbit_sum

__all__ = [
    "Action",
    "CompiledSum",
    "Components",
    "HostDistribution",
    "ListedSum",
    "OrbitSum",
    "action_of",
    "orbit_sum",
]
