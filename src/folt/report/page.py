"""A fit as one self-contained HTML page.

Nothing is fetched: style, figures and scripts stand in the page, so it can be mailed, printed and
read in ten years. Every figure is there as a still picture; where scripts run, live ones take the
place of some.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from folt.certificate.face import mark, tone, verdict_words
from folt.certificate.outcomes import Use
from folt.fit.text import MISSING, cautions, estimate_rows, number, seconds
from folt.report import figures
from folt.report.captions import (
    Labelling,
    chains_caption,
    left_remark,
    pairs_caption,
    right_remark,
)
from folt.report.citation import bibtex
from folt.report.conclusions import conclusions
from folt.report.facts import (
    core_rows,
    evidence_facts,
    headed_facts,
    mixing_facts,
    provenance_facts,
)
from folt.report.figures.certificate import PROTOCOLS
from folt.report.parameters import EXCHANGED, Family, Parameters
from folt.store import write_whole
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from folt.fit import Fit
    from folt.fit.section import Section

TEMPLATE = "page.html.j2"

MOST_CURVES = 36
"""Curves among the marginals of a page; each takes some ten thousand bytes."""


def write_page(fit: Fit, path: Path, sections: Sequence[Section] = ()) -> Path:
    """Write the report; an existing file is replaced only by a complete one.

    Raises:
        ValueError: the path cannot be written.
    """
    return write_whole(Path(path), page(fit, sections).encode())


def page(fit: Fit, sections: Sequence[Section] = ()) -> str:
    """The report as HTML.

    Args:
        fit: the fit.
        sections: what the model adds, after the estimates; what the fit brings if none are given.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("folt", "report/template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, seconds=seconds, thousands="{:,.0f}".format)
    return environment.get_template(TEMPLATE).render(content(fit, sections))


def content(fit: Fit, sections: Sequence[Section] = ()) -> Document:
    """Everything the template shows, as plain values."""
    from markupsafe import Markup

    from folt.report.live import live

    status = fit.certificate.status
    parameters, labelling = Parameters.of(fit), Labelling.of(fit)
    shown, more = _marginals(parameters)
    rows = estimate_rows(fit)
    total = sum(fit.wall.values())
    return {
        "title": f"folt report: {status.name}",
        "eyebrow": _eyebrow(fit),
        "tone": tone(status),
        "mark": mark(status),
        "verdict": verdict_words(status),
        "advice": status.advice,
        "cure": "" if status.outcome.use is Use.EVERYTHING else status.cure,
        "warnings": cautions(fit),
        "conclusions": conclusions(fit),
        "assumption": fit.certificate.assumption,
        "key_figures": _key_figures(fit),
        "rows": rows,
        "label_words": _label_words(fit),
        "sections": [
            (section.title, Markup(section.drawing(f"section-{k}")), section.text)
            for k, section in enumerate(sections or fit.sections)
        ],
        "still": _stills(fit, parameters, labelling),
        "marginals": shown,
        "more_marginals": more,
        "guard_words": _guard_words(fit),
        "words": _words(fit, parameters, labelling),
        "parameters": parameters,
        "first_family": parameters.families.index(parameters.opening()),
        "pair": parameters.showcase()[:2],
        "left_out": _left_out(parameters),
        "palette": figures.PALETTE,
        "protocols": [PROTOCOLS.get(name, name) for name in fit.certificate.qc],
        "confidence": f"{100 * fit.certificate.mixing.confidence:.0f} %",
        "core_words": _core_words(fit),
        "cores": core_rows(fit),
        "mixing": mixing_facts(fit),
        "evidence": evidence_facts(fit),
        "facts": headed_facts(fit),
        "wall": [(name, wall, wall / total if total else 0.0) for name, wall in fit.wall.items()],
        "total": total,
        "provenance": provenance_facts(fit),
        "bibtex": bibtex(fit),
        "live": live(fit, parameters, rows),
    }


def _key_figures(fit: Fit) -> list[tuple[str, str, str]]:
    """The four numbers that a reader looks for: value, name, remark."""
    ess = float(fit.ess().min())
    evidence = fit.log_evidence
    confidence = f"{100 * fit.certificate.mixing.confidence:.0f} %"
    return [
        (
            _steps(fit),
            "steps to forget the start",
            f"any probability then off by at most 0.05, with {confidence} confidence",
        ),
        (f"{100.0 * fit.accept_rate:.1f} %", "accepted", "share of steps that moved"),
        (
            f"{ess:,.0f}",
            "effective draws",
            f"independent draws that the {fit.accepted.size:,} are worth, at least",
        ),
        (
            number(evidence.value, 2),
            "log evidence",
            f"standard error {number(evidence.standard_error, 4)}",
        ),
    ]


def _steps(fit: Fit) -> str:
    steps = fit.certificate.mixing.steps[0.05]
    return MISSING if steps is None else f"{steps:,}"


def _stills(fit: Fit, parameters: Parameters, labelling: Labelling | None) -> dict[str, Markup]:
    """The pictures that need no script, by name."""
    drawn = {
        "traces": _traces(fit, parameters, labelling),
        "pairs": _pairs(parameters),
        "mixing": figures.mixing_figure(fit.certificate.mixing),
        "log-ratio": figures.log_ratio_figure(fit.log_ratio, fit.certificate),
        "gamma": figures.gamma_figure(fit.certificate),
    }
    return {name: _still(figure, name) for name, figure in drawn.items()}


def _still(figure: Figure, name: str) -> Markup:
    from markupsafe import Markup

    return Markup(figures.svg(figure, name))


def _marginals(parameters: Parameters) -> tuple[list[Markup], dict[str, list[Markup]]]:
    """A small picture per parameter and column, the first few, and the others by parameter."""
    shown: list[Markup] = []
    more: dict[str, list[Markup]] = {}
    for k, family in enumerate(_drawn_marginals(parameters)):
        values = parameters.folded.whole[:, list(family.members)]
        title = family.label.split(":")[0] if not family.single else family.label
        drawn = _still(figures.marginals_figure({title: values[None]}, key=False), f"marginal-{k}")
        if k < figures.PANELS:
            shown.append(drawn)
        else:
            more.setdefault(family.parameter, []).append(drawn)
    return shown, more


def _traces(fit: Fit, parameters: Parameters, labelling: Labelling | None) -> Figure:
    family = parameters.opening()
    members = list(family.members)
    folded = ("Folded: the draws of this fit", right_remark(fit))
    raw = (f"Not folded: {parameters.raw_kind}", left_remark(labelling))
    both = [(parameters.raw, raw), (parameters.folded, folded)]
    sides = [(side, title) for side, title in both if side is not None]
    return figures.traces_figure(
        [side.draws[..., members] for side, _ in sides],
        [side.whole[:, members] for side, _ in sides],
        [parameters.names[j] for j in members],
        [title for _, title in sides],
        "value" if family.parameter == EXCHANGED else family.parameter,
    )


def _pairs(parameters: Parameters) -> Figure:
    chosen = parameters.showcase()
    raw = None if parameters.raw is None else parameters.raw.flat[:, chosen]
    names = [parameters.names[j] for j in chosen]
    return figures.pairs_figure(parameters.folded.flat[:, chosen], raw, names)


def _words(fit: Fit, parameters: Parameters, labelling: Labelling | None) -> dict[str, str]:
    """What each side is, what to see in it, and what its pictures leave out."""
    folded, raw = parameters.folded, parameters.raw
    shown = [f"{folded.flat.shape[0]:,} of the {folded.whole.shape[0]:,} draws of this fit"]
    if raw is not None:
        shown.append(f"{raw.flat.shape[0]:,} draws of the {parameters.raw_kind}")
    return {
        "raw": parameters.raw_kind,
        "left": left_remark(labelling).capitalize(),
        "right": right_remark(fit).capitalize(),
        "chains": chains_caption(fit, labelling),
        "pairs": pairs_caption(fit, labelling),
        "thinned": f"Pictured are {' and '.join(shown)}.",
    }


def _drawn_marginals(parameters: Parameters) -> list[Family]:
    """As many as keep the page light."""
    panels = parameters.panels()
    curves = np.cumsum([len(family.members) for family in panels])
    return panels[: max(1, int(np.sum(curves <= MOST_CURVES)))]


def _left_out(parameters: Parameters) -> str:
    count, drawn = len(parameters.panels()), len(_drawn_marginals(parameters))
    if count <= figures.PANELS and drawn == count:
        return ""
    below = "; others open below" if drawn > figures.PANELS else ""
    rest = "" if drawn == count else ". The table and the chooser of the chains have all"
    return f"The first {min(drawn, figures.PANELS)} of {count} are shown{below}{rest}."


def _core_words(fit: Fit) -> str:
    width = fit.certificate.qc["target"][0.05].osc
    return "no core" if width is None else f"core holding 95 %, width C = {number(width, 2)}"


def _guard_words(fit: Fit) -> str:
    weight = fit.certificate.safety.weight
    if weight == 0.0:
        return ""
    return (
        f"At small ρ the proposal's core is widened by its tail safety, which makes {weight:g} of "
        "the proposals."
    )


def _eyebrow(fit: Fit) -> str:
    chains, draws, dim = fit.draws.shape
    order = fit.group.order
    folded = "nothing to fold" if order == 1 else f"{order:,} labellings folded into one"
    dimensions = "1 dimension" if dim == 1 else f"{dim:,} dimensions"
    return f"folt report · {folded} · {chains} chains of {draws:,} draws in {dimensions}"


def _label_words(fit: Fit) -> str:
    if fit.labels == "sorted":
        return "Components are numbered by the sorted chamber that the posterior was folded onto."
    return "Components are numbered as the proposal finds likeliest."
