"""A thin ridge inside a normal: all margins agree, and hardly any proposal lands on it.

(1-β)·N(0, I) + β·N(0, Σ) in four dimensions, Σ with ones on its diagonal and equal correlations
ρ = 1 - 1/width²: the ridge is `width` times thinner than it is long in a single coordinate. log Z
is zero. A proposal N(0, I) has its share of the ridge wrong by a factor of about β·width³/2.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from folt.groups import Trivial
from folt.problem import Problem
from folt.proposals import Gaussian

DIM = 4
NORMAL = Gaussian(jnp.zeros(DIM), jnp.eye(DIM))
AXES = np.linalg.eigh(np.ones((DIM, DIM)))[1]  # the last along the ridge


def log_density(x, data):
    share, variances = data
    along = jnp.square(x @ AXES)
    constant = DIM * math.log(2 * math.pi)
    wide = -0.5 * (jnp.sum(along) + constant)
    thin = -0.5 * (jnp.sum(along / variances + jnp.log(variances)) + constant)
    return jnp.logaddexp(jnp.log1p(-share) + wide, jnp.log(share) + thin)


def ridge(share: float, width: float) -> Problem:
    """The density with its exact sampler."""
    across, along = 1.0 / width**2, DIM - (DIM - 1) / width**2
    variances = jnp.array([across] * (DIM - 1) + [along])

    def sampler(key):
        which, noise = jax.random.split(key)
        on_ridge = jax.random.uniform(which) < share
        scales = jnp.where(on_ridge, jnp.sqrt(variances), 1.0)
        return AXES @ (scales * jax.random.normal(noise, (DIM,)))

    data = (jnp.asarray(share), variances)
    return Problem(log_density, Trivial(DIM), data=data, sampler=sampler)
