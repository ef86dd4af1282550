"""A certificate in a few lines, verdict first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from folt.certificate.outcomes import Use
from folt.problem.faces import Face
from folt.reference.exploration.words import modes_words

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate
    from folt.certificate.verdict import Status

TONES = {
    Use.EVERYTHING: "good",
    Use.CARE: "caution",
    Use.FIRST_LOOK: "caution",
    Use.NOTHING: "bad",
}
MARKS = {"good": "✓", "caution": "!", "bad": "✗"}


def tone(status: Status) -> str:
    """One of good, caution and bad, by what the draws may be used for."""
    return TONES[status.outcome.use]


def mark(status: Status) -> str:
    """A sign for the tone."""
    return MARKS[tone(status)]


def verdict_words(status: Status) -> str:
    """The headline of a status, with its name."""
    return f"{status.outcome.headline} ({status.name})"


def headline(status: Status) -> str:
    """The mark and the verdict, as one line."""
    return f"{mark(status)} {verdict_words(status)}."


def certificate_face(certificate: Certificate) -> Face:
    """The verdict and the numbers that it rests on."""
    status = certificate.status
    rows = [("Advice", status.advice), *chain_rows(certificate)]
    return Face(headline(status), tuple(rows), tone(status))


def chain_rows(certificate: Certificate) -> list[tuple[str, str]]:
    """Evidence, mixing, chains and reference, a row each."""
    evidence, chains, reference = certificate.evidence, certificate.chains, certificate.reference
    steps = [f"{n:,} to {e:g}" for e, n in certificate.mixing.steps.items() if n is not None]
    mixing = f"steps to total variation: {', '.join(steps)}" if steps else unstated(certificate)
    died = certificate.faults.died / max(evidence.draws, 1)
    orbit = f"summed in part: {100 * died:.1f} % of the proposals die, their labelling left out"
    undefined = undefined_words(certificate)
    return [
        ("Evidence", f"log Z = {evidence.value:.4f}, standard error {evidence.standard_error:.4f}"),
        ("Mixing", mixing),
        ("Chains", f"acceptance {100 * chains.accept_rate:.1f} %"),
        ("Reference", f"R-hat {_plain(reference.rhat)}, {reference.ess:,.0f} effective draws"),
        *([("Modes", modes_words(certificate.exploration))] if certificate.exploration else []),
        *([("Orbit", orbit)] if died else []),
        *([("Not a number", undefined)] if certificate.faults.not_a_number else []),
    ]


def undefined_words(certificate: Certificate) -> str:
    """How often the log density was not a number, where, and what that was taken for."""
    faults = certificate.faults
    among = f" of {faults.proposals:,} proposals" if faults.proposals else " proposals"
    share = f" ({100 * faults.share:.2g} %)" if faults.proposals else ""
    taken = "the posterior may have mass there"
    if faults.harmless:
        taken = "no mass shows around it, so it counts as outside the support"
    elif faults.share > faults.RARE:
        taken = "too often to be left out"
    return f"{faults.not_a_number:,}{among}{share}, such as {faults.where}: {taken}"


def unstated(certificate: Certificate) -> str:
    """Why no number of steps is stated."""
    return certificate.mixing.reason or "not certified"


def _plain(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "not available"
