"""The multivariate Gaussian mixture with full covariances.

y_n ~ Σ_k w_k N(μ_k, Σ_k) in p variables, with μ_kj ~ N(mu_location_j, mu_scale_j²), precisions
Σ_k⁻¹ ~ Wishart(ν, Ψ⁻¹), Ψ = (ν - p - 1)·diag(s²), so that E[Σ_k] = diag(s²), and
w ~ Dirichlet(concentration), all components alike.

Coordinates are Bartlett's: Σ⁻¹ = D⁻¹TTᵀD⁻¹ with D = √Ψ and T lower triangular, T_ij ~ N(0, 1)
below the diagonal and T_ii² ~ χ²(ν - i), i = 0, ..., p - 1, on a log scale. The prior is then a
product, the residual Tᵀ D⁻¹(y - μ) needs no factorisation, and the inverse Wishart factor
exp(-½ tr ΨΣ⁻¹) keeps the posterior bounded where a component collapses onto few observations.

A component's means, triangle and diagonal are three blocks that one permutation moves together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, ArrayLike, Float

from folt.coordinates import CentredScores, Normal
from folt.groups import Blocks, Joint, ZeroSum
from folt.models.families import MixtureLikelihood, Values
from folt.models.independent import (
    LOG_TWO_PI,
    Independent,
    LogGammas,
    StandardNormal,
    total_log_likelihood,
)
from folt.models.observations import (
    finite,
    named_variables,
    new_rows,
    number_of,
    positive,
    spread_of,
    table,
)
from folt.models.partitions import NearPartitions, clusters, standard_error
from folt.problem import Problem
from folt.problem.observed import Forecast, LogTerms, Pointwise, Predictive
from folt.types import Key, Point, Scalar, host_generator, in_float64


class MultivariateMixturePosterior(MixtureLikelihood):
    """Likelihood times prior, all constants included: its integral is the evidence.

    Attributes:
        mu: prior of the means, one location and scale per variable.
        root: diagonal of D.
        diagonal: the coordinates of ½T_ii², components one after the other.
        weight: the coordinates of the weights.
        prior: everything above in one, in the order of the coordinates.
    """

    mu: Normal
    root: Float[Array | np.ndarray, " p"]
    diagonal: LogGammas
    weight: CentredScores
    prior: Independent

    def components(self, x: Point) -> tuple[Array, Array, Array, Array]:
        """Return the log weight, mean, T and log diagonal of T of every component."""
        means, below, diagonal, ratios = self.prior.pieces(x)
        p = self.root.shape[0]
        log_diagonal = 0.5 * (self.diagonal.push_log(diagonal) + jnp.log(2.0)).reshape(-1, p)
        rows, columns = np.tril_indices(p, -1)
        triangle = jnp.zeros((log_diagonal.shape[0], p, p), x.dtype)
        triangle = triangle.at[:, rows, columns].set(below.reshape(triangle.shape[0], rows.size))
        triangle = triangle + jnp.exp(log_diagonal)[:, :, None] * jnp.eye(p, dtype=x.dtype)
        mu = self.mu.from_normal(means.reshape(-1, p))
        return self.weight.push_log(ratios), mu, triangle, log_diagonal

    def __call__(self, x: Point, observations: Float[Array | np.ndarray, "n p"]) -> Scalar:
        """Return the log density at one point."""
        parameters, data = (jnp.asarray(self.root), *self.components(x)), jnp.asarray(observations)
        return total_log_likelihood(_terms, parameters, data) + self.prior.log_prob(x)

    def constrain(self, x: Point) -> Values:
        """Return weights, means and covariance matrices."""
        log_weight, mu, triangle, _ = self.components(x)
        inverse = jax.vmap(_inverse_of_triangle)(triangle) * self.root
        covariance = jnp.einsum("kij,kil->kjl", inverse, inverse)
        return {"weight": jnp.exp(log_weight), "mu": mu, "covariance": covariance}

    def unconstrain(self, values: Values) -> Point:
        """Return the point with these weights, means and covariance matrices.

        D⁻¹ΣD⁻¹ = T⁻ᵀT⁻¹, so T⁻ᵀ is the upper triangular Cholesky factor, which is the usual one
        with rows and columns in reverse.
        """
        scaled = values["covariance"] / (self.root[:, None] * self.root)
        upper = jnp.linalg.cholesky(scaled[:, ::-1, ::-1])[:, ::-1, ::-1]
        triangle = jax.vmap(_inverse_of_triangle)(jnp.swapaxes(upper, 1, 2))
        log_diagonal = jnp.log(jnp.diagonal(triangle, axis1=1, axis2=2)).reshape(-1)
        rows, columns = np.tril_indices(self.root.shape[0], -1)
        pieces = [
            self.mu.to_normal(values["mu"]).reshape(-1),
            triangle[:, rows, columns].reshape(-1),
            self.diagonal.pull_log(2 * log_diagonal - jnp.log(2.0)),
            self.weight.pull(values["weight"]),
        ]
        return jnp.concatenate(pieces)

    @staticmethod
    def log_densities(values: Values, data: Array) -> Float[Array, "m n"]:
        """Return log N(y_n; μ_k, Σ_k) of every component and observation."""
        factor = jnp.linalg.cholesky(values["covariance"])
        residual = data.T - values["mu"][:, :, None]
        whitened = jax.vmap(lambda f, r: solve_triangular(f, r, lower=True))(factor, residual)
        log_scale = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), axis=1)
        constant = -log_scale - 0.5 * data.shape[1] * LOG_TWO_PI
        return constant[:, None] - 0.5 * jnp.sum(jnp.square(whitened), axis=1)

    @staticmethod
    def draws(key: Key, values: Values, labels: Array) -> Float[Array, "n p"]:
        """Return normal vectors with the means and covariances of the labels."""
        mu, factor = values["mu"][labels], jnp.linalg.cholesky(values["covariance"])
        noise = jax.random.normal(key, mu.shape, mu.dtype)
        return mu + jnp.einsum("nij,nj->ni", factor[labels], noise)


def _terms(parameters: tuple[Array, ...], observations: Float[Array, "n p"]) -> Array:
    """Return log w_k + log N(y_n; μ_k, Σ_k) of every component and observation."""
    root, log_weight, mu, triangle, log_diagonal = parameters
    scaled = (observations / root).T
    residual = scaled - (mu / root)[:, :, None]
    whitened = jnp.einsum("kji,kjn->kin", triangle, residual)
    log_scale = jnp.sum(log_diagonal, axis=1) - jnp.sum(jnp.log(root))
    constant = log_weight + log_scale - 0.5 * scaled.shape[0] * LOG_TWO_PI
    return constant[:, None] - 0.5 * jnp.sum(jnp.square(whitened), axis=1)


def _inverse_of_triangle(triangle: Float[Array, "p p"]) -> Float[Array, "p p"]:
    return solve_triangular(triangle, jnp.eye(triangle.shape[0], dtype=triangle.dtype), lower=True)


@in_float64
def multivariate_gaussian_mixture(
    data: ArrayLike | Sequence[Sequence[float]],
    components: int,
    *,
    mu_location: ArrayLike | None = None,
    mu_scale: ArrayLike | None = None,
    sigma_scale: ArrayLike | None = None,
    degrees: float | None = None,
    concentration: float = 1.0,
    variables: Sequence[str] | None = None,
) -> Problem:
    """Return the posterior of a multivariate Gaussian mixture with full covariances.

    The defaults look at the data only through the range R_j of every variable and its middle,
    the same for every component.

    Args:
        data: observations in rows, variables in columns.
        components: number of components, m.
        mu_location: prior mean of μ_kj, one per variable; the midrange if None.
        mu_scale: prior standard deviation of μ_kj, one per variable; R_j/2 if None.
        sigma_scale: s_j, the root of the prior mean of the variances; R_j/10 if None.
        degrees: ν of the Wishart prior, above p + 1; p + 2 if None, the least informative whole
            number for which the covariances have a prior mean.
        concentration: of the Dirichlet prior of the weights; 1 is flat.
        variables: names of the columns; those of a pandas data frame if None.
    """
    m = number_of("components", components)
    observations = table(data, m)
    p = observations.shape[1]
    middle, width = spread_of(observations)
    location = _per_variable("mu_location", middle if mu_location is None else mu_location, p)
    scale = _per_variable("mu_scale", width / 2 if mu_scale is None else mu_scale, p)
    sigma = _per_variable("sigma_scale", width / 10 if sigma_scale is None else sigma_scale, p)
    nu = p + 2.0 if degrees is None else float(degrees)
    finite(mu_location=location)
    positive(mu_scale=scale, sigma_scale=sigma, concentration=concentration)
    if not (np.isfinite(nu) and nu > p + 1):
        raise ValueError(f"degrees must be finite and above p + 1 = {p + 1}, got {degrees}")
    weight = CentredScores.symmetric(m, concentration)
    diagonal = LogGammas(np.tile((nu - np.arange(p)) / 2, m))
    below = p * (p - 1) // 2
    prior = Independent((StandardNormal(m * p), StandardNormal(m * below), diagonal, weight))
    root = sigma * np.sqrt(nu - p - 1)
    posterior = MultivariateMixturePosterior(Normal(location, scale), root, diagonal, weight, prior)
    triangle = (Blocks(below),) if below else ()
    names, made = named_variables(data, variables, p), MultivariateMixturePosterior
    return Problem(
        posterior,
        Joint(m, (Blocks(p), *triangle, Blocks(p), ZeroSum())),
        data=observations,
        prior=prior,
        start=_start(posterior, observations, m),
        names=_names(m, p),
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        pointwise=Pointwise(posterior.constrain, made.pointwise),
        predictive=Predictive(
            posterior.constrain, made.predict, Forecast("row", new_rows, made.density_at)
        ),
        log_terms=LogTerms(posterior.constrain, made.component_terms),
        dims={
            "weight": ("component",),
            "mu": ("component", "variable"),
            "covariance": ("component", "variable", "variable_to"),
        },
        coords={**names, **({"variable_to": names["variable"]} if names else {})},
        independent_rows=True,
    )


def _start(
    posterior: MultivariateMixturePosterior, data: Float[np.ndarray, "n p"], m: int
) -> NearPartitions | None:
    """Return where the search begins: at clusters with more rows than variables."""
    p = data.shape[1]
    below, root = p * (p - 1) // 2, np.asarray(posterior.root)
    shape = np.asarray(posterior.diagonal.shape)[:p]
    lower, centres, widths = np.tril_indices(p, -1), [], []
    for rows in clusters(data, m):
        if len(rows) < p + 2:
            continue
        width = standard_error(rows)
        covariance = np.cov(rows.T, bias=True).reshape(p, p) + np.diag(root**2) / len(rows)
        scaled = (covariance / (root[:, None] * root))[::-1, ::-1]
        triangle = np.linalg.inv(np.linalg.cholesky(scaled)[::-1, ::-1]).T
        logs = 2.0 * np.log(np.diagonal(triangle)) - math.log(2.0)
        mean = np.asarray(posterior.mu.to_normal(jnp.asarray(rows.mean(axis=0))))
        diagonal = np.sqrt(shape) * (logs - np.log(shape))
        centres.append(np.concatenate([mean, triangle[lower], diagonal]))
        deviations = np.sqrt(np.diagonal(covariance)) / np.asarray(posterior.mu.scale)
        errors = [deviations, np.linalg.norm(triangle, axis=1)[lower[0]], np.sqrt(2.0 * shape)]
        widths.append(np.minimum(width * np.concatenate(errors), 1.0))
    if not centres:
        return None
    sizes = np.split(np.arange(m * (2 * p + below)), [m * p, m * (p + below)])
    places = np.concatenate([part.reshape(m, part.size // m) for part in sizes], axis=1)
    rest = Independent((posterior.weight,))
    return NearPartitions(places, jnp.asarray(centres), jnp.asarray(widths), rest)


def _names(m: int, p: int) -> list[str]:
    lower = list(zip(*np.tril_indices(p, -1), strict=True))
    return [
        *(f"mu[{k},{j}]" for k in range(m) for j in range(p)),
        *(f"bartlett[{k},{i},{j}]" for k in range(m) for i, j in lower),
        *(f"log_bartlett[{k},{j}]" for k in range(m) for j in range(p)),
        *(f"log_ratio[{k}]" for k in range(m - 1)),
    ]


def _per_variable(name: str, value: ArrayLike, p: int) -> Float[np.ndarray, " p"]:
    array = np.asarray(value, float)
    if array.shape not in ((), (p,)):
        raise ValueError(f"{name} must be one number or {p} of them, got shape {array.shape}")
    return np.broadcast_to(array, (p,)).copy()


def simulate_multivariate_gaussian_mixture(
    key: Key,
    count: int = 300,
    *,
    weight: Sequence[float] = (0.6, 0.4),
    mu: Sequence[Sequence[float]] = ((0.0, 0.0), (3.0, 2.0)),
    covariance: Sequence[Sequence[Sequence[float]]] = (
        ((1.0, 0.5), (0.5, 1.0)),
        ((0.8, -0.3), (-0.3, 0.6)),
    ),
) -> Float[np.ndarray, "count p"]:
    """Return observations of a mixture with these parameters."""
    generator = host_generator(key)
    label = generator.choice(len(weight), count, p=np.asarray(weight, float))
    factor = np.linalg.cholesky(np.asarray(covariance, float))
    noise = generator.normal(size=(count, factor.shape[-1]))
    return np.asarray(mu, float)[label] + np.einsum("nij,nj->ni", factor[label], noise)
