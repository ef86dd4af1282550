"""The numbers behind the verdict, as headed lists of names and words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from folt.report.text import number

if TYPE_CHECKING:
    from folt.fit import Fit

Facts = list[tuple[str, str]]


def headed_facts(fit: Fit) -> list[tuple[str, Facts]]:
    """Every list with its heading, in the order of the page."""
    return [
        ("Mixing certificate", _mixing(fit)),
        ("Evidence", _evidence(fit)),
        ("Fit of the proposal", _proposal(fit)),
        ("Chains", _chains(fit)),
        ("Symmetry", _symmetry(fit)),
        ("Reference run", _reference(fit)),
        ("Provenance", _provenance(fit)),
    ]


def _mixing(fit: Fit) -> Facts:
    mixing = fit.certificate.mixing
    length = mixing.chain_length
    rows = [
        (f"Steps to total variation {epsilon:g}", "cannot be had" if n is None else f"{n:,}")
        for epsilon, n in mixing.steps.items()
    ]
    if mixing.reason is not None:
        rows.append(("Why not", mixing.reason))
    if mixing.ess is not None and length is not None:
        rows.append(
            ("Certified effective draws", f"{mixing.ess:,.0f} of {length:,}, for a median at least")
        )
    return [
        *rows,
        ("Confidence", f"{100 * mixing.confidence:.0f} %, for all of these together"),
        ("Assumption", mixing.assumption),
    ]


def _evidence(fit: Fit) -> Facts:
    evidence, bridge = fit.certificate.evidence, fit.certificate.bridge
    return [
        ("log Z, importance", f"{number(evidence.value)} ± {number(evidence.standard_error)}"),
        ("log Z, bridge", f"{number(bridge.value)} ± {number(bridge.standard_error)}"),
        ("Counted", f"all {fit.group.order:,} labellings, once each"),
        ("Pareto k̂", f"{number(evidence.pareto_k, 2)} (the error is to be believed below 0.7)"),
        ("Fresh proposals", f"{evidence.draws:,}"),
    ]


def _proposal(fit: Fit) -> Facts:
    certificate = fit.certificate
    cores = [
        (
            f"γ, {protocol} draws",
            f"{number(cores[0.05].gamma, 3)} (C = {number(cores[0.05].osc, 3)}, "
            f"n = {cores[0.05].n:,.0f}; the paper's, not a bound)",
        )
        for protocol, cores in certificate.qc.items()
    ]
    inside = certificate.qc["proposal"][0.05].target_mass
    return [
        *cores,
        ("Effective per draw, the paper's guess", _predicted(fit)),
        ("Target inside the proposal's core", number(inside, 3)),
        ("Range of h seen", number(certificate.full_osc, 3)),
        ("Spectral gap, at most", number(certificate.gap_upper, 3)),
        (
            "Coverage",
            f"{number(certificate.coverage.value, 3)} ± "
            f"{number(certificate.coverage.standard_error, 3)} (1 if no mass is missed)",
        ),
        (
            "Tail safety",
            f"λ = {certificate.safety.weight:g}, costs at most "
            f"{100 * certificate.safety.acceptance_cost:g} % of acceptance. "
            f"{certificate.safety.claim}",
        ),
        ("Outside the support", f"{certificate.faults.outside_support:,} proposals"),
        (
            "Faults",
            f"{certificate.faults.not_a_number:,} not a number, "
            f"{certificate.faults.infinite:,} infinite",
        ),
    ]


def _predicted(fit: Fit) -> str:
    return number(fit.certificate.qc["target"][0.05].predicted_ess, 3)


def _chains(fit: Fit) -> Facts:
    facts = fit.certificate.chains
    chains, draws, dim = fit.draws.shape
    frozen = "none" if not facts.frozen else ", ".join(str(i) for i in facts.frozen)
    return [
        ("Chains", f"{chains} × {draws:,} draws in {dim} dimensions"),
        ("Frozen", frozen),
        ("Smallest effective size", f"{facts.ess:,.0f} bulk, {facts.tail_ess:,.0f} tail"),
        ("By batch means", f"{facts.batch_means_ess:,.0f} (the paper's estimator)"),
        ("Largest R-hat", number(facts.rhat, 4)),
        ("h itself", f"{facts.ess_log_ratio:,.0f}, R-hat {number(facts.rhat_log_ratio, 4)}"),
    ]


def _symmetry(fit: Fit) -> Facts:
    facts = fit.certificate.symmetry
    switches = "no raw chain was kept" if facts.switch_rate is None else _percent(facts.switch_rate)
    return [
        ("Group", f"{type(fit.group).__name__}, order {facts.order:,}"),
        ("Declared", "exact" if facts.invariant else "broken: the whole orbit is summed"),
        ("Change under relabelling", f"{facts.defect:.1e}, relative"),
        ("Ambiguous labels", _percent(facts.boundary.ambiguity)),
        ("Near the fold boundary", f"{_percent(facts.boundary.overlap)} within one deviation"),
        ("Label switches of the raw reference", switches),
        ("Labels", fit.labels),
        ("Orbit", "whole" if fit.whole_orbit else "truncated to the identity"),
    ]


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _reference(fit: Fit) -> Facts:
    reference, certificate = fit.reference, fit.certificate
    agreement = certificate.agreement
    return [
        ("Draws", f"{reference.draws:,}" + (", exact" if reference.exact else "")),
        ("Worst R-hat", number(reference.rhat, 3)),
        ("Smallest effective size", number(reference.ess, 0)),
        ("Held-out h are worth", f"{number(certificate.effective, 0)} independent draws"),
        ("Moved by the chain's kernel", f"{certificate.refreshed} steps before they were used"),
        ("Agrees with the chains", f"largest difference {abs(agreement.score):.1f} errors"),
    ]


def _provenance(fit: Fit) -> Facts:
    versions = fit.provenance.get("versions", {})
    return [
        ("Evaluations", ", ".join(f"{n:,} {kind}s" for kind, n in fit.evaluations.items())),
        ("Seed, preset", f"{fit.provenance.get('seed')}, {fit.provenance.get('preset')}"),
        ("Versions", ", ".join(f"{name} {value}" for name, value in versions.items())),
        ("Python", f"{fit.provenance.get('python')} on {fit.provenance.get('machine')}"),
    ]
