"""Draws as CmdStan writes them: a CSV file for every chain, a column for every entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

LOG_DENSITY = "lp__"
"""Stan's log density of its unconstrained parameters, up to a constant."""


def stems(names: Sequence[str]) -> dict[str, list[tuple[int, tuple[int, ...]]]]:
    """The entries of every declared name: place among all entries, and index counted from zero.

    Indices that are no numbers, such as those of complex values, count the entries one by one.
    """
    found: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    for place, name in enumerate(names):
        stem, *index = name.split(".")
        found.setdefault(stem, []).append((place, tuple(index)))
    parsed: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for stem, entries in found.items():
        if all(part.isdigit() for _, index in entries for part in index):
            parsed[stem] = [(p, tuple(int(part) - 1 for part in index)) for p, index in entries]
        else:
            parsed[stem] = [(place, (number,)) for number, (place, _) in enumerate(entries)]
    return parsed


def shape_of(indices: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of an array with these indices."""
    return tuple(1 + max(axis) for axis in zip(*indices, strict=True))


def by_name(names: Sequence[str], rows: Float[np.ndarray, "*lead n"]) -> dict[str, np.ndarray]:
    """Arrays (..., own shape) by declared name, from entries along the last axis."""
    found = {}
    for stem, entries in stems(names).items():
        indices = [index for _, index in entries]
        values = np.empty((*rows.shape[:-1], *shape_of(indices)))
        for place, index in entries:
            values[(..., *index)] = rows[..., place]  # type: ignore[index]
        found[stem] = values
    return found


def csv_files(path: Path) -> list[Path]:
    """The CSV files that a path means: a file, a folder, or a pattern such as out_*.csv."""
    if path.is_dir():
        return sorted(path.glob("*.csv"))
    if path.suffix == ".csv" and not path.is_file() and any(c in path.name for c in "*?["):
        return sorted(path.parent.glob(path.name))
    return [path] if path.suffix == ".csv" else []


def draws_of_chains(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Draws by name, (chain, draw, ...), and `lp__`; other columns of the sampler are left out.

    Raises:
        ValueError: a file that CmdStan did not write, or chains that do not fit together.
    """
    chains = [_chain(path) for path in paths]
    names, first = chains[0]
    for path, (others, rows) in zip(paths, chains, strict=True):
        if others != names:
            raise ValueError(f"expected the columns of {paths[0]} in {path}, got others")
        if len(rows) != len(first):
            raise ValueError(
                f"expected chains of equal length, got {len(first)} draws in {paths[0]} and "
                f"{len(rows)} in {path}"
            )
    kept = [n for n, name in enumerate(names) if not name.endswith("__") or name == LOG_DENSITY]
    return by_name([names[n] for n in kept], np.stack([rows[:, kept] for _, rows in chains]))


def _chain(path: Path) -> tuple[list[str], Float[np.ndarray, "draw column"]]:
    """The columns of a file, and its draws without those of the warm-up."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    comments = "\n".join(line for line in lines if line.startswith("#"))
    rows = [line for line in lines if line and not line.startswith("#")]
    if not rows or LOG_DENSITY not in rows[0].split(","):
        raise ValueError(
            f"expected a CSV file of draws that CmdStan wrote, with a column {LOG_DENSITY}, "
            f"got {path}"
        )
    try:
        numbers = np.array([line.split(",") for line in rows[1:]], np.float64)
    except ValueError as error:
        raise ValueError(
            f"{path} is not whole, or holds something else than numbers: {error}"
        ) from error
    if re.search(r"save_warmup = (1|true)", comments):
        warmup, thin = (
            int(found[1]) if (found := re.search(rf"{word} = (\d+)", comments)) else default
            for word, default in (("num_warmup", 0), ("thin", 1))
        )
        numbers = numbers[-(-warmup // thin) :]
    if not len(numbers):
        raise ValueError(f"expected draws in {path}, found none")
    return rows[0].split(","), numbers
