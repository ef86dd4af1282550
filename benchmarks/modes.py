"""Are the modes found, and is it said where they may not be?

    python -m benchmarks.modes corpus|random|shapes|ripples|drawn-ripples|spikes [--most N]

Targets whose masses are known, normalised so that log Z = 0. A fit is `false` if its verdict is
usable although log Z is off by more than .05 or more than 5 % of the mass is lost; `right` if it is
usable and neither; `doubt` otherwise. The constants of the exploration were chosen on `corpus`,
on `ripples` and on random mixtures of other seeds; `random`, `shapes`, `drawn-ripples` and `spikes`
were made after that. `spikes` shows what stays invisible: basins from 1 in 100 starts to none.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import folt
from benchmarks import record
from folt.groups import Permutation, Trivial
from folt.proposals import standard_normal

MOST = 1_000
"""More targets than any set has."""

USABLE = ("good", "fair", "ambiguous labels")
Array = np.ndarray


class Target(NamedTuple):
    """A normalised density: its problem, the masses of its parts, and which part points are of."""

    problem: folt.Problem
    weights: Array
    classify: Callable[[Array], Array]


def _normal(z: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(z**2, axis=-1) - 0.5 * z.shape[-1] * math.log(2 * math.pi)


def _skewed(z: jax.Array) -> jax.Array:
    """Independent skew-normal coordinates of slant three."""
    slanted = jax.scipy.stats.norm.logcdf(3.0 * z) + math.log(2.0)
    return _normal(z) + jnp.sum(slanted, axis=-1)


def _student(z: jax.Array) -> jax.Array:
    """A multivariate t with five degrees of freedom."""
    dim, half = z.shape[-1], 0.5 * (5.0 + z.shape[-1])
    peak = math.lgamma(half) - math.lgamma(2.5) - 0.5 * dim * math.log(5.0 * math.pi)
    return peak - half * jnp.log1p(jnp.sum(z**2, axis=-1) / 5.0)


SHAPES = {"Gaussian": _normal, "skewed": _skewed, "t5": _student}


def mixture(means, scales, weights, prior=2.0, blocks=None, shape="Gaussian") -> Target:
    """Parts of one shape, under all permutations of so many blocks where blocks are given."""
    means, scales, weights = (np.asarray(value, float) for value in (means, scales, weights))
    dim, law = means.shape[1], SHAPES[shape]
    orders = list(itertools.permutations(range(blocks or 1)))
    rows = [m.reshape(blocks or 1, -1)[list(p)].ravel() for m in means for p in orders]
    owners = np.repeat(np.arange(len(weights)), len(orders))
    centres, widths = np.array(rows), scales[owners]
    logs = np.log(weights / len(orders))[owners] - dim * np.log(widths)

    def terms(x, data):
        centres, widths, logs = data
        return logs + law((x - centres) / widths[:, None])

    data = tuple(map(jnp.asarray, (centres, widths, logs)))
    problem = folt.Problem(
        lambda x, data: jax.nn.logsumexp(terms(x, data)),
        Permutation(blocks, dim // blocks) if blocks else Trivial(dim),
        data=data,
        prior=standard_normal(dim, prior) if prior else None,
    )
    each = jax.jit(jax.vmap(terms, in_axes=(0, None)))
    return Target(problem, weights, lambda x: owners[np.asarray(each(x, data)).argmax(axis=1)])


def pair(dim, **settings) -> Target:
    """Two modes of which the heavier one is narrower."""
    one = np.ones(dim)
    return mixture([-one, one], [0.39, 0.3], [0.3, 0.7], **settings)


def three(dim, distance) -> Target:
    """Modes of 90, 9 and 1 %."""
    away = np.random.default_rng(7).normal(size=(3, dim))
    away /= np.linalg.norm(away, axis=1)[:, None]
    return mixture(0.3 * distance * away, [0.3] * 3, [0.9, 0.09, 0.01])


def spike(dim, width, at) -> Target:
    """Half of the mass in a spike."""
    return mixture([np.zeros(dim), at * np.eye(dim)[0]], [1.0, width], [0.5, 0.5])


def rippled(depth=1.0, prior=3.0, far=3.0, dim=20, period=0.2) -> Target:
    """Half of the mass in a plain Gaussian, half in one under ripples that stop descents."""
    centre, wave = np.full(dim, far / math.sqrt(dim)), 2.0 * math.pi / period
    grid = np.linspace(-4, 4, 80_001)
    rough = np.exp(-0.5 * (grid / 0.3) ** 2 + depth * np.cos(wave * grid))
    level = math.log(rough.sum() * (grid[1] - grid[0]))

    def log_density(x):
        plain = _normal((x - centre) / 0.3) - dim * math.log(0.3)
        away = x + centre
        waves = jnp.sum(-0.5 * (away / 0.3) ** 2 + depth * jnp.cos(wave * away)) - dim * level
        return jnp.logaddexp(plain, waves) - math.log(2.0)

    problem = folt.Problem(log_density, Trivial(dim), prior=standard_normal(dim, prior))
    return Target(problem, np.array([0.5, 0.5]), lambda x: (x.sum(axis=1) < 0).astype(int))


def drawn(number: int, shape: str = "Gaussian") -> Target:
    """A random mixture: 3 to 36 dimensions, 2 to 4 parts, some exchangeable, some without prior."""
    rng = np.random.default_rng((61_000 if shape == "Gaussian" else 73_000) + number)
    dim = int(rng.choice([3, 4, 6, 8, 12, 16, 20, 24, 30, 36]))
    parts = int(rng.integers(2, 5))
    blocks = 2 if rng.uniform() < 0.4 and dim % 2 == 0 else None
    means = 1.2 * rng.normal(size=(parts, dim)) + 0.8 * rng.normal(size=(parts, 1))
    scales = np.exp(rng.uniform(math.log(0.2), math.log(0.5), size=parts))
    weights = rng.dirichlet(np.full(parts, 1.5))
    prior = 2.0 if rng.uniform() < 0.8 else None
    return mixture(means, scales, weights, prior, blocks, shape)


def corpus() -> Iterator[tuple[str, Callable[[], Target], int]]:
    """Name, target and number of seeds of what the constants were chosen on."""
    one = np.ones
    for dim, seeds in ((2, 3), (5, 3), (10, 3), (20, 12), (40, 3)):
        yield f"widths, d = {dim}", lambda dim=dim: pair(dim), seeds
    yield "90, 9, 1 %, d = 3", lambda: three(3, 8.0), 3
    yield "90, 9, 1 %, d = 10", lambda: three(10, 12.0), 3
    yield "spike of .02, d = 2", lambda: spike(2, 0.02, 1.0), 3
    yield "spike of .05 near the centre, d = 5", lambda: spike(5, 0.05, 0.3), 3
    yield "spike of .02, d = 5", lambda: spike(5, 0.02, 1.0), 3
    far = [np.zeros(3), 7.0 * one(3) / math.sqrt(3)]
    yield "seven prior deviations away, d = 3", lambda: mixture(far, [0.4] * 2, [0.5] * 2, 1.0), 3
    far8 = [np.zeros(8), 6.0 * one(8) / math.sqrt(8)]
    narrow = ([0.3, 0.25], [0.6, 0.4], 1.0)
    yield "six prior deviations away, d = 8", lambda: mixture(far8, *narrow), 3
    swapped = [np.r_[-one(10), 0 * one(10)], np.r_[one(10), 2 * one(10)]]
    yield (
        "widths, two blocks, d = 20",
        lambda: mixture(swapped, [0.39, 0.3], [0.3, 0.7], blocks=2),
        3,
    )
    four = [-one(15), one(15), np.r_[2 * one(7), -2 * one(8)], np.r_[-2 * one(7), 2 * one(8)]]
    yield (
        "four modes, d = 15",
        lambda: mixture(four, [0.25, 0.35, 0.2, 0.3], [0.4, 0.3, 0.2, 0.1]),
        3,
    )
    wide = ([-0.8 * one(30), 0.8 * one(30)], [0.45, 0.3], [0.5, 0.5])
    yield "widths .45 and .3, d = 30", lambda: mixture(*wide), 3
    yield "widths, no prior, d = 25", lambda: pair(25, prior=None), 3
    rows = [(-3, 0, 3), (-1, 1, 4), (-4, -2, 0)]
    labelled = [np.repeat(row, 4) for row in rows]
    yield (
        "three blocks, d = 12",
        lambda: mixture(labelled, [0.4, 0.25, 0.3], [0.6, 0.3, 0.1], blocks=3),
        3,
    )


def random_set() -> Iterator[tuple[str, Callable[[], Target], int]]:
    """Sixty-four random mixtures of Gaussians."""
    for number in range(64):
        yield f"random {number}", lambda number=number: drawn(number), 1


def shapes_set() -> Iterator[tuple[str, Callable[[], Target], int]]:
    """Sixty-four random mixtures of skewed and of t components."""
    for number in range(64):
        shape = ("skewed", "t5")[number % 2]
        yield f"{shape} {number}", lambda n=number, shape=shape: drawn(n, shape), 1


def ripples() -> Iterator[tuple[str, Callable[[], Target], int]]:
    """Ripples that break descents."""
    yield "ripples of one nat", rippled, 3
    yield "ripples of .4 nat", lambda: rippled(0.4), 3
    yield "ripples of .6 nat, near", lambda: rippled(0.6, 1.5, 2.0), 3


def drawn_ripples() -> Iterator[tuple[str, Callable[[], Target], int]]:
    """Twelve rippled targets of random dimension, depth, period and distance."""
    for number in range(12):
        rng = np.random.default_rng(49_000 + number)
        dim = int(rng.choice([6, 10, 14, 24, 30]))
        depth, period = rng.uniform(0.3, 1.5), rng.uniform(0.1, 0.35)
        prior, far = rng.uniform(1.5, 3.0), rng.uniform(2.0, 4.0)
        name = f"ripples of {depth:.1f} nat, period {period:.2f}"
        made = functools.partial(rippled, depth, prior, far, dim, period)
        yield name, made, 1


def basin(dim: int, width: float, prior: float = 2.0) -> float:
    """Share of the prior's draws around which the spike at distance one is the larger part.

    Half of the mass has unit width at the origin, whose density at the spike is about that at its
    middle: the spike is larger where r² < 2·width²·(dim·log(1/width) + ½).
    """
    radius = width * math.sqrt(2.0 * (dim * math.log(1.0 / width) + 0.5))
    return float(stats.ncx2.cdf((radius / prior) ** 2, dim, 1.0 / prior**2))


def spikes() -> Iterator[tuple[str, Callable[[], Target], int]]:
    """Half of the mass in ever narrower spikes: which basins are found, said to be lost, unseen."""
    cases = [(dim, width) for dim in (2, 3, 5, 8) for width in (0.2, 0.1, 0.05, 0.02, 0.01)]
    for dim, width in sorted(cases, key=lambda case: -basin(*case)):
        starts = float(f"{1.0 / basin(dim, width):.1e}")
        name = f"spike of {width}, basin of 1 in {starts:g}"
        yield name, lambda dim=dim, width=width: spike(dim, width, 1.0), 1


SETS = {
    "spikes": spikes,
    "corpus": corpus,
    "random": random_set,
    "shapes": shapes_set,
    "ripples": ripples,
    "drawn-ripples": drawn_ripples,
}


def judged(target: Target, fit: folt.Fit) -> tuple[str, float]:
    """False, right or doubt; and the mass that was lost."""
    points = fit.draws.reshape(-1, target.problem.dim)
    shares = np.bincount(target.classify(points), minlength=len(target.weights)) / len(points)
    lost = float(np.sum(np.maximum(target.weights - shares, 0.0)))
    wrong = lost > 0.05 or abs(fit.log_evidence.value) > 0.05
    if fit.certificate.status.name not in USABLE:
        return "doubt", lost
    return ("false" if wrong else "right"), lost


def main() -> None:
    """Run a set and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--most", type=int, default=MOST, help="targets")
    asked = parser.parse_args()
    rows, counts = [], Counter[str]()
    for name, made, seeds in itertools.islice(SETS[asked.set](), asked.most):
        target = made()
        for seed in range(seeds):
            before = record.cpu_seconds()
            fit = folt.sample(target.problem, seed=seed, progress=False)
            found, (kind, lost) = fit.certificate.exploration, judged(target, fit)
            counts[kind] += 1
            rows.append(
                (
                    f"{name} (d = {target.problem.dim}), seed {seed}",
                    kind,
                    fit.certificate.status.name,
                    f"{fit.log_evidence.value:.4f} ± {fit.log_evidence.standard_error:.4f}",
                    f"{100 * lost:.1f} %",
                    f"{len(found.modes)} of {len(target.weights)}",
                    found.ladders,
                    f"{record.cpu_seconds() - before:.1f}",
                )
            )
            print(json.dumps(rows[-1]), dict(counts), flush=True)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in ("false", "right", "doubt"))
    columns = (
        "target",
        "",
        "verdict",
        "log Z (truth 0)",
        "lost",
        "modes found",
        "ladders",
        "CPU s",
    )
    record.write(
        f"modes-{asked.set}",
        f"Finding modes, {asked.set}: {told}",
        columns,
        rows,
        command=f"python -m benchmarks.modes {asked.set}"
        + (f" --most {asked.most}" if asked.most < MOST else ""),
    )


if __name__ == "__main__":
    main()
