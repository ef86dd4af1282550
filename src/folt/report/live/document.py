"""All live figures of a page as one Bokeh document, and the draws that its choosers show."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.style import PALETTE
from folt.fit.text import number
from folt.report.charts import BARS, ROOM, Chart, Side
from folt.report.parameters import Parameters
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from folt.fit.text import Estimate

DOCUMENT = "report"


@dataclasses.dataclass(frozen=True)
class Live:
    """What a page needs to be live.

    Attributes:
        library: BokehJS, to stand in the page.
        document: the plots as JSON.
        draws: what the choosers show, as JSON.
        places: identifiers of the elements that hold the plots.
    """

    library: str
    document: str
    draws: str
    places: frozenset[str]


def live(parameters: Parameters, rows: list[Estimate], charts: list[Chart]) -> Live:
    """Return the live figures of a fit.

    Args:
        parameters: its draws, thinned.
        rows: its estimates, one per scalar that varies.
        charts: other quantities; those without marks are not drawn.
    """
    from bokeh.document import Document
    from bokeh.resources import Resources

    from folt.report.live.chains import chain_plots, pair_plots
    from folt.report.live.charts import chart_plot

    plots = {
        **chain_plots(parameters.sides),
        **pair_plots(parameters.sides),
        **{f"plot-{chart.name}": chart_plot(chart) for chart in charts if chart.marks},
    }
    document = Document(title="")
    for made in plots.values():
        document.add_root(made)
    items = {
        "documents": {DOCUMENT: document.to_json(deferred=False)},
        "roots": {made.id: place for place, made in plots.items()},
    }
    return Live(
        library="\n".join(Resources(mode="inline", components=["bokeh"], log_level="warn").js_raw),
        document=_in_script(_renumbered(_as_json(items))),
        draws=_in_script(_as_json(_draws(parameters, rows))),
        places=frozenset(plots),
    )


def _draws(parameters: Parameters, rows: list[Estimate]) -> Document:
    """Thinned draws and histograms of every scalar, and its estimate in words."""
    words = {
        row.name: f"{number(row.mean, row.digits)} ({number(row.low, row.digits)} to "
        f"{number(row.high, row.digits)})"
        for row in rows
    }
    centre = parameters.folded.flat.mean(axis=0)
    centre = np.where(np.isfinite(centre), centre, 0.0)
    return {
        "palette": PALETTE,
        "names": parameters.names,
        "families": [family.members for family in parameters.families],
        "words": [words.get(name, "the same in every draw") for name in parameters.names],
        "centre": centre.tolist(),
        "room": ROOM,
        "sides": {side.name: _side(side, centre) for side in parameters.sides},
    }


def _side(side: Side, centre: np.ndarray) -> Document:
    return {
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


def _as_json(tree: object) -> str:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def _renumbered(text: str) -> str:
    """Bokeh counts its models over the life of the process; a page counts its own from one.

    So the same fit gives the same page.
    """
    order: dict[str, str] = {}

    def replace(found: re.Match[str]) -> str:
        return f'{found[1]}"{order.setdefault(found[2], f"p{len(order) + 1}")}"'

    text = re.sub(r'("id":)"(p\d+)"', replace, text)
    return re.sub(r'([{,])"(p\d+)"(?=:"plot-)', replace, text)


def _in_script(text: str) -> str:
    """JSON that cannot end the script element that holds it."""
    return text.replace("<", "\\u003c")
