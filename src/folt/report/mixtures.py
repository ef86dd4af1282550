"""Figures of mixtures: the data beneath the posterior density, and evidence against size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.predictions import forecast_of
from folt.report.parameters import variable_names
from folt.report.style import INK, LINE, PALETTE, QUIET, below, blank, literal, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.certificate.comparison import Candidate
    from folt.fit import Fit

_Posterior = Mapping[str, np.ndarray]
Draw = Callable[["Axes", _Posterior], None]

PANELS_PER_ROW = 5

_PAIRED = 4
"""Variables that are shown in pairs."""

_PICTURED = 400
"""Draws of which the fitted components are an average."""

RASTER = 80
"""Points of the grid of a density in two variables, each way."""

SURFACES = 60
"""Draws whose densities are averaged in two variables."""

HELD = (0.5, 0.9, 0.99)
"""Probabilities that the lines of the whole mixture hold."""

NEAR = 12.0
"""Nats below the best evidence beyond which a model is only said to lie below."""


def weighted_mixture_figure(
    observations: np.ndarray, posterior: _Posterior, name: str = "observation"
) -> Figure:
    """Histogram, posterior mean density with its 95 % band, and the components.

    Args:
        observations: the data.
        posterior: weight, mu and sigma, each (draw, component).
        name: the quantity.
    """
    return _single(partial(draw_weighted, observations, name=name), posterior)


def poisson_figure(observations: np.ndarray, posterior: _Posterior, name: str = "count") -> Figure:
    """Return the share of every count, with the posterior mean probabilities and their 95 % band.

    Args:
        observations: whole numbers.
        posterior: weight and rate, each (draw, component).
        name: the quantity.
    """
    return _single(partial(count_panel, observations, name=name), posterior)


def plane_figure(observations: np.ndarray, posterior: _Posterior, names: Sequence[str]) -> Figure:
    """Variables in pairs: the whole mixture shaded, ellipses around half and 90 % of a component.

    Args:
        observations: (n, p), of which the first `_PAIRED` variables are shown.
        posterior: weight, mu and covariance with the leading axes (draw, component).
        names: of the variables.
    """
    pairs = list(itertools.combinations(range(min(observations.shape[1], _PAIRED)), 2))
    columns = min(len(pairs), 3)
    rows = math.ceil(len(pairs) / columns)
    with styled():
        size = (5.6, 4.8) if len(pairs) == 1 else (3.0 * columns, 2.7 * rows + 0.4)
        figure = blank(*size)
        panels = figure.subplots(rows, columns, squeeze=False).flat
        for panel, pair in zip(panels, pairs, strict=True):
            draw_plane(observations, panel, posterior, names, pair)
            if len(pairs) > 1:
                panel.set_title("")
        below(figure, panels[0], 2 if len(pairs) == 1 else 3)
    return figure


def data_figure(fit: Fit) -> Figure | None:
    """The observations beneath the fitted mixture; None where the model is no ready mixture."""
    data = None if fit.problem is None else fit.problem.data
    if fit.problem is None or forecast_of(fit.problem) is None or not isinstance(data, np.ndarray):
        return None
    posterior = thinned_posterior(fit)
    if set(posterior) == {"mu", "sigma"} and data.ndim == 1:
        posterior["weight"] = np.full_like(posterior["mu"], 1.0 / posterior["mu"].shape[1])
    known, names = set(posterior), variable_names(fit, data)
    if known == {"weight", "mu", "sigma"}:
        return weighted_mixture_figure(data, posterior, names[0])
    if known == {"weight", "rate"}:
        return poisson_figure(data, posterior, names[0])
    if known == {"weight", "mu", "covariance"} and data.shape[1] > 1:
        return plane_figure(data, posterior, names)
    return None


def thinned_posterior(fit: Fit) -> dict[str, np.ndarray]:
    """Some 400 draws of every parameter, all chains together: more would change no line."""
    count = fit.draws.shape[0] * fit.draws.shape[1]
    return {
        name: value.reshape(count, *value.shape[2:])[:: max(count // _PICTURED, 1)]
        for name, value in fit.posterior.items()
    }


def sizes_figure(posteriors: Mapping[int, _Posterior], draw: Draw) -> Figure:
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
    observations: np.ndarray, panel: Axes, posterior: _Posterior, name: str = "observation"
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
    panel.set_xlabel(literal(name))
    panel.set_ylabel("density")
    panel.set_xlim(grid[0], grid[-1])
    panel.set_ylim(bottom=0.0)
    _title(panel, posterior)


def count_panel(
    observations: np.ndarray, panel: Axes, posterior: _Posterior, name: str = "count"
) -> None:
    """A panel of `poisson_figure`."""
    from scipy.stats import poisson

    grid = np.arange(int(observations.max()) + 2)
    terms = posterior["weight"] * poisson.pmf(grid[:, None, None], posterior["rate"])
    shares = np.bincount(observations.astype(int), minlength=grid.size) / observations.size
    panel.bar(grid, shares, width=0.85, color=LINE, label="data")
    _band(panel, grid, terms)
    panel.set_xlabel(literal(name))
    panel.set_ylabel("probability")
    _title(panel, posterior)


def draw_plane(
    observations: np.ndarray,
    panel: Axes,
    posterior: _Posterior,
    names: Sequence[str],
    pair: tuple[int, int] = (0, 1),
) -> None:
    """A panel of `plane_figure`: two variables, the density of the mixture in these two."""
    chosen = list(pair)
    mean = posterior["mu"].mean(axis=0)[:, chosen]
    covariance = posterior["covariance"].mean(axis=0)[:, chosen][:, :, chosen]
    shown = observations[:, chosen]
    turn = np.linspace(0.0, 2.0 * np.pi, 200)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    _whole_mixture(panel, shown, posterior, chosen)
    dots: Document = {"color": QUIET, "alpha": 0.6, "markersize": 4, "rasterized": True}
    panel.plot(*shown.T, ".", label=f"{len(shown):,} observations", **dots)
    weight = posterior["weight"].mean(axis=0)
    for k, (share, centre, spread) in enumerate(zip(weight, mean, covariance, strict=True)):
        colour = PALETTE[k % len(PALETTE)]
        for probability, width in ((0.5, 2.0), (0.9, 1.2)):
            radius = math.sqrt(-2.0 * math.log(1.0 - probability))
            ring = centre[:, None] + radius * np.linalg.cholesky(spread) @ circle
            label = f"component {k + 1}, weight {share:.2f}" if probability == 0.5 else None
            panel.plot(*ring, color=colour, linewidth=width, label=label)
    panel.set_xlabel(literal(names[pair[0]]))
    panel.set_ylabel(literal(names[pair[1]]))
    _title(panel, posterior)


def _whole_mixture(
    panel: Axes, shown: np.ndarray, posterior: _Posterior, chosen: list[int]
) -> None:
    """The posterior mean of the density, shaded: lines hold half and 90 % of its probability."""
    margin = 0.12 * np.ptp(shown, axis=0)
    low, high = shown.min(axis=0) - margin, shown.max(axis=0) + margin
    axes = [np.linspace(low[j], high[j], RASTER) for j in (0, 1)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    total = np.zeros(len(grid))
    every = max(1, len(posterior["weight"]) // SURFACES)
    drawn = [posterior[name][::every] for name in ("weight", "mu", "covariance")]
    for weight, mu, covariance in zip(*drawn, strict=True):
        for share, centre, spread in zip(weight, mu, covariance, strict=True):
            root = np.linalg.cholesky(spread[np.ix_(chosen, chosen)])
            residual = np.linalg.solve(root, (grid - centre[chosen]).T)
            height = share / (2.0 * math.pi * root[0, 0] * root[1, 1])
            total += height * np.exp(-0.5 * np.sum(residual**2, axis=0))
    ordered = np.sort(total)[::-1]
    held = np.cumsum(ordered) / ordered.sum()
    levels = sorted({float(ordered[np.searchsorted(held, share)]) for share in HELD})
    surface = total.reshape(RASTER, RASTER)
    if len(levels) == len(HELD):
        shades: Document = {"colors": [INK] * len(levels), "linewidths": 0.6, "alpha": 0.45}
        panel.contour(*axes, surface, levels=levels, **shades)
        for level in levels:
            filled: Document = {"colors": [INK], "alpha": 0.06}
            panel.contourf(*axes, surface, levels=[level, np.inf], **filled)
        panel.fill_between([], [], color=INK, alpha=0.18, label="whole mixture: 50, 90, 99 %")
    panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def evidence_figure(
    ranking: Sequence[Candidate], xlabel: str, certified: Sequence[bool] | None = None
) -> Figure:
    """Return the log evidence against model size, with error bars and the posterior probabilities.

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
        bars = right.bar(names, heights, width=0.6, color=fills, edgecolor=PALETTE[0])
        right.bar_label(bars, fmt="%.2f", padding=2)
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


@styled()
def _single(draw: Draw, posterior: _Posterior) -> Figure:
    """Return one panel with its legend beneath."""
    figure = blank(6.6, 4.1)
    panel = figure.subplots()
    draw(panel, posterior)
    below(figure, panel, 3)
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


def _title(panel: Axes, posterior: _Posterior) -> None:
    count = posterior["weight"].shape[1]
    panel.set_title("One component" if count == 1 else f"Mixture of {count} components")
