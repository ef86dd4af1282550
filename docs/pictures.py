"""The pictures of the documentation, from real runs: `python docs/pictures.py`.

Writes switching.png and labels.png to docs/assets. Tutorials import the functions here and hand
them fits of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from scipy.signal import find_peaks
from scipy.stats import gaussian_kde

import folt
from folt.batching import map_points
from folt.certificate.diagnostics.chains import split_rhat
from folt.fit import in_user_parameters
from folt.models import gaussian_mixture, simulate_gaussian_mixture
from folt.report.style import INK, LINE, PALETTE, QUIET, blank, styled, svg
from folt.types import in_float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

ASSETS = Path(__file__).parent / "assets"
SHOWN = 250
"""Draws of every chain in a trace."""

DRAWS = 2000
"""Draws of every chain."""


def told(fit: folt.Fit, sentence: str) -> str:
    """A sentence about a fit, with its verdict."""
    return f"{sentence} ({fit.certificate.status.name})"


def inline(figure: Figure, name: str) -> str:
    """A figure as HTML inside a page, in the page's own colours."""
    return f'<figure class="plot">{svg(figure, name)}</figure>'


def measured_evidence_figure(name: str) -> Figure:
    """Log evidence against size from a measurement in benchmarks/results that keeps its `sizes`."""
    import json

    from folt.certificate.comparison import compare_evidences
    from folt.certificate.diagnostics.evidence import Evidence
    from folt.certificate.outcomes import Outcome
    from folt.report.mixtures import evidence_figure

    path = Path(__file__).parents[1] / "benchmarks" / "results" / f"{name}.json"
    sizes = json.loads(path.read_text(encoding="utf-8"))["sizes"]
    found = {
        str(one["components"]): Evidence(
            one["log_z"], one["standard_error"], one["pareto_k"], 1, method=one["method"]
        )
        for one in sizes
    }
    certified = [Outcome.named(one["verdict"]).usable for one in sizes]
    return evidence_figure(compare_evidences(found), "number of components", certified)


@in_float64
def nuts(
    problem: folt.Problem, *, draws: int = DRAWS, chains: int = 4, seed: int = 0
) -> np.ndarray:
    """Draws of NumPyro's NUTS on the posterior as it is, (chain, draw, dim)."""
    from numpyro.infer import MCMC, NUTS

    sampler = MCMC(
        NUTS(potential_fn=lambda x: -problem.log_prob(x)),
        num_warmup=1000,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    starts = jax.random.normal(jax.random.key(seed + 1), (chains, problem.dim))
    sampler.run(jax.random.key(seed), init_params=starts)
    return np.asarray(sampler.get_samples(group_by_chain=True))


def switching_figure(before: np.ndarray, after: np.ndarray) -> Figure:
    """The component means of chains that switch labels, beside folded ones.

    Args:
        before: (chain, draw, component).
        after: (chain, draw, component).
    """
    worst = [worst_rhat(side) for side in (before, after)]
    titles = (f"NUTS: labels switch, R-hat {worst[0]:.2f}", f"folt: folded, R-hat {worst[1]:.3f}")
    low, high = np.quantile(np.concatenate([before, after], axis=1), [0.001, 0.999])
    with styled():
        figure = blank(9.0, 3.5)
        panels = figure.subplots(1, 2, sharey=True)
        for panel, side, title in zip(panels, (before, after), titles, strict=True):
            _traces(panel, side)
            panel.set_title(title)
            panel.set_xlabel(
                f"{side.shape[1]} draws of each chain, every {side.shape[1] // SHOWN}th"
            )
        panels[0].set_ylabel("component mean")
        panels[0].set_ylim(low - 0.03 * (high - low), high + 0.03 * (high - low))
        _legend(figure, [f"component {k + 1}" for k in range(before.shape[-1])])
    return figure


def worst_rhat(side: np.ndarray) -> float:
    """The largest R-hat over components, (chain, draw, component)."""
    return max(split_rhat(side[..., component]) for component in range(side.shape[-1]))


def _traces(panel: Axes, side: np.ndarray) -> None:
    few = np.linspace(0, side.shape[1] - 1, SHOWN).astype(int)
    joined = side[:, few].reshape(-1, side.shape[-1])
    for component, values in enumerate(joined.T):
        panel.plot(values, ".", markersize=2.6, color=PALETTE[component], markeredgewidth=0)
    for boundary in range(SHOWN, len(joined), SHOWN):
        panel.axvline(boundary, color=LINE, linewidth=0.9, zorder=0)
    panel.set_xlim(0, len(joined))
    panel.set_xticks([SHOWN * (chain + 0.5) for chain in range(len(side))])
    panel.set_xticklabels([f"chain {chain + 1}" for chain in range(len(side))])
    panel.tick_params(axis="x", length=0)


def _legend(figure: Figure, labels: list[str]) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], linestyle="", marker="o", markersize=5, color=PALETTE[k], label=label)
        for k, label in enumerate(labels)
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False)


@in_float64
def sorted_labels(fit: folt.Fit) -> dict[str, np.ndarray]:
    """The draws of a fit under the sorted labels, whatever labels it reports."""
    points = fit.draws.reshape(-1, fit.group.dim)
    folded = map_points(_folded, fit.group, points)
    assert fit.problem is not None
    return in_user_parameters(fit.problem, np.asarray(folded).reshape(fit.draws.shape))


def _folded(group: folt.groups.Group, point: jax.Array) -> jax.Array:
    return group.fold(point)


def density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A kernel density estimate, its bandwidth below Scott's so that two peaks stay two."""
    flat = values.ravel()
    flat = flat[:: max(flat.size // 8000, 1)]
    bandwidth = 0.7 * flat.size**-0.2
    margin = 3 * bandwidth * flat.std()
    grid = np.linspace(flat.min() - margin, flat.max() + margin, 400)
    return grid, gaussian_kde(flat, bandwidth)(grid)


def modes(values: np.ndarray, prominence: float = 0.05) -> int:
    """Peaks of the density estimate that stand out by a share of the highest one."""
    _, height = density(values)
    return len(find_peaks(height, prominence=prominence * height.max())[0])


def labels_figure(
    rows: dict[str, dict[str, np.ndarray]], titles: dict[str, str], names: tuple[str, str]
) -> Figure:
    """Marginals of two components under one labelling per row.

    Args:
        rows: for every labelling `{parameter: (..., 2)}`.
        titles: axis label of every parameter shown.
        names: what the two components are called.
    """
    with styled():
        figure = blank(9.0, 1.0 + 1.7 * len(rows))
        panels = figure.subplots(len(rows), len(titles), sharex="col", squeeze=False)
        for line, (labelling, parameters) in zip(panels, rows.items(), strict=True):
            for panel, name in zip(line, titles, strict=True):
                _two_densities(panel, parameters[name], names)
            line[0].set_title(labelling)
        for panel, title in zip(panels[-1], titles.values(), strict=True):
            panel.set_xlabel(title)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _two_densities(panel: Axes, values: np.ndarray, names: tuple[str, str]) -> None:
    for component, name in enumerate(names):
        grid, height = density(values[..., component])
        panel.plot(grid, height, color=PALETTE[component], label=name)
        panel.fill_between(grid, height, color=PALETTE[component], alpha=0.13, lw=0)
    panel.set_ylim(bottom=0)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)


def loadings_figure(loading: np.ndarray, truth: Sequence[Sequence[float]]) -> Figure:
    """Densities of all loadings, one panel per factor, with the size of the true ones.

    Args:
        loading: (chain, draw, factor, variable).
        truth: (factor, variable), known up to order and signs of the rows.
    """
    mean, true = loading.mean(axis=(0, 1)), np.asarray(truth)
    match = mean @ true.T
    with styled():
        figure = blank(9.0, 3.0)
        for row, panel in enumerate(figure.subplots(1, len(mean), sharex=True, sharey=True)):
            same = int(np.abs(match[row]).argmax())
            expected = np.sign(match[row, same]) * true[same]
            for variable in range(mean.shape[1]):
                grid, height = density(loading[..., row, variable])
                colour = PALETTE[variable]
                level = -variable
                shape = 0.85 * height / height.max()
                panel.fill_between(grid, level, level + shape, color=colour, alpha=0.6, lw=0)
                panel.plot(
                    [expected[variable]], [level], "|", color=INK, markersize=9, clip_on=False
                )
            panel.axvline(0.0, color=LINE, linewidth=0.8, zorder=0)
            panel.set_title(f"Factor {row + 1}")
            panel.set_xlabel("loading; the strokes are the truth")
            panel.set_yticks([-k for k in range(mean.shape[1])])
            panel.set_yticklabels([f"variable {k + 1}" for k in range(mean.shape[1])])
            panel.tick_params(axis="y", length=0)
            panel.spines["left"].set_visible(False)
    return figure


def bands(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    predicted: DataFrame,
    names: tuple[str, str] = ("x", "y"),
) -> Figure:
    """Observations, if any, beneath predicted curves, one for every column of `Fit.predict`.

    Args:
        x: where the observations are.
        y: the observations.
        predicted: the curves, with their bands, by place.
        names: of the axes.
    """
    with styled():
        figure = blank(6.6, 3.4)
        panel = figure.subplots()
        panel.plot(x, y, ".", color=QUIET, markersize=5)
        means = [name for name in predicted if name.startswith("mean")]
        for k, mean in enumerate(means):
            low, high = (predicted[mean.replace("mean", end)] for end in ("low", "high"))
            panel.fill_between(predicted.index, low, high, color=PALETTE[k], alpha=0.3, linewidth=0)
            panel.plot(predicted.index, predicted[mean], color=PALETTE[k])
        panel.set(xlabel=names[0], ylabel=names[1])
    return figure


def ring_figure(fit: folt.Fit, variables: int) -> Figure:
    """Loadings of every variable on two factors: the ring on the left, the quotient on the right.

    Args:
        fit: of a model with two factors whose rotations were divided out.
        variables: how many variables.
    """
    whole = fit.unfolded(seed=1)[..., : 2 * variables].reshape(-1, 2, variables)
    left = fit.posterior["loading"].reshape(-1, 2, variables)
    deviation = np.asarray(fit.problem.whole_parameters.__self__.deviation)  # type: ignore[union-attr]
    titles = ("The posterior: a ring", "The quotient: one point of every ring")
    with styled():
        figure = blank(9.0, 4.4)
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for panel, draws, title in zip(panels, (whole, left / deviation), titles, strict=True):
            for variable in range(variables):
                panel.plot(*draws[::8, :, variable].T, ".", color=PALETTE[variable], markersize=1.6)
            panel.set_aspect("equal")
            panel.set_title(title)
            panel.set_xlabel("loading on factor 1")
        panels[0].set_ylabel("loading on factor 2")
    return figure


def switching() -> Figure:
    """NUTS and folt on the same posterior."""
    truth = {"weight": (1 / 3, 1 / 3, 1 / 3), "mu": (0.0, 4.0, 8.0), "sigma": (1.0, 1.0, 1.0)}
    data = simulate_gaussian_mixture(jax.random.key(5), 90, **truth)
    problem = gaussian_mixture(data, 3, concentration=5.0)
    before = in_user_parameters(problem, nuts(problem))["mu"]
    return switching_figure(before, folt.sample(problem, draws=DRAWS).posterior["mu"])


def labels() -> Figure:
    """One posterior under two labellings; the tutorial on labels makes the same fit."""
    truth = {"weight": (0.75, 0.25), "mu": (0.0, 0.0), "sigma": (0.5, 2.0)}
    data = simulate_gaussian_mixture(jax.random.key(0), 250, **truth)
    return both_labellings(folt.sample(gaussian_mixture(data, 2), draws=DRAWS, labels="proposal"))


def both_labellings(fit: folt.Fit) -> Figure:
    """A mixture of two normals, sorted by mean and under the proposal's labels."""
    rows = {"Sorted by mean": sorted_labels(fit), "The proposal's own labels": fit.posterior}
    titles = {"mu": "mean μ", "sigma": "standard deviation σ", "weight": "weight"}
    return labels_figure(rows, titles, ("component 1", "component 2"))


def write(figure: Figure, name: str) -> None:
    """Into docs/assets, on white, so that it can be read on any background."""
    ASSETS.mkdir(exist_ok=True)
    with styled():
        figure.savefig(ASSETS / f"{name}.png", dpi=160, facecolor="white")
    sys.stdout.write(f"wrote {ASSETS / name}.png\n")


if __name__ == "__main__":
    write(switching(), "switching")
    write(labels(), "labels")
