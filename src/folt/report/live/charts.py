"""A chart drawn for the browser, with its values under the pointer."""

from __future__ import annotations

from bokeh.models import BoxAnnotation, ColumnDataSource, FixedTicker, Label, Plot, Range1d, Span

from folt.fit.style import INK
from folt.report.charts import Band, Bars, Chart, Line, Mark, Rule
from folt.report.live.plots import FONT, NEUTRAL, hover, plot

HEIGHT = 320


def chart_plot(chart: Chart) -> Plot:
    """Return the chart as a plot; its key stands in the page."""
    ranges = Range1d(*chart.x_range), Range1d(*chart.y_range)
    scale = "log" if chart.log else "linear"
    made = plot(chart.x_label, chart.y_label, HEIGHT, *ranges, scale)
    for mark in chart.marks:
        _draw(made, mark)
    for axis, ticks in ((made.xaxis, chart.x_ticks), (made.yaxis, chart.y_ticks)):
        if ticks:
            axis.ticker = FixedTicker(ticks=list(ticks))
            axis.major_label_overrides = dict(ticks)
    return made


def _draw(made: Plot, mark: Mark) -> None:
    match mark:
        case Line():
            _line(made, mark)
        case Bars():
            edges = {"left": mark.edges[:-1], "right": mark.edges[1:]}
            source = ColumnDataSource({**edges, "top": mark.heights, **mark.told})
            place = {"left": "left", "right": "right", "bottom": 0, "top": "top"}
            bars = made.quad(**place, source=source, color=mark.colour, line_color=None)
            hover(made, mark.told, bars)
        case Band():
            shade = {"fill_color": mark.colour, "fill_alpha": 0.25, "line_color": None}
            made.add_layout(BoxAnnotation(left=mark.low, right=mark.high, **shade))
        case Rule():
            look = {"line_dash": [4, 3], "line_width": 1.5} if mark.name else {"line_alpha": 0.5}
            across = "height" if mark.upright else "width"
            made.add_layout(Span(location=mark.at, dimension=across, line_color=NEUTRAL, **look))


def _line(made: Plot, mark: Line) -> None:
    source = ColumnDataSource({"x": mark.x, "y": mark.y, **mark.told})
    style = {"source": source, "color": mark.colour}
    if mark.joined:
        drawn = made.line("x", "y", line_width=2, line_dash=[8, 4] if mark.dashed else [], **style)
    if mark.marker:
        size = 12 if mark.marker == "x" else 8
        drawn = made.scatter("x", "y", size=size, marker=mark.marker, line_width=2, **style)
    if mark.told:
        hover(made, mark.told, drawn, "mouse" if mark.marker else "vline")
    letters = {"text_color": INK, "text_font": FONT, "text_font_size": "12px"}
    for x, y, label in zip(mark.x, mark.y, mark.labels, strict=False):
        made.add_layout(Label(x=x, y=y, text=label, x_offset=8, y_offset=2, **letters))
