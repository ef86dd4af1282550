"""What a value is recognised by, before anything is built from it.

A job's fingerprint holds its functions by name and text, with the functions and the data of their
module that they use; arrays and files by digest, settings as they are. So a job that is finished is
found again by another process, and one that was changed is not taken for it.
"""

from __future__ import annotations

import contextvars
import dataclasses
import dis
import functools
import hashlib
import inspect
import types
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from folt.store import array_digest, digest, digest_of_file
from folt.store.files import require_readable

ALLOWED = "numbers, text, arrays, paths, functions, dataclasses, and lists or dictionaries of them"


def identity(value: Any) -> object:
    """Return the value as a plain tree that another process computes alike.

    Raises:
        ValueError: it is of a kind that has no such tree, or a file that cannot be read.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    for kind, known in _KINDS:
        if isinstance(value, kind):
            return known(value)
    if is_future(value):
        return {"future": str(value.key)}
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
        return {"class": _place(type(value)), **{name: identity(v) for name, v in fields.items()}}
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        return {"array": array_digest(np.asarray(value))}
    if callable(value) and hasattr(value, "__qualname__"):
        return {"function": _place(value)}
    raise ValueError(
        f"expected {ALLOWED}, got {type(value).__name__}, which another run could not recognise"
    )


def is_future(value: object) -> bool:
    """Return whether a value lies on the workers already, as a future of Dask."""
    return type(value).__module__.startswith("distributed.") and hasattr(value, "key")


def _function(function: types.FunctionType) -> object:
    """Return a function by its name, its text, what it has been given to keep, and what it uses.

    What is wrapped around it, as by a decorator, changes how it is called and not what it is.
    """
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType):
        return identity(function)
    return {**_alone(function), **({} if _within.get() else {"uses": _used(function)})}


def _alone(function: types.FunctionType) -> dict[str, Any]:
    return {
        "function": _place(function),
        "text": _text(function.__code__),
        "kept": [identity(_content(cell)) for cell in function.__closure__ or ()],
        "defaults": identity(list(function.__defaults__ or ())),
        "named": identity(function.__kwdefaults__ or {}),
    }


_within: contextvars.ContextVar[bool] = contextvars.ContextVar("within what is used", default=False)
"""Whether the value at hand is one that a function uses: what functions in it use is no more asked,
for they may use each other."""


@functools.lru_cache(maxsize=1024)
def _used(function: types.FunctionType) -> dict[str, Any]:
    """Return what a function reaches by global names, directly or by functions of its module.

    These are the functions of its module and data; other modules are known by their versions, and
    folt by the format of its files.
    """
    found: dict[str, Any] = {}
    pending = [] if str(function.__module__).partition(".")[0] == "folt" else [function]
    token = _within.set(True)
    try:
        while pending:
            for name in _global_names(pending.pop().__code__) - found.keys():
                held: Any = function.__globals__.get(name)
                value = inspect.unwrap(held)
                if not isinstance(value, types.FunctionType):
                    found[name] = _where_recognised(value)
                elif value.__module__ == function.__module__:
                    found[name] = _where_recognised(value)
                    pending.append(value)
    finally:
        _within.reset(token)
    return {name: known for name, known in sorted(found.items()) if known is not None}


def look_again() -> None:
    """Forget what functions use: settings of a session may have changed since the last fleet."""
    _used.cache_clear()


def _global_names(code: types.CodeType) -> set[str]:
    """Return names of its module that a function or one within it reads."""
    inner = [_global_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    own = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    return own.union(*inner)


def _where_recognised(value: object) -> object:
    """What a module holds may be of no kind that is known; modules and classes are no data."""
    if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        return None
    try:
        return identity(value)
    except (ValueError, TypeError, RecursionError):
        return None


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is in it yet
        return None


@functools.lru_cache(maxsize=1024)
def _text(code: types.CodeType) -> str:
    """Digest of a function's source, or of its instructions where there is no source."""
    try:
        return digest(inspect.getsource(code).encode())
    except (OSError, TypeError):
        constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
        return digest(repr((code.co_code, constants, code.co_names)).encode())


def _partial(value: functools.partial[Any]) -> object:
    return {
        "function": identity(value.func),
        "arguments": identity(list(value.args)),
        "named": identity(value.keywords),
    }


def _file(path: Path) -> object:
    """Return a file by its contents, read once however many jobs name it."""
    try:
        known = path.stat()
        require_readable(path)
    except OSError as error:
        raise ValueError(f"expected a file at {path}: {error.strerror}") from error
    return {"file": _digest_once(path.absolute(), known.st_size, known.st_mtime_ns)}


@functools.lru_cache(maxsize=65_536)
def _digest_once(path: Path, size: int, changed: int) -> str:
    del size, changed  # they tell a file from the one that stood there before
    return digest_of_file(path)


def _array(value: np.ndarray) -> object:
    if value.dtype.hasobject:
        return {"array": [identity(item) for item in value.ravel().tolist()], "of": value.shape}
    return {"array": array_digest(value)}


def _mapping(value: Mapping[Any, Any]) -> object:
    return {str(key): identity(item) for key, item in value.items()}


def _unordered(value: frozenset[Any] | set[Any]) -> object:
    return {"set": sorted((identity(item) for item in value), key=repr)}


def _place(value: Any) -> str:
    # A script is `__main__` here and has its own name where another imports it.
    return f"{value.__module__}.{value.__qualname__}".removeprefix("__main__.")


_KINDS: tuple[tuple[Any, Any], ...] = (
    (Enum, lambda value: f"{type(value).__qualname__}.{value.name}"),
    (np.generic, lambda value: value.item()),
    (np.ndarray, _array),
    (bytes, lambda value: {"bytes": hashlib.sha256(value).hexdigest()}),
    (Path, _file),
    (Mapping, _mapping),
    (list | tuple, lambda value: [identity(item) for item in value]),
    (range, lambda value: {"range": [value.start, value.stop, value.step]}),
    (set | frozenset, _unordered),
    (functools.partial, _partial),
    (types.FunctionType, _function),
    (types.ModuleType, lambda value: {"module": value.__name__}),
    (types.MethodType, lambda m: {"method": identity(m.__func__), "of": identity(m.__self__)}),
)
