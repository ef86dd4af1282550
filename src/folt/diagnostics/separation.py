"""How far a mirrored pair of Gaussians keeps from the mirror between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from scipy.special import chdtri

from folt.diagnostics.covering import require_share


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
