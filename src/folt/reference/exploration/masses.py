"""What modes weigh, by importance sampling from heavy-tailed components at all of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, softmax

from folt.problem import Points
from folt.problem.orbits import Action, ListedSum
from folt.problem.orbits.components import HasTerms, log_sum_exp
from folt.problem.orbits.sums import MOST_TERMS
from folt.reference.exploration.modes import Modes, PerMode
from folt.reference.landscape import Landscape

DRAWS_PER_MODE, FEWEST_DRAWS = 64, 512
"""Draws of the importance sampling, for each mode and in all."""


@dataclasses.dataclass(frozen=True, eq=False)
class Masses:
    """Shares of the modes, and the weighted draws that told.

    Attributes:
        shares: estimated share of every mode of the mass around all of them.
        log_evidence: estimated log of the mass around all of them; NaN where Laplace's estimates
            stand alone.
        points: draws around the modes; none where Laplace's estimates stand alone.
        belongings: how much of each draw's weight belongs to each mode, summing to one in all.
    """

    shares: PerMode
    log_evidence: float
    points: Points
    belongings: Float[np.ndarray, "n modes"]

    def around(
        self, generator: np.random.Generator, mode: int, count: int
    ) -> Float[np.ndarray, "count dim"]:
        """So many draws around one mode, in proportion to their weights."""
        weights = self.belongings[:, mode]
        return self.points[generator.choice(len(weights), count, p=weights / weights.sum())]


def masses_of(
    generator: np.random.Generator, landscape: Landscape, modes: Modes, action: Action
) -> Masses:
    """The masses of modes, all images together.

    A mixture of t components, half of its weight by Laplace's masses and half evenly, is summed
    over the orbit; groups too large for that leave Laplace's masses as they are.
    """
    laplace, dim = softmax(modes.log_masses), modes.points.shape[1]
    if not summable(action, modes.count):
        return Masses(laplace, math.nan, np.empty((0, dim)), np.empty((0, modes.count)))
    total = ListedSum((modes.components(0.5 * laplace + 0.5 / modes.count),), action)
    points = total.sample(generator, max(FEWEST_DRAWS, DRAWS_PER_MODE * modes.count))
    log_weights = landscape(points) - total.log_sum(points)
    log_evidence = float(logsumexp(log_weights)) - math.log(len(points))
    if not math.isfinite(log_evidence):
        return Masses(laplace, math.nan, np.empty((0, dim)), np.empty((0, modes.count)))
    belongings = softmax(log_weights)[:, None] * _responsibilities(total, points)
    return Masses(belongings.sum(axis=0), log_evidence, points, belongings)


def summable(action: Action, components: int) -> bool:
    """Whether components can be summed over the orbit on the host."""
    return action.listed and action.group.order * components <= MOST_TERMS


def _responsibilities(total: ListedSum, points: Points) -> Float[np.ndarray, "n modes"]:
    """Shares of the modes in the density at every point, all images of a mode together."""
    order = len(total.action.matrices)

    def of(components: HasTerms) -> Float[np.ndarray, "n modes"]:
        terms = components.log_terms(points).reshape(len(points), order, -1)
        return log_sum_exp(np.ascontiguousarray(terms.transpose(0, 2, 1)))

    return softmax(of(total.folded[0]), axis=1)
