"""Validation results as measurements beside the benchmarks' own."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import record  # noqa: E402

started = 0.0
"""CPU seconds when the running test began; `conftest.py` sets it."""


def truth(name):
    """log Z of a posterior by another method than folt's, and its error."""
    found = record.read(f"truth-{name}")
    return found["log_evidence"], found["standard_error"]


def write_table(name, title, columns, rows):
    """Write `validate-name.json`, with the test that is running as the command behind it."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "tests/validate").split(" ")[0].split("[")[0]
    command = f"python -m pytest -m validate {test}"
    cpu = record.cpu_seconds() - started
    record.write(f"validate-{name}", title, columns, rows, command=command, cpu_s=cpu)
