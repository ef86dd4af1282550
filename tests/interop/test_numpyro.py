"""NumPyro models: the same density, the symmetry they have, and nothing they do not have."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

numpyro = pytest.importorskip("numpyro")

import numpyro.distributions as dist  # noqa: E402
from numpyro.infer.util import log_density  # noqa: E402

import folt  # noqa: E402
from arviz_either import arviz, left_out, panels_of_trace  # noqa: E402
from brief import brief_fit  # noqa: E402
from folt.batching import map_keys, map_points  # noqa: E402
from folt.fit.replicates import observations  # noqa: E402
from folt.groups import (  # noqa: E402
    Blocks,
    Fixed,
    Joint,
    Permutation,
    Product,
    SignedPermutation,
    Trivial,
    Within,
    ZeroSum,
    ZeroSumRows,
)
from folt.problem.symmetry import SymmetryError  # noqa: E402

Y = np.asarray(folt.models.bayesian_mixture_data()[:60])


def mixture(y, components=3, prior_means=0.0):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(components)))
    with numpyro.plate("components", components):
        sigma = numpyro.sample("sigma", dist.LogNormal(0.0, 0.5))
        mu = numpyro.sample("mu", dist.Normal(jnp.asarray(prior_means), 5.0))
    numpyro.deterministic("precision", sigma**-2)
    parts = dist.MixtureSameFamily(dist.Categorical(probs=weights), dist.Normal(mu, sigma))
    with numpyro.plate("observations", y.shape[0]):
        numpyro.sample("y", parts, obs=y)


def hidden_markov(y, emission_means=0.0):
    start = jnp.log(jnp.full(2, 0.5))
    transitions = numpyro.sample("transitions", dist.Dirichlet(jnp.full((2, 2), 2.0)))
    mu = numpyro.sample("mu", dist.Normal(jnp.asarray(emission_means), 3.0).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    log_emission = dist.Normal(mu, noise).log_prob(y[:, None])

    def step(log_alpha, log_e):
        return jax.nn.logsumexp(log_alpha[:, None] + jnp.log(transitions), axis=0) + log_e, None

    last, _ = jax.lax.scan(step, start + log_emission[0], log_emission[1:])
    numpyro.factor("likelihood", jax.nn.logsumexp(last))


def regression(y):
    """Every kind of support, a hierarchy, a site that depends on another."""
    scale = numpyro.sample("scale", dist.HalfCauchy(2.0))
    bias = numpyro.sample("bias", dist.Normal(0.0, scale).expand([2]))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    slope = numpyro.sample("slope", dist.Uniform(-1.0, 2.0))
    topics = numpyro.sample("topics", dist.Dirichlet(jnp.array([1.0, 2.0, 0.5])).expand([4]))
    shift = numpyro.sample("shift", dist.TruncatedNormal(0.0, 1.0, low=-1.0))
    factor = numpyro.sample("factor", dist.LKJCholesky(2))
    mean = bias.sum() + rate * share + slope * topics[0, 0] + shift + factor[1, 0]
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


@pytest.mark.parametrize("shapes", [(1.0, 1.0), (0.7, 3.0)])
def test_probabilities_with_beta_priors_are_drawn_without_the_model(shapes):
    """Kolmogorov-Smirnov on 400 draws at level 1e-6; no draw goes through NumPyro."""

    def model(count):
        yes = numpyro.sample("yes", dist.Beta(jnp.full(2, shapes[0]), shapes[1]).to_event(1))
        numpyro.sample("count", dist.Binomial(3, yes[0] * yes[1]), obs=count)

    problem = folt.from_numpyro(model, np.array(1.0))
    assert all(each.known for each in problem.prior.density.sites.maps)
    draw = jax.vmap(lambda key: problem.parameters(problem.prior.sample(key))["yes"])
    values = np.asarray(eqx.filter_jit(draw)(jax.random.split(jax.random.key(0), 400)))
    assert scipy.stats.kstest(values.ravel(), scipy.stats.beta(*shapes).cdf).pvalue > 1e-6


@pytest.fixture(scope="module")
def problem():
    return folt.from_numpyro(mixture, Y)


def agrees(model, problem, sites, args):
    """log π(x) = log p(values) + log |d values/dx|, the Jacobian by automatic differentiation."""
    points = np.random.default_rng(5).normal(size=(3, problem.dim))

    def reduced(x):
        """Values without the last entry of every simplex, which the others determine."""
        values = problem.density_sites.push(x)
        return jnp.concatenate([sites[name](values[name]).reshape(-1) for name in values])

    @eqx.filter_jit
    def expected(x):
        values = problem.density_sites.push(x)
        return (
            log_density(model, args, {}, values)[0] + jnp.linalg.slogdet(jax.jacfwd(reduced)(x))[1]
        )

    found = problem.log_probs(points)
    np.testing.assert_allclose(found, [expected(x) for x in points], rtol=1e-9)


class Seen:
    """A problem together with the coordinates of its sites."""

    def __init__(self, problem):
        self.dim, self.log_probs = problem.dim, problem.log_probs
        self.density_sites = problem.log_density.sites


def whole(value):
    return value


def without_last(value):
    return value[..., :-1]


def below_diagonal(value):
    return value[1, 0]


def test_the_mixture_has_the_density_of_the_model(problem):
    sites = {"weights": without_last, "sigma": whole, "mu": whole}
    agrees(mixture, Seen(problem), sites, (Y,))


def test_the_mixture_is_found_exchangeable(problem):
    assert problem.group == Joint(3, (Blocks(1), Blocks(1), ZeroSum()))
    assert problem.names[:3] == ("mu[0]", "mu[1]", "mu[2]")
    assert folt.check(problem).holds
    assert dict(problem.dims)["weights"] == ("components",)


def test_relabelling_points_relabels_values(problem):
    group = problem.group
    x = jnp.asarray(np.random.default_rng(1).normal(size=problem.dim))
    arrangement = np.array([2, 0, 1])
    parameters = eqx.filter_jit(problem.parameters)
    moved = parameters(group.act(arrangement, x))
    for name, value in parameters(x).items():
        np.testing.assert_allclose(moved[name], value[arrangement], rtol=1e-10)


def test_coordinates_are_prior_normal_where_the_prior_is_known(problem):
    values = eqx.filter_jit(problem.parameters)(jnp.zeros(problem.dim))
    np.testing.assert_allclose(values["mu"], 0.0)
    np.testing.assert_allclose(values["sigma"], 1.0)
    np.testing.assert_allclose(values["weights"], 1 / 3)
    np.testing.assert_allclose(values["precision"], 1.0)


def test_the_prior_is_the_models_prior(problem):
    """Values of 2000 prior draws have the means of the prior: 5 standard errors, 3 checks."""
    x = map_keys(type(problem.prior).sample, problem.prior, jax.random.key(0), 2000)
    values = map_points(folt.Problem.parameters, problem, x)
    assert abs(float(values["mu"].mean())) < 5 * 5 / np.sqrt(6000)
    assert abs(float(np.log(values["sigma"]).mean())) < 5 * 0.5 / np.sqrt(6000)
    first = np.asarray(values["weights"][:, 0])
    assert abs(first.mean() - 1 / 3) < 5 * first.std() / np.sqrt(2000)
    logs = map_points(type(problem.prior).log_prob, problem.prior, x[:1])[0]
    expected = scipy.stats.norm.logpdf(values["mu"][0], 0, 5).sum()
    expected += scipy.stats.lognorm.logpdf(values["sigma"][0], 0.5).sum() + np.log(2)
    slope = eqx.filter_jit(problem.log_density.sites.log_slope)(x[0])
    assert logs == pytest.approx(float(expected + slope))


def test_every_kind_of_site_has_the_density_of_the_model():
    problem = folt.from_numpyro(regression, 0.7, exchangeable=[])
    sites = dict.fromkeys(("scale", "bias", "rate", "share", "slope", "shift"), whole)
    sites |= {"topics": without_last, "factor": below_diagonal}
    agrees(regression, Seen(problem), sites, (0.7,))
    assert problem.group == Trivial(1 + 2 + 1 + 1 + 1 + 8 + 1 + 1)


def test_a_prior_that_depends_on_another_site_is_drawn_forwards():
    def model(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        effect = numpyro.sample("effect", dist.Normal(0.0, scale).expand([2]))
        numpyro.sample("y", dist.Normal(effect.sum(), 1.0), obs=y)

    problem = folt.from_numpyro(model, 0.3)
    assert problem.group == Joint(2, (Blocks(1), Fixed(1)))
    x = map_keys(type(problem.prior).sample, problem.prior, jax.random.key(2), 2000)
    effects, scale = x[:, :2], map_points(folt.Problem.parameters, problem, x)["scale"]
    standard = effects / scale[:, None]
    assert abs(standard.mean()) < 5 / np.sqrt(4000)
    assert abs((standard**2).mean() - 1) < 5 * np.sqrt(2 / 4000)


@pytest.mark.filterwarnings("ignore:No relabelling symmetry was folded")
def test_components_with_priors_of_their_own_are_not_exchangeable():
    means = np.array([0.0, 1.0, 2.0])
    assert folt.from_numpyro(mixture, Y, prior_means=means).group == Trivial(8)
    with pytest.raises(SymmetryError) as caught:
        folt.from_numpyro(mixture, Y, prior_means=means, exchangeable=["mu", "sigma", "weights"])
    for words in ("'mu', 'sigma', 'weights'", "changes by", "swap components"):
        assert words in str(caught.value)


def test_two_of_three_components_alike():
    found = folt.from_numpyro(mixture, Y, prior_means=np.array([0.0, 4.0, 0.0]))
    assert found.group == Within(Joint(3, (Blocks(1), Blocks(1), ZeroSum())), [(0, 2)])


@pytest.mark.parametrize(("means", "order"), [(0.0, 2), ([0.0, 1.0], 1)])
@pytest.mark.filterwarnings("ignore:No relabelling symmetry was folded")
def test_a_hidden_markov_model(means, order):
    found = folt.from_numpyro(hidden_markov, Y, means)
    assert found.group.order == order
    if order == 2:
        assert found.group == Joint(2, (Blocks(1), ZeroSumRows(), Fixed(1)))
        sites = {"transitions": without_last, "mu": whole, "noise": whole}
        agrees(hidden_markov, Seen(found), sites, (Y,))
        assert found.pointwise is None
        assert dict(found.dims)["transitions"] == ("component", "component_to")
        declared = folt.from_numpyro(hidden_markov, Y, exchangeable=["mu", "transitions"])
        assert declared.group == found.group


def test_vector_components_and_a_site_that_only_shares_their_number():
    def model(y):
        centres = numpyro.sample(
            "centres", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)).expand([2])
        )
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0).expand([2]))
        shift = y * slope + jnp.array([0.0, 1.0])
        parts = dist.MultivariateNormal(centres, jnp.eye(2))
        both = dist.MixtureSameFamily(dist.Categorical(probs=jnp.full(2, 0.5)), parts)
        numpyro.sample("y", both, obs=shift)

    found = folt.from_numpyro(model, Y[:40].reshape(20, 2))
    assert found.group == Joint(2, (Blocks(2), Fixed(2)))
    assert found.names[:4] == ("centres[0,0]", "centres[0,1]", "centres[1,0]", "centres[1,1]")


def test_a_sparse_factor_model_has_signed_permutations_of_its_columns():
    def model(y):
        loadings = numpyro.sample("loadings", dist.Laplace(0.0, 1.0).expand([3, 2]))
        covariance = loadings @ loadings.T + jnp.eye(3)
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(3), covariance), obs=y)

    found = folt.from_numpyro(model, Y.reshape(20, 3))
    assert found.group == SignedPermutation(2, 3)
    assert found.names[:3] == ("loadings[0,0]", "loadings[1,0]", "loadings[2,0]")


def test_signs_that_flip_together_make_the_entry_positive_that_names_them():
    """Slopes and abilities: the fold knows the sign of the first slope and says so."""

    def model(y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
        ability = numpyro.sample("ability", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        noise = numpyro.sample("noise", dist.LogNormal(-1.0, 0.1))
        numpyro.sample("y", dist.Normal(slope * ability[:, None], noise), obs=y)

    problem = folt.from_numpyro(model, np.array([[3.0, 2.5], [-2.5, -2.0], [0.5, 0.4]]))
    assert problem.group == SignedPermutation(1, 6, sort_by=0, unsigned=1)
    fit = brief_fit(problem)
    entry = fit.order.split()[0]
    assert entry == "slope[0]"
    assert f"{entry} not negative" in fit.methods()
    assert (fit.posterior["slope"][..., 0] >= 0).all()
    assert (fit.posterior["slope"].mean(axis=(0, 1)) > 0.5).all()
    assert fit.labels == "sorted"  # the draws of the fold itself


def test_two_mixtures_side_by_side():
    def model(y):
        for name, count in (("a", 2), ("b", 3)):
            mu = numpyro.sample(name, dist.Normal(0.0, 1.0).expand([count]))
            parts = dist.Normal(mu, 1.0)
            equal = dist.Categorical(probs=jnp.full(count, 1 / count))
            numpyro.sample(f"y_{name}", dist.MixtureSameFamily(equal, parts), obs=y)

    found = folt.from_numpyro(model, Y)
    assert found.group == Product(Permutation(3, 1), Permutation(2, 1))
    assert dict(found.dims) == {"b": ("component",), "a": ("component_1",)}


def test_a_second_data_set_is_not_traced_again():
    traces = []

    def model(y):
        traces.append(1)
        mixture(y, 2)

    first = folt.from_numpyro(model, Y, exchangeable=["mu", "sigma", "weights"])
    points = np.zeros((2, first.dim))
    before = first.log_probs(points)
    count = len(traces)
    second = first.with_data(jax.tree.map(lambda leaf: leaf + 1.0, first.data))
    assert not np.allclose(second.log_probs(points), before)
    assert len(traces) == count


@pytest.mark.filterwarnings("ignore:No relabelling symmetry was folded")
def test_a_model_that_needs_its_numbers_keeps_them():
    def model(groups, y):
        effect = numpyro.sample("effect", dist.Normal(0.0, 1.0).expand([int(groups.max()) + 1]))
        numpyro.sample("y", dist.Normal(effect[groups], 1.0), obs=y)

    found = folt.from_numpyro(model, np.array([0, 1, 1, 0]), Y[:4])
    assert found.data is None
    assert found.dim == 2


def discrete(y):
    z = numpyro.sample("z", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(z, 1.0), obs=y)


def test_columns_of_pandas_and_lists_are_taken_as_their_numbers():
    pandas = pytest.importorskip("pandas")

    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("mu", dist.Normal(0.0, 1.0)), 1.0), obs=y)

    points = np.zeros((1, 1))
    given = (Y, pandas.Series(Y), list(Y), Y.tolist())
    first, *others = (folt.from_numpyro(model, y).log_probs(points) for y in given)
    for values in others:
        np.testing.assert_array_equal(values, first)
    with pytest.raises(ValueError, match="pandas Series of object"):
        folt.from_numpyro(model, pandas.Series(["a", "b"], dtype=object))


@pytest.mark.parametrize(
    ("model", "arguments", "exchangeable", "message"),
    [
        (mixture, (Y,), ["nu"], "no latent site 'nu'; its latent sites are 'weights', 'sigma'"),
        (hidden_markov, (Y,), ["mu", "noise"], "share the length of their first axis"),
        (discrete, (Y,), "auto", "site 'z' is discrete: marginalise it"),
        (mixture, (np.append(Y, np.nan),), "auto", "observed site 'y' has 1 NaN"),
        (mixture, (Y,), "all", "expected exchangeable='auto' or a list"),
    ],
)
def test_one_sentence_for_what_is_wrong(model, arguments, exchangeable, message):
    with pytest.raises(ValueError, match=message) as caught:
        folt.from_numpyro(model, *arguments, exchangeable=exchangeable)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def fit(problem):
    return brief_fit(problem, draws=200)


def test_classes_sorted_by_an_item_that_tells_nothing_are_named_by_the_proposal():
    """The second item of two tells the classes apart; a chosen order stays."""
    people = np.arange(80)
    answers = np.stack([people % 2, people < 40, people < 36], axis=1)

    def classes(y):
        with numpyro.plate("class", 2, dim=-2), numpyro.plate("item", 3, dim=-1):
            p = numpyro.sample("p", dist.Beta(1.0, 1.0))
        law = dist.MixtureSameFamily(
            dist.Categorical(jnp.full(2, 0.5)), dist.Bernoulli(p).to_event(1)
        )
        with numpyro.plate("people", len(y)):
            numpyro.sample("y", law, obs=y)

    found = brief_fit(folt.from_numpyro(classes, answers))
    assert found.labels == "proposal"
    assert found.posterior["p"][..., 1].std(axis=(0, 1)).max() < 0.15
    chosen = folt.from_numpyro(classes, answers, sort_by=lambda posterior: posterior["p"][..., 1])
    assert brief_fit(chosen).labels.startswith("sorted by")


def test_a_fit_carries_sites_and_deterministics(fit):
    assert set(fit.posterior) == {"weights", "sigma", "mu", "precision"}
    np.testing.assert_allclose(fit.posterior["precision"], fit.posterior["sigma"] ** -2)
    np.testing.assert_allclose(fit.posterior["weights"].sum(axis=-1), 1.0)
    assert np.all(np.diff(fit.posterior["mu"], axis=-1) >= 0)
    assert fit.accept_rate > 0.1


def test_arviz_takes_the_fit_as_it_is(fit):
    data = fit.to_arviz(posterior_predictive=True)
    assert data.posterior["mu"].dims == ("chain", "draw", "components")
    assert {"log_likelihood", "posterior_predictive", "sample_stats"} <= set(data)
    assert data.log_likelihood["y"].shape == (4, 200, 60)
    terms = data.log_likelihood["y"].values[0, 0]
    mu, sigma, weights = (fit.posterior[name][0, 0] for name in ("mu", "sigma", "weights"))
    density = np.exp(-0.5 * ((Y[:, None] - mu) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(terms, np.log(density @ weights), rtol=1e-8)
    assert data.posterior_predictive["y"].shape == (4, 200, 60)
    spread = float(data.posterior_predictive["y"].std())
    assert 0.5 * Y.std() < spread < 2 * Y.std()
    np.testing.assert_array_equal(data.observed_data["y"], Y)
    assert np.isfinite(left_out(data).elpd)
    assert list(arviz.summary(data, var_names=["mu"]).index) == ["mu[0]", "mu[1]", "mu[2]"]
    assert panels_of_trace(data, "mu") == 2
    assert data.sample_stats["acceptance_rate"].shape == (4, 200)


@pytest.mark.parametrize("rows", [(), (20,)])
def test_replicates_have_the_shape_of_the_observations_without_a_plate_too(rows):
    """Every row is drawn on its own, with the spread of its distribution and not of one draw."""

    def model(y, z):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        numpyro.sample("y", dist.MultivariateNormal(mu, jnp.eye(3)), obs=y)
        numpyro.sample("z", dist.Normal(mu[0], 1.0), obs=z)

    problem = folt.from_numpyro(model, np.zeros((*rows, 3)), np.zeros(rows))
    made = problem.replicates(jax.random.key(0), jnp.zeros(problem.dim))
    assert {name: value.shape for name, value in made.items()} == {"y": (*rows, 3), "z": rows}
    assert np.unique(made["y"]).size == made["y"].size
    assert np.unique(made["z"]).size == made["z"].size


def test_observations_are_told_from_covariates():
    def line(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)
        numpyro.factor("more", jnp.zeros(3))

    found = observations(folt.from_numpyro(line, np.arange(5.0), np.ones(5)))
    assert list(found) == ["y"]
    np.testing.assert_array_equal(found["y"], np.ones(5))
    assert observations(folt.from_numpyro(hidden_markov, Y)) == {}


def test_two_threads_may_trace_a_model_at_once():
    """The first to run waits inside the model until the other has begun, or a second is over."""
    begun = threading.Barrier(2)

    def patient(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with contextlib.suppress(threading.BrokenBarrierError):
            if threading.current_thread() is not threading.main_thread():
                begun.wait(timeout=1.0)
        numpyro.sample("y", dist.Normal(jnp.sum(mu), 1.0), obs=y)

    problem = folt.from_numpyro(patient, 0.3)
    with ThreadPoolExecutor(2) as threads:
        values = list(threads.map(lambda _: float(problem.log_prob(jnp.zeros(2))), range(2)))
    expected = scipy.stats.norm.logpdf([0.0, 0.0, 0.3]).sum()
    np.testing.assert_allclose(values, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("prior", "noise", "words"),
    [
        (dist.Normal(0.0, 1.0), -2.0, "the Normal distribution of the site 'y' has an invalid sca"),
        (lambda: dist.Normal(0.0, -1.0), 1.0, "distribution of the site 'mu' has an invalid scale"),
    ],
)
def test_arguments_that_are_wrong_whatever_the_parameters_are(prior, noise, words):
    def model(y):
        own = prior if isinstance(prior, dist.Distribution) else prior()
        mu = numpyro.sample("mu", own.expand([2]))
        equal = dist.Categorical(probs=jnp.full(2, 0.5))
        numpyro.sample("y", dist.MixtureSameFamily(equal, dist.Normal(mu, noise)), obs=y)

    with pytest.raises(ValueError, match=words):
        folt.from_numpyro(model, np.linspace(-2.0, 2.0, 8))


def test_an_improper_prior_has_the_density_of_the_model():
    def flat(y):
        mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), (2,)))
        parts = dist.Normal(mu, 1.0)
        numpyro.sample(
            "y", dist.MixtureSameFamily(dist.Categorical(logits=jnp.zeros(2)), parts), obs=y
        )

    found = folt.from_numpyro(flat, Y)
    assert found.group == Permutation(2, 1)
    assert found.prior is None
    point = np.array([-1.0, 2.0])
    whole, _ = log_density(flat, (Y,), {}, {"mu": point})
    np.testing.assert_allclose(found.log_probs(point[None]), float(whole))
