"""What a reference run returns, its health, and its division among training and certificate."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt._types import Point
from folt.batching import map_points
from folt.diagnostics.chains import effective_size, split_rhat
from folt.groups import Group
from folt.held_out import HeldOut

RHAT_LIMIT = 1.01
"""Rank-normalised R-hat above which chains are said not to agree."""

ESS_PER_COORDINATE = 400
"""Effective draws below which means and covariances are too rough to learn from."""

Draws = Float[np.ndarray, "chain draw dim"]


@dataclasses.dataclass(frozen=True)
class Reference:
    """Folded draws of π_F to learn from and to certify with.

    Attributes:
        draws: folded draws, float64, by chain.
        rhat: largest rank-normalised R-hat over the coordinates of the folded draws.
        ess: smallest rank-normalised effective sample size over those coordinates.
        exact: whether the draws are independent draws of π_F by construction.
        evaluations: log densities and gradients computed, {"value": n, "gradient": n}.
        warnings: one sentence of advice for everything that looks wrong.
        raw: a few chains before folding, thinned for a picture.
        log_evidence: the rough estimate of log Z that tempering leaves behind, where it ran.
    """

    draws: Draws
    rhat: float
    ess: float
    exact: bool
    evaluations: dict[str, int]
    warnings: tuple[str, ...] = ()
    raw: Draws | None = None
    log_evidence: float | None = None


class Split(NamedTuple):
    """Disjoint sets of chains: two to learn from, each (chain, draw, dim), and one under seal."""

    train: Draws
    select: Draws
    certify: HeldOut


def folded(group: Group, draws: np.ndarray) -> Draws:
    """Every draw of (chain, draw, dim) moved to its representative in D."""
    flat = map_points(_fold, group, np.reshape(draws, (-1, group.dim)))
    return np.asarray(flat, np.float64).reshape(draws.shape)


def _fold(group: Group, point: Point) -> Point:
    return group.fold(point)


def health(draws: Draws) -> tuple[float, float, tuple[str, ...]]:
    """R-hat, effective sample size and advice for folded draws.

    Both are rank-normalised (ArviZ), the worst over coordinates. Frozen chains are looked for
    first, because a constant chain would be given its full length as effective size.

    Returns:
        (R-hat, ESS, warnings); (inf, 0, ...) if no chain moves.
    """
    frozen = np.all(draws == draws[:, :1], axis=(1, 2))
    if np.all(frozen):
        return math.inf, 0.0, ("No chain moved at all: check the scale of the log density.",)
    rhat, ess = _rank_normalised(draws)
    return rhat, ess, _advice(draws, int(frozen.sum()), rhat, ess)


def _rank_normalised(draws: Draws) -> tuple[float, float]:
    """Largest R-hat and smallest bulk ESS over the coordinates."""
    columns = [draws[:, :, i] for i in range(draws.shape[2])]
    rhat = float(np.max([split_rhat(column) for column in columns]))  # a NaN stays seen
    ess = min(effective_size(column) for column in columns)
    if not math.isfinite(rhat) or not math.isfinite(ess):
        return math.inf, 0.0
    return rhat, ess


def _advice(draws: Draws, frozen: int, rhat: float, ess: float) -> tuple[str, ...]:
    chains, _, dim = draws.shape
    enough = ESS_PER_COORDINATE * math.sqrt(dim)
    sentences = []
    if frozen:
        sentences.append(
            f"{frozen} of {chains} chains never moved: their weight in the reference is that of "
            "their starting points, so run more particles or longer chains."
        )
    if rhat > RHAT_LIMIT:
        sentences.append(
            f"R-hat is {rhat:.3f}, above {RHAT_LIMIT}: the chains do not agree, which hints at "
            "separate modes that are not images of each other, so run more particles and draws."
        )
    if ess < enough:
        sentences.append(
            f"The effective sample size is {ess:.0f}, below {enough:.0f} for dimension {dim}: "
            "run longer chains before trusting what is learned from these draws."
        )
    return tuple(sentences)


def split_by_chain(
    reference: Reference, training: int = 5_000, certification: int = 20_000
) -> Split:
    """Divide the chains among training, selection and certificate; no chain is in two parts.

    Draws of one chain resemble each other, so a division by random index would let the
    certificate see what training saw. The part for the certificate is sealed (`HeldOut`). Where
    there are fewer draws than asked for, the two demands shrink in proportion. Selection gets a
    fifth of the chains not used to certify.

    Args:
        reference: at least three chains.
        training: draws for training and selection together.
        certification: draws for the certificate.
    """
    if training < 1 or certification < 1:
        raise ValueError(f"expected positive numbers of draws, got {training} and {certification}")
    chains, length, _ = reference.draws.shape
    if chains < 3:
        raise ValueError(f"expected at least 3 chains to split into three parts, got {chains}")
    learn, certify = _chains_per_part(chains, length, training, certification)
    select = min(max(1, round(learn / 5)), learn - 1)
    draws = reference.draws
    return Split(
        train=draws[: learn - select],
        select=draws[learn - select : learn],
        certify=HeldOut(draws[learn : learn + certify], reference.exact),
    )


def _chains_per_part(
    chains: int, length: int, training: int, certification: int
) -> tuple[int, int]:
    """Chains to learn from (at least two) and chains to certify with (at least one)."""
    learn = max(2, math.ceil(training / length))
    certify = max(1, math.ceil(certification / length))
    if learn + certify <= chains:
        return learn, certify
    learn = min(max(2, round(chains * training / (training + certification))), chains - 1)
    return learn, chains - learn
