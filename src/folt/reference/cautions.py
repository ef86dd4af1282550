"""What a user should know of a reference run: a kind and its numbers; the sentence is made last."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from folt.store.strict_json import Document


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
        """A string that carries its template."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member


COMPARED = {("rhat", "limit"): 3, ("ess", "enough"): 0}
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
        for pair, digits in COMPARED.items():
            if words.keys() >= set(pair):
                value, limit = (self.numbers[name] for name in pair)
                words |= zip(pair, told_apart(value, limit, digits), strict=True)
        return self.concern.sentence.format(**words)

    @classmethod
    def of(cls, concern: Concern, **numbers: float) -> Caution:
        """A caution from its numbers."""
        return cls(concern, {name: float(value) for name, value in numbers.items()})

    @classmethod
    def from_dict(cls, tree: Document) -> Caution:
        """The caution whose `dataclasses.asdict` this is."""
        return cls(Concern(tree["concern"]), dict(tree["numbers"]))
