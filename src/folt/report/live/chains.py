"""Traces with their histograms and pairs; the page fills them when a parameter is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from bokeh.models import ColumnDataSource, NumeralTickFormatter, Plot, Range1d, Span

from folt.fit.style import PALETTE
from folt.report.charts import Side
from folt.report.live.plots import NEUTRAL, hover, plot

_TRACE = ("position", "height", "colour", "parameter", "value", "chain", "draw")
_BARS = ("width", "low", "high", "colour")
PAIR = ("x", "y", "horizontal", "vertical")
"""Columns that the page fills; those that a pointer reads stand last."""

HAIRLINE = {"line_color": NEUTRAL, "line_alpha": 0.5}

BELOW = 56
"""Pixels beneath trace and histogram alike, so that their vertical scales are one."""


def chain_plots(sides: Sequence[Side]) -> dict[str, Plot]:
    """Return a trace and its histogram for each side, all on one vertical scale."""
    made: dict[str, Plot] = {}
    values = Range1d(0, 1, name="range-value")
    for side in sides:
        length = len(side.flat)
        horizontal = Range1d(-0.01 * length, 1.01 * length)
        trace = plot(side.axis, "", x_range=horizontal, y_range=values)
        source = ColumnDataSource({column: [] for column in _TRACE}, name=f"trace-{side.name}")
        dots = trace.scatter(
            "position", "height", source=source, color="colour", size=4, alpha=0.75, line_color=None
        )
        for position in side.breaks:
            trace.add_layout(Span(location=position - 0.5, dimension="height", **HAIRLINE))
        hover(trace, _TRACE[-4:], dots)
        trace.xaxis.formatter = NumeralTickFormatter(format="0")
        trace.ygrid.visible = False
        trace.min_border_bottom = BELOW
        made[f"plot-trace-{side.name}"] = trace
        made[f"plot-margin-{side.name}"] = _margin(side.name, values)
    return made


def _margin(name: str, values: Range1d) -> Plot:
    margin = plot("share", "", y_range=values)
    source = ColumnDataSource({column: [] for column in _BARS}, name=f"margin-{name}")
    margin.quad(
        left=0,
        right="width",
        bottom="low",
        top="high",
        source=source,
        color="colour",
        alpha=0.45,
        line_color=None,
    )
    margin.axis.visible = False
    margin.ygrid.visible = False
    margin.x_range.start = 0
    margin.min_border_left = margin.min_border_right = 4
    margin.min_border_bottom = BELOW
    return margin


def pair_plots(sides: Sequence[Side]) -> dict[str, Plot]:
    """Return one pair of scalars for each side, on the same scales."""
    made: dict[str, Plot] = {}
    horizontal, vertical = Range1d(0, 1, name="range-x"), Range1d(0, 1, name="range-y")
    for side in sides:
        pair = plot("horizontal", "vertical", 340, horizontal, vertical)
        pair.xaxis.axis_label.name = f"label-x-{side.name}"
        pair.yaxis.axis_label.name = f"label-y-{side.name}"
        source = ColumnDataSource({column: [] for column in PAIR}, name=f"pair-{side.name}")
        colour = PALETTE[0] if side is sides[-1] else NEUTRAL
        dots = pair.scatter(
            "x", "y", source=source, color=colour, size=4.5, alpha=0.5, line_color=None
        )
        hover(pair, PAIR[-2:], dots)
        pair.xgrid.visible = True
        made[f"plot-pair-{side.name}"] = pair
    return made
