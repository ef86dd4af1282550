"""PyMC models, with and without the symmetry one would guess."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from corpus.case import COUNTS, DATA, TABLE, Case, moving

UNIT = np.ones(3)


def vectors_and_dirichlet():
    with pm.Model() as model:
        w = pm.Dirichlet("w", UNIT)
        mu = pm.Normal("mu", 0.0, 5.0, shape=3)
        sigma = pm.HalfNormal("sigma", 2.0, shape=3)
        pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=DATA)
    return model


def beta_weight():
    with pm.Model() as model:
        theta = pm.Beta("theta", 5.0, 5.0)
        mu = pm.Normal("mu", 0.0, 2.0, shape=2)
        sigma = pm.HalfNormal("sigma", 2.0, shape=2)
        pm.NormalMixture("y", w=pt.stack([theta, 1 - theta]), mu=mu, sigma=sigma, observed=DATA)
    return model


def separate_scalars():
    with pm.Model() as model:
        p = pm.Uniform("p", 0.0, 1.0)
        parts = [
            pm.Normal.dist(pm.Normal("mu_low", 0, 3), pm.HalfNormal("sd_low", 1)),
            pm.Normal.dist(pm.Normal("mu_high", 0, 3), pm.HalfNormal("sd_high", 1)),
        ]
        pm.Mixture("y", w=pt.stack([p, 1 - p]), comp_dists=parts, observed=DATA)
    return model


def list_of_sites():
    with pm.Model() as model:
        rates = [pm.Gamma(f"rate_{k}", 2.0, 0.5) for k in range(3)]
        w = pm.Dirichlet("w", UNIT)
        parts = [pm.Poisson.dist(rate) for rate in rates]
        pm.Mixture("y", w=w, comp_dists=parts, observed=COUNTS)
    return model


def softmax_of_normals():
    with pm.Model() as model:
        raw = pm.Normal("raw", 0.0, 1.0, shape=3)
        mu = pm.Normal("mu", 0.0, 3.0, shape=3)
        pm.NormalMixture("y", w=pm.math.softmax(raw), mu=mu, sigma=1.0, observed=DATA)
    return model


def regressions():
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        slopes = pm.Normal("slopes", 0.0, 2.0, shape=(2, 2))
        noise = pm.HalfNormal("noise", 1.0)
        means = pt.dot(TABLE[:, :2], slopes.T)
        pm.NormalMixture("y", w=w, mu=means, sigma=noise, observed=TABLE[:, 2])
    return model


def hierarchical_means():
    with pm.Model() as model:
        centre = pm.Normal("centre", 0.0, 5.0)
        spread = pm.HalfCauchy("spread", 2.0)
        mu = pm.Normal("mu", centre, spread, shape=3)
        pm.NormalMixture("y", w=pm.Dirichlet("w", UNIT), mu=mu, sigma=1.0, observed=DATA)
    return model


def hidden_markov():
    with pm.Model() as model:
        transitions = pm.Dirichlet("transitions", np.full((2, 2), 2.0))
        mu = pm.Normal("mu", 0.0, 3.0, shape=2)
        alpha = pt.log(np.full(2, 0.5)) - 0.5 * (DATA[0] - mu) ** 2
        for value in DATA[1:5]:
            alpha = pm.math.logsumexp(alpha[:, None] + pt.log(transitions), axis=0).flatten()
            alpha = alpha - 0.5 * (value - mu) ** 2
        pm.Potential("likelihood", pm.math.logsumexp(alpha).sum())
    return model


def sparse_factors():
    with pm.Model() as model:
        loadings = pm.Laplace("loadings", 0.0, 1.0, shape=(3, 2))
        covariance = pt.dot(loadings, loadings.T) + np.eye(3)
        pm.MvNormal("y", np.zeros(3), cov=covariance, observed=TABLE)
    return model


def gaussian_factors():
    with pm.Model() as model:
        loadings = pm.Normal("loadings", 0.0, 1.0, shape=(3, 2))
        covariance = pt.dot(loadings, loadings.T) + np.eye(3)
        pm.MvNormal("y", np.zeros(3), cov=covariance, observed=TABLE)
    return model


def latent_classes():
    answers = (TABLE > 0).astype(float)
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        chance = pm.Beta("chance", 1.0, 1.0, shape=(3, 2))
        logs = pt.dot(answers, pt.log(chance)) + pt.dot(1 - answers, pt.log1p(-chance))
        pm.Potential("likelihood", pm.math.logsumexp(logs + pt.log(w), axis=1).sum())
    return model


def lopsided_means():
    with pm.Model() as model:
        mu = pm.Normal("mu", np.array([-1.0, 0.0, 1.0]), 2.0, shape=3)
        pm.NormalMixture("y", w=pm.Dirichlet("w", UNIT), mu=mu, sigma=1.0, observed=DATA)
    return model


def lopsided_beta():
    with pm.Model() as model:
        theta = pm.Beta("theta", 2.0, 5.0)
        mu = pm.Normal("mu", 0.0, 2.0, shape=2)
        pm.NormalMixture("y", w=pt.stack([theta, 1 - theta]), mu=mu, sigma=1.0, observed=DATA)
    return model


def ordered_means():
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        start = np.array([-1.0, 0.0, 1.0])
        mu = pm.Normal("mu", 0.0, 3.0, shape=3, transform=ordered, initval=start)
        pm.NormalMixture("y", w=pm.Dirichlet("w", UNIT), mu=mu, sigma=1.0, observed=DATA)
    return model


def fixed_effects():
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, 3.0, shape=3)
        pm.Normal("y", effect, pm.HalfNormal("noise", 1.0), observed=TABLE)
    return model


def shared_and_free_scale():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 3.0, shape=2)
        scales = pt.stack([pt.as_tensor(1.0), pm.HalfNormal("free", 2.0)])
        pm.NormalMixture("y", w=np.full(2, 0.5), mu=mu, sigma=scales, observed=DATA)
    return model


def eight_schools():
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        centre, spread = pm.Normal("centre", 0, 5), pm.HalfCauchy("spread", 5)
        theta = pm.Normal("theta", centre, spread, shape=8)
        pm.Normal("y", theta, errors, observed=y)
    return model


def stick_breaking():
    with pm.Model() as model:
        sticks = pm.Beta("sticks", 1.0, 1.5, shape=2)
        left = pt.concatenate([np.ones(1), pt.cumprod(1 - sticks)])
        w = left * pt.concatenate([sticks, np.ones(1)])
        mu = pm.Normal("mu", 0.0, 3.0, shape=3)
        pm.NormalMixture("y", w=w, mu=mu, sigma=1.0, observed=DATA)
    return model


def four_poissons():
    with pm.Model() as model:
        rate = pm.Exponential("rate", 0.1, shape=4)
        w = pm.Dirichlet("w", np.ones(4))
        pm.Mixture("y", w=w, comp_dists=pm.Poisson.dist(rate), observed=COUNTS)
    return model


def pinned_softmax():
    with pm.Model() as model:
        eta = pm.Normal("eta", 0.0, 1.0, shape=2)
        mu = pm.Normal("mu", 0.0, 5.0, shape=3)
        w = pm.math.softmax(pt.concatenate([eta, np.zeros(1)]))
        pm.NormalMixture("y", w=w, mu=mu, sigma=1.0, observed=DATA)
    return model


def shared_scale_and_coords():
    coords = {"component": ["a", "b", "c"], "obs": np.arange(len(DATA))}
    with pm.Model(coords=coords) as model:
        w = pm.Dirichlet("w", UNIT, dims="component")
        mu = pm.Normal("mu", 0.0, 5.0, dims="component")
        pm.NormalMixture(
            "y", w=w, mu=mu, sigma=pm.HalfNormal("sigma", 1), observed=DATA, dims="obs"
        )
    return model


def twins():
    """Groups with equal counts are alike by accident: their labels mean something."""
    with pm.Model() as model:
        rate = pm.Beta("rate", 1.0, 3.0, shape=4)
        pm.Binomial("deaths", n=20, p=rate, observed=np.array([0, 0, 0, 3]))
    return model


def random_effects():
    with pm.Model() as model:
        centre, spread = pm.Normal("centre", 0, 5), pm.HalfNormal("spread", 2)
        a = pm.Normal("a", centre, spread, shape=5)
        pm.Normal("y", a[np.arange(len(DATA)) % 5], 1.0, observed=DATA)
    return model


ZEROS = np.where(COUNTS % 3 == 0, 0, COUNTS)


def spike_beside_poissons():
    with pm.Model() as model:
        w = pm.Dirichlet("w", UNIT)
        lam = pm.Gamma("lam", 2.0, 0.5, shape=2)
        parts = [pm.DiracDelta.dist(0), pm.Poisson.dist(lam[0]), pm.Poisson.dist(lam[1])]
        pm.Mixture("y", w=w, comp_dists=parts, observed=ZEROS)
    return model


def known_component():
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(4))
        mu = pm.Normal("mu", 0.0, 3.0, shape=3)
        pm.NormalMixture("y", w=w, mu=pt.concatenate([[0.0], mu]), sigma=1.0, observed=DATA)
    return model


def scales_of_a_known_component():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 3.0, shape=2)
        sigma = pm.HalfNormal("sigma", 2.0, shape=3)
        means = pt.concatenate([mu, [0.0]])
        pm.NormalMixture("y", w=UNIT / 3, mu=means, sigma=sigma, observed=DATA)
    return model


def unequal_weights():
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.array([1.0, 2.0, 3.0]))
        mu = pm.Normal("mu", 0.0, 3.0, shape=2)
        pm.NormalMixture("y", w=w, mu=pt.concatenate([[0.0], mu]), sigma=1.0, observed=DATA)
    return model


def two_experts():
    with pm.Model() as model:
        gates = pm.Normal("gates", 0.0, 2.0, shape=(2, 2))
        slopes = pm.Normal("slopes", 0.0, 2.0, shape=(2, 2))
        w = pm.math.softmax(pt.dot(TABLE[:, :2], gates.T), axis=-1)
        means = pt.dot(TABLE[:, :2], slopes.T)
        pm.NormalMixture("y", w=w, mu=means, sigma=1.0, observed=TABLE[:, 2])
    return model


def zero_inflated_mixture():
    with pm.Model() as model:
        empty, theta = pm.Beta("empty", 1.0, 1.0), pm.Beta("theta", 2.0, 2.0)
        rate = pm.Gamma("rate", 2.0, 0.5, shape=2)
        w = pt.stack([empty, (1 - empty) * theta, (1 - empty) * (1 - theta)])
        parts = [pm.DiracDelta.dist(0), pm.Poisson.dist(rate[0]), pm.Poisson.dist(rate[1])]
        pm.Mixture("y", w=w, comp_dists=parts, observed=ZEROS)
    return model


def decays_on_a_ground():
    with pm.Model() as model:
        rates = pm.LogNormal("rates", 0.0, 1.0, shape=2)
        heights = pm.HalfNormal("heights", 2.0, shape=3)
        decays = pt.exp(-np.arange(len(DATA))[:, None] * rates)
        pm.Normal("y", heights[0] + pt.dot(decays, heights[1:]), 1.0, observed=DATA)
    return model


PYMC = {
    "a spike beside Poissons": Case(spike_beside_poissons, (), order=2, together=moving("lam w")),
    "a known component": Case(known_component, (), order=6, together=moving("mu w")),
    "scales of a known component": Case(
        scales_of_a_known_component, (), order=2, together=moving("mu sigma")
    ),
    "unequal weights": Case(unequal_weights, (), words="the prior of 'w' does not"),
    "two experts": Case(two_experts, (), order=2, together=moving("gates slopes")),
    "a zero-inflated mixture": Case(
        zero_inflated_mixture, (), order=2, together=moving("theta rate")
    ),
    "decays on a ground": Case(decays_on_a_ground, (), order=2, together=moving("rates heights")),
    "four Poissons": Case(four_poissons, (), order=24, together=moving("rate w")),
    "pinned softmax": Case(pinned_softmax, (), order=2, together=moving("eta mu")),
    "shared scale and coords": Case(shared_scale_and_coords, (), order=6, together=moving("w mu")),
    "twins": Case(twins, (), words="rate"),
    "random effects": Case(random_effects, (), words="a"),
    "vectors and a Dirichlet": Case(
        vectors_and_dirichlet, (), order=6, together=moving("w mu sigma")
    ),
    "a Beta weight": Case(beta_weight, (), order=2, together=moving("theta mu sigma")),
    "separate scalars": Case(
        separate_scalars, (), order=2, together=moving("p mu_low mu_high sd_low sd_high")
    ),
    "a list of sites": Case(list_of_sites, (), order=6, together=moving("rate_0 rate_1 rate_2 w")),
    "softmax of normals": Case(softmax_of_normals, (), order=6, together=moving("raw mu")),
    "regressions": Case(regressions, (), order=2, together=moving("w slopes")),
    "hierarchical means": Case(hierarchical_means, (), order=6, together=moving("mu w")),
    "hidden Markov": Case(hidden_markov, (), order=2, together=moving("transitions mu")),
    "sparse factors": Case(sparse_factors, (), order=8, together=moving("loadings")),
    "latent classes": Case(latent_classes, (), order=2, together=moving("w chance")),
    "Gaussian factors": Case(gaussian_factors, (), rotation=True, words="loadings"),
    "lopsided means": Case(lopsided_means, (), words="mu"),
    "lopsided Beta": Case(lopsided_beta, (), words="prior of 'theta'"),
    "ordered means": Case(ordered_means, (), words="ordered"),
    "fixed effects": Case(fixed_effects, (), words="effect"),
    "one shared and one free scale": Case(shared_and_free_scale, (), words="mu"),
    "eight schools": Case(eight_schools, (), words="theta"),
    "stick-breaking": Case(stick_breaking, (), words="Dirichlet"),
}
