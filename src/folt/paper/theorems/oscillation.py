"""The oscillation terms of the paper's theorem, from draws that cover the core.

How far a mirrored pair of Gaussians keeps from the mirror between them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import chdtri

from folt.paper.theorems.covering import HEURISTIC, CoveringRadius, require_share


@dataclasses.dataclass(frozen=True)
class OscillationTerm:
    """Range of h over draws plus what it may change between them; None where infeasible.

    Attributes:
        published: osc + 2·M·ε*, with ε* from the floor over the core, as the paper has it.
        corrected: osc + 4·M·ε*, with ε* from the floor over the core widened by ε.
        osc: range of h over all draws that cover. A draw that covers may lie outside the core.
        gradient: M, the largest |∇h| among the draws looked at; None without gradients.
        gradient_draws: how many draws that was.
        reason: why a number is missing; None if none is.
        heuristic: what both numbers are.
    """

    published: float | None
    corrected: float | None
    osc: float
    gradient: float | None
    gradient_draws: int
    reason: str | None
    heuristic: str = HEURISTIC


def oscillation_term(
    log_ratios: np.ndarray,
    gradient: float | None,
    gradient_draws: int,
    published: CoveringRadius,
    corrected: CoveringRadius,
    reason: str | None = None,
) -> OscillationTerm:
    """Both oscillation terms: osc + 2·M·ε* as published, osc + 4·M·ε* as corrected.

    A point of the core is within ε of a centre, and the centre within ε of a draw, so h at the
    point differs by at most 2ε·M from h at a draw; this counts at the top and at the bottom.

    Args:
        log_ratios: h at the draws that cover.
        gradient: M; None where there is no gradient.
        gradient_draws: draws at which it was looked at.
        published: radius from the floor over the core.
        corrected: radius from the floor over the widened core.
        reason: why there is no gradient.
    """
    values = np.asarray(log_ratios, float)
    osc = float(np.ptp(values)) if values.size and np.isfinite(values).all() else math.inf

    def term(factor: float, radius: float | None) -> float | None:
        if radius is None or gradient is None or not math.isfinite(osc):
            return None
        return osc + factor * gradient * radius

    if reason is None and not math.isfinite(osc):
        reason = "h is not finite at some draws"
    return OscillationTerm(
        term(2.0, published.radius),
        term(4.0, corrected.radius),
        osc,
        gradient,
        gradient_draws,
        reason or published.reason or corrected.reason,
    )


@dataclasses.dataclass(frozen=True)
class Separation:
    """One dimension of the separation table.

    Attributes:
        dim: d.
        chi_squared: the quantile χ²_{d,1-α}.
        needed: 2·sqrt(χ²_{d,1-α}), the separation from which the cores stay clear of the mirror.
        clear: whether the separation asked about is larger.
    """

    dim: int
    chi_squared: float
    needed: float
    clear: bool


def separation_table(
    separation: float, dims: Sequence[int], alpha: float = 0.05
) -> tuple[Separation, ...]:
    """Whether the core of a pair of unit Gaussians δ apart stays clear of the mirror.

    The core of either is close to a ball of radius sqrt(χ²_{d,1-α}) about its mean, which lies δ/2
    from the mirror; so the condition is δ > 2·sqrt(χ²_{d,1-α}).

    Args:
        separation: δ/σ, the distance of the means in standard deviations.
        dims: dimensions d.
        alpha: share of the target outside the core.
    """
    require_share("alpha", alpha)
    rows = []
    for dim in dims:
        quantile = float(chdtri(dim, alpha))
        needed = 2.0 * math.sqrt(quantile)
        rows.append(Separation(int(dim), quantile, needed, bool(separation > needed)))
    return tuple(rows)


def boundary_density_ratio(separation: float) -> float:
    """Density half-way between two Gaussians over that at a mean: 2e^(-δ²/8) / (1 + e^(-δ²/2)).

    Above one the two have merged and the mirror runs through the only peak.

    Args:
        separation: δ/σ, the distance of the means in standard deviations.
    """
    return 2.0 * math.exp(-(separation**2) / 8.0) / (1.0 + math.exp(-(separation**2) / 2.0))
