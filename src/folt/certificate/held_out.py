"""Draws that training and selection cannot see.

A certificate read off draws that shaped the proposal would flatter it. So the draws set aside are
sealed: nothing gives them away but `judge`, which wants the finished log ratio, and which refuses
to judge a second one, because choosing the better of two by their certificates is selection too.

Held-out draws moved by the chain's own kernel, so that a slow reference does not blur them.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
from jaxtyping import Float

from folt.chains.independence import accepted
from folt.problem.ratio import LogRatio
from folt.types import Key, host_generator


@dataclasses.dataclass(frozen=True)
class Judged:
    """Held-out draws and the h of the one proposal that they judged.

    Attributes:
        points: (chain, draw, dim).
        log_ratio: h at them, (chain, draw).
        exact: whether they are independent draws of π_F by construction.
        steps: steps of the chain's kernel that each was moved by.
        before: the draws and their h before they were moved; None if they were not.
        proposed: h of all that was proposed to them on the way, each an independent draw of q_F.
        undefined: those of these proposals at which h is not a number.
    """

    points: Float[np.ndarray, "chain draw dim"]
    log_ratio: Float[np.ndarray, "chain draw"]
    exact: bool
    steps: int = 0
    before: tuple[Float[np.ndarray, "chain draw dim"], Float[np.ndarray, "chain draw"]] | None = (
        None
    )
    proposed: Float[np.ndarray, " n"] = dataclasses.field(default_factory=lambda: np.empty(0))
    undefined: Float[np.ndarray, "k dim"] | None = None

    @property
    def as_they_came(self) -> Float[np.ndarray, "chain draw dim"]:
        """The draws before any refreshment."""
        return self.points if self.before is None else self.before[0]

    @property
    def stayed(self) -> float:
        """Share of the draws that are where they were before any refreshment."""
        return float(np.mean(np.all(self.points == self.as_they_came, axis=-1)))

    @property
    def raw_log_ratio(self) -> Float[np.ndarray, "chain draw"]:
        """Their h before any refreshment, which says how dependent they are."""
        return self.log_ratio if self.before is None else self.before[1]


class HeldOut:
    """Reference draws under seal.

    Args:
        draws: (chain, draw, dim), folded; copied, so that no view of them stays outside.
        exact: whether they are independent draws of π_F by construction.
        log_target: log π_F at them, where it is known: sealed with them, and not computed again.
    """

    __slots__ = ("__draws", "__judged", "__log_target", "exact", "shape")

    def __init__(
        self,
        draws: Float[np.ndarray, "chain draw dim"],
        exact: bool,
        log_target: Float[np.ndarray, "chain draw"] | None = None,
    ):
        self.__draws = np.array(draws, np.float64)
        self.__log_target = None if log_target is None else np.array(log_target, np.float64)
        self.__judged: tuple[LogRatio, Judged] | None = None
        self.shape = self.__draws.shape
        self.exact = exact

    def judge(self, ratio: LogRatio) -> Judged:
        """Break the seal for one finished proposal.

        Raises:
            RuntimeError: the draws have judged another proposal already.
        """
        if self.__judged is not None:
            earlier, judged = self.__judged
            if earlier is not ratio:
                raise RuntimeError(
                    "these held-out draws have judged another proposal: a second one needs draws "
                    "of its own, because choosing between two by their certificates is selection"
                )
            return judged
        known = None if self.__log_target is None else self.__log_target.ravel()
        values = ratio.at(self.__draws.reshape(-1, self.shape[-1]), known).reshape(self.shape[:2])
        judged = Judged(self.__draws, values, self.exact)
        self.__judged = (ratio, judged)
        return judged


LEAST, MOST = 2, 12
"""Fewest and most steps of a refreshment."""

IMAGES = 1440
"""Most images of one draw that are summed over in a refreshment: many images, fewer steps."""

REMAINDER = 0.003
"""Share of draws that may stay where they were, at the acceptance that the chains had."""


def refreshed(key: Key, judged: Judged, ratio: LogRatio, steps: int) -> Judged:
    """Every held-out draw after some steps of independence Metropolis-Hastings of its own.

    The kernel leaves π_F invariant whatever the proposal is, so draws of π_F stay draws of π_F; a
    reference that is close to π_F but slow (dependent draws, modes weighted by where chains
    started) comes closer to it, and nothing can move it away. What the proposal misses is not
    repaired: where w is large no proposal is accepted, the draws stay, and every check still sees
    them. They also stay as dependent as they were, so that draws are counted as they came, without
    credit for having been moved (`folt.diagnostics.coupling_bounds`).

    Args:
        key: fresh proposals and uniforms come from it.
        judged: held-out draws with their h.
        ratio: the log ratio that judged them.
        steps: steps per draw.
    """
    shape = judged.points.shape
    points = judged.points.reshape(-1, shape[-1])
    values, drawn = judged.log_ratio.ravel(), [judged.proposed]
    undefined = [] if judged.undefined is None else [judged.undefined]
    for number in range(steps):
        propose_key = jax.random.fold_in(key, 2 * number)
        proposals, proposed = ratio.draw(propose_key, values.size)
        drawn.append(proposed)
        undefined.append(proposals[np.isnan(proposed)])
        generator = host_generator(jax.random.fold_in(key, 2 * number + 1))
        moved = accepted(generator, values, proposed)
        points = np.where(moved[:, None], proposals, points)
        values = np.where(moved, proposed, values)
    return dataclasses.replace(
        judged,
        points=points.reshape(shape),
        log_ratio=values.reshape(shape[:2]),
        steps=judged.steps + steps,
        proposed=np.concatenate(drawn),
        undefined=np.concatenate(undefined),
        before=(judged.points, judged.log_ratio) if judged.before is None else judged.before,
    )


def steps_for(accept_rate: float, order: int = 1) -> int:
    """Steps after which all but `REMAINDER` of the draws have moved, within reason."""
    most = max(LEAST, min(MOST, IMAGES // order))
    if accept_rate <= 0.0 or accept_rate >= 1.0:
        return most if accept_rate <= 0.0 else LEAST
    needed = math.ceil(math.log(REMAINDER) / math.log1p(-accept_rate))
    return min(max(needed, LEAST), most)
