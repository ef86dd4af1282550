"""NumPyro models whose parts have labels of unequal number, and relabellings that name nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from corpus.case import COUNTS, DATA, TABLE, Case, moving
from corpus.numpyro_symmetric import forward, observe_mixture

sample = numpyro.sample

ZEROS = np.where(COUNTS % 3 == 0, 0, COUNTS)


def weights(count):
    return sample("w", dist.Dirichlet(jnp.ones(count)))


def means(count):
    return sample("mu", dist.Normal(0.0, 3.0).expand([count]))


def spike_at(place, count):
    def model(y):
        w = weights(count + 1)
        lam = sample("lam", dist.Gamma(2.0, 0.5).expand([count]))
        labels = np.delete(np.arange(count + 1), place)
        logs = jnp.log(w[labels]) + dist.Poisson(lam).log_prob(y[:, None])
        spike = jnp.where(y == 0, jnp.log(w[place]), -jnp.inf)[:, None]
        numpyro.factor("y", jax.scipy.special.logsumexp(jnp.hstack([spike, logs]), -1))

    return model


def known_background(y):
    """A component at a known place beside three that are looked for."""
    w, mu = weights(4), means(3)
    sigma = sample("sigma", dist.HalfNormal(2.0).expand([4]))
    observe_mixture(w, dist.Normal(jnp.append(0.0, mu), sigma), y)


def two_known_components(y):
    w, mu = weights(4), means(2)
    observe_mixture(w, dist.Normal(jnp.concatenate([jnp.array([-5.0, 5.0]), mu]), 1.0), y)


def scalars_beside_a_known_one(y):
    w = weights(3)
    a, b = sample("a", dist.Normal(0.0, 3.0)), sample("b", dist.Normal(0.0, 3.0))
    observe_mixture(w, dist.Normal(jnp.stack([jnp.zeros(()), a, b]), 1.0), y)


def outliers_with_a_place_of_their_own(y):
    """Two clusters with weights of their own, outliers with a mean in front of theirs."""
    share = sample("share", dist.Beta(1.0, 9.0))
    w, mu = weights(2), means(3)
    all_weights = jnp.append(share, (1 - share) * w)
    observe_mixture(all_weights, dist.Normal(mu, jnp.array([10.0, 1.0, 1.0])), y)


def a_resting_state(y):
    """A hidden Markov model one of whose states is known."""
    rows = sample("P", dist.Dirichlet(jnp.ones(3)).expand([3]))
    mu = means(2)
    log_emission = dist.Normal(jnp.append(0.0, mu), 1.0).log_prob(y[:, None])
    forward(jnp.full(3, 1 / 3), rows, log_emission)


def unequal_weights(y):
    """The labels would be alike, had their weights one prior."""
    w, mu = sample("w", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0]))), means(2)
    observe_mixture(w, dist.Normal(jnp.append(0.0, mu), 1.0), y)


def weights_of_two_groups(y):
    """Each group has weights of its own, all a known component."""
    w, mu = sample("w", dist.Dirichlet(jnp.ones(3)).expand([2])), means(2)
    mixture = dist.MixtureSameFamily(
        dist.Categorical(w[:, None, :]), dist.Normal(jnp.append(0.0, mu), 1.0)
    )
    sample("y", mixture.to_event(2), obs=y[:14].reshape(2, 7))


def scales_of_a_known_shape(y):
    """One component has the place of the data, all have scales, and weights are fixed."""
    mu, sigma = means(2), sample("sigma", dist.HalfNormal(2.0).expand([3]))
    observe_mixture(jnp.full(3, 1 / 3), dist.Normal(jnp.append(mu, 0.0), sigma), y)


def logits_beside_a_reference_class(y):
    raw, mu = sample("raw", dist.Normal(0.0, 1.0).expand([2])), means(2)
    observe_mixture(jax.nn.softmax(jnp.append(0.0, raw)), dist.Normal(jnp.append(0.0, mu), 1.0), y)


def experts(classes):
    def model(rows):
        x, y = rows[:, :2], rows[:, 2]
        gates = sample("gates", dist.Normal(0.0, 2.0).expand([classes, 2]))
        slopes = sample("slopes", dist.Normal(0.0, 2.0).expand([classes, 2]))
        noise = sample("noise", dist.HalfNormal(1.0).expand([classes]))
        mixture = dist.MixtureSameFamily(
            dist.Categorical(logits=x @ gates.T), dist.Normal(x @ slopes.T, noise)
        )
        sample("y", mixture, obs=y)

    return model


def softmax_regression(rows):
    """Two classes whose labels are observed: a softmax in both, of which one would do."""
    gates = sample("gates", dist.Normal(0.0, 2.0).expand([2, 2]))
    sample("y", dist.Categorical(logits=rows[:, :2] @ gates.T), obs=(rows[:, 2] > 0).astype(int))


def slopes_of_covariates(rows):
    """Two slopes and three noises: lengths that have nothing to do with each other."""
    slopes = sample("slopes", dist.Normal(0.0, 1.0).expand([2]))
    noise = sample("noise", dist.HalfNormal(1.0).expand([3]))
    scales = jnp.tile(noise, 4)
    sample("y", dist.Normal(rows[:, :2] @ slopes, scales), obs=rows[:, 2])


def a_mixture_with_covariates(rows):
    """Three components and a regression on two covariates besides."""
    w, mu = weights(3), means(3)
    slopes = sample("slopes", dist.Normal(0.0, 1.0).expand([2]))
    shift = (rows[:, :2] @ slopes)[:, None]
    observe_mixture(w, dist.Normal(mu + shift, 1.0), rows[:, 2])


def decays_on_a_ground(y):
    """A sum of decays, the slowest of which is a constant."""
    rates = sample("rates", dist.LogNormal(0.0, 1.0).expand([2]))
    heights = sample("heights", dist.HalfNormal(2.0).expand([3]))
    decays = jnp.exp(-jnp.arange(len(y))[:, None] * rates)
    sample("y", dist.Normal(heights[0] + decays @ heights[1:], 1.0), obs=y)


def zero_inflated_binomials(y):
    """Zeros by a share of their own, then two binomials whose weights are a Beta's."""
    empty, theta = sample("empty", dist.Beta(1.0, 1.0)), sample("theta", dist.Beta(2.0, 2.0))
    p = sample("p", dist.Beta(1.0, 1.0).expand([2]))
    shares = jnp.stack([theta, 1 - theta]) * (1 - empty)
    logs = jnp.log(shares) + dist.Binomial(20, p).log_prob(y[:, None])
    spike = jnp.where(y == 0, jnp.log(empty), -jnp.inf)
    numpyro.factor("y", jnp.logaddexp(spike, jax.scipy.special.logsumexp(logs, -1)))


UNEQUAL = {
    "a spike before two": Case(spike_at(0, 2), (ZEROS,), 2, moving("lam w")),
    "a spike between two": Case(spike_at(1, 2), (ZEROS,), 2, moving("lam w")),
    "a spike behind three": Case(spike_at(3, 3), (ZEROS,), 6, moving("lam w")),
    "a known background": Case(known_background, (DATA,), 6, moving("mu sigma w")),
    "two known components": Case(two_known_components, (DATA,), 2, moving("mu w")),
    "scalars beside a known one": Case(scalars_beside_a_known_one, (DATA,), 2, moving("a b w")),
    "outliers with a place": Case(outliers_with_a_place_of_their_own, (DATA,), 2, moving("w mu")),
    "a resting state": Case(a_resting_state, (DATA,), 2, moving("mu P")),
    "unequal weights": Case(
        unequal_weights, words="the likelihood stays as it is, the prior of 'w' does not"
    ),
    "weights of two groups": Case(weights_of_two_groups, (DATA,), 2, moving("mu w")),
    "scales of a known shape": Case(scales_of_a_known_shape, (DATA,), 2, moving("mu sigma")),
    "logits beside a reference class": Case(
        logits_beside_a_reference_class, (DATA,), 2, moving("mu raw")
    ),
    "two experts": Case(experts(2), (TABLE,), 2, moving("gates slopes noise")),
    "three experts": Case(experts(3), (TABLE,), 6, moving("gates slopes noise")),
    "softmax of two observed classes": Case(softmax_regression, (TABLE,)),
    "slopes and noises": Case(slopes_of_covariates, (TABLE,)),
    "a mixture with covariates": Case(a_mixture_with_covariates, (TABLE,), 6, moving("mu w")),
    "decays on a ground": Case(decays_on_a_ground, (DATA,), 2, moving("rates heights")),
    "zero-inflated binomials": Case(zero_inflated_binomials, (ZEROS,), 2, moving("theta p")),
}
