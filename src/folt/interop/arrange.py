"""From the sites of a model to its group: looked for, or declared and verified."""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import PyTree

from folt.groups import Group
from folt.groups.base import LARGEST_ENUMERATED
from folt.interop.sites import Site, Sites, laid_out
from folt.problem.detection import SymmetryFound, words
from folt.problem.detection.assembly import assembled, component_axes
from folt.problem.detection.candidates import LONGEST_AXIS, Place, stems
from folt.problem.detection.declared import require_declared
from folt.problem.detection.findings import Factor, Reason, Remark
from folt.problem.detection.probe import TOLERANCE, Points, Probe, Terms
from folt.problem.detection.survey import Survey, survey
from folt.problem.symmetry import RotationError

Exchangeable = Literal["auto"] | Sequence[str]

TermsOf = Callable[[Sites], Callable[[Any, Any, bool], Any]]
"""From a layout to a function of a point, the data and whether the terms of the likelihood have
unequal weights: one log density per prior, then the likelihood."""

LOG = logging.getLogger("folt")


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """How the sites are laid out, which group moves them, and what was found on the way.

    Attributes:
        sites: the sites with their coordinates, in the order that the group needs.
        group: the group.
        dims: names of the axes of the exchangeable sites.
        found: what was tried and found.
    """

    sites: Sites
    group: Group
    dims: dict[str, tuple[str, ...]]
    found: SymmetryFound


def arrange(
    sites: Sequence[Site],
    exchangeable: Exchangeable,
    terms_of: TermsOf,
    data: PyTree = None,
    *,
    allow_rotation: bool = False,
    front_end: str = "",
) -> Arrangement:
    """Lay out the sites and find, or verify, how they may be relabelled.

    Args:
        sites: the latent sites.
        exchangeable: "auto", or the names of the sites that are permuted together along their
            first axis; an empty list for none.
        terms_of: gives the terms of the log density for a layout.
        data: handed to them.
        allow_rotation: take a model with a continuous rotation symmetry all the same.
        front_end: the library the model is written in, for advice in its own words.

    Raises:
        ValueError: unknown sites, or sites of unequal length.
        SymmetryError: sites declared exchangeable that are not.
        RotationError: a continuous rotation that was not allowed.
    """
    if not sites:
        raise ValueError("expected a model with at least one latent site, got none")
    if isinstance(exchangeable, str) and exchangeable != "auto":
        raise ValueError(
            f"expected exchangeable='auto' or a list of site names, got {exchangeable!r}"
        )
    names = [] if isinstance(exchangeable, str) else list(dict.fromkeys(exchangeable))
    _require_known(sites, names)
    if not isinstance(exchangeable, str) and not names:
        return _arrangement(sites, [], SymmetryFound(assembled([], _size(sites))[0], looked=False))
    # Who declares labels may mean observations that happen to be equal; who searches does not.
    probe, places = _probe(sites, terms_of, data, uneven=not names), _places(sites)
    result = require_declared(probe, places, names) if names else survey(probe, places)
    arrangement = _arrangement(
        sites, result.factors, _account(sites, probe, places, result, front_end)
    )
    _tell(arrangement.found, allow_rotation)
    return arrangement


def _tell(found: SymmetryFound, allow_rotation: bool) -> None:
    """Refuse, warn or log: silence is kept for models without anything to relabel."""
    if found.rotations:
        if not allow_rotation:
            raise RotationError(words.refusal(found.rotations[0]))
        warnings.warn(words.rotation_in_words(found.rotations[0]), UserWarning, stacklevel=5)
    partly = [r for r in found.remarks if r.reason in (Reason.SIGNS_APART, Reason.OVERLAPS)]
    if found.missed:
        warnings.warn(words.warning(found), UserWarning, stacklevel=5)
    elif partly:
        told = " ".join(words.remark_in_words(remark) for remark in partly)
        warnings.warn(told, UserWarning, stacklevel=5)
    else:
        LOG.info("%s", found)


def _account(
    sites: Sequence[Site], probe: Probe, places: Sequence[Place], result: Survey, front_end: str
) -> SymmetryFound:
    group, _ = assembled(result.factors, _size(sites))
    remarks = [
        dataclasses.replace(remark, undo=front_end == "pymc")
        if remark.reason is Reason.ORDERED
        else remark
        for remark in result.remarks
    ]
    if group.order > LARGEST_ENUMERATED:
        remarks.append(Remark(Reason.TOO_LARGE, (), group.order))
    return SymmetryFound(
        group=group,
        factors=tuple(result.factors),
        attempts=tuple(result.attempts),
        nearly=tuple(result.nearly),
        rotations=tuple(result.rotations),
        remarks=tuple(remarks),
        repeated=_repeated(places, result),
        points=len(probe.points),
        evaluations=probe.evaluations,
        front_end=front_end,
    )


def _repeated(places: Sequence[Place], result: Survey) -> tuple[str, ...]:
    """Sites whose labels might have been alike: axes, simplices, numbered names, near misses."""
    names = [
        place.name
        for place in places
        if place.ordered or any(2 <= length <= LONGEST_AXIS for length in place.lengths())
    ]
    names += [place.name for group in stems(places) for place in group]
    known = {place.name for place in places}
    for attempt in result.nearly:
        if attempt.change.likelihood > TOLERANCE:
            continue
        names += [site for name in attempt.moved for site in name.split(", ") if site in known]
    return tuple(dict.fromkeys(names))


def _arrangement(
    sites: Sequence[Site], factors: Sequence[Factor], found: SymmetryFound
) -> Arrangement:
    group, order = assembled(factors, _size(sites))
    dims = {}
    shapes = {site.name: len(site.shape) for site in sites}
    for name, axes in component_axes(factors).items():
        if axes:
            dims[name] = tuple(axes.get(axis, f"{name}_dim_{axis}") for axis in range(shapes[name]))
    return Arrangement(laid_out(sites, order), group, dims, found)


def _require_known(sites: Sequence[Site], names: Sequence[str]) -> None:
    known = [site.name for site in sites]
    for name in names:
        if name not in known:
            raise ValueError(
                f"the model has no latent site {name!r}; its latent sites are "
                f"{', '.join(map(repr, known))}"
            )


def _size(sites: Sequence[Site]) -> int:
    return sum(site.size for site in sites)


def _places(sites: Sequence[Site]) -> list[Place]:
    places, start = [], 0
    for site in sites:
        columns = np.arange(start, start + site.size).reshape(site.shape)
        start += site.size
        places.append(
            Place(
                name=site.name,
                columns=columns,
                axes=site.axes,
                simplex=site.simplex,
                interval=site.unit,
                key=site.key,
                rank=site.rank,
                ordered=site.ordered,
            )
        )
    return places


def _probe(sites: Sequence[Site], terms_of: TermsOf, data: PyTree, uneven: bool) -> Probe:
    """The terms of the density in plain coordinates, compiled once for blocks of points."""
    terms = terms_of(laid_out(sites, plain=True))
    compiled = jax.jit(jax.vmap(lambda x, data: terms(x, data, uneven), in_axes=(0, None)))

    def evaluate(points: Points) -> Terms:
        return np.asarray(compiled(points, data), np.float64)

    alike: dict[tuple[object, tuple[int, ...]], list[Site]] = {}
    for site in sites:
        alike.setdefault((site.key, site.shape), []).append(site)
    centre, spread = [], []
    for site in sites:
        same = alike[site.key, site.shape]
        centre += [float(np.mean([each.centre for each in same]))] * site.size
        spread += [float(np.median([each.spread for each in same]))] * site.size
    names = (*(site.name for site in sites), words.LIKELIHOOD)
    return Probe(evaluate, names, np.array(centre), np.array(spread))
