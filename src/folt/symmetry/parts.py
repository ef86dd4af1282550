"""The symmetry of any log density whose point is laid out in parts of m labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import PyTree

from folt.groups import Blocks, Fixed, Group, Part, Square, Trivial, ZeroSum, ZeroSumRows
from folt.problem.problem import Problem
from folt.problem.requirements import require_scalar
from folt.symmetry.account import LIKELIHOOD, MOST_NEAR
from folt.symmetry.assembly import factor_groups, product
from folt.symmetry.findings import Attempt, Factor, Reason, Survey, SymmetryFound
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
from folt.symmetry.signs import lone_signs, signed_factor
from folt.types import HostPoints, Scalar, in_float64, one_blas_thread


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
    probe = Probe(evaluate, (LIKELIHOOD,), centre, np.ones(layout.dim), seed, points)
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
        """Return the parts that may move, each with its place as rank."""
        found = []
        for place, (part, columns) in enumerate(zip(self.parts, self.columns, strict=True)):
            shape, moves = _shape_and_moves(part, self.m)
            if moves and columns.size:
                name = self.names[place]
                found.append(
                    LabelledCoordinates(name, (name,), columns.reshape(shape), moves, place)
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
    search, result = Search(probe, movers, layout.columns, layout.m), Survey()
    result.factors = list(search.factors())
    result.attempts = list(search.attempts)
    if flips:
        _add_signs(probe, layout.m, movers, result)
    group = _group(layout, result)
    if not result.factors:
        failed = [attempt for attempt in result.attempts if not attempt.change.holds]
        if not failed:
            failed = _alone(probe, layout, movers)
            result.attempts += failed
        result.nearly = sorted(failed, key=lambda attempt: attempt.change.defect)[:MOST_NEAR]
    return result.found(group, probe, [m.name for m in movers] if layout.m > 1 else ())


def _alone(probe: Probe, layout: _Layout, movers: list[LabelledCoordinates]) -> list[Attempt]:
    """Move each part alone and all together, where nothing else was worth trying."""
    if layout.m < 2:
        return []
    search = Search(probe, movers, layout.columns, layout.m)
    first: dict[int, int] = {}
    for number, node in enumerate(search.nodes):
        first.setdefault(node.mover.rank, number)
    everything = tuple(first.values())
    search.changes([*((number,) for number in everything), everything], (0, 1))
    return sorted(search.attempts, key=lambda attempt: attempt.change.defect)


def _add_signs(probe: Probe, m: int, movers: list[LabelledCoordinates], result: Survey) -> None:
    """Give the factors their signs, and add blocks whose signs flip without permutations."""
    for number, factor in enumerate(result.factors):
        signed = signed_factor(probe, factor, result)
        if signed.signed and len(factor.movers) > 1:  # signs of parts that do not stand together
            result.remark(Reason.SIGNS_APART, factor.sites)
        else:
            result.factors[number] = signed
    taken = frozenset().union(*(factor.places for factor in result.factors))
    for mover in movers:
        if not mover.places & taken:
            single, tried = lone_signs(probe, [mover], m, taken)
            result.factors += single
            result.attempts += tried


def _group(layout: _Layout, result: Survey) -> Group:
    """Return the largest group among those found that acts on the parts where they stand."""
    factors = result.factors
    if len(factors) == 1 and not factors[0].signed:
        return _factors(layout, range(len(layout.parts)), factors[0])[0]
    used: list[Factor] = []
    for factor in sorted(factors, key=lambda each: -each.order):
        # A product acts on consecutive coordinates, so the factors must not interleave.
        if all(_apart(factor, other) for other in used):
            used.append(factor)
        else:
            result.remark(Reason.OVERLAPS, factor.sites)
    pieces: list[Group] = []
    place = 0
    while place < len(layout.parts):
        here = next((factor for factor in used if _spots(factor)[0] == place), None)
        last = place if here is None else _spots(here)[-1]
        pieces += _factors(layout, range(place, last + 1), here)
        place = last + 1
    return product(pieces)


def _factors(layout: _Layout, places: range, factor: Factor | None) -> list[Group]:
    """Return groups for some consecutive parts, moved by one factor."""
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
    """Return the places of the parts that a factor moves."""
    return [mover.rank for mover in factor.movers]


def _apart(factor: Factor, other: Factor) -> bool:
    mine, theirs = _spots(factor), _spots(other)
    return mine[-1] < theirs[0] or theirs[-1] < mine[0]
