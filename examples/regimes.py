"""A series that switches between two regimes: a hidden Markov model with Gaussian emissions."""

import jax

import folt
from folt.models import hidden_markov, simulate_hidden_markov

series = simulate_hidden_markov(jax.random.key(0), 300)
fit = folt.sample(hidden_markov(series, states=2))
print(fit.summary())
print("transition matrix:")
print(fit.posterior["transition"].mean(axis=(0, 1)).round(3))
