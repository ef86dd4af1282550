"""One tool on one problem in this process: `benchmarks.peers.once TOOL NAME SEED [DRAWS]`.

A line of JSON on standard output, with the moments of the folded draws. Fewer draws than usual
tell, beside a usual run, what a draw costs without warm-up and compilation.
"""

from __future__ import annotations

import time

STARTED = time.perf_counter()

import json  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402

import numpy as np  # noqa: E402


def main(tool: str, name: str, seed: int, draws: int | None = None) -> None:
    """Run, then look at what was made; only the run is timed."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from benchmarks.peers import tools
    from benchmarks.problems import problem

    chosen = problem(name)
    if draws is not None:
        tools.DRAWS = draws
    run = tools.TOOLS[tool](chosen, seed)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    row = {
        "tool": tool,
        "problem": name,
        "seed": seed,
        "draws": len(run.draws[0]) * len(run.draws),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "wall_s": time.perf_counter() - STARTED,
        "evaluations": run.evaluations,
        "log_evidence": run.log_evidence,
        **folded_moments(chosen, run.draws, run.effective),
    }
    print(json.dumps(row))


def folded_moments(problem, draws: np.ndarray, effective: float | None) -> dict:
    """Orderings visited; means, deviations and effective sizes of the folded coordinates."""
    from folt.certificate.diagnostics.chains import effective_size
    from folt.proposals.action import action_of

    action = action_of(problem.group)
    flat = np.ascontiguousarray(draws.reshape(-1, problem.dim), np.float64)
    folded = action.fold(flat).reshape(draws.shape)
    sizes = [
        effective_size(folded[:, :, i]) if effective is None else effective
        for i in range(problem.dim)
    ]
    return {
        "orderings": _orderings(action, flat[:: max(1, len(flat) // 2_000)], problem),
        "of": problem.group.order,
        "ess": float(min(sizes)),
        "means": folded.mean(axis=(0, 1)).tolist(),
        "deviations": folded.std(axis=(0, 1)).tolist(),
        "sizes": [float(size) for size in sizes],
    }


def _orderings(action, points: np.ndarray, problem) -> int:
    """How many of the labellings the draws visit: by the element that folds each of them."""
    folded = action.fold(points)
    images = action.images(points)
    distance = np.abs(images - folded[:, None]).max(axis=2)
    return len(np.unique(distance.argmin(axis=1)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
