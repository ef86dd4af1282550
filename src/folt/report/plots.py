"""The figures of a page one by one, as `Fit.plot` gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from folt.fit.memberships import memberships, most_probable_path
from folt.fit.predictions import require_problem
from folt.report.charts import modes_chart
from folt.report.checks import checks_figure, predictive_checks
from folt.report.marginals import family_colours, marginals_figure
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
    values, panels = parameters.folded.whole[None], parameters.panels()
    return marginals_figure(
        {family.title: values[..., list(family.members)] for family in panels},
        colours=family_colours(panels),
    )


def _modes(fit: Fit) -> Figure:
    found = fit.certificate.exploration
    if found is None or not found.modes:
        raise ValueError("no modes were looked for in this fit: its reference draws were given")
    return modes_chart(found).figure


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


KINDS: dict[str, Callable[[Fit], Figure]] = {
    "marginals": _marginals,
    "chains": lambda fit: traces_of(Parameters.of(fit)),
    "pairs": lambda fit: pairs_of_parameters(Parameters.of(fit)),
    "data": _data,
    "modes": _modes,
    "memberships": lambda fit: memberships_figure(fit, memberships(fit)),
    "path": lambda fit: path_figure(fit, most_probable_path(fit), memberships(fit)),
    "checks": lambda fit: checks_figure(predictive_checks(fit)),
}
