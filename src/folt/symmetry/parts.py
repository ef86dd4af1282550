"""The symmetry of any log density whose point is laid out in parts of m labels."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import PyTree

from folt.chains import one_blas_thread
from folt.groups import Blocks, Fixed, Group, Part, Square, Trivial, ZeroSum, ZeroSumRows
from folt.groups.base import LARGEST_ENUMERATED
from folt.problem.problem import Problem
from folt.problem.requirements import require_scalar
from folt.symmetry.assembly import factor_groups, product
from folt.symmetry.findings import Attempt, Factor, Reason, Remark, RotationFound, SymmetryFound
from folt.symmetry.moves import (
    AlongAxis,
    Entries,
    LabelledCoordinates,
    Move,
    SquareSides,
    TransitionSides,
)
from folt.symmetry.probe import BLOCK, Probe
from folt.symmetry.search import Search
from folt.symmetry.signs import lone_signs, rotation, with_signs
from folt.types import HostPoints, Scalar, in_float64


@in_float64
@one_blas_thread
def detect(
    log_density: Callable[..., Scalar],
    m: int,
    parts: Sequence[Part],
    *,
    names: Sequence[str] | None = None,
    data: PyTree = None,
    flips: bool = True,
    points: HostPoints | None = None,
    seed: int = 0,
) -> SymmetryFound:
    """Return the symmetry of a log density whose point is laid out in parts of m labels.

    Two labels are swapped in the parts that belong together, at random points. `Square` and
    `ZeroSumRows` are tried on both sides and by rows alone.

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
        The group and an account of what was tried.

    Raises:
        ValueError: wrong parts, or a density that is finite at too few points.
    """
    layout = _Layout(m, tuple(parts), names)
    problem = Problem(log_density, Trivial(layout.dim), data=data)
    require_scalar(problem)

    def evaluate(block: HostPoints) -> np.ndarray:
        return np.concatenate(
            [problem.log_probs(block[start : start + 64]) for start in range(0, BLOCK, 64)]
        )[:, None]

    centre = np.zeros(layout.dim) if points is None else np.mean(points, axis=0)
    probe = Probe(evaluate, ("likelihood",), centre, np.ones(layout.dim), seed, points)
    return _found(probe, layout, flips)


class _Layout:
    """The parts of a point with their names and places."""

    def __init__(self, m: int, parts: tuple[Part, ...], names: Sequence[str] | None) -> None:
        given = tuple(names) if names is not None else None
        self.names = given or tuple(f"part {n + 1}" for n in range(len(parts)))
        if len(self.names) != len(parts):
            raise ValueError(f"expected {len(parts)} names, one per part, got {len(self.names)}")
        self.m, self.parts = m, parts
        self.dim = sum(part.length(m) for part in parts)
        if m < 1 or self.dim < 1:
            raise ValueError(
                f"expected m ≥ 1 labels and at least one coordinate, got {m} and {self.dim}"
            )
        ends = np.cumsum([0, *(part.length(m) for part in parts)])
        self.columns = [np.arange(a, b) for a, b in itertools.pairwise(ends)]

    def movers(self) -> list[LabelledCoordinates]:
        """Return the parts that may move; each is told by its place, which a name need not be."""
        found = []
        for place, (part, columns) in enumerate(zip(self.parts, self.columns, strict=True)):
            shape, moves = _shape_and_moves(part, self.m)
            if moves and columns.size:
                found.append(
                    LabelledCoordinates(
                        self.names[place], (str(place),), columns.reshape(shape), moves, place
                    )
                )
        return found


def _shape_and_moves(part: Part, m: int) -> tuple[tuple[int, ...], tuple[Move, ...]]:
    if isinstance(part, Blocks):
        return (m, part.size), (AlongAxis(0),)
    if isinstance(part, ZeroSum):
        return (m - 1,), (Entries(),)
    if isinstance(part, Square):
        return (m, m), (SquareSides(), AlongAxis(0))
    if isinstance(part, ZeroSumRows):
        return (m, m - 1), (TransitionSides(), AlongAxis(0))
    return (), ()


def _found(probe: Probe, layout: _Layout, flips: bool) -> SymmetryFound:
    movers = layout.movers()
    search = Search(probe, movers, layout.columns, layout.m)
    factors, attempts = list(search.factors()), list(search.attempts)
    remarks: list[Remark] = []
    rotations: list[RotationFound] = []
    if flips:
        factors, tried = _signed(probe, layout, movers, factors, remarks, rotations)
        attempts += tried
    group = _group(layout, factors, remarks)
    if group.order > LARGEST_ENUMERATED:
        remarks.append(Remark(Reason.TOO_LARGE, (), group.order))
    nearly = sorted((a for a in attempts if not a.change.holds), key=lambda a: a.change.defect)
    if not factors and not nearly:
        nearly = _alone(probe, layout, movers)
        attempts += nearly
    return SymmetryFound(
        group=group,
        factors=tuple(factors),
        attempts=tuple(attempts),
        nearly=() if factors else tuple(nearly[:3]),
        rotations=tuple(rotations),
        remarks=tuple(remarks),
        repeated=tuple(mover.name for mover in movers) if layout.m > 1 else (),
        points=len(probe.points),
        evaluations=probe.evaluations,
    )


def _alone(probe: Probe, layout: _Layout, movers: list[LabelledCoordinates]) -> list[Attempt]:
    """Each part moved alone and all together, where nothing was worth trying at random points."""
    if layout.m < 2:
        return []
    search = Search(probe, movers, layout.columns, layout.m)
    first: dict[str, int] = {}
    for number, node in enumerate(search.nodes):
        first.setdefault(node.mover.sites[0], number)
    everything = tuple(first.values())
    search.changes([*((number,) for number in everything), everything], (0, 1))
    return sorted(search.attempts, key=lambda attempt: attempt.change.defect)


def _signed(
    probe: Probe,
    layout: _Layout,
    movers: list[LabelledCoordinates],
    factors: list[Factor],
    remarks: list[Remark],
    rotations: list[RotationFound],
) -> tuple[list[Factor], list[Attempt]]:
    """Return the factors with their signs, and blocks whose signs flip without permutations."""
    found: list[Factor] = []
    attempts: list[Attempt] = []
    for factor in factors:
        signed, tried, apart = with_signs(probe, factor)
        attempts += tried
        if signed.signed:
            turned = rotation(probe, signed)
            if turned is not None:
                rotations.append(dataclasses.replace(turned, sites=signed.names))
        if apart or (signed.signed and len(factor.movers) > 1):
            remarks.append(Remark(Reason.SIGNS_APART, factor.names))
            signed = factor
        found.append(signed)
    taken = frozenset().union(*(factor.places for factor in found))
    lone = [mover for mover in movers if not mover.places & taken]
    for mover in lone:
        single, tried_alone = lone_signs(probe, [mover], layout.m, taken)
        found += single
        attempts += tried_alone
    return found, attempts


def _group(layout: _Layout, factors: list[Factor], remarks: list[Remark]) -> Group:
    """Return the largest group among those found that acts on the parts where they stand."""
    if len(factors) == 1 and not factors[0].signed:
        return _factors(layout, range(len(layout.parts)), factors[0])[0]
    used: list[Factor] = []
    for factor in sorted(factors, key=lambda each: -each.order):
        # A product acts on consecutive coordinates, so the factors must not interleave.
        if all(_apart(factor, other) for other in used):
            used.append(factor)
        else:
            remarks.append(Remark(Reason.OVERLAPS, factor.names))
    pieces: list[Group] = []
    place = 0
    while place < len(layout.parts):
        here = next((factor for factor in used if _spots(factor)[0] == place), None)
        last = place if here is None else _spots(here)[-1]
        pieces += _factors(layout, range(place, last + 1), here)
        place = last + 1
    return product(pieces)


def _factors(layout: _Layout, places: range, factor: Factor | None) -> list[Group]:
    """Groups for some consecutive parts, moved by one factor."""
    m = layout.m
    parts = {place: layout.parts[place] for place in places if layout.parts[place].length(m)}
    if factor is None:
        return [Trivial(part.length(m)) for part in parts.values()]
    moves = dict(zip(_spots(factor), factor.moves, strict=True))
    return factor_groups(
        factor, [_moving_part(part, moves.get(place), m) for place, part in parts.items()]
    )


def _moving_part(part: Part, move: Move | None, m: int) -> Part:
    """Return the part as the factor moves it: as it says, by its rows alone, or not at all."""
    if move is None:
        return Fixed(part.length(m))
    if isinstance(part, (Square, ZeroSumRows)) and isinstance(move, AlongAxis):
        return Blocks(part.length(m) // m)
    return part


def _spots(factor: Factor) -> list[int]:
    """Places of the parts that a factor moves."""
    return [int(mover.sites[0]) for mover in factor.movers]


def _apart(factor: Factor, other: Factor) -> bool:
    mine, theirs = _spots(factor), _spots(other)
    return mine[-1] < theirs[0] or theirs[-1] < mine[0]
