"""kill -9 of a worker, of the client and of everything at random moments of a fleet."""

import random

import pytest
from table import write_table

from fleet_kills import COUNT, KILLS, Fleet, killed_and_resumed

MOMENTS = 7
"""Of each kind, 21 in all."""


@pytest.mark.validate
def test_a_fleet_survives_kills_at_random_moments(tmp_path):
    """Half-files, jobs that run again and tables that differ are counted; none may be there."""
    quiet = Fleet(tmp_path / "quiet")
    quiet.run()
    expected, generator, rows = quiet.table(), random.Random(0), []
    for what in KILLS:
        kept = []
        for moment in range(MOMENTS):
            after = generator.randrange(COUNT)
            folder = tmp_path / f"{what}-{moment}"
            finished, table = killed_and_resumed(folder, what, after)
            assert table == expected
            kept.append(finished)
        finished = "" if what == "worker" else f"{min(kept)} to {max(kept)}"
        rows.append((what, MOMENTS, finished, 0, 0, 0))
    write_table(
        "fleet-kills",
        f"kill -9 at {MOMENTS} random moments each of a fleet of {COUNT} jobs on two processes, "
        "then the same command again",
        (
            "killed",
            "times",
            "finished before",
            "tables that differ",
            "finished jobs that ran again",
            "half files",
        ),
        rows,
    )
