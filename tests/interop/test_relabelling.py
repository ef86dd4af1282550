"""Relabelling of existing draws: permuted, never lost; every method finds planted labels."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import folt
from arviz_either import arviz, from_dict
from folt.cli import run
from folt.interop.relabelling import Ecr, GaussianOrbit, Pivot, Sort, Stephens
from folt.interop.relabelling.methods import assign, permuted, permuted_square, total_cost
from folt.interop.relabelling.relabel import METHODS

M, CHAINS, LENGTH, OBSERVATIONS = 3, 2, 300, 40


@pytest.fixture(scope="module")
def planted():
    """Clear components whose labels were shuffled draw by draw, with all that methods may use."""
    generator = np.random.default_rng(0)
    shape = (CHAINS, LENGTH, M)
    mu = np.array([-4.0, 0.0, 5.0]) + 0.5 * generator.normal(size=shape)
    sigma = np.exp(0.1 * generator.normal(size=shape)) * np.array([1.0, 2.0, 0.5])
    transition = generator.dirichlet([1.0] * M, size=shape)
    truth = generator.integers(M, size=OBSERVATIONS)
    z = np.where(
        generator.uniform(size=(CHAINS, LENGTH, OBSERVATIONS)) < 0.85,
        truth,
        generator.integers(M, size=(CHAINS, LENGTH, OBSERVATIONS)),
    )
    logits = 3.0 * np.eye(M)[truth] + generator.normal(size=(CHAINS, LENGTH, OBSERVATIONS, M))
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    clean = {"mu": mu, "sigma": sigma, "T": transition, "z": z, "p": p}
    shuffle = generator.permuted(np.tile(np.arange(M), (CHAINS, LENGTH, 1)), axis=2)
    where = np.argsort(shuffle, axis=2)
    mixed = {
        "mu": np.take_along_axis(mu, shuffle, axis=2),
        "sigma": np.take_along_axis(sigma, shuffle, axis=2),
        "T": np.take_along_axis(
            np.take_along_axis(transition, shuffle[..., None], axis=2),
            shuffle[:, :, None, :],
            axis=3,
        ),
        "z": np.take_along_axis(where, z, axis=2),
        "p": np.take_along_axis(p, shuffle[:, :, None, :], axis=3),
    }
    return clean, mixed


CASES = {
    "sort": (Sort(), {}),
    "pivot": (Pivot(), {}),
    "gaussian": (GaussianOrbit(), {}),
    "stephens": (Stephens(), {"probabilities": "p"}),
    "ecr": (Ecr(), {"allocations": "z"}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_method_finds_planted_labels(name, planted):
    clean, mixed = planted
    method, extra = CASES[name]
    done = folt.relabel(
        {key: mixed[key] for key in ("mu", "sigma", "T")},
        ["mu", "sigma"],
        square=["T"],
        method=method,
        **{key: mixed[value] for key, value in extra.items()},
    )
    for key in ("mu", "sigma", "T"):
        np.testing.assert_array_equal(done.draws[key], clean[key])
    assert done.settled
    assert done.method == name
    before = max(row.rhat_before for row in done.health if row.name.startswith("mu"))
    after = max(row.rhat_after for row in done.health)
    assert after < 1.05
    assert before >= 1.0


def test_a_method_and_a_single_variable_may_be_words():
    draws = {"mu": np.random.default_rng(0).normal(size=(2, 20, 3)), "w": np.ones((2, 20, 4))}
    found = folt.relabel(draws, "mu", method="sort")
    assert (np.diff(found.draws["mu"], axis=-1) >= 0).all()
    assert found.method == "sort"


def test_relabelled_draws_are_shown_in_three_lines():
    mu = np.random.default_rng(0).normal(size=(2, 50, 2)) * 0.1 + [0.0, 3.0]
    mu[1] = mu[1, :, ::-1]
    lines = repr(folt.relabel({"mu": mu})).splitlines()
    assert len(lines) == 3
    assert "mu with 2 labels; 50% of draws permuted" in lines[1]


def test_methods_have_the_names_they_are_asked_by():
    assert set(METHODS) == set(CASES)


@given(seed=st.integers(0, 10_000), m=st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_draws_are_permuted_never_lost(seed, m):
    generator = np.random.default_rng(seed)
    draws = {"a": generator.normal(size=(1, 20, m)), "b": generator.normal(size=(1, 20, m, 2))}
    done = folt.relabel(draws, method=[Pivot(), GaussianOrbit(), Sort()][seed % 3])
    assert (np.sort(done.permutations, axis=2) == np.arange(m)).all()
    order = done.permutations
    np.testing.assert_array_equal(done.draws["a"], np.take_along_axis(draws["a"], order, 2))
    np.testing.assert_array_equal(
        done.draws["b"], np.take_along_axis(draws["b"], order[..., None], 2)
    )


@given(seed=st.integers(0, 10_000), m=st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_assignment_is_the_cheapest_of_all(seed, m):
    """Against all m! by hand, ties included; the shortcut and the solver agree."""
    from itertools import permutations

    generator = np.random.default_rng(seed)
    costs = np.round(generator.normal(size=(12, m, m)), 1)
    found = assign(costs)
    every = np.array(list(permutations(range(m))))
    labels = np.arange(m)
    cheapest = sum(min(costs[i, one, labels].sum() for one in every) for i in range(12))
    assert total_cost(costs, found) == pytest.approx(cheapest)


def test_square_matrices_move_on_both_sides():
    values = np.arange(9.0).reshape(1, 3, 3)
    order = np.array([[2, 0, 1]])
    expected = values[0][np.ix_([2, 0, 1], [2, 0, 1])]
    np.testing.assert_array_equal(permuted_square(values, order)[0], expected)
    np.testing.assert_array_equal(permuted(values, order)[0], values[0][[2, 0, 1]])


def test_pivot_labels_components_that_no_single_key_separates():
    """Sorted by mean two components mix, because their means agree; by both they do not."""
    generator = np.random.default_rng(1)
    mu = np.array([0.0, 0.0, 6.0]) + 0.3 * generator.normal(size=(2, 200, 3))
    sigma = np.array([0.5, 3.0, 1.0]) * np.exp(0.05 * generator.normal(size=(2, 200, 3)))
    by_mean = folt.relabel({"mu": mu, "sigma": sigma}, method=Sort())
    by_pivot = folt.relabel({"mu": mu, "sigma": sigma})
    assert by_mean.draws["sigma"][..., 0].std() > 1.0
    assert by_pivot.draws["sigma"].std(axis=(0, 1)).max() < 0.5


def test_ten_components_without_enumerating():
    """10! = 3 628 800 permutations are never listed; all labels are found."""
    generator = np.random.default_rng(2)
    mu = 4.0 * np.arange(10) + 0.5 * generator.normal(size=(2, 500, 10))
    mixed = generator.permuted(mu, axis=2)
    done = folt.relabel({"mu": mixed})
    np.testing.assert_allclose(done.draws["mu"], np.sort(mu, axis=2))


BAD = {
    "no variable": ({"mu": np.zeros((2, 9, 3))}, {"variables": ["nu"]}, "no variable 'nu'"),
    "too few axes": ({"mu": np.zeros((2, 9))}, {}, "component"),
    "unequal": ({"a": np.zeros((2, 9, 3)), "b": np.zeros((2, 9, 2))}, {}, "as many for all"),
    "not finite": ({"a": np.full((2, 9, 3), np.nan)}, {}, "not finite"),
    "one component": ({"a": np.zeros((2, 9, 1))}, {}, "two components"),
    "sort key": ({"a": np.zeros((2, 9, 3))}, {"sort_by": "b"}, "sort_by"),
    "no probabilities": ({"a": np.zeros((2, 9, 3))}, {"method": Stephens()}, "probabilities"),
    "no allocations": ({"a": np.zeros((2, 9, 3))}, {"method": Ecr()}, "allocations"),
    "wrong probabilities": (
        {"a": np.zeros((2, 9, 3))},
        {"probabilities": np.zeros((2, 9, 5, 4))},
        "probabilities of shape",
    ),
    "only matrices": ({"T": np.zeros((2, 9, 3, 3))}, {"square": ["T"]}, "at least one variable"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(name):
    draws, options, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        folt.relabel(draws, **options)


def written(tmp_path, mixed):
    data = from_dict(
        posterior={**mixed, "other": np.zeros((CHAINS, LENGTH))},
        sample_stats={"lp": np.zeros((CHAINS, LENGTH))},
    )
    path = tmp_path / "posterior.nc"
    data.to_netcdf(str(path))
    return path


def test_command_relabels_a_file(tmp_path, planted, capsys):
    clean, mixed = planted
    path, out = written(tmp_path, mixed), tmp_path / "out"
    options = ["--vars", "mu,sigma", "--square", "T", "--allocations", "z", "--probabilities", "p"]
    assert run(["relabel", str(path), *options, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "R-hat before" in printed
    assert "another question" in printed
    back = arviz.from_netcdf(str(out / "relabelled.nc"))
    found = {name: back.posterior[name].values for name in ("mu", "T", "z", "p")}
    for name, values in found.items():
        np.testing.assert_array_equal(values, clean[name])
    assert set(back.posterior) == {*mixed, "other"}
    assert "lp" in back.sample_stats
    assert json.loads(back.posterior.attrs["folt_relabelled"])["method"] == "stephens"
    assert (out / "relabelled.png").read_bytes().startswith(b"\x89PNG")


def test_command_prints_json_and_refuses_in_one_line(tmp_path, planted, capsys):
    path = written(tmp_path, planted[1])
    assert run(["relabel", str(path), "--vars", "mu", "--json", "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["settled"]
    cases = {
        "no variable 'nu'": ["relabel", str(path), "--vars", "nu"],
        "found nothing": ["relabel", str(tmp_path / "none.nc"), "--vars", "mu"],
        "cannot be read": ["relabel", str(tmp_path / "relabelled.png"), "--vars", "mu"],
        "method": ["relabel", str(path), "--vars", "mu", "--method", "magic"],
    }
    for words, arguments in cases.items():
        assert run([*arguments, "--out", str(tmp_path / "never")]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
    assert not (tmp_path / "never").exists()
