"""Every validation's table says how much CPU time its test took."""

import pytest
import table


@pytest.fixture(autouse=True)
def watch():
    """Note the CPU time at which a test begins."""
    table.started = table.record.cpu_seconds()
