"""Short and long eruptions: a bivariate Gaussian mixture with full covariances."""

import folt
from folt.models import datasets, multivariate_gaussian_mixture

fit = folt.sample(multivariate_gaussian_mixture(datasets.old_faithful(), components=2))
print(fit.summary())
print("covariances of the two kinds of eruption:")
print(fit.posterior["covariance"].mean(axis=(0, 1)).round(3))
