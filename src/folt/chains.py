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

    Every chain starts at its first proposal inside the support. Proposals before that one are no
    steps: where proposals die or miss the support, more are drawn, so that the burn-in is counted
    from the start.

    Raises:
        ValueError: no proposal of some chain hit the support.
    """
    propose_key, sweep_key = jax.random.split(key)
    steps = draws + burn_in
    points, log_ratios = _proposals(propose_key, ratio, chains, steps + 1)
    first = np.argmax(np.isfinite(log_ratios), axis=1)[:, None]
    start_ratio = np.take_along_axis(log_ratios, first, axis=1)[:, 0]
    if not np.isfinite(start_ratio).all():
        raise ValueError("no proposal hit the support of the target: a chain has nowhere to start")
    if first.any():
        more = _proposals(jax.random.fold_in(propose_key, 1), ratio, chains, int(first.max()))
        points = np.concatenate([points, more[0]], axis=1)
        log_ratios = np.concatenate([log_ratios, more[1]], axis=1)
    window = first + 1 + np.arange(steps)
    keys = jax.random.split(sweep_key, chains)
    swept = sweeps(keys, start_ratio, np.take_along_axis(log_ratios, window, axis=1))
    source = (first + 1 + swept.source)[:, burn_in:]  # a source of -1 is the start
    return Chains(
        np.take_along_axis(points, source[..., None], axis=1),
        swept.log_ratio[:, burn_in:],
        swept.accepted[:, burn_in:],
    )


def _proposals(key: Key, ratio: LogRatio, chains: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """So many proposals for every chain, with their h."""
    points, log_ratios = ratio.draw(key, chains * count)
    return points.reshape(chains, count, -1), log_ratios.reshape(chains, count)


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
