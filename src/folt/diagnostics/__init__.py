"""Diagnostics: arrays in, numbers out.

Nothing here knows densities, groups or flows. A statistical outcome that cannot be had (too few
draws, a frozen chain) is data in the result, never an exception and never a made-up number.
"""

from folt.diagnostics.chains import ChainSummary, batch_means_ess, frozen_chains, summarise_chains
from folt.diagnostics.evidence import Evidence, importance_evidence
from folt.diagnostics.gap import gap_upper, published_gap, valid_gap
from folt.diagnostics.mixing import Mixing, mixing_certificate
from folt.diagnostics.quantile_core import RHOS, Core, proposal_core, target_core

__all__ = [
    "RHOS",
    "ChainSummary",
    "Core",
    "Evidence",
    "Mixing",
    "batch_means_ess",
    "frozen_chains",
    "gap_upper",
    "importance_evidence",
    "mixing_certificate",
    "proposal_core",
    "published_gap",
    "summarise_chains",
    "target_core",
    "valid_gap",
]
