"""The certificate as charts: mixing, log ratio, the diagnostic of the paper, modes.

One picture serves print and page. On a page, strips over it show the readings of the chart under
the pointer; they need no script.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from folt.fit.text import UNSTATED, rounded_number
from folt.report.style import INK, LINE, PALETTE, below, blank, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.certificate.certificate import Certificate
    from folt.certificate.diagnostics.mixing import Mixing
    from folt.certificate.exploration import ExplorationFacts
    from folt.fit import Fit

CORE_SOURCES = {"target": "held-out target draws", "proposal": "proposal draws"}
"""Whose h the core is made from."""

_BARS = 60
"""Of a histogram, as in the traces."""

_HEAVIEST = 12
"""Modes that a chart shows: the numbers beneath more of them would run into each other."""


@dataclasses.dataclass(frozen=True)
class Chart:
    """A figure of one panel with what is said of it.

    Attributes:
        name: by which the page calls it.
        description: for readers who do not see it.
        caption: what to see in it.
        figure: the picture.
        readings: what a pointer reads, by horizontal position.
        caveat: what it must not be taken for.
    """

    name: str
    description: str
    caption: str
    figure: Figure
    readings: Mapping[float, str] = dataclasses.field(default_factory=dict)
    caveat: str = ""


class Strip(NamedTuple):
    """A strip of a picture with its reading; the place is in percent of the picture's size."""

    left: float
    width: float
    top: float
    height: float
    reading: str


def strips(chart: Chart) -> list[Strip]:
    """Return the strips over a chart: each position reaches half way to its neighbours."""
    panel = chart.figure.axes[0]
    low, high = panel.get_xlim()
    shown = sorted(x for x in chart.readings if low <= x <= high)
    if not shown:
        return []
    chart.figure.draw_without_rendering()  # which finds the place of the panel
    place = panel.get_position()
    middles = [0.5 * (one + other) for one, other in itertools.pairwise(shown)]
    across = [place.x0 + place.width * (x - low) / (high - low) for x in (low, *middles, high)]
    top, height = 100.0 * (1.0 - place.y1), 100.0 * place.height
    return [
        Strip(100.0 * left, 100.0 * (right - left), top, height, chart.readings[x])
        for x, (left, right) in zip(shown, itertools.pairwise(across), strict=True)
    ]


def certificate_charts(fit: Fit) -> list[Chart]:
    """Return every chart of the certificate, in the order of the page; one mode needs no chart."""
    found = fit.certificate.exploration
    return [
        mixing_chart(fit.certificate.mixing),
        log_ratio_chart(fit.log_ratio, fit.certificate),
        gamma_chart(fit.certificate),
        *([modes_chart(found)] if found is not None and len(found.modes) > 1 else []),
    ]


@styled()
def modes_chart(found: ExplorationFacts) -> Chart:
    """Draw mass, share of the particles and share of the reference, mode by mode."""
    modes, searches = (
        found.modes[:_HEAVIEST],
        "polished particles" if found.polished else "descents",
    )
    numbers = np.arange(1, len(modes) + 1)
    figure, panel = _chart(f"mode, and how many {searches} ended there", "share, %")
    panel.set(xlim=(0.5, len(modes) + 0.5), ylim=(-4.0, 104.0))
    panel.set_xticks(numbers, [f"{k}\n{m.hits:,}" for k, m in zip(numbers, modes, strict=True)])
    kinds = {
        "mass by importance sampling": ([mode.mass for mode in modes], "o"),
        "tempered particles in its reach": ([mode.tempered for mode in modes], "s"),
        "reference draws in its reach": ([mode.reference for mode in modes], "x"),
    }
    for colour, (name, (shares, marker)) in zip(PALETTE, kinds.items(), strict=False):
        _points(panel, numbers, 100.0 * np.array(shares), colour, marker, label=name)
    below(figure, panel, 2)
    which = (
        "Every mode that was found"
        if len(modes) == len(found.modes)
        else (f"The {len(modes)} heaviest of {len(found.modes)} modes that were found")
    )
    return Chart(
        "modes",
        "The modes that were found, with their masses and how often each was reached",
        f"{which}, the heaviest first, with the {searches} that ended there, those from around it "
        "included. Its mass should agree with the share of the reference draws, and tempering "
        "should not have much less; reaches may overlap.",
        figure,
        {
            float(k): f"mode {k}\nmass {100 * mode.mass:.2f} %\n{mode.hits:,} {searches} ended "
            f"there\ntempered {100 * mode.tempered:.1f} %\nreference {100 * mode.reference:.1f} %"
            for k, mode in zip(numbers, modes, strict=True)
        },
    )


@styled()
def mixing_chart(mixing: Mixing) -> Chart:
    """Draw bound and estimate of the total variation against the number of steps."""
    curve, known = mixing.curve, {e: n for e, n in mixing.steps.items() if n is not None}
    confidence = f"{100 * mixing.confidence:.0f} % confidence"
    figure, panel = _chart("steps", "distance to the target")
    panel.set_yscale("log")
    # Well after the last certified step, or where the bound is flat.
    last = max(8, 3 * max(known.values())) if known else max(curve.steps, default=8)
    panel.set(xlim=(0, last), ylim=(5e-4, 1.2))
    panel.set_yticks([0.001, 0.01, 0.1, 1.0], ["0.001", "0.01", "0.1", "1"])
    panel.minorticks_off()
    words = [
        "How far the law of the chain can be from the target after so many steps, started from the "
        "proposal."
    ]
    if curve.steps:
        for epsilon in mixing.steps:
            panel.axhline(epsilon, color=LINE, linewidth=0.6, zorder=0)
        panel.plot(curve.steps, curve.bound, color=PALETTE[0], label=f"certified, {confidence}")
        panel.plot(
            curve.steps,
            curve.estimate,
            color=PALETTE[1],
            label="estimated",
            linestyle=(0, (4, 1.5)),
        )
        for epsilon, n in known.items():
            height = float(mixing.bound(n))
            _points(panel, [n], [height], PALETTE[0], "o")
            place: Document = {"textcoords": "offset points", "xytext": (7, 3), "fontsize": "small"}
            panel.annotate(f"{epsilon:g} after {n:,}", (n, height), **place)
        below(figure, panel, 2)
        words.append(
            f"The line holds with {confidence} if the held-out draws are from the target; the "
            "dashes estimate it without promising."
        )
    else:
        _nothing(panel, "no bound can be given" if mixing.computed is None else UNSTATED)
    return Chart(
        "mixing",
        "Certified and estimated distance to the target against the number of steps",
        " ".join(words),
        figure,
        {
            float(n): f"{n:,} steps\ncertified: {bound:.4f}\nestimated: {estimate:.4f}"
            for n, bound, estimate in zip(curve.steps, curve.bound, curve.estimate, strict=True)
        },
    )


@styled()
def log_ratio_chart(log_ratio: np.ndarray, certificate: Certificate) -> Chart:
    """Draw the histogram of h - log Z along the chains, with the ρ = .05 core of held-out draws.

    A proposal equal to the target has h = log Z everywhere: one spike at zero.
    """
    level = certificate.evidence.value
    known = math.isfinite(level)
    level = level if known else 0.0
    values = log_ratio[np.isfinite(log_ratio)] - level
    low, high = _middle(values)
    counts, edges = np.histogram(values, bins=_BARS, range=(low, high))
    shares = 100.0 * counts / max(values.size, 1)
    figure, panel = _chart(
        "log ratio h − log Z" if known else "log ratio h", "share of the draws, %"
    )
    panel.set(xlim=(low, high), ylim=(0.0, 1.05 * max(float(shares.max()), 1.0)))
    less = ", less the log evidence. Zero everywhere is a perfect fit." if known else "."
    words = [f"The log ratio h of target and proposal at the draws{less}"]
    core = certificate.qc["target"][0.05]
    if core.low is not None and core.high is not None:
        name = f"core, width C = {rounded_number(core.osc, 2)}"
        ends = core.low - level, core.high - level
        panel.axvspan(*ends, color=PALETTE[5], alpha=0.25, linewidth=0, label=name)
        words.append(
            "The shaded core holds at least 95 % of the target, as far as held-out draws tell; the "
            "narrower it is, the more nearly the draws are independent."
        )
    else:
        words.append("There are too few independent held-out draws for a core.")
    if values.size:
        panel.stairs(shares, edges, fill=True, color=PALETTE[0], label="draws of this fit")
        if known:
            dashes: Document = {"color": INK, "linewidth": 1.0, "linestyle": (0, (3, 2))}
            panel.axvline(0.0, label="perfect fit", **dashes)
        below(figure, panel, 2)
    else:
        _nothing(panel, "no draw has a finite log ratio")
    if beyond := int(values.size - counts.sum()):
        words.append(f"{beyond:,} of {values.size:,} draws lie beyond the picture.")
    return Chart(
        "log-ratio",
        "Histogram of the log ratio of target and proposal, with its core",
        " ".join(words),
        figure,
        {
            0.5 * (a + b): f"log ratio {a:.2f} to {b:.2f}\n{share:.1f} % of the draws"
            for (a, b), share in zip(itertools.pairwise(edges.tolist()), shares, strict=True)
            if values.size
        },
    )


def _middle(values: np.ndarray) -> tuple[float, float]:
    """From zero and almost all values to a little beyond; a few far ones would hide the rest."""
    if values.size == 0:
        return -1.0, 1.0
    low, high = (float(end) for end in np.quantile(values, [0.005, 0.995]))
    room = 0.3 * max(high - low, 1e-6)
    return min(low, 0.0) - room, max(high, 0.0) + room


@styled()
def gamma_chart(certificate: Certificate) -> Chart:
    """Draw γ against ρ in both protocols; what too few draws leave open is a cross at zero."""
    figure, panel = _chart("share of draws left out, ρ", "γ = 2 / (1 + exp C)")
    panel.set(xlim=(0.0, 0.265), ylim=(0.0, 1.04))
    shares = sorted({rho for cores in certificate.qc.values() for rho in cores})
    panel.set_xticks(shares, [f"{rho:g}".lstrip("0") for rho in shares])
    readings: dict[float, str] = {}
    open_ends: list[tuple[float, str]] = []
    for colour, marker, (protocol, cores) in zip(
        PALETTE, "os", certificate.qc.items(), strict=False
    ):
        name = CORE_SOURCES.get(protocol, protocol)
        known = {rho: cores[rho] for rho in sorted(cores) if cores[rho].gamma is not None}
        open_ends += [(rho, colour) for rho in cores if rho not in known]
        for rho, core in known.items():
            gamma, osc = (rounded_number(value, 3) for value in (core.gamma, core.osc))
            words = f"γ = {gamma}, C = {osc}, {core.n:,.0f} draws"
            readings[rho] = f"{readings.get(rho, f'ρ = {rho:g}')}\n{name}:\n{words}"
        heights = [core.gamma or 0.0 for core in known.values()]
        _points(panel, list(known), heights, colour, marker, linestyle="-", label=name)
    for position, (rho, colour) in enumerate(open_ends):
        _points(
            panel, [rho], [0.0], colour, "x", label=None if position else "too few draws to say"
        )
    below(figure, panel, 2)
    weight = certificate.safety.weight
    widened = (
        f" At small ρ the proposal's core is widened by its tail safety, which makes {weight:g} of "
        "the proposals."
        if weight
        else ""
    )
    return Chart(
        "gamma",
        "The published diagnostic gamma against the share of draws left out, for target and "
        "proposal draws",
        "γ = 2/(1 + exp C), the functional that the paper publishes, against the share ρ of draws "
        "left out of the core, of proposal draws in each tail; C is the core's width. From "
        "held-out target draws it sees what the proposal misses; from proposal draws it does not."
        f"{widened}",
        figure,
        readings,
        "γ is a diagnostic of the fit over the core, not a bound on the running chain.",
    )


def _chart(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """Return an empty chart with hairlines; its numbers go by one, two and five."""
    figure = blank(4.8, 3.1)
    panel = figure.subplots()
    panel.set(xlabel=x_label, ylabel=y_label)
    panel.locator_params(steps=[1, 2, 5, 10])
    panel.grid(axis="y", color=LINE, linewidth=0.6)
    panel.set_axisbelow(True)
    return figure, panel


def _points(
    panel: Axes,
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    colour: str,
    marker: str,
    linestyle: str = "",
    label: str | None = None,
) -> None:
    """Draw points, whole also at the edge; crosses are larger, to be seen on others."""
    look: Document = {"color": colour, "linestyle": linestyle, "label": label, "marker": marker}
    look |= {"markersize": 8 if marker == "x" else 5, "markeredgewidth": 1.5}
    panel.plot(x, y, clip_on=False, zorder=3, **look)


def _nothing(panel: Axes, words: str) -> None:
    """Say why there is nothing to see."""
    panel.text(0.5, 0.5, words, ha="center", transform=panel.transAxes)
