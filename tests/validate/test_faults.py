"""Faults that processes and disks really have: kills, corruption, no space, two writers."""

import random
import resource
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from table import write_table

import folt
from folt.fit.file import to_bytes
from folt.models import label_switching
from folt.proposals import Gaussian
from folt.reference import Exact
from folt.store import Entry, Store, WriteError

RESULTS = {
    seed: {
        "fit.nc": bytes([seed]) * 2_000_000,
        f"only-{seed}.png": bytes([seed]) * 50_000,
        "report.html": bytes([seed]) * 400_000,
    }
    for seed in (0, 7)
}

WRITER = """
import sys
from pathlib import Path
from folt.store import Store

results = {s: {"fit.nc": bytes([s]) * 2_000_000, f"only-{s}.png": bytes([s]) * 50_000,
               "report.html": bytes([s]) * 400_000} for s in (0, 7)}
print("ready", flush=True)
while True:
    for seed in (0, 7):
        with Store(Path(sys.argv[1])) as store:
            store.entry().replace({"seed": seed}, results[seed])
"""


def read_as_anybody_would(out):
    """What lies in the folder: every file whole, all of one result."""
    there = {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."}
    noted = there.pop("settings.json", None) is not None
    whose = [s for s in RESULTS if all(RESULTS[s].get(n) == data for n, data in there.items())]
    assert whose, f"a mixture: {sorted(there)}"
    entry = Entry(out / "settings.json")
    served = [s for s in RESULTS if entry.intact({"seed": s}) == set(RESULTS[s])]
    assert bool(served) == noted
    return served


@pytest.mark.validate
def test_kill_nine_at_fifty_random_moments(tmp_path):
    """A process that does nothing but replace results; killed, read, recovered, 50 times."""
    out, generator = tmp_path / "out", random.Random(0)
    with Store(out) as store:
        store.entry().replace({"seed": 0}, RESULTS[0])
    noted = 0
    for _ in range(50):
        words = [sys.executable, "-c", WRITER, str(out)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(generator.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        noted += bool(read_as_anybody_would(out))
        with Store(out) as store:
            entry = store.entry()
            finished = [s for s in RESULTS if entry.intact({"seed": s}) == set(RESULTS[s])]
        assert len(finished) == 1, "a finished result was lost"
        left = {path.name for path in out.iterdir()}
        assert left == {"settings.json", *RESULTS[finished[0]]}
    write_table(
        "kills",
        "A process that replaces results without pause, killed at 50 random moments",
        ("kills", "a result at once", "a result after the next start", "mixtures", "left behind"),
        [(50, noted, 50, 0, 0)],
    )


@pytest.fixture(scope="module")
def fit():
    return folt.sample(
        label_switching(2, 2),
        chains=2,
        draws=200,
        reference=Exact(2_000, 20),
        flow=Gaussian(jnp.array([2.0, 0.5, 5.0, 0.8]), jnp.eye(4)),
        progress=False,
    )


def flipped(data, generator):
    place = generator.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << generator.randrange(8))]) + data[place + 1 :]


def truncated(data, generator):
    return data[: generator.randrange(len(data))]


def swapped(data, generator):
    size = generator.randrange(8, 4096)
    a, b = sorted(generator.sample(range(0, len(data) - size, size), 2))
    parts = data[:a], data[b : b + size], data[a + size : b], data[a : a + size], data[b + size :]
    return b"".join(parts)


def edited(data, generator):
    pairs = [(b"undecided", b"splendid!"), (b'"seed": 0', b'"seed": 9'), (b"true", b"null")]
    word, other = generator.choice([pair for pair in pairs if pair[0] in data])
    return data.replace(word, other, generator.randrange(1, 4))


@pytest.mark.validate
def test_two_hundred_corruptions(fit, tmp_path):
    path, generator = tmp_path / "fit.nc", random.Random(1)
    data = to_bytes(fit)
    refused = dict.fromkeys(("flipped", "truncated", "swapped", "edited"), 0)
    same, said = 0, []
    for number in range(200):
        spoil = (flipped, truncated, swapped, edited)[number % 4]
        spoilt = spoil(data, generator)
        path.write_bytes(spoilt)
        try:
            back = folt.load(path)
        except ValueError as error:
            said.append(str(error))
            refused[spoil.__name__] += 1
        else:
            assert spoilt == data, "a corrupt file was loaded"
            np.testing.assert_array_equal(back.draws, fit.draws)
            same += 1
    write_table(
        "corruptions",
        "A fit file spoilt in 200 ways: refused with a sentence, or unchanged by the spoiling",
        (*refused, "unchanged"),
        [(*refused.values(), same)],
    )
    assert sum(refused.values()) >= 150
    assert not any("\n" in sentence for sentence in said)


@pytest.mark.validate
def test_no_space_at_twenty_sizes(fit, tmp_path):
    """The system refuses to let a file grow; the interpreter lives and an old file stays."""
    path, data = fit.save(tmp_path / "fit.nc"), to_bytes(fit)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    said = []
    for size in np.linspace(0, 1.05 * len(data), 20).astype(int).tolist():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            fit.save(path)
        except WriteError as error:
            said.append((error.full, str(error)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert [item.name for item in tmp_path.iterdir()] == ["fit.nc"]
        np.testing.assert_array_equal(folt.load(path).draws, fit.draws)
    refused = len(said)
    assert refused == 20 - 1
    assert all(full and "fit.nc: no space left, " in words for full, words in said)
    assert all("needed" in words for _, words in said)
    write_table(
        "no-space",
        "Saving a fit under 20 limits of the file size, from nothing to more than enough",
        ("limits", "refused with file and space", "saved", "crashes", "old file lost"),
        [(20, refused, 20 - refused, 0, 0)],
    )


STARTER = """
import sys, time
from pathlib import Path
from folt.store import LockedError, Store
Path(sys.argv[3] + sys.argv[2]).touch()
while not Path(sys.argv[3]).exists():
    time.sleep(0.001)
try:
    with Store(Path(sys.argv[1])) as store:
        time.sleep(0.5)
        store.entry().replace({"who": sys.argv[2]}, {"a": sys.argv[2].encode() * 1000})
    print("wrote")
except LockedError as error:
    print("refused" if "is being written by" in str(error) else error)
"""


@pytest.mark.validate
def test_twenty_starts_of_two_processes(tmp_path):
    outcomes = []
    for number in range(20):
        out, gate = tmp_path / f"out-{number}", tmp_path / f"gate-{number}"
        words = [sys.executable, "-c", STARTER, str(out)]
        started = [
            subprocess.Popen([*words, who, str(gate)], stdout=subprocess.PIPE, text=True)
            for who in "ab"
        ]
        while not all((tmp_path / f"gate-{number}{who}").exists() for who in "ab"):
            time.sleep(0.01)
        gate.touch()
        said = [process.communicate(timeout=120)[0].strip() for process in started]
        outcomes.append(tuple(sorted(said)))
        winner = "ab"[said.index("wrote")]
        assert Entry(out / "settings.json").intact({"who": winner}) == {"a"}
        assert {path.name for path in out.iterdir()} == {"a", "settings.json"}
    assert outcomes == [("refused", "wrote")] * 20
    write_table(
        "two-writers",
        "Two processes started into one folder",
        ("starts", "one wrote, one said so"),
        [(20, outcomes.count(("refused", "wrote")))],
    )
