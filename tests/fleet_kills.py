"""A fleet in a process of its own that can be killed, and what must be true afterwards."""

import csv
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from folt.fleet.schedule import finished_row
from folt.store import Entry

ROOT = Path(__file__).parents[1]
COUNT = 40

SCRIPT = """
import sys
from pathlib import Path
from fleet_jobs import counted
from folt.fleet import Job, fit_many

if __name__ == "__main__":
    out, marks, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    jobs = [Job(f"n{i:03d}", run=counted, data=[f"{marks}/n{i:03d}", i]) for i in range(count)]
    fit_many(jobs, out, workers=2, progress=False, retries=5)
"""


class Fleet:
    """A fleet of short jobs that leave a mark every time one of them runs."""

    def __init__(self, folder, count=COUNT):
        self.folder, self.count = folder, count
        self.out, self.marks = folder / "out", folder / "marks"
        self.marks.mkdir(parents=True)
        (folder / "fleet.py").write_text(SCRIPT)

    def start(self):
        path = f"{ROOT / 'src'}{os.pathsep}{Path(__file__).parent}"
        return subprocess.Popen(
            [sys.executable, "fleet.py", str(self.out), str(self.marks), str(self.count)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # A suite that runs in the background hands down that Ctrl-C is not listened to.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self):
        process = self.start()
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said.decode()

    def finished(self):
        """Jobs that are finished, with how often each has run."""
        found = {}
        for path in self.out.glob("*/row.json"):
            entry = Entry(path)
            note = entry.read()
            assert note is not None, f"half a file: {path}"
            if finished_row(entry, note.request) is not None:
                found[path.parent.name] = len((self.marks / path.parent.name).read_text())
        return found

    def table(self):
        """The table without what differs from run to run."""
        with open(self.out / "table.csv", newline="") as file:
            return [{**row, "seconds": ""} for row in csv.DictReader(file)]

    def wait_for(self, count, process, patience=120.0):
        """Wait until so many jobs are finished."""
        end = time.monotonic() + patience
        while time.monotonic() < end and process.poll() is None:
            if len(list(self.out.glob("*/row.json"))) >= count:
                return
            time.sleep(0.005)

    def leftovers(self):
        """What no undisturbed run leaves."""
        known = {"row.json", "table.csv", "index.html", "settings.json"}
        return [path for path in self.out.rglob("*") if path.is_file() and path.name not in known]


def kill_worker(process):
    """Kill one worker; the client goes on."""
    workers = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if any("spawn_main" in word for word in child.cmdline())
    ]
    if workers:
        random.choice(workers).send_signal(signal.SIGKILL)


def kill_client(process):
    """Kill the client; its workers have to notice."""
    process.kill()


def kill_everything(process):
    """Kill the client and its workers at once."""
    os.killpg(process.pid, signal.SIGKILL)


KILLS = {"worker": kill_worker, "client": kill_client, "everything": kill_everything}


def killed_and_resumed(folder, what, after, count=COUNT):
    """Kill while jobs run, go on, and compare with a run that nobody disturbed.

    Args:
        folder: of this fleet.
        what: is killed.
        after: so many jobs are finished.
        count: of jobs.

    Returns:
        How many were finished when it was killed, and the table at the end.
    """
    fleet = Fleet(folder, count)
    process = fleet.start()
    fleet.wait_for(after, process)
    KILLS[what](process)
    if what == "worker":
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said.decode()
        before = {}
    else:
        process.wait(timeout=60)
        gone(process.pid)
        before = fleet.finished()
    fleet.run()
    after_all = fleet.finished()
    assert len(after_all) == count
    again = {name for name in before if after_all[name] != before[name]}
    assert not again, f"ran again although finished: {again}"
    assert not fleet.leftovers()
    return len(before), fleet.table()


def gone(leader, patience=30.0):
    """Wait until no process of a session is left."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if not any(_session(process) == leader for process in psutil.process_iter()):
            return
        time.sleep(0.05)
    raise AssertionError("a process was left behind")


def _session(process):
    try:
        return os.getsid(process.pid)
    except OSError:
        return None
