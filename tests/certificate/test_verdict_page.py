"""The page of verdicts: every case gives the verdict it stands under, every cure runs."""

import contextlib
import re
from pathlib import Path

import jax.numpy as jnp
import pytest

import folt
import folt.sampling
from folt.certificate.outcomes import Outcome

PAGE = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
OPENING, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
CURED = ("fair", "undecided", "uncovered")
"""Verdicts whose cure is tried on the case of the page: the others' would take minutes."""

CASES = {section.split("\n", 1)[0]: BLOCK.search(section)[1] for section in SECTIONS}


def test_every_outcome_but_good_has_a_section_in_order():
    assert list(CASES) == [outcome.label for outcome in Outcome][1:]


@pytest.fixture(scope="module")
def names():
    """What the cases share; later ones may use what earlier ones defined, as a reader would."""
    found = {"__name__": "page"}
    exec(BLOCK.search(OPENING)[1], found)
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_case_gives_its_verdict(name, names, monkeypatch):
    sample = folt.sampling.sample
    monkeypatch.setattr(
        folt.sampling, "sample", lambda p, **options: sample(p, progress=False, **options)
    )
    exec(CASES[name], names)
    fit = names["fit"]
    assert fit.certificate.status.name == name
    if name in CURED:
        exec(f"cured = {fit.certificate.status.cure}", names | {"problem": fit.problem}, names)
        assert names["cured"].certificate.status.outcome.gravity < Outcome.named(name).gravity


@pytest.mark.parametrize("outcome", Outcome)
def test_every_cure_runs(outcome, monkeypatch, tmp_path):
    """As printed; `folt.sample` is replaced by the checks it begins with."""
    monkeypatch.chdir(tmp_path)
    group = folt.groups.Permutation(2, 1)
    problem = folt.Problem(lambda x: -0.5 * jnp.sum(x**2), group)
    asked = []
    monkeypatch.setattr(
        folt.sampling, "sample", lambda p, **options: asked.append(folt.check(p, **options))
    )

    class Fit:
        def unfolded(self):
            asked.append("unfolded")

        def report(self, path):
            asked.append(path)

    names = {"folt": folt, "problem": problem, "group": group, "fit": Fit()}
    with contextlib.redirect_stdout(None):
        exec(outcome.step.cure, {**names, "log_density": problem.log_density})
    assert asked or "folt.sample" not in outcome.step.cure
