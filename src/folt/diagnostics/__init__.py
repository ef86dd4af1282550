"""Diagnostics: arrays in, numbers out.

Nothing here knows densities, groups or flows. A statistical outcome that cannot be had (too few
draws, a frozen chain) is data in the result, never an exception and never a made-up number.
"""

from folt.diagnostics.chains import (
    ChainSummary,
    batch_means_ess,
    effective_size,
    frozen_chains,
    split_rhat,
    summarise_chains,
)
from folt.diagnostics.coverage import Agreement, Coverage, agreement, coverage
from folt.diagnostics.evidence import Evidence, bridge_evidence, importance_evidence
from folt.diagnostics.faults import Faults
from folt.diagnostics.gap import gap_upper, published_gap, valid_gap
from folt.diagnostics.mixing import Mixing, mixing_certificate
from folt.diagnostics.quantile_core import RHOS, Core, proposal_core, target_core

__all__ = [
    "RHOS",
    "Agreement",
    "ChainSummary",
    "Core",
    "Coverage",
    "Evidence",
    "Faults",
    "Mixing",
    "agreement",
    "batch_means_ess",
    "bridge_evidence",
    "coverage",
    "effective_size",
    "frozen_chains",
    "gap_upper",
    "importance_evidence",
    "mixing_certificate",
    "proposal_core",
    "published_gap",
    "split_rhat",
    "summarise_chains",
    "target_core",
    "valid_gap",
]
