"""How many clusters of galaxies? A Gaussian mixture with unknown weights, by its evidence."""

import folt
from folt.models import datasets, gaussian_mixture

velocity = datasets.galaxies()
for components in (1, 2, 3):
    fit = folt.sample(gaussian_mixture(velocity, components))
    evidence = fit.log_evidence
    print(f"{components} components: log evidence {evidence.value:.2f}")
print(fit.summary())
