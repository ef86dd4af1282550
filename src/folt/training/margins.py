"""Sinh-arcsinh margins around one Gaussian: what many dimensions afford instead of a mixture.

Margins by likelihood, coordinate by coordinate; in the coordinates that they give, one Gaussian by
score regression; then a few Gauss-Newton rounds on the log ratio in 6·d parameters, four of every
margin and one mean and one scale of every direction of the Gaussian.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from folt.proposals.components import Components
from folt.proposals.sums import ListedSum
from folt.proposals.warped import Margins, WarpedComponents
from folt.training.gauss_newton import stepped
from folt.training.orbit_em import core_of, score_regression
from folt.training.task import Bench, JudgedProposal
from folt.types import HostPoints, Progress

_WIDTH = 0.7
"""Where the Huber loss turns from square to linear: h is rougher in many dimensions."""

FITTED = 2_048
"""Draws that the margins are fitted to."""

_ITERATIONS = 40
"""Most steps of their likelihood."""

FAR_DRAWS, MOST_FAR = 8, 6
"""Draws outside the core that get a component of their own, and most such components."""

FAR_WIDER = 1.3
"""Factor on the covariance of these."""

OUTLYING = 8.0
"""Standard deviations of a gradient beyond which a draw says nothing about the core."""

_LEAST_DAMPING = 1e-3
"""Where the damping of Gauss-Newton steps begins, and below which it does not fall."""


@dataclasses.dataclass(frozen=True)
class FittedMargins:
    """How margins are fitted around a Gaussian.

    Attributes:
        rounds: most Gauss-Newton rounds.
        worthwhile: share of the autocorrelation time that a round must save.
    """

    rounds: int = 4
    worthwhile: float = 0.02

    def __call__(
        self, bench: Bench, pilot: Components, progress: Progress | None = None
    ) -> JudgedProposal[WarpedComponents] | None:
        """Return the best that was found; None without gradients, or where no Gaussian fits.

        Args:
            bench: draws, target and guard.
            pilot: one component, which labels the draws.
            progress: told the fraction done and a message.
        """
        first = _first(bench, pilot)
        return None if first is None else self.polished(bench, bench.judge(first), progress)

    def polished(
        self,
        bench: Bench,
        best: JudgedProposal[WarpedComponents],
        progress: Progress | None = None,
    ) -> JudgedProposal[WarpedComponents]:
        """Gauss-Newton rounds while they pay."""
        current, damping, recent = best.main, _LEAST_DAMPING, [best.fresh]
        for number in range(self.rounds):
            pool = bench.pool(current, recent)
            current, damping = stepped(current, pool, damping, _WIDTH, slopes, moved)
            damping = max(damping / 3.0, _LEAST_DAMPING)
            found, before = bench.judge(current), best.time
            recent = [recent[-1], found.fresh]
            best = found if found.time < best.time else best
            if progress is not None:
                message = f"margins, acceptance {best.accept:.3f}"
                progress((number + 1) / self.rounds, message)
            if found.time > (1.0 - self.worthwhile) * before:
                break
        return best


def _first(bench: Bench, pilot: Components) -> WarpedComponents | None:
    """Margins by likelihood and a Gaussian by scores, with components for draws far from it."""
    task = bench.task
    if task.differentiate is None:
        return None
    points = task.training.points
    shares = ListedSum((pilot,), bench.action).responsibilities(points)
    labelled = bench.action.move(shares.argmax(axis=1), points)
    core = core_of(labelled)
    inner = labelled[core]
    some = inner[:: max(1, len(inner) // FITTED)]
    margins = fit_margins(some)
    y, log_slopes = margins.pull(some)
    _, gradients = task.differentiate(some)
    with np.errstate(invalid="ignore"):
        gradients = (gradients - slope_of_log_slopes(margins, some)) * np.exp(-log_slopes)
        usual = np.abs(gradients) < OUTLYING * np.std(gradients, axis=0)
    rows = usual.all(axis=1)
    single = score_regression(y[rows], gradients[rows])
    if single is None:
        dim = y.shape[1]
        factor = np.linalg.inv(np.linalg.cholesky(np.cov(y.T).reshape(dim, dim)))
        single = Components(np.zeros(1), y.mean(axis=0)[None], factor[None])
    far = labelled[~core]
    if len(far) >= FAR_DRAWS:
        others = _around(bench.generator, margins.pull(far)[0], single)
        single = single.joined(others, len(far) / len(labelled))
    return WarpedComponents(single, margins)


def _around(generator: np.random.Generator, far: HostPoints, single: Components) -> Components:
    """Return a few components around draws that the single one does not reach, by k-means."""
    count = max(1, min(MOST_FAR, len(far) // FAR_DRAWS))
    factor = single.factors[0]
    centres = far[generator.choice(len(far), count, replace=False)]
    for _ in range(10):
        away = (far[:, None] - centres) @ factor.T
        nearest = np.sum(away**2, axis=2).argmin(axis=1)
        centres = np.stack(
            [
                far[nearest == number].mean(axis=0) if (nearest == number).any() else centre
                for number, centre in enumerate(centres)
            ]
        )
    weights = np.maximum(np.bincount(nearest, minlength=count), 1.0)
    factors = np.repeat(factor[None] / math.sqrt(FAR_WIDER), count, axis=0)
    return Components(np.log(weights / weights.sum()), centres, factors)


def fit_margins(points: HostPoints) -> Margins:
    """Margins under which every coordinate is as nearly standard normal as it can be.

    Damped steps by the outer products of the scores (Berndt, Hall, Hall and Hausman), all
    coordinates at once.
    """
    zeros = np.zeros(points.shape[1])
    margins = Margins(np.median(points, axis=0), np.log(points.std(axis=0)), zeros, zeros)
    value, damping = _likelihood(margins, points), np.full(points.shape[1], 0.1)
    for _ in range(_ITERATIONS):
        y, _ = margins.pull(points)
        into, plus = derivatives(margins, points)
        scores = plus - y[..., None] * into
        curvature = np.einsum("nda,ndb->dab", scores, scores) / len(points)
        diagonal = np.einsum("daa->da", curvature)
        curvature += (damping[:, None] * diagonal + 1e-9)[..., None] * np.eye(4)
        step = np.linalg.solve(curvature, scores.mean(axis=0)[..., None])[..., 0]
        step = np.clip(step, -0.5, 0.5)
        scale = np.exp(margins.log_scale)
        candidate = Margins(
            margins.centre + scale * step[:, 0],
            *(old + new for old, new in zip(margins[1:], step.T[1:], strict=True)),
        )
        found = _likelihood(candidate, points)
        better = found > value
        margins = Margins(
            *(np.where(better, new, old) for new, old in zip(candidate, margins, strict=True))
        )
        gained = np.where(better, found - value, 0.0).max()
        value, damping = np.where(better, found, value), damping * np.where(better, 0.3, 5.0)
        damping = np.clip(damping, 1e-4, 1e4)
        if better.all() and gained < 1e-5:
            break
    return margins


def _likelihood(margins: Margins, points: HostPoints) -> Float[np.ndarray, " dim"]:
    """Return the mean log likelihood of every coordinate, up to a constant."""
    y, slopes = margins.pull(points)
    with np.errstate(over="ignore"):
        return np.mean(slopes - 0.5 * y**2, axis=0)


def derivatives(
    margins: Margins, x: np.ndarray
) -> tuple[Float[np.ndarray, "... dim 4"], Float[np.ndarray, "... dim 4"]]:
    """Derivatives of y and of log dy/dx in centre (in units of the scale), log s, e and log t."""
    tail = np.exp(margins.log_tail)
    v = (x - margins.centre) * np.exp(-margins.log_scale)
    root = np.sqrt(1.0 + v**2)
    bent = tail * np.arcsinh(v)
    w = bent - margins.skew
    inner = np.stack([-tail / root, -tail * v / root, -np.ones_like(v), bent], axis=-1)
    extra = np.stack(
        [v / root**2, v**2 / root**2 - 1.0, np.zeros_like(v), np.ones_like(v)], axis=-1
    )
    w = np.clip(w, -350.0, 350.0)[..., None]
    return np.cosh(w) * inner, np.tanh(w) * inner + extra


def slope_of_log_slopes(margins: Margins, x: HostPoints) -> HostPoints:
    """Derivative of log dy/dx in x."""
    scale, tail = np.exp(margins.log_scale), np.exp(margins.log_tail)
    v = (x - margins.centre) / scale
    root = np.sqrt(1.0 + v**2)
    w = tail * np.arcsinh(v) - margins.skew
    return (np.tanh(w) * tail / root - v / root**2) / scale


def slopes(
    main: WarpedComponents, images: Float[np.ndarray, "n kept dim"], log_flow: np.ndarray
) -> Float[np.ndarray, "n parameters"]:
    """Derivatives of log q_F in the margins, and in mean and scales of the first component."""
    n, kept, dim = images.shape
    flat = images.reshape(-1, dim)
    y, _ = main.margins.pull(flat)
    terms = main.log_terms(flat)
    share = np.exp(terms - np.repeat(log_flow, kept)[:, None])
    into, plus = derivatives(main.margins, flat)
    pulls = np.zeros_like(y)
    for number in range(main.count):
        factor = main.base.factors[number]
        u = (y - main.base.means[number]) @ factor.T
        pulls -= share[:, number : number + 1] * (u @ factor)
        if number == 0:
            first = u
    margins = pulls[..., None] * into + share.sum(axis=1)[:, None, None] * plus
    own = share[:, :1]
    rows = [margins[..., kind] for kind in range(4)] + [own * first, own * (1.0 - first**2)]
    flat_rows = np.concatenate(rows, axis=1).astype(np.float32)
    return flat_rows.reshape(n, kept, -1).sum(axis=1)


def moved(main: WarpedComponents, step: Float[np.ndarray, " parameters"]) -> WarpedComponents:
    """Return the components after a step in the coordinates of `slopes`, clipped."""
    centre, scale, skew, tail, mean, width = np.clip(step, -0.5, 0.5).reshape(6, -1)
    old, base = main.margins, main.base
    margins = Margins(
        old.centre + np.exp(old.log_scale) * centre,
        old.log_scale + scale,
        old.skew + skew,
        old.log_tail + tail,
    )
    factor = base.factors[0]
    means, factors = base.means.copy(), base.factors.copy()
    means[0] += np.linalg.solve(factor, mean)
    factors[0] = np.exp(width)[:, None] * factor
    return WarpedComponents(dataclasses.replace(base, means=means, factors=factors), margins)
