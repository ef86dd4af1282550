"""Figures of mixtures: the data beneath the posterior density, and evidence against size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.report.figures import INK, LINE, PALETTE, QUIET, below, blank, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.certificate.comparison import Candidate

Posterior = Mapping[str, np.ndarray]


def weighted_mixture_figure(
    observations: np.ndarray, posterior: Posterior, name: str = "observation"
) -> Figure:
    """Histogram, posterior mean density with its 95 % band, and the components.

    Args:
        observations: the data.
        posterior: weight, mu and sigma, each (draw, component).
        name: the quantity.
    """
    margin = 0.08 * float(np.ptp(observations))
    grid = np.linspace(observations.min() - margin, observations.max() + margin, 400)
    residual = (grid[:, None, None] - posterior["mu"]) / posterior["sigma"]
    height = posterior["weight"] / (posterior["sigma"] * math.sqrt(2.0 * math.pi))
    terms = height * np.exp(-0.5 * residual**2)
    with styled():
        figure = blank(6.6, 4.1)
        panel = figure.subplots()
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
        below(figure, panel, 3)
    return figure


def poisson_figure(observations: np.ndarray, posterior: Posterior, name: str = "count") -> Figure:
    """Share of every count, with the posterior mean probabilities and their 95 % band.

    Args:
        observations: whole numbers.
        posterior: weight and rate, each (draw, component).
        name: the quantity.
    """
    from scipy.stats import poisson

    grid = np.arange(int(observations.max()) + 2)
    terms = posterior["weight"] * poisson.pmf(grid[:, None, None], posterior["rate"])
    shares = np.bincount(observations.astype(int), minlength=grid.size) / observations.size
    with styled():
        figure = blank(6.6, 4.1)
        panel = figure.subplots()
        panel.bar(grid, shares, width=0.85, color=LINE, label="data")
        _band(panel, grid, terms)
        panel.set_xlabel(name)
        panel.set_ylabel("probability")
        _title(panel, posterior)
        below(figure, panel, 3)
    return figure


def plane_figure(observations: np.ndarray, posterior: Posterior, names: tuple[str, str]) -> Figure:
    """Two variables with ellipses that hold half and 90 % of every component.

    Args:
        observations: (n, 2).
        posterior: weight, mu and covariance with the leading axes (draw, component).
        names: of the two variables.
    """
    weight = posterior["weight"].mean(axis=0)
    mean = posterior["mu"].mean(axis=0)[:, :2]
    covariance = posterior["covariance"].mean(axis=0)[:, :2, :2]
    turn = np.linspace(0.0, 2.0 * np.pi, 200)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    with styled():
        figure = blank(5.6, 4.8)
        panel = figure.subplots()
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
        below(figure, panel, 2)
    return figure


def evidence_figure(ranking: Sequence[Candidate], xlabel: str) -> Figure:
    """Log evidence against model size, with error bars and the posterior probabilities."""
    names = [row.name for row in ranking]
    values = [row.log_evidence for row in ranking]
    errors = [2.0 * row.standard_error for row in ranking]
    with styled():
        figure = blank(7.6, 3.3)
        left, right = figure.subplots(1, 2)
        left.errorbar(names, values, errors, color=PALETTE[0], marker="o", capsize=3, linewidth=1.2)
        left.ticklabel_format(axis="y", useOffset=False)
        left.set_title("Log evidence, two standard errors")
        right.bar(names, [row.probability for row in ranking], width=0.6, color=PALETTE[0])
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
