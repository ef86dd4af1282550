"""Counts from three sources of different rates: a Poisson mixture."""

import jax

import folt
from folt.models import poisson_mixture, simulate_poisson_mixture

counts = simulate_poisson_mixture(jax.random.key(0), 300, rate=(1.0, 6.0, 15.0))
fit = folt.sample(poisson_mixture(counts, components=3))
print(fit.summary())
