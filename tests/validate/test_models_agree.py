"""Every ready model against a long NUTS run on the unfolded density, folded afterwards.

Folding the draws of any sampler of the whole density gives the density on the domain, so the two
must agree in distribution. Data are simulated with components far enough apart for NUTS to be
trusted; each run is checked by its own R-hat.
"""

import jax
import numpy as np
import pytest
from table import write_table

import folt
from folt.certificate.diagnostics.chains import effective_size
from folt.models import (
    factor_analysis,
    gaussian_mixture,
    hidden_markov,
    multivariate_gaussian_mixture,
    poisson_mixture,
    simulate_factor_analysis,
    simulate_gaussian_mixture,
    simulate_hidden_markov,
    simulate_multivariate_gaussian_mixture,
    simulate_poisson_mixture,
)

KEY = jax.random.key(2)
MODELS = {
    "Poisson mixture, 2": lambda: poisson_mixture(
        simulate_poisson_mixture(KEY, 200, weight=(0.6, 0.4), rate=(2.0, 10.0)), 2
    ),
    "Gaussian mixture, 3": lambda: gaussian_mixture(simulate_gaussian_mixture(KEY, 300), 3),
    "hidden Markov, 2 Gaussian states": lambda: hidden_markov(simulate_hidden_markov(KEY, 200), 2),
    "hidden Markov, 2 Poisson states": lambda: hidden_markov(
        simulate_hidden_markov(KEY, 200, "poisson"), 2, "poisson"
    ),
    "bivariate mixture, 2": lambda: multivariate_gaussian_mixture(
        simulate_multivariate_gaussian_mixture(KEY, 200), 2
    ),
    "factor analysis, 3": lambda: factor_analysis(simulate_factor_analysis(KEY, 200), 3),
}
CHAINS, WARMUP, DRAWS = 2, 1000, 5000


def long_run(problem, start):
    """NUTS on the whole density, its draws folded, in the user's parameters."""
    from numpyro.infer import MCMC, NUTS

    sampler = MCMC(
        NUTS(potential_fn=lambda x: -problem.log_prob(x)),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(3), init_params=np.repeat(start[None], CHAINS, axis=0))
    folded = jax.jit(jax.vmap(jax.vmap(lambda x: problem.parameters(problem.group.fold(x)))))
    values = folded(sampler.get_samples(group_by_chain=True))
    return {name: np.asarray(value) for name, value in values.items()}


def columns(values):
    """Every scalar parameter as (chain, draw), by name."""
    for name, value in values.items():
        for place in np.ndindex(value.shape[2:]):
            column = value[(..., *place)]
            if np.ptp(column) > 0:
                yield f"{name}{list(place)}", column


def moments(column):
    """Mean and standard deviation with their Monte Carlo standard errors."""
    mean, deviation = column.mean(), column.std()
    squares = (column - mean) ** 2
    mean_error = deviation / np.sqrt(effective_size(column, "mean"))
    variance_error = squares.std() / np.sqrt(effective_size(squares, "mean"))
    return (mean, mean_error), (deviation, variance_error / (2 * deviation))


@pytest.mark.validate
def test_models_agree_with_long_runs():
    """Means and standard deviations of 77 parameters within 4 errors (false alarm 1 %)."""
    import arviz

    rows, worst = [], {}
    for label, build in MODELS.items():
        problem = build()
        fit = folt.sample(problem, progress=False)
        reference = long_run(problem, fit.draws[0, -1])
        expected, scores, rhats = dict(columns(reference)), [], []
        for name, column in columns(fit.posterior):
            pairs = zip(moments(column), moments(expected[name]), strict=True)
            scores.extend((a - b) / np.hypot(ea, eb) for (a, ea), (b, eb) in pairs)
            rhats.append(float(arviz.rhat(expected[name])))
        worst[label] = np.abs(scores).max()
        cells = (len(scores), f"{worst[label]:.2f}", f"{np.sqrt(np.mean(np.square(scores))):.2f}")
        accept = f"{fit.accept_rate:.3f}"
        wall = f"{sum(fit.wall.values()):.0f}"
        rows.append((label, problem.dim, *cells, f"{max(rhats):.3f}", accept, wall))
        write_table(
            "models-agree",
            f"Ready models against NUTS, {CHAINS} x {DRAWS} draws: means and standard deviations",
            (
                "model",
                "dimension",
                "comparisons",
                "largest z",
                "root mean square z",
                "largest R-hat of NUTS",
                "acceptance of folt",
                "wall of folt, s",
            ),
            rows,
        )
    assert max(worst.values()) < 4, worst
