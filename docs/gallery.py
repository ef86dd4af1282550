"""The pictures of the first page, from a demo: `folt demo`, then `python docs/gallery.py demo`.

Writes report.png (the head of its report, as Chromium shows it) and gallery-*.png to docs/assets,
and prints the fit, whose card stands on the first page.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import folt

ASSETS = Path(__file__).parent / "assets"
WINDOW = (1180, 760)
WIDTH = 1000


def main(demo: Path, browser: str = "chromium") -> None:
    """Shrink the demo's pictures, photograph its report and print its fit."""
    for name in ("chains", "data", "marginals"):
        shrink(demo / f"{name}.png", f"gallery-{name}.png", WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        taken = Path(folder) / "report.png"
        size = ",".join(map(str, WINDOW))
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}"]
        page = (demo / "report.html").resolve().as_uri()
        subprocess.run([browser, *options, f"--screenshot={taken}", page], check=True)
        shrink(taken, "report.png", WINDOW[0])
    print(folt.load(demo / "fit.nc"))


def shrink(source: Path, name: str, width: int) -> None:
    """A picture of few colours and this width."""
    picture = Image.open(source).convert("RGB")
    height = round(picture.height * width / picture.width)
    small = picture.resize((width, height), Image.Resampling.LANCZOS)
    small.quantize(128, dither=Image.Dither.NONE).save(ASSETS / name, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
