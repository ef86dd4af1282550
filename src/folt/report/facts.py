"""The numbers behind the verdict, as headed lists: name, value, and what it means in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from folt.certificate.certificate import undefined_words
from folt.fit.text import NOT_AVAILABLE, rounded_number, shape_words, step_words
from folt.problem.cards import counted
from folt.report.certificate import CORE_SOURCES

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate
    from folt.certificate.exploration import ExplorationFacts
    from folt.fit import Fit


class Fact(NamedTuple):
    """One number with its name and, where the name is not enough, what it means."""

    name: str
    value: str
    meaning: str = ""


Facts = list[Fact]


def headed_facts(fit: Fit) -> list[tuple[str, Facts]]:
    """Every list of details with its heading, in the order of the page."""
    found = fit.certificate.exploration
    return [
        ("Fit of the proposal", _proposal(fit)),
        ("Chains", _chains(fit)),
        ("Symmetry", _symmetry(fit)),
        ("Reference run", _reference(fit)),
        *([("Search for modes", _exploration(found))] if found is not None else []),
    ]


def mixing_facts(fit: Fit) -> Facts:
    """Return the certificate of the chain."""
    mixing = fit.certificate.mixing
    rows = [
        Fact(
            f"Steps to distance {epsilon:g}",
            step_words(mixing, epsilon),
            ""
            if position
            else "total variation: the most by which the probability of any event can be off",
        )
        for position, epsilon in enumerate(mixing.steps)
    ]
    if mixing.reason is not None:
        rows.append(Fact("Why not", mixing.reason))
    if mixing.ess is not None and mixing.chain_length is not None:
        rows.append(
            Fact(
                "Certified effective draws",
                f"{mixing.ess:,.0f} of {mixing.chain_length:,}",
                "independent draws that one chain is worth at least, for a median; cautious",
            )
        )
    if mixing.computed is None:
        confidence = f"{100 * mixing.confidence:.0f} %"
        rows.append(Fact("Confidence", confidence, "that all of these hold together"))
    return [
        *rows,
        Fact("Assumption", mixing.assumption),
    ]


def evidence_facts(fit: Fit) -> Facts:
    """Return the evidence by two routes."""
    best, made = fit.log_evidence, fit.certificate.evidences
    routes = [
        ("log Z", best, f"by {best.method}: {best.method.why}"),
        (
            "By importance sampling",
            made.importance,
            f"the mean of {best.draws:,} plain weights, with one standard error",
        ),
        ("By smoothed weights", made.psis, "the largest weights replaced by a Pareto tail"),
        ("By a bridge", made.bridge, "from fresh proposals and the chains"),
    ]
    return [
        *(
            Fact(
                name, f"{rounded_number(one.value)} ± {rounded_number(one.standard_error)}", meaning
            )
            for name, one, meaning in routes
        ),
        Fact(
            "They differ by",
            f"{rounded_number(abs(made.difference.score), 1)} errors",
            "importance or smoothed weights against the bridge, in standard errors of that "
            "difference; doubt above 4",
        ),
        Fact(
            "Counted",
            "once" if fit.group.order == 1 else f"all {fit.group.order:,} labellings",
            "" if fit.group.order == 1 else "once each: nothing is left to multiply by",
        ),
        *_divided_out(fit),
        Fact(
            "Pareto k̂",
            shape_words(best.pareto_k),
            "how heavy the tail of the plain weights is; below 0.4 their error is to be believed",
        ),
    ]


def _divided_out(fit: Fit) -> Facts:
    """Return the rotations that the draws no longer have; log Z has their volume."""
    words = fit.provenance.get("divided_out")
    return [Fact("Divided out", words, "its volume is part of log Z")] if words else []


def core_rows(fit: Fit) -> list[tuple[str, ...]]:
    """Per protocol and ρ: protocol, ρ, C, γ, e^(-C), independent draws."""
    return [
        (
            CORE_SOURCES.get(protocol, protocol),
            f"{rho:g}",
            rounded_number(core.osc, 3),
            rounded_number(core.gamma, 3),
            rounded_number(core.core_gap, 3),
            f"{core.n:,.0f}",
        )
        for protocol, cores in fit.certificate.qc.items()
        for rho, core in sorted(cores.items())
    ]


def _proposal(fit: Fit) -> Facts:
    certificate = fit.certificate
    return [
        Fact(
            "Coverage",
            f"{rounded_number(certificate.coverage.value, 3)} ± "
            f"{rounded_number(certificate.coverage.standard_error, 3)}",
            "share of the reference draws that the proposal reaches; 1 if nothing is missed",
        ),
        Fact(
            "Target inside the proposal's core",
            rounded_number(certificate.qc["proposal"][0.05].target_mass, 3),
            "share of held-out draws where the proposal's own draws say h lies",
        ),
        Fact(
            "Effective per draw, the paper's guess",
            rounded_number(certificate.qc["target"][0.05].predicted_ess, 3),
            "γ/(2−γ); it promises nothing",
        ),
        Fact(
            "Range of h seen",
            rounded_number(certificate.full_osc, 3),
            "largest minus smallest log ratio; grows with the number of draws",
        ),
        Fact(
            "Spectral gap, at most",
            f"{rounded_number(certificate.gap_upper, 3)} ± "
            f"{rounded_number(certificate.gap_upper_error, 3)}",
            "one over the time the chain needs to forget; an estimate that can only be too large",
        ),
        Fact(
            "Tail safety",
            f"λ = {certificate.safety.weight:g}, costs at most "
            f"{100 * certificate.safety.acceptance_cost:g} % of acceptance",
            certificate.safety.claim,
        ),
        Fact(
            "Outside the support",
            counted(certificate.faults.outside_support, "proposal"),
            "where the density is zero; they are rejected",
        ),
        *_deaths(certificate),
        Fact(
            "Faults",
            f"{certificate.faults.not_a_number:,} not a number, "
            f"{certificate.faults.infinite:,} infinite",
            undefined_words(certificate) if certificate.faults.not_a_number else "",
        ),
    ]


def _deaths(certificate: Certificate) -> Facts:
    """Return the share of proposals that a truncated orbit kills, where there is one."""
    died, drawn = certificate.faults.died, certificate.evidence.draws
    if not died:
        return []
    return [
        Fact(
            "Died",
            f"{100 * died / drawn:.1f} % of the proposals",
            "their labelling is not among those that the sum over the orbit goes through; the "
            "chain is exact all the same and accepts that much less",
        )
    ]


def _chains(fit: Fit) -> Facts:
    facts = fit.certificate.chains
    chains, draws, dim = fit.draws.shape
    frozen = "none" if not facts.frozen else ", ".join(str(i) for i in facts.frozen)
    return [
        Fact("Chains", f"{chains} × {draws:,} draws in {counted(dim, 'dimension')}"),
        Fact("Frozen", frozen, "chains that never moved"),
        Fact(
            "Burn-in",
            f"{counted(facts.burn_in, 'step')} each",
            "thrown away"
            if fit.certificate.mixing.steps[0.05] is None
            else "thrown away; at least those certified to bring the chain within 0.05",
        ),
        Fact(
            "Smallest effective size",
            f"{facts.ess:,.0f} bulk, {facts.tail_ess:,.0f} tail",
            "independent draws that these are worth, for means and for extreme quantiles",
        ),
        Fact("By batch means", f"{facts.batch_means_ess:,.0f}", "the paper's estimator"),
        Fact(
            "Largest R-hat",
            rounded_number(facts.rhat, 4),
            "chains compared with each other; 1 if they agree, doubt above 1.01",
        ),
        Fact(
            "h itself",
            f"{facts.ess_log_ratio:,.0f}, R-hat {rounded_number(facts.rhat_log_ratio, 4)}",
            "the same two numbers for the log ratio",
        ),
    ]


def _symmetry(fit: Fit) -> Facts:
    facts = fit.certificate.symmetry
    switches = "no raw chain was kept" if facts.switch_rate is None else _percent(facts.switch_rate)
    return [
        Fact(
            "Group",
            f"{type(fit.group).__name__}, order {facts.order:,}",
            "how many relabelled copies the posterior has",
        ),
        Fact("Declared", "exact" if facts.invariant else "broken: the whole orbit is summed"),
        Fact(
            "Change under relabelling",
            f"{facts.defect:.1e}",
            "of the log density, in nats; rounding is about 1e-16 of its size",
        ),
        Fact(
            "Ambiguous labels",
            _percent(facts.boundary.ambiguity),
            "chance of another labelling than the likeliest, on average",
        ),
        Fact(
            "Near the fold boundary",
            _percent(facts.boundary.overlap),
            "within one posterior deviation of it",
        ),
        Fact("Label switches", switches, "steps at which the raw reference changed its labels"),
        Fact("Labels", fit.labels),
        Fact(
            "Orbit",
            "whole" if fit.whole_orbit else "truncated to the identity",
            "relabelled copies over which the proposal's density is summed",
        ),
    ]


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _reference(fit: Fit) -> Facts:
    certificate = fit.certificate
    reference = certificate.reference
    agreement = certificate.agreement
    return [
        Fact(
            "Draws",
            f"{reference.draws:,}" + (", exact" if reference.exact else ""),
            "what the proposal was trained and certified with, in parts kept apart",
        ),
        Fact("Worst R-hat", rounded_number(reference.rhat, 3), "as they came"),
        Fact("Smallest effective size", rounded_number(reference.ess, 0), "as they came"),
        Fact(
            "Held-out draws moved",
            counted(reference.refreshed, "step"),
            "by the chain's own kernel, before they were used; R-hat "
            f"{rounded_number(reference.refreshed_rhat, 3)} afterwards",
        ),
        Fact(
            "Held-out h are worth",
            f"{rounded_number(certificate.effective, 0)} independent draws",
            "at their outer 5 %, as dependent as they came",
        ),
        Fact(
            "Agrees with the chains",
            f"largest difference {abs(agreement.score):.1f} errors",
            f"in the {agreement.compared} of a coordinate; means, second moments and tails were "
            "compared",
        ),
    ]


def _exploration(found: ExplorationFacts) -> Facts:
    basin, chance = found.smallest_basin, found.chance_of_new
    return [
        Fact(
            "Descents",
            f"none, but {found.polished:,} particles were polished without gradient"
            if found.polished
            else f"{found.descents:,}, {found.arrived:,} arrived at a maximum",
            "searches along the gradient from the start and from tempered particles",
        ),
        Fact(
            "Smallest basin",
            NOT_AVAILABLE if basin is None else f"1 in {1.0 / basin:,.0f}",
            "share of the starts that a mode must attract to be found with 95 % confidence",
        ),
        Fact(
            "Chance of something new",
            NOT_AVAILABLE if chance is None else f"{100 * chance:.1f} %",
            "ends that a single descent reached, over all descents (Good and Turing): those near "
            "the best, or those that are maxima of their own, whichever are more",
        ),
        Fact(
            "Tempered particles",
            f"{found.particles:,}, {found.ancestors:,} of them with descendants, worth "
            f"{rounded_number(found.effective_ancestors, 3)}",
            f"after {counted(found.rungs, 'temperature')}"
            + (", climbed twice because the first ladder had lost a mode" * (found.ladders > 1))
            + f", from the mode: {found.control:,} from the start agreed" * (found.control > 0),
        ),
        Fact(
            "The two searches",
            "agree" if found.agree else "disagree" if found.compared else "cannot be compared",
            "whether tempering lost a mode that descents found, beyond its own error; where there "
            "are many small maxima, or none, descents cannot tell",
        ),
        Fact(
            "Under-reached around the modes",
            f"{rounded_number(found.audited, 4)} ± {rounded_number(found.audited_error, 4)}",
            "mass where the target outweighs the finished proposal tenfold; doubt above 0.01",
        ),
    ]


def provenance_facts(fit: Fit) -> Facts:
    """Return what made the fit: seed, preset, versions, machine."""
    versions = fit.provenance.get("versions", {})
    return [
        Fact("Seed, preset", f"{fit.provenance.get('seed')}, {fit.provenance.get('preset')}"),
        Fact(
            "Evaluations",
            ", ".join(f"{n:,} {kind}s" for kind, n in fit.evaluations.items()),
            "of the log density and of its gradient",
        ),
        Fact("Versions", ", ".join(f"{name} {value}" for name, value in versions.items())),
        Fact("Python", f"{fit.provenance.get('python')} on {fit.provenance.get('machine')}"),
    ]
