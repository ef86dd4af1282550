"""Tables, pictures, comparison and the paragraph for a paper: the numbers of the fit, once more."""

import dataclasses

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import pytest

import folt
from brief import EFFORT, brief_fit
from folt.fit.text import probability_words
from folt.groups import Joint, ZeroSum
from folt.models import gaussian_mixture
from folt.proposals.action import action_of

DATA = np.concatenate([np.linspace(-3.0, -1.0, 20), np.linspace(2.0, 4.0, 30)])


@pytest.fixture(scope="module")
def fit():
    return brief_fit(gaussian_mixture(DATA, 2))


@pytest.fixture(scope="module")
def single():
    return brief_fit(gaussian_mixture(DATA, 1))


def test_draws_as_a_data_frame(fit):
    frame = fit.to_dataframe()
    assert frame.index.names == ["chain", "draw"]
    assert frame.shape == (fit.accepted.size, 6)
    np.testing.assert_array_equal(frame["mu[1]"].loc[2], fit.posterior["mu"][2, :, 1])


def test_estimates_as_a_data_frame_and_effective_draws_as_told(fit):
    table = fit.table()
    values = fit.posterior["mu"][..., 0]
    expected = [values.mean(), values.std(), *np.quantile(values, [0.025, 0.975])]
    np.testing.assert_allclose(table.loc["mu[0]", ["mean", "sd", "low", "high"]], expected)
    fewest = table["ess"].min()
    assert f"{fewest:.0f} draws at least" in fit.summary()
    assert f"{fewest:,.0f} effective draws at least" in str(fit)
    assert fewest == pytest.approx(fit.table()["ess"].to_numpy().min())


def test_printing_keeps_the_shape_of_matrices(fit):
    matrix = np.zeros((*fit.draws.shape[:2], 2, 3)) + np.arange(6.0).reshape(2, 3)
    shown = str(dataclasses.replace(fit, posterior={"b": matrix}))
    assert "[0.0000, 1.0000, 2.0000], [3.0000, 4.0000, 5.0000] (means, 2 × 3)" in shown


@pytest.mark.parametrize(
    ("probability", "words"), [(1e-4, "< 0.001"), (0.0306, "0.031"), (1.0, "1.000"), (np.nan, "–")]
)
def test_a_small_probability_is_not_printed_as_zero(probability, words):
    assert probability_words(probability) == words


def test_models_are_compared_by_evidence_the_best_first(fit, single):
    found = folt.compare({"one": single, "two": fit})
    frame = found.to_dataframe()
    assert list(frame.index) == ["two", "one"]
    gap = single.log_evidence.value - fit.log_evidence.value
    assert frame.loc["one", "difference"] == pytest.approx(gap)
    odds = frame.loc["one", "probability"] / frame.loc["two", "probability"]
    assert odds == pytest.approx(np.exp(gap))
    for text in (str(found), found._repr_html_()):
        assert f"{fit.log_evidence.value:.3f} ± {fit.log_evidence.standard_error:.3f}" in text
        assert fit.certificate.status.name in text
    assert [row.name for row in folt.compare([fit, single]).candidates] == ["1", "2"]


def test_fits_of_other_data_are_compared_with_a_warning(fit, single):
    other = dataclasses.replace(fit, problem=gaussian_mixture(DATA[:30], 2))
    words = "one and other were given no array in common"
    apart = folt.compare({"one": single, "other": other})
    assert words in str(apart)
    assert "1.000" not in str(apart)
    assert "1.000" not in apart._repr_html_()
    assert apart.to_dataframe()["probability"].isna().all()
    assert "no array in common" not in str(folt.compare({"one": single, "two": fit}))
    loaded = dataclasses.replace(fit, problem=None)
    assert "no array in common" not in str(folt.compare({"one": single, "two": loaded}))


@pytest.mark.parametrize(
    ("fits", "words"),
    [({}, "at least two fits"), ([3, 4], "a fit under '1', got int"), (5, "expected fits such as")],
)
def test_what_cannot_be_compared_is_said(fits, words):
    with pytest.raises(ValueError, match=words):
        folt.compare(fits)


@pytest.mark.parametrize("kind", ["marginals", "chains", "pairs", "data", "modes"])
def test_every_kind_of_plot_is_a_figure_with_something_in_it(fit, kind):
    figure = fit.plot(kind)
    assert isinstance(figure, matplotlib.figure.Figure)
    assert any(panel.has_data() for panel in figure.axes)


def test_plots_that_cannot_be_are_refused_in_a_sentence(fit):
    with pytest.raises(ValueError, match=r"expected one of 'marginals', .* got 'trace'"):
        fit.plot("trace")
    without = dataclasses.replace(
        fit, problem=None, certificate=dataclasses.replace(fit.certificate, exploration=None)
    )
    with pytest.raises(ValueError, match="no modes were looked for"):
        without.plot("modes")
    with pytest.raises(ValueError, match="needs its problem"):
        without.plot("data")


def test_the_paragraph_for_a_paper_has_the_numbers(fit):
    text = fit.methods()
    for words in (
        f"folt {folt.__version__}",
        "2 equivalent labellings",
        "mu ascends",
        f"{100 * fit.accept_rate:.1f} %",
        f"{fit.log_evidence.value:.3f}",
        f"{fit.table()['ess'].min():,.0f} effective draws",
        f"“{fit.certificate.status.name}”",
    ):
        assert words in text
    many = dataclasses.replace(fit, labels=f"sorted by {', '.join(f'key_{k}' for k in range(40))}")
    assert "in which labels are in the order of the fold. " in many.methods()


def test_labels_get_another_order_without_a_new_fit(fit, tmp_path):
    def downwards(posterior):
        return -posterior["mu"]

    other = fit.relabelled(sort_by=downwards)
    for name, values in fit.posterior.items():
        np.testing.assert_allclose(other.posterior[name], values[..., ::-1], rtol=1e-9)
    assert (np.diff(other.posterior["mu"]) <= 0).all()
    assert other.order == "downwards() ascends"
    loaded = folt.load(other.save(tmp_path / "fit.nc"), problem=fit.problem)
    assert "downwards() ascends" in loaded.summary()
    back = other.relabelled(sort_by="mu")
    np.testing.assert_allclose(back.draws, fit.draws, rtol=1e-9, atol=1e-12)
    longer = back.extend(3)
    assert (np.diff(longer.posterior["mu"]) >= 0).all()
    assert longer.order == "mu ascends"
    np.testing.assert_allclose(longer.draws[:, :-3], back.draws, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="extend the fit before it is sorted by downwards"):
        other.extend(3)


def test_signs_are_chosen_by_an_entry_without_a_new_fit(tmp_path):
    """Two columns of three entries, the second entry of each the largest, all signs alike."""
    group = folt.groups.SignedPermutation(2, 3)
    centre = jnp.array([0.5, -3.0, 0.2, 0.4, 6.0, -0.3])

    def log_density(x):
        return jax.nn.logsumexp(-8.0 * ((group.orbit(x) - centre) ** 2).sum(axis=-1))

    names = [f"loadings[{row},{column}]" for column in range(2) for row in range(3)]
    problem = folt.Problem(log_density, group, names=names, sign="largest")
    assert "fits have the largest entry positive" in str(problem)
    fit = brief_fit(problem)
    columns = fit.draws.reshape(-1, 2, 3)
    assert (columns[:, :, 1] > 0).all()
    assert fit.order.endswith("signs then chosen so that the largest entry is positive")
    average = fit.expectation(lambda p: p["loadings[1,0]"])
    assert average.method != "draws"  # signs are found again at proposals that the chain rejected
    spread = fit.posterior["loadings[1,0]"].std()
    assert average[0] == pytest.approx(fit.posterior["loadings[1,0]"].mean(), abs=0.5 * spread)
    first = fit.relabelled(sign="loadings[0,0]")
    assert (first.draws.reshape(-1, 2, 3)[:, :, 0] >= 0).all()
    fit.save(tmp_path / "fit.nc")
    again = folt.load(tmp_path / "fit.nc", problem=problem).relabelled(sign="loadings[0,0]")
    np.testing.assert_array_equal(again.draws, first.draws)
    np.testing.assert_allclose(np.abs(first.draws), np.abs(fit.draws))
    assert (fit.extend(3).draws.reshape(-1, 2, 3)[:, :, 1] > 0).all()
    with pytest.raises(ValueError, match=r"'loadings\[0,0\]'.*got 'sigma'"):
        fit.relabelled(sign="sigma")
    with pytest.raises(ValueError, match="expected sign='largest'"):
        folt.sample(problem, sign="sigma")


def test_labels_that_a_sum_of_signed_entries_confuses_are_those_of_the_proposal():
    """Columns whose entries differ and whose sums do not."""
    columns = jnp.array([[3.0, -1.0], [0.5, 1.5]])

    def log_density(x):
        ways = jnp.stack([columns, columns[::-1]])[:, None] * jnp.array(
            [[[a], [b]] for a in (1.0, -1.0) for b in (1.0, -1.0)]
        )
        away = ((x.reshape(2, 2) - ways) ** 2).sum(axis=(-2, -1))
        return jax.nn.logsumexp(-4.0 * away)

    def constrain(x):
        return {"loading": x.reshape(2, 2)}

    def unconstrain(values):
        return values["loading"].reshape(-1)

    problem = folt.Problem(
        log_density,
        folt.groups.SignedPermutation(2, 2),
        constrain=constrain,
        unconstrain=unconstrain,
    )
    fit = brief_fit(problem)
    assert fit.labels == "proposal; signs by largest"
    assert fit.certificate.symmetry.boundary.mixed < 0.01
    assert np.abs(fit.posterior["loading"]).std(axis=(0, 1)).max() < 0.5
    kept = brief_fit(problem, sort_by=lambda posterior: posterior["loading"][..., 0] ** 2)
    assert kept.labels.startswith("sorted by")


def test_signs_without_labels_are_chosen_by_sign_and_messages_say_so():
    """Abilities and slopes that flip together: the fold goes by an ability around zero."""
    group = Joint(2, [ZeroSum(), ZeroSum()])
    centre = jnp.array([0.1, 2.0])

    def log_density(x):
        return jnp.logaddexp(-4.0 * ((x - centre) ** 2).sum(), -4.0 * ((x + centre) ** 2).sum())

    def constrain(x):
        return {"theta[0]": x[0], "a[0]": x[1]}

    def unconstrain(values):
        return jnp.stack([values["theta[0]"], values["a[0]"]])

    names = ["theta[0]", "a[0]"]
    fit = brief_fit(
        folt.Problem(log_density, group, names=names, constrain=constrain, unconstrain=unconstrain)
    )
    assert fit.order.endswith("signs then chosen so that the largest entry is positive")
    assert (fit.posterior["a[0]"] > 0).all()
    chance = fit.relabelled(sign="theta[0]")
    assert chance.summary().count('fit.relabelled(sign="largest")') == 1
    assert (chance.relabelled(sign="a[0]").posterior["a[0]"] > 0).all()
    fit = brief_fit(folt.Problem(log_density, group, names=names))
    assert action_of(group).contains(fit.draws.reshape(-1, 2)).all()  # where draws are the points
    with pytest.raises(ValueError, match=r"such as 'theta\[0\]', 'a\[0\]', got 'a'"):
        fit.relabelled(sign="a")
    with pytest.raises(ValueError, match="as nothing has labels but signs, which sign='largest'"):
        fit.relabelled(sort_by="a")
    named = "p\\['x0'\\], p\\['x1'\\].*constrain="
    plain = dataclasses.replace(
        fit, group=folt.groups.Permutation(2, 1), problem=folt.models.gaussian_pair(2)
    )
    plain = dataclasses.replace(plain, names=plain.problem.names)
    with pytest.raises(ValueError, match=named):
        plain.relabelled(sort_by="x1")


def test_labels_are_sorted_by_the_entries_that_have_them():
    """Two exchangeable weights beside a third that stays."""

    def log_density(x):
        centre = jnp.array([0.0, 1.0, 3.0])
        away = jnp.stack([x - centre, x - centre[jnp.array([0, 2, 1])]])
        return jax.nn.logsumexp(-8.0 * (away**2).sum(axis=1))

    group = folt.groups.Product(folt.groups.Trivial(1), folt.groups.Permutation(2, 1))
    fit = brief_fit(folt.Problem(log_density, group, constrain=lambda x: {"w": x}))
    turned = fit.relabelled(sort_by=lambda p: -p["w"][..., 1:])
    again = turned.relabelled(sort_by="w")
    np.testing.assert_array_equal(again.draws, fit.draws)
    assert (np.diff(again.posterior["w"][..., 1:]) >= 0).all()


def test_a_problem_says_what_its_fits_are_sorted_by(fit):
    def downwards(posterior):
        return -posterior["mu"]

    options = {"effort": EFFORT, "draws": 200, "progress": False}
    other = folt.sample(fit.problem, sort_by=downwards, **options)
    assert (np.diff(other.posterior["mu"]) <= 0).all()
    assert other.order == "downwards() ascends"
    with pytest.warns(UserWarning, match="% of the draws.*labels stay as they are: mu ascends"):
        folt.sample(fit.problem, sort_by="sigma", **options)
    for wrong, words in (({"sort_by": "tau"}, "among 'mu'"), ({"sort_by": 3}, "a function")):
        with pytest.raises(ValueError, match=words):
            folt.check(fit.problem, **wrong)


def test_a_key_that_does_not_tell_components_apart_is_refused_with_the_share(fit):
    """Both components are equally wide, so their widths come in either order."""
    sigma = fit.posterior["sigma"]
    share = (sigma[..., 0] > sigma[..., 1]).mean()
    assert 0.2 < share < 0.8
    told = f"in {100 * min(share, 1 - share):.0f} % of the draws"
    with pytest.raises(ValueError, match=told):
        fit.relabelled(sort_by="sigma")
    with pytest.raises(ValueError, match="in 100 % of the draws"):
        fit.relabelled(lambda posterior: 0.0 * posterior["mu"])


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("tau", "one of 'weight', 'mu', 'sigma', which have labels, got 'tau'"),
        (lambda posterior: posterior["mu"].sum(axis=-1), "shape .chain, draw, label."),
        (lambda posterior: 0.1 * posterior["mu"] + [9.0, 0.0], "does not permute"),
    ],
)
def test_a_key_that_is_none_is_refused(fit, key, words):
    with pytest.raises(ValueError, match=words):
        fit.relabelled(key)


def test_a_fit_without_labels_has_none_to_sort(single):
    with pytest.raises(ValueError, match="nothing is permuted"):
        single.relabelled("mu")


def test_rooms_show_what_they_have():
    assert {"gaussian_mixture", "hidden_markov", "datasets"} <= set(dir(folt.models))
    assert {"sample", "compare", "models"} <= set(dir(folt))
    assert not [name for name in dir(folt.models) if name.startswith("_")]
