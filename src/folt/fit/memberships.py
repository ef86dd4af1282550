"""Probabilities of the components for every observation, and paths of hidden states."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.special import logsumexp, softmax

from folt.batching import map_points
from folt.fit.labels import component_labels
from folt.fit.predictions import require_problem
from folt.problem import Problem
from folt.problem.observed import LogTerms as ModelTerms
from folt.problem.observed import Paths
from folt.types import Point, in_float64

if TYPE_CHECKING:
    import pandas

    from folt.fit.fit import Fit

TermsOfPoint = Callable[..., Array]
"""From a point, and the data where there are any, to log terms (observation, component).

What a user gives may take the parameters by name instead, as the function of `predict` does.
"""

_DRAWS = 2_000
"""Draws, evenly spaced, that probabilities are averaged over: their error is below .012."""

_NUMBERS = 1 << 24
"""Probabilities in memory at once, draws, observations and components together."""

_FEWEST = 100
"""Draws that remain where there are very many observations."""

_PATHS = 200
"""Draws whose most probable paths are the candidates; a better one is then rare: their number only
decides among paths that are nearly as probable."""


@dataclasses.dataclass(frozen=True)
class Memberships:
    """Probabilities of components by observation.

    Attributes:
        mean: (observation, component), averaged over the posterior.
        low: lower end of the 95 % interval of the probability given the parameters.
        high: its upper end.
        labels: names of the components.
        axis: name of the axis of the observations.
        rows: labels of the observations; their positions if None.
    """

    mean: Float[np.ndarray, "n m"]
    low: Float[np.ndarray, "n m"]
    high: Float[np.ndarray, "n m"]
    labels: tuple[str, ...]
    axis: str = "observation"
    rows: tuple[Any, ...] | None = None

    @property
    def most_probable(self) -> np.ndarray:
        """The position of the most probable component of every observation."""
        return self.mean.argmax(axis=1)

    def frame(self) -> pandas.DataFrame:
        """Return a row per observation: all means, then the intervals, then the most probable."""
        from folt.fit.frames import data_frame

        columns = {f"mean[{label}]": self.mean[:, k] for k, label in enumerate(self.labels)}
        for k, label in enumerate(self.labels):
            columns |= {f"low[{label}]": self.low[:, k], f"high[{label}]": self.high[:, k]}
        chosen = [self.labels[k] for k in self.most_probable]
        rows = range(len(self.mean)) if self.rows is None else list(self.rows)
        found = data_frame("memberships", columns, rows, self.axis)
        return found.assign(most_probable=chosen)


@dataclasses.dataclass(frozen=True)
class Path:
    """A path of hidden states.

    Attributes:
        states: positions of the states, (observation,).
        probability: of the state at that time, whatever the others are.
        agreement: share of draws whose own most probable path is in this state then.
        whole: probability of the whole path, averaged over the posterior.
        labels: names of the states.
    """

    states: np.ndarray
    probability: Float[np.ndarray, " n"]
    agreement: Float[np.ndarray, " n"]
    whole: float
    labels: tuple[str, ...]

    def frame(self) -> pandas.DataFrame:
        """A row per observation; the probability of the whole path is an attribute."""
        from folt.fit.frames import data_frame

        columns = {
            "state": [self.labels[k] for k in self.states],
            "probability": self.probability,
            "agreement": self.agreement,
        }
        found = data_frame("states", columns, range(len(self.states)), "observation")
        found.attrs["path_probability"] = self.whole
        return found


@in_float64
def most_probable_path(fit: Fit) -> Path:
    """The path that is most probable on average over the posterior, among those of single draws.

    Every draw has a most probable path given its parameters (Viterbi). Each of these paths c has
    the posterior probability E[P(c | y, θ)] over the draws θ; the one with the largest is taken.

    Raises:
        ValueError: the model has no states that follow each other, or the fit was loaded without
            its problem.
    """
    problem = require_problem(fit)
    terms = problem.log_terms
    paths = terms.paths if isinstance(terms, ModelTerms) else None
    if paths is None:
        raise ValueError("expected a hidden Markov model of folt.models, whose states have a path")
    total = fit.draws.shape[0] * fit.draws.shape[1]
    every = -(-total // _PATHS)
    parameters = {
        name: np.asarray(value).reshape(total, *value.shape[2:])[::every]
        for name, value in fit.posterior.items()
    }
    data = problem.data
    own = np.asarray(map_points(_best_path, (paths, data), parameters))
    candidates = np.unique(own, axis=0)
    logs = np.asarray(map_points(_path_chances, (paths, candidates, data), parameters))
    chances = logsumexp(logs, axis=0) - np.log(len(logs))
    states = candidates[int(chances.argmax())]
    shares = memberships(fit)
    return Path(
        states,
        shares.mean[np.arange(len(states)), states],
        (own == states).mean(axis=0),
        float(np.exp(chances.max())),
        shares.labels,
    )


def _best_path(context: tuple[Paths, PyTree], parameters: dict[str, Array]) -> Array:
    paths, data = context
    return paths.best(parameters, data)


def _path_chances(context: tuple[Paths, np.ndarray, PyTree], parameters: dict[str, Array]) -> Array:
    paths, candidates, data = context
    # One after the other: together, emissions would be held once per candidate.
    return jax.lax.map(lambda path: paths.log_prob(parameters, path, data), candidates)


@in_float64
def memberships(fit: Fit, log_terms: TermsOfPoint | None = None) -> Memberships:
    """Return probabilities of the components for every observation, under the labels of the fit.

    Raises:
        ValueError: the model has no components, the terms are no table of numbers, or the fit was
            loaded without its problem.
    """
    problem = require_problem(fit)
    terms = problem.log_terms if log_terms is None else log_terms
    if terms is None:
        raise ValueError(
            "this model does not say what its components are: give fit.memberships(log_terms), "
            "from a point (and data), or from the parameters by name, to log weight plus log "
            "density, (observation, component). Such terms take observations as independent: "
            "the states of a hidden Markov model need smoothing, which folt.models.hidden_markov "
            "brings"
        )
    points = fit.draws.reshape(-1, fit.group.dim)
    terms = terms if log_terms is None else _of_points(problem, terms, points[0])
    shape = _shape(problem, terms, points[0])
    most = int(np.clip(_NUMBERS // max(shape[0] * shape[1], 1), _FEWEST, _DRAWS))
    points = points[:: -(-len(points) // most)]
    shares = _all_shares(problem, terms, points)
    if np.isnan(shares).any():
        raise ValueError("expected log terms of which one at least is finite, got none in a row")
    low, high = np.quantile(shares, [0.025, 0.975], axis=0)
    axis, rows = _observations(problem, fit, shape[0])
    return Memberships(shares.mean(axis=0), low, high, component_labels(fit, shape[1]), axis, rows)


def _of_points(problem: Problem, given: object, point: np.ndarray) -> TermsOfPoint:
    """Return terms as a function of a point, whether they take one or the parameters by name.

    Functions of NumPy and SciPy, which JAX cannot trace, are called at numbers.

    Raises:
        ValueError: they can be evaluated in neither way.
    """
    if not callable(given):
        raise ValueError(f"expected log_terms to be a function, got {type(given).__name__}")
    ways: tuple[Callable[[Any], TermsOfPoint], ...] = (
        lambda terms: terms,
        lambda terms: lambda x, *_: terms(problem.parameters(x)),
        lambda terms: lambda x, *data: terms(problem.parameters(x), *data),
    )
    reasons = []
    for way in ways:
        try:
            try:
                _shape(problem, way(given), point)
                return way(given)
            except jax.errors.JAXTypeError:
                shape = np.shape(_evaluated(problem, way(_in_numpy(given)), point))
                called = way(functools.partial(_called_back, _in_numpy(given), shape))
                _shape(problem, called, point)
                return called
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            reasons.append(error)
    told = "; ".join(dict.fromkeys(str(error).splitlines()[0] for error in reasons))
    raise ValueError(
        "expected log_terms that take a point, or the parameters by name, and the data where "
        f"there are any; got {told}"
    ) from reasons[0]


def _in_numpy(given: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return a function that gives the user's one arrays of NumPy and takes anything alike."""
    return lambda *parts: np.asarray(given(*jax.tree.map(np.asarray, parts)), float)


def _called_back(
    function: Callable[..., np.ndarray], shape: tuple[int, ...], *parts: PyTree
) -> Array:
    """Return what a function that cannot be traced says, from within compiled code."""
    found: Array = jax.pure_callback(
        function, jax.ShapeDtypeStruct(shape, float), *parts, vmap_method="sequential"
    )
    return found


def _observations(problem: Problem, fit: Fit, count: int) -> tuple[str, tuple[Any, ...] | None]:
    """The axis of the observations and its labels, where an observed site names them.

    It is the first: of several variables measured on every one, the others are these.
    """
    for name, axes in problem.dims:
        if name in fit.posterior or not axes:
            continue
        labels = problem.coords.get(axes[0])
        if labels is not None and len(labels) == count:
            return axes[0], tuple(labels)
    return "observation", None


def _all_shares(
    problem: Problem, function: TermsOfPoint, points: np.ndarray
) -> Float[np.ndarray, "draws n m"]:
    """The probabilities at many points; beside a black box the function may be plain NumPy."""
    if problem.black_box is None:
        return np.asarray(map_points(_shares, (problem, function), points))
    return softmax(np.stack([_evaluated(problem, function, point) for point in points]), axis=-1)


def _shares(context: tuple[Problem, TermsOfPoint], x: Point) -> Array:
    return jax.nn.softmax(_evaluated(*context, x), axis=-1)


def _evaluated(problem: Problem, function: TermsOfPoint, x: Point | np.ndarray) -> Array:
    return function(x) if problem.data is None else function(x, problem.data)


def _shape(problem: Problem, function: TermsOfPoint, point: np.ndarray) -> tuple[int, int]:
    if problem.black_box is None:
        found: PyTree = jax.eval_shape(lambda x: _evaluated(problem, function, x), point)
    else:
        found = _evaluated(problem, function, point)
    shape = tuple(np.shape(found))
    if len(shape) != 2 or not all(shape):
        raise ValueError(f"expected log terms of shape (observation, component), got {shape}")
    return shape[0], shape[1]
