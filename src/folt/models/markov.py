"""The hidden Markov model with Gaussian or Poisson emissions.

A chain of hidden states s_1, ..., s_T with transition matrix P, P_ij the probability of going from
i to j; y_t given s_t = k is N(μ_k, σ_k²) or Poisson(λ_k). Rows of P are independent
Dirichlet with one concentration for staying and one for leaving; emissions have the priors of the
mixtures. The states are summed out by the forward algorithm.

Relabelling the states moves the emissions and permutes P on both sides. The first state is either
uniform or drawn from the stationary distribution of P: both follow a relabelling by themselves.
One series says next to nothing about a free initial distribution, so there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float, Int

from folt.coordinates import CentredScores
from folt.groups import Blocks, Joint, ZeroSumRows
from folt.models.families import Family, GaussianFamily, PoissonFamily, Values
from folt.models.independent import Independent, StandardNormal
from folt.models.observations import (
    counts,
    named_variables,
    number_of,
    positive,
    series,
    steps_ahead,
)
from folt.problem import Problem
from folt.problem.observed import Forecast, LogTerms, Paths, Pointwise, Predictive
from folt.types import Key, Point, Scalar, host_generator, in_float64

Initial = Literal["uniform", "stationary"]


class HiddenMarkovPosterior(eqx.Module):
    """Likelihood times prior, all constants included: its integral is the evidence."""

    family: Family
    transition: CentredScores
    prior: Independent
    initial: Initial = eqx.field(static=True)

    def _pieces(self, x: Point) -> tuple[Float[Array, "m size"], Float[Array, "m m"]]:
        rows, ratios = self.prior.pieces(x)
        return rows.reshape(-1, len(self.family.kinds)), self.transition.push(ratios)

    def __call__(self, x: Point, observations: Float[Array | np.ndarray, " t"]) -> Scalar:
        """Return the log density at one point."""
        rows, transition = self._pieces(x)
        terms = self.family.terms(self.family.parameters(rows), jnp.asarray(observations))
        steps = forward_log_likelihood(initial_log(transition, self.initial), transition, terms)
        return jnp.sum(steps) + self.prior.log_prob(x)

    def constrain(self, x: Point) -> Values:
        """Return the parameters of the states, the transition matrix and the first distribution."""
        rows, transition = self._pieces(x)
        initial = jnp.exp(initial_log(transition, self.initial))
        return {**self.family.constrain(rows), "transition": transition, "initial": initial}

    def unconstrain(self, values: Values) -> Point:
        """Return the point with these parameters; the initial distribution follows from them."""
        rows = self.family.unconstrain(values)
        return jnp.concatenate([rows.reshape(-1), self.transition.pull(values["transition"])])


def forward_log_likelihood(
    log_initial: Float[Array, " m"],
    transition: Float[Array, "m m"],
    terms: Float[Array, "m t"],
) -> Float[Array, " t"]:
    """Return log p(y_t | y_1, ..., y_{t-1}) for every t, by the forward algorithm.

    The filtered log probabilities are carried; one step costs m exponentials and a product with
    P, because the largest of them is taken out before leaving the log scale.
    """

    def step(log_predicted: Array, log_term: Array) -> tuple[Array, Array]:
        joint = log_predicted + log_term
        largest = jax.lax.stop_gradient(jnp.max(joint))
        shares = jnp.exp(joint - largest)
        log_total = jnp.log(jnp.sum(shares))
        return jnp.log(shares @ transition) - log_total, log_total + largest

    return jax.lax.scan(step, log_initial, terms.T)[1]


def initial_log(transition: Float[Array, "m m"], initial: Initial) -> Float[Array, " m"]:
    """Return the log distribution of the first state."""
    m = transition.shape[0]
    if initial == "uniform":
        return jnp.full(m, -math.log(m), transition.dtype)
    return jnp.log(stationary(transition))


def stationary(transition: Float[Array, "m m"]) -> Float[Array, " m"]:
    """Return the distribution π with πP = π, from π(I - P + 11ᵀ) = 1ᵀ."""
    m = transition.shape[0]
    system = jnp.eye(m, dtype=transition.dtype) - transition + 1.0
    return jnp.linalg.solve(system.T, jnp.ones(m, transition.dtype))


@in_float64
def hidden_markov(
    data: ArrayLike | Sequence[float],
    states: int,
    emission: Literal["gaussian", "poisson"] = "gaussian",
    *,
    initial: Initial = "uniform",
    staying: float = 1.0,
    leaving: float = 1.0,
    mu_location: float | None = None,
    mu_scale: float | None = None,
    log_sigma_location: float | None = None,
    log_sigma_scale: float = 1.0,
    log_rate_location: float | None = None,
    log_rate_scale: float = 1.5,
    variables: Sequence[str] | None = None,
) -> Problem:
    """Return the posterior of a hidden Markov model given one series.

    Args:
        data: the series, in order of time.
        states: number of hidden states, m.
        emission: "gaussian" or "poisson".
        initial: distribution of the first state, "uniform" or "stationary".
        staying: Dirichlet concentration of the diagonal of the transition matrix; more than
            `leaving` expects states that last.
        leaving: Dirichlet concentration off the diagonal.
        mu_location: as for `gaussian_mixture`.
        mu_scale: as for `gaussian_mixture`.
        log_sigma_location: as for `gaussian_mixture`.
        log_sigma_scale: as for `gaussian_mixture`.
        log_rate_location: as for `poisson_mixture`.
        log_rate_scale: as for `poisson_mixture`.
        variables: the name of what is observed, as a list of one; that of a pandas series if None.
    """
    m = number_of("states", states)
    if initial not in ("uniform", "stationary"):
        raise ValueError(f"expected initial 'uniform' or 'stationary', got {initial!r}")
    positive(staying=staying, leaving=leaving)
    family: Family
    if emission == "gaussian":
        observations = series(data, m, "states")
        family = GaussianFamily.for_data(
            observations, mu_location, mu_scale, log_sigma_location, log_sigma_scale
        )
    elif emission == "poisson":
        observations = counts(data, m, "states")
        family = PoissonFamily.for_data(observations, log_rate_location, log_rate_scale)
    else:
        raise ValueError(f"expected emission 'gaussian' or 'poisson', got {emission!r}")
    transition = CentredScores.transitions(m, staying, leaving)
    prior = Independent((StandardNormal(len(family.kinds) * m), transition))
    posterior = HiddenMarkovPosterior(family, transition, prior, initial)
    return Problem(
        posterior,
        Joint(m, (Blocks(len(family.kinds)), ZeroSumRows())),
        data=observations,
        prior=prior,
        names=[
            *(f"{kind}[{k}]" for k in range(m) for kind in family.kinds),
            *(f"log_ratio[{i},{j}]" for i in range(m) for j in range(m - 1)),
        ],
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        pointwise=Pointwise(posterior.constrain, pointwise_of_states),
        predictive=Predictive(posterior.constrain, _predict, _FORECAST),
        log_terms=LogTerms(posterior.constrain, smoothed, _PATHS),
        dims={
            **dict.fromkeys((*family.names(), "initial"), ("state",)),
            "transition": ("state", "state_to"),
        },
        coords=named_variables(data, variables, 1),
    )


def pointwise_of_states(parameters: Values, data: ArrayLike) -> Float[Array, " t"]:
    """Return the log predictive density of every observation given those before it."""
    terms = _terms(parameters, data)
    return forward_log_likelihood(jnp.log(parameters["initial"]), parameters["transition"], terms)


def smoothed(parameters: Values, data: ArrayLike) -> Float[Array, "m t"]:
    """Return log P(s_t = k | y_1, ..., y_T), by the forward-backward algorithm."""
    terms = _terms(parameters, data)
    log_transition = jnp.log(parameters["transition"])

    def forwards(log_predicted: Array, term: Array) -> tuple[Array, Array]:
        joint = log_predicted + term
        return logsumexp(joint[:, None] + log_transition, axis=0), joint

    def backwards(log_later: Array, term: Array) -> tuple[Array, Array]:
        return logsumexp(log_transition + (log_later + term)[None, :], axis=1), log_later

    filtered = jax.lax.scan(forwards, jnp.log(parameters["initial"]), terms.T)[1]
    start = jnp.zeros(terms.shape[0], terms.dtype)
    later = jax.lax.scan(backwards, start, terms.T, reverse=True)[1]
    return jax.nn.log_softmax(filtered + later, axis=1).T


def viterbi(parameters: Values, data: ArrayLike) -> Int[Array, " t"]:
    """Return the states s_1, ..., s_T of largest probability given the data and the parameters."""
    terms = _terms(parameters, data).T
    log_transition = jnp.log(parameters["transition"])

    def forwards(best: Array, term: Array) -> tuple[Array, Array]:
        arrived = best[:, None] + log_transition
        return jnp.max(arrived, axis=0) + term, jnp.argmax(arrived, axis=0)

    start = jnp.log(parameters["initial"]) + terms[0]
    best, came_from = jax.lax.scan(forwards, start, terms[1:])
    last = jnp.argmax(best)

    def backwards(state: Array, came: Array) -> tuple[Array, Array]:
        return came[state], came[state]

    earlier = jax.lax.scan(backwards, last, came_from, reverse=True)[1]
    return jnp.append(earlier, last)


def path_log_prob(parameters: Values, path: Int[Array, " t"], data: ArrayLike) -> Scalar:
    """Return log P(s_1, ..., s_T | y_1, ..., y_T) of these states, given the parameters."""
    terms = _terms(parameters, data)
    log_initial, transition = jnp.log(parameters["initial"]), parameters["transition"]
    moves = jnp.sum(jnp.log(transition[path[:-1], path[1:]]))
    emitted = jnp.sum(jnp.take_along_axis(terms, path[None], axis=0))
    together = jnp.sum(forward_log_likelihood(log_initial, transition, terms))
    return log_initial[path[0]] + moves + emitted - together


_PATHS = Paths(viterbi, path_log_prob)
"""The most probable path of the states, and how probable a path is."""


def _predict(key: Key, parameters: Values, data: ArrayLike) -> Float[Array, " t"]:
    """Return a new series of the same length."""
    return _simulated(key, parameters, jnp.log(parameters["initial"]), jnp.shape(data)[0])


def ahead(
    key: Key, parameters: Values, new: Float[Array, " k"], data: ArrayLike
) -> Float[Array, "k columns"]:
    """Return probabilities of the states k steps ahead, and last a simulated series."""
    transition = parameters["transition"]
    now = jnp.exp(smoothed(parameters, data)[:, -1])

    def step(shares: Array, _: Array) -> tuple[Array, Array]:
        later = shares @ transition
        return later, later

    shares = jax.lax.scan(step, now, new)[1]
    series = _simulated(key, parameters, jnp.log(shares[0]), new.shape[0])
    return jnp.concatenate([shares, series[:, None]], axis=1)


_FORECAST = Forecast("step", steps_ahead, ahead, last="y")
"""The next states and observations."""


def _simulated(
    key: Key, parameters: Values, log_first: Float[Array, " m"], length: int
) -> Float[Array, " length"]:
    """Return a series whose first state has these log probabilities."""
    key_states, key_noise = jax.random.split(key)
    transition = parameters["transition"]

    def step(log_row: Array, own: Key) -> tuple[Array, Array]:
        state = jax.random.categorical(own, log_row)
        return jnp.log(transition[state]), state

    keys = jax.random.split(key_states, length)
    states = jax.lax.scan(step, log_first, keys)[1]
    return _family_of(parameters).draws(key_noise, parameters, states)


def _family_of(parameters: Values) -> type[Family]:
    return PoissonFamily if "rate" in parameters else GaussianFamily


def _terms(parameters: Values, data: ArrayLike) -> Float[Array, "m t"]:
    """Return the log density of every observation in every state."""
    return _family_of(parameters).log_densities(parameters, jnp.asarray(data, float))


def simulate_hidden_markov(
    key: Key,
    length: int = 300,
    emission: Literal["gaussian", "poisson"] = "gaussian",
    *,
    transition: Sequence[Sequence[float]] = ((0.9, 0.1), (0.2, 0.8)),
    mu: Sequence[float] = (0.0, 3.0),
    sigma: Sequence[float] = (1.0, 1.0),
    rate: Sequence[float] = (2.0, 8.0),
) -> Float[np.ndarray, " length"]:
    """Return a series with these parameters; the first state is uniform."""
    generator = host_generator(key)
    matrix = np.asarray(transition, float)
    states = [int(generator.integers(len(matrix)))]
    for _ in range(length - 1):
        states.append(int(generator.choice(len(matrix), p=matrix[states[-1]])))
    if emission == "poisson":
        return generator.poisson(np.asarray(rate, float)[states]).astype(float)
    return generator.normal(np.asarray(mu, float)[states], np.asarray(sigma, float)[states])
