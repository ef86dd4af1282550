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
from folt.report.facts import headed_facts
from folt.report.files import write_whole
from folt.report.text import MISSING, estimate_rows, mark, number, seconds, tone, verdict_words

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
        "facts": headed_facts(fit),
        "wall": fit.wall,
        "total": sum(fit.wall.values()),
        "assumption": fit.certificate.assumption,
        "label_words": _label_words(fit),
    }


def _key_figures(fit: Fit) -> list[tuple[str, str, str]]:
    """The four numbers that a reader looks for: value, name, remark."""
    ess = float(fit.ess().min())
    evidence = fit.log_evidence
    return [
        (
            _steps(fit),
            "steps to forget the start",
            f"to total variation 0.05, with {100 * fit.certificate.mixing.confidence:.0f} % "
            "confidence",
        ),
        (f"{100.0 * fit.accept_rate:.1f} %", "accepted", "share of steps that moved"),
        (f"{ess:,.0f}", "effective draws", f"fewest of any coordinate, of {fit.accepted.size:,}"),
        (
            number(evidence.value, 3),
            "log evidence",
            f"standard error {number(evidence.standard_error, 4)}",
        ),
    ]


def _steps(fit: Fit) -> str:
    steps = fit.certificate.mixing.steps[0.05]
    return MISSING if steps is None else f"{steps:,}"


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
            "mixing",
            figures.mixing_figure(fit.certificate.mixing),
            "How far the law of the chain can be from the target after so many steps. The line "
            "holds with the stated confidence if the held-out draws are from the target; the "
            "dashes estimate it without promising.",
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


def _label_words(fit: Fit) -> str:
    if fit.labels == "sorted":
        return "Components are numbered by the sorted chamber that the posterior was folded onto."
    return "Components are numbered as the proposal finds likeliest."
