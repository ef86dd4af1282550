"""NUTS draws of the demo's posterior, chains in whatever labellings they ended, certified."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import truth, write_table

import folt
from folt.models import bayesian_mixture, bayesian_mixture_data

RUNS, CHAINS = 100, 4
LOG_EVIDENCE, LOG_EVIDENCE_ERROR = truth("bayes-mixture")


def model(observations):
    import numpyro
    import numpyro.distributions as dist

    with numpyro.plate("components", 3):
        mu = numpyro.sample("mu", dist.Normal(3.0, 5.0))
        sigma = numpyro.sample("sigma", dist.LogNormal(0.0, 0.5))
    weights = dist.Categorical(probs=jnp.full(3, 1 / 3))
    parts = dist.MixtureSameFamily(weights, dist.Normal(mu, sigma))
    numpyro.sample("y", parts, obs=observations)


def _runs():
    """Draws (run, chain, draw, ...) of all runs by one compiled program, each chain on its own."""
    from numpyro.infer import MCMC, NUTS

    sampler = MCMC(
        NUTS(model),
        num_warmup=500,
        num_samples=1000,
        num_chains=CHAINS * RUNS,
        chain_method=lambda chain: lambda keys: jax.lax.map(chain, keys, batch_size=CHAINS),
        progress_bar=False,
    )
    sampler.run(jax.random.key(1), bayesian_mixture_data())
    samples = sampler.get_samples(group_by_chain=True)
    return {name: np.asarray(x).reshape(RUNS, CHAINS, *x.shape[1:]) for name, x in samples.items()}


@pytest.mark.validate
def test_draws_of_nuts_are_certified():
    """All good, log Z within 4 combined standard errors (false alarm 6e-3 over 100 runs)."""
    import arviz as az

    draws = _runs()
    problem, rows = bayesian_mixture(), []
    for seed in range(RUNS):
        data = az.from_dict({name: values[seed] for name, values in draws.items()})
        raw = float(az.rhat(data).to_array().max())
        fit = folt.certify(problem, data, seed=seed, progress=False)
        evidence = fit.log_evidence
        rows.append(
            (raw, fit.certificate.reference.rhat, fit.certificate.status.name, evidence.value,
             evidence.standard_error)
        )  # fmt: skip
    raw, folded, names, values, errors = (np.array(column) for column in zip(*rows, strict=True))
    write_table(
        "given-draws",
        f"{RUNS} NUTS runs of the demo's posterior, 4 x 1000 draws, certified",
        ("quantity", "least", "median", "largest"),
        [
            (label, *(f"{quantile:.4f}" for quantile in np.quantile(column, (0, 0.5, 1))))
            for label, column in (
                ("R-hat as they came", raw),
                ("R-hat folded", folded),
                ("log Z", values),
                ("its standard error", errors),
            )
        ],
    )
    assert set(names) == {"good"}
    assert errors.max() <= 0.0015
    combined = np.hypot(errors, LOG_EVIDENCE_ERROR)
    assert np.abs((values - LOG_EVIDENCE) / combined).max() < 4
