"""Validation results as Markdown beside the benchmarks' own."""

from pathlib import Path

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def write_table(name, title, columns, rows):
    """Write `validate-name.md`, one line per row."""
    lines = [f"# {title}", "", _line(columns), _line(["---"] * len(columns)), *map(_line, rows), ""]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"validate-{name}.md").write_text("\n".join(lines))


def _line(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
