"""What the constructors of groups accept, and what they say otherwise."""

from __future__ import annotations

import operator
from typing import SupportsIndex


def whole(name: str, value: SupportsIndex) -> int:
    """The value as an int, or a ValueError that names the argument."""
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(
            f"{name} must be a whole number, got {value!r} ({type(value).__name__})"
        ) from None


def require_positive(name: str, value: SupportsIndex) -> None:
    """Raise unless the value is a whole number of at least one."""
    if whole(name, value) < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def require_position(name: str, value: SupportsIndex, length: int) -> None:
    """Raise unless the value counts a place, from zero, in something of the given length."""
    if not 0 <= whole(name, value) < length:
        raise ValueError(f"{name} must be one of 0 to {length - 1}, got {value}")
