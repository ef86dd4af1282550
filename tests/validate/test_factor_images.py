"""Factor analysis with three factors: 48 images folded into one, none left at zero."""

import arviz
import jax
import numpy as np
import pytest
from table import write_table

import folt
from folt.models import factor_analysis, simulate_factor_analysis


@pytest.mark.validate
def test_three_factors_have_one_mode_on_the_domain():
    """Loadings far from zero never change their sign, and all chains agree."""
    problem = factor_analysis(simulate_factor_analysis(jax.random.key(0), 200), 3)
    fit = folt.sample(problem, labels="proposal", draws=10_000, progress=False)
    assert problem.group.order == 48
    rhats = [float(arviz.rhat(fit.draws[:, :, j])) for j in range(problem.dim)]
    loading = fit.posterior["loading"]
    mean, deviation = loading.mean(axis=(0, 1)), loading.std(axis=(0, 1))
    strong = np.abs(mean) > 5 * deviation
    crossed = np.mean(np.sign(loading[..., strong]) != np.sign(mean[strong]))
    evidence = fit.log_evidence
    write_table(
        "factor-images",
        "Factor analysis, 9 variables, 3 factors, 200 observations, labels of the proposal",
        ("largest R-hat", "strong loadings", "share crossing zero", "acceptance", "log Z"),
        [
            (
                f"{max(rhats):.4f}",
                int(strong.sum()),
                f"{crossed:.1e}",
                f"{fit.accept_rate:.3f}",
                f"{evidence.value:.2f} ± {evidence.standard_error:.2f}",
            )
        ],
    )
    assert strong.sum() >= 9
    assert crossed < 1e-3
    assert max(rhats) < 1.01
