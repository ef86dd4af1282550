"""Do the chain and the held-out reference draws have the same moments and the same tails?"""

from __future__ import annotations

import dataclasses
import enum
import math

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from folt.diagnostics.chains import effective_size

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "compared", Compared(self.compared))

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
    """Two-sample z-tests of mean, second moment and tails of every coordinate.

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
    ours = _size(chain)
    theirs = float(held_out.size) if exact else _size(held_out)
    spread = chain.var() / ours + held_out.var() / theirs if ours and theirs else 0.0
    if spread == 0.0:
        return 0.0 if chain.mean() == held_out.mean() else math.inf
    return float((chain.mean() - held_out.mean()) / math.sqrt(spread))


def _size(values: np.ndarray) -> float:
    """Effective size of the mean; all draws where they do not vary and so tell nothing."""
    if np.ptp(values) == 0.0:
        return float(values.size)
    return min(effective_size(values, "mean"), float(values.size))
