"""The cheapest way to give m components m labels, draw by draw, without enumerating m!."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

Costs = Float[np.ndarray, "draw component label"]
Permutations = Int[np.ndarray, "draw label"]


def assign(costs: Costs) -> Permutations:
    """For every draw, which component gets which label: `out[i, label]` is a component.

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
    """Sum over draws of what the chosen labels cost."""
    labels = np.arange(costs.shape[2])
    return float(costs[np.arange(len(costs))[:, None], permutations, labels].sum())


def permuted(values: np.ndarray, permutations: Permutations) -> np.ndarray:
    """The components, axis 1 of (draw, component, ...), in the order of their labels."""
    return values[np.arange(len(values))[:, None], permutations]


def permuted_square(values: np.ndarray, permutations: Permutations) -> np.ndarray:
    """Matrices (draw, component, component, ...) permuted on both sides."""
    rows = np.arange(len(values))[:, None, None]
    return values[rows, permutations[:, :, None], permutations[:, None, :]]
