"""Mapping in chunks: equal to vmap whatever the count, precision kept, keys independent of it."""

import functools
import gc
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from folt import batching
from folt.batching import (
    LARGE_CHUNK,
    SMALL_CHUNK,
    TERMS_PER_CHUNK,
    calls_lapack,
    chunk_length,
    map_keys,
    map_points,
)
from folt.proposals import Gaussian, StudentT

AWKWARD = (1, 63, 64, 65, 1023, 1025)
TRACES = {"count": 0}


def weighted_square(weights, x):
    TRACES["count"] += 1
    return jnp.sum(weights * x**2)


def both(scale, pair):
    x, y = pair
    return {"sum": scale * (x.sum() + y), "point": x[::-1]}


def draw(scale, key):
    return scale * jax.random.uniform(key, (3,))


@pytest.mark.parametrize("count", AWKWARD)
@pytest.mark.parametrize("terms", [1, 24, 100_000])
def test_equals_vmap(count, terms):
    weights = np.array([1.0, -2.0, 0.5])
    points = np.random.default_rng(count).normal(size=(count, 3))
    mapped = map_points(weighted_square, weights, points, terms if count < 100 else min(terms, 24))
    expected = jax.vmap(lambda x: weighted_square(weights, x))(points)
    assert isinstance(mapped, np.ndarray)
    assert mapped.shape == (count,)
    np.testing.assert_allclose(mapped, expected, rtol=1e-14)


def test_the_number_of_points_never_compiles_again():
    weights = np.ones(5)
    for count in (1, 70):
        map_points(weighted_square, weights, np.zeros((count, 5)))
    before = TRACES["count"]
    for count in AWKWARD:
        map_points(weighted_square, 2.0 * weights, np.ones((count, 5)))
    assert TRACES["count"] == before


@pytest.mark.parametrize("count", [1, 65, 2500])
def test_trees_in_and_out(count):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(count, 4)), generator.normal(size=count)
    mapped = map_points(both, 2.0, (x, y))
    assert set(mapped) == {"sum", "point"}
    np.testing.assert_allclose(mapped["sum"], 2.0 * (x.sum(axis=1) + y), rtol=1e-12)
    np.testing.assert_array_equal(mapped["point"], x[:, ::-1])


def test_typed_keys_are_points_too():
    keys = jax.random.split(jax.random.key(0), 70)
    mapped = map_points(draw, 1.0, keys)
    expected = np.stack([draw(1.0, key) for key in keys[:3]])
    np.testing.assert_array_equal(mapped[:3], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [5, 3000])
def test_precision_is_kept(dtype, count):
    """Threads, too: the local precision setting does not reach them by itself."""
    mapped = map_points(weighted_square, np.ones(2, dtype), np.full((count, 2), 0.1, dtype))
    assert mapped.dtype == dtype
    np.testing.assert_array_equal(mapped, mapped[0])


def test_keys_are_reproducible_and_do_not_depend_on_the_count():
    key = jax.random.key(7)
    long = map_keys(draw, 1.0, key, 2100)
    assert long.dtype == np.float64
    np.testing.assert_array_equal(long, map_keys(draw, 1.0, key, 2100))
    for count in AWKWARD:
        np.testing.assert_array_equal(map_keys(draw, 1.0, key, count), long[:count])
    np.testing.assert_array_equal(map_keys(draw, 1.0, key, 100, terms=1000), long[:100])
    assert np.unique(long[:, 0]).size == 2100
    assert not np.array_equal(map_keys(draw, 1.0, jax.random.key(8), 64), long[:64])


@pytest.mark.parametrize("terms", [1, 2, 24, 120, 5040, 1_000_000])
@pytest.mark.parametrize("count", AWKWARD)
def test_chunks_are_of_few_sizes_and_bounded(count, terms):
    length = chunk_length(count, terms)
    assert 1 <= length <= LARGE_CHUNK
    assert length == 1 or length * terms <= TERMS_PER_CHUNK
    assert length == SMALL_CHUNK or length == chunk_length(10**6, terms)


def _solved(module, point):
    return jax.scipy.linalg.solve_triangular(module, point, lower=True).sum()


def _squared(module, point):
    return jnp.sum((module @ point) ** 2)


def _in_a_loop(module, point):
    return jax.lax.fori_loop(0, 2, lambda _, x: jnp.linalg.cholesky(module) @ x, point).sum()


@pytest.mark.parametrize(("function", "alone"), [(_solved, 1), (_squared, 2), (_in_a_loop, 1)])
def test_programs_that_call_lapack_run_one_at_a_time(monkeypatch, function, alone):
    """Two of them at once can wait for each other in the one pool of threads of XLA, for ever."""
    pools = []

    class Counted(ThreadPoolExecutor):
        def __init__(self, workers):
            pools.append(workers)
            super().__init__(workers)

    monkeypatch.setattr(batching, "ThreadPoolExecutor", Counted)
    monkeypatch.setattr(batching, "THREADS", 2)
    points = np.random.default_rng(0).standard_normal((300, 3))
    found = map_points(function, jnp.eye(3) * 2.0, points, length=64)
    alike = jax.jit(function)
    np.testing.assert_allclose(found, [alike(jnp.eye(3) * 2.0, p) for p in points], rtol=1e-12)
    assert pools == [alone]
    map_points(function, jnp.eye(3) * 3.0, points, length=64)  # compiled already: still known
    assert pools == [alone, alone]


class Covariance(Gaussian):
    """A density whose scale is factored on the way."""

    def log_prob(self, x):
        return -0.5 * jnp.sum(jnp.linalg.solve(self.factor, x) ** 2)


def test_densities_that_call_lapack_are_known():
    plain = Gaussian.from_moments(np.zeros(2), np.eye(2))
    assert not calls_lapack(plain)
    assert calls_lapack(Covariance(plain.mean, plain.factor))


def _mixture(y, x):
    """A log likelihood of two terms per observation."""
    return jnp.logaddexp(-((y - x[0]) ** 2), -((y - x[1]) ** 2)).sum()


@pytest.mark.parametrize("observations", [7, 3_000])
def test_pieces_give_the_same_bits_whatever_is_asked_for(monkeypatch, observations):
    """A sum over observations is added up in another order where a piece is one point."""
    y = np.random.default_rng(1).normal(size=observations)
    points = np.random.default_rng(2).normal(size=(300, 2))
    found = []
    for size in (1 << 10, 1 << 18, 2 << 20):
        monkeypatch.setattr(batching, "PIECE_BYTES", size)

        def function(y, x):
            return jax.value_and_grad(_mixture, argnums=1)(y, x)

        whole = map_points(function, y, points, length=1024)
        some = map_points(function, y, points[:5], length=1024)
        np.testing.assert_array_equal(some[0], whole[0][:5])
        found.append(np.column_stack(whole))
    np.testing.assert_array_equal(found[1], found[2])
    np.testing.assert_allclose(found[0], found[2], rtol=1e-12)


def test_pieces_follow_the_largest_array_even_inside_a_loop():
    def looped(y, x):
        return jax.lax.fori_loop(0, 2, lambda _, total: total + _mixture(y, x), 0.0)

    for observations, piece in ((8, batching.PIECE), (1 << 14, 32), (1 << 18, 2), (1 << 24, 1)):
        y = np.broadcast_to(np.float32(0.0), observations)
        closed = jax.make_jaxpr(functools.partial(looped, y))(np.zeros(2, np.float32))
        assert batching.piece_length(closed.jaxpr) == piece


def test_only_the_pieces_that_are_asked_for_are_computed(monkeypatch):
    monkeypatch.setattr(batching, "PIECE", 16)
    seen = []

    def counted(_, x):
        jax.debug.callback(lambda one: seen.append(float(one)), x[0])
        return x[0]

    map_points(counted, 0.0, np.arange(20.0)[:, None], length=1024)
    jax.effects_barrier()
    assert sorted(set(seen)) == list(range(20))
    assert len(seen) == 32


def test_a_module_that_was_split_before_gives_the_same_and_is_forgotten_with_it():
    points = np.random.default_rng(0).standard_normal((9, 2))
    modules = [Gaussian(np.full(2, mean), np.eye(2)) for mean in (0.0, 3.0)]
    for _ in range(2):
        for module in modules:
            found = map_points(_density_at, module, points)
            np.testing.assert_allclose(found, jax.vmap(module.log_prob)(points), rtol=1e-12)
    known = [name for name in batching._splits if name[0] is _density_at]
    assert len(known) == len(modules)
    del module, modules
    gc.collect()
    assert not any(name in batching._splits for name in known)


def test_modules_that_differ_in_more_than_arrays_have_programs_of_their_own():
    points = np.ones((3, 2))
    for degrees in (3.0, 8.0, 3.0):
        module = StudentT(np.zeros(2), np.eye(2), degrees)
        found = map_points(_density_at, module, points)
        np.testing.assert_allclose(found, jax.vmap(module.log_prob)(points), rtol=1e-12)


def _density_at(module, x):
    return module.log_prob(x)
