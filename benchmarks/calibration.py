"""`python -m benchmarks.calibration --out DIR [NAME...]`: the ready models, calibrated.

Every model simulates its own data from its own prior, with small data and the quick effort; a run
that was interrupted goes on in its folder. `results/calibration.json` has what is finished.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax
import numpy as np

from benchmarks import record
from folt import Effort, Problem, models
from folt.fleet import FromPrior, Simulated, Study
from folt.fleet.calibration import calibrate

SIMULATIONS = 200
OBSERVATIONS = 40
FIT = {"chains": 4, "draws": 1000, "effort": Effort.quick()}

PLACE = np.linspace(-1.0, 1.0, OBSERVATIONS)
"""Data of the right shape, replaced before anything is fitted."""

GAUSSIAN = {"mu_location": 0.0, "mu_scale": 3.0, "log_sigma_location": 0.0, "log_sigma_scale": 0.5}
COUNTS = {"log_rate_location": 1.5, "log_rate_scale": 1.0}


def gaussian_two():
    return models.gaussian_mixture(PLACE, 2, **GAUSSIAN)


def gaussian_one():
    return models.gaussian_mixture(PLACE, 1, **GAUSSIAN)


def equal_three():
    return models.bayesian_mixture(PLACE, 3, **GAUSSIAN)


def equal_two():
    return models.bayesian_mixture(PLACE, 2, **GAUSSIAN)


def poisson_two():
    return models.poisson_mixture(np.arange(OBSERVATIONS), 2, **COUNTS)


def poisson_one():
    return models.poisson_mixture(np.arange(OBSERVATIONS), 1, **COUNTS)


def plane_two():
    options = {"mu_location": 0.0, "mu_scale": 3.0, "sigma_scale": 1.0}
    return models.multivariate_gaussian_mixture(_plane(), 2, **options)


def plane_one():
    options = {"mu_location": 0.0, "mu_scale": 3.0, "sigma_scale": 1.0}
    return models.multivariate_gaussian_mixture(_plane(), 1, **options)


def markov_two():
    return models.hidden_markov(PLACE, 2, staying=4.0, **GAUSSIAN)


def markov_one():
    return models.hidden_markov(PLACE, 1, staying=4.0, **GAUSSIAN)


def factors_one():
    return models.factor_analysis(_unit(), 1, loading_scale=0.5)


def factors_two():
    return models.factor_analysis(_unit(), 2, loading_scale=0.5)


def powers_two():
    at = np.linspace(0.7, 1.1, 48)
    return models.modal_powers(at, np.ones(48), 2, averages=10.0, scale=1.0)


def powers_one():
    at = np.linspace(0.7, 1.1, 48)
    return models.modal_powers(at, np.ones(48), 1, averages=10.0, scale=1.0)


def _plane():
    return np.column_stack([PLACE, PLACE**2])


def _unit():
    """Four variables of standard deviation one, so that prior scales are absolute."""
    table = np.random.default_rng(0).normal(size=(OBSERVATIONS, 4))
    return (table - table.mean(axis=0)) / table.std(axis=0)


def _spectrum(key, problem, truth):
    return models.simulate_powers(key, problem, truth)


STRUCTURES = ((2, 3, 10.0), (2, 6, 20.0), (3, 4, 15.0), (3, 6, 10.0))
"""Modes, channels and minutes of the records whose shapes are identified: four sizes, so that few
programs are compiled."""


def shapes_of(ordinates, modes: int) -> Problem:
    return models.modal_shapes(ordinates, modes, frequency_range=(0.7, 1.1))


def simulated_shapes(generator: np.random.Generator) -> Simulated:
    """Return a record of one of the sizes; its start is near its own spectrum, as for a user."""
    modes, channels, minutes = STRUCTURES[generator.integers(len(STRUCTURES))]
    at = np.arange(0.7, 1.1, 1 / (60 * minutes))
    blank = generator.normal(size=(2, at.size, channels))
    ordinates = models.scaled_ordinates(at, blank[0] + 1j * blank[1], scale=1.0)
    problem = shapes_of(ordinates, modes)
    truth = generator.normal(size=problem.dim)
    key = jax.random.key(int(generator.integers(2**63)))
    return Simulated(shapes_of(models.simulate_shapes(key, problem, truth), modes), truth)


def of_modes(problem: Problem, points: np.ndarray) -> dict[str, np.ndarray]:
    """Return what is ranked of modes with shapes: of the first two modes by frequency."""
    values = {name: np.asarray(value) for name, value in problem.parameters(points).items()}
    order = np.argsort(values["frequency"], axis=1)
    found = {"noise": values["noise"]}
    for name in ("frequency", "damping", "power"):
        by_frequency = np.take_along_axis(values[name], order, axis=1)
        found |= {f"{name}[{j}]": by_frequency[:, j] for j in range(2)}
    shapes = np.take_along_axis(values["shape"], order[..., None], axis=1)
    found |= {f"|shape[{j},{c}]|": np.abs(shapes[:, j, c]) for j in range(2) for c in range(3)}
    return {**found, "MAC": np.sum(shapes[:, 0] * shapes[:, 1], axis=1) ** 2}


STUDIES = {
    "poisson": FromPrior(poisson_two, poisson_one),
    "gaussian": FromPrior(gaussian_two, gaussian_one),
    "equal-weights": FromPrior(equal_three, equal_two),
    "hidden-markov": FromPrior(markov_two, markov_one),
    "factors": FromPrior(factors_two, factors_one),
    "plane": FromPrior(plane_two, plane_one),
    "modal-powers": FromPrior(powers_two, powers_one, _spectrum),
    "modal-shapes": simulated_shapes,
}
"""The simple ones first. The paper's modal model has no data of its own to simulate: its likelihood
looks at the shape of a spectrum only."""

COLUMNS = (
    "model",
    "simulations",
    "quantities",
    "outside their band",
    "joint p",
    "90 % covers",
    "mean Z ratio",
    "errors from 1",
    "usable",
    "CPU s",
)


def study_of(name: str, simulations: int) -> Study:
    ranked = of_modes if name == "modal-shapes" else None
    return Study(STUDIES[name], FIT, ranked, simulations=simulations, title=name)


def row(name: str, found: dict, cpu: float | None) -> list:
    from folt.certificate.outcomes import Outcome

    quantities, evidence = found["quantities"], found["evidence"]
    outside = [one for one, values in quantities.items() if not values["inside"]]
    covers = np.mean([values["coverage"]["0.9"] for values in quantities.values()])
    usable = sum(
        part["fits"] for verdict, part in found["verdicts"].items() if Outcome.named(verdict).usable
    )
    return [
        name,
        found["finished"],
        len(quantities),
        ", ".join(outside) or "none",
        f"{found['joint_p_value']:.3f}",
        f"{100 * covers:.1f} %",
        "" if evidence is None else f"{evidence['mean']:.3f} ± {evidence['standard_error']:.3f}",
        "" if evidence is None else f"{evidence['score']:.1f}",
        f"{100 * usable / found['finished']:.0f} %",
        "" if cpu is None else f"{cpu:.0f}",
    ]


def spent(out: Path, more: float | None = None) -> float | None:
    """CPU seconds of a calibration, over its interruptions; None where nobody counted."""
    path = out / "cpu.json"
    known = json.loads(path.read_text()) if path.exists() else None
    if more is not None:
        known = (known or 0.0) + more
        path.write_text(json.dumps(known))
    return known


def write(out: Path) -> Path:
    """The table of every calibration that is finished in a folder, and of earlier ones."""
    earlier = record.read("calibration")
    known = {one[0]: one for one in earlier["rows"]}
    for name in STUDIES:
        path = out / name / "calibration.json"
        if path.exists():
            cpu = spent(out / name)
            known[name] = row(name, json.loads(path.read_text()), cpu)
    rows = [known[name] for name in STUDIES if name in known]
    return record.write(
        "calibration",
        f"Simulation-based calibration of the ready models: {OBSERVATIONS} observations (48 "
        "ordinates of 10 averages for modal powers; 2 and 3 modes, 3 to 6 channels, 10 to 20 "
        "minutes for modal shapes), quick effort; truths drawn from the prior, "
        "95 % bands; the mean ratio of a smaller model's evidence should be 1",
        COLUMNS,
        rows,
        command="python -m benchmarks.calibration --out DIR",
        cpu_s=sum(float(one[-1] or 0) for one in rows),
        commits=(*earlier["provenance"]["commit"].split(", "), record.commit()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(STUDIES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--simulations", type=int, default=SIMULATIONS)
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    for name in given.names:
        study = study_of(name, given.simulations)
        before = record.cpu_seconds()
        try:
            calibrate(
                study.simulate,
                study.fit,
                study.parameters,
                study.simulations,
                out=given.out / name,
                title=name,
                workers=given.workers,
            )
        finally:
            if (given.out / name).is_dir():
                spent(given.out / name, record.cpu_seconds() - before)
        print(write(given.out), flush=True)


if __name__ == "__main__":
    main()
