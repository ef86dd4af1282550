"""What every test shares: double precision, checked shapes, and memory given back after a file."""

import ctypes
import gc
import sys
from collections.abc import Iterator

import jax
import pytest

import shapes

shapes.check_shapes_of("folt")  # before any test imports it


def pytest_configure(config: pytest.Config) -> None:
    """Marks of the suite."""
    config.addinivalue_line("markers", "wrong_shapes: gives arrays of wrong shape, to be refused")


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not walk through it again."""
    gc.freeze()


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
    if sys.platform == "linux":
        # What was freed stays with the process otherwise: a worker had grown to 2.8 GB.
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)(0)


@pytest.fixture(autouse=True)
def shapes_where_they_should_be_right(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leave wrong input to folt itself in tests that are marked so."""
    if request.node.get_closest_marker("wrong_shapes"):
        monkeypatch.setattr(shapes, "switched_off", True)
