"""Symmetry found from the density alone: what is there, and nothing that is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

import folt
from folt.groups import (
    Blocks,
    Fixed,
    Joint,
    Permutation,
    Product,
    SignedPermutation,
    Square,
    Trivial,
    Within,
    ZeroSum,
    ZeroSumRows,
    zero_sum_basis,
)
from folt.problem.black_box import BlackBox
from folt.symmetry import Reason
from folt.symmetry.account import account_of, attempt_in_words
from folt.symmetry.findings import Remark, SymmetryFound
from folt.symmetry.probe import Probe


def told(attempts):
    """Transformations in words."""
    return [attempt_in_words(attempt) for attempt in attempts]


DATA = np.random.default_rng(3).normal(size=40)


def mixture(x, prior_means=(0.0, 0.0, 0.0)):
    """Means, log scales, centred log weights of three components, and a fixed shift."""
    mu, log_sigma, shift = x[:3], x[3:6], x[8]
    log_weights = jax.nn.log_softmax(jnp.asarray(zero_sum_basis(3)) @ x[6:8])
    residuals = (DATA[:, None] - mu - shift) * jnp.exp(-log_sigma)
    terms = log_weights - 0.5 * residuals**2 - log_sigma
    prior = -0.5 * jnp.sum((mu - jnp.asarray(prior_means)) ** 2) - 0.5 * jnp.sum(x[3:] ** 2)
    return jnp.sum(logsumexp(terms, axis=1)) + prior


MIXTURE_PARTS = (Blocks(1), Blocks(1), ZeroSum(), Fixed(1))
MIXTURE_NAMES = ("mu", "log sigma", "weights", "shift")


def detect_mixture(**options):
    def log_density(x):
        return mixture(x, **options)

    return folt.detect(log_density, 3, MIXTURE_PARTS, names=MIXTURE_NAMES)


def test_an_exchangeable_mixture_is_found_with_the_parts_that_move_together():
    found = detect_mixture()
    assert found.group == Joint(3, MIXTURE_PARTS)
    assert [factor.names for factor in found.factors] == [("mu", "log sigma", "weights")]
    assert [factor.sites for factor in found.factors] == [("mu", "log sigma", "weights")]
    assert told(found.found) == [
        f"swap components {i} and {j} of mu, log sigma, weights" for i, j in [(1, 2), (2, 3)]
    ]
    assert not found.rotations
    text = str(found)
    assert "Exchangeable together: mu, log sigma, weights (components 1, 2, 3)" in text
    assert "order 6" in text


def test_the_group_found_leaves_the_density_unchanged():
    assert folt.check(folt.Problem(mixture, detect_mixture().group)).holds


def test_components_with_priors_of_their_own_are_not_exchangeable():
    """A millionth between two prior means is enough."""
    found = detect_mixture(prior_means=(0.0, 1e-6, 3.0))
    assert found.group == Trivial(9)
    assert not found.found
    assert "No relabelling symmetry was folded" in str(found)
    assert found.nearly
    assert found.nearly[0].change.defect > 1e-9


def test_some_components_alike():
    found = detect_mixture(prior_means=(1.0, 0.0, 1.0))
    assert found.group == Within(Joint(3, MIXTURE_PARTS), [(0, 2)])
    assert found.group.order == 2
    assert folt.check(folt.Problem(lambda x: mixture(x, (1.0, 0.0, 1.0)), found.group)).holds


def hidden_markov(x, emission_means):
    """Two states: emission means and row-wise centred log-ratios of the transitions."""
    mu = x[:2]
    log_transition = jax.nn.log_softmax(ZeroSumRows().matrix(x[2:], 2), axis=1)
    log_emission = -0.5 * (DATA[:, None] - mu) ** 2

    def step(log_alpha, log_e):
        return logsumexp(log_alpha[:, None] + log_transition, axis=0) + log_e, None

    last, _ = jax.lax.scan(step, log_emission[0], log_emission[1:])
    prior = -0.5 * jnp.sum((mu - jnp.asarray(emission_means)) ** 2) - 0.5 * jnp.sum(x[2:] ** 2)
    return logsumexp(last) + prior


@pytest.mark.parametrize(("means", "order"), [((0.0, 0.0), 2), ((0.0, 1.0), 1)])
def test_a_hidden_markov_model_is_relabelled_on_both_sides(means, order):
    parts = (Blocks(1), ZeroSumRows())
    found = folt.detect(lambda x: hidden_markov(x, means), 2, parts, names=("mu", "transitions"))
    assert found.group.order == order
    if order == 2:
        assert found.group == Joint(2, parts)
        assert found.factors[0].names == ("mu", "transitions")


def test_a_square_matrix_permuted_by_rows_alone_is_told_from_both_sides():
    centre = jnp.arange(3.0)  # columns differ, rows do not

    def rows(x):
        return -jnp.sum((x.reshape(3, 3) - centre) ** 4)

    found = folt.detect(rows, 3, (Square(),), names=("matrix",), flips=False)
    assert found.group == Permutation(3, 3)


def test_two_symmetries_side_by_side():
    def log_density(x):
        return -jnp.sum((x[:2] - 1) ** 2) + x[0] * x[1] - jnp.sum((x[2:] - 2.0) ** 4)

    found = folt.detect(log_density, 2, (Blocks(1), Blocks(1)))
    assert found.group == Product(Permutation(2, 1), Permutation(2, 1))
    assert len(found.factors) == 2


def loadings(x, power):
    """Covariance of a factor model with a prior Σ|w|^power on the loadings, and noise."""
    w, log_noise = x[:6].reshape(2, 3), x[6]
    covariance = w.T @ w + jnp.exp(log_noise) * jnp.eye(3)
    sample = jnp.asarray(DATA[:39].reshape(13, 3))
    solved = jnp.linalg.solve(covariance, sample.T @ sample)
    likelihood = -0.5 * (13 * jnp.linalg.slogdet(covariance)[1] + jnp.trace(solved))
    return likelihood - jnp.sum(jnp.abs(w) ** power) - log_noise**2


def test_points_outside_the_support_on_both_sides_do_not_differ():
    """A swap that leads from outside to outside says nothing against it."""

    def evaluate(points):
        inside = np.abs(points).max(axis=1) < 1.0
        return np.where(inside, -(points**2).sum(axis=1), -np.inf)[:, None]

    probe = Probe(evaluate, ("likelihood",), np.zeros(2), np.ones(2))
    before, after = np.array([[0.1, 2.0], [0.1, 2.0]]), np.array([[2.0, 0.1], [0.1, 0.2]])
    np.testing.assert_array_equal(probe.differ(before, after), [0.0, np.inf])


def test_a_sparse_factor_model_has_signed_permutations():
    found = folt.detect(
        lambda x: loadings(x, 1), 2, (Blocks(3), Fixed(1)), names=("loadings", "noise")
    )
    assert found.group == Product(SignedPermutation(2, 3), Trivial(1))
    assert not found.rotations


def test_a_gaussian_factor_model_has_a_continuous_symmetry():
    found = folt.detect(
        lambda x: loadings(x, 2), 2, (Blocks(3), Fixed(1)), names=("loadings", "noise")
    )
    assert [rotation.sites for rotation in found.rotations] == [("loadings",)]
    assert found.rotations[0].change.defect < 1e-12
    assert "continuous rotation symmetry" in str(found)


def test_flips_without_permutations():
    def log_density(x):
        return -(x[0] ** 2) - x[1] ** 4

    assert folt.detect(log_density, 2, (Blocks(1),)).group == Product(
        SignedPermutation(1, 1), SignedPermutation(1, 1)
    )
    half = folt.detect(lambda x: log_density(x) + x[1], 2, (Blocks(1),))
    assert half.group == Product(SignedPermutation(1, 1), Trivial(1))


def test_flips_that_cannot_be_joined_to_permutations_are_said():
    def log_density(x):
        return -jnp.sum(x[:2] ** 2 * jnp.exp(x[2:])) - jnp.sum((x[2:] - 1.0) ** 2)

    found = folt.detect(log_density, 2, (Blocks(1), Blocks(1)), names=("a", "b"))
    assert found.group == Joint(2, (Blocks(1), Blocks(1)))
    assert [remark.reason for remark in found.remarks] == [Reason.SIGNS_APART]
    assert "Signs of some of 'a', 'b'" in str(found)


def test_a_large_log_density_does_not_hide_a_small_difference():
    """|log π| near 10⁵, priors that differ by one part in a thousand."""

    def log_density(x):
        return -1e5 - jnp.sum((x - jnp.array([0.0, 1e-3])) ** 2)

    assert folt.detect(log_density, 2, (Blocks(1),), flips=False).group == Trivial(2)


def test_a_black_box_is_tried_on_the_host():
    box = BlackBox(lambda points: -np.sum(points**4, axis=1) + points.prod(axis=1), True)
    found = folt.detect(box, 3, (Blocks(1),), flips=False)
    assert found.group == Permutation(3, 1)


def test_data_are_handed_on():
    found = folt.detect(
        lambda x, data: -jnp.sum((x - data) ** 4), 2, (Blocks(1),), data=jnp.array([0.5, 1.0])
    )
    assert found.group == Trivial(2)


def test_many_parts_that_move_together_are_collected():
    count = 9

    def log_density(x):
        rows = x.reshape(count, 2)
        return -jnp.sum(jnp.sum(rows - 1.0, axis=0) ** 4) - jnp.sum(rows**2)

    found = folt.detect(log_density, 2, (Blocks(1),) * count, flips=False)
    assert found.group == Joint(2, (Blocks(1),) * count)
    assert found.evaluations < 1000


def test_parts_linked_only_three_at_a_time_are_tried_in_all_sets():
    """Stepping two away from zero shows nothing of a product of three."""

    def log_density(x):
        a, b, c = x[:2], x[2:4], x[4:]
        return jnp.sum(a * b * c) - jnp.sum((x - 0.3) ** 4)

    found = folt.detect(log_density, 2, (Blocks(1),) * 3, flips=False)
    assert found.group == Joint(2, (Blocks(1),) * 3)


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="expected 1 names, one per part, got 2"):
        folt.detect(mixture, 3, (Blocks(3),), names=("a", "b"))
    with pytest.raises(ValueError, match="finite at only 0"):
        folt.detect(lambda x: jnp.log(-jnp.sum(x**2)), 2, (Blocks(1),))


def test_no_line_of_the_account_is_said_twice():
    remark = Remark(Reason.OVERLAPS, ("g1", "g2"))
    lines = account_of(SymmetryFound(Trivial(2), remarks=(remark, remark))).splitlines()
    assert len(lines) == len(set(lines))
    assert sum("A further symmetry of" in line for line in lines) == 1
