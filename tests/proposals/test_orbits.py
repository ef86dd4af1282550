"""Orbit sums on the host equal the compiled ones, for every group; their draws have their law."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from cases import GROUPS, bent
from folt.groups import Blocks, Fixed, Joint, Permutation, Product, SignedPermutation, Trivial
from folt.proposals import Mixture, Safety, StudentT
from folt.proposals.action import Action, action_of
from folt.proposals.blocks import BlockSum, blocks_of_mixture, pays
from folt.proposals.components import Components, log_sum_of
from folt.proposals.sums import (
    CompiledSum,
    HostDistribution,
    ListedSum,
    components_of,
    orbit_sum,
    parts_of,
)

FAST = ("trivial", "reflections", "permutation of blocks", "product", "joint with weights first")


def safe_mixture(dim, seed=0, scale=1.0, components=3):
    generator = np.random.default_rng(seed)
    factors = np.tril(generator.normal(size=(components, dim, dim))) + 3.0 * np.eye(dim)
    means = generator.normal(size=(components, dim))
    mixture = Mixture(
        jnp.asarray(generator.normal(size=components)),
        jnp.asarray(scale * means),
        jnp.asarray(factors / scale),
    )
    return Safety(mixture, StudentT(jnp.zeros(dim), jnp.eye(dim) / (2.0 * scale), 5.0), 0.1)


@pytest.mark.parametrize("name", FAST)
def test_host_sums_equal_compiled_ones(name):
    group = GROUPS[name]()
    proposal = safe_mixture(group.dim)
    host, compiled = orbit_sum(proposal, group), CompiledSum(proposal, group)
    assert isinstance(host, ListedSum)
    points = np.random.default_rng(1).normal(size=(50, group.dim))
    np.testing.assert_allclose(host.log_sum(points), compiled.log_sum(points), rtol=1e-11)
    np.testing.assert_allclose(
        host.responsibilities(points), compiled.responsibilities(points), atol=1e-12
    )
    dropped = ListedSum(host.parts, host.action)
    dropped.__dict__["folded"] = tuple(part.over(host.action.matrices[1:]) for part in host.parts)
    if group.order > 1:  # mutant: an orbit without the identity
        assert np.abs(dropped.log_sum(points) - compiled.log_sum(points)).max() > 0.01


@pytest.mark.parametrize("name", FAST)
def test_margins_are_summed_over_the_orbit(name):
    group = GROUPS[name]()
    mixture = safe_mixture(group.dim)
    proposal = Safety(bent(mixture.main), mixture.guard, 0.1)
    host, compiled = orbit_sum(proposal, group), CompiledSum(proposal, group)
    assert isinstance(host, ListedSum)
    points = np.random.default_rng(1).normal(size=(50, group.dim))
    np.testing.assert_allclose(host.log_sum(points), compiled.log_sum(points), rtol=1e-11)
    shares = host.responsibilities(points)
    np.testing.assert_allclose(shares, compiled.responsibilities(points), atol=1e-12)


FORMS = {
    "permutation": Permutation(3, 3),
    "signed permutation": SignedPermutation(3, 2),
    "with fixed coordinates": Joint(3, (Fixed(2), Blocks(2), Blocks(1))),
    "signed with fixed coordinates": Product(SignedPermutation(2, 3), Trivial(2)),
}


@pytest.mark.parametrize("warped", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_block_sums_are_the_sums_over_all_images(name, warped):
    """To 1e-12, element by element, for Gaussian and for Student components."""
    group = FORMS[name]
    action = action_of(group)
    blocks = blocks_of_mixture(action)
    points = 2.0 * np.random.default_rng(2).normal(size=(40, group.dim))
    for mixture in (safe_mixture(group.dim).guard, safe_mixture(group.dim).main):
        proposal = bent(mixture) if warped else mixture
        (part,) = parts_of(proposal)
        found, expected = BlockSum(part, blocks), part.over(action.matrices)
        np.testing.assert_allclose(
            found.log_terms(points), expected.log_terms(points), rtol=1e-12, atol=1e-12
        )
    # Mutant: signs or orders that are mixed up.
    mixed = BlockSum(part, blocks._replace(given=blocks.given[::-1]))
    assert np.abs(mixed.log_terms(points) - expected.log_terms(points)).max() > 0.1


def test_block_sums_are_used_where_they_are_cheaper_and_lose_nothing():
    action = action_of(SignedPermutation(3, 20))
    blocks = blocks_of_mixture(action)
    (part,) = components_of(safe_mixture(60, components=1).main)
    assert pays(part, blocks)
    assert isinstance(ListedSum((part,), action).folded[0], BlockSum)
    assert not pays(
        components_of(safe_mixture(6).main)[0], blocks_of_mixture(action_of(Permutation(3, 2)))
    )
    # Two blocks that are all but equal: their products cancel.
    factor = part.factors.copy()
    factor[0, 0, :] = 0.0
    factor[0, 0, [0, 20]] = 1e6, -1e6
    factor[0, 20, 0] = 1.0
    assert not pays(Components(part.log_weights, part.means, factor), blocks)


@eqx.filter_jit
def of_the_group(group, points, matrix):
    """What the host is compared with, in one program for each group."""
    return {
        "fold": jax.vmap(group.fold)(points),
        "contains": jax.vmap(group.contains)(points),
        "images": jax.vmap(group.orbit)(points[:3]),
        "moved": jax.vmap(group.act, (0, None))(group.generators, points[0]),
        "average": group.average(matrix),
    }


@pytest.mark.parametrize("name", GROUPS)
def test_the_action_on_the_host_is_the_group(name):
    group = GROUPS[name]()
    action = action_of(group)
    points = np.random.default_rng(2).normal(size=(20, group.dim))
    matrix = np.cov(np.random.default_rng(3).normal(size=(group.dim, 40)))
    matrix = matrix.reshape(group.dim, group.dim)
    compiled = jax.device_get(of_the_group(group, points, matrix))
    np.testing.assert_allclose(action.fold(points), compiled["fold"], atol=1e-14)
    np.testing.assert_array_equal(action.contains(points), compiled["contains"])
    assert action.contains(action.fold(points)).all()
    np.testing.assert_allclose(action.images(points[:3]), compiled["images"], atol=1e-13)
    places = action.places(group.generators)
    assert len(places) == len(compiled["moved"])
    for place, expected in zip(places, compiled["moved"], strict=True):
        moved = action.move(np.array([place]), points[:1])[0]
        np.testing.assert_allclose(moved, expected, atol=1e-13)
    np.testing.assert_allclose(action.average(matrix), compiled["average"], atol=1e-13)


def test_a_group_too_large_to_list_is_summed_by_compiled_code():
    assert isinstance(orbit_sum(safe_mixture(8), Permutation(8, 1)), CompiledSum)
    with pytest.raises(ValueError, match="not listed"):
        _ = Action(Permutation(8, 1)).matrices


def test_narrow_components_far_apart_lose_nothing():
    """Widths of 1e-5 of the separation: the fast formula would cost five digits."""
    dim = 3
    proposal = safe_mixture(dim, components=12)
    narrow = Mixture(
        proposal.main.log_weights, 1e3 * proposal.main.means, 1e2 * proposal.main.factors
    )
    (components,) = components_of(narrow)
    points = components.sample(np.random.default_rng(0), 200)
    direct = Mixture(*(getattr(narrow, n) for n in FIELDS), direct=True)
    exact = jax.jit(jax.vmap(direct.log_prob))(points)
    assert components.direct
    np.testing.assert_allclose(log_sum_of((components,), points), exact, atol=1e-6)
    fast = Components(components.log_weights, components.means, components.factors)
    fast.__dict__["direct"] = False  # mutant
    assert np.abs(log_sum_of((fast,), points) - exact).max() > 1e-6


FIELDS = ("log_weights", "means", "factors")


def test_draws_have_the_density_of_the_sum():
    """Goodness of fit of every coordinate against compiled draws; a false alarm in 1e4 runs."""
    group, proposal = Permutation(2, 1), safe_mixture(2, seed=4)
    host, compiled = orbit_sum(proposal, group), CompiledSum(proposal, group)
    ours = host.draw(jax.random.key(0), 20_000)
    theirs = compiled.draw(jax.random.key(1), 20_000)
    assert action_of(group).contains(ours).all()
    for column in range(2):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 5e-5
    wrong = orbit_sum(proposal.main, group).draw(jax.random.key(0), 20_000)  # mutant: no guard
    assert min(stats.ks_2samp(wrong[:, c], theirs[:, c]).pvalue for c in range(2)) < 5e-5
    np.testing.assert_array_equal(ours, host.draw(jax.random.key(0), 20_000))


def test_a_distribution_on_the_host():
    """Log densities of a Student as compiled, and draws whose radius has its law."""
    student = StudentT(jnp.array([1.0, -2.0]), 2.0 * jnp.eye(2), 5.0)
    host = HostDistribution(student)
    points = host.sample(jax.random.key(3), 20_000)
    np.testing.assert_allclose(
        host.log_probs(points[:50]), jax.jit(jax.vmap(student.log_prob))(points[:50]), rtol=1e-12
    )
    squared = np.sum(4.0 * (points - np.array([1.0, -2.0])) ** 2, axis=1) / 2
    assert stats.kstest(squared, stats.f(2, 5).cdf).pvalue > 1e-4
    plain = Trivial(2)
    assert action_of(plain) is action_of(Trivial(2))
