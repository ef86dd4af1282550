"""Small posteriors with known answers, name -> `Posterior`: each goes through every public verb.

Add an entry and it is checked, sampled, printed, extended, reported, saved, certified and so on by
`tests/test_paths.py`. Constructors, not objects, so that nothing is built before it is needed.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from scipy import stats

import folt
from folt.groups import (
    Blocks,
    Fixed,
    Group,
    Joint,
    Permutation,
    Product,
    Reflection,
    SignedPermutation,
    Trivial,
)
from folt.problem import Problem
from folt.proposals import Gaussian

Values = Mapping[str, np.ndarray]


class Posterior(NamedTuple):
    """A problem whose answers are known.

    Attributes:
        make: builds it.
        log_evidence: log Z.
        mean: expectation of `value`.
        value: a number of every draw, in the user's parameters; the same at all labellings unless
            the symmetry is broken.
        components: a parameter whose second axis counts exchangeable components, if there is one.
    """

    make: Callable[[], Problem]
    log_evidence: float
    mean: float
    value: Callable[[Values], np.ndarray]
    components: str | None = None


def squares(values: Values) -> np.ndarray:
    """|x|² of a point whose coordinates have names of their own."""
    return sum(np.square(one) for one in values.values())


def total(values: Values) -> np.ndarray:
    return sum(values.values())


def all_squares(values: Values) -> np.ndarray:
    """|x|² of a point whose rows are a parameter."""
    return np.square(values["rows"]).sum(axis=(-2, -1))


class Images(NamedTuple):
    """Normal clouds around all images of a centre: log Z = 0, E|x|² = |centre|² + dim·scale²."""

    group: Group
    centre: tuple[float, ...]
    scale: float = 1.0
    constant: float = 0.0

    @property
    def centres(self) -> np.ndarray:
        with jax.ensure_compile_time_eval():
            return np.asarray(self.group.orbit(jnp.array(self.centre)))

    def log_density(self, x):
        terms = jnp.sum(norm.logpdf(x, self.centres, self.scale), axis=1)
        return logsumexp(terms) - math.log(self.group.order) + self.constant

    def host(self, x: np.ndarray) -> np.ndarray:
        """The same in NumPy, for many points."""
        terms = stats.norm.logpdf(x[:, None], self.centres, self.scale).sum(axis=2)
        return np.logaddexp.reduce(terms, axis=1) - math.log(self.group.order)

    def posterior(self, make: Callable[[], Problem] | None = None) -> Posterior:
        mean = sum(c**2 for c in self.centre) + len(self.centre) * self.scale**2
        plain = lambda: Problem(self.log_density, self.group)  # noqa: E731
        return Posterior(make or plain, self.constant, mean, squares)


def inside(log_density, support):
    """A log density cut off where `support` does not hold."""
    return lambda x: jnp.where(support(x), log_density(x), -jnp.inf)


def exponential(group: Group) -> Posterior:
    density = inside(lambda x: -jnp.sum(x), lambda x: jnp.all(x > 0))
    return Posterior(lambda: Problem(density, group), 0.0, float(group.dim), total)


def half_plane_with_a_hole() -> Posterior:
    """A standard normal where x₀ > 0 and |x| > 1: |x|² - 1 is exponential with mean 2."""
    density = inside(lambda x: jnp.sum(norm.logpdf(x)), lambda x: (x[0] > 0) & (jnp.sum(x**2) > 1))
    make = lambda: Problem(density, Trivial(2))  # noqa: E731
    return Posterior(make, math.log(0.5) - 0.5, 3.0, squares)


def flat() -> Posterior:
    """x₀ + x₁ is known to .1, x₀ - x₁ hardly at all."""

    def log_density(x):
        return norm.logpdf(x[0] + x[1], 1.0, 0.1) + norm.logpdf(x[0] - x[1], 0.0, 100.0)

    make = lambda: Problem(log_density, Permutation(2, 1))  # noqa: E731
    return Posterior(make, -math.log(2.0), 1.0, total)


# A mixture of two, whose rows (mu, b) are exchangeable, and one observation of it.
OBSERVED, FEATURES, KNOWN = 1.5, np.array([0.5, -1.0, 2.0]), 0.8
SITES_EVIDENCE = float(
    stats.norm.logpdf(OBSERVED, 0.0, math.sqrt(10.0))
    + stats.norm.logpdf(FEATURES, 0.0, math.sqrt(2.0)).sum()
    + stats.norm.logpdf(KNOWN, 0.0, math.sqrt(2.0))
)


def one_observation() -> Posterior:
    """μ₀, μ₁ ~ N(0, 3²), y ~ ½N(μ₀, 1) + ½N(μ₁, 1): of each two, y speaks of one."""

    def log_density(mu, y):
        terms = jnp.sum(norm.logpdf(y[:, None], mu, 1.0), axis=0)
        return jnp.sum(norm.logpdf(mu, 0.0, 3.0)) + logsumexp(terms) - math.log(2.0)

    def make() -> Problem:
        data = np.array([OBSERVED])
        constrain = lambda mu: {"mu": mu}  # noqa: E731
        return Problem(log_density, Permutation(2, 1), data=data, constrain=constrain)

    evidence = float(stats.norm.logpdf(OBSERVED, 0.0, math.sqrt(10.0)))
    return Posterior(make, evidence, 0.9 * OBSERVED, lambda v: v["mu"].sum(axis=-1), "mu")


def numpyro_sites() -> Problem:
    import numpyro
    import numpyro.distributions as dist

    def model():
        tau = numpyro.sample("tau", dist.Normal(0.0, 1.0))
        with numpyro.plate("component", 2):
            mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
            b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        terms = norm.logpdf(OBSERVED, mu, 1.0) + jnp.sum(norm.logpdf(FEATURES, b, 1.0), axis=-1)
        numpyro.factor("mixture", logsumexp(terms) - math.log(2.0))
        numpyro.sample("known", dist.Normal(tau, 1.0), obs=KNOWN)

    return folt.from_numpyro(model)


def pymc_coords() -> Problem:
    import pymc as pm

    coords = {"component": ["left", "right"], "feature": ["length", "width", "height"]}
    with pm.Model(coords=coords) as model:
        tau = pm.Normal("tau", 0.0, 1.0)
        mu = pm.Normal("mu", 0.0, 3.0, dims="component")
        b = pm.Normal("b", 0.0, 1.0, dims=("component", "feature"))
        terms = pm.logp(pm.Normal.dist(mu, 1.0), OBSERVED)
        terms = terms + pm.logp(pm.Normal.dist(b, 1.0), FEATURES).sum(axis=-1)
        pm.Potential("mixture", pm.math.logsumexp(terms) - math.log(2.0))
        pm.Normal("known", tau, 1.0, observed=KNOWN)
    return folt.from_pymc(model)


def sites(make: Callable[[], Problem]) -> Posterior:
    """Scalar, vector and matrix parameters; E[τ + Σμ] from two conjugate updates."""
    mean = 0.5 * KNOWN + 0.9 * OBSERVED
    return Posterior(make, SITES_EVIDENCE, mean, lambda v: v["tau"] + v["mu"].sum(axis=-1), "mu")


def odd_parameters() -> Posterior:
    """Truth values, whole numbers, constants, a symmetric matrix, a parameter without entries."""

    def constrain(x):
        odd = {"above": x > 0, "whole": jnp.round(x).astype(int), "known": jnp.ones(())}
        matrix = jnp.eye(2) + jnp.tanh(jnp.sum(x)) * (1.0 - jnp.eye(2))
        return {"x": x, **odd, "matrix": matrix, "nothing": x[:0]}

    def make() -> Problem:
        images = Images(Permutation(2, 1), (-2.0, 2.0))
        return Problem(images.log_density, images.group, constrain=constrain)

    share = float(stats.norm.cdf(2.0) ** 2 + stats.norm.cdf(-2.0) ** 2)
    return Posterior(make, 0.0, share, lambda v: 1.0 * (np.sign(v["x"]).sum(axis=-1) == 0), "x")


def two_rows(group: Group, centre: tuple[float, ...], **naming: str) -> Posterior:
    """Two exchangeable rows, of which the fold looks at the first entry and the data do not."""
    images = Images(group, centre)

    def constrain(x):
        rows = x.reshape(2, 2)
        return {"rows": rows, "size": jnp.sqrt(jnp.sum(rows**2, axis=1))}

    make = lambda: Problem(images.log_density, group, constrain=constrain, **naming)  # noqa: E731
    known = images.posterior()
    return Posterior(make, known.log_evidence, known.mean, all_squares, "size")


def broken() -> Posterior:
    """.7·N(2, 1) + .3·N(-2, 1), which a reflection does not leave alone: E x₀ = .8."""

    def log_density(x):
        means, shares = jnp.array([2.0, -2.0]), jnp.log(jnp.array([0.7, 0.3]))
        return logsumexp(norm.logpdf(x[0], means, 1.0) + shares) + norm.logpdf(x[1])

    make = lambda: Problem(log_density, Reflection(2, (0,)), invariant=False)  # noqa: E731
    return Posterior(make, 0.0, 0.8, lambda v: v["x0"])


def black_box(prior: bool) -> Posterior:
    images = Images(Permutation(2, 1), (-2.0, 2.0))

    def make() -> Problem:
        begin = Gaussian.from_moments(np.zeros(2), 9.0 * np.eye(2)) if prior else None
        return folt.from_callable(images.host, 2, images.group, vectorized=True, prior=begin)

    return images.posterior(make)


def many_labels() -> Posterior:
    """Eight exchangeable normals: 8! labellings, which a class chain sums without a list."""
    make = lambda: Problem(lambda x: jnp.sum(norm.logpdf(x)), Permutation(8, 1))  # noqa: E731
    return Posterior(make, 0.0, 8.0, squares)


POSTERIORS: dict[str, Posterior] = {
    "no group": Images(Trivial(2), (1.0, -2.0)).posterior(),
    "reflection": Images(Reflection(3, (2, 0)), (2.0, 0.0, 1.5)).posterior(),
    "permutation": Images(Permutation(3, 1), (-3.0, 0.0, 3.0)).posterior(),
    "signed permutation": Images(SignedPermutation(2, 2), (3.0, 1.0, 0.0, 2.0)).posterior(),
    "product with nothing": Images(
        Product(Trivial(1), Permutation(2, 1)), (1.0, -2.0, 2.0)
    ).posterior(),
    "joint": Images(Joint(2, (Fixed(1), Blocks(2))), (0.5, -2.0, 1.0, 2.0, 0.0)).posterior(),
    "one dimension": Images(Trivial(1), (3.0,), 0.5).posterior(),
    "one label": Images(Permutation(1, 2), (1.0, -1.0)).posterior(),
    "mode on the fold": Images(Permutation(2, 1), (0.0, 0.0)).posterior(),
    "exponential": exponential(Permutation(2, 1)),
    "half-plane with a hole": half_plane_with_a_hole(),
    "flat direction": flat(),
    "constant of -1e7": Images(Permutation(2, 1), (-2.0, 2.0), constant=-1e7).posterior(),
    "odd parameters": odd_parameters(),
    "one observation": one_observation(),
    "sites in NumPyro": sites(numpyro_sites),
    "named coords in PyMC": sites(pymc_coords),
    "black box": black_box(prior=False),
    "black box with prior": black_box(prior=True),
    "class chain": many_labels(),
    "broken symmetry": broken(),
    "order that confuses rows": two_rows(Permutation(2, 2), (0.0, -2.0, 0.0, 7.0)),
    "order and signs of one's own": two_rows(
        SignedPermutation(2, 2), (0.0, 3.0, 7.0, 1.0), sort_by="size", sign="largest"
    ),
}
