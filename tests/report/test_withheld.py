"""Statements in total variation are withheld where the verdict doubts what they rest on."""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import pytest

import folt
from folt.certificate.certificate import Certificate
from folt.certificate.outcomes import Outcome
from folt.fleet.rows import fit_row
from folt.report.page import page
from folt.terminal import fit_fields
from worse import WORSE, worse

DOUBTED = ("reference in doubt", "uncovered", "broken symmetry", "faulty", "frozen")
STATED = tuple(name for name in WORSE if name not in (*DOUBTED, "heavy tail"))
CLAIM = re.compile(r"steps to total variation|95 % confidence|off by at most|certified, ")


@pytest.fixture(scope="module")
def fit():
    """Two numbers near -3 and 3, under either label: exact draws and the right proposal."""
    place = jnp.array([-3.0, 3.0])

    def log_density(x):
        images = jnp.stack([x - place, x[::-1] - place])
        return jax.nn.logsumexp(-0.5 * jnp.sum(images**2, axis=1))

    problem = folt.Problem(
        log_density,
        folt.groups.Permutation(2, 1),
        sampler=lambda key: place + jax.random.normal(key, (2,)),
    )
    flow = folt.proposals.Gaussian(place, jnp.eye(2))
    made = folt.sample(problem, flow=flow, draws=300, effort=folt.Effort.quick(), progress=False)
    assert made.certificate.status.name == "good"
    return made


def doubted(fit, name):
    return dataclasses.replace(fit, certificate=worse(fit.certificate, name))


def shown(fit):
    """Everything that shows steps, but the page."""
    return {
        "summary": " ".join(fit.summary().split()),
        "fit": repr(fit),
        "certificate": repr(fit.certificate),
    }


def test_the_outcomes_that_withhold_are_the_gravest():
    """So that the verdict, which is the gravest that applies, tells whether to withhold."""
    withholding = [outcome.label for outcome in Outcome if outcome.doubt is not None]
    assert withholding == [outcome.label for outcome in Outcome][-len(DOUBTED) :] == list(DOUBTED)


@pytest.mark.parametrize("name", DOUBTED)
def test_nothing_is_stated_where_the_verdict_doubts(fit, name):
    given = doubted(fit, name)
    mixing = given.certificate.mixing
    assert given.certificate.status.name == name
    assert set(mixing.steps.values()) == {None}
    assert mixing.ess is None
    assert float(mixing.bound(1_000)) == 1.0
    assert given.certificate.distance == 1.0
    assert mixing.reason.startswith("Not stated, because ")
    for where, text in shown(given).items():
        assert "Not stated, because" in text, where
        assert not CLAIM.search(text), where
    assert fit_row(given)["steps"] is None
    told = json.loads(json.dumps(fit_fields(given), default=float))["certificate"]["mixing"]
    assert set(told["steps"].values()) == {None}
    assert told["reason"] == mixing.reason
    assert "computed" not in json.dumps(given.certificate.to_dict())


@pytest.mark.parametrize("name", ["uncovered", "reference in doubt"])
def test_the_page_states_nothing_either(fit, name):
    html = page(doubted(fit, name))
    assert "Not stated, because" in html
    assert not CLAIM.search(html)
    assert not re.search(r"\d+ after \d|steps certified", html)


@pytest.mark.parametrize("name", STATED)
def test_other_verdicts_state_what_was_certified(fit, name):
    """The mutant of withholding always, and of withholding under the wrong outcomes."""
    given = doubted(fit, name)
    assert given.certificate.mixing.steps == fit.certificate.mixing.steps
    assert all("steps to total variation" in text for text in shown(given).values())


@pytest.mark.parametrize("name", DOUBTED)
def test_what_was_computed_is_kept_for_rules_to_come(fit, name, tmp_path):
    """A file keeps it, and a certificate that is mended states it again."""
    given = doubted(fit, name)
    if name in ("uncovered", "frozen"):
        given = dataclasses.replace(
            given, certificate=folt.load(given.save(tmp_path / "f.nc")).certificate
        )
    certificate = given.certificate
    assert certificate.mixing.computed == fit.certificate.mixing
    mended = dataclasses.replace(
        certificate, **{part: getattr(fit.certificate, part) for part in WORSE[name]}
    )
    assert mended.mixing == fit.certificate.mixing
    assert mended.status == fit.certificate.status
    back = Certificate.from_dict(certificate.to_dict())
    assert back.to_dict() == certificate.to_dict()
