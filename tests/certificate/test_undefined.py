"""NaN: rare and far from mass it is a rejection, elsewhere a fault; both are shown."""

from html import unescape

import jax.numpy as jnp
import numpy as np
import pytest

import folt
from folt.certificate.certificate import Certificate
from folt.certificate.diagnostics.coverage import Faults
from folt.groups import Permutation, Trivial
from folt.report.page import page

QUICK = {"effort": folt.Effort.quick(), "progress": False, "draws": 300}


def normal(x):
    return -0.5 * jnp.sum(x**2)


def overflow(size):
    """Zero, and not a number where a large number is taken from another."""
    large = jnp.exp(710.0 * size)
    return large - large


def far_corner(x):
    return normal(x) + overflow(jnp.min(x) / 20.0)


def small_ball(x):
    """A hole in the mass, of 2e-4 of it."""
    near = jnp.sum((x - jnp.array([3.0, 0.0])) ** 2) < 0.04
    return jnp.where(near, jnp.nan, normal(x))


def rising(x):
    """A mode of 30 % within the undefined corner: nothing but the slope at its edge tells."""
    mode = -0.5 * jnp.sum((x - 30.0) ** 2 / 9.0) - jnp.log(9.0)
    both = jnp.logaddexp(jnp.log(0.7) + normal(x), jnp.log(0.3) + mode)
    return jnp.where(jnp.min(x) > 15.0, jnp.nan, both)


def strip(x):
    """A strip across the mass, of 7e-5 of it."""
    return jnp.where(jnp.abs(x[0] - 2.5) < 0.002, jnp.nan, normal(x))


def beyond(x):
    """Nothing hides in this half of the plane, but one proposal in two hundred goes there."""
    return normal(x) + overflow(x[0] / 8.0)


TIMES = np.random.default_rng(3).weibull(2.0, 60)
TIMES = np.concatenate([TIMES, 4.0 * np.random.default_rng(4).weibull(5.0, 60)])
CENSORED = TIMES > 4.5


def weibull(x):
    """Two Weibull components with censored times, written plainly: infinity times zero far out."""
    times = jnp.minimum(TIMES, 4.5)
    log_shapes, log_scales = x[0::2], x[1::2]
    shapes, scales = jnp.exp(log_shapes)[:, None], jnp.exp(log_scales)[:, None]
    powers = (times / scales) ** shapes
    dies = shapes / scales * (times / scales) ** (shapes - 1.0) * jnp.exp(-powers)
    terms = jnp.where(CENSORED, jnp.exp(-powers), dies)
    prior = -0.5 * jnp.sum((log_shapes - 1.0) ** 2 + (log_scales - 0.5) ** 2)
    return jnp.sum(jnp.log(terms.mean(axis=0) + 1e-300)) + prior


def _outside(value):
    return jnp.where(jnp.isnan(value), -jnp.inf, value)


def sampled(log_density, group=None, seed=0, **options):
    problem = folt.Problem(log_density, group or Trivial(2), **options)
    return folt.sample(problem, seed=seed, **QUICK)


@pytest.fixture(scope="module")
def corner():
    return sampled(far_corner)


def test_a_rare_far_corner_is_outside_the_support(corner):
    faults = corner.certificate.faults
    assert 0 < faults.not_a_number <= Faults.RARE * faults.proposals
    assert faults.largest_nearby < 1e-20
    assert faults.real == 0
    assert corner.certificate.status.name in ("good", "fair")
    assert corner.certificate.mixing.steps[0.05] is not None
    assert abs(corner.log_evidence.value - np.log(2 * np.pi)) < 0.02
    assert min(value for _, value in faults.point) > 20.0


def test_number_share_and_point_are_shown(corner, tmp_path):
    words = f"{corner.certificate.faults.not_a_number} of {corner.certificate.faults.proposals:,}"
    point = corner.certificate.faults.where
    assert point.startswith("x0 = ")
    shown = page(corner)
    faults = unescape(shown[shown.index("<dt>Faults</dt>") :].split("</div>")[0])
    for text in (" ".join(corner.summary().split()), faults):
        assert words in text
        assert point in text
    assert "Not a number" in repr(corner.certificate)
    loaded = folt.load(corner.save(tmp_path / "fit.nc"))
    assert loaded.certificate.faults == corner.certificate.faults
    back = Certificate.from_dict(corner.certificate.to_dict())
    assert back.faults == corner.certificate.faults


@pytest.mark.extended
def test_censored_weibulls_are_usable():
    """The model of the finding: one NaN among tens of thousands made it faulty."""
    fit = sampled(weibull, Permutation(2, 2))
    assert fit.certificate.faults.not_a_number > 0
    assert fit.certificate.status.outcome.usable
    repaired = sampled(lambda x: _outside(weibull(x)), Permutation(2, 2))
    means = (each.draws.mean((0, 1)) for each in (fit, repaired))
    np.testing.assert_allclose(*means, atol=0.1 * fit.draws.std((0, 1)).max())
    assert abs(fit.log_evidence.value - repaired.log_evidence.value) < 0.03


@pytest.mark.parametrize("hiding", [small_ball, rising, strip])
def test_nan_that_hides_mass_is_faulty(hiding):
    fit = sampled(hiding)
    faults = fit.certificate.faults
    assert faults.share <= Faults.RARE  # not its number betrays it
    assert faults.largest_nearby > Faults.NEGLIGIBLE
    status = fit.certificate.status
    assert status.name == "faulty"
    assert faults.where in status.advice
    assert set(fit.certificate.mixing.steps.values()) == {None}


def test_frequent_nan_is_faulty_wherever_it_is():
    fit = sampled(beyond)
    faults = fit.certificate.faults
    assert faults.share > Faults.RARE
    assert faults.where in fit.certificate.status.advice
    assert f"{faults.not_a_number} of {faults.proposals:,}" in " ".join(fit.summary().split())
    assert faults.real == faults.not_a_number


def test_infinity_stays_a_fault():
    fit = sampled(lambda x: jnp.where(jnp.min(x) > 20.0, jnp.inf, normal(x)))
    assert fit.certificate.faults.infinite > 0
    assert fit.certificate.status.name == "faulty"


def test_a_held_out_draw_without_a_number_is_no_far_corner():
    """Draws that a user brings: the density is NaN at a few of them."""
    draws = np.random.default_rng(0).normal(size=(40, 250, 2))
    draws[:, 7] = 4.0 + 0.01 * draws[:, 7]
    hole = folt.Problem(lambda x: jnp.where(jnp.min(x) > 3.9, jnp.nan, normal(x)), Trivial(2))
    flow = folt.proposals.Gaussian(jnp.zeros(2), jnp.eye(2))
    fit = folt.sample(hole, reference=draws, flow=flow, **QUICK)
    assert fit.certificate.faults.at_draws > 0
    assert fit.certificate.status.name == "faulty"


def test_older_counts_without_surroundings_stay_faults():
    assert Faults(0, 1, 0).real == 1
    assert Faults(0, 1, 0, proposals=10_000).real == 1
    assert Faults(0, 1, 0, proposals=10_000, largest_nearby=1e-9).real == 0
    assert Faults(0, 1, 0, proposals=900, largest_nearby=1e-9).real == 1


def test_check_looks_far_out():
    account = folt.check(folt.Problem(weibull, Permutation(2, 2)))
    assert account.undefined > 0
    assert f"not a number at {account.undefined} of {account.tried}" in str(account)
    assert "x0 = " in str(account)
    guard = folt.proposals.Gaussian(jnp.zeros(2), 0.1 * jnp.eye(2))  # deviation 10
    with_prior = folt.check(folt.Problem(far_corner, Trivial(2), prior=guard))
    assert with_prior.undefined > 0
    assert folt.check(folt.Problem(normal, Trivial(2))).undefined == 0
