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
from folt.report.parameters import Parameters, Side
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.fit.text import Estimate

BARS = 60
"""Bars of a marginal histogram."""

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


def live(fit: Fit, parameters: Parameters, rows: list[Estimate]) -> Live:
    """The live figures of a fit.

    Args:
        fit: the fit.
        parameters: its draws, thinned.
        rows: its estimates, one per scalar.
    """
    from bokeh.document import Document
    from bokeh.resources import Resources

    from folt.report.live.certificate import certificate_plots
    from folt.report.live.chains import chain_plots, pair_plots

    plots = {
        **chain_plots(parameters),
        **pair_plots(parameters),
        **certificate_plots(fit.log_ratio, fit.certificate),
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
    centre = parameters.folded.flat.mean(axis=0)
    centre = np.where(np.isfinite(centre), centre, 0.0)
    sides = {"raw": parameters.raw, "folded": parameters.folded}
    return {
        "palette": PALETTE,
        "names": parameters.names,
        "families": [family.members for family in parameters.families],
        "words": [
            f"{number(row.mean, row.digits)} ({number(row.low, row.digits)} to "
            f"{number(row.high, row.digits)})"
            for row in rows
        ],
        "centre": centre.tolist(),
        "sides": {name: _side(side, centre) for name, side in sides.items() if side is not None},
    }


def _side(side: Side, centre: np.ndarray) -> Document:
    low, high = _ends(side.whole)
    shares = [
        np.histogram(column, bins=BARS, range=(start, end))[0] / max(column.size, 1)
        for column, start, end in zip(side.whole.T, low, high, strict=True)
    ]
    return {
        "every": side.every,
        "length": side.draws.shape[1],
        "count": side.draws.shape[0] * side.draws.shape[1],
        "values": _packed(side.flat.T - centre[:, None]),
        "low": low.tolist(),
        "high": high.tolist(),
        "bars": BARS,
        "shares": _packed(np.stack(shares)),
    }


def _ends(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where almost all of every column lies; a short interval about a value that never moved."""
    usable = np.where(np.isfinite(values), values, np.nan)
    known = np.where(np.isnan(usable).all(axis=0), 0.0, usable)
    low, high = np.nanquantile(known, [0.0005, 0.9995], axis=0)
    room = np.where(high > low, 0.0, 1e-3 * (1.0 + np.abs(low)))
    return low - room, high + room


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
