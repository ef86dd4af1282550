"""Simulation-based calibration: a model, its data and its sampler checked together, on a fleet."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from folt.certificate.diagnostics.ranks import LEVEL, RankBand, Uniformity, covered
from folt.fleet.job import Job
from folt.fleet.many import run_jobs, runner_for
from folt.fleet.rows import Row
from folt.fleet.simulation import RANKED, Fitter, Quantities, Simulate, simulation
from folt.fleet.work import FailedJobsError
from folt.store import write_whole
from folt.store.strict_json import Document, plain, strict_json

if TYPE_CHECKING:
    from folt.fleet.runners import Runner

_LEVELS = (0.5, 0.9, 0.95)
"""Of the intervals whose coverage is counted."""

_MISSED = 0.9
"""Level of the intervals whose misses are counted by verdict."""

JSON, _PAGE = "calibration.json", "calibration.html"
_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Study:
    """What `folt calibrate` is given: the arguments of `folt.calibrate`.

    Attributes:
        simulate: draws a truth from the prior and data at it, and builds the problem.
        fit: options of `folt.sample`, or a function of a problem and a seed that makes the fit.
        parameters: what is ranked; the folded parameters and label-free quantities if None.
        simulations: how many.
        title: what is calibrated, in a few words.
    """

    simulate: Simulate
    fit: Fitter = dataclasses.field(default_factory=dict)
    parameters: Quantities | None = None
    simulations: int = 200
    title: str = ""


@dataclasses.dataclass(frozen=True)
class _Quantity:
    """How one quantity is calibrated.

    Attributes:
        name: of the quantity.
        uniformity: of its ranks.
        coverage: share of intervals with the truth in them, by their level.
    """

    name: str
    uniformity: Uniformity
    coverage: dict[float, float]


@dataclasses.dataclass(frozen=True)
class Ratios:
    """Mean of Z_rival/Z over data of the model itself, whose expectation is one.

    Attributes:
        mean: the mean.
        standard_error: its standard error.
        count: simulations that it is a mean of.
    """

    mean: float
    standard_error: float
    count: int

    @property
    def score(self) -> float:
        """How many standard errors the mean lies from one."""
        return (self.mean - 1) / max(self.standard_error, 1e-12)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What a calibration found.

    Attributes:
        title: what was calibrated.
        simulations: how many were asked for.
        finished: how many have a fit.
        failed: how many ended with an error.
        quantities: how each quantity is calibrated.
        evidence: how the evidence is, where a rival was simulated.
        verdicts: by verdict, how many fits, and the share of 90 % intervals that missed.
        seconds: of work.
    """

    title: str
    simulations: int
    finished: int
    failed: int
    quantities: tuple[_Quantity, ...]
    evidence: Ratios | None
    verdicts: dict[str, tuple[int, float]]
    seconds: float

    @property
    def smallest(self) -> float:
        """Smallest p-value over the quantities, times their number, at most one."""
        values = [one.uniformity.p_value for one in self.quantities]
        return min(1.0, min(values) * len(values)) if values else 1.0

    def to_dict(self) -> Document:
        """Return all of it as plain values."""
        tree = {
            "format": _FORMAT,
            "title": self.title,
            "simulations": self.simulations,
            "finished": self.finished,
            "failed": self.failed,
            "draws_ranked_among": RANKED,
            "band": LEVEL,
            "joint_p_value": self.smallest,
            "quantities": {
                one.name: {
                    "inside": one.uniformity.inside,
                    "coverage": {str(level): share for level, share in one.coverage.items()},
                    **one.uniformity._asdict(),
                }
                for one in self.quantities
            },
            "evidence": None
            if self.evidence is None
            else {**dataclasses.asdict(self.evidence), "score": self.evidence.score},
            "verdicts": {
                name: {"fits": count, "missed_90": share}
                for name, (count, share) in self.verdicts.items()
            },
            "seconds": self.seconds,
        }
        return plain(tree)


def calibrate(
    simulate: Simulate,
    fit: Fitter | None = None,
    parameters: Quantities | None = None,
    simulations: int = 200,
    *,
    out: str | Path,
    seed: int = 0,
    title: str = "",
    client: Any = None,
    workers: int | None = None,
    runner: Runner | None = None,
    retries: int = 1,
    timeout: float | None = None,
    progress: bool = True,
) -> Calibration:
    """Simulation-based calibration of a model with its sampler.

    Args:
        simulate: `simulate(generator)` draws a truth from the prior and data at it; it returns the
            problem for these data, the truth as a point of its coordinates, and where evidence is
            calibrated the problem of another model for the same data.
        fit: options of `folt.sample`, or a function of a problem and a seed that makes the fit.
        parameters: `parameters(problem, points)` gives what is ranked, one number per point under
            every name; points are folded. If None, the folded parameters, the log likelihood and
            the mean of a replicated data set.
        simulations: how many.
        out: folder of the results; a calibration that was interrupted goes on there.
        seed: same seed, same data.
        title: what is calibrated, in a few words.
        client: a client of Dask.
        workers: processes of this machine, in the place of a client.
        runner: where simulations run, in the place of both.
        retries: how often a simulation is tried again that failed.
        timeout: seconds that one may take.
        progress: say how far it is on standard error.

    Returns:
        What was found; `calibration.json` and `calibration.html` in the folder say the same.

    Raises:
        ValueError: what cannot be run.
        FailedJobsError: no simulation came to its end; the folder says why of each.
    """
    chosen = runner_for(client, workers, runner)
    study = Study(simulate, {} if fit is None else fit, parameters, simulations, title)
    rows = run_jobs(
        jobs_of(study, seed),
        Path(out),
        chosen,
        retries=retries,
        timeout=timeout,
        command="calibrate",
        progress=progress,
    )
    found = calibration_of(rows, study)
    write_calibration(found, Path(out))
    return found


def jobs_of(study: Study, seed: int) -> list[Job]:
    """Return one job per simulation.

    Raises:
        ValueError: a study that is none.
    """
    if not callable(study.simulate):
        raise ValueError(f"expected simulate to be a function, got {study.simulate!r}")
    if not (callable(study.fit) or isinstance(study.fit, Mapping)):
        raise ValueError(f"expected fit to be options of folt.sample, got {study.fit!r}")
    count = study.simulations
    if not isinstance(count, int) or count < 2:
        raise ValueError(f"expected at least 2 simulations, got {count!r}")
    run = functools.partial(
        simulation, seed=seed, simulate=study.simulate, fit=study.fit, parameters=study.parameters
    )
    return [Job(f"s{number:05d}", run=run, data=number) for number in range(count)]


def calibration_of(rows: Sequence[Row], study: Study) -> Calibration:
    """Return what the rows of the simulations say.

    Raises:
        FailedJobsError: none of them came to its end.
    """
    done = [row for row in rows if row["error"] is None]
    if not done:
        first = rows[0]["error"] if rows else "there was none"
        raise FailedJobsError(f"no simulation came to its end; the first said: {first}")
    names = [name for name in done[0]["ranks"] if all(name in row["ranks"] for row in done)]
    ranks = {name: np.array([row["ranks"][name] for row in done]) for name in names}
    band = RankBand(len(done), RANKED)
    return Calibration(
        title=study.title,
        simulations=study.simulations,
        finished=len(done),
        failed=len(rows) - len(done),
        quantities=tuple(
            _Quantity(
                name,
                band.compare(values),
                {level: float(covered(values, RANKED, level).mean()) for level in _LEVELS},
            )
            for name, values in ranks.items()
        ),
        evidence=_ratios(done),
        verdicts=_by_verdict([row["verdict"] for row in done], ranks),
        seconds=math.fsum(row["seconds"] for row in done),
    )


def _ratios(rows: Sequence[Row]) -> Ratios | None:
    """Return the mean of the ratios of evidence where there are rivals."""
    pairs = [
        (row["rival_log_evidence"], row["log_evidence"])
        for row in rows
        if row.get("rival_log_evidence") is not None and row["log_evidence"] is not None
    ]
    if len(pairs) < 2:
        return None
    ratios = np.exp([theirs - ours for theirs, ours in pairs])
    error = float(ratios.std(ddof=1) / math.sqrt(len(ratios)))
    return Ratios(float(ratios.mean()), error, len(ratios))


def _by_verdict(
    verdicts: Sequence[str], ranks: Mapping[str, np.ndarray]
) -> dict[str, tuple[int, float]]:
    """How many fits have each verdict, and how often their intervals missed, over quantities."""
    missed = np.mean([~covered(values, RANKED, _MISSED) for values in ranks.values()], axis=0)
    given = np.array(verdicts)
    return {
        name: (count, float(np.mean(missed[given == name])))
        for name, count in Counter(verdicts).most_common()
    }


def write_calibration(found: Calibration, out: Path) -> list[Path]:
    """Return the numbers and the page, beside the table of the simulations."""
    from folt.report.fleet_page import calibration_page

    files = {JSON: strict_json(found.to_dict()) + "\n", _PAGE: calibration_page(found.to_dict())}
    return [write_whole(out / name, text.encode()) for name, text in files.items()]
