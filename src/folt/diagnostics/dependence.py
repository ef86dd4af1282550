"""How many independent draws dependent ones are worth, before and after they were refreshed.

Moving draws of π_F by k steps of a kernel that leaves π_F invariant renews most of them. Those
where w = π_F/q_F is large seldom move: at the threshold t the kernel accepts with probability a(t)
at least below it and less above. The share u = (1 - a(t))ᵏ that has not moved is as dependent as
before, so that n draws which were worth n_raw are afterwards worth

    n_eff(t) = n / (1 + u·(n/n_raw - 1)).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from folt.diagnostics.chains import effective_size

FEWEST = 30
"""Draws on either side of a threshold from which an indicator tells its own effective size."""


@dataclasses.dataclass(frozen=True)
class Dependence:
    """What held-out draws were before refreshment.

    Attributes:
        raw: h before, (chain, draw).
        steps: k, steps of the certified kernel by which each was moved; zero if they were not.
    """

    raw: Float[np.ndarray, "chain draw"]
    steps: int = 0

    def raw_sizes(self, log_thresholds: np.ndarray) -> np.ndarray:
        """n_raw at each threshold: the effective size of 1{h > log t}, and at most that of h.

        An indicator with too few draws on one side tells too little of itself; it takes the lowest
        size found anywhere, never a larger one of a neighbour.
        """
        count = float(self.raw.size)
        whole = min(count, float(np.nan_to_num(effective_size(self.raw))))
        own = np.full(np.size(log_thresholds), np.nan)
        for i, threshold in enumerate(np.ravel(log_thresholds)):
            beyond = self.raw > threshold
            if min(beyond.sum(), count - beyond.sum()) >= FEWEST:
                own[i] = effective_size(beyond.astype(float), "mean")
        lowest = np.nanmin(own, initial=whole)
        return np.asarray(np.minimum(np.where(np.isnan(own), lowest, own), whole))

    def sizes(self, log_thresholds: np.ndarray, accept_lower: np.ndarray) -> np.ndarray:
        """n_eff at each threshold.

        Args:
            log_thresholds: log t on the scale of h.
            accept_lower: lower bounds on a(t), so that u is an upper one.
        """
        stay = (1.0 - np.asarray(accept_lower, float)) ** self.steps
        return renewed_size(self.raw.size, self.raw_sizes(log_thresholds), stay)


def renewed_size(count: float, raw: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """n·n_raw/(n_raw + u·(n - n_raw)): n_raw if all stayed (u = 1), n if all moved (u = 0)."""
    raw = np.minimum(np.asarray(raw, float), count)
    denominator = raw + np.asarray(stay, float) * (count - raw)
    return np.where(denominator > 0.0, count * raw / np.where(denominator > 0, denominator, 1), 0.0)
