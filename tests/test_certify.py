"""The certificate: every verdict can be reached, and it survives a trip through JSON."""

import dataclasses
import json
import math

import numpy as np
import pytest

from folt.boundary import BoundaryMass
from folt.certificate.certificate import Certificate, SymmetryFacts, certify
from folt.certificate.held_out import Judged
from folt.certificate.verdict import RULES, Findings, verdict
from folt.chains import Chains
from folt.diagnostics import RHOS, Agreement, Core, Coverage, Faults, mixing_certificate

RNG = np.random.default_rng(5)
CLOSE = 0.1 * RNG.normal(size=20_000)
WIDE = 2.0 * RNG.normal(size=20_000)


def mixing(log_ratios, shift=0.0):
    """Certificate of log-normal weights: h is normal under both laws, moved by its variance."""
    target = log_ratios + shift + log_ratios.var()
    return mixing_certificate(log_ratios, target.reshape(80, -1), exact=True)


GOOD = Findings(
    frozen=0,
    faults=Faults(0, 0, 0),
    symmetry_defect=0.0,
    coverage=Coverage(1.0, 0.001, 0.98),
    agreement=Agreement(0.5, 0, 1.0),
    core=Core(0.1, 0.95, 0.9, True, 20_000.0),
    mixing=mixing(CLOSE),
    accept_rate=0.95,
    ambiguity=0.0,
    reference_warnings=(),
)
DOUBT = ("R-hat is 1.200, above 1.01: the chains do not agree.",)
SLOW = mixing(WIDE)
NEVER = mixing(CLOSE, shift=40.0)

WORSE = {
    "fair": {"accept_rate": 0.3},
    "ambiguous labels": {"ambiguity": 0.4},
    "poor": {"accept_rate": 0.02},
    "heavy tail": {"mixing": NEVER},
    "undecided": {"core": Core(None, None, None, False, 700.0)},
    "reference in doubt": {"reference_warnings": DOUBT},
    "uncovered": {"coverage": Coverage(0.8, 0.01, 0.8)},
    "broken symmetry": {"symmetry_defect": 0.1},
    "faulty": {"faults": Faults(0, 1, 0)},
    "frozen": {"frozen": 2},
}
"""What alone brings about each outcome, from the mildest to the gravest."""


def test_without_a_finding_the_verdict_is_good():
    assert verdict(GOOD).name == "good"


def test_the_table_knows_every_rule():
    assert len(WORSE) == len(RULES)


@pytest.mark.parametrize("name", WORSE)
def test_every_outcome_is_reached_by_its_own_finding(name):
    status = verdict(dataclasses.replace(GOOD, **WORSE[name]))
    assert status.name == name
    assert status.advice.endswith(".")
    assert len(status.advice) > 40


def test_the_gravest_finding_wins():
    """Findings are added from the mildest to the gravest; the newest always decides."""
    findings = GOOD
    for name, change in WORSE.items():
        findings = dataclasses.replace(findings, **change)
        assert verdict(findings).name == name


@pytest.mark.parametrize("value", [0.9, 1.1, math.inf, math.nan, 0.0])
def test_coverage_away_from_one_is_said(value):
    finding = dataclasses.replace(GOOD, coverage=Coverage(value, 0.002, value))
    assert verdict(finding).name == "uncovered"


def test_coverage_within_its_error_is_not_held_against_the_fit():
    finding = dataclasses.replace(GOOD, coverage=Coverage(0.9, 0.03, 0.9))
    assert verdict(finding).name == "good"


@pytest.mark.parametrize("p_value", [1e-9, 0.0, math.nan])
def test_chains_that_differ_from_the_reference_put_it_in_doubt(p_value):
    finding = dataclasses.replace(GOOD, agreement=Agreement(p_value, 1, 7.0))
    assert verdict(finding).name == "reference in doubt"


def test_slow_mixing_is_fair_and_very_slow_mixing_poor():
    slow = dataclasses.replace(GOOD.mixing, steps={0.1: 300, 0.05: 400, 0.01: None})
    assert verdict(dataclasses.replace(GOOD, mixing=slow)).name == "fair"
    slower = dataclasses.replace(GOOD.mixing, steps={0.1: 3_000, 0.05: 4_000, 0.01: None})
    assert verdict(dataclasses.replace(GOOD, mixing=slower)).name == "poor"


def test_other_warnings_do_not_put_the_modes_in_doubt():
    finding = dataclasses.replace(GOOD, reference_warnings=("The effective sample size is low.",))
    assert verdict(finding).name == "good"


def log_ratios(scale=0.1, n=20_000, log_z=1.5):
    """h of N(0, 1) draws x under both laws, with log w = scale·x - scale²/2: exactly normalised."""
    generator = np.random.default_rng(0)
    shift = log_z - 0.5 * scale**2
    fresh = shift + scale * generator.normal(size=n)
    held_out = shift + scale * (scale + generator.normal(size=(80, n // 80)))
    return held_out, fresh


FACTS = SymmetryFacts(6, True, 1e-16, True, BoundaryMass(0.0, 0.0, 0.01, 0.1, 1.0), 0.3)


def certified(held_out, fresh, exact=True, facts=FACTS, moving=True, **options):
    generator = np.random.default_rng(1)
    points = generator.normal(size=(*held_out.shape, 2))
    draws = generator.normal(size=(4, 1_000, 2))
    states = generator.permuted(np.resize(held_out.ravel()[~np.isnan(held_out.ravel())], 4_000))
    if states.size == 0:
        states = np.zeros(4_000)
    chains = Chains(draws, states.reshape(4, 1_000), np.full((4, 1_000), moving))
    if not moving:
        chains = chains._replace(draws=np.zeros((4, 1_000, 2)))
    return certify(Judged(points, held_out, exact), fresh, chains, facts, **options)


def test_numbers_of_a_lognormal_weight():
    """Evidence, coverage and core of weights whose law is known, within 5 standard errors."""
    certificate = certified(*log_ratios())
    assert abs(certificate.evidence.value - 1.5) < 5 * certificate.evidence.standard_error
    bridge = certificate.bridge
    assert abs(bridge.value - 1.5) < 5 * bridge.standard_error < 0.02
    assert abs(certificate.coverage.value - 1.0) < 5 * certificate.coverage.standard_error < 0.02
    assert all(1 <= steps <= 5 for steps in certificate.mixing.steps.values())
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
    assert certificate.mixing.steps == {0.1: None, 0.05: None, 0.01: None}
    assert "not finite" in certificate.mixing.reason
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


def test_a_frozen_chain_is_said_first():
    certificate = certified(*log_ratios(), moving=False)
    assert certificate.status.name == "frozen"
    assert certificate.chains.ess == certificate.chains.ess_log_ratio == 0.0
    assert certificate.bridge.standard_error == math.inf


def test_a_symmetry_that_fails_at_posterior_draws_is_said():
    broken = dataclasses.replace(FACTS, defect=0.3, holds=False)
    assert certified(*log_ratios(), facts=broken).status.name == "broken symmetry"
    declared = dataclasses.replace(broken, invariant=False)
    assert certified(*log_ratios(), facts=declared).status.name == "good"


def test_the_safety_is_shown_with_its_price():
    certificate = certified(*log_ratios(), safety_weight=0.02)
    assert certificate.safety.acceptance_cost == 0.02
    assert "if" in certificate.safety.claim
    assert certified(*log_ratios()).safety.weight == 0.0
