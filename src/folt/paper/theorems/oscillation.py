"""The oscillation terms of the paper's theorem: range and gradient of h over draws of the core.

The draws are independent as far as possible, in two sets that share no chain. For a mirrored pair
of Gaussians it is known how far the core keeps from the mirror between them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from scipy.special import chdtri

from folt.batching import map_points
from folt.certificate.diagnostics.chains import effective_size
from folt.fit import Fit
from folt.paper.theorems.covering import HEURISTIC, CoveringRadius, require_share
from folt.problem import Problem
from folt.problem.ratio import Target
from folt.proposals.fold import Folded
from folt.types import HostDraws, HostPoints, Point, Scalar

LARGEST_TABLE = 5_000_000
"""Most numbers in a table of draws times group elements."""


def halves(draws: HostDraws) -> tuple[HostPoints, HostPoints]:
    """Two sets of draws from different chains; from the two ends of a single chain."""
    count, length, dim = draws.shape
    if count > 1:
        first, second = draws[: count // 2], draws[count // 2 :]
    else:
        first, second = draws[:, : length // 2], draws[:, length // 2 :]
    return first.reshape(-1, dim), second.reshape(-1, dim)


def nearly_independent(fit: Fit) -> HostDraws:
    """Return every k-th draw, k the draws per effective one of the slowest coordinate and of h.

    A frozen chain has no effective draws and is left with a single one.
    """
    smallest = min(*fit.ess(), effective_size(fit.log_ratio))
    length = fit.draws.shape[1]
    step = math.ceil(fit.accepted.size / smallest) if smallest > 0 else length
    return fit.draws[:, ::step]


def thinned_points(points: HostPoints, most: int) -> HostPoints:
    """At most `most` rows, evenly spaced."""
    if points.shape[0] <= most:
        return points
    return points[np.linspace(0, points.shape[0] - 1, max(most, 1)).astype(int)]


def require_draws(problem: Problem, draws: object) -> HostPoints:
    """Return the draws as an array, or a ValueError; the target must be invariant."""
    if not problem.invariant:
        raise ValueError(
            "the highest-density core folds only if the target is invariant, and this problem "
            "declares a broken symmetry"
        )
    array = np.asarray(draws, float)
    if array.ndim != 2 or array.shape[1] != problem.dim or array.shape[0] == 0:
        raise ValueError(f"expected draws of shape (n, {problem.dim}), got {array.shape}")
    return array


GRADIENT_DRAWS = 2_000
"""Most draws at which |∇h| is looked at."""

_DIRECTIONS = 8
"""Random directions, besides outwards and downhill, in which the floor is looked for."""


def largest_gradient(
    target: Folded, proposal: Folded, points: HostPoints
) -> tuple[float | None, int, str | None]:
    """M = max |∇(log π_F - log q_F)| over at most `GRADIENT_DRAWS` draws.

    Returns:
        M, the number of draws, and a reason where M is None.
    """
    some = thinned_points(points, GRADIENT_DRAWS)
    pair = (target, proposal)
    reason = _untraceable(_gradient_norm, pair, points.shape[1])
    if reason is not None:
        return None, 0, reason
    norms = map_points(_gradient_norm, pair, some, terms=proposal.group.order)
    if not np.isfinite(norms).all():
        wrong = int((~np.isfinite(norms)).sum())
        return None, some.shape[0], f"the gradient of h is not finite at {wrong} draws"
    return float(norms.max()), some.shape[0], None


def widened_floors(
    generator: np.random.Generator,
    target: Target,
    bases: HostPoints,
    centre: np.ndarray,
    radii: np.ndarray,
) -> np.ndarray:
    """Return the smallest log π_F found at each distance from draws at the edge of the core.

    Looked for away from the centre, down the slope where there is one, and at random.

    Args:
        generator: of the random directions.
        target: log π_F in batches.
        bases: draws at the edge of the core.
        centre: the middle of the core.
        radii: distances.

    Returns:
        One log density per radius; -inf where the support ends or the density is no number.
    """
    count, dim = bases.shape
    folded = target.problem.folded()
    ways = [bases - centre, *generator.normal(size=(_DIRECTIONS, count, dim))]
    if _untraceable(_slope, folded, dim) is None:
        ways.append(-map_points(_slope, folded, bases))
    lengths = np.linalg.norm(ways, axis=-1, keepdims=True)
    directions = np.stack(ways) / np.where(lengths > 0.0, lengths, 1.0)
    around = bases + radii[:, None, None, None] * directions
    values = target(around.reshape(-1, dim)).reshape(radii.size, -1)
    return np.where(np.isnan(values), -np.inf, values).min(axis=1)


def _untraceable(function: Callable[..., PyTree], module: PyTree, dim: int) -> str | None:
    """Return why a gradient cannot be had, found by tracing alone; None if it can."""
    try:
        point = jax.ShapeDtypeStruct((dim,), jnp.float64)
        eqx.filter_eval_shape(_apply, function, module, point)
    except (TypeError, ValueError, NotImplementedError) as error:
        return f"no gradient: {str(error).splitlines()[0]}"
    return None


@eqx.filter_jit
def _apply(function: Callable[..., PyTree], module: PyTree, z: Point) -> PyTree:
    """Compiled code remembers what it has traced: asking twice costs nothing."""
    return function(module, z)


def _gradient_norm(pair: tuple[Folded, Folded], z: Point) -> Scalar:
    target, proposal = pair
    return jnp.linalg.norm(jax.grad(lambda x: target.log_prob(x) - proposal.log_prob(x))(z))


def _slope(target: Folded, z: Point) -> Point:
    slope = jax.grad(target.log_prob)(z)
    return jnp.where(jnp.isfinite(slope), slope, 0.0)


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
    """Return both oscillation terms: osc + 2·M·ε* as published, osc + 4·M·ε* as corrected.

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
    """Return whether the core of a pair of unit Gaussians δ apart stays clear of the mirror.

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
