"""Proposals: distributions that draw and know their density, and their sums over orbits.

Where a distribution is a map of a simpler one, `push` goes from the latent space to the data and
`pull` back. A mixture of Gaussians folded over a group is a larger mixture, which NumPy evaluates
in one matrix product without compiling anything; what cannot be written so is summed by compiled
code behind the same interface, `OrbitSum`.
"""

from folt.proposals.class_chain import ClassChain
from folt.proposals.elliptical import Gaussian, StudentT, standard_normal
from folt.proposals.mixture import Mixture, OrbitSafety, Safety
from folt.proposals.pushed import Pushed, SinhArcsinh, symmetric_root, whitening
from folt.proposals.truncated import TruncatedOrbit

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
