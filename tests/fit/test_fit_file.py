"""Fit files: equal in every field after a round trip, whole or not there at all, no pickle."""

import dataclasses
import json
import math
import re
from types import SimpleNamespace

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import folt
import folt.fit.file
from arviz_either import left_out
from brief import brief_fit
from cases import GROUPS, bent
from folt.certificate.certificate import Certificate
from folt.certificate.diagnostics.coverage import Coverage
from folt.fit import arviz as thinning
from folt.fit import replicates
from folt.fit.file import to_bytes
from folt.fit.section import Section
from folt.fit.serial import NotStorableError, pack, unpack
from folt.groups import Blocks, Fixed, Joint, Permutation, ZeroSum
from folt.models import broken_banana, label_switching
from folt.paper.flow import SpectralCoupling
from folt.problem import Problem
from folt.problem.named_values import fitting_dims
from folt.proposals import Gaussian, Mixture, Pushed, Safety, StudentT
from folt.reference import Exact
from folt.report.page import page
from folt.store import WritingStep, watched

CENTRES = jnp.array([2.0, 0.5, 5.0, 0.8])


@pytest.fixture(scope="module")
def fit():
    """The exact proposal, given as it is: nothing is trained."""
    return folt.sample(
        label_switching(2, 2),
        seed=5,
        chains=2,
        draws=60,
        reference=Exact(2_000, 20),
        flow=Gaussian(CENTRES, jnp.eye(4)),
        progress=False,
    )


@pytest.fixture(scope="module")
def saved(fit, tmp_path_factory):
    return fit.save(tmp_path_factory.mktemp("fits") / "fit.nc")


def same(a, b):
    """Equality down to the last bit, of arrays, modules, dictionaries and NaN."""
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        names = [field.name for field in dataclasses.fields(a)]
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in names)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (np.ndarray, jax.Array)):
        a, b = np.asarray(a), np.asarray(b)
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


def test_round_trip_is_equal_in_every_field(fit, saved):
    back = folt.load(saved)
    assert back.problem is None
    for field in dataclasses.fields(fit):
        if field.name not in ("problem", "log_likelihood", "proposals"):
            assert same(getattr(fit, field.name), getattr(back, field.name)), field.name
    assert isinstance(back.draws, np.ndarray)
    assert isinstance(back.group, Permutation)


def test_another_problem_is_refused_on_loading(fit, saved):
    """Of the same dimension, with other names, another group or another log density."""
    own = fit.problem
    assert folt.load(saved, problem=own).problem is own
    others = {
        "log density at its draws": Problem(lambda x: own.log_density(x) - x @ x, own.group),
        "coordinates x0": Problem(own.log_density, own.group, names=list("abcd")),
        "a group Permutation": Problem(own.log_density, folt.groups.Trivial(4)),
    }
    for words, other in others.items():
        with pytest.raises(ValueError, match=words):
            folt.load(saved, problem=other)


def test_names_of_axes_survive(fit, tmp_path):
    named = dataclasses.replace(
        fit, posterior={"mu": fit.draws[..., :2]}, dims={"mu": ("component",)}
    )
    path = named.save(tmp_path / "fit.nc")
    assert folt.load(path).dims == {"mu": ("component",)}
    for data in (
        xarray.load_dataset(path, group="posterior"),
        folt.load(path).to_arviz().posterior,
    ):
        assert data["mu"].dims == ("chain", "draw", "component")


def test_names_of_axes_that_do_not_fit_are_left_out():
    problem = Problem(
        lambda x: -jnp.sum(x**2),
        Permutation(2, 2),
        dims={
            "a": ("component",),
            "b": ("component",),
            "c": ("component", "more"),
            "d": ("other",),
        },
    )
    posterior = {
        name: np.zeros((1, 5, length)) for name, length in zip("abc", (2, 3, 2), strict=True)
    }
    observed = {"d": ("other",)}  # no parameter: the shape is known where terms are computed
    assert fitting_dims(problem, posterior) == {"a": ("component",), **observed}


def test_the_loaded_proposal_is_the_same_distribution(fit, saved):
    back = folt.load(saved)
    x = jnp.array([0.3, 1.0, -2.0, 4.0])
    assert float(back.proposal.log_prob(x)) == float(fit.proposal.log_prob(x))
    key = jax.random.key(0)
    np.testing.assert_array_equal(back.proposal.sample(key), fit.proposal.sample(key))


def test_a_fit_behind_margins_survives(tmp_path):
    problem = label_switching(2, 2)
    made = folt.sample(
        problem,
        chains=2,
        draws=60,
        reference=Exact(2_000, 20),
        flow=bent(Gaussian(CENTRES, jnp.eye(4))),
        progress=False,
    )
    back = folt.load(made.save(tmp_path / "bent.nc"), problem=problem)
    assert same(back.proposal, made.proposal)
    np.testing.assert_array_equal(back.extend(30).draws, made.extend(30).draws)
    np.testing.assert_array_equal(back.unfolded(1), made.unfolded(1))


def test_a_loaded_fit_goes_on_as_the_original_would(fit, saved):
    back = folt.load(saved, problem=label_switching(2, 2))
    np.testing.assert_array_equal(back.extend(30).draws, fit.extend(30).draws)
    np.testing.assert_array_equal(back.unfolded(1), fit.unfolded(1))
    assert back.summary()
    with pytest.raises(ValueError, match="problem=problem"):
        folt.load(saved).extend(10)


def test_numbers_that_are_not_finite_survive(fit, tmp_path):
    strange = dataclasses.replace(
        fit,
        certificate=dataclasses.replace(
            fit.certificate,
            full_osc=math.inf,
            gap_upper=math.nan,
            coverage=Coverage(-math.inf, math.nan, 0.0),
            reference=dataclasses.replace(fit.certificate.reference, rhat=math.inf),
        ),
    )
    back = folt.load(strange.save(tmp_path / "strange.nc"))
    assert same(back.certificate, strange.certificate)


def test_the_problem_must_fit_the_file(saved):
    with pytest.raises(ValueError, match="dimension 4"):
        folt.load(saved, problem=label_switching(3, 2))


def test_arviz_opens_the_file(fit, saved):
    import arviz

    data = arviz.from_netcdf(saved)
    np.testing.assert_array_equal(data.posterior["x2"].values, fit.posterior["x2"])
    np.testing.assert_array_equal(data.sample_stats["log_ratio"].values, fit.log_ratio)
    assert data.posterior.attrs["folt_status"] == fit.certificate.status.name
    certificate = json.loads(data.posterior.attrs["folt_certificate"])
    assert certificate == fit.certificate.to_dict()


def test_arviz_summary(fit):
    import arviz

    table = arviz.summary(fit.to_arviz())
    assert list(table.index) == ["x0", "x1", "x2", "x3"]
    assert table["mean"].to_numpy() == pytest.approx(fit.draws.mean(axis=(0, 1)), abs=1e-3)
    assert np.isfinite(table["ess_bulk"]).all()


def dataset_types(path):
    """The type of every dataset in an HDF5 file."""
    found = []

    def look(_, item):
        if isinstance(item, h5py.Dataset):
            found.append(item.dtype)

    with h5py.File(path) as file:
        file.visititems(look)
    return found


def test_no_pickle_inside(saved):
    """Datasets are numbers; what is text is JSON or prose, and strict JSON at that."""
    datasets = dataset_types(saved)
    assert len(datasets) > 8
    assert all(dtype.kind in "fiu" for dtype in datasets)
    raw = saved.read_bytes()
    assert not any(marker in raw for marker in (b"pickle", b"\x80\x04\x95", b"\x80\x05\x95"))
    meta = xarray.load_dataset(saved, group="folt", engine="h5netcdf")["meta"].values.tobytes()
    json.loads(meta, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.mark.parametrize("where", ["missing/fit.nc", "file/fit.nc", "folder"])
def test_a_path_that_cannot_be_written(fit, tmp_path, where):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="cannot write"):
        fit.save(tmp_path / where)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize(
    "moment", [WritingStep.BEGIN, WritingStep.WRITE, WritingStep.SYNC, WritingStep.PLACE]
)
@pytest.mark.parametrize("old", [True, False])
def test_an_interrupted_save_leaves_things_as_they_were(fit, tmp_path, fault, moment, old):
    path = tmp_path / "fit.nc"
    if old:
        path.write_bytes(b"an older file")

    def interrupt(step, _):
        if step is moment:
            raise fault

    with (
        pytest.raises(KeyboardInterrupt if fault is KeyboardInterrupt else ValueError) as refusal,
        watched(interrupt),
    ):
        fit.save(path)
    assert list(tmp_path.iterdir()) == ([path] if old else [])
    assert not old or path.read_bytes() == b"an older file"
    if fault is not KeyboardInterrupt:
        assert re.search(r"fit.nc: no space left, .* MB needed and .* free", str(refusal.value))


def test_saving_over_a_loaded_file_works(fit, saved):
    folt.load(saved).save(saved)
    assert same(folt.load(saved).certificate, fit.certificate)


def test_the_seal_is_invisible_to_other_readers_and_arrays_have_checksums(saved):
    with h5py.File(saved) as file:
        assert file["folt/draws"].fletcher32
        assert file["posterior/x0"].fletcher32
    assert xarray.load_dataset(saved, group="posterior")["x0"].shape == (2, 60)


def garbage(data):
    return b"garbage" * 100


def cut_short(data):
    return data[:3000]


def cut_by_one(data):
    return data[:-1]


def empty(data):
    return b""


def appended(data):
    return data + b"\n"


def one_bit(data):
    return data[:9_000] + bytes([data[9_000] ^ 1]) + data[9_001:]


def newer(data):
    return data.replace(b"fit, format 0002", b"fit, format 0003")


def older(data):
    return data.replace(b"fit, format 0002", b"fit, format 0001")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (garbage, "expected netCDF that folt wrote"),
        (cut_short, "cut short"),
        (cut_by_one, "cut short"),
        (empty, "expected netCDF that folt wrote"),
        (appended, "cut short, changed by another program"),
        (one_bit, "damaged or changed after folt wrote it"),
        (newer, "format 3 by a newer folt, expected format 2"),
        (older, "format 1 by an older folt, expected format 2"),
    ],
)
def test_what_folt_did_not_write_like_this_is_refused(saved, tmp_path, spoil, words):
    path = tmp_path / "spoilt.nc"
    path.write_bytes(spoil(saved.read_bytes()))
    with pytest.raises(ValueError, match=words) as refusal:
        folt.load(path)
    assert "\n" not in str(refusal.value)


def forged(path, fit, **changes):
    """A file whose seal is right and whose contents are not, as only somebody can make it."""
    path.write_bytes(to_bytes(dataclasses.replace(fit, **changes)))
    return path


def in_certificate(fit, part, **changes):
    found = getattr(fit.certificate, part)
    changed = dataclasses.replace(found, **changes)
    return {"certificate": dataclasses.replace(fit.certificate, **{part: changed})}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (lambda fit: {"draws": np.where(fit.draws > 4, np.nan, fit.draws)}, "draws are not finite"),
        (lambda fit: {"log_ratio": np.full((2, 60), np.nan)}, "log ratios are not numbers"),
        (lambda fit: {"names": ("a", "b")}, "number of names"),
        (lambda fit: {"wall": {"training": "long"}}, "wall"),
        (lambda fit: {"wall": {"training": -1.0}}, "wall"),
        (lambda fit: {"evaluations": {"value": -3}}, "evaluations"),
        (lambda fit: in_certificate(fit, "faults", infinite=-1), "infinite"),
        (lambda fit: in_certificate(fit, "chains", accept_rate=1.2), "accept_rate"),
        (lambda fit: in_certificate(fit, "chains", ess=-5.0), "ess"),
        (lambda fit: in_certificate(fit, "safety", weight=1.5), "weight"),
    ],
)
def test_numbers_that_cannot_be_are_refused(fit, tmp_path, changes, words):
    path = forged(tmp_path / "forged.nc", fit, **changes(fit))
    with pytest.raises(ValueError, match=f"can be relied on: .*{words}"):
        folt.load(path)


@pytest.mark.parametrize(
    "edit",
    [
        lambda meta: meta.pop("certificate"),
        lambda meta: meta["certificate"]["items"].pop("evidences"),
        lambda meta: meta.update(group={"kind": "os.system"}),
        lambda meta: meta.update(arrays=99),
        lambda meta: meta.update(wall=[1]),
        lambda meta: meta.clear(),
    ],
)
def test_parts_that_are_missing_are_one_sentence(fit, tmp_path, monkeypatch, edit):
    letters = folt.fit.file._letters

    def edited(text, name):
        if name == "meta":
            tree = json.loads(text)
            edit(tree)
            text = json.dumps(tree)
        return letters(text, name)

    monkeypatch.setattr(folt.fit.file, "_letters", edited)
    path = fit.save(tmp_path / "edited.nc")
    with pytest.raises(ValueError, match="not a fit file that can be relied on") as refusal:
        folt.load(path)
    assert "\n" not in str(refusal.value)


def with_status(monkeypatch, **status):
    """Files whose verdict was edited."""
    tree = Certificate.tree

    def edited(self):
        found = tree(self)
        return {**found, "status": {**found["status"], **status}}

    monkeypatch.setattr(Certificate, "tree", edited)


def test_a_verdict_that_its_numbers_do_not_give_is_refused(fit, tmp_path, monkeypatch):
    with_status(monkeypatch, name="splendid")
    path = fit.save(tmp_path / "edited.nc")
    with pytest.raises(ValueError, match=r"verdict is 'splendid', its numbers give"):
        folt.load(path)


def test_a_verdict_under_other_rules_is_made_anew_and_said(fit, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        with_status(patch, name="splendid", rules=1)
        path = fit.save(tmp_path / "earlier.nc")
    with pytest.warns(UserWarning, match=r"under rules 1 and called 'splendid'; by today's rules"):
        back = folt.load(path)
    assert back.certificate.status.name == fit.certificate.status.name


def drawn_section():
    figure = Figure()
    panel = figure.subplots()
    panel.plot([1, 2], [3, 4], label="a < b & \\c")
    panel.imshow([[1, 2], [3, 4]])
    panel.legend()
    return Section("Data", "What <b>they</b> show.", figure)


def test_sections_and_pages_survive(fit, tmp_path):
    whole = dataclasses.replace(fit, sections=(drawn_section(), drawn_section()))
    path = whole.save(tmp_path / "fit.nc")
    back = folt.load(path)
    assert [section.title for section in back.sections] == ["Data", "Data"]
    assert page(back) == page(whole)
    again = folt.load(back.save(path))
    assert [one.drawing("x") for one in again.sections] == [
        one.drawing("x") for one in back.sections
    ]


@pytest.mark.parametrize(
    "drawing",
    [
        "<svg><script>alert(1)</script></svg>",
        '<svg onload="alert(1)"></svg>',
        '<svg><g onclick="alert(1)"/></svg>',
        '<svg><use xlink:href="https://example.org/x.svg#a"/></svg>',
        '<svg><image href="https://example.org/x.png"/></svg>',
        "<svg><style>*{display: none}</style></svg>",
        '<svg><path style="fill: url(https://example.org/x)"/></svg>',
        "<svg><foreignObject/></svg>",
        '<svg style="position: fixed"/>',
        "<svg></svg><script>alert(1)</script>",
        "<p>not a drawing</p>",
        "",
    ],
)
def test_a_drawing_in_a_file_can_do_nothing_but_be_looked_at(fit, tmp_path, drawing):
    path = forged(tmp_path / "forged.nc", fit, sections=(Section("a", "b", drawing),))
    with pytest.raises(ValueError, match="drawing"):
        folt.load(path)


def test_the_log_likelihood_is_in_the_file(tmp_path):
    import arviz

    values = np.concatenate([np.linspace(-4, -3, 10), np.linspace(2, 4, 14)])
    fit = brief_fit(folt.models.gaussian_mixture(values, 2), draws=100)
    expected = left_out(fit.to_arviz())
    back = folt.load(fit.save(tmp_path / "fit.nc"))
    found = left_out(back.to_arviz())
    assert found == pytest.approx(expected, abs=1e-4)
    assert left_out(arviz.from_netcdf(tmp_path / "fit.nc")) == found
    again = folt.load(back.save(tmp_path / "again.nc"))
    assert same(again.log_likelihood, back.log_likelihood)


def test_memory_of_terms_is_bounded_whatever_draws_and_observations(monkeypatch):
    """Blocks that are evaluated, and terms that stay, are counted: no more than was said."""
    monkeypatch.setattr(replicates, "ENTRIES", 9_000)
    monkeypatch.setattr(thinning, "TERMS_AT_ONCE", 500)
    counted, blocks = thinning.map_points, []

    def counting(function, problem, points, length):
        values = counted(function, problem, points, length=length)
        blocks.append(sum(value.size for value in values.values()))
        return values

    monkeypatch.setattr(thinning, "map_points", counting)
    problem = folt.models.gaussian_mixture(np.linspace(-3.0, 3.0, 40), 2)
    draws = np.random.default_rng(0).normal(size=(2, 700, problem.dim))
    fit = SimpleNamespace(draws=draws, problem=problem)
    terms = thinning.log_likelihoods(fit)
    assert max(blocks) <= 2 * 500
    assert terms.at.tolist() == list(range(0, 700, 7))
    assert sum(blocks) == terms.values["y"].size == 2 * 100 * 40
    for chain, place in ((0, 0), (1, 42)):
        with jax.enable_x64(True):
            alone = problem.log_likelihoods(jnp.asarray(draws[chain, 7 * place]))["y"]
        np.testing.assert_allclose(terms.values["y"][chain, place], alone, rtol=1e-12)


def by_budget(fit):
    """The same fit, had nobody asked for its number of draws."""
    return dataclasses.replace(fit, provenance={**fit.provenance, "draws_asked": False})


def test_a_file_keeps_some_of_the_draws_that_nobody_asked_for(fit, tmp_path, monkeypatch):
    monkeypatch.setattr(thinning, "_ENOUGH", 20)
    chosen = by_budget(fit)
    back = folt.load(chosen.save(tmp_path / "fit.nc"), problem=fit.problem)
    np.testing.assert_array_equal(back.draws, fit.draws[:, ::3])
    np.testing.assert_array_equal(back.log_ratio, fit.log_ratio[:, ::3])
    assert back.steps_per_draw == 3 * fit.steps_per_draw
    assert same(back.certificate, fit.certificate)
    assert back.is_certified_whole
    assert back.accept_rate == fit.accept_rate != back.accepted.mean()
    assert "kept these of 60 each" in back.summary()
    longer = back.extend(5)
    assert longer.draws.shape == (2, 25, 4)
    assert not longer.is_certified_whole
    assert "120 of the 130 draws" in longer.summary()
    assert folt.load(longer.save(tmp_path / "longer.nc")).draws.shape == (2, 25, 4)
    assert page(back)
    assert back.to_arviz().posterior.sizes["draw"] == 20
    again = folt.load(back.save(tmp_path / "again.nc", keep=10))
    np.testing.assert_array_equal(again.draws, fit.draws[:, ::6])
    assert (again.drawn, again.steps_per_draw) == (120, 6 * fit.steps_per_draw)
    for whole in (chosen.save(tmp_path / "all.nc", keep="all"), fit.save(tmp_path / "asked.nc")):
        np.testing.assert_array_equal(folt.load(whole).draws, fit.draws)
    for keep in ("some", 0, True, 2.5):
        with pytest.raises(ValueError, match="expected keep"):
            fit.save(tmp_path / "refused.nc", keep=keep)


def test_terms_of_a_thinned_file_are_those_of_its_draws(fit, tmp_path):
    terms = thinning.OfSomeDraws(
        {"y": np.arange(2 * 20 * 5.0).reshape(2, 20, 5)}, np.arange(0, 60, 3)
    )
    loaded = dataclasses.replace(fit, problem=None, log_likelihood=terms)
    back = folt.load(loaded.save(tmp_path / "f", keep=30))
    assert back.log_likelihood.at.tolist() == list(range(0, 30, 3))
    np.testing.assert_array_equal(back.log_likelihood.values["y"], terms.values["y"][:, ::2])
    assert back.to_arviz().log_likelihood.draw.values.tolist() == list(range(0, 30, 3))


@pytest.mark.parametrize(("name", "words"), [("nothing.nc", "found nothing"), (".", "the folder")])
def test_a_missing_file(tmp_path, name, words):
    with pytest.raises(ValueError, match=words):
        folt.load(tmp_path / name)


def test_a_model_in_the_place_of_its_problem_is_refused_as_by_sample(saved):
    with pytest.raises(ValueError, match=r"expected a folt\.Problem, got function: .*from_numpyro"):
        folt.load(saved, problem=lambda y: None)


def test_a_broken_symmetry_needs_its_problem_to_unfold(tmp_path):
    problem = broken_banana()
    fit = folt.sample(
        problem,
        chains=1,
        draws=40,
        reference=Exact(2_000, 20),
        flow=Gaussian(jnp.array([1.5, 2.0]), 0.4 * jnp.eye(2)),
        progress=False,
    )
    path = fit.save(tmp_path / "broken.nc")
    with pytest.raises(ValueError, match="not invariant"):
        folt.load(path).unfolded()
    np.testing.assert_array_equal(folt.load(path, problem=problem).unfolded(3), fit.unfolded(3))


def test_user_parameters_with_axes_of_their_own(fit, tmp_path):
    blocks = fit.draws.reshape(2, 60, 2, 2)
    named = dataclasses.replace(fit, posterior={"blocks": blocks, "total": blocks.sum((2, 3))})
    back = folt.load(named.save(tmp_path / "named.nc"))
    assert same(back.posterior, named.posterior)


# The objects themselves.


def round_trip(module):
    arrays = []
    tree = json.loads(json.dumps(pack(module, arrays), allow_nan=False))
    return unpack(tree, arrays)


@eqx.filter_jit
def folded(group, x):
    return group.fold(x)


@pytest.mark.parametrize("name", GROUPS)
def test_every_group_survives(name):
    group = GROUPS[name]()
    back = round_trip(group)
    assert back == group
    assert hash(back) == hash(group)
    x = jnp.linspace(-1.0, 2.0, group.dim) ** 3
    np.testing.assert_array_equal(folded(back, x), folded(group, x))


def test_a_fit_with_a_joint_group_can_be_saved(fit, tmp_path):
    joint = dataclasses.replace(fit, group=Joint(2, (Blocks(1), ZeroSum(), Fixed(1))))
    assert folt.load(joint.save(tmp_path / "joint.nc")).group == joint.group


FLOWS = {
    "gaussian": lambda: Gaussian(jnp.ones(2), jnp.eye(2)),
    "student mixture": lambda: Mixture(
        jnp.zeros(3), jnp.arange(6.0).reshape(3, 2), jnp.stack([jnp.eye(2)] * 3), 4.0
    ),
    "gaussian mixture": lambda: Mixture(jnp.zeros(1), jnp.ones((1, 2)), jnp.eye(2)[None]),
    "paper": lambda: Safety(
        Pushed(SpectralCoupling(2, 2, 4, jax.random.key(0)), jnp.ones(2), 2.0 * jnp.eye(2)),
        StudentT(jnp.zeros(2), 0.2 * jnp.eye(2), 5.0),
        0.02,
    ),
}


@pytest.mark.parametrize("name", FLOWS)
def test_every_flow_survives(name):
    flow = FLOWS[name]()
    back = round_trip(flow)
    assert same(back, flow)
    assert jax.tree.structure(back) == jax.tree.structure(flow)
    x = jnp.array([0.4, -1.3])
    log_prob = jax.jit(lambda flow: flow.log_prob(x))
    assert float(log_prob(back)) == float(log_prob(flow))


def test_single_precision_arrays_stay_single():
    back = round_trip(Gaussian(jnp.ones(2, jnp.float32), jnp.eye(2, dtype=jnp.float32)))
    assert back.mean.dtype == jnp.float32


class Stranger(Gaussian):
    """A distribution that the file format does not know."""


def test_what_is_not_folts_own_is_refused():
    for thing in (
        Stranger(jnp.ones(2), jnp.eye(2)),
        lambda x: x,
        Problem(jnp.sum, Permutation(2, 1)),
    ):
        with pytest.raises(NotStorableError):
            pack(thing, [])


def test_a_proposal_that_cannot_be_stored_is_left_out(fit, tmp_path):
    stranger = Stranger(jnp.zeros(4), jnp.eye(4))
    odd = dataclasses.replace(fit, proposal=Safety(fit.flow, stranger, 0.1))
    back = folt.load(odd.save(tmp_path / "odd.nc"))
    assert back.proposal is None
    assert same(back.draws, fit.draws)
    assert back.group == fit.group
