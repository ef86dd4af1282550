"""Packages that only part of folt needs: one sentence says which is missing and how to get it."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple


class Package(NamedTuple):
    """What people call a package, and the words after `pip install` that bring it."""

    title: str
    installed_by: str


PACKAGES = {
    "arviz": Package("ArviZ", "'folt[arviz]'"),
    "cloudpickle": Package("cloudpickle", "'folt[fleet]'"),
    "distributed": Package("Dask", "'folt[fleet]'"),
    "jinja2": Package("Jinja2", "'folt[report]'"),
    "matplotlib": Package("Matplotlib", "'folt[report]'"),
    "numpyro": Package("NumPyro", "'folt[numpyro]'"),
    "odf": Package("odfpy", "odfpy"),
    "openpyxl": Package("openpyxl", "openpyxl"),
    "optax": Package("Optax", "'folt[paper]'"),
    "pandas": Package("pandas", "'folt[tables]'"),
    "pyarrow": Package("pyarrow", "pyarrow"),
    "pymc": Package("PyMC", "'folt[pymc]'"),
    "xlrd": Package("xlrd", "xlrd"),
}
"""By the name under which each is imported."""


class MissingPackageError(ImportError, ValueError):
    """A package is not installed; the sentence says for what it is needed and how to get it."""


def require(purpose: str, *names: str, otherwise: str = "") -> None:
    """Refuse to go on without packages; nothing is imported.

    Args:
        purpose: what needs them, as the subject of a sentence.
        names: under which they are imported.
        otherwise: what can be done instead, if there is such a thing.

    Raises:
        MissingPackageError: one of them is not installed.
    """
    absent = [PACKAGES[name] for name in names if importlib.util.find_spec(name) is None]
    if not absent:
        return
    titles = " and ".join(package.title for package in absent)
    wanted = " ".join(dict.fromkeys(package.installed_by for package in absent))
    raise MissingPackageError(
        f"{purpose} needs {titles}, which {'is' if len(absent) == 1 else 'are'} not installed: "
        f"pip install {wanted}" + (f", or {otherwise}" if otherwise else "")
    )
