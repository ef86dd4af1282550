"""Memberships and predictions of five models against those by hand from draws of NUTS."""

import math

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax
from table import write_table
from test_models_agree import CHAINS, DRAWS, KEY, MODELS, long_run

import folt
from folt.certificate.diagnostics.chains import effective_size
from folt.fit.memberships import _DRAWS
from folt.models import simulate_factor_analysis

LIMIT = 4.5
"""Errors by which two numbers may differ: some 500 exceed it with probability .003 or less."""

OBSERVATIONS = slice(None, None, 10)


def at_all(p, new, logpdf):
    """Log weight plus log density of every component at new points, (chain, draw, new, label)."""
    return np.log(p["weight"])[..., None, :] + logpdf(p, new)


def normal(p, new):
    return stats.norm.logpdf(new[:, None], p["mu"][..., None, :], p["sigma"][..., None, :])


def poisson(p, new):
    return stats.poisson.logpmf(new[:, None], p["rate"][..., None, :])


def plane(p, new):
    """Bivariate normal densities from the inverse of each covariance."""
    inverse = np.linalg.inv(p["covariance"])
    apart = new[:, None] - p["mu"][..., None, :, :]
    squares = np.einsum("cdnki,cdkij,cdnkj->cdnk", apart, inverse, apart, optimize=True)
    sizes = np.linalg.slogdet(2.0 * np.pi * p["covariance"])[1]
    return -0.5 * (squares + sizes[..., None, :])


def mixture(logpdf, new):
    """Shares of the components at the data, and densities at new points."""
    return {
        "memberships": lambda p, data: softmax(at_all(p, data[OBSERVATIONS], logpdf), axis=-1),
        "predictions": lambda p, data: np.exp(at_all(p, new, logpdf)).sum(axis=-1),
    }, new


def passes(p, data):
    """Messages forwards and backwards in time, each step scaled to sum to one."""
    density = np.exp(normal(p, data))
    forward, backward = [p["initial"] * density[..., 0, :]], [np.ones_like(p["initial"])]
    for t in range(1, len(data)):
        step = np.einsum("cdi,cdij->cdj", forward[-1], p["transition"]) * density[..., t, :]
        forward.append(step / step.sum(axis=-1, keepdims=True))
        seen = backward[-1] * density[..., len(data) - t, :]
        step = np.einsum("cdij,cdj->cdi", p["transition"], seen)
        backward.append(step / step.sum(axis=-1, keepdims=True))
    return np.stack(forward, axis=2), np.stack(backward[::-1], axis=2)


def smoothed(p, data):
    forward, backward = passes(p, data)
    shares = (forward * backward)[:, :, OBSERVATIONS]
    return shares / shares.sum(axis=-1, keepdims=True)


def next_states(p, data):
    last = passes(p, data)[0][:, :, -1]
    states = np.einsum("cdi,cdij->cdj", last / last.sum(axis=-1, keepdims=True), p["transition"])
    return states[:, :, None]


def conditional(p, data):
    """Means of the first two variables, all others one above theirs, in centred data."""
    whole = np.einsum("cdfi,cdfj->cdij", p["loading"], p["loading"])
    whole = whole + np.eye(whole.shape[-1]) * p["noise"][..., None, :]
    given = np.linalg.solve(whole[..., 2:, 2:], np.ones((*whole.shape[:2], whole.shape[-1] - 2, 1)))
    del data
    return (whole[..., :2, 2:] @ given)[..., 0]


GRID = np.linspace(-3.0, 9.0, 13)
ASKED = {
    "Poisson mixture, 2": mixture(poisson, np.arange(0.0, 20.0, 2.0)),
    "Gaussian mixture, 3": mixture(normal, GRID),
    "bivariate mixture, 2": mixture(plane, np.stack([GRID, GRID[::-1]], axis=1)),
    "hidden Markov, 2 Gaussian states": ({"memberships": smoothed, "predictions": next_states}, 1),
    "factor analysis, 3": ({"predictions": conditional}, None),
}


def told(fit, what, new):
    """The means that folt tells, and the variance of what it adds by drawing observations."""
    if what == "memberships":
        return fit.memberships().filter(like="mean").to_numpy()[OBSERVATIONS], 0.0
    if new is not None:
        frame = fit.predict(new).filter(like="mean")
        return frame[[name for name in frame if name != "mean[y]"]].to_numpy(), 0.0
    centre = simulate_factor_analysis(KEY, 200).mean(axis=0)  # the problem's data are centred
    row = centre + 1.0
    row[:2] = np.nan
    frame = fit.predict(row)
    width = frame.filter(like="high").to_numpy() - frame.filter(like="low").to_numpy()
    means = frame.filter(like="mean").to_numpy()[0, :2]
    return means - centre[:2], (width[0, :2] / 3.92) ** 2 / fit.accepted.size


def error(values, most=math.inf):
    """Monte Carlo errors of means over all draws, or over so many of them evenly spaced."""
    sizes = [effective_size(values[(..., *at)], "mean") for at in np.ndindex(values.shape[2:])]
    return values.std(axis=(0, 1)) / np.sqrt(np.minimum(np.reshape(sizes, values.shape[2:]), most))


@pytest.mark.validate
def test_memberships_and_predictions_agree_with_draws_of_nuts():
    """Every mean within LIMIT errors of the two runs."""
    rows, worst = [], []
    for label, (quantities, new) in ASKED.items():
        problem = MODELS[label]()
        data = np.asarray(problem.data)
        fit = folt.sample(problem, progress=False)
        with jax.enable_x64(True):
            reference = long_run(problem, fit.draws[0, -1])
        for what, by_hand in quantities.items():
            found, drawn = told(fit, what, new)
            expected, own = by_hand(reference, data), by_hand(fit.posterior, data)
            most = _DRAWS if what == "memberships" else math.inf
            errors = np.sqrt(error(own, most) ** 2 + error(expected) ** 2 + drawn)
            means = expected.mean(axis=(0, 1))
            scores = (np.reshape(found, means.shape) - means) / np.maximum(errors, 1e-12)
            worst.append(np.abs(scores).max())
            spread = np.sqrt(np.mean(scores**2))
            status = fit.certificate.status.name
            rows.append((label, what, scores.size, f"{worst[-1]:.2f}", f"{spread:.2f}", status))
    title = f"Memberships and predictions beside those by hand from NUTS, {CHAINS} x {DRAWS} draws"
    columns = ("model", "what", "means", "largest z", "root mean square z", "verdict")
    write_table("predictions-agree", title, columns, rows)
    assert max(worst) < LIMIT, rows
