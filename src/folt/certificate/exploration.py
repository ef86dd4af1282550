"""What an exploration found, as numbers for the certificate.

What may be said of an exploration, in sentences.
"""

from __future__ import annotations

import dataclasses

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
            of a gradient: they tell what the particles lie around, and are no second search.
        audited: mass around the modes that the finished proposal under-reaches tenfold; NaN before
            the proposal is known.
        audited_error: its standard error.
        rows: rows of the data with which the search began; zero for all.
        effective_ancestors: how many ancestors with equally many descendants would vary as much.
    """

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
    def searching(self) -> str:
        """These particles in words."""
        subset = f" of {self.rows:,} rows of the data" if self.rows else ""
        return f"{self.searchers:,} tempered particles{subset}"

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
        """Whether tempering and descents found the same modes, and could have told."""
        return self.compared and not self.doubted

    @property
    def derived(self) -> dict[str, object]:
        """What follows from the rest, for readers of a file."""
        return {
            "smallest_basin": self.smallest_basin,
            "chance_of_new": self.chance_of_new,
            "rough": self.rough,
            "compared": self.compared,
            "agree": self.agree,
        }


MOST_NAMED = 6
"""Modes whose masses stand in a line."""


def explored_words(facts: ExplorationFacts | None, exact: bool = False) -> str:
    """Return how small a mode would have been seen.

    Args:
        facts: the exploration; None where there was none.
        exact: whether the reference draws are exact, so that nothing can be missing.
    """
    if exact:
        return "They come from an exact sampler, which misses no mode."
    if facts is None:
        return "Nothing was searched besides: a mode that they have missed stays unseen."
    basin = facts.smallest_basin
    if basin is None and facts.descents:
        return (
            f"Modes were looked for by {facts.searching}; none of "
            f"{facts.descents:,} descents arrived at a maximum, as where the density ends at an "
            "edge: a mode that is light when hot may be missing."
        )
    found = "one mode" if len(facts.modes) == 1 else f"{len(facts.modes)} modes"
    if basin is None:
        polish = f", polished without gradient into {found}" if facts.polished else ""
        return (
            f"Modes were looked for by {facts.searching} alone, since there "
            f"was no gradient or no room for one{polish}: a mode that is light when hot may be "
            "missing."
        )
    return (
        f"{facts.descents:,} descents, of which {facts.arrived:,} arrived at a maximum, and "
        f"{facts.searching} found {found}; a mode that attracts more than 1 "
        f"in {1.0 / basin:,.0f} descents was seen with 95 % confidence, one with "
        "a smaller basin that is also light when hot may be missing."
    )


def modes_words(facts: ExplorationFacts) -> str:
    """Modes with their masses, and by what they were found, in a line."""
    particles = facts.searching
    if not facts.descents and not facts.polished:
        return f"looked for by {particles} alone"
    masses = ", ".join(f"{100 * mode.mass:.3g}" for mode in facts.modes[:MOST_NAMED])
    more = ", …" if len(facts.modes) > MOST_NAMED else ""
    counts = {0: "none", 1: "one"}
    found = counts.get(len(facts.modes), f"{len(facts.modes)} ({masses}{more} %)")
    again = ", tempered twice" if facts.ladders > 1 else ""
    agree = "; the two searches disagree" if facts.doubted else ""
    if facts.rough:
        agree = f"; {_scattered(facts)}"
    if facts.polished:
        return f"{found} by {particles}, polished without gradient{agree}"
    return f"{found} by {facts.descents:,} descents and {particles}{again}{agree}"


def _scattered(facts: ExplorationFacts) -> str:
    return f"{100 * facts.scattered:.0f} % of the descents ended at maxima that no other reached"


def disagreement_words(facts: ExplorationFacts) -> str:
    """Return which mode the two searches disagree about, or why one cannot tell, and what to do."""
    if facts.rough:
        return (
            f"{_scattered(facts)}: the density is too rough for descents to say which modes there "
            "are, so tempering alone has looked for them. Compare fits of several seeds with more "
            "particles, or begin where the posterior must be by folt.Problem(..., start=)."
        )
    lost = [mode for mode in facts.modes if not mode.agreed]
    if lost:
        worst = max(lost, key=lambda mode: mode.reference - mode.tempered)
        said = (
            f"A mode with {100 * worst.reference:.1f} % of the reference draws has "
            f"{100 * worst.tempered:.1f} % of the tempered particles"
        )
    else:
        worst = max((m for m in facts.modes if m.barely), key=lambda mode: mode.reference)
        said = (
            f"A mode with {100 * worst.reference:.1f} % of the reference draws was lost by "
            f"tempering and met by few descents ({worst.hits:,}, those from around it included)"
        )
    return (
        f"{said}: where one mode was nearly missed others may be, so look again with more "
        "particles, or begin where the posterior must be by folt.Problem(..., start=)."
    )
