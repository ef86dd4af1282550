"""Registries, name -> constructor: what is listed here goes through every law of its kind.

Groups, proposals, coordinates, reference samplers, trainers and ready models. Constructors, not
objects, so that nothing is built before the tests enter double precision.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from folt.coordinates import (
    Cauchy,
    Coordinate,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Identity,
    IntervalScores,
    Laplace,
    Log,
    Logistic,
    Logit,
    LogNormal,
    Normal,
    PriorNormal,
    Uniform,
)
from folt.groups import (
    Blocks,
    Fixed,
    Generated,
    Group,
    Joint,
    Permutation,
    Product,
    Reflection,
    SignedPermutation,
    Square,
    Trivial,
    Within,
    ZeroSum,
    ZeroSumRows,
)
from folt.models import (
    factor_analysis,
    gaussian_mixture,
    hidden_markov,
    multivariate_gaussian_mixture,
    poisson_mixture,
    simulate_factor_analysis,
    simulate_gaussian_mixture,
    simulate_hidden_markov,
    simulate_multivariate_gaussian_mixture,
    simulate_poisson_mixture,
)
from folt.paper.flow import SpectralCoupling, certified
from folt.paper.training import PaperFlow
from folt.problem import Problem
from folt.proposals import (
    ClassChain,
    Gaussian,
    Mixture,
    Pushed,
    Safety,
    SinhArcsinh,
    StudentT,
    standard_normal,
    symmetric_root,
)
from folt.proposals.fold import Folded
from folt.reference import AdaptiveRandomWalk, Exact, Given, HostChains
from folt.training import OrbitChain, OrbitMixture, Refinement
from folt.types import Distribution, ReferenceSampler, Trainer
from likelihoods import (
    Likelihood,
    multinormal_of,
    normal_of,
    of_components,
    of_factors,
    over_paths,
    poisson_of,
)

GROUPS: dict[str, Callable[[], Group]] = {
    "trivial": lambda: Trivial(3),
    "reflections": lambda: Reflection(5, (3, 1)),
    "permutation of blocks": lambda: Permutation(3, 2),
    "permutation by second": lambda: Permutation(4, 2, sort_by=1),
    "signed permutation": lambda: SignedPermutation(3, 4),
    "signed permutation by second": lambda: SignedPermutation(2, 3, sort_by=1),
    "signed permutation with scales": lambda: SignedPermutation(3, 3, unsigned=1),
    "mixture of mixtures": lambda: Generated([np.eye(4)[[1, 0, 2, 3]], np.eye(4)[[2, 3, 0, 1]]]),
    "triangle": lambda: Generated(
        [[[-0.5, -(0.75**0.5)], [0.75**0.5, -0.5]], [[1.0, 0.0], [0.0, -1.0]]]
    ),
    "product": lambda: Product(Permutation(3, 2), Reflection(2, (1,))),
    "nested product": lambda: Product(
        Product(Trivial(1), Permutation(2, 2)), SignedPermutation(2, 2)
    ),
    "joint with weights first": lambda: Joint(3, (Fixed(1), ZeroSum(), Blocks(2))),
    "joint beside a spike": lambda: Joint(2, (Blocks(1), ZeroSum((0,)), ZeroSumRows((1,)))),
    "joint square": lambda: Joint(3, (Square(), Fixed(2))),
    "within classes": lambda: Within(Joint(5, (ZeroSum(), Blocks(2))), [(4, 0, 2), (1, 3)]),
    "within one class": lambda: Within(Joint(3, (Blocks(1), ZeroSumRows())), [(0, 2)]),
    "joint transitions": lambda: Joint(3, (ZeroSumRows(),)),
    "joint of all parts": lambda: Joint(
        4, (Fixed(2), Blocks(2, sort_by=1), ZeroSum(), Square(), ZeroSumRows())
    ),
}


def random_chain(group: Group, classes: int, spread: float = 1.5, seed: int = 4) -> ClassChain:
    """A class chain with nothing special about it."""
    rng = np.random.default_rng(seed)
    form = group.block_form
    assert form is not None
    m, p, f = form.labels, form.size, len(form.fixed)

    def factors(*shape: int) -> np.ndarray:
        size = shape[-1]
        lower = np.tril(0.4 * rng.standard_normal((*shape, size)), -1)
        return lower + np.exp(0.3 * rng.standard_normal(shape))[..., None] * np.eye(size)

    arrays = (
        rng.standard_normal(classes),
        1.5 * rng.standard_normal((m - 1, classes, classes)),
        spread * rng.standard_normal((m, classes, p)),
        factors(m, classes, p),
        rng.standard_normal((classes, f)),
        factors(classes, f),
    )
    return ClassChain(group, *map(jnp.asarray, arrays))


COVARIANCE = np.array([[1.5, 0.8], [0.8, 0.9]])
MEAN = np.array([0.7, -0.4])


def shaken(flow: Distribution, scale: float, seed: int = 0) -> Distribution:
    """A flow away from its identity start: noise on every array that training would move."""
    arrays, rest = eqx.partition(flow, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    rng = np.random.default_rng(seed)
    moved = [leaf + scale * rng.standard_normal(leaf.shape) for leaf in leaves]
    return eqx.combine(jax.tree.unflatten(structure, moved), rest)


def random_mixture(dim: int, components: int, degrees: float = math.inf) -> Mixture:
    rng = np.random.default_rng(4)
    factors = np.tril(0.4 * rng.standard_normal((components, dim, dim)), -1)
    factors += np.exp(0.3 * rng.standard_normal((components, dim)))[:, :, None] * np.eye(dim)
    return Mixture(
        jnp.asarray(rng.standard_normal(components)),
        jnp.asarray(1.5 * rng.standard_normal((components, dim))),
        jnp.asarray(factors),
        degrees,
    )


def small_coupling(dim: int, scale: float = 0.6) -> Distribution:
    return shaken(SpectralCoupling(dim, 4, 8, jax.random.key(2)), scale)


def pushed(base: Distribution) -> Pushed:
    return Pushed(base, jnp.asarray(MEAN), symmetric_root(jnp.asarray(COVARIANCE)))


def bent(base: Distribution) -> SinhArcsinh:
    """Margins that lean to either side, with light and heavy tails."""
    places = jnp.arange(base.dim)
    signs = jnp.where(places % 2 == 0, 1.0, -1.0)
    return SinhArcsinh(base, 0.3 * signs, 0.1 * signs, 0.4 * signs, 0.15 * signs)


FLOWS: dict[str, Callable[[], Distribution]] = {
    "gaussian": lambda: Gaussian.from_moments(MEAN, COVARIANCE),
    "student": lambda: StudentT.from_moments(MEAN, COVARIANCE, 5.0),
    "mixture": lambda: random_mixture(2, 3),
    "mixture of student": lambda: random_mixture(2, 3, 4.0),
    "safety": lambda: Safety(random_mixture(2, 3), standard_normal(2, 3.0), 0.3),
    "coupling": lambda: small_coupling(2),
    "certified coupling": lambda: certified(small_coupling(2, 2.0)),
    "pushed mixture": lambda: pushed(random_mixture(2, 3)),
    "sinh-arcsinh": lambda: bent(Gaussian.from_moments(MEAN, COVARIANCE)),
    "folded by reflection": lambda: Folded(random_mixture(2, 3), Reflection(2, (0,))),
    "folded by swap": lambda: Folded(random_mixture(2, 3), Permutation(2, 1)),
    "class chain": lambda: random_chain(Permutation(2, 1), 3),
    "folded class chain": lambda: Folded(random_chain(Permutation(2, 1), 3), Permutation(2, 1)),
}

# Each prior with scipy's word for it; locations of zero keep the lower tail representable.
PRIORS = {
    "normal": (Normal(1.5, 2.0), scipy.stats.norm(1.5, 2.0)),
    "lognormal": (LogNormal(0.3, 0.5), scipy.stats.lognorm(0.5, scale=np.exp(0.3))),
    "uniform": (Uniform(0.7, 1.1), scipy.stats.uniform(0.7, 1.1 - 0.7)),
    "halfnormal": (HalfNormal(2.0), scipy.stats.halfnorm(0, 2.0)),
    "exponential": (Exponential(3.0), scipy.stats.expon(0, 3.0)),
    "laplace": (Laplace(-1.0, 2.0), scipy.stats.laplace(-1.0, 2.0)),
    "logistic": (Logistic(-1.0, 0.5), scipy.stats.logistic(-1.0, 0.5)),
    "cauchy": (Cauchy(0.5, 2.0), scipy.stats.cauchy(0.5, 2.0)),
    "halfcauchy": (HalfCauchy(2.0), scipy.stats.halfcauchy(0, 2.0)),
    "gumbel": (Gumbel(1.0, 2.0), scipy.stats.gumbel_r(1.0, 2.0)),
}
COORDINATES: dict[str, Coordinate] = {
    "identity": Identity(),
    "log": Log(),
    "logit": Logit(-1.0, 3.0),
    "interval scores": IntervalScores(-1.0, 3.0),
    **{name: PriorNormal(prior) for name, (prior, _) in PRIORS.items()},
}

SAMPLERS: dict[str, Callable[[], ReferenceSampler]] = {
    "exact": lambda: Exact(3_000, 20),
    "given": lambda: Given(bent_pair_draws()),
    "host chains": lambda: HostChains(particles=512, chains=64, draws=50),
    "random walk": lambda: AdaptiveRandomWalk(40_000, 4_000, 20),
}


def bent_pair_draws() -> np.ndarray:
    """Draws of the pair that the laws of reference samplers are tried on, in random labellings."""
    rng = np.random.default_rng(5)
    draws = rng.standard_normal((20, 150, 2)) + np.array([-1.5, 1.5])
    return np.where(rng.random((20, 150, 1)) < 0.5, draws, draws[..., ::-1])


TRAINERS: dict[str, Callable[[], Trainer]] = {
    "orbit mixture": lambda: OrbitMixture(size=2, rounds=2, fresh=512),
    "widened mixture": lambda: OrbitMixture(
        size=2, rounds=2, fresh=512, refinement=Refinement(components=4, rounds=2, steps=20)
    ),
    "orbit chain": lambda: OrbitChain(classes=1),
    "paper flow": lambda: PaperFlow(layers=2, width=8, steps=60),
}


class Model(NamedTuple):
    """A ready model, data for it from a key, its log likelihood by SciPy, and its labels."""

    build: Callable[[np.ndarray], Problem]
    data: Callable[[jax.Array], np.ndarray]
    likelihood: Likelihood
    components: int


MODELS: dict[str, Model] = {
    "gaussian mixture": Model(
        lambda data: gaussian_mixture(data, 3),
        lambda key: simulate_gaussian_mixture(key, 40),
        of_components(normal_of),
        3,
    ),
    "multivariate mixture": Model(
        lambda data: multivariate_gaussian_mixture(data, 2),
        lambda key: simulate_multivariate_gaussian_mixture(key, 40),
        of_components(multinormal_of),
        2,
    ),
    "poisson mixture": Model(
        lambda data: poisson_mixture(data, 3),
        lambda key: simulate_poisson_mixture(key, 40),
        of_components(poisson_of),
        3,
    ),
    "gaussian hidden Markov": Model(
        lambda data: hidden_markov(data, 3),
        lambda key: simulate_hidden_markov(key, 7),
        over_paths(normal_of),
        3,
    ),
    "stationary poisson hidden Markov": Model(
        lambda data: hidden_markov(data, 2, "poisson", initial="stationary"),
        lambda key: simulate_hidden_markov(key, 8, "poisson"),
        over_paths(poisson_of),
        2,
    ),
    "factor analysis": Model(
        lambda data: factor_analysis(data, 3),
        lambda key: simulate_factor_analysis(key, 40),
        of_factors,
        3,
    ),
}
