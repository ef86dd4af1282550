"""Stan programs, compiled by httpstan, against the same models in NumPyro.

Needs g++ and httpstan (`pip install httpstan`); a program compiles in about a minute.
"""

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import write_table

import folt
from folt.certificate.diagnostics.chains import effective_size
from folt.interop.stan_blocks import BlockKind, program_blocks
from folt.interop.stan_files import _services
from folt.interop.stan_model import Program

pytest.importorskip("httpstan.models", reason="httpstan is not installed")
numpyro = pytest.importorskip("numpyro")
import numpyro.distributions as dist  # noqa: E402

pytestmark = pytest.mark.validate

PROGRAMS = Path(__file__).parent / "stan"
RANDOM = np.random.default_rng(42)


def mixture_data():
    labels = RANDOM.choice(3, 150, p=[0.2, 0.3, 0.5])
    y = RANDOM.normal(np.array([0.0, 3.0, 6.0])[labels], np.array([0.8, 1.0, 0.7])[labels])
    return {"N": 150, "y": y, "K": 3}


def markov_data():
    states, y = 0, []
    for _ in range(120):
        states = states if RANDOM.random() < 0.85 else 1 - states
        y.append(RANDOM.normal((-1.0, 1.2)[states], 0.7))
    return {"N": 120, "y": np.array(y), "K": 2}


def regression_data():
    x = np.column_stack([np.ones(150), RANDOM.normal(size=150)])
    slopes = np.array([[0.0, 2.0], [3.0, -1.0], [-3.0, 0.5]])[RANDOM.choice(3, 150)]
    y = np.einsum("np,np->n", x, slopes) + 0.5 * RANDOM.normal(size=150)
    return {"N": 150, "P": 2, "X": x, "y": y, "K": 3}


def mixture(y, K):
    theta = numpyro.sample("theta", dist.Dirichlet(2.0 * jnp.ones(K)))
    mu = numpyro.sample("mu", dist.Normal(3, 5).expand([K]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(0, 0.5).expand([K]).to_event(1))
    terms = jnp.log(theta) + dist.Normal(mu, sigma).log_prob(jnp.asarray(y)[:, None])
    numpyro.factor("likelihood", jax.nn.logsumexp(terms, 1).sum())


def hidden_markov(y, K):
    a = numpyro.sample("A", dist.Dirichlet(1.5 * jnp.ones((K, K))).to_event(1))
    mu = numpyro.sample("mu", dist.Normal(0, 3).expand([K]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(0, 1))
    emitted = dist.Normal(mu, sigma).log_prob(jnp.asarray(y)[:, None])

    def step(forward, own):
        return jax.nn.logsumexp(forward[:, None] + jnp.log(a), 0) + own, None

    forward, _ = jax.lax.scan(step, emitted[0] - jnp.log(K), emitted[1:])
    numpyro.factor("likelihood", jax.nn.logsumexp(forward))


def regressions(y, X, K):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    beta = numpyro.sample("beta", dist.Normal(0, 5).expand([K, X.shape[1]]).to_event(2))
    sigma = numpyro.sample("sigma", dist.LogNormal(0, 1).expand([K]).to_event(1))
    terms = jnp.log(w) + dist.Normal(X @ beta.T, sigma).log_prob(jnp.asarray(y)[:, None])
    numpyro.factor("likelihood", jax.nn.logsumexp(terms, 1).sum())


CASES = {
    "mixture": (mixture, mixture_data(), ("y", "K"), 6),
    "hidden_markov": (hidden_markov, markov_data(), ("y", "K"), 2),
    "regressions": (regressions, regression_data(), ("y", "X", "K"), 6),
}


def compiled(name, data):
    return _services(PROGRAMS / f"{name}.stan", data)


def test_densities_and_gradients_are_numpyros():
    """100 points each, constants included: the programs have no ~ statement."""
    rows = []
    for name, (model, data, needed, order) in CASES.items():
        problem = folt.from_stan(compiled(name, data))
        assert problem.group.order == order
        assert not problem.proportional
        sites = problem.log_density.function.__self__.way.sites
        arguments = tuple(data[key] for key in needed)

        def reference(z, model=model, sites=sites, arguments=arguments):
            values = sites.push(z)
            log_joint, _ = numpyro.infer.util.log_density(model, arguments, {}, values)
            return log_joint + sites.log_slope(z)

        points = np.random.default_rng(3).normal(size=(100, problem.dim))
        with jax.enable_x64(True):
            values, slopes = jax.jit(jax.vmap(jax.value_and_grad(reference)))(points)
        mine, gradients = problem.gradients(points)
        apart = np.abs(mine - values) / (1.0 + np.abs(values))
        size = 1.0 + np.abs(slopes).max(axis=1, keepdims=True)
        slope_apart = np.abs(gradients - slopes) / size
        rows.append((name, order, f"{apart.max():.1e}", f"{slope_apart.max():.1e}"))
        assert apart.max() < 1e-12
        assert slope_apart.max() < 1e-9
    write_table(
        "stan-densities",
        "Stan programs compiled by httpstan against NumPyro, 100 points, relative differences",
        ("program", "labellings found", "log density", "gradient"),
        rows,
    )


def test_every_declaration_is_recognised_or_kept():
    """24 kinds of declarations: the density is Stan's own times the determinant of z → u."""
    model = compiled("declarations", {})
    blocks = program_blocks(Program(model))
    kinds = {block.name: block.kind for block in blocks}
    known = {
        BlockKind.REAL: ("a", "v", "r", "m"),
        BlockKind.LOWER: ("positive", "positive_matrix", "own_bounds"),
        BlockKind.UPPER: ("below",),
        BlockKind.INTERVAL: ("between", "shares"),
        BlockKind.AFFINE: ("scaled",),
        BlockKind.STICKS: ("weights", "rows", "table"),
        BlockKind.ORDERED: ("ascending", "positive_ascending", "ascending_rows"),
        BlockKind.UNIT: ("direction",),
    }
    for kind, names in known.items():
        assert all(kinds.pop(name) is kind for name in names)
    assert set(kinds.values()) == {BlockKind.OPAQUE}
    problem = folt.from_stan(model, exchangeable=[])
    density, step = problem.log_density.function.__self__, 1e-4
    worst = 0.0
    for x in np.random.default_rng(0).normal(0, 0.7, (5, problem.dim)):
        upper, lower = (density.free(x + sign * step * np.eye(problem.dim))[0] for sign in (1, -1))
        slope = np.linalg.slogdet((upper - lower) / (2 * step))[1]
        u = density.free(x[None])[0][0]
        truth = model.log_density(u, propto=False, jacobian=True) + slope
        worst = max(worst, abs(problem.log_probs(x[None])[0] - truth))
    assert worst < 1e-5
    values = problem.parameters(x[None])
    again = problem.parameters(problem.unconstrain(values))
    assert all(np.allclose(again[name], value, atol=1e-8) for name, value in values.items())
    write_table(
        "stan-declarations",
        "A Stan program with one parameter of every kind",
        ("parameters", "in coordinates of folt", "in Stan's own", "largest error of the density"),
        [
            (
                len(blocks),
                sum(not b.kept for b in blocks),
                sum(b.kept for b in blocks),
                f"{worst:.0e}",
            )
        ],
    )


@pytest.mark.parametrize("name", CASES)
def test_fits_agree_with_numpyro(name):
    model, data, needed, _ = CASES[name]
    began = time.process_time()
    problem = folt.from_stan(compiled(name, data))
    program = problem.log_density.function.__self__.program
    point, began_calls = np.full(program.free, 0.1), time.process_time()
    for _ in range(300):
        program.value(point, False)
    value, before = (time.process_time() - began_calls) / 300, time.process_time()
    for _ in range(300):
        program.gradient(point, False)
    gradient = (time.process_time() - before) / 300
    fit = folt.sample(problem, draws=2000, progress=False)
    cpu = time.process_time() - began
    spent = fit.evaluations["value"] * value + fit.evaluations["gradient"] * gradient
    twin = folt.from_numpyro(model, *(data[key] for key in needed))
    other = folt.sample(twin, draws=2000, progress=False)
    scores = []
    for key, mine in fit.posterior.items():
        theirs = other.posterior[key]
        for place in np.ndindex(mine.shape[2:]):
            one, two = mine[(..., *place)], theirs[(..., *place)]
            errors = [v.var() / effective_size(v, "mean") for v in (one, two)]
            scores.append(abs(one.mean() - two.mean()) / np.sqrt(sum(errors)))
    apart = fit.log_evidence.value - other.log_evidence.value
    error = np.hypot(fit.log_evidence.standard_error, other.log_evidence.standard_error)
    write_table(
        f"stan-fit-{name.replace('_', '-')}",
        f"The Stan program {name}.stan sampled through httpstan, and the same model in NumPyro",
        ("verdict", "NumPyro's", "largest score of a mean", "log Z", "score", "CPU / evaluations"),
        [
            (
                fit.certificate.status.name,
                other.certificate.status.name,
                f"{max(scores):.2f}",
                f"{fit.log_evidence.value:.4f} ± {fit.log_evidence.standard_error:.4f}",
                f"{apart / error:.2f}",
                f"{cpu / spent:.2f}",
            )
        ],
    )
    assert max(scores) < 4.5
    assert abs(apart) < 4 * error
