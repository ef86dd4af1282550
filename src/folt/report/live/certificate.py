"""The certificate, with its values under the pointer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from bokeh.models import (
    BoxAnnotation,
    ColumnDataSource,
    FixedTicker,
    NumeralTickFormatter,
    Range1d,
    Span,
)

from folt.fit.style import PALETTE
from folt.report.figures.certificate import PROTOCOLS, centred, histogram_range, last_step
from folt.report.live.plots import NEUTRAL, Plot, hover, plot

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate
    from folt.diagnostics import Mixing

HEIGHT = 320


def certificate_plots(log_ratio: np.ndarray, certificate: Certificate) -> dict[str, Plot]:
    """What can be drawn of the certificate; where there are no values there is no plot."""
    made = {
        "plot-mixing": mixing_plot(certificate.mixing),
        "plot-log-ratio": log_ratio_plot(log_ratio, certificate),
        "plot-gamma": gamma_plot(certificate),
    }
    return {name: one for name, one in made.items() if one is not None}


def mixing_plot(mixing: Mixing) -> Plot | None:
    """Bound and estimate of the total variation against the number of steps."""
    curve = mixing.curve
    if not curve.steps:
        return None
    made = plot(
        "steps",
        "distance to the target",
        HEIGHT,
        Range1d(0, last_step(mixing)),
        Range1d(5e-4, 1.2),
        "log",
    )
    source = ColumnDataSource({"n": curve.steps, "bound": curve.bound, "estimate": curve.estimate})
    style = {"source": source, "line_width": 2}
    line = made.line("n", "bound", color=PALETTE[0], **style)
    made.line("n", "estimate", color=PALETTE[1], line_dash=[8, 4], **style)
    known = {epsilon: n for epsilon, n in mixing.steps.items() if n is not None}
    made.scatter(
        list(known.values()),
        [float(mixing.bound(n)) for n in known.values()],
        color=PALETTE[0],
        size=8,
    )
    for epsilon in mixing.steps:
        made.add_layout(
            Span(location=epsilon, dimension="width", line_color=NEUTRAL, line_alpha=0.5)
        )
    rows = [
        ("steps", "@n{0,0}"),
        ("certified", "@bound{0.0000}"),
        ("estimated", "@estimate{0.0000}"),
    ]
    hover(made, rows, line, "vline")
    made.yaxis.ticker = FixedTicker(ticks=[0.001, 0.01, 0.1, 1.0])
    made.yaxis.formatter = NumeralTickFormatter(format="0.[000]")
    made.xaxis.formatter = NumeralTickFormatter(format="0,0")
    return made


def log_ratio_plot(log_ratio: np.ndarray, certificate: Certificate) -> Plot | None:
    """Histogram of h - log Z along the chains, with the ρ = .05 core of the held-out draws."""
    values, level = centred(log_ratio, certificate)
    if not values.size:
        return None
    low, high = histogram_range(values)
    heights, edges = np.histogram(values, bins=60, range=(low, high))
    source = ColumnDataSource(
        {"left": edges[:-1], "right": edges[1:], "share": 100.0 * heights / values.size}
    )
    made = plot("log ratio h − log Z", "share of the draws, %", HEIGHT, Range1d(low, high))
    made.y_range.start = 0
    core = certificate.qc["target"][0.05]
    if core.low is not None and core.high is not None:
        made.add_layout(
            BoxAnnotation(
                left=core.low - level,
                right=core.high - level,
                fill_color=PALETTE[5],
                fill_alpha=0.25,
                line_color=None,
            )
        )
    bars = made.quad(
        left="left",
        right="right",
        bottom=0,
        top="share",
        source=source,
        color=PALETTE[0],
        line_color=None,
    )
    made.add_layout(
        Span(location=0, dimension="height", line_color=NEUTRAL, line_dash=[4, 3], line_width=1.5)
    )
    hover(made, [("h − log Z", "@left{0.00} to @right{0.00}"), ("share", "@share{0.0} %")], bars)
    return made


def gamma_plot(certificate: Certificate) -> Plot | None:
    """γ against ρ in both protocols."""
    rhos = sorted({rho for cores in certificate.qc.values() for rho in cores})
    feasible = any(
        core.gamma is not None for cores in certificate.qc.values() for core in cores.values()
    )
    if not feasible:
        return None
    made = plot(
        "share of draws left out, ρ",
        "γ = 2 / (1 + exp C)",
        HEIGHT,
        Range1d(0, 0.265),
        Range1d(0, 1.04),
    )
    glyphs = []
    for k, (protocol, cores) in enumerate(certificate.qc.items()):
        known = {rho: cores[rho] for rho in sorted(cores) if cores[rho].gamma is not None}
        name = PROTOCOLS.get(protocol, protocol)
        source = ColumnDataSource(
            {
                "rho": list(known),
                "gamma": [core.gamma for core in known.values()],
                "osc": [math.nan if core.osc is None else core.osc for core in known.values()],
                "count": [core.n for core in known.values()],
                "name": [name] * len(known),
            }
        )
        made.line("rho", "gamma", source=source, color=PALETTE[k], line_width=2)
        glyphs.append(
            made.scatter(
                "rho",
                "gamma",
                source=source,
                color=PALETTE[k],
                size=8,
                marker=("circle", "square")[k % 2],
            )
        )
    rows = [
        ("", "@name"),
        ("ρ", "@rho"),
        ("γ", "@gamma{0.000}"),
        ("width C", "@osc{0.000}"),
        ("independent draws", "@count{0,0}"),
    ]
    hover(made, rows, glyphs)
    made.xaxis.ticker = FixedTicker(ticks=rhos)
    made.xaxis.major_label_overrides = {rho: f"{rho:g}".lstrip("0") for rho in rhos}
    return made
