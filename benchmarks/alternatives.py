"""Alternatives that are not part of a fit: what they would bring, measured.

    python -m benchmarks.alternatives sobol bayes-mixture galaxies regressions
    python -m benchmarks.alternatives moves factors multivariate blocks-120

`sobol`: the spread of log Z over repeats, by independent proposals and by as many scrambled Sobol
points sent through the same proposal. `moves`: effective draws per CPU second of independence
steps, of Hamiltonian paths under one labelling, and of both in turn. One quick fit each.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator

import jax
import numpy as np
from scipy.special import logsumexp

import folt
from benchmarks import problems, record
from folt.certificate.diagnostics.chains import effective_size
from folt.fit.expectation import scrambled, through
from folt.problem.ratio import LogRatio, Target
from folt.proposals.action import action_of
from folt.proposals.sums import components_of
from folt.reference.exploration.chamber import Chamber, fisher_mean, ridged
from folt.reference.host_moves import HamiltonianPaths, StepSize
from folt.reference.landscape import Landscape
from folt.types import in_float64

SIZE, REPEATS = 11, 16
"""Logarithm to base two of the points of a repeat, and repeats."""

CHAINS, DRAWS, WARMUP = 64, 120, 25
"""Chains in lock step, their recorded draws, and iterations that tune the step."""

SOBOL = ("problem", "dimension", "acceptance", "sd of log Z, independent", "sd of log Z, Sobol")
MOVES = (
    "problem",
    "dimension",
    "acceptance",
    "kernel",
    "effective draws: least mean",
    "least square",
    "of",
    "CPU s",
    "least mean per CPU s",
    "least square per CPU s",
)


def fitted(name: str) -> tuple[folt.Fit, LogRatio]:
    """Return a quick fit of a problem, and its log ratio."""
    problem = problems.problem(name)
    quick = folt.Effort.quick()
    fit = folt.sample(problem, seed=0, draws=1_000, labels="proposal", effort=quick, progress=False)
    return fit, LogRatio(Target(problem), fit.proposal, problem.group)


@in_float64
def sobol(name: str) -> list[tuple[object, ...]]:
    """Return the spread of log Z by both kinds of points."""
    fit, ratio = fitted(name)
    parts, dim = components_of(ratio.proposal), ratio.dim
    assert parts is not None
    generator, found = np.random.default_rng(0), {"plain": [], "sobol": []}  # type: ignore[var-annotated]
    for number in range(REPEATS):
        points = through(parts, scrambled(generator, dim + 2, SIZE))
        found["sobol"].append(logsumexp(ratio.at(action_of(ratio.group).fold(points))))
        found["plain"].append(logsumexp(ratio.draw(jax.random.key(number), 1 << SIZE)[1]))
    spread = [f"{np.std(found[kind], ddof=1):.4f}" for kind in ("plain", "sobol")]
    return [(name, dim, f"{fit.accept_rate:.3f}", *spread)]


class Kernels:
    """The moves of chains in lock step, from draws of a fit."""

    def __init__(self, fit: folt.Fit, ratio: LogRatio) -> None:
        self.ratio, self.action = ratio, action_of(ratio.group)
        self.steps, self.generator = fit.steps_per_draw, np.random.default_rng(1)
        draws = fit.draws.reshape(-1, ratio.dim)
        spread = ridged(np.cov(draws.T))
        direction = np.linalg.solve(self.action.average(spread), draws.mean(axis=0))
        self.chamber = Chamber(Landscape(ratio.target.problem), self.action, direction)
        slopes = self.chamber.with_gradients(self.chamber.aligned(draws[::4]))[1]
        self.paths = HamiltonianPaths(self.chamber, fisher_mean(spread, slopes))
        chosen = self.generator.permutation(len(draws))[:CHAINS]
        self.states, size = self.paths.at(self.chamber.aligned(draws[chosen])), StepSize(0.5, 0.8)
        for _ in range(WARMUP):
            step = math.exp(size.log_current)
            self.states, acceptance = self.paths.move(self.generator, self.states, step)
            size.update(acceptance)
        self.step = math.exp(size.log_average)

    def independence(self) -> None:
        """Some independence steps of every chain."""
        values = self.states.values - self.chamber.log_shares(self.states.points)
        at = self.states.points
        here = self.ratio.at(self.action.fold(at), values)
        for _ in range(self.steps):
            new, there = next(self.proposals)
            moved = np.log(self.generator.uniform(size=CHAINS)) < there - here
            at, here = np.where(moved[:, None], new, at), np.where(moved, there, here)
        self.states = self.paths.at(self.chamber.aligned(at))

    def independence_alone(self) -> None:
        """The same without a path between: only log ratios are carried on, as a fit does."""
        for _ in range(self.steps):
            new, there = next(self.proposals)
            moved = np.log(self.generator.uniform(size=CHAINS)) < there - self.here
            self.at = np.where(moved[:, None], new, self.at)
            self.here = np.where(moved, there, self.here)

    def proposed(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Proposals of all chains with their log ratios, drawn in one batch as a fit does."""
        key = jax.random.key(int(self.generator.integers(1 << 30)))
        points, ratios = self.ratio.draw(key, CHAINS * self.steps * DRAWS)
        shape = (self.steps * DRAWS, CHAINS)
        yield from zip(points.reshape(*shape, -1), ratios.reshape(shape), strict=True)

    def path(self) -> None:
        """One Hamiltonian path of every chain."""
        self.states, _ = self.paths.move(self.generator, self.states, self.step)

    def both(self) -> None:
        """A path, and the independence steps."""
        self.path()
        self.independence()

    def worth(self, move: Callable[[], None]) -> tuple[object, ...]:
        """Return effective draws of the worst mean and the worst square, and what they cost."""
        self.proposals = self.proposed()  # made, and timed, when the first is asked for
        self.at = self.action.fold(self.states.points)
        self.here = self.ratio.at(self.at)
        begun, recorded = time.process_time(), []
        for _ in range(DRAWS):
            move()
            alone = move == self.independence_alone
            recorded.append(self.at if alone else self.states.points)
        spent = time.process_time() - begun
        draws = self.action.fold(np.concatenate(recorded)).reshape(DRAWS, CHAINS, -1)
        draws = draws.swapaxes(0, 1)
        squares = (draws - draws.mean(axis=(0, 1))) ** 2
        least = [
            min(effective_size(each[..., j], "mean") for j in range(draws.shape[-1]))
            for each in (draws, squares)
        ]
        rates = [f"{each / spent:.0f}" for each in least]
        return (*(f"{each:.0f}" for each in least), CHAINS * DRAWS, f"{spent:.1f}", *rates)


@in_float64
def moves(name: str) -> list[tuple[object, ...]]:
    """Return what each kernel is worth."""
    fit, ratio = fitted(name)
    kernels = Kernels(fit, ratio)
    words = f"{kernels.steps} independence steps"
    named = {
        words: kernels.independence_alone,
        "one path": kernels.path,
        f"one path, {words}": kernels.both,
    }
    lead = (name, ratio.dim, f"{fit.accept_rate:.3f}")
    return [(*lead, word, *kernels.worth(move)) for word, move in named.items()]


def main(kind: str, *names: str) -> None:
    """Measure one alternative on some problems."""
    measure, columns = {"sobol": (sobol, SOBOL), "moves": (moves, MOVES)}[kind]
    title = {
        "sobol": f"log Z by {1 << SIZE} independent proposals or Sobol points, {REPEATS} repeats",
        "moves": "Local moves between independence steps",
    }[kind]
    rows = []
    for name in names:
        rows += measure(name)
        print(*rows[-3:], sep="\n", flush=True)
    command = f"python -m benchmarks.alternatives {kind} {' '.join(names)}"
    record.write(f"alternatives-{kind}", title, columns, rows, command=command)


if __name__ == "__main__":
    main(*sys.argv[1:])
