"""What can be done with a fit: unfold, extend, judge, express in the user's parameters."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import folt
from folt.groups import Permutation
from folt.models import label_switching
from folt.problem import Problem
from folt.proposals import Gaussian
from folt.reference import Exact
from folt.training.proposal import made_accurate

LEVEL = 1e-4  # five goodness-of-fit checks: a false alarm in this file about once in 2000 runs

CENTRES = np.array([[0.0, 0.5], [1.5, -0.5]])
FLOW = Gaussian(jnp.asarray(CENTRES.ravel()), 0.8 * jnp.eye(4))
EVERY_STEP = dataclasses.replace(folt.Effort.default(), steps_per_draw=1)


def sampled(**options):
    problem = options.pop("problem", label_switching(2, 2, CENTRES))
    settings = {"chains": 2, "draws": 400, "reference": Exact(2_000, 20), "flow": FLOW}
    return folt.sample(problem, progress=False, **{**settings, **options})


@pytest.fixture(scope="module")
def fit():
    return sampled(seed=1)


def folded(group, draws):
    return np.asarray(jax.vmap(jax.vmap(group.fold))(jnp.asarray(draws)))


def test_draws_lie_on_the_domain(fit):
    np.testing.assert_array_equal(folded(fit.group, fit.draws), fit.draws)
    assert (fit.draws[..., 0] <= fit.draws[..., 2]).all()


def test_everything_is_numpy(fit):
    for field in dataclasses.fields(fit):
        value = getattr(fit, field.name)
        assert not isinstance(value, jax.Array), field.name
    assert fit.draws.dtype == fit.log_ratio.dtype == np.float64
    assert all(type(value) is np.ndarray for value in fit.posterior.values())


def test_the_stored_ratio_is_the_ratio_at_the_draw(fit):
    from folt.problem.ratio import LogRatio, Target

    ratio = LogRatio(Target(fit.problem), fit.proposal, fit.group)
    expected = ratio.at(fit.draws.reshape(-1, 4)).reshape(fit.log_ratio.shape)
    np.testing.assert_allclose(fit.log_ratio, expected, rtol=1e-12, atol=1e-12)


def test_acceptances_are_moves(fit):
    """Where every step is recorded; between recorded draws other steps may have moved, too."""
    every = sampled(seed=1, effort=EVERY_STEP)
    moved = np.any(np.diff(every.draws, axis=1) != 0, axis=-1)
    np.testing.assert_array_equal(moved, every.accepted[:, 1:])
    assert every.steps_per_draw == 1 < fit.steps_per_draw
    moved = np.any(np.diff(fit.draws, axis=1) != 0, axis=-1)
    assert moved[fit.accepted[:, 1:]].all()
    assert fit.accept_rate == fit.accepted.mean()


def test_unfolded_draws_have_all_labels_equally_often(fit):
    """Same orbits, each labelling with probability one half, seeds reproducible."""
    unfolded = fit.unfolded(seed=0)
    assert unfolded.shape == fit.draws.shape
    np.testing.assert_array_equal(folded(fit.group, unfolded), fit.draws)
    swapped = int(np.any(unfolded != fit.draws, axis=-1).sum())
    assert stats.binomtest(swapped, 800, 0.5).pvalue > LEVEL
    np.testing.assert_array_equal(unfolded, fit.unfolded(seed=0))
    assert not np.array_equal(unfolded, fit.unfolded(seed=1))


def test_extending_continues_the_chains(fit):
    longer = fit.extend(150)
    assert longer.draws.shape == (2, 550, 4)
    assert longer.log_ratio.shape == longer.accepted.shape == (2, 550)
    for name in ("draws", "log_ratio", "accepted"):
        np.testing.assert_array_equal(getattr(longer, name)[:, :400], getattr(fit, name))
    assert longer.evaluations["value"] == fit.evaluations["value"] + 2 * 150 * fit.steps_per_draw
    assert longer.posterior["x0"].shape == (2, 550)
    np.testing.assert_array_equal(folded(fit.group, longer.draws), longer.draws)
    moved = np.any(np.diff(longer.draws, axis=1) != 0, axis=-1)
    assert moved[longer.accepted[:, 1:]].all()  # across the seam, too
    assert fit.draws.shape == (2, 400, 4)  # the original is left alone


def test_extensions_are_new_and_reproducible(fit):
    once, again = fit.extend(100), fit.extend(100)
    np.testing.assert_array_equal(once.draws, again.draws)
    twice = once.extend(100)
    recent = {tuple(point) for point in twice.draws[:, 500:].reshape(-1, 4)}
    earlier = {tuple(point) for point in once.draws[:, :-1].reshape(-1, 4)}
    assert len(recent & earlier) <= 2  # at most the states the chains stood in


def test_very_short_chains_do_not_repeat_their_proposals():
    """The stream of an extension is none of those that sampling used."""
    short = sampled(draws=2, chains=2)
    longer = short.extend(200)
    points = longer.draws[:, 2:][longer.accepted[:, 2:]]
    assert len({tuple(point) for point in points}) == len(points)


def test_an_extension_has_the_right_law():
    """Extended draws, thinned to one in eight, against exact folded draws."""
    fit = sampled(seed=2, draws=50, chains=8).extend(1600)
    thinned = fit.draws[:, 50::8].reshape(-1, 4)
    exact = Exact(20_000, 20)(jax.random.key(3), fit.problem).draws.reshape(-1, 4)
    for j in range(4):
        assert stats.ks_2samp(thinned[:, j], exact[:, j]).pvalue > LEVEL


@pytest.mark.parametrize("draws", [0, -3])
def test_extending_by_nothing_is_refused(fit, draws):
    with pytest.raises(ValueError, match=f"draws ≥ 1, got {draws}"):
        fit.extend(draws)


def test_extension_under_the_labels_of_the_proposal():
    fit = sampled(seed=1, draws=60, labels="proposal")
    longer = fit.extend(60)
    flat = jnp.asarray(longer.draws.reshape(-1, 4))
    swapped = jax.jit(jax.vmap(lambda x: fit.group.act(fit.group.element(1), x)))(flat)
    density = jax.jit(jax.vmap(fit.proposal.log_prob))
    likelier = np.asarray(density(flat)) >= np.asarray(density(swapped)) - 1e-9
    assert likelier.all() or not likelier.any()  # one renumbering of all draws alike is free
    middle = np.median(longer.draws, axis=(0, 1))
    assert fit.group.contains(jnp.asarray(middle))  # and that one sorts the labels


def test_effective_sizes(fit):
    assert fit.ess().shape == (4,)
    assert (fit.ess() > 80).all()
    frozen = dataclasses.replace(fit, accepted=np.zeros_like(fit.accepted))
    assert (frozen.ess() == 0).all()
    assert frozen.chain_summary().frozen == (0, 1)


def test_flow_is_the_proposal_without_its_guard(fit):
    assert eqx.tree_equal(fit.flow, made_accurate(FLOW))
    assert fit.proposal.main is fit.flow
    assert fit.proposal.weight == fit.certificate.safety.weight == 0.02


def test_user_parameters():
    problem = label_switching(2, 2, CENTRES)
    named = Problem(
        problem.log_density,
        problem.group,
        sampler=problem.sampler,
        names=["a0", "b0", "a1", "b1"],
        constrain=lambda x: {"level": x.reshape(2, 2)[:, 0], "scale": jnp.exp(x[1::2])},
    )
    fit = sampled(problem=named, draws=30)
    assert fit.names == ("a0", "b0", "a1", "b1")
    np.testing.assert_array_equal(fit.posterior["level"], fit.draws[..., ::2])
    np.testing.assert_allclose(fit.posterior["scale"], np.exp(fit.draws[..., 1::2]))


def test_problem_refuses_what_does_not_belong_together():
    group = Permutation(2, 1)
    with pytest.raises(ValueError, match="callable"):
        Problem(3.0, group)
    with pytest.raises(ValueError, match="folt group"):
        Problem(jnp.sum, "S2")
    with pytest.raises(ValueError, match="prior has dimension 3"):
        Problem(jnp.sum, group, prior=Gaussian(jnp.zeros(3), jnp.eye(3)))
    with pytest.raises(ValueError, match="expected 2 names"):
        Problem(jnp.sum, group, names=["a"])
    problem = Problem(lambda x, y: jnp.sum(x) + y, group, data=jnp.ones(()))
    with pytest.raises(ValueError, match="structure"):
        problem.with_data({"y": jnp.ones(())})
    assert float(problem.with_data(jnp.full((), 2.0)).log_prob(jnp.zeros(2))) == 2.0
