"""Log ratios that are not finite: rejections and real faults, counted apart."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np


@dataclasses.dataclass(frozen=True)
class Faults:
    """Log ratios that are not finite among proposals: rejections and real faults.

    Attributes:
        outside_support: proposals where the target vanishes.
        not_a_number: proposals with NaN.
        infinite: proposals with +inf.
        died: proposals with a labelling that a truncated orbit leaves out: rejections too.
        proposals: how many were looked at; zero where that is not known.
        largest_nearby: the largest weight, the mean being one, that the surroundings of proposals
            with NaN suggest; None where none were looked at.
        point: one of them, the user's parameters by name.
        at_draws: held-out draws with NaN or +inf, which no surroundings excuse.
    """

    RARE: ClassVar[float] = 1e-3
    """Share of proposals up to which NaN may count as the density being zero."""

    NEGLIGIBLE: ClassVar[float] = 1e-3
    """Weight, the mean being one, up to which it may."""

    SHOWN: ClassVar[int] = 6
    """Parameters of the point that a sentence lists."""

    outside_support: int
    not_a_number: int
    infinite: int
    died: int = 0
    proposals: int = 0
    largest_nearby: float | None = None
    point: tuple[tuple[str, float], ...] = ()
    at_draws: int = 0

    def __post_init__(self) -> None:
        pairs = ((str(name), math.nan if value is None else value) for name, value in self.point)
        object.__setattr__(self, "point", tuple(pairs))

    @property
    def share(self) -> float:
        """Share of the proposals with NaN."""
        return self.not_a_number / self.proposals if self.proposals else math.inf

    @property
    def harmless(self) -> bool:
        """Whether NaN counts as the density being zero: rare, and only where no mass can be."""
        nearby = math.inf if self.largest_nearby is None else self.largest_nearby
        rare = self.share <= self.RARE
        return self.not_a_number == 0 or (rare and nearby <= self.NEGLIGIBLE)

    @property
    def real(self) -> int:
        """Values that are no rejection: +inf, and NaN where it may hide mass."""
        return self.infinite + self.at_draws + (0 if self.harmless else self.not_a_number)

    @property
    def where(self) -> str:
        """The point in words, the first few parameters."""
        if not self.point:
            return "a point that was not kept"
        named = [f"{name} = {value:.4g}" for name, value in self.point[: self.SHOWN]]
        return ", ".join(named) + (", …" if len(self.point) > self.SHOWN else "")

    @classmethod
    def count(cls, log_ratios: np.ndarray, died: int = 0) -> Faults:
        """Count -inf (outside the support, but for those that died), NaN and +inf."""
        return cls(
            int(np.isneginf(log_ratios).sum()) - died,
            int(np.isnan(log_ratios).sum()),
            int(np.isposinf(log_ratios).sum()),
            died,
            int(np.size(log_ratios)),
        )
