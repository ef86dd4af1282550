"""The parameters that a Stan program declares, recognised by perturbing the compiled program.

Neither library says how a parameter is constrained. But a constraint is a map from unconstrained
numbers, whose form shows at a few points: x = u, x = L + exp(u), a simplex that breaks a stick.
What is recognised gets coordinates of folt, in which relabelling is linear. All else (unit vectors,
correlation matrices, bounds that depend on other parameters, ordered vectors) keeps Stan's
coordinates, with Stan's Jacobian.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.coordinates import Identity
from folt.interop.sites import Site, bounded_site, opaque_site, simplex_site, zero_sum_site
from folt.interop.stan_model import Program
from folt.store.draws import declared_entries, shape_of
from folt.types import Scalar

_POINTS = 6
"""Points at which the program is looked at: a form with two constants is seen four times over."""

_SPREAD = 0.7
"""Their standard deviation: exp and logit are far from straight there, and far from flat."""

_STEP = 0.3
"""By how much one unconstrained number is changed, to see what depends on it."""

_FAR = 800.0
"""Where exp(-x) is zero in double precision: a parameter is at its bound."""

EQUAL = 1e-9
"""Largest difference, relative to one plus the size, at which two forms are the same."""


class BlockKind(enum.Enum):
    """How a parameter is constrained."""

    REAL = "real"
    LOWER = "lower bound"
    UPPER = "upper bound"
    INTERVAL = "interval"
    AFFINE = "offset and multiplier"
    STICKS = "simplex that breaks a stick"
    LOG_RATIOS = "simplex of log ratios"
    ZERO_SUM = "sum to zero"
    ORDERED = "ordered"
    UNIT = "unit vector"
    OPAQUE = "opaque"


OWN = (BlockKind.ORDERED, BlockKind.UNIT, BlockKind.OPAQUE)
"""Kinds that keep Stan's own coordinates."""


class Block(eqx.Module):
    """One declared parameter.

    Attributes:
        name: its name.
        shape: shape of its values.
        kind: how it is constrained.
        free: shape of its coordinates: that of the unconstrained numbers where Stan's are kept.
        places: where those stand among Stan's unconstrained numbers, in the order of `free`, or
            in the order of the values where each has its own.
        entries: where its values stand among the entries of the program, in their order.
        axes: axes of `free` that may carry labels.
        low: lower bound or offset, one for each value.
        high: upper bound or multiplier.
    """

    name: str = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    kind: BlockKind = eqx.field(static=True)
    free: tuple[int, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    entries: tuple[int, ...] = eqx.field(static=True)
    axes: tuple[int, ...] = eqx.field(static=True, default=())
    low: Any = None
    high: Any = None

    @property
    def kept(self) -> bool:
        """Whether it keeps Stan's own coordinates."""
        return self.kind in OWN

    def unconstrained(self, x: Array) -> tuple[Float[Array, " free"], Scalar]:
        """Return Stan's unconstrained numbers at a value, and the log Jacobian that Stan adds.

        A parameter that keeps Stan's own coordinates is given and returned in these.
        """
        if self.kind in _OF_VECTORS:
            free, slopes = _OF_VECTORS[self.kind](x.reshape(-1, self.shape[-1]))
        elif self.kind in _OF_NUMBERS:
            free, slopes = _OF_NUMBERS[self.kind](x.reshape(-1), self.low, self.high)
        else:
            free, slopes = x, jnp.zeros(())
        return free.reshape(-1), jnp.sum(slopes)

    def site(self) -> Site:
        """Return the parameter as folt sees it."""
        if self.kept:
            ordered = self.kind is BlockKind.ORDERED and not self.axes
            return opaque_site(self.name, self.free, Identity(), self.axes, ordered)
        if self.kind in (BlockKind.STICKS, BlockKind.LOG_RATIOS):
            return simplex_site(self.name, self.shape, None)
        if self.kind is BlockKind.ZERO_SUM:
            return zero_sum_site(self.name, self.shape)
        low = self.low if self.kind in (BlockKind.LOWER, BlockKind.INTERVAL) else None
        high = self.high if self.kind in (BlockKind.UPPER, BlockKind.INTERVAL) else None
        bounds = tuple(None if b is None else b.reshape(self.shape) for b in (low, high))
        return bounded_site(self.name, self.shape, bounds, None)  # type: ignore[arg-type]


def program_blocks(program: Program, seed: int = 0) -> tuple[Block, ...]:
    """Return the declared parameters of a program, in their order."""
    looked = _Looked(program, seed)
    return tuple(looked.blocks())


class _Looked:
    """A program at a few points, and what depends on what."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program = program
        self.free = np.random.default_rng(seed).normal(0.0, _SPREAD, (_POINTS, program.free))
        self.values = np.stack([program.constrained(u) for u in self.free])
        self.depends = np.zeros((len(program.names), program.free), bool)
        for place in range(program.free):
            for u, x in zip(self.free[:3], self.values[:3], strict=True):
                moved = u.copy()
                moved[place] += _STEP
                self.depends[:, place] |= program.constrained(moved) != x

    def blocks(self) -> Iterator[Block]:
        """Return the parameters; their unconstrained numbers follow each other as declared."""
        start = 0
        for name, entries in declared_entries(self.program.names).items():
            shape = shape_of([index for _, index in entries])
            where = np.empty(shape, int)
            for place, index in entries:
                where[index] = place
            touched = np.flatnonzero(self.depends[where.reshape(-1)].any(axis=0))
            own = touched[touched >= start]
            start += len(own)
            yield self._recognised(name, where, own, alone=len(own) == len(touched))
        if start != self.program.free:
            raise ValueError(
                f"expected {self.program.free} unconstrained parameters behind the declared ones, "
                f"found {start}: some of them change nothing"
            )

    def _recognised(self, name: str, where: np.ndarray, own: np.ndarray, alone: bool) -> Block:
        """Return the simplest form that holds at all points, or Stan's own coordinates."""
        kept = self._kept(name, where, own)
        if not alone:  # its bounds depend on other parameters
            return kept
        for block in (*self._separate(name, where, own), *self._rows(name, where, own)):
            if self._holds(block):
                return block
        return kept

    def _holds(self, block: Block) -> bool:
        """Return whether the form gives back the unconstrained numbers at every point."""
        places, entries = list(block.places), list(block.entries)
        for u, x in zip(self.free, self.values, strict=True):
            with np.errstate(invalid="ignore", divide="ignore"):
                found = np.asarray(block.unconstrained(jnp.asarray(x[entries]))[0])
            if not np.all(np.abs(found - u[places]) <= EQUAL * (1.0 + np.abs(u[places]))):
                return False
        return True

    def _separate(self, name: str, where: np.ndarray, own: np.ndarray) -> Iterator[Block]:
        """Propose forms in which every value has an unconstrained number of its own."""
        entries, places = where.reshape(-1), self._one_by_one(where, own)
        if places is None:
            return
        below, middle, above, one = (
            self._at(places, value)[entries] for value in (-_FAR, 0.0, _FAR, 1.0)
        )
        shape = where.shape

        def made(kind: BlockKind, low: Any = None, high: Any = None) -> Block:
            numbers = tuple(map(int, places)), tuple(map(int, entries))
            return Block(name, shape, kind, shape, *numbers, low=low, high=high)

        yield made(BlockKind.REAL)
        if np.isfinite(below).all():
            yield made(BlockKind.LOWER, low=below)
        if np.isfinite(above).all():
            yield made(BlockKind.INTERVAL, low=below, high=above)
            # An upper bound falls as the unconstrained number grows: x = U - exp(u).
        if np.isfinite(below).all():
            yield made(BlockKind.UPPER, high=below)
        if np.all(one > middle):
            yield made(BlockKind.AFFINE, low=middle, high=one - middle)

    def _one_by_one(self, where: np.ndarray, own: np.ndarray) -> np.ndarray | None:
        """Return the one number that each value depends on; None where there are others."""
        table = self.depends[where.reshape(-1)][:, own]
        single = np.all(table.sum(axis=0) == 1) and np.all(table.sum(axis=1) == 1)
        return own[table.argmax(axis=1)] if single else None

    def _at(self, places: np.ndarray, value: float) -> np.ndarray:
        free = self.free[0].copy()
        free[places] = value
        return self.program.constrained_or_nan(free)

    def _rows(self, name: str, where: np.ndarray, own: np.ndarray) -> Iterator[Block]:
        """Propose forms of vectors along the last axis with one free number less than entries."""
        shape = where.shape
        if not shape or shape[-1] < 2:
            return
        places = self._cells(where, own, len(shape) - 1)
        if places is None or places.shape[-1] != shape[-1] - 1:
            return
        numbers = tuple(map(int, places.reshape(-1))), tuple(map(int, where.reshape(-1)))
        free = (*shape[:-1], shape[-1] - 1)
        sums = self.values[:, where].sum(axis=-1)
        kinds: tuple[BlockKind, ...] = ()
        if np.allclose(sums, 1.0, atol=EQUAL):
            kinds = (BlockKind.STICKS, BlockKind.LOG_RATIOS)
        kinds = (BlockKind.ZERO_SUM,) if np.allclose(sums, 0.0, atol=EQUAL) else kinds
        for kind in kinds:
            yield Block(name, shape, kind, free, *numbers)

    def _cells(self, where: np.ndarray, own: np.ndarray, leading: int) -> np.ndarray | None:
        """Return the numbers behind each cell of the leading axes; None if cells share some."""
        cells = where.reshape(int(np.prod(where.shape[:leading], dtype=int)), -1)
        found = [own[self.depends[cell][:, own].any(axis=0)] for cell in cells]
        lengths = {len(each) for each in found}
        if len(lengths) != 1 or sum(map(len, found)) != len(own):
            return None
        if len(set(np.concatenate(found).tolist())) != len(own):
            return None
        return np.array(found, int).reshape(*where.shape[:leading], -1)

    def _builds_up(self, where: np.ndarray, places: np.ndarray) -> bool:
        """Return whether every value depends on the numbers of its vector up to its own alone."""
        length = where.shape[-1]
        rows = zip(where.reshape(-1, length), places.reshape(-1, length), strict=True)
        lower = np.tri(length, dtype=bool)
        return all(np.array_equal(self.depends[np.ix_(row, own)], lower) for row, own in rows)

    def _kept(self, name: str, where: np.ndarray, own: np.ndarray) -> Block:
        """Keep Stan's own coordinates, by value or by cell of an array where possible."""
        shape, alone = where.shape, self._one_by_one(where, own)
        places, axes = own, 0
        if alone is not None:
            places, axes = alone.reshape(shape), len(shape)
        for leading in range(len(shape) - 1, 0, -1):
            cells = self._cells(where, own, leading)
            if cells is not None and not axes:
                places, axes = cells, leading
        x, u = self.values[:, where], self.free[:, places]
        kind = BlockKind.OPAQUE
        if shape and shape[-1] > 1 and places.shape == shape:
            length = np.linalg.norm(u, axis=-1, keepdims=True)
            if np.all(np.diff(x, axis=-1) > 0.0) and self._builds_up(where, places):
                kind = BlockKind.ORDERED
            elif np.allclose(x * length, u, atol=EQUAL):
                kind = BlockKind.UNIT
        numbers = tuple(map(int, places.reshape(-1))), tuple(map(int, where.reshape(-1)))
        return Block(name, shape, kind, places.shape, *numbers, axes=tuple(range(axes)))


Transformed = tuple[Array, Array]
"""Stan's unconstrained numbers, and the terms of the log Jacobian of their transform."""


def _sticks(rows: Array) -> Transformed:
    """Return logits of the broken pieces, centred at equal shares (Stan up to 2.36).

    The log Jacobian is Σ log x_k + log(what is left after k) - log(what was before).
    """
    rest = jnp.cumsum(rows[:, ::-1], axis=1)[:, ::-1]
    before, after = jnp.log(rest[:, :-1]), jnp.log(rest[:, 1:])
    left = jnp.arange(rows.shape[1] - 1, 0, -1, dtype=rows.dtype)
    logs = jnp.log(rows[:, :-1])
    return logs - after + jnp.log(left), logs + after - before


def _log_ratios(rows: Array) -> Transformed:
    """Return logarithms in an orthonormal basis of vectors of sum zero (Stan from 2.37)."""
    logs = jnp.log(rows)
    return _zero_sum(logs)[0], logs.sum(axis=1) + 0.5 * jnp.log(rows.shape[1])


def _zero_sum(rows: Array) -> Transformed:
    length = rows.shape[1]
    basis = np.zeros((length, length - 1))
    for n in range(1, length):
        basis[:n, n - 1], basis[n, n - 1] = 1.0, -n
    return rows @ jnp.asarray(basis / np.linalg.norm(basis, axis=0)), jnp.zeros(())


_OF_VECTORS: dict[BlockKind, Callable[[Array], Transformed]] = {
    BlockKind.STICKS: _sticks,
    BlockKind.LOG_RATIOS: _log_ratios,
    BlockKind.ZERO_SUM: _zero_sum,
}


def _lower(x: Array, low: Array, high: Array) -> Transformed:
    free = jnp.log(x - low)
    return free, free


def _upper(x: Array, low: Array, high: Array) -> Transformed:
    free = jnp.log(high - x)
    return free, free


def _interval(x: Array, low: Array, high: Array) -> Transformed:
    below, above = jnp.log(x - low), jnp.log(high - x)
    return below - above, below + above - jnp.log(high - low)


def _affine(x: Array, low: Array, high: Array) -> Transformed:
    return (x - low) / high, jnp.log(high)


_OF_NUMBERS: dict[BlockKind, Callable[[Array, Array, Array], Transformed]] = {
    BlockKind.LOWER: _lower,
    BlockKind.UPPER: _upper,
    BlockKind.INTERVAL: _interval,
    BlockKind.AFFINE: _affine,
}
"""Of a value, its lower bound or offset, and its upper bound or multiplier."""
