"""The demonstration: a three-component mixture folded, sampled, certified and pictured."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from folt.chains import random_permutation_chain
from folt.fit import Fit, in_user_parameters
from folt.fit.section import Section
from folt.models import bayesian_mixture
from folt.report import style
from folt.report.marginals import marginals_figure
from folt.report.mixtures import weighted_mixture_figure
from folt.report.saving import Files, claim, files_of, keep_fit, request_for
from folt.report.traces import chains_figure
from folt.sampling import sample
from folt.store import Store, write_whole
from folt.training.effort import EFFORTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRUTH = {"mu": (0.0, 3.0, 6.0), "sigma": (0.8, 1.0, 0.7)}
"""What made the data of `folt.models.bayesian_mixture_data`."""

NAMES = {"mu": ("μ₁", "μ₂", "μ₃"), "sigma": ("σ₁", "σ₂", "σ₃")}

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


def run_in(
    store: Store, seed: int, progress: bool, effort: str = "default"
) -> tuple[Fit, list[Path]]:
    """Fit the mixture, then write `fit.nc`, `report.html` and three figures into a folder."""
    entry, request = store.entry(), request_for("demo", seed=seed, effort=effort)
    claim(entry, request)
    fit = sample(bayesian_mixture(), seed=seed, effort=EFFORTS[effort](), progress=progress)
    return fit, keep_fit(entry, request, fit, functools.partial(_files, seed=seed))


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
    assert fit.problem is not None
    mu, sigma = fit.posterior["mu"], fit.posterior["sigma"]
    few = np.linspace(0, mu[..., 0].size - 1, BAND_DRAWS).astype(int)
    places = [(name, k, label) for name, labels in NAMES.items() for k, label in enumerate(labels)]
    return {
        "chains": chains_figure(
            unfolded_means(fit, UNFOLDED_STEPS, seed),
            mu[0, :UNFOLDED_STEPS],
            NAMES["mu"],
            (
                ("Not folded: random permutation sampler", "every label visits every component"),
                ("Folded with folt, same proposal", "every label keeps its component"),
            ),
            "component mean μ",
        ),
        "marginals": marginals_figure(
            {label: fit.posterior[name][..., k] for name, k, label in places},
            {label: TRUTH[name][k] for name, k, label in places},
            style.PALETTE[:3] * 2,
        ),
        "data": weighted_mixture_figure(
            np.asarray(fit.problem.data),
            {
                "weight": np.full((1, 3), 1.0 / 3.0),
                "mu": mu.reshape(-1, 3)[few],
                "sigma": sigma.reshape(-1, 3)[few],
            },
            "observation y",
        ),
    }


def unfolded_means(fit: Fit, steps: int, seed: int = 0) -> np.ndarray:
    """Return the means along a chain of the random permutation sampler with the fit's proposal."""
    assert fit.problem is not None
    assert fit.proposal is not None
    key, relabel = jax.random.key(seed), fit.group.random_image
    states, _ = random_permutation_chain(key, fit.problem, fit.proposal, relabel, steps)
    return in_user_parameters(fit.problem, states[None])["mu"][0]
