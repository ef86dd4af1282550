"""Every table and figure of the paper, ours beside theirs.

One file per table, each with `cases(settings)`, which lists its jobs, and `run(fits, job)`,
which makes the rows of one. Tables and figures are made from the JSON that runs wrote, never from
a fit. `folt reproduce NAME` is the way in.
"""

from __future__ import annotations

import importlib
from types import ModuleType

TABLES = {
    "banana": "banana",
    "dimension": "dimension",
    "label-switching": "label_switching",
    "baselines": "baselines",
    "conditions": "conditions",
    "bayes-mixture": "bayes_mixture",
    "modal": "modal",
    "schematic": "schematic",
}
"""Modules by the name a user gives; tables that share fits follow each other."""


def table_named(name: str) -> ModuleType:
    """Return the module of a table.

    Raises:
        ValueError: naming those that exist.
    """
    if name not in TABLES:
        raise ValueError(f"expected one of {', '.join([*TABLES, 'all'])}, got {name!r}")
    return importlib.import_module(f"folt.paper.{TABLES[name]}")


def tables_named(name: str) -> list[ModuleType]:
    """Return one table, or all of them."""
    return [table_named(one) for one in (TABLES if name == "all" else (name,))]
