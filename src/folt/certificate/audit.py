"""The audit of a finished proposal: what it under-reaches around the modes that are known.

A mode that descents found and training lost shows neither in the chain nor, if the reference lost
it too, in held-out draws. Draws around every mode see it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from folt.problem.orbits import Components, ListedSum, action_of
from folt.problem.orbits.components import log_sum_exp
from folt.problem.ratio import LogRatio
from folt.reference.exploration.masses import summable
from folt.types import Key, host_generator

DRAWS_PER_MODE = 64

UNDER_REACHED = 10.0
"""Ratio of target and proposal, the mean being one, above which a place is under-reached."""

MOST_WEIGHT = 50.0
"""Logarithm at which weights are held: what is far above one is lost anyway."""


def audit(key: Key, ratio: LogRatio, fresh: np.ndarray, modes: Components) -> tuple[float, float]:
    """Mass around the modes where the target outweighs the proposal tenfold, and its error.

    Args:
        key: of the draws around the modes.
        ratio: the finished log ratio.
        fresh: h at fresh proposals, which gives log Z.
        modes: components at the modes.
    """
    finite = fresh[np.isfinite(fresh)]
    if finite.size == 0:
        return math.inf, 0.0
    log_evidence = float(logsumexp(finite)) - math.log(fresh.size)
    action, evenly = action_of(ratio.group), np.full(modes.count, -math.log(modes.count))
    components = Components(evenly, modes.means, modes.factors, modes.degrees)
    points = components.sample(host_generator(key), DRAWS_PER_MODE * modes.count)
    log_target = ratio.target(points)
    if summable(action, modes.count):
        log_own = ListedSum((components,), action).log_sum(points)
    else:  # the images are far apart, or labels are a matter of chance
        log_own = log_sum_exp(components.log_terms(points))
    log_weights = np.minimum(log_target - log_own - log_evidence, MOST_WEIGHT)
    excess = ratio.at(points, log_target) - log_evidence
    lost = np.where(excess > math.log(UNDER_REACHED), np.exp(log_weights), 0.0)
    return float(lost.mean()), float(lost.std() / math.sqrt(lost.size))
