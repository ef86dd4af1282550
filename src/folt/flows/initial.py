"""Initial weights, drawn on the host.

Compiling a generator for every shape of every weight takes seconds, drawing from NumPy takes
microseconds; the JAX key still decides everything.
"""

from __future__ import annotations

import jax
import numpy as np

from folt.types import Key


def host_generator(key: Key) -> np.random.Generator:
    """A NumPy generator seeded by a JAX key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
