"""A target with a far pair of modes that the proposal misses, and what the certificate says."""

import jax
import jax.numpy as jnp

from folt.certificate.certify import Examined, certificate_from
from folt.certificate.facts import ReferenceFacts, SymmetryFacts
from folt.certificate.held_out import HeldOut
from folt.chains import run_chains
from folt.groups import Trivial
from folt.problem import Problem
from folt.problem.ratio import BoundaryMass, LogRatio, Target
from folt.proposals import Gaussian, Safety
from folt.reference import Exact
from folt.training import guard_of

DISTANCE, GUARD = 20.0, 0.02
FACTS = SymmetryFacts(1, True, 0.0, True, BoundaryMass(0.0, 0.0, 0.0, 0.1, 1.0), None)
REFERENCE = ReferenceFacts(1.0, 20_000.0, True, 20_000, 0, 1.0, 20_000.0)


def far_pair(missed: float) -> Problem:
    """(1-β) N(0, 1) with β/2 of a unit normal at either of ±20."""
    centres = jnp.array([0.0, -DISTANCE, DISTANCE])
    weights = jnp.array([1.0 - missed, missed / 2, missed / 2])

    def log_density(x, data):
        terms = jnp.log(data) - 0.5 * (x[0] - centres) ** 2 - 0.5 * jnp.log(2 * jnp.pi)
        return jax.nn.logsumexp(terms)

    def sampler(key):
        which, noise = jax.random.split(key)
        centre = centres[jax.random.categorical(which, jnp.log(weights))]
        return centre + jax.random.normal(noise, (1,))

    return Problem(log_density, Trivial(1), data=weights, sampler=sampler)


def certificate_of(missed: float, seed: int, *, guarded: bool, draws: int = 5_000):
    """The certificate of N(0, 1) as a proposal, as `folt.sample` would make it."""
    problem = far_pair(missed)
    keys = jax.random.split(jax.random.key(seed), 4)
    proposal = Gaussian(jnp.zeros(1), jnp.eye(1))
    if guarded:
        training = Exact(draws=5_000)(keys[3], problem).draws.reshape(-1, 1)
        proposal = Safety(proposal, guard_of(training, GUARD), GUARD)
    ratio = LogRatio(Target(problem), proposal, problem.group)
    held_out = HeldOut(Exact(draws=20_000)(keys[0], problem).draws, exact=True)
    _, fresh = ratio.draw(keys[2], 20_000)
    examined = Examined.of(held_out.judge(ratio), fresh)
    burn_in = examined.burn_in(100)
    chains = run_chains(keys[1], ratio, 4, draws, burn_in)
    return certificate_from(
        examined, chains, FACTS, REFERENCE, burn_in=burn_in, safety_weight=GUARD
    )
