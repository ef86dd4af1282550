"""The image of a point that lies nearest to a mode, in the metric of the mode's curvature.

Small groups are gone through element by element. In large ones that permute whole blocks a linear
assignment finds the labelling by blocks; elsewhere exchanges of two labels are made while they
bring the point nearer.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from folt.groups import BlockForm
from folt.proposals.action import Action
from folt.reference.landscape import Matrix
from folt.types import HostPoints, HostValues

GONE_THROUGH = 120
"""Largest group whose elements are gone through for every point and mode."""

_Vector = Float[np.ndarray, " dim"]


def squared_distances(points: HostPoints, centre: _Vector, factor: Matrix) -> HostValues:
    """|factor·(x - centre)|² of every point."""
    u = (points - centre) @ factor.T
    return np.einsum("ij,ij->i", u, u)


def nearest_images(
    action: Action, points: HostPoints, centre: _Vector, factor: Matrix
) -> tuple[HostPoints, HostValues]:
    """For every point the image nearest to a centre, and its squared distance.

    Args:
        action: the group.
        points: where from, best already folded.
        centre: where to.
        factor: root of the precision that measures the distance.
    """
    if action.group.order == 1 or len(points) == 0:
        return points, squared_distances(points, centre, factor)
    form = action.group.block_form
    if action.listed and (action.group.order <= GONE_THROUGH or form is None):
        return _among_all(action, points, centre, factor)
    if form is not None:
        images = _assigned(form, points, centre, factor)
        return images, squared_distances(images, centre, factor)
    return _by_exchanges(action, points, centre, factor)


def _among_all(
    action: Action, points: HostPoints, centre: _Vector, factor: Matrix
) -> tuple[HostPoints, HostValues]:
    best, squares = points.copy(), squared_distances(points, centre, factor)
    for matrix in action.matrices[1:]:
        # |F(g·x - c)|² without the images: F·g is one matrix for all points.
        u = points @ (factor @ matrix).T - factor @ centre
        square = np.einsum("ij,ij->i", u, u)
        nearer = square < squares
        if nearer.any():
            best[nearer] = points[nearer] @ matrix.T
            squares = np.where(nearer, square, squares)
    return best, squares


def _assigned(form: BlockForm, points: HostPoints, centre: _Vector, factor: Matrix) -> HostPoints:
    """Blocks by a linear assignment in the precision of every block by itself."""
    precision = factor.T @ factor
    from scipy.optimize import linear_sum_assignment  # a fifth of a second to import

    places = np.array(form.places, int)
    blocks, wanted = points[:, places], centre[places]
    signs = (1.0, -1.0) if form.signed else (1.0,)
    images = points.copy()
    costs = np.empty((len(signs), len(points), form.labels, form.labels))
    for number, sign in enumerate(signs):
        for label, own in enumerate(places):
            away = sign * blocks - wanted[label]
            costs[number, :, label] = np.einsum(
                "nbi,ij,nbj->nb", away, precision[np.ix_(own, own)], away
            )
    labels = np.arange(form.labels)
    for row, cost in enumerate(costs.min(axis=0)):
        chosen = linear_sum_assignment(cost)[1]
        flipped = costs[:, row, labels, chosen].argmin(axis=0) == 1
        images[row, places] = np.where(flipped, -1.0, 1.0)[:, None] * blocks[row, chosen]
    return images


def _by_exchanges(
    action: Action, points: HostPoints, centre: _Vector, factor: Matrix
) -> tuple[HostPoints, HostValues]:
    """Exchanges of two labels as long as one brings a point nearer."""
    best, squares = points.copy(), squared_distances(points, centre, factor)
    moving = np.arange(len(points))
    while moving.size:
        others = action.other_images(best[moving])
        count, many, dim = others.shape
        square = squared_distances(others.reshape(-1, dim), centre, factor).reshape(count, many)
        chosen = square.argmin(axis=1)
        square = square[np.arange(count), chosen]
        nearer = square < squares[moving] * (1.0 - 1e-12)
        best[moving[nearer]] = others[np.flatnonzero(nearer), chosen[nearer]]
        squares[moving[nearer]] = square[nearer]
        moving = moving[nearer]
    return best, squares
