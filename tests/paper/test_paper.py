"""Reproduction: rows as contracted, none made twice, pages and figures from JSON alone."""

import json
import math
import runpy
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from folt.cli import run
from folt.paper import (
    TABLES,
    known_targets,
    modal,
    runner,
    shared_fits,
    table_named,
    tables_named,
)
from folt.paper.bayes_mixture import MEANS, distance_from_means
from folt.paper.document import document_page, open_document, read_document
from folt.paper.rows import (
    EMPTY,
    ReproductionSettings,
    TableJob,
    figure_of,
    published,
    published_figures,
    row,
)
from folt.paper.runner import reproduce, write_table
from folt.paper.shared_fits import problem_named, unfolded
from folt.paper.tables import Experiment, claim_verdict, figure_text, floor_claim, range_text
from folt.proposals import Gaussian
from folt.report.style import png
from folt.store import Entry
from folt.store.strict_json import plain

CONTRACT = {
    "case", "method", "seed", "qc", "full_osc", "accept", "ess_per_draw", "nll", "log_evidence",
    "mixing", "wall_s", "estimates", "published", "figure",
}  # fmt: skip
RHOS = ("0.025", "0.05", "0.1", "0.25")
QUICK = ReproductionSettings(quick=True, seeds=1)


def cores(osc: float) -> dict:
    gamma = 2.0 / (1.0 + math.exp(osc))
    core = {"osc": osc, "gamma": gamma, "core_gap": math.exp(-osc), "feasible": True, "n": 20000}
    core["predicted_ess"] = gamma / (2.0 - gamma)
    return {name: dict.fromkeys(RHOS, core) for name in ("target", "proposal")}


def invented(table: str, case: str, method: str, seed: int = 0, osc: float = 0.1, **parts) -> dict:
    """A row with numbers in every place that a table reads."""
    three = {"mean": [0.0, 3.0, 6.0], "median": [0.0, 3.0, 6.0], "standard_error": [0.1] * 3}
    sizes = ("sorted_ess_per_draw", "sorted_batch_means_ess_per_draw", "label_switch_rate")
    known = {
        "qc": cores(osc),
        "full_osc": 2.0,
        "accept": 0.9,
        "ess_per_draw": 0.8,
        "batch_means_ess_per_draw": 0.7,
        "nll": 3.0,
        "log_evidence": {"value": 0.0, "standard_error": 0.01},
        "mixing": {"0.1": 1, "0.05": 2, "0.01": None},
        "status": "good",
        "wall_s": 1.0,
        "estimates": dict.fromkeys(("mu", "sigma", "log_sigma", "frequency", "damping"), three),
        "details": dict.fromkeys(sizes, 0.5),
        "figure": {
            name: np.random.default_rng(seed).normal(size=(40, 3)).tolist()
            for name in ("mu", "frequency")
        },
        **parts,
    }
    return row(table, case, method, seed, **known)


def document_of(name: str, rows: list[dict]) -> dict:
    facts = {"wall_s": 1.0, "command": "c", "cpu": "1 x p", "git": None, "versions": {}}
    settings = ReproductionSettings().fingerprint(name)
    return {
        "name": name, "preset": "default", "quick": False, "settings": settings,
        "provenance": facts, "rows": rows,
    }  # fmt: skip


class Counting(Experiment):
    """A table that counts how often its rows are made, and may be interrupted."""

    name, title = "counting", "A table that counts"

    def __init__(self, names: str = "abc", stop_at: str = "") -> None:
        self.names, self.stop_at, self.made = names, stop_at, []

    def cases(self, settings: ReproductionSettings) -> list[TableJob]:
        return [
            TableJob(name, ("folded",), seed)
            for name in self.names
            for seed in settings.folded_seeds
        ]

    def run(self, fits, job: TableJob) -> list[dict]:
        if job.case == self.stop_at:
            raise KeyboardInterrupt
        if job.case == "x":
            raise FloatingPointError("the loss is not finite")
        self.made.append((job.case, job.seed))
        return [row(self.name, job.case, "folded", job.seed, accept=math.nan)]

    def report(self, rows: list[dict]) -> list[tuple[str, str]]:
        return [("Rows", ", ".join(f"{r['case']}{r['seed']}" for r in rows))]

    def claims(self, rows: list[dict], preset: str) -> list:
        return []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("dimension", "10", "folded", "saved", "osc", "0.05"), 0.1562),
        (("dimension", "2", "unfolded", "printed", "gamma", "0.1"), 0.608),
        (("label-switching", "m4p2", "unfolded", "printed", "gamma", "0.05"), 0.0043),
        (("label-switching", "m4p2", "folded", "printed", "accept"), 0.9),
        (("banana", "invariant", "folded", "saved", "full_osc"), 58.3776),
        (("baselines", "m3p2", "random-permutation", "printed", "accept"), 0.612),
        (("bayes-mixture", "500", "folded", "printed", "gamma", "0.05"), 0.878),
        (("modal", "typhoon", "unfolded", "saved", "gamma", "0.05"), 9.892e-06),
        (("conditions", "m4p2", "folded", "printed", "delta"), 3.77),
    ],
)
def test_published_figures(path, value):
    table, case, method, source, *rest = path
    assert figure_of({"published": published(table, case, method)}, source, *rest) == value


def test_saved_gammas_follow_from_saved_widths():
    """γ = 2/(1 + e^C), to the digits that were saved; a figure typed wrongly would not."""
    checked = 0
    for cases in published_figures().values():
        for methods in cases.values():
            for figures in methods.values():
                saved = figures["saved"] or {}
                for rho in saved.get("gamma", {}):
                    expected = 2.0 / (1.0 + math.exp(saved["osc"][rho]))
                    assert saved["gamma"][rho] == pytest.approx(expected, rel=3e-3)
                    checked += 1
    assert checked == 4 * 20


def test_every_row_has_what_the_contract_names():
    assert set(EMPTY) >= CONTRACT
    tree = {"a": math.inf, 0.05: np.float64(2), "b": [math.nan, np.bool_(True)]}
    assert plain(tree) == {"a": None, "0.05": 2.0, "b": [None, True]}


def test_a_second_run_makes_nothing_again(tmp_path):
    table = Counting()
    files = reproduce([table], ReproductionSettings(seeds=2), tmp_path, show=False)
    assert [path.name for path in files] == ["counting.json", "counting.md"]
    assert len(table.made) == 6
    before = files[0].read_bytes()
    reproduce([table], ReproductionSettings(seeds=2), tmp_path, show=False)
    assert len(table.made) == 6
    assert files[0].read_bytes() == before
    reproduce([table], ReproductionSettings(seeds=3), tmp_path, show=False)
    assert table.made[6:] == [("a", 2), ("b", 2), ("c", 2)]
    order = [(r["case"], r["seed"]) for r in read_document(files[0])["rows"]]
    assert order == [(name, seed) for name in "abc" for seed in range(3)]


def test_rows_of_another_version_are_kept_and_told(tmp_path, monkeypatch):
    reproduce([Counting()], ReproductionSettings(seeds=1), tmp_path, show=False)
    monkeypatch.setattr(runner, "commit", lambda: "another")
    with pytest.warns(UserWarning, match="3 of counting made on .* give another --out"):
        reproduce([Counting()], ReproductionSettings(seeds=1), tmp_path, show=False)


def test_an_interrupted_run_keeps_its_rows_and_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        reproduce([Counting(stop_at="c")], ReproductionSettings(seeds=1), tmp_path, show=False)
    names = {"counting.json", "counting.note.json"}
    assert {path.name for path in tmp_path.iterdir()} == {*names, "rows"}
    after = Counting()
    reproduce([after], ReproductionSettings(seeds=1), tmp_path, show=False)
    assert after.made == [("c", 0)]
    assert {path.name for path in tmp_path.iterdir()} == {*names, "counting.md"}


def test_training_that_diverges_is_a_row_and_the_others_go_on(tmp_path):
    table = Counting("axb")
    reproduce([table], ReproductionSettings(seeds=1), tmp_path, show=False)
    rows = read_document(tmp_path / "counting.json")["rows"]
    assert [r["case"] for r in rows] == ["a", "x", "b"]
    assert "not finite" in rows[1]["error"]
    text = (tmp_path / "counting.md").read_text()
    assert "a0, b0" in text
    assert "What failed" in text


@pytest.mark.parametrize(
    "other",
    [
        ReproductionSettings(quick=True),
        ReproductionSettings(preset="paper"),
        ReproductionSettings(identity_orbit=True),
        ReproductionSettings(seed=5),
    ],
)
def test_rows_of_other_settings_are_refused(tmp_path, other):
    reproduce([Counting()], ReproductionSettings(seeds=1), tmp_path, show=False)
    before = (tmp_path / "counting.json").read_bytes()
    with pytest.raises(ValueError, match="give another --out"):
        reproduce([Counting()], other, tmp_path, show=False)
    assert (tmp_path / "counting.json").read_bytes() == before


def test_a_file_that_is_no_document_is_refused(tmp_path):
    (tmp_path / "counting.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="expected results that folt reproduce wrote"):
        open_document(tmp_path / "counting.json", "counting", ReproductionSettings())


def test_verdicts():
    def judged(*oscs: float) -> str:
        return claim_verdict([invented("dimension", "5", "unfolded", osc=osc) for osc in oscs])

    assert judged(3.0) == "reproduced"
    assert judged(3.7) == "reproduced"
    assert judged(2.0, 4.0) == "reproduced"
    assert judged(0.1) == "better"
    assert judged(4.5) == "worse"
    assert claim_verdict([invented("banana", "broken", "folded")]) == "–"
    nothing = invented("dimension", "5", "unfolded", qc=None)
    assert claim_verdict([nothing]) == "not feasible"
    twin = invented("dimension", "5", "folded", osc=9.0)
    twin["identity_orbit"] = {"qc": cores(0.12)}
    assert claim_verdict([twin]) == "reproduced"


def test_a_bar_is_missed_by_one_bad_seed_or_one_missing_number():
    rows = [invented("dimension", "5", "folded", seed, osc=0.01) for seed in range(3)]
    assert floor_claim(rows, 0.99).holds
    assert not floor_claim([*rows, invented("dimension", "5", "folded", 3, osc=0.1)], 0.99).holds
    missing = invented("dimension", "5", "folded", 3, osc=0.01)
    missing["qc"]["target"] = {rho: {"gamma": None} for rho in RHOS}
    assert not floor_claim([*rows, missing], 0.99).holds


def test_words_for_numbers():
    assert [figure_text(v) for v in (None, True, 0.5, 1.5e-27, 443.2)] == [
        "–", "yes", "0.500", "1.5e-27", "443.2",
    ]  # fmt: skip
    assert range_text([0.91, None, 0.92]) == "0.910 to 0.920"
    assert range_text([2, 2], 0) == "2"


@pytest.mark.parametrize("name", ["banana", "dimension", "label-switching"])
def test_pages_and_figures_of_pairs_come_from_rows_alone(name):
    table = table_named(name)
    jobs = table.cases(ReproductionSettings())
    assert len(jobs) == 4 * len({job.case for job in jobs})
    rows = [
        invented(name, job.case, job.methods[0], job.seed, osc=0.1 + (job.methods[0] != "folded"))
        for job in jobs
    ]
    text = document_page(table, document_of(name, rows))
    for job in jobs:
        assert f"| {job.case} | {job.methods[0]} |" in text
    assert "does not hold" in text
    assert text == document_page(table, json.loads(json.dumps(document_of(name, rows))))
    figure = table.figure(document_of(name, rows))
    if figure is not None:
        assert png(figure)[:4] == b"\x89PNG"
        assert "11" not in [label.get_text() for label in figure.axes[0].texts]


@pytest.mark.parametrize("name", ["baselines", "bayes-mixture", "modal"])
def test_pages_of_the_other_tables_name_every_method(name):
    table = table_named(name)
    rows = [
        invented(name, job.case, method, job.seed)
        for job in table.cases(ReproductionSettings())
        for method in job.methods
    ]
    text = document_page(table, document_of(name, rows))
    for one in rows:
        assert f"| {one['method']} |" in text
    figure = table.figure(document_of(name, rows))
    if figure is not None:
        panels = len({one["method"] for one in rows} - {"post-hoc"})
        assert len(figure.axes) == 2 * panels


def test_distance_from_long_run_means():
    estimates = {
        name: {"mean": list(means), "standard_error": [0.01] * 3} for name, means in MEANS.items()
    }
    assert distance_from_means({"estimates": estimates}) == 0.0
    estimates["mu"]["mean"][1] += 0.02
    assert distance_from_means({"estimates": estimates}) == pytest.approx(2.0, rel=0.01)
    estimates["mu"]["standard_error"][0] = None
    assert distance_from_means({"estimates": estimates}) is None


def test_unfolded_is_the_same_target_without_symmetry():
    problem = problem_named("m3p2")
    bare = unfolded(problem)
    point = jnp.arange(6.0)
    assert bare.group.order == 1
    assert bare.log_prob(point) == problem.log_prob(point)
    assert bare.sampler is not None


def test_spectra_are_read_and_refused(tmp_path):
    path = tmp_path / "window.csv"
    path.write_text("# a remark\nfrequency_hz,psd\n0.7,1.0\n0.8,2.0\n")
    assert modal.read_window(path) == ((0.7, 0.8), (1.0, 2.0))
    assert modal.window_name(path) == "measured"
    assert modal.window_name(None) == "simulated"
    for number_of, text in enumerate(
        ["f,p\n1,2\n", "frequency_hz,psd\n", "frequency_hz,psd\n1,x\n"]
    ):
        wrong = tmp_path / f"wrong{number_of}.csv"
        wrong.write_text(text)
        with pytest.raises(ValueError, match="expected"):
            modal.read_window(wrong)


def test_all_is_every_table():
    assert [table.name for table in tables_named("all")] == list(TABLES)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere, so the command leaves it alone")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "expected one of banana"),
        (["banana", "--preset", "mine"], "is not one of 'default', 'paper'"),
        (["modal", "--data", "nothing.csv"], "frequency_hz,psd"),
        (["banana", "--seeds", "0"], "--seeds"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(arguments, words, elsewhere, capsys):
    assert run(["reproduce", *arguments, "--out", "made"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert not (elsewhere / "made").exists()


def test_a_tiny_run_by_the_command(elsewhere, capsys, monkeypatch):
    """Folded and unfolded rows of two dimensions, with a Gaussian that is not trained."""
    monkeypatch.setattr(known_targets.DimensionTable, "quick_cases", ("2",))
    sampled = []

    def brief(problem, **options):
        sampled.append(options["seed"])
        mean = [3.0, 0.0] if problem.group.order == 2 else [0.0, 0.0]
        flow = Gaussian(jnp.array(mean), jnp.diag(jnp.array([1.0 if mean[0] else 0.3, 1.0])))
        return sample(problem, **{**options, "flow": flow, "draws": 200})

    sample = shared_fits.sample
    monkeypatch.setattr(shared_fits, "sample", brief)
    words = ["reproduce", "dimension", "--quick", "--out", "made"]
    assert run([*words, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert sampled == [0, 0]
    made = elsewhere / "made"
    assert {path.name for path in made.iterdir()} == {
        f"dimension.{e}" for e in ("json", "note.json", "md", "png")
    }
    document = read_document(made / "dimension.json")
    assert document["quick"] is True
    assert document["provenance"].keys() >= {"versions", "git", "cpu", "wall_s", "command"}
    for one in document["rows"]:
        assert set(one) >= CONTRACT
        assert one["quick"] is True
        for protocol in ("target", "proposal"):
            for rho in RHOS:
                core = one["qc"][protocol][rho]
                assert {"osc", "gamma", "core_gap", "feasible", "n"} <= set(core)
        assert set(one["log_evidence"]) == {"value", "standard_error"}
        assert one["mixing"].keys() == {"0.1", "0.05", "0.01"}
        assert one["published"] == published("dimension", "2", one["method"])
    folded, bare = document["rows"]
    # The entropy of the target is that of a Gaussian, 1 + log 2π, and log 2 more unfolded.
    assert folded["nll"] == pytest.approx(1 + math.log(2 * math.pi), abs=0.15)
    assert bare["nll"] > folded["nll"] + math.log(2) - 0.1
    first = {path.name: path.read_bytes() for path in made.iterdir()}
    for name in ("dimension.md", "dimension.png"):
        (made / name).unlink()
    assert run(words) == 0
    assert sampled == [0, 0]
    assert {path.name: path.read_bytes() for path in made.iterdir()} == first
    entry = Entry(made / "dimension.note.json")
    write_table(table_named("dimension"), document, entry)
    assert (made / "dimension.md").read_bytes() == first["dimension.md"]
    docs = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "reproduction.py"))
    text = docs["filled"]("A\n<!-- results: dimension -->\nstale\n<!-- end -->\nB", elsewhere)
    assert text.startswith("A\n<!-- results: dimension -->\n\n### `results/made`")
    assert "| 2 | folded |" in text
    assert "stale" not in text
    assert docs["filled"](text, elsewhere) == text
