"""Log ratios that are not finite: rejections and real faults, counted apart."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Faults:
    """Log ratios that are not finite among proposals: rejections and real faults."""

    outside_support: int
    not_a_number: int
    infinite: int

    @property
    def real(self) -> int:
        """Values that are no rejection: NaN and +inf."""
        return self.not_a_number + self.infinite

    @classmethod
    def count(cls, log_ratios: np.ndarray) -> Faults:
        """Count -inf (outside the support), NaN and +inf."""
        return cls(
            int(np.isneginf(log_ratios).sum()),
            int(np.isnan(log_ratios).sum()),
            int(np.isposinf(log_ratios).sum()),
        )
