"""NumPyro models that repeat under relabelling, written in the many ways people write them."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from corpus.case import COUNTS, DATA, DOCUMENTS, TABLE, Case, moving

sample = numpyro.sample


def observe_mixture(weights, parts, y):
    mixture = dist.MixtureSameFamily(dist.Categorical(probs=weights), parts)
    sample("y", mixture, obs=y)


def vectors_and_dirichlet(y):
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("k", 3):
        mu = sample("mu", dist.Normal(0.0, 5.0))
        sigma = sample("sigma", dist.HalfNormal(2.0))
    observe_mixture(w, dist.Normal(mu, sigma), y)


def beta_weight(y):
    theta = sample("theta", dist.Beta(5.0, 5.0))
    mu = sample("mu", dist.Normal(0.0, 2.0).expand([2]))
    sigma = sample("sigma", dist.HalfNormal(2.0).expand([2]))
    observe_mixture(jnp.stack([theta, 1 - theta]), dist.Normal(mu, sigma), y)


def separate_scalars(y):
    mu1, mu2 = sample("mu1", dist.Normal(0.0, 3.0)), sample("mu2", dist.Normal(0.0, 3.0))
    s1, s2 = sample("s1", dist.HalfNormal(1.0)), sample("s2", dist.HalfNormal(1.0))
    theta = sample("theta", dist.Beta(2.0, 2.0))
    means, scales = jnp.stack([mu1, mu2]), jnp.stack([s1, s2])
    observe_mixture(jnp.stack([theta, 1 - theta]), dist.Normal(means, scales), y)


def separate_means_shared_scale(y):
    p = sample("p", dist.Uniform(0.0, 1.0))
    left = sample("mean_left", dist.Normal(0.0, 10.0))
    right = sample("mean_right", dist.Normal(0.0, 10.0))
    noise = sample("noise", dist.Exponential(1.0))
    logs = [
        jnp.log(p) + dist.Normal(left, noise).log_prob(y),
        jnp.log1p(-p) + dist.Normal(right, noise).log_prob(y),
    ]
    numpyro.factor("likelihood", jnp.sum(jnp.logaddexp(*logs)))


def list_of_sites(y):
    mu = jnp.stack([sample(f"mu_{k}", dist.Normal(0.0, 4.0)) for k in range(4)])
    observe_mixture(jnp.full(4, 0.25), dist.Normal(mu, 1.0), y)


def lists_with_dirichlet(y):
    parts = []
    for k in range(3):
        mu = sample(f"mu{k}", dist.Normal(0.0, 4.0))
        scale = sample(f"scale{k}", dist.Gamma(2.0, 1.0))
        parts.append((mu, scale))
    w = sample("w", dist.Dirichlet(jnp.full(3, 2.0)))
    mu, scale = (jnp.stack(each) for each in zip(*parts, strict=True))
    observe_mixture(w, dist.Normal(mu, scale), y)


def lists_in_another_order(y):
    """The scales are declared backwards: names and order say nothing, the density does."""
    mu = [sample(f"mu_{name}", dist.Normal(0.0, 4.0)) for name in "abc"]
    scale = [sample(f"scale_{name}", dist.HalfNormal(2.0)) for name in "zyx"]
    observe_mixture(jnp.full(3, 1 / 3), dist.Normal(jnp.stack(mu), jnp.stack(scale[::-1])), y)


def two_decays(y):
    fast, slow = sample("fast", dist.LogNormal(0.0, 1.0)), sample("slow", dist.LogNormal(0.0, 1.0))
    height = sample("height", dist.HalfNormal(3.0))
    tall = sample("tall", dist.HalfNormal(3.0))
    noise = sample("noise", dist.HalfNormal(1.0))
    t = jnp.arange(len(y)) / 5.0
    sample("y", dist.Normal(height * jnp.exp(-fast * t) + tall * jnp.exp(-slow * t), noise), obs=y)


def softmax_of_normals(y):
    raw = sample("raw", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([3]).to_event(1))
    observe_mixture(jax.nn.softmax(raw), dist.Normal(mu, 1.0), y)


def logit_of_a_normal(y):
    logit = sample("logit", dist.Normal(0.0, 1.5))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([2]))
    w = jax.nn.sigmoid(logit)
    observe_mixture(jnp.stack([w, 1 - w]), dist.Normal(mu, 1.0), y)


def hierarchical_means(y):
    centre = sample("centre", dist.Normal(0.0, 5.0))
    spread = sample("spread", dist.HalfCauchy(2.0))
    with numpyro.plate("components", 3):
        mu = sample("mu", dist.Normal(centre, spread))
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    observe_mixture(w, dist.Normal(mu, 1.0), y)


def regressions(rows, axis=0):
    x, y = rows[:, :2], rows[:, 2]
    w = sample("w", dist.Dirichlet(jnp.ones(2)))
    sigma = sample("sigma", dist.HalfNormal(1.0).expand([2]))
    slopes = sample("slopes", dist.Normal(0.0, 2.0).expand([2, 3] if axis == 0 else [3, 2]))
    slopes = slopes.T if axis == 0 else slopes
    design = jnp.concatenate([jnp.ones((len(x), 1)), x], axis=1)
    observe_mixture(w, dist.Normal(design @ slopes, sigma), y)


def regressions_component_axis_last(rows):
    regressions(rows, axis=1)


def centres_in_the_plane(rows):
    centres = sample("centres", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)).expand([3]))
    scale = sample("scale", dist.HalfNormal(1.0))
    covariance = scale * jnp.eye(3)
    observe_mixture(jnp.full(3, 1 / 3), dist.MultivariateNormal(centres, covariance), rows)


def forward(start, transitions, log_emission):
    def step(log_alpha, log_e):
        return jax.nn.logsumexp(log_alpha[:, None] + jnp.log(transitions), axis=0) + log_e, None

    last, _ = jax.lax.scan(step, jnp.log(start) + log_emission[0], log_emission[1:])
    numpyro.factor("likelihood", jax.nn.logsumexp(last))


def hidden_markov(y):
    start = sample("start", dist.Dirichlet(jnp.ones(3)))
    transitions = sample("transitions", dist.Dirichlet(jnp.full((3, 3), 2.0)))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([3]))
    forward(start, transitions, dist.Normal(mu, 1.0).log_prob(y[:, None]))


def hidden_markov_that_stays(y):
    stay = sample("stay", dist.Beta(8.0, 2.0).expand([2]))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([2]))
    rows = [jnp.stack([stay[0], 1 - stay[0]]), jnp.stack([1 - stay[1], stay[1]])]
    forward(jnp.full(2, 0.5), jnp.stack(rows), dist.Normal(mu, 1.0).log_prob(y[:, None]))


def hidden_markov_two_rates(y):
    up, down = sample("up", dist.Beta(2.0, 5.0)), sample("down", dist.Beta(2.0, 5.0))
    low, high = sample("low", dist.Normal(0.0, 3.0)), sample("high", dist.Normal(0.0, 3.0))
    rows = [jnp.stack([1 - up, up]), jnp.stack([down, 1 - down])]
    emission = dist.Normal(jnp.stack([low, high]), 1.0)
    forward(jnp.full(2, 0.5), jnp.stack(rows), emission.log_prob(y[:, None]))


def hidden_markov_to_second_state(y):
    """The chance of being in the second state next: relabelling swaps it and takes 1 - p."""
    second = sample("second", dist.Beta(3.0, 3.0).expand([2]))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([2]))
    rows = jnp.stack([1 - second, second], axis=1)
    forward(jnp.full(2, 0.5), rows, dist.Normal(mu, 1.0).log_prob(y[:, None]))


def sparse_factors(rows):
    loadings = sample("loadings", dist.Laplace(0.0, 1.0).expand([3, 2]))
    noise = sample("noise", dist.HalfNormal(1.0).expand([3]))
    covariance = loadings @ loadings.T + jnp.diag(noise)
    sample("y", dist.MultivariateNormal(jnp.zeros(3), covariance), obs=rows)


def sparse_factors_with_scores(rows):
    """Loadings and scores change sign and place together."""
    loadings = sample("loadings", dist.Laplace(0.0, 1.0).expand([3, 2]))
    scores = sample("scores", dist.Normal(0.0, 1.0).expand([4, 2]))
    sample("y", dist.Normal(scores @ loadings.T, 1.0), obs=rows[:4])


def one_factor(rows):
    loading = sample("loading", dist.Normal(0.0, 1.0).expand([3]))
    covariance = jnp.outer(loading, loading) + jnp.eye(3)
    sample("y", dist.MultivariateNormal(jnp.zeros(3), covariance), obs=rows)


def side_by_side(y):
    for name, count in (("a", 2), ("b", 3)):
        mu = sample(name, dist.Normal(0.0, 2.0).expand([count]))
        equal = dist.Categorical(probs=jnp.full(count, 1 / count))
        mixture = dist.MixtureSameFamily(equal, dist.Normal(mu, 1.0))
        sample(f"y_{name}", mixture, obs=y)


def a_mixture_per_group(rows):
    """Labels of one group have nothing to do with those of another: 2! for each of three."""
    with numpyro.plate("groups", 3, dim=-2), numpyro.plate("components", 2, dim=-1):
        mu = sample("mu", dist.Normal(0.0, 3.0))
    w = sample("w", dist.Dirichlet(jnp.ones(2)).expand([3]))
    mixture = dist.MixtureSameFamily(dist.Categorical(probs=w), dist.Normal(mu, 1.0))
    sample("y", mixture, obs=rows)


def groups_that_share_labels(rows):
    with numpyro.plate("groups", 3, dim=-2), numpyro.plate("components", 2, dim=-1):
        mu = sample("mu", dist.Normal(0.0, 3.0))
    w = sample("w", dist.Dirichlet(jnp.ones(2)))
    mixture = dist.MixtureSameFamily(dist.Categorical(probs=w), dist.Normal(mu, 1.0))
    sample("y", mixture, obs=rows)


def a_beta_per_group(rows):
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([2]))
    with numpyro.plate("groups", 3):
        theta = sample("theta", dist.Beta(2.0, 2.0))
    w = jnp.stack([theta, 1 - theta], axis=1)
    mixture = dist.MixtureSameFamily(dist.Categorical(probs=w), dist.Normal(mu, 1.0))
    sample("y", mixture, obs=rows)


def latent_classes(rows):
    answers = (rows > 0).astype(float)
    w = sample("w", dist.Dirichlet(jnp.ones(2)))
    chance = sample("chance", dist.Beta(1.0, 1.0).expand([2, 3]).to_event(2))
    logs = answers @ jnp.log(chance).T + (1 - answers) @ jnp.log1p(-chance).T
    numpyro.factor("likelihood", jnp.sum(jax.nn.logsumexp(logs + jnp.log(w), axis=1)))


def poisson_rates(counts):
    rate = sample("rate", dist.Gamma(2.0, 0.5).expand([3]))
    w = sample("w", dist.Dirichlet(jnp.full(3, 0.5)))
    observe_mixture(w, dist.Poisson(rate), counts)


def sinusoids(y):
    frequency = sample("frequency", dist.Uniform(0.0, 0.5).expand([2]))
    amplitude = sample("amplitude", dist.HalfNormal(2.0).expand([2]))
    phase = sample("phase", dist.Uniform(-3.0, 3.0).expand([2]))
    waves = amplitude * jnp.cos(frequency * jnp.arange(len(y))[:, None] + phase)
    sample("y", dist.Normal(jnp.sum(waves, axis=1), 1.0), obs=y)


def centre_and_difference(y):
    centre = sample("centre", dist.Normal(0.0, 3.0))
    difference = sample("difference", dist.Normal(0.0, 3.0))
    theta = sample("theta", dist.Beta(4.0, 4.0))
    means = centre + jnp.array([0.5, -0.5]) * difference
    observe_mixture(jnp.stack([theta, 1 - theta]), dist.Normal(means, 1.0), y)


def two_of_three_alike(y):
    mu = sample("mu", dist.Normal(jnp.array([0.0, 0.0, 6.0]), 2.0))
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    observe_mixture(w, dist.Normal(mu, 1.0), y)


def a_vector_that_only_shares_the_number(rows):
    slopes = sample("slopes", dist.Normal(0.0, 1.0).expand([3]))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([3]))
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    parts = dist.Normal(mu + (rows @ slopes)[:, None], 1.0)
    observe_mixture(w, parts, DATA[: len(rows)])


def student_parts(y):
    with numpyro.plate("k", 2):
        df = sample("df", dist.Gamma(2.0, 0.1))
        loc = sample("loc", dist.Cauchy(0.0, 2.0))
        scale = sample("scale", dist.InverseGamma(2.0, 1.0))
    w = sample("w", dist.Beta(1.0, 1.0))
    observe_mixture(jnp.stack([w, 1 - w]), dist.StudentT(df, loc, scale), y)


def pinned_softmax(y):
    """One logit is zero: the labels of the other two are alike."""
    logits = sample("logits", dist.Normal(0.0, 1.0).expand([2]))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([3]))
    weights = jax.nn.softmax(jnp.concatenate([jnp.zeros(1), logits]))
    observe_mixture(weights, dist.Normal(mu, 1.0), y)


def logits_that_sum_to_zero(y):
    logits = sample("logits", dist.ZeroSumNormal(1.0, event_shape=(3,)))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([3]))
    observe_mixture(jax.nn.softmax(logits), dist.Normal(mu, 1.0), y)


def topics(counts):
    words = sample("words", dist.Dirichlet(jnp.ones(3)).expand([3]))
    shares = sample("shares", dist.Dirichlet(jnp.ones(3)).expand([4]))
    sample("y", dist.Multinomial(14, probs=shares @ words), obs=counts)


def hidden_units(rows):
    """A small neural network: units may be permuted, and flipped with what goes in and out."""
    inner = sample("inner", dist.Normal(0.0, 1.0).expand([2, 2]))
    bias = sample("bias", dist.Normal(0.0, 1.0).expand([2]))
    outer = sample("outer", dist.Normal(0.0, 1.0).expand([2]))
    sample("y", dist.Normal(jnp.tanh(rows[:, :2] @ inner + bias) @ outer, 1.0), obs=rows[:, 2])


def gated_regressions(rows):
    gates = sample("gates", dist.Normal(0.0, 1.0).expand([2]))
    slopes = sample("slopes", dist.Normal(0.0, 1.0).expand([2, 2]))
    first = jax.nn.sigmoid(rows[:, :2] @ gates)
    observe_mixture(
        jnp.stack([first, 1 - first], axis=1), dist.Normal(rows[:, :2] @ slopes.T, 1.0), rows[:, 2]
    )


def square_root(y):
    root = sample("root", dist.Normal(0.0, 1.0))
    sample("y", dist.Normal(root**2, 1.0), obs=jnp.abs(y) + 1.0)


def sites_nobody_looks_at(y):
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([2]))
    sample("single", dist.Normal(0.0, 1.0))
    sample("several", dist.Normal(0.0, 1.0).expand([4]))
    observe_mixture(jnp.full(2, 0.5), dist.Normal(mu, 1.0), y)


SYMMETRIC = {
    "vectors and a Dirichlet": Case(vectors_and_dirichlet, order=6, together=moving("w mu sigma")),
    "a Beta weight": Case(beta_weight, order=2, together=moving("theta mu sigma")),
    "separate scalars": Case(separate_scalars, order=2, together=moving("mu1 mu2 s1 s2 theta")),
    "separate means, shared scale": Case(
        separate_means_shared_scale, order=2, together=moving("p mean_left mean_right")
    ),
    "a list of sites": Case(list_of_sites, order=24, together=moving("mu_0 mu_1 mu_2 mu_3")),
    "lists with a Dirichlet": Case(
        lists_with_dirichlet,
        order=6,
        together=moving("mu0 mu1 mu2 scale0 scale1 scale2 w"),
    ),
    "lists in another order": Case(
        lists_in_another_order,
        order=6,
        together=moving("mu_a mu_b mu_c scale_x scale_y scale_z"),
    ),
    "two decays": Case(two_decays, order=2, together=moving("fast slow height tall")),
    "softmax of normals": Case(softmax_of_normals, order=6, together=moving("raw mu")),
    "logit of a normal": Case(logit_of_a_normal, order=2, together=moving("logit mu")),
    "hierarchical means": Case(hierarchical_means, order=6, together=moving("mu w")),
    "regressions": Case(regressions, (TABLE,), order=2, together=moving("w sigma slopes")),
    "regressions, component axis last": Case(
        regressions_component_axis_last, (TABLE,), order=2, together=moving("w sigma slopes")
    ),
    "centres": Case(centres_in_the_plane, (TABLE,), order=6, together=moving("centres")),
    "hidden Markov": Case(hidden_markov, order=6, together=moving("start transitions mu")),
    "hidden Markov that stays": Case(hidden_markov_that_stays, order=2, together=moving("stay mu")),
    "hidden Markov, two rates": Case(
        hidden_markov_two_rates, order=2, together=moving("up down low high")
    ),
    "hidden Markov, second state": Case(
        hidden_markov_to_second_state, order=2, together=moving("second mu")
    ),
    "sparse factors": Case(sparse_factors, (TABLE,), order=8, together=moving("loadings")),
    "sparse factors with scores": Case(
        sparse_factors_with_scores, (TABLE,), order=8, together=moving("loadings scores")
    ),
    "one factor": Case(one_factor, (TABLE,), order=2, together=moving("loading")),
    "side by side": Case(side_by_side, order=12, together=moving("a", "b")),
    "a mixture per group": Case(
        a_mixture_per_group, (TABLE,), order=8, together=moving("mu w", "mu w", "mu w")
    ),
    "groups that share labels": Case(
        groups_that_share_labels, (TABLE,), order=2, together=moving("mu w")
    ),
    "a Beta per group": Case(a_beta_per_group, (TABLE,), order=2, together=moving("mu theta")),
    "latent classes": Case(latent_classes, (TABLE,), order=2, together=moving("w chance")),
    "Poisson rates": Case(poisson_rates, (COUNTS,), order=6, together=moving("rate w")),
    "sinusoids": Case(sinusoids, order=2, together=moving("frequency amplitude phase")),
    "centre and difference": Case(
        centre_and_difference, order=2, together=moving("difference theta")
    ),
    "two of three alike": Case(two_of_three_alike, order=2, together=moving("mu w")),
    "a vector that only shares the number": Case(
        a_vector_that_only_shares_the_number, (TABLE,), order=6, together=moving("mu w")
    ),
    "Student parts": Case(student_parts, order=2, together=moving("df loc scale w")),
    "pinned softmax": Case(pinned_softmax, order=2, together=moving("logits mu")),
    "logits that sum to zero": Case(logits_that_sum_to_zero, order=6, together=moving("logits mu")),
    "topics": Case(topics, (DOCUMENTS,), order=6, together=moving("words shares")),
    "hidden units": Case(hidden_units, (TABLE,), order=8, together=moving("inner bias outer")),
    "gated regressions": Case(
        gated_regressions, (TABLE,), order=2, together=moving("gates slopes")
    ),
    "square root": Case(square_root, order=2, together=moving("root")),
    "sites nobody looks at": Case(sites_nobody_looks_at, order=2, together=moving("mu")),
}
