"""One labelling for chains: a soft chamber, and the metric of what lies in it.

A metric that serves every labelling is an average over all of them and fits none. The density

    ρ(x) = π_F(x)·exp(a·x) / Σ_g exp(a·gx)

has its mass under one labelling and folds to π_F exactly, whatever a is, so that chains on ρ may
have a metric of that labelling. With a = Σ̄⁻¹m the second factor is the probability of x's labels
under a Gaussian with mean m and the averaged covariance Σ̄; it is log-concave and costs a product of
two matrices.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from folt.proposals.action import Action
from folt.proposals.components import Components
from folt.reference.exploration.modes import Modes, PerMode
from folt.reference.landscape import Landscape, Matrix
from folt.types import HostPoints, HostValues

_ROUNDS = 5
"""Most rounds in which points are moved to one labelling and that is made anew of them."""

_RIDGE = 1e-8
"""Share of the variances that keeps covariances of few points positive definite."""

_Vector = Float[np.ndarray, " dim"]


class Chamber:
    """Log ρ of a landscape: its fold under one labelling.

    Args:
        landscape: log π_F.
        action: the group, listed.
        direction: a; zero leaves π_F as it is.
    """

    def __init__(self, landscape: Landscape, action: Action, direction: _Vector) -> None:
        self.landscape, self.action = landscape, action
        direction = direction - action.average_mean(direction)
        # a·gx = (gᵀa)·x for every element.
        self.directions = np.einsum("gji,j->gi", action.matrices, direction)

    @classmethod
    def at_heaviest(cls, landscape: Landscape, action: Action, modes: Modes) -> Chamber:
        """Return the chamber of the heaviest mode by itself."""
        precision = action.average(modes.factors[0].T @ modes.factors[0])
        return cls(landscape, action, precision @ modes.points[0])

    def __call__(self, points: HostPoints, keep: np.ndarray | None = None) -> HostValues:
        """Return the log ρ at every point, as `Landscape` gives log π_F."""
        return self.landscape(points, keep) + self.log_shares(points)

    def first(self, points: HostPoints) -> HostValues:
        """Return values where a run begins; one of them at least is finite."""
        return self.landscape.first(points) + self.log_shares(points)

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return the log ρ and its gradient; -inf and zero where that of π_F is unusable."""
        values, slopes = self.landscape.with_gradients(points)
        log_shares, weights = self._weighed(points)
        tilted = slopes + self.directions[0] - weights @ self.directions
        return values + log_shares, np.where(np.isfinite(values)[:, None], tilted, 0.0)

    def log_shares(self, points: HostPoints) -> HostValues:
        """Return the log of the probability of every point's own labels, ρ/π_F."""
        return self._weighed(points)[0]

    def _weighed(self, points: HostPoints) -> tuple[HostValues, Float[np.ndarray, "n order"]]:
        """Return the log shares, and exp(a·gx) for every element, normalised."""
        weights = points @ self.directions.T
        weights -= weights.max(axis=1, keepdims=True)
        own = weights[:, 0].copy()
        np.exp(weights, out=weights)
        totals = weights.sum(axis=1, keepdims=True)
        weights /= totals
        return own - np.log(totals[:, 0]), weights

    def elements(self, points: HostPoints) -> Int[np.ndarray, " n"]:
        """For every point the element that moves it to its likeliest image."""
        return (points @ self.directions.T).argmax(axis=1)

    def aligned(self, points: HostPoints) -> HostPoints:
        """Return the likeliest image of every point."""
        return self.action.move(self.elements(points), points)

    def components(self, modes: Modes, weights: PerMode) -> Components:
        """Return components at the likeliest image of every mode."""
        plain, elements = modes.components(weights), self.elements(modes.points)
        moved = self.action.move(elements, plain.means)
        factors = plain.factors @ self.action.matrices[elements].transpose(0, 2, 1)
        return Components(plain.log_weights, moved, factors, plain.degrees)


def chamber_of(landscape: Landscape, action: Action, points: HostPoints, modes: Modes) -> Chamber:
    """Return the chamber of the heaviest mode, made anew of the points that are moved into it.

    Args:
        landscape: log π_F.
        action: the group.
        points: particles under any labels.
        modes: the modes, the heaviest first.
    """
    chamber = Chamber.at_heaviest(landscape, action, modes)
    chosen = chamber.elements(points)
    for _ in range(_ROUNDS if action.group.order > 1 else 0):
        images = action.move(chosen, points)
        covariance = action.average(covariance_within(images, modes, chamber))
        direction = scipy.linalg.solve(covariance, images.mean(axis=0), assume_a="pos")
        chamber = Chamber(landscape, action, direction)
        before, chosen = chosen, chamber.elements(points)
        if np.array_equal(before, chosen):
            break
    return chamber


def covariance_within(points: HostPoints, modes: Modes, chamber: Chamber) -> Matrix:
    """Covariance of points around the modes that they belong to, under one labelling.

    Points between two modes have nothing to do with the shape of either.
    """
    components = chamber.components(modes, np.ones(modes.count))
    owners = components.log_terms(points).argmax(axis=1)
    centred = points.copy()
    for owner in np.unique(owners):
        mine = owners == owner
        centred[mine] -= points[mine].mean(axis=0)
    return ridged(centred.T @ centred / len(points))


def ridged(matrix: Matrix) -> Matrix:
    """Return a covariance with a trace of ridge."""
    variances = np.diagonal(matrix)
    return matrix + np.diag(_RIDGE * variances + 1e-14 * variances.max() + np.finfo(float).tiny)


def fisher_mean(covariance: Matrix, gradients: HostPoints) -> Matrix:
    """Return the geometric mean of a covariance and the inverse of that of the gradients.

    For a Gaussian both are its covariance; elsewhere their errors have opposite signs: the one sees
    the tails, the other the core.
    """
    centred = gradients - gradients.mean(axis=0)
    root = np.linalg.cholesky(ridged(centred.T @ centred / len(gradients)))
    squares, axes = np.linalg.eigh(root.T @ covariance @ root)
    inverse = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True)
    half = inverse.T @ (axes * np.sqrt(np.maximum(squares, 0.0))) @ axes.T @ inverse
    return ridged(0.5 * (half + half.T))
