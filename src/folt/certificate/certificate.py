"""The certificate: numbers, and the verdict that follows from them."""

from __future__ import annotations

import dataclasses
import math
from typing import TypeVar

from folt.certificate.face import certificate_face
from folt.certificate.facts import ChainFacts, ReferenceFacts, SafetyFacts, SymmetryFacts
from folt.certificate.outcomes import RULES
from folt.certificate.verdict import Status, verdict
from folt.diagnostics import (
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
from folt.problem.boundary import BoundaryMass
from folt.problem.faces import Face, Shown
from folt.reference import Caution
from folt.store.strict_json import Document, plain

ASSUMPTION = (
    "The certificate assumes that the held-out draws are from the folded target. Modes that the "
    "reference run and the proposal both missed cannot be seen by anyone."
)


@dataclasses.dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """How far the chain can be trusted.

    Attributes:
        mixing: steps to total variation .1, .05, .01, with confidence: the headline.
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
        assumption: what all of it rests on.
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
    assumption: str = ASSUMPTION

    def _face(self) -> Face:
        return certificate_face(self)

    @property
    def status(self) -> Status:
        """The verdict: computed from these numbers whenever it is asked for, never stored."""
        return verdict(self)

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
        tree["evidence"] = dataclasses.asdict(self.evidence)
        tree["qc"] = {
            protocol: {
                str(rho): {**dataclasses.asdict(core), "predicted_ess": core.predicted_ess}
                for rho, core in cores.items()
            }
            for protocol, cores in self.qc.items()
        }
        tree["mixing"]["steps"] = {str(key): n for key, n in self.mixing.steps.items()}
        return tree

    def to_dict(self) -> Document:
        """The tree ready for JSON: null for what is not finite."""
        return plain(self.tree())

    @classmethod
    def from_dict(cls, tree: Document) -> Certificate:
        """The inverse of `tree`, and of `to_dict` but for null, which comes back as NaN."""
        fields = {key: value for key, value in tree.items() if key not in ("status", "evidence")}
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


def _core(tree: Document) -> Core:
    """A core from its tree, without what follows from the rest."""
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
