"""Figures that answer: Bokeh models for the browser, beside the still pictures of `figures`.

Bokeh is imported when a page is made, never before.
"""

from folt.report.live.document import Live, live

__all__ = ["Live", "live"]
