"""More draws for a fit, from the proposal it has."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from folt._types import in_float64
from folt.fit import Fit, in_user_parameters, labelled
from folt.kernels import sweeps
from folt.ratio import IDENTITY_ONLY, LogRatio, Target

STREAM = 1_000
"""Number of the random stream of extensions, apart from those of the stages of sampling."""


@in_float64
def extended(fit: Fit, draws: int) -> Fit:
    """Continue every chain for `draws` more steps.

    Raises:
        ValueError: draws < 1, or the fit was loaded without its problem or proposal.
    """
    if draws < 1:
        raise ValueError(f"expected draws ≥ 1, got {draws}")
    if fit.problem is None or fit.proposal is None:
        raise ValueError(
            "to extend a loaded fit, give its problem: folt.load(path, problem=problem)"
        )
    chains, length, dim = fit.draws.shape
    key = jax.random.fold_in(jax.random.key(fit.provenance["seed"]), STREAM)
    key = jax.random.fold_in(key, length)
    propose_key, sweep_key = jax.random.split(key)
    target = Target(fit.problem, dict(fit.evaluations))
    ratio = LogRatio(target, fit.proposal, fit.group, None if fit.whole_orbit else IDENTITY_ONLY)
    points, log_ratios = ratio.draw(propose_key, chains * draws)
    log_ratios = log_ratios.reshape(chains, draws)
    keys = jax.random.split(sweep_key, chains)
    swept = sweeps(keys, fit.log_ratio[:, -1], log_ratios)
    proposals = points.reshape(chains, draws, dim)
    proposals = labelled(proposals, fit.proposal, fit.group, fit.labels)
    # Position 0 holds the last state, so that a source of -1 (never moved) finds it.
    states = np.concatenate([fit.draws[:, -1:], proposals], axis=1)
    more = np.take_along_axis(states, swept.source[..., None] + 1, axis=1)
    new = np.concatenate([fit.draws, more], axis=1)
    return dataclasses.replace(
        fit,
        draws=new,
        log_ratio=np.concatenate([fit.log_ratio, swept.log_ratio], axis=1),
        accepted=np.concatenate([fit.accepted, swept.accepted], axis=1),
        posterior=in_user_parameters(fit.problem, new),
        evaluations=target.evaluations,
    )
