"""Chains on the fundamental domain, begun or continued from the log ratio of their proposals."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from folt._types import Key
from folt.kernels import sweeps
from folt.ratio import LogRatio


class Chains(NamedTuple):
    """Chains as NumPy arrays: points, h at them, and which steps moved."""

    draws: Float[np.ndarray, "chain draw dim"]
    log_ratio: Float[np.ndarray, "chain draw"]
    accepted: Bool[np.ndarray, "chain draw"]


def run_chains(key: Key, ratio: LogRatio, chains: int, draws: int, burn_in: int) -> Chains:
    """New chains: all proposals and their h in one batch, then scalars only.

    Every chain starts at its first proposal inside the support.

    Raises:
        ValueError: no proposal of some chain hit the support.
    """
    propose_key, sweep_key = jax.random.split(key)
    steps = draws + burn_in
    points, log_ratios = ratio.draw(propose_key, chains * (steps + 1))
    points = points.reshape(chains, steps + 1, -1)
    log_ratios = log_ratios.reshape(chains, steps + 1)
    first = np.argmax(np.isfinite(log_ratios), axis=1)[:, None]
    start_ratio = np.take_along_axis(log_ratios, first, axis=1)[:, 0]
    if not np.isfinite(start_ratio).all():
        raise ValueError("no proposal hit the support of the target: a chain has nowhere to start")
    swept = sweeps(jax.random.split(sweep_key, chains), start_ratio, log_ratios[:, 1:])
    source = np.where(swept.source < 0, first, swept.source + 1)[:, burn_in:]
    return Chains(
        np.take_along_axis(points, source[..., None], axis=1),
        swept.log_ratio[:, burn_in:],
        swept.accepted[:, burn_in:],
    )


def continue_chains(key: Key, ratio: LogRatio, chains: Chains, draws: int) -> Chains:
    """The next `draws` steps of chains that end where `chains` end."""
    count, _, dim = chains.draws.shape
    propose_key, sweep_key = jax.random.split(key)
    points, log_ratios = ratio.draw(propose_key, count * draws)
    keys = jax.random.split(sweep_key, count)
    swept = sweeps(keys, chains.log_ratio[:, -1], log_ratios.reshape(count, draws))
    # Position 0 holds the last state, so that a source of -1 (never moved) finds it.
    states = np.concatenate([chains.draws[:, -1:], points.reshape(count, draws, dim)], axis=1)
    return Chains(
        np.take_along_axis(states, swept.source[..., None] + 1, axis=1),
        swept.log_ratio,
        swept.accepted,
    )
