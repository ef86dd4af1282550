"""Which symmetry does a density have? Found by trying swaps and sign flips at random points.

A point is laid out in parts. Swapping two labels moves some of the parts at once; which ones
belong together, and between which labels, is what is looked for. What holds for the swap of two
labels holds for every product of such swaps, so O(m²) evaluations settle m! permutations.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from folt._types import in_float64
from folt.groups import (
    Blocks,
    Fixed,
    Group,
    Joint,
    Part,
    Permutation,
    Product,
    SignedPermutation,
    Square,
    Trivial,
    Within,
    ZeroSumRows,
)
from folt.groups.base import LARGEST_ENUMERATED
from folt.problem import Problem
from folt.symmetry import require_scalar

TOLERANCE = 1e-9
"""Largest defect, relative to 1 + |log π|, that counts as rounding.

Stricter than the check of a declared symmetry: one that is overlooked costs time, one that is
imagined would cost correctness."""

POINTS = 16
CANDIDATES = 96
FIRST_POINTS = 3
"""Points at which everything is tried; what survives is tried at the others."""

MOST_CHOICES = 300
"""Ways of choosing which parts move together beyond which only the plain ones are tried."""

Choice = tuple[Part | None, ...]
"""For every part how it moves, or None where it stays."""

Points = Float[np.ndarray, "n dim"]


@dataclasses.dataclass(frozen=True)
class Strand:
    """Parts that are permuted together.

    Attributes:
        parts: positions of the parts that move.
        names: their names.
        classes: sets of labels, counted from zero, that may be permuted among themselves.
        choice: how every part moves.
    """

    parts: tuple[int, ...]
    names: tuple[str, ...]
    classes: tuple[tuple[int, ...], ...]
    choice: Choice

    @property
    def order(self) -> int:
        """Number of permutations."""
        return math.prod(math.factorial(len(labels)) for labels in self.classes)


@dataclasses.dataclass(frozen=True)
class Detection:
    """What was tested and found.

    Attributes:
        group: the largest group found that folt can fold with.
        tested: every transformation tried, in words.
        found: those that leave the log density unchanged.
        rejected: those that do not.
        defects: the largest relative change of the log density under each one tested.
        strands: parts that are permuted together, and among which labels.
        flips: for blocks whose signs may be flipped, their name and the labels.
        continuous: parts whose labels may even be rotated into each other.
        notes: what was found and not used, and why.
        points: number of points at which the density was tried.
    """

    group: Group
    tested: tuple[str, ...]
    found: tuple[str, ...]
    rejected: tuple[str, ...]
    defects: dict[str, float]
    strands: tuple[Strand, ...]
    flips: dict[str, tuple[int, ...]]
    continuous: tuple[str, ...]
    notes: tuple[str, ...]
    points: int

    def __str__(self) -> str:
        lines = [
            f"Tried {len(self.tested)} transformations at {self.points} points: "
            f"{len(self.found)} leave the log density unchanged."
        ]
        for strand in self.strands:
            labels = "; ".join(
                ", ".join(str(label + 1) for label in labels) for labels in strand.classes
            )
            lines.append(f"Exchangeable together: {', '.join(strand.names)} (components {labels}).")
        if not self.found:
            lines.append(f"No symmetry found; the nearest was {self._nearest()}.")
        lines += [
            f"{name} has a continuous rotation symmetry, which no finite group folds away."
            for name in self.continuous
        ]
        return "\n".join(
            [
                *lines,
                *self.notes,
                f"Group: {type(self.group).__name__} of order {self.group.order}.",
            ]
        )

    def _nearest(self) -> str:
        words = min(self.tested, key=self.defects.__getitem__, default="none")
        return f"'{words}', relative change {self.defects.get(words, np.inf):.2g}"


@in_float64
def detect(
    log_density: Callable[..., Any],
    m: int,
    parts: Sequence[Part],
    *,
    names: Sequence[str] | None = None,
    data: Any = None,
    flips: bool = True,
    points: Points | None = None,
    seed: int = 0,
) -> Detection:
    """The symmetry of a log density whose point is laid out in parts of m labels.

    For every pair of labels and every choice of parts that might move together, the two labels
    are swapped in these parts at random points. The smallest choices that leave the density
    unchanged are kept. `Square` and `ZeroSumRows` are tried on both sides and by rows alone.

    Args:
        log_density: `log_density(x)`, or `log_density(x, data)`; a `BlackBox` for host code.
        m: number of labels.
        parts: `Blocks`, `ZeroSum`, `Square`, `ZeroSumRows` and `Fixed`, as for `groups.Joint`.
        names: one name per part.
        data: handed to `log_density`.
        flips: whether sign flips of single blocks, and rotations, are tried too.
        points: where to try; by default the likeliest of normal points of several scales.
        seed: chooses the points.

    Returns:
        The group and an account of what was tested.

    Raises:
        ValueError: wrong parts, or a density that is finite at too few points.
    """
    parts = tuple(parts)
    names = tuple(names) if names is not None else tuple(f"part {n + 1}" for n in range(len(parts)))
    if len(names) != len(parts):
        raise ValueError(f"expected {len(parts)} names, one per part, got {len(names)}")
    dim = sum(part.length(m) for part in parts)
    if m < 1 or dim < 1:
        raise ValueError(f"expected m ≥ 1 labels and at least one coordinate, got {m} and {dim}")
    problem = Problem(log_density, Trivial(dim), data=data)
    require_scalar(problem)
    probe = Probe(problem, _likely_points(problem, seed) if points is None else points)
    layout = Layout(m, parts, names)
    strands = _find_strands(probe, layout)
    flipped, continuous = _find_flips(probe, layout, strands, seed) if flips else ((), ())
    notes = list(layout.notes)
    group = _group(layout, strands, flipped, notes)
    if group.order > LARGEST_ENUMERATED:
        notes.append(
            f"The group has {group.order} elements, more than the {LARGEST_ENUMERATED} that can "
            "be summed over."
        )
    tested = tuple(probe.defects)
    holding = tuple(words for words in tested if probe.defects[words] <= TOLERANCE)
    return Detection(
        group=group,
        tested=tested,
        found=holding,
        rejected=tuple(words for words in tested if probe.defects[words] > TOLERANCE),
        defects=dict(probe.defects),
        strands=strands,
        flips={names[place]: labels for place, labels in flipped},
        continuous=continuous,
        notes=tuple(notes),
        points=probe.points.shape[0],
    )


@in_float64
def swap_defect(
    log_density: Callable[..., Any],
    m: int,
    parts: Sequence[Part],
    *,
    data: Any = None,
    seed: int = 0,
) -> tuple[tuple[Part, ...], float, str]:
    """How badly a density fails to be invariant when every part is permuted at once.

    Matrices are tried on both sides and by rows alone; the better way counts.

    Returns:
        How each part moves, the largest relative change, and the swap where it occurred.
    """
    parts = tuple(parts)
    dim = sum(part.length(m) for part in parts)
    problem = Problem(log_density, Trivial(dim), data=data)
    require_scalar(problem)
    probe = Probe(problem, _likely_points(problem, seed))
    layout = Layout(m, parts, tuple(str(n) for n in range(len(parts))))
    pieces, swapped = layout.pieces(probe.points), layout.swapped(probe.points)
    found = []
    for choice in itertools.product(*(_ways(part, m) or (part,) for part in parts)):
        images = {}
        for number, (first, second) in enumerate(layout.pairs):
            moved = [
                swapped[place, way][number] if (place, way) in swapped else pieces[place]
                for place, way in enumerate(choice)
            ]
            images[f"swap components {first + 1} and {second + 1}"] = np.concatenate(moved, axis=1)
        probe.defects.clear()
        probe.try_all(images)
        worst = max(probe.defects, key=probe.defects.__getitem__)
        found.append((choice, probe.defects[worst], worst))
    return min(found, key=lambda entry: entry[1])


class Probe:
    """Log densities at fixed points, and how much they change under transformations."""

    def __init__(self, problem: Problem, points: Points) -> None:
        self.problem = problem
        self.points = np.asarray(points, np.float64)
        self.values = problem.log_probs(self.points)
        if not np.all(np.isfinite(self.values)):
            raise ValueError("expected points at which the log density is finite")
        self.defects: dict[str, float] = {}

    def try_all(self, images: dict[str, Points]) -> None:
        """Record the defect of every transformation, given the images of the points under it.

        A few points first: most wrong guesses fail there and cost no more.
        """
        first = slice(0, FIRST_POINTS)
        survivors = self._measure(images, first)
        self._measure({words: images[words] for words in survivors}, slice(FIRST_POINTS, None))

    def _measure(self, images: dict[str, Points], rows: slice) -> list[str]:
        values = self.values[rows]
        if not images or values.size == 0:
            return []
        stacked = np.concatenate([moved[rows] for moved in images.values()])
        moved = self.problem.log_probs(stacked).reshape(len(images), -1)
        relative = np.abs(moved - values) / (1.0 + np.abs(values))
        worst = np.where(np.isfinite(relative), relative, np.inf).max(axis=1)
        for words, defect in zip(images, worst, strict=True):
            self.defects[words] = max(float(defect), self.defects.get(words, 0.0))
        return [words for words in images if self.defects[words] <= TOLERANCE]

    def holds(self, words: str) -> bool:
        """Whether a transformation left every value unchanged."""
        return self.defects[words] <= TOLERANCE


class Layout:
    """The parts of a point and the images of points when labels are swapped in some of them."""

    def __init__(self, m: int, parts: tuple[Part, ...], names: tuple[str, ...]) -> None:
        self.m, self.parts, self.names = m, parts, names
        self.ends = np.cumsum([part.length(m) for part in parts])[:-1]
        self.pairs = list(itertools.combinations(range(m), 2))
        self.notes: list[str] = []

    def pieces(self, points: Points) -> list[np.ndarray]:
        """The coordinates of each part."""
        return np.split(points, self.ends, axis=1)

    def choices(self) -> list[Choice]:
        """Every way in which some of the parts move together, fewest parts first."""
        ways = [(None, *_ways(part, self.m)) for part in self.parts]
        count = int(np.prod([len(way) for way in ways]))
        if count > MOST_CHOICES:
            everything = tuple(way[min(1, len(way) - 1)] for way in ways)
            alone = [
                tuple(way if place == other else None for other in range(len(ways)))
                for place, way in enumerate(everything)
                if way is not None
            ]
            self.notes.append(
                f"With {len(self.parts)} parts only each alone and all together were tried: name "
                "the parts that belong together to try others."
            )
            return [*alone, everything]
        choices = [choice for choice in itertools.product(*ways) if any(choice)]
        return sorted(choices, key=_size)

    def words(self, choice: Choice, pair: tuple[int, int]) -> str:
        """A swap in words: "swap components 1 and 2 of mu, sigma"."""
        moved = [
            self.names[n] + ("" if way == self.parts[n] else " (rows alone)")
            for n, way in enumerate(choice)
            if way is not None
        ]
        return f"swap components {pair[0] + 1} and {pair[1] + 1} of {', '.join(moved)}"

    def swapped(self, points: Points) -> dict[tuple[int, Part], np.ndarray]:
        """For every part and way to move it, its coordinates under every swap of two labels."""
        arrangements = np.tile(np.arange(self.m, dtype=np.int32), (len(self.pairs), 1))
        for row, pair in zip(arrangements, self.pairs, strict=True):
            row[list(pair)] = row[list(pair)][::-1]
        return {
            (place, way): np.asarray(_moved(way, arrangements, piece))
            for place, (part, piece) in enumerate(zip(self.parts, self.pieces(points), strict=True))
            for way in _ways(part, self.m)
        }


def _find_strands(probe: Probe, layout: Layout) -> tuple[Strand, ...]:
    """Which parts are permuted together, and among which labels."""
    pieces, swapped = layout.pieces(probe.points), layout.swapped(probe.points)
    choices = layout.choices() if layout.pairs else []
    images = {}
    for choice in choices:
        for number, pair in enumerate(layout.pairs):
            moved = [
                piece if way is None else swapped[place, way][number]
                for place, (way, piece) in enumerate(zip(choice, pieces, strict=True))
            ]
            images[layout.words(choice, pair)] = np.concatenate(moved, axis=1)
    probe.try_all(images)
    held: dict[Choice, list[tuple[int, int]]] = {}
    for pair in layout.pairs:
        for choice in _smallest(
            [choice for choice in choices if probe.holds(layout.words(choice, pair))]
        ):
            held.setdefault(choice, []).append(pair)
    strands = [
        Strand(
            _moving(choice),
            tuple(layout.names[place] for place in _moving(choice)),
            _classes(layout.m, pairs),
            choice,
        )
        for choice, pairs in held.items()
    ]
    return tuple(sorted(strands, key=lambda strand: strand.parts))


def _find_flips(
    probe: Probe, layout: Layout, strands: tuple[Strand, ...], seed: int
) -> tuple[tuple[tuple[int, tuple[int, ...]], ...], tuple[str, ...]]:
    """Blocks whose sign may be flipped label by label, and blocks that may even be rotated."""
    pieces = layout.pieces(probe.points)
    blocks = [place for place, part in enumerate(layout.parts) if isinstance(part, Blocks)]
    images = {}
    for place, label in itertools.product(blocks, range(layout.m)):
        rows = pieces[place].reshape(-1, layout.m, layout.parts[place].size)  # type: ignore[attr-defined]
        moved = rows * np.where(np.arange(layout.m) == label, -1.0, 1.0)[:, None]
        images[_flip_words(layout, place, label)] = _replaced(pieces, place, moved)
    probe.try_all(images)
    flipped = []
    for place in blocks:
        found = (n for n in range(layout.m) if probe.holds(_flip_words(layout, place, n)))
        labels = tuple(found)
        if labels:
            flipped.append((place, labels))
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(layout.m, layout.m)))[0]
    turned = {}
    for place, labels in flipped:
        if layout.m > 1 and len(labels) == layout.m and _permuted_alone(strands, place, layout.m):
            rows = pieces[place].reshape(-1, layout.m, layout.parts[place].size)  # type: ignore[attr-defined]
            moved = np.einsum("ij,njk->nik", rotation, rows)
            turned[f"rotate the components of {layout.names[place]}"] = _replaced(
                pieces, place, moved
            )
    probe.try_all(turned)
    continuous = tuple(words.split(" of ", 1)[1] for words in turned if probe.holds(words))
    return tuple(flipped), continuous


def _flip_words(layout: Layout, place: int, label: int) -> str:
    return f"flip the sign of component {label + 1} of {layout.names[place]}"


def _replaced(pieces: list[np.ndarray], place: int, new: np.ndarray) -> np.ndarray:
    changed = [*pieces[:place], new.reshape(len(new), -1), *pieces[place + 1 :]]
    return np.concatenate(changed, axis=1)


def _permuted_alone(strands: tuple[Strand, ...], place: int, m: int) -> bool:
    """Whether all labels of this part may be permuted while every other part stays."""
    return any(
        strand.parts == (place,) and strand.classes == (tuple(range(m)),) for strand in strands
    )


def _group(
    layout: Layout,
    strands: tuple[Strand, ...],
    flipped: tuple[tuple[int, tuple[int, ...]], ...],
    notes: list[str],
) -> Group:
    """The largest group among those found that folt can express, the rest told in notes."""
    signs = dict(flipped)
    if len(strands) == 1 and not signs:
        return _factors(layout, range(len(layout.parts)), strands[0], signs, notes)[0]
    used: list[Strand] = []
    for strand in sorted(strands, key=lambda strand: -strand.order):
        # A product acts on consecutive coordinates, so the strands must not interleave.
        if all(_apart(strand, other) for other in used):
            used.append(strand)
        else:
            notes.append(f"The permutations of {', '.join(strand.names)} alone are not used.")
    pieces: list[Group] = []
    place = 0
    while place < len(layout.parts):
        here = next((strand for strand in used if strand.parts[0] == place), None)
        last = place if here is None else here.parts[-1]
        pieces += _factors(layout, range(place, last + 1), here, signs, notes)
        place = last + 1
    return _product(pieces)


def _product(pieces: list[Group]) -> Group:
    """The product of groups on consecutive coordinates, neighbours that do nothing as one."""
    merged: list[Group] = []
    for piece in pieces:
        if merged and isinstance(piece, Trivial) and isinstance(merged[-1], Trivial):
            merged[-1] = Trivial(merged[-1].dim + piece.dim)
        else:
            merged.append(piece)
    return merged[0] if len(merged) == 1 else Product(*merged)


def _factors(
    layout: Layout,
    places: range,
    strand: Strand | None,
    signs: dict[int, tuple[int, ...]],
    notes: list[str],
) -> list[Group]:
    """Groups for some consecutive parts, moved by one strand or by flips alone."""
    m, part = layout.m, layout.parts[places[0]]
    labels = signs.get(places[0], ())
    if strand is None:
        if not isinstance(part, Blocks) or not labels:
            return [Trivial(part.length(m))] if part.length(m) else []
        size = part.size
        return [SignedPermutation(1, size) if n in labels else Trivial(size) for n in range(m)]
    whole = strand.classes == (tuple(range(m)),)
    if len(places) == 1 and len(labels) == m and whole and isinstance(part, Blocks):
        return [SignedPermutation(m, part.size)]
    notes += [
        f"Signs of {layout.names[place]} may be flipped too, but no group of folt joins these "
        "flips to the permutations found: only the permutations are used."
        for place in strand.parts
        if place in signs
    ]
    parts = tuple(
        way or Fixed(layout.parts[place].length(m))
        for place, way in enumerate(strand.choice)
        if place in places and layout.parts[place].length(m)
    )
    if whole and len(parts) == 1 and isinstance(parts[0], Blocks):
        return [Permutation(m, parts[0].size, parts[0].sort_by)]
    joint = Joint(m, parts)
    return [joint if whole else Within(joint, strand.classes)]


def _apart(strand: Strand, other: Strand) -> bool:
    return strand.parts[-1] < other.parts[0] or other.parts[-1] < strand.parts[0]


def _ways(part: Part, m: int) -> tuple[Part, ...]:
    """How a swap of labels may move a part: as it says, or a matrix by its rows alone."""
    if isinstance(part, Fixed) or part.length(m) == 0:
        return ()
    if isinstance(part, Square):
        return (part, Blocks(m))
    if isinstance(part, ZeroSumRows) and m > 1:
        return (part, Blocks(m - 1))
    return (part,)


def _smallest(choices: list[Choice]) -> list[Choice]:
    """The choices that contain no other one; they come sorted by size."""
    kept: list[Choice] = []
    for choice in choices:
        if not any(set(_moving(other)) <= set(_moving(choice)) for other in kept):
            kept.append(choice)
    return kept


def _moving(choice: Choice) -> tuple[int, ...]:
    return tuple(place for place, way in enumerate(choice) if way is not None)


def _size(choice: Choice) -> int:
    return len(_moving(choice))


def _classes(m: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Labels linked by swaps, as sets of at least two."""
    home = list(range(m))
    for first, second in pairs:
        old, new = home[second], home[first]
        home = [new if label == old else label for label in home]
    sets = ([n for n in range(m) if home[n] == root] for root in sorted(set(home)))
    return tuple(tuple(labels) for labels in sets if len(labels) > 1)


def _likely_points(problem: Problem, seed: int) -> Points:
    """The likeliest of normal points of several scales.

    Where the log density is not huge, a small difference between labels does not drown in it.
    """
    generator = np.random.default_rng(seed)
    scales = np.repeat([1.0, 1.0, 0.3, 3.0], CANDIDATES // 4)
    candidates = scales[:, None] * generator.normal(size=(CANDIDATES, problem.dim))
    values = problem.log_probs(candidates)
    values = np.where(np.isfinite(values), values, -np.inf)
    best = np.argsort(-values, kind="stable")[:POINTS]
    best = best[np.isfinite(values[best])]
    if best.size < FIRST_POINTS:
        raise ValueError(
            f"the log density is finite at only {best.size} of {CANDIDATES} normal points: pass "
            "points=... inside its support"
        )
    return candidates[best]


@eqx.filter_jit
def _moved(
    part: Part,
    arrangements: Int[Array | np.ndarray, "k m"],
    piece: Float[Array | np.ndarray, "n length"],
) -> Float[Array, "k n length"]:
    """A part of every point under every arrangement, (arrangement, point, length)."""
    one = jax.vmap(part.act, in_axes=(None, 0))
    return jax.vmap(one, in_axes=(0, None))(jnp.asarray(arrangements), jnp.asarray(piece))
