"""Sign patterns: arrays of +1 and -1, the group Z2^k."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import ArrayLike

from folt.types import Key

Signs = Int[Array | np.ndarray, " k"]
Stack = Int[np.ndarray, "n k"]


@functools.lru_cache
def all_signs(k: int) -> Stack:
    """All 2^k patterns, the one without a flip first."""
    return _frozen(list(itertools.product((1, -1), repeat=k)), k)


@functools.lru_cache
def single_flips(k: int) -> Stack:
    """The k patterns that flip one sign."""
    return _frozen(1 - 2 * np.eye(k), k)


@functools.lru_cache
def flip_factors(k: int) -> tuple[Stack, ...]:
    """One stack per sign: leave it or flip it."""
    kept = unflipped(k)
    return tuple(_frozen([kept, flip], k) for flip in single_flips(k)) or (all_signs(k),)


def unflipped(k: int) -> Int[np.ndarray, " k"]:
    """The pattern without a flip."""
    return np.ones(k, dtype=np.int32)


def fixing_signs(values: Array) -> Signs:
    """The pattern that makes every value nonnegative."""
    return jnp.where(values < 0, -1, 1).astype(jnp.int32)


def random_signs(key: Key, k: int) -> Signs:
    """One of the 2^k patterns, uniformly."""
    return jax.random.rademacher(key, (k,), dtype=jnp.int32)


def signs_in_words(signs: ArrayLike, noun: str, numbers: Sequence[int]) -> str:
    """A pattern in words: "identity", "flip the sign of column 2"."""
    pairs = zip(numbers, np.asarray(signs), strict=True)
    flipped = [str(number) for number, sign in pairs if sign < 0]
    if not flipped:
        return "identity"
    if len(flipped) == 1:
        return f"flip the sign of {noun} {flipped[0]}"
    return f"flip the signs of {noun}s {', '.join(flipped[:-1])} and {flipped[-1]}"


def _frozen(rows: ArrayLike, k: int) -> Stack:
    stack = np.asarray(rows, dtype=np.int32).reshape(-1, k) if k else np.ones((1, 0), np.int32)
    stack.setflags(write=False)
    return stack
