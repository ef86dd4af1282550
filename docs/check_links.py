"""Every relative link in the Markdown files points to a file that exists."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/**/*.md"))]


def broken() -> list[str]:
    """One line for every link that leads nowhere."""
    found = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                found.append(f"{page.relative_to(ROOT)}: {link} does not exist")
    return found


if __name__ == "__main__":
    problems = broken()
    print("\n".join(problems) or f"{len(PAGES)} pages, every link holds")
    sys.exit(bool(problems))
