"""What a user should know of a reference run: a kind and its numbers; the sentence is made last.

What a reference run returns, and its health.
"""

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
from folt.store.strict_json import Document
from folt.types import HostDraws

if TYPE_CHECKING:
    from folt.certificate.exploration import ExplorationFacts
    from folt.reference.exploration import Explored


class Concern(enum.StrEnum):
    """A kind of trouble; `sentence` is a template for its numbers."""

    NOTHING_MOVED = (
        "nothing moved",
        "No chain of the reference moved at all: check the scale of the log density.",
    )
    FROZEN_CHAINS = (
        "frozen chains",
        "{frozen:.0f} of {chains:.0f} reference chains never moved: their weight is that of their "
        "starting points, so run more particles or longer chains.",
    )
    DISAGREEING_CHAINS = (
        "disagreeing chains",
        "R-hat of the reference is {rhat}, above {limit}: its chains do not quite agree, "
        "because they are slow or because there are separate modes that are not images of each "
        "other.",
    )
    FEW_EFFECTIVE = (
        "few effective draws",
        "The reference is worth {ess} effective draws, below {enough} for dimension "
        "{dim:.0f}: run longer chains before trusting what is learned from them.",
    )
    NOT_A_NUMBER = (
        "not a number",
        "The log density was NaN or +inf at {faults:.0f} of {evaluations:.0f} points, which "
        "were taken as outside the support: harmless far away, and the neighbourhood of the draws "
        "was tried.",
    )

    RUNAWAYS = (
        "runaways",
        "{runaways:.0f} of {descents:.0f} descents left the start behind and still gained, "
        "farthest along coordinate {coordinate:.0f} (counted from zero): the density may be "
        "improper, so give that parameter a proper prior.",
    )
    FEW_ANCESTORS = (
        "few ancestors",
        "Of {particles:.0f} tempered particles {ancestors:.0f} have descendants at the end of the "
        "ladder, below {fewest:.0f}: tempering alone would miss small modes here.",
    )
    SCALES_APART = (
        "scales apart",
        "The standard deviation of coordinate {wide:.0f} is {ratio:.0e} times that of coordinate "
        "{narrow:.0f} (counted from 0), beyond what searches and steps are made for: divide every "
        "parameter by its usual size (standardise the data, or give a prior=).",
    )
    CAPPED = (
        "capped",
        "The cap of {evaluations:.0f} evaluations left {particles:.0f} particles instead of "
        "{usual:.0f}, which may miss a mode of weight below {weight:.2g}, and blurs log Z "
        "{blur:.1f}-fold: a larger evaluations= buys both back.",
    )

    ONE_CHAIN = (
        "one chain",
        "The reference is one chain, or draws without a chain axis: its end judges a proposal that "
        "its beginning made, and what the whole chain missed shows in neither. Bring several "
        "chains, or say how many stand one after the other: folt.reference.Given(draws, chains=4).",
    )
    COPIED_CHAINS = (
        "copied chains",
        "{copies:.0f} of {chains:.0f} reference chains are copies of others and were left out.",
    )
    KNOWN_CHAINS = (
        "known chains",
        "{known:.0f} of {chains:.0f} reference chains hold draws that the start has learnt from: "
        "only the others judge this fit.",
    )
    UNKNOWN_START = (
        "unknown start",
        "The start does not say which draws it has learnt from, as fits of older versions do not: "
        "whether the reference draws that judge this fit are among them cannot be known. Fit "
        "without start=, or bring draws that are new.",
    )

    sentence: str

    def __new__(cls, value: str, sentence: str = "") -> Concern:
        """Return a string that carries its template."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member


_COMPARED = {("rhat", "limit"): 3, ("ess", "enough"): 0}
"""Numbers of a sentence that says which is larger, and the digits behind their point."""


def told_apart(value: float, limit: float, digits: int) -> tuple[str, str]:
    """Two numbers with so many digits behind the point, or more until they are seen to differ."""
    for more in range(digits, digits + 15):
        words = f"{value:.{more}f}", f"{limit:.{more}f}"
        if words[0] != words[1] or value == limit:
            break
    return words


@dataclasses.dataclass(frozen=True)
class Caution:
    """One concern with its numbers.

    Attributes:
        concern: what kind.
        numbers: what its sentence mentions.
    """

    concern: Concern
    numbers: Mapping[str, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "concern", Concern(self.concern))

    def __str__(self) -> str:
        words: dict[str, float | str] = dict(self.numbers)
        for pair, digits in _COMPARED.items():
            if words.keys() >= set(pair):
                value, limit = (self.numbers[name] for name in pair)
                words |= zip(pair, told_apart(value, limit, digits), strict=True)
        return self.concern.sentence.format(**words)

    @classmethod
    def of(cls, concern: Concern, **numbers: float) -> Caution:
        """Return a caution from its numbers."""
        return cls(concern, {name: float(value) for name, value in numbers.items()})

    @classmethod
    def from_dict(cls, tree: Document) -> Caution:
        """Return the caution whose `dataclasses.asdict` this is."""
        return cls(Concern(tree["concern"]), dict(tree["numbers"]))


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
        explored: modes and particles that the run found on its way.
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
    explored: Explored | None = None
    exploration: ExplorationFacts | None = None
    exploring: float = 0.0


def folded_chains(group: Group, draws: np.ndarray) -> HostDraws:
    """Return every draw of (chain, draw, dim) moved to its representative in D."""
    return action_of(group).fold(np.reshape(draws, (-1, group.dim))).reshape(draws.shape)


def health(draws: HostDraws) -> tuple[float, float, tuple[Caution, ...]]:
    """R-hat, effective sample size and cautions for folded draws.

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
    """Largest R-hat and smallest bulk ESS over the coordinates."""
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
