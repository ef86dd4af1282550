"""From the sites of a model to its group: looked for, or declared and verified."""

from __future__ import annotations

import dataclasses
import functools
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import PyTree

from folt.groups import Group
from folt.interop.model import (
    Model,
    ModelComponents,
    ModelDensity,
    ModelPrior,
    SitePlan,
    SiteValues,
    WithComponents,
    in_blocks,
    number_of_observations,
)
from folt.interop.sites import Site, Sites, laid_out
from folt.problem import Problem, WithData
from folt.problem.named_values import Naming
from folt.problem.quotient import left_of, with_rotations
from folt.problem.symmetry import RotationError
from folt.symmetry import SymmetryFound, account
from folt.symmetry.assembly import component_axes
from folt.symmetry.candidates import LONGEST_AXIS, Place, similar_sites
from folt.symmetry.declared import Range, require_declared
from folt.symmetry.findings import Reason, Survey
from folt.symmetry.probe import TOLERANCE, Probe, TermValues
from folt.symmetry.survey import survey
from folt.types import HostPoints, Scalar, one_blas_thread

Exchangeable = Literal["auto"] | Sequence[str] | Mapping[str, Range]
"""What a user says of labels: to be looked for, sites, or sites with the entries that have them."""

LOG = logging.getLogger("folt")


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """The sites with the group that moves them, and what was found on the way.

    Attributes:
        plan: the sites and what moves them.
        found: what was tried and found.
    """

    plan: SitePlan
    found: SymmetryFound

    @functools.cached_property
    def sites(self) -> Sites:
        """The sites with their coordinates, in the order that the group needs."""
        return laid_out(self.plan.sites, self.plan.assembled[1])

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """Names of the axes of the exchangeable sites."""
        shapes = {site.name: len(site.shape) for site in self.plan.sites}
        return {
            name: tuple(axes.get(axis, f"{name}_dim_{axis}") for axis in range(shapes[name]))
            for name, axes in component_axes(self.plan.factors).items()
            if axes
        }


def problem_of(
    model: Model,
    arranged: Arrangement,
    data: PyTree,
    *,
    proper: bool,
    allow_rotation: bool,
    predictive: Callable[..., SiteValues] | None = None,
    dims: Mapping[str, Sequence[str | None]] | None = None,
    coords: Mapping[str, Iterable[Any]] | None = None,
    components: WithComponents | None = None,
    naming: Naming,
) -> Problem:
    """Return the problem of a model whose sites are arranged.

    Args:
        model: the model.
        arranged: its sites with their group.
        data: handed to the model.
        proper: whether its prior is normalised and can be drawn from.
        allow_rotation: leave a continuous rotation symmetry in the posterior.
        predictive: draws new observations, where the language can.
        dims: names of axes that the model gives itself, None for those it does not name.
        coords: labels along these axes.
        components: the model, where one of its observed sites is a mixture.
        naming: what labels are to be sorted by, and which signs are to be reported.
    """
    density = ModelDensity(model, arranged.sites)
    # Known normal priors of what turns are standard normal in these coordinates.
    scale = 1.0 if proper else None
    found, symmetry = settled(arranged, density, data, scale, allow_rotation)
    problem = Problem(
        density,
        symmetry,
        data=data,
        prior=ModelPrior(density, data) if proper else None,
        names=arranged.sites.names(),
        constrain=WithData(density.constrain),
        unconstrain=WithData(density.unconstrain),
        pointwise=density.pointwise if model.observed else None,
        predictive=predictive,
        log_terms=ModelComponents(components, arranged.sites) if components else None,
        dims=named_axes(arranged.dims, dims or {}),
        coords=coords,
        symmetry_found=found,
        allow_rotation=allow_rotation,
        sort_by=naming.sort_by,
        sign=naming.sign,
    )
    naming.require(problem)
    return problem


def named_axes(
    found: Mapping[str, tuple[str, ...]], given: Mapping[str, Sequence[str | None]]
) -> dict[str, tuple[str, ...]]:
    """Return the names of axes, the model's own where it has any.

    An axis of labels that the model names at one site is called the same at all others: the
    weights of a mixture, too, run along the plate of its means.
    """
    own: dict[str, str] = {}
    for name, axes in given.items():
        for word, axis in zip(found.get(name, ()), axes, strict=False):
            if axis is not None and not word.endswith("_to"):
                own.setdefault(word, axis)

    def called(word: str) -> str:
        stem = word.removesuffix("_to")
        return own.get(stem, stem) + word[len(stem) :]

    named = {name: tuple(map(called, words)) for name, words in found.items()}
    for name, axes in given.items():
        plain = tuple(f"{name}_dim_{axis}" for axis in range(len(axes)))
        words = named.get(name, plain) if len(named.get(name, plain)) == len(axes) else plain
        named[name] = tuple(axis or word for axis, word in zip(axes, words, strict=True))
    return named


@one_blas_thread
def arrange(
    sites: Sequence[Site], exchangeable: Exchangeable, model: Model, data: PyTree, front_end: str
) -> Arrangement:
    """Lay out the sites of a model in JAX and find, or verify, how they may be relabelled.

    Args:
        sites: the latent sites.
        exchangeable: "auto", or the names of the sites that are permuted together along their
            first axis, each with its entries where only some are; an empty list for none.
        model: gives the terms of the log density.
        data: handed to it.
        front_end: the library the model is written in, for advice in its own words.

    Raises:
        ValueError: unknown sites, or sites of unequal length.
        SymmetryError: sites declared exchangeable that are not.
    """
    return arrange_probed(
        sites,
        exchangeable,
        lambda uneven: _probe(sites, model, data, uneven),
        lambda: number_of_observations(model, sites, data),
        front_end,
    )


def arrange_probed(
    sites: Sequence[Site],
    exchangeable: Exchangeable,
    probe_of: Callable[[bool], Probe],
    observations: Callable[[], int],
    front_end: str,
) -> Arrangement:
    """Do what `arrange` does for a density that only a probe evaluates.

    Args:
        sites: the latent sites.
        exchangeable: as for `arrange`.
        probe_of: gives the density at points; with True the terms of an observed site are weighted
            unevenly, where they are known.
        observations: gives the number of observations, for the free total of many weights.
        front_end: as for `arrange`.
    """
    if not sites:
        raise ValueError("expected a model with at least one latent site, got none")
    if isinstance(exchangeable, str) and exchangeable != "auto":
        raise ValueError(
            f"expected exchangeable='auto' or a list of site names, got {exchangeable!r}"
        )
    named: dict[str, Range] = {}
    if not isinstance(exchangeable, str):
        declared = exchangeable
        named = dict(declared) if isinstance(declared, Mapping) else dict.fromkeys(declared)
        _require_known(sites, list(named))
        if not named:
            plan = SitePlan(sites, ())
            found = SymmetryFound(plan.group, looked=False, front_end=front_end)
            return Arrangement(plan, found)
    # Who declares labels may mean observations that happen to be equal; who searches does not.
    probe, places = probe_of(not named), _places(sites)
    result = require_declared(probe, places, named) if named else survey(probe, places)
    plan = in_blocks(SitePlan(sites, result.factors), observations)
    found = result.found(plan.group, probe, _repeated(places, result), front_end)
    return Arrangement(plan, found)


def settled(
    arranged: Arrangement,
    density: Callable[..., Scalar],
    data: PyTree,
    scale: float | None,
    allow_rotation: bool,
) -> tuple[SymmetryFound, Group]:
    """Divide out rotations, tell what was found, and return it with the group to fold with.

    Args:
        arranged: the sites with the finite group that moves them.
        density: the log density in its coordinates.
        data: handed to it.
        scale: of an isotropic normal prior of what turns, where it is known.
        allow_rotation: leave a continuous rotation symmetry in the posterior.

    Raises:
        RotationError: a rotation that can neither be divided out nor was allowed to stay.
    """
    found, symmetry = arranged.found, None
    if found.rotations and not allow_rotation:
        symmetry = with_rotations(arranged.plan.group, density, data, scale)
        if symmetry is None:
            raise RotationError(account.refusal(found.rotations[0]))
        found = dataclasses.replace(found, divided=True, group=left_of(symmetry))
    _tell(found)
    return found, symmetry or arranged.plan.group


def warn_without_data(sites: Sequence[Site], forgotten: Sequence[str] = ()) -> None:
    """Say that what may be meant as data is a parameter.

    Args:
        sites: the latent sites of a model without observations.
        forgotten: those whose argument was not given, where that is known.
    """
    names = forgotten or [site.name for site in sites]
    are = "is a parameter" if len(names) == 1 else "are parameters"
    known = "the arguments of this name were not given"
    cause = known if forgotten else "the model has no observed site"
    told = f"{', '.join(map(repr, names))} {are}, because {cause}: were the data forgotten?"
    warnings.warn(told, UserWarning, stacklevel=5)


def _tell(found: SymmetryFound) -> None:
    """Warn or log: silence is kept for models without anything to relabel."""
    if found.rotations and not found.divided:
        warnings.warn(account.rotation_in_words(found.rotations[0]), UserWarning, stacklevel=6)
    partly = [r for r in found.remarks if r.reason in (Reason.SIGNS_APART, Reason.OVERLAPS)]
    if found.missed:
        warnings.warn(account.warning(found), UserWarning, stacklevel=6)
    elif partly:
        told = " ".join(account.remark_in_words(remark) for remark in partly)
        warnings.warn(told, UserWarning, stacklevel=6)
    else:
        LOG.info("%s", found)


def _repeated(places: Sequence[Place], result: Survey) -> list[str]:
    """Return sites that may have labels: axes, simplices, numbered names, near misses."""
    names = [
        place.name
        for place in places
        if place.ordered or any(2 <= length <= LONGEST_AXIS for length in place.lengths())
    ]
    names += [place.name for group in similar_sites(places) for place in group]
    known = {place.name for place in places}
    for attempt in result.nearly:
        if attempt.change.likelihood > TOLERANCE:
            continue
        names += [site for name in attempt.moved for site in name.split(", ") if site in known]
    return names


def _require_known(sites: Sequence[Site], names: Sequence[str]) -> None:
    known = [site.name for site in sites]
    for name in names:
        if name not in known:
            raise ValueError(
                f"the model has no latent site {name!r}; its latent sites are "
                f"{', '.join(map(repr, known))}"
            )


def _places(sites: Sequence[Site]) -> list[Place]:
    starts = np.cumsum([0, *(site.size for site in sites)])
    return [site.place(start) for site, start in zip(sites, starts, strict=False)]


def _probe(sites: Sequence[Site], model: Model, data: PyTree, uneven: bool) -> Probe:
    """Return the terms of the density in plain coordinates, compiled once for blocks of points."""
    terms = ModelDensity(model, laid_out(sites, plain=True)).terms
    compiled = jax.jit(jax.vmap(lambda x, data: terms(x, data, uneven), in_axes=(0, None)))

    def evaluate(points: HostPoints) -> TermValues:
        return np.asarray(compiled(points, data), np.float64)

    alike: dict[tuple[object, tuple[int, ...]], list[Site]] = {}
    for site in sites:
        alike.setdefault((site.key, site.shape), []).append(site)
    centre, spread = [], []
    for site in sites:
        same = alike[site.key, site.shape]
        centre += [float(np.mean([each.centre for each in same]))] * site.size
        spread += [float(np.median([each.spread for each in same]))] * site.size
    names = (*(site.name for site in sites), account.LIKELIHOOD)
    return Probe(evaluate, names, np.array(centre), np.array(spread))
