"""A fit as one self-contained HTML page.

Nothing is fetched: style and figures stand in the page, so it can be mailed, printed and read in
ten years.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from folt.report import figures
from folt.report.files import write_whole
from folt.report.text import estimate_rows, mark, number, seconds, tone, verdict_words

if TYPE_CHECKING:
    from folt.fit import Fit

TEMPLATE = "template.html.j2"
WIDE = ("chains", "marginals")
"""Figures that take the width of the page; the others stand in pairs."""


def write_page(fit: Fit, path: Path) -> Path:
    """Write the report; an existing file is replaced only by a complete one.

    Raises:
        ValueError: the path cannot be written.
    """
    return write_whole(Path(path), page(fit).encode())


def page(fit: Fit) -> str:
    """The report as HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("folt", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, seconds=seconds)
    return environment.get_template(TEMPLATE).render(content(fit))


def content(fit: Fit) -> dict[str, Any]:
    """Everything the template shows, as plain values."""
    status = fit.certificate.status
    return {
        "title": f"folt report: {status.name}",
        "tone": tone(status),
        "mark": mark(status),
        "verdict": verdict_words(status),
        "advice": status.advice,
        "warnings": fit.reference.warnings,
        "rows": estimate_rows(fit),
        "key_figures": _key_figures(fit),
        "figures": _figures(fit),
        "facts": _facts(fit),
        "wall": fit.wall,
        "total": sum(fit.wall.values()),
        "assumption": fit.certificate.assumption,
        "label_words": _label_words(fit),
    }


def _key_figures(fit: Fit) -> list[tuple[str, str, str]]:
    """The four numbers that a reader looks for: value, name, remark."""
    ess = float(fit.ess().min())
    evidence = fit.log_evidence
    core = fit.certificate.qc["target"][0.05]
    return [
        (f"{100.0 * fit.accept_rate:.1f} %", "accepted", "share of steps that moved"),
        (f"{ess:,.0f}", "effective draws", f"fewest of any coordinate, of {fit.accepted.size:,}"),
        (
            number(evidence.value, 3),
            "log evidence",
            f"standard error {number(evidence.standard_error, 4)}",
        ),
        (number(core.gamma, 3), "γ at ρ = 0.05", "the paper's diagnostic, not a bound"),
    ]


def _figures(fit: Fit) -> list[dict[str, Any]]:
    """Figures as SVG with what they show in words."""
    from markupsafe import Markup

    raw, raw_title, origin = _unfolded(fit)
    drawn = [
        (
            "chains",
            figures.traces_figure(raw, fit.draws, fit.names, raw_title),
            f"Left: {origin}. Right: the chains of this fit on the fundamental domain, where every "
            "colour keeps its meaning. Problem coordinates; those that folding changes most.",
        ),
        (
            "marginals",
            figures.marginals_figure(fit.posterior),
            f"Posterior marginals. {_left_out(fit)}".strip(),
        ),
        (
            "log-ratio",
            figures.log_ratio_figure(fit.log_ratio, fit.certificate),
            "The log ratio of target and proposal along the chains. The shaded interval was found "
            "on held-out draws; the narrower it is, the more nearly the draws are independent.",
        ),
        (
            "gamma",
            figures.gamma_figure(fit.certificate),
            "γ in the two protocols of the paper, against the share of draws left out. It "
            "describes the fit over the core; it does not bound the running chain.",
        ),
    ]
    return [
        {
            "wide": name in WIDE,
            "svg": Markup(figures.svg(figure, name)),
            "caption": caption,
        }
        for name, figure, caption in drawn
    ]


def _unfolded(fit: Fit) -> tuple[np.ndarray, str, str]:
    """What there is of an unfolded chain, named for what it is."""
    if fit.reference.raw is not None and fit.reference.raw.size:
        kind = "exact draws" if fit.reference.exact else "reference chains"
        return (
            fit.reference.raw,
            f"Not folded: {kind}",
            f"the {kind} as they came, under all labels",
        )
    return (
        fit.draws,
        "Not folded: nothing was kept",
        "no unfolded chain was kept, so the same draws",
    )


def _left_out(fit: Fit) -> str:
    shown = dict(list(fit.posterior.items())[: figures.PANELS])
    widest = max(math.prod(values.shape[2:]) for values in shown.values())
    if len(shown) == len(fit.posterior) and widest <= len(figures.PALETTE):
        return "The bar is the 95 % interval, its dot the mean."
    return (
        f"The first {figures.PANELS} parameters and {len(figures.PALETTE)} components of each; "
        "the table has all."
    )


def _facts(fit: Fit) -> list[tuple[str, list[tuple[str, str]]]]:
    """Headed lists of named values."""
    certificate, evidence, reference = fit.certificate, fit.log_evidence, fit.reference
    chains, draws, dim = fit.draws.shape
    versions = fit.provenance.get("versions", {})
    return [
        (
            "Evidence",
            [
                ("log Z", f"{number(evidence.value)} ± {number(evidence.standard_error)}"),
                ("Counted", f"all {fit.group.order:,} labellings, once each"),
                (
                    "Pareto k̂",
                    f"{number(evidence.pareto_k, 2)} (the error is to be believed below 0.7)",
                ),
                ("Proposal draws", f"{evidence.draws:,}"),
            ],
        ),
        (
            "Certificate",
            [
                *(
                    (
                        f"γ, {protocol} draws",
                        f"{number(cores[0.05].gamma, 3)} "
                        f"(C = {number(cores[0.05].osc, 3)}, n = {cores[0.05].n:,.0f})",
                    )
                    for protocol, cores in certificate.qc.items()
                ),
                ("Range of h seen", number(certificate.full_osc, 3)),
                ("Spectral gap, at most", number(certificate.gap_upper, 3)),
                (
                    "Coverage",
                    f"{number(certificate.coverage, 3)} (1 unless the proposal misses mass)",
                ),
                ("Outside the support", f"{certificate.faults.outside_support:,} proposals"),
                ("Not a number", f"{certificate.faults.not_a_number:,} proposals"),
                ("Tail safety", f"{number(certificate.safety_weight, 3)} of the proposal"),
            ],
        ),
        (
            "Reference run",
            [
                ("Draws", f"{reference.draws:,}" + (", exact" if reference.exact else "")),
                ("Worst R-hat", number(reference.rhat, 3)),
                ("Smallest effective size", number(reference.ess, 0)),
                ("Held-out h are worth", f"{number(certificate.effective, 0)} independent draws"),
            ],
        ),
        (
            "Provenance",
            [
                ("Chains", f"{chains} × {draws:,} draws in {dim} dimensions"),
                ("Symmetry", f"{type(fit.group).__name__}, order {fit.group.order:,}"),
                ("Labels", fit.labels),
                ("Orbit", "whole" if fit.whole_orbit else "truncated to the identity"),
                ("Evaluations", ", ".join(f"{n:,} {kind}s" for kind, n in fit.evaluations.items())),
                ("Seed, preset", f"{fit.provenance.get('seed')}, {fit.provenance.get('preset')}"),
                ("Versions", ", ".join(f"{name} {value}" for name, value in versions.items())),
                ("Python", f"{fit.provenance.get('python')} on {fit.provenance.get('machine')}"),
            ],
        ),
    ]


def _label_words(fit: Fit) -> str:
    if fit.labels == "sorted":
        return "Components are numbered by the sorted chamber that the posterior was folded onto."
    return "Components are numbered as the proposal finds likeliest."
