"""`folt.certify` and `folt certify`: draws of somebody else's sampler, judged."""

import functools
import json

import numpy as np
import pytest

import folt
import folt.sampling.algorithm
from arviz_either import from_dict
from brief import from_moments
from folt.cli import run
from folt.models import label_switching
from folt.reference import Given
from folt.sampling import sample

MODEL = """
import folt

problem = folt.models.label_switching(2, 1, centres=[[0.0], [4.0]])
"""

CENTRES = np.array([0.0, 4.0])


def stuck_chains(seed=0, length=800):
    """Exact draws of the two-block target, every second chain under the other labelling."""
    draws = np.random.default_rng(seed).normal(CENTRES, 1.0, size=(4, length, 2))
    draws[::2] = draws[::2, :, ::-1]
    return {"x0": draws[:, :, 0], "x1": draws[:, :, 1]}


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    """The proposal from the moments of the draws: nothing here is about training."""
    monkeypatch.setattr(
        folt.sampling.algorithm, "sample", functools.partial(sample, flow=from_moments)
    )


def test_stuck_chains_are_folded_and_certified():
    """log Z is zero; four standard errors and a floor for the bias of the error itself: 1e-4."""
    problem = label_switching(2, 1, centres=CENTRES[:, None])
    draws = stuck_chains()
    apart = np.stack([draws["x0"], draws["x1"]], axis=-1)
    assert folt.reference.health(apart)[0] > 1.5
    fit = folt.certify(problem, from_dict(posterior=draws), seed=3, progress=False)
    assert fit.certificate.reference.rhat < 1.02
    assert fit.provenance["seed"] == 3
    assert fit.certificate.symmetry.order == 2
    evidence = fit.log_evidence
    assert abs(evidence.value) < 4 * evidence.standard_error + 1e-3
    assert np.all(np.diff(fit.draws, axis=-1) >= 0)
    same = folt.certify(problem, Given(apart), seed=3, progress=False)
    np.testing.assert_array_equal(same.draws, fit.draws)


def test_draws_of_another_posterior_are_not_good():
    problem = label_switching(2, 1, centres=CENTRES[:, None])
    draws = stuck_chains()
    shifted = {name: value + 1.0 for name, value in draws.items()}
    fit = folt.certify(problem, shifted, progress=False)
    assert fit.certificate.status.name not in ("good", "fair")


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere, so the command leaves it alone")
    (tmp_path / "model.py").write_text(MODEL)
    from_dict(posterior=stuck_chains()).to_netcdf("posterior.nc")
    assert run(["certify", "posterior.nc", "model.py:problem", "--json", "--out", "out"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["command"] == "certify"
    assert abs(told["log_evidence"]["value"]) < 0.1
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"fit.nc", "report.html"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.nc", "model.py:problem"], "found nothing at missing.nc"),
        (["model.py", "model.py:problem"], "cannot be read as netCDF"),
        (["other.nc", "model.py:problem"], "parameters x0, x1"),
        (["other.nc", "model.py:nothing"], "has no 'nothing'"),
    ],
)
def test_bad_input_is_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    from_dict(posterior={"mu": np.zeros((4, 10))}).to_netcdf("other.nc")
    assert run(["certify", *words, "--out", "out"]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "out").exists()
