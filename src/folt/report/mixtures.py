"""Figures of mixtures: the data beneath the posterior density, and evidence against size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from folt.report.figures import INK, LINE, PALETTE, QUIET, below, blank, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.certificate.comparison import Candidate

Posterior = Mapping[str, np.ndarray]
Draw = Callable[["Axes", Posterior], None]

PANELS_PER_ROW = 5

NEAR = 12.0
"""Nats below the best evidence beyond which a model is only said to lie below."""


def weighted_mixture_figure(
    observations: np.ndarray, posterior: Posterior, name: str = "observation"
) -> Figure:
    """Histogram, posterior mean density with its 95 % band, and the components.

    Args:
        observations: the data.
        posterior: weight, mu and sigma, each (draw, component).
        name: the quantity.
    """
    return _single((6.6, 4.1), 3, partial(draw_weighted, observations, name=name), posterior)


def poisson_figure(observations: np.ndarray, posterior: Posterior, name: str = "count") -> Figure:
    """Share of every count, with the posterior mean probabilities and their 95 % band.

    Args:
        observations: whole numbers.
        posterior: weight and rate, each (draw, component).
        name: the quantity.
    """
    return _single((6.6, 4.1), 3, partial(draw_counts, observations, name=name), posterior)


def plane_figure(observations: np.ndarray, posterior: Posterior, names: tuple[str, str]) -> Figure:
    """Two variables with ellipses that hold half and 90 % of every component.

    Args:
        observations: (n, 2).
        posterior: weight, mu and covariance with the leading axes (draw, component).
        names: of the two variables.
    """
    return _single((5.6, 4.8), 2, partial(draw_plane, observations, names=names), posterior)


def sizes_figure(posteriors: Mapping[int, Posterior], draw: Draw) -> Figure:
    """The fitted mixture of every size, side by side over the same data.

    Args:
        posteriors: by number of components.
        draw: draws one of them, such as `draw_weighted` with the observations given.
    """
    columns = min(len(posteriors), PANELS_PER_ROW)
    rows = math.ceil(len(posteriors) / columns)
    with styled():
        figure = blank(2.1 * columns + 0.6, 1.9 * rows + 0.3)
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for place, posterior in enumerate(posteriors.values()):
            panel = panels.flat[place]
            draw(panel, posterior)
            panel.label_outer()
            if place + columns >= len(posteriors):  # nothing stands beneath it
                panel.xaxis.set_tick_params(labelbottom=True)
        for panel in panels.flat[len(posteriors) :]:
            panel.set_axis_off()
    return figure


def draw_weighted(
    observations: np.ndarray, panel: Axes, posterior: Posterior, name: str = "observation"
) -> None:
    """A panel of `weighted_mixture_figure`."""
    margin = 0.08 * float(np.ptp(observations))
    grid = np.linspace(observations.min() - margin, observations.max() + margin, 400)
    residual = (grid[:, None, None] - posterior["mu"]) / posterior["sigma"]
    height = posterior["weight"] / (posterior["sigma"] * math.sqrt(2.0 * math.pi))
    terms = height * np.exp(-0.5 * residual**2)
    panel.hist(
        observations,
        bins=int(np.clip(2 * math.sqrt(observations.size), 12, 60)),
        density=True,
        color=LINE,
        edgecolor="white",
        linewidth=0.6,
        label=f"{observations.size} observations",
    )
    _band(panel, grid, terms)
    panel.set_xlabel(name)
    panel.set_ylabel("density")
    panel.set_xlim(grid[0], grid[-1])
    panel.set_ylim(bottom=0.0)
    _title(panel, posterior)


def draw_counts(
    observations: np.ndarray, panel: Axes, posterior: Posterior, name: str = "count"
) -> None:
    """A panel of `poisson_figure`."""
    from scipy.stats import poisson

    grid = np.arange(int(observations.max()) + 2)
    terms = posterior["weight"] * poisson.pmf(grid[:, None, None], posterior["rate"])
    shares = np.bincount(observations.astype(int), minlength=grid.size) / observations.size
    panel.bar(grid, shares, width=0.85, color=LINE, label="data")
    _band(panel, grid, terms)
    panel.set_xlabel(name)
    panel.set_ylabel("probability")
    _title(panel, posterior)


def draw_plane(
    observations: np.ndarray, panel: Axes, posterior: Posterior, names: tuple[str, str]
) -> None:
    """A panel of `plane_figure`."""
    weight = posterior["weight"].mean(axis=0)
    mean = posterior["mu"].mean(axis=0)[:, :2]
    covariance = posterior["covariance"].mean(axis=0)[:, :2, :2]
    turn = np.linspace(0.0, 2.0 * np.pi, 200)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    panel.plot(*observations.T, ".", color=QUIET, alpha=0.6, markersize=5, label="data")
    for k, (share, centre, spread) in enumerate(zip(weight, mean, covariance, strict=True)):
        colour = PALETTE[k % len(PALETTE)]
        for probability, width in ((0.5, 2.0), (0.9, 1.2)):
            radius = math.sqrt(-2.0 * math.log(1.0 - probability))
            ring = centre[:, None] + radius * np.linalg.cholesky(spread) @ circle
            label = f"component {k + 1}, weight {share:.2f}" if probability == 0.5 else None
            panel.plot(*ring, color=colour, linewidth=width, label=label)
    panel.set_xlabel(names[0])
    panel.set_ylabel(names[1])
    _title(panel, posterior)


def evidence_figure(
    ranking: Sequence[Candidate], xlabel: str, certified: Sequence[bool] | None = None
) -> Figure:
    """Log evidence against model size, with error bars and the posterior probabilities.

    Args:
        ranking: the models.
        xlabel: what their names are.
        certified: whether each can be relied on; the others are drawn hollow.
    """
    names = [row.name for row in ranking]
    firm = list(certified) if certified is not None else [True] * len(names)
    with styled():
        figure = blank(7.6, 3.3)
        left, right = figure.subplots(1, 2)
        _evidences(left, ranking, firm)
        fills = [PALETTE[0] if sure else "none" for sure in firm]
        heights = [row.probability for row in ranking]
        right.bar(names, heights, width=0.6, color=fills, edgecolor=PALETTE[0])
        for x, row in enumerate(ranking):
            right.annotate(
                f"{row.probability:.2f}",
                (x, row.probability),
                ha="center",
                va="bottom",
                textcoords="offset points",
                xytext=(0, 2),
                color=INK,
            )
        right.set_ylim(0.0, 1.12)
        right.set_title("Posterior probability")
        for panel in (left, right):
            panel.set_xlabel(xlabel)
    return figure


def _evidences(panel: Axes, ranking: Sequence[Candidate], firm: Sequence[bool]) -> None:
    """Log Z with error bars near the best; models far below stand as arrows at the lower edge."""
    names = [row.name for row in ranking]
    values = np.array([row.log_evidence for row in ranking])
    errors = np.array([2.0 * row.standard_error for row in ranking])
    finite = np.isfinite(values)
    floor = values[finite].max() - NEAR if finite.any() else 0.0
    low = ~finite | (values < floor)
    panel.plot(names, np.full(len(names), np.nan))  # every name has its place
    shown = np.flatnonzero(~low)
    panel.plot(shown, values[shown], color=PALETTE[0], linewidth=0.8)
    for at in shown:
        fill = PALETTE[0] if firm[int(at)] else "white"
        panel.errorbar(
            at,
            values[at],
            errors[at],
            color=PALETTE[0],
            marker="o",
            markerfacecolor=fill,
            capsize=3,
            linewidth=1.2,
        )
    if low.any() and finite.any():
        panel.set_ylim(bottom=floor - 0.1 * NEAR)
        places = np.flatnonzero(low)
        panel.plot(places, np.full(places.size, floor), linestyle="", marker="v", color=QUIET)
    panel.ticklabel_format(axis="y", useOffset=False)
    panel.set_title("Log evidence, two standard errors")
    if not all(firm):
        look: Document = {"ha": "right", "color": QUIET, "fontsize": 8}
        panel.text(0.98, 0.03, "hollow: not certified", transform=panel.transAxes, **look)


def _single(size: tuple[float, float], columns: int, draw: Draw, posterior: Posterior) -> Figure:
    """One panel with its legend beneath."""
    with styled():
        figure = blank(*size)
        panel = figure.subplots()
        draw(panel, posterior)
        below(figure, panel, columns)
    return figure


def _band(panel: Axes, grid: np.ndarray, terms: np.ndarray) -> None:
    """Total with its band, and every component; terms are (grid, draw, component)."""
    total = terms.sum(axis=2)
    low, high = np.quantile(total, [0.025, 0.975], axis=1)
    panel.fill_between(grid, low, high, color=INK, alpha=0.18, linewidth=0, label="95 % band")
    panel.plot(grid, total.mean(axis=1), color=INK, label="posterior mean")
    for k, curve in enumerate(terms.mean(axis=1).T):
        colour, visible = PALETTE[k % len(PALETTE)], curve > 2e-3 * curve.max()
        panel.fill_between(grid, 0.0, curve, where=visible, color=colour, alpha=0.16, linewidth=0)
        panel.plot(
            grid[visible],
            curve[visible],
            color=colour,
            linewidth=1.3,
            linestyle=(0, (4, 1.5)),
            label=f"component {k + 1}",
        )


def _title(panel: Axes, posterior: Posterior) -> None:
    count = posterior["weight"].shape[1]
    panel.set_title("One component" if count == 1 else f"Mixture of {count} components")
