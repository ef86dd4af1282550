"""The corpus: every symmetry that is there is found, none that is not, and no miss is silent."""

import warnings

import jax
import pytest

pytest.importorskip("numpyro")

import folt
from corpus.numpyro_lopsided import LOPSIDED
from corpus.numpyro_strangers import STRANGERS
from corpus.numpyro_symmetric import SYMMETRIC
from corpus.numpyro_unequal import UNEQUAL
from folt.problem.symmetry import RotationError

pytestmark = pytest.mark.extended

CASES = {**SYMMETRIC, **LOPSIDED, **STRANGERS, **UNEQUAL}

SILENT = {"increasing scalars", "one truncated", "a line", "two arms", "zero inflated"}
"""Models of single numbers that differ in name, support or role: nothing repeats in them."""


def built(case, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = folt.from_numpyro(case.model, *case.args, **options)
    return problem, [str(each.message) for each in caught if each.category is UserWarning]


def judge(problem, case):
    found = problem.symmetry_found
    together = sorted(sorted(factor.sites) for factor in found.factors)
    assert problem.group.order == case.order, str(found)
    assert together == sorted(sorted(names) for names in case.together), str(found)
    assert case.words in str(found)


@pytest.mark.parametrize("name", [name for name in CASES if not CASES[name].rotation])
def test_what_is_there_is_found_and_nothing_else(name):
    case = CASES[name]
    problem, told = built(case)
    judge(problem, case)
    found = problem.symmetry_found
    if found.folded:
        assert not told
    else:
        assert found.missed == bool(told) == (name not in SILENT)
        if told:
            assert told[0].startswith("No relabelling symmetry was folded, although '")
    assert found.evaluations < 1200
    lines = str(found).splitlines()
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].rotation])
def test_rotations_are_divided_out_unless_they_are_left_in(name):
    case = CASES[name]
    if case.order == 8:
        divided, told = built(case)
        assert not told
        assert divided.quotient.rotations[0].columns == 2
        assert "which is divided out" in str(divided.symmetry_found)
        assert divided.symmetry_found.group == divided.group
        assert folt.check(divided).holds
    else:  # no matrix that turns by itself
        with pytest.raises(RotationError, match="turning components 1 and 2") as caught:
            built(case)
        assert "allow_rotation=True" in str(caught.value)
    problem, told = built(case, allow_rotation=True)
    assert problem.group.order == case.order
    assert "continuous rotation symmetry" in told[0]
    assert problem.symmetry_found.rotations[0].change.defect < 1e-9
    assert case.words in str(problem.symmetry_found)


@pytest.mark.parametrize(
    "name", ["a Beta weight", "hidden Markov", "centres", "anchored loadings", "full covariances"]
)
def test_detection_compiles_two_programs(name):
    """One to look at the sites, one for the density at blocks of points."""
    case, compiled = CASES[name], []

    def listen(event, _, **__):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        built(case)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(compiled) <= 2


CHECKED = (
    "lists in another order",
    "hidden Markov, second state",
    "sparse factors with scores",
    "a mixture per group",
    "centre and difference",
    "loadings with column scales",
    "mixture of mixtures",
    "a spike between two",
    "a resting state",
)


@pytest.mark.parametrize("name", CHECKED)
def test_the_group_acts_in_the_coordinates_of_the_problem(name):
    """Found in plain coordinates, it holds in prior-normal ones and in the final order."""
    problem, _ = built(CASES[name])
    assert folt.check(problem).holds
    assert len(problem.names) == problem.dim == len(set(problem.names))
