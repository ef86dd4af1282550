"""Empty plots in folt's look; their text and lines take the page's colours from its style sheet."""

from __future__ import annotations

from collections.abc import Iterable

from bokeh.models import GlyphRenderer, HoverTool, PlainText, Plot, Range1d
from bokeh.plotting import figure

from folt.fit.style import INK, LINE, QUIET

FONT = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"

NEUTRAL = "#8b949e"
"""A grey that is seen on a light page and on a dark one."""


def plot(
    x_label: str,
    y_label: str,
    height: int = 300,
    x_range: Range1d | None = None,
    y_range: Range1d | None = None,
    y_scale: str = "linear",
) -> Plot:
    """Return an empty plot as wide as its place, without toolbar: a page is scrolled, not dragged.

    Args:
        x_label: beneath it; never read as TeX, which would be fetched from elsewhere.
        y_label: at its left, likewise.
        height: in pixels.
        x_range: what it shows; by default all of it.
        y_range: likewise.
        y_scale: linear or log.
    """
    ranges = {"x_range": x_range, "y_range": y_range}
    made = figure(
        height=height,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
        y_axis_type=y_scale,
        output_backend="canvas",
        **{name: value for name, value in ranges.items() if value is not None},
    )
    made.xaxis.axis_label, made.yaxis.axis_label = PlainText(text=x_label), PlainText(text=y_label)
    made.background_fill_color = made.border_fill_color = made.outline_line_color = None
    made.min_border_right = 12
    for axis in made.axis:
        axis.axis_label_text_color = axis.major_label_text_color = INK
        axis.axis_label_text_font = axis.major_label_text_font = FONT
        axis.axis_label_text_font_size, axis.major_label_text_font_size = "13px", "12px"
        axis.axis_label_text_font_style = "normal"
        axis.axis_line_color = axis.major_tick_line_color = QUIET
        axis.minor_tick_line_color = None
    made.grid.grid_line_color = LINE
    made.xgrid.visible = False
    return made


def hover(made: Plot, told: Iterable[str], on: GlyphRenderer, mode: str = "mouse") -> None:
    """Values under the pointer: the columns of one glyph, by their names."""
    rows = [(name, f"@{{{name}}}") for name in told]
    made.add_tools(HoverTool(tooltips=rows, renderers=[on], mode=mode, point_policy="follow_mouse"))
