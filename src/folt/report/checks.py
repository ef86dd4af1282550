"""Predictive checks: data that the fitted model would make beside those that were observed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from folt.fit.predictions import require_predictive
from folt.fit.replicates import observations, replicates
from folt.report.parameters import variable_names
from folt.report.style import INK, LINE, PALETTE, QUIET, below, blank, literal, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.fit import Fit

_DRAWS = 400
"""Replicated data sets: tail probabilities have standard errors up to .025."""

_NUMBERS = 1 << 22
"""Replicated observations in memory at once; of large data fewer sets are made."""

_FEWEST = 40
"""Sets that are made of any data."""

VARIABLES = 3
"""Variables that have a picture."""

ITEMS = 12
"""Variables with two values that are compared: each has no more than its mean."""

EXTREME = 0.025
"""Tail probability below which a quantity is said to be unlike the replicates."""

_BARS = (12, 40)
"""Fewest and most bars of a histogram."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One quantity of the observed data beside that of every replicate.

    Attributes:
        name: of the quantity.
        observed: its value.
        replicated: its values, one per replicate.
    """

    name: str
    observed: float
    replicated: np.ndarray

    @property
    def tail(self) -> float:
        """Share of replicates with a larger value; ties count by half."""
        above = np.mean(self.replicated > self.observed)
        return float(above + 0.5 * np.mean(self.replicated == self.observed))

    @property
    def extreme(self) -> bool:
        """Whether hardly any replicate is like the data."""
        return min(self.tail, 1.0 - self.tail) < EXTREME


@dataclasses.dataclass(frozen=True)
class Checks:
    """The observed data, replicates of them, and quantities of both.

    Attributes:
        observed: (n, variable).
        replicated: (replicate, n, variable).
        names: of the variables.
        quantities: what is compared, of two-valued data the means and correlations.
        counts: whether the data are whole numbers.
    """

    observed: np.ndarray
    replicated: np.ndarray
    names: tuple[str, ...]
    quantities: tuple[Check, ...]
    counts: bool

    @property
    def text(self) -> str:
        """What was found, in a few sentences."""
        wrong = [check for check in self.quantities if check.extreme]
        words = [
            f"{len(self.replicated):,} data sets that the fitted model would make (shaded, 95 % of "
            "them) beside the observed one."
        ]
        most = ITEMS if _two_valued(self.observed, self.replicated) else VARIABLES
        if len(self.names) > most:
            words.append(f"Of {len(self.names)} variables the first {most} are compared.")
        if wrong:
            named = ", ".join(
                f"{check.name} is {'larger' if check.tail < 0.5 else 'smaller'} than in "
                f"{100.0 * max(check.tail, 1.0 - check.tail):.0f} %"
                for check in wrong
            )
            words.append(f"The model does not make such data: {named} of the replicates.")
        else:
            words.append("No quantity is unlike those of the replicates.")
        words.append("At the right, observed values and the share of replicates with a larger one.")
        return " ".join(words)


class NothingToCheckError(ValueError):
    """Data and replicates that no picture puts beside each other."""


def predictive_checks(fit: Fit) -> Checks:
    """The checks of a model with one observed series or table of numbers.

    Raises:
        NothingToCheckError: what was observed is not known, or is something else.
        ValueError: the model does not say how observations are drawn, or the fit was loaded
            without its problem.
    """
    problem = require_predictive(fit)
    known = observations(problem)
    if len(known) != 1:
        raise NothingToCheckError(
            "expected one array of observations, got "
            f"{' and '.join(map(repr, known)) or 'none that is known'}: compare fit.replicates() "
            "with the data yourself; data={name: array} says which array its replicates are like"
        )
    ((name, values),) = known.items()
    if values.ndim not in (1, 2) or values.dtype.kind not in "biuf" or not values.size:
        raise NothingToCheckError(
            f"expected a series or table of numbers, got {name!r} of shape {values.shape}: compare "
            "fit.replicates() with the data yourself"
        )
    observed = np.asarray(values, float)
    most = int(np.clip(_NUMBERS // observed.size, _FEWEST, _DRAWS))
    chains, length = fit.draws.shape[:2]
    made = replicates(fit, draws=min(length, -(-most // chains))).values[name]
    series = getattr(problem.log_terms, "paths", None) is not None
    together = made.reshape(-1, *observed.shape).astype(float)
    return compared(observed, together, variable_names(fit, observed), series)


def compared(
    observed: np.ndarray, replicated: np.ndarray, names: tuple[str, ...], series: bool = False
) -> Checks:
    """Quantities of data and replicates.

    Args:
        observed: (n,) or (n, variable).
        replicated: the same with a leading axis of replicates.
        names: of the variables.
        series: whether rows are in the order of time.
    """
    table = observed.reshape(len(observed), -1)
    made = replicated.reshape(len(replicated), *table.shape)
    counts = bool(np.all(table == np.round(table)) and np.all(made == np.round(made)))
    found: list[Check] = []
    single = table.shape[1] == 1
    binary = _two_valued(table, made)  # then the mean is all there is
    for j, name in enumerate(names[: ITEMS if binary else VARIABLES]):
        ending = "" if single else f" of {name}"
        quantities: dict[str, Callable[..., np.ndarray]] = {
            **({"mean": np.mean} if single or binary else {}),
            **({"standard deviation": np.std} if not binary else {}),
            **({"skewness": _skewness} if not binary else {}),
            **({"smallest": np.min, "largest": np.max} if single and not binary else {}),
            **({"correlation with the one before": _lagged} if series and single else {}),
        }
        for word, quantity in quantities.items():
            values = quantity(made[:, :, j], axis=1)
            found.append(Check(word + ending, float(quantity(table[:, j], axis=0)), values))
    for i, j in itertools.combinations(range(min(table.shape[1], VARIABLES)), 2):
        both = [_correlation(one[..., i], one[..., j]) for one in (table, made)]
        word = f"correlation of {names[i]} and {names[j]}"
        found.append(Check(word, float(both[0]), np.asarray(both[1])))
    return Checks(table, made, names, tuple(found), counts)


def _two_valued(table: np.ndarray, made: np.ndarray) -> bool:
    """Whether data and replicates are answers of yes and no, two neighbouring whole numbers."""
    low, high = min(table.min(), made.min()), max(table.max(), made.max())
    return bool(high - low <= 1.0 and all(np.isin(one, (low, high)).all() for one in (table, made)))


def checks_figure(checks: Checks) -> Figure:
    """Histograms of the observed variables over the band of the replicates, and the quantities."""
    shown = min(checks.observed.shape[1], VARIABLES)
    rows = len(checks.quantities)
    with styled():
        figure = blank(6.6, 2.7 + 0.28 * rows + 0.5)
        parts: Any = figure.subfigures(2, 1, height_ratios=(2.6, 0.28 * rows + 0.6))
        upper, lower = parts
        panels = upper.subplots(1, shown, squeeze=False)[0]
        for j, panel in enumerate(panels):
            _overlay(panel, checks, j)
        panels[0].set_ylabel("share" if checks.counts else "density")
        below(figure, panels[0], 2)
        _quantities(lower.subplots(), checks)
    return figure


def _overlay(panel: Axes, checks: Checks, j: int) -> None:
    observed, made = checks.observed[:, j], checks.replicated[:, :, j]
    low, high = np.quantile(made, [0.001, 0.999])
    low, high = min(low, observed.min()), max(high, observed.max())
    if checks.counts and high - low < _BARS[1]:
        edges = np.arange(low, high + 2.0) - 0.5
    else:
        bars = int(np.clip(2.0 * np.sqrt(observed.size), *_BARS))
        edges = np.linspace(low, high, bars + 1)
    scale = 1.0 / (len(observed) * (edges[1] - edges[0]))
    heights = np.stack([np.histogram(one, edges)[0] for one in made]) * scale
    ends = np.quantile(heights, [0.025, 0.975], axis=0)
    shade: Document = {"fill": True, "color": PALETTE[0], "alpha": 0.3}
    panel.stairs(ends[1], edges, baseline=ends[0], label="replicated, 95 %", **shade)
    outline: Document = {"color": INK, "linewidth": 1.3, "baseline": None}
    panel.stairs(np.histogram(observed, edges)[0] * scale, edges, label="observed", **outline)
    panel.set_xlabel(literal(checks.names[j]))
    panel.set_ylim(bottom=0.0)


def _quantities(panel: Axes, checks: Checks) -> None:
    """Every quantity in standard deviations of its replicates, the tail probability beside it."""
    panel.axvline(0.0, color=LINE, linewidth=0.8, zorder=0)
    count = len(checks.quantities)
    for k, check in enumerate(checks.quantities):
        height, spread = count - 1 - k, float(check.replicated.std()) or 1.0
        middle = float(check.replicated.mean())
        ends = (np.quantile(check.replicated, [0.025, 0.975]) - middle) / spread
        panel.plot(ends, [height] * 2, color=PALETTE[0], alpha=0.3, linewidth=7)
        at = float(np.clip((check.observed - middle) / spread, -4.5, 4.5))
        colour = PALETTE[1] if check.extreme else INK
        panel.plot(at, height, "o", color=colour, markersize=5.5)
        words = f"{check.observed:.3g}; {check.tail:.2f} larger"
        look: Document = {"va": "center", "fontsize": 8, "color": QUIET}
        panel.text(1.02, height, words, transform=panel.get_yaxis_transform(), **look)
    panel.set_yticks(range(count), [literal(check.name) for check in checks.quantities][::-1])
    panel.tick_params(axis="y", length=0)
    panel.spines["left"].set_visible(False)
    panel.set(xlim=(-5.0, 5.0), ylim=(-0.6, count - 0.4))
    panel.set_xlabel("observed less the mean of the replicates, in their standard deviations")


def _skewness(values: np.ndarray, axis: int) -> np.ndarray:
    centred = values - values.mean(axis=axis, keepdims=True)
    spread = values.std(axis=axis)
    return (centred**3).mean(axis=axis) / np.where(spread > 0.0, spread, 1.0) ** 3


def _lagged(values: np.ndarray, axis: int) -> np.ndarray:
    return _correlation(values[..., :-1], values[..., 1:])


def _correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Along the last axis; zero where a variable does not vary."""
    first = one - one.mean(axis=-1, keepdims=True)
    second = other - other.mean(axis=-1, keepdims=True)
    size = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    return (first * second).sum(axis=-1) / np.where(size > 0.0, size, 1.0)
