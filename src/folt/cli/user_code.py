"""Problems that users define in their own files and modules."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from folt.cli.faults import words_of

if TYPE_CHECKING:
    from folt.problem import Problem


def problem_at(place: str, data: Path | None = None) -> Problem:
    """The problem that a place such as `model.py:problem` names, or a Stan program with data.

    Raises:
        ValueError: nothing there, or not a problem; with what was expected.
    """
    if is_stan(place):
        from folt.interop.stan_files import problem_of_files

        return problem_of_files(Path(place), data)
    if data is not None:
        raise ValueError("expected --data with a Stan program, model.stan, got it with a problem")

    import jax

    from folt.problem import Problem

    source, name = _parts(place)
    # Arrays that a model makes while it is imported must not be rounded to single precision.
    with jax.enable_x64(True):
        module = _imported(source)
        if not hasattr(module, name):
            there = [key for key, value in vars(module).items() if isinstance(value, Problem)]
            hint = f"; it has {', '.join(there)}" if there else ""
            raise ValueError(f"{source} has no {name!r}: expected a Problem of that name{hint}")
        found = getattr(module, name)
        if callable(found) and not isinstance(found, Problem):
            found = in_user_code(f"{name}() in {source}", source, found)
    if not isinstance(found, Problem):
        raise ValueError(
            f"expected {place} to be a folt.Problem or a function without arguments that returns "
            f"one, got {type(found).__name__}"
        )
    return found


def is_stan(place: str) -> bool:
    """Return whether a place is a Stan program."""
    return place.endswith(".stan")


def things_at(place: str, what: str) -> object:
    """Whatever a place such as `jobs.py:jobs` names, called if it is a plain function.

    A file is sent to workers with what it defines, because they need not see it.

    Raises:
        ValueError: nothing there.
    """
    import inspect

    source, name = _parts(place)
    module = _imported(source)
    if not hasattr(module, name):
        raise ValueError(f"{source} has no {name!r}: expected {what} of that name")
    if source.endswith(".py"):
        _send_by_value(module)
    found = getattr(module, name)
    if inspect.isfunction(found):
        return in_user_code(f"{name}() in {source}", source, found)
    return found


def _send_by_value(module: ModuleType) -> None:
    try:
        import cloudpickle
    except ImportError:  # then nothing is sent either
        return
    cloudpickle.register_pickle_by_value(module)


def _parts(place: str) -> tuple[str, str]:
    source, separator, name = place.rpartition(":")
    if not (separator and source and name):
        raise ValueError(f"expected FILE.py:NAME or MODULE:NAME, got {place!r}")
    return source, name


def _imported(source: str) -> Any:
    """Return a module from a file or from the import path, the working folder included."""
    import importlib
    import importlib.util

    path = Path(source)
    if path.suffix != ".py":
        sys.path.insert(0, os.getcwd())
        return in_user_code(source, source, lambda: importlib.import_module(source))
    if not os.path.isfile(path):
        raise ValueError(f"expected a Python file, found nothing at {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ValueError(f"expected a Python file, got {path}")
    load = spec.loader.exec_module
    module = importlib.util.module_from_spec(spec)
    # A model may import its neighbours, and classes look their own module up by name.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules.setdefault(path.stem, module)
    in_user_code(source, source, lambda: load(module))
    return module


def prints_aside() -> contextlib.AbstractContextManager[object]:
    """Send what the user's code prints to standard error: standard output is for results."""
    return contextlib.redirect_stdout(sys.stderr)


Made = TypeVar("Made")


def in_user_code(what: str, source: str, call: Callable[[], Made]) -> Made:
    """Call, and turn what goes wrong in the user's code into one line that says where.

    Raises:
        ValueError: whatever else the code raised, SystemExit too.
    """
    try:
        with prints_aside():
            return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename) == Path(source).resolve()]
        line = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"cannot use {what}{line}: {words_of(error)}") from error
