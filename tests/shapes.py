"""Shapes of arrays checked at run time, wherever folt annotates them.

Only the shapes and kinds of arrays are checked, whichever library made them, and not those of
scalars. Everything else is mypy's part, and what users get wrong is refused by folt's own
sentences: a test of these switches the check off by the mark `wrong_shapes`.

jaxtyping's own decorator binds the arguments of every call, whatever its annotations, and asks
anew about shapes that it has seen a thousand times; that took a quarter of the suite. The one here
leaves functions alone that say nothing of shapes, or that stand in another, and remembers which
shapes have passed: the same ones pass again.
"""

import collections.abc
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

import jaxtyping
from jaxtyping import AbstractArray, install_import_hook, jaxtyped

switched_off = False

Fits = Callable[[Any], bool]


def fits(annotation: Any) -> Fits | None:
    """Whether a value has a shape that the annotation allows; nothing if it speaks of none."""
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        kind = getattr(jaxtyping, annotation.__name__.partition("[")[0], None)
        if not kind or not annotation.dim_str.strip():
            return None
        shape = kind[Any, annotation.dim_str]
        return lambda value: isinstance(value, shape)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        choices = [fits(part) for part in parts if part is not type(None)]
        if None in choices:
            return None
        return lambda value: value is None or any(choice(value) for choice in choices)
    if origin is tuple and parts and parts[-1] is not Ellipsis:
        each = [fits(part) for part in parts]
        if not any(each):
            return None
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(each)
            and all(one is None or one(entry) for one, entry in zip(each, value, strict=True))
        )
    if origin in (list, tuple, collections.abc.Sequence):
        entry = fits(parts[0])
        return None if entry is None else lambda value: _entries_fit(entry, value)
    return None


def _entries_fit(entry: Fits, values: Any) -> bool:
    """The first has the sizes of the call, the others may have their own."""
    if not isinstance(values, collections.abc.Sequence) or not all(map(entry, values[:1])):
        return False
    for value in values[1:]:
        with jaxtyped("context"):
            if not entry(value):
                return False
    return True


def meaning(annotation: Any, names: dict[str, Any]) -> Any:
    """What an annotation stands for; `Any` if a name in it is imported for mypy alone."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)
    except (NameError, AttributeError, TypeError):
        return Any


def form(value: Any) -> Any:
    """All that a check may ask of a value: values of one form pass or fail together."""
    if isinstance(value, tuple | list):
        return (type(value), *map(form, value))
    shape = getattr(value, "shape", None)
    return type(value) if shape is None else (type(value), shape, getattr(value, "dtype", None))


def with_checks(function: Callable) -> Callable:
    """The function, with the shapes of what goes in and comes out checked, if it speaks of any."""
    found = {
        name: fits(meaning(annotation, function.__globals__))
        for name, annotation in function.__annotations__.items()
    }
    asked = {name: fit for name, fit in found.items() if fit}
    result_fits = asked.pop("return", None)
    if not asked and not result_fits:
        return function
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    entered: set[Any] = set()
    left: set[Any] = set()

    def passes(given: dict[str, Any], result: tuple[Any, ...] = ()) -> None:
        """Sizes of axes are those of one call, its result included."""
        with jaxtyped("context"):
            for name, value in given.items():
                if not asked[name](value):
                    raise TypeError(_wrong(function, f"`{name}`", value))
            if result and not result_fits(result[0]):
                raise TypeError(_wrong(function, "its result", result[0]))

    def with_own_sizes(*args, **kwargs):
        given = {name: value for name, value in zip(names, args, strict=False) if name in asked}
        given |= {name: value for name, value in kwargs.items() if name in asked}
        forms = tuple((name, form(value)) for name, value in given.items())
        if forms not in entered:
            passes(given)
            entered.add(forms)
        result = function(*args, **kwargs)
        if result_fits and (whole := (forms, form(result))) not in left:
            passes(given, (result,))
            left.add(whole)
        return result

    return with_own_sizes


def _wrong(function: Callable, what: str, value: Any) -> str:
    return (
        f"the shape of {what} is not the one annotated, in {function.__module__}."
        f"{function.__qualname__}: {form(value)}, annotated {function.__annotations__}"
    )


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
