"""The seal: no draw that a proposal has learnt from judges it, whatever it started from."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from folt.certificate.cautions import Concern, folded_chains
from folt.certificate.learnt import MOST, Learnt, digests_of, known_first, split_by_chain
from folt.groups import Permutation, Trivial
from folt.models import gaussian_mixture
from folt.reference import Given, Reference
from folt.sampling import algorithm
from folt.types import root_key

PLANE = folt.Problem(lambda x: -0.5 * jnp.sum(x**2), Permutation(2, 1))
UNFOLDED = folt.Problem(PLANE.log_density, Trivial(2))
LINE = folt.Problem(lambda x: -0.5 * jnp.sum(x**2), Trivial(1))
QUICK = {"effort": folt.Effort.quick(), "progress": False, "draws": 200}


class AsItStands:
    """A trainer that learns nothing: the draws alone are of interest here."""

    def __call__(self, key, task, start, progress):
        return folt.proposals.Gaussian(jnp.zeros(2), jnp.eye(2))


def chains(count, length=250, seed=0, dim=2):
    return np.random.default_rng(seed).normal(size=(count, length, dim))


@pytest.fixture
def splits(monkeypatch):
    """Every split that sampling makes, with its run."""
    made = []

    def watched(run, *sizes):
        made.append((run, split_by_chain(run, *sizes)))
        return split_by_chain(run, *sizes)  # its seal may be broken once more

    monkeypatch.setattr(algorithm, "split_by_chain", watched)
    return made


def rows(points):
    return {row.tobytes() for row in np.asarray(points).reshape(-1, np.shape(points)[-1])}


class Flat:
    """A log ratio of zero, for which a seal may be broken."""

    def at(self, points, known=None):
        return np.zeros(len(points))


def sealed(split):
    return rows(split.certify.judge(Flat()).points)


def learnt_from(split):
    return rows(split.train) | rows(split.select)


def fitted(reference, problem=PLANE, **options):
    return folt.sample(problem, reference=reference, flow=AsItStands(), **{**QUICK, **options})


def concerns(fit):
    return {caution.concern for caution in fit.certificate.reference.cautions}


@pytest.fixture(scope="module")
def first():
    """A fit that learns from the first chains of thirty-nine, as in the finding."""
    return fitted(chains(39))


def test_a_refit_on_the_same_draws_seals_only_what_is_new_to_it(first, splits):
    """The start learnt from more chains than the refit asks for: those were sealed before."""
    small = dataclasses.replace(folt.Effort.quick(), training_draws=500)
    fit = fitted(chains(39), start=first, effort=small)
    known = first.learnt.draws // 250
    assert splits[-1][0].known == known > 2
    assert Concern.KNOWN_CHAINS in concerns(fit)
    taught, _ = digests_of(PLANE, splits[-1][1].certify.judge(Flat()).points)
    assert not np.isin(taught, first.learnt.exact.values).any()
    assert fit.learnt.draws > first.learnt.draws


def test_a_digest_that_is_ignored_would_be_noticed(first, splits, monkeypatch):
    monkeypatch.setattr(Learnt, "knows", lambda self, problem, draws: np.zeros(len(draws), bool))
    small = dataclasses.replace(folt.Effort.quick(), training_draws=500)
    fitted(chains(39), start=first, effort=small)
    taught, _ = digests_of(PLANE, splits[-1][1].certify.judge(Flat()).points)
    assert np.isin(taught, first.learnt.exact.values).any()


def arranged(known):
    """Draws that were learnt from, brought again in other arrangements."""
    mixed = np.random.default_rng(1).permutation(known.reshape(-1, 2)).reshape(known.shape)
    return {
        "as they were": known,
        "thinned": known[:, ::3],
        "sliced": known[:, 100:200],
        "reversed": known[::-1, ::-1],
        "shuffled": mixed,
        "in other chains": known.reshape(-1, 125, 2),
        "relabelled": known[:, :, ::-1],
        "beside new draws": np.concatenate([known, chains(len(known), seed=9)], axis=1),
        "a touch of rounding": known * (1.0 + 1e-15),
        "in single precision": known.astype(np.float32),
    }


@pytest.mark.parametrize("arrangement", arranged(chains(8)))
def test_known_draws_are_recognised_in_every_arrangement(arrangement):
    learnt = Learnt.of(PLANE, folded_chains(PLANE.group, chains(8)))
    draws = arranged(chains(8))[arrangement]
    run = Given(draws)(None, PLANE)
    assert known_first(run, PLANE, learnt).known == len(run.draws)
    with pytest.raises(ValueError, match="learnt from every reference chain"):
        split_by_chain(known_first(run, PLANE, learnt))


def test_other_names_do_not_hide_draws():
    renamed = folt.Problem(PLANE.log_density, Trivial(2), names=["b", "a"])
    assert Learnt.of(UNFOLDED, chains(4)).knows(renamed, chains(4)).all()


def test_new_draws_are_never_taken_for_known_ones():
    """Also in one dimension and far from zero, where numbers resemble each other most."""
    for place, scale in ((0.0, 1.0), (1e3, 1e-3)):
        old, new = (place + scale * chains(40, dim=1, seed=seed) for seed in (0, 1))
        assert not Learnt.of(LINE, old).knows(LINE, new).any()


def test_a_common_first_draw_does_not_make_chains_known():
    old, new = chains(8, 60), chains(8, 60, seed=1)
    old[:, 0] = new[:, 0] = 0.5
    assert not Learnt.of(PLANE, old).knows(PLANE, new).any()


def test_auxiliary_coordinates_do_not_hide_draws():
    """Weights brought by name get a total that is drawn anew with every seed."""
    problem = gaussian_mixture(np.arange(12.0), 4)
    generator = np.random.default_rng(0)
    named = {
        name: np.abs(generator.normal(1.0, 0.3, size=(4, 200, *np.shape(value)))) + 0.1
        for name, value in problem.parameters(np.zeros(problem.dim)).items()
        if name != "weights"
    }
    named["weights"] = generator.dirichlet(np.ones(4), size=(4, 200))
    one, other = (Given(named)(root_key(seed), problem).draws for seed in (0, 1))
    assert np.abs(one - other).max() > 0.1
    assert Learnt.of(problem, one).knows(problem, other).all()


def test_more_draws_than_are_kept_are_still_recognised():
    many = chains(80, 400)
    learnt = Learnt.of(PLANE, many[:40]) | Learnt.of(PLANE, many[40:])
    assert learnt.exact.values.size == MOST
    assert learnt.draws == many.size // 2
    assert abs(learnt.exact.size / learnt.draws - 1.0) < 0.1  # nine standard errors
    assert learnt.digest == Learnt.of(PLANE, many).digest
    assert learnt.knows(PLANE, many[:, ::4]).all()
    assert not learnt.knows(PLANE, chains(20, 100, seed=5)).any()


def test_a_start_with_the_same_seed_does_not_repeat_the_run_that_taught_it(splits):
    """Samplers too: with one key for both, what judged the refit had taught the start."""
    exact = folt.Problem(
        PLANE.log_density, PLANE.group, sampler=lambda key: jax.random.normal(key, (2,))
    )
    options = {"flow": AsItStands(), "reference": folt.reference.Exact(4_000, 40), **QUICK}
    start = folt.sample(exact, **options)
    again = folt.sample(exact, start=start, **options)
    (before, one), (after, two) = splits
    assert rows(before.draws).isdisjoint(rows(after.draws))
    assert learnt_from(one).isdisjoint(sealed(two))
    third = folt.sample(exact, start=start, **options)
    np.testing.assert_array_equal(again.draws, third.draws)


def test_digests_are_kept_by_the_file_and_older_files_say_that_they_do_not_know(first, tmp_path):
    loaded = folt.load(first.save(tmp_path / "fit.nc"))
    for kind in ("exact", "rounded"):
        there, here = (getattr(each.learnt, kind) for each in (loaded, first))
        np.testing.assert_array_equal(there.values, here.values)
        assert there.limit == here.limit
    assert loaded.learnt.draws == first.learnt.draws
    older = dataclasses.replace(first, learnt=None)
    loaded = folt.load(older.save(tmp_path / "older.nc"))
    assert loaded.learnt is None
    fit = fitted(chains(39, seed=3), start=loaded)
    assert Concern.UNKNOWN_START in concerns(fit)
    assert not fit.certificate.reference.sealed  # so that it cannot be good
    assert fit.learnt is None  # what it started from stays unknown


def test_the_document_of_a_command_names_the_draws(first):
    from folt.terminal import fit_fields

    told = json.loads(json.dumps(fit_fields(first)["learnt"]))
    assert told == {"draws": first.learnt.draws, "digest": first.learnt.digest}


@pytest.mark.parametrize(
    ("count", "length", "training", "certification"),
    [(2, 5000, 2048, 3072), (3, 3000, 5120, 5120), (5, 2000, 5120, 5120), (4, 1000, 2048, 3072)],
)
def test_no_supplied_chain_is_learnt_from_and_sealed(count, length, training, certification):
    """The sizes of the finding; every draw carries the number of its chain."""
    draws = chains(count, length)
    draws += 100.0 * np.arange(count)[:, None, None]
    run = Given(draws)(None, UNFOLDED)
    parts = split_by_chain(run, training, certification)
    learn, judge = (
        set(np.round(points[..., 0] / 100.0).ravel())
        for points in (np.concatenate(parts[:2]), parts.certify.judge(Flat()).points)
    )
    assert learn
    assert judge
    assert learn.isdisjoint(judge)


@pytest.mark.parametrize("draws", [chains(1, 20_000)[0], chains(1, 20_000)])
def test_a_single_chain_is_said_and_never_good(draws):
    fit = fitted(draws, UNFOLDED)
    assert fit.certificate.status.name == "fair"
    assert Concern.ONE_CHAIN in concerns(fit)
    told = folt.reference.Given(draws.reshape(-1, 2), chains=4)
    assert fitted(told, UNFOLDED).certificate.status.name == "good"


def test_copies_of_a_chain_are_left_out():
    draws = chains(4, 500)
    run = Given(draws[[0, 1, 0, 2, 3, 3]])(None, PLANE)
    assert {caution.concern for caution in run.cautions} >= {Concern.COPIED_CHAINS}
    np.testing.assert_array_equal(run.draws, Given(draws)(None, PLANE).draws)


def test_known_values_move_with_their_chains():
    draws = chains(6, 100)
    run = Reference(draws, 1.0, 600.0, True, {}, log_target=draws[..., 0])
    moved = known_first(run, PLANE, Learnt.of(PLANE, draws[[4, 2]]))
    assert moved.known == 2
    np.testing.assert_array_equal(moved.draws[..., 0], moved.log_target)
    np.testing.assert_array_equal(moved.draws, draws[[2, 4, 0, 1, 3, 5]])


def test_what_is_learnt_from_is_rounded_up_unless_the_seal_needs_the_rest():
    """Three chains in halves, half of the rows asked for: two chains, or one where 3000 decide."""
    for length, learnt in ((3_000, 2), (2_000, 1)):
        run = Given(chains(3, length))(None, UNFOLDED)
        parts = split_by_chain(run, 5_120, 5_120)
        assert (len(parts.train) + len(parts.select)) * (length // 2) == learnt * length
