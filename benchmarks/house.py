"""`python -m benchmarks.house`: how large the house is, and how far a fit walks in it.

Lines, files, rooms and names are counted in the sources. The walk is traced: the files with a
function that a fit enters, and how often the room changes in the order in which functions are
entered for the first time; imports do not count. Nothing here depends on the machine but the
seconds.
"""

from __future__ import annotations

import ast
import io
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.record import ROOT, write

SOURCE = ROOT / "src" / "folt"
APPLICATIONS = ("modal", "paper")
"""Rooms that whoever needs neither never opens."""
SMALL = 60
"""Lines below which a file with one importer is part of it."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

TRACE = """
import json, os, sys
entered, seen, source = [], set(), sys.argv[1]
def walk(frame, event, argument):
    code = frame.f_code
    if event == "call" and code not in seen and code.co_filename.startswith(source):
        if code.co_name[0] != "<" and not importing(frame):
            seen.add(code)
            entered.append(os.path.relpath(code.co_filename, source))
def importing(frame):
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(source)
{before}
sys.setprofile(walk)
try:
    {run}
finally:
    sys.setprofile(None)
    sys.stderr.write("WALK " + json.dumps(entered))
"""

FIT = (
    "import folt\nproblem = folt.models.bayesian_mixture()",
    "folt.sample(problem, effort=folt.Effort.quick(), progress=False)",
)
MIXTURE = (
    "from folt.cli import run",
    "run(['mixture', sys.argv[2], '--components', '2', '--effort', 'quick', '--out', sys.argv[3]])",
)
IMPORT = "import time; start = time.perf_counter(); import folt; print(time.perf_counter() - start)"


def code_lines(path: Path) -> int:
    """Lines that hold code: no blank ones, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    words: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            words |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    blank = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line for t in tokens if t.type not in blank for line in range(t.start[0], t.end[0] + 1)
    }
    return len(lines - words)


def importers(files: dict[str, Path]) -> dict[str, set[str]]:
    """Which modules import each module."""
    found = defaultdict(set)
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found[whole if whole in files else node.module].add(name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.name].add(name)
    return found


def repeated_names(files: dict[str, Path]) -> list[str]:
    """Public names that several modules define: classes, functions and constants."""
    counts: Counter[str] = Counter()
    for path in files.values():
        names = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        counts.update(name for name in names if not name.startswith("_"))
    return sorted(name for name, count in counts.items() if count > 1)


def modules() -> dict[str, Path]:
    """Every module of folt by its dotted name."""
    paths = sorted(SOURCE.rglob("*.py"))
    dotted = (".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in paths)
    return {name.removesuffix(".__init__"): path for name, path in zip(dotted, paths, strict=True)}


def walked(before: str, run: str, *arguments: str) -> tuple[int, int]:
    """Files that a run enters, and changes of room on its way."""
    code = TRACE.replace("{before}", before).replace("{run}", run)
    done = subprocess.run(
        [sys.executable, "-c", code, str(SOURCE) + "/", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"WALK (\[.*\])", done.stderr)
    if found is None:
        raise RuntimeError(done.stderr)
    entered = json.loads(found[1])
    rooms = [Path(path).parts[0] for path in entered]
    changes = sum(one != other for one, other in itertools.pairwise(rooms))
    return len(set(entered)), changes


def rows() -> list[tuple[str, str]]:
    """The numbers, with their names."""
    files = modules()
    lines = {name: code_lines(path) for name, path in files.items()}
    whole = sum(lines.values())
    apart = sum(count for name, count in lines.items() if _room(name) in APPLICATIONS)
    sizes = [path.read_text(encoding="utf-8").count("\n") for path in files.values()]
    known = importers(files)
    small = [
        name
        for name, path in files.items()
        if path.name not in ("__init__.py", "__main__.py")
        and path.read_text(encoding="utf-8").count("\n") < SMALL
        and len(known[name]) == 1
    ]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    packages = [path for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
    importing = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.csv"
        data.write_text("y\n" + "\n".join(str(k % 7 + 10 * (k % 2)) for k in range(60)))
        fit, mixture = walked(*FIT), walked(*MIXTURE, str(data), str(Path(folder) / "out"))
    return [
        ("lines of code, without modal and paper", f"{whole - apart}"),
        ("lines of code", f"{whole}"),
        ("files", f"{len(files)}"),
        ("rooms", f"{len(packages)}"),
        ("layers", f"{len(layers)}"),
        ("median lines of a file", f"{statistics.median(sizes):.0f}"),
        (f"files below {SMALL} lines with one importer", f"{len(small)}"),
        ("hard dependencies", f"{len(settings['project']['dependencies'])}"),
        ("public names defined more than once", f"{len(repeated_names(files))}"),
        ("seconds to import folt", f"{float(importing.stdout):.2f}"),
        ("files that a fit enters", f"{fit[0]}"),
        ("changes of room in a fit", f"{fit[1]}"),
        ("files that folt mixture enters", f"{mixture[0]}"),
        ("changes of room in folt mixture", f"{mixture[1]}"),
    ]


def _room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def main() -> None:
    """Count, trace and write `results/house.json`."""
    found = rows()
    title = "The size of folt's sources, and the walk of a quick fit and of `folt mixture data.csv`"
    path = write("house", title, ("quantity", "value"), found, command="python -m benchmarks.house")
    sys.stdout.write("\n".join(f"{name}: {value}" for name, value in found) + f"\n{path}\n")


if __name__ == "__main__":
    main()
