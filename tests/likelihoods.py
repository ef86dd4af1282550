"""Log likelihoods of the ready models written down with SciPy, to hold the models to."""

import itertools
from collections.abc import Callable

import numpy as np
import scipy.special
import scipy.stats

Values = dict[str, np.ndarray]
Likelihood = Callable[[Values, np.ndarray], float]
Emission = Callable[[Values, int, np.ndarray], np.ndarray]


def of_components(log_density: Emission) -> Likelihood:
    """The likelihood of a mixture of such components."""

    def total(values: Values, data: np.ndarray) -> float:
        terms = [log_density(values, k, data) for k in range(len(values["weight"]))]
        weights = np.log(values["weight"])[:, None]
        return scipy.special.logsumexp(np.stack(terms) + weights, axis=0).sum()

    return total


def over_paths(log_density: Emission) -> Likelihood:
    """The likelihood of a hidden Markov model, summed over every path of states."""

    def total(values: Values, data: np.ndarray) -> float:
        terms = np.stack([log_density(values, k, data) for k in range(len(values["initial"]))])
        step, first = np.log(values["transition"]), np.log(values["initial"])
        logs = []
        for path in itertools.product(range(len(first)), repeat=len(data)):
            moves = sum(step[a, b] for a, b in itertools.pairwise(path))
            seen = sum(terms[state, t] for t, state in enumerate(path))
            logs.append(first[path[0]] + moves + seen)
        return scipy.special.logsumexp(logs)

    return total


def normal_of(values: Values, k: int, data: np.ndarray) -> np.ndarray:
    return scipy.stats.norm.logpdf(data, values["mu"][k], values["sigma"][k])


def poisson_of(values: Values, k: int, data: np.ndarray) -> np.ndarray:
    return scipy.stats.poisson.logpmf(data, values["rate"][k])


def multinormal_of(values: Values, k: int, data: np.ndarray) -> np.ndarray:
    return scipy.stats.multivariate_normal.logpdf(data, values["mu"][k], values["covariance"][k])


def of_factors(values: Values, data: np.ndarray) -> float:
    covariance = values["loading"].T @ values["loading"] + np.diag(values["noise"])
    return scipy.stats.multivariate_normal.logpdf(data, cov=covariance).sum()
