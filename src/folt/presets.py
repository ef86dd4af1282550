"""Presets: which trainer, how much safety, how many draws."""

from __future__ import annotations

import dataclasses
from typing import Any

from folt.training import OrbitMixture, PaperFlow


@dataclasses.dataclass(frozen=True)
class Preset:
    """A protocol.

    Attributes:
        trainer: makes the proposal from the reference draws.
        safety_weight: λ of the tail safety; zero for none.
        training_draws: reference draws for training and selection together.
        certification_draws: held-out draws, and fresh proposals, for the certificate.
        burn_in: steps thrown away at the start of every chain.
    """

    trainer: Any
    safety_weight: float
    training_draws: int
    certification_draws: int
    burn_in: int


PRESETS = {
    "default": Preset(OrbitMixture(), 0.02, 5_000, 20_000, 100),
    "paper": Preset(PaperFlow(), 0.0, 50_000, 20_000, 1_000),
}


def preset_named(name: str) -> Preset:
    """The preset of this name.

    Raises:
        ValueError: naming those that exist.
    """
    if name not in PRESETS:
        raise ValueError(f"expected preset {' or '.join(map(repr, PRESETS))}, got {name!r}")
    return PRESETS[name]
