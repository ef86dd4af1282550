"""Sums over the likeliest labellings: exact against brute force, with mutants that are not."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from folt.groups import Blocks, Fixed, Joint, Permutation, SignedPermutation, ZeroSumRows
from folt.problem import Problem
from folt.problem.ratio import LogRatio, Target
from folt.proposals import Mixture, OrbitSafety, StudentT, TruncatedOrbit
from folt.proposals.fold import Folded
from folt.proposals.sums import orbit_sum
from folt.proposals.truncated import likely_arrangements, most_arrangements

GROUP = Joint(4, (Blocks(1), ZeroSumRows(), Fixed(1)))


def truncated(group=GROUP, kept=5, components=2, seed=0, kind=TruncatedOrbit):
    """A mixture with nothing special about it, and labels that it does not tell apart well."""
    generator = np.random.default_rng(seed)
    dim, m = group.dim, group.labels
    factors = np.tril(0.3 * generator.normal(size=(components, dim, dim))) + np.eye(dim)
    main = Mixture(
        jnp.asarray(generator.normal(size=components)),
        jnp.asarray(1.5 * generator.normal(size=(components, dim))),
        jnp.asarray(factors),
    )
    features = group.carried(jnp.zeros(dim)).shape[1]
    centres = jnp.asarray(generator.normal(size=(m, features)))
    roots = jnp.asarray(np.tile(np.eye(features), (m, 1, 1)))
    return kind(main, group, centres, roots, kept)


@pytest.mark.parametrize(("m", "count"), [(2, 2), (3, 4), (4, 6), (5, 9)])
def test_the_best_labellings_within_reach(m, count):
    """Against all labellings: those that move two or three labels, or two pairs, of the best."""
    scores = np.random.default_rng(m).normal(size=(20, m, m))
    found = likely_arrangements(scores, count)
    every = np.array(list(itertools.permutations(range(m))))
    for table, rows in zip(scores, found, strict=True):
        values = table[np.arange(m), every].sum(axis=1)
        best = every[values.argmax()]
        assert (rows[0] == best).all()
        changes = [np.argsort(best)[one] for one in every]  # where each label goes
        reach = [
            moved <= 3 or (moved == 4 and (change[change] == np.arange(m)).all())
            for change in changes
            for moved in [(change != np.arange(m)).sum()]
        ]
        within = np.sort(values[reach])[::-1][:count]
        np.testing.assert_allclose(
            np.sort(table[np.arange(m), rows].sum(axis=1))[::-1], within, atol=1e-12
        )


def test_hopeless_scores_still_give_different_labellings():
    scores = np.full((2, 6, 6), -np.inf)
    scores[1] = np.nan
    found = likely_arrangements(scores, most_arrangements(6))
    for rows in found:
        assert len({tuple(row) for row in rows}) == most_arrangements(6)
        assert (np.sort(rows, axis=1) == np.arange(6)).all()


@eqx.filter_jit
def log_sums(flow, points):
    return jax.vmap(flow.log_orbit_sum)(points)


@eqx.filter_jit
def surviving_sums(flow, points):
    """Σ_g q(g·z) over the images that survive as draws, image by image, and how many do."""
    orbits = jax.vmap(flow.group.orbit)(points)
    alive = jax.vmap(jax.vmap(flow.survives))(orbits)
    densities = jnp.exp(jax.vmap(jax.vmap(flow.log_prob))(orbits))
    return jnp.sum(jnp.where(alive, densities, 0.0), axis=1), jnp.sum(alive, axis=1)


def departure(flow, points):
    """How far the sum is from the density of what survives, relative."""
    truth, _ = surviving_sums(flow, points)
    return float(jnp.max(jnp.abs(jnp.exp(log_sums(flow, points)) / truth - 1.0)))


POINTS = np.random.default_rng(7).normal(size=(30, GROUP.dim))


def test_the_sum_is_the_density_of_what_survives():
    """Brute force: every image of a point is proposed, and lives or dies by itself."""
    flow, points = truncated(), jnp.asarray(POINTS)
    assert departure(flow, points) < 1e-10
    assert (surviving_sums(flow, points)[1] == flow.kept).all()
    images = jax.jit(jax.vmap(lambda z: flow.group.orbit(z)[17]))(points)
    own, moved = (log_sums(flow, each) for each in (points, images))
    np.testing.assert_allclose(own, moved, rtol=1e-10)
    whole = Folded(flow.main, flow.group)
    assert (own < jax.jit(jax.vmap(whole.log_prob))(points)).all()


class NotInverted(TruncatedOrbit):
    """A mutant: the element that folds a draw is taken for the one that it came by."""

    def survives(self, x):
        folding = self.group.folding_element(x)
        kept = self.arrangements(self.group.act(folding, x))
        return jnp.any(jnp.all(kept == folding, axis=1))


class NotOfTheOrbit(TruncatedOrbit):
    """A mutant: the labellings to keep depend on which image is looked at."""

    def likely_images(self, z):
        kept = self.arrangements(z)[: self.kept - 1]
        kept = jnp.concatenate([jnp.arange(self.group.labels)[None], kept])
        return jax.vmap(self.group.act, in_axes=(0, None))(kept, z)


@pytest.mark.parametrize("mutant", [NotInverted, NotOfTheOrbit])
def test_mutants_are_caught(mutant):
    assert departure(truncated(kind=mutant), jnp.asarray(POINTS)) > 0.01


def test_evidence_counts_the_dead_as_zeros_and_the_guard_never_dies():
    """log Z of a normalised target within 4 errors; leaving out the dead is far off."""
    main = truncated()
    guard = StudentT(jnp.zeros(GROUP.dim), 0.5 * jnp.eye(GROUP.dim), 5.0)
    flow = OrbitSafety(main, guard, 0.3)
    scale = 1.5

    def log_density(x):
        return jnp.sum(jax.scipy.stats.norm.logpdf(x, scale=scale))

    ratio = LogRatio(Target(Problem(log_density, GROUP)), flow, GROUP)
    _, h, alive = ratio.propose(jax.random.key(0), 8_000)
    weights = np.exp(h)
    assert (weights[~alive] == 0.0).all()
    died = 1.0 - alive.mean()
    assert 0.3 < died < 0.7
    assert abs(weights.mean() - 1.0) < 4 * weights.std() / np.sqrt(weights.size)
    assert abs(weights[alive].mean() - 1.0) > 12 * weights.std() / np.sqrt(weights.size)


def test_two_labels_are_summed_whole():
    flow = truncated(Permutation(2, 2), kept=2)
    assert flow.whole
    points = jnp.asarray(POINTS[:, :4])
    whole = jax.jit(jax.vmap(Folded(flow.main, flow.group).log_prob))(points)
    np.testing.assert_allclose(log_sums(flow, points), whole, rtol=1e-12)


def test_what_cannot_be_truncated_is_refused():
    with pytest.raises(ValueError, match="all permutations of labels"):
        dataclasses.replace(truncated(), group=SignedPermutation(2, 2))
    with pytest.raises(ValueError, match="from 1 to 15 labellings"):
        truncated(kept=16)


def test_how_sure_labels_are_is_the_same_under_all_labels():
    flow = truncated()
    images = np.asarray(jax.jit(jax.vmap(lambda z: GROUP.orbit(jnp.asarray(z))))(POINTS[:6]))
    shares = orbit_sum(flow, GROUP).label_shares(images.reshape(-1, GROUP.dim))[0].reshape(6, -1)
    np.testing.assert_allclose(shares, shares[:, :1].repeat(shares.shape[1], axis=1), rtol=1e-9)
    assert (shares > 0).all()
    assert (shares <= 1).all()
