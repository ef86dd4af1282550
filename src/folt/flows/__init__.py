"""Distributions to propose from: each draws, and knows the density of what it drew.

Where a distribution is a map of a simpler one, `push` goes from the latent space to the data and
`pull` back.
"""

from folt.flows.class_chain import ClassChain
from folt.flows.elliptical import Gaussian, StudentT, standard_normal
from folt.flows.mixture import Mixture, OrbitSafety, Safety
from folt.flows.pushed import Pushed, SinhArcsinh, symmetric_root, whitening
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
