"""The draws as a reader looks at them: scalars of the user's parameters, and who belongs together.

A family is one parameter of every component, such as the means of a mixture: the place where
label switching shows, because folding gives every member a colour that it keeps.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.labels import is_makeshift, place_number, read_label
from folt.fit.text import entries, index_words, is_constant, is_mirrored
from folt.problem.named_values import moved_entries
from folt.report.captions import Labelling, left_remark, right_remark
from folt.report.traces import Side
from folt.types import in_float64

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.groups import Group

_PICTURED = 600
"""Draws of each scalar that are pictured; more would only darken the dots."""

_FEWEST = 100
"""Draws that remain where there are very many parameters."""

VALUES = 100_000
"""Numbers that a page holds for its pictures, all scalars together."""

EXCHANGED = "exchanged by relabelling"

_LARGEST = 8
"""Members of a family shown together, one per colour."""


@dataclasses.dataclass(frozen=True)
class Family:
    """Scalars that are pictured together.

    Attributes:
        parameter: the parameter they belong to.
        label: what a reader chooses.
        members: their positions among the scalars.
        components: whether they are an entry of every component: relabelling exchanges them.
    """

    parameter: str
    label: str
    members: tuple[int, ...]
    components: bool = False

    @property
    def single(self) -> bool:
        """Whether it is one scalar alone."""
        return len(self.members) == 1

    @property
    def title(self) -> str:
        """What stands over its picture."""
        return re.sub(r": all \d+ together$", "", self.label)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """What the pictures of chains, marginals and pairs are made from.

    Attributes:
        names: of the scalars.
        families: what can be chosen, scalars alone included.
        sides: chains before folding, where they were kept, then the draws of the fit.
        labelling: under which labellings the chains before folding stand.
        sorted: whether labels are those of the sorted chamber.
        moved: scalars that relabelling moves, as far as it is known.
    """

    names: tuple[str, ...]
    families: tuple[Family, ...]
    sides: tuple[Side, ...]
    labelling: Labelling | None
    sorted: bool = False
    moved: frozenset[int] = frozenset()

    @classmethod
    def of(cls, fit: Fit) -> Parameters:
        """Return the scalars of a fit."""
        flat = entries(fit.posterior, fit)
        most = max(_FEWEST, min(_PICTURED, VALUES // (2 * len(flat))))
        raw = entries(fit.reference.raw_posterior or {}, fit)
        labelling = Labelling.of(fit) if set(raw) == set(flat) else None
        sides, several = [], fit.group.order > 1
        if labelling is not None:
            values = np.stack([raw[name] for name in flat], axis=-1)
            kind = "exact draws" if fit.certificate.reference.exact else "reference chains"
            title = f"Not folded: {kind}" if several else kind.capitalize()
            sides.append(Side.thinned("raw", title, left_remark(labelling), values, most))
        title = "Folded: the draws of this fit" if several else "The draws of this fit"
        values = np.stack(list(flat.values()), axis=-1)
        sides.append(Side.thinned("folded", title, right_remark(fit), values, most))
        return cls(
            names=tuple(readable_names(fit).values()),
            families=(*_exchanged(fit), *_families(fit)),
            sides=tuple(sides),
            labelling=labelling,
            sorted=fit.labels.startswith("sorted") and several,
            moved=frozenset(np.flatnonzero(_moved(fit)).tolist()),
        )

    @property
    def folded(self) -> Side:
        """The draws of the fit."""
        return self.sides[-1]

    @property
    def raw(self) -> Side | None:
        """Chains before folding; None where none were kept."""
        return self.sides[0] if len(self.sides) > 1 else None

    def pictured(self) -> str:
        """Return how many draws the pictures show, in a sentence."""
        shown = [f"{len(self.folded.flat):,} of the {len(self.folded.whole):,} draws of this fit"]
        if self.raw is not None:
            shown.append(f"{len(self.raw.flat):,} draws before folding")
        return f"Pictured are {' and '.join(shown)}."

    def by_parameter(self) -> dict[str, list[tuple[int, Family]]]:
        """Return what can be chosen with its position, under the parameter it belongs to."""
        grouped: dict[str, list[tuple[int, Family]]] = {}
        for position, family in enumerate(self.families):
            grouped.setdefault(family.parameter, []).append((position, family))
        return grouped

    def opening(self) -> Family:
        """What a picture opens with: what labels are sorted by, otherwise the most telling."""
        several = self._several()
        several = self._moving(several) if self.moved else several
        for family in several if self.sorted else ():
            if np.all(np.diff(self.folded.whole[:, list(family.members)], axis=1) >= 0.0):
                return family
        return self.most_telling()

    def panels(self) -> list[Family]:
        """What has a marginal of its own: components together, and scalars that stand alone."""
        together = {
            member
            for family in self.families
            for member in family.members
            if not family.single and family.parameter != EXCHANGED
        }
        found = [
            family
            for family in self.families
            if family.parameter != EXCHANGED
            and (not family.single or family.members[0] not in together)
        ]
        varying = [self._varying(family) for family in found]
        return [family for family in varying if family.members] or found

    @functools.cached_property
    def varies(self) -> np.ndarray:
        """Which scalars differ from draw to draw by more than rounding, or are not numbers."""
        return np.array([not is_constant(values) for values in self.folded.whole.T], bool)

    def _varying(self, family: Family) -> Family:
        """Return a family without the members that are the same in every draw."""
        members = tuple(j for j in family.members if self.varies[j])
        if len(members) == len(family.members):
            return family
        label = f"{family.title}: {len(members)} of {len(family.members)} vary"
        return dataclasses.replace(family, members=members, label=label)

    def _several(self) -> list[Family]:
        """Return families of several members, all of which vary."""
        return [f for f in self.families if not f.single and self.varies[list(f.members)].all()]

    def _moving(self, families: Sequence[Family]) -> list[Family]:
        """Return those that relabelling moves."""
        return [family for family in families if self.moved.intersection(family.members)]

    def most_telling(self) -> Family:
        """The family whose members folding narrows most; the first where nothing is known.

        What no relabelling moves looks alike before and after folding, and tells nothing of it.
        """
        several, raw = self._several(), self.raw
        alone = [f for f in self.families if self.varies[list(f.members)].all()]
        candidates = self._moving(several) or self._moving(alone) or several or alone
        candidates = candidates or list(self.families)
        if raw is None:
            return candidates[0]
        return max(candidates, key=lambda family: self._narrowing(family, raw))

    def _narrowing(self, family: Family, raw: Side) -> float:
        members = list(family.members)
        spread = self.folded.flat[:, members].std(axis=0)
        ratio = raw.flat[:, members].std(axis=0) / np.where(spread > 0, spread, np.inf)
        return float(np.median(ratio))

    def showcase(self, count: int = 3) -> list[int]:
        """Return a few scalars for a static picture of pairs: the opening family, then others."""
        chosen = list(self.opening().members[: max(count - 1, 1)])
        others = [family.members[0] for family in self.families if family.single]
        others = [j for j in others if self.varies[j]] or others
        new = [j for j in _one_per_parameter(self.names, others, chosen) if j not in chosen]
        return (chosen + sorted(new, key=lambda j: j not in self.moved))[:count]


def _moved(fit: Fit) -> np.ndarray:
    """Return which scalars relabelling moves; without its problem, those of exchanged axes."""
    found = {}
    if fit.problem is not None and fit.group.order > 1:
        found = moved_entries(fit.problem, fit.draws[0, -1])
    masks = []
    for name, values in fit.posterior.items():
        mask, shape = found.get(name), values.shape[2:]
        if mask is None or mask.shape != shape:
            mask = np.full(shape, bool(fit.exchanged.get(name)))
        masks.append(mask.ravel())
    return np.concatenate(masks)


def _one_per_parameter(names: tuple[str, ...], others: list[int], chosen: list[int]) -> list[int]:
    """Scalars of parameters that are not there yet, the first of each, then the rest."""
    seen = {_parameter_of(names[j]) for j in chosen}
    first = {_parameter_of(names[j]): j for j in reversed(others)}
    fresh = sorted(j for parameter, j in first.items() if parameter not in seen)
    return fresh + [j for j in others if j not in fresh]


def _parameter_of(name: str) -> str:
    return re.split(r"\[|, ", name)[0]


def readable_names(fit: Fit) -> dict[str, str]:
    """Every scalar as a reader calls it, by the name that programs use: component 1, not [0].

    A label that somebody gave stands for itself, a place is counted from one after the name of its
    axis, and where an axis has no name the scalar keeps its own.
    """
    found: dict[str, str] = {}
    for name, values in fit.posterior.items():
        shape, axes = values.shape[2:], fit.dims.get(name, ())
        between = "and" if is_mirrored(values) else "to"
        named = len(axes) == len(shape) and not any(is_makeshift(axis, name) for axis in axes)
        for index, label in zip(np.ndindex(shape), entries({name: values}, fit), strict=True):
            words = [name]
            for axis, i in zip(axes, index, strict=True) if named else ():
                place = read_label(fit, axis, i)
                if axis.endswith("_to") and place is None:
                    words[-1] += f" {between} {i + 1}"
                else:
                    words.append(place or place_number(axis, i))
            found[label] = ", ".join(words) if named else label
    return found


def family_name(fit: Fit, name: str, axis: int, index: tuple[int, ...]) -> str:
    """Return one entry of every component: the parameter with the labels of its other axes."""
    axes = fit.dims.get(name, ())
    if not index:
        return name
    if len(axes) != len(index) + 1 or any(is_makeshift(own, name) for own in axes):
        where = index_words(name, (*index[:axis], 0, *index[axis:]), fit)
        where[axis] = "·"
        return f"{name}[{','.join(where)}]"
    others = [own for k, own in enumerate(axes) if k != axis]
    words = [name]
    for own, i in zip(others, index, strict=True):
        stem = own.removesuffix("_to")
        # Components run along the axis that an entry comes from: this is where it goes.
        to = "to " if stem != own and stem not in others else ""
        words.append(to + (read_label(fit, own, i) or place_number(own, i)))
    return ", ".join(words)


def readable_order(fit: Fit, sentence: str) -> str:
    """Return a sentence about the order with the names that a reader knows: not mu[·,0]."""

    def replaced(found: re.Match[str]) -> str:
        places = found[2].split(",")
        if found[1] not in fit.posterior or places.count("·") != 1:
            return found[0]
        axis = places.index("·")
        index = tuple(int(place) for place in places if place != "·")
        return family_name(fit, found[1], axis, index)

    return re.sub(r"(\w+)\[([·\d,]+)\]", replaced, sentence)


def variable_names(fit: Fit, observed: np.ndarray) -> tuple[str, ...]:
    """Names of the columns of the data, where the problem knows them; numbers from one else."""
    count = 1 if observed.ndim == 1 else observed.shape[1]
    labels = () if fit.problem is None else fit.problem.coords.get("variable", ())
    if len(labels) == count:
        return tuple(map(str, labels))
    if count > 1:
        return tuple(f"variable {j + 1}" for j in range(count))
    data = None if fit.problem is None else fit.problem.data
    names = [
        name
        for name, values in (data.items() if isinstance(data, dict) else ())
        if np.array_equal(values, observed)
    ]
    return (names[0] if names else "value",)


def _exchanged(fit: Fit) -> list[Family]:
    """Coordinates that the group sends to each other, where they are the user's parameters."""
    if tuple(fit.posterior) != fit.names or any(v.ndim > 2 for v in fit.posterior.values()):
        return []
    return [
        Family(EXCHANGED, f"{', '.join(fit.names[j] for j in orbit)} together", orbit, True)
        for orbit in coordinate_orbits(fit.group)
        if 1 < len(orbit) <= _LARGEST
    ]


@in_float64
def coordinate_orbits(group: Group) -> list[tuple[int, ...]]:
    """Sets of coordinates that permutations and sign flips of the group send to each other."""
    import jax
    import jax.numpy as jnp

    probe = np.arange(1.0, group.dim + 1.0)
    images = np.asarray(jax.vmap(group.act, (0, None))(group.generators, jnp.asarray(probe)))
    orbit = np.arange(group.dim)
    for image in np.abs(images):
        source = np.rint(image).astype(int) - 1
        if not np.allclose(image, source + 1) or source.min() < 0 or source.max() >= group.dim:
            continue  # neither a permutation nor a sign flip of the coordinates
        for here, there in enumerate(source):
            orbit[orbit == orbit[there]] = orbit[here]
    return [tuple(int(j) for j in np.flatnonzero(orbit == k)) for k in np.unique(orbit)]


def _families(fit: Fit) -> list[Family]:
    """For every parameter its families along the component axis, then its scalars one by one."""
    families, start, readable = [], 0, readable_names(fit)
    for name, values in fit.posterior.items():
        shape, mirrored = values.shape[2:], is_mirrored(values)
        size = math.prod(shape)
        axis = (*fit.exchanged.get(name, ()), component_axis(fit.dims.get(name, ())))[0]
        inside = mirrored and axis % len(shape) >= len(shape) - 2  # no component has a row of it
        if shape and shape[axis] > 1 and not inside:
            positions = np.moveaxis(start + np.arange(size).reshape(shape), axis, 0)
            for index in np.ndindex(positions.shape[1:]):
                members = [int(j) for j in positions[(slice(None), *index)]]
                if mirrored and index[-2] > index[-1]:
                    continue  # its mirror image is there
                label = family_name(fit, name, axis, index)
                families += _by_eights(name, label, members, bool(fit.exchanged.get(name)))
        labels = zip(np.ndindex(shape), entries({name: values}, fit), strict=True)
        families += [
            Family(name, readable[label], (start + j,))
            for j, (index, label) in enumerate(labels)
            if not (mirrored and index[-2] > index[-1])
        ]
        start += size
    return families


def component_axis(axes: Sequence[str]) -> int:
    """Return the axis along which labels run: the one that a problem calls so, or the first."""
    words = ("component", "state", "factor", "mode")
    return next((n for n, axis in enumerate(axes) if axis in words), 0)


def _by_eights(parameter: str, label: str, members: list[int], components: bool) -> list[Family]:
    """Return all components in one family, or as many of them as there are colours in each."""
    count = len(members)
    if count <= _LARGEST:
        return [Family(parameter, f"{label}: all {count} together", tuple(members), components)]
    found = []
    for first in range(0, count, _LARGEST):
        part = tuple(members[first : first + _LARGEST])
        last = f" to {first + len(part)}" if len(part) > 1 else ""
        title = f"{label}: {first + 1}{last} of {count}"
        found.append(Family(parameter, title, part, components))
    return found
