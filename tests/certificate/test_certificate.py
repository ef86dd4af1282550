"""The certificate: every verdict can be reached, and it survives a trip through JSON."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import signal, stats

import folt
from folt.certificate.certificate import Certificate
from folt.certificate.certify import Examined, certificate_from
from folt.certificate.conditions import REFRESHED_ALARM, REFRESHED_RHAT
from folt.certificate.diagnostics.coverage import Agreement, Coverage, Faults
from folt.certificate.diagnostics.evidence import Difference
from folt.certificate.diagnostics.quantile_core import RHOS
from folt.certificate.exploration import ExplorationFacts, ModeFacts
from folt.certificate.facts import ReferenceFacts, SymmetryFacts
from folt.certificate.held_out import Judged
from folt.certificate.outcomes import Outcome, Use
from folt.chains import Chains
from folt.problem.ratio import BoundaryMass
from folt.reference import Caution, Concern, Reference
from worse import WORSE, altered, steps, with_shape, worse


def log_ratios(scale=0.1, n=20_000, log_z=1.5):
    """h of N(0, 1) draws x under both laws, with log w = scale·x - scale²/2: exactly normalised."""
    generator = np.random.default_rng(0)
    shift = log_z - 0.5 * scale**2
    fresh = shift + scale * generator.normal(size=n)
    held_out = shift + scale * (scale + generator.normal(size=(80, n // 80)))
    return held_out, fresh


FACTS = SymmetryFacts(6, True, 1e-16, True, BoundaryMass(0.0, 0.0, 0.01, 0.1, 1.0), 0.3)
REFERENCE = ReferenceFacts(1.001, 20_000.0, True, 20_000, 0, 1.001, 20_000.0)


def certified(held_out, fresh, exact=True, facts=FACTS, moving=True, **options):
    points = np.random.default_rng(1).normal(size=(*held_out.shape, 2))
    judged = Judged(points, held_out, exact)
    return certified_of(judged, fresh, facts, moving, **options)


def certified_of(judged, fresh, facts=FACTS, moving=True, **options):
    generator, held_out = np.random.default_rng(1), judged.log_ratio
    draws = generator.normal(size=(4, 1_000, 2))
    states = generator.permuted(np.resize(held_out.ravel()[~np.isnan(held_out.ravel())], 4_000))
    if states.size == 0:
        states = np.zeros(4_000)
    chains = Chains(draws, states.reshape(4, 1_000), np.full((4, 1_000), moving))
    if not moving:
        chains = chains._replace(draws=np.zeros((4, 1_000, 2)))
    examined = Examined.of(judged, fresh)
    reference = dataclasses.replace(REFERENCE, exact=judged.exact)
    return certificate_from(examined, chains, facts, reference, burn_in=100, **options)


GOOD = certified(*log_ratios())


def test_without_a_finding_the_verdict_is_good():
    assert GOOD.status.name == "good"


def test_every_outcome_has_a_condition_and_a_case():
    """In the order of gravity, good apart; the table of the cases is complete."""
    assert [outcome.label for outcome in Outcome] == list(WORSE)
    assert [outcome.gravity for outcome in Outcome] == list(range(len(Outcome)))
    assert [outcome for outcome in Outcome if outcome.use is Use.EVERYTHING] == [Outcome.GOOD]


@pytest.mark.parametrize("name", WORSE)
def test_every_outcome_is_reached_by_its_own_finding(name):
    status = worse(GOOD, name).status
    assert status.name == name
    assert Outcome.named(name) is status.outcome
    assert status.advice.rstrip(")").endswith((".", ")"))
    assert "{" not in status.advice
    assert bool(status.shortfalls) == (name != "good")
    told = [str(each) for each in status.shortfalls[:2] if each.asked]
    assert all(each in status.advice for each in told)


def test_a_cap_on_evaluations_is_lifted_by_the_cure():
    limited = altered(worse(GOOD, "fair"), reference={"cap": 30_000})
    assert limited.status.cure == "folt.sample(problem, evaluations=150_000)"
    assert limited.status.command.endswith("--evaluations 150000")
    assert worse(limited, "broken symmetry").status.step is None
    cut, more = (folt.Effort.default().within(cap) for cap in (400_000, 2_000_000))
    assert (more.rounds, more.walk_steps) > (cut.rounds, cut.walk_steps)


def test_a_second_search_that_needs_a_gradient_is_not_cured_by_evaluations():
    lone = ExplorationFacts(0, (), once=0, particles=1024, ancestors=90, rungs=9, polished=3)
    limited = altered(GOOD, reference={"cap": 30_000, "exact": False}, exploration=lone)
    assert limited.status.name == "fair"
    assert limited.status.cure.endswith("gradient=gradient)")
    slow = altered(worse(limited, "fair"), exploration=lone)
    assert "evaluations=150_000" in slow.status.cure


@pytest.mark.parametrize(("ambiguity", "cure"), [(0.02, "fit.relabelled"), (0.4, "fit.unfolded")])
def test_an_order_that_confuses_components_is_cured_by_another(ambiguity, cure):
    """Unless the components overlap: then no order tells them apart."""
    boundary = BoundaryMass(0.0, 0.0, ambiguity, 0.1, 1.0, mixed=0.06)
    status = altered(GOOD, symmetry={"boundary": boundary}).status
    assert status.name == "ambiguous labels"
    assert status.cure.startswith(cure)
    plain = dataclasses.replace(boundary, ambiguity=0.02, mixed=0.04)
    assert altered(GOOD, symmetry={"boundary": plain}).status.name == "good"


def test_the_gravest_finding_wins():
    """Findings are added from the mildest to the gravest; the newest always decides."""
    certificate = GOOD
    for name in WORSE:
        certificate = worse(certificate, name)
        assert certificate.status.name == name


@pytest.mark.parametrize("value", [0.98, 1.02, math.inf, math.nan, 0.0])
def test_coverage_away_from_one_is_said(value):
    assert altered(GOOD, coverage=Coverage(value, 0.002, value)).status.name == "uncovered"


@pytest.mark.parametrize(
    ("coverage", "name"),
    [
        (Coverage(0.992, 0.0001, 0.99), "good"),  # a hundredth is tolerated, and in the error
        (Coverage(0.9, 0.03, 0.9), "poor"),  # within four errors, and log Z is vague
    ],
)
def test_what_coverage_lacks_is_in_the_error_of_the_evidence(coverage, name):
    """se² + (1 - coverage)²; the mutant that drops the term reports the sampling error alone."""
    certificate = altered(GOOD, coverage=coverage)
    assert certificate.status.name == name
    sampling = certificate.evidences.best.standard_error
    assert certificate.evidence.standard_error == math.hypot(sampling, 1.0 - coverage.value)
    assert certificate.evidence.standard_error > 5 * sampling
    assert certificate.tree()["evidence"]["standard_error"] == certificate.evidence.standard_error


@pytest.mark.parametrize("error", [0.011, 0.5, math.inf, math.nan])
def test_a_usable_fit_knows_its_evidence_to_a_hundredth(error):
    vague = dataclasses.replace(GOOD.evidences.importance, standard_error=error)
    assert not altered(GOOD, evidences={"importance": vague}).status.outcome.usable


NOT_NUMBERS = {
    "coverage": {"coverage": {"value": math.nan}},
    "agreement": {"agreement": {"p_value": math.nan}},
    "R-hat of the reference": {"reference": {"exact": False, "rhat": math.nan}},
    "effective size of the reference": {"reference": {"exact": False, "ess": math.nan}},
    "refreshed R-hat": {"reference": {"exact": False, "refreshed": 3, "refreshed_rhat": math.nan}},
    "difference": {"evidences": {"difference": Difference(math.nan, math.inf)}},
    "error of the difference": {"evidences": {"difference": Difference(0.1, math.nan)}},
    "effective size": {"effective": math.nan},
    "tail": {"gap_upper": math.nan, "evidences": with_shape(GOOD.evidences, math.nan)},
    "R-hat of the chains": {"chains": {"rhat": math.nan}},
    "acceptance": {"chains": {"accept_rate": math.nan}},
    "ambiguity": {"symmetry": {"boundary": BoundaryMass(0.0, 0.0, math.nan, 0.1, 1.0)}},
}


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_a_rule_that_meets_nan_applies(name):
    assert altered(GOOD, **NOT_NUMBERS[name]).status.name != "good"


def test_the_largest_weight_is_looked_for_where_the_tail_is():
    """What was proposed to held-out draws counts: a weight of 50 there is a large one."""
    held_out, fresh = log_ratios()
    raw = Judged(np.zeros((*held_out.shape, 2)), held_out, False)
    heavy = fresh.copy()
    heavy[0] += math.log(50.0)
    made = [
        certified_of(dataclasses.replace(raw, proposed=proposed), fresh)
        for proposed in (fresh, heavy)
    ]
    assert made[0].gap_upper > 0.2 > 1 / 40 > made[1].gap_upper


def test_a_comparison_that_did_not_happen_confirms_nothing():
    """Searches that agree leave a fit good, without a mode to compare it is fair at best."""
    mode = ModeFacts(1.0, 300, 1.0, 1.0)
    agreed = ExplorationFacts(500, (mode,), 0, 1_024, 90, 20, arrived=300, audited=0.0)
    lost = ModeFacts(1.0, 300, 0.1, 1.0, error=0.2)
    for found, name in (
        (agreed, "good"),
        (dataclasses.replace(agreed, modes=()), "fair"),
        (dataclasses.replace(agreed, modes=(lost,)), "reference in doubt"),
    ):
        made = altered(GOOD, exploration=found, reference={"exact": False})
        assert made.status.name == name
        exact = altered(GOOD, exploration=found)
        assert exact.status.name == "good"


@pytest.mark.parametrize("p_value", [1e-9, 0.0, math.nan])
def test_chains_that_differ_from_the_reference_put_it_in_doubt(p_value):
    differs = Agreement(p_value, 1, 7.0, "second moment")
    certificate = altered(GOOD, agreement=differs, reference={"exact": False})
    assert certificate.status.name == "reference in doubt"
    assert "second moment" in certificate.status.advice
    assert altered(GOOD, agreement=differs).status.name == "uncovered"  # exact draws are right


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"rhat": 1.05}, "good"),  # a caution, and no verdict
        ({"rhat": 1.8}, "reference in doubt"),
        ({"rhat": math.nan}, "reference in doubt"),
        ({"ess": 60.0}, "reference in doubt"),
        ({"rhat": 1.8, "refreshed": 5, "refreshed_rhat": 1.0}, "reference in doubt"),
        ({"refreshed": 5, "refreshed_rhat": 1.02}, "reference in doubt"),
        ({"refreshed": 5, "refreshed_rhat": 1.02, "refreshed_limit": 1.03}, "good"),
        ({"refreshed": 5, "refreshed_rhat": 1.0}, "good"),
    ],
)
def test_the_reference_is_judged_as_it_came_and_after_refreshment(facts, name):
    assert altered(GOOD, reference={"exact": False, **facts}).status.name == name


def test_the_limit_of_r_hat_knows_the_size_of_the_run():
    """Quick effort, 20 dimensions, a fifth not renewed: 1 % of alarms at most (30 runs, 1e-4).

    The mutant with a limit of 1.01 gives more. One chain in ten in a mode of its own is seen.
    """
    generator, alarms, mutants = np.random.default_rng(3), 0, 0
    run = Reference(np.zeros((128, 40, 20)), 1.09, 900.0, False, {})
    for _ in range(30):
        noise = generator.normal(size=(77, 40, 20))
        noise[:, 1:] *= math.sqrt(1 - 0.6**2)
        raw = signal.lfilter([1.0], [1.0, -0.6], noise, axis=1)
        stays = generator.random((77, 40, 1)) < 0.2
        held_out = np.where(stays, raw, generator.normal(size=raw.shape))
        facts = ReferenceFacts.of(run, held_out, 3, 0.2)
        alarms += facts.refreshed_rhat > facts.refreshed_limit
        mutants += facts.refreshed_rhat > REFRESHED_RHAT
    assert alarms <= stats.binom.isf(1e-4, 30, REFRESHED_ALARM) < mutants
    held_out[:7, :, 0] += 3.0
    apart = ReferenceFacts.of(run, held_out, 3, 0.2)
    assert apart.refreshed_rhat > apart.refreshed_limit


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        (steps(1, 2, 300), "fair"),
        (steps(1, 2, None), "fair"),
        (steps(80, 99, 200), "good"),
        (steps(300, 400, None), "poor"),  # 100 steps of burn-in are too few for it
        (steps(3_000, 4_000, None), "poor"),
    ],
)
def test_steps_decide(numbers, name):
    assert altered(GOOD, mixing=numbers).status.name == name


@pytest.mark.parametrize("name", ["rhat", "rhat_log_ratio"])
def test_chains_that_disagree_with_each_other_are_poor(name):
    """Whatever the certificate of the kernel says: the chains did not do what it promises."""
    assert altered(GOOD, chains={name: 1.3}).status.name == "poor"
    one_constant = altered(GOOD, chains={"rhat_log_ratio": math.nan})
    assert one_constant.status.name == "good"


def test_a_long_burn_in_makes_slow_mixing_fair():
    certificate = altered(GOOD, mixing=steps(300, 400, None), chains={"burn_in": 400})
    assert certificate.status.name == "fair"


@pytest.mark.parametrize(
    ("shape", "name"), [(0.69, "good"), (0.7, "fair"), (0.99, "fair"), (1.0, "heavy tail")]
)
def test_the_tail_of_the_plain_weights_decides(shape, name):
    """Whatever method is the headline: its own bounded terms would hide a missed mode."""
    tail = with_shape(GOOD.evidences, shape)
    assert altered(GOOD, evidences=tail, gap_upper=0.05).status.name == name
    assert altered(GOOD, evidences=tail, gap_upper=math.nan).status.name == name
    assert altered(GOOD, evidences=tail, gap_upper=0.5).status.name == "good"  # no large weight


def test_cautions_are_kept_and_do_not_decide():
    few = Caution.of(Concern.FEW_EFFECTIVE, ess=300, enough=800, dim=4)
    certificate = altered(GOOD, reference={"cautions": (few,)})
    assert certificate.status.name == "good"
    assert "300 effective draws" in str(certificate.reference.cautions[0])
    assert Certificate.from_dict(certificate.tree()).reference.cautions == (few,)


def test_the_verdict_of_a_file_is_computed_again():
    tree = altered(GOOD, coverage=Coverage(0.8, 0.01, 0.8)).tree()
    tree["status"] = {"name": "good", "advice": "All is well.", "rules": 99}
    assert Certificate.from_dict(tree).status.name == "uncovered"


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
    assert certified(held_out, fresh).faults == Faults(7, 2, 1, proposals=20_000)


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
    # Python 3.13 compares dataclasses field by field, and NaN with nothing.
    assert str(back.status) == str(certificate.status)
    assert json.dumps(back.to_dict(), allow_nan=False) == text


def test_null_is_no_number_wherever_a_number_is_due():
    """Fields that a newer folt added are left out; a missing field has its default."""
    tree = {**GOOD.to_dict(), "added": 1}
    tree["symmetry"]["boundary"]["overlap"] = tree["qc"]["target"]["0.05"]["n"] = None
    tree["faults"]["point"] = [["mu[0]", None]]
    del tree["reference"]["cap"]
    back = Certificate.from_dict(tree)
    assert math.isnan(back.symmetry.boundary.overlap)
    assert math.isnan(back.qc["target"][0.05].n)
    assert math.isnan(back.faults.point[0][1])
    assert back.reference.cap is None
    assert back.symmetry.boundary.mixed is None


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
