"""What a job is recognised by."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import folt
from fleet_jobs import doubled, pair, square
from folt.fleet import Here, Job, fit_many
from folt.fleet.identity import identity
from folt.fleet.work import Fault

ROOT = Path(__file__).parents[2]


def test_fingerprints_know_what_matters():
    array, text = np.arange(3.0), "a"
    assert identity(array) == identity(array.copy()) != identity(array + 1)
    assert identity(array) != identity(array.astype(np.float32))
    assert identity(functools.partial(square, 1)) != identity(functools.partial(square, 2))
    assert identity(square) != identity(doubled)
    assert identity(lambda: array) != identity(lambda: text)
    assert identity(folt.Effort.quick()) != identity(folt.Effort.default())
    assert identity(folt.Effort.quick()) == identity(folt.Effort.quick())
    assert identity({1, 2}) == identity({2, 1})
    assert identity(Path(__file__)) == identity(Path(__file__).absolute())
    assert json.dumps(identity([array, square, folt.Effort.quick(), Fault.LOST, range(3), b"x"]))


def test_a_decorated_function_is_recognised_by_what_is_inside():
    def loud(function):
        lock = object()

        @functools.wraps(function)
        def wrapped(*arguments):
            assert lock
            return function(*arguments)

        return wrapped

    assert identity(loud(square)) == identity(square) != identity(loud(doubled))


def test_a_file_is_recognised_by_what_is_in_it(tmp_path):
    path, copy = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text("1\n")
    copy.write_text("1\n")
    before = identity(path)
    assert before == identity(copy)
    path.write_text("22\n")
    assert identity(path) != before


def test_another_process_finds_the_same_fingerprint():
    script = (
        "import json, fleet_jobs as t; from folt.fleet.identity import identity;"
        "print(json.dumps(identity([t.square, t.pair, [], [1.5, range(3)]])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{Path(__file__).parents[1]}"},
    )
    ours = identity([square, pair, [], [1.5, range(3)]])
    assert json.loads(done.stdout) == json.loads(json.dumps(ours))


MODULE = """
import math

LEVEL = 3
PRIOR = {"scale": 2.0}
OTHER = 5


def run():
    return {"value": [helper(one) for one in range(2)][0]}


def helper(x):
    return PRIOR["scale"] * math.exp(x) + (even(LEVEL) if x else 0)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n > 0 and even(n - 1)


def beside():
    return OTHER
"""

CHANGES = {
    "a setting": ("LEVEL = 3", "LEVEL = 4"),
    "a setting within one": ("2.0", "2.5"),
    "what it calls": ("math.exp(x)", "math.log(x + 1)"),
    "what that calls": ("return n > 0 and", "return n > 1 and"),
}


def module_of(folder, text):
    """The text as a module of its own; its file stays as it is while it is read."""
    path = folder / f"m{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("usercode", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["usercode"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_function_is_recognised_with_what_it_uses(tmp_path, change):
    before = module_of(tmp_path, MODULE)
    assert identity(module_of(tmp_path, MODULE).run) == identity(before.run)
    assert identity(module_of(tmp_path, MODULE.replace(*change)).run) != identity(before.run)


def test_what_a_function_does_not_use_may_change(tmp_path):
    before = module_of(tmp_path, MODULE)
    assert "OTHER" not in identity(before.run)["uses"]
    after = module_of(tmp_path, MODULE.replace("OTHER = 5", "OTHER = 6"))
    assert identity(after.run) == identity(before.run)
    assert identity(after.beside) != identity(before.beside)


def test_a_setting_that_changed_between_two_fleets_of_a_session_is_said(tmp_path):
    module, out = module_of(tmp_path, MODULE), tmp_path / "out"
    fit_many([Job("a", run=module.run)], out, runner=Here(), progress=False)
    module.LEVEL = 4
    with pytest.raises(ValueError, match=r"run\.uses\.LEVEL = 3, now it is 4: give another folder"):
        fit_many([Job("a", run=module.run)], out, runner=Here(), progress=False)
    changed = module_of(tmp_path, MODULE.replace("math.exp(x)", "math.log(x + 1)"))
    with pytest.raises(ValueError, match=r"a function was changed \(run, which uses helper\)"):
        fit_many([Job("a", run=changed.run)], out, runner=Here(), progress=False)
