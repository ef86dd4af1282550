"""One fit in this process, as a line of JSON: `python -m benchmarks.once NAME SEED`."""

from __future__ import annotations

import time

STARTED = time.perf_counter()

import json  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402


def main(name: str, seed: int) -> None:
    import folt
    from benchmarks.problems import problem

    fit = folt.sample(problem(name), seed=seed, progress=False)
    wall = time.perf_counter() - STARTED
    started = time.perf_counter()
    fit.extend(fit.draws.shape[1])
    again = time.perf_counter() - started
    target, proposal = (fit.certificate.qc[p][0.05] for p in ("target", "proposal"))
    ess = float(fit.ess().min())
    row = {
        "problem": name,
        "seed": seed,
        "gamma_target": target.gamma,
        "gamma_proposal": proposal.gamma,
        "effective_n": target.n,
        "accept": fit.accept_rate,
        "log_evidence": fit.log_evidence.value,
        "standard_error": fit.log_evidence.standard_error,
        "status": fit.certificate.status.name,
        "steps": {str(key): n for key, n in fit.certificate.mixing.steps.items()},
        "bridge": fit.certificate.bridge.value,
        "bridge_error": fit.certificate.bridge.standard_error,
        "coverage": fit.certificate.coverage.value,
        "components": getattr(fit.flow, "components", None),
        "ess": ess,
        "wall_s": wall,
        "ess_per_s": ess / wall,
        "values_per_ess": fit.evaluations["value"] / ess,
        "gradients_per_ess": fit.evaluations["gradient"] / ess,
        "second_20000_s": again,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "stages_s": {stage: round(seconds, 2) for stage, seconds in fit.wall.items()},
        "reference_rhat": fit.certificate.reference.rhat,
        "reference_ess": fit.certificate.reference.ess,
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
