"""The problems of the benchmarks, with what is asked of each: one list for all that measures."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from folt.problem import Problem

SPECTRUM = Path(os.environ.get("FOLT_TYPHOON_PSD", "../shared/data/typhoon_psd.csv"))
"""The paper's real spectrum, where it is at hand; folt does not contain it."""


BORROWED = ("typhoon",)
"""Problems whose data folt does not contain."""


class Asked(NamedTuple):
    """What a problem is called and what is asked of it.

    Attributes:
        title: what it is called.
        accept: floor of the acceptance.
        steps: most certified steps to total variation .05.
        error: largest standard error of log Z.
        ratio: most CPU seconds, over those of NUTS + sort from a cold process.
        seconds: most CPU seconds, where they are not counted against NUTS.
        draws: draws per chain; chosen by budget if None.
        nuts: whether NUTS can run beside it: not on a function without gradient.
    """

    title: str
    accept: float | None = None
    steps: int | None = None
    error: float | None = None
    ratio: float | None = None
    seconds: float | None = None
    draws: int | None = None
    nuts: bool = True


ASKED = {
    "pair-2": Asked("Gaussian pair, d = 2", 0.97, 2, 0.002, seconds=5),
    "pair-5": Asked("d = 5", 0.97, 2, 0.002, seconds=5),
    "pair-10": Asked("d = 10", 0.97, 2, 0.002, seconds=5),
    "pair-20": Asked("d = 20", 0.97, 2, 0.002, seconds=5),
    "m2p2": Asked("label switching, 2 components of 2", 0.97, 2, 0.002, seconds=5),
    "m3p2": Asked("3 of 2", 0.97, 2, 0.002, seconds=5),
    "m3p4": Asked("3 of 4", 0.97, 2, 0.002, seconds=5),
    "m4p2": Asked("4 of 2 (24 labellings)", 0.97, 2, 0.002, seconds=5),
    "bayes-mixture": Asked("Bayesian mixture, K = 3, N = 500", 0.90, 5, 0.0015, 0.6),
    "typhoon": Asked("modal identification, real typhoon window", 0.85, 10, 0.002, 0.6),
    "galaxies": Asked("galaxies, K = 3, unknown weights", 0.70, 15, 0.01, 1.0),
    "hidden-markov": Asked("hidden Markov, 3 states, N = 300", 0.60, 20, 0.01, 1.0),
    "regressions": Asked("mixture of regressions, d = 20, N = 400", 0.60, 30, 0.01, 1.5),
    "classes": Asked("latent classes in PyMC, d = 26, N = 500", 0.60, 30, 0.01, 1.5),
    "regimes": Asked("hidden Markov with scan, d = 23, T = 400", 0.60, 30, 0.01, 1.5),
    "black-box": Asked("NumPy black box, d = 4, N = 80", 0.85, 10, 0.005, draws=1_000, nuts=False),
    "multivariate": Asked("multivariate mixture, K = 4, d = 59, N = 400", 0.30),
    "factors": Asked("factor analysis, 20 x 3, d = 80", 0.30),
    "robust-regressions": Asked("two regressions with Student noise, PyMC, d = 11"),
    "survival": Asked("survival of two populations, censored, NumPyro, d = 9"),
    "counts": Asked("three overdispersed counts, PyMC, d = 8"),
    "switching": Asked("autoregression in three regimes, NumPyro, d = 13"),
    "two-classes": Asked("two latent classes of ten items, NumPyro, d = 21"),
    "sparse-factors": Asked("two sparse factors, NumPyro, d = 24"),
    "pair-100": Asked("Gaussian pair, d = 100", seconds=8, nuts=False),
    "pair-200": Asked("Gaussian pair, d = 200", seconds=15, nuts=False),
    "blocks-60": Asked("three exchangeable correlated blocks, d = 60", seconds=15),
    "blocks-120": Asked("d = 120", seconds=40),
    "blocks-180": Asked("d = 180", seconds=90),
}


def available() -> list[str]:
    """Names of the problems that can be run here."""
    return [name for name in ASKED if name not in BORROWED or SPECTRUM.is_file()]


def problem(name: str) -> Problem:
    """The problem of this name."""
    from folt import models

    if name.startswith("pair-"):
        return models.gaussian_pair(int(name[5:]))
    if name in ("m2p2", "m3p2", "m3p4", "m4p2"):
        return models.label_switching(int(name[1]), int(name[3]))
    if name.startswith("blocks-"):
        return _blocks(int(name[7:]))
    return MAKERS[name]()


def _bayes_mixture() -> Problem:
    from folt import models

    return models.bayesian_mixture()


def _typhoon() -> Problem:
    from folt import models

    frequency, psd = np.loadtxt(SPECTRUM, delimiter=",", skiprows=3).T
    return models.modal_spectrum(frequency, psd)


def _galaxies() -> Problem:
    from folt import models

    return models.gaussian_mixture(models.datasets.galaxies(), 3)


def _hidden_markov() -> Problem:
    import jax

    from folt import models

    transition = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    data = models.simulate_hidden_markov(
        jax.random.key(0), 300, transition=transition, mu=(-2.0, 0.0, 2.5), sigma=(0.6, 0.8, 1.0)
    )
    return models.hidden_markov(data, 3)


def _multivariate() -> Problem:
    import jax

    from folt import models

    generator = np.random.default_rng(0)
    roots = 0.3 * generator.normal(size=(4, 4, 4))
    data = models.simulate_multivariate_gaussian_mixture(
        jax.random.key(0),
        400,
        weight=(0.4, 0.3, 0.2, 0.1),
        mu=generator.normal(0.0, 3.0, (4, 4)),
        covariance=np.eye(4) + roots @ roots.swapaxes(1, 2),
    )
    return models.multivariate_gaussian_mixture(data, 4)


def _factors() -> Problem:
    import jax

    from folt import models

    generator = np.random.default_rng(0)
    loading = generator.normal(0.0, 0.7, (3, 20)) * (generator.random((3, 20)) < 0.6)
    data = models.simulate_factor_analysis(
        jax.random.key(0), 200, loading=loading, noise=np.full(20, 0.4)
    )
    return models.factor_analysis(data, 3)


def _blocks(dim: int) -> Problem:
    """Three Gaussians of dim/3 correlated coordinates each, in every order; log Z = 0."""
    import itertools

    import jax
    import jax.numpy as jnp

    import folt

    size, generator = dim // 3, np.random.default_rng(0)
    centres = generator.normal(0.0, 2.0, (3, size))
    centres[:, 0] = -8.0, 0.0, 8.0  # the coordinate that blocks are sorted by
    roots = generator.normal(size=(3, size, size)) / np.sqrt(size)
    precisions = np.linalg.inv(np.eye(size) + roots @ roots.swapaxes(1, 2))
    logs = 0.5 * np.linalg.slogdet(precisions)[1] - 0.5 * size * np.log(2.0 * np.pi)
    orders = np.array(list(itertools.permutations(range(3))))

    def log_density(x, data):
        centres, precisions, logs = data
        away = x.reshape(3, 1, size) - centres
        terms = logs - 0.5 * jnp.einsum("bki,kij,bkj->bk", away, precisions, away)
        return jax.nn.logsumexp(terms[orders, jnp.arange(3)].sum(axis=1)) - jnp.log(len(orders))

    return folt.Problem(
        log_density, folt.groups.Permutation(3, size), data=(centres, precisions, logs)
    )


def _written(module: str, name: str) -> Callable[[], Problem]:
    def make() -> Problem:
        return getattr(importlib.import_module(f"benchmarks.{module}"), name)()

    return make


MAKERS: dict[str, Callable[[], Problem]] = {
    "bayes-mixture": _bayes_mixture,
    "typhoon": _typhoon,
    "galaxies": _galaxies,
    "hidden-markov": _hidden_markov,
    "regressions": _written("brought", "regressions"),
    "classes": _written("brought", "latent_classes"),
    "regimes": _written("brought", "regimes"),
    "black-box": _written("brought", "black_box"),
    "multivariate": _multivariate,
    "factors": _factors,
    "robust-regressions": _written("unseen", "robust_regressions"),
    "survival": _written("unseen", "survival"),
    "counts": _written("unseen", "counts"),
    "switching": _written("unseen", "switching"),
    "two-classes": _written("unseen", "classes"),
    "sparse-factors": _written("unseen", "sparse_factors"),
}
