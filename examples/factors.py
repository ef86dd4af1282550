"""Three sparse factors behind nine variables: all 48 signed permutations folded into one."""

import jax

import folt
from folt.models import factor_analysis, simulate_factor_analysis

table = simulate_factor_analysis(jax.random.key(0), 200)
# Factors have no natural order or sign, so draws are labelled as the proposal finds likeliest.
fit = folt.sample(factor_analysis(table, factors=3), labels="proposal")
print(fit.summary())
print("loadings:")
print(fit.posterior["loading"].mean(axis=(0, 1)).round(2))
