"""Every table and figure of the paper, ours beside theirs.

An `Experiment` lists its jobs and makes the rows of each. Tables and figures are made from the
JSON that runs wrote, never from a fit. `folt reproduce NAME` is the way in.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from folt.paper.tables import Experiment

TABLES = {
    "banana": "known_targets.BananaTable",
    "dimension": "known_targets.DimensionTable",
    "label-switching": "known_targets.LabelSwitchingTable",
    "baselines": "baselines.BaselinesTable",
    "conditions": "conditions.ConditionsTable",
    "bayes-mixture": "bayes_mixture.MixtureTable",
    "modal": "modal.ModalTable",
    "schematic": "schematic.Schematic",
}
"""Experiments by the name a user gives; tables that share fits follow each other."""


def table_named(name: str) -> Experiment:
    """Return an experiment.

    Raises:
        ValueError: naming those that exist.
    """
    if name not in TABLES:
        raise ValueError(f"expected one of {', '.join([*TABLES, 'all'])}, got {name!r}")
    module, _, experiment = TABLES[name].partition(".")
    return getattr(importlib.import_module(f"folt.paper.{module}"), experiment)()


def tables_named(name: str) -> list[Experiment]:
    """Return one experiment, or all of them."""
    return [table_named(one) for one in (TABLES if name == "all" else (name,))]
