"""Mapping over many points in bounded memory.

Points go through in chunks of two fixed sizes, so that the number of points never causes a new
compilation and an orbit of 120 images never meets 20 000 points at once. A chunk goes through in
pieces whose largest array fits into the cache, and only those pieces are computed that were asked
for: a million observations need no more memory than a thousand do. Two chunks are under way at a
time. What comes back lives on the host: glue between compiled pieces is NumPy, because
every small JAX operation outside a compiled function is a compilation of its own.
"""

from __future__ import annotations

import functools
import math
import os
import types
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import ArrayLike, PyTree

from folt.store.private import remember_compilations
from folt.types import Density, Key, Scalar

Function = Callable[..., PyTree]
"""From a module and a point, or a module and a key, to arrays."""

LARGE_CHUNK = 1024
SMALL_CHUNK = 64
TERMS_PER_CHUNK = 8192
"""Density terms (points times orbit length) that are evaluated at once."""

PIECE = 128
"""Most points of a chunk that go through together: with 64, recursions over time take a fifth
longer."""

PIECE_BYTES = 2 << 20
"""What the largest array of a piece may take. Two megabytes fit into the caches of a core: the
gradient of a mixture of 100 000 observations takes 6.8 instead of 11.1 ms so, and 386 instead of
1 876 MB."""

ALL_BYTES = 160 << 20
"""What all arrays of a piece may take together, of which a seventh is alive at a time. Beyond 32 MB
the allocator hands memory back to the kernel after every call: the gradient of three modes with
correlated forces then takes 847 instead of 224 microseconds."""

THREADS = int(os.environ.get("FOLT_THREADS", "2"))
"""Chunks under way at a time; one where a worker of a fleet has one core to itself."""


ALONE = frozenset(
    {"cholesky", "eig", "eigh", "householder_product", "lu", "qr", "schur", "svd"}
    | {"geqrf", "geqp3", "triangular_solve", "tridiagonal"}
)
"""What XLA hands to LAPACK on its one pool of threads: two programs at once can wait there for each
other and never end."""

_alone: set[Function] = set()
"""Functions that were found to hold some of these when they were traced."""


def chunk_length(count: int, terms: int = 1) -> int:
    """Return points per chunk: small or large, and never more than `TERMS_PER_CHUNK` terms."""
    if count <= SMALL_CHUNK and terms * SMALL_CHUNK <= TERMS_PER_CHUNK:
        return SMALL_CHUNK
    length = LARGE_CHUNK
    while length > 1 and length * terms > TERMS_PER_CHUNK:
        length //= 2
    return length


def map_points(
    function: Function, module: PyTree, points: PyTree, terms: int = 1, length: int | None = None
) -> PyTree:
    """`function(module, point)` for every point along the leading axis, chunk by chunk.

    Args:
        function: a module-level function or method; its identity keys the compilation cache.
        module: a pytree handed to it whole.
        points: an array, or a pytree of arrays with a common leading axis.
        terms: how many density terms one point costs, |G| for an orbit sum.
        length: points per chunk, always the same, so that there is one program whatever the
            number of points; by default one of two sizes.

    Returns:
        NumPy arrays; those of no points have no rows.
    """
    points = jax.tree.map(_on_host, points)
    count = jax.tree.leaves(points)[0].shape[0]
    if count == 0:
        return _no_rows(function, module, points)
    length = length or chunk_length(count, terms)

    arrays, rest = _split(function, module)

    def chunk(start: int) -> PyTree:
        rows = np.minimum(np.arange(start, start + length), count - 1)
        asked = np.array(min(count - start, length), np.int32)
        return _mapped(rest, arrays, jax.tree.map(lambda leaf: leaf[rows], points), asked)

    return _joined(function, chunk, count, length)


def map_keys(
    function: Function,
    module: PyTree,
    key: Key,
    count: int,
    terms: int = 1,
    length: int | None = None,
    once: bool = False,
) -> PyTree:
    """`function(module, key)` for `count` keys split off from one, chunk by chunk.

    Args:
        function: as for `map_points`.
        module: a pytree handed to it whole.
        key: the root of the keys.
        count: how many keys.
        terms: how many density terms one key costs.
        length: keys per chunk, as for `map_points`.
        once: compile cheaply, for a program that runs once or twice: random numbers take seconds
            to compile well and no time to run.
    """
    length = length or chunk_length(count, terms)
    mapped = _mapped_keys_once if once else _mapped_keys

    def chunk(start: int) -> PyTree:
        return mapped(function, module, key, np.arange(start, start + length))

    return _joined(function, chunk, count, length)


class _Rest:
    """What a function and its module have besides arrays: the key of a program.

    Hashing and comparing modules takes longer than small programs run: it is done once.
    """

    def __init__(self, leaves: tuple[object, ...], structure: object) -> None:
        self.parts = (leaves, structure)
        self.number = hash(self.parts)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Rest) and self.parts == other.parts)

    def joined(self, arrays: tuple[ArrayLike | None, ...]) -> PyTree:
        """The function and its module again."""
        leaves, structure = self.parts
        both = zip(arrays, leaves, strict=True)
        return jax.tree.unflatten(structure, [y if x is None else x for x, y in both])


_Split = tuple[tuple[ArrayLike | None, ...], _Rest]

_splits: dict[tuple[Function, int], tuple[weakref.ref[PyTree], _Split]] = {}
"""How modules were split, by their identity, as long as they live."""


def _split(function: Function, module: PyTree) -> _Split:
    """Return the arrays of a function and its module, and the rest of them.

    A module never changes: it is split once for each function. To split a problem takes a fifth of
    a millisecond, and a fit asks for hundreds of blocks.
    """
    if not (isinstance(function, types.FunctionType) and isinstance(module, eqx.Module)):
        return _split_now(function, module)
    name = (function, id(module))
    known = _splits.get(name)
    if known is not None and known[0]() is module:
        return known[1]
    found = _split_now(function, module)
    _splits[name] = (weakref.ref(module, lambda _: _splits.pop(name, None)), found)
    return found


def _split_now(function: Function, module: PyTree) -> _Split:
    leaves, structure = jax.tree.flatten((function, module))
    arrays = tuple(leaf if eqx.is_array(leaf) else None for leaf in leaves)
    rest = tuple(None if eqx.is_array(leaf) else leaf for leaf in leaves)
    return arrays, _Rest(rest, structure)


@functools.partial(jax.jit, static_argnums=0)
def _mapped(
    rest: _Rest, arrays: tuple[ArrayLike | None, ...], points: PyTree, asked: np.ndarray
) -> PyTree:
    """The function at the first so many points of a chunk, piece by piece; zeros behind them."""
    function, module = rest.joined(arrays)
    traced = _Traced(function, lambda point: function(module, point), points)
    each = jax.vmap(traced)
    count = jax.tree.leaves(points)[0].shape[0]
    piece = math.gcd(count, piece_length(traced.closed.jaxpr))
    if piece == count:
        return each(points)

    def step(number: jax.Array, found: PyTree) -> PyTree:
        start = number * piece
        part = each(jax.tree.map(lambda x: _rows(x, start, piece), points))
        return jax.tree.map(lambda x, new: _put(x, new, start), found, part)

    empty = jax.tree.map(lambda x: jnp.zeros((count, *x.shape), x.dtype), traced.shapes)
    return jax.lax.fori_loop(0, -(-asked // piece), step, empty)


def _rows(leaf: jax.Array, start: jax.Array, count: int) -> jax.Array:
    return jax.lax.dynamic_slice_in_dim(leaf, start, count)


def _put(leaf: jax.Array, new: jax.Array, start: jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(leaf, new, start, 0)


class _Traced:
    """What happens at one point, traced once for the sizes, the shapes and the program.

    The function is noted if it has to run alone.
    """

    def __init__(self, function: Function, at: Callable[[PyTree], PyTree], points: PyTree) -> None:
        self.closed, self.shapes = jax.make_jaxpr(at, return_shape=True)(_one_of(points))
        if any(equation.primitive.name in ALONE for equation in _equations(self.closed.jaxpr)):
            _alone.add(function)

    def __call__(self, point: PyTree) -> PyTree:
        leaves = core.jaxpr_as_fun(self.closed)(*jax.tree.leaves(point))
        return jax.tree.unflatten(jax.tree.structure(self.shapes), leaves)


def _one_of(points: PyTree) -> PyTree:
    """The shape and type of one of many points."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), points)


def piece_length(jaxpr: core.Jaxpr) -> int:
    """Points that go through together, a power of two: their arrays are small enough."""
    sizes = [_bytes(atom.aval) for atom in _results(jaxpr)]
    room = min(PIECE_BYTES / max([1, *sizes]), ALL_BYTES / max(sum(sizes), 1))
    return 1 << max(0, math.floor(math.log2(min(PIECE, room))))


def _bytes(shape: core.AbstractValue) -> int:
    """Return what an array takes; nothing where it has no such size, as a typed key."""
    size, dtype = getattr(shape, "size", 0), getattr(shape, "dtype", None)
    return size * getattr(dtype, "itemsize", 0)


def _results(jaxpr: core.Jaxpr) -> Iterator[core.Var]:
    """What every operation makes, those of loops and branches included."""
    for equation in _equations(jaxpr):
        yield from equation.outvars


def _no_rows(function: Function, module: PyTree, points: PyTree) -> PyTree:
    """What a function gives at no points at all: arrays of its shapes and types without rows."""
    shapes = eqx.filter_eval_shape(function, module, _one_of(points))
    return jax.tree.map(lambda shape: np.empty((0, *shape.shape), shape.dtype), shapes)


def _over_keys(function: Function, module: PyTree, key: Key, indices: np.ndarray) -> PyTree:
    def at(index: jax.Array) -> PyTree:
        return function(module, jax.random.fold_in(key, index))

    return jax.vmap(_Traced(function, at, indices))(indices)


def calls_lapack(density: Density) -> bool:
    """Return whether a log density holds what has to run alone."""
    lowered = _one_value.lower(density, np.zeros(density.dim))  # type: ignore[attr-defined]
    return "lapack" in lowered.as_text()


@eqx.filter_jit
def _one_value(density: Density, x: np.ndarray) -> Scalar:
    return density.log_prob(x)  # type: ignore[arg-type]


def _equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """All operations, those of loops and branches included."""
    for equation in jaxpr.eqns:
        yield equation
        for part in core.jaxprs_in_params(equation.params):
            yield from _equations(part)


_mapped_keys = eqx.filter_jit(_over_keys)
_mapped_keys_once: Function = eqx.filter_jit(
    _over_keys,
    compiler_options={"xla_backend_optimization_level": 0},  # type: ignore[call-overload]
)


def _joined(function: Function, chunk: Callable[[int], PyTree], count: int, length: int) -> PyTree:
    """All chunks, side by side on both cores, in order and on the host."""
    remember_compilations()
    starts = range(0, count, length)
    # The first chunk compiles; run alone, it compiles once.
    pieces = [_to_host(chunk(0))]
    if len(starts) > 1:
        precise = bool(jax.config.read("jax_enable_x64"))

        def in_thread(start: int) -> PyTree:
            with jax.enable_x64(precise):  # the setting is local to a thread
                return _to_host(chunk(start))

        with ThreadPoolExecutor(1 if function in _alone else THREADS) as pool:
            pieces.extend(pool.map(in_thread, starts[1:]))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *pieces)


def _to_host(tree: PyTree) -> PyTree:
    return jax.tree.map(np.asarray, tree)


def _on_host(leaf: ArrayLike) -> PyTree:
    """NumPy arrays as they are, JAX arrays copied to the host; typed keys stay where they live."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return np.asarray(leaf)
