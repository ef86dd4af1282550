"""NumPyro models as strangers write them: none of them was seen when the search was built."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from corpus.case import COUNTS, DATA, TABLE, Case, moving

sample = numpyro.sample

BITS = (np.random.default_rng(13).random((10, 4)) < 0.4).astype(int)
WIDE = np.random.default_rng(14).normal(size=(12, 4))
LINKS = (np.random.default_rng(15).random((4, 4)) < 0.5).astype(float)


def four_poissons(counts):
    weights = sample("weights", dist.Dirichlet(np.ones(4)))
    with numpyro.plate("components", 4):
        rate = sample("rate", dist.Exponential(0.1))
    with numpyro.plate("data", len(counts)):
        mixture = dist.MixtureSameFamily(dist.Categorical(weights), dist.Poisson(rate))
        sample("obs", mixture, obs=counts)


def bernoullis(bits):
    pi = sample("pi", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("K", 3, dim=-2), numpyro.plate("D", bits.shape[1], dim=-1):
        p = sample("p", dist.Beta(1.0, 1.0))
    parts = dist.Bernoulli(p).to_event(1)
    with numpyro.plate("N", bits.shape[0]):
        sample("x", dist.MixtureSameFamily(dist.Categorical(pi), parts), obs=bits)


def shared_variance(y):
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = sample("mu", dist.Normal(0, 5).expand([3]))
    variance = sample("variance", dist.InverseGamma(2.0, 1.0))
    logs = jnp.log(w) + dist.Normal(mu, jnp.sqrt(variance)).log_prob(y[:, None])
    numpyro.factor("likelihood", jax.scipy.special.logsumexp(logs, -1).sum())


def weights_of_groups(y):
    """Weights of each of three groups around common ones: a hierarchy of simplices."""
    concentration = sample("concentration", dist.Gamma(2.0, 1.0))
    base = sample("base", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("groups", 3):
        w = sample("w", dist.Dirichlet(10 * concentration * base))
    mu = sample("mu", dist.Normal(0, 5).expand([3]))
    mixture = dist.MixtureSameFamily(dist.Categorical(w[:, None, :]), dist.Normal(mu, 1.0))
    sample("y", mixture.to_event(2), obs=y.reshape(3, 5))


def sticks_made_to_sum_to_one(y):
    v = sample("v", dist.Beta(1, 1.5).expand([4]))
    w = v * jnp.append(1.0, jnp.cumprod(1 - v)[:-1])
    mu = sample("mu", dist.Normal(0, 5).expand([4]))
    mixture = dist.MixtureSameFamily(dist.Categorical(w / w.sum()), dist.Normal(mu, 1.0))
    sample("y", mixture, obs=y)


def pinned_last_with_scales(y):
    eta = sample("eta", dist.Normal(0, 1).expand([2]))
    mu = sample("mu", dist.Normal(0, 5).expand([3]))
    s = sample("s", dist.LogNormal(0, 0.5).expand([3]))
    w = jax.nn.softmax(jnp.append(eta, 0.0))
    sample("y", dist.MixtureSameFamily(dist.Categorical(probs=w), dist.Normal(mu, s)), obs=y)


def random_effects(y):
    centre = sample("centre", dist.Normal(0, 5))
    spread = sample("spread", dist.HalfNormal(2))
    with numpyro.plate("g", 5):
        a = sample("a", dist.Normal(centre, spread))
    sample("y", dist.Normal(a[np.arange(len(y)) % 5], 1.0), obs=y)


def crossed_effects(y):
    a = sample("a", dist.Normal(0, 1).expand([3]))
    b = sample("b", dist.Normal(0, 1).expand([3]))
    places = np.arange(len(y))
    sample("y", dist.Normal(a[places % 3] + b[(places // 3) % 3], 1.0), obs=y)


def change_point(y):
    tau = sample("tau", dist.Uniform(0, 1))
    mu = sample("mu", dist.Normal(0, 5).expand([2]))
    after = jax.nn.sigmoid((jnp.arange(len(y)) / len(y) - tau) * 20)
    sample("y", dist.Normal(mu[0] * (1 - after) + mu[1] * after, 1.0), obs=y)


def negative_binomials(counts):
    mu = sample("mu", dist.LogNormal(1, 1).expand([2]))
    size = sample("size", dist.Exponential(1.0).expand([2]))
    p = sample("p", dist.Uniform(0, 1))
    parts = [dist.NegativeBinomial2(mu[k], size[k]) for k in range(2)]
    mixing = dist.Categorical(probs=jnp.array([p, 1 - p]))
    sample("y", dist.MixtureGeneral(mixing, parts), obs=counts)


def full_covariances(rows):
    w = sample("w", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("k", 2):
        mu = sample("mu", dist.Normal(0, 3).expand([3]).to_event(1))
        scale = sample("scale", dist.HalfNormal(2).expand([3]).to_event(1))
        corr = sample("corr", dist.LKJCholesky(3, 2.0))
    parts = dist.MultivariateNormal(mu, scale_tril=scale[..., None] * corr)
    sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=rows)


def matrix_factors(counts):
    left = sample("left", dist.Gamma(1.0, 1.0).expand([4, 2]))
    right = sample("right", dist.Gamma(1.0, 1.0).expand([2, 3]))
    sample("y", dist.Poisson(left @ right), obs=counts[:12].reshape(4, 3))


def blocks_of_a_network(links):
    rates = sample("rates", dist.Beta(1, 1).expand([2, 2]))
    z = sample("z", dist.Dirichlet(jnp.ones(2)).expand([4]))
    p = z @ rates @ z.T
    numpyro.factor("likelihood", (links * jnp.log(p) + (1 - links) * jnp.log1p(-p)).sum())


def items_and_abilities(bits):
    ability = sample("ability", dist.Normal(0, 1).expand([6]))
    slope = sample("slope", dist.Normal(0, 1).expand([4]))
    level = sample("level", dist.Normal(0, 1).expand([4]))
    sample("y", dist.Bernoulli(logits=ability[:, None] * slope - level), obs=bits[:6])


def loadings_with_column_scales(rows):
    """Columns change place with their scales, and sign without them."""
    precision = sample("precision", dist.Gamma(1.0, 1.0).expand([2]))
    loadings = sample("loadings", dist.Normal(0, 1 / jnp.sqrt(precision)).expand([4, 2]))
    noise = sample("noise", dist.HalfNormal(1.0).expand([4]))
    covariance = loadings @ loadings.T + jnp.diag(noise)
    sample("x", dist.MultivariateNormal(jnp.zeros(4), covariance), obs=rows)


def mixture_of_mixtures(y):
    """Parts of a part may be exchanged, and whole parts: 2!·2!·2! = 8."""
    mu = sample("mu", dist.Normal(0, 3).expand([2, 2]))
    inner = sample("inner", dist.Dirichlet(jnp.ones(2)).expand([2]))
    outer = sample("outer", dist.Dirichlet(jnp.full(2, 2.0)))
    logs = (
        jnp.log(outer)[:, None] + jnp.log(inner) + dist.Normal(mu, 1.0).log_prob(y[:, None, None])
    )
    numpyro.factor("likelihood", jax.nn.logsumexp(logs, axis=(1, 2)).sum())


def product_of_two_vectors(y):
    """Rotations of two vectors at once leave their product alone."""
    a = sample("a", dist.Normal(0, 2).expand([2]))
    b = sample("b", dist.Normal(0, 2).expand([2]))
    sample("y", dist.Normal((a * b).sum() * jnp.sin(jnp.arange(len(y)) / 5.0) + 1.0, 1.0), obs=y)


def twins(deaths):
    """Groups with equal counts are alike by accident: their labels mean something."""
    a = sample("a", dist.Exponential(0.1))
    b = sample("b", dist.Exponential(0.1))
    rate = sample("rate", dist.Beta(1 + a, 1 + b).expand([4]))
    sample("deaths", dist.Binomial(20, rate), obs=deaths)


def two_arms_alike(deaths):
    rate = sample("rate", dist.Beta(1.0, 1.0).expand([2]))
    sample("deaths", dist.Binomial(20, rate), obs=deaths[:2])


STRANGERS = {
    "twins": Case(twins, (np.array([0, 0, 0, 3]),), words="rate"),
    "two arms alike": Case(two_arms_alike, (np.array([4, 4]),), words="rate"),
    "four Poissons": Case(four_poissons, (COUNTS,), order=24, together=moving("rate weights")),
    "Bernoullis": Case(bernoullis, (BITS,), order=6, together=moving("p pi")),
    "shared variance": Case(shared_variance, order=6, together=moving("mu w")),
    "weights of groups": Case(weights_of_groups, order=6, together=moving("mu base w")),
    "sticks made to sum to one": Case(sticks_made_to_sum_to_one, words="breaks a stick"),
    "pinned last with scales": Case(pinned_last_with_scales, order=2, together=moving("eta mu s")),
    "random effects": Case(random_effects, words="a"),
    "crossed effects": Case(crossed_effects, words="a"),
    "change point": Case(change_point, words="mu"),
    "negative binomials": Case(
        negative_binomials, (COUNTS,), order=2, together=moving("mu size p")
    ),
    "full covariances": Case(
        full_covariances, (TABLE,), order=2, together=moving("mu scale corr w")
    ),
    "matrix factors": Case(matrix_factors, (COUNTS,), order=2, together=moving("left right")),
    "blocks of a network": Case(blocks_of_a_network, (LINKS,), order=2, together=moving("rates z")),
    "items and abilities": Case(
        items_and_abilities, (BITS,), order=2, together=moving("ability slope")
    ),
    "loadings with column scales": Case(
        loadings_with_column_scales, (WIDE,), order=8, together=moving("loadings precision")
    ),
    "mixture of mixtures": Case(
        mixture_of_mixtures,
        (DATA,),
        order=8,
        together=moving("mu inner", "mu inner outer"),
    ),
    "product of two vectors": Case(
        product_of_two_vectors, order=32, rotation=True, words="'a', 'b'"
    ),
}
