"""A fit as one self-contained HTML page.

Nothing is fetched: style, figures and scripts stand in the page, so it can be mailed, printed and
read in ten years. Every figure is a picture; where scripts run, traces and pairs can be chosen.

How to cite the method and the software.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from folt.certificate.certificate import mark, tone, verdict_words
from folt.certificate.outcomes import Use
from folt.fit.text import (
    Estimate,
    cautions,
    estimate_rows,
    fewest_effective_draws,
    order_sentence,
    rounded_number,
    rounded_seconds,
    step_words,
)
from folt.problem.cards import counted, folding
from folt.report.captions import chains_caption, conclusions, pairs_caption
from folt.report.certificate import certificate_charts
from folt.report.charts import Chart, still, strips
from folt.report.facts import (
    core_rows,
    evidence_facts,
    headed_facts,
    mixing_facts,
    provenance_facts,
)
from folt.report.marginals import PANELS, marginals_figure, pairs_figure
from folt.report.parameters import EXCHANGED, Family, Parameters, readable_names, readable_order
from folt.report.rendering import render
from folt.report.sections import model_sections
from folt.report.style import PALETTE, svg
from folt.report.traces import BARS, ROOM, Side, traces_figure
from folt.store import write_whole
from folt.store.packages import require
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from folt.fit import Fit
    from folt.fit.section import Section


PAPER_ENTRY = """\
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
    return f"{PAPER_ENTRY}\n\n{SOFTWARE.format(version=version)}"


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
    require("a report", "jinja2", "matplotlib")
    shown = content(fit, sections)
    return render(
        _TEMPLATE, shown, number=rounded_number, seconds=rounded_seconds, thousands="{:,.0f}".format
    )


def content(fit: Fit, sections: Sequence[Section] = ()) -> Document:
    """Return everything the template shows, as plain values."""
    from markupsafe import Markup

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
        "still": {
            "traces": _picture(traces_of(parameters), "traces"),
            "pairs": _picture(pairs_of_parameters(parameters), "pairs"),
        },
        "charts": {chart.name: _drawn(chart) for chart in charts},
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
        "draws": Markup(_chosen_from(parameters, rows)),
    }


def _key_figures(fit: Fit, rows: Sequence[Estimate]) -> list[tuple[str, str, str]]:
    """Return the four numbers that a reader looks for: value, name, remark."""
    ess = fewest_effective_draws(fit, rows)
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
            rounded_number(evidence.value, 2),
            "log evidence",
            f"standard error {rounded_number(evidence.standard_error, 4)}"
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


def _drawn(chart: Chart) -> Document:
    """Return a chart with its picture and the strips over it."""
    figure = still(chart)
    return {
        "about": chart,
        "picture": _picture(figure, chart.name),
        "strips": strips(chart, figure),
    }


def _picture(figure: Figure, name: str) -> Markup:
    from markupsafe import Markup

    return Markup(svg(figure, name))


def _chosen_from(parameters: Parameters, rows: list[Estimate]) -> str:
    """Return what the choosers show, as JSON that cannot end the script element that holds it."""
    words = {
        row.name: f"{rounded_number(row.mean, row.digits)} "
        f"({rounded_number(row.low, row.digits)} to {rounded_number(row.high, row.digits)})"
        for row in rows
    }
    centre = parameters.folded.flat.mean(axis=0)
    centre = np.where(np.isfinite(centre), centre, 0.0)
    tree = {
        "palette": PALETTE,
        "names": parameters.names,
        "families": [family.members for family in parameters.families],
        "words": [words.get(name, "the same in every draw") for name in parameters.names],
        "centre": centre.tolist(),
        "room": ROOM,
        "sides": {side.name: _packed_side(side, centre) for side in parameters.sides},
    }
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _packed_side(side: Side, centre: np.ndarray) -> Document:
    return {
        "axis": side.axis,
        "every": side.every,
        "length": side.draws.shape[1],
        "count": len(side.flat),
        "values": _packed(side.flat.T - centre[:, None]),
        "low": side.histograms.low.tolist(),
        "high": side.histograms.high.tolist(),
        "bars": BARS,
        "shares": _packed(side.histograms.shares),
    }


def _packed(values: np.ndarray) -> str:
    """Single precision, little-endian, row after row: about the mean that is more than enough."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def _marginals(parameters: Parameters) -> tuple[list[Markup], dict[str, list[Markup]]]:
    """A small picture per parameter and column, the first few, and the others by parameter."""
    shown: list[Markup] = []
    more: dict[str, list[Markup]] = {}
    for k, family in enumerate(_drawn_marginals(parameters)):
        values = parameters.folded.whole[:, list(family.members)]
        title = family.label.split(":")[0] if not family.single else family.label
        drawn = _picture(marginals_figure({title: values[None]}, key=False), f"marginal-{k}")
        if k < PANELS:
            shown.append(drawn)
        else:
            more.setdefault(family.parameter, []).append(drawn)
    return shown, more


def pairs_of_parameters(parameters: Parameters) -> Figure:
    """Return a few scalars in pairs, folded below the diagonal and as they came above it."""
    chosen = parameters.showcase()
    return pairs_figure(parameters.sides, chosen, [parameters.names[j] for j in chosen])


def traces_of(parameters: Parameters) -> Figure:
    """Traces of what labels are sorted by, before and after folding."""
    family = parameters.opening()
    names = [parameters.names[j] for j in family.members]
    quantity = "value" if family.parameter == EXCHANGED else family.parameter
    return traces_figure(parameters.sides, family.members, names, quantity)


def _drawn_marginals(parameters: Parameters) -> list[Family]:
    """As many as keep the page light."""
    panels = parameters.panels()
    curves = np.cumsum([len(family.members) for family in panels])
    return panels[: max(1, int(np.sum(curves <= MOST_CURVES)))]


def _left_out(parameters: Parameters) -> str:
    count, drawn = len(parameters.panels()), len(_drawn_marginals(parameters))
    if count <= PANELS and drawn == count:
        return ""
    below = "; others open below" if drawn > PANELS else ""
    rest = "" if drawn == count else ". The table and the chooser of the chains have all"
    return f"The first {min(drawn, PANELS)} of {count} are shown{below}{rest}."


def _eyebrow(fit: Fit) -> str:
    chains, draws, dim = fit.draws.shape
    made = f"{counted(chains, 'chain')} of {draws:,} draws in {counted(dim, 'dimension')}"
    source = fit.provenance.get("source") or "folt report"
    return f"{source} · {folding(fit.group)} · {made}"


def _label_words(fit: Fit) -> str:
    return f"{readable_order(fit, order_sentence(fit))}." if fit.order else ""
