"""The page, the text and the figures: verdict first, nothing fetched, nothing half-written."""

import dataclasses
import math
import re
import struct
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from markupsafe import escape

import folt
from folt.certificate import sentences
from folt.certificate.cautions import Caution, Concern
from folt.certificate.diagnostics.coverage import Coverage
from folt.certificate.diagnostics.evidence import evidences
from folt.certificate.diagnostics.mixing import mixing_certificate
from folt.certificate.diagnostics.quantile_core import Core
from folt.certificate.outcomes import Outcome
from folt.chains import Chains
from folt.cli import demonstration as demo
from folt.fit import text
from folt.fit.section import Section
from folt.models import bayesian_mixture, gaussian_pair
from folt.proposals import Gaussian
from folt.report.captions import Labelling, chains_caption, conclusions, pairs_caption
from folt.report.marginals import marginals_figure
from folt.report.page import page
from folt.report.parameters import Parameters, coordinate_orbits
from folt.report.style import INK
from folt.store import Store
from worse import WORSE, altered, worse

STEPS = 400

LARGEST = 1_800_000
"""Characters of a page."""


@pytest.fixture(scope="module")
def fit() -> folt.Fit:
    """Exact reference draws and the exact proposal: nothing is trained, so this is quick."""
    problem = gaussian_pair(2)
    flow = Gaussian(jnp.array([3.0, 0.0]), jnp.eye(2))
    return folt.sample(problem, flow=flow, draws=500, progress=False)


@pytest.fixture(scope="module")
def mixture_fit(fit: folt.Fit) -> folt.Fit:
    """The mixture of the demonstration with normal draws about its mode in place of a run."""
    problem = bayesian_mixture()
    centre = np.array([-0.6, -0.5, 0.0, -0.2, 0.6, -0.5])
    scale = np.array([0.016, 0.15, 0.024, 0.25, 0.016, 0.15])
    draws = centre + scale * np.random.default_rng(0).normal(size=(4, 500, 6))
    return folt.Fit.assemble(
        problem=problem,
        proposal=Gaussian(jnp.asarray(centre), jnp.diag(jnp.asarray(1.0 / scale))),
        chains=Chains(draws, fit.log_ratio, fit.accepted),
        certificate=fit.certificate,
        reference=dataclasses.replace(fit.reference, raw=draws[:, :100]),
        wall=fit.wall,
        evaluations=fit.evaluations,
        labels="sorted",
        whole_orbit=True,
        provenance=fit.provenance,
    )


@pytest.fixture(scope="module")
def html(fit: folt.Fit) -> str:
    return page(fit)


class Resources(HTMLParser):
    """Collects what a browser would fetch, and whether every element is closed."""

    VOID = frozenset({"meta", "link", "br", "hr", "img", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.identifiers: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                self.fetched.append(value or "")
            if name == "id":
                self.identifiers.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def resources(html: str) -> Resources:
    parser = Resources()
    parser.feed(html)
    parser.close()
    return parser


def test_page_opens_with_the_verdict(fit: folt.Fit, html: str) -> None:
    body = html[html.index("<body") :]
    status = fit.certificate.status
    assert status.name == "good"
    assert body.index(sentences.verdict_words(status)) < body.index('id="estimates"')
    assert status.advice in body
    assert fit.certificate.assumption in body


def test_page_shows_every_estimate(fit: folt.Fit, html: str) -> None:
    for row in text.estimate_rows(fit):
        assert f"<td>{row.name}</td><td>{text.rounded_number(row.mean, row.digits)}</td>" in html
    assert text.rounded_number(fit.log_evidence.value, 3) in html


def without_scripts(html: str) -> str:
    return re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_page_fetches_nothing(html: str) -> None:
    found = resources(html)
    assert found.open == []
    assert all(item.startswith(("data:image/png", "#")) for item in found.fetched)
    assert not re.search(r"https?:|@import|url\((?!#)", without_scripts(html))
    assert len(html) < LARGEST


def test_identifiers_in_a_page_are_unique_and_resolved(html: str) -> None:
    found = resources(html)
    assert len(found.identifiers) == len(set(found.identifiers))
    used = [item[1:] for item in found.fetched if item.startswith("#")]
    used += re.findall(r"url\(#([^)]+)\)", without_scripts(html))
    assert used
    assert set(used) <= set(found.identifiers)


def test_page_has_still_pictures_in_the_colours_of_the_page(fit: folt.Fit, html: str) -> None:
    body = without_scripts(html[html.index("<body") :])
    assert body.count("<svg") == 5 + len(fit.posterior)
    assert "currentColor" in body
    assert INK not in body
    assert "font-family" not in body


def test_page_says_what_may_be_concluded_and_how_to_cite(fit: folt.Fit, html: str) -> None:
    said = conclusions(fit)
    for sentence in (*said.may, *said.may_not):
        assert str(escape(sentence)) in html
    assert "Hu, Jun" in html
    assert f"version = {{{folt.__version__}}}" in html
    assert "not a bound" in html


@pytest.mark.parametrize("name", WORSE)
def test_only_usable_verdicts_allow_means_to_be_reported(fit: folt.Fit, name: str) -> None:
    judged = dataclasses.replace(fit, certificate=worse(fit.certificate, name))
    allowed = any("may be reported" in sentence for sentence in conclusions(judged).may)
    assert allowed == (name in ("good", "fair", "ambiguous labels"))


def test_page_of_a_loaded_fit_is_the_same(fit: folt.Fit, html: str, tmp_path: Path) -> None:
    loaded = folt.load(fit.save(tmp_path / "fit.nc"))
    assert loaded.problem is None
    assert page(loaded) == html


def test_page_escapes_names(fit: folt.Fit) -> None:
    nasty = '<script>alert("x")</script> & $\\frac{'
    values = fit.draws[..., 0]
    renamed = dataclasses.replace(
        fit,
        names=(nasty, "y"),
        posterior={nasty: values},
    )
    found = page(renamed)
    assert found.count("<script") == 2
    assert found.count("</script") == 2
    assert "&lt;script&gt;" in found
    assert resources(found).open == []


def frozen(fit: folt.Fit) -> folt.Fit:
    """The same fit with chains that never moved and nothing that could be said of them."""
    nothing = Core(None, None, None, False, 3.0)
    certificate = dataclasses.replace(
        fit.certificate,
        qc={name: dict.fromkeys(cores, nothing) for name, cores in fit.certificate.qc.items()},
        full_osc=math.inf,
        gap_upper=math.nan,
        coverage=Coverage(math.nan, math.inf, math.nan),
        mixing=mixing_certificate(np.full(5, np.nan), np.zeros((1, 5))),
        evidences=evidences(np.full(50, np.nan), np.zeros((4, 50)), frozen=True),
        chains=dataclasses.replace(fit.certificate.chains, frozen=(0, 1, 2, 3), ess=0.0),
    )
    still = np.broadcast_to(fit.draws[:, :1], fit.draws.shape)
    return dataclasses.replace(
        fit,
        draws=still,
        accepted=np.zeros_like(fit.accepted),
        log_ratio=np.full_like(fit.log_ratio, -np.inf),
        posterior={"x": still[..., 0]},
        certificate=certificate,
        reference=dataclasses.replace(fit.reference, raw=None),
    )


def test_a_frozen_fit_can_be_reported_saved_and_loaded(fit: folt.Fit, tmp_path: Path) -> None:
    bad = frozen(fit)
    loaded = folt.load(bad.save(tmp_path / "bad.nc"))
    found = page(loaded)
    assert 'class="verdict bad"' in found
    assert text.NOT_AVAILABLE in found
    assert not re.search(r">[^<]*\b(nan|inf|None)\b[^<]*<", without_scripts(found))
    for one in (bad, loaded):
        summary = one.summary()
        assert summary.startswith("✗")
        assert not re.search(r"\b(nan|inf|None)\b", summary)


@pytest.mark.parametrize("name", WORSE)
def test_only_good_is_shown_as_good(fit: folt.Fit, name: str) -> None:
    status = worse(fit.certificate, name).status
    assert (sentences.tone(status) == "good") == (name == "good")
    assert sentences.verdict_words(status) == f"{Outcome.named(name).headline} ({name})"


def test_draws_added_later_are_said_to_be_uncertified(fit: folt.Fit) -> None:
    assert "made from" not in fit.summary()
    assert "made from 2,000 of the 2,400 draws" in " ".join(fit.extend(100).summary().split())


def test_report_replaces_whole_files_only(
    fit: folt.Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("folt.report.page.page", lambda fit, sections: "<!DOCTYPE html>")
    target = tmp_path / "report.html"
    target.write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit.report(target)
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert fit.report(target) == target
    assert target.read_text().startswith("<!DOCTYPE html>")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_path_that_cannot_be_written_is_a_value_error(
    fit: folt.Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("folt.report.page.page", lambda fit, sections: "<!DOCTYPE html>")
    with pytest.raises(ValueError, match=r"cannot write .* its folder is not there"):
        fit.report(tmp_path / "missing" / "report.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="expected a file or nothing there, got a folder"):
        fit.report(tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_summary_begins_with_the_verdict_and_says_what_gamma_is(fit: folt.Fit) -> None:
    lines = fit.summary().splitlines()
    assert lines[0] == "✓ The fit can be trusted (good)."
    assert "not a bound" in fit.summary()
    assert max(map(len, lines)) <= text.SUMMARY_WIDTH


def test_what_never_varies_is_not_estimated(fit: folt.Fit) -> None:
    constant = np.full((*fit.draws.shape[:2], 2), 0.5)
    with_constant = dataclasses.replace(fit, posterior={**fit.posterior, "initial": constant})
    assert text.estimate_rows(with_constant) == text.estimate_rows(fit)
    for words in (with_constant.summary(), page(with_constant)):
        assert (
            "2 entries are the same in every draw and not estimated: initial[0], initial[1]."
            in (" ".join(words.split()))
        )
    assert "entries are the same" not in fit.summary()
    assert "The fit can be trusted" in page(with_constant)


def test_methods_say_what_was_divided_out_and_nothing_of_labels_where_there_are_none(fit) -> None:
    assert "labellings" in fit.methods()
    assert "every labelling counted once" in fit.summary()
    plain = dataclasses.replace(
        fit,
        group=folt.groups.Trivial(2),
        provenance={**fit.provenance, "divided_out": "rotations O(2) of a matrix of 4 rows"},
    )
    assert "rotations O(2) of a matrix of 4 rows divided out" in plain.methods()
    assert "labelling" not in plain.methods()
    assert "labelling counted" not in plain.summary()


def test_what_varies_by_rounding_is_not_estimated_and_not_drawn(fit: folt.Fit) -> None:
    """The last entry of a correlation matrix's diagonal is 1 up to 1e-16 in PyMC."""
    generator = np.random.default_rng(0)
    rounding = 1.0 + 2.3e-16 * generator.integers(-1, 2, size=(*fit.draws.shape[:2], 2))
    both = {"one": rounding, **fit.posterior, "part": rounding * [[[1.0, 0.0]]] + [[[0.0, 1.0]]]}
    both["part"][..., 1] += generator.normal(size=fit.draws.shape[:2])
    shown = with_draws(fit, both, both)
    names = [row.name for row in text.estimate_rows(shown)]
    assert names == [*(row.name for row in text.estimate_rows(fit)), "part[1]"]
    parameters = Parameters.of(shown)
    assert [f.members for f in parameters.panels() if f.parameter in ("one", "part")] == [(5,)]
    assert not {0, 1, 4} & set(parameters.showcase())
    assert "could not be made" not in page(shown)
    for kind in ("chains", "pairs", "marginals"):
        shown.plot(kind)


def test_decimals_follow_the_deviation() -> None:
    assert text.decimals([1.2]) == 2
    assert text.decimals([0.012, 0.034]) == 4
    assert text.decimals([2500.0]) == 0
    assert text.decimals([0.0, math.nan]) == 4


def test_the_first_family_is_the_one_that_folding_narrows(fit: folt.Fit) -> None:
    generator = np.random.default_rng(0)
    folded = {name: generator.normal(size=(2, 100, 3)) for name in ("a", "b", "c")}
    raw = {"a": folded["a"], "b": 7.0 * folded["b"], "c": 5.0 * folded["c"]}
    parameters = Parameters.of(with_draws(fit, folded, raw))
    family = parameters.most_telling()
    assert family.parameter == "b"
    assert [parameters.names[j] for j in family.members] == ["b[0]", "b[1]", "b[2]"]
    assert [parameters.names[j] for j in parameters.showcase()] == ["b[0]", "b[1]", "a[0]"]


def with_draws(fit: folt.Fit, folded: dict, raw: dict | None) -> folt.Fit:
    reference = dataclasses.replace(fit.reference, raw_posterior=raw)
    return dataclasses.replace(fit, posterior=folded, reference=reference)


def test_pictures_open_on_the_sort_key(fit: folt.Fit) -> None:
    """Sorted draws of "b" open, although folding narrows "c" more; without sorting "c" does."""
    generator = np.random.default_rng(0)
    folded = {name: generator.normal(size=(2, 100, 3)) for name in ("a", "b", "c")}
    folded["b"] = np.sort(folded["b"], axis=-1)
    raw = {"a": folded["a"], "b": folded["b"], "c": 7.0 * folded["c"]}
    parameters = Parameters.of(with_draws(fit, folded, raw))
    assert parameters.opening().parameter == "b"
    unsorted = dataclasses.replace(with_draws(fit, folded, raw), labels="proposal")
    assert Parameters.of(unsorted).opening().parameter == "c"


def test_components_are_found_by_the_name_of_their_axis(fit: folt.Fit) -> None:
    values = np.random.default_rng(0).normal(size=(2, 50, 2, 3))
    named = dataclasses.replace(
        with_draws(fit, {"mu": values}, None), dims={"mu": ("variable", "component")}
    )
    several = [family for family in Parameters.of(named).families if not family.single]
    assert [family.label for family in several] == [
        "mu, variable 1: all 3 together",
        "mu, variable 2: all 3 together",
    ]
    assert several[1].members == (3, 4, 5)
    assert Parameters.of(named).panels() == several


def labelled(fit: folt.Fit, raw: np.ndarray) -> folt.Fit:
    """The reflected pair with these raw chains, as if they came from a sampler with steps."""
    facts = dataclasses.replace(fit.certificate.reference, exact=False)
    return dataclasses.replace(
        fit,
        reference=dataclasses.replace(fit.reference, raw=raw),
        certificate=dataclasses.replace(fit.certificate, reference=facts),
    )


STAYS = np.full((2, 50, 2), 3.0)
APART = STAYS * np.array([1.0, -1.0])[:, None, None]
SWITCHES = STAYS * np.where(np.arange(50) < 25, 1.0, -1.0)[None, :, None]


@pytest.mark.parametrize(
    ("raw", "chains", "pairs"),
    [
        (STAYS, "stayed under one of the 2 labellings", "the cloud stands once"),
        (APART, "no chain changes its labels, but", "under 2 of the 2 labellings"),
        (SWITCHES, "change their labels at 2 % of the steps", "under 2 of the 2 labellings"),
        (None, "No unfolded chain was kept", "How two parameters vary together."),
    ],
)
def test_captions_follow_the_numbers_shown(fit: folt.Fit, raw, chains: str, pairs: str) -> None:
    shown = labelled(fit, raw)
    labelling = Labelling.of(shown)
    assert chains in chains_caption(shown, labelling)
    assert pairs in pairs_caption(shown, labelling)
    wanders = "wanders" in chains_caption(shown, labelling)
    assert wanders == (raw is SWITCHES)


def test_a_caption_says_where_folded_chains_do_not_agree(fit: folt.Fit) -> None:
    chains = dataclasses.replace(fit.certificate.chains, rhat=1.3)
    bad = dataclasses.replace(fit, certificate=dataclasses.replace(fit.certificate, chains=chains))
    assert "R-hat of the folded chains is 1.300" in chains_caption(bad, Labelling.of(bad))
    assert "R-hat" not in chains_caption(fit, Labelling.of(fit))


def with_mixed(certificate, mixed: float):
    """Return the certificate of a fit whose order confuses so many labels that are plain."""
    boundary = certificate.symmetry.boundary
    plain = dataclasses.replace(boundary, ambiguity=0.01, mixed=mixed)
    return altered(certificate, symmetry={"boundary": plain})


def test_captions_promise_no_colour_that_keeps_its_component_where_order_confuses_them(fit) -> None:
    certificate = with_mixed(fit.certificate, 0.16)
    confused = dataclasses.replace(labelled(fit, SWITCHES), certificate=certificate)
    assert "keeps" in chains_caption(labelled(fit, SWITCHES), Labelling.of(confused))
    assert "keeps" not in chains_caption(confused, Labelling.of(confused))
    assert "colours still mix" in chains_caption(confused, Labelling.of(confused))


def test_a_good_fit_says_why_slow_reference_chains_do_no_harm(fit: folt.Fit) -> None:
    slow = Caution.of(Concern.DISAGREEING_CHAINS, rhat=1.026, limit=1.025)
    facts = {"cautions": (slow,), "rhat": 1.026, "refreshed": 9, "refreshed_rhat": 1.002}
    for name, words in (("good", "9 steps of the sampler"), ("poor", "do not quite agree")):
        certificate = altered(worse(fit.certificate, name), reference=facts)
        shown = dataclasses.replace(fit, certificate=certificate)
        assert words in " ".join(shown.summary().split())
        assert words in page(shown)
        assert ("Warning" in shown.summary()) == ("Warning." in page(shown)) == (name == "poor")


@pytest.mark.parametrize("name", ["poor", "reference in doubt", "ambiguous labels"])
def test_labels_that_their_order_confuses_are_said_whatever_the_verdict(
    mixture_fit: folt.Fit, name: str
) -> None:
    cure = 'fit.relabelled(sort_by="proposal")'
    for mixed in (0.01, 0.45):
        certificate = with_mixed(worse(mixture_fit.certificate, name), mixed)
        shown = dataclasses.replace(mixture_fit, certificate=certificate)
        said = mixed > 0.1
        assert (certificate.status.name == name) == (said or name != "ambiguous labels")
        assert (cure in repr(shown)) == (cure in shown.summary()) == said
        assert (cure in unescape(page(shown))) == said
        assert any(cure in sentence for sentence in conclusions(shown).may) == (
            said and name == "ambiguous labels"
        )


def test_parts_of_a_long_family_are_counted_from_one(fit: folt.Fit) -> None:
    values = np.random.default_rng(0).normal(size=(2, 50, 9))
    families = Parameters.of(with_draws(fit, {"noise": values}, None)).families
    several = [family.label for family in families if family.label.startswith("noise:")]
    assert several == ["noise: 1 to 8 of 9", "noise: 9 of 9"]


def test_what_never_varies_has_no_marginal(fit: folt.Fit) -> None:
    values = np.random.default_rng(0).normal(size=(2, 50, 2))
    constant = with_draws(fit, {"initial": np.full((2, 50, 2), 0.5), "mu": values}, None)
    assert [family.title for family in Parameters.of(constant).panels()] == ["mu"]


def test_a_family_of_a_matrix_says_whether_it_comes_or_goes(fit: folt.Fit) -> None:
    """Probabilities to go to state 1 were called those of state 1."""
    values = np.random.default_rng(0).normal(size=(2, 50, 2, 2))
    named = dataclasses.replace(
        with_draws(fit, {"transition": values}, None), dims={"transition": ("state", "state_to")}
    )
    several = [family.title for family in Parameters.of(named).families if not family.single]
    assert several == ["transition, to state 1", "transition, to state 2"]


def test_pictures_open_on_what_relabelling_moves(fit: folt.Fit) -> None:
    """The noise of variables, which has no labels, opened the chains of a factor model."""
    generator = np.random.default_rng(0)
    folded = {name: generator.normal(size=(2, 100, 3)) for name in ("noise", "loading")}
    raw = {"noise": 7.0 * folded["noise"], "loading": folded["loading"]}
    shown = dataclasses.replace(with_draws(fit, folded, raw), exchanged={"loading": (0,)})
    assert Parameters.of(shown).opening().parameter == "loading"


def moving_fit(fit: folt.Fit, extra: Callable[[jax.Array], dict]) -> folt.Fit:
    """Normal draws of two coordinates, the first of which may be reflected."""
    problem = folt.Problem(
        lambda x: -0.5 * jnp.sum((jnp.abs(x) - 3.0) ** 2),
        folt.groups.Reflection(2, (0,)),
        constrain=lambda x: {**extra(x), "theta": x[0] * jnp.arange(1.0, 4.0)},
    )
    posterior = problem.parameters(fit.draws)
    return dataclasses.replace(with_draws(fit, posterior, posterior), problem=problem)


def test_pictures_open_on_what_a_flip_of_signs_moves(fit: folt.Fit) -> None:
    """The difficulties of a test, which nothing moves, stood for its abilities and slopes."""
    shown = moving_fit(fit, lambda x: {"b": x[1] + jnp.arange(4.0), "square": x[0] ** 2})
    parameters = Parameters.of(shown)
    assert parameters.sorted  # "b" ascends in every draw, but the group does not sort it
    assert parameters.moved == {5, 6, 7}
    assert parameters.opening().parameter == "theta"
    assert set(parameters.showcase()) == {5, 6, 7}


def test_only_entries_that_relabelling_exchanges_have_colours_of_components(fit: folt.Fit) -> None:
    generator = np.random.default_rng(0)
    values = {name: generator.normal(size=(2, 50, 3)) for name in ("person", "mu")}
    shown = dataclasses.replace(with_draws(fit, values, None), exchanged={"mu": (0,)})
    panels = shown.plot("marginals").axes
    assert [len({line.get_color() for line in panel.lines[:9:3]}) for panel in panels] == [1, 3]


def test_marginals_say_how_many_of_how_many_they_show() -> None:
    values = np.random.default_rng(0).normal(size=(2, 50, 9))
    figure = marginals_figure({f"x{k}": values for k in range(13)})
    assert figure.axes[0].get_title(loc="left") == "x0: 8 of 9"
    assert figure.get_supxlabel() == "the first 12 of 13 panels"


def test_families_run_along_the_first_axis_and_every_scalar_can_be_chosen(fit: folt.Fit) -> None:
    values = np.random.default_rng(0).normal(size=(2, 50, 3, 2))
    parameters = Parameters.of(with_draws(fit, {"mu": values, "tau": values[..., 0, 0]}, None))
    several = [family for family in parameters.families if not family.single]
    assert [family.members for family in several] == [(0, 2, 4), (1, 3, 5)]
    assert [family.label for family in several] == [
        "mu[·,0]: all 3 together",
        "mu[·,1]: all 3 together",
    ]
    single = [family.members[0] for family in parameters.families if family.single]
    assert single == list(range(7))
    np.testing.assert_array_equal(parameters.folded.draws[..., 3], values[:, ..., 1, 1])


def test_a_page_of_many_parameters_holds_them_all_and_stays_light(fit: folt.Fit) -> None:
    values = np.random.default_rng(0).normal(size=(4, 500, 200))
    many = page(with_draws(fit, {"theta": values}, {"theta": values[:, :250]}))
    assert len(many) < LARGEST
    chooser = many[many.index('id="choose-parameter"') :]
    chooser = chooser[: chooser.index("</select>")]
    assert chooser.count("<option") == 225  # 200 one by one, and all of them by eights
    assert many.count("<tr><td>theta[") == 200


def test_very_many_derived_entries_are_cut_and_counted(fit: folt.Fit) -> None:
    derived = np.random.default_rng(0).normal(size=(4, 500, 240, 3))
    both = {"part": derived, **fit.posterior}
    raw = {name: values[:, :100] for name, values in both.items()}
    many = with_draws(fit, both, raw)
    lines = many.summary().splitlines()
    assert len(lines) < 90
    names = [line.split()[0] for line in lines if line.startswith(("x", "part"))]
    assert names[:2] == list(fit.posterior)  # what has coordinates comes first
    assert "663 of 722 rows are left out (663 of part)" in re.sub(r"\s+", " ", many.summary())
    shown = page(many)
    assert len(shown) < LARGEST
    assert "fit.table() has all" in shown
    assert "part[65,2]" in shown
    assert "part[66,0]" not in shown


@pytest.mark.parametrize(
    ("group", "orbits"),
    [
        (folt.groups.Permutation(3, 2), [(0, 2, 4), (1, 3, 5)]),
        (folt.groups.Reflection(3, (0,)), [(0,), (1,), (2,)]),
        (folt.groups.SignedPermutation(2, 2), [(0, 2), (1, 3)]),
        (folt.groups.Trivial(2), [(0,), (1,)]),
    ],
)
def test_coordinates_that_the_group_exchanges_are_found(group: folt.groups.Group, orbits) -> None:
    assert coordinate_orbits(group) == orbits


def test_exchanged_coordinates_are_one_family(fit: folt.Fit) -> None:
    names, values = ("a", "b", "c", "d"), np.random.default_rng(0).normal(size=(4, 2, 50))
    renamed = dataclasses.replace(fit, names=names, group=folt.groups.Permutation(2, 2))
    parameters = Parameters.of(with_draws(renamed, dict(zip(names, values, strict=True)), None))
    together = [family for family in parameters.families if not family.single]
    assert [(family.label, family.members) for family in together] == [
        ("a, c together", (0, 2)),
        ("b, d together", (1, 3)),
    ]


def test_raw_chains_are_kept_in_the_parameters_of_the_user(
    mixture_fit: folt.Fit, tmp_path: Path
) -> None:
    kept = folt.load(mixture_fit.save(tmp_path / "fit.nc")).reference.raw_posterior
    assert kept is not None
    for name, values in mixture_fit.posterior.items():
        np.testing.assert_array_equal(kept[name], values[:, :100])


def test_sections_of_a_model_stand_after_the_estimates(fit: folt.Fit) -> None:
    section = Section("The data & more", "What to see.", marginals_figure(fit.posterior))
    found = page(fit, [section])
    heading = found.index("The data &amp; more</h2>")
    assert found.index('id="estimates"') < heading < found.index('id="chains"')
    assert "What to see." in found[heading:]
    assert resources(found).open == []
    identifiers = resources(found).identifiers
    assert len(identifiers) == len(set(identifiers))


def test_demo_writes_all_it_promises(
    mixture_fit: folt.Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "UNFOLDED_STEPS", STEPS)
    monkeypatch.setattr(demo, "sample", lambda problem, **options: mixture_fit)
    with Store(tmp_path / "new" / "folder") as store:
        _, paths = demo.run_in(store, 0, progress=False)
    files = {path.name: path for path in paths}
    names = {"fit.nc", "report.html", "chains.png", "marginals.png", "data.png"}
    assert set(files) == names
    there = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert there == {*names, "settings.json"}
    for name in ("chains", "marginals", "data"):
        width, height = png_size(files[f"{name}.png"].read_bytes())
        assert width > 1000
        assert height > 600
    assert folt.load(files["fit.nc"]).posterior["mu"].shape == (4, 500, 3)


def png_size(content: bytes) -> tuple[int, int]:
    assert content.startswith(b"\x89PNG\r\n")
    assert len(content) > 20_000, "a picture with nothing in it"
    return struct.unpack(">II", content[16:24])


def test_the_unfolded_chain_of_the_demo_visits_every_labelling(mixture_fit: folt.Fit) -> None:
    mu = demo.unfolded_means(mixture_fit, STEPS)
    orders = {tuple(np.argsort(row)) for row in mu}
    assert len(orders) == 6
    folded = mixture_fit.posterior["mu"].reshape(-1, 3)
    assert {tuple(np.argsort(row)) for row in folded} == {(0, 1, 2)}
