"""The documentation names what exists, its links hold, and its code is code."""

import ast
import importlib
import inspect
import re
import sys
import typing
from pathlib import Path
from xml.etree import ElementTree

import pytest

import folt
from folt.certificate.certificate import Certificate

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import architecture  # noqa: E402
import check_links  # noqa: E402
import outcomes  # noqa: E402
import outputs  # noqa: E402
from outputs import without_outputs  # noqa: E402

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INCLUDED = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


def resolve(dotted: str) -> object:
    """What a name such as `fold.Folded.log_prob` stands for in folt."""
    parts = dotted.removeprefix("folt.").split(".")
    for length in range(len(parts), -1, -1):
        try:
            found = importlib.import_module(".".join(["folt", *parts[:length]]))
        except ImportError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise AttributeError(dotted)


ROOMS = {path.stem for path in (ROOT / "src" / "folt").iterdir() if path.suffix in ("", ".py")}
CLASSES = {"fit": folt.Fit, "problem": folt.Problem, "certificate": Certificate}
"""What a name such as `fit` stands for in the pages, beside the room of that name."""
FILE = re.compile(r"\.(nc|json|html|csv|png|svg|py|md|stan|npz|toml)$")


def follow(kind: object, names: list[str]) -> None:
    """Ask for attributes one after the other, as far as annotations tell what they are.

    Raises:
        AttributeError: one of them does not exist.
    """
    for name in names:
        while typing.get_args(kind):  # by protocol and rho, or None
            kind = next(one for one in typing.get_args(kind)[::-1] if one is not type(None))
        if not (inspect.isclass(kind) and kind.__module__.startswith("folt.")):
            return
        hints = {
            key: text for one in kind.__mro__ for key, text in inspect.get_annotations(one).items()
        }
        if name not in {*hints, *dir(kind)}:
            raise AttributeError(f"{kind.__name__} has no {name}")
        member = inspect.getattr_static(kind, name, None)
        wrapped = getattr(member, "fget", None) or getattr(member, "func", None)
        text = inspect.get_annotations(wrapped).get("return") if wrapped else hints.get(name)
        module = sys.modules[kind.__module__]
        try:
            kind = eval(text, vars(module)) if isinstance(text, str) else text
        except NameError:  # imported for the type checker alone
            return


def require(dotted: str) -> None:
    """Refuse a dotted name of a page that stands for nothing.

    Raises:
        AttributeError: with the name.
    """
    root, *names = dotted.split(".")
    try:
        resolve(dotted)
    except AttributeError:
        if root not in CLASSES:
            raise
        follow(CLASSES[root], names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_the_pages_exist(page):
    text = page.read_text(encoding="utf-8")
    spans = re.findall(r"`([A-Za-z_]\w*(?:\.\w+)+)", text)
    blocks = " ".join(BLOCK.findall(without_outputs(text)))
    names = {name for name in spans if name.split(".")[0] in {"folt", *ROOMS, *CLASSES}}
    names |= set(re.findall(r"(?<![\w./])((?:folt|fit)(?:\.[A-Za-z_]\w*)+)", blocks))
    wrong = []
    for name in sorted(name for name in names if not FILE.search(name)):
        try:
            require(name)
        except AttributeError:
            wrong.append(name)
    assert not wrong


@pytest.mark.parametrize(
    "name",
    ["fold.Folded.log_probability", "folt.groups.Permutations", "fit.draw", "fit.certificate.log"],
)
def test_a_name_that_does_not_exist_is_noticed(name):
    with pytest.raises(AttributeError):
        require(name)


def test_links_hold():
    assert check_links.broken() == []


def test_a_link_that_does_not_hold_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("[gone](nowhere.md)", encoding="utf-8")
    monkeypatch.setattr(check_links, "ROOT", tmp_path)
    monkeypatch.setattr(check_links, "PAGES", [tmp_path / "page.md"])
    assert check_links.broken() == ["page.md: nowhere.md does not exist"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_are_python(page):
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if INCLUDED.search(block) is None:
            ast.parse(block)


def test_examples_are_included_from_files_that_exist():
    """A formatter once turned the marker into a comparison, which parses and includes nothing."""
    blocks = BLOCK.findall((ROOT / "docs" / "examples.md").read_text(encoding="utf-8"))
    assert len(blocks) == len(list((ROOT / "examples").glob("*.py")))
    for block in blocks:
        included = INCLUDED.fullmatch(block.strip())
        assert included, block
        assert (ROOT / included[1]).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_fits_beside_the_menu(page):
    """At 1280 pixels a block of the site holds 80 letters; longer ones would scroll sideways."""
    if page.parent.name in ("docs", "tutorials"):
        text = without_outputs(page.read_text(encoding="utf-8"))
        lines = [line for block in BLOCK.findall(text) for line in block.split("\n")]
        assert not [line for line in lines if len(line) > 80]


RAN = [page for page in PAGES if outputs.BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", RAN, ids=lambda page: page.name)
def test_outputs_of_blocks_stand_in_the_page(page):
    """Every block that prints is followed by what it printed; the site, which runs it, is not."""
    text = page.read_text(encoding="utf-8")
    plain = without_outputs(text)
    assert outputs.BEGIN not in plain
    assert outputs.END not in plain
    assert outputs.BEGIN in text, "run python docs/outputs.py"
    printing = [block for block in outputs.BLOCK.finditer(text) if "print(" in block[2]]
    for block in printing:
        assert text[block.end() :].lstrip("\n").startswith(outputs.BEGIN), block[2]
    assert len(outputs.KEPT.findall(text)) == len(printing)


def test_outputs_are_written_after_their_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "ASSETS", tmp_path)
    page = (
        'One.\n\n```python exec="on" session="a"\nx = 1\n```\n\nTwo.\n\n'
        '```python exec="on" session="a" result="text"\nprint(x + 1)\n```\n\n'
        '```python exec="on" session="a" html="on"\nprint("<svg><use xlink:a=\'b\'/></svg>")\n```\n'
    )
    written = outputs.with_outputs(page, "page")
    assert "```text\n2\n```" in written
    assert written.count(outputs.BEGIN) == 2
    assert "page-2.svg" in written
    assert (tmp_path / "page-2.svg").read_text().startswith("<svg xmlns=")
    ElementTree.parse(tmp_path / "page-2.svg")
    assert without_outputs(written) == page
    assert outputs.with_outputs(written, "page") == written


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda path: path.name)
def test_pictures_can_be_shown_by_themselves(path):
    """A name whose space is not declared shows an error, a colour that nobody set is black."""
    ElementTree.parse(path)
    text = path.read_text(encoding="utf-8")
    assert all(f"{name}:" in text for name in re.findall(r"var\((--\w+)\)", text))


def test_every_tutorial_is_executed_when_the_site_is_built():
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        headers = re.findall(r"^```python([^\n]*)$", text, re.MULTILINE)
        assert headers, page.name
        assert all('exec="on"' in header for header in headers), page.name


def test_every_example_is_described():
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    for example in sorted((ROOT / "examples").glob("*.py")):
        assert f"examples/{example.name}" in text


def test_the_readme_and_the_first_steps_show_the_same_code():
    readme, start = (
        BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))[0]
        for page in ("README.md", "docs/start.md")
    )
    plain = [ast.dump(ast.parse(code.replace(", progress=False", ""))) for code in (readme, start)]
    assert plain[0] == plain[1]


def test_pages_of_the_site_are_in_its_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in menu


def test_the_table_of_outcomes_is_that_of_the_code():
    text = outcomes.PAGE.read_text(encoding="utf-8")
    assert outcomes.filled(text) == text, "run python docs/outcomes.py"
    assert outcomes.filled(text.replace("| `frozen`", "| `melted`")) == text


def test_the_certificate_has_what_its_page_says_to_look_at():
    page = (ROOT / "docs" / "certificate.md").read_text(encoding="utf-8")
    rows = page[page.index("| you want to say") : page.index("## The verdict")].splitlines()[2:]
    places = {
        place for row in rows for place in re.findall(r"`([^`]+)`", "".join(row.split("|")[2:3]))
    }
    assert len(places) >= 6
    for place in places:
        name = re.sub(r"\[.*?\]", "", place)
        if not name.startswith("fit."):
            follow(Certificate, name.removeprefix("certificate.").split("."))


def test_picture_and_table_of_the_rooms_are_those_of_the_sources():
    text = architecture.PAGE.read_text(encoding="utf-8")
    assert architecture.filled(text) == text, "run python docs/architecture.py"
    assert architecture.PICTURE.read_text(encoding="utf-8") == architecture.picture()
    assert architecture.reduced({("a", "b"), ("b", "c"), ("a", "c")}) == [("a", "b"), ("b", "c")]
