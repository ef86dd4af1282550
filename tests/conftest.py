"""What every test shares: double precision, as in folt's public functions, and checked shapes."""

from collections.abc import Iterator

import jax
import pytest
from shapes import check_shapes_of

check_shapes_of("folt")  # before any test imports it


@pytest.fixture(autouse=True, scope="session")
def double_precision() -> Iterator[None]:
    """Enter the float64 context for the whole session, module-scoped fixtures included."""
    with jax.enable_x64(True):
        yield
