"""Awkward densities of which everything is known: fits that are called usable tell the truth."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats
from table import write_table

import folt
from folt.certificate.diagnostics.chains import effective_size
from zoo import LEVELS, ZOO, false_statements

SEEDS = {"quick": 20, "default": 5}
FALSE_ALARM = 1e-3  # of either interval, over scores taken as independent
QUANTILES, RATIOS = 1_000_000, 20_000
"""Exact draws per density, for its quantiles and for the law of w."""


@pytest.mark.validate
@pytest.mark.parametrize("effort", SEEDS)
def test_usable_fits_tell_the_truth(effort):
    """No statement on total variation is false; scores of log Z and of quantiles are standard.

    Statements are held against the exact law of w, known to the noise of 20 000 exact draws,
    for which .003 is allowed. Scores of log Z have a deviation of .85 to 1.15 over all usable
    fits, and 93 to 97 % of the quantile events lie within 1.96 errors: neither is refuted at 1e-3
    by as many scores as there are.
    """
    rows, scores, events, false = [], [], [], []
    for name, animal in ZOO.items():
        problem = animal.problem()
        exact = animal.exact(np.random.default_rng(60), QUANTILES)
        quantiles = np.quantile(exact, LEVELS, axis=0)
        names, own_scores, own_events = Counter(), [], []
        for seed in range(SEEDS[effort]):
            fit = folt.sample(
                problem, seed=seed, effort=getattr(folt.Effort, effort)(), progress=False
            )
            certificate = fit.certificate
            names[certificate.status.name] += 1
            if not certificate.status.outcome.usable:
                continue
            evidence = certificate.evidence
            own_scores.append((evidence.value - animal.log_evidence) / evidence.standard_error)
            own_events += _event_scores(fit.draws, quantiles)
            false += [(name, seed, *one) for one in false_statements(fit, animal, exact[:RATIOS])]
        scores += own_scores
        events += own_events
        rows.append((name, _verdicts(names), *_shown(own_scores, own_events)))
    rows.append(("all", "", *_shown(scores, events)))
    write_table(
        f"zoo-{effort}",
        f"Densities with known truth at {effort} effort, {SEEDS[effort]} seeds each: usable fits; "
        f"{len(false)} statements on total variation are false",
        ("density", "verdicts", "sd of log Z scores", "largest", "events within 1.96", "events"),
        rows,
    )
    assert not false
    low, high = np.std(scores) * np.sqrt(
        len(scores) / stats.chi2.ppf([1 - FALSE_ALARM / 2, FALSE_ALARM / 2], len(scores) - 1)
    )
    assert low <= 1.15
    assert high >= 0.85
    within = stats.binomtest(int(np.sum(np.abs(events) < 1.96)), len(events))
    low, high = within.proportion_ci(1 - FALSE_ALARM)
    assert low <= 0.97
    assert high >= 0.93


def _event_scores(draws, quantiles):
    """Of every coordinate and level: share of draws below the quantile minus the level, scored.

    The quantiles are those of many exact draws, whose error counts too.
    """
    found = []
    for j in range(draws.shape[2]):
        for level, quantile in zip(LEVELS, quantiles[:, j], strict=True):
            below = (draws[..., j] <= quantile).astype(float)
            size = min(effective_size(below, "mean"), below.size)
            variance = level * (1 - level) * (1 / max(size, 1.0) + 1 / QUANTILES)
            found.append((below.mean() - level) / np.sqrt(variance))
    return found


def _verdicts(names):
    return ", ".join(f"{name} {count}" for name, count in names.most_common())


def _shown(scores, events):
    if not scores:
        return "–", "–", "–", 0
    within = np.mean(np.abs(events) < 1.96)
    return f"{np.std(scores):.2f}", f"{np.abs(scores).max():.1f}", f"{within:.3f}", len(events)
