"""What every test shares: double precision, checked shapes, and memory given back after a file."""

import gc
from collections.abc import Iterator

import jax
import pytest

import shapes

shapes.check_shapes_of("folt")  # before any test imports it


def pytest_configure(config: pytest.Config) -> None:
    """Marks of the suite."""
    config.addinivalue_line("markers", "wrong_shapes: gives arrays of wrong shape, to be refused")


@pytest.fixture(autouse=True, scope="session")
def double_precision() -> Iterator[None]:
    """Enter the float64 context for the whole session, module-scoped fixtures included."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True, scope="module")
def memory_given_back() -> Iterator[None]:
    """Compiled programs end with the file that needed them; those on disk serve again."""
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture(autouse=True)
def shapes_where_they_should_be_right(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leave wrong input to folt itself in tests that are marked so."""
    if request.node.get_closest_marker("wrong_shapes"):
        monkeypatch.setattr(shapes, "switched_off", True)
