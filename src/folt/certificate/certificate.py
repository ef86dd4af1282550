"""The certificate: numbers, the verdict that follows from them, and both as a document."""

from __future__ import annotations

import dataclasses

from folt.certificate.conditions import RULES
from folt.certificate.diagnostics.coverage import Agreement, Coverage, Faults
from folt.certificate.diagnostics.evidence import Evidence, Evidences
from folt.certificate.diagnostics.mixing import Mixing
from folt.certificate.diagnostics.quantile_core import Core
from folt.certificate.documents import built, tree_of
from folt.certificate.exploration import ExplorationFacts
from folt.certificate.facts import ChainFacts, ReferenceFacts, SafetyFacts, SymmetryFacts
from folt.certificate.outcomes import Status, gravest, status_of
from folt.certificate.sentences import chain_rows, explored_words, headline, tone
from folt.problem.cards import Card, Shown
from folt.store.strict_json import Document, plain

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
        status = self.status
        rows = (("Advice", status.advice), *chain_rows(self))
        return Card(headline(status), rows, tone(status))

    @property
    def status(self) -> Status:
        """The verdict: computed from these numbers whenever it is asked for, never stored."""
        return status_of(self)

    @property
    def assumption(self) -> str:
        """What all of it rests on."""
        return _ASSUMPTION + explored_words(self.exploration, self.reference.exact)

    @property
    def distance(self) -> float:
        """Certified bound on the total variation from the target after the burn-in."""
        return float(self.mixing.bound(self.chains.burn_in))

    @property
    def evidence(self) -> Evidence:
        """The estimate of log Z whose error can be believed; what coverage lacks adds to its error.

        Mass that no proposal reaches is missing from every estimate, and from its error:
        se² + (1 - coverage)².
        """
        return self.evidences.best.with_error(1.0 - self.coverage.value)

    @property
    def bridge(self) -> Evidence:
        """The bridge estimate of log Z, from fresh proposals and the chains."""
        return self.evidences.bridge

    def tree(self) -> Document:
        """Return plain numbers, strings and dictionaries, infinities and NaN as they are.

        The verdict stands in it for readers, with the number of the rules that gave it.
        """
        status = self.status
        verdict = {"name": status.name, "advice": status.advice, "cure": status.cure}
        return {
            **tree_of(self),
            "status": {**verdict, "rules": RULES},
            "assumption": self.assumption,
            "evidence": tree_of(self.evidence),
        }

    def to_dict(self) -> Document:
        """Return the tree ready for JSON: null for what is not finite; nothing that is withheld."""
        tree = self.tree()
        del tree["mixing"]["computed"]
        return plain(tree)

    @classmethod
    def from_dict(cls, tree: Document) -> Certificate:
        """Return the inverse of `tree`, and of `to_dict` but for null, which comes back as NaN."""
        return built(cls, tree)
