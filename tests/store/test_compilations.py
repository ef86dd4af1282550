"""Compiled programs outlive their process: quietly, within bounds, and only where nobody minds."""

import os
import subprocess
import sys

import jax
import pytest

from folt.store import private
from folt.store.private import MOST_BYTES, SWITCH, remember_compilations

CHILD = """
import jax, numpy as np
counts = {"hits": 0, "misses": 0}
def listen(event, **_):
    for name in counts:
        counts[name] += event == f"/jax/compilation_cache/cache_{name}"
jax.monitoring.register_event_listener(listen)
from folt.groups import Permutation
from folt.problem import Problem
problem = Problem(lambda x: -0.5 * (x @ x) - jax.numpy.cosh(x).sum(), Permutation(2, 1))
values = problem.log_probs(np.linspace(-1.0, 1.0, 6).reshape(3, 2))
print(counts["hits"], counts["misses"], values.tobytes().hex())
"""


def child(folder, **environment):
    """A process that compiles one density, with the cache in a folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    return subprocess.Popen(
        [sys.executable, "-W", "error::UserWarning", "-c", CHILD],
        env=kept | {SWITCH: str(folder)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process):
    """What it counted and computed, once it ended well and silently."""
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    hits, misses, values = out.split()
    return int(hits), int(misses), values


def test_the_second_process_compiles_nothing_and_computes_the_same(tmp_path):
    together = [finished(process) for process in [child(tmp_path), child(tmp_path)]]
    assert all(hits + misses > 0 for hits, misses, _ in together)
    hits, misses, values = finished(child(tmp_path))
    assert hits > 0
    assert misses == 0
    assert {values} == {other for _, _, other in together}


@pytest.fixture
def settings():
    """No cache in this process, as where a user has set nothing; all comes back afterwards."""
    names = (
        "jax_compilation_cache_dir",
        "jax_compilation_cache_max_size",
        "jax_enable_compilation_cache",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_folder_is_bounded_and_the_users_own(settings, tmp_path, monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(private, "_machine", lambda: "this")
    folder = remember_compilations.__wrapped__()
    assert folder is not None
    assert folder.name == "this"
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert jax.config.jax_compilation_cache_max_size == MOST_BYTES


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no"])
def test_one_word_turns_it_off(settings, word, monkeypatch):
    monkeypatch.setenv(SWITCH, word)
    assert remember_compilations.__wrapped__() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_who_has_told_jax_has_the_last_word(settings, tmp_path, monkeypatch):
    monkeypatch.setenv(SWITCH, str(tmp_path / "ours"))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    assert remember_compilations.__wrapped__() is None
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "theirs")
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    assert remember_compilations.__wrapped__() is None
    assert not (tmp_path / "ours").exists()


def test_a_folder_that_cannot_be_is_done_without(settings, tmp_path, monkeypatch, recwarn):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(SWITCH, str(tmp_path / "file"))
    assert remember_compilations.__wrapped__() is None
    assert len(recwarn) == 0


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_programs_of_others_are_never_loaded(mode, settings, tmp_path, monkeypatch):
    """A compiled program is code: whoever can write into the folder could have it run."""
    monkeypatch.setenv(SWITCH, str(tmp_path))
    folder = remember_compilations.__wrapped__()
    assert folder.stat().st_mode & 0o777 == 0o700
    jax.config.update("jax_compilation_cache_dir", None)
    folder.chmod(mode)
    assert remember_compilations.__wrapped__() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_half_a_write_is_removed_and_whole_ones_stay(tmp_path):
    for name in ("whole-cache", "torn-cache", "lost-atime", "short-cache"):
        (tmp_path / name).write_bytes(b"x" * 100)
    (tmp_path / "whole-atime").write_bytes(bytes(8))
    (tmp_path / "short-atime").write_bytes(bytes(3))
    private._tidy(tmp_path)
    left = {path.name for path in tmp_path.iterdir()} - {".lockfile"}
    assert left == {"whole-cache", "whole-atime"}
