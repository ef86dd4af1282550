"""Fleets whose client dies or is interrupted; every other way to die is in tests/validate."""

import os
import signal
import time

import pytest

from fleet_kills import Fleet, gone, killed_and_resumed

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("what", ["client"])
def test_what_was_finished_is_kept_when_the_client_is_killed(what, tmp_path):
    finished, table = killed_and_resumed(tmp_path, what, after=10, count=30)
    assert 10 <= finished < 30
    assert [(row["job"], row["square"]) for row in table] == [
        (f"n{i:03d}", str(i * i)) for i in range(30)
    ]


def test_ctrl_c_ends_within_seconds_and_keeps_what_is_finished(tmp_path):
    fleet = Fleet(tmp_path, 400)
    process = fleet.start()
    fleet.wait_for(10, process)
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=30)
    assert time.monotonic() - begun < 60
    gone(process.pid)
    assert process.returncode != 0
    finished = fleet.finished()
    assert 10 <= len(finished) < 400
    assert abs(len(fleet.table()) - len(finished)) <= 100  # what had reached the client
    assert not fleet.leftovers()
