"""Shapes of arrays checked at run time, by beartype, wherever folt annotates them.

Only array annotations are kept. Everything else is mypy's part, and what users get wrong is
refused by folt's own sentences: a test of these switches the check off by the mark `wrong_shapes`.
"""

import re
from collections.abc import Callable
from typing import Any, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, install_import_hook

NAMES = re.compile(r"\b(Float|Int|Bool|Shaped|Num|Real|Complex|Points?|Scalars?|Draws|Values)\b")
"""What an annotation of an array is written with, where it is kept as a string."""

switched_off = False


def of_an_array(annotation: Any) -> bool:
    """Whether an annotation names the shape of an array somewhere."""
    if isinstance(annotation, str):
        return NAMES.search(annotation) is not None
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        return True
    return any(of_an_array(part) for part in get_args(annotation))


def arrays(function: Callable) -> Callable:
    """The function, its array annotations checked."""
    kept = {name: one for name, one in function.__annotations__.items() if of_an_array(one)}
    if not kept:
        return function
    function.__annotations__ = kept
    checked = beartype(function, conf=BeartypeConf(is_pep484_tower=True))
    return lambda *args, **kwargs: None if switched_off else checked(*args, **kwargs)


def check_shapes_of(package: str) -> None:
    """From now on, whatever is imported from this package checks its shapes."""
    install_import_hook(package, "shapes.arrays")
