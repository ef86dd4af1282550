"""The paragraph on the computation that a paper needs, with the numbers of a fit in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from folt.certificate.outcomes import Use
from folt.fit.text import effective_draws, estimate_rows, number
from folt.problem.faces import counted

if TYPE_CHECKING:
    from folt.fit.fit import Fit

CITATION = (
    "J. Hu, Folded Transport MCMC: Eliminating Label Switching by Sampling on a Fundamental Domain"
)


def methods(fit: Fit) -> str:
    """Model, symmetry, draws, certificate, evidence and citation, in a few sentences."""
    sentences = [_symmetry(fit), _draws(fit), _mixing(fit), _evidence(fit), _verdict(fit)]
    return " ".join(sentence for sentence in sentences if sentence)


def _symmetry(fit: Fit) -> str:
    version = fit.provenance.get("versions", {}).get("folt", "unknown")
    dim = counted(fit.group.dim, "dimension")
    sampled = (
        f"The posterior in {dim} was sampled with folt {version} (seed {_seed(fit)}; {CITATION})"
    )
    if fit.group.order == 1:
        return f"{sampled}."
    return (
        f"{sampled}. Its {fit.group.order:,} equivalent labellings were folded into one, in which "
        f"{fit.order}."
    )


def _seed(fit: Fit) -> str:
    return str(fit.provenance.get("seed", "unknown"))


def _draws(fit: Fit) -> str:
    chains, draws = fit.draws.shape[:2]
    rows = estimate_rows(fit)
    rhats = [row.rhat for row in rows if row.rhat is not None]
    worst = f" and split R-hat of at most {max(rhats):.3f}" if rhats else ""
    return (
        f"{counted(chains, 'chain')} of {draws:,} draws by independence Metropolis–Hastings with a "
        f"learned proposal summed over the labellings accepted {100 * fit.accept_rate:.1f} % of "
        f"the steps, with at least {effective_draws(fit, rows):,.0f} effective draws of every "
        f"parameter{worst}."
    )


def _mixing(fit: Fit) -> str:
    mixing = fit.certificate.mixing
    steps = mixing.steps.get(0.05)
    if steps is None:
        return ""
    return (
        f"The distance to the posterior in total variation was certified to be at most 0.05 after "
        f"{counted(steps, 'step')} with {100 * mixing.confidence:.0f} % confidence."
    )


def _evidence(fit: Fit) -> str:
    evidence = fit.log_evidence
    return (
        f"The log evidence is {number(evidence.value, 3)} (standard error "
        f"{number(evidence.standard_error, 3)}), every labelling counted once."
    )


def _verdict(fit: Fit) -> str:
    status = fit.certificate.status
    told = f"The verdict of the certificate is “{status.name}”"
    return f"{told}." if status.outcome.use is Use.EVERYTHING else f"{told}: {status.advice}"
