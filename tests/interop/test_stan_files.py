"""Stan programs, data and draws in files: what is taken, and what is refused in a sentence."""

import json

import numpy as np
import pytest
from tests import stan_models as stan

import folt
from folt.cli.application import run
from folt.cli.user_code import problem_at
from folt.interop import stan_files
from folt.reference import Given
from folt.store.draws import draws_by_name

CHAINS, DRAWS = 3, 60


@pytest.fixture(scope="module")
def drawn():
    """A model with entries of Stan's own names, and draws of its parameters."""
    model = stan.PythonModel(
        {"m": stan.real(2, 2), "s": stan.lower()},
        lambda values: stan.normal(values["m"], 1.0, 2.0) + stan.normal(values["s"]),
    )
    random = np.random.default_rng(0)
    free = random.normal(size=(CHAINS, DRAWS, 5))
    entries = np.array([[model.param_constrain(u) for u in chain] for chain in free])
    values = np.array([[model.log_density(u, jacobian=True) for u in chain] for chain in free])
    return model, entries, values


def write(folder, names, entries, values, comments="# method = sample\n"):
    paths = []
    for number, (rows, densities) in enumerate(zip(entries, values, strict=True)):
        path = folder / f"output_{number}.csv"
        lines = [
            ",".join(f"{v:.6g}" for v in [d + 3.0, 0.9, *row])
            for d, row in zip(densities, rows, strict=True)
        ]
        head = ",".join(["lp__", "accept_stat__", *names])
        path.write_text(f"{comments}{head}\n# adapted\n" + "\n".join(lines) + "\n# elapsed\n")
        paths.append(path)
    return paths


def test_files_of_chains_are_read_by_name(tmp_path, drawn):
    model, entries, values = drawn
    paths = write(tmp_path, model.param_names(), entries, values)
    for given in (tmp_path, tmp_path / "output_*.csv", [str(path) for path in paths]):
        found = draws_by_name(given)
        assert set(found) == {"m", "s", "lp__"}
        assert found["m"].shape == (CHAINS, DRAWS, 2, 2)
        # Stan's first index runs fastest.
        np.testing.assert_allclose(found["m"][0, 0, 1, 0], entries[0, 0, 1], rtol=1e-5)
    problem = folt.from_stan(model, exchangeable=[])
    points = Given(paths).points(problem)
    assert points.shape == (CHAINS, DRAWS, 5)
    np.testing.assert_allclose(problem.parameters(points)["m"], found["m"], rtol=1e-9)


def test_draws_of_the_warm_up_are_left_out(tmp_path, drawn):
    model, entries, values = drawn
    comments = "#     num_warmup = 40 (Default: 1000)\n#     save_warmup = 1\n#     thin = 2\n"
    write(tmp_path, model.param_names(), entries, values, comments)
    assert draws_by_name(tmp_path)["s"].shape == (CHAINS, DRAWS - 20)


def test_what_is_no_file_of_draws_is_refused(tmp_path, drawn):
    model, entries, values = drawn
    first, second, _ = write(tmp_path, model.param_names(), entries, values)
    second.write_text("\n".join(second.read_text().splitlines()[:-5]))
    with pytest.raises(ValueError, match=r"chains of equal length, got 60 draws in .* and 5"):
        draws_by_name(tmp_path)
    first.write_text(first.read_text()[:-40])
    with pytest.raises(ValueError, match="is not whole, or holds something else"):
        draws_by_name(first)
    first.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="CSV file of draws that CmdStan wrote"):
        draws_by_name(first)


def test_draws_of_another_program_are_refused(tmp_path, drawn):
    """Their log density differs from this program's by more than a constant; three is one."""
    model, entries, values = drawn
    write(tmp_path, model.param_names(), entries, values)
    stan_files.require_draws_of(folt.from_stan(model, exchangeable=[]), tmp_path)
    other = stan.PythonModel(
        model.parameters, lambda v: stan.normal(v["m"], 0.0, 1.0) + stan.normal(v["s"])
    )
    with pytest.raises(ValueError, match=r"another program or other data: .* spread over"):
        stan_files.require_draws_of(folt.from_stan(other, exchangeable=[]), tmp_path)


def test_programs_and_data_that_cannot_be_used_are_refused_in_one_line(
    tmp_path, monkeypatch, capsys, drawn
):
    program, data = tmp_path / "model.stan", tmp_path / "data.json"
    words = ["sample", str(program), "--data", str(data), "--out", str(tmp_path / "out")]

    def refused(words, message):
        assert run(words) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line
        assert not (tmp_path / "out").exists()

    refused(words, "expected a Stan program, found nothing at")
    program.write_text("parameters { real x; }")
    refused(words, "expected a JSON file with data, found nothing at")
    data.write_text("[1, 2]")
    refused(words, "expected an object {name: value}")
    data.write_text("{")
    refused(words, "is no JSON")
    data.write_text(json.dumps({"N": 3}))
    monkeypatch.setattr(stan_files.importlib.util, "find_spec", lambda name: None)
    refused(words, "pip install bridgestan, or pip install pystan")
    refused(["sample", "model.py:problem", "--data", str(data)], "--data with a Stan program")

    def mismatch(program, data):
        raise RuntimeError("noise\nException: variable does not exist; variable name=y\nmore")

    monkeypatch.setattr(
        stan_files.importlib.util, "find_spec", lambda name: (name == "httpstan") or None
    )
    monkeypatch.setattr(stan_files, "_services", mismatch)
    refused(words, "variable does not exist; variable name=y")
    monkeypatch.setattr(stan_files, "_services", lambda program, data: drawn[0])
    assert problem_at(str(program), data).dim == 5
