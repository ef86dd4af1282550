"""One model of the corpus and the right answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

DATA = np.concatenate(
    [np.random.default_rng(8).normal(-2.0, 1.0, 9), np.random.default_rng(9).normal(2.5, 0.8, 6)]
)
"""Fifteen observations that look like two groups."""

TABLE = np.random.default_rng(10).normal(size=(12, 3))
"""Twelve rows of three numbers."""

DOCUMENTS = np.random.default_rng(12).multinomial(14, [0.5, 0.3, 0.2], 4)
"""Counts of three words in four documents of fourteen words."""

COUNTS = np.random.default_rng(11).poisson(4.0, 14)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and what must be found in it.

    Attributes:
        model: the NumPyro model, or a function that builds the PyMC model.
        args: arguments of the model.
        order: number of relabellings that leave its density unchanged; one where there is none.
        together: sites that move together, one set per independent relabelling.
        rotation: whether a continuous rotation makes a finite group pointless.
        words: what the account must say where there is no symmetry, or one that is not folded.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...] = (DATA,)
    order: int = 1
    together: tuple[frozenset[str], ...] = ()
    rotation: bool = False
    words: str = ""


def moving(*names: str) -> tuple[frozenset[str], ...]:
    """Each argument the sites that move together, separated by blanks."""
    return tuple(frozenset(each.split()) for each in names)
