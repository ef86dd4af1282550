"""Shapes of arrays checked at run time, by beartype, wherever folt annotates them.

Only the shapes and kinds of arrays are checked, whichever library made them, and not those of
scalars. Everything else is mypy's part, and what users get wrong is refused by folt's own
sentences: a test of these switches the check off by the mark `wrong_shapes`.

jaxtyping's own decorator binds the arguments of every call, whatever its annotations, and makes
the checks of a function within a function anew whenever it is defined; that took a quarter of the
suite. The one here leaves functions alone that say nothing of shapes, or that stand in another.
"""

import collections.abc
import dataclasses
import functools
import inspect
import operator
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, install_import_hook, jaxtyped

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


def meaning(annotation: Any, names: dict[str, Any]) -> Any:
    """What an annotation stands for; `Any` if a name in it is imported for mypy alone."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)
    except (NameError, AttributeError, TypeError):
        return Any


def with_checks(function: Callable) -> Callable:
    """The function by beartype if an annotation speaks of shapes, else the function itself."""
    found = {
        name: shaped(meaning(annotation, function.__globals__))
        for name, annotation in function.__annotations__.items()
    }
    kept = {name: annotation for name, annotation in found.items() if annotation is not Any}
    if not kept:
        return function
    same = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    same.__kwdefaults__ = function.__kwdefaults__
    same.__annotations__ = kept
    return in_a_context(beartype(same, conf=BeartypeConf(is_pep484_tower=True)))


def in_a_context(function: Callable) -> Callable:
    """Sizes of axes are those of one call."""

    def with_own_sizes(*args, **kwargs):
        with jaxtyped("context"):
            return function(*args, **kwargs)

    return with_own_sizes


def arrays(function: Callable) -> Callable:
    """The function, its array annotations checked; the check is made when it is first called."""
    if isinstance(function, type):
        return with_checked_fields(function)
    if not inspect.isfunction(function) or "<locals>" in function.__qualname__:
        return function
    made = functools.cache(lambda: with_checks(function))

    @functools.wraps(function)
    def checked(*args, **kwargs):
        off = switched_off or jaxtyping.config.jaxtyping_disable
        return (function if off else made())(*args, **kwargs)

    return checked


def with_checked_fields(kind: type) -> type:
    """The class, the arguments of a constructor that a dataclass made checked as well."""
    if dataclasses.is_dataclass(kind) and "__init__" in vars(kind):
        made = kind.__init__
        if not hasattr(made, "__wrapped__"):
            kind.__init__ = arrays(made)
    return kind


def check_shapes_of(package: str) -> None:
    """From now on, whatever is imported from this package checks its shapes."""
    jaxtyping.jaxtyped = lambda *args, **options: jaxtyped(*args, **options) if args else arrays
    install_import_hook(package, "shapes.arrays")
