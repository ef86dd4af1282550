"""Sums over all labellings by subsets equal sums over all images, and so does all drawn from them.

One statistical check runs at level LEVEL, which is how often it fails a correct library.
"""

from __future__ import annotations

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.scipy.special import logsumexp
from scipy import stats
from scipy.optimize import linear_sum_assignment

from cases import random_chain
from folt.groups import Blocks, Fixed, Group, Joint, Permutation, SignedPermutation, ZeroSum
from folt.proposals import ClassChain, OrbitSafety, StudentT, orbit_chain
from folt.proposals.fold import Folded
from folt.proposals.orbit_chain import Logs, compiled_potentials, log_orbit_sums
from folt.types import OrbitSummed

LEVEL = 1e-5
POINTS = 12

CHAINS = {
    "one block": lambda: random_chain(Permutation(1, 2), 2),
    "one class": lambda: random_chain(Permutation(4, 2), 1),
    "six blocks": lambda: random_chain(Permutation(6, 1), 3),
    "signed": lambda: random_chain(SignedPermutation(3, 2), 3),
    "with fixed coordinates": lambda: random_chain(Joint(4, (Fixed(2), Blocks(1), Blocks(2))), 3),
}


@eqx.filter_jit
def both_ways(chain: OrbitSummed, points: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log orbit sums by subsets, and over all images."""
    fast = jax.vmap(Folded(chain, chain.summed_over).log_prob)(points)
    return fast, jax.vmap(lambda z: logsumexp(image_terms(chain, z)))(points)


def image_terms(chain: OrbitSummed, z: jax.Array) -> jax.Array:
    return jax.vmap(chain.log_prob)(chain.summed_over.orbit(z))


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), log_scale=st.floats(-3.0, 12.0))
def test_orbit_sum_equals_the_sum_over_all_images(name: str, seed: int, log_scale: float) -> None:
    """Up to points 160 000 standard deviations away, where every density underflows."""
    chain = CHAINS[name]()
    points = np.exp(log_scale) * np.random.default_rng(seed).standard_normal((POINTS, chain.dim))
    fast, slow = both_ways(chain, jnp.asarray(points))
    np.testing.assert_allclose(fast, slow, rtol=1e-12, atol=1e-12)


def test_plain_density_sums_over_all_sequences_of_classes() -> None:
    chain = CHAINS["with fixed coordinates"]()
    x = np.random.default_rng(0).standard_normal(chain.dim)
    blocks, fixed = (np.asarray(part) for part in chain.form.split(jnp.asarray(x)))
    weights = jax.nn.softmax(chain.log_weights)
    steps = (1 - 1e-6) * jax.nn.softmax(chain.log_transitions, axis=-1) + 1e-6 / chain.classes

    def normal(value: np.ndarray, mean: jax.Array, factor: jax.Array) -> float:
        precision = np.tril(factor).T @ np.tril(factor)
        return stats.multivariate_normal(mean, np.linalg.inv(precision)).pdf(value)

    total = 0.0
    for classes in itertools.product(range(chain.classes), repeat=chain.form.labels):
        first = classes[0]
        term = weights[first] * normal(fixed, chain.fixed_means[first], chain.fixed_factors[first])
        for label, own in enumerate(classes):
            if label > 0:
                term *= steps[label - 1, classes[label - 1], own]
            term *= normal(blocks[label], chain.means[label, own], chain.factors[label, own])
        total += term
    assert float(chain.log_prob(jnp.asarray(x))) == pytest.approx(np.log(total), abs=1e-12)


def test_mutants_of_the_sum_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = CHAINS["six blocks"]()
    points = jnp.asarray(np.random.default_rng(1).standard_normal((POINTS, chain.dim)))
    logs = eqx.filter_jit(ClassChain.logs)(chain, points)[0]
    right = both_ways(chain, points)[1]
    summed = jax.jit(log_orbit_sums)
    np.testing.assert_allclose(summed(logs), right, atol=1e-12)
    mutants = {
        "transitions transposed": logs._replace(transitions=logs.transitions.swapaxes(1, 2)),
        "blocks for labels": logs._replace(densities=logs.densities.swapaxes(0, 1)),
        "transitions of another label": logs._replace(transitions=logs.transitions[::-1]),
    }
    for name, mutant in mutants.items():
        assert np.max(np.abs(summed(mutant) - right)) > 1e-6, name
    whole = orbit_chain.layers

    def without_a_term(m: int) -> tuple:
        *lower, last = whole(m)
        return (*lower, last._replace(members=last.members[:, 1:], sources=last.sources[:, 1:]))

    monkeypatch.setattr(orbit_chain, "layers", without_a_term)
    assert np.max(np.abs(jax.jit(lambda logs: log_orbit_sums(logs))(logs) - right)) > 1e-6


@pytest.mark.parametrize("name", ["signed", "with fixed coordinates"])
def test_gradient_is_that_of_the_sum_over_all_images(name: str) -> None:
    chain = CHAINS[name]()
    points = jnp.asarray(2.0 * np.random.default_rng(2).standard_normal((POINTS, chain.dim)))
    weights = jnp.linspace(-1.0, 1.0, POINTS)

    def slow(chain: ClassChain) -> jax.Array:
        sums = jax.lax.map(lambda z: logsumexp(image_terms(chain, z)), points)
        return jnp.sum(weights * sums)

    def fast(chain: ClassChain) -> jax.Array:
        return jnp.sum(weights * chain.log_orbit_sums(points))

    expected, found = (eqx.filter_jit(eqx.filter_grad(f))(chain) for f in (slow, fast))
    for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-10)


@eqx.filter_jit
def probabilities(chain: ClassChain, points: jax.Array) -> Logs:
    return jax.grad(lambda logs: jnp.sum(log_orbit_sums(logs)))(chain.logs(points)[0])


def test_derivatives_are_probabilities_of_labels_and_classes() -> None:
    """Every block carries one label and every label one block, also far away."""
    chain = CHAINS["six blocks"]()
    points = jnp.asarray([[1e5], [1.0]] * np.random.default_rng(5).standard_normal((2, chain.dim)))
    shares = probabilities(chain, points)
    assert float(shares.densities.min()) >= 0.0
    for axis in (0, 1):
        sums = jnp.sum(shares.densities, axis=(axis, 3))
        np.testing.assert_allclose(sums, 1.0, atol=1e-12)
    np.testing.assert_allclose(jnp.sum(shares.transitions, axis=(1, 2)), len(points), atol=1e-11)


@eqx.filter_jit
def drawn(chain: ClassChain, z: jax.Array, draws: int) -> tuple[jax.Array, ...]:
    keys = jax.random.split(jax.random.key(6), draws)
    images = jax.lax.map(lambda key: Folded(chain, chain.group).unfold(key, z), keys)
    return images, chain.group.orbit(z), jax.nn.softmax(image_terms(chain, z))


def test_drawn_images_have_their_probabilities() -> None:
    group = SignedPermutation(3, 1)
    chain = random_chain(group, 3, spread=0.5)
    z = jnp.asarray(0.7 * np.random.default_rng(3).standard_normal(group.dim))
    draws = 4000
    images, orbit, shares = map(np.asarray, drawn(chain, z, draws))
    apart = np.linalg.norm(images[:, None] - orbit, axis=-1)
    assert apart.min(axis=1).max() < 1e-12
    counts = np.bincount(apart.argmin(axis=1), minlength=group.order)
    expected = draws * shares
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    used = expected > 0
    assert stats.chisquare(counts[used], expected[used]).pvalue > LEVEL


@eqx.filter_jit
def likeliest_both_ways(chain: ClassChain, z: jax.Array) -> tuple[jax.Array, ...]:
    orbit = chain.group.orbit(z)
    best = orbit[jnp.argmax(jax.vmap(lambda x: likeliest_classes(chain, x))(orbit))]
    other = chain.group.random_image(jax.random.key(2), z)
    return (*jax.lax.map(chain.likeliest_image, jnp.stack([z, other])), best)


def test_likeliest_image_is_that_of_the_likeliest_labelling_and_classes() -> None:
    chain = CHAINS["signed"]()
    z = jnp.asarray(np.random.default_rng(8).standard_normal(chain.dim))
    image, of_another_image, best = likeliest_both_ways(chain, z)
    np.testing.assert_allclose(image, best, atol=1e-12)
    np.testing.assert_allclose(of_another_image, best, atol=1e-12)


def likeliest_classes(chain: ClassChain, x: jax.Array) -> jax.Array:
    """Log density of a labelled point with its likeliest classes, by Viterbi's recursion."""
    logs = chain.logs(x[None])
    rows = jnp.diagonal(logs[1][0, :, :, 0], axis1=0, axis2=1).T
    best = rows[0]
    for matrix, row in zip(logs[0].transitions, rows[1:], strict=True):
        best = jnp.max(best[:, None] + matrix, axis=0) + row
    return jnp.max(best)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), log_scale=st.floats(-2.0, 25.0))
def test_potentials_bound_the_table_and_nearly_touch_the_best_assignment(
    seed: int, log_scale: float
) -> None:
    m = 7
    rng = np.random.default_rng(seed)
    # Products of far rows and columns, where row and column maxima are useless.
    table = -np.exp(log_scale) * np.abs(np.subtract.outer(rng.random(m), rng.random(m)) ** 2)
    v, u = (np.asarray(part) for part in jitted_potentials(table))
    slack = v[:, None] + u - table
    rounding = 1e-11 * np.exp(log_scale)
    assert slack.min() >= -rounding
    assigned = linear_sum_assignment(-table)
    assert slack[assigned].sum() <= 10.0 * m + m * rounding


jitted_potentials = jax.jit(compiled_potentials)


def test_safety_of_an_orbit_sum_is_the_orbit_sum_of_the_safety() -> None:
    group = Permutation(4, 2)
    chain = random_chain(group, 2)
    mean, spread = np.tile([1.0, 2.0], 4), np.diag(np.tile([3.0, 5.0], 4))
    guard = StudentT.from_moments(mean, spread + 1.0, 5.0)
    safe = OrbitSafety(chain, guard, 0.3)
    points = jnp.asarray(3.0 * np.random.default_rng(4).standard_normal((5, 8)))
    found, expected = both_ways(safe, points)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.wrong_shapes
@pytest.mark.parametrize(
    ("group", "message"),
    [
        (Joint(3, (Blocks(1), ZeroSum())), "does not permute whole blocks"),
        (Permutation(15, 1), "at most 14 labels, got 15"),
    ],
)
def test_groups_without_such_a_sum_are_refused(group: Group, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassChain(group, *(jnp.zeros(0) for _ in range(6)))


def test_no_class_at_all_is_refused() -> None:
    empty = [jnp.zeros(s) for s in ((0,), (1, 0, 0), (2, 0, 1), (2, 0, 1, 1), (0, 0), (0, 0, 0))]
    with pytest.raises(ValueError, match="at least one class"):
        ClassChain(Permutation(2, 1), *empty)


def test_another_group_than_the_chain_sums_over_is_refused() -> None:
    chain = random_chain(Permutation(2, 1), 1)
    with pytest.raises(ValueError, match="sums itself over"):
        Folded(chain, SignedPermutation(2, 1))
