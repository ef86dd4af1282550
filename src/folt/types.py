"""Shapes and contracts shared by every room; the public way to add parts from outside.

folt works on one point at a time and maps over points at the edge, so the shapes below name
a single point, a batch of points, and the scalars computed from them. The contracts say what a
proposal, a trainer, a reference sampler, a coordinate, a section of a report and a runner have to
offer. A proposal and a group carry derived methods, so one subclasses `Distribution` and
`folt.groups.Group`; the other contracts are protocols, and whatever has their methods fulfils them.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from threadpoolctl import threadpool_limits

Key = PRNGKeyArray
Point = Float[Array, " dim"]
Points = Float[Array, "n dim"]
HostPoints = Float[np.ndarray, "n dim"]
HostValues = Float[np.ndarray, " n"]
HostDraws = Float[np.ndarray, "chain draw dim"]
Scalar = Float[Array, ""]
Scalars = Float[Array, " n"]

P = ParamSpec("P")
R = TypeVar("R")

Upper = Any
"""A type of a room above this one, which cannot be named here; the docstring says which."""

Progress = Callable[[float, str], None]
"""Told how far a stage is: the fraction done and what is being done."""


class Density(eqx.Module):
    """Something with a log density on R^dim, normalised or not."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the space."""

    @abstractmethod
    def log_prob(self, x: Point) -> Scalar:
        """Return the log density at one point."""


class Distribution(Density):
    """A normalised density that can be drawn from.

    Draw and density come from one call: a proposal without its density cannot be written down.

    Example:
        A normal about `centre` is a proposal that `folt.sample(problem, flow=Bell(centre))` takes::

            class Bell(folt.types.Distribution):
                centre: jax.Array

                @property
                def dim(self):
                    return self.centre.size

                def log_prob(self, x):
                    return jax.scipy.stats.norm.logpdf(x - self.centre).sum()

                def sample_and_log_prob(self, key):
                    x = self.centre + jax.random.normal(key, (self.dim,))
                    return x, self.log_prob(x)
    """

    @abstractmethod
    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""

    def sample(self, key: Key) -> Point:
        """Return one draw."""
        return self.sample_and_log_prob(key)[0]


class OrbitSummed(Distribution):
    """A distribution that sums itself over the orbits of a group without listing the group."""

    @property
    @abstractmethod
    def summed_over(self) -> Upper:
        """The `folt.groups.Group` whose orbits it sums over."""

    @property
    @abstractmethod
    def orbit_cost(self) -> int:
        """What a sum over an orbit costs, in plain density terms."""

    @abstractmethod
    def log_orbit_sum(self, z: Point) -> Scalar:
        """Return log Σ_g q(g·z), the same at every image of z."""

    @property
    def whole(self) -> bool:
        """Whether the sum runs over all of every orbit; if not, some draws do not count."""
        return True

    def propose(self, key: Key) -> tuple[Point, Bool[Array, ""]]:
        """A draw, and whether it counts: whether the sum over its orbit has a term for it."""
        return self.sample(key), jnp.asarray(True)

    @abstractmethod
    def draw_image(self, key: Key, z: Point) -> Point:
        """Return an image g·z with probability q(g·z)/Σ_g q(g·z)."""

    @abstractmethod
    def likeliest_image(self, z: Point) -> Point:
        """Return one image of z, the same for all points of an orbit, that is likely under q."""


@runtime_checkable
class Trainer(Protocol):
    """Makes a proposal from reference draws; `folt.sample(problem, flow=trainer)` calls it.

    Example:
        The moments of the draws, and nothing learnt beyond them::

            def moments(key, task, start=None, progress=None):
                points = np.asarray(task.training.points)
                return folt.proposals.Gaussian.from_moments(points.mean(0), np.cov(points.T))
    """

    def __call__(
        self, key: Key, task: Upper, start: Upper = None, progress: Progress | None = None, /
    ) -> Distribution:
        """Return the proposal.

        Args:
            key: the only source of randomness.
            task: a `folt.training.TrainingTask`: draws to learn from, target values, symmetry,
                tail safety.
            start: the proposal of an earlier fit, or None.
            progress: told how far training is.
        """


@runtime_checkable
class ReferenceSampler(Protocol):
    """Makes the draws to learn from; `folt.sample(problem, reference=sampler)` calls it.

    Example:
        Draws of somebody else's sampler, folded and looked at by `folt.reference.Given`::

            def mine(key, problem, progress=None):
                return folt.reference.Given(my_sampler(problem))(key, problem, progress)
    """

    def __call__(self, key: Key, problem: Upper, progress: Progress | None = None, /) -> Upper:
        """Folded draws by chain, a `folt.reference.Reference`, with what is known of their health.

        Args:
            key: the only source of randomness.
            problem: a `folt.Problem`, whose posterior to draw from.
            progress: told how far the run is.
        """


@runtime_checkable
class Coordinate(Protocol):
    """An increasing bijection from the real line to the values of one parameter, elementwise.

    A density p of the parameter becomes p(push(x))·exp(log_slope(x)) in the coordinate.

    Example:
        A rate on the log scale to base two::

            class Octaves:
                def push(self, x):
                    return 2.0**x

                def pull(self, value):
                    return jnp.log2(value)

                def log_slope(self, x):
                    return x * jnp.log(2.0) + jnp.log(jnp.log(2.0))
    """

    def push(self, x: Array, /) -> Array:
        """From the real coordinate to the user's value."""

    def pull(self, value: Array, /) -> Array:
        """From the user's value to the real coordinate; not finite outside the support."""

    def log_slope(self, x: Array, /) -> Array:
        """Return log |d push/dx| at the coordinate x."""


@runtime_checkable
class Section(Protocol):
    """One more part of a report, after the estimates: a heading, a drawing, what it shows.

    `fit.report(path, sections=[...])` takes any number of them; `folt.fit.section.Section` makes
    one from a Matplotlib figure.

    Example:
        A drawing that is SVG already::

            class Logo:
                title = "Where the data come from"
                text = "The plan of the building."

                def drawing(self, name):
                    return "<svg viewBox='0 0 1 1'><path d='M0 0 L1 1'/></svg>"
    """

    @property
    def title(self) -> str:
        """The heading."""

    @property
    def text(self) -> str:
        """What to see in the drawing, in one or two sentences."""

    def drawing(self, name: str, /) -> str:
        """SVG for a page, with identifiers made from `name`."""


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


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with one BLAS thread; the setting from before comes back afterwards.

    Matrices of the host are small: a second thread mostly spins, which doubles the CPU time of a
    fit, and the order of its sums could depend on the number of threads. Chunks run side by side
    instead. XLA hands triangular systems to BLAS as well: a normal density at 250 observations in
    eight dimensions takes 5 microseconds with one thread, and with two on busy cores between 50
    and 10 000.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return wrapped


def host_generator(key: Key) -> np.random.Generator:
    """Return a NumPy generator seeded by a key, for choices made on the host without compiling."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def root_key(seed: int) -> Key:
    """Return the key `jax.random.key(seed)`, made on the host without compiling."""
    words: Any = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")
