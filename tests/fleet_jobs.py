"""Jobs of the tests of fleets: a module that workers import, and nothing heavy with it."""

import os
import time
from collections import deque
from pathlib import Path

import numpy as np

MADE: deque[str] = deque()
"""No list: what a job changes is no setting that it is recognised by."""


def square(x):
    return {"square": x * x, "process": os.getpid()}


def marked(path):
    """A row, and a trace of every time it was made."""
    with open(path, "a") as file:
        file.write("x")
    return {"made": 1}


def shaky(path):
    """Fails the first time."""
    if not Path(path).exists():
        Path(path).touch()
        raise RuntimeError("not yet\nand in two lines")
    return {"made": 2}


def deadly(path):
    """Ends its process as often as the file says, then returns a row."""
    left = int(Path(path).read_text())
    if left:
        Path(path).write_text(str(left - 1))
        os._exit(3)
    return {"made": 3}


def slow(seconds):
    time.sleep(seconds)
    return {"slept": seconds}


def total(values):
    return {"total": float(np.sum(values))}


def doubled(x):
    return {"double": 2 * x}


def stop():
    raise KeyboardInterrupt


def environment():
    return {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "FOLT_THREADS", "XLA_FLAGS")}


class Strange(BaseException):
    """No exception that anybody catches."""


class MuteError(Exception):
    """Cannot say what is wrong."""

    def __str__(self):
        raise RuntimeError("nor why")


def end_strangely(how):
    print("a job prints")
    raise {
        "BaseException": Strange("strange"),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "SystemExit": SystemExit(0),
        "GeneratorExit": GeneratorExit(),
        "mute": MuteError(),
    }[how]


def fork_and_exit(seconds):
    """Ends its process, whose pipe a child keeps open."""
    if os.fork() == 0:
        time.sleep(seconds)
        os._exit(0)
    os._exit(1)


def make(name):
    MADE.append(name)
    return {"name": name}


def pair():
    from folt.models import label_switching

    return label_switching(2, 2)


def counted(given):
    """A row, and a mark of every time it was made."""
    path, value = given
    with open(path, "a") as file:
        file.write("x")
    time.sleep(0.05)
    return {"square": value * value}
