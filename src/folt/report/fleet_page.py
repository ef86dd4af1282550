"""A fleet as one page: how it went, small pictures of the estimates, a table to filter and sort.

What a command concludes from all jobs stands above the rows, as a `Front`. The page holds the rows
themselves and nothing of the fits, which it links to. It reads as it is without scripts; with them
the table can be searched.

A calibration as one page: what was found in words, ranks beside their band, tables.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from folt.report.rendering import render
from folt.store.packages import require
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from folt.fit.section import Section


_Row = Document

PICTURES = 12
"""Columns that are drawn."""

POINTS = 400
"""Jobs in a picture; of more, evenly spaced ones are drawn."""

STILL_ROWS = 200
"""Rows that stand in the page for readers without scripts."""

_LARGEST = 1e300
"""Numbers beyond it are not drawn: their differences leave double precision."""

HINT = "<code>folt report FOLDER --all</code> makes a page of every fit, which names then link to."
"""Where fits have no pages yet."""


@dataclasses.dataclass(frozen=True)
class Front:
    """What a command says of its jobs above their rows.

    Attributes:
        heading: the answer; where it is empty, how many jobs are done.
        tone: one of good, caution and bad, for the colour of the answer; empty for none.
        sentences: what the answer rests on.
        table: the answer in numbers, headings first; every other row begins with the name of the
            job that its first cell leads to.
        sections: figures of all jobs together, in the place of those of single estimates.
        alike: whether a column means the same in every job; estimates are left out if not.
        command: whose results these are.
        rows: what the rows are.
        first: what the first column is.
        kept: the file of the rows.
    """

    heading: str = ""
    tone: str = ""
    sentences: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    sections: Sequence[Section] = ()
    alike: bool = True
    command: str = "fleet"
    rows: str = "Jobs"
    first: str = "job"
    kept: str = "table.csv"


def fleet_page(
    rows: list[_Row],
    columns: Sequence[str],
    estimates: Sequence[str],
    total: int,
    pages: bool,
    front: Front | None = None,
) -> str:
    """Return the page as HTML.

    Args:
        rows: one per job that has ended, in the order of the jobs.
        columns: of the table.
        estimates: those columns that come with the ends of an interval, `NAME low`, `NAME high`.
        total: how many jobs there are.
        pages: whether every fit has a report of its own to link to.
        front: what stands above the rows.
    """
    require("a report", "jinja2")
    from markupsafe import Markup

    from folt.certificate.sentences import MARKS

    front = Front() if front is None else front
    if not front.alike:
        own = {f"{name}{end}" for name in estimates for end in ("", " low", " high")}
        columns, estimates = [name for name in columns if name not in own], ()

    failed = sum(row["error"] is not None for row in rows)
    listed = [name for name in columns if name != "started_from" and not _is_nested(rows, name)]
    listed = [name for name in listed if any(row.get(name) is not None for row in rows)] or ["job"]
    summed_up = bool(front.sections) or not front.alike
    drawn = [] if summed_up else (list(estimates) or _numbers(rows, listed))
    fits = any("started_from" in row for row in rows)
    data = {
        "columns": listed,
        "rows": [[row.get(name) for name in listed] for row in rows],
        "link": ("report.html" if pages else "fit.nc") if fits else "row.json",
    }
    content = {
        "front": front,
        "mark": MARKS.get(front.tone, ""),
        "total": total,
        "ended": len(rows),
        "failed": failed,
        "warm": sum(row.get("started_from") is not None for row in rows),
        "seconds": math.fsum(row.get("seconds") or 0.0 for row in rows),
        "verdicts": _verdicts(rows, failed),
        "pictures": [
            (name, Markup(_picture(rows, name, name in estimates))) for name in drawn[:PICTURES]
        ],
        "more_pictures": max(0, len(estimates) - PICTURES),
        "sections": [
            (section.title, Markup(section.drawing(f"section-{k}")), section.text)
            for k, section in enumerate(front.sections)
        ],
        "columns": listed,
        "still": rows[:STILL_ROWS],
        "link": data["link"],
        "hint": Markup(HINT) if data["link"] == "fit.nc" else "",
        "data": Markup(json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")),
    }
    return render("fleet.html.j2", content, shown=shown)


def linked_to_pages(page: str) -> str:
    """A page of a fleet whose links to fits lead to their reports, which are there by now."""
    page = page.replace('/fit.nc">', '/report.html">').replace(HINT, "")
    return page.replace('"link": "fit.nc"', '"link": "report.html"')


def _verdicts(rows: list[_Row], failed: int) -> list[tuple[str, str, int]]:
    """Return every verdict with its tone and how often it was given, the gravest last."""
    counts = Counter(str(row["verdict"]) for row in rows if row.get("verdict") is not None)
    found = []
    if counts:
        from folt.certificate.outcomes import Outcome

        tones = {outcome.label: outcome.use.tone for outcome in Outcome}
        # A job may call its own results what it likes.
        names = [*(name for name in tones if name in counts), *sorted(counts.keys() - tones.keys())]
        found = [(name, tones.get(name, "note"), counts[name]) for name in names]
    return [*found, *([("failed", "bad", failed)] if failed else [])]


def shown(value: object) -> str:
    """Return a cell as it is read: four digits are enough to compare."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.6g}"


def _is_nested(rows: list[_Row], name: str) -> bool:
    return any(isinstance(row.get(name), list | dict) for row in rows)


def _numbers(rows: list[_Row], names: Sequence[str]) -> list[str]:
    """Return columns of numbers, where there are no estimates to draw."""
    there = [[row.get(name) for row in rows] for name in names]
    return [
        name
        for name, values in zip(names, there, strict=True)
        if any(_is_number(value) for value in values)
        and all(value is None or _is_number(value) for value in values)
    ]


def _is_number(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= _LARGEST  # type: ignore[arg-type]


def _picture(rows: list[_Row], name: str, interval: bool) -> str:
    """Return a value over the jobs, in their order, with its interval as a line."""
    every = -(-len(rows) // POINTS)
    chosen = [(k, row) for k, row in enumerate(rows) if k % every == 0]
    ends = (f"{name} low", name, f"{name} high") if interval else (name, name, name)
    marks: list[tuple[float, ...]] = [
        (k, *(row[end] for end in ends))
        for k, row in chosen
        if all(_is_number(row.get(end)) for end in ends)
    ]
    if not marks:
        return ""
    low, high = min(mark[1] for mark in marks), max(mark[3] for mark in marks)
    spread = (high - low) or abs(high) or 1.0
    width, height = 300.0, 90.0

    def x(k: float) -> str:
        return f"{6 + (width - 12) * k / max(len(rows) - 1, 1):.1f}"

    def y(value: float) -> str:
        return f"{height - 6 - (height - 12) * (value - low) / spread:.1f}"

    bars = "".join(f"M{x(k)} {y(a)}V{y(b)}" for k, a, _, b in marks) if interval else ""
    dots = "".join(f"M{x(k)} {y(middle)}h0" for k, _, middle, _ in marks)
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img">'
        f'<path class="bars" d="{bars}"/><path class="dots" d="{dots}"/></svg>'
        f'<span class="range">{shown(float(low))} to {shown(float(high))}</span>'
    )


ACROSS = 3
"""Pictures in a row."""

_ENOUGH = 100
"""Simulations below which the page says that only coarse faults would show."""

_ERRORS = 3.0
"""Standard errors by which the mean ratio of evidence may differ from one."""


def calibration_page(found: Document) -> str:
    """Return the page as HTML, from the tree that `calibration.json` holds."""
    from markupsafe import Markup

    from folt.report.style import svg

    outside = [name for name, one in found["quantities"].items() if not one["inside"]]
    joint = found["joint_p_value"] > 1 - found["band"]
    evidence = found["evidence"]
    good = joint and (evidence is None or abs(evidence["score"]) <= _ERRORS)
    content = {
        "found": found,
        "tone": "good" if good else "bad",
        "mark": "✓" if good else "✗",
        "headline": _headline(good, found["finished"]),
        "outside": outside,
        "joint": joint,
        "percent": f"{100 * found['band']:g} %",
        "errors": _ERRORS,
        "widest": max((max(one["high"]) for one in found["quantities"].values()), default=0.0),
        "figure": Markup(svg(ranks_figure(found["quantities"]), "ranks")),
    }
    return render("calibration.html.j2", content)


def _headline(good: bool, finished: int) -> str:
    if good and finished < _ENOUGH:
        return f"In {finished} simulations, too few to be sure, draws are as uncertain as they say"
    if good:
        return "Posterior draws are as uncertain as they say"
    return "Posterior draws are not as uncertain as they say"


def ranks_figure(quantities: dict[str, Document]) -> Figure:
    """Empirical minus uniform distribution of the ranks, one panel each, with the band."""
    from folt.report.style import INK, LINE, PALETTE, blank, styled

    rows = max(1, math.ceil(len(quantities) / ACROSS))
    with styled():
        figure = blank(9.0, 1.9 * rows)
        axes = figure.subplots(rows, ACROSS, sharex=True, sharey=True, squeeze=False)
        for panel, (name, one) in zip(axes.flat, quantities.items(), strict=False):
            panel.fill_between(one["at"], one["low"], one["high"], color=LINE, alpha=0.6, lw=0)
            panel.axhline(0.0, color=INK, lw=0.6)
            colour = PALETTE[0] if one["inside"] else PALETTE[1]
            panel.plot(one["at"], one["difference"], color=colour)
            panel.set_title(name)
        for panel in list(axes.flat)[len(quantities) :]:
            panel.set_axis_off()
        figure.supxlabel("rank of the truth, as a share", fontsize=9)
        figure.supylabel("empirical - uniform", fontsize=9)
    return figure
