"""Bad input is refused at once: one sentence, nothing evaluated, nothing left behind."""

import inspect
import re

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import xarray

import folt
import folt.sampling
from folt.cli import run
from folt.groups import Permutation, Product, SignedPermutation, Trivial
from folt.proposals import Gaussian
from folt.reference import Exact, HostChains
from folt.sampling.checks import check
from folt.sampling.options import Options
from folt.sampling.spending import free_memory
from folt.training import OrbitMixture

MODEL = """
import folt, jax.numpy as jnp
def density(x): return -jnp.sum(x**2)
problem = folt.Problem(density, folt.groups.Permutation(2, 1))
seven = folt.groups.Permutation(7, 1)
large = folt.Problem(density, folt.groups.Product(seven, seven))
slashed = folt.Problem(density, folt.groups.Permutation(2, 1), names=["a/b", "a/c"])
raising = folt.Problem(density, folt.groups.Permutation(2, 1), constrain=lambda x: 1 / 0)
number = 3
def fails(): raise RuntimeError("no data")
def twins(): return folt.Problem(density, folt.groups.Permutation(2, 1), names=["a", "a"])
"""


def posterior_file(path, **variables):
    data = xarray.Dataset(
        {
            name: (["chain", "draw", *(f"{name}_{k}" for k in range(np.ndim(values) - 2))], values)
            for name, values in variables.items()
        }
    )
    data.to_netcdf(path, group="posterior", engine="h5netcdf")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    tables = {
        "data.csv": "x,y\n" + "\n".join(f"{v},{v * v}" for v in range(12)),
        "gap.csv": "x,y\n1,2\n3,\n5,6\n7,8\n",
        "words.csv": "x,y\n1,2\nthree,4\n",
        "ragged.csv": "x,y\n1,2\n3\n",
        "semicolon.csv": "x;y\n1;2\n3;4\n",
        "empty.csv": "",
        "heading.csv": "x,y\n",
        "same.csv": "x\n2\n2\n2\n2\n",
        "line.csv": "x,y\n" + "\n".join(f"{v},{2 * v + 1}" for v in range(12)),
        "minus.csv": "n\n1\n-2\n3\n4\n",
        "half.csv": "n\n1\n2.5\n3\n4\n",
        "two.csv": "x\n1\n2\n",
        "psd.csv": "frequency_hz,psd\n" + "\n".join(f"{0.7 + k / 100},1" for k in range(30)),
        "down.csv": "frequency_hz,psd\n0.8,1\n0.7,2\n",
        "still.csv": "1,2\n1,2\n1,2\n",
        "record.csv": "\n".join(f"{np.sin(k)},{np.cos(k)}" for k in range(400)),
        "model.py": MODEL,
        "broken.py": "problem = (",
        "raises.py": "raise OSError('no data here')",
        "text.nc": "not netCDF",
    }
    for name, text in tables.items():
        (folder / name).write_text(text)
    (folder / "bytes.csv").write_bytes(b"\xff\xfe\x00\xd8")
    mu = np.random.default_rng(0).normal(size=(2, 50, 2))
    matrix = np.ones((2, 50, 2, 2)) / 2
    posterior_file(
        folder / "posterior.nc",
        mu=mu,
        more=np.ones((2, 50, 3)),
        holes=np.where(mu > 1, np.nan, mu),
        flags=mu > 0,
        words=np.full((2, 50, 2), "a"),
        scalar=mu[..., 0],
        p=matrix,
        negative=matrix - 0.7,
        uneven=matrix * 3,
        z=(mu > 0).astype(int),
        one_based=(mu > 0).astype(int) + 1,
        far=(mu > 0).astype(int) * 7,
        halves=(mu > 0) / 2,
    )
    xarray.Dataset({"a": ("x", np.ones(3))}).to_netcdf(folder / "other.nc", engine="h5netcdf")
    return folder


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """The files, and a density that must not be evaluated."""
    for path in files.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)

    def evaluated(*_, **__):
        raise AssertionError("the density was evaluated")

    monkeypatch.setattr("folt.sampling.algorithm.require_symmetry", evaluated)
    return tmp_path


COMMANDS = [
    # What is not a command, or not an option of it.
    ("", "nonsense", "one of the commands"),
    ("", "--nope", "--nope"),
    ("demo", "--nope", "--nope"),
    ("demo", "extra", "extra"),
    ("demo", "--seed x", "--seed"),
    ("demo", "--seed -1", "--seed"),
    ("demo", "--seed 1.5", "--seed"),
    ("demo", f"--seed {2**63}", "--seed"),
    ("demo", f"--seed {2**70}", "--seed"),
    ("demo", "--out data.csv", "expected a folder"),
    ("demo", "--out data.csv/deep", "a file in its path"),
    # mixture
    ("mixture", "", "DATA.csv"),
    ("mixture", "data.csv", "--components"),
    ("mixture", "none.csv --components 2", "No such file"),
    ("mixture", ". --components 2", "directory"),
    ("mixture", "data.csv --components 0", "1 ≤ LOW"),
    ("mixture", "data.csv --components -2", "such as 3 or 2:6"),
    ("mixture", "data.csv --components 2.5", "such as 3 or 2:6"),
    ("mixture", "data.csv --components three", "such as 3 or 2:6"),
    ("mixture", "data.csv --components 4:2", "1 ≤ LOW"),
    ("mixture", "data.csv --components 2:", "such as 3 or 2:6"),
    ("mixture", "data.csv --components 21", "expected at most 20 components"),
    ("mixture", "data.csv --components 2:999999", "expected at most 20 components"),
    ("mixture", "data.csv --components 2 --columns z", "no column 'z'"),
    ("mixture", "data.csv --components 2 --columns 3", "no column '3'"),
    ("mixture", "data.csv --components 2 --columns y,y", "'y' twice"),
    ("mixture", "data.csv --components 2 --columns 1,x", "'x' twice"),
    ("mixture", "data.csv --components 2 --counts", "one column"),
    ("mixture", "data.csv --components 2 --draws 0", "--draws"),
    ("mixture", "data.csv --components 2 --draws 1000000000000", "of memory"),
    ("mixture", "data.csv --components 2 --chains 0", "--chains"),
    ("mixture", "data.csv --components 2 --chains 2.5", "--chains"),
    ("mixture", "data.csv --components 2 --labels odd", "--labels"),
    ("mixture", "data.csv --components 2 --out model.py", "expected a folder"),
    ("mixture", "gap.csv --components 2", "line 3, column 'y': a value is missing"),
    ("mixture", "words.csv --components 2", "line 3, column 'x': expected a number, got 'three'"),
    ("mixture", "ragged.csv --components 2", "line 3: expected 2 columns, got 1"),
    ("mixture", "semicolon.csv --components 2", "got collinear ones"),
    ("mixture", "empty.csv --components 2", "is empty"),
    ("mixture", "heading.csv --components 2", "nothing below it"),
    ("mixture", "bytes.csv --components 2", "not a text file"),
    ("mixture", "same.csv --components 2", "no spread"),
    ("mixture", "line.csv --components 2", "collinear"),
    ("mixture", "minus.csv --components 2 --counts", "negative value -2"),
    ("mixture", "half.csv --components 2 --counts", "fractional value 2.5"),
    ("mixture", "two.csv --components 3", "as many observations as components"),
    # modal
    ("modal", "", "a RECORD or --psd"),
    ("modal", "record.csv --psd psd.csv", "one of them"),
    ("modal", "record.csv --rate 8", "--band LOW HIGH"),
    ("modal", "record.csv --band 1 2", "sampling rate"),
    ("modal", "record.csv --rate -8 --band 1 2", "rate"),
    ("modal", "record.csv --rate 8 --band 2 1", "LOW < HIGH"),
    ("modal", "record.csv --rate 8 --band 1 9", "half the sampling rate"),
    ("modal", "record.csv --rate 8 --band 1 2 --overlap 1.5", "overlap"),
    ("modal", "record.csv --rate 8 --band 1 2 --segment never", "a duration such as"),
    ("modal", "record.csv --rate 8 --band 1 2 --window 9h", "does not fit"),
    ("modal", "record.csv --rate 8 --band 1 2 --step 9s", "with --window"),
    ("modal", "record.csv --rate 8 --band 1 2 --window 9s --modes 1:2", "one number of --modes"),
    ("modal", "still.csv --rate 8 --band 1 2", "is constant"),
    ("modal", "--psd psd.csv --modes 0", "1 ≤ LOW ≤ HIGH"),
    ("modal", "--psd psd.csv --modes 21", "expected at most 20 modes"),
    ("modal", "--psd psd.csv --modes 1:99", "expected at most 20 modes"),
    ("modal", "--psd psd.csv --modes many", "such as 3 or 2:6"),
    ("modal", "--psd psd.csv --damping 1 200", "at most 100"),
    ("modal", "--psd psd.csv --damping 5 1", "damping_range"),
    ("modal", "--psd psd.csv --damping -1 5", "damping_range"),
    ("modal", "--psd psd.csv --frequencies 5 7", "5.0 to 7.0"),
    ("modal", "--psd psd.csv --frequencies 2 1", "LOW < HIGH"),
    ("modal", "--psd psd.csv --band 0.7 0.9 --frequencies 5 7", "within the --band"),
    ("modal", "--psd psd.csv --band 5 7", "no frequency lies in the band"),
    ("modal", "--psd psd.csv --averages 0", "averages must be positive"),
    ("modal", "--psd psd.csv --motion sideways", "--motion"),
    ("modal", "--psd psd.csv --draws 9000000000000", "of memory"),
    ("modal", "--psd down.csv", "increasing order"),
    ("modal", "--psd data.csv", "expected the columns frequency_hz,psd"),
    # sample
    ("sample", "", "MODEL:PROBLEM"),
    ("sample", "model.py", "FILE.py:NAME"),
    ("sample", "none.py:problem", "found nothing"),
    ("sample", "broken.py:problem", "SyntaxError"),
    ("sample", "raises.py:problem", "line 1: OSError: no data here"),
    ("sample", "model.py:nothing", "has no 'nothing'"),
    ("sample", "model.py:number", "got int"),
    ("sample", "model.py:fails", "RuntimeError: no data"),
    ("sample", "model.py:twins", "'a' twice"),
    ("sample", "model.py:large", "does not permute whole blocks"),
    ("sample", "model.py:slashed", "such as 'a.b'"),
    ("sample", "model.py:raising", "constrain fails at a point"),
    ("sample", "model.py:problem --preset odd", "--preset"),
    ("sample", "model.py:problem --draws 1e3", "--draws"),
    ("sample", "model.py:problem --draws 10000000000000", "of memory"),
    ("sample", "model.py:problem --out model.py", "expected a folder"),
    # report
    ("report", "", "FIT.nc"),
    ("report", "none.nc", "found nothing"),
    ("report", ".", "is a folder"),
    ("report", "text.nc", "expected netCDF that folt wrote"),
    ("report", "posterior.nc", "cut short, changed by another program, or made by"),
    # relabel
    ("relabel", "posterior.nc", "--vars"),
    ("relabel", "none.nc --vars mu", "found nothing"),
    ("relabel", "text.nc --vars mu", "cannot be read as ArviZ netCDF"),
    ("relabel", "other.nc --vars mu", "no posterior group"),
    ("relabel", "posterior.nc --vars nu", "no variable 'nu'"),
    ("relabel", "posterior.nc --vars ,", "at least one variable"),
    ("relabel", "posterior.nc --vars mu --method odd", "--method"),
    ("relabel", "posterior.nc --vars mu --sort-by nu", "sort_by"),
    ("relabel", "posterior.nc --vars mu,more", "as many for all"),
    ("relabel", "posterior.nc --vars holes", "not finite"),
    ("relabel", "posterior.nc --vars flags", "holds bool: expected real numbers"),
    ("relabel", "posterior.nc --vars words", "expected real numbers"),
    ("relabel", "posterior.nc --vars scalar", "(chain, draw, component, ...)"),
    ("relabel", "posterior.nc --vars mu --square z", "of what is square"),
    ("relabel", "posterior.nc --vars mu --method stephens", "needs allocation probabilities"),
    ("relabel", "posterior.nc --vars mu --method ecr", "needs allocations"),
    ("relabel", "posterior.nc --vars mu --probabilities negative", "from 0 to 1"),
    ("relabel", "posterior.nc --vars mu --probabilities uneven", "sum to one"),
    ("relabel", "posterior.nc --vars mu --probabilities mu", "probabilities of shape"),
    ("relabel", "posterior.nc --vars mu --allocations one_based", "subtract one"),
    ("relabel", "posterior.nc --vars mu --allocations far", "from 0 to 1, one of 2 components"),
    ("relabel", "posterior.nc --vars mu --allocations halves", "whole numbers"),
    # reproduce
    ("reproduce", "nothing", "nothing"),
    ("reproduce", "banana --preset odd", "odd"),
    ("reproduce", "banana --seeds 0", "--seeds"),
    ("reproduce", "modal --data none.csv", "none.csv"),
]


@pytest.mark.parametrize(("command", "words", "message"), COMMANDS)
def test_a_command_refuses_in_one_line(command, words, message, folder, capsys):
    before = {path.name for path in folder.iterdir()}
    place = ["--out", "deep/out"] if command and "--out" not in words else []
    assert run([*([command] if command else []), *words.split(), *place]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("folt: ")
    assert message in captured.err
    assert {path.name for path in folder.iterdir()} == before


def test_a_model_with_its_data_is_no_problem_and_the_way_to_one_is_said():
    for function in (folt.sample, folt.check):
        with pytest.raises(TypeError, match=r"got 2 things: make one by folt.from_numpyro\(model"):
            function(quiet, np.ones(3))
        with pytest.raises(TypeError, match="options have names, such as seed=1"):
            function(problem(), 1)


def test_there_are_enough_of_them():
    assert len(COMMANDS) + len(CALLS) >= 80


def density(x):
    raise AssertionError("the density was evaluated")


def quiet(x):
    return -jnp.sum(x**2)


SWAP = Permutation(2, 1)


def problem(**parts):
    return folt.Problem(quiet, parts.pop("symmetry", SWAP), **parts)


CALLS = [
    (lambda: folt.sample(3), "expected a folt.Problem, got int"),
    (lambda: folt.sample(quiet), r"got function: make one by folt.from_numpyro\(model"),
    (lambda: folt.sample(problem(), effort="fast"), "'quick', 'default', 'thorough' .*'fast'"),
    (lambda: folt.sample(problem(), draws=100.0), "draws to be a whole number"),
    (lambda: folt.sample(problem(), draws=True), "draws to be a whole number"),
    (lambda: folt.sample(problem(), draws=0), "draws to be a whole number of at least 1"),
    (lambda: folt.sample(problem(), draws=10**12), r"draws need about [\d,.]+ TB of memory"),
    (lambda: folt.sample(problem(), chains=2.5), "chains to be a whole number"),
    (lambda: folt.sample(problem(), chains="4"), "chains to be a whole number"),
    (lambda: folt.sample(problem(), seed=-1), "seed to be a whole number of at least 0"),
    (lambda: folt.sample(problem(), seed=1.0), "seed to be a whole number"),
    (lambda: folt.sample(problem(), seed="1"), "seed to be a whole number"),
    (lambda: folt.sample(problem(), seed=2**64 - 1), "at most 9223372036854775807"),
    (lambda: folt.sample(problem(), seed=None), "seed to be a whole number"),
    (lambda: folt.sample(problem(), flow="abc"), "flow to be a trainer .* got 'abc'"),
    (lambda: folt.sample(problem(), flow=OrbitMixture), "the class OrbitMixture: give an instance"),
    (lambda: folt.sample(problem(), flow=Gaussian(jnp.ones(3), jnp.eye(3))), "dimension 2, got 3"),
    (lambda: folt.sample(problem(), flow=lambda x: x), "flow to be called as"),
    (lambda: folt.sample(problem(), start="abc"), "an earlier folt.Fit, got 'abc'"),
    (lambda: folt.sample(problem(), reference="abc"), "found nothing at abc"),
    (lambda: folt.sample(problem(), reference=HostChains), "the class HostChains"),
    (lambda: folt.sample(problem(), reference=Exact()), "with an exact sampler"),
    (lambda: folt.sample(problem(), reference=np.ones((500, 3))), r"shape \(draw, 2\)"),
    (lambda: folt.sample(problem(), reference=np.ones((500, 2))), "coordinate 0"),
    (lambda: folt.sample(problem(), reference=np.ones((5, 2))), "at least 100 reference draws"),
    (lambda: folt.sample(problem(), reference=[["a", "b"]] * 200), "real reference draws"),
    (lambda: folt.sample(problem(), labels="odd"), "labels 'sorted' or 'proposal'"),
    (lambda: folt.sample(problem(), preset="odd"), "expected preset"),
    (lambda: folt.sample(problem(), preset=3), "preset 'default' or 'paper'"),
    (lambda: folt.sample(problem(), progress="yes"), "progress to be True or False"),
    (lambda: folt.sample(problem(), whole_orbit=None), "whole_orbit to be True or False"),
    (lambda: folt.sample(problem(symmetry=Permutation(21, 1))), "at most 20 exchangeable"),
    (
        lambda: folt.sample(problem(symmetry=Permutation(9, 1), invariant=False)),
        "a broken symmetry needs",
    ),
    (lambda: folt.sample(problem(symmetry=SignedPermutation(16, 1))), "at most 14 labels"),
    (
        lambda: folt.sample(problem(symmetry=Product(Permutation(7, 1), Permutation(7, 1)))),
        "whole blocks",
    ),
    (lambda: problem(names=["a", "a"]), "'a' twice"),
    (lambda: problem(names=["a", ""]), "words, got ''"),
    (lambda: problem(names=["a", 3]), "words, got 3"),
    (lambda: problem(names=["a"]), "expected 2 names"),
    (lambda: problem(prior="normal"), "prior must be a Distribution, got str"),
    (lambda: folt.sample(problem(names=["a/b", "c"])), "such as 'a.b'"),
    (lambda: folt.sample(problem(names=["chain", "c"])), "is that of an axis"),
    (lambda: folt.sample(problem(constrain=lambda x: x[9])), "constrain"),
    (lambda: folt.sample(problem(constrain=lambda x: 1 / 0)), "ZeroDivisionError"),
    (lambda: folt.sample(problem(constrain=lambda x: {})), r"constrain to return \{name: value\}"),
    (lambda: folt.sample(problem(constrain=lambda x: x)), r"constrain to return \{name: value\}"),
    (lambda: folt.sample(problem(constrain=lambda x: {"a/b": x})), "such as 'a.b'"),
    (lambda: folt.sample(problem(constrain=lambda x: {3: x})), "words, got 3"),
    (lambda: folt.sample(problem(constrain=lambda x: {"a": x * 1j})), "real numbers"),
    (lambda: folt.sample(problem(sampler=lambda key: jnp.ones(3))), r"shape \(2,\), got \(3,\)"),
    (lambda: folt.sample(problem(sampler=lambda: 1)), "sampler fails"),
    (lambda: folt.sample(problem(pointwise=lambda x: x)), r"pointwise to return \{name: value\}"),
    (
        lambda: folt.sample(folt.Problem(lambda x: x, SWAP)),
        r"one real number of shape \(\)",
    ),
    (lambda: folt.sample(folt.Problem(lambda x: x @ jnp.ones(5), SWAP)), "cannot be evaluated"),
    (lambda: folt.Problem(3, SWAP), "must be callable"),
    (lambda: folt.Problem(quiet, SWAP, data=pandas.Series([1.0])), "pandas Series: give its to_"),
    (lambda: folt.Problem(quiet, SWAP, data={"y": np.array(["a"])}), "numbers, got words"),
    (lambda: folt.from_numpyro(None), "expected a NumPyro model, a function, got NoneType"),
    (lambda: folt.relabel({"a": np.ones((2, 9, 2))}, method="magic"), "pivot.*got 'magic'"),
    (lambda: folt.Problem(quiet, "swap"), "must be a folt group"),
    (lambda: folt.from_callable(quiet, "two", SWAP), "dim must be a positive whole number"),
    (lambda: folt.from_callable(quiet, 3, SWAP), "acts on 3 coordinates, got 2"),
    (lambda: folt.from_callable(quiet, 2, SWAP, batch=0), "batch"),
    (lambda: folt.relabel({"a": np.ones((1, 1, 2))}), "two draws"),
    (
        lambda: folt.relabel({"a": np.ones((2, 9, 2)), "q": np.ones((2, 9, 2))}, square=["q"]),
        "square",
    ),
]


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_a_call_refuses_before_anything_is_evaluated(call, message, monkeypatch):
    monkeypatch.setattr("folt.sampling.algorithm.require_symmetry", density)
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("number", range(0, len(CALLS), 6))
def test_check_refuses_what_sample_refuses(number, monkeypatch):
    call, message = CALLS[number]
    monkeypatch.setattr("folt.sampling.algorithm.require_symmetry", density)
    monkeypatch.setattr("folt.sampling.checks.check_symmetry", density)
    monkeypatch.setattr(folt, "sample", folt.check, raising=False)
    with pytest.raises(ValueError, match=message):
        call()


def test_check_takes_the_options_of_sample_and_says_what_it_did():
    parameters = inspect.signature(folt.sample).parameters
    theirs = {name: option.default for name, option in parameters.items() if name != "problem"}
    assert vars(Options()) == theirs
    assert list(theirs) == list(vars(Options()))  # `sample` hands them over in order
    with pytest.raises(TypeError, match="got seeds"):
        check(problem(), seeds=3)
    account = check(problem(), chains=3, draws=100)
    assert account.holds
    assert account.memory == 3 * 100 * 4 * 8 * 6
    assert re.search(r"Symmetry of order 2 holds.*draws will need about 57.6 kB", str(account))


def test_black_boxes_are_checked_on_the_host():
    """Their functions may be NumPy, which cannot be traced."""
    fine = folt.from_callable(
        lambda x: -float(np.sum(x**2)), 1, Trivial(1), constrain=lambda x: {"a": np.exp(x)}
    )
    assert check(fine).holds
    wrong = folt.from_callable(lambda x: 0.0, 1, Trivial(1), constrain=lambda x: np.exp(x))
    with pytest.raises(ValueError, match="name: value"):
        check(wrong)


def test_free_memory_is_a_number_of_bytes():
    free = free_memory()
    assert free is None or 10**7 < free < 10**16


def test_few_draws_per_chain_are_relabelled_with_a_warning():
    with pytest.warns(UserWarning, match="1 draw per chain"):
        folt.relabel({"a": np.array([[[1.0, 2.0]], [[2.0, 1.0]]])})


def test_tables_of_spreadsheets_are_read(tmp_path):
    from folt.store.tables import read_table

    path = tmp_path / "wide.csv"
    path.write_bytes("x,y\n# a remark\n1,2\n3,4\n".encode("utf-16"))
    table = read_table(path)
    np.testing.assert_array_equal(table.numbers(), [[1.0, 2.0], [3.0, 4.0]])
    assert table.lines.tolist() == [3, 4]
