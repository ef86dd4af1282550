"""What a reference run returns, whether its chains agree, and what a user should know of it."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from folt.certificate.diagnostics.chains import effective_size, split_rhat
from folt.groups import Group
from folt.proposals.action import action_of
from folt.types import HostDraws, Upper

if TYPE_CHECKING:
    from folt.certificate.exploration import ExplorationFacts


class Concern(enum.StrEnum):
    """A kind of trouble with a reference run; `sentences.caution` says what it means."""

    NOTHING_MOVED = "nothing moved"
    FROZEN_CHAINS = "frozen chains"
    DISAGREEING_CHAINS = "disagreeing chains"
    FEW_EFFECTIVE = "few effective draws"
    NOT_A_NUMBER = "not a number"
    RUNAWAYS = "runaways"
    FEW_ANCESTORS = "few ancestors"
    SCALES_APART = "scales apart"
    CAPPED = "capped"
    ONE_CHAIN = "one chain"
    COPIED_CHAINS = "copied chains"
    KNOWN_CHAINS = "known chains"
    UNKNOWN_START = "unknown start"


@dataclasses.dataclass(frozen=True)
class Caution:
    """One concern with its numbers.

    Attributes:
        concern: what kind.
        numbers: what its sentence mentions.
    """

    concern: Concern
    numbers: Mapping[str, float]

    def __str__(self) -> str:
        from folt.certificate.sentences import caution

        return caution(self)

    @classmethod
    def of(cls, concern: Concern, **numbers: float) -> Caution:
        """Return a caution from its numbers."""
        return cls(concern, {name: float(value) for name, value in numbers.items()})


RHAT_LIMIT = 1.01
"""Rank-normalised R-hat above which long chains are said not to agree."""

ESS_PER_COORDINATE = 400
"""Effective draws below which means and covariances are too rough to learn from."""

SCALES_APART = 1e6
"""Ratio of the largest to the smallest standard deviation of a coordinate that is worth a warning.

Without a prior the search for a start covers distances from .01 to 1 000, a ratio of 1e5; steps of
one length find scales further apart with luck only."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """Folded draws of π_F to learn from and to certify with.

    Attributes:
        draws: folded draws, float64, by chain.
        rhat: largest rank-normalised R-hat over the coordinates of the folded draws.
        ess: smallest rank-normalised effective sample size over those coordinates.
        exact: whether the draws are independent draws of π_F by construction.
        evaluations: log densities and gradients computed, {"value": n, "gradient": n}.
        cautions: what a user should know of the run.
        raw: a few chains before folding, thinned for a picture.
        log_evidence: the rough estimate of log Z that tempering leaves behind, where it ran.
        log_target: log π_F at the draws, (chain, draw), where the run knows it.
        visited: points around the mass that the run has valued on its way, and log π_F there; none
            of them a draw.
        pieces: consecutive rows of `draws` that are pieces of one chain.
        known: leading rows of `draws` that a start has learnt from, which may not be sealed.
        sealable: whether draws under seal are surely of other chains than those learnt from.
        explored: modes and particles that the run found on its way, a
            `folt.reference.exploration.Explored`.
        exploration: the numbers of that for the certificate.
        exploring: wall seconds of the run that went into it.
    """

    draws: HostDraws
    rhat: float
    ess: float
    exact: bool
    evaluations: dict[str, int]
    cautions: tuple[Caution, ...] = ()
    raw: Float[np.ndarray, "some thinned dim"] | None = None
    log_evidence: float | None = None
    log_target: Float[np.ndarray, "chain draw"] | None = None
    visited: tuple[Float[np.ndarray, "n dim"], Float[np.ndarray, " n"]] | None = None
    pieces: int = 1
    known: int = 0
    sealable: bool = True
    explored: Upper = None
    exploration: ExplorationFacts | None = None
    exploring: float = 0.0


def folded_chains(group: Group, draws: np.ndarray) -> HostDraws:
    """Return every draw of (chain, draw, dim) moved to its representative in D."""
    return action_of(group).fold(np.reshape(draws, (-1, group.dim))).reshape(draws.shape)


def health(draws: HostDraws) -> tuple[float, float, tuple[Caution, ...]]:
    """Return R-hat, effective sample size and cautions of folded draws.

    Both are rank-normalised (ArviZ), the worst over coordinates. Frozen chains are looked for
    first, because a constant chain would be given its full length as effective size.

    Returns:
        (R-hat, ESS, cautions); (inf, 0, ...) if no chain moves.
    """
    frozen = np.all(draws == draws[:, :1], axis=(1, 2))
    if np.all(frozen):
        return math.inf, 0.0, (Caution.of(Concern.NOTHING_MOVED),)
    rhat, ess = _rank_normalised(draws)
    return rhat, ess, _cautions(draws, int(frozen.sum()), rhat, ess)


def _rank_normalised(draws: HostDraws) -> tuple[float, float]:
    """Return the largest R-hat and the smallest bulk ESS over the coordinates."""
    columns = [draws[:, :, i] for i in range(draws.shape[2])]
    rhat = float(np.max([split_rhat(column) for column in columns]))  # a NaN stays seen
    ess = min(effective_size(column) for column in columns)
    if not math.isfinite(rhat) or not math.isfinite(ess):
        return math.inf, 0.0
    return rhat, ess


def rhat_limit(length: int) -> float:
    """Return R-hat above which chains of this length are said not to agree.

    Short chains that agree show more than long ones: where draws are worth a third of their
    number, R-hat is about sqrt(1 + 4/length), and that alone is no disagreement.
    """
    return max(RHAT_LIMIT, math.sqrt(1.0 + 4.0 / length))


def _cautions(draws: HostDraws, frozen: int, rhat: float, ess: float) -> tuple[Caution, ...]:
    chains, length, dim = draws.shape
    enough = ESS_PER_COORDINATE * math.sqrt(dim)
    found = []
    if frozen:
        found.append(Caution.of(Concern.FROZEN_CHAINS, frozen=frozen, chains=chains))
    if rhat > rhat_limit(length):
        limit = rhat_limit(length)
        found.append(Caution.of(Concern.DISAGREEING_CHAINS, rhat=rhat, limit=limit))
    if ess < enough:
        found.append(Caution.of(Concern.FEW_EFFECTIVE, ess=ess, enough=enough, dim=dim))
    spread = draws.std(axis=(0, 1))
    if spread.max() > SCALES_APART * spread.min() > 0.0:
        wide, narrow = int(spread.argmax()), int(spread.argmin())
        ratio = spread[wide] / spread[narrow]
        found.append(Caution.of(Concern.SCALES_APART, ratio=ratio, wide=wide, narrow=narrow))
    return tuple(found)
