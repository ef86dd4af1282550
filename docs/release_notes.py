"""The notes of a release, taken from the changelog: `python docs/release_notes.py [VERSION]`."""

import re
import sys
from importlib.metadata import version
from pathlib import Path

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def notes(changelog: str, release: str) -> str:
    """The section of one release, without its heading.

    Raises:
        ValueError: naming the releases that the changelog knows.
    """
    _, *parts = re.split(r"^## (\S+).*\n", changelog, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    if release not in sections:
        raise ValueError(f"expected one of {', '.join(sections)}, got {release!r}")
    return sections[release].strip() + "\n"


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) > 1 else version("folt")
    sys.stdout.write(notes(CHANGELOG.read_text(encoding="utf-8"), asked))
