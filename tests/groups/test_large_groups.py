"""Groups too large to be listed act, fold and average like small ones, and refuse to be listed."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import GROUPS
from folt.groups import (
    Blocks,
    Fixed,
    Group,
    Joint,
    Permutation,
    Product,
    Reflection,
    SignedPermutation,
    Trivial,
    ZeroSum,
)

LARGE = {
    "permutation": Permutation(10, 2),
    "twenty blocks": Permutation(20, 1),
    "signed": SignedPermutation(9, 2),
    "reflections": Reflection(30, range(20)),
    "joint": Joint(12, (Fixed(1), Blocks(1), ZeroSum(), Blocks(2))),
    "product": Product(Permutation(7, 1), SignedPermutation(5, 2)),
}
large = pytest.mark.parametrize("name", LARGE)


@eqx.filter_jit
def scene(group: Group, x: jax.Array, key: jax.Array) -> dict:
    element = group.random_element(key)
    image = group.act(element, x)
    return {
        "image": image,
        "back": group.act(group.inverse(element), image),
        "folded": group.fold(x),
        "folded_image": group.fold(image),
        "inside": group.contains(group.fold(x)),
        "mean": group.average_mean(x),
        "mean_of_image": group.average_mean(image),
        "separation": group.separation(x),
    }


@large
def test_acts_folds_and_averages_without_a_list(name: str) -> None:
    group = LARGE[name]
    x = np.random.default_rng(0).standard_normal(group.dim)
    s = jax.device_get(scene(group, jnp.asarray(x), jax.random.key(1)))
    assert not np.allclose(s["image"], x)
    np.testing.assert_allclose(s["back"], x, atol=1e-12)
    np.testing.assert_allclose(s["folded_image"], s["folded"], atol=1e-12)
    np.testing.assert_allclose(s["mean_of_image"], s["mean"], atol=1e-12)
    assert s["inside"]
    assert 0 < s["separation"] < np.inf


@large
def test_refuses_to_be_listed_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr(itertools, "permutations", forbidden)
    monkeypatch.setattr(itertools, "product", forbidden)
    group = LARGE[name]
    assert not group.listable
    with pytest.raises(ValueError, match="too many to be listed"):
        _ = group.elements
    with pytest.raises(ValueError, match="too many to be listed"):
        group.orbit(jnp.zeros(group.dim))


def test_log_order_is_that_of_the_order_even_where_floats_end() -> None:
    assert Permutation(200, 1).log_order == pytest.approx(math.lgamma(201), rel=1e-13)
    assert SignedPermutation(3, 1).log_order == pytest.approx(math.log(48))
    assert Trivial(2).log_order == 0.0


def test_averages_of_blocks_are_mean_diagonal_and_mean_off_diagonal_block() -> None:
    m, p = 10, 2
    matrix = np.random.default_rng(3).standard_normal((m, p, m, p))
    averaged = Permutation(m, p).average(jnp.asarray(matrix.reshape(m * p, m * p)))
    averaged = np.asarray(averaged).reshape(m, p, m, p)
    own = np.mean([matrix[i, :, i] for i in range(m)], axis=0)
    other = np.mean([matrix[i, :, j] for i in range(m) for j in range(m) if i != j], axis=0)
    for i, j in itertools.product(range(m), repeat=2):
        np.testing.assert_allclose(averaged[i, :, j], own if i == j else other, atol=1e-12)


@pytest.mark.parametrize("name", [n for n, make in GROUPS.items() if make().order > 1])
def test_neighbours_are_elements_other_than_the_identity(name: str) -> None:
    group = GROUPS[name]()
    listed = {row.tobytes() for row in _rows(group.elements)[1:]}
    near = [row.tobytes() for row in _rows(group.neighbours)]
    assert near
    assert len(set(near)) == len(near)
    assert set(near) <= listed


@pytest.mark.parametrize("name", GROUPS)
def test_block_form_says_how_elements_act(name: str) -> None:
    group = GROUPS[name]()
    form = group.block_form
    if form is None:
        return
    assert form.dim == group.dim
    assert group.order == math.factorial(form.labels) * (2**form.labels if form.signed else 1)
    x = jnp.asarray(np.random.default_rng(1).standard_normal(group.dim))
    join = jax.jit(lambda blocks, fixed: form.join(blocks, fixed))
    blocks, fixed = map(np.asarray, form.split(x))
    np.testing.assert_array_equal(join(blocks, fixed), x)
    orbit = np.asarray(jax.jit(lambda x: group.orbit(x))(x))
    images = {np.round(row, 9).tobytes() for row in orbit + 0.0}
    signs = itertools.product((1.0, -1.0), repeat=form.labels) if form.signed else [None]
    for order, flips in itertools.product(itertools.permutations(range(form.labels)), signs):
        moved = blocks[np.array(order)]
        if flips is not None:
            moved = moved * np.array(flips)[:, None]
        assert np.round(np.asarray(join(moved, fixed)), 9).tobytes() in images


def test_which_groups_permute_whole_blocks() -> None:
    form = Joint(3, (Fixed(1), Blocks(1), Blocks(2))).block_form
    assert form is not None
    assert form.places == ((1, 4, 5), (2, 6, 7), (3, 8, 9))
    assert form.fixed == (0,)
    inside = Product(Trivial(1), Permutation(2, 2), Trivial(2)).block_form
    assert inside is not None
    assert inside.places == ((1, 2), (3, 4))
    assert inside.fixed == (0, 5, 6)
    assert Joint(3, (Blocks(1), ZeroSum())).block_form is None
    assert Product(Permutation(2, 1), Permutation(2, 1)).block_form is None


def _rows(elements: object) -> np.ndarray:
    return np.concatenate([np.asarray(leaf) for leaf in jax.tree.leaves(elements)], axis=1)
