"""What a fit has spent: CPU seconds, compilations, and evaluations with the draws they buy."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping

from folt.sampling.forecast import VALUES_PER_GRADIENT

COMPILED = "/jax/core/compile/backend_compile_duration"

SHARE = 0.2
"""Part of a fit's evaluations that goes to its draws, unless their number is given. Twenty thousand
draws take .6 of the 28 CPU seconds of a mixture of regressions, so that a fifth is many more."""

FEWEST, MOST = 5_000, 50_000
"""Draws per chain that a budget buys at least and at most. Four chains of fifty thousand know a
mean to a quarter of a percent of its deviation; more is for those who ask for it."""

NUMBERS = 1 << 24
"""Coordinates and parameters of all draws that a budget buys, unless the fewest have more: 128 MB,
of which some six copies live at once."""


class Spending:
    """A meter that starts when it is made."""

    def __init__(self) -> None:
        self._seconds, self._programs = time.process_time(), _programs()[0]

    def so_far(self) -> dict[str, float]:
        """CPU seconds of all threads, and programs compiled or loaded."""
        seconds = time.process_time() - self._seconds
        return {"cpu_s": round(seconds, 2), "programs": _programs()[0] - self._programs}


@functools.cache
def _programs() -> list[int]:
    """The number of programs since the first meter, which counts from then on."""
    import jax

    count = [0]

    def listen(event: str, duration_secs: float, **facts: str | int) -> None:
        count[0] += event == COMPILED

    jax.monitoring.register_event_duration_secs_listener(listen)
    return count


def draws_within_budget(
    evaluations: Mapping[str, int], per_draw: int, chains: int, width: int
) -> int:
    """Draws per chain that a fifth of a fit's evaluations buys; counted, so that a seed fixes them.

    Args:
        evaluations: values and gradients that everything before the draws takes.
        per_draw: values that a recorded draw costs: steps times images.
        chains: how many chains.
        width: coordinates and parameters of a draw.
    """
    spent = evaluations["value"] + VALUES_PER_GRADIENT * evaluations["gradient"]
    bought = int(spent * SHARE / (1.0 - SHARE)) // (chains * per_draw)
    most = min(MOST, NUMBERS // (chains * width))
    return max(FEWEST, min(bought, most))
