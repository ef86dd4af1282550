"""A fit as one self-contained HTML page.

Nothing is fetched: style, figures and scripts stand in the page, so it can be mailed, printed and
read in ten years. Every figure is a picture; where scripts run, traces and pairs can be chosen.
The words of the page are in its templates, those that depend on the numbers in `captions`.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from folt.certificate.outcomes import Use
from folt.certificate.sentences import mark, tone, undefined_words, verdict_words
from folt.fit.text import (
    NOT_AVAILABLE,
    Estimate,
    caution_word,
    cautions,
    constant_words,
    estimate_rows,
    fewest_effective_draws,
    left_out_words,
    order_sentence,
    rounded_number,
    rounded_seconds,
    rows_of,
    shape_words,
    shortened,
    step_words,
)
from folt.problem.cards import counted, folding
from folt.report.captions import chains_caption, conclusions, pairs_caption
from folt.report.charts import CORE_SOURCES, certificate_charts, strips
from folt.report.marginals import PANELS, family_colours, marginals_figure, pairs_figure
from folt.report.parameters import EXCHANGED, Parameters, readable_names, readable_order
from folt.report.rendering import render
from folt.report.sections import failed_words, model_sections
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

MOST_SCALARS = 200
"""Scalars of a page, in its table and its pictures; each takes some three thousand bytes."""

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
    return render(
        "page.html.j2",
        content(fit, sections),
        number=rounded_number,
        percent=_percent,
        seconds=rounded_seconds,
        thousands=_thousands,
        value_and_error=_value_and_error,
    )


def content(fit: Fit, sections: Sequence[Section] = ()) -> Document:
    """Return what the template shows: the fit, pictures of it, and the words it is told in."""
    from markupsafe import Markup

    status, short, every = fit.certificate.status, _shortened(fit), estimate_rows(fit)
    parameters, readable = Parameters.of(short), readable_names(short)
    found = rows_of(every, short.posterior, fit)
    rows = [dataclasses.replace(row, name=readable[row.name]) for row in found]
    shown, more, left_out = _marginals(parameters)
    source = fit.provenance.get("source") or "folt report"
    return {
        "fit": fit,
        "certificate": fit.certificate,
        "title": f"{source}: {status.name}",
        "source": source,
        "folding": folding(fit.group),
        "tone": tone(status),
        "mark": mark(status),
        "verdict": verdict_words(status),
        "status": status,
        "cure": "" if status.outcome.use is Use.EVERYTHING else status.cure,
        "warnings": cautions(fit),
        "warning_word": caution_word(fit),
        "conclusions": conclusions(fit),
        "fewest": fewest_effective_draws(fit, every),
        "rows": rows,
        "rows_left_out": f"{left_out_words(every, found)} {constant_words(short, found)}".strip(),
        "label_words": f"{readable_order(fit, order_sentence(fit))}." if fit.order else "",
        "sections": [
            (section.title, Markup(section.drawing(f"section-{k}")), section.text)
            for k, section in enumerate([*(sections or fit.sections), *model_sections(fit)])
        ],
        "still": {
            "traces": _picture(lambda: traces_of(parameters), "traces"),
            "pairs": _picture(lambda: pairs_of_parameters(parameters), "pairs"),
        },
        "charts": {
            chart.name: (chart, strips(chart), Markup(svg(chart.figure, chart.name)))
            for chart in certificate_charts(fit)
        },
        "marginals": shown,
        "more_marginals": more,
        "left_out": left_out,
        "captions": {
            "chains": chains_caption(fit, parameters.labelling),
            "pairs": pairs_caption(fit, parameters.labelling),
        },
        "parameters": parameters,
        "first_family": parameters.families.index(parameters.opening()),
        "pair": parameters.showcase()[:2],
        "draws": Markup(_chosen_from(parameters, rows)),
        "absent": NOT_AVAILABLE,
        "core_sources": CORE_SOURCES,
        "counted": counted,
        "group_name": type(fit.group).__name__,
        "shape_words": shape_words,
        "step_words": step_words,
        "undefined_words": undefined_words,
    }


def _shortened(fit: Fit) -> Fit:
    """Return the fit with as many scalars as a page can hold; large arrays are cut."""
    kept = shortened(fit, MOST_SCALARS)
    raw = fit.reference.raw_posterior
    if kept is fit.posterior:
        return fit
    if raw is not None and set(raw) == set(fit.posterior):
        ends = {name: tuple(map(slice, values.shape[2:])) for name, values in kept.items()}
        raw = {name: raw[name][(slice(None), slice(None), *end)] for name, end in ends.items()}
    reference = dataclasses.replace(fit.reference, raw_posterior=raw)
    return dataclasses.replace(fit, posterior=kept, reference=reference)


def _percent(share: float | None, digits: int = 1) -> str:
    return "unknown" if share is None else f"{100 * share:.{digits}f} %"


def _thousands(count: float) -> str:
    """Return a count with its thousands apart; a whole number may be larger than any float."""
    if isinstance(count, int):
        return f"{count:,}"
    return f"{count:,.0f}" if math.isfinite(count) else NOT_AVAILABLE


def _value_and_error(found: Any, digits: int) -> str:
    """Return an estimate that has a `value` and a `standard_error`."""
    return f"{rounded_number(found.value, digits)} ± {rounded_number(found.standard_error, digits)}"


def _picture(make: Callable[[], Figure], name: str) -> Markup:
    """Return a picture, or a sentence in its place where it cannot be made: the page goes on."""
    from markupsafe import Markup

    try:
        return Markup(svg(make(), name))
    except Exception as error:
        return Markup("<p>{}</p>").format(failed_words(name, error))


def traces_of(parameters: Parameters) -> Figure:
    """Draw traces of what labels are sorted by, before and after folding."""
    family = parameters.opening()
    names = [parameters.names[j] for j in family.members]
    quantity = "value" if family.parameter == EXCHANGED else family.parameter
    return traces_figure(parameters.sides, family.members, names, quantity)


def pairs_of_parameters(parameters: Parameters) -> Figure:
    """Draw a few scalars in pairs, folded below the diagonal and as they came above it."""
    chosen = parameters.showcase()
    return pairs_figure(parameters.sides, chosen, [parameters.names[j] for j in chosen])


def _marginals(parameters: Parameters) -> tuple[list[Markup], dict[str, list[Markup]], str]:
    """Draw one small picture per panel: the first few, others by parameter, what is left out.

    As many are drawn as keep the page light.
    """
    panels = parameters.panels()
    curves = np.cumsum([len(family.members) for family in panels])
    drawn = panels[: max(1, int(np.sum(curves <= MOST_CURVES)))]
    shown: list[Markup] = []
    more: dict[str, list[Markup]] = {}
    for k, family in enumerate(drawn):
        values = parameters.folded.whole[None][..., list(family.members)]
        one, colours = {family.title: values}, family_colours([family])
        draw = functools.partial(marginals_figure, one, colours=colours, key=False)
        made = _picture(draw, f"marginal-{k}")
        (shown if k < PANELS else more.setdefault(family.parameter, [])).append(made)
    if len(panels) == len(shown):
        return shown, more, ""
    below = "; others open below" if more else ""
    rest = "" if len(drawn) == len(panels) else ". The chooser of the chains has the rest"
    return shown, more, f"The first {len(shown)} of {len(panels)} are shown{below}{rest}."


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
