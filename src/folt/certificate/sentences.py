"""What a certificate says to people: every sentence about its facts is made here, last.

Decisions read the numbers of the facts; nothing reads these sentences.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from folt.certificate.cautions import Concern
from folt.certificate.conditions import RHAT_DOUBT
from folt.problem.cards import counted
from folt.problem.symmetry import turning_words

if TYPE_CHECKING:
    from folt.certificate.cautions import Caution
    from folt.certificate.certificate import Certificate
    from folt.certificate.exploration import ExplorationFacts
    from folt.certificate.facts import ReferenceFacts
    from folt.certificate.outcomes import Status

MARKS = {"good": "✓", "caution": "!", "bad": "✗"}
_MOST_MASSES = 6
"""Modes whose masses stand in a line, the heaviest ones."""


def tone(status: Status) -> str:
    """Return one of good, caution and bad, by what the draws may be used for."""
    return status.outcome.use.tone


def mark(status: Status) -> str:
    """Return a sign for the tone."""
    return MARKS[tone(status)]


def verdict_words(status: Status) -> str:
    """Return the headline of a status, with its name."""
    return f"{status.outcome.headline} ({status.name})"


def headline(status: Status) -> str:
    """Return the mark and the verdict, as one line."""
    return f"{mark(status)} {verdict_words(status)}."


def chain_rows(certificate: Certificate) -> list[tuple[str, str]]:
    """Return evidence, mixing, chains and reference, a row each."""
    evidence, chains, reference = certificate.evidence, certificate.chains, certificate.reference
    died = certificate.faults.died / max(evidence.draws, 1)
    orbit = f"summed in part: {100 * died:.1f} % of the proposals die, their labelling left out"
    rhat = f"{reference.rhat:.3f}" if math.isfinite(reference.rhat) else "not available"
    return [
        ("Evidence", f"log Z = {evidence.value:.4f}, standard error {evidence.standard_error:.4f}"),
        ("Mixing", mixing_steps(certificate)),
        ("Chains", f"acceptance {100 * chains.accept_rate:.1f} %"),
        ("Reference", f"R-hat {rhat}, {reference.ess:,.0f} effective draws"),
        *([("Modes", modes_words(certificate.exploration))] if certificate.exploration else []),
        *([("Orbit", orbit)] if died else []),
        *([("Not a number", undefined_words(certificate))] * bool(certificate.faults.not_a_number)),
    ]


def mixing_steps(certificate: Certificate, confidence: bool = False) -> str:
    """Return the certified steps to each distance, or why none is stated.

    Args:
        certificate: the certificate.
        confidence: whether to say with which confidence they hold.
    """
    mixing = certificate.mixing
    known = [f"{n:,} to {epsilon:g}" for epsilon, n in mixing.steps.items() if n is not None]
    if not known:
        return mixing.reason or "not certified"
    surely = f" ({100 * mixing.confidence:.0f} % confidence)" if confidence else ""
    return f"steps to total variation: {', '.join(known)}{surely}"


def undefined_words(certificate: Certificate) -> str:
    """Return how often the log density was not a number, where, and what that was taken for."""
    faults = certificate.faults
    among = f" of {faults.proposals:,} proposals" if faults.proposals else " proposals"
    share = f" ({100 * faults.share:.2g} %)" if faults.proposals else ""
    taken = "the posterior may have mass there"
    if faults.harmless:
        taken = "no mass shows around it, so it counts as outside the support"
    elif faults.share > faults.RARE:
        taken = "too often to be left out"
    return f"{faults.not_a_number:,}{among}{share}, such as {faults.where}: {taken}"


def frozen_chains(certificate: Certificate) -> str:
    """Return what it means that chains never moved, and what to do."""
    count = len(certificate.chains.frozen)
    return (
        f"{'One chain' if count == 1 else f'{count} chains'} never moved: the proposal does not "
        "reach the target, so do not use these draws; more effort makes a richer proposal."
    )


def suspicion(certificate: Certificate) -> str:
    """Return which symmetry is left in the draws, and what may be used all the same."""
    facts = certificate.symmetry
    if facts.turning:
        return (
            "A continuous rotation symmetry was left in the posterior (allow_rotation=True), "
            f"which smears means and intervals of what turns. {turning_words(facts.turning)} "
            "A prior of the loadings that is not round, such as Laplace, removes it."
        )
    if facts.switching is None:
        return "No relabelling symmetry was folded."
    return (
        f"No relabelling symmetry was folded, but the difference of {facts.switching.first} and "
        f"{facts.switching.second} is symmetric about zero with a mode on either side, as where "
        "labels switch: do not report single labels. `print(problem.symmetry_found)` says what "
        "nearly held; a symmetry that is nearly there is folded exactly by "
        "`folt.Problem(..., invariant=False)`."
    )


def label_trouble(certificate: Certificate) -> str:
    """Return why summaries by label mislead, and what to use instead."""
    facts = certificate.symmetry
    if facts.mixes:
        return (
            "The draws can be used, but their order confuses components that differ in something "
            "else in "
            f"{100.0 * (facts.boundary.mixed or 0.0):.0f} % of the cases: summaries by label "
            "mislead, so name components by the proposal, or sort them by the parameter in "
            "which they differ (sort_by=); signs are named by an entry far from zero (sign=)."
        )
    return (
        "The draws can be used, but the label of a component is a matter of chance in "
        f"{100.0 * (facts.boundary.ambiguity or 0.0):.0f} % of the cases: summaries by label "
        "mislead, so use quantities that no relabelling changes, or fewer components."
    )


def reference_doubt(certificate: Certificate) -> str:
    """Return why the reference run is in doubt, and what to do."""
    found = certificate.exploration
    if found is not None and found.doubted:
        return _disagreement(found)
    return (
        f"The reference chains disagree with each other (R-hat {certificate.reference.rhat:.3f}) "
        f"or with the sampler ({certificate.agreement.size:.1f} errors in a "
        f"{certificate.agreement.compared}): separate modes are suspected, so run a longer "
        "reference before trusting their weights."
    )


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
            f"Modes were looked for by {_searching(facts)}; none of "
            f"{facts.descents:,} descents arrived at a maximum, as where the density ends at an "
            "edge: a mode that is light when hot may be missing."
        )
    found = "one mode" if len(facts.modes) == 1 else f"{len(facts.modes)} modes"
    if basin is None:
        polish = f", polished without gradient into {found}" if facts.polished else ""
        return (
            f"Modes were looked for by {_searching(facts)} alone, since there "
            f"was no gradient or no room for one{polish}: a mode that is light when hot may be "
            "missing."
        )
    return (
        f"{facts.descents:,} descents, of which {facts.arrived:,} arrived at a maximum, and "
        f"{_searching(facts)} found {found}; a mode that attracts more than 1 "
        f"in {1.0 / basin:,.0f} descents was seen with 95 % confidence, one with "
        "a smaller basin that is also light when hot may be missing."
    )


def modes_words(facts: ExplorationFacts) -> str:
    """Return the modes with their masses, and by what they were found, in a line."""
    particles = _searching(facts)
    if not facts.descents and not facts.polished:
        return f"looked for by {particles} alone"
    heaviest = sorted((mode.mass for mode in facts.modes), reverse=True)[:_MOST_MASSES]
    masses = ", ".join(f"{100 * mass:.3g}" for mass in heaviest)
    more = ", …" if len(facts.modes) > _MOST_MASSES else ""
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


def _disagreement(facts: ExplorationFacts) -> str:
    """Return which mode the searches disagree about, or why that is unknown, and what to do."""
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


def _searching(facts: ExplorationFacts) -> str:
    """Return the tempered particles that looked for modes without knowing any."""
    subset = f" of {facts.rows:,} rows of the data" if facts.rows else ""
    return f"{facts.searchers:,} tempered particles{subset}"


_CONCERNS = {
    Concern.NOTHING_MOVED: (
        "No chain of the reference moved at all: check the scale of the log density."
    ),
    Concern.FROZEN_CHAINS: (
        "{frozen:.0f} of {chains:.0f} reference chains never moved: their weight is that of their "
        "starting points, so run more particles or longer chains."
    ),
    Concern.DISAGREEING_CHAINS: (
        "R-hat of the reference is {rhat}, above {limit}: its chains do not quite agree, because "
        "they are slow or because there are separate modes that are not images of each other."
    ),
    Concern.FEW_EFFECTIVE: (
        "The reference is worth {ess} effective draws, below {enough} for dimension {dim:.0f}: "
        "run longer chains before trusting what is learned from them."
    ),
    Concern.NOT_A_NUMBER: (
        "The log density was NaN or +inf at {faults:.0f} of {evaluations:.0f} points, which were "
        "taken as outside the support: harmless far away, and the neighbourhood of the draws was "
        "tried."
    ),
    Concern.RUNAWAYS: (
        "{runaways:.0f} of {descents:.0f} descents left the start behind and still gained, "
        "farthest along coordinate {coordinate:.0f} (counted from zero): the density may be "
        "improper, so give that parameter a proper prior."
    ),
    Concern.FEW_ANCESTORS: (
        "Of {particles:.0f} tempered particles {ancestors:.0f} have descendants at the end of the "
        "ladder, below {fewest:.0f}: tempering alone would miss small modes here."
    ),
    Concern.SCALES_APART: (
        "The standard deviation of coordinate {wide:.0f} is {ratio:.0e} times that of coordinate "
        "{narrow:.0f} (counted from 0), beyond what searches and steps are made for: divide every "
        "parameter by its usual size (standardise the data, or give a prior=)."
    ),
    Concern.CAPPED: (
        "The cap of {evaluations:.0f} evaluations left {particles:.0f} particles instead of "
        "{usual:.0f}, which may miss a mode of weight below {weight:.2g}, and blurs log Z "
        "{blur:.1f}-fold: a larger evaluations= buys both back."
    ),
    Concern.ONE_CHAIN: (
        "The reference is one chain, or draws without a chain axis: its end judges a proposal "
        "that its beginning made, and what the whole chain missed shows in neither. Bring several "
        "chains, or say how many stand one after the other: folt.reference.Given(draws, "
        "chains=4)."
    ),
    Concern.COPIED_CHAINS: (
        "{copies:.0f} of {chains:.0f} reference chains are copies of others and were left out."
    ),
    Concern.KNOWN_CHAINS: (
        "{known:.0f} of {chains:.0f} reference chains hold draws that the start has learnt from: "
        "only the others judge this fit."
    ),
    Concern.UNKNOWN_START: (
        "The start does not say which draws it has learnt from, as fits of older versions do not: "
        "whether the reference draws that judge this fit are among them cannot be known. Fit "
        "without start=, or bring draws that are new."
    ),
}
"""Templates for the numbers of a caution."""

_COMPARED = {("rhat", "limit"): 3, ("ess", "enough"): 0}
"""Numbers of a sentence that says which is larger, and the digits behind their point."""


def cautions(certificate: Certificate) -> list[str]:
    """Return what a user should know of the reference, and why it does no harm to a good fit."""
    good = tone(certificate.status) == "good"
    return [
        _settled(found, certificate.reference)
        if good and found.concern is Concern.DISAGREEING_CHAINS
        else caution(found)
        for found in certificate.reference.cautions
    ]


def _settled(found: Caution, facts: ReferenceFacts) -> str:
    """Return why chains that did not quite agree do not stand against a good verdict."""
    rhat, usual = _told_apart(found.numbers["rhat"], found.numbers["limit"], 3)
    if found.numbers["rhat"] != facts.rhat:  # that of draws which the sampler has renewed
        return (
            f"R-hat of the renewed reference draws is {rhat}, within the "
            f"{facts.refreshed_limit:.3f} that chance gives draws of that number."
        )
    renewed = (
        f": its draws that judge this fit were moved by {counted(facts.refreshed, 'step')} of the "
        f"sampler first, and have {facts.refreshed_rhat:.3f} since"
        if facts.refreshed
        else ""
    )
    return (
        f"R-hat of the reference as it came is {rhat}, more than the {usual} of chains of this "
        f"length that move well and within the {RHAT_DOUBT:g} that the verdict allows{renewed}."
    )


def caution(found: Caution) -> str:
    """Return what a user should know, with the numbers of the caution."""
    numbers: dict[str, float | str] = dict(found.numbers)
    for pair, digits in _COMPARED.items():
        if numbers.keys() >= set(pair):
            value, limit = (found.numbers[name] for name in pair)
            numbers |= zip(pair, _told_apart(value, limit, digits), strict=True)
    return _CONCERNS[found.concern].format(**numbers)


def _told_apart(value: float, limit: float, digits: int) -> tuple[str, str]:
    """Return two numbers with so many decimals, or with more until they are seen to differ."""
    for more in range(digits, digits + 15):
        shown = f"{value:.{more}f}", f"{limit:.{more}f}"
        if shown[0] != shown[1] or value == limit:
            break
    return shown
