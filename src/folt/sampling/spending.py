"""What a fit has spent: CPU seconds, compilations, and evaluations with the draws they buy.

How long a stage will take: work that can be counted beforehand, times the pace measured.

Words for whoever waits; nothing that is computed depends on them.

Memory that draws need, and memory that there is.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from folt.problem import VALUES_PER_GRADIENT, Problem
from folt.problem.symmetry import SymmetryAccount
from folt.reference import HostChains
from folt.reference.host_tempering import TemperedPaths, mover_for

TEMPERATURES = 12
"""Temperatures of a usual ladder."""

GRADIENTS_PER_DRAW = 4
"""Gradients of a usual path."""


class _Forecast(NamedTuple):
    """Work that lies ahead.

    Attributes:
        evaluations: log densities to be computed, about.
        seconds: how long that takes at the pace measured.
    """

    evaluations: int
    seconds: float


def forecast(problem: Problem, account: SymmetryAccount, evaluations: int) -> _Forecast:
    """Return evaluations of π_F at the pace that the check of the symmetry had."""
    images = 1 if problem.invariant else problem.group.order
    return _Forecast(evaluations * images, evaluations * images * account.pace)


def reference_work(problem: Problem, sampler: object) -> int:
    """Return evaluations of a reference run, about; zero where nothing is known of it."""
    if not isinstance(sampler, HostChains):
        return 0
    per_draw = GRADIENTS_PER_DRAW * VALUES_PER_GRADIENT
    first, more = sampler.search_steps
    search = 0 if problem.prior is not None else sampler.searchers * (first + more * problem.dim)
    per_draw = per_draw if problem.differentiable else sampler.thin
    moves = mover_for(problem, sampler.moves, sampler.paths)
    per_particle = moves.paths * per_draw if isinstance(moves, TemperedPaths) else sampler.moves
    tempering = sampler.particles * per_particle * TEMPERATURES
    return search + tempering + sampler.chains * (sampler.warmup + sampler.draws) * per_draw


COMPILED = "/jax/core/compile/backend_compile_duration"

_SHARE = 0.2
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
    """Return the number of programs since the first meter, which counts from then on."""
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
    bought = int(spent * _SHARE / (1.0 - _SHARE)) // (chains * per_draw)
    most = min(MOST, NUMBERS // (chains * width))
    return max(FEWEST, min(bought, most))


COPIES = 6
"""Arrays of the size of the draws that live at once: draws, proposals, parameters, their copies."""


def require_memory(chains: int, draws: int, width: int) -> int:
    """Bytes that so many numbers per draw will need, refused where they are not free.

    Raises:
        ValueError: with what is needed and what is free.
    """
    needed = 8 * COPIES * chains * draws * width
    free = free_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"{chains} chains of {draws} draws need about {in_bytes(needed)} of memory, and "
            f"{in_bytes(free)} are free: expected fewer draws"
        )
    return needed


def free_memory() -> int | None:
    """Bytes of memory that this process can still have; None where the system does not say."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        found.append(1024 * sizes["MemAvailable"])
    except (OSError, ValueError, IndexError, KeyError):
        try:
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, OSError, ValueError):
            return None
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        found.append(limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(min(found), 0)


def in_bytes(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:,.3g} {unit}" if count < 1000 else f"{count:,.0f} {unit}"
        count /= 1000
    return f"{count} bytes"
