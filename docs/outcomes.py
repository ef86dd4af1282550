"""Fill the table of outcomes in docs/certificate.md: `python docs/outcomes.py`."""

import re
import sys
from pathlib import Path

from folt.certificate.outcomes import Outcome

PAGE = Path(__file__).parent / "certificate.md"
PLACE = re.compile(r"(<!-- outcomes -->\n).*?(<!-- /outcomes -->)", re.DOTALL)


def table() -> str:
    """One row per outcome: its name, when it applies, what it means, what the draws are for."""
    rows = [
        f"| `{outcome.label}` | {outcome.condition} | {outcome.meaning} | {outcome.use.value} |"
        for outcome in Outcome
    ]
    head = "| name | when | what it means | the draws are good for |\n|---|---|---|---|\n"
    return f"\n{head}" + "\n".join(rows) + "\n\n"


def filled(text: str) -> str:
    """The page with the table of today."""
    return PLACE.sub(lambda place: place[1] + table() + place[2], text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"filled {PAGE.name}\n")
