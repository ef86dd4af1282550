"""Measurements as JSON in `results/`: what was found, by which command, at which commit, when.

    {"name", "title", "columns", "rows": [[cell, ...], ...],
     "provenance": {"command", "commit", "date", "versions", "machine", "cpu_s"}}

`benchmarks.tables` writes the tables of the pages from these files.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
KEYS = ("name", "title", "columns", "rows", "provenance")

Cell = str | int | float | None
Measurement = dict[str, Any]


def write(
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    command: str,
    cpu_s: float | None = None,
    commits: Iterable[str | None] | None = None,
    folder: Path | None = None,
    **details: Any,
) -> Path:
    """Write a measurement, whole or not at all.

    Args:
        name: of the file, and of the table in a page's markers.
        title: one line that says what was measured.
        columns: headings.
        rows: cells, as they are to be shown; numbers and words, None where nothing was measured.
        command: what makes it again.
        cpu_s: CPU seconds it took; those of this process and its children if not given.
        commits: of the runs that the rows come from, where they are several; that of the working
            tree if not given.
        folder: where the file goes, `results/` if not given.
        **details: what no table shows, under its own key.

    Raises:
        ValueError: a row is not as long as the headings.
    """
    cells = [[_cell(cell) for cell in row] for row in rows]
    for row in cells:
        if len(row) != len(columns):
            raise ValueError(f"expected {len(columns)} cells as in {columns}, got {row}")
    measurement = {
        "name": name,
        "title": title,
        "columns": list(columns),
        "rows": cells,
        "provenance": provenance(command, cpu_seconds() if cpu_s is None else cpu_s, commits),
        **details,
    }
    return store(measurement, RESULTS if folder is None else folder)


def store(measurement: Measurement, folder: Path) -> Path:
    """Write the file, a line per row so that changes can be read."""
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in measurement["rows"]]
    text = json.dumps({**measurement, "rows": 0}, ensure_ascii=False, allow_nan=False, indent=1)
    body = ",\n".join("  " + line for line in lines)
    text = text.replace('"rows": 0', f'"rows": [\n{body}\n ]', 1)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{measurement['name']}.json"
    unfinished = path.with_suffix(".json.unfinished")
    unfinished.write_text(text + "\n", encoding="utf-8")
    os.replace(unfinished, path)
    return path


def read(name: str, folder: Path | None = None) -> Measurement:
    """The measurement of this name.

    Raises:
        ValueError: there is none, or the file is not one.
    """
    path = (RESULTS if folder is None else folder) / f"{name}.json"
    if not path.is_file():
        raise ValueError(f"no measurement {name!r}: {path} does not exist")
    measurement = json.loads(path.read_text(encoding="utf-8"))
    missing = [key for key in KEYS if key not in measurement]
    if missing or measurement["name"] != name:
        raise ValueError(f"expected a measurement named {name!r} in {path}, without {missing}")
    return measurement


def remembered(path: Path, key: str, make: Callable[[], Any]) -> Any:
    """What was made under this key before, from a file of lines, else made now and added to it.

    Long measurements are interrupted; they go on where they stopped.
    """
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            if (known := json.loads(line))["key"] == key:
                return known["value"]
    value = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"key": key, "commit": commit(), "value": value}) + "\n")
    return value


def commits_of(path: Path) -> list[str]:
    """Commits at which the lines of such a file were made, in their order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(json.loads(line)["commit"] for line in lines))


def names(folder: Path | None = None) -> list[str]:
    """Every measurement there is."""
    return sorted(path.stem for path in (RESULTS if folder is None else folder).glob("*.json"))


def provenance(
    command: str, cpu_s: float, commits: Iterable[str | None] | None = None
) -> dict[str, Any]:
    """Where numbers come from: made just now, or by runs at these commits."""
    from folt.paper.document import package_versions, processor

    found = [commit()] if commits is None else dict.fromkeys(commits)
    return {
        "command": command,
        "commit": ", ".join(one for one in found if one) or None,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": package_versions(),
        "machine": processor(),
        "cpu_s": round(cpu_s, 1),
    }


def commit() -> str | None:
    """The commit of the working tree; `-dirty` if code differs from it, None without git.

    Results and pages do not count: a series of measurements writes them as it goes.
    """
    code = ("src", "benchmarks", "tests", "examples", ":(exclude)benchmarks/results")
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("-dirty" if _git("status", "--porcelain", "--", *code) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def cpu_seconds() -> float:
    """CPU seconds of this process and of its finished children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def _cell(value: Any) -> Cell:
    """A number or a word; what is neither is shown as Python would print it."""
    plain = value.item() if hasattr(value, "item") else value
    return plain if plain is None or isinstance(plain, str | int | float) else str(plain)
