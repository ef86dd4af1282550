"""The public names and their signatures stand in a file: whoever changes one says so in a diff.

`python tests/house/test_public_names.py` writes the file anew.
"""

import importlib
import inspect
from pathlib import Path

import folt

SNAPSHOT = Path(__file__).with_name("public_names.txt")
SHOWN = ("Effort", "Fit", "Problem")
"""Classes whose methods are part of what users call."""


def signature(thing: object) -> str:
    """A call as written, without annotations, which may become better without anyone noticing."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    return str(inspect.Signature(bare))


def lines() -> list[str]:
    found = []
    for name in sorted(folt.__all__):
        thing = getattr(folt, name)
        if inspect.ismodule(thing):
            exported = getattr(thing, "__all__", None) or [
                one for one, value in vars(thing).items() if contract(thing, value)
            ]
            found += [f"folt.{name}.{one}" for one in sorted(exported)]
        else:
            found.append(f"folt.{name}{signature(thing)}")
        if name in SHOWN:
            found += [f"folt.{name}.{one}" for one in sorted(members(thing))]
    return found


def contract(module: object, value: object) -> bool:
    """Whether a module without `__all__` defines this class itself."""
    return inspect.isclass(value) and value.__module__ == module.__name__


def members(thing: type) -> list[str]:
    """Public attributes with the signatures of methods."""
    names = [one for one in dir(thing) if not one.startswith("_")]
    return [one + signature(getattr(thing, one)) for one in names]


def test_public_names_and_signatures_are_those_of_the_snapshot():
    assert lines() == SNAPSHOT.read_text(encoding="utf-8").splitlines()


def test_rooms_that_are_public_can_be_imported_by_name():
    for name in ("coordinates", "groups", "models", "proposals", "reference", "training", "types"):
        assert importlib.import_module(f"folt.{name}") is getattr(folt, name)


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(lines()) + "\n", encoding="utf-8")
