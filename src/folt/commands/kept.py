"""Fits that are kept, so that a run of several which was interrupted can go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from folt.commands.terminal import folder

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.problem import Problem


def kept_fit(
    problem: Problem, place: Path, settings: dict[str, Any], make: Callable[[], Fit]
) -> Fit:
    """The fit from its file if the same one was finished before, otherwise made and saved.

    The note of the settings is written last: it says that everything before it is complete.
    """
    from folt.report.files import write_whole
    from folt.report.store import load

    note, file = place / "settings.json", place / "fit.nc"
    text = json.dumps(settings, indent=1, sort_keys=True)
    if note.is_file() and file.is_file() and note.read_text() == text:
        return load(file, problem=problem)
    with folder(place):
        fit = make()
        fit.save(file)
        write_whole(note, text.encode())
    return fit
