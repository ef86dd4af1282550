"""The section of a page that shows which component every observation belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from folt.fit.memberships import Memberships, memberships
from folt.fit.section import Section
from folt.report.figures import PALETTE, below, blank, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.fit import Fit

TITLE = "Who belongs where"

DOUBTFUL = 0.9
"""Probability of the most probable component below which a membership is called doubtful."""

DOTS = 5_000
"""Observations that are drawn; more would only darken the picture."""


def membership_sections(fit: Fit) -> list[Section]:
    """The section, where the model has two components at least and the page has none yet."""
    if fit.problem is None or fit.problem.log_terms is None:
        return []
    if any(section.title == TITLE for section in fit.sections):
        return []
    found = memberships(fit)
    return [membership_section(fit, found)] if found.mean.shape[1] > 1 else []


def membership_section(fit: Fit, found: Memberships) -> Section:
    """Observations in the colour of their most probable component."""
    doubtful = int((found.mean.max(axis=1) < DOUBTFUL).sum())
    counts = np.bincount(found.most_probable, minlength=len(found.labels))
    shares = ", ".join(
        f"{count:,} to {label}" for label, count in zip(found.labels, counts, strict=True)
    )
    text = (
        f"Every observation in the colour of its most probable component, the fainter the less "
        f"probable: {shares}. For {doubtful:,} of {len(found.mean):,} no component has {DOUBTFUL} "
        "of the probability."
    )
    return Section(TITLE, text, memberships_figure(found, _observed(fit, len(found.mean))))


def memberships_figure(found: Memberships, data: np.ndarray | None) -> Figure:
    """Values in order, two variables, or probabilities where the observations are not known.

    Args:
        found: the memberships.
        data: the observations (n,) or (n, p).
    """
    with styled():
        figure = blank(6.6, 3.6)
        panel = figure.subplots()
        if data is None:
            _probabilities(panel, found)
        else:
            _observations(panel, found, data)
        below(figure, panel, min(len(found.labels), 4))
    return figure


def _observations(panel: Axes, found: Memberships, data: np.ndarray) -> None:
    several = data.ndim == 2 and data.shape[1] > 1
    across = data[:, 0] if several else np.arange(len(data))
    upwards = data[:, 1] if several else data.reshape(-1)
    shown = np.unique(np.linspace(0, len(data) - 1, DOTS).astype(int))
    for k, label in enumerate(found.labels):
        own = shown[found.most_probable[shown] == k]
        look: Document = {"s": 14, "linewidths": 0, "rasterized": True}
        strength = np.clip(found.mean[own, k], 0.15, 1.0)
        panel.scatter(across[own], upwards[own], color=_colour(k), alpha=strength, **look)
        panel.plot([], [], "o", color=_colour(k), markersize=5, label=str(label))
    panel.set_xlabel("first variable" if several else "observation")
    panel.set_ylabel("second variable" if several else "value")


def _probabilities(panel: Axes, found: Memberships) -> None:
    for k, label in enumerate(found.labels):
        panel.plot(found.mean[:, k], ".", color=_colour(k), markersize=5, label=str(label))
    panel.set_xlabel("observation")
    panel.set_ylabel("probability")


def _colour(k: int) -> str:
    return PALETTE[k % len(PALETTE)]


def _observed(fit: Fit, count: int) -> np.ndarray | None:
    """The only array among the data with a row per observation; None if there are several."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(fit.problem and fit.problem.data)]
    fitting = [leaf for leaf in leaves if leaf.ndim in (1, 2) and len(leaf) == count]
    return fitting[0] if len(fitting) == 1 and fitting[0].dtype.kind in "iuf" else None
