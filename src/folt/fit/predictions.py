"""What a fitted model predicts for new conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.batching import map_points
from folt.fit.by_name import ByName
from folt.problem import Problem
from folt.problem.observed import Forecast, Predictive
from folt.problem.quotient import Lifted
from folt.types import Key, in_float64

if TYPE_CHECKING:
    import pandas

    from folt.fit.fit import Fit

Predicted = Callable[[dict[str, np.ndarray], Any], Any]
"""From the parameters of one draw and `new` to predicted values, (row,) or (row, column)."""

_NUMBERS = 1 << 24
"""Predicted values in memory at once, draws and values together."""

CALLS = 2_000
"""Draws, evenly spaced, at which a user's own function is called."""

_CALLS_OF = {
    "pymc": "call pm.sample_posterior_predictive(posterior, model=model) with every fiftieth draw, "
    "posterior = fit.to_arviz(log_likelihood=False).sel(draw=slice(None, None, 50))",
    "numpyro": "call numpyro.infer.Predictive(model, fit.posterior, batch_ndims=2)",
    "stan": "call fit.generated(), which runs the generated quantities of the program",
}
"""What runs a model of another language forwards."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Predicted values with their bands.

    Attributes:
        draws: (draw, row) or (draw, row, column), the values given the parameters of every draw.
        rows: labels of the rows.
        name: what the rows are.
        columns: labels of the columns, where there are several.
    """

    draws: np.ndarray
    rows: np.ndarray
    name: str
    columns: tuple[str, ...]

    def frame(self) -> pandas.DataFrame:
        """A row per prediction: the means, then the ends of the 95 % intervals."""
        from folt.fit.frames import data_frame

        low, high = np.quantile(self.draws, [0.025, 0.975], axis=0)
        parts = {"mean": self.draws.mean(axis=0), "low": low, "high": high}
        columns = dict(parts)
        if self.draws.ndim == 3:
            columns = {
                f"{part}[{label}]": parts[part][:, k]
                for names in (("mean",), ("low", "high"))
                for k, label in enumerate(self.columns)
                for part in names
            }
        return data_frame("predictions", columns, self.rows, self.name)


@in_float64
def predictions(
    fit: Fit, new: object = None, function: Predicted | None = None, seed: int = 0
) -> Prediction:
    """Return what the model, or a function of its parameters, predicts for `new`.

    Raises:
        ValueError: the model does not say what it predicts, `new` does not fit its data, or the
            fit was loaded without its problem.
    """
    if function is not None:
        return _by_function(fit, new, function)
    problem = require_problem(fit)
    forecast = forecast_of(problem)
    if forecast is None:
        raise ValueError(
            "this model does not say what it predicts: give fit.predict(new, function) a function "
            f"of the parameters and new{''.join(f', or {call}' for call in _calls(problem))}"
        )
    asked = np.asarray(forecast.checked(_away(new, forecast), np.asarray(problem.data)), float)
    parameters = {name: _flat(value) for name, value in fit.posterior.items()}
    whole = next(iter(parameters.values())).shape[0]
    per_draw = len(asked) * max(asked[0].size, fit.group.dim)
    every = -(-whole // max(_NUMBERS // per_draw, 1))
    parameters = {name: value[::every] for name, value in parameters.items()}
    keys = jax.random.split(jax.random.key(seed), -(-whole // every))
    context = (forecast, asked, problem.data)
    drawn = np.asarray(map_points(_predicted, context, (keys, parameters))) + forecast.origin
    rows = asked if asked.ndim == 1 else np.arange(len(asked))
    if np.array_equal(rows, np.round(rows)):
        rows = rows.astype(int)
    return Prediction(drawn, rows, forecast.rows, _columns(fit, forecast, drawn))


def forecast_of(problem: Problem) -> Forecast | None:
    """Return what a ready model says of new conditions; None where it says nothing."""
    found = problem.predictive
    if isinstance(found, Lifted):
        found = found.function
    return found.forecast if isinstance(found, Predictive) else None


def _away(new: object, forecast: Forecast) -> object:
    """Return new observations as the data are, less what was taken from these."""
    if new is None or np.ndim(forecast.origin) == 0:
        return new
    try:
        values = np.asarray(new, float)
    except (TypeError, ValueError):
        return new
    fits = values.ndim in (1, 2) and values.shape[-1] == np.size(forecast.origin)
    return values - forecast.origin if fits else new


def _predicted(
    context: tuple[Forecast, np.ndarray, PyTree], drawn: tuple[Key, dict[str, Array]]
) -> Array:
    forecast, new, data = context
    return forecast.values(*drawn, jax.numpy.asarray(new), data)


def _columns(fit: Fit, forecast: Forecast, drawn: np.ndarray) -> tuple[str, ...]:
    """Labels of the columns: those of the axis that has as many, then that of the last one."""
    if drawn.ndim < 3:
        return ()
    count = drawn.shape[2] - bool(forecast.last)
    axes = [*fit.exchanged_dims, *fit.coords]
    found = [fit.coords[axis] for axis in axes if len(fit.coords.get(axis, ())) == count]
    labels = found[0] if found and forecast.last else fit.coords.get("variable", range(count))
    return (*map(str, labels), *([forecast.last] if forecast.last else []))


def _by_function(fit: Fit, new: object, function: Predicted) -> Prediction:
    """Return a user's function of parameters and `new` at some of the draws, called one by one."""
    parameters = {name: _flat(value) for name, value in fit.posterior.items()}
    new = np.asarray(new) if isinstance(new, list | tuple) else new
    count = next(iter(parameters.values())).shape[0]
    shown = range(0, count, -(-count // CALLS))
    drawn = [
        np.asarray(
            function(ByName({name: value[k] for name, value in parameters.items()}), new), float
        )
        for k in shown
    ]
    shapes = {values.shape for values in drawn}
    if len(shapes) > 1 or len(drawn[0].shape) > 2:
        raise ValueError(
            "expected a function that gives one array (row,) or (row, column) per draw, got "
            f"{' and '.join(map(str, sorted(shapes)[:3]))}"
        )
    values = np.stack([one.reshape(1) if one.ndim == 0 else one for one in drawn])
    given = np.asarray(new) if np.ndim(new) == 1 else None  # type: ignore[arg-type]
    fits = given is not None and len(given) == values.shape[1]
    rows = given if fits and given is not None else np.arange(values.shape[1])
    columns = tuple(map(str, range(values.shape[2]))) if values.ndim == 3 else ()
    return Prediction(values, rows, "new" if fits else "row", columns)


def require_problem(fit: Fit) -> Problem:
    """Return the problem of a fit.

    Raises:
        ValueError: the fit was loaded without it.
    """
    if fit.problem is None:
        raise ValueError("a loaded fit needs its problem for this: folt.load(path, problem=...)")
    return fit.problem


def require_predictive(fit: Fit) -> Problem:
    """Return the problem of a fit, which can draw observations.

    Raises:
        ValueError: it cannot, with what can in the language of the model, or the fit was loaded
            without it.
    """
    problem = require_problem(fit)
    if problem.predictive is not None:
        return problem
    own = "give folt.Problem(predictive=...), from a key, a point and the data to {name: values}"
    if problem.black_box is not None:
        own = "draw them yourself from the parameters in fit.posterior"
    advice = [*_calls(problem), own][0]
    raise ValueError(f"this problem does not say how observations are drawn: {advice}")


def _calls(problem: Problem) -> list[str]:
    """Return the call that runs the model forwards, where another language has one."""
    found = problem.symmetry_found
    known = "" if found is None else _CALLS_OF.get(found.front_end, "")
    return [known] if known else []


def _flat(value: np.ndarray) -> Float[np.ndarray, "draw ..."]:
    return np.asarray(value, float).reshape(value.shape[0] * value.shape[1], *value.shape[2:])
