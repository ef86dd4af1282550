"""Sums over all labellings on the host equal sums over all images, and so does all drawn from them.

One statistical check runs at level LEVEL, which is how often it fails a correct library.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linear_sum_assignment

from cases import random_chain
from folt.groups import Blocks, Fixed, Joint, Permutation, SignedPermutation
from folt.proposals import OrbitSafety, StudentT, set_loops
from folt.proposals.auction import potentials
from folt.proposals.host_chain import HostChain
from folt.proposals.sums import orbit_sum
from folt.training.chain_em import pulled_moments
from folt.training.chain_regression import nudged, slopes_of

LEVEL = 1e-5

CHAINS = {
    "one block": lambda: random_chain(Permutation(1, 2), 2),
    "one class": lambda: random_chain(Permutation(4, 2), 1),
    "five blocks": lambda: random_chain(Permutation(5, 1), 3),
    "more classes than a row": lambda: random_chain(Permutation(3, 1), 20),
    "signed": lambda: random_chain(SignedPermutation(3, 2), 3),
    "with fixed coordinates": lambda: random_chain(Joint(4, (Fixed(2), Blocks(1), Blocks(2))), 3),
}


def images(host: HostChain, point: np.ndarray) -> np.ndarray:
    """All images of a point."""
    blocks, fixed = (part[0] for part in host.split(point[None]))
    m = host.labels
    signs = list(itertools.product((1, -1), repeat=m)) if host.form.signed else [(1,) * m]
    moved = [
        blocks[list(order)] * np.array(flips)[:, None]
        for order in itertools.permutations(range(m))
        for flips in signs
    ]
    fixed = np.repeat(fixed[None], len(moved), axis=0)
    return host._joined(np.stack(moved), fixed)


def brute_force(host: HostChain, points: np.ndarray) -> np.ndarray:
    """Log orbit sums term by term."""
    return np.array([np.logaddexp.reduce(host.log_prob(images(host, point))) for point in points])


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), log_scale=st.floats(-3.0, 12.0))
def test_orbit_sum_equals_the_sum_over_all_images(name: str, seed: int, log_scale: float) -> None:
    """Up to points 160 000 standard deviations away, where every density underflows."""
    host = HostChain(CHAINS[name]())
    points = np.exp(log_scale) * np.random.default_rng(seed).standard_normal((7, host.form.dim))
    np.testing.assert_allclose(
        host.log_sums(points), brute_force(host, points), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("name", ["signed", "with fixed coordinates"])
def test_plain_density_is_that_of_the_chain(name: str) -> None:
    chain = CHAINS[name]()
    points = 2.0 * np.random.default_rng(1).standard_normal((5, chain.dim))
    expected = jax.jit(jax.vmap(chain.log_prob))(jnp.asarray(points))
    np.testing.assert_allclose(HostChain(chain).log_prob(points), expected, atol=1e-12)


def test_mutants_of_the_sum_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    host = HostChain(CHAINS["five blocks"]())
    points = np.random.default_rng(1).standard_normal((6, host.form.dim))
    right = brute_force(host, points)
    np.testing.assert_allclose(host.log_sums(points), right, atol=1e-12)

    def wrong(**changes: Any) -> float:
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                patch.setattr(host, name, value)
            return float(np.abs(host.log_sums(points) - right).max())

    plain = host._log_densities
    swapped = lambda points: (plain(points)[0], plain(points)[1].swapaxes(1, 2).copy())  # noqa: E731
    repeated = host.sets.sources.copy()
    repeated[-1] = repeated[-2]
    assert wrong(steps=host.turned) > 1e-6, "transitions transposed"
    assert wrong(steps=np.ascontiguousarray(host.steps[::-1])) > 1e-6, "of another label"
    assert wrong(_log_densities=swapped) > 1e-6, "blocks for labels"
    assert wrong(sets=host.sets._replace(sources=repeated)) > 1e-6, "a term dropped for another"


@pytest.mark.parametrize("name", ["one class", "signed", "with fixed coordinates"])
def test_slopes_are_those_of_finite_differences(name: str) -> None:
    """Of Σ weight·log q_F along a random direction in which regression moves a chain."""
    chain = jax.tree.map(np.asarray, CHAINS[name]())
    rng = np.random.default_rng(2)
    points = 2.0 * rng.standard_normal((9, chain.dim))
    aims = np.stack([np.linspace(-1.0, 1.0, 9), np.zeros(9), np.zeros(9)], axis=1)
    moments, _ = pulled_moments(chain, points, aims, np.zeros(0))
    slopes = slopes_of(chain, moments)
    way = [rng.standard_normal(slope.shape) for slope in slopes]
    way[3], way[5] = np.tril(way[3]), np.tril(way[5])

    def objective(length: float) -> float:
        moved = nudged(chain, [length * part for part in way])
        return float(aims[:, 0] @ HostChain(moved).log_sums(points))

    expected = (objective(1e-5) - objective(-1e-5)) / 2e-5
    found = sum(float(np.sum(slope * part)) for slope, part in zip(slopes, way, strict=True))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_regression_pulls_by_the_clipped_ratio_and_the_share_of_the_chain() -> None:
    chain = CHAINS["five blocks"]()
    rng = np.random.default_rng(3)
    points = rng.standard_normal((8, chain.dim))
    log_target, log_guard = rng.normal(-9.0, 3.0, 8), rng.normal(-9.0, 3.0, 8)
    aims = np.stack([np.ones(8), log_target, log_guard], axis=1)
    log_main, centre, width = np.log(0.7), 0.5, 1.5
    found, log_sums = pulled_moments(chain, points, aims, np.array([log_main, centre, width]))
    whole = np.logaddexp(log_main + log_sums, log_guard)
    weights = np.clip(log_target - whole - centre, -width, width)
    weights *= np.exp(log_main + log_sums - whole)
    plain = np.stack([weights, np.zeros(8), np.zeros(8)], axis=1)
    expected, _ = pulled_moments(chain, points, plain, np.zeros(0))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_drawn_images_have_their_probabilities() -> None:
    host = HostChain(random_chain(SignedPermutation(3, 1), 3, spread=0.5))
    rng = np.random.default_rng(4)
    z, draws = 0.7 * rng.standard_normal(3), 4000
    drawn = host.labellings(np.repeat(z[None], draws, axis=0), rng.random((draws, 9)))
    orbit = images(host, z)
    apart = np.linalg.norm(drawn[:, None] - orbit, axis=-1)
    assert apart.min(axis=1).max() < 1e-12
    expected = draws * np.exp(host.log_prob(orbit) - host.log_sums(z[None]))
    counts = np.bincount(apart.argmin(axis=1), minlength=len(orbit))
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    used = expected > 0
    assert stats.chisquare(counts[used], expected[used]).pvalue > LEVEL


@pytest.mark.parametrize("name", ["signed", "five blocks"])
def test_likeliest_image_is_the_same_for_all_images_and_likelier_than_any_draw(name: str) -> None:
    chain = CHAINS[name]()
    host = HostChain(chain)
    z = np.random.default_rng(8).standard_normal(host.form.dim)
    orbit = images(host, z)
    best = host.labellings(orbit)
    np.testing.assert_allclose(best, np.repeat(best[:1], len(best), axis=0), atol=1e-12)
    compiled = jax.jit(lambda x: chain.likeliest_image(x))(jnp.asarray(z))
    np.testing.assert_allclose(best[0], compiled, atol=1e-12)


def test_draws_of_the_chain_have_its_density() -> None:
    """E_q[p/q] = 1 for a chain p that is not q; its error is a few thousandths."""
    group = Joint(3, (Fixed(1), Blocks(1)))
    host = HostChain(random_chain(group, 3))
    moved = nudged(
        jax.tree.map(np.asarray, host.chain),
        [0.1 * np.ones(part.shape) for part in list(host_arrays(host))],
    )
    points = host.sample(np.random.default_rng(5), 20_000)
    ratios = np.exp(HostChain(moved).log_prob(points) - host.log_prob(points))
    error = ratios.std() / np.sqrt(len(ratios))
    assert abs(ratios.mean() - 1.0) < -stats.norm.ppf(LEVEL / 2) * error < 0.1


def host_arrays(host: HostChain) -> tuple[np.ndarray, ...]:
    chain = host.chain
    return (
        chain.log_weights,
        chain.log_transitions,
        chain.means,
        np.zeros(chain.factors.shape),
        chain.fixed_means,
        np.zeros(chain.fixed_factors.shape),
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), log_scale=st.floats(-2.0, 25.0))
def test_potentials_bound_the_table_and_nearly_touch_the_best_assignment(
    seed: int, log_scale: float
) -> None:
    m = 7
    rng = np.random.default_rng(seed)
    # Products of far rows and columns, where row and column maxima are useless.
    table = -np.exp(log_scale) * np.abs(np.subtract.outer(rng.random(m), rng.random(m)) ** 2)
    v, u = (part[0] for part in potentials(table[None]))
    slack = v[:, None] + u - table
    rounding = 1e-11 * np.exp(log_scale)
    assert slack.min() >= -rounding
    assigned = linear_sum_assignment(-table)
    assert slack[assigned].sum() <= 10.0 * m + m * rounding


def test_safety_of_an_orbit_sum_is_the_orbit_sum_of_the_safety() -> None:
    group = Permutation(4, 2)
    mean, spread = np.tile([1.0, 2.0], 4), np.diag(np.tile([3.0, 5.0], 4))
    guard = StudentT.from_moments(mean, spread + 1.0, 5.0)
    safe = OrbitSafety(random_chain(group, 2), guard, 0.3)
    summed = orbit_sum(safe, group)
    points = 3.0 * np.random.default_rng(4).standard_normal((5, 8))
    expected = jax.jit(jax.vmap(safe.log_orbit_sum))(jnp.asarray(points))
    np.testing.assert_allclose(summed.log_sum(points), expected, atol=1e-12)
    shares, usual = summed.label_shares(points)
    assert np.all((shares > 1 / 24) & (shares <= 1.0))
    orbits = np.asarray(jax.jit(jax.vmap(group.orbit))(jnp.asarray(points)))
    logs = (
        np.asarray(jax.jit(jax.vmap(jax.vmap(safe.log_prob)))(orbits))
        - np.asarray(expected)[:, None]
    )
    assert np.isclose(np.exp(logs), usual[:, None]).all(axis=0).sum() == 1
    assert np.all((usual <= shares) & (shares <= np.exp(logs).max(axis=1) + 1e-12))
    folded = summed.draw(jax.random.key(0), 500)
    assert np.all(np.diff(folded.reshape(-1, 4, 2)[..., 0], axis=1) >= 0)


def test_a_point_that_is_not_a_number_has_a_sum_that_is_none() -> None:
    host = HostChain(CHAINS["five blocks"]())
    points = np.zeros((3, 5))
    points[1, 2] = np.nan
    assert np.isnan(host.log_sums(points)).tolist() == [False, True, False]


def test_rows_hold_several_points_of_few_classes() -> None:
    assert set_loops.row_length(1, 100) == set_loops.ROW
    assert set_loops.row_length(48, 100) == 1
    assert set_loops.row_length(1, 3) == 3
