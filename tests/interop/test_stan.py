"""Stan programs as problems, by models in Python that have BridgeStan's methods."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import stan_models as stan

import folt
from folt.certificate.comparison import compare_evidences
from folt.interop.stan_blocks import BlockKind, program_blocks
from folt.interop.stan_density import Way
from folt.interop.stan_model import Program, without_comments
from folt.problem.requirements import GradientError
from folt.reference import HostChains
from folt.training import OrbitMixture

ZOO = {
    "a": (stan.real(), BlockKind.REAL, ()),
    "v": (stan.real(3), BlockKind.REAL, (3,)),
    "m": (stan.real(3, 2), BlockKind.REAL, (3, 2)),
    "positive": (stan.lower(2, 2), BlockKind.LOWER, (2, 2)),
    "third": (stan.lower(bound=1 / 3), BlockKind.LOWER, ()),
    "below": (stan.upper(2, bound=3.0), BlockKind.UPPER, (2,)),
    "between": (stan.interval(2, low=-1.0, high=2.0), BlockKind.INTERVAL, (2,)),
    "scaled": (stan.affine(2), BlockKind.AFFINE, (2,)),
    "above": (stan.above("a", 2), BlockKind.OPAQUE, (2,)),
    "sticks": (stan.simplex(4), BlockKind.STICKS, (3,)),
    "stick_rows": (stan.simplex(3, 2), BlockKind.STICKS, (2, 2)),
    "ratios": (stan.simplex(4, log_ratios=True), BlockKind.LOG_RATIOS, (3,)),
    "ratio_rows": (stan.simplex(3, 2, log_ratios=True), BlockKind.LOG_RATIOS, (2, 2)),
    "zero": (stan.zero_sum(3), BlockKind.ZERO_SUM, (2,)),
    "up": (stan.ordered(3), BlockKind.ORDERED, (3,)),
    "up_rows": (stan.ordered(2, 3), BlockKind.ORDERED, (3, 2)),
    "unit": (stan.unit_vector(3), BlockKind.UNIT, (3,)),
    "factor": (stan.cholesky(), BlockKind.OPAQUE, (3,)),
    "factors": (stan.cholesky(3), BlockKind.OPAQUE, (3, 3)),
    "pair": (stan.simplex(2), BlockKind.STICKS, (1,)),
}


def of(zoo, density=lambda values: sum(stan.normal(x) for x in values.values())):
    return stan.PythonModel({name: entry[0] for name, entry in zoo.items()}, density)


def plainly(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return folt.from_stan(model, **options)


@pytest.fixture(scope="module")
def zoo():
    return plainly(of(ZOO), exchangeable=[])


def test_declarations_are_recognised_or_keep_stans_coordinates():
    found = {block.name: block for block in program_blocks(Program(of(ZOO)))}
    assert {name: (b.kind, b.free) for name, b in found.items()} == {
        name: entry[1:] for name, entry in ZOO.items()
    }
    np.testing.assert_array_equal(found["third"].low, [1 / 3])
    np.testing.assert_allclose([*found["between"].low, *found["between"].high], [-1, -1, 2, 2])
    assert found["factors"].axes == found["up_rows"].axes == (0,)
    assert found["above"].axes == (0,)
    assert found["up"].axes == found["factor"].axes == ()


def truth(problem, model, points):
    """Stan's density of its unconstrained numbers times the determinant of z → u by differences."""
    density, step = problem.log_density.function.__self__, 1e-4
    found = []
    for x in points:
        steps = step * np.eye(problem.dim)
        upper, lower = (density.free(x + sign * steps)[0] for sign in (1, -1))
        determinant = np.linalg.slogdet((upper - lower) / (2 * step))[1]
        found.append(model.log_density(density.free(x[None])[0][0], jacobian=True) + determinant)
    return np.array(found)


def test_the_density_is_stans_in_other_coordinates(zoo, monkeypatch):
    """Every kind at once, with a mutant for the Jacobian of parameters that keep theirs."""
    points = np.random.default_rng(2).normal(size=(3, zoo.dim))
    expected = truth(zoo, of(ZOO), points)
    np.testing.assert_allclose(zoo.log_probs(points), expected, rtol=1e-8)
    monkeypatch.setattr(Way, "jacobian", False)
    assert np.all(np.abs(zoo.log_probs(points) - expected) > 1e-3)


@pytest.mark.parametrize("log_ratios", [False, True])
def test_a_mixture_has_the_density_of_its_values_and_the_group_it_has(log_ratios):
    model = stan.mixture(log_ratios)
    problem = folt.from_stan(model)
    assert problem.group.order == 6
    points = np.random.default_rng(3).normal(size=(50, problem.dim))
    expected = truth(problem, model, points[:3])
    np.testing.assert_allclose(problem.log_probs(points[:3]), expected, rtol=1e-8)
    values, slopes = problem.gradients(points)
    np.testing.assert_allclose(values, problem.log_probs(points), rtol=1e-13)
    assert slopes.shape == points.shape
    assert folt.check(problem).holds  # the gradient too, against differences
    assert problem.names[:3] == ("mu[1]", "mu[2]", "mu[3]")


def test_a_gradient_that_forgets_the_coordinates_would_be_seen(monkeypatch):
    problem = folt.from_stan(stan.mixture())
    density = problem.log_density.function.__self__
    box = dataclasses.replace(
        problem.log_density,
        gradient=lambda points: (density.values(points), density.gradients(points)[1] * 1.01),
    )
    with pytest.raises(GradientError, match="wrong in coordinate"):
        folt.check(folt.Problem(box, problem.group, names=problem.names))


def test_parameters_go_there_and_back(zoo):
    points = np.random.default_rng(4).normal(0, 0.7, size=(5, zoo.dim))
    values = zoo.parameters(points)
    assert {name: v.shape[1:] for name, v in values.items()} == {
        name: entry[0].shape for name, entry in ZOO.items()
    }
    again = zoo.parameters(zoo.unconstrain(values, jax.random.key(0)))
    for name, value in values.items():
        np.testing.assert_allclose(again[name], value, atol=1e-4, err_msg=name)
    lengths = np.linalg.norm(
        zoo.unconstrain(values, jax.random.key(0))[:, [n.startswith("unit[") for n in zoo.names]],
        axis=1,
    )
    assert zoo.parameters(np.zeros(zoo.dim))["unit"].shape == (3,)  # though it has none at zero
    assert np.ptp(lengths) > 0.1  # the length of a unit vector is drawn, not one


@pytest.fixture(scope="module")
def fit():
    return folt.sample(
        folt.from_stan(stan.mixture()),
        draws=100,
        effort=folt.Effort.quick(),
        reference=HostChains(
            particles=128,
            moves=3,
            chains=40,
            draws=20,
            longest=1,
            searchers=64,
            search_steps=(50, 10),
        ),
        flow=OrbitMixture(size=2, labellings=1, rounds=2, fresh=256),
        progress=False,
    )


@pytest.mark.extended
def test_a_fit_agrees_with_the_same_model_in_jax(fit):
    """Values and gradients at draws are those of the density written in JAX."""
    problem = fit.problem
    way = problem.log_density.function.__self__.way

    def log_density(x):
        return stan.mixture_density(way.sites.push(x)) + way.sites.log_slope(x)

    twin = folt.Problem(log_density, problem.group, names=problem.names)
    points = fit.draws[0, :50]
    np.testing.assert_allclose(problem.log_probs(points), twin.log_probs(points), rtol=1e-12)
    np.testing.assert_allclose(problem.gradients(points)[1], twin.gradients(points)[1], atol=1e-8)
    assert fit.evaluations["gradient"] > 0
    assert not fit.log_evidence.proportional


@pytest.mark.extended
def test_a_fit_has_parameters_and_generated_quantities_by_name(fit):
    assert fit.posterior["theta"].shape == (4, 100, 3)
    np.testing.assert_allclose(fit.posterior["theta"].sum(axis=-1), 1.0)
    more = fit.generated(seed=3)
    assert set(more) == {"twice", "drawn"}
    np.testing.assert_allclose(more["twice"], 2 * fit.posterior["theta"][..., :2], rtol=1e-9)
    assert more["drawn"].shape == (4, 100)
    assert np.ptp(more["drawn"]) > 1
    with pytest.raises(ValueError, match="fit of a Stan program"):
        dataclasses.replace(fit, problem=None).generated()


def test_labels_of_arrays_of_matrices_are_found():
    """Three Cholesky factors with their means: S3, in Stan's coordinates of the factors."""

    def density(values):
        terms = [
            stan.normal(values["mu"][k], 0.0, 2.0) + stan.normal(values["factors"][k])
            for k in range(3)
        ]
        factors = values["factors"]
        skew = values["mu"][:, 0] * factors[:, 1, 1] + values["mu"][:, 1] * factors[:, 1, 0] ** 2
        return sum(terms) + jnp.sin(jax.nn.logsumexp(skew))

    model = stan.PythonModel({"mu": stan.real(3, 2), "factors": stan.cholesky(3)}, density)
    assert folt.from_stan(model).group.order == 6


def test_a_rotation_is_divided_out():
    """A matrix of two columns with a scale beside it: one coordinate less, all by the program."""

    def density(values):
        away = values["w"] @ values["w"].T - jnp.array([[3.0, 1, 0], [1, 2, -1], [0, -1, 1]])
        return -jnp.sum(away**2) - jnp.sum(values["w"] ** 2) - values["s"] * (1 + away[0, 1] ** 2)

    problem = folt.from_stan(stan.PythonModel({"w": stan.real(3, 2), "s": stan.lower()}, density))
    assert problem.dim == 6
    assert problem.quotient.words().startswith("rotations O(2) of a matrix of 3 rows")
    points = np.random.default_rng(6).normal(size=(4, 6))
    values = problem.parameters(points)
    first, _ = problem.quotient.rotations[0].pivots
    assert np.all(values["w"][:, first, 1] == 0.0)
    np.testing.assert_allclose(problem.unconstrain(values), points, atol=1e-9)
    turned = {**values, "w": values["w"] @ np.array([[0.6, -0.8], [0.8, 0.6]])}
    np.testing.assert_allclose(problem.unconstrain(turned), points, atol=1e-9)
    assert folt.check(problem).holds  # the gradient on the quotient too
    np.testing.assert_allclose(
        problem.generated(points, 0)["twice"][:, 0], 2 * values["w"][:, 0, 0]
    )


def test_an_order_is_said_and_not_undone():
    model = of({"mu": ZOO["up"]})
    with pytest.warns(UserWarning, match="ordered by construction"):
        folt.from_stan(model)
    with pytest.raises(ValueError, match=r"declare it as vector\[...\] in the program"):
        folt.from_stan(model, keep_order=False)


def test_a_model_goes_to_other_processes_by_itself_or_by_its_recipe():
    problem = folt.from_stan(stan.mixture(), workers=2)
    points = np.random.default_rng(5).normal(size=(9, problem.dim))
    with problem.evaluating():
        values = problem.log_probs(points)
    np.testing.assert_array_equal(values, folt.from_stan(stan.mixture()).log_probs(points))

    class Library(stan.PythonModel):
        """As BridgeStan: cannot be sent, but has a file and data."""

        lib_path, seed = "mixture.so", 7

        def __init__(self, path=None, data="{}", *, seed=7, warn=True):
            super().__init__({"x": stan.real(2)}, lambda values: stan.normal(values["x"]))
            self.made = (path, data, seed, warn)
            self.data = data

        def __reduce__(self):
            raise TypeError("ctypes objects containing pointers cannot be pickled")

    state = Program(Library()).__getstate__()
    again = Program.__new__(Program)
    again.__setstate__(state)
    assert again.model.made == ("mixture.so", "{}", 7, False)

    class Stuck(Library):
        lib_path = property()

    with pytest.raises(ValueError, match="go to other processes, and this one cannot"):
        plainly(Stuck(), exchangeable=[], workers=2)


@pytest.mark.extended
def test_an_evidence_that_lacks_constants_is_marked_and_not_compared(fit):
    class Lacking(stan.PythonModel):
        proportional = True

    problem = plainly(Lacking({"x": stan.real(2)}, lambda v: stan.normal(v["x"])), exchangeable=[])
    assert problem.proportional
    lacking = dataclasses.replace(fit, provenance={**fit.provenance, "proportional": True})
    assert lacking.log_evidence.proportional
    assert "up to a constant" in lacking.summary()
    with pytest.raises(ValueError, match="up to a constant only and cannot be compared"):
        compare_evidences({"one": fit.log_evidence, "two": lacking.log_evidence})


def test_statements_that_drop_constants_are_found_outside_comments():
    kept = 'model { target += normal_lpdf(x | 0, 1); // x ~ normal\n /* ~ */ print("~"); }'
    assert "~" not in without_comments(kept)
    assert "~" in without_comments("model { x ~ normal(0, 1); }")


def test_what_stan_rejects_has_density_zero():
    class Rejecting(stan.PythonModel):
        def log_density(self, theta_unc, **options):
            if theta_unc[0] > 1:
                raise RuntimeError("Exception: normal_lpdf: Scale parameter is -1")
            return super().log_density(theta_unc, **options)

    model = Rejecting({"x": stan.real(2)}, lambda values: stan.normal(values["x"]))
    problem = plainly(model, exchangeable=[])
    assert np.isneginf(problem.log_probs(np.array([[2.0, 0.0], [0.0, 0.0]]))).tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("parameters", "density", "message"),
    [
        ({"x": stan.real(2)}, lambda v: stan.normal(v["x"][0]), r"x\[2\] grows without end"),
        ({"s": stan.lower()}, lambda v: -0.0 * v["s"], "s grows without end.*give s a prior"),
        ({"s": stan.upper()}, lambda v: 0.0 * v["s"], "s falls without end"),
    ],
)
def test_an_improper_program_is_refused(parameters, density, message):
    with pytest.raises(ValueError, match=message):
        folt.from_stan(stan.PythonModel(parameters, density), exchangeable=[])


def test_wide_and_heavy_priors_are_proper():
    def density(values):
        return stan.normal(values["x"], 0.0, 1e6) - 2 * jnp.log1p(values["s"])

    model = stan.PythonModel({"x": stan.real(), "s": stan.lower()}, density)
    assert plainly(model, exchangeable=[]).dim == 2


def test_wrong_models_are_refused():
    class NoGradient(stan.PythonModel):
        log_density_gradient = None

    with pytest.raises(ValueError, match=r"without log_density_gradient: .*folt.from_callable"):
        folt.from_stan(NoGradient({"x": stan.real()}, lambda v: stan.normal(v["x"])))
    with pytest.raises(ValueError, match=r"got str without param_names.*bridgestan.StanModel"):
        folt.from_stan("model.stan")
    with pytest.raises(ValueError, match="one without"):
        folt.from_stan(stan.PythonModel({}, lambda v: 0.0))
    program = Program(stan.mixture())
    with pytest.raises(ValueError, match="expected 8 unconstrained parameters, got"):
        program.value(np.zeros(9), False)
    with pytest.raises(ValueError, match="no latent site 'nu'"):
        folt.from_stan(stan.mixture(), exchangeable=["nu"])
