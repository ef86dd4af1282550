"""The document of a table: its rows, where they come from, and the page that is made of them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from folt.paper.rows import ReproductionSettings, TableJob
from folt.paper.tables import Experiment, claim_list
from folt.store.strict_json import Document

_PACKAGES = ("folt", "jax", "jaxlib", "equinox", "numpy", "scipy")


def provenance(command: str, wall_s: float) -> Document:
    """Return the provenance of a run."""
    return {
        "command": command,
        "wall_s": round(wall_s, 1),
        "versions": package_versions(),
        "git": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": processor(),
    }


def commit() -> str | None:
    """The commit of the working tree this file belongs to, marked if changed; None elsewhere."""
    here = Path(__file__).resolve()
    try:
        # An installed copy may lie inside a repository of somebody else's.
        _git(here, "ls-files", "--error-unmatch", here.name)
        return _git(here, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def processor() -> str:
    """Return the number and name of the processors."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = names[0] if names else name
    except OSError:
        pass
    return f"{os.cpu_count()} x {name}"


def package_versions() -> dict[str, str]:
    """Return versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _git(here: Path, *words: str) -> str:
    command = ["git", "-C", str(here.parent), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def open_document(path: Path, name: str, settings: ReproductionSettings) -> Document:
    """Return the document at a path, or a new one.

    Raises:
        ValueError: there is one made with other settings, or a file that is no such document.
    """
    asked = settings.fingerprint(name)
    if not path.exists():
        new = {"name": name, "preset": settings.preset, "quick": settings.quick}
        return {**new, "settings": asked, "provenance": {"wall_s": 0.0}, "rows": []}
    document = read_document(path)
    found = document["settings"]
    differing = [key for key in asked if found.get(key) != asked[key]]
    if differing or document["name"] != name:
        was = ", ".join(f"{key} {found.get(key)}" for key in differing)
        now = ", ".join(f"{key} {asked[key]}" for key in differing)
        raise ValueError(
            f"{path} holds rows made with {was}, and {now} was asked for: "
            "give another --out, or remove the file to start over"
        )
    return document


def read_document(path: Path) -> Document:
    """Return the document in a file.

    Raises:
        ValueError: the file holds something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if {"name", "settings", "provenance", "rows"} <= set(document):
            return document
    except (OSError, ValueError, TypeError):
        pass
    raise ValueError(f"expected results that folt reproduce wrote, got {path}")


def document_bytes(document: Document) -> bytes:
    """Return the document as it stands in its file; NaN cannot get in."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ": "))
    # A line per row keeps changes readable without a line per number.
    text = text.replace('{"case": ', '\n{"case": ')
    return (text + "\n").encode()


def is_done(document: Document, job: TableJob) -> bool:
    """Return whether every row of a job is there."""
    there = {(row["case"], row["method"], row["seed"]) for row in document["rows"]}
    return all((job.case, method, job.seed) in there for method in job.methods)


def put(document: Document, rows: list[Document], order: list[TableJob]) -> None:
    """Add the rows of a job, in the order in which the table lists its jobs."""
    document["rows"] += rows
    places = {
        (job.case, method, job.seed): (place, number)
        for place, job in enumerate(order)
        for number, method in enumerate(job.methods)
    }
    last = (len(order), 0)
    document["rows"].sort(key=lambda r: places.get((r["case"], r["method"], r["seed"]), last))


def finished(document: Document) -> Document:
    """Return the document without rows whose run failed."""
    return {**document, "rows": [row for row in document["rows"] if not row.get("error")]}


def document_page(table: Experiment, document: Document) -> str:
    """Return the Markdown page of a table, from its document alone."""
    facts = document["provenance"]
    rows = finished(document)["rows"]
    parts = [f"# {table.title}", _opening(document)]
    for heading, body in table.report(rows):
        if body:
            parts += [f"## {heading}", body]
    failed = [row for row in document["rows"] if row.get("error")]
    if failed:
        lines = [f"* {r['case']}, {r['method']}, seed {r['seed']}: {r['error']}" for r in failed]
        parts += ["## What failed", "\n".join(lines)]
    claims = table.claims(rows, document["preset"])
    if claims:
        parts += ["## What is claimed", claim_list(claims)]
    git = f", commit {facts['git']}" if facts.get("git") else ""
    git += f", {facts['date']}" if facts.get("date") else ""
    parts.append(
        f"`{facts.get('command')}`: {facts['wall_s']:.0f} s on {facts.get('cpu')}; "
        f"folt {facts.get('versions', {}).get('folt')}, jax {facts['versions'].get('jax')}{git}."
    )
    return "\n\n".join(parts) + "\n"


def _opening(document: Document) -> str:
    settings = document["settings"]
    words = [f"Preset `{document['preset']}`"]
    if settings["identity_orbit"]:
        words.append("orbit truncated to N = {e}")
    if document["quick"]:
        words.append("**quick: few draws, short training, not to be compared**")
    seeds = sorted({row["seed"] for row in document["rows"]})
    words.append(f"seeds {', '.join(map(str, seeds))}")
    return ", ".join(words) + ". Ranges run over the seeds; a dash is what cannot be had."
