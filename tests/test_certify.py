"""The certificate: every verdict can be reached, and it survives a trip through JSON."""

import dataclasses
import json
import math

import numpy as np
import pytest

from folt.certify import Certificate, Faults, certify, verdict
from folt.diagnostics import RHOS, ChainSummary, Core, summarise_chains

MOVING = ChainSummary(np.ones(1), np.ones(1), np.ones(1), np.ones(1), ())
FROZEN = dataclasses.replace(MOVING, frozen=(0, 3))
NO_CORE = Core(None, None, None, False, 700.0)


def core(gamma):
    return Core(0.0, gamma, gamma, True, 20_000.0)


DOUBT = ("R-hat is 1.200, above 1.01: the chains do not agree.",)

OUTCOMES = {
    "frozen": (core(0.9), FROZEN, 1.0, 0.0, DOUBT),
    "uncovered": (core(0.9), MOVING, 0.5, 0.9, DOUBT),
    "undecided": (NO_CORE, MOVING, 1.0, 0.9, DOUBT),
    "reference in doubt": (core(0.9), MOVING, 1.0, 0.9, DOUBT),
    "poor": (core(0.05), MOVING, 1.0, 0.9, ()),
    "fair": (core(0.3), MOVING, 1.0, 0.9, ()),
    "good": (core(0.9), MOVING, 1.0, 0.9, ()),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_outcome_is_reached_the_gravest_first(name):
    """Each case but the last also has the faults of those after it."""
    status = verdict(*OUTCOMES[name])
    assert status.name == name
    assert status.advice.endswith(".")
    assert len(status.advice) > 40


@pytest.mark.parametrize("coverage", [0.79, 1.26, math.inf, math.nan, 0.0])
def test_coverage_away_from_one_is_said(coverage):
    assert verdict(core(0.9), MOVING, coverage, 0.9).name == "uncovered"


def test_low_acceptance_alone_is_poor():
    assert verdict(core(0.9), MOVING, 1.0, 0.05).name == "poor"


def test_other_warnings_do_not_put_the_modes_in_doubt():
    assert verdict(core(0.9), MOVING, 1.0, 0.9, ("The effective sample size is low.",)).name == (
        "good"
    )


def log_ratios(scale=0.1, n=20_000, log_z=1.5):
    """h of N(0, 1) draws x under both laws, with log w = scale·x - scale²/2: exactly normalised."""
    generator = np.random.default_rng(0)
    shift = log_z - 0.5 * scale**2
    fresh = shift + scale * generator.normal(size=n)
    held_out = shift + scale * (scale + generator.normal(size=(80, n // 80)))
    return held_out, fresh


def certified(held_out, fresh, **options):
    chains = summarise_chains(np.random.default_rng(1).normal(size=(2, 100, 1)))
    return certify(held_out, fresh, chains, 0.9, **{"exact": True, **options})


def test_numbers_of_a_lognormal_weight():
    """Evidence, coverage and core of weights whose law is known, within 5 standard errors."""
    certificate = certified(*log_ratios())
    assert abs(certificate.evidence.value - 1.5) < 5 * certificate.evidence.standard_error
    assert certificate.coverage == pytest.approx(1.0, abs=5 * 0.1 / math.sqrt(20_000) * 2)
    # Two normal quantiles of the widened mass 1-ρ+2ε = .969 lie 2·2.16·scale apart.
    assert certificate.qc["target"][0.05].osc == pytest.approx(0.432, rel=0.1)
    assert certificate.effective == 20_000
    assert certificate.status.name == "good"
    assert set(certificate.qc) == {"target", "proposal"}
    assert all(set(cores) == set(RHOS) for cores in certificate.qc.values())
    assert certificate.full_osc >= certificate.qc["target"][0.025].osc
    assert 0 < certificate.gap_upper < 1


def test_dependent_draws_are_worth_less():
    held_out, fresh = log_ratios()
    sticky = np.repeat(held_out[:, ::10], 10, axis=1)
    certificate = certified(sticky, fresh, exact=False)
    assert certificate.effective < 0.2 * sticky.size
    assert certificate.qc["target"][0.05].n == pytest.approx(certificate.effective)
    assert not certificate.qc["target"][0.025].feasible


def test_faults_are_counted_apart_from_rejections():
    held_out, fresh = log_ratios()
    fresh[:7], fresh[7:9], fresh[9] = -np.inf, np.nan, np.inf
    assert certified(held_out, fresh).faults == Faults(7, 2, 1)


def test_a_reference_draw_without_density_shows():
    held_out, fresh = log_ratios()
    held_out[3, 4] = -np.inf
    certificate = certified(held_out, fresh)
    assert certificate.full_osc == math.inf
    assert certificate.status.name == "uncovered"


def same(a, b):
    """Equality of trees in which NaN equals NaN."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    return a == b


@pytest.mark.parametrize("defective", [False, True])
def test_tree_round_trip_keeps_everything(defective):
    held_out, fresh = log_ratios()
    if defective:
        held_out[0, 0], fresh = -np.inf, np.full(20, -np.inf)
    certificate = certified(held_out, fresh)
    back = Certificate.from_dict(certificate.tree())
    assert same(back.tree(), certificate.tree())
    assert defective or back == certificate


@pytest.mark.parametrize("defective", [False, True])
def test_json_has_no_nan_and_reads_back(defective):
    held_out, fresh = log_ratios()
    if defective:
        held_out, fresh = held_out[:1, :50] * np.nan, np.full(20, -np.inf)
    certificate = certified(held_out, fresh)
    text = json.dumps(certificate.to_dict(), allow_nan=False)
    tree = json.loads(text)
    assert list(tree["qc"]["target"]) == ["0.025", "0.05", "0.1", "0.25"]
    assert tree["qc"]["target"]["0.05"]["gamma"] == certificate.qc["target"][0.05].gamma
    back = Certificate.from_dict(tree)
    assert back.qc == certificate.qc
    assert back.status == certificate.status
    assert json.dumps(back.to_dict(), allow_nan=False) == text
