"""Modes: distinct ends of descents under the group, polished, with Laplace's masses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator

import numpy as np
from jaxtyping import Bool, Float, Int

from folt.certificate.exploration import RULE_OF_THREE
from folt.proposals.action import Action
from folt.proposals.components import Components
from folt.reference.exploration.descents import Ends, Gradients, runaways
from folt.reference.exploration.images import nearest_images
from folt.reference.landscape import Matrix
from folt.types import HostPoints, HostValues

_MOST, MOST_LOOKED_AT = 24, 48
"""Most modes, and most ends that are looked at for them, best first."""

_DEPTH = 12.0
"""Log mass below the heaviest mode at which a mode is dropped: one of 1 in 160 000."""

_NEWTON_STEPS = 8
"""Most Newton steps from an end of a descent to its mode."""

_STEPS = (1.0, 0.5, 0.2, 0.05)
"""Shares of a Newton step of which the best is taken: along a curved ridge the whole step loses."""

_ARRIVED, _STATIONARY = 1e-3, 0.1
"""Predicted gain of a Newton step, in nats, at which a mode is found, and above which an end of a
descent that Newton steps could not improve is no mode."""

_DIFFERENCE = 1e-4
"""Largest step of the differences of gradients, in widths of the start, and ..."""

OWN_DIFFERENCE = 0.02
"""... in standard deviations of the mode, once its curvature is known."""

_FLAT = 1e-2
"""Precision, in units of the start's, below which a direction counts as flat: such a mode is kept
with this precision there."""

REACH = 4.0
"""An end belongs to a mode if r² < REACH·(Δ + ¼): r its distance in standard deviations of the
mode, Δ how far it lies below it in nats, where r² = 2Δ for a Gaussian."""

STRAYS = 12
"""Ends at no known mode that are looked at for whether they are maxima of their own."""

RIPPLED = 0.5
"""Share of these ends that must be maxima for the density to be rough. Of ends under ripples .96 to
one are, of two sinusoids two thirds; of a mixture of regressions a sixth, whose scattered ends, a
few of twelve, were .05 to .24 of all on three seeds, of a hidden Markov model a third."""

NARROWER = 1.15
"""By how much narrower a mode may be that would still have been met: 5 descents in 3 dimensions, 49
in 20 and 800 in 40. Of 134 random mixtures eleven in twenty and more dimensions had lost modes at
first that were met as often; one of them was incomplete. 1.12 lets two more pass that were."""

SOURCES, RUNG_SOURCE, SCREENED_SOURCE = 3, 1, 2
"""Where descents begin: at the start, at a rung of the ladder, or where screening says."""

_DEGREES = 5.0
"""Degrees of freedom of the components that stand for modes."""

PerMode = Float[np.ndarray, " modes"]


@dataclasses.dataclass(frozen=True, eq=False)
class Modes:
    """Modes of a density, one image of each, the heaviest first.

    Attributes:
        points: where they are.
        values: log π_F there.
        factors: roots of the precisions, factor·(x - mode) is standard.
        log_masses: Laplace's estimate of the log of their mass of π_F.
        hits: descents that ended in each, (mode, source).
        peaked: whether the curvature is positive in every direction; one that is not is kept with
            a floor.
        descents: descents made, but for those that screening proposed.
        arrived: how many of them ended at a maximum, light ones included.
        once: ends whose log density comes near the best that were reached by a single descent,
            those that are no modes included.
        scattered: share of the arrived descents, estimated from some of them, that ended at a
            maximum of their own which no other descent reached; zero where most of them are none.
        gradients: gradients that descents and Newton steps took.
        runaways: descents that left the start behind and gain without end.
        runaway: the coordinate along which they went farthest, counted from zero.
        astray: descents that ended by themselves with a log density near the best, but at no
            maximum.
    """

    points: Float[np.ndarray, "modes dim"]
    values: PerMode
    factors: Float[np.ndarray, "modes dim dim"]
    log_masses: PerMode
    hits: Int[np.ndarray, "modes sources"]
    peaked: Bool[np.ndarray, " modes"]
    descents: int
    arrived: int
    once: int
    scattered: float
    gradients: int
    runaways: int = 0
    runaway: int = 0
    astray: int = 0

    @property
    def count(self) -> int:
        """Number of modes."""
        return len(self.values)

    def components(self, weights: PerMode) -> Components:
        """Return a heavy-tailed component at every mode, with these shares."""
        logs = np.log(weights / weights.sum())
        return Components(logs, self.points, self.factors, _DEGREES)

    def distances(self, action: Action, points: HostPoints) -> Float[np.ndarray, "n modes"]:
        """Return squared distance of points to every mode under any label, in its own metric."""
        folded = action.fold(points)
        columns = [
            nearest_images(action, folded, point, factor)[1]
            for point, factor in zip(self.points, self.factors, strict=True)
        ]
        return np.stack(columns, axis=1)

    def gathered(self, action: Action, points: HostPoints) -> tuple[HostPoints, HostPoints]:
        """Return the image of every point that lies at the mode nearest to it, and its offset.

        Modes stand under labels of their own, each under one.
        """
        folded, images = action.fold(points), np.empty_like(points)
        owners = self.distances(action, points).argmin(axis=1)
        for owner in np.unique(owners):
            mine, factor = owners == owner, self.factors[owner]
            images[mine] = nearest_images(action, folded[mine], self.points[owner], factor)[0]
        return images, images - self.points[owners]

    def within(self, action: Action, points: HostPoints) -> Bool[np.ndarray, "n modes"]:
        """Return which points lie in the ball that holds nearly all of a mode, under any label.

        r² of a Gaussian of dimension d has mean d and standard deviation √(2d).
        """
        dim = points.shape[1]
        reach = dim + 4.0 * math.sqrt(2.0 * dim)
        return self.distances(action, points) < reach

    def often(self) -> Bool[np.ndarray, " modes"]:
        """Return which modes descents from the start met so often that narrower ones would show.

        Basins shrink with the d-th power of the width: one that is narrower by a factor c attracts
        c^-d as many starts, and was met with 95 % if this mode was met h ≥ 3·c^d times.
        """
        return self.hits[:, 0] >= RULE_OF_THREE * NARROWER ** self.points.shape[1]


@np.errstate(over="ignore", invalid="ignore")  # ends of searches may lie anywhere
def modes_of(
    gradients: Gradients,
    ends: Ends,
    centre: Float[np.ndarray, " dim"],
    scale: Float[np.ndarray, " dim"],
    action: Action,
    known: Modes | None = None,
    block: int = 1,
    unpromising: int = MOST_LOOKED_AT,
) -> Modes | None:
    """Return the distinct modes that descents ended in; None where no end is usable.

    Args:
        gradients: log π_F and its gradient at many points.
        ends: the ends of descents.
        centre: middle of the start.
        scale: its width in every coordinate.
        action: the group: ends that are images of each other are one mode.
        known: modes found before, which are kept, and their hits counted, whether or not a descent
            ended there again.
        block: gradients that cost as much as one: ends are polished ahead in one block, and some
            of them in vain.
        unpromising: most ends that are looked at far below the best.
    """
    away = runaways(gradients, ends, centre, scale)
    points, values = action.fold(ends.points), ends.values
    hits = np.eye(SOURCES, dtype=int)[ends.sources]
    if known is not None:
        points = np.concatenate([known.points, points])
        values = np.concatenate([known.values, values])
        hits = np.concatenate([known.hits, hits])
    left = np.isfinite(values)
    nowhere = np.ones(len(values), bool)
    promising = values > np.max(values, initial=-np.inf) - _DEPTH - points.shape[1]
    found: list[_Mode] = []
    spent, once, arrived = ends.gradients + away.gradients, 0, 0
    ahead: dict[int, tuple[_Mode | None, int]] = {}
    together = max(1, block // (2 * points.shape[1] + 1))
    for _ in range(MOST_LOOKED_AT):
        if not left.any() or len(found) == _MOST:
            break
        best = int(np.flatnonzero(left)[values[left].argmax()])
        unpromising -= not promising[best]
        if unpromising < 0:
            break
        if best not in ahead:
            rows = np.flatnonzero(left)
            rows = rows[np.argsort(-values[rows], kind="stable")[:together]]
            ahead = dict(zip(rows.tolist(), _polished(gradients, points[rows], scale), strict=True))
        mode, cost = ahead[best]
        spent += cost
        left[best] = False
        if mode is None or mode.gain > _STATIONARY:
            once += int(promising[best])
            continue
        squares = nearest_images(action, points, mode.point, mode.factor)[1]
        near = squares < REACH * (np.maximum(mode.value - values, 0.0) + 0.25)
        near = (near & left) | (np.arange(len(left)) == best)
        left &= ~near
        nowhere &= ~(near & mode.peaked)
        arrived += int(hits[near, :SCREENED_SOURCE].sum())
        there = _same(mode, found, action)
        if there is None:
            mode.best, there = bool(promising[best]), mode
            found.append(mode)
        there.hits = there.hits + hits[near].sum(axis=0)
    if not found:
        return None
    once += sum(mode.best and int(mode.hits.sum()) == 1 for mode in found)
    arriving = ends.arrived & (ends.sources < SCREENED_SOURCE)
    stray = np.flatnonzero(arriving & left[len(left) - len(arriving) :])
    apart, cost = _maxima_apart(gradients, action.fold(ends.points[stray]), scale, action)
    spent += cost
    scattered = apart * stray.size / max(int(arriving.sum()), 1)
    kept = _heavy(found, action)
    return Modes(
        np.stack([mode.point for mode in kept]),
        np.array([mode.value for mode in kept]),
        np.stack([mode.factor for mode in kept]),
        np.array([mode.log_mass for mode in kept]),
        np.stack([mode.hits for mode in kept]),
        np.array([mode.peaked for mode in kept]),
        int(np.sum(ends.sources < SCREENED_SOURCE)) + (0 if known is None else known.descents),
        arrived,
        once + int(np.sum(left & promising)),
        scattered if known is None else max(scattered, known.scattered),
        spent + (0 if known is None else known.gradients),
        away.searches + (0 if known is None else known.runaways),
        away.coordinate if away.searches or known is None else known.runaway,
        int(np.sum((nowhere & promising)[len(values) - len(ends.values) :] & ends.arrived))
        + (0 if known is None else known.astray),
    )


@dataclasses.dataclass(eq=False)
class _Mode:
    point: Float[np.ndarray, " dim"]
    value: float
    factor: Matrix
    log_mass: float
    gain: float
    peaked: bool
    best: bool = False
    hits: Int[np.ndarray, " sources"] = dataclasses.field(
        default_factory=lambda: np.zeros(SOURCES, int)
    )


def _polished(
    gradients: Gradients, points: HostPoints, scale: Float[np.ndarray, " dim"]
) -> list[tuple[_Mode | None, int]]:
    """Return the mode near each point by Newton steps in lock step, and the gradients it took."""
    searches = {number: _newton_steps(point, scale) for number, point in enumerate(points)}
    probes = {number: next(search) for number, search in searches.items()}
    found: dict[int, tuple[_Mode | None, int]] = {}
    while probes:
        values, slopes = gradients(np.concatenate(list(probes.values())))
        places = np.cumsum([len(each) for each in probes.values()])[:-1]
        parts = zip(np.split(values, places), np.split(slopes, places), strict=True)
        for number, part in zip(list(probes), parts, strict=True):
            try:
                probes[number] = searches[number].send(part)
            except StopIteration as end:
                found[number] = end.value
                del probes[number]
    return [found[number] for number in range(len(points))]


def _newton_steps(
    point: Float[np.ndarray, " dim"], scale: Float[np.ndarray, " dim"]
) -> Generator[HostPoints, tuple[HostValues, HostPoints], tuple[_Mode | None, int]]:
    """Ask for values and gradients at probes until the mode near a point is found, or is none.

    The Hessian is made of central differences of the gradient, in units of the start's widths; the
    differences follow the curvature, so that a narrow mode is not stepped over.
    """
    dim, cost = point.size, 0
    step, current, mode = np.full(dim, _DIFFERENCE), point, None
    for number in range(_NEWTON_STEPS + 1):
        offsets = np.diag(step * scale)
        probes = np.concatenate([current[None], current + offsets, current - offsets])
        values, slopes = yield probes
        cost += len(probes)
        slopes = slopes * scale
        hessian = -(slopes[1 : dim + 1] - slopes[dim + 1 :]) / (2.0 * step)[:, None]
        if not (np.isfinite(values).all() and np.isfinite(hessian).all()):
            break
        curvatures, directions = np.linalg.eigh(0.5 * (hessian + hessian.T))
        floor = max(_FLAT, 1e-8 * float(curvatures.max()))
        peaked = bool(curvatures.min() > floor)
        curvatures = np.where(curvatures > floor, curvatures, np.maximum(-curvatures, floor))
        log_mass = (
            values[0]
            + 0.5 * dim * math.log(2.0 * math.pi)
            - 0.5 * float(np.sum(np.log(curvatures)))
            + float(np.sum(np.log(scale)))
        )
        factor = (directions * np.sqrt(curvatures)).T / scale
        move = directions @ ((directions.T @ slopes[0]) / curvatures)
        gain = 0.5 * float(slopes[0] @ move)
        mode = _Mode(current, float(values[0]), factor, float(log_mass), gain, peaked)
        own = np.einsum("ij,j,ij->i", directions, curvatures, directions)
        finer = np.minimum(_DIFFERENCE, OWN_DIFFERENCE / np.sqrt(np.maximum(own, _FLAT)))
        settled = np.all(finer > 0.3 * step)
        if (gain < _ARRIVED and settled) or number == _NEWTON_STEPS:
            break
        step = finer
        if gain >= _ARRIVED:
            trials = current + np.outer(_STEPS, move * scale)
            gained = np.nan_to_num((yield trials)[0], nan=-np.inf)
            cost += len(trials)
            if gained.max() <= mode.value:
                break
            current = trials[gained.argmax()]
    return mode, cost


def _maxima_apart(
    gradients: Gradients, points: HostPoints, scale: Float[np.ndarray, " dim"], action: Action
) -> tuple[float, int]:
    """Share of points that are maxima, each of its own, and the gradients that it took to tell.

    Some of the points are looked at. A landscape of ripples stops descents wherever they come by:
    each of its maxima is light, all of them together need not be. Ends on a plateau or a ridge are
    no maxima, and a light mode that several of the points belong to is one that was found. Where
    fewer than `RIPPLED` of the points are maxima, descents are slow, not stopped: none counts.
    """
    chosen = points[:: max(1, -(-len(points) // STRAYS))]
    found: list[_Mode] = []
    spent = maxima = 0
    for mode, cost in _polished(gradients, chosen, scale):
        spent += cost
        if mode is None or not mode.peaked or mode.gain > _STATIONARY:
            continue
        maxima += 1
        there = _same(mode, found, action)
        if there is None:
            there = mode
            found.append(mode)
        there.hits = there.hits + 1
    if maxima < RIPPLED * len(chosen):
        return 0.0, spent
    alone = sum(bool(mode.hits.max() == 1) for mode in found)
    return alone / max(len(chosen), 1), spent


def _same(mode: _Mode, found: list[_Mode], action: Action) -> _Mode | None:
    """Return the mode found before that this one is, or None: Newton steps may lead far."""
    for other in found:
        square = nearest_images(action, mode.point[None], other.point, other.factor)[1][0]
        if square < REACH * (max(other.value - mode.value, 0.0) + 0.25):
            return other
    return None


def _heavy(found: list[_Mode], action: Action) -> list[_Mode]:
    """Return the modes that matter, the heaviest first; one that elements fix counts in part."""
    for mode in found:
        if action.listed and action.group.order > 1:
            u = (action.images(mode.point[None])[0] - mode.point) @ mode.factor.T
            same = int(np.sum(np.einsum("ij,ij->i", u, u) < 1e-4 * mode.point.size))
            mode.log_mass -= math.log(max(same, 1))
    heaviest = max(mode.log_mass for mode in found)
    kept = [mode for mode in found if mode.log_mass > heaviest - _DEPTH]
    return sorted(kept, key=lambda mode: -mode.log_mass)
