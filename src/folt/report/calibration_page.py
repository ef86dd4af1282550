"""A calibration as one page: what was found in words, ranks beside their band, tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from folt.report.rendering import render
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = "calibration.html.j2"

ACROSS = 3
"""Pictures in a row."""

ENOUGH = 100
"""Simulations below which the page says that only coarse faults would show."""

ERRORS = 3.0
"""Standard errors by which the mean ratio of evidence may differ from one."""


def calibration_page(found: Document) -> str:
    """The page as HTML, from the tree that `calibration.json` holds."""
    from markupsafe import Markup

    from folt.report.figures import svg

    outside = [name for name, one in found["quantities"].items() if not one["inside"]]
    joint = found["joint_p_value"] > 1 - found["band"]
    evidence = found["evidence"]
    good = joint and (evidence is None or abs(evidence["score"]) <= ERRORS)
    content = {
        "found": found,
        "tone": "good" if good else "bad",
        "mark": "✓" if good else "✗",
        "headline": _headline(good, found["finished"]),
        "outside": outside,
        "joint": joint,
        "percent": f"{100 * found['band']:g} %",
        "errors": ERRORS,
        "widest": max((max(one["high"]) for one in found["quantities"].values()), default=0.0),
        "figure": Markup(svg(ranks_figure(found["quantities"]), "ranks")),
    }
    return render(TEMPLATE, content)


def _headline(good: bool, finished: int) -> str:
    if good and finished < ENOUGH:
        return f"In {finished} simulations, too few to be sure, draws are as uncertain as they say"
    if good:
        return "Posterior draws are as uncertain as they say"
    return "Posterior draws are not as uncertain as they say"


def ranks_figure(quantities: dict[str, Document]) -> Figure:
    """Empirical minus uniform distribution of the ranks, one panel each, with the band."""
    from folt.report.figures import INK, LINE, PALETTE, blank, styled

    rows = max(1, math.ceil(len(quantities) / ACROSS))
    with styled():
        figure = blank(9.0, 1.9 * rows)
        axes = figure.subplots(rows, ACROSS, sharex=True, sharey=True, squeeze=False)
        for panel, (name, one) in zip(axes.flat, quantities.items(), strict=False):
            panel.fill_between(one["at"], one["low"], one["high"], color=LINE, alpha=0.6, lw=0)
            panel.axhline(0.0, color=INK, lw=0.6)
            colour = PALETTE[0] if one["inside"] else PALETTE[1]
            panel.plot(one["at"], one["difference"], color=colour)
            panel.set_title(name)
        for panel in list(axes.flat)[len(quantities) :]:
            panel.set_axis_off()
        figure.supxlabel("rank of the truth, as a share", fontsize=9)
        figure.supylabel("empirical - uniform", fontsize=9)
    return figure
