"""Draws under other labels or signs: sorted by another key, as the proposal has them, at random."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from folt.batching import map_keys, map_points
from folt.certificate.conditions import AMBIGUOUS, MIXED
from folt.fit.predictions import require_problem
from folt.groups import (
    Element,
    Fixed,
    Group,
    Joint,
    Product,
    Reflection,
    SignedPermutation,
    ZeroSum,
)
from folt.groups.permutation import Relabelling
from folt.groups.signed import SignedArrangement
from folt.problem.cards import INDEXED, sorts_by_an_entry
from folt.problem.named_values import LIKELIEST, SortKey, entry_name, moved_entries
from folt.problem.ratio import label_errors
from folt.proposals.fold import Folded
from folt.types import Distribution, Key, Point, Scalars, in_float64

if TYPE_CHECKING:
    from folt.fit.fit import Fit


ORDERING_DRAWS = 512
"""Draws of the proposal whose median is sorted to number the components."""


@in_float64
def labelled(draws: np.ndarray, proposal: Distribution, group: Group, labels: str) -> np.ndarray:
    """Draws under the sorted labels they have, or under those the proposal finds likeliest."""
    if labels == "sorted":
        return draws
    points = draws.reshape(-1, group.dim)
    folded = Folded(proposal, group)
    images = map_points(Folded.most_likely_image, folded, points, terms=folded.terms)
    ordered = map_points(_coordinates_moved, (group, _ordering(proposal, group)), images)
    return np.asarray(ordered).reshape(draws.shape)


def _ordering(proposal: Distribution, group: Group) -> Element:
    """Return the one element that sorts the proposal's own labels by its median.

    Any relabelling of all draws alike is as good; this one numbers components as a reader expects.
    """
    drawn = map_keys(_drawn, proposal, jax.random.key(0), ORDERING_DRAWS)
    middle = np.median(drawn, axis=0)[None]
    return jax.tree.map(lambda leaf: leaf[0], map_points(_folding, group, middle))


def _drawn(proposal: Distribution, key: Key) -> Point:
    return proposal.sample(key)


def _folding(group: Group, point: Point) -> Element:
    return group.folding_element(point)


def _coordinates_moved(context: tuple[Group, Element], point: Point) -> Point:
    group, element = context
    return group.act(element, point)


def random_image(group: Group, pair: tuple[Key, Point]) -> Point:
    """Return the point under labels drawn uniformly."""
    return group.random_image(*pair)


def likely_image(group: Group, drawn: tuple[Key, Point, Scalars]) -> Point:
    """Return the point under labels drawn in proportion to the density at its images."""
    key, point, log_terms = drawn
    return group.act(group.element(jax.random.categorical(key, log_terms)), point)


SORTED_BY = "sorted by "
"""Begins the labels of a fit that was given another order."""

SIGNS_BY = "; signs by "
"""Stands in the labels of a fit before the convention for its signs, if it was given one."""

LARGEST = "largest"
"""The convention by which the entry that is largest on average is positive."""

JUDGED_DRAWS = 2_048
"""Draws by which an order of the labels is judged."""


class Arranger(NamedTuple):
    """The labels of a group, or of one factor of a product, and the element of an arrangement."""

    labels: int
    element: Callable[[Int[np.ndarray, "n m"]], Element]


@in_float64
def relabelled(fit: Fit, sort_by: str | SortKey | None, sign: str | None) -> Fit:
    """Return the fit with labels sorted by another key, and signs by another convention.

    Raises:
        ValueError: nothing was folded, the fit was loaded without its problem, the key is not one
            number per label, it does not tell the labels apart, or no sign can be chosen.

    Warns:
        UserWarning: the order by this key is a matter of chance in some draws.
    """
    require_problem(fit)
    if sort_by is None and sign is None:
        raise ValueError("expected sort_by, sign or both, got neither")
    if sort_by is not None:
        fit = _likeliest(fit) if sort_by == LIKELIEST else _sorted(fit, sort_by)
    return _judged(fit if sign is None else signed(fit, sign))


def with_labels_told_apart(fit: Fit) -> Fit:
    """Return the fit by another convention where the fold's own confuses signs or labels.

    The fold takes the sign of one entry that it knows before any draw. Where that entry is near
    zero its sign is a matter of chance, and so would be every summary: then largest entries are
    positive. Labels are then those that the proposal finds likeliest where nobody would have chosen
    their order: by sums of entries with signs, or by one of several entries in a group that folt
    found. Each holds only if it tells more. Draws of a density whose parameters are its coordinates
    stay on the fundamental domain, as nobody asked otherwise.
    """
    problem, signs = fit.problem, bool(sign_blocks(fit.group))
    if problem is None or problem.constrain is None:
        return fit
    conventions: list[tuple[str | None, str | None]] = [(None, LARGEST)] if signs else []
    found = problem.symmetry_found is not None and sorts_by_an_entry(fit.group, fit.names)
    if fit.labels == "sorted" and (signs or found):
        conventions.append((LIKELIEST, LARGEST if signs else None))
    for order, sign in conventions:
        mixed = fit.certificate.symmetry.boundary.mixed or 0.0
        if mixed > MIXED:
            other = relabelled(fit, order, sign)
            fit = other if (other.certificate.symmetry.boundary.mixed or 0.0) < mixed else fit
    return fit


def _judged(fit: Fit) -> Fit:
    """Return the fit with a certificate that says how often its order confuses components."""
    if fit.proposal is None:
        return fit
    points = fit.draws.reshape(-1, fit.group.dim)
    mixed = label_errors(fit.proposal, fit.group, points[:: -(-len(points) // JUDGED_DRAWS)])[1]
    symmetry = fit.certificate.symmetry
    symmetry = dataclasses.replace(
        symmetry, boundary=dataclasses.replace(symmetry.boundary, mixed=mixed)
    )
    return dataclasses.replace(
        fit, certificate=dataclasses.replace(fit.certificate, symmetry=symmetry)
    )


def _likeliest(fit: Fit) -> Fit:
    """Return the fit under the labels that its proposal finds likeliest."""
    if fit.group.order == 1 or fit.proposal is None:
        raise ValueError(
            f"expected a fit with labels and with its proposal to sort by {LIKELIEST!r}, got one "
            f"{'in which nothing was folded' if fit.group.order == 1 else 'without proposal'}"
        )
    return _moved_to(fit, labelled(fit.draws, fit.proposal, fit.group, LIKELIEST), LIKELIEST)


def _moved_to(fit: Fit, draws: np.ndarray, labels: str) -> Fit:
    """Return the fit with its draws under other labels."""
    posterior = require_problem(fit).parameters(draws)
    return dataclasses.replace(fit, draws=draws, posterior=posterior, labels=labels)


def _sorted(fit: Fit, sort_by: str | SortKey) -> Fit:
    arrangers = _arrangers(fit.group)
    if not arrangers and not sign_blocks(fit.group):
        raise ValueError("this fit has no labels that could be sorted: nothing is permuted in it")
    key, name = _key(fit, sort_by)
    keys = _evaluated(key, fit.posterior, fit.draws.shape[:2], name)
    _require_apart(fit, key, keys, name)
    order = np.argsort(keys, axis=-1, kind="stable").reshape(-1, keys.shape[-1])
    points = fit.draws.reshape(-1, fit.group.dim)
    for arranger in arrangers:
        if arranger.labels != keys.shape[-1]:
            continue
        images = np.asarray(map_points(_moved, fit.group, (arranger.element(order), points)))
        found = _moved_to(fit, images.reshape(fit.draws.shape), SORTED_BY + name)
        if np.allclose(key(found.posterior), np.sort(keys, axis=-1), rtol=1e-6, atol=1e-12):
            return found
    raise ValueError(
        f"expected a key with one number per label that moves with it, got {keys.shape[-1]} by "
        f"{name}, which relabelling does not permute"
    )


def signed(fit: Fit, sign: str, like: np.ndarray | None = None) -> Fit:
    """Flip the signs that may be flipped, so that one entry of each is positive.

    Args:
        fit: what is flipped.
        sign: LARGEST or an entry.
        like: draws that decide which entries are the largest, those of the fit if None.
    """
    parts = sign_blocks(fit.group)
    if not parts:
        raise ValueError("this fit has no signs that could be chosen: nothing may be flipped in it")
    entry = entry_name(sign, fit.names, fit.dims, fit.coords)
    place = fit.names.index(entry) if entry in fit.names else None
    known = {at for blocks in parts for block in blocks for at in block}
    if sign != LARGEST and place not in known:
        names = ", ".join(map(repr, _examples([fit.names[at] for at in sorted(known)])))
        raise ValueError(
            f"expected sign={LARGEST!r} or an entry whose sign may be flipped, such as {names}, "
            f"got {sign!r}"
        )
    draws, judges = fit.draws.copy(), fit.draws if like is None else like
    for blocks in parts:
        within = [block.index(place) for block in blocks if place in block]
        for block in blocks:
            sizes = np.abs(judges[..., list(block)]).mean(axis=(0, 1))
            key = block[within[0] if within else int(np.argmax(sizes))]
            draws[..., list(block)] *= np.where(fit.draws[..., key] < 0.0, -1.0, 1.0)[..., None]
    order = fit.labels.partition(SIGNS_BY)[0]
    return _moved_to(fit, draws, f"{order}{SIGNS_BY}{sign}")


def _examples(names: Sequence[str]) -> list[str]:
    """Return the first entry of every parameter among these."""
    found: dict[str, str] = {}
    for name in names:
        match = INDEXED.fullmatch(name)
        found.setdefault(name if match is None else match[2], name)
    return list(found.values())


def cure_of_order(fit: Fit) -> str:
    """Return how another order of the labels is asked for, or other signs where there are any."""
    signs = f'fit.relabelled(sign="{LARGEST}")'
    order = f'fit.relabelled(sort_by="{LIKELIEST}")' if fit.proposal else "another sort_by="
    if not sign_blocks(fit.group):
        return order
    return f"{order} or {signs}" if fit.exchanged else signs


def sign_blocks(group: Group) -> list[list[tuple[int, ...]]]:
    """Return coordinates whose signs may be flipped at once, for every part of the group.

    The columns of a signed permutation stand together, entry by entry alike.
    """
    if isinstance(group, SignedPermutation):
        columns = np.arange(group.dim).reshape(group.columns, group.size)
        return [[tuple(row) for row in columns[:, : group.size - group.unsigned].tolist()]]
    if isinstance(group, Reflection):
        return [[(axis,)] for axis in group.axes]
    if isinstance(group, Joint) and group.m == 2:
        ends = np.cumsum([0, *(part.length(2) for part in group.parts)]).tolist()
        moving = [n for n, part in enumerate(group.parts) if not isinstance(part, Fixed)]
        if all(group.parts[n] == ZeroSum() for n in moving):
            return [[tuple(ends[n] for n in moving)]]  # two labels at the ends of a coordinate
    if isinstance(group, Product):
        ends = np.cumsum([0, *(part.dim for part in group.groups)]).tolist()
        return [
            [tuple(at + start for at in block) for block in blocks]
            for part, start in zip(group.groups, ends, strict=False)
            for blocks in sign_blocks(part)
        ]
    return []


def _key(fit: Fit, sort_by: str | SortKey) -> tuple[SortKey, str]:
    """Return the key as a function, and what it is called."""
    if callable(sort_by):
        name = getattr(sort_by, "__name__", "")
        plain = f"{name}()" if name.isidentifier() else "a function of the parameters"
        return lambda posterior: np.asarray(sort_by(posterior), float), plain
    carrying = [name for name, axes in fit.exchanged.items() if len(axes) == 1]
    if sort_by not in carrying:
        among = f"or one of {', '.join(map(repr, carrying))}, which have labels"
        expected = f"a function {among}" if carrying else f"a function, {_why_a_function(fit)}"
        raise ValueError(f"expected sort_by to be {expected}, got {sort_by!r}")
    if fit.posterior[sort_by].ndim != 3:
        raise ValueError(
            f"{sort_by} has several numbers per label: choose one by a function, such as "
            f"lambda posterior: posterior[{sort_by!r}][..., 0]"
        )
    # Entries that no relabelling moves, such as the weight of a spike at zero, have no label.
    moved = moved_entries(require_problem(fit), fit.draws[0, -1])[sort_by]
    places = np.flatnonzero(moved)
    return lambda posterior: np.asarray(posterior[sort_by], float)[..., places], sort_by


def _why_a_function(fit: Fit) -> str:
    """Return why no parameter can be named to sort by, and what else can be done."""
    if sign_blocks(fit.group):
        return f"as nothing has labels but signs, which sign={LARGEST!r} or sign=an entry chooses"
    if require_problem(fit).constrain is None and len(fit.names) > 1:
        first, second = fit.names[:2]
        return (
            f"such as lambda p: np.stack([p[{first!r}], p[{second!r}]], axis=-1), as coordinates "
            "are no arrays with labels unless constrain= of the problem makes some of them"
        )
    return "as nothing has labels"


def _evaluated(
    key: SortKey, posterior: Mapping[str, np.ndarray], lead: tuple[int, ...], name: str
) -> Float[np.ndarray, "chain draw m"]:
    keys = key(posterior)
    if keys.ndim != 3 or keys.shape[:2] != lead or not np.isfinite(keys).all():
        raise ValueError(
            f"expected finite numbers of shape (chain, draw, label) by {name}, got shape "
            f"{keys.shape}"
        )
    return keys


def _require_apart(fit: Fit, key: SortKey, keys: np.ndarray, name: str) -> None:
    """Refuse a key whose order is a matter of chance.

    Components are followed from draw to draw by the labels that the proposal finds likeliest. A
    key that tells them apart puts them into the same order in nearly all draws.
    """
    followed = keys
    if fit.proposal is not None:
        followed = key(_likeliest(fit).posterior)
    orders = np.argsort(followed.reshape(-1, followed.shape[-1]), axis=-1, kind="stable")
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    ties = float((np.diff(np.sort(keys, axis=-1)) == 0.0).any(axis=-1).mean())
    share = max(1.0 - counts.max() / len(orders), ties)
    chance = f"in {100 * share:.0f} % of the draws their order by it is a matter of chance"
    if share > AMBIGUOUS:
        raise ValueError(
            f"{name} does not tell the components apart: {chance}; sort by what differs between "
            "them"
        )
    if share > MIXED:
        text = f"{name} hardly tells the components apart: {chance}"
        warnings.warn(text, UserWarning, stacklevel=5)


def _arrangers(group: Group) -> list[Arranger]:
    """Return one for every set of labels that are permuted as a whole."""
    if isinstance(group, Relabelling):
        return [Arranger(group.labels, lambda order: order)] if group.labels > 1 else []
    if isinstance(group, SignedPermutation):
        return [Arranger(group.columns, _without_flips)] if group.columns > 1 else []
    if isinstance(group, Product):
        return [
            Arranger(own.labels, _in_product(group, place, own))
            for place, part in enumerate(group.groups)
            for own in _arrangers(part)
        ]
    return []


def _without_flips(order: Int[np.ndarray, "n m"]) -> Element:
    return SignedArrangement(order, np.ones_like(order))


def _in_product(
    group: Product, place: int, own: Arranger
) -> Callable[[Int[np.ndarray, "n m"]], Element]:
    def element(order: Int[np.ndarray, "n m"]) -> Element:
        still = [
            jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], len(order), 0), part)
            for part in group.identity
        ]
        return (*still[:place], own.element(order), *still[place + 1 :])

    return element


def _moved(group: Group, pair: tuple[Element, Point]) -> Point:
    return group.act(*pair)
