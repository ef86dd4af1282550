"""Held-out draws moved by the chain's own kernel, so that a slow reference does not blur them."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np

from folt.certificate.held_out import Judged
from folt.chains.independence import accepted
from folt.problem.ratio import LogRatio
from folt.types import Key, host_generator

LEAST, MOST = 2, 12
"""Fewest and most steps of a refreshment."""

IMAGES = 1440
"""Most images of one draw that are summed over in a refreshment: many images, fewer steps."""

REMAINDER = 0.003
"""Share of draws that may stay where they were, at the acceptance that the chains had."""


def refreshed(key: Key, judged: Judged, ratio: LogRatio, steps: int) -> Judged:
    """Every held-out draw after some steps of independence Metropolis-Hastings of its own.

    The kernel leaves π_F invariant whatever the proposal is, so draws of π_F stay draws of π_F; a
    reference that is close to π_F but slow (dependent draws, modes weighted by where chains
    started) comes closer to it, and nothing can move it away. What the proposal misses is not
    repaired: where w is large no proposal is accepted, the draws stay, and every check still sees
    them. They also stay as dependent as they were, so that draws are counted as they came, without
    credit for having been moved (`folt.diagnostics.dependence`).

    Args:
        key: fresh proposals and uniforms come from it.
        judged: held-out draws with their h.
        ratio: the log ratio that judged them.
        steps: steps per draw.
    """
    shape = judged.points.shape
    points = judged.points.reshape(-1, shape[-1])
    values, drawn = judged.log_ratio.ravel(), [judged.proposed]
    undefined = [] if judged.undefined is None else [judged.undefined]
    for number in range(steps):
        propose_key = jax.random.fold_in(key, 2 * number)
        proposals, proposed = ratio.draw(propose_key, values.size)
        drawn.append(proposed)
        undefined.append(proposals[np.isnan(proposed)])
        generator = host_generator(jax.random.fold_in(key, 2 * number + 1))
        moved = accepted(generator, values, proposed)
        points = np.where(moved[:, None], proposals, points)
        values = np.where(moved, proposed, values)
    return dataclasses.replace(
        judged,
        points=points.reshape(shape),
        log_ratio=values.reshape(shape[:2]),
        steps=judged.steps + steps,
        proposed=np.concatenate(drawn),
        undefined=np.concatenate(undefined),
        before=(judged.points, judged.log_ratio) if judged.before is None else judged.before,
    )


def steps_for(accept_rate: float, order: int = 1) -> int:
    """Steps after which all but `REMAINDER` of the draws have moved, within reason."""
    most = max(LEAST, min(MOST, IMAGES // order))
    if accept_rate <= 0.0 or accept_rate >= 1.0:
        return most if accept_rate <= 0.0 else LEAST
    needed = math.ceil(math.log(REMAINDER) / math.log1p(-accept_rate))
    return min(max(needed, LEAST), most)
