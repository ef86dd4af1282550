"""Ways to choose labels. Each turns draws into permutations and says how it did."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

Costs = Float[np.ndarray, "draw component label"]
Permutations = Int[np.ndarray, "draw label"]
Features = Float[np.ndarray, "draw component feature"]
_CHUNK = 2_000
"""Draws whose costs are computed at once."""


class Material(NamedTuple):
    """What a method may look at.

    Attributes:
        features: parameters of each component, flattened.
        keys: the parameter to sort by, one number per component.
        probabilities: (draw, observation, component) allocation probabilities, if there are any.
        allocations: (draw, observation) component of each observation, if there are any.
    """

    features: Features
    keys: Float[np.ndarray, "draw component"]
    probabilities: Float[np.ndarray, "draw observation component"] | None = None
    allocations: Int[np.ndarray, "draw observation"] | None = None


class _Labelling(NamedTuple):
    """Permutations with the number of rounds that found them and whether they settled."""

    permutations: Permutations
    rounds: int
    settled: bool


@runtime_checkable
class Relabeller(Protocol):
    """A method: material in, labelling out."""

    @property
    def name(self) -> str:
        """What the method is called, in one word."""
        ...

    def __call__(self, material: Material) -> _Labelling:
        """Choose one arrangement of the labels for every draw."""
        ...


@dataclasses.dataclass(frozen=True)
class Sort:
    """Labels in increasing order of one parameter. Cheap, and misleading where keys cross."""

    name: str = "sort"

    def __call__(self, material: Material) -> _Labelling:
        """Sort the components of every draw by their keys."""
        return _Labelling(np.argsort(material.keys, axis=1, kind="stable"), 1, True)


@dataclasses.dataclass(frozen=True)
class Alternating(ABC):
    """Labels that cost least given what every label looks like, and what it looks like then.

    The two are alternated, from sorted draws and from draws near one of them; the cheaper end is
    taken.
    """

    rounds: int = 100

    def features(self, material: Material) -> Features:
        """Return the numbers of every component that the costs are made of."""
        return material.features

    @abstractmethod
    def costs(self, features: Features, labelled: Features) -> Callable[[slice], Costs]:
        """Return what each label costs each component of some draws, given the labelled draws."""

    def __call__(self, material: Material) -> _Labelling:
        """Choose one arrangement of the labels for every draw."""
        features = self.features(material)
        starts = _starts(material._replace(features=features))
        found = [_alternate(features, start, self.costs, self.rounds) for start in starts]
        return min(found, key=lambda pair: pair[1])[0]


@dataclasses.dataclass(frozen=True)
class Pivot(Alternating):
    """Nearest labels to a pivot, which is then the mean of what was labelled so: repeated.

    The distance of component k to label j is Σ_p (θ_kp - pivot_jp)²/s_p², s_p the spread within
    labels. Each round lowers the sum of distances, so it settles.
    """

    name: str = "pivot"

    def costs(self, features: Features, labelled: Features) -> Callable[[slice], Costs]:
        """Return the distances from the pivot."""
        pivot = labelled.mean(axis=0)
        scale = _within(labelled)

        def some(rows: slice) -> Costs:
            difference = (features[rows, :, None] - pivot) / scale
            return np.asarray(np.square(difference).sum(axis=-1))

        return some


@dataclasses.dataclass(frozen=True)
class GaussianOrbit(Alternating):
    """A normal law for every label, fitted to what was labelled so: repeated.

    The cost of label j for component k is -log N(θ_k; μ_j, Σ_j), as in the relabelling of
    Sperrin, Jaki and Wit with the likeliest permutation in place of all m!.
    """

    name: str = "gaussian"

    def costs(self, features: Features, labelled: Features) -> Callable[[slice], Costs]:
        """Return minus the log densities under the normal law of each label."""
        laws = [_normal(labelled[:, j]) for j in range(labelled.shape[1])]

        def some(rows: slice) -> Costs:
            part = features[rows]
            flat = part.reshape(-1, part.shape[-1])
            columns = [_surprise(flat, *law).reshape(part.shape[:2]) for law in laws]
            return np.stack(columns, axis=-1)

        return some


@dataclasses.dataclass(frozen=True)
class Stephens(Alternating):
    """Labels under which allocation probabilities agree, in Kullback-Leibler divergence.

    Q is the mean of the relabelled matrices of probabilities, the cost of label j for component k
    is Σ_n p_nk log(p_nk/q_nj), and the two are alternated (Stephens 2000).
    """

    name: str = "stephens"

    def features(self, material: Material) -> Features:
        """Return the probabilities of every component.

        Raises:
            ValueError: there are no allocation probabilities.
        """
        if material.probabilities is None:
            raise ValueError(
                "Stephens' method needs allocation probabilities (draw, observation, component)"
            )
        return np.clip(material.probabilities, 1e-12, None).transpose(0, 2, 1)

    def costs(self, features: Features, labelled: Features) -> Callable[[slice], Costs]:
        """Return the divergences from the mean probabilities of each label."""
        log_mean = np.log(labelled.mean(axis=0))

        def some(rows: slice) -> Costs:
            part = features[rows]
            own = (part * np.log(part)).sum(axis=-1, keepdims=True)
            return np.asarray(own - part @ log_mean.T)

        return some


@dataclasses.dataclass(frozen=True)
class Ecr(Alternating):
    """Labels under which allocations agree with a pivot allocation: repeated with their mode.

    The cost of label j for component k is minus the number of observations that are in k now and
    in j under the pivot (Papastamoulis and Iliopoulos 2010, iterative).
    """

    name: str = "ecr"

    def features(self, material: Material) -> Features:
        """Return for every component the observations that are in it.

        Raises:
            ValueError: there are no allocations.
        """
        if material.allocations is None:
            raise ValueError("ECR needs allocations (draw, observation), one component each")
        labels = np.arange(material.keys.shape[1])[:, None]
        return (material.allocations[:, None, :] == labels).astype(np.float32)

    def costs(self, features: Features, labelled: Features) -> Callable[[slice], Costs]:
        """Return minus the numbers of observations in common with the modal allocation."""
        modal = labelled.mean(axis=0).argmax(axis=0)
        pivot = (modal == np.arange(labelled.shape[1])[:, None]).astype(np.float32)

        def some(rows: slice) -> Costs:
            return np.asarray(-(features[rows] @ pivot.T), float)

        return some


CostMaker = Callable[[Features, Features], Callable[[slice], Costs]]


def _starts(material: Material) -> list[Permutations]:
    """Sorted by the key, and nearest to a single draw in the middle of the run."""
    features = material.features
    middle = features[len(features) // 2]
    scale = features.reshape(-1, features.shape[-1]).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def near(rows: slice) -> Costs:
        part, point = features[rows] / scale, middle / scale
        return np.asarray(
            np.square(part).sum(-1)[:, :, None] - 2.0 * part @ point.T + np.square(point).sum(-1)
        )

    return [
        np.argsort(material.keys, axis=1, kind="stable"),
        _assigned(near, len(features))[0],
    ]


def _alternate(
    features: Features, permutations: Permutations, make: CostMaker, rounds: int
) -> tuple[_Labelling, float]:
    cost = math.inf
    for number in range(1, rounds + 1):
        costs = make(features, permuted(features, permutations))
        new, cost = _assigned(costs, len(features))
        if np.array_equal(new, permutations):
            return _Labelling(permutations, number, True), cost
        permutations = new
    return _Labelling(permutations, rounds, False), cost


def _assigned(costs: Callable[[slice], Costs], count: int) -> tuple[Permutations, float]:
    parts, total = [], 0.0
    for start in range(0, count, _CHUNK):
        some = costs(slice(start, start + _CHUNK))
        parts.append(assign(some))
        total += total_cost(some, parts[-1])
    return np.concatenate(parts), total


def _within(labelled: Features) -> np.ndarray:
    """Return the spread of each feature within labels; one where it does not vary at all."""
    scale = np.sqrt(labelled.var(axis=0).mean(axis=0))
    return np.where(scale > 0, scale, 1.0)


def _normal(values: Float[np.ndarray, "draw feature"]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the inverse Cholesky factor of a covariance kept from singular."""
    covariance = np.atleast_2d(np.cov(values.T))
    ridge = 1e-6 * np.trace(covariance) / len(covariance) + 1e-12
    factor = np.linalg.cholesky(covariance + ridge * np.eye(len(covariance)))
    return values.mean(axis=0), np.linalg.inv(factor)


def _surprise(values: np.ndarray, mean: np.ndarray, whitener: np.ndarray) -> np.ndarray:
    """Return -log N(values; mean, Σ) without the constant, from the inverse of the factor of Σ."""
    residual = (values - mean) @ whitener.T
    surprise = 0.5 * np.square(residual).sum(axis=1) - np.log(np.diagonal(whitener)).sum()
    return np.asarray(surprise)


def assign(costs: Costs) -> Permutations:
    """Return for every draw which component gets which label: `out[i, label]` is a component.

    Where every component's cheapest label is another one, that is the optimum and no solver is
    asked; the remaining draws go to SciPy's linear assignment, O(m³) each.
    """
    draws, m, _ = costs.shape
    favourite = np.argmin(costs, axis=2)
    plain = (np.sort(favourite, axis=1) == np.arange(m)).all(axis=1)
    permutations = np.empty((draws, m), np.int64)
    permutations[plain] = np.argsort(favourite[plain], axis=1)
    for i in np.flatnonzero(~plain):
        components, labels = linear_sum_assignment(costs[i])
        permutations[i, labels] = components
    return permutations


def total_cost(costs: Costs, permutations: Permutations) -> float:
    """Return the sum over draws of what the chosen labels cost."""
    labels = np.arange(costs.shape[2])
    return float(costs[np.arange(len(costs))[:, None], permutations, labels].sum())


def permuted(values: np.ndarray, permutations: Permutations) -> np.ndarray:
    """Return the components, axis 1 of (draw, component, ...), in the order of their labels."""
    return values[np.arange(len(values))[:, None], permutations]


def permuted_square(values: np.ndarray, permutations: Permutations) -> np.ndarray:
    """Return matrices (draw, component, component, ...) permuted on both sides."""
    rows = np.arange(len(values))[:, None, None]
    return values[rows, permutations[:, :, None], permutations[:, None, :]]
