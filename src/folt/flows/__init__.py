"""Distributions to propose from: each draws, and knows the density of what it drew.

Where a distribution is a map of a simpler one, `push` goes from the latent space to the data and
`pull` back.
"""

from folt.flows.gaussian import Gaussian, standard_normal
from folt.flows.mixture import Mixture
from folt.flows.safety import Safety
from folt.flows.student import StudentT

__all__ = [
    "Gaussian",
    "Mixture",
    "Safety",
    "StudentT",
    "standard_normal",
]
