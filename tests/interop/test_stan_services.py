"""PyStan's compiled module, played by a Python file: constants, threads, processes, quantities."""

import pickle
import sys
import threading
import types

import numpy as np
import pytest

import folt
from folt.interop.stan_model import Program, Services, WrongThreadError, extension_in

MODULE = '''
"""Two normal means and a positive scale; what httpstan compiles has these functions."""
import math

def _exp(x):
    return math.exp(x) if x < 709.0 else math.inf

def _require(u):
    if len(u) != 3:
        raise RuntimeError("The number of parameters does not match the number in the model.")

def constrained_param_names(data):
    return ["mu.1", "mu.2", "s", "twice"]

def write_array(data, u, transformed, generated):
    _require(u)
    values = [u[0], u[1], _exp(u[2])]
    return values + [2 * u[0]] if transformed and generated else values

def transform_inits(data, values):
    return [*values["mu"], math.log(values["s"])]

def log_prob(data, u, jacobian):
    _require(u)
    s = _exp(u[2])
    if s > 1e6:
        raise ValueError("Exception: normal_lpdf: Scale parameter is inf")
    return -0.5 * (u[0] ** 2 + u[1] ** 2) - s * data["rate"] + (u[2] if jacobian else 0.0)

def log_prob_grad(data, u, jacobian):
    return [-u[0], -u[1], -_exp(u[2]) * data["rate"] + (1.0 if jacobian else 0.0)]
'''
KEEPS = "model { target += normal_lpdf(mu | 0, 1); }"
DROPS = "model { mu ~ normal(0, 1); } generated quantities { real z = normal_rng(0, 1); }"


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "stan_services_model.py"
    found.write_text(MODULE)
    return found


def test_the_module_has_bridgestans_methods(path):
    problem = folt.from_stan(Services(path, {"rate": 2.0}, KEEPS))
    assert problem.group.order >= 2  # the two means, whatever their signs
    assert not problem.proportional
    points = np.random.default_rng(0).normal(size=(4, 3))
    values = problem.parameters(points)
    s = values["s"]
    expected = -0.5 * np.sum(values["mu"] ** 2, axis=1) - 2.0 * s + np.log(s)
    np.testing.assert_allclose(problem.log_probs(points), expected, rtol=1e-12)
    np.testing.assert_allclose(problem.unconstrain(values), points, atol=1e-12)
    assert folt.check(problem).holds
    more = problem.generated(points, 0)
    np.testing.assert_allclose(more["twice"], 2 * values["mu"][:, 0])


def test_dropped_constants_and_random_quantities_are_told(path):
    problem = folt.from_stan(Services(path, {"rate": 1.0}, DROPS))
    assert problem.proportional
    with pytest.raises(ValueError, match="from one seed at every point"):
        problem.generated(np.zeros((1, 3)), 0)


def test_rejections_have_density_zero_and_other_threads_are_refused(path):
    program = Program(Services(path, {"rate": 1.0}, KEEPS))
    assert program.value(np.array([0.0, 0.0, 20.0]), False) == -np.inf
    raised = []

    def elsewhere():
        try:
            program.value(np.zeros(3), False)
        except WrongThreadError as error:
            raised.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "in the thread that loaded it" in raised[0]


def test_a_process_loads_the_module_again(path):
    program = Program(Services(path, {"rate": 3.0}, KEEPS))
    again = pickle.loads(pickle.dumps(program))
    u = np.array([0.1, 0.2, 0.3])
    assert again.value(u, True) == program.value(u, True)


def test_a_model_of_pystan_is_found_in_the_cache(path, monkeypatch):
    cache = types.ModuleType("httpstan.cache")
    cache.model_directory = lambda name: path.parent / name.split("/")[1]
    monkeypatch.setitem(sys.modules, "httpstan", types.ModuleType("httpstan"))
    monkeypatch.setitem(sys.modules, "httpstan.cache", cache)
    folder = path.parent / "abc"
    folder.mkdir()
    built = types.SimpleNamespace(model_name="models/abc", program_code=KEEPS, data={"rate": 1.0})
    with pytest.raises(ValueError, match="found none: build it anew"):
        folt.from_stan(built)
    monkeypatch.setattr("importlib.machinery.EXTENSION_SUFFIXES", [".py"])
    path.rename(folder / path.name)
    assert extension_in(folder).name == path.name
    assert folt.from_stan(built).dim == 3
