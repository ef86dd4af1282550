"""Effort: what a fit may cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, get_args

from folt.problem.cards import Card, Shown
from folt.problem.requirements import named


@dataclasses.dataclass(frozen=True, repr=False)
class Effort(Shown):
    """What a fit may cost, as counts of work: the same effort and seed give the same draws.

    Use one of the three that exist, `Effort.quick()`, `Effort.default()` and `Effort.thorough()`,
    or change one: `dataclasses.replace(Effort.default(), particles=4096)`.

    Attributes:
        name: what it is called in reports.
        particles: particles of the tempering; a mode of weight ω needs several times 1/ω.
        moves: random-walk steps per temperature.
        chains: reference chains.
        draws: draws per reference chain.
        exact_draws: draws of an exact sampler, where the problem has one.
        training_draws: reference draws for training and selection together.
        held_out_draws: reference draws for the certificate.
        certification_draws: fresh proposals for the certificate and the evidence; more where the
            evidence would be blurred otherwise, unless evaluations are capped.
        rounds: most rounds of training per size; None for the trainer that goes on while h can be
            made flatter, whatever it costs.
        fresh: fresh proposals per round of training.
        steps_per_draw: most steps of the chain per recorded draw.
        walk_steps: random-walk steps per reference draw, where there is no gradient.
        evaluations: log densities that the counts above were cut down to; None for no limit.
        safety_weight: λ, the share of the proposal that is its tail safety; zero for none.
        burn_in: steps thrown away at the start of every chain, at least.
        sharper: most times as many proposals where the evidence would be blurred otherwise.
    """

    name: str
    particles: int
    moves: int
    chains: int
    draws: int
    exact_draws: int
    training_draws: int
    held_out_draws: int
    certification_draws: int
    rounds: int | None
    fresh: int
    steps_per_draw: int
    walk_steps: int = 8
    evaluations: int | None = None
    safety_weight: float = 0.02
    burn_in: int = 100
    sharper: int = 3

    def _card(self) -> Card:
        rounds = "as long as it gains" if self.rounds is None else f"at most {self.rounds} rounds"
        rows = [
            ("Reference", f"{self.particles:,} particles, {self.chains} chains of {self.draws}"),
            ("Training", f"{self.training_draws:,} draws, {rounds}"),
            ("Chain", f"at most {self.steps_per_draw} steps per draw"),
            (
                "Certificate",
                f"{self.held_out_draws:,} held-out draws, {self.certification_draws:,} proposals",
            ),
        ]
        if self.evaluations is not None:
            rows.append(("Limit", f"{self.evaluations:,} log densities"))
        return Card(f"Effort {self.name!r}", tuple(rows))

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < (0 if field.name == "rounds" else 1):
                raise ValueError(f"expected a positive {field.name}, got {value}")

    def within(self, evaluations: int) -> Effort:
        """The same effort cut down to about so many evaluations of the log density.

        About a seventh each goes to the tempering and to the draws, a tenth to the search where
        there is no prior, a fifth to the chains of the reference and a third to the certificate,
        which needs thousands of held-out draws to say anything at 5 %. Fewer particles find fewer
        modes: a cap is for densities whose calls are expensive.

        Raises:
            ValueError: fewer than `_FEWEST`.
        """
        if evaluations < _FEWEST:
            raise ValueError(f"expected at least {_FEWEST} evaluations, got {evaluations}")
        chains = _between(12, evaluations // 1_250, self.chains)
        most = self.chains * self.draws // chains
        draws = _between(24, 2 * evaluations // (15 * chains), most)
        count = chains * draws
        learnt = max(count // 6, min(evaluations // 40, count // 4))
        held_out = min(count - learnt, self.held_out_draws)
        rounds = max(3, evaluations // 200_000)
        return dataclasses.replace(
            self,
            particles=_between(128, evaluations // 210, self.particles),
            moves=_between(3, evaluations // 7_500, self.moves),
            chains=chains,
            draws=draws,
            training_draws=min(count - held_out, self.training_draws),
            held_out_draws=held_out,
            certification_draws=_between(1_000, evaluations // 24, self.certification_draws),
            rounds=rounds if self.rounds is None else min(rounds, self.rounds),
            fresh=_between(256, evaluations // 50, self.fresh),
            steps_per_draw=_between(1, evaluations // 500_000, self.steps_per_draw),
            walk_steps=max(1, evaluations // 50_000),
            evaluations=evaluations,
        )

    def with_many_rows(self) -> Effort:
        """The same effort for very many observations: half the draws and proposals.

        Such posteriors are nearly Gaussian, so that proposals are accepted nearly always.
        """
        return dataclasses.replace(
            self,
            draws=self.draws // 2,
            training_draws=self.training_draws // 2,
            held_out_draws=self.held_out_draws // 2,
            certification_draws=self.certification_draws // 2,
            fresh=self.fresh // 2,
            sharper=1,
        )

    @classmethod
    def quick(cls) -> Effort:
        """Return a first look: fewer chains, a single round of training, a smaller certificate."""
        return cls(
            name="quick",
            particles=1_024,
            moves=10,
            chains=128,
            draws=40,
            exact_draws=8_192,
            training_draws=2_048,
            held_out_draws=3_072,
            certification_draws=8_192,
            rounds=1,
            fresh=2_048,
            steps_per_draw=2,
        )

    @classmethod
    def default(cls) -> Effort:
        """Training stops where more steps per draw are cheaper than more training."""
        return cls(
            name="default",
            particles=1_024,
            moves=10,
            chains=128,
            draws=80,
            exact_draws=12_800,
            training_draws=5_120,
            held_out_draws=5_120,
            certification_draws=20_000,
            rounds=8,
            fresh=4_096,
            steps_per_draw=10,
        )

    @classmethod
    def thorough(cls) -> Effort:
        """Training goes on while h becomes flatter, at many times the cost: for γ, for tables."""
        return cls(
            name="thorough",
            particles=1_000,
            moves=10,
            chains=100,
            draws=250,
            exact_draws=25_000,
            training_draws=5_000,
            held_out_draws=20_000,
            certification_draws=20_000,
            rounds=None,
            fresh=8_192,
            steps_per_draw=10,
        )


_FEWEST = 5_000
"""Fewest evaluations with which a reference run, training and certificate make sense."""


BUDGET = 60.0
"""Seconds of evaluations that a fit of a black box may take unless it is told otherwise."""

MOST_UNASKED = 400_000
"""Most evaluations that a black box gets unasked.

A sum of three exponentials in NumPy was in doubt with 45 000 and right with so many."""


def evaluations_of_black_box(dim: int, pace: float) -> int:
    """Return evaluations that a fit of a black box takes unless it is told otherwise.

    The seconds per evaluation count as the nearest power of ten, so that a machine that is a
    little slower today makes the same draws: 400 000 evaluations below .3 ms, 60 000 below 3 ms,
    and beyond that as few as a certificate can do with, however long they take.

    Args:
        dim: number of coordinates.
        pace: seconds per evaluation.
    """
    fewest = max(30_000, 7_500 * dim)
    seconds = 10.0 ** round(math.log10(max(pace, 1e-9)))
    return max(fewest, min(round(BUDGET / seconds), MOST_UNASKED))


def _between(low: int, value: int, high: int) -> int:
    return max(min(low, high), min(value, high))


EffortName = Literal["quick", "default", "thorough"]

EFFORTS: dict[str, Callable[[], Effort]] = {
    name: getattr(Effort, name) for name in get_args(EffortName)
}
"""The efforts by name, for the command line and for those who write a word."""


def effort_named(given: object) -> Effort:
    """Return the effort that is given or that a word names; the default one for None.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(given, Effort):
        return given
    if given is None or (isinstance(given, str) and given in EFFORTS):
        return EFFORTS[given or "default"]()
    words = ", ".join(map(repr, EFFORTS))
    raise ValueError(f"expected effort to be {words} or a folt.Effort, got {named(given)}")
