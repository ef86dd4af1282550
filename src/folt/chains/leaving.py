"""How soon independence Metropolis-Hastings leaves its states, read off log ratios alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

LEAST = 1e-4
"""Smallest chance to leave that is told apart from none."""


def chances_to_leave(
    fresh: Float[np.ndarray, " n"], states: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """a(z) = E_q min(1, w(z')/w(z)) at every state z, over all proposals z'.

    Args:
        fresh: h at proposals, -inf where the target vanishes.
        states: h at the states; a state with an h of +inf is never left.
    """
    finite = np.sort(fresh[np.isfinite(fresh)])
    if finite.size == 0:
        return np.zeros(states.shape)
    sums = np.concatenate([[0.0], np.cumsum(np.exp(finite - finite[-1]))])
    below = np.searchsorted(finite, states, side="right")
    with np.errstate(over="ignore"):  # far below every proposal nothing is summed
        smaller = sums[below] * np.exp(np.minimum(finite[-1] - states, 700.0))
    return np.clip((smaller + finite.size - below) / fresh.size, 0.0, 1.0)


TRIMMED = 0.01
"""Share of the states left least often that say nothing about the others."""


def autocorrelation_time(chances: Float[np.ndarray, " m"], steps: int = 1) -> float:
    """E_π of (1 + r)/(1 - r), r = (1 - a)^steps: (2 - a)/a where every step is recorded."""
    stay = (1.0 - np.maximum(chances, LEAST)) ** steps
    return float(np.mean((1.0 + stay) / (1.0 - stay)))


def steps_worth_taking(chances: Float[np.ndarray, " m"], time: float, most: int) -> int:
    """The fewest steps per recorded draw that bring the autocorrelation time down to `time`.

    The states that are left least often are set aside: a few of them would ask for many steps, and
    would stay where they are all the same.
    """
    chances = np.sort(chances)[int(TRIMMED * chances.size) :]
    for steps in range(1, most):
        if autocorrelation_time(chances, steps) <= time:
            return steps
    return most
