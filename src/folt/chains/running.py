"""Chains on the fundamental domain, begun or continued from the log ratio of their proposals."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from folt.chains.independence import sweeps
from folt.problem.ratio import LogRatio
from folt.types import Key, host_generator

DOUBLINGS = 10
"""How often the proposals are doubled for chains that have not met the support yet: a chain of a
few steps on a small support would otherwise have nowhere to start."""


class Proposals(NamedTuple):
    """All that was proposed to chains, accepted or not, with h; -inf outside the support."""

    points: Float[np.ndarray, "chain step dim"]
    log_ratio: Float[np.ndarray, "chain step"]

    def joined(self, others: Proposals) -> Proposals:
        """These, followed by others of the same chains."""
        both = zip(self, others, strict=True)
        return Proposals(*(np.concatenate(parts, axis=1) for parts in both))


class Chains(NamedTuple):
    """Chains as NumPy arrays: points, h at them, and whether the step into each of them moved.

    Where several steps lie between recorded draws, `accepted` is that of the last of them.
    """

    draws: Float[np.ndarray, "chain draw dim"]
    log_ratio: Float[np.ndarray, "chain draw"]
    accepted: Bool[np.ndarray, "chain draw"]
    proposals: Proposals | None = None


def run_chains(
    key: Key, ratio: LogRatio, chains: int, draws: int, burn_in: int, steps_per_draw: int = 1
) -> Chains:
    """New chains: all proposals and their h in one batch, then scalars only.

    Every chain starts at its first proposal inside the support. Proposals before that one are no
    steps: where proposals die or miss the support, more are drawn, so that the burn-in is counted
    from the start.

    Args:
        key: proposals and uniforms come from it.
        ratio: h of target and proposal.
        chains: how many.
        draws: recorded draws per chain.
        burn_in: steps thrown away first.
        steps_per_draw: steps from one recorded draw to the next.

    Raises:
        ValueError: no proposal of some chain hit the support.
    """
    propose_key, sweep_key = (jax.random.fold_in(key, number) for number in range(2))
    steps = draws * steps_per_draw + burn_in
    points, log_ratios = _proposals(propose_key, ratio, chains, steps + 1)
    for number in range(DOUBLINGS):
        if np.isfinite(log_ratios).any(axis=1).all():
            break
        new_key = jax.random.fold_in(propose_key, 2 + number)
        more = _proposals(new_key, ratio, chains, log_ratios.shape[1])
        points = np.concatenate([points, more[0]], axis=1)
        log_ratios = np.concatenate([log_ratios, more[1]], axis=1)
    first = np.argmax(np.isfinite(log_ratios), axis=1)[:, None]
    start_ratio = np.take_along_axis(log_ratios, first, axis=1)[:, 0]
    if not np.isfinite(start_ratio).all():
        raise ValueError("no proposal hit the support of the target: a chain has nowhere to start")
    if first.any():
        more = _proposals(jax.random.fold_in(propose_key, 1), ratio, chains, int(first.max()))
        points = np.concatenate([points, more[0]], axis=1)
        log_ratios = np.concatenate([log_ratios, more[1]], axis=1)
    window = first + 1 + np.arange(steps)
    proposed = np.take_along_axis(log_ratios, window, axis=1)
    swept = sweeps(_chances(sweep_key, chains, steps), start_ratio, proposed)
    kept = slice(burn_in + steps_per_draw - 1, None, steps_per_draw)
    source = (first + 1 + swept.source)[:, kept]  # a source of -1 is the start
    return Chains(
        np.take_along_axis(points, source[..., None], axis=1),
        swept.log_ratio[:, kept],
        swept.accepted[:, kept],
        Proposals(points, log_ratios),
    )


def _proposals(key: Key, ratio: LogRatio, chains: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """So many proposals for every chain, with their h."""
    points, log_ratios = ratio.draw(key, chains * count)
    return points.reshape(chains, count, -1), log_ratios.reshape(chains, count)


def continue_chains(
    key: Key, ratio: LogRatio, chains: Chains, draws: int, steps_per_draw: int = 1
) -> Chains:
    """The next `draws` draws of chains that end where `chains` end."""
    count = len(chains.draws)
    propose_key, sweep_key = (jax.random.fold_in(key, number) for number in range(2))
    steps = draws * steps_per_draw
    points, log_ratios = _proposals(propose_key, ratio, count, steps)
    swept = sweeps(_chances(sweep_key, count, steps), chains.log_ratio[:, -1], log_ratios)
    # Position 0 holds the last state, so that a source of -1 (never moved) finds it.
    states = np.concatenate([chains.draws[:, -1:], points], axis=1)
    kept = slice(steps_per_draw - 1, None, steps_per_draw)
    return Chains(
        np.take_along_axis(states, swept.source[:, kept, None] + 1, axis=1),
        swept.log_ratio[:, kept],
        swept.accepted[:, kept],
        Proposals(points, log_ratios),
    )


def _chances(key: Key, chains: int, steps: int) -> Float[np.ndarray, "chain step"]:
    """Logarithms of uniforms; those of a uniform that is exactly zero accept anything."""
    with np.errstate(divide="ignore"):
        return np.log(host_generator(key).uniform(size=(chains, steps)))
