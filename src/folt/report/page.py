"""A fit as one self-contained HTML page.

Nothing is fetched: style, figures and scripts stand in the page, so it can be mailed, printed and
read in ten years. Every figure is there as a still picture; where scripts run, live ones take the
place of some.

How to cite the method and the software.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from folt.certificate.certificate import mark, tone, verdict_words
from folt.certificate.outcomes import Use
from folt.fit.text import (
    Estimate,
    cautions,
    effective_draws,
    estimate_rows,
    number,
    order_sentence,
    seconds,
    step_words,
)
from folt.problem.cards import counted, folding
from folt.report import figures
from folt.report.captions import chains_caption, conclusions, pairs_caption
from folt.report.certificate import certificate_charts
from folt.report.charts import Chart
from folt.report.facts import (
    core_rows,
    evidence_facts,
    headed_facts,
    mixing_facts,
    provenance_facts,
)
from folt.report.parameters import EXCHANGED, Family, Parameters, readable_names, readable_order
from folt.report.rendering import render
from folt.report.sections import model_sections
from folt.store import write_whole
from folt.store.packages import require
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from folt.fit import Fit
    from folt.fit.style import Section


PAPER = """\
@unpublished{hu-folded-transport,
  author = {Hu, Jun},
  title  = {Folded Transport {MCMC}: Eliminating Label Switching
            by Sampling on a Fundamental Domain},
  note   = {Wuhan University of Technology}
}"""

SOFTWARE = """\
@software{{folt,
  author  = {{{{The folt developers}}}},
  title   = {{folt: sampling, certificates and evidence for
             posteriors that repeat themselves under relabelling}},
  version = {{{version}}}
}}"""


def bibtex(fit: Fit) -> str:
    """Return the paper, and the version of folt that made the fit."""
    version = fit.provenance.get("versions", {}).get("folt", "unknown")
    return f"{PAPER}\n\n{SOFTWARE.format(version=version)}"


_TEMPLATE = "page.html.j2"

MOST_CURVES = 36
"""Curves among the marginals of a page; each takes some ten thousand bytes."""


def write_page(fit: Fit, path: Path, sections: Sequence[Section] = ()) -> Path:
    """Write the report; an existing file is replaced only by a complete one.

    Raises:
        ValueError: the path cannot be written.
    """
    return write_whole(Path(path), page(fit, sections).encode())


def page(fit: Fit, sections: Sequence[Section] = ()) -> str:
    """Return the report as HTML.

    Args:
        fit: the fit.
        sections: what the model adds, after the estimates; what the fit brings if none are given.
    """
    require("a report", "bokeh", "jinja2", "matplotlib")
    shown = content(fit, sections)
    return render(_TEMPLATE, shown, number=number, seconds=seconds, thousands="{:,.0f}".format)


def content(fit: Fit, sections: Sequence[Section] = ()) -> Document:
    """Return everything the template shows, as plain values."""
    from markupsafe import Markup

    from folt.report.live import live

    status = fit.certificate.status
    parameters, charts = Parameters.of(fit), certificate_charts(fit)
    shown, more = _marginals(parameters)
    readable = readable_names(fit)
    rows = [dataclasses.replace(row, name=readable[row.name]) for row in estimate_rows(fit)]
    total = sum(fit.wall.values())
    return {
        "title": f"{fit.provenance.get('source') or 'folt report'}: {status.name}",
        "eyebrow": _eyebrow(fit),
        "tone": tone(status),
        "mark": mark(status),
        "verdict": verdict_words(status),
        "advice": status.advice,
        "cure": "" if status.outcome.use is Use.EVERYTHING else status.cure,
        "command": status.command,
        "warnings": cautions(fit),
        "conclusions": conclusions(fit),
        "assumption": fit.certificate.assumption,
        "key_figures": _key_figures(fit, rows),
        "rows": rows,
        "label_words": _label_words(fit),
        "sections": [
            (section.title, Markup(section.drawing(f"section-{k}")), section.text)
            for k, section in enumerate([*(sections or fit.sections), *model_sections(fit)])
        ],
        "still": _stills(parameters, charts),
        "charts": {chart.name: chart for chart in charts},
        "marginals": shown,
        "more_marginals": more,
        "captions": {
            "chains": chains_caption(fit, parameters.labelling),
            "pairs": pairs_caption(fit, parameters.labelling),
        },
        "parameters": parameters,
        "first_family": parameters.families.index(parameters.opening()),
        "pair": parameters.showcase()[:2],
        "left_out": _left_out(parameters),
        "cores": core_rows(fit),
        "mixing": mixing_facts(fit),
        "evidence": evidence_facts(fit),
        "facts": headed_facts(fit),
        "wall": [(name, wall, wall / total if total else 0.0) for name, wall in fit.wall.items()],
        "total": total,
        "provenance": provenance_facts(fit),
        "bibtex": bibtex(fit),
        "live": live(parameters, rows, charts),
    }


def _key_figures(fit: Fit, rows: Sequence[Estimate]) -> list[tuple[str, str, str]]:
    """Return the four numbers that a reader looks for: value, name, remark."""
    ess = effective_draws(fit, rows)
    evidence = fit.log_evidence
    return [
        _steps(fit),
        (f"{100.0 * fit.accept_rate:.1f} %", "accepted", "share of steps that moved"),
        (
            f"{ess:,.0f}",
            "effective draws",
            f"independent draws that the {fit.accepted.size:,} are worth, at least",
        ),
        (
            number(evidence.value, 2),
            "log evidence",
            f"standard error {number(evidence.standard_error, 4)}"
            + (", up to a constant" if evidence.proportional else ""),
        ),
    ]


def _steps(fit: Fit) -> tuple[str, str, str]:
    mixing = fit.certificate.mixing
    remark = mixing.reason or ""
    if mixing.steps[0.05] is not None:
        confidence = f"{100 * mixing.confidence:.0f} %"
        remark = f"any probability then off by at most 0.05, with {confidence} confidence"
    return step_words(mixing, 0.05), "steps to forget the start", remark


def _stills(parameters: Parameters, charts: list[Chart]) -> dict[str, Markup]:
    """Return the pictures that need no script, by name."""
    drawn = {
        "traces": traces_of(parameters),
        "pairs": pairs_of(parameters),
        **{chart.name: figures.still(chart) for chart in charts},
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


def pairs_of(parameters: Parameters) -> Figure:
    """Return a few scalars in pairs, folded below the diagonal and as they came above it."""
    chosen = parameters.showcase()
    return figures.pairs_figure(parameters.sides, chosen, [parameters.names[j] for j in chosen])


def traces_of(parameters: Parameters) -> Figure:
    """Traces of what labels are sorted by, before and after folding."""
    family = parameters.opening()
    names = [parameters.names[j] for j in family.members]
    quantity = "value" if family.parameter == EXCHANGED else family.parameter
    return figures.traces_figure(parameters.sides, family.members, names, quantity)


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


def _eyebrow(fit: Fit) -> str:
    chains, draws, dim = fit.draws.shape
    made = f"{counted(chains, 'chain')} of {draws:,} draws in {counted(dim, 'dimension')}"
    source = fit.provenance.get("source") or "folt report"
    return f"{source} · {folding(fit.group)} · {made}"


def _label_words(fit: Fit) -> str:
    return f"{readable_order(fit, order_sentence(fit))}." if fit.order else ""
