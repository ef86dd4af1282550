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
        "R-hat of the reference is {rhat:.3f}, above {limit:.3f}: its chains do not quite agree, "
        "because they are slow or because there are separate modes that are not images of each "
        "other.",
    )
    FEW_EFFECTIVE = (
        "few effective draws",
        "The reference is worth {ess:.0f} effective draws, below {enough:.0f} for dimension "
        "{dim:.0f}: run longer chains before trusting what is learned from them.",
    )
    NOT_A_NUMBER = (
        "not a number",
        "The log density was NaN or +inf at {faults:.0f} of {evaluations:.0f} points, which "
        "were taken as outside the support: harmless far away, and the neighbourhood of the draws "
        "was tried.",
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

    sentence: str

    def __new__(cls, value: str, sentence: str = "") -> Concern:
        """A string that carries its template."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member


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
        return self.concern.sentence.format(**self.numbers)

    @classmethod
    def of(cls, concern: Concern, **numbers: float) -> Caution:
        """A caution from its numbers."""
        return cls(concern, {name: float(value) for name, value in numbers.items()})

    @classmethod
    def from_dict(cls, tree: Document) -> Caution:
        """The caution whose `dataclasses.asdict` this is."""
        return cls(Concern(tree["concern"]), dict(tree["numbers"]))
