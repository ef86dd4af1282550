"""Traces with their histograms and pairs; the page fills them when a parameter is chosen."""

from __future__ import annotations

from bokeh.models import ColumnDataSource, NumeralTickFormatter, Range1d

from folt.fit.style import PALETTE
from folt.report.live.plots import NEUTRAL, Plot, hover, plot
from folt.report.parameters import Parameters, Side

TRACE = ("position", "value", "colour", "name", "chain", "draw", "shown")
BARS = ("width", "low", "high", "colour", "name")
PAIR = ("x", "y", "shown_x", "shown_y")

BELOW = 56
"""Pixels beneath trace and histogram alike, so that their vertical scales are one."""

TRACE_ROWS = [("", "@name"), ("value", "@shown"), ("chain", "@chain"), ("draw", "@draw")]
PAIR_ROWS = [("horizontal", "@shown_x"), ("vertical", "@shown_y")]


def chain_plots(parameters: Parameters) -> dict[str, Plot]:
    """A trace and its histogram for each side, all on one vertical scale."""
    made: dict[str, Plot] = {}
    values = Range1d(0, 1, name="range-value")
    for name, side in sides(parameters).items():
        length = side.draws.shape[0] * side.draws.shape[1]
        every = "" if side.every == 1 else f", one in {side.every}"
        trace = plot(
            f"draw, chains end to end{every}",
            "",
            x_range=Range1d(-0.01 * length, 1.01 * length),
            y_range=values,
        )
        source = ColumnDataSource({column: [] for column in TRACE}, name=f"trace-{name}")
        dots = trace.scatter(
            "position", "value", source=source, color="colour", size=4, alpha=0.75, line_color=None
        )
        hover(trace, TRACE_ROWS, dots)
        trace.xaxis.formatter = NumeralTickFormatter(format="0")
        trace.ygrid.visible = False
        trace.min_border_bottom = BELOW
        made[f"plot-trace-{name}"] = trace
        made[f"plot-margin-{name}"] = _margin(name, values)
    return made


def _margin(name: str, values: Range1d) -> Plot:
    margin = plot("share", "", y_range=values)
    source = ColumnDataSource({column: [] for column in BARS}, name=f"margin-{name}")
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


def pair_plots(parameters: Parameters) -> dict[str, Plot]:
    """One pair of scalars for each side, on the same scales."""
    made: dict[str, Plot] = {}
    horizontal, vertical = Range1d(0, 1, name="range-x"), Range1d(0, 1, name="range-y")
    colours = {"raw": NEUTRAL, "folded": PALETTE[0]}
    for name in sides(parameters):
        pair = plot("horizontal", "vertical", 340, horizontal, vertical)
        pair.xaxis.axis_label.name, pair.yaxis.axis_label.name = (
            f"label-x-{name}",
            f"label-y-{name}",
        )
        source = ColumnDataSource({column: [] for column in PAIR}, name=f"pair-{name}")
        dots = pair.scatter(
            "x", "y", source=source, color=colours[name], size=4.5, alpha=0.5, line_color=None
        )
        hover(pair, PAIR_ROWS, dots)
        pair.xgrid.visible = True
        made[f"plot-pair-{name}"] = pair
    return made


def sides(parameters: Parameters) -> dict[str, Side]:
    """What there is, by name: the raw chain first."""
    both = {"raw": parameters.raw, "folded": parameters.folded}
    return {name: side for name, side in both.items() if side is not None}
