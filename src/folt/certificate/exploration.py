"""What the search for modes found, as numbers for the certificate."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

DIFFERENCE, RATIO = 0.05, 3.0
"""By how much the reference's share of a mode must exceed the tempered particles', and how many
times, for a ladder to have lost it."""

ERRORS = 3.0
"""Standard errors of the tempered share that the difference must exceed as well for the two
searches to disagree. Families of unequal size, each wholly in or out of a mode, exceed them in at
most 1.1 % of simulated ladders with three or more effective ancestors, in 2.3 % with two."""

RULE_OF_THREE = 3.0
"""What has probability p was seen among n with 95 % if p ≥ 3/n."""

HEAVY = 0.01
"""Mass above which a mode must not be found by chance."""

ROUGH = 0.2
"""Share of scattered ends from which on descents confirm nothing. Half of a posterior in twenty
dimensions under ripples of .4 to one nat gives .36 to .49; mixtures, hidden Markov models,
regressions, sinusoids and sensors give less than .1."""

FEWEST_ANCESTORS = 50
"""Particles at the beginning of a ladder that must have descendants at its end."""


@dataclasses.dataclass(frozen=True)
class ModeFacts:
    """One mode.

    Attributes:
        mass: its share of the posterior as importance sampling around all modes sees it.
        hits: descents that ended there.
        tempered: share of the tempered particles within its reach.
        reference: share of the reference draws within its reach; NaN before there are any.
        peaked: whether the density falls in every direction from it.
        barely: whether only the second search found it, or tempering had lost it and descents from
            the start met it too rarely to say that nothing rarer was passed by.
        error: standard error of `tempered` if `reference` is right, by the effective number of
            ancestors.
    """

    mass: float
    hits: int
    tempered: float
    reference: float
    peaked: bool = True
    barely: bool = False
    error: float = 0.0

    @property
    def short(self) -> bool:
        """Whether the tempered particles hold far less than the reference, by chance or not."""
        lost = self.reference - self.tempered > DIFFERENCE
        return lost and self.tempered < self.reference / RATIO

    @property
    def agreed(self) -> bool:
        """Whether tempering did not lose what the reference has there, beyond its own error."""
        return not (self.short and self.reference - self.tempered > ERRORS * self.error)


@dataclasses.dataclass(frozen=True)
class ExplorationFacts:
    """Where the posterior was looked for and what was found.

    Attributes:
        descents: searches along the gradient; none where there is no gradient.
        modes: what they found, the heaviest first.
        once: distinct ends that a single descent reached.
        particles: tempered particles of the last ladder.
        ancestors: how many of them at its beginning have descendants at its end.
        rungs: temperatures of the last ladder.
        ladders: how many ladders were climbed: two where the first disagreed with the descents.
        gradients: gradients that descents and Newton steps took.
        runaways: descents that ran away from the start.
        arrived: descents that ended at a maximum; one that was cut short says nothing of basins.
        scattered: share of the arrived descents that ended at a maximum which no other reached;
            zero where most ends at no known mode are no maxima.
        control: tempered particles from the start that agreed with the descents, where the last
            ladder began at the mode; else zero.
        polished: tempered particles that were brought to maxima by differences of values, for want
            of a gradient: they show what the particles lie around, and are no second search.
        audited: mass around the modes that the finished proposal under-reaches tenfold; NaN before
            the proposal is known.
        audited_error: its standard error.
        rows: rows of the data with which the search began; zero for all.
        effective_ancestors: how many ancestors with equally many descendants would vary as much.
    """

    DERIVED: ClassVar = ("smallest_basin", "chance_of_new", "rough", "compared", "agree")
    """What follows from the rest and stands in a document for its readers."""

    descents: int
    modes: tuple[ModeFacts, ...]
    once: int
    particles: int
    ancestors: int
    rungs: int
    ladders: int = 1
    gradients: int = 0
    runaways: int = 0
    arrived: int = 0
    scattered: float = 0.0
    control: int = 0
    polished: int = 0
    audited: float = float("nan")
    audited_error: float = float("nan")
    rows: int = 0
    effective_ancestors: float = float("nan")

    @property
    def searchers(self) -> int:
        """Tempered particles that looked for modes without knowing any."""
        return self.control or self.particles

    @property
    def smallest_basin(self) -> float | None:
        """Basin of attraction, as a share of the starts, that was found with 95 % if it exists."""
        return min(1.0, RULE_OF_THREE / self.arrived) if self.arrived else None

    @property
    def chance_of_new(self) -> float | None:
        """Chance that one more descent ends somewhere new (Good and Turing)."""
        return max(self.once / self.descents, self.scattered) if self.descents else None

    @property
    def rough(self) -> bool:
        """Whether descents stop wherever they come by, so that they confirm nothing."""
        return self.scattered > ROUGH

    @property
    def compared(self) -> bool:
        """Whether descents arrived at modes that tempering can be compared with."""
        return bool(self.modes) and not self.rough and not self.polished

    @property
    def doubted(self) -> bool:
        """Whether the searches disagree, met a mode by chance, or were stopped by a rough density.

        Not where descents found no maximum at all: then nothing contradicts, and nothing confirms.
        """
        chance = any(mode.barely and mode.reference > HEAVY for mode in self.modes)
        return chance or self.rough or not all(mode.agreed for mode in self.modes)

    @property
    def agree(self) -> bool:
        """Whether tempering and descents can be compared and found the same modes."""
        return self.compared and not self.doubted
