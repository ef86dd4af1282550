"""Killing at chosen moments: what a process leaves that ends before a change on the disk."""

from collections.abc import Callable, Iterator
from pathlib import Path

from folt.store import WritingStep, watched


class Killed(BaseException):
    """The process is gone: nothing that follows reaches the disk."""


class Death:
    """Lets `moment` changes through and none after it, not even those that would tidy up."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self, step: WritingStep, path: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed(f"{step}: {path}")


def killed_at_every_point(
    work: Callable[[], object], prepare: Callable[[], object], stride: int = 1
) -> Iterator:
    """Yields after every run of `work` cut short at the next moment, until one comes through.

    With a stride, only at every so manyth moment.
    """
    moment = 0
    while True:
        prepare()
        try:
            with watched(Death(moment)):
                work()
        except Killed as death:
            yield moment, str(death)
        else:
            return
        moment += stride
