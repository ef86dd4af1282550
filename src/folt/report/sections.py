"""What a page shows of a model that knows its data: mixture, memberships, path, checks."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import numpy as np

from folt.fit.labels import component_names
from folt.fit.memberships import Memberships, Path, memberships, most_probable_path
from folt.fit.section import Section
from folt.report.checks import NothingToCheckError, checks_figure, predictive_checks
from folt.report.mixtures import data_figure
from folt.report.parameters import variable_names
from folt.report.style import LINE, PALETTE, below, blank, literal, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.fit import Fit

_DATA, _WHO, _PATH, _CHECKS = (
    "The data and the mixture",
    "Who belongs where",
    "The path of the states",
    "What the model would have made",
)
"""Titles; a page that has one of them already gets no second."""

MIXTURE = "The observations beneath the posterior: the whole mixture and each of its components."

DOUBTFUL = 0.9
"""Probability of the most probable component below which a membership is called doubtful."""

APART = 3
"""Observations of two variables per place that they have, at which dots still show them: answers
to questions have few places, where the dot of the last observation hides all others."""

DOTS = 5_000
"""Observations that are drawn; more would only darken the picture."""


def model_sections(fit: Fit, members: Memberships | None = None) -> list[Section]:
    """Return the sections of a ready model, and those of any model that knows its components.

    Args:
        fit: the fit.
        members: who belongs where, if the observations have numbers of their own.

    Warns:
        UserWarning: a section could not be made; it says so in the place of its picture.
    """
    if fit.problem is None:
        return []
    makers: dict[str, Callable[[Fit], Section | None]] = {
        _DATA: _data_section,
        _WHO: functools.partial(_who_section, given=members),
        _PATH: _states_section,
        _CHECKS: _checks,
    }
    there = {section.title for section in fit.sections}
    made = [_made(title, make, fit) for title, make in makers.items() if title not in there]
    return [section for section in made if section is not None]


def _made(title: str, make: Callable[[Fit], Section | None], fit: Fit) -> Section | None:
    """Return a section, or the sentence that it failed: one picture is no reason to lose a page."""
    try:
        return make(fit)
    except Exception as error:
        return Section(title, failed_words(title, error), "")


def failed_words(title: str, error: Exception) -> str:
    """Warn that a picture could not be made, and return the sentence that stands in its place."""
    what = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    sentence = f"This picture could not be made: {what}"
    warnings.warn(f"{title}: {sentence}", UserWarning, stacklevel=3)
    return sentence


def _data_section(fit: Fit) -> Section | None:
    figure = data_figure(fit)
    return None if figure is None else Section(_DATA, MIXTURE, figure)


def _several(fit: Fit, paths: bool) -> Memberships | None:
    """Return the memberships in several components, with paths through these or without."""
    terms = None if fit.problem is None else fit.problem.log_terms
    if terms is None or (getattr(terms, "paths", None) is not None) != paths:
        return None
    found = memberships(fit)
    return found if found.mean.shape[1] > 1 else None


def _who_section(fit: Fit, given: Memberships | None) -> Section | None:
    found = _several(fit, paths=False)
    return None if found is None else membership_section(fit, given or found)


def _states_section(fit: Fit) -> Section | None:
    found = _several(fit, paths=True)
    return None if found is None else path_section(fit, most_probable_path(fit), found)


def _checks(fit: Fit) -> Section | None:
    if fit.problem is None or fit.problem.predictive is None:
        return None
    try:
        checks = predictive_checks(fit)
    except NothingToCheckError:
        return None
    return Section(_CHECKS, checks.text, checks_figure(checks))


def membership_section(fit: Fit, found: Memberships) -> Section:
    """Return observations in the colour of their most probable component."""
    doubtful = int((found.mean.max(axis=1) < DOUBTFUL).sum())
    counts = np.bincount(found.most_probable, minlength=len(found.labels))
    labels = component_names(fit, len(found.labels))
    shares = ", ".join(f"{count:,} to {label}" for label, count in zip(labels, counts, strict=True))
    drawn = (
        "Every observation in the colour of its most probable component, the fainter the less "
        "probable"
        if _apart(fit, len(found.mean)) is not None
        else "The probability of every component for every observation; counted by the most "
        "probable one"
    )
    text = (
        f"{drawn}: {shares}. For {doubtful:,} of {len(found.mean):,} no component has {DOUBTFUL} "
        "of the probability."
    )
    return Section(_WHO, text, memberships_figure(fit, found))


def memberships_figure(fit: Fit, found: Memberships) -> Figure:
    """Values in order, two variables, or probabilities where observations have no place."""
    data, labels = _apart(fit, len(found.mean)), component_names(fit, len(found.labels))
    numbered = found.rows is not None and all(isinstance(row, int) for row in found.rows)
    places = np.asarray(found.rows if numbered else range(len(found.mean)))
    place = found.axis if numbered else "observation"
    with styled():
        figure = blank(6.6, 3.6)
        panel = figure.subplots()
        if data is None:
            for k, label in enumerate(labels):
                shares = found.mean[:, k]
                panel.plot(places, shares, ".", color=_colour(k), markersize=5, label=label)
            panel.set(xlabel=place, ylabel="probability")
        else:
            several = data.ndim == 2 and data.shape[1] > 1
            across = data[:, 0] if several else places
            upwards = data[:, 1] if several else data.reshape(-1)
            strength = found.mean.max(axis=1)
            _coloured(panel, across, upwards, found.most_probable, strength, labels)
            names = variable_names(fit, data)
            panel.set_xlabel(literal(names[0]) if several else place)
            panel.set_ylabel(literal(names[1 if several else 0]))
        below(figure, panel, 4)
    return figure


def _apart(fit: Fit, count: int) -> np.ndarray | None:
    """Return the observations, unless they are not known or most dots would lie upon each other."""
    data = _observed(fit, count)
    if data is None or data.ndim == 1 or data.shape[1] == 1:
        return data
    return data if APART * len(np.unique(data[:, :2], axis=0)) >= len(data) else None


def path_section(fit: Fit, path: Path, found: Memberships) -> Section:
    """Return the series in the colours of the path, above the probabilities of the states."""
    labels = component_names(fit, len(path.labels))
    counts = np.bincount(path.states, minlength=len(labels))
    shares = ", ".join(f"{count:,} in {label}" for label, count in zip(labels, counts, strict=True))
    changes = int(np.sum(path.states[1:] != path.states[:-1]))
    sure = int((path.agreement < DOUBTFUL).sum())
    text = (
        f"The most probable path through the states, with the parameters averaged over, of "
        f"{changes:,} changes: {shares}. At {sure:,} of {len(path.states):,} observations more "
        f"than {1.0 - DOUBTFUL:.0%} of the draws have another state in their own most probable "
        "path. Beneath, the probability of every state at every time, whatever the others."
    )
    return Section(_PATH, text.replace("%", " %"), path_figure(fit, path, found))


def path_figure(fit: Fit, path: Path, found: Memberships) -> Figure:
    """Return the series in the colours of the path, above the probabilities of the states."""
    data, labels = _observed(fit, len(path.states)), component_names(fit, len(path.labels))
    times = np.arange(len(path.states))
    with styled():
        figure = blank(6.6, 4.4)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.0, 1.0))
        if data is not None:
            upper.plot(times, data.reshape(-1), color=LINE, linewidth=0.8, zorder=0)
            values = data.reshape(-1)
            _coloured(upper, times, values, path.states, path.agreement, labels)
            upper.set_ylabel(literal(variable_names(fit, data)[0]))
        colours = [_colour(k) for k in range(len(labels))]
        look: Document = {"colors": colours, "alpha": 0.55, "linewidth": 0, "rasterized": True}
        lower.stackplot(times, found.mean.T, **look)
        lower.set(xlabel="observation", ylabel="probability", ylim=(0.0, 1.0))
        lower.set_xlim(-0.5, len(times) - 0.5)
        below(figure, upper, 4)
    return figure


def _coloured(
    panel: Axes,
    across: np.ndarray,
    upwards: np.ndarray,
    chosen: np.ndarray,
    strength: np.ndarray,
    labels: tuple[str, ...],
) -> None:
    """Dots in the colour of what was chosen for them, the fainter the less sure."""
    shown = np.unique(np.linspace(0, len(across) - 1, DOTS).astype(int))
    for k, label in enumerate(labels):
        own = shown[chosen[shown] == k]
        if not own.size:
            continue  # nobody's most probable one, for which Matplotlib has no colours either
        look: Document = {"s": 14, "linewidths": 0, "rasterized": True}
        alpha = np.clip(strength[own], 0.15, 1.0)
        panel.scatter(across[own], upwards[own], color=_colour(k), alpha=alpha, **look)
        panel.plot([], [], "o", color=_colour(k), markersize=5, label=literal(label))


def _colour(k: int) -> str:
    return PALETTE[k % len(PALETTE)]


def _observed(fit: Fit, count: int) -> np.ndarray | None:
    """The only array among the data with a row per observation; None if there are several."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(fit.problem and fit.problem.data)]
    fitting = [leaf for leaf in leaves if leaf.ndim in (1, 2) and len(leaf) == count]
    return fitting[0] if len(fitting) == 1 and fitting[0].dtype.kind in "iuf" else None
