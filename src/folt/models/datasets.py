"""Data sets that models are tried on; sources in the README beside the files."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from jaxtyping import Float

from folt.store.tables import read_table

MISPRINT = 77
"""Position of the galaxy whose velocity 26960 was printed as 26690."""


def galaxies(*, corrected: bool = True) -> Float[np.ndarray, 82]:
    """Return the velocities of 82 galaxies in 1000 km/s, ascending.

    Args:
        corrected: give the 78th velocity as measured, 26.960; False leaves the misprint 26.690 of
            the MASS file, which many published analyses used.
    """
    velocities = _table("galaxies.csv")[:, 0] / 1000
    if corrected:
        velocities[MISPRINT] = 26.960
    return velocities


def old_faithful() -> Float[np.ndarray, "272 2"]:
    """Return 272 rows: the duration of an eruption and the wait for the next, in minutes."""
    return _table("old_faithful.csv")


FAMILIES = (
    *("Acciaiuoli", "Albizzi", "Barbadori", "Bischeri", "Castellani", "Ginori", "Guadagni"),
    *("Lamberteschi", "Medici", "Pazzi", "Peruzzi", "Ridolfi", "Salviati", "Strozzi"),
    "Tornabuoni",
)
"""Fifteen families of Florence around 1430; the Pucci, who married none of them, are left out."""

_MARRIAGES = {
    "Albizzi": ("Ginori", "Guadagni", "Medici"),
    "Barbadori": ("Castellani", "Medici"),
    "Bischeri": ("Guadagni", "Peruzzi", "Strozzi"),
    "Castellani": ("Peruzzi", "Strozzi"),
    "Guadagni": ("Lamberteschi", "Tornabuoni"),
    "Medici": ("Acciaiuoli", "Ridolfi", "Salviati", "Tornabuoni"),
    "Peruzzi": ("Strozzi",),
    "Ridolfi": ("Strozzi", "Tornabuoni"),
    "Salviati": ("Pazzi",),
}
"""Every marriage once."""


def florentine_families() -> Float[np.ndarray, "15 15"]:
    """Return the marriages of families of Florence (Padgett and Ansell 1993) as zeros and ones.

    The families are those of `FAMILIES`, in that order.
    """
    ties = np.zeros((len(FAMILIES), len(FAMILIES)))
    for name, others in _MARRIAGES.items():
        first, second = FAMILIES.index(name), [FAMILIES.index(other) for other in others]
        ties[first, second] = ties[second, first] = 1.0
    return ties


def _table(name: str) -> Float[np.ndarray, "rows columns"]:
    with as_file(files("folt.models") / "data" / name) as path:
        return read_table(path, missing=()).numbers()
