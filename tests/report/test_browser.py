"""The report in a real browser, opened from a file: nothing fetched, nothing broken, it answers.

Chromium of the system is driven by Playwright. Where it is missing the tests skip, unless
FOLT_REQUIRE_BROWSER=1.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import folt
from folt.models import label_switching
from folt.proposals import Gaussian

pytestmark = pytest.mark.extended

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""What the browser is called on different systems."""

WIDTHS = (1280, 390)
"""A desk and a telephone, in pixels."""

PATIENCE = 60_000
"""Milliseconds that a busy machine may take."""

PLOTS = ("trace-folded", "margin-folded", "trace-raw", "pair-raw", "pair-folded")
CHARTS = ("mixing", "log-ratio", "gamma")

PAINTED = "(id) => document.getElementById(id).querySelector('canvas').toDataURL()"
"""What is painted inside an element, as text that can be compared."""


def missing(reason: str) -> None:
    message = f"{reason}: install Chromium (Debian: apt-get install chromium) and Playwright"
    if os.environ.get("FOLT_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{message}, or unset FOLT_REQUIRE_BROWSER")
    pytest.skip(message)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright is not installed")
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        missing(f"no browser was found under the names {', '.join(NAMES)}")
    with sync_playwright() as playwright:
        # A root user has no sandbox to offer, and the page is our own.
        started = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three Gaussian blocks in every order: exact draws and proposal, so nothing is trained."""
    with jax.enable_x64(True):
        flow = Gaussian(jnp.array([2.0, 0.5, 5.0, 0.8, 8.0, 0.3]), jnp.eye(6))
        fit = folt.sample(label_switching(3, 2), flow=flow, draws=300, progress=False)
        return fit.report(tmp_path_factory.mktemp("report") / "report.html")


@contextmanager
def opened(browser, path: Path, *, width: int = 1280, scheme="light", scripts=True) -> Iterator:
    """A page from a file, with a list of everything that went wrong in it."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        java_script_enabled=scripts,
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("console", lambda message: faults.extend(complaints(message)))
    page.on("request", lambda request: faults.extend(strangers(request.url, path)))
    page.goto(path.as_uri())
    try:
        yield page, faults
    finally:
        context.close()


def complaints(message) -> list[str]:
    return [f"console: {message.text}"] if message.type in ("error", "warning") else []


def strangers(url: str, path: Path) -> list[str]:
    """A request for anything but the page itself and what stands in it."""
    return [] if url == path.as_uri() or url.startswith("data:") else [f"request: {url}"]


def wait_until_live(page) -> None:
    page.wait_for_selector("html[data-live=yes]", state="attached")


def overflow(page) -> int:
    """Pixels by which the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def painted(page, name: str) -> str:
    return page.evaluate(PAINTED, f"plot-{name}")


def wait_for_paint(page, name: str, differs: str) -> None:
    """Until a plot is not what it was."""
    page.wait_for_function(
        f"([id, before]) => ({PAINTED})(id) !== before", arg=[f"plot-{name}", differs]
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_is_whole_and_quiet(browser, report: Path, width: int) -> None:
    with opened(browser, report, width=width) as (page, faults):
        wait_until_live(page)
        verdict = page.locator("#verdict h1")
        assert "The fit can be trusted" in verdict.inner_text()
        assert verdict.bounding_box()["y"] < 200
        for name in (*PLOTS, *CHARTS):
            place = page.locator(f"#plot-{name}")
            assert place.is_visible(), name
            box = place.bounding_box()
            assert box["width"] > 50, name
            assert box["height"] > 150, name
        assert len({painted(page, name) for name in PLOTS}) == len(PLOTS)
        assert page.locator("figure.choice .still:visible").count() == 0
        assert overflow(page) <= 0
        assert faults == []


def test_choosing_a_parameter_changes_what_is_drawn(browser, report: Path) -> None:
    with opened(browser, report) as (page, faults):
        wait_until_live(page)
        chooser = page.get_by_label("Parameter", exact=True)
        shown = page.locator("#chosen-estimates")
        assert "x0" in shown.inner_text()
        before = {name: painted(page, name) for name in PLOTS}
        chooser.select_option(label="x3")
        for name in ("trace-folded", "margin-folded", "trace-raw"):
            wait_for_paint(page, name, before[name])
        assert "x3" in shown.inner_text()
        assert "x0" not in shown.inner_text()
        for name in ("pair-raw", "pair-folded"):
            assert painted(page, name) == before[name]
        assert faults == []


def test_the_chooser_is_worked_by_the_keyboard(browser, report: Path) -> None:
    with opened(browser, report) as (page, faults):
        wait_until_live(page)
        chooser = page.get_by_label("Parameter", exact=True)
        chooser.focus()
        before = painted(page, "trace-folded")
        page.keyboard.press("End")
        wait_for_paint(page, "trace-folded", before)
        assert "x5" in page.locator("#chosen-estimates").inner_text()
        assert faults == []


def test_choosing_a_pair_changes_both_clouds(browser, report: Path) -> None:
    with opened(browser, report) as (page, faults):
        wait_until_live(page)
        before = {name: painted(page, name) for name in ("pair-raw", "pair-folded")}
        page.get_by_label("Vertical").select_option(label="x5")
        for name, old in before.items():
            wait_for_paint(page, name, old)
        assert faults == []


READ = "(strip) => getComputedStyle(strip, '::after').content"


@pytest.mark.parametrize("scripts", [True, False])
def test_the_pointer_reads_values_off_the_mixing_curve(browser, report: Path, scripts) -> None:
    with opened(browser, report, scripts=scripts) as (page, faults):
        strips = page.locator("#plot-mixing .strip")
        first, last = strips.first, strips.last
        assert first.evaluate(READ) == "none"
        for strip, words in ((first, "0 steps"), (last, "certified:")):
            strip.scroll_into_view_if_needed()
            strip.hover()
            assert words in strip.evaluate(READ)
        assert first.evaluate(READ) == "none"
        assert faults == []


def test_the_pointer_reads_a_draw_off_its_trace(browser, report: Path) -> None:
    with opened(browser, report) as (page, faults):
        wait_until_live(page)
        place = page.locator("#plot-trace-folded canvas")
        place.scroll_into_view_if_needed()
        box, reading = place.bounding_box(), page.locator("#plot-trace-folded output")
        assert not reading.is_visible()
        for step in range(40):
            page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 10 + 6 * step)
            if reading.is_visible():
                break
        assert re.match(r"x\d: [-\d.]+\nchain \d\ndraw \d+", reading.inner_text())
        page.mouse.move(0, 0)
        assert not reading.is_visible()
        assert faults == []


def test_live_plots_follow_the_colour_scheme(browser, report: Path) -> None:
    with opened(browser, report) as (page, faults):
        wait_until_live(page)
        light = painted(page, "pair-raw")
        page.emulate_media(color_scheme="dark")
        wait_for_paint(page, "pair-raw", light)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(int(part) for part in background[4:-1].split(",")) < 60
        assert faults == []


@pytest.mark.parametrize("width", WIDTHS)
def test_without_scripts_there_are_still_pictures(browser, report: Path, width: int) -> None:
    with opened(browser, report, width=width, scripts=False) as (page, faults):
        stills = page.locator("figure.choice .still svg")
        assert stills.count() == 2
        assert all(still.is_visible() for still in stills.all())
        assert page.locator("select:visible").count() == 0
        assert faults == []


def test_print_shows_still_pictures(browser, report: Path) -> None:
    with opened(browser, report, scheme="dark") as (page, faults):
        wait_until_live(page)
        page.emulate_media(media="print")
        assert page.locator("figure.choice .still:visible").count() == 2
        assert page.locator("figure.choice .live:visible").count() == 0
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        assert page.pdf(format="A4").startswith(b"%PDF")
        assert faults == []


BROKEN = {
    "script": "<script>missing_function()</script>",
    "console": "<script>console.error('no')</script>",
    "request": "<img src='https://example.invalid/picture.png' alt=''>",
}


@pytest.mark.parametrize(("kind", "body"), BROKEN.items())
def test_a_broken_page_is_noticed(browser, tmp_path: Path, kind: str, body: str) -> None:
    """Mutants: what the tests above look for is found where it is."""
    broken = written(tmp_path, f"<p>Hello</p>{body}")
    with opened(browser, broken) as (page, faults):
        page.wait_for_timeout(200)
        assert any(fault.startswith(kind) for fault in faults), faults


def test_a_page_that_is_too_wide_is_noticed(browser, tmp_path: Path) -> None:
    wide = written(tmp_path, "<div style='width: 700px'>wide</div>")
    with opened(browser, wide, width=390) as (page, _):
        assert overflow(page) > 0
    with opened(browser, wide) as (page, _):
        assert overflow(page) <= 0


def written(folder: Path, body: str) -> Path:
    viewport = "<meta name='viewport' content='width=device-width, initial-scale=1'>"
    path = folder / "page.html"
    path.write_text(f"<!DOCTYPE html><html><head>{viewport}</head><body>{body}</body></html>")
    return path


@pytest.mark.parametrize(("required", "outcome"), [("1", "Failed"), ("0", "Skipped")])
def test_a_missing_browser_skips_or_fails(
    monkeypatch: pytest.MonkeyPatch, required: str, outcome: str
) -> None:
    monkeypatch.setenv("FOLT_REQUIRE_BROWSER", required)
    raised: Callable = pytest.fail.Exception if outcome == "Failed" else pytest.skip.Exception
    with pytest.raises(raised, match="apt-get install chromium"):
        missing("no browser")
