"""Fill docs/reproduction.md from the results that are there: `python docs/reproduction.py`.

What stands between `<!-- results: NAME -->` and `<!-- end -->` is replaced; the rest is prose.
"""

import re
import sys
from pathlib import Path
from typing import Any

from folt.paper import table_named
from folt.paper.document import document_page, read_document

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "reproduction.md"
PLACE = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, results: Path = RESULTS) -> str:
    """The page with what the results say, folder by folder."""
    folders = sorted(path for path in results.glob("*") if path.is_dir())

    def fill(place: re.Match[str]) -> str:
        table = table_named(place[2])
        bodies = [body for folder in folders if (body := body_of(table, folder)) is not None]
        return place[1] + "".join(f"\n{body}\n" for body in bodies) + "\n" + place[3]

    return PLACE.sub(fill, text)


def body_of(table: Any, folder: Path) -> str | None:
    """The tables and the figure of one folder; None where it has none."""
    path = folder / f"{table.name}.json"
    if not path.is_file():
        return None
    text = document_page(table, read_document(path)).split("\n", 1)[1].strip()
    parts = [f"### `results/{folder.name}`", re.sub(r"^## ", "#### ", text, flags=re.MULTILINE)]
    if path.with_suffix(".png").is_file():
        parts.insert(1, f"![{table.title}](../results/{folder.name}/{table.name}.png)")
    return "\n\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"filled {PAGE.relative_to(ROOT)}\n")
