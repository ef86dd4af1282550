"""Shapes and protocols shared by every room.

folt works on one point at a time and maps over points at the edge, so the shapes below name
a single point, a batch of points, and the scalars computed from them.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Key = PRNGKeyArray
Point = Float[Array, " dim"]
Points = Float[Array, "n dim"]
Scalar = Float[Array, ""]
Scalars = Float[Array, " n"]

P = ParamSpec("P")
R = TypeVar("R")


class Density(eqx.Module):
    """Something with a log density on R^dim, normalised or not."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the space."""

    @abstractmethod
    def log_prob(self, x: Point) -> Scalar:
        """Log density at one point."""


class Distribution(Density):
    """A normalised density that can be drawn from.

    Draw and density come from one call: a proposal without its density cannot be written down.
    """

    @abstractmethod
    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density."""

    def sample(self, key: Key) -> Point:
        """One draw."""
        return self.sample_and_log_prob(key)[0]


class OrbitSummed(Distribution):
    """A distribution that sums itself over the orbits of a group without listing the group."""

    @property
    @abstractmethod
    def summed_over(self) -> Any:
        """The group whose orbits it sums over."""

    @property
    @abstractmethod
    def orbit_cost(self) -> int:
        """What a sum over an orbit costs, in plain density terms."""

    @abstractmethod
    def log_orbit_sum(self, z: Point) -> Scalar:
        """Log Σ_g q(g·z), the same at every image of z."""

    @abstractmethod
    def draw_image(self, key: Key, z: Point) -> Point:
        """An image g·z with probability q(g·z)/Σ_g q(g·z)."""

    @abstractmethod
    def likeliest_image(self, z: Point) -> Point:
        """One image of z, the same for all points of an orbit, that is likely under q."""


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a public function in double precision without touching JAX's global setting.

    Every number that a verdict rests on is computed in float64. JAX's switch is global by
    default; a library that flips it changes its host program, so folt enters the local context
    in each public function instead.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped


def host_generator(key: Key) -> np.random.Generator:
    """A NumPy generator seeded by a key, for choices made on the host without compiling."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def root_key(seed: int) -> Key:
    """The key `jax.random.key(seed)`, made on the host without compiling."""
    words: Any = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")
