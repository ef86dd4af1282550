"""Distributions to propose from: each draws, and knows the density of what it drew.

Where a distribution is a map of a simpler one, `push` goes from the latent space to the data and
`pull` back.
"""

from typing import TYPE_CHECKING, Any

from folt.flows.class_chain import ClassChain
from folt.flows.coupling import (
    LipschitzBounds,
    SpectralCoupling,
    certified,
    paper_architecture,
    refreshed,
)
from folt.flows.gaussian import Gaussian, standard_normal
from folt.flows.mixture import Mixture
from folt.flows.pushed import Pushed, symmetric_root, whitening
from folt.flows.safety import OrbitSafety, Safety
from folt.flows.student import StudentT

if TYPE_CHECKING:
    from folt.flows.spline import Transported, spline_coupling

__all__ = [
    "ClassChain",
    "Gaussian",
    "LipschitzBounds",
    "Mixture",
    "OrbitSafety",
    "Pushed",
    "Safety",
    "SpectralCoupling",
    "StudentT",
    "Transported",
    "certified",
    "paper_architecture",
    "refreshed",
    "spline_coupling",
    "standard_normal",
    "symmetric_root",
    "whitening",
]


def __getattr__(name: str) -> Any:
    """Splines on first use: they need flowjax, which takes half a second to import."""
    if name in ("Transported", "spline_coupling"):
        from folt.flows import spline

        return getattr(spline, name)
    raise AttributeError(f"module 'folt.flows' has no attribute {name!r}")
