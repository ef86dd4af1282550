"""The certificate: numbers, and the verdict that follows from them.

A certificate in a few lines, verdict first.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TypeVar

from folt.certificate.cautions import Caution
from folt.certificate.conditions import RULES
from folt.certificate.diagnostics import (
    Agreement,
    Core,
    Coverage,
    Difference,
    Evidence,
    Evidences,
    Faults,
    Mixing,
    Switching,
)
from folt.certificate.exploration import (
    ExplorationFacts,
    ModeFacts,
    disagreement_words,
    explored_words,
    modes_words,
)
from folt.certificate.facts import ChainFacts, ReferenceFacts, SafetyFacts, SymmetryFacts
from folt.certificate.outcomes import Status, Use, gravest, status_of
from folt.problem.cards import Card, Shown
from folt.problem.ratio import BoundaryMass
from folt.store.strict_json import Document, plain

TONES = {
    Use.EVERYTHING: "good",
    Use.CARE: "caution",
    Use.FIRST_LOOK: "caution",
    Use.NOTHING: "bad",
}
_MARKS = {"good": "✓", "caution": "!", "bad": "✗"}


def tone(status: Status) -> str:
    """Return one of good, caution and bad, by what the draws may be used for."""
    return TONES[status.outcome.use]


def mark(status: Status) -> str:
    """Return a sign for the tone."""
    return _MARKS[tone(status)]


def verdict_words(status: Status) -> str:
    """Return the headline of a status, with its name."""
    return f"{status.outcome.headline} ({status.name})"


def headline(status: Status) -> str:
    """Return the mark and the verdict, as one line."""
    return f"{mark(status)} {verdict_words(status)}."


def certificate_card(certificate: Certificate) -> Card:
    """Return the verdict and the numbers that it rests on."""
    status = certificate.status
    rows = [("Advice", status.advice), *chain_rows(certificate)]
    return Card(headline(status), tuple(rows), tone(status))


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


def unstated(certificate: Certificate) -> str:
    """Return why no number of steps is stated."""
    return certificate.mixing.reason or "not certified"


def _plain(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "not available"


_ASSUMPTION = "The certificate assumes that the held-out draws are from the folded target. "


@dataclasses.dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """How far the chain can be trusted.

    Attributes:
        mixing: steps to total variation .1, .05, .01, with confidence: the headline. Nothing is
            stated where the verdict doubts what the statements rest on; `.reason` says why, and
            `.computed` keeps the numbers.
        qc: `qc["target" | "proposal"][rho]`, the quantile cores in both protocols.
        full_osc: range of h over all held-out draws; grows with their number, bounds nothing.
        gap_upper: upper estimate of the spectral gap from the largest h seen.
        gap_upper_error: its standard error, that of Ẑ; what no draw shows is not in it.
        evidences: log Z by importance sampling, by smoothed weights and by a bridge.
        coverage: whether the proposal covers what the reference sees.
        agreement: whether chains and reference, as it came, have the same moments and tails.
        chains: effective sizes, R-hat, acceptance.
        symmetry: what is known of the symmetry.
        safety: the tail safety and its price.
        reference: what the reference run was like, before and after refreshment.
        effective: independent draws that the held-out h are worth at the outer 5 %.
        faults: log ratios that were not finite.
        exploration: where modes were looked for and what was found; None where draws were given or
            come from an exact sampler.
    """

    mixing: Mixing
    qc: dict[str, dict[float, Core]]
    full_osc: float
    gap_upper: float
    gap_upper_error: float
    evidences: Evidences
    coverage: Coverage
    agreement: Agreement
    chains: ChainFacts
    symmetry: SymmetryFacts
    safety: SafetyFacts
    reference: ReferenceFacts
    effective: float
    faults: Faults
    exploration: ExplorationFacts | None = None

    def __post_init__(self) -> None:
        """Withhold statements in total variation where the verdict doubts what they rest on."""
        computed = self.mixing.computed or self.mixing
        object.__setattr__(self, "mixing", computed)
        doubt = gravest(self).doubt
        if doubt is not None:
            stated = computed.withheld(f"Not stated, because {doubt}.")
            object.__setattr__(self, "mixing", stated)

    def _card(self) -> Card:
        return certificate_card(self)

    @property
    def status(self) -> Status:
        """The verdict: computed from these numbers whenever it is asked for, never stored."""
        return status_of(self)

    @property
    def assumption(self) -> str:
        """What all of it rests on."""
        return _ASSUMPTION + explored_words(self.exploration, self.reference.exact)

    @property
    def reference_doubt(self) -> str:
        """Why the reference is in doubt, where it is, and what to do."""
        found = self.exploration
        if found is not None and found.doubted:
            return disagreement_words(found)
        return (
            f"The reference chains disagree with each other (R-hat {self.reference.rhat:.3f}) or "
            f"with the sampler ({self.agreement.size:.1f} errors in a {self.agreement.compared}): "
            "separate modes are suspected, so run a longer reference before trusting their weights."
        )

    @property
    def distance(self) -> float:
        """Certified bound on the total variation from the target after the burn-in."""
        return float(self.mixing.bound(self.chains.burn_in))

    @property
    def evidence(self) -> Evidence:
        """The estimate of log Z whose error can be believed, widened by what the coverage lacks.

        Mass that no proposal reaches is missing from every estimate, and from its error:
        se² + (1 - coverage)².
        """
        return self.evidences.best.widened(1.0 - self.coverage.value)

    @property
    def bridge(self) -> Evidence:
        """The bridge estimate of log Z, from fresh proposals and the chains."""
        return self.evidences.bridge

    def tree(self) -> Document:
        """Plain numbers, strings and dictionaries, infinities and NaN as they are.

        The verdict stands in it for readers, with the number of the rules that gave it.
        """
        tree = dataclasses.asdict(self)
        status = self.status
        words = {"name": status.name, "advice": status.advice, "cure": status.cure}
        tree["status"] = {**words, "rules": RULES}
        tree["assumption"] = self.assumption
        if self.exploration is not None:
            tree["exploration"].update(self.exploration.derived)
        tree["evidence"] = dataclasses.asdict(self.evidence)
        tree["qc"] = {
            protocol: {
                str(rho): {**dataclasses.asdict(core), "predicted_ess": core.predicted_ess}
                for rho, core in cores.items()
            }
            for protocol, cores in self.qc.items()
        }
        for mixing in (tree["mixing"], tree["mixing"]["computed"]):
            if mixing is not None:
                mixing["steps"] = {str(key): n for key, n in mixing["steps"].items()}
        return tree

    def to_dict(self) -> Document:
        """Return the tree ready for JSON: null for what is not finite; nothing that is withheld."""
        tree = self.tree()
        del tree["mixing"]["computed"]
        return plain(tree)

    @classmethod
    def from_dict(cls, tree: Document) -> Certificate:
        """Return the inverse of `tree`, and of `to_dict` but for null, which comes back as NaN."""
        fields = {key: value for key, value in tree.items() if key not in DERIVED}
        fields["qc"] = {
            protocol: {float(rho): _core(core) for rho, core in cores.items()}
            for protocol, cores in tree["qc"].items()
        }
        fields["mixing"] = Mixing.from_dict(tree["mixing"])
        parts = tree["evidences"]
        estimates = {name: _built(Evidence, parts[name]) for name in parts if name != "difference"}
        difference = _built(Difference, parts["difference"])
        fields["evidences"] = Evidences(**estimates, difference=difference)
        fields["symmetry"] = {**tree["symmetry"]}
        fields["symmetry"]["boundary"] = BoundaryMass(**tree["symmetry"]["boundary"])
        seen = tree["symmetry"].get("switching")
        fields["symmetry"]["switching"] = None if seen is None else Switching(**seen)
        fields["reference"] = {**tree["reference"]}
        cautions = tuple(Caution.from_dict(one) for one in tree["reference"]["cautions"])
        fields["reference"]["cautions"] = cautions
        explored = tree.get("exploration")
        fields["exploration"] = None if explored is None else _exploration(explored)
        for name, kind in _PARTS.items():
            fields[name] = _built(kind, fields[name])
        return _built(cls, fields)


Built = TypeVar("Built")

_PARTS: dict[str, type] = {
    "coverage": Coverage,
    "agreement": Agreement,
    "chains": ChainFacts,
    "symmetry": SymmetryFacts,
    "safety": SafetyFacts,
    "reference": ReferenceFacts,
    "faults": Faults,
}


DERIVED = ("status", "evidence", "assumption")
"""What stands in a tree for readers and follows from the rest."""


def _exploration(tree: Document) -> ExplorationFacts:
    """Return the facts of an exploration from their tree, without what follows from the rest."""
    known = {field.name for field in dataclasses.fields(ExplorationFacts)}
    fields = {key: value for key, value in tree.items() if key in known}
    fields["modes"] = [_built(ModeFacts, mode) for mode in tree["modes"]]
    return _built(ExplorationFacts, fields)


def _core(tree: Document) -> Core:
    """Return a core from its tree, without what follows from the rest."""
    return Core(**{key: value for key, value in tree.items() if key != "predicted_ess"})


def _built(kind: type[Built], fields: Document) -> Built:
    """An object from its tree: None back to NaN where a number is expected, lists to tuples."""
    expected = {field.name: field.type for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(
        **{
            key: math.nan
            if value is None and expected[key] == "float"
            else tuple(value)
            if isinstance(value, list)
            else value
            for key, value in fields.items()
        }
    )
