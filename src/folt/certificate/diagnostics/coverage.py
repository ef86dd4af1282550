"""Comparisons of proposal, chain and reference draws, and counts of faulty log ratios.

`coverage` asks whether the proposal covers what the reference draws see, `agreement` whether chain
and held-out draws have the same moments and tails. `Faults` separates rejections from real faults.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logsumexp, ndtr

from folt.certificate.diagnostics.chains import effective_size

DAMPING = 0.1
"""c of the functions 1/(1 + c·w) that are compared.

Small enough for draws with ordinary weights to count alike, which keeps the noise of the coverage
below that of the evidence; large enough for weights of some ten and more, which few proposals
reach, to be seen."""

_SLACK = 0.01
"""Departure of the coverage from one that is held against nobody."""

_ERRORS = 4.0
"""Standard errors by which the coverage must depart from one as well."""


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The share of the reference that the proposal covers.

    Attributes:
        value: near one unless the proposal misses mass that the reference has.
        standard_error: of `value`, that of Ẑ included.
        raw: Ẑ·mean(1/w̃) over all held-out draws, the plain form of the check. It falls short of
            one by the proposal's own mass in places that a finite reference never visits, such as
            the λ of a tail safety, and its variance may be infinite.
    """

    value: float
    standard_error: float
    raw: float

    def departs(self) -> bool:
        """Return whether the value is further from one than slack and errors allow."""
        return not abs(self.value - 1.0) <= max(_SLACK, _ERRORS * self.standard_error)


def coverage(held_out: np.ndarray, fresh: np.ndarray, *, exact: bool = False) -> Coverage:
    """Compare the two expressions of E_q[w/(1 + c·w)], c = .1: equal if nothing is missed.

    For every function f, E_π[f] = E_q[w·f], with w = w̃/Z. For f = 1/(1 + c·w) the summands on
    either side are bounded, by 1 and by 1/c, so that standard errors exist. A mode of mass β that
    the proposal misses adds nothing on the left, where w is large, while Ẑ falls short by the same
    β: the value is 1-β.

    The value is E_π[f]/E_q[w·f] with Ẑ in place of Z, which makes it proportional to Ẑ in first
    order. So its relative error is that of the mean over fresh draws of w - w·f/E_q[w·f], and of
    the mean of f over held-out draws.

    Args:
        held_out: h at draws of the target, (chain, draw).
        fresh: h at draws of the proposal.
        exact: whether the held-out draws are independent by construction.
    """
    fresh, held_out = np.asarray(fresh, float).ravel(), np.asarray(held_out, float)
    usable = fresh[np.isfinite(fresh)]
    log_z = float(logsumexp(usable) - math.log(fresh.size)) if usable.size else -math.inf
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        raw = float(np.mean(np.exp(log_z - held_out)))
    if not usable.size or not np.isfinite(held_out).all():
        return Coverage(math.nan, math.inf, raw)
    log_damping = math.log(DAMPING)
    reached = expit(-(log_damping + held_out - log_z))
    weights = np.where(np.isfinite(fresh), np.exp(fresh - log_z), 0.0)
    damped = np.where(np.isfinite(fresh), expit(log_damping + fresh - log_z) / DAMPING, 0.0)
    value = float(reached.mean() / damped.mean())
    if value == 0.0:
        return Coverage(0.0, 0.0, raw)
    relative = (weights - damped / damped.mean()).var() / fresh.size
    size = float(reached.size) if exact else max(_effective(reached), 1.0)
    relative += reached.var() / reached.mean() ** 2 / size
    return Coverage(value, value * math.sqrt(relative), raw)


OUTER = 0.005
"""Share of the reference beyond each of its outer quantiles."""


class Compared(enum.StrEnum):
    """What of a coordinate is compared."""

    MEAN = "mean"
    SPREAD = "second moment"
    TAILS = "share beyond the outer quantiles"


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Whether chain and held-out reference draws agree.

    Attributes:
        p_value: smallest over coordinates and quantities, times their number (Bonferroni).
        coordinate: where the difference is largest.
        score: that difference in standard errors.
        compared: which quantity differs most there.
    """

    p_value: float
    coordinate: int
    score: float
    compared: Compared = Compared.MEAN

    @property
    def size(self) -> float:
        """The difference in standard errors, whatever its sign."""
        return abs(self.score)


def agreement(
    chain: Float[np.ndarray, "chain draw dim"],
    held_out: Float[np.ndarray, "group length dim"],
    *,
    exact: bool,
) -> Agreement:
    """Compare mean, second moment and tails of every coordinate by two-sample z-tests.

    The second moment is taken about the mean of the reference, of values moved inwards to its
    outer quantiles; the tails begin at these, where the reference has half a percent on either
    side. Modes that the chain seldom visits show there although the means may agree. Effective
    sample sizes are those of the quantity compared.

    Args:
        chain: draws of the sampler.
        held_out: draws of the reference.
        exact: whether the held-out draws are independent by construction.
    """
    scores = np.array(
        [
            [
                _score(quantity(chain[..., j], reference), quantity(reference, reference), exact)
                for quantity in (_mean, _spread, _tails)
            ]
            for j, reference in enumerate(np.moveaxis(held_out, -1, 0))
        ]
    )
    where = np.unravel_index(int(np.argmax(np.abs(scores))), scores.shape)
    worst = float(scores[where])
    p_value = float(min(2.0 * ndtr(-abs(worst)) * scores.size, 1.0))
    return Agreement(p_value, int(where[0]), worst, tuple(Compared)[where[1]])


def _mean(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    return values


def _spread(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Squares within the outer quantiles: a target without a fourth moment has an error too."""
    inner = np.clip(values, *np.quantile(reference, [OUTER, 1.0 - OUTER]))
    return np.square(inner - reference.mean())


def _tails(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    low, high = np.quantile(reference, [OUTER, 1.0 - OUTER])
    return ((values < low) | (values > high)).astype(float)


def _score(chain: np.ndarray, held_out: np.ndarray, exact: bool) -> float:
    ours = _effective(chain)
    theirs = float(held_out.size) if exact else _effective(held_out)
    spread = chain.var() / ours + held_out.var() / theirs if ours and theirs else 0.0
    if spread == 0.0:
        return 0.0 if chain.mean() == held_out.mean() else math.inf
    return float((chain.mean() - held_out.mean()) / math.sqrt(spread))


def _effective(values: np.ndarray) -> float:
    """Return the effective size of the mean, at most all draws; all where they do not vary."""
    if np.ptp(values) == 0.0:
        return float(values.size)
    return min(effective_size(values, "mean"), float(values.size))


@dataclasses.dataclass(frozen=True)
class Faults:
    """Log ratios that are not finite among proposals: rejections and real faults.

    Attributes:
        outside_support: proposals where the target vanishes.
        not_a_number: proposals with NaN.
        infinite: proposals with +inf.
        died: proposals with a labelling that a truncated orbit leaves out: rejections too.
        proposals: how many were looked at; zero where that is not known.
        largest_nearby: the largest weight, the mean being one, that the surroundings of proposals
            with NaN suggest; None where none were looked at.
        point: one of them, the user's parameters by name.
        at_draws: held-out draws with NaN or +inf, which no surroundings excuse.
    """

    RARE: ClassVar[float] = 1e-3
    """Share of proposals up to which NaN may count as the density being zero."""

    NEGLIGIBLE: ClassVar[float] = 1e-3
    """Weight, the mean being one, up to which it may."""

    SHOWN: ClassVar[int] = 6
    """Parameters of the point that a sentence lists."""

    outside_support: int
    not_a_number: int
    infinite: int
    died: int = 0
    proposals: int = 0
    largest_nearby: float | None = None
    point: tuple[tuple[str, float], ...] = ()
    at_draws: int = 0

    @property
    def share(self) -> float:
        """Share of the proposals with NaN."""
        return self.not_a_number / self.proposals if self.proposals else math.inf

    @property
    def harmless(self) -> bool:
        """Whether NaN counts as the density being zero: rare, and only where no mass can be."""
        nearby = math.inf if self.largest_nearby is None else self.largest_nearby
        rare = self.share <= self.RARE
        return self.not_a_number == 0 or (rare and nearby <= self.NEGLIGIBLE)

    @property
    def real(self) -> int:
        """Values that are no rejection: +inf, and NaN where it may hide mass."""
        return self.infinite + self.at_draws + (0 if self.harmless else self.not_a_number)

    @property
    def where(self) -> str:
        """The point in words, the first few parameters."""
        if not self.point:
            return "a point that was not kept"
        named = [f"{name} = {value:.4g}" for name, value in self.point[: self.SHOWN]]
        return ", ".join(named) + (", …" if len(self.point) > self.SHOWN else "")

    @classmethod
    def count(cls, log_ratios: np.ndarray, died: int = 0) -> Faults:
        """Count -inf (outside the support, but for those that died), NaN and +inf."""
        return cls(
            int(np.isneginf(log_ratios).sum()) - died,
            int(np.isnan(log_ratios).sum()),
            int(np.isposinf(log_ratios).sum()),
            died,
            int(np.size(log_ratios)),
        )
