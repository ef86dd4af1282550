"""Bijections between the user's parameters and real coordinates, with their slopes.

The group has to act orthogonally in the coordinates that a flow sees, and a target whose prior is
N(0, I) there has tails a flow can match. `PriorNormal` gives that wherever the prior's
distribution function and its inverse are known; otherwise a positive parameter takes `Log` and a
bounded one `IntervalScores`; these work elementwise on arrays. Probabilities that sum to one, and
the rows of transition matrices, take `CentredScores`.
"""

from folt.coordinates.elementary import (
    Coordinate,
    Identity,
    IntervalScores,
    Log,
    Logit,
    PriorNormal,
)
from folt.coordinates.location_scale import Gamma, LocationScale, Prior
from folt.coordinates.priors import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Logistic,
    LogNormal,
    Normal,
    Uniform,
)
from folt.coordinates.rotation import RotationChart
from folt.coordinates.simplex import AugmentedShares, CentredScores, LogRatios, SimplexCoordinate

__all__ = [
    "AugmentedShares",
    "Cauchy",
    "CentredScores",
    "Coordinate",
    "Exponential",
    "Gamma",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Identity",
    "IntervalScores",
    "Laplace",
    "LocationScale",
    "Log",
    "LogNormal",
    "LogRatios",
    "Logistic",
    "Logit",
    "Normal",
    "Prior",
    "PriorNormal",
    "RotationChart",
    "SimplexCoordinate",
    "Uniform",
]
