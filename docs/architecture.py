"""The rooms of folt and what imports what: `python docs/architecture.py` draws picture and table.

Both come from the sources: layers from the contract in `pyproject.toml`, arrows from the imports,
sentences from the first lines of the rooms. An arrow that follows from others is left out.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "folt"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "assets" / "architecture.svg"
TABLE = re.compile(r"(<!-- rooms -->\n).*?(<!-- /rooms -->)", re.DOTALL)

WIDTH, ROW, BOX, HEIGHT = 920, 74, 128, 34
"""Width of the picture, distance of two layers, width and height of a box, in pixels."""

STYLE = (
    "svg{color-scheme:light dark;font:15px system-ui,sans-serif}"
    "rect{fill:#eef2f7;stroke:#5b6b7f}text{fill:#1b2430;text-anchor:middle}"
    "path{fill:none;stroke:#8394a8;stroke-width:1.2}marker path{fill:#8394a8;stroke:none}"
    "@media(prefers-color-scheme:dark){rect{fill:#263140;stroke:#8fa1b8}text{fill:#e8edf4}"
    "path{stroke:#6d7f95}marker path{fill:#6d7f95}}"
)


def layers() -> list[list[str]]:
    """The rooms from top to bottom, as the contract has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [re.split(r" [|:] ", layer) for layer in contract["layers"]]


def imports() -> set[tuple[str, str]]:
    """Pairs of rooms of which the first imports the second from a lower layer."""
    height = {room: -row for row, rooms in enumerate(layers()) for room in rooms}
    found = set()
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in height:
            found |= {(room, other) for other in _imported(path) if other in height}
    return {(one, other) for one, other in found if height[other] < height[one]}


def reduced(arrows: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The arrows that do not follow from others."""
    below: dict[str, set[str]] = {}
    for one, other in arrows:
        below.setdefault(one, set()).add(other)

    def reaches(one: str, other: str) -> bool:
        return any(next_ == other or reaches(next_, other) for next_ in below.get(one, ()))

    return sorted(
        (one, other)
        for one, other in arrows
        if not any(between != other and reaches(between, other) for between in below[one])
    )


def sentence(room: str) -> str:
    """The first line of a room's docstring."""
    package = SOURCE / room / "__init__.py"
    path = package if package.exists() else SOURCE / f"{room}.py"
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]


def picture() -> str:
    """The layers as rows of boxes, with an arrow from a room to those it imports."""
    rows, place = layers(), {}
    for number, rooms in enumerate(rows):
        gap = WIDTH / len(rooms)
        for position, room in enumerate(rooms):
            place[room] = (gap * (position + 0.5), 30 + ROW * number)
    shapes = [_arrow(place[one], place[other]) for one, other in reduced(imports())]
    for room, (x, y) in place.items():
        box = f'<rect x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" rx="6"'
        shapes.append(f'{box} width="{BOX}" height="{HEIGHT}"/>')
        shapes.append(f'<text x="{x:.0f}" y="{y + 5:.0f}">{escape(room)}</text>')
    tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW * len(rows)}">',
            f"<style>{STYLE}</style>",
            f'<defs>{tip}<path d="M0 0L8 4L0 8z"/></marker></defs>',
            *shapes,
            "</svg>\n",
        ]
    )


def filled(text: str) -> str:
    """The page with its table of rooms as the sources have it."""
    rows = [
        f"| {', '.join(f'`{room}`' for room in rooms)} | {' '.join(map(sentence, rooms))} |"
        for rooms in layers()
    ]
    table = "\n".join(["", "| rooms | what they are for |", "|---|---|", *rows, "", ""])
    return TABLE.sub(lambda found: found[1] + table + found[2], text)


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "folt":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("folt."):
            yield (node.module or "").split(".")[1]


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, top), (u, bottom) = start, end
    top, bottom = top + HEIGHT / 2, bottom - HEIGHT / 2 - 1
    bend = min(ROW, (bottom - top) / 2)
    curve = f"M{x:.0f} {top:.0f}C{x:.0f} {top + bend:.0f} {u:.0f} {bottom - bend:.0f}"
    return f'<path d="{curve} {u:.0f} {bottom:.0f}" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
