"""How many independent draws dependent ones are worth, threshold by threshold.

Moving draws of π_F by steps of a kernel that leaves π_F invariant renews most of them, but not the
ones that matter here: beyond a threshold on w = π_F/q_F a draw seldom moves, and where w jumps the
exceedances are exactly the draws that never did. So refreshment earns no credit: draws are worth
what they were worth as they came.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from folt.diagnostics.chains import effective_size

FEWEST = 30
"""Draws on either side of a threshold from which an indicator tells its own effective size."""


def effective_sizes(
    raw: Float[np.ndarray, "chain draw"], log_thresholds: np.ndarray
) -> Float[np.ndarray, " threshold"]:
    """Independent draws at each threshold: the effective size of 1{h > log t}, at most that of h.

    An indicator with too few draws on one side tells too little of itself; it takes the lowest
    size found anywhere, never a larger one of a neighbour.

    Args:
        raw: h at the draws as they came, before any refreshment.
        log_thresholds: log t on the scale of h.
    """
    count = float(raw.size)
    whole = min(count, float(np.nan_to_num(effective_size(raw))))
    own = np.full(np.size(log_thresholds), np.nan)
    for i, threshold in enumerate(np.ravel(log_thresholds)):
        beyond = raw > threshold
        if min(beyond.sum(), count - beyond.sum()) >= FEWEST:
            own[i] = effective_size(beyond.astype(float), "mean")
    lowest = np.nanmin(own, initial=whole)
    return np.asarray(np.minimum(np.where(np.isnan(own), lowest, own), whole))
