"""Presets: which reference run, which trainer, how much safety, how many draws."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from folt.problem import Problem
from folt.reference import Exact, HostChains, Sampler
from folt.reference.cautions import Caution, Concern
from folt.reference.exploration.descents import LAST_STARTS, ROUNDS, SLOTS
from folt.training import OrbitMixture
from folt.training.effort import EFFORTS, Effort, evaluations_of_black_box
from folt.types import Trainer

GUARD_WEIGHT = 0.02
"""λ of the tail safety."""

VALUES_PER_GRADIENT = 3
"""What a gradient costs, in values."""

PARTICLES_PER_MODE = 5
"""Particles that a mode should have on average to be found."""


@dataclasses.dataclass(frozen=True)
class Preset:
    """A protocol.

    Attributes:
        effort: what the fit may cost.
        trainer: makes the proposal from the reference draws.
        safety_weight: λ of the tail safety; zero for none.
        training_draws: reference draws for training and selection together.
        certification_draws: fresh proposals for the certificate.
        burn_in: steps thrown away at the start of every chain.
        name: stands in the provenance of a fit.
    """

    effort: Effort
    trainer: Trainer
    safety_weight: float
    training_draws: int
    certification_draws: int
    burn_in: int
    name: str = "own"

    def reference(self, problem: Problem) -> Sampler:
        """The reference run: exact draws where there is a sampler, else particles and chains."""
        effort = self.effort
        if problem.sampler is not None:
            return Exact(effort.exact_draws, effort.chains)
        return HostChains(
            particles=effort.particles,
            moves=effort.moves,
            chains=effort.chains,
            draws=effort.draws,
            thin=effort.walk_steps,
            **({} if effort.evaluations is None else _economical(effort.evaluations, problem.dim)),
        )


def _economical(evaluations: int, dim: int) -> dict[str, Any]:
    """A search that takes a tenth of the evaluations, walks, fewer leaps, chains of one length.

    Another tenth goes to descents, if that is enough for them to arrive somewhere.
    """
    first, more = 30, 8
    walkers = evaluations // (10 * (first + more * dim))
    rounds = evaluations // (10 * SLOTS * VALUES_PER_GRADIENT)
    return {
        "share": 0.4,
        "descents": min(rounds, ROUNDS) if rounds > LAST_STARTS else 0,
        "searchers": min(max(walkers, 32), 512),
        "search_steps": (first, more),
        "paths": 0,
        "leap_every": 2,
        "longest": 1,
    }


def preset_of(effort: Effort) -> Preset:
    """Folt's own protocol at an effort."""
    return Preset(
        effort,
        OrbitMixture.at(effort),
        GUARD_WEIGHT,
        effort.training_draws,
        effort.certification_draws,
        100,
        "default",
    )


def paper_preset() -> Preset:
    """The paper's own protocol, whose flow lives in the paper's room above this one."""
    from folt.paper.training import PaperFlow

    return Preset(Effort.thorough(), PaperFlow(), 0.0, 50_000, 20_000, 1_000, "paper")


PRESETS = {"default": lambda: preset_of(Effort.default()), "paper": paper_preset}
"""Protocols by the name that `folt.sample` takes, made when they are asked for."""


def preset_named(name: str | Preset, effort: Effort | None = None) -> Preset:
    """The preset of this name, at an effort; a preset of one's own as it is.

    Raises:
        ValueError: naming those that exist; or an effort for the paper's protocol, which has its
            own.
    """
    if isinstance(name, Preset):
        if effort is not None:
            raise ValueError(f"expected no effort with preset {name.name!r}, which has its own")
        return name
    if name not in PRESETS:
        raise ValueError(f"expected preset {' or '.join(map(repr, PRESETS))}, got {name!r}")
    if effort is None:
        return PRESETS[name]()
    if not isinstance(effort, Effort):
        raise ValueError(
            f"expected an effort such as folt.Effort.thorough(), got {type(effort).__name__}"
        )
    if name != "default":
        raise ValueError(f"expected no effort with preset {name!r}, which has its own")
    return preset_of(effort)


def capped(
    problem: Problem,
    effort: Effort | None,
    preset: str | Preset,
    evaluations: int | None,
    pace: float,
) -> Effort | None:
    """The effort within the cap on evaluations: as asked for, or by their pace without gradient.

    Args:
        problem: what is evaluated.
        effort: as asked for.
        preset: the protocol; others than folt's own have no cap.
        evaluations: the cap that was asked for.
        pace: seconds per evaluation, as measured.
    """
    usual = effort in (None, Effort.quick(), Effort.default())
    if evaluations is None and usual and not problem.differentiable:
        evaluations = evaluations_of_black_box(problem.dim, pace)
    if evaluations is None or preset != "default":
        return effort
    return (Effort.default() if effort is None else effort).within(evaluations)


def cap_cautions(effort: Effort) -> tuple[Caution, ...]:
    """What a cap on evaluations cost, against the same effort without it."""
    usual = EFFORTS[effort.name]() if effort.name in EFFORTS else effort
    if effort.evaluations is None or effort.particles >= usual.particles:
        return ()
    caution = Caution.of(
        Concern.CAPPED,
        evaluations=effort.evaluations,
        particles=effort.particles,
        usual=usual.particles,
        weight=PARTICLES_PER_MODE / effort.particles,
        blur=math.sqrt(usual.certification_draws / effort.certification_draws),
    )
    return (caution,)
