"""The declared symmetry is checked before anything else, and a failure names what failed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from cases import GROUPS
from folt.groups import Permutation, Reflection, SignedPermutation, Trivial
from folt.models import broken_banana, gaussian_pair, label_switching
from folt.problem import Problem
from folt.problem.symmetry import SymmetryError, allowance, require_symmetry
from folt.proposals import Gaussian
from folt.proposals.fold import Folded


def nearly_symmetric(x):
    """Invariant under the reversal of three labels, but not under adjacent swaps."""
    return -jnp.sum(x**2) - 0.1 * (x[1] - 1.0) ** 2


@pytest.mark.parametrize("name", ["signed permutation by second", "joint transitions"])
def test_a_true_symmetry_holds(name):
    group = GROUPS[name]()
    bump = Gaussian(jnp.linspace(-1.0, 1.0, group.dim), jnp.eye(group.dim))
    account = folt.check(Problem(Folded(bump, group).log_prob, group))
    assert account.holds
    assert account.order == group.order
    assert account.defect < 1e-10
    assert "holds" in str(account)


def test_exact_targets_hold():
    assert folt.check(gaussian_pair(2)).defect == 0.0
    assert folt.check(label_switching(2, 1, [[0.0], [1.0]])).holds
    assert folt.check(Problem(lambda x: -jnp.sum((x - 1) ** 2), Trivial(2))).holds


def test_the_error_names_element_point_defect_and_both_ways_out():
    problem = Problem(nearly_symmetric, Permutation(3, 1))
    with pytest.raises(SymmetryError) as caught:
        require_symmetry(problem)
    message, account = str(caught.value), folt.check(problem)
    assert not account.holds
    assert account.element in message
    assert "component" in account.element
    assert f"{account.defect:.6g}" in message
    assert np.array2string(account.point, precision=4, separator=", ") in message
    assert "give the group the density really has" in message
    assert "invariant=False" in message
    assert isinstance(caught.value, ValueError)


def test_the_defect_is_the_one_at_that_point_and_element():
    """The named swap really changes the log density there by that much."""
    problem = Problem(lambda x: -((x[0] - 1.0) ** 2) - x[1] ** 2, Permutation(2, 1))
    account = folt.check(problem)
    swapped = account.point[::-1]
    found = abs(float(problem.log_density(swapped) - problem.log_density(account.point)))
    assert found == pytest.approx(account.defect)


def test_mutant_invariant_by_force_is_refused():
    broken = broken_banana()
    forced = Problem(broken.log_density, broken.group, sampler=broken.sampler)
    with pytest.raises(SymmetryError, match="invariant=False"):
        folt.sample(forced, progress=False)
    require_symmetry(broken)  # declared honestly, it passes


def test_broken_symmetry_is_accounted_for_without_an_error():
    account = folt.check(broken_banana())
    assert not account.holds
    assert "fails under" in str(account)


def test_a_symmetry_of_the_support_counts_too():
    one_sided = Problem(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf), Reflection(1, (0,)))
    account = folt.check(one_sided)
    assert account.defect == np.inf
    assert not account.holds
    # Outside on both sides is no defect.
    bounded = Problem(lambda x: jnp.where(jnp.abs(x[0]) < 0.5, 0.0, -jnp.inf), one_sided.group)
    assert folt.check(bounded).holds


def test_nan_at_a_few_points_counts_as_outside():
    """A support whose edge is NaN is tried where there are numbers, and may not be broken."""
    group = Reflection(1, (0,))
    points = np.array([[0.1], [0.3], [0.7], [2.0]])
    even = Problem(lambda x: -(x[0] ** 2) + 0.0 * jnp.log(1.5 - jnp.abs(x[0])), group)
    assert folt.check(even, points=points).holds
    odd = Problem(lambda x: -(x[0] ** 2) + 0.0 * jnp.log(x[0] + 1.5), group)
    account = folt.check(odd, points=points)
    assert account.defect == np.inf
    assert account.point == 2.0


def test_rounding_in_a_far_tail_breaks_no_symmetry():
    """Where log(1 - F) is rounding, or NaN, the order of a sum decides; elsewhere nothing does."""
    group = Permutation(3, 1)

    def censored(x, skew=0.0):
        shares = jnp.exp(-jnp.exp(x))  # of an F that is nearly one where x is large
        one, two, three = 0.9 * jax.nn.softmax(x) * (1.0 - shares)
        below = ((0.1 + one) + two) + three
        return 100.0 * jnp.log(1.0 - below) - jnp.sum(x**2) + skew * x[0]

    normal = np.random.default_rng(0).normal
    likely, tails = normal(size=(8, 3)), 3.4 + 0.05 * normal(size=(8, 3))
    points = np.concatenate([likely, tails])
    assert folt.check(Problem(censored, group), points=points).holds
    assert not folt.check(Problem(lambda x: censored(x, 1e-3), group), points=points).holds
    # Rounding accounts for no change at the only point: nothing else was seen to be symmetric.
    alone = [folt.check(Problem(censored, group), points=point[None]) for point in tails]
    assert not all(account.holds for account in alone)


def test_nan_at_most_points_is_refused_in_the_users_parameters():
    group = Reflection(1, (0,))
    mostly = Problem(
        lambda x: jnp.log(jnp.abs(x[0]) - 1.0), group, constrain=lambda x: {"rate": 2.0 * x[0]}
    )
    with pytest.raises(ValueError, match=r"nan at .*\(rate = 0\.2\) and at 3 of the 4 points"):
        folt.check(mostly, points=np.array([[0.1], [0.3], [0.7], [2.0]]))


def test_every_generator_is_tested():
    """A density broken under the last sign flip alone is found."""
    group = SignedPermutation(2, 1)

    def log_density(x):
        return -jnp.sum(x**2) + 1e-4 * jnp.sum(x)

    assert not folt.check(Problem(log_density, group)).holds


def test_rounding_is_no_defect_but_little_more_is():
    scale = {"large": 1e6}

    def rounded(x):
        return scale["large"] - jnp.sum(x**2) + 1e-13 * scale["large"] * x[0]

    def shifted(x):
        return -jnp.sum(x**2) + 1e-5 * x[0]

    group = Permutation(2, 1)
    assert folt.check(Problem(rounded, group)).holds
    assert not folt.check(Problem(shifted, group)).holds


def test_seed_chooses_the_points():
    problem = Problem(nearly_symmetric, Permutation(3, 1))
    one, again, other = (folt.check(problem, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.point, again.point)
    assert not np.array_equal(one.point, other.point)


def test_points_may_be_given():
    problem = Problem(nearly_symmetric, Permutation(3, 1))
    even = folt.check(problem, points=np.array([[0.3, 0.3, 0.3]]))
    assert even.holds
    assert even.points == 1


BAD = {
    "NaN": (lambda x: jnp.log(x[0] - 1e3), r"nan at the point \["),
    "+inf": (lambda x: jnp.where(x[0] > 0, jnp.inf, 0.0), r"inf at the point \["),
    "vector": (lambda x: -(x**2), r"shape \(\), got shape \(2,\)"),
    "complex": (lambda x: jnp.sum(x) * (1 + 1j), r"one real number.*complex128"),
    "integer": (lambda x: jnp.sum(x).astype(int), r"one real number.*int64"),
    "nothing": (lambda x: None, r"one real number.*NoneType"),
    "wrong dimension": (lambda x: jnp.sum(x.reshape(3, 2)), r"point of shape \(2,\)"),
    "mismatched sum": (lambda x: jnp.sum(x + jnp.ones(5)), r"point of shape \(2,\)"),
    "unpacking": (lambda x: sum(a * b for a, b in [tuple(x), tuple(x[:1])]), r"shape \(2,\)"),
    "NumPy": (lambda x: np.sum(np.asarray(x)), r"folt.from_callable\(function, 2, symmetry\)"),
    "branches on values": (lambda x: x[0] if x[0] > 0 else -x[0], r"point of shape \(2,\)"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore")
def test_a_density_that_cannot_be_used_is_refused(name):
    log_density, message = BAD[name]
    problem = Problem(log_density, Permutation(2, 1))
    with pytest.raises(ValueError, match=message):
        folt.sample(problem, progress=False)


def test_a_density_that_reaches_beyond_the_dimension_is_refused():
    with pytest.raises(ValueError, match=r"point of shape \(2,\)"):
        folt.check(Problem(lambda x: -(x[0] ** 2) - x[5] ** 2, Permutation(2, 1)))


def test_wrong_data_is_refused():
    problem = Problem(lambda x, y: -jnp.sum((x - y) ** 2), Permutation(2, 1), data=np.ones(3))
    with pytest.raises(ValueError, match=r"point of shape \(2,\)"):
        folt.check(problem)


@pytest.mark.parametrize("constant", [0.0, -1e7, 1e10])
def test_a_large_constant_does_not_hide_an_asymmetry_that_matters(constant):
    """An asymmetry of .77 nats fails whatever is added to the log density."""

    def lopsided(x):
        return constant - 0.5 * jnp.sum(x**2) + 0.385 * jnp.tanh(50.0 * (x[0] - x[1]))

    assert not folt.check(Problem(lopsided, Permutation(2, 1))).holds


def test_where_rounding_hides_the_symmetry_it_is_said():
    """At 1e15 the last digit is an eighth: the check cannot see, and says how to."""

    def huge(x):
        return 1e15 - 0.5 * jnp.sum(x**2) + 0.05 * x[0]

    account = folt.check(Problem(huge, Permutation(2, 1)))
    assert account.holds
    assert "subtract a constant" in str(account)
    assert "subtract" not in str(folt.check(Problem(lambda x: -jnp.sum(x**2), Permutation(2, 1))))


def test_allowance_is_never_as_much_as_matters_before_rounding_is():
    values = np.array([0.0, 1e2, 1e7, 1e11, 1e14])
    allowed = allowance(values)
    assert (allowed[:3] <= 0.01).all()
    assert allowed[4] == pytest.approx(64 * np.finfo(float).eps * 1e14)
