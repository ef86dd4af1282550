"""Log ratios that are not finite: rejections and real faults, counted apart."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Faults:
    """Log ratios that are not finite among proposals: rejections and real faults.

    Proposals that `died` have a labelling that a truncated orbit leaves out: rejections too.
    """

    outside_support: int
    not_a_number: int
    infinite: int
    died: int = 0

    @property
    def real(self) -> int:
        """Values that are no rejection: NaN and +inf."""
        return self.not_a_number + self.infinite

    @classmethod
    def count(cls, log_ratios: np.ndarray, died: int = 0) -> Faults:
        """Count -inf (outside the support, but for those that died), NaN and +inf."""
        return cls(
            int(np.isneginf(log_ratios).sum()) - died,
            int(np.isnan(log_ratios).sum()),
            int(np.isposinf(log_ratios).sum()),
            died,
        )
