"""Gaussian or Student components as NumPy arrays: densities by one matrix product."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from folt.types import HostPoints

HARMLESS = 1e-9
"""Rounding of a log density that no certificate can notice."""


GRADIENT_ENTRIES = 1 << 20
"""Points times components times dimensions whose gradients are in memory at once."""


@dataclasses.dataclass(frozen=True, eq=False)
class Components:
    """Σ_k w_k p(x; μ_k, factor_k), Gaussian or, for finite degrees, Student.

    Attributes:
        log_weights: (K,), normalised or scaled by the share that the components have.
        means: (K, dim).
        factors: (K, dim, dim), roots of the precisions: factor·(x - μ) is standard. They need not
            be triangular: an image of a component has a factor that is not.
        degrees: degrees of freedom of every component; infinite is Gaussian.
    """

    log_weights: Float[np.ndarray, " components"]
    means: Float[np.ndarray, "components dim"]
    factors: Float[np.ndarray, "components dim dim"]
    degrees: float = math.inf

    @property
    def count(self) -> int:
        """Number of components."""
        return self.means.shape[0]

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.means.shape[1]

    def over(self, matrices: Float[np.ndarray, "order dim dim"]) -> Components:
        """Return the components of x ↦ Σ_g p(g·x), element by element.

        p(g·x; μ, F) = p(x; gᵀμ, F·g), since g is orthogonal.
        """
        order = len(matrices)
        means = np.einsum("gij,ki->gkj", matrices, self.means).reshape(-1, self.dim)
        factors = np.einsum("kij,gjl->gkil", self.factors, matrices)
        factors = factors.reshape(-1, self.dim, self.dim)
        return Components(np.tile(self.log_weights, order), means, factors, self.degrees)

    def scaled(self, log_share: float) -> Components:
        """The components with all weights times a share."""
        return dataclasses.replace(self, log_weights=self.log_weights + log_share)

    def wider(self, factor: float) -> Components:
        """The components with their covariances times a factor."""
        return dataclasses.replace(self, factors=self.factors / math.sqrt(factor))

    def joined(self, others: Components, share: float) -> Components:
        """Return one set of components, in which the others have a share of the weight."""
        parts = (self.log_weights + math.log1p(-share), others.log_weights + math.log(share))
        return Components(
            np.concatenate(parts),
            np.concatenate([self.means, others.means]),
            np.concatenate([self.factors, others.factors]),
            self.degrees,
        )

    def log_terms(self, points: HostPoints) -> Float[np.ndarray, "n components"]:
        """Return log w_k + log p_k(x) of every point and component.

        |factor_k (x - μ_k)|² is a quadratic in x, so all of them are one product of the monomials
        of x with columns of coefficients. The origin is moved to the mean of the means; where the
        cancellation would still be felt, or there are fewer components than monomials, points are
        standardised instead.
        """
        squared = self._standardised(points) if self.direct else self._by_monomials(points)
        return self.log_from_squares(squared)

    def log_from_squares(
        self, squared: Float[np.ndarray, "*n components"]
    ) -> Float[np.ndarray, "*n components"]:
        """Return log w_k + log p_k where |factor_k (x - μ_k)|² is known; overwrites it."""
        if math.isinf(self.degrees):
            squared *= -0.5
        else:
            squared /= self.degrees
            np.log1p(np.maximum(squared, 0.0, out=squared), out=squared)
            squared *= -0.5 * (self.degrees + self.dim)
        squared += self.constants
        return squared

    def pulls(
        self, terms: Float[np.ndarray, "*n components"]
    ) -> Float[np.ndarray, "*n components"]:
        """Return (degrees + dim)/(degrees + |u|²) from the logs of the terms; one for Gaussians.

        It is by how much less a far point pulls at mean and covariance of a Student component.
        """
        if math.isinf(self.degrees):
            return np.ones_like(terms)
        whole = self.degrees + self.dim
        return np.exp((terms - self.constants) * (2.0 / whole)) * (whole / self.degrees)

    def with_gradients(self, points: HostPoints) -> tuple[Float[np.ndarray, " n"], HostPoints]:
        """Log of the sum and its gradient, Σ_k r_k ∇log p_k with the shares r_k of the components.

        ∇log p = -c·Fᵀu with u = F·(x - μ), where c is one for a Gaussian and
        (degrees + dim)/(degrees + |u|²) for a Student component.
        """
        values, gradients = np.empty(len(points)), np.empty_like(points)
        length = max(1, GRADIENT_ENTRIES // (self.count * self.dim))
        for start in range(0, len(points), length):
            rows = slice(start, start + length)
            u = np.einsum("kij,nkj->nki", self.factors, points[rows, None] - self.means)
            terms = self.log_terms(points[rows])
            values[rows] = logs = log_sum_exp(terms.copy())
            shares = np.exp(terms - logs[:, None])
            if math.isfinite(self.degrees):
                squares = np.einsum("nki,nki->nk", u, u)
                shares *= (self.degrees + self.dim) / (self.degrees + squares)
            gradients[rows] = -np.einsum("nk,nki,kij->nj", shares, u, self.factors, optimize=True)
        return values, gradients

    @functools.cached_property
    def direct(self) -> bool:
        """Whether points are standardised: few components, or narrow ones far from each other."""
        if (self.dim + 1) * (self.dim + 2) // 2 > self.count * self.dim:
            return True
        pulled = np.einsum("kij,kj->ki", self.factors, self.means - self.means.mean(axis=0))
        return not np.finfo(float).eps * float(np.max(np.sum(pulled**2, axis=-1))) <= HARMLESS

    def _standardised(self, points: HostPoints) -> Float[np.ndarray, "n components"]:
        """|factor_k (x - μ_k)|² with the subtraction first but one."""
        offsets = np.einsum("kij,kj->ki", self.factors, self.means).ravel()
        u = points @ self.factors.reshape(-1, self.dim).T
        u -= offsets
        np.square(u, out=u)
        return u.reshape(len(points), self.count, self.dim).sum(axis=-1)

    def _by_monomials(self, points: HostPoints) -> Float[np.ndarray, "n components"]:
        """|factor_k (x - μ_k)|² as one matrix product."""
        centre, coefficients = self._quadratic
        return monomials(points - centre) @ coefficients

    def sample(self, generator: np.random.Generator, count: int) -> HostPoints:
        """Return independent draws of the normalised mixture."""
        weights = np.exp(self.log_weights - np.logaddexp.reduce(self.log_weights))
        chosen = generator.choice(self.count, count, p=weights / weights.sum())
        noise = generator.standard_normal((count, self.dim))
        if math.isfinite(self.degrees):
            noise /= np.sqrt(generator.chisquare(self.degrees, (count, 1)) / self.degrees)
        return self.means[chosen] + rows_times(self._roots, chosen, noise)

    @functools.cached_property
    def _roots(self) -> Float[np.ndarray, "components dim dim"]:
        return np.linalg.inv(self.factors)

    @functools.cached_property
    def _quadratic(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre, and coefficients (monomials, K) of the square."""
        centre = self.means.mean(axis=0)
        precisions = np.swapaxes(self.factors, 1, 2) @ self.factors
        offsets = self.means - centre
        pulled = np.einsum("kij,kj->ki", precisions, offsets)
        rows, columns = np.triu_indices(self.dim)
        double = np.where(rows == columns, 1.0, 2.0)
        lengths = np.sum(pulled * offsets, axis=-1, keepdims=True)
        quadratic = np.concatenate(
            [precisions[:, rows, columns] * double, -2.0 * pulled, lengths], axis=-1
        )
        return centre, np.ascontiguousarray(quadratic.T)

    @functools.cached_property
    def constants(self) -> Float[np.ndarray, " components"]:
        """Log w_k plus the log density of the component at its mean."""
        peak = -0.5 * self.dim * math.log(2 * math.pi)
        if math.isfinite(self.degrees):
            half = 0.5 * (self.degrees + self.dim)
            peak = float(gammaln(half) - gammaln(0.5 * self.degrees))
            peak -= 0.5 * self.dim * math.log(self.degrees * math.pi)
        return self.log_weights + np.linalg.slogdet(self.factors)[1] + peak


def rows_times(
    matrices: Float[np.ndarray, "choices dim dim"], chosen: np.ndarray, points: HostPoints
) -> HostPoints:
    """Every point times a matrix of its own choice, choice by choice: no copies of matrices."""
    result = np.empty_like(points)
    order = np.argsort(chosen, kind="stable")
    present, starts = np.unique(chosen[order], return_index=True)
    for number, rows in zip(present, np.split(order, starts)[1:], strict=True):
        result[rows] = points[rows] @ matrices[number].T
    return result


def monomials(points: HostPoints) -> Float[np.ndarray, "n monomials"]:
    """x_i x_j for i ≤ j, then x_i, then 1."""
    count, dim = points.shape
    rows, columns = np.triu_indices(dim)
    result = np.empty((count, rows.size + dim + 1), points.dtype)
    np.multiply(points[:, rows], points[:, columns], out=result[:, : rows.size])
    result[:, rows.size : -1] = points
    result[:, -1] = 1.0
    return result


def log_sum_exp(terms: Float[np.ndarray, "*n terms"]) -> Float[np.ndarray, "*n"]:
    """Log Σ exp along the last axis; overwrites the terms."""
    largest = terms.max(axis=-1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    terms -= largest
    np.exp(terms, out=terms)
    with np.errstate(divide="ignore"):
        return np.log(terms.sum(axis=-1)) + largest[..., 0]


class HasTerms(Protocol):
    """Whatever gives the logs of the terms of a sum."""

    def log_terms(self, points: HostPoints) -> Float[np.ndarray, "n components"]:
        """Return the log of every term at every point."""


def log_sum_of(parts: Sequence[HasTerms], points: HostPoints) -> Float[np.ndarray, " n"]:
    """Return the log of the sum of several sets of components."""
    sums = [log_sum_exp(part.log_terms(points)) for part in parts]
    return functools.reduce(np.logaddexp, sums)
