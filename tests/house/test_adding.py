"""A toy of every kind that a newcomer might add, from outside, through public names only.

`docs/adding.md` says which one or two files each takes inside folt; the test below holds the
table to the kinds that are tried here.
"""

import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from folt import types

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")


class Flip(folt.groups.Group):
    """A group: x and -x, with the positive half line as its domain."""

    dim: int = eqx.field(static=True, default=1)

    @property
    def order(self):
        return 2

    @property
    def elements(self):
        return np.arange(2)

    def act(self, element, x):
        return jnp.where(element == 1, -x, x)

    def compose(self, first, second):
        return (first + second) % 2

    def inverse(self, element):
        return element

    def folding_element(self, x):
        return jnp.where(x[0] < 0, 1, 0)

    def describe(self, element):
        return "flip the sign"


class Bell(types.Distribution):
    """A proposal: a normal about a centre."""

    centre: jax.Array

    @property
    def dim(self):
        return self.centre.size

    def log_prob(self, x):
        return jax.scipy.stats.norm.logpdf(x - self.centre).sum()

    def sample_and_log_prob(self, key):
        x = self.centre + jax.random.normal(key, (self.dim,))
        return x, self.log_prob(x)


def moments(key, task, start=None, progress=None):
    """A trainer: the moments of the draws."""
    points = np.asarray(task.training.points)
    return folt.proposals.Gaussian.from_moments(
        points.mean(0), np.atleast_2d(1.1 * np.cov(points.T))
    )


def bimodal_draws(key, problem, progress=None):
    """A reference sampler: draws that somebody has, with a random sign."""
    rng = np.random.default_rng(3)
    draws = rng.choice([-3.0, 3.0], (8, 400, 1)) + rng.standard_normal((8, 400, 1))
    return folt.reference.Given(draws)(key, problem, progress)


class Octaves:
    """A coordinate: a positive value to base two."""

    def push(self, x):
        return 2.0**x

    def pull(self, value):
        return jnp.log2(value)

    def log_slope(self, x):
        return x * jnp.log(2.0) + jnp.log(jnp.log(2.0))


class Plan:
    """A section of a report."""

    title = "Where the data come from"
    text = "The plan of the building."

    def drawing(self, name):
        return f"<svg viewBox='0 0 1 1'><path id='{name}' d='M0 0 L1 1'/></svg>"


def pair(centre=3.0):
    """A model: a function from data to a problem."""

    def log_density(x):
        return jnp.logaddexp(-0.5 * (x[0] - centre) ** 2, -0.5 * (x[0] + centre) ** 2)

    return folt.Problem(log_density, Flip())


def from_table(rows):
    """A front-end: something written elsewhere becomes a problem."""
    return pair(centre=float(np.mean(rows)))


def farthest(log_ratio):
    """A quantity on arrays, as `diagnostics` has them."""
    return float(np.ptp(log_ratio))


@pytest.fixture(scope="module")
def fit():
    return folt.sample(
        pair(), flow=moments, reference=bimodal_draws, draws=300, seed=1, progress=False
    )


def test_a_group_a_model_a_trainer_and_a_reference_sampler_make_a_fit(fit):
    assert isinstance(moments, types.Trainer)
    assert isinstance(bimodal_draws, types.ReferenceSampler)
    assert fit.draws.min() >= 0.0
    assert abs(fit.draws.mean() - 3.0) < 0.3
    assert fit.accept_rate > 0.5


def test_a_proposal_is_taken_as_it_is():
    fit = folt.sample(
        pair(),
        flow=Bell(jnp.array([3.0])),
        reference=bimodal_draws,
        draws=300,
        progress=False,
    )
    assert fit.accept_rate > 0.9


def test_a_front_end_makes_a_problem():
    report = folt.check(from_table([2.0, 4.0]))
    assert report.holds


def test_a_coordinate_has_the_slope_it_says():
    octaves = Octaves()
    assert isinstance(octaves, types.Coordinate)
    assert isinstance(folt.coordinates.Log(), types.Coordinate)
    x = jnp.array(1.7)
    np.testing.assert_allclose(octaves.pull(octaves.push(x)), x, rtol=1e-12)
    np.testing.assert_allclose(jnp.exp(octaves.log_slope(x)), jax.grad(octaves.push)(x), rtol=1e-12)


def test_a_quantity_and_a_section_reach_the_page(fit, tmp_path):
    section = Plan()
    section.text = f"h spans {farthest(fit.log_ratio):.3f}."
    assert isinstance(section, types.Section)
    page = fit.report(tmp_path / "report.html", sections=[section]).read_text(encoding="utf-8")
    assert section.title in page
    assert section.text in page
    assert "section-0" in page


class Noting:
    """A runner: jobs run here, and it is noted how many came at once."""

    aside = False
    slots = 1

    def __init__(self):
        self.sent, self._inner = [], folt.fleet.Here()

    def require(self, tickets):
        self._inner.require(tickets)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._inner.__exit__(*error)

    def submit(self, number, tickets, place):
        self.sent.append(len(tickets))
        self._inner.submit(number, tickets, place)

    def wait(self, seconds):
        return self._inner.wait(seconds)


def square(number):
    return {"square": number**2}


def test_a_runner_runs_a_fleet(tmp_path):
    runner = Noting()
    jobs = [folt.fleet.Job(f"job {k}", run=square, data=k) for k in range(3)]
    table = folt.fleet.fit_many(jobs, tmp_path / "out", runner=runner, progress=False)
    assert sorted(table["square"]) == [0, 1, 4]
    assert sum(runner.sent) == 3


COMMAND = """
import sys
from folt.cli import app, main

@app.command()
def greet(name: str) -> None:
    "A command of my own."
    sys.stdout.write(f"hello {name}")

main()
"""


def test_a_command_is_one_function():
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "greet", "folt"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello folt"


KINDS = {
    "a group": Flip,
    "a proposal": Bell,
    "a trainer": moments,
    "a reference sampler": bimodal_draws,
    "a coordinate": Octaves,
    "a model": pair,
    "a front-end": from_table,
    "a certificate quantity": farthest,
    "a report section": Plan,
    "a command": COMMAND,
    "a runner": Noting,
}


def test_the_page_names_the_files_of_every_kind():
    table = PAGE.split("| to add | touch |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| (an? [\w -]+?) \| (.+?) \|", table, re.MULTILINE))
    assert set(KINDS) <= set(rows)
    for touched in rows.values():
        folders = re.findall(r"`(\w+)/`", touched)
        assert folders, touched
        assert all((ROOT / "src" / "folt" / folder).is_dir() for folder in folders)
