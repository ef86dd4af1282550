"""Every group in the registry obeys the laws of a finite orthogonal action with a domain.

A law is a function that asserts on a scene: random points and elements with everything a group
says about them, compiled once per group. Broken groups below must be caught by a law.
"""

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cases import GROUPS
from folt.groups import (
    Blocks,
    Fixed,
    Group,
    Joint,
    Permutation,
    Product,
    Reflection,
    SignedArrangement,
    SignedPermutation,
    Square,
    Trivial,
    ZeroSum,
    ZeroSumRows,
    zero_sum_basis,
)

TOLERANCE = 1e-10
"""Far above rounding (1e-15 times a few dozen terms), far below any real defect."""

groups = pytest.mark.parametrize("name", GROUPS)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def rows(elements: object) -> np.ndarray:
    """A stack of elements as one integer matrix, for comparing elements exactly."""
    return np.concatenate([np.asarray(leaf) for leaf in jax.tree.leaves(elements)], axis=1)


def same(left: object, right: object) -> bool:
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


@eqx.filter_jit
def evaluate(group: Group, points: jax.Array, elements: tuple) -> dict:
    """Everything the laws speak of; equal operations are mapped, to keep compilation short."""
    x, y, w = points
    a, b, c = elements
    act, compose, inverse = jax.vmap(group.act), jax.vmap(group.compose), jax.vmap(group.inverse)
    folding = group.folding_element(x)
    undone_a, undone_folding = unstacked(inverse(stacked(a, folding)))
    ab, bc, a_after_inverse = unstacked(compose(stacked(a, b, a), stacked(b, c, undone_a)))
    left_first, right_first = unstacked(compose(stacked(ab, a), stacked(c, bc)))
    ax, ay, bx, by, combined, identity_x, ab_x, folded = act(
        stacked(a, a, b, b, a, group.identity, ab, folding),
        stacked(x, y, x, y, 2.0 * x - 3.0 * y, x, x, x),
    )
    a_bx, back, unfolded = act(stacked(a, undone_a, undone_folding), stacked(bx, ax, folded))
    orbit = group.orbit(x)
    pairs = (stacked(x, y, x, w, ax, x), stacked(y, x, w, y, by, ax))
    distances = dict(
        zip(
            ["xy", "yx", "xw", "wy", "images", "own_orbit"],
            jax.vmap(group.distance)(*pairs),
            strict=True,
        )
    )
    folds = jax.vmap(group.fold)(stacked(x, folded, ax))
    centre = jnp.mean(orbit, axis=0)
    separation, separation_of_centre = jax.vmap(group.separation)(stacked(x, centre))
    inside = jax.vmap(group.contains)(jnp.concatenate([folded[None], orbit]))
    return {
        "x": x,
        "y": y,
        "ax": ax,
        "ay": ay,
        "combined": combined,
        "identity_x": identity_x,
        "back": back,
        "a_after_inverse": a_after_inverse,
        "ab_x": ab_x,
        "a_bx": a_bx,
        "left_first": left_first,
        "right_first": right_first,
        "acted": folded,
        "folded": folds[0],
        "folded_twice": folds[1],
        "folded_image": folds[2],
        "unfolded": unfolded,
        "folded_inside": inside[0],
        "orbit": orbit,
        "orbit_inside": inside[1:],
        "distances": distances,
        "separation": separation,
        "separation_of_centre": separation_of_centre,
    }


def stacked(*trees: object) -> object:
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees)


def unstacked(tree: object) -> list:
    count = jax.tree.leaves(tree)[0].shape[0]
    return [jax.tree.map(lambda leaf, at=at: leaf[at], tree) for at in range(count)]


@functools.cache
def scene(group: Group, seed: int) -> SimpleNamespace:
    """Three normal points and three elements of the group, and what the group makes of them."""
    generator = np.random.default_rng(seed)
    points = jnp.asarray(generator.standard_normal((3, group.dim)))
    chosen = generator.integers(group.order, size=3)
    elements = tuple(jax.tree.map(lambda leaf, at=at: leaf[at], group.elements) for at in chosen)
    return SimpleNamespace(**jax.device_get(evaluate(group, points, elements)))


def acts_by_isometries(group: Group, s: SimpleNamespace) -> None:
    close(s.ax @ s.ax, s.x @ s.x)
    close(s.ax @ s.ay, s.x @ s.y)


def acts_linearly(group: Group, s: SimpleNamespace) -> None:
    close(s.combined, 2.0 * s.ax - 3.0 * s.ay)


def composition_is_an_action(group: Group, s: SimpleNamespace) -> None:
    close(s.ab_x, s.a_bx)
    assert same(s.left_first, s.right_first)


def inverse_undoes(group: Group, s: SimpleNamespace) -> None:
    np.testing.assert_array_equal(s.identity_x, s.x)
    close(s.back, s.x)
    assert same(s.a_after_inverse, group.identity)


def fold_is_idempotent(group: Group, s: SimpleNamespace) -> None:
    np.testing.assert_array_equal(s.folded_twice, s.acted)
    assert s.folded_inside


def fold_is_constant_on_orbits(group: Group, s: SimpleNamespace) -> None:
    close(s.folded_image, s.folded)


def folding_element_is_undone_by_its_inverse(group: Group, s: SimpleNamespace) -> None:
    close(s.acted, s.folded)
    close(s.unfolded, s.x)


def every_orbit_meets_the_domain_once(group: Group, s: SimpleNamespace) -> None:
    assert s.orbit_inside.sum() == 1
    close(s.orbit[s.orbit_inside][0], s.folded)


def orbits_are_as_long_as_the_group(group: Group, s: SimpleNamespace) -> None:
    assert s.orbit.shape == (group.order, group.dim)
    np.testing.assert_array_equal(s.orbit[0], s.x)
    assert len(np.unique(s.orbit.round(9), axis=0)) == group.order


def distance_is_a_pseudometric_on_orbits(group: Group, s: SimpleNamespace) -> None:
    d = s.distances
    close(d["xy"], d["yx"])
    close(d["images"], d["xy"])
    close(d["own_orbit"], 0.0)
    assert 0.0 < d["xy"] <= min(np.linalg.norm(s.x - s.y), d["xw"] + d["wy"]) + TOLERANCE


def separation_is_the_way_to_the_next_image(group: Group, s: SimpleNamespace) -> None:
    others = np.linalg.norm(s.orbit[1:] - s.x, axis=1)
    close(s.separation, others.min(initial=np.inf))
    if group.order > 1:
        close(s.separation_of_centre, 0.0)


LAWS: list[Callable[[Group, SimpleNamespace], None]] = [
    acts_by_isometries,
    acts_linearly,
    composition_is_an_action,
    inverse_undoes,
    fold_is_idempotent,
    fold_is_constant_on_orbits,
    folding_element_is_undone_by_its_inverse,
    every_orbit_meets_the_domain_once,
    orbits_are_as_long_as_the_group,
    distance_is_a_pseudometric_on_orbits,
    separation_is_the_way_to_the_next_image,
]


@groups
@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_laws(name: str, seed: int) -> None:
    group = GROUPS[name]()
    for law in LAWS:
        law(group, scene(group, seed))


class Shortened(Permutation):
    """Mutant: not orthogonal."""

    def act(self, element, x):
        return super().act(element, x) * jnp.where(element[0] == 0, 1.0, 0.5)


class Shifted(Permutation):
    """Mutant: not linear."""

    def act(self, element, x):
        return super().act(element, x) + (jnp.asarray(element)[0] != 0)


class WrongWay(Permutation):
    """Mutant: composes in the opposite order."""

    def compose(self, first, second):
        return super().compose(second, first)


class NotUndone(Permutation):
    """Mutant: takes an element for its own inverse."""

    def inverse(self, element):
        return jnp.asarray(element)


class FoldsWithTheInverse(Permutation):
    """Mutant: ranks where places are meant; right for two blocks, wrong for three."""

    def folding_element(self, x):
        return self.inverse(super().folding_element(x))


class SortsByLength(SignedPermutation):
    """Mutant: forgets that flipped signs have to move with their columns."""

    def folding_element(self, x):
        signs = jnp.where(self._levels(x) < 0, -1, 1).astype(jnp.int32)
        return SignedArrangement(super().folding_element(x).arrangement, signs)


class DropsAnElement(Permutation):
    """Mutant: lists one element twice and another not at all."""

    @property
    def elements(self):
        listed = np.array(super().elements)
        listed[-1] = listed[-2]
        return listed


class MeasuresOneWay(Permutation):
    """Mutant: compares with the representative alone."""

    def distance(self, x, y):
        return jnp.linalg.norm(x - self.fold(y))


class CountsItself(Permutation):
    """Mutant: the point itself passes for its nearest image."""

    def separation(self, x):
        return jnp.min(jnp.linalg.norm(x - self.orbit(x), axis=-1))


MUTANTS = [
    (Shortened(3, 2), acts_by_isometries),
    (Shifted(3, 2), acts_linearly),
    (WrongWay(3, 2), composition_is_an_action),
    (NotUndone(3, 2), inverse_undoes),
    (NotUndone(3, 2), folding_element_is_undone_by_its_inverse),
    (FoldsWithTheInverse(3, 2), fold_is_idempotent),
    (FoldsWithTheInverse(3, 2), fold_is_constant_on_orbits),
    (SortsByLength(3, 2), every_orbit_meets_the_domain_once),
    (DropsAnElement(3, 2), orbits_are_as_long_as_the_group),
    (MeasuresOneWay(3, 2), distance_is_a_pseudometric_on_orbits),
    (CountsItself(3, 2), separation_is_the_way_to_the_next_image),
]


@pytest.mark.parametrize(
    ("mutant", "law"), MUTANTS, ids=lambda part: getattr(part, "__name__", type(part).__name__)
)
def test_mutant_breaks_law(mutant: Group, law: Callable) -> None:
    def breaks(seed: int) -> bool:
        try:
            law(mutant, scene(mutant, seed))
        except AssertionError:
            return True
        return False

    assert any(breaks(seed) for seed in range(25))


@eqx.filter_jit
def products(group: Group, elements: object) -> object:
    inner = jax.vmap(group.compose, in_axes=(None, 0))
    return jax.vmap(inner, in_axes=(0, None))(elements, elements)


@functools.cache
def multiplication_table(group: Group) -> np.ndarray:
    """Entry (i, j) is the position of the product of elements i and j."""
    table = products(group, group.elements)
    pairs = group.order**2
    flat = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(pairs, leaf.shape[-1]), table)
    return positions(group, flat).reshape(group.order, group.order)


def positions(group: Group, stack: object) -> np.ndarray:
    """Where the elements of a stack stand in the list of all; KeyError for a stranger."""
    known = {tuple(row): position for position, row in enumerate(rows(group.elements))}
    return np.array([known[tuple(row)] for row in rows(stack)], dtype=int)


@groups
def test_elements_form_a_group(name: str) -> None:
    group = GROUPS[name]()
    everyone = np.arange(group.order)
    table = multiplication_table(group)
    assert len(np.unique(rows(group.elements), axis=0)) == len(rows(group.elements)) == group.order
    assert same(group.element(0), group.identity)
    np.testing.assert_array_equal(table[0], everyone)
    np.testing.assert_array_equal(table[:, 0], everyone)
    np.testing.assert_array_equal(np.sort(table, axis=1), np.tile(everyone, (group.order, 1)))


@groups
def test_generators_reach_every_element(name: str) -> None:
    group = GROUPS[name]()
    table = multiplication_table(group)
    generators = positions(group, group.generators)
    reached = {0}
    for _ in range(group.order):
        reached |= set(table[np.ix_(generators, sorted(reached))].ravel().tolist())
    assert len(reached) == group.order


@groups
def test_factors_give_every_element_in_one_way(name: str) -> None:
    group = GROUPS[name]()
    table = multiplication_table(group)
    built = np.zeros(1, int)
    for stack in group.factors:
        built = table[np.ix_(positions(group, stack), built)].ravel()
    np.testing.assert_array_equal(np.sort(built), np.arange(group.order))


@groups
def test_elements_have_one_type(name: str) -> None:
    """Mixed integer types would break a scan or a branch that carries an element."""
    group = GROUPS[name]()

    def shapes(function: Callable, *arguments: object) -> object:
        return jax.tree.map(
            lambda leaf: (leaf.shape, leaf.dtype), jax.eval_shape(function, *arguments)
        )

    first = jax.eval_shape(lambda: group.element(0))
    expected = shapes(lambda: group.element(0))
    assert shapes(lambda: group.identity) == expected
    assert shapes(lambda: unstacked(group.factors[-1])[0]) == expected
    assert shapes(group.folding_element, jnp.ones(group.dim)) == expected
    assert shapes(group.inverse, first) == expected
    assert shapes(group.compose, first, first) == expected
    assert shapes(group.random_element, jax.random.key(0)) == expected
    assert rows(group.generators).shape[1] == rows(group.elements).shape[1]


@groups
def test_action_keeps_single_precision(name: str) -> None:
    group = GROUPS[name]()
    x = jnp.ones(group.dim, jnp.float32)
    for function in (group.fold, group.average_mean, group.orbit):
        assert jax.eval_shape(function, x).dtype == jnp.float32


UNIFORMITY_LEVEL = 1e-3 / (len(GROUPS) + 1)
"""Chi-square level per group: one false alarm in a thousand new sets of seeds."""


DRAWS = 4800
"""At least a hundred draws for each element of the largest group in the registry."""


@eqx.filter_jit
def random_elements(group: Group, seed: jax.Array) -> object:
    # Element by element: a loop compiles faster than the same draws side by side.
    return jax.lax.map(group.random_element, jax.random.split(jax.random.key(seed), DRAWS))


def uniformity(group: Group) -> float:
    """p-value of the chi-square test that all elements are drawn equally often."""
    assert 100 * group.order <= DRAWS
    drawn = random_elements(group, jnp.uint32(11))
    _, counts = np.unique(rows(drawn), axis=0, return_counts=True)
    never = np.zeros(group.order - len(counts))
    return stats.chisquare(np.concatenate([counts, never])).pvalue


@pytest.mark.parametrize("name", [name for name in GROUPS if name != "trivial"])
def test_random_element_is_uniform(name: str) -> None:
    assert uniformity(GROUPS[name]()) > UNIFORMITY_LEVEL


class DrawsFromFactors(Permutation):
    """The default draw, for which nothing but the factors is known."""

    def random_element(self, key):
        return Group.random_element(self, key)


class DrawsWithTies(Permutation):
    """Mutant: sorts coarse random keys, so that ties favour the identity."""

    def random_element(self, key):
        return jnp.argsort(jax.random.randint(key, (self.blocks,), 0, 4))


def test_random_element_from_factors_is_uniform() -> None:
    assert uniformity(DrawsFromFactors(4, 1)) > UNIFORMITY_LEVEL


def test_biased_random_element_is_noticed() -> None:
    assert uniformity(DrawsWithTies(4, 1)) < UNIFORMITY_LEVEL


@eqx.filter_jit
def averages(group: Group, matrix: jax.Array, vector: jax.Array) -> dict:
    """Both projections, and the action as matrices to compare with."""
    as_matrix = jax.vmap(group.act, in_axes=(None, 1), out_axes=1)
    mean = group.average(matrix)
    return {
        "matrix": mean,
        "vector": group.average_mean(vector),
        "again": group.average(mean),
        "action": jax.vmap(as_matrix, in_axes=(0, None))(group.elements, jnp.eye(group.dim)),
    }


@groups
def test_average_is_the_projection_onto_what_commutes(name: str) -> None:
    group = GROUPS[name]()
    generator = np.random.default_rng(5)
    matrix = generator.standard_normal((group.dim, group.dim))
    vector = generator.standard_normal(group.dim)
    s = SimpleNamespace(**jax.device_get(averages(group, matrix, vector)))
    transposed = s.action.swapaxes(1, 2)
    close(s.action @ transposed, np.broadcast_to(np.eye(group.dim), s.action.shape))
    close(s.matrix, (s.action @ matrix @ transposed).mean(axis=0))
    close(s.action @ s.matrix, s.matrix @ s.action)
    close(s.again, s.matrix)
    close(s.vector, (s.action @ vector).mean(axis=0))


def test_average_of_blocks_in_closed_form() -> None:
    """Diagonal blocks become their mean, off-diagonal blocks theirs."""
    blocks, size = 4, 2
    tensor = np.random.default_rng(1).standard_normal((blocks, size, blocks, size))
    own = np.einsum("ipiq->pq", tensor) / blocks
    cross = (tensor.sum(axis=(0, 2)) - blocks * own) / (blocks * (blocks - 1))
    expected = np.kron(np.eye(blocks), own - cross) + np.kron(np.ones((blocks, blocks)), cross)
    close(Permutation(blocks, size).average(jnp.asarray(tensor.reshape(8, 8))), expected)


def test_large_groups_average_and_draw_without_enumeration() -> None:
    group = Joint(12, (Blocks(1), ZeroSum(), Fixed(1)))
    x = jax.random.normal(jax.random.key(0), (group.dim,))
    image = group.random_image(jax.random.key(1), x)
    assert group.order == math.factorial(12)
    assert bool(group.contains(group.fold(image)))
    close(group.fold(image), group.fold(x))
    close(group.average_mean(x), np.concatenate([np.full(12, x[:12].mean()), np.zeros(11), x[-1:]]))


@pytest.mark.parametrize("m", [1, 2, 3, 7])
def test_zero_sum_basis_is_orthonormal(m: int) -> None:
    basis = zero_sum_basis(m)
    assert basis.shape == (m, m - 1)
    close(basis.T @ basis, np.eye(m - 1))
    close(basis.sum(axis=0), np.zeros(m - 1))
    assert not basis.flags.writeable


@pytest.mark.parametrize("arrangement", [[0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 1, 0]])
def test_parts_are_the_actions_they_stand_for(arrangement: list[int]) -> None:
    """Each part against the matrix formula of its action."""
    P, B = np.eye(4)[arrangement], zero_sum_basis(4)
    generator = np.random.default_rng(2)
    A, C, c, blocks = (generator.standard_normal(s) for s in ((4, 4), (4, 3), (3,), (4, 2)))
    chosen = jnp.array(arrangement)
    cases = [
        (Blocks(2), blocks, P @ blocks),
        (ZeroSum(), c, B.T @ P @ B @ c),
        (Square(), A, P @ A @ P.T),
        (ZeroSumRows(), C, P @ C @ B.T @ P.T @ B),
        (Fixed(3), c, c),
    ]
    if arrangement[3] == 3:  # the last of four entries has no label
        chosen_of = [(type(part)((3,)), *rest) for part, *rest in cases[1:4]]
        for part, piece, expected in chosen_of:
            moved = part.act(chosen[:3], jnp.asarray(piece).reshape(-1))
            close(moved, expected.reshape(-1))
    for part, piece, expected in cases:
        close(part.act(chosen, jnp.asarray(piece).reshape(-1)), expected.reshape(-1))


def test_weights_turn_with_their_components() -> None:
    """The centred log-ratios of permuted weights are the image of the centred log-ratios."""
    weights = np.array([0.2, 0.5, 0.3])
    log_ratios = np.log(weights) - np.log(weights).mean()
    group = Joint(3, (Blocks(1), ZeroSum()))
    means = np.array([3.0, 1.0, 2.0])
    folded = group.fold(jnp.concatenate([means, zero_sum_basis(3).T @ log_ratios]))
    close(folded[:3], [1.0, 2.0, 3.0])
    recovered = np.exp(zero_sum_basis(3) @ folded[3:])
    close(recovered / recovered.sum(), [0.5, 0.3, 0.2])


def test_joint_sorts_by_the_first_part_with_keys() -> None:
    A = jnp.array([[3.0, 1.0], [2.0, -1.0]]).reshape(-1)
    blocks = jnp.array([0.0, 1.0])
    by_diagonal = Joint(2, (Fixed(1), Square(), Blocks(1)))
    by_block = Joint(2, (Fixed(1), Blocks(1), Square()))
    nine = jnp.array([9.0])
    folded = by_diagonal.fold(jnp.concatenate([nine, A, blocks]))
    close(folded, [9.0, -1.0, 2.0, 1.0, 3.0, 1.0, 0.0])
    assert by_block.contains(jnp.concatenate([nine, blocks, A]))
    assert Fixed(1).has_keys is False


def test_domains_are_the_documented_chambers() -> None:
    assert Reflection(3, (0, 2)).contains(jnp.array([1.0, -5.0, 0.0]))
    assert not Reflection(3, (0, 2)).contains(jnp.array([1.0, 5.0, -0.1]))
    assert Permutation(2, 2, sort_by=1).contains(jnp.array([9.0, 1.0, 0.0, 2.0]))
    assert not Permutation(2, 2).contains(jnp.array([9.0, 1.0, 0.0, 2.0]))
    assert SignedPermutation(2, 2).contains(jnp.array([-1.0, 2.0, 4.0, -1.0]))
    assert not SignedPermutation(2, 2, sort_by=0).contains(jnp.array([-1.0, 2.0, 4.0, -1.0]))


def test_ties_keep_their_places() -> None:
    tied = jnp.array([1.0, 7.0, 1.0, 5.0])
    assert Permutation(2, 2).contains(tied)
    np.testing.assert_array_equal(Permutation(2, 2).fold(tied), tied)


@groups
def test_equal_groups_share_compiled_code(name: str) -> None:
    traces = []

    @eqx.filter_jit
    def folded(group: Group, x: jax.Array) -> jax.Array:
        traces.append(group)
        return group.fold(x)

    group, twin = GROUPS[name](), GROUPS[name]()
    assert group is not twin
    assert group == twin
    assert hash(group) == hash(twin)
    assert not jax.tree.leaves(group)
    x = jnp.linspace(-1.0, 1.0, group.dim)
    folded(group, x)
    folded(twin, x)
    assert len(traces) == 1


def test_groups_are_equal_only_if_they_are_the_same() -> None:
    assert Reflection(3, [2, 0]) == Reflection(3, (0, 2))
    assert Permutation(3, 2) != Permutation(3, 2, sort_by=1)
    assert Permutation(2, 3) != Permutation(3, 2)
    assert Joint(3, [Blocks(2)]) == Joint(3, (Blocks(2),))
    assert Product(Trivial(1), Trivial(2)) != Product(Trivial(2), Trivial(1))


def test_elements_are_listed_once() -> None:
    assert Permutation(5, 1).elements is Permutation(5, 3).elements
    assert Product(Permutation(3, 1)).elements is Product(Permutation(3, 1)).elements


@pytest.mark.parametrize(
    ("group", "element", "words"),
    [
        (Trivial(2), np.zeros(0, np.int32), "identity"),
        (Reflection(4, (0, 2)), [1, 1], "identity"),
        (Reflection(4, (0, 2)), [1, -1], "flip the sign of coordinate 3"),
        (Reflection(4, (0, 2, 3)), [-1, -1, -1], "flip the signs of coordinates 1, 3 and 4"),
        (Permutation(3, 2), [0, 1, 2], "identity"),
        (Permutation(3, 2), [1, 0, 2], "swap components 1 and 2"),
        (Permutation(3, 2), [1, 2, 0], "component order 2 3 1"),
        (Joint(3, [Square()]), [2, 1, 0], "swap components 1 and 3"),
        (SignedPermutation(2, 1), SignedArrangement([0, 1], [1, 1]), "identity"),
        (
            SignedPermutation(2, 1),
            SignedArrangement([1, 0], [-1, 1]),
            "swap columns 1 and 2, then flip the sign of column 1",
        ),
        (Product(Permutation(2, 1), Reflection(1, (0,))), ([0, 1], [1]), "identity"),
        (
            Product(Permutation(2, 1), Reflection(1, (0,))),
            ([1, 0], [-1]),
            "factor 1: swap components 1 and 2; factor 2: flip the sign of coordinate 1",
        ),
    ],
)
def test_elements_in_words(group: Group, element: object, words: str) -> None:
    as_arrays = jax.tree.map(np.asarray, element, is_leaf=lambda part: isinstance(part, list))
    assert group.describe(as_arrays) == words


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Trivial(0), "dim must be at least 1, got 0"),
        (lambda: Trivial(2.0), "dim must be a whole number, got 2.0"),
        (lambda: Reflection(3, (3,)), "each axis must be one of 0 to 2, got 3"),
        (lambda: Reflection(3, (-1,)), "each axis must be one of 0 to 2, got -1"),
        (lambda: Reflection(3, (1, 1)), r"axes must be distinct, got \(1, 1\)"),
        (lambda: Reflection(3, 1), "axes must be a sequence"),
        (lambda: Permutation(0, 2), "blocks must be at least 1, got 0"),
        (lambda: Permutation(2, -1), "size must be at least 1, got -1"),
        (lambda: Permutation(2, 2, sort_by=2), "sort_by must be one of 0 to 1, got 2"),
        (lambda: SignedPermutation(0, 2), "columns must be at least 1, got 0"),
        (lambda: SignedPermutation(2, 2, sort_by=-1), "sort_by must be one of 0 to 1, got -1"),
        (lambda: Product(), "expected at least one group, got none"),
        (lambda: Product(Trivial(1), 2), "expected groups, got int"),
        (lambda: Joint(0, [Blocks(1)]), "m must be at least 1, got 0"),
        (lambda: Joint(2, [Fixed(3)]), r"at least one part to sort by .* got Fixed\(size=3\)"),
        (lambda: Joint(2, []), "at least one part to sort by .* got no parts"),
        (lambda: Joint(2, [Blocks]), r"expected parts such as Blocks\(2\)"),
        (lambda: Joint(2, Blocks(1)), "parts must be a sequence of parts, got Blocks"),
        (lambda: Blocks(2, sort_by=5), "sort_by must be one of 0 to 1, got 5"),
        (lambda: Fixed(0), "size must be at least 1, got 0"),
        (lambda: zero_sum_basis(0), "m must be at least 1, got 0"),
        (
            lambda: Permutation(9, 1).elements,
            "362880 elements of this group are too many to be listed",
        ),
        (lambda: SignedPermutation(7, 1).elements, "645120 elements of this group are too many"),
        (lambda: Reflection(16, range(16)).elements, "65536 elements of this group are too many"),
        (
            lambda: Product(*[Permutation(5, 1)] * 3).elements,
            "1728000 elements of this group are too many",
        ),
        (lambda: Reflection(3, (0,)).fold(jnp.zeros(4)), r"shape \(3,\), got shape \(4,\)"),
        (lambda: Trivial(2).orbit(jnp.zeros((5, 2))), r"shape \(2,\), got shape \(5, 2\)"),
        (lambda: Trivial(2).average(jnp.eye(3)), r"matrix \(2, 2\), got \(3, 3\)"),
    ],
)
@pytest.mark.wrong_shapes
def test_wrong_input_is_named(build: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
