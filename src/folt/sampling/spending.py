"""What a fit took beyond evaluations: CPU seconds and compilations of this process."""

from __future__ import annotations

import functools
import time

COMPILED = "/jax/core/compile/backend_compile_duration"


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
