"""The figures of a page one by one, as `Fit.plot` gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from folt.fit.memberships import memberships, most_probable_path
from folt.fit.predictions import require_problem
from folt.report.certificate import modes_chart
from folt.report.charts import still
from folt.report.checks import checks_figure, predictive_checks
from folt.report.marginals import marginals_figure
from folt.report.mixtures import data_figure
from folt.report.page import pairs_of_parameters, traces_of
from folt.report.parameters import Parameters
from folt.report.sections import memberships_figure, path_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from folt.fit import Fit


def plot(fit: Fit, kind: str) -> Figure:
    """Return the figure of this kind.

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
    return marginals_figure(
        {title: values[None][..., list(family.members)] for title, family in panels.items()}
    )


def _chains(fit: Fit) -> Figure:
    return traces_of(Parameters.of(fit))


def _pairs(fit: Fit) -> Figure:
    return pairs_of_parameters(Parameters.of(fit))


def _modes(fit: Fit) -> Figure:
    found = fit.certificate.exploration
    if found is None or not found.modes:
        raise ValueError("no modes were looked for in this fit: its reference draws were given")
    return still(modes_chart(found))


def _data(fit: Fit) -> Figure:
    """Return the observations beneath the mixture."""
    require_problem(fit)
    figure = data_figure(fit)
    if figure is None:
        raise ValueError(
            "how data and parameters belong together is known for the mixtures of folt.models; "
            "draw this model from fit.to_dataframe()"
        )
    return figure


def _memberships(fit: Fit) -> Figure:
    return memberships_figure(fit, memberships(fit))


def _path(fit: Fit) -> Figure:
    return path_figure(fit, most_probable_path(fit), memberships(fit))


def _checks(fit: Fit) -> Figure:
    """Replicated data beside the observed ones."""
    require_problem(fit)
    checks = predictive_checks(fit)
    if checks is None:
        raise ValueError(
            "expected a model of folt.models whose data are one series or table of numbers; "
            "compare fit.replicates() with other data yourself"
        )
    return checks_figure(checks)


KINDS: dict[str, Callable[[Fit], Figure]] = {
    "marginals": _marginals,
    "chains": _chains,
    "pairs": _pairs,
    "data": _data,
    "modes": _modes,
    "memberships": _memberships,
    "path": _path,
    "checks": _checks,
}
