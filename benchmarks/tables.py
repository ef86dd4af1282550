"""`python -m benchmarks.tables`: write the tables of README and docs from `results/*.json`.

What stands between `<!-- table: NAME -->` and `<!-- /table -->` is replaced by the measurement of
that name and a line that says where it comes from. `<!-- table: NAME; heading; heading -->` shows
only these columns, `<!-- table: ONE, OTHER -->` the rows of both, and a last part such as
`only problem: galaxies` the rows with this cell. `<!-- tables -->` is replaced by every measurement
there is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.record import ROOT, Measurement, names, read

PLACE = re.compile(r"(<!-- table: ([^\n]+?) -->\n).*?(<!-- /table -->)", re.DOTALL)
MARK = re.compile(r"<!-- (/?)table\b")
ALL = re.compile(r"(<!-- tables -->\n).*?(<!-- /tables -->)", re.DOTALL)
GENERATED = re.compile(
    r"<!-- (table|tables|results|output)\b[^\n]*?-->\n"
    r".*?<!-- (/table|/tables|end|end of output) -->",
    re.DOTALL,
)
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
NUMBER = r"[-+−±]?(?:\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?"
MEASURED = re.compile(rf"[<>≤≥~]?\s*{NUMBER}(?:\s*(?:%|s|±|to|–|/|,|[(]|[)]|x|×|{NUMBER}))*")
UNITS = r"s|ms|seconds?|minutes?|hours?|GB|MB|%|times"
STATED = re.compile(rf"(?<![\w.])[-+−±]?(?:\d*\.\d+|\d[\d ]*(?=\s?(?:{UNITS})(?!\w)))")


def pages() -> list[Path]:
    """The pages whose tables are looked after."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str, folder: Path | None = None) -> str:
    """A page with every marked table as its measurement has it.

    Raises:
        ValueError: a marker names what does not exist, or is not closed.
    """
    if not re.fullmatch("(ab)*", "".join("ab"[mark == "/"] for mark in MARK.findall(text))):
        raise ValueError("every <!-- table: NAME --> needs a <!-- /table --> before the next")
    text = PLACE.sub(lambda place: f"{place[1]}{_table(place[2], folder)}\n{place[3]}", text)
    return ALL.sub(lambda place: f"{place[1]}{_every(folder)}\n{place[2]}", text)


def stale() -> list[str]:
    """Pages that differ from what the measurements say."""
    texts = ((page, page.read_text(encoding="utf-8")) for page in pages())
    return [page.relative_to(ROOT).as_posix() for page, text in texts if filled(text) != text]


def unbacked(text: str) -> list[str]:
    """Table rows outside the markers with a cell that is nothing but a number: measurements.

    A row that begins with code, such as the name of an argument, may state a plain number: its
    default. A unit, an error or a range makes it a measurement there too.
    """
    rows = [line for line in _by_hand(text).splitlines() if line.startswith("|")]
    return [row for row in rows if _measured(row)]


def _measured(row: str) -> bool:
    first, *cells = (cell.strip() for cell in row.strip("|").split("|"))
    if re.fullmatch(r"`[^`]*`", first):
        cells = [cell for cell in cells if not re.fullmatch(NUMBER, cell)]
    return any(MEASURED.fullmatch(cell) for cell in cells)


def stated(text: str) -> list[str]:
    """Decimal fractions, and whole numbers with a unit, by hand: outside markers and code."""
    prose = re.sub(r"`[^`\n]*`", "", _by_hand(text))
    return [number.strip() for number in STATED.findall(prose)]


def _by_hand(text: str) -> str:
    return CODE.sub("", GENERATED.sub("", text))


def _table(asked: str, folder: Path | None) -> str:
    sources, *columns = (part.strip() for part in asked.split(";"))
    only = columns.pop() if columns and columns[-1].startswith("only ") else None
    found = [_chosen(read(name.strip(), folder), only) for name in sources.split(",")]
    columns = columns or found[0]["columns"]
    rows = [row for measurement in found for row in _rows(measurement, columns)]
    notes = "\n".join(
        f"*{'' if len(found) == 1 else one['name'] + ': '}{origin(one)}*" for one in found
    )
    return f"\n{_markdown(columns, rows)}\n\n{notes}\n"


def _every(folder: Path | None) -> str:
    parts = []
    for name in names(folder):
        found = read(name, folder)
        table = _markdown(found["columns"], found["rows"])
        parts.append(
            f"\n## {name}\n\n{found['title']}\n\n{table}\n\n*{origin(found, full=True)}*\n"
        )
    return "".join(parts)


def _chosen(measurement: Measurement, only: str | None) -> Measurement:
    """The measurement with the rows that `only COLUMN: CELL` asks for; all of them without it.

    Raises:
        ValueError: no row has this cell.
    """
    if only is None:
        return measurement
    column, cell = (part.strip() for part in only.removeprefix("only ").split(":", 1))
    columns = measurement["columns"]
    where = columns.index(column) if column in columns else None
    rows = [row for row in measurement["rows"] if where is not None and row[where] == cell]
    if not rows:
        raise ValueError(f"{measurement['name']} has no row with {cell!r} under {column!r}")
    return {**measurement, "rows": rows}


def _rows(measurement: Measurement, columns: Sequence[str]) -> list[list]:
    there = measurement["columns"]
    missing = [column for column in columns if column not in there]
    if missing:
        raise ValueError(f"{measurement['name']} has columns {there}, not {missing}")
    return [[row[there.index(column)] for column in columns] for row in measurement["rows"]]


def origin(measurement: Measurement, *, full: bool = False) -> str:
    """The line under a table: command, commit and date; with all that is known, if asked."""
    facts = measurement["provenance"]
    parts = [f"`{facts['command']}`", f"commit {facts['commit']}", facts["date"]]
    if full:
        versions = facts.get("versions") or {}
        parts += [facts["machine"]] if facts.get("machine") else []
        parts += [f"{facts['cpu_s']:.0f} CPU s"] if facts.get("cpu_s") is not None else []
        parts += [f"{key} {versions[key]}" for key in ("folt", "jax", "numpy") if key in versions]
        parts += [facts["note"]] if facts.get("note") else []
    return ", ".join(parts) + "."


def _markdown(columns: Iterable[str], rows: Iterable[Iterable]) -> str:
    lines = [list(columns), *rows]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(map(_shown, line)) + " |" for line in lines)


def _shown(cell: object) -> str:
    return "" if cell is None else str(cell).replace("|", "\\|")


def main() -> None:
    """Rewrite the pages that differ."""
    for name in stale():
        page = ROOT / name
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"filled {name}\n")


if __name__ == "__main__":
    main()
