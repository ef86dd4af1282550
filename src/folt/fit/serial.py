"""folt's own objects as JSON and arrays, and back: what a fit file holds instead of a pickle."""

from __future__ import annotations

import dataclasses
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

import folt.flows
import folt.groups
from folt.store.strict_json import Document

ROOMS = (folt.groups.__name__, folt.flows.__name__, "folt.paper.flow")
"""Only classes defined in these rooms are stored and built."""


def _known() -> dict[str, type[object]]:
    """Folt's own groups, their parts, and flows by name; the paper's flow is above this room."""
    import folt.paper.flow  # its classes are found below

    found: dict[str, type[object]] = {}
    queue: list[type[object]] = [eqx.Module, folt.groups.Part]
    while queue:
        for kind in queue.pop().__subclasses__():
            queue.append(kind)
            if kind.__module__.startswith(ROOMS):
                found[kind.__name__] = kind
    return found


class NotStorableError(TypeError):
    """An object that is not one of folt's own groups or flows."""


def pack(module: PyTree, arrays: list[np.ndarray]) -> PyTree:
    """A JSON tree; arrays are appended to `arrays` and named by position.

    Numbers that are not finite keep their value, although JSON has no word for them.

    Raises:
        NotStorableError: for anything but folt's groups, flows, arrays, dictionaries and plain
            values.
    """
    if dataclasses.is_dataclass(module) and not isinstance(module, type):
        kind = type(module).__name__
        if _known().get(kind) is not type(module):
            raise NotStorableError(f"{kind} is not one of folt's own groups or flows")
        fields = dataclasses.fields(module)
        return {"kind": kind, **{f.name: pack(getattr(module, f.name), arrays) for f in fields}}
    if isinstance(module, dict):
        return {"items": {str(key): pack(value, arrays) for key, value in module.items()}}
    if isinstance(module, np.generic):
        return pack(module.item(), arrays)
    if isinstance(module, (tuple, list)):
        return [pack(item, arrays) for item in module]
    if isinstance(module, float):
        return module if math.isfinite(module) else {"number": repr(module)}
    if module is None or isinstance(module, (bool, int, str)):
        return module
    if eqx.is_array_like(module):
        arrays.append(np.asarray(module))
        return {"array": len(arrays) - 1}
    raise NotStorableError(f"cannot store a {type(module).__name__}")


def unpack(tree: PyTree, arrays: list[np.ndarray]) -> PyTree:
    """The inverse of `pack`; sequences come back as tuples."""
    if isinstance(tree, list):
        return tuple(unpack(item, arrays) for item in tree)
    if not isinstance(tree, dict):
        return tree
    if "kind" not in tree:
        return _plain(tree, arrays)
    kind = _known()[tree["kind"]]
    # Fields are set directly: some classes are built from other arguments than they hold.
    module = object.__new__(kind)
    for name, value in tree.items():
        if name != "kind":
            object.__setattr__(module, name, unpack(value, arrays))
    return module


def _plain(tree: Document, arrays: list[np.ndarray]) -> PyTree:
    """An array, a number that is not finite, or a dictionary."""
    if "array" in tree:
        return jnp.asarray(arrays[tree["array"]])
    if "number" in tree:
        return float(tree["number"])
    return {key: unpack(value, arrays) for key, value in tree["items"].items()}
