"""`python -m benchmarks.fleet [short] [windows] [--out DIR]`: what a fleet costs.

`short`: 10 000 jobs of 5 ms on two processes. `windows`: 24 equal modal windows on one process and
on two; wants quiet cores. Both write their rows into `results/fleet.json`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from benchmarks import record
from folt.fleet import Job, Processes, fit_many

COLUMNS = ("what", "jobs", "workers", "wall s", "jobs/s", "client MB above start", "remark")
TITLE = "Fleets on this machine: short jobs, and equal modal windows on one process and on two"

SHORT, SECONDS = 10_000, 0.005
WINDOWS, MINUTES, RATE = 24, 2.0, 8.0


def nap(number):
    time.sleep(SECONDS)
    return {"number": number}


def memory() -> float:
    """Megabytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Watch:
    """The most memory that this process held meanwhile."""

    def __enter__(self):
        self.start = self.most = memory()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self):
        while not self._over.wait(0.1):
            self.most = max(self.most, memory())

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def short(out: Path, count: int = SHORT) -> list[tuple]:
    """Many jobs that take no time: what is left is what the fleet itself costs."""
    jobs = [Job(f"n{i:05d}", run=nap, data=i) for i in range(count)]
    load = os.getloadavg()[0]
    with Watch() as watch, Processes(2) as runner:
        begun = time.perf_counter()
        table = fit_many(jobs, out / "short", runner=runner, progress=True)
        wall = time.perf_counter() - begun
    assert table["error"].isna().all()
    begun = time.perf_counter()
    fit_many(jobs, out / "short", workers=2, progress=False)
    again = time.perf_counter() - begun
    cells = ("jobs of 5 ms", count, 2, f"{wall:.0f}", f"{count / wall:.0f}")
    remark = f"load {load:.1f} before; all found finished again in {again:.0f} s"
    return [(*cells, f"{watch.most - watch.start:.0f}", remark)]


def windows(out: Path) -> list[tuple]:
    """Equal windows, fitted from nothing, on one process and on two, compilations at hand."""
    import dataclasses

    import jax

    from folt.modal import Settings, Structure, simulate_record
    from folt.modal.tracking import Windows, window_jobs

    tower = Structure(frequency=(0.8, 0.9), damping=(0.012, 0.02), power=(1.0, 0.6), channels=4)
    made = simulate_record(jax.random.key(0), tower, rate=RATE, minutes=MINUTES * WINDOWS)
    cut = Windows(60 * MINUTES, 60 * MINUTES, (0.7, 1.0), segment=40.0)
    settings = Settings(frequency_range=(0.7, 1.0), draws=500, chains=4)
    jobs = [dataclasses.replace(job, start=None) for job in window_jobs(made, cut, 2, settings)]
    rows, walls = [], {}
    with Processes(2) as runner:
        # What any of the windows compiles is in the cache before the first clock starts.
        fit_many(jobs, out / "compiled", runner=runner)
    for workers in (1, 2):
        with Processes(workers) as runner:
            # Every process has its programs before the clock starts.
            first = [dataclasses.replace(jobs[k], name=f"warm-up-{k}") for k in range(workers)]
            fit_many(first, out / f"warm-up-{workers}", runner=runner)
            begun = time.perf_counter()
            table = fit_many(jobs, out / f"windows-{workers}", runner=runner)
            walls[workers] = time.perf_counter() - begun
        inside = table["seconds"].sum()
        beside = (workers * walls[workers] - inside) / len(jobs)
        remark = f"{beside:.2f} s per job beside the fit, idle ends included; "
        remark += f"load {os.getloadavg()[0]:.1f} after"
        if workers == 2:
            remark += f"; {walls[1] / walls[2]:.2f} times as fast as one"
        cells = ("modal windows", len(jobs), workers, f"{walls[workers]:.0f}")
        rows.append((*cells, f"{len(jobs) / walls[workers]:.2f}", "", remark))
    return rows


PARTS = {"short": short, "windows": windows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="folt-fleet-"))
    try:
        earlier = record.read("fleet")
    except ValueError:
        earlier = {"rows": [], "by_part": {}}
    known, commits = earlier["rows"], earlier["by_part"]
    for name in given.parts:
        made = [list(row) for row in PARTS[name](out)]
        known = [row for row in known if row[0] not in {one[0] for one in made}] + made
        commits[name] = record.commit()
    print(
        record.write(
            "fleet",
            TITLE,
            COLUMNS,
            known,
            command="python -m benchmarks.fleet",
            commits=commits.values(),
            by_part=commits,
        )
    )
    if given.out is None:
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
