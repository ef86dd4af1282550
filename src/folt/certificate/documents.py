"""Facts as documents: one rule that makes plain dictionaries of dataclasses, and its inverse."""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Mapping
from typing import Any


def tree_of(value: Any) -> Any:
    """Return plain dictionaries: the fields of every object, and what it derives for readers."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        derived = getattr(value, "DERIVED", ())
        return {name: tree_of(getattr(value, name)) for name in (*names, *derived)}
    if isinstance(value, Mapping):
        return {str(key): tree_of(each) for key, each in value.items()}
    return tuple(map(tree_of, value)) if isinstance(value, tuple) else value


def built(kind: Any, tree: Any) -> Any:
    """Return the inverse of `tree_of` for a type; null is NaN where the type is a number.

    Fields that the tree lacks take their defaults; what was derived is computed again when asked.
    """
    if tree is None:
        return math.nan if kind is float else None
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints, names = typing.get_type_hints(kind), {each.name for each in dataclasses.fields(kind)}
        return kind(**{key: built(hints[key], tree[key]) for key in tree if key in names})
    outer, inner = typing.get_origin(kind), typing.get_args(kind)
    if outer is types.UnionType:  # a type or None
        return built(inner[0], tree)
    if outer is tuple:
        kinds = inner[:1] * len(tree) if inner[-1] is Ellipsis else inner
        return tuple(map(built, kinds, tree))
    if outer in (dict, Mapping):
        return {built(inner[0], key): built(inner[1], each) for key, each in tree.items()}
    if isinstance(kind, enum.EnumType) or isinstance(tree, str):  # also numbers that are keys
        return kind(tree)
    return tree
