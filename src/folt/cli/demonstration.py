"""The demonstration: a three-component mixture folded, sampled, certified and pictured."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from folt.batching import map_points
from folt.chains import relabelled_sweep
from folt.fit import Fit, in_user_parameters
from folt.fit.section import Section
from folt.models import bayesian_mixture
from folt.report import style
from folt.report.marginals import marginals_figure
from folt.report.mixtures import weighted_mixture_figure
from folt.report.saving import PAGE, Files, claim, files_of, keep_fit, request_for
from folt.report.style import PALETTE
from folt.report.traces import chains_figure
from folt.sampling import sample
from folt.store import Store, write_whole
from folt.training.effort import Effort
from folt.types import Density, Key, Point, Scalar, in_float64

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRUTH = {"mu": (0.0, 3.0, 6.0), "sigma": (0.8, 1.0, 0.7)}
"""What made the data of `folt.models.bayesian_mixture_data`."""

SYMBOLS = {"mu": "μ", "sigma": "σ"}

MODEL = '''\
"""Three Gaussians of equal weight, as a model of your own. Run it with

    folt sample model.py:problem
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

import folt

COMPONENTS = 3
observations = np.loadtxt(Path(__file__).with_name("data.csv"), skiprows=1)


def log_density(x, y):
    """Log posterior at a point x = (mu, log sigma) of every component, one after the other."""
    mu, log_sigma = x.reshape(COMPONENTS, 2).T
    log_prior = jnp.sum(norm.logpdf(mu, 3.0, 3.0) + norm.logpdf(log_sigma, 0.0, 1.0))
    log_terms = norm.logpdf(y[:, None], mu, jnp.exp(log_sigma)) - jnp.log(COMPONENTS)
    return log_prior + jnp.sum(logsumexp(log_terms, axis=1))


def constrain(x):
    """What is reported."""
    mu, log_sigma = x.reshape(COMPONENTS, 2).T
    return {"mu": mu, "sigma": jnp.exp(log_sigma)}


problem = folt.Problem(
    log_density,
    folt.groups.Permutation(COMPONENTS, 2),  # numbering the components differently changes nothing
    data=observations,
    constrain=constrain,
)
'''
"""The demonstration as a model file of the user's."""

_DATA = (
    "The 500 observations beneath the posterior: the whole mixture with its 95 % band, and each "
    "of its three components."
)

UNFOLDED_STEPS = 4_000
BAND_DRAWS = 2_000


@dataclasses.dataclass(frozen=True)
class Demo:
    """What the demonstration made.

    Attributes:
        fit: the fit.
        files: what was written, by purpose.
    """

    fit: Fit
    files: dict[str, Path]


def run_in(store: Store, seed: int, progress: bool, effort: Effort | None = None) -> Demo:
    """Fit the mixture, then write `fit.nc`, `report.html` and three figures into a folder."""
    entry, request = (
        store.entry(),
        request_for("demo", seed=seed, effort="default" if effort is None else effort.name),
    )
    claim(entry, request)
    fit = sample(bayesian_mixture(), seed=seed, effort=effort, progress=progress)
    paths = keep_fit(entry, request, fit, functools.partial(_files, seed=seed))
    named = {"report" if path.name == PAGE else path.stem: path for path in paths}
    return Demo(fit, named)


def _files(fit: Fit, seed: int) -> Files:
    """Return the fit, its page with the data in it, and the figures."""
    drawn = draw(fit, seed)
    section = Section("The data and the mixture", _DATA, drawn["data"])
    pictures = {f"{name}.png": style.png(figure) for name, figure in drawn.items()}
    return files_of(dataclasses.replace(fit, sections=(section,)), pictures)


def write_model(out: Path) -> list[Path]:
    """Write what `folt mixture` and `folt sample` can go on with: `data.csv` and `model.py`."""
    values = np.asarray(bayesian_mixture().data).tolist()
    observations = "".join(f"{value!r}\n" for value in values)
    return [
        write_whole(out / "data.csv", f"y\n{observations}".encode()),
        write_whole(out / "model.py", MODEL.encode()),
    ]


def draw(fit: Fit, seed: int = 0) -> dict[str, Figure]:
    """Return the three figures: chains, marginals, data."""
    if fit.problem is None:
        raise ValueError("expected a fit with its problem: folt.load(path, problem=problem)")
    unfolded = random_permutation_chain(fit, UNFOLDED_STEPS, seed)
    mu, sigma = fit.posterior["mu"], fit.posterior["sigma"]
    count = mu.shape[-1]
    few = np.linspace(0, mu[..., 0].size - 1, BAND_DRAWS).astype(int)
    return {
        "chains": chains_figure(
            unfolded["mu"][0],
            mu[0, :UNFOLDED_STEPS],
            [_numbered("μ", k) for k in range(count)],
            (
                ("Not folded: random permutation sampler", "every label visits every component"),
                ("Folded with folt, same proposal", "every label keeps its component"),
            ),
            "component mean μ",
        ),
        "marginals": marginals_figure(
            _by_component(fit.posterior),
            {
                _numbered(SYMBOLS[name], k): value
                for name, values in TRUTH.items()
                for k, value in enumerate(values)
            },
            PALETTE[:count] * 2,
        ),
        "data": weighted_mixture_figure(
            np.asarray(fit.problem.data),
            {
                "weight": np.full((1, count), 1.0 / count),
                "mu": mu.reshape(-1, count)[few],
                "sigma": sigma.reshape(-1, count)[few],
            },
            "observation y",
        ),
    }


def _by_component(posterior: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        _numbered(symbol, k): posterior[name][..., k]
        for name, symbol in SYMBOLS.items()
        for k in range(posterior[name].shape[-1])
    }


def _numbered(symbol: str, position: int) -> str:
    return symbol + "₁₂₃₄₅₆₇₈₉"[position]


@in_float64
def random_permutation_chain(fit: Fit, steps: int, seed: int = 0) -> dict[str, np.ndarray]:
    """One chain of the random permutation sampler from the same proposal, before any folding.

    `{name: (1, step, ...)}` in the user's parameters: an independence step on all of R^dim with
    h = log π - log q, then a uniformly chosen relabelling.
    """
    if fit.problem is None or fit.proposal is None:
        raise ValueError("expected a fit with its problem and its proposal")
    propose_key, sweep_key = jax.random.split(jax.random.key(seed))
    ratio = _UnfoldedRatio(fit.problem, fit.proposal)
    proposals = map_points(_draw, fit.proposal, jax.random.split(propose_key, steps))
    log_ratios = map_points(_UnfoldedRatio.log_prob, ratio, proposals)
    start = jnp.asarray(fit.draws[0, 0])
    states, _ = relabelled_sweep(
        sweep_key, start, proposals, log_ratios, fit.group.random_image, ratio.log_prob
    )
    return in_user_parameters(fit.problem, np.asarray(states)[None])


class _UnfoldedRatio(Density):
    """log π - log q on all of R^dim, neither of them folded."""

    target: Density
    proposal: Density

    @property
    def dim(self) -> int:
        return self.target.dim

    def log_prob(self, x: Point) -> Scalar:
        """Return the unfolded log ratio at x."""
        return self.target.log_prob(x) - self.proposal.log_prob(x)


def _draw(proposal: object, key: Key) -> Point:
    return proposal.sample(key)  # type: ignore[attr-defined]
