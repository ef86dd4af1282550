"""The figures of a page one by one, as `Fit.plot` gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from folt.report import figures
from folt.report.certificate import modes_chart
from folt.report.mixtures import plane_figure, poisson_figure, weighted_mixture_figure
from folt.report.page import pairs_of, traces_of
from folt.report.parameters import Parameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from folt.fit import Fit

PICTURED = 400
"""Draws of which the fitted components are an average: more would change no line."""


def plot(fit: Fit, kind: str) -> Figure:
    """The figure of this kind.

    Raises:
        ValueError: another kind, or one that this fit has nothing to show for.
    """
    if kind not in KINDS:
        raise ValueError(f"expected one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    return KINDS[kind](fit)


def _marginals(fit: Fit) -> Figure:
    parameters = Parameters.of(fit)
    panels = {
        family.label if family.single else family.label.split(":")[0]: family
        for family in parameters.panels()
    }
    values = parameters.folded.whole
    return figures.marginals_figure(
        {title: values[None][..., list(family.members)] for title, family in panels.items()}
    )


def _chains(fit: Fit) -> Figure:
    return traces_of(Parameters.of(fit))


def _pairs(fit: Fit) -> Figure:
    return pairs_of(Parameters.of(fit))


def _modes(fit: Fit) -> Figure:
    found = fit.certificate.exploration
    if found is None or not found.modes:
        raise ValueError("no modes were looked for in this fit: its reference draws were given")
    return figures.still(modes_chart(found))


def _data(fit: Fit) -> Figure:
    """The observations beneath the mixture."""
    data = None if fit.problem is None else fit.problem.data
    posterior = {
        name: value.reshape(-1, *value.shape[2:])[:: max(value[..., 0].size // PICTURED, 1)]
        for name, value in fit.posterior.items()
        if value.size
    }
    names = set(posterior)
    if isinstance(data, np.ndarray) and "weight" in names:
        if {"mu", "sigma"} <= names and data.ndim == 1:
            return weighted_mixture_figure(data, posterior)
        if "rate" in names and data.ndim == 1:
            return poisson_figure(data, posterior)
        if {"mu", "covariance"} <= names and data.ndim == 2 and data.shape[1] > 1:
            return plane_figure(data[:, :2], posterior, ("variable 1", "variable 2"))
    if fit.problem is None:
        raise ValueError("a loaded fit needs its problem for this: folt.load(path, problem=...)")
    raise ValueError(
        "how data and parameters belong together is known for the mixtures of folt.models; draw "
        "this model from fit.to_dataframe()"
    )


KINDS: dict[str, Callable[[Fit], Figure]] = {
    "marginals": _marginals,
    "chains": _chains,
    "pairs": _pairs,
    "data": _data,
    "modes": _modes,
}
