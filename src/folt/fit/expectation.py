"""Posterior expectations from all proposals, not only from those that the chain accepted.

Every proposal z carries the weight w = e^h, h = log π_F - log q_F, and

    E f = Σ w·f(z) / Σ w

uses those that the chain rejected too. Where the proposal is made of Gaussian and Student parts,
scrambled Sobol points can be sent through it: in few dimensions they are worth many independent
proposals. Independent scrambles give their error; whether they help, other scrambles decide. The
tail of the weights is the licence: where it is heavy, the chain's own average is taken.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv, ndtri

from folt.certificate.diagnostics.chains import effective_size, frozen_chains
from folt.certificate.diagnostics.evidence import PLAIN_LIMIT
from folt.certificate.diagnostics.pareto import pareto_tail
from folt.fit.by_name import ByName
from folt.fit.relabelling import SIGNS_BY, SORTED_BY, labelled, signed
from folt.problem.ratio import IDENTITY_ONLY, LogRatio, Target
from folt.proposals.action import action_of
from folt.proposals.components import Components
from folt.proposals.sums import components_of
from folt.types import host_generator, in_float64, root_key

if TYPE_CHECKING:
    from folt.fit.fit import Fit

Quantity = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""From the parameters, arrays with leading axes (chain, draw), to values with the same axes."""

STREAM = 1_001
"""Number of the random stream of expectations, apart from those of sampling and of extensions."""

_FRESH = 20_000
"""Proposals that are drawn where a fit has none of its own, as after loading: those of a file would
double its size, and as many draws are what a file keeps."""

_DECIDING, _ESTIMATING = 8, 16
"""Scrambles that say whether Sobol points help, and those that estimate. They are apart, because an
error that was chosen for being small is too small."""

SIZES = (8, 12)
"""Binary logarithms of the least and the largest number of points of a scramble."""

HELPFUL = 0.5
"""Largest ratio of variances, Sobol to plain, at which Sobol points are used: less would not be
told apart from chance by eight scrambles."""

_ROUNDING = 1e-12
"""Distance that uniforms keep from zero and one."""


class ExpectationMethod(StrEnum):
    """How an expectation was made."""

    PROPOSALS = "proposals"
    SOBOL = "sobol"
    CHAIN = "chain"


class _Pair(NamedTuple):
    mean: np.ndarray
    standard_error: np.ndarray


class Expectation(_Pair):
    """A mean and its standard error, as a pair; how they were made are attributes.

    Attributes:
        method: "proposals" for all proposals with their weights, "sobol" for scrambled Sobol points
            sent through the proposal, "chain" for the average over the draws.
        pareto_k: k̂ of the weights times the values, by which weights were believed or not; NaN
            where there were none.
        points: proposals or draws that were averaged over.
    """

    method: ExpectationMethod
    pareto_k: float
    points: int

    def __new__(
        cls, pair: _Pair, method: ExpectationMethod, pareto_k: float = math.nan, points: int = 0
    ) -> Expectation:
        """Return a pair that says where it comes from."""
        self = super().__new__(cls, *pair)
        self.method, self.pareto_k, self.points = method, pareto_k, points
        return self


class Weighted(NamedTuple):
    """Points with their weights, in sets that are independent of each other.

    Attributes:
        parameters: `{name: (set, point, ...)}`, under the labels of the fit.
        weights: the largest is one; zero outside the support.
    """

    parameters: dict[str, np.ndarray]
    weights: Float[np.ndarray, "set point"]

    def values(self, quantity: Quantity) -> np.ndarray:
        """Return a quantity at every point."""
        return _values(quantity, self.parameters, self.weights.shape)


class Averages:
    """What expectations of one fit share: weighted proposals, made when they are first needed."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit

    @in_float64
    def of(self, asked: Quantity | str) -> Expectation:
        """Return the expectation of a quantity, by the best method that the weights allow."""
        quantity: Quantity = operator.itemgetter(asked) if isinstance(asked, str) else asked
        if not callable(quantity):
            raise ValueError(
                "expected a parameter's name or a function of the parameters, such as "
                f"lambda p: p[name] > 0, got {type(quantity).__name__}"
            )
        along = _values(quantity, self.fit.posterior, self.fit.draws.shape[:2])
        if self.plain is None:
            return self._chain(along)
        pair, shape = weighted_mean(self.plain.values(quantity), self.plain.weights)
        if not shape < PLAIN_LIMIT:
            return self._chain(along, shape)
        tried = self.deciding
        if tried and _helps(replicated_mean(tried.values(quantity), tried.weights), pair):
            sets = self.estimating
            if sets is not None:
                found = replicated_mean(sets.values(quantity), sets.weights)
                return Expectation(found, ExpectationMethod.SOBOL, shape, sets.weights.size)
        return Expectation(pair, ExpectationMethod.PROPOSALS, shape, self.plain.weights.size)

    def _chain(self, values: np.ndarray, shape: float = math.nan) -> Expectation:
        """The average over the draws with its Monte Carlo error; infinite if a chain is frozen."""
        count = values.shape[0] * values.shape[1]
        flat = values.reshape(*values.shape[:2], -1)
        frozen = bool(frozen_chains(self.fit.accepted))
        errors = [0.0 if np.ptp(one) == 0.0 else math.inf for one in np.moveaxis(flat, -1, 0)]
        for j in range(flat.shape[-1]):
            size = 0.0 if frozen else effective_size(flat[..., j], "mean")
            if size > 0.0:
                errors[j] = float(flat[..., j].std()) / math.sqrt(size)
        pair = _shaped(flat.mean(axis=(0, 1)), np.array(errors), values.shape[2:])
        return Expectation(pair, ExpectationMethod.CHAIN, shape, count)

    @functools.cached_property
    def plain(self) -> Weighted | None:
        """All proposals of the chains, or fresh ones for a fit that has none of its own."""
        fit = self.fit
        if fit.proposals is not None:
            points, log_ratios = fit.proposals
            return self._weighted(points.reshape(1, -1, fit.group.dim), log_ratios.reshape(1, -1))
        if self.ratio is None or self.ratio.target.problem.black_box is not None:
            return None
        points, log_ratios = self.ratio.draw(self._key(0), _FRESH)
        return self._weighted(points[None], log_ratios[None])

    @functools.cached_property
    def deciding(self) -> Weighted | None:
        """Scrambles that decide whether Sobol points help."""
        return self._scrambles(1, _DECIDING)

    @functools.cached_property
    def estimating(self) -> Weighted | None:
        """Scrambles that estimate."""
        return self._scrambles(2, _ESTIMATING)

    @functools.cached_property
    def ratio(self) -> LogRatio | None:
        """The log ratio h of the fit; None without problem or proposal."""
        fit = self.fit
        if fit.problem is None or fit.proposal is None:
            return None
        kept = None if fit.whole_orbit else IDENTITY_ONLY
        return LogRatio(Target(fit.problem), fit.proposal, fit.group, kept)

    def _scrambles(self, number: int, sets: int) -> Weighted | None:
        """Send independently scrambled Sobol sets through the proposal and weight them.

        There are none where the proposal has no quantiles or where values are expensive.
        """
        ratio = self.ratio
        if ratio is None or ratio.kept is not None or ratio.target.problem.black_box is not None:
            return None
        parts = components_of(ratio.proposal)
        if parts is None:
            return None
        steps = self.fit.drawn * self.fit.steps_per_draw
        size = int(np.clip(math.log2(max(steps // (_DECIDING + _ESTIMATING), 1)), *SIZES))
        generator = host_generator(self._key(number))
        points = np.concatenate(
            [through(parts, scrambled(generator, parts[0].dim + 2, size)) for _ in range(sets)]
        )
        points = action_of(self.fit.group).fold(points)
        with ratio.target.problem.evaluating():
            log_ratios = ratio.at(points)
        return self._weighted(points.reshape(sets, 1 << size, -1), log_ratios.reshape(sets, -1))

    def _weighted(self, points: np.ndarray, log_ratios: np.ndarray) -> Weighted | None:
        """Return points under the labels of the fit with their weights; None if all are zero.

        A point outside the support is replaced by a usable one, which counts with weight zero.
        """
        usable = np.isfinite(log_ratios)
        if not usable.any():
            return None
        largest = np.unravel_index(np.argmax(np.where(usable, log_ratios, -np.inf)), usable.shape)
        weights = np.where(usable, np.exp(log_ratios - log_ratios[largest]), 0.0)
        points = np.where(usable[..., None], points, points[largest])
        parameters = self._parameters(points)
        return None if parameters is None else Weighted(parameters, weights)

    def _parameters(self, points: np.ndarray) -> dict[str, np.ndarray] | None:
        """The user's parameters; None where the order of the labels cannot be had again."""
        fit = self.fit
        if fit.problem is None or fit.proposal is None:
            return None
        order, _, sign = fit.labels.partition(SIGNS_BY)
        if order.startswith(SORTED_BY):
            by = order.removeprefix(SORTED_BY)
            if by not in fit.posterior:
                return None
            plain = fit.problem.parameters(points)
            same = dataclasses.replace(fit, draws=points, posterior=plain, labels="sorted")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # said when the fit was sorted
                same = same.relabelled(by)
        else:
            points = labelled(points, fit.proposal, fit.group, order)
            if not sign:
                return fit.problem.parameters(points)
            same = dataclasses.replace(fit, draws=points, labels=order)
        return signed(same, sign, like=fit.draws).posterior if sign else same.posterior

    def _key(self, number: int) -> jax.Array:
        key = jax.random.fold_in(root_key(self.fit.provenance["seed"]), STREAM)
        return jax.random.fold_in(key, number)


def weighted_mean(
    values: Float[np.ndarray, "set point *shape"], weights: Float[np.ndarray, "set point"]
) -> tuple[_Pair, float]:
    """Σwf/Σw of independent points with its error by the delta method, and k̂ of what is summed.

    k̂ is the larger of those of the weights and of the largest w·|f - mean| in its deviations, over
    all entries of f.
    """
    flat, shares = values.reshape(weights.size, -1), weights.ravel() / weights.sum()
    mean = shares @ flat
    parts = shares[:, None] * (flat - mean)
    error = np.sqrt(np.sum(parts**2, axis=0) * weights.size / max(weights.size - 1, 1))
    varying = error > _ROUNDING * np.abs(mean)
    sizes = np.max(np.abs(parts[:, varying]) / error[varying], axis=1, initial=0.0)
    shape = max(pareto_tail(one[one > 0.0]).shape for one in (shares, sizes) if one.any())
    return _shaped(mean, error, values.shape[2:]), float(shape)


def replicated_mean(
    values: Float[np.ndarray, "set point *shape"], weights: Float[np.ndarray, "set point"]
) -> _Pair:
    """Σwf/Σw over all sets, with its error from the spread of the sets.

    With R sets the error has R - 1 degrees of freedom; it is that of the t distribution they give,
    √((R - 1)/(R - 3)) times the usual one, so that intervals of two errors mean what they say.
    """
    sets = len(values)
    flat = values.reshape(*weights.shape, -1)
    masses = weights.sum(axis=1)
    sums = np.einsum("sp,spj->sj", weights, flat)
    mean = sums.sum(axis=0) / masses.sum()
    spread = (sums - masses[:, None] * mean).std(axis=0, ddof=1) / masses.mean()
    error = spread / math.sqrt(sets) * math.sqrt((sets - 1) / (sets - 3))
    return _shaped(mean, error, values.shape[2:])


def scrambled(generator: np.random.Generator, dim: int, size: int) -> Float[np.ndarray, "n dim"]:
    """Return 2^size scrambled Sobol points of the unit cube, none on its boundary."""
    from scipy.stats import qmc

    with warnings.catch_warnings():
        # SciPy has renamed the argument and warns of the old name.
        warnings.simplefilter("ignore", DeprecationWarning)
        sobol = qmc.Sobol(dim, scramble=True, seed=generator)
    return np.clip(sobol.random_base2(size), _ROUNDING, 1.0 - _ROUNDING)


def through(
    parts: tuple[Components, ...], uniforms: Float[np.ndarray, "n more"]
) -> Float[np.ndarray, "n dim"]:
    """Turn uniforms (n, dim + 2) into draws of a mixture: a part, dim normals and a radius each."""
    dim = parts[0].dim
    normals = ndtri(uniforms[:, 1:-1])
    logs = np.concatenate([part.log_weights for part in parts])
    edges = np.cumsum(np.exp(logs - np.logaddexp.reduce(logs)))
    chosen = np.minimum(np.searchsorted(edges, uniforms[:, 0]), len(logs) - 1)
    points, number = np.empty((len(uniforms), dim)), 0
    for part in parts:
        for mean, factor in zip(part.means, part.factors, strict=True):
            rows = np.flatnonzero(chosen == number)
            number += 1
            steps = normals[rows] @ _root(factor).T
            if math.isfinite(part.degrees):
                squares = 2.0 * gammaincinv(0.5 * part.degrees, uniforms[rows, -1])
                steps *= np.sqrt(part.degrees / squares)[:, None]
            points[rows] = mean + steps
    return points


def _root(factor: Float[np.ndarray, "dim dim"]) -> Float[np.ndarray, "dim dim"]:
    """A root of the covariance whose first columns carry most: the first Sobol axes are best."""
    values, vectors = np.linalg.eigh(factor.T @ factor)
    return vectors / np.sqrt(values)


def _helps(tried: _Pair, plain: _Pair) -> bool:
    """Whether as many scrambles as estimate would have a variance well below that of `plain`."""
    usual = np.ravel(plain.standard_error)
    varying = usual > 0.0
    if not varying.any():
        return False
    ratios = (np.ravel(tried.standard_error)[varying] / usual[varying]) ** 2
    return bool(np.mean(ratios) * _DECIDING / _ESTIMATING < HELPFUL)


def _values(
    quantity: Quantity, parameters: Mapping[str, np.ndarray], lead: tuple[int, ...]
) -> np.ndarray:
    """Return the quantity at every point, as numbers.

    Raises:
        ValueError: it does not keep the leading axes.
    """
    values = np.asarray(quantity(ByName(parameters)))
    if values.shape[:2] != lead:
        raise ValueError(
            "expected a function from {name: (chain, draw, ...)} to values with the leading axes "
            f"(chain, draw), {lead} here, got shape {values.shape}"
        )
    return values.astype(float)


def _shaped(mean: np.ndarray, error: np.ndarray, shape: tuple[int, ...]) -> _Pair:
    return _Pair(mean.reshape(shape)[()], error.reshape(shape)[()])
