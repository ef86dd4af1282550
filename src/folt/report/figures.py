"""Figures of a fit: arrays in, Matplotlib figures out, with one look for paper and page.

Figures are made without pyplot, so that neither a display nor Matplotlib's global state is touched.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.certify import Certificate
    from folt.diagnostics import Mixing

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
"""Okabe and Ito's colours, which the colour-blind can tell apart, the pale yellow left out."""

INK, QUIET, LINE = "#1b1f24", "#57606a", "#d0d7de"
"""Text and axes, secondary text, hairlines: the page gives these its own colours in the dark."""

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "figure.dpi": 100,
}

TRUE_VALUE: dict[str, Any] = {
    "markerfacecolor": "none",
    "markeredgecolor": INK,
    "markeredgewidth": 1.2,
    "markersize": 5.5,
}

SHOWN = 400
"""Draws in a trace; more would only darken the dots."""

PANELS = 12
"""Marginals in one figure; the table has every parameter."""


def chains_figure(
    left: np.ndarray,
    right: np.ndarray,
    labels: Sequence[str],
    titles: tuple[tuple[str, str], tuple[str, str]],
    ylabel: str,
    shown: int = 120,
    steps: str | None = None,
) -> Figure:
    """Two chains on one scale, each a trace beside the marginal histograms.

    Args:
        left: (draw, component), all of them in the margin, the first few in the trace.
        right: (draw, component), likewise.
        labels: one per component.
        titles: what each chain is, and what to see in it.
        ylabel: the quantity and its unit.
        shown: draws in the traces.
        steps: what the horizontal axis counts.
    """
    low, high = _limits(np.concatenate([left, right]))
    with styled():
        figure = blank(9.6, 3.9)
        panels = figure.subplots(1, 4, sharey=True, width_ratios=[4, 1, 4, 1])
        for column, (values, title) in enumerate(zip((left, right), titles, strict=True)):
            trace, margin = panels[2 * column], panels[2 * column + 1]
            _dots(trace, values[:shown], 5.2)
            _titles(trace, *title)
            trace.set_xlabel(steps or f"step (first {min(shown, len(values))})")
            _margin(margin, values, np.linspace(low, high, 130))
            margin.set_xlabel(f"{len(values):,} steps")
        panels[0].set_ylabel(ylabel)
        panels[0].set_ylim(low, high)
        _component_legend(figure, labels)
    return figure


def traces_figure(
    raw: np.ndarray, folded: np.ndarray, labels: Sequence[str], raw_title: str
) -> Figure:
    """Chains before and after folding, end to end, in the coordinates that folding changes most.

    Args:
        raw: (chain, draw, dim) before folding.
        folded: (chain, draw, dim) on the fundamental domain.
        labels: one per coordinate.
        raw_title: what the unfolded chain is.
    """
    chosen = most_changed(raw, folded)
    sides = [_end_to_end(draws, chosen) for draws in (raw, folded)]
    with styled():
        figure = blank(8.6, 3.4)
        panels = figure.subplots(1, 2, sharey=True)
        titles = (raw_title, "Folded: the draws of this fit")
        for panel, (values, length), title in zip(panels, sides, titles, strict=True):
            _dots(panel, values)
            for boundary in range(length, len(values), length):
                panel.axvline(boundary - 0.5, color=LINE, linewidth=0.8, zorder=0)
            panel.set_title(title)
            panel.set_xlabel("draw, chains end to end, thinned")
        panels[0].set_ylabel("coordinate of the problem")
        panels[0].set_ylim(*_limits(np.concatenate([values for values, _ in sides])))
        _component_legend(figure, [labels[j] for j in chosen])
    return figure


def relabelled_figure(before: np.ndarray, after: np.ndarray, name: str) -> Figure:
    """One parameter of every component before and after relabelling, chains end to end.

    Args:
        before: (chain, draw, component, ...); of vectors the first entry is shown.
        after: the same draws, permuted.
        name: the parameter.
    """
    sides = []
    for draws in (before, after):
        flat = draws.reshape(-1, draws.shape[2], math.prod(draws.shape[3:]))[..., 0]
        sides.append(flat[:: max(len(flat) // (3 * SHOWN), 1)])
    titles = (("Before", "labels as they came"), ("After", "every colour keeps its meaning"))
    labels = [f"{name}[{k}]" for k in range(before.shape[2])]
    steps = "draw, chains end to end, thinned"
    left, right = sides
    return chains_figure(left, right, labels, titles, name, shown=len(left), steps=steps)


def most_changed(raw: np.ndarray, folded: np.ndarray, count: int = 3) -> list[int]:
    """The coordinates whose spread folding narrows most, in their order."""
    spread = folded.std(axis=(0, 1))
    ratio = raw.std(axis=(0, 1)) / np.where(spread > 0, spread, np.inf)
    return sorted(int(j) for j in np.argsort(-ratio, kind="stable")[:count])


def marginals_figure(
    posterior: Mapping[str, np.ndarray],
    truth: Mapping[str, float] | None = None,
    colours: Sequence[str] | None = None,
) -> Figure:
    """Marginal densities, one panel per parameter and one curve per component.

    The bar beneath a curve is the 95 % interval, its tick the mean; a diamond is a true value.

    Args:
        posterior: `{name: (chain, draw, ...)}`.
        truth: true values by name of scalar parameters, where they are known.
        colours: one per parameter; by default a colour means a component.
    """
    shown = dict(list(posterior.items())[:PANELS])
    columns = min(2 if len(shown) <= 4 else 3, len(shown))
    rows = math.ceil(len(shown) / columns)
    with styled():
        figure = blank(8.6 if columns > 1 else 5.0, 0.5 + 2.2 * rows)
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for j, (panel, (name, values)) in enumerate(zip(panels, shown.items(), strict=False)):
            components = values.reshape(-1, math.prod(values.shape[2:]))[:, : len(PALETTE)]
            known = None if truth is None else truth.get(name)
            _densities(panel, components, known, (colours[j],) if colours else PALETTE)
            panel.set_title(_plain(name))
        for panel in panels[len(shown) :]:
            panel.set_axis_off()
        _key(figure, truth is not None)
    return figure


def log_ratio_figure(log_ratio: np.ndarray, certificate: Certificate) -> Figure:
    """Histogram of h - log Z along the chains, with the ρ = .05 core of the held-out draws.

    A proposal equal to the target has h = log Z everywhere: one spike at zero.
    """
    level = certificate.evidence.value
    level = level if math.isfinite(level) else 0.0
    values = log_ratio[np.isfinite(log_ratio)] - level
    core = certificate.qc["target"][0.05]
    shown = _histogram_range(values)
    with styled():
        figure = blank(5.4, 3.1)
        panel = figure.subplots()
        if core.low is not None and core.high is not None:
            label = f"core holding 95 %, width C = {core.high - core.low:.2f}"
            panel.axvspan(
                core.low - level,
                core.high - level,
                color=PALETTE[5],
                alpha=0.25,
                linewidth=0,
                label=label,
            )
        if values.size:
            panel.hist(values, bins=60, range=shown, color=PALETTE[0], density=True)
            panel.set_xlim(*shown)
        panel.axvline(0.0, color=INK, linewidth=1.0, linestyle=(0, (3, 2)), label="perfect fit")
        panel.set_title("How far the proposal is from the target")
        panel.set_xlabel("log ratio h − log Z, middle 99 % of the draws")
        panel.set_ylabel("density")
        below(figure, panel, 2)
    return figure


def mixing_figure(mixing: Mixing) -> Figure:
    """Bound and estimate of the total variation against the number of steps."""
    from matplotlib.ticker import MaxNLocator

    steps, bound, estimate = mixing.curve.steps, mixing.curve.bound, mixing.curve.estimate
    with styled():
        figure = blank(5.4, 3.1)
        panel = figure.subplots()
        panel.set_title("How fast the chain forgets its start")
        panel.set_xlabel("steps")
        panel.set_ylabel("distance to the target")
        panel.set_yscale("log")
        panel.set_ylim(5e-4, 1.2)
        if not steps:
            panel.text(0.5, 0.5, "cannot be had", ha="center", transform=panel.transAxes)
            return figure
        panel.plot(
            steps,
            bound,
            color=PALETTE[0],
            label=f"certified, {100 * mixing.confidence:.0f} % confidence",
        )
        panel.plot(steps, estimate, color=PALETTE[1], linestyle=(0, (4, 1.5)), label="estimated")
        for epsilon, n in mixing.steps.items():
            panel.axhline(epsilon, color=LINE, linewidth=0.6, zorder=0)
            if n is not None:
                panel.plot([n], [mixing.bound(n)], "o", color=PALETTE[0], markersize=5)
                panel.annotate(
                    f"{epsilon:g} after {n:,}",
                    (n, epsilon),
                    textcoords="offset points",
                    xytext=(7, 3),
                    fontsize="small",
                )
        panel.set_xlim(0, _last_step(mixing))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        below(figure, panel, 2)
    return figure


def _last_step(mixing: Mixing) -> int:
    """Where the picture ends: well after the last certified step, or where the bound is flat."""
    known = [n for n in mixing.steps.values() if n is not None]
    return max(8, 3 * max(known)) if known else max(mixing.curve.steps)


def gamma_figure(certificate: Certificate) -> Figure:
    """γ against ρ in both protocols; what cannot be had is a cross at zero."""
    names = {"target": "held-out target draws", "proposal": "proposal draws"}
    with styled():
        figure = blank(5.4, 3.1)
        panel = figure.subplots()
        for k, (protocol, cores) in enumerate(certificate.qc.items()):
            rhos = sorted(rho for rho, core in cores.items() if core.gamma is not None)
            gammas = [cores[rho].gamma or 0.0 for rho in rhos]
            style: dict[str, Any] = {"color": PALETTE[k], "marker": "os"[k % 2], "markersize": 5}
            panel.plot(
                rhos,
                gammas,
                clip_on=False,
                zorder=3,
                label=names.get(protocol, protocol),
                **style,
            )
            missing = sorted(set(cores) - set(rhos))
            if missing:
                panel.plot(
                    missing,
                    [0.0] * len(missing),
                    "x",
                    color=PALETTE[k],
                    clip_on=False,
                    label="too few draws to say",
                )
        panel.set_title("The paper's diagnostic γ (not a bound)")
        panel.set_xlabel("share of draws left out, ρ")
        panel.set_ylabel("γ = 2 / (1 + exp C)")
        panel.set_xlim(0.0, 0.26)
        ticks = sorted({rho for cores in certificate.qc.values() for rho in cores})
        panel.set_xticks(ticks, [f"{rho:g}" for rho in ticks])
        panel.set_ylim(0.0, 1.0)
        panel.grid(axis="y", color=LINE, linewidth=0.6)
        panel.set_axisbelow(True)
        below(figure, panel, 2)
    return figure


def png(figure: Figure) -> bytes:
    """The figure on white, sharp enough for print."""
    stream = io.BytesIO()
    with styled():
        figure.savefig(stream, format="png", dpi=220, facecolor="white")
    return stream.getvalue()


def svg(figure: Figure, name: str) -> str:
    """The figure as SVG inside a page: no background, nothing fetched, the page's own letters.

    Text, axes and hairlines take their colours from the page too, so that they can be read in
    the dark.

    Args:
        figure: what to draw.
        name: seeds the identifiers, so that figures in one page do not share any.
    """
    stream = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with styled({"svg.hashsalt": name}):
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing, dpi=160)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    # Identifiers that Matplotlib counts up would occur twice in a page; only hashed ones are used.
    text = re.sub(r' id="[\w.]+_\d+"', "", text)
    colours = {INK: "currentColor", QUIET: "var(--quiet)", LINE: "var(--line)"}
    for colour, replacement in colours.items():
        text = text.replace(colour, replacement)
    return re.sub(r" font-family: [^;]*;", "", text)


def blank(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches, laid out by itself."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def styled(more: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Folt's look while the block runs."""
    import matplotlib

    style: Any = {**STYLE, **(more or {})}
    with matplotlib.rc_context(style):
        yield


def _dots(panel: Axes, values: np.ndarray, size: float = 3.6) -> None:
    """Every component in its colour; as pixels, because thousands of SVG dots make a page heavy."""
    for k in range(values.shape[1]):
        panel.plot(
            values[:, k],
            ".",
            color=PALETTE[k % len(PALETTE)],
            markersize=size,
            alpha=0.8,
            markeredgewidth=0,
            rasterized=True,
        )
    panel.set_xlim(-0.01 * len(values), 1.01 * len(values))


def _margin(panel: Axes, values: np.ndarray, edges: np.ndarray) -> None:
    """Histograms along the vertical axis: unlike kernels they do not smear separate modes."""
    for k in range(values.shape[1]):
        colour = PALETTE[k % len(PALETTE)]
        heights, _ = np.histogram(values[:, k], edges)
        panel.stairs(heights, edges, orientation="horizontal", color=colour, alpha=0.3, fill=True)
        panel.stairs(heights, edges, orientation="horizontal", color=colour, linewidth=1.1)
    panel.set_xlim(left=0)
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(left=False)


def _titles(panel: Axes, title: str, remark: str) -> None:
    """A title in bold with a remark beneath it."""
    panel.set_title(title, pad=21)
    panel.annotate(
        remark, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=QUIET
    )


def _densities(
    panel: Axes, components: np.ndarray, known: float | None, colours: Sequence[str]
) -> None:
    curves = [_density(values) for values in components.T]
    top = max(density.max() for _, density in curves)
    step = 0.09 * top
    for k, (values, (grid, density)) in enumerate(zip(components.T, curves, strict=True)):
        colour, height = colours[k % len(colours)], -step * (k + 1)
        low, high = np.quantile(values, [0.025, 0.975])
        inside = (grid >= low) & (grid <= high)
        panel.plot(grid, density, color=colour)
        panel.fill_between(grid, 0.0, density, where=inside, color=colour, alpha=0.2, linewidth=0)
        panel.plot([low, high], [height] * 2, color=colour, linewidth=2.6, solid_capstyle="butt")
        panel.plot(values.mean(), height, "|", color=colour, markersize=9, markeredgewidth=2.2)
        if known is not None:
            panel.plot(known, height, "D", **TRUE_VALUE)
    panel.axhline(0.0, color=QUIET, linewidth=0.7)
    panel.set_ylim(-step * (components.shape[1] + 1), 1.08 * top)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.locator_params(axis="x", nbins=6)


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A kernel density; a narrow spike for draws that never moved."""
    values = values[np.isfinite(values)]
    if values.size == 0 or np.ptp(values) == 0:
        centre = float(values[0]) if values.size else 0.0
        width = 1e-3 * (1.0 + abs(centre))
        return centre + width * np.array([-1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    grid, density = arviz.kde(values)
    return grid, density


def _end_to_end(draws: np.ndarray, chosen: Sequence[int]) -> tuple[np.ndarray, int]:
    """(draw, coordinate) of all chains in a row, thinned evenly, and the length of each."""
    chains = draws[:4]
    every = max(1, math.ceil(chains.shape[0] * chains.shape[1] / SHOWN))
    thinned = chains[:, ::every][..., list(chosen)]
    return thinned.reshape(-1, len(chosen)), thinned.shape[1]


def _histogram_range(values: np.ndarray) -> tuple[float, float]:
    """From zero and almost all values to a little beyond; a few far ones would hide the rest."""
    if values.size == 0:
        return -1.0, 1.0
    low, high = np.quantile(values, [0.005, 0.995])
    reach = max(float(high - low), 1e-6)
    return min(float(low), 0.0) - 0.3 * reach, max(float(high), 0.0) + 0.3 * reach


def _limits(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values[np.isfinite(values)], [0.0005, 0.9995])
    room = 0.06 * (high - low) or 1.0
    return float(low - room), float(high + room)


def _component_legend(figure: Figure, labels: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=5, color=PALETTE[k % len(PALETTE)])
        for k in range(len(labels))
    ]
    plain = [_plain(label) for label in labels]
    figure.legend(handles, plain, loc="outside lower center", ncols=len(plain))


def _key(figure: Figure, with_truth: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=QUIET, linewidth=2.6, label="95 % interval"),
        Line2D(
            [],
            [],
            color=QUIET,
            linestyle="",
            marker="|",
            markersize=9,
            markeredgewidth=2.2,
            label="posterior mean",
        ),
    ]
    if with_truth:
        handles.append(Line2D([], [], linestyle="", marker="D", label="true value", **TRUE_VALUE))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def below(figure: Figure, panel: Axes, columns: int) -> None:
    """The panel's legend beneath the figure."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _plain(name: str) -> str:
    """A name as Matplotlib shows it literally: a dollar sign would start mathematics."""
    return name.replace("$", r"\$")
