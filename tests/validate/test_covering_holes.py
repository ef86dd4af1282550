"""How often draws fail to cover a core that the published radius says they cover."""

import math

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.stats import binom, chi2
from table import write_table

from folt.paper.theorems.covering import covering_radius, effective_count

RUNS, DELTA = 200, 0.05
TURN = np.linspace(0.0, 2.0 * np.pi, 1200)
SIDE = np.linspace(0.0, 1.0, 400)


def square(rng, count):
    return rng.random((count, 2))


def disc(rng, count):
    """Draws of a Gaussian in the plane: the core is a disc."""
    return rng.normal(size=(count, 2))


def edge_of(shape, alpha):
    """Points on the edge of the core: a hole found there is a hole."""
    if shape is disc:
        return math.sqrt(chi2.isf(alpha, 2)) * np.stack([np.cos(TURN), np.sin(TURN)], axis=1)
    along = [np.stack([SIDE, np.full(SIDE.size, level)], axis=1) for level in (0.0, 1.0)]
    return np.concatenate([*along, *(side[:, ::-1] for side in along)])


def radii(shape, count, alpha):
    """Published and corrected radius, from the exact floors."""
    effective = effective_count(count, alpha, DELTA)
    reach = math.sqrt(chi2.isf(alpha, 2))
    width = 2 * reach if shape is disc else math.sqrt(2)
    steps = width * np.geomspace(1e-3, 1.0, 200)
    constant = -math.log(2 * math.pi)
    floor = constant - 0.5 * reach**2 if shape is disc else 0.0
    around = constant - 0.5 * (reach + steps) ** 2 if shape is disc else np.full(200, -np.inf)
    common = {"diameter": width, "dim": 2, "effective": effective, "delta": DELTA}
    return (
        covering_radius(log_floor=floor, **common).radius,
        covering_radius(log_floor=around, radii=steps, **common).radius,
    )


@pytest.mark.validate
def test_holes_at_the_edge_of_the_core():
    """Claimed: a hole in at most δ = 5 % of runs. On the square the published radius fails in most.

    The corrected radius, where there is one, leaves a hole wider than 2ε* no more often than
    Binomial(200, .05) allows (false alarm 1e-3 per row).
    """
    allowed = int(binom.isf(1e-3, RUNS, DELTA))
    rng, rows = np.random.default_rng(0), []
    for shape in (square, disc):
        for alpha in (0.05, 0.3):
            for count in (500, 2000, 20_000):
                published, corrected = radii(shape, count, alpha)
                edge = edge_of(shape, alpha)
                widest = np.array(
                    [cKDTree(shape(rng, count)).query(edge)[0].max() for _ in range(RUNS)]
                )
                holes = [int(np.sum(widest > factor * published)) for factor in (1, 2)]
                fixed = None if corrected is None else int(np.sum(widest > 2 * corrected))
                rows.append(
                    (
                        shape.__name__,
                        f"{alpha}",
                        f"{count}",
                        f"{published:.4f}",
                        f"{holes[0] / RUNS:.3f}",
                        f"{holes[1] / RUNS:.3f}",
                        "infeasible" if corrected is None else f"{corrected:.4f}",
                        "–" if fixed is None else f"{fixed / RUNS:.3f}",
                    )
                )
                assert holes[0] > allowed or shape is disc or alpha > 0.05
                assert holes[1] <= allowed
                assert fixed is None or fixed <= allowed
    write_table(
        "covering-holes",
        "Share of 200 runs with a hole in the core (claimed: at most .05)",
        (
            "target",
            "α",
            "draws",
            "published ε*",
            "hole wider than ε*",
            "than 2ε*",
            "corrected ε*",
            "than 2ε* corrected",
        ),
        rows,
    )
