"""The ladder of adaptive tempering: the next temperature, and which particles go on from there.

Particles follow π_λ ∝ start^(1-λ)·π^λ from λ = 0 to 1. Every increment of λ is chosen so that the
weights keep a given share of effective particles. Separate modes keep particles in proportion to
their mass, which no local chain could arrange.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float, Int

LONGEST_LADDER = 500
"""Temperatures after which tempering gives up."""


def next_temperature(
    temperature: float, log_ratio: Float[np.ndarray, " n"], share: float
) -> tuple[float, Float[np.ndarray, " n"]]:
    """The largest λ that keeps the effective share of particles, and the log weights up to it.

    The effective number is (Σ w)²/Σ w² with w = exp((λ' - λ)·log(π/start)). The share counts
    particles inside the support only: those outside die at any λ > 0 and would otherwise hold
    the ladder at its first rung. Solved on the host, where it costs no compilation.
    """
    alive = log_ratio > -np.inf
    ratio = np.where(alive, log_ratio, 0.0)
    wanted = math.log(share * alive.sum())

    def log_weights(increment: float) -> np.ndarray:
        return np.where(alive, increment * ratio, -np.inf)

    def excess(increment: float) -> float:
        logs = log_weights(increment)
        logsumexp = scipy.special.logsumexp
        return float(2 * logsumexp(logs) - logsumexp(2 * logs)) - wanted

    rest = 1.0 - temperature
    if excess(rest) >= 0:
        return 1.0, log_weights(rest)
    # Increments span many magnitudes when the start is broad, so the root is found in the log.
    low = -60.0
    log_increment = scipy.optimize.brentq(lambda t: excess(rest * math.exp(t)), low, 0.0, xtol=1e-6)
    increment = rest * math.exp(log_increment)
    return temperature + increment, log_weights(increment)


def systematic_resample(
    uniform: float, log_weights: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """Indices of as many particles, each within one copy of its expected number."""
    count = log_weights.size
    cumulative = np.cumsum(scipy.special.softmax(log_weights))
    positions = (uniform + np.arange(count)) / count
    return np.minimum(np.searchsorted(cumulative, positions * cumulative[-1]), count - 1)
