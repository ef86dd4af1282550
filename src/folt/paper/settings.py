"""What a run was asked for, and the budget that follows from it."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Literal

from folt.paper.training import PaperFlow
from folt.reference import AdaptiveRandomWalk, Exact, HostChains
from folt.store.strict_json import Document
from folt.training import OrbitMixture
from folt.types import ReferenceSampler, Trainer

PAPER_DRAWS = Exact(draws=70_000)
"""Exact draws in the paper's protocol: 50 000 to learn from and 20 000 to certify with."""

PAPER_WALK = AdaptiveRandomWalk(steps=800_000, keep=70_000)
"""The paper's pre-run, made longer until its held-out draws are enough to certify with: 400 000
steps, after as many that only adapt."""

USUAL_EFFORT = "thorough"
"""The published figures are of a flat h, which is what this one trains for."""

QUICK_WALK = AdaptiveRandomWalk(steps=40_000, keep=20_000)
QUICK_CHAINS = HostChains(particles=500, moves=10, chains=60, draws=200, warmup=30)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What was asked for.

    Attributes:
        preset: "default" for folt's own protocol, "paper" for the paper's.
        quick: fewer cases, draws and training steps; such rows are never mixed with others.
        seed: S of the first run of a case.
        seeds: seeds S, S+1, ... of every folded case.
        identity_orbit: truncate the orbit to N = {e}, the sampler behind the published tables.
        data: a measured spectrum for `modal`.
        effort: name of the effort of folt's own protocol; the paper's has its own.
    """

    preset: Literal["default", "paper"] = "default"
    quick: bool = False
    seed: int = 0
    seeds: int = 3
    identity_orbit: bool = False
    data: Path | None = None
    effort: str = USUAL_EFFORT

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.seed < 0:
            raise ValueError(f"expected seeds ≥ 1 and seed ≥ 0, got {self.seeds} and {self.seed}")
        if self.data is not None and not self.data.is_file():
            raise ValueError(f"expected a file with columns frequency_hz,psd, got {self.data}")

    @property
    def folded_seeds(self) -> tuple[int, ...]:
        """One run of a folded case each."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def paper(self) -> bool:
        """Whether the paper's protocol runs."""
        return self.preset == "paper"

    @property
    def draws(self) -> int:
        """Kept draws of a chain; the paper throws 1000 of 5000 away."""
        if self.quick:
            return 1_000
        return 4_000 if self.paper else 5_000

    def trainer(self) -> Trainer | None:
        """The trainer, or None for that of the preset."""
        if not self.quick:
            return None
        if self.paper:
            return PaperFlow(layers=4, width=32, steps=200)
        return OrbitMixture(size=6, labellings=1, rounds=4, fresh=1024)

    def reference(self, exact: bool) -> ReferenceSampler | None:
        """The reference run, or None for folt's choice."""
        if self.quick and not exact:
            return QUICK_WALK if self.paper else QUICK_CHAINS
        if self.quick or not self.paper:
            return None
        return PAPER_DRAWS if exact else PAPER_WALK

    def fingerprint(self, name: str) -> Document:
        """What must agree for rows to stand in one file."""
        measured = self.data if name == "modal" else None
        other = {} if self.effort == USUAL_EFFORT else {"effort": self.effort}
        return {
            **other,
            "preset": self.preset,
            "quick": self.quick,
            "seed": self.seed,
            "identity_orbit": self.identity_orbit,
            "data": None if measured is None else _digest(measured),
        }

    def command(self, name: str) -> str:
        """The command that asks for this."""
        words = ["folt reproduce", name, "--preset", self.preset]
        words += ["--quick"] * self.quick + ["--identity-orbit"] * self.identity_orbit
        words += [] if self.effort == USUAL_EFFORT else ["--effort", self.effort]
        words += ["--seed", str(self.seed), "--seeds", str(self.seeds)]
        if self.data is not None and name in ("modal", "all"):
            words += ["--data", self.data.name]
        return " ".join(words)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
