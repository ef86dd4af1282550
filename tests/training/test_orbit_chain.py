"""Class chains are fitted to draws of large groups, and folt.sample goes all the way with them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from cases import random_chain
from folt.batching import map_points
from folt.groups import Blocks, Fixed, Joint, Permutation, Product, SignedPermutation, ZeroSum
from folt.groups.permutation import Relabelling
from folt.proposals import ClassChain, Mixture, OrbitSafety, StudentT
from folt.proposals.fold import Folded
from folt.training import (
    OrbitChain,
    OrbitMixture,
    Sample,
    TrainingTask,
    invariant_guard,
    proposal_maker,
)
from folt.training.chain_em import (
    chain_about,
    expectation,
    fit_chain,
    maximisation,
    spread_of,
    starting_chain,
)
from folt.training.chain_regression import ChainDescent, descend_chain, trial


def draws_of(chain: ClassChain, count: int, seed: int = 0) -> np.ndarray:
    keys = jax.random.split(jax.random.key(seed), count)
    images = jax.jit(jax.vmap(lambda key: chain.group.random_image(key, chain.sample(key))))
    return np.asarray(images(keys))


@pytest.mark.parametrize(
    "group", [Joint(3, (Fixed(1), Blocks(1))), SignedPermutation(2, 1)], ids=["fixed", "signed"]
)
def test_em_never_loses_likelihood(group: folt.groups.Group) -> None:
    points = draws_of(random_chain(group, 3), 320)
    spread = spread_of(group, points)
    chain = starting_chain(np.random.default_rng(1), group, points, 3)
    likelihoods = []
    for _ in range(8):
        moments, log_sums = expectation(chain, points)
        likelihoods.append(float(log_sums.mean()))
        chain = maximisation(group, moments, spread)
    # The priors of covariances and transitions may cost a little of what is gained.
    assert np.diff(likelihoods).min() > -1e-2
    assert likelihoods[-1] > likelihoods[0] + 0.1


def test_moments_count_every_point_once() -> None:
    group = Joint(3, (Fixed(1), Blocks(1)))
    chain = random_chain(group, 3)
    points = draws_of(chain, 320)[:45]
    moments, _ = expectation(chain, points)
    assert float(moments.first.sum()) == pytest.approx(45)
    np.testing.assert_allclose(moments.mass.sum(axis=1), 45)
    np.testing.assert_allclose(moments.steps.sum(axis=(1, 2)), 45)
    blocks, fixed = chain.form.split(points)
    np.testing.assert_allclose(moments.sums.sum(axis=(0, 1)), blocks.sum(axis=(0, 1)))
    np.testing.assert_allclose(moments.fixed_sums.sum(axis=0), fixed.sum(axis=0))


def test_one_class_finds_labels_where_the_sort_key_tells_nothing() -> None:
    """Components differ in their second coordinate, draws are sorted by the first."""
    m = 4
    group = Permutation(m, 2, sort_by=0)
    rng = np.random.default_rng(2)
    labelled = rng.standard_normal((1500, m, 2)) + np.stack([np.zeros(m), 5.0 * np.arange(m)], 1)
    order = np.argsort(labelled[..., 0], axis=1)
    points = np.take_along_axis(labelled, order[..., None], axis=1).reshape(-1, group.dim)
    start = chain_about(group, points, points[0])
    chain, _ = fit_chain(rng, group, points, start, (1500,) * 8)
    found = np.sort(np.asarray(chain.means)[:, 0, 1])
    np.testing.assert_allclose(found, 5.0 * np.arange(m), atol=0.3)


@pytest.fixture(scope="module")
def task() -> TrainingTask:
    """A target that is itself a class chain, so that the best proposal is known."""
    group = Permutation(4, 1)
    truth = random_chain(group, 2, spread=3.0)

    def evaluate(points: np.ndarray) -> np.ndarray:
        return map_points(Folded.log_prob, Folded(truth, group), points)

    training, selection = draws_of(truth, 640, 1), draws_of(truth, 256, 2)
    return TrainingTask(
        group=group,
        target=truth,
        guard=invariant_guard(group, training),
        guard_weight=0.02,
        evaluate=evaluate,
        training=Sample(training, evaluate(training)),
        selection=Sample(selection, evaluate(selection)),
    )


def test_regression_flattens_the_log_ratio_and_repeats_itself(task: TrainingTask) -> None:
    group = task.group
    generator, points = np.random.default_rng(3), task.training.points
    start = starting_chain(generator, group, points, 2)
    chain, _ = fit_chain(generator, group, points, start, (640,) * 3)
    key = jax.random.key(5)
    how = ChainDescent(steps=120, batch=128, rate=0.03)
    polished = descend_chain(key, chain, task, how)
    before, after = (trial(key, each, task).accept for each in (chain, polished))
    assert after > before + 0.3
    again = ChainDescent(steps=2, batch=128)
    one, other = (descend_chain(key, chain, task, again) for _ in range(2))
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_start_that_does_not_do_gives_way_to_the_chain(task: TrainingTask) -> None:
    """Also one of another kind; a chain is handed on."""
    chain, seen = random_chain(task.group, 2), []

    def beyond(key: object, task: object, start: object, progress: object) -> ClassChain:
        seen.append(start)
        return chain

    trainer = OrbitMixture(rounds=1, fresh=256, beyond=beyond)
    far = Mixture(jnp.zeros(1), jnp.full((1, 4), 50.0), jnp.eye(4)[None])
    for start in (far, None, chain):
        assert trainer(jax.random.key(6), task, start) is chain
    assert seen == [None, None, chain]
    brief = OrbitChain(classes=1, pivots=0, small=(64,), descent=ChainDescent(steps=2, batch=64))
    assert isinstance(brief(jax.random.key(7), task, far), ClassChain)


def test_guard_is_invariant_and_covers_all_labellings() -> None:
    group = Joint(4, (Fixed(1), Blocks(2)))
    points = draws_of(random_chain(group, 1), 400)
    guard = invariant_guard(group, points)
    images = np.asarray(group.orbit(jnp.asarray(points[0])))
    values = jax.jit(jax.vmap(guard.log_prob))(images)
    np.testing.assert_allclose(values, values[0], atol=1e-10)


GAP = 12.0
"""Between the centres below: two of them change places once in 10^17 draws."""


def separated(m: int) -> folt.Problem:
    """Unit normals about distant centres, under all labellings; its evidence is one."""
    group = Permutation(m, 1)
    centres = GAP * jnp.arange(m)

    def log_density(x: jax.Array) -> jax.Array:
        squares = jnp.sum((jnp.sort(x) - centres) ** 2)
        return -0.5 * squares - 0.5 * m * math.log(2 * math.pi) - math.lgamma(m + 1)

    def sampler(key: jax.Array) -> jax.Array:
        draw, label = jax.random.split(key)
        return group.random_image(label, centres + jax.random.normal(draw, (m,)))

    return folt.Problem(log_density, group, sampler=sampler)


def test_m_is_10_and_nothing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(self: object) -> None:
        raise AssertionError("the elements were listed")

    monkeypatch.setattr(Relabelling, "elements", property(forbidden))
    trainer = OrbitChain(
        classes=1,
        pivots=0,
        small=(512,) * 4,
        descent=ChainDescent(steps=20, batch=128),
    )
    quick = folt.Effort.quick()
    fit = folt.sample(separated(10), flow=trainer, draws=250, effort=quick, progress=False)
    assert isinstance(fit.proposal, OrbitSafety)
    guard, z = fit.proposal.guard, jnp.asarray(fit.draws[0, 0])
    assert isinstance(guard, StudentT)
    np.testing.assert_allclose(guard.log_prob(z), guard.log_prob(z[::-1]), rtol=1e-9)
    assert fit.accept_rate > 0.85
    evidence = fit.log_evidence
    assert abs(evidence.value) < 5 * evidence.standard_error + 1e-9
    assert fit.certificate.status.name == "good"
    assert fit.certificate.symmetry.order == math.factorial(10)
    images = fit.unfolded(0).reshape(-1, 10)
    assert not np.all(np.diff(images, axis=1) > 0)


def zero(x: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(x**2)


def test_large_groups_get_a_chain_and_small_ones_the_default() -> None:
    default = OrbitMixture()
    three, four = (folt.Problem(zero, Permutation(m, 2)) for m in (3, 4))
    assert proposal_maker(three, None, default) is default
    assert isinstance(proposal_maker(four, None, default).beyond, OrbitChain)
    assert proposal_maker(four, None, default, folt.Effort.thorough()) is default
    five = folt.Problem(zero, Permutation(5, 2))
    assert isinstance(proposal_maker(five, None, default), OrbitChain)
    six = folt.Problem(zero, Permutation(6, 2))
    assert isinstance(proposal_maker(six, None, default), OrbitChain)
    uneven = folt.Problem(zero, Joint(6, (Blocks(1), ZeroSum())))
    assert proposal_maker(uneven, None, default) is default


@pytest.mark.parametrize(
    ("problem", "flow", "message"),
    [
        (folt.Problem(zero, Permutation(15, 1)), OrbitChain(), "at most 14 labels, got 15"),
        (folt.Problem(zero, Permutation(200, 1)), None, "at most 20 exchangeable labels, got 200"),
        (folt.Problem(zero, Product(*[Permutation(7, 1)] * 2)), None, "whole blocks"),
        (folt.Problem(zero, Permutation(9, 1), invariant=False), None, "broken symmetry"),
        (folt.Problem(zero, Permutation(9, 1)), OrbitMixture(), "one by one"),
    ],
)
def test_what_cannot_be_summed_is_refused_at_once(
    problem: folt.Problem, flow: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr("folt.sampling.algorithm.require_symmetry", forbidden)
    with pytest.raises(ValueError, match=message):
        folt.sample(problem, flow=flow, progress=False)


def test_what_a_chain_may_cost_is_read_off_the_effort() -> None:
    six = folt.Problem(zero, Permutation(6, 2))
    quick, usual, thorough = (
        proposal_maker(six, None, None, effort)
        for effort in (folt.Effort.quick(), folt.Effort.default(), folt.Effort.thorough())
    )
    assert quick.rounds * quick.descent.steps < usual.rounds * usual.descent.steps
    assert usual.rounds * usual.descent.steps < thorough.rounds * thorough.descent.steps
    capped = proposal_maker(six, None, None, folt.Effort.default().within(30_000))
    assert capped.rounds <= 3


def test_classes_are_doubled_up_to_what_the_labels_allow() -> None:
    sizes = {m: OrbitChain()._sizes(Permutation(m, 1)) for m in (6, 10, 13, 14)}
    assert sizes == {6: (12, 24, 48), 10: (8, 16, 32), 13: (4,), 14: (4,)}


def test_no_class_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one class, got 0"):
        OrbitChain(0)
