"""Expectation-maximisation for a mixture whose orbit sum is the density of folded draws.

The model is z ~ Σ_g Σ_k w_k p(g·z; μ_k, Σ_k): responsibilities run over components and group
elements, the maximisation is closed form. It takes seconds and is also a relabelling: the element
with the most responsibility names the label under which a draw is most like its component.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt.flows import Mixture
from folt.groups import Group
from folt.problem.batching import map_points
from folt.training.candidates import candidates, price
from folt.types import Key, Point, Scalar, host_generator

Images = Float[Array, "n images dim"]
"""Images of every draw."""

CHUNK_TERMS = 1 << 18
"""Orbit-times-component terms that one chunk of the expectation step may hold."""


class _Moments(eqx.Module):
    """Sufficient statistics of the expectation step, summed over draws and images."""

    mass: Float[Array, " k"]
    first: Float[Array, "k dim"]
    second: Float[Array, "k dim dim"]
    log_likelihood: Scalar


def _expectation(mixture: Mixture, images: Images) -> _Moments:
    """Responsibilities of every image and component, accumulated over chunks of points."""
    n, order, _ = images.shape
    length = max(1, min(n, CHUNK_TERMS // (order * mixture.components)))
    padded = -(-n // length) * length
    weights = (jnp.arange(padded) < n).astype(images.dtype)
    images = jnp.pad(images, ((0, padded - n), (0, 0), (0, 0)), mode="edge")

    def chunk(total: _Moments, part: tuple[Array, Array]) -> tuple[_Moments, None]:
        images, weight = part
        terms = jax.vmap(jax.vmap(mixture.log_terms))(images)
        log_total = logsumexp(terms, axis=(1, 2))
        share = jnp.exp(terms - log_total[:, None, None]) * weight[:, None, None]
        flat = images.reshape(-1, mixture.dim)
        share = share.reshape(-1, mixture.components)
        new = _Moments(
            share.sum(axis=0),
            share.T @ flat,
            _second_moments(share, flat),
            jnp.sum(log_total * weight),
        )
        return jax.tree.map(jnp.add, total, new), None

    zero = _Moments(
        jnp.zeros(mixture.components),
        jnp.zeros_like(mixture.means),
        jnp.zeros_like(mixture.factors),
        jnp.zeros(()),
    )
    parts = (images.reshape(-1, length, order, mixture.dim), weights.reshape(-1, length))
    return jax.lax.scan(chunk, zero, parts)[0]


def _second_moments(
    share: Float[Array, "images k"], flat: Float[Array, "images dim"]
) -> Float[Array, "k dim dim"]:
    """Σ_i share_ik x_i x_iᵀ for every component k.

    Few dimensions and many components: one product with all x_i x_iᵀ. Many dimensions: that array
    would not fit, so one product per component.
    """
    dim = flat.shape[1]
    if dim * dim <= 4 * share.shape[1] + 64:
        products = (flat[:, :, None] * flat[:, None, :]).reshape(flat.shape[0], -1)
        return (share.T @ products).reshape(-1, dim, dim)
    return jax.lax.map(lambda column: (flat * column[:, None]).T @ flat, share.T)


def _maximisation(moments: _Moments, spread: Array, degrees: float) -> Mixture:
    """Weighted means and covariances, covariances shrunk towards the overall spread.

    The shrinkage is that of an inverse Wishart prior worth dim + 2 draws: it keeps components that
    few draws see from collapsing.
    """
    dim = spread.shape[0]
    mass = moments.mass + 1e-10
    means = moments.first / mass[:, None]
    scatter = moments.second - mass[:, None, None] * means[:, :, None] * means[:, None, :]
    prior = 0.0 if mass.shape[0] == 1 else dim + 2.0
    covariance = (scatter + prior * spread) / (mass + prior)[:, None, None]
    covariance = covariance + 1e-9 * spread
    return Mixture(jnp.log(mass / mass.sum()), means, _roots(covariance), degrees)


def _roots(covariance: Float[Array, "k dim dim"]) -> Float[Array, "k dim dim"]:
    lower = jnp.linalg.cholesky(covariance)
    identity = jnp.broadcast_to(jnp.eye(covariance.shape[-1]), covariance.shape)
    return jax.scipy.linalg.solve_triangular(lower, identity, lower=True)


@eqx.filter_jit
def _iterate(
    mixture: Mixture, images: Images, spread: Array, iterations: int
) -> tuple[Mixture, Float[Array, " iterations"]]:
    def step(current: Mixture, _: None) -> tuple[Mixture, Scalar]:
        moments = _expectation(current, images)
        updated = _maximisation(moments, spread, current.degrees)
        return updated, moments.log_likelihood / images.shape[0]

    return jax.lax.scan(step, mixture, None, length=iterations)


def fit_orbit_mixture(
    key: Key,
    group: Group,
    points: np.ndarray,
    components: int,
    iterations: int = 30,
    degrees: float = math.inf,
    pilot: Mixture | None = None,
) -> tuple[Mixture, Float[Array, " iterations"]]:
    """Fit z ~ Σ_g Σ_k w_k p(g·z; μ_k, Σ_k) to draws under one labelling of them.

    Args:
        key: chooses the draws at which the components start.
        group: the group whose orbit is summed.
        points: folded draws, or any labelling of them.
        components: K.
        iterations: steps of expectation and maximisation.
        degrees: degrees of freedom given to the components; the moments are matched as for
            Gaussians, which is where the regression starts from.
        pilot: names the images worth looking at where the group is large; None looks at all.

    Returns:
        The mixture and the mean log likelihood before every step.
    """
    spread = np.cov(points.T).reshape(group.dim, group.dim)
    share = 1.0 if components == 1 else 0.5
    chosen = host_generator(key).choice(points.shape[0], components, replace=False)
    means = points[chosen] if components > 1 else points.mean(axis=0, keepdims=True)
    root = np.linalg.inv(np.linalg.cholesky(share * spread))
    start = Mixture(
        jnp.full(components, -math.log(components)),
        jnp.asarray(means),
        jnp.asarray(np.broadcast_to(root, (components, *root.shape))),
        degrees,
    )
    images = map_points(_candidates, (group, pilot), points, terms=price(group, pilot))
    return _iterate(start, jnp.asarray(images), jnp.asarray(share * spread), iterations)


def _candidates(context: tuple[Group, Mixture | None], z: Point) -> Array:
    return candidates(*context, z)
