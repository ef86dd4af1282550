"""The log density of a Stan program in folt's coordinates, evaluated on the host.

A point z gives values x(z) in folt's coordinates, and these Stan's unconstrained numbers u(z).
Stan's density without its Jacobian is that of the values; folt's coordinates add theirs. Where
parameters keep Stan's coordinates, Stan's Jacobian is kept and that of all others taken out. The
gradient is the vector-Jacobian product of z → u with Stan's.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.batching import map_points
from folt.interop.sites import Sites
from folt.interop.stan_blocks import Block, BlockKind
from folt.interop.stan_model import Program
from folt.types import HostPoints, HostValues, Key, Point, Scalar, host_generator, in_float64


class Way(eqx.Module):
    """From a point to Stan's unconstrained numbers."""

    blocks: tuple[Block, ...]
    sites: Sites
    free: int = eqx.field(static=True)

    def __call__(self, x: Point) -> tuple[Float[Array, " free"], Scalar]:
        """Return Stan's unconstrained numbers, and what is added to Stan's log density there."""
        values = self.sites.push(x)
        u, added = jnp.zeros(self.free, x.dtype), self.sites.log_slope(x)
        for block in self.blocks:
            value = values[block.name]
            free, log_jacobian = block.unconstrained(value)
            u = u.at[np.array(block.places)].set(free)
            if self.jacobian:
                added = added - log_jacobian  # zero where Stan's coordinates are kept
        return u, added

    @property
    def jacobian(self) -> bool:
        """Whether Stan's Jacobian is asked for: some parameters keep Stan's coordinates."""
        return any(block.kept for block in self.blocks)


class StanDensity:
    """Values and gradients of a program at many points.

    Args:
        program: the compiled program.
        blocks: its parameters.
        sites: their coordinates and layout.
    """

    def __init__(self, program: Program, blocks: tuple[Block, ...], sites: Sites) -> None:
        self.program = program
        self.way = Way(blocks, sites, program.free)

    @in_float64
    def free(self, points: HostPoints) -> tuple[Float[np.ndarray, "n free"], HostValues]:
        """Return Stan's numbers at many points, and what is added to its log density."""
        u, added = map_points(_called, self.way, points)
        return np.asarray(u), np.asarray(added)

    def values(self, points: HostPoints) -> HostValues:
        """Return the log density at many points."""
        u, added = self.free(points)
        jacobian = self.way.jacobian
        return np.array([self.program.value(row, jacobian) for row in u]) + added

    @in_float64
    def gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return the log density and gradient at many points."""
        u, added = self.free(points)
        pairs = [self.program.gradient(row, self.way.jacobian) for row in u]
        slopes = np.stack([slope for _, slope in pairs])
        back = map_points(_pulled_back, self.way, (points, slopes))
        return np.array([value for value, _ in pairs]) + added, np.asarray(back)

    def generated(self, points: HostPoints, seed: int) -> dict[str, np.ndarray]:
        """Return transformed parameters and generated quantities at many points."""
        return self.program.generated(self.free(points)[0], seed)


class StanParameters:
    """From points to the parameters by name; those in Stan's coordinates by the program itself."""

    def __init__(self, density: StanDensity) -> None:
        self.density = density

    def __call__(self, point: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters at one point."""
        return {name: value[0] for name, value in self.many(np.asarray(point)[None]).items()}

    @in_float64
    def many(self, points: HostPoints) -> dict[str, np.ndarray]:
        """Return the parameters at many points."""
        way, program = self.density.way, self.density.program
        found = {name: np.asarray(v) for name, v in map_points(_pushed, way, points).items()}
        kept = [block for block in way.blocks if block.kept]
        if kept:
            free = self.density.free(points)[0]
            entries = np.stack([program.constrained_or_nan(row) for row in free])
            for block in kept:
                own = entries[:, list(block.entries)]
                found[block.name] = own.reshape(-1, *block.shape)
        return found


class StanPoints:
    """From parameters by name back to points; values on the edge of the support are infinite."""

    def __init__(self, density: StanDensity) -> None:
        self.density = density

    def __call__(self, values: dict[str, Array], key: Key | None = None) -> np.ndarray:
        """Return the point at one value of every parameter."""
        one = {name: np.asarray(value)[None] for name, value in values.items()}
        return self.many(one, key)[0]

    @in_float64
    def many(self, values: dict[str, np.ndarray], key: Key | None = None) -> HostPoints:
        """Return the points at many values of every parameter; a unit vector's length is drawn."""
        way = self.density.way
        own = {block.name: np.asarray(values[block.name], float) for block in way.blocks}
        kept = [block for block in way.blocks if block.kept]
        if kept:
            free = self._unconstrained(own)
            random = host_generator(jax.random.key(0) if key is None else key)
            for block in kept:
                u = free[:, list(block.places)].reshape(-1, *block.free)
                if block.kind is BlockKind.UNIT:
                    length = np.sqrt(random.chisquare(block.shape[-1], (*u.shape[:-1], 1)))
                    u = u / np.linalg.norm(u, axis=-1, keepdims=True) * length
                own[block.name] = u
        return np.asarray(map_points(_pulled, way.sites, own))

    def _unconstrained(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Return Stan's unconstrained numbers; NaN where the values are impossible."""
        way, program = self.density.way, self.density.program
        count = len(next(iter(values.values())))
        entries = np.empty((count, len(program.names)))
        for block in way.blocks:
            entries[:, list(block.entries)] = values[block.name].reshape(count, -1)
        return np.stack([program.unconstrained_or_nan(row) for row in entries])


def _called(way: Way, x: Point) -> tuple[Array, Scalar]:
    return way(x)


def _pulled_back(way: Way, given: tuple[Point, Array]) -> Point:
    x, slope = given
    _, pull = jax.vjp(way, x)
    return pull((slope, jnp.ones((), x.dtype)))[0]


def _pushed(way: Way, x: Point) -> dict[str, Array]:
    return way.sites.push(x)


def _pulled(sites: Sites, values: dict[str, Array]) -> Point:
    return sites.pull(values)
