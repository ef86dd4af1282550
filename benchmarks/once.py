"""One fit in this process, as a line of JSON: `python -m benchmarks.once NAME SEED`."""

from __future__ import annotations

import json
import resource
import sys
import time


def main(name: str, seed: int) -> None:
    """Fit, take the time, draw as much again, then look at what was made."""
    import folt
    from benchmarks.problems import ASKED, problem

    fit = folt.sample(problem(name), seed=seed, draws=ASKED[name].draws, progress=False)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    before = time.process_time()
    fit.extend(fit.draws.shape[1])
    more = time.process_time() - before
    certificate, ess = fit.certificate, float(fit.ess().min())
    row = {
        "problem": name,
        "seed": seed,
        "accept": fit.accept_rate,
        "status": certificate.status.name,
        "steps": {str(key): n for key, n in certificate.mixing.steps.items()},
        "log_evidence": fit.log_evidence.value,
        "standard_error": fit.log_evidence.standard_error,
        "gamma_target": certificate.qc["target"][0.05].gamma or 0.0,
        "components": getattr(fit.flow, "components", None),
        "steps_per_draw": fit.steps_per_draw,
        "ess": ess,
        "cpu_s": cpu,
        "ess_per_cpu_s": ess / cpu,
        "draws": fit.accepted.size,
        "cpu_s_of_as_many_draws": more,
        "evaluations": sum(fit.evaluations.values()),
        "values_per_ess": fit.evaluations["value"] / ess,
        "gradients_per_ess": fit.evaluations["gradient"] / ess,
        "peak_mb": usage.ru_maxrss / 1024,
        "stages_s": {stage: round(seconds, 2) for stage, seconds in fit.wall.items()},
        "reference_rhat": certificate.reference.rhat,
        "reference_ess": certificate.reference.ess,
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
