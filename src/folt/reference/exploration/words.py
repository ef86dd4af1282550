"""What may be said of an exploration, in sentences."""

from __future__ import annotations

from folt.reference.exploration.facts import ExplorationFacts

MOST_NAMED = 6
"""Modes whose masses stand in a line."""


def explored_words(facts: ExplorationFacts | None, exact: bool = False) -> str:
    """How small a mode would have been seen.

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
            f"Modes were looked for by {facts.searchers:,} tempered particles; none of "
            f"{facts.descents:,} descents arrived at a maximum, as where the density ends at an "
            "edge: a mode that is light when hot may be missing."
        )
    if basin is None:
        return (
            f"Modes were looked for by {facts.searchers:,} tempered particles alone, since there "
            "was no gradient or no room for one: a mode that is light when hot may be missing."
        )
    found = "one mode" if len(facts.modes) == 1 else f"{len(facts.modes)} modes"
    return (
        f"{facts.descents:,} descents, of which {facts.arrived:,} arrived at a maximum, and "
        f"{facts.searchers:,} tempered particles found {found}; a mode that attracts more than 1 "
        f"in {1.0 / basin:,.0f} descents was seen with 95 % confidence, one with "
        "a smaller basin that is also light when hot may be missing."
    )


def modes_words(facts: ExplorationFacts) -> str:
    """Modes with their masses, and by what they were found, in a line."""
    particles = f"{facts.searchers:,} tempered particles"
    if not facts.descents:
        return f"looked for by {particles} alone"
    masses = ", ".join(f"{100 * mode.mass:.3g}" for mode in facts.modes[:MOST_NAMED])
    more = ", …" if len(facts.modes) > MOST_NAMED else ""
    counts = {0: "none", 1: "one"}
    found = counts.get(len(facts.modes), f"{len(facts.modes)} ({masses}{more} %)")
    again = ", tempered twice" if facts.ladders > 1 else ""
    agree = "" if facts.agree else "; the two searches disagree"
    if facts.rough:
        agree = f"; {_scattered(facts)}"
    return f"{found} by {facts.descents:,} descents and {particles}{again}{agree}"


def _scattered(facts: ExplorationFacts) -> str:
    return f"{100 * facts.scattered:.0f} % of the descents ended at maxima that no other reached"


def disagreement_words(facts: ExplorationFacts) -> str:
    """Which mode the two searches disagree about, or why one cannot tell, and what to do."""
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
            f"tempering and met by {worst.hits:,} descents"
        )
    return (
        f"{said}: where one mode was nearly missed others may be, so look again with more "
        "particles, or begin where the posterior must be by folt.Problem(..., start=)."
    )
