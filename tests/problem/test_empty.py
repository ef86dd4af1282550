"""Nothing is a legal batch: no draws, no points, no entries to permute, whatever it is asked of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from cases import FLOWS, GROUPS, random_chain, random_mixture
from folt.batching import PIECE, map_keys, map_points
from folt.groups import Group, Permutation, Product, Trivial
from folt.problem.ratio import LogRatio, Target
from folt.proposals import OrbitSafety, standard_normal
from folt.proposals.action import action_of
from folt.proposals.components import Components, rows_times
from folt.proposals.sums import CompiledSum, HostDistribution, orbit_sum
from folt.reference.start import near_the_best

COUNTS = (0, 1, PIECE, 5 * PIECE + 1)


def wide_and_empty(scale, leaves):
    """Of a point and something without entries: a number, a point, and nothing again."""
    x, nothing = leaves
    return {"sum": scale * x.sum(), "point": x, "nothing": nothing}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("width", [0, 3])
def test_mapping_over_no_rows_no_entries_and_more_than_a_piece(count, width):
    x = np.arange(count * 2.0).reshape(count, 2)
    found = map_points(wide_and_empty, 2.0, (x, np.zeros((count, width), int)))
    np.testing.assert_array_equal(found["sum"], 2.0 * x.sum(axis=1))
    np.testing.assert_array_equal(found["point"], x)
    assert found["nothing"].shape == (count, width)
    assert found["nothing"].dtype == int
    drawn = map_keys(lambda one, key: jax.random.normal(key, (width,)), 0, jax.random.key(0), count)
    assert drawn.shape == (count, width)


def test_keys_are_points_also_where_there_are_none():
    assert map_points(_uniform, 1.0, jax.random.split(jax.random.key(0), 0)).shape == (0, 3)


def _uniform(scale, key):
    return scale * jax.random.uniform(key, (3,))


@pytest.mark.parametrize("name", FLOWS)
def test_every_distribution_draws_and_evaluates_none(name):
    flow = FLOWS[name]()
    host = HostDistribution(flow)
    assert host.sample(jax.random.key(0), 0).shape == (0, flow.dim)
    assert host.log_probs(np.empty((0, flow.dim))).shape == (0,)


@pytest.mark.parametrize("degrees", [4.0, np.inf])
def test_components_draw_none_and_one_by_one_what_they_draw_at_once(degrees):
    mixture = random_mixture(2, 3, degrees)
    arrays = (np.asarray(leaf) for leaf in (mixture.log_weights, mixture.means, mixture.factors))
    parts = Components(*arrays, degrees)
    assert parts.sample(np.random.default_rng(0), 0).shape == (0, 2)
    assert parts.log_terms(np.empty((0, 2))).shape == (0, 3)


def test_rows_times_has_a_matrix_for_every_row():
    matrices = np.random.default_rng(0).normal(size=(3, 2, 2))
    for chosen in ([], [2], [2, 0, 2, 2]):  # the choice that nobody makes is passed over
        points = np.random.default_rng(1).normal(size=(len(chosen), 2))
        expected = [matrices[k] @ x for k, x in zip(chosen, points, strict=True)]
        found = rows_times(matrices, np.array(chosen, int), points)
        np.testing.assert_allclose(found, np.reshape(expected, (-1, 2)))


@pytest.mark.parametrize("name", GROUPS)
def test_every_group_acts_on_no_points(name):
    group = GROUPS[name]()
    none, action = np.empty((0, group.dim)), action_of(group)
    assert action.fold(none).shape == (0, group.dim)
    assert all(len(leaf) == 0 for leaf in jax.tree.leaves(action.folding_elements(none)))
    assert action.contains(none).shape == (0,)
    if action.listed:
        assert action.images(none).shape == (0, group.order, group.dim)
        assert action.move(np.empty(0, int), none).shape == (0, group.dim)
    assert action.other_images(none).shape[::2] == (0, group.dim)
    assert map_points(Group.fold, group, none).shape == (0, group.dim)


LARGE = Permutation(9, 1)
PROPOSALS = {
    "listed": lambda: (random_mixture(3, 2), Permutation(3, 1)),
    "no group": lambda: (random_mixture(3, 2), Trivial(3)),
    "partly no group": lambda: (random_mixture(3, 2), Product(Trivial(1), Permutation(2, 1))),
    "class chain": lambda: (random_chain(LARGE, 2), LARGE),
    "guarded class chain": lambda: (
        OrbitSafety(random_chain(LARGE, 2), standard_normal(9, 3.0), 0.1),
        LARGE,
    ),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_every_orbit_sum_draws_and_evaluates_none(name):
    proposal, group = PROPOSALS[name]()
    none = np.empty((0, group.dim))
    sums = [orbit_sum(proposal, group)]
    if action_of(group).listed:
        sums.append(CompiledSum(proposal, group))
    for one in sums:
        assert one.draw(jax.random.key(0), 0).shape == none.shape
        assert one.log_sum(none).shape == (0,)
        assert one.label_shares(none)[0].shape == (0,)
    for invariant in (True, False) if action_of(group).listed else (True,):
        problem = folt.Problem(lambda x: -jnp.sum(x**2), group, invariant=invariant)
        points, heights, alive = LogRatio(Target(problem), proposal, group).propose(
            jax.random.key(0), 0
        )
        assert (points.shape, heights.shape, alive.shape) == (none.shape, (0,), (0,))
        values, slopes = problem.folded_gradients(none)
        assert (values.shape, slopes.shape) == ((0,), none.shape)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_black_box_is_never_asked_for_no_points(vectorized):
    def refuses_none(x):
        assert len(x)
        return -np.sum(x**2, axis=-1)

    problem = folt.from_callable(refuses_none, 2, Trivial(2), vectorized=vectorized)
    assert problem.log_probs(np.empty((0, 2))).shape == (0,)


def test_the_best_of_a_search_is_always_kept():
    """At 1e20 the window of the search is below the rounding of its values."""
    for best in (0.0, -1e7, 1e20, -1e300):
        assert near_the_best(np.array([-np.inf, 2 * best - 1e301, best]), 2).tolist()[-1]
