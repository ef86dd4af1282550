"""Every relative link in the Markdown files points to a file that exists."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]


def broken() -> list[str]:
    """One line for every link that leads nowhere."""
    found = []
    built = {"contributing.md", "changelog.md"}  # docs/building.py makes these
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            known = "://" in link or link in built or (page.parent / link).exists()
            if not known:
                found.append(f"{page.relative_to(ROOT)}: {link} does not exist")
    return found


if __name__ == "__main__":
    problems = broken()
    print("\n".join(problems) or f"{len(PAGES)} pages, every link holds")
    sys.exit(bool(problems))
