"""What the site needs beyond its Markdown: files from outside docs/, and formulas as MathML.

MkDocs calls the functions below while it builds; their names are its own.
"""

import html
import os
import re
import sys
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from outputs import without_outputs  # noqa: E402

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Most of a small fit is compilation, which a second build need not repeat.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
FOLDERS = {"results": "results", "examples": "examples"}
SUFFIXES = (".md", ".png", ".py")

LINK = re.compile(r"(\]\()((?:\.\./)*)([^)#\s:]+)([^)]*\))")
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', flags=re.DOTALL
)


def on_startup(**_: Any) -> None:
    """Let tutorials import their pictures; MkDocs forgets what a hook adds while it is loaded."""
    sys.path.insert(0, str(ROOT / "docs"))


def places() -> dict[str, str]:
    """Where files from outside docs/ stand in the site, by their path in the repository."""
    found = dict(PAGES)
    for folder, place in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.relative_to(ROOT / folder).as_posix()
            # The tables in results/ stand on the page of the reproduction already.
            if path.suffix in SUFFIXES and not (folder == "results" and path.suffix == ".md"):
                found[f"{folder}/{inside}"] = f"{place}/{inside}"
    return found


def on_files(files: Files, config: Any) -> Files:
    """Add them."""
    for source, place in places().items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that hold in the repository into links that hold in the site.

    What blocks printed when they were last run is left out: they run again.
    """
    plain = without_outputs(markdown)
    return LINK.sub(lambda link: relinked(link, page.file.src_uri), plain)


def relinked(link: re.Match[str], page: str) -> str:
    """One link, changed if it leads out of docs/ or comes from there."""
    known = places()
    outside = {place: source for source, place in known.items()}
    here = Path(outside[page]) if page in outside else Path("docs") / page
    target = os.path.normpath(here.parent / (link[2] + link[3]))
    if target in known:
        goal = known[target]
    elif page in outside and target.startswith("docs/"):
        goal = target.removeprefix("docs/")
    else:
        return link[0]
    return link[1] + os.path.relpath(goal, Path(page).parent) + link[4]


def on_page_content(content: str, **_: Any) -> str:
    """Write formulas as MathML, which browsers set without a script."""
    return FORMULA.sub(mathml, content)


def mathml(formula: re.Match[str]) -> str:
    """One formula."""
    display = "block" if formula[1] == "div" else "inline"
    return latex2mathml.converter.convert(html.unescape(formula[2]).strip(), display=display)
