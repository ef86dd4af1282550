"""Charts and pictures of a page show the numbers that they are made from."""

import dataclasses
import itertools
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

import folt
from arviz_either import arviz
from folt.certificate.exploration import ExplorationFacts, ModeFacts
from folt.fit.text import estimate_rows
from folt.models import gaussian_pair
from folt.proposals import Gaussian
from folt.report.charts import (
    certificate_charts,
    gamma_chart,
    log_ratio_chart,
    mixing_chart,
    modes_chart,
    strips,
)
from folt.report.marginals import kernel_density, marginals_figure, pairs_figure
from folt.report.page import content
from folt.report.parameters import Parameters
from folt.report.traces import BARS, Histograms, limits, traces_figure


@pytest.fixture(scope="module")
def fit() -> folt.Fit:
    flow = Gaussian(jnp.array([2.9, 0.0]), jnp.eye(2))
    return folt.sample(gaussian_pair(2), flow=flow, draws=500, progress=False)


def drawn(chart) -> dict[str, np.ndarray]:
    """Lines of the picture with their points, by the name that the key gives them."""
    return {str(line.get_label()): line.get_xydata() for line in chart.figure.axes[0].lines}


def key(chart) -> list[str]:
    return [entry.get_text() for entry in chart.figure.legends[0].get_texts()]


def test_pictures_show_the_numbers_of_the_certificate(fit: folt.Fit) -> None:
    mixing, ratio, gamma = certificate_charts(fit)[:3]
    curve, steps = fit.certificate.mixing.curve, fit.certificate.mixing.steps
    bound = drawn(mixing)["certified, 95 % confidence"]
    np.testing.assert_array_equal(bound, np.stack([curve.steps, curve.bound], 1))
    np.testing.assert_array_equal(drawn(mixing)["estimated"][:, 1], curve.estimate)
    said = [text.get_text() for text in mixing.figure.axes[0].texts]
    assert said == [f"{e:g} after {n:,}" for e, n in steps.items() if n is not None]
    bars = ratio.figure.axes[0].patches[-1].get_data()
    values = fit.log_ratio - fit.certificate.evidence.value
    inside = np.histogram(values, bars.edges)[0]
    np.testing.assert_allclose(bars.values, 100.0 * inside / values.size)
    for rho, core in fit.certificate.qc["target"].items():
        if core.gamma is not None:
            assert [rho, core.gamma] in drawn(gamma)["held-out target draws"].tolist()


@pytest.mark.parametrize("position", range(3))
def test_strips_lie_over_the_positions_whose_readings_they_show(fit, position) -> None:
    chart = certificate_charts(fit)[position]
    found = strips(chart)
    panel = chart.figure.axes[0]
    shown = {x: words for x, words in chart.readings.items() if x <= panel.get_xlim()[1]}
    assert sorted(strip.reading for strip in found) == sorted(shown.values())
    by_reading = {strip.reading: strip for strip in found}
    for x, words in shown.items():
        across = panel.transData.transform((x, panel.get_ylim()[1]))[0]
        place = 100.0 * across / chart.figure.bbox.width
        strip = by_reading[words]
        assert strip.left - 1e-6 <= place <= strip.left + strip.width + 1e-6
    whole = sum(strip.width for strip in found)
    assert whole == pytest.approx(100.0 * panel.get_position().width)


def test_numbers_of_many_modes_stand_apart() -> None:
    """How many descents ended at a mode stood beside its point, over the next one's."""
    modes = tuple(
        ModeFacts(mass=0.3 * 0.7**k, hits=1000 - k, tempered=0.1, reference=0.1) for k in range(20)
    )
    chart = modes_chart(ExplorationFacts(500, modes, 0, 1_024, 90, 20))
    figure = chart.figure
    figure.draw_without_rendering()
    assert [text.get_text() for text in figure.axes[0].texts] == []
    ticks = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(ticks) == 12
    for one, other in itertools.pairwise(ticks):
        assert one.x1 < other.x0
    assert "The 12 heaviest of 20 modes" in chart.caption


def test_the_log_ratio_counts_what_lies_beyond_and_claims_no_evidence_it_has_not(fit) -> None:
    values = np.concatenate([np.zeros(2000), [50.0] * 3]) + fit.certificate.evidence.value
    caption = log_ratio_chart(values, fit.certificate).caption
    assert "3 of 2,003 draws lie beyond the picture" in caption
    routes = fit.certificate.evidences
    unknown = dataclasses.replace(
        routes,
        **{
            name: dataclasses.replace(getattr(routes, name), value=math.nan)
            for name in ("importance", "psis", "bridge")
        },
    )
    chart = log_ratio_chart(fit.log_ratio, dataclasses.replace(fit.certificate, evidences=unknown))
    assert chart.figure.axes[0].get_xlabel() == "log ratio h"
    assert "perfect fit" not in key(chart)
    assert "Zero" not in chart.caption


def test_what_too_few_draws_leave_open_is_in_the_key_once(fit: folt.Fit) -> None:
    nothing = {
        name: {rho: dataclasses.replace(core, osc=None, gamma=None) for rho, core in cores.items()}
        for name, cores in fit.certificate.qc.items()
    }
    chart = gamma_chart(dataclasses.replace(fit.certificate, qc=nothing))
    assert key(chart).count("too few draws to say") == 1
    crosses = [line for line in chart.figure.axes[0].lines if line.get_marker() == "x"]
    assert len(crosses) == sum(map(len, nothing.values()))


def test_a_chart_without_anything_to_show_says_so(fit: folt.Fit) -> None:
    curve = dataclasses.replace(fit.certificate.mixing.curve, steps=(), bound=(), estimate=())
    chart = mixing_chart(dataclasses.replace(fit.certificate.mixing, curve=curve))
    assert [text.get_text() for text in chart.figure.axes[0].texts] == ["no bound can be given"]
    assert strips(chart) == []


def test_histograms_of_the_page_are_those_of_the_print(fit: folt.Fit) -> None:
    parameters = Parameters.of(fit)
    figure = traces_figure(parameters.sides, [0], ["x"], "x")
    heights, edges = parameters.folded.histograms.bars(0)
    drawn = figure.axes[3].patches[0].get_data()
    np.testing.assert_array_equal(drawn.values, heights)
    assert figure.axes[0].get_ylim() == limits(parameters.sides, [0])
    assert heights @ np.diff(edges) == pytest.approx(1.0, abs=0.002)
    told = json.loads(content(fit)["draws"])["sides"]["folded"]
    assert told["low"] == parameters.folded.histograms.low.tolist()
    assert told["bars"] == BARS
    pairs = pairs_figure(parameters.sides, [0, 1], ["x", "y"])
    assert pairs.axes[2].get_xlim() == limits(parameters.sides, [0])


def test_histograms_of_what_never_moved_or_is_not_finite_exist() -> None:
    found = Histograms.of(np.array([[1.0, np.nan], [1.0, np.nan]]))
    assert np.all(found.low < found.high)
    np.testing.assert_array_equal(found.shares.sum(axis=1), [1.0, 0.0])


def test_estimates_under_the_traces_are_those_of_their_scalars(fit: folt.Fit) -> None:
    """A scalar that never varies has no row, and must not shift the rows of those after it."""
    constant = np.full((*fit.draws.shape[:2], 2), 0.5)
    shown = dataclasses.replace(fit, posterior={"initial": constant, **fit.posterior})
    told = json.loads(content(shown)["draws"])
    words = dict(zip(told["names"], told["words"], strict=True))
    assert words["initial[1]"] == "the same in every draw"
    for row in estimate_rows(fit):
        assert words[row.name].startswith(f"{row.mean:.{row.digits}f} (")


def test_an_axis_says_which_draws_it_counts(fit: folt.Fit) -> None:
    draws = np.concatenate([fit.draws, fit.draws])
    many = dataclasses.replace(fit, posterior={"x": draws[..., 0]})
    assert Parameters.of(fit).folded.axis == "draw, chains end to end, one in 4"
    assert Parameters.of(many).folded.axis == "draw, first 4 chains end to end, one in 4"
    one = dataclasses.replace(fit, posterior={"x": draws[:1, :50, 0]})
    assert Parameters.of(one).folded.axis == "draw"
    assert list(Parameters.of(one).folded.breaks) == []


KERNELS = {
    "normal": lambda generator: generator.normal(size=3_000),
    "one-sided": lambda generator: generator.exponential(size=3_000),
    "apart": lambda generator: generator.normal([-3.0, 3.0], [0.5, 1.0], size=(1_500, 2)).ravel(),
    "repeated": lambda generator: np.repeat(generator.normal(size=300), 10),
    "few": lambda generator: generator.normal(size=12),
}


@pytest.mark.parametrize("kind", KERNELS)
def test_densities_are_those_of_arviz(kind):
    """In total variation; with twice the bandwidth it is .05 or more where draws are not few."""
    values = KERNELS[kind](np.random.default_rng(3))
    at, density = kernel_density(values)
    cell = at[1] - at[0]
    assert density.sum() * cell == pytest.approx(1.0)
    places, expected = arviz.kde(values)[:2]
    assert 0.5 * np.abs(density - np.interp(at, places, expected)).sum() * cell < 0.015


STRANGE = {
    "neighbours": 1.0 + np.array([0.0, 2.3e-16] * 50),
    "none": np.array([np.nan]),
    "tiny": np.array([0.0, 1e-320]),
    "large": 1e200 * np.linspace(-1.0, 1.0, 50) ** 3,
    "one apart": np.append(np.zeros(999), 1.0),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_strange_draws_have_a_density_too(kind):
    figure = marginals_figure({"x": STRANGE[kind][None]})
    places, heights = figure.axes[0].lines[0].get_data()
    assert np.isfinite(places).all()
    assert np.min(heights) >= 0.0 < np.max(heights) < np.inf


def test_a_few_far_draws_do_not_hide_a_marginal():
    """Heavy tails are cut where nothing can be seen of them; those of a normal are not."""
    generator = np.random.default_rng(0)
    heavy, normal = generator.standard_cauchy(4_000), generator.normal(size=4_000)
    figure = marginals_figure({"heavy": heavy[None], "normal": normal[None]})
    cut, whole = (panel.get_xlim() for panel in figure.axes[:2])
    low, high = np.quantile(heavy, [0.025, 0.975])
    assert cut[0] < low < high < cut[1] < 0.5 * heavy.max()
    assert whole[0] < normal.min() < normal.max() < whole[1]
