"""Shapes of arrays checked at run time, by beartype, wherever folt annotates them.

Only the shapes and kinds of arrays are checked, whichever library made them, and not those of
scalars. Everything else is mypy's part, and what users get wrong is refused by folt's own
sentences: a test of these switches the check off by the mark `wrong_shapes`.
"""

import collections.abc
import functools
import operator
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, install_import_hook

switched_off = False


def shaped(annotation: Any) -> Any:
    """The part of an annotation that speaks of shapes, for arrays of any library; else `Any`."""
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        kind = getattr(jaxtyping, annotation.__name__.partition("[")[0], None)
        return kind[Any, annotation.dim_str] if kind and annotation.dim_str.strip() else Any
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        kept = [shaped(part) for part in parts if part is not type(None)]
        return Any if Any in kept else functools.reduce(operator.or_, (*kept, type(None)))
    if origin is tuple and parts and parts[-1] is not Ellipsis:
        kept = [shaped(part) for part in parts]
        return Any if all(part is Any for part in kept) else tuple[tuple(kept)]
    if origin in (list, tuple, collections.abc.Sequence) and shaped(parts[0]) is not Any:
        return collections.abc.Sequence[shaped(parts[0])]
    return Any


def arrays(function: Callable) -> Callable:
    """The function, its array annotations checked; the check is made when it is first called."""

    @functools.cache
    def checked() -> Callable:
        kept = {name: shaped(one) for name, one in function.__annotations__.items()}
        function.__annotations__ = {name: one for name, one in kept.items() if one is not Any}
        return beartype(function, conf=BeartypeConf(is_pep484_tower=True))

    return lambda *args, **kwargs: None if switched_off else checked()(*args, **kwargs)


def check_shapes_of(package: str) -> None:
    """From now on, whatever is imported from this package checks its shapes."""
    install_import_hook(package, "shapes.arrays")
