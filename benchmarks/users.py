"""Thirteen models as their users would write them, each fitted once with what is usual.

    python -m benchmarks.users [NAME ...]

All data are simulated here, so that it is known what should come out: the last column is the
largest distance of a posterior mean from what the data were made with, in posterior standard
deviations. Of thirteen models with two to twelve such numbers each, one beyond 3 is usual.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp

import folt
from benchmarks import record

Values = dict[str, np.ndarray]


class Case(NamedTuple):
    """A model and what is to be found in it.

    Attributes:
        problem: what is fitted.
        truth: by name, what the data were made with; sorted along the first axis where labels are.
        found: draws of the same numbers, from those of the parameters.
        sort_by: what labels are sorted by, where the model's own order would confuse them.
    """

    problem: folt.Problem
    truth: Values
    found: Callable[[Values], Values] = dict
    sort_by: str | None = None


def wine(kinds: int) -> Case:
    """Alcohol and colour of wines of two or three kinds, in PyMC with named coordinates."""
    import pymc as pm

    rng = np.random.default_rng(20)
    centres = np.array([[12.3, 3.0], [13.2, 7.4], [13.8, 5.5]])[:kinds]
    kind = rng.choice(kinds, 60 * kinds)
    wines = centres[kind] + rng.normal(size=(60 * kinds, 2)) * [0.4, 0.6]
    with pm.Model(coords={"kind": range(kinds), "measure": ["alcohol", "colour"]}) as model:
        share = pm.Dirichlet("share", np.ones(kinds), dims="kind")
        mu = pm.Normal("mu", wines.mean(axis=0), 2.0, dims=("kind", "measure"))
        sigma = pm.HalfNormal("sigma", 1.0, dims=("kind", "measure"))
        parts = [
            pm.MvNormal.dist(mu[k], chol=pm.math.stack([[sigma[k, 0], 0.0], [0.0, sigma[k, 1]]]))
            for k in range(kinds)
        ]
        pm.Mixture("wine", w=share, comp_dists=parts, observed=wines)
    return Case(folt.from_pymc(model), {"mu": centres[np.argsort(centres[:, 0])]})


def zero_inflated() -> Case:
    """Counts of two kinds with too many zeros, in PyMC."""
    import pymc as pm

    rng = np.random.default_rng(21)
    rate = rng.choice([2.0, 9.0], 300, p=[0.6, 0.4])
    counts = np.where(rng.random(300) < 0.75, rng.poisson(rate), 0)
    with pm.Model() as model:
        active = pm.Beta("active", 2, 1)
        share = pm.Dirichlet("share", np.ones(2))
        rates = pm.Gamma("rates", 2, 0.4, shape=2)
        parts = pm.ZeroInflatedPoisson.dist(psi=active, mu=rates, shape=(2,))
        pm.Mixture("counts", w=share, comp_dists=parts, observed=counts)
    truth = {"active": np.array(0.75), "rates": np.array([2.0, 9.0])}
    return Case(folt.from_pymc(model), truth)


def spike() -> Case:
    """A spike at zero beside two Poissons: swaps between parts of unequal length, in NumPyro."""
    rng = np.random.default_rng(22)
    counts = rng.poisson(rng.choice([0.0, 3.0, 11.0], 250, p=[0.3, 0.4, 0.3]))

    def model(counts):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
        lam = numpyro.sample("lam", dist.Gamma(2.0, 0.3).expand([2]))
        zero = jnp.where(counts == 0, 0.0, -jnp.inf)[:, None]
        terms = jnp.concatenate([zero, dist.Poisson(lam).log_prob(counts[:, None])], axis=1)
        numpyro.factor("counts", logsumexp(jnp.log(w) + terms, axis=1).sum())

    return Case(folt.from_numpyro(model, counts), {"lam": np.array([3.0, 11.0])})


def regressions() -> Case:
    """Three lines in one cloud, in NumPyro."""
    rng = np.random.default_rng(23)
    x, kind = rng.uniform(-2, 2, 300), rng.choice(3, 300, p=[0.4, 0.35, 0.25])
    lines = np.array([[-2.0, 1.5], [0.0, -1.0], [2.5, 0.3]])
    y = lines[kind, 0] + lines[kind, 1] * x + 0.4 * rng.normal(size=300)

    def model(x, y):
        share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
        with numpyro.plate("line", 3):
            intercept = numpyro.sample("intercept", dist.Normal(0, 3))
            slope = numpyro.sample("slope", dist.Normal(0, 2))
            noise = numpyro.sample("noise", dist.HalfNormal(1))
        parts = dist.Normal(intercept + slope * x[:, None], noise)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(share), parts), obs=y)

    truth = {"intercept": lines[:, 0], "slope": lines[:, 1]}
    return Case(folt.from_numpyro(model, x, y), truth)


def hidden_markov() -> Case:
    """Two states that last, summed by `scan` in NumPyro."""
    rng = np.random.default_rng(24)
    state = np.cumsum(rng.random(300) < 0.08) % 2
    y = np.array([-1.0, 1.5])[state] + np.array([0.5, 0.9])[state] * rng.normal(size=300)

    def model(y):
        with numpyro.plate("state", 2):
            move = numpyro.sample("move", dist.Dirichlet(jnp.ones(2)))
            mu = numpyro.sample("mu", dist.Normal(0, 3))
            sigma = numpyro.sample("sigma", dist.HalfNormal(2))
        terms = dist.Normal(mu, sigma).log_prob(y[:, None])

        def forward(carried, term):
            return logsumexp(carried[:, None] + jnp.log(move), axis=0) + term, None

        last, _ = jax.lax.scan(forward, terms[0] - jnp.log(2.0), terms[1:])
        numpyro.factor("y", logsumexp(last))

    truth = {"mu": np.array([-1.0, 1.5]), "sigma": np.array([0.5, 0.9])}
    return Case(folt.from_numpyro(model, y), truth)


def item_response() -> Case:
    """Six questions, abilities integrated out by quadrature; the sign of all slopes is free."""
    rng = np.random.default_rng(25)
    slope, level = np.array([1.0, 1.5, 0.8, 2.0, 1.2, 1.6]), np.linspace(-1.0, 1.0, 6)
    right = 1.0 * (
        rng.random((300, 6)) < 1 / (1 + np.exp(-slope * rng.normal(size=(300, 1)) - level))
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)

    def model(right):
        slope = numpyro.sample("slope", dist.Normal(0, 2).expand([6]))
        level = numpyro.sample("level", dist.Normal(0, 2).expand([6]))
        logits = slope * nodes[:, None] + level
        each = right @ logits.T - jnp.logaddexp(0, logits).sum(1)
        numpyro.factor("right", logsumexp(each, b=weights / weights.sum(), axis=1).sum())

    def positive(values: Values) -> Values:
        sign = np.sign(values["slope"].sum(axis=-1, keepdims=True))
        return {"slope": sign * values["slope"], "level": values["level"]}

    problem = folt.from_numpyro(model, right, sign="largest")
    return Case(problem, {"slope": slope, "level": level}, positive)


def principal_components() -> Case:
    """Two principal components of five variables, whose loadings turn: ΛΛᵀ is what is known."""
    rng = np.random.default_rng(26)
    loadings = np.array([[1.5, 1.0, 0.5, 0.0, 0.3], [0.0, 0.4, -0.8, 1.2, 0.6]])
    rows = rng.normal(size=(250, 2)) @ loadings + 0.5 * rng.normal(size=(250, 5))

    def model(rows):
        loadings = numpyro.sample("loadings", dist.Normal(0, 1).expand([5, 2]))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        law = dist.LowRankMultivariateNormal(jnp.zeros(5), loadings, jnp.full(5, noise**2))
        numpyro.sample("rows", law, obs=rows)

    def product(values: Values) -> Values:
        turning = values["loadings"]
        return {"product": turning @ turning.swapaxes(-1, -2), "noise": values["noise"]}

    truth = {"product": loadings.T @ loadings, "noise": np.array(0.5)}
    return Case(folt.from_numpyro(model, rows), truth, product)


def weibull() -> Case:
    """Lifetimes of two kinds, those beyond twelve months censored, in PyMC."""
    import pymc as pm

    rng = np.random.default_rng(27)
    kind = rng.choice(2, 250, p=[0.4, 0.6])
    life = np.array([3.0, 10.0])[kind] * rng.weibull(np.array([1.5, 4.0])[kind])
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(2))
        alpha = pm.Gamma("alpha", 3, 1, shape=2)
        beta = pm.Gamma("beta", 2, 0.3, shape=2)
        logs = [
            pm.logp(pm.Weibull.dist(alpha[k], beta[k]), life[life <= 12.0]) + pm.math.log(share[k])
            for k in range(2)
        ]
        pm.Potential("failed", pm.math.logsumexp(pm.math.stack(logs), axis=0).sum())
        still = pm.math.logsumexp(pm.math.log(share) - (12.0 / beta) ** alpha)
        pm.Potential("burning", float((life > 12.0).sum()) * still)
    truth = {"alpha": np.array([1.5, 4.0]), "beta": np.array([3.0, 10.0])}
    return Case(folt.from_pymc(model, sort_by="beta"), truth)


def network() -> Case:
    """A regression by three tanh units, in NumPyro; what it predicts is compared."""
    rng = np.random.default_rng(28)
    x = np.sort(rng.uniform(-2.0, 2.0, 80))
    y = np.sin(2.0 * x) + 0.15 * rng.normal(size=80)
    grid = np.linspace(-1.5, 1.5, 5)

    def model(x, y):
        with numpyro.plate("units", 3):
            slope = numpyro.sample("slope", dist.Normal(0, 2))
            shift = numpyro.sample("shift", dist.Normal(0, 2))
            weight = numpyro.sample("weight", dist.Normal(0, 2))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        numpyro.sample(
            "y", dist.Normal(jnp.tanh(x[:, None] * slope + shift) @ weight, noise), obs=y
        )

    def curve(values: Values) -> Values:
        units = np.tanh(
            grid[:, None] * values["slope"][..., None, :] + values["shift"][..., None, :]
        )
        return {"curve": np.sum(units * values["weight"][..., None, :], axis=-1)}

    return Case(folt.from_numpyro(model, x, y), {"curve": np.sin(2.0 * grid)}, curve)


def exponentials() -> Case:
    """A sum of three exponentials with noise as a function in NumPy, without a gradient."""
    rng, t = np.random.default_rng(29), np.linspace(0.05, 6.0, 60)
    rates, sizes = np.array([0.3, 1.5, 8.0]), np.array([1.0, 2.0, 3.0])
    y = np.exp(-t[:, None] * rates) @ sizes + 0.02 * rng.normal(size=60)

    def log_density(points):
        pairs = points.reshape(-1, 3, 2)  # log rate and size of every term
        decays = np.exp(-t[:, None] * np.exp(pairs[:, None, :, 0]))
        error = (y - np.einsum("ntk,nk->nt", decays, pairs[..., 1])) / 0.02
        prior = (pairs[..., 0] / 1.5) ** 2 + (pairs[..., 1] / 3.0) ** 2
        return -0.5 * np.sum(error**2, axis=1) - 0.5 * np.sum(prior, axis=1)

    problem = folt.from_callable(log_density, 6, folt.groups.Permutation(3, 2), vectorized=True)
    found = lambda values: {"log rate": np.stack([values[f"x{j}"] for j in (0, 2, 4)], axis=-1)}  # noqa: E731
    return Case(problem, {"log rate": np.log(rates)}, found)


def latent_classes() -> Case:
    """Eight yes-or-no items and four classes, in NumPyro; d = 36 with what weights need."""
    rng = np.random.default_rng(30)
    chance = rng.choice([0.1, 0.25, 0.75, 0.9], (4, 8))
    share = np.array([0.1, 0.2, 0.3, 0.4])
    member = rng.choice(4, 1000, p=share)
    answers = 1.0 * (rng.random((1000, 8)) < chance[member])

    def model(answers):
        share = numpyro.sample("share", dist.Dirichlet(jnp.ones(4)))
        with numpyro.plate("class", 4):
            chance = numpyro.sample("chance", dist.Beta(jnp.ones(8), 1.0).to_event(1))
        parts = dist.Bernoulli(probs=chance).to_event(1)
        numpyro.sample(
            "answers", dist.MixtureSameFamily(dist.Categorical(share), parts), obs=answers
        )

    return Case(
        folt.from_numpyro(model, answers), {"share": share, "chance": chance}, sort_by="share"
    )


def modal() -> Case:
    """Three close modes of a tower in a record of three channels."""
    from folt.modal import Settings, measured_channels, simulate_record
    from folt.modal.identification import problem_for
    from folt.modal.simulation import Structure

    record = simulate_record(jax.random.key(1), Structure(channels=3))
    problem = problem_for(measured_channels(record, (0.7, 1.1)), 3, Settings())
    return Case(problem, {"frequency": np.array([0.80, 0.84, 0.87])}, sort_by="frequency")


def one_of_thirty(data: np.ndarray) -> folt.Problem:
    """Two kinds of equal size in one of the data sets of a fleet."""
    return folt.models.bayesian_mixture(data, 2)


CASES: dict[str, Callable[[], Case]] = {
    "wine, two kinds": lambda: wine(2),
    "wine, three kinds": lambda: wine(3),
    "zero-inflated counts": zero_inflated,
    "a spike and two Poissons": spike,
    "three regressions": regressions,
    "hidden Markov by scan": hidden_markov,
    "item response": item_response,
    "principal components": principal_components,
    "Weibull, censored": weibull,
    "network of three units": network,
    "three exponentials, black box": exponentials,
    "latent classes, K = 4": latent_classes,
    "modal, three channels": modal,
}

COLUMNS = ("model", "d", "verdict", "acceptance", "log Z", "error", "CPU s", "farthest from truth")
FLEET = "fleet of thirty"


def fitted(name: str) -> list[object]:
    """Fit a model as its user would and say how far its numbers are from the truth."""
    started = time.process_time()
    case = CASES[name]()
    fit = folt.sample(case.problem, sort_by=case.sort_by, progress=False)
    spent = time.process_time() - started
    status, evidence = fit.certificate.status, fit.log_evidence
    print(f"{name}: {status.name}. {status.advice} {status.cure}", flush=True)
    return [
        name,
        case.problem.dim,
        status.name,
        round(fit.accept_rate, 3),
        round(evidence.value, 3),
        round(evidence.standard_error, 4),
        round(spent, 1),
        round(farthest(case.found(dict(fit.posterior)), case.truth), 2),
    ]


def farthest(found: Values, truth: Values) -> float:
    """Return the largest distance of a mean from its truth, in standard deviations."""
    distances = [
        np.abs(found[name].mean(axis=(0, 1)) - known) / found[name].std(axis=(0, 1))
        for name, known in truth.items()
    ]
    return float(max(np.max(each) for each in distances))


def fleet() -> list[object]:
    """Fit thirty data sets of two kinds in this process; the gravest verdict stands for all."""
    started = time.process_time()
    jobs = []
    for number in range(30):
        rng = np.random.default_rng(100 + number)
        y = np.array([-1.0, 2.0])[rng.choice(2, 120)] + 0.8 * rng.normal(size=120)
        jobs.append(folt.fleet.Job(f"{number:02d}", one_of_thirty, data=y))
    with tempfile.TemporaryDirectory() as place:
        here = folt.fleet.Here()
        table = folt.fleet.fit_many(jobs, Path(place) / "fleet", runner=here, progress=False)
        scores = [
            farthest(folt.load(path).posterior, {"mu": np.array([-1.0, 2.0])})
            for path in sorted((Path(place) / "fleet").glob("*/fit.nc"))
        ]
    verdicts = table["verdict"].value_counts()
    words = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    spent = round(time.process_time() - started, 1)
    return [
        FLEET,
        4,
        words,
        round(table["accept"].min(), 3),
        None,
        None,
        spent,
        round(max(scores), 2),
    ]


def main(*names: str) -> None:
    """Measure the models of these names, or all, and keep what was known of the others."""
    wanted = names or (*CASES, FLEET)
    known: dict[str, list[object]] = {}
    if "users" in record.names():
        known = {row[0]: row for row in record.read("users")["rows"]}
    for name in wanted:
        known[name] = fleet() if name == FLEET else fitted(name)
        print(known[name], flush=True)
        record.write(
            "users",
            "Thirteen models as their users write them, one fit each",
            COLUMNS,
            [known[each] for each in (*CASES, FLEET) if each in known],
            command="python -m benchmarks.users",
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
