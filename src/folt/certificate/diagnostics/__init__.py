"""Diagnostics: arrays in, numbers out.

Nothing here knows densities, groups or proposals. A statistical outcome that cannot be had (too few
draws, a frozen chain) is data in the result, never an exception and never a made-up number.
"""

from folt.certificate.diagnostics.chains import (
    ChainSummary,
    batch_means_ess,
    effective_size,
    frozen_chains,
    rhat_by_chance,
    split_rhat,
    summarise_chains,
)
from folt.certificate.diagnostics.coupling_bounds import (
    acceptance,
    binomial_upper,
    effective_sizes,
    mean_lower,
)
from folt.certificate.diagnostics.coverage import (
    Agreement,
    Compared,
    Coverage,
    Faults,
    agreement,
    coverage,
)
from folt.certificate.diagnostics.evidence import (
    Difference,
    Evidence,
    Evidences,
    Method,
    bridge_evidence,
    evidences,
    importance_evidence,
    psis_evidence,
)
from folt.certificate.diagnostics.mixing import Mixing, draws_needed, mixing_certificate
from folt.certificate.diagnostics.pareto import ParetoTail, pareto_tail
from folt.certificate.diagnostics.quantile_core import (
    RHOS,
    Core,
    gap_upper,
    proposal_core,
    published_gap,
    target_core,
    valid_gap,
)
from folt.certificate.diagnostics.switching import Switching, switching

__all__ = [
    "RHOS",
    "Agreement",
    "ChainSummary",
    "Compared",
    "Core",
    "Coverage",
    "Difference",
    "Evidence",
    "Evidences",
    "Faults",
    "Method",
    "Mixing",
    "ParetoTail",
    "Switching",
    "acceptance",
    "agreement",
    "batch_means_ess",
    "binomial_upper",
    "bridge_evidence",
    "coverage",
    "draws_needed",
    "effective_size",
    "effective_sizes",
    "evidences",
    "frozen_chains",
    "gap_upper",
    "importance_evidence",
    "mean_lower",
    "mixing_certificate",
    "pareto_tail",
    "proposal_core",
    "psis_evidence",
    "published_gap",
    "rhat_by_chance",
    "split_rhat",
    "summarise_chains",
    "switching",
    "target_core",
    "valid_gap",
]
