"""Distributions to propose from: each draws, and knows the density of what it drew.

Where a distribution is a map of a simpler one, `push` goes from the latent space to the data and
`pull` back.
"""

from folt.flows.class_chain import ClassChain
from folt.flows.gaussian import Gaussian, standard_normal
from folt.flows.mixture import Mixture
from folt.flows.pushed import Pushed, symmetric_root, whitening
from folt.flows.safety import OrbitSafety, Safety
from folt.flows.sinh_arcsinh import SinhArcsinh
from folt.flows.student import StudentT
from folt.flows.truncated import TruncatedOrbit

__all__ = [
    "ClassChain",
    "Gaussian",
    "Mixture",
    "OrbitSafety",
    "Pushed",
    "Safety",
    "SinhArcsinh",
    "StudentT",
    "TruncatedOrbit",
    "standard_normal",
    "symmetric_root",
    "whitening",
]
