"""What executed blocks print, kept in the pages: `python docs/outputs.py [PAGE...]`.

A page of the repository shows the output of its blocks as the site does. This runs the blocks in
order, a session in one namespace, and writes what they print between two markers after each. The
site leaves these parts out, because it runs the blocks itself when it is built (`without_outputs`).
"""

import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ASSETS = DOCS / "assets" / "pages"

BEGIN, END = "<!-- output -->", "<!-- end of output -->"
BLOCK = re.compile(r'^```python([^\n]*exec="on"[^\n]*)\n(.*?)^```\n', re.DOTALL | re.MULTILINE)
KEPT = re.compile(rf"\n{BEGIN}\n.*?{END}\n", re.DOTALL)
OPTION = re.compile(r'(\w+)="([^"]*)"')
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)
SPACES = {
    "xmlns:xlink": "http://www.w3.org/1999/xlink",
    "xmlns": "http://www.w3.org/2000/svg",
}
"""What the names in a picture mean: HTML knows by itself, a file has to say."""


def without_outputs(markdown: str) -> str:
    """A page as it is written, without what its blocks printed."""
    return KEPT.sub("", markdown)


def with_outputs(markdown: str, name: str) -> str:
    """The page with every block run and its output after it."""
    sessions: dict[str, dict[str, Any]] = {}
    parts, last = [], 0
    page = without_outputs(markdown)
    for number, block in enumerate(BLOCK.finditer(page)):
        options = dict(OPTION.findall(block[1]))
        space = sessions.setdefault(options.get("session", str(number)), {"__name__": "__main__"})
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block[2], f"{name}, block {number + 1}", "exec"), space)
        shown = as_markdown(printed.getvalue(), options, f"{name}-{number}")
        parts += [page[last : block.end()], shown]
        last = block.end()
    return "".join([*parts, page[last:]])


def as_markdown(printed: str, options: dict[str, str], name: str) -> str:
    """Printed text as a block, a table as it is, a picture as a file with a link to it."""
    if not printed.strip():
        return ""
    if options.get("html") == "on":
        drawn = SVG.search(printed)
        if drawn is None:
            return ""
        ASSETS.mkdir(parents=True, exist_ok=True)
        (ASSETS / f"{name}.svg").write_text(standalone(drawn[0]) + "\n", encoding="utf-8")
        shown = f"![What the block above draws](../assets/pages/{name}.svg)"
    elif "result" in options:
        shown = f"```text\n{printed.rstrip()}\n```"
    else:
        shown = printed.strip()
    return f"\n{BEGIN}\n{shown}\n{END}\n"


def standalone(svg: str) -> str:
    """An inline picture as a file: it has no page to take names and colours from."""
    from folt.report.style import INK, LINE, QUIET

    head, rest = svg.split(">", 1)
    colours = f"color: {INK}; --quiet: {QUIET}; --line: {LINE}; --paper: #ffffff"
    head = head.replace("<svg", f'<svg style="{colours}"', 1)
    for name, space in SPACES.items():
        if f"{name}=" not in head:
            head = head.replace("<svg", f'<svg {name}="{space}"', 1)
    return f'{head}>\n<rect width="100%" height="100%" fill="white"/>{rest}'


def main(pages: list[str]) -> None:
    """Run some pages, or all that have blocks."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.path.insert(0, str(DOCS))
    for path in map(Path, pages) if pages else sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if BLOCK.search(text):
            assets = Path(os.path.relpath(ASSETS, path.resolve().parent)).as_posix()
            made = with_outputs(text, path.stem).replace("](../assets/pages/", f"]({assets}/")
            path.write_text(made, encoding="utf-8")
            print(f"ran {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
