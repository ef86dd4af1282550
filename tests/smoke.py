"""A fit, its file, its page and every help text: what must work on the lowest versions named.

Run as a program by `make check-lowest`, in an environment of its own without pytest.
"""

import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp

import folt
from folt.cli import run
from folt.models import label_switching
from folt.proposals import Gaussian
from folt.reference import Exact

COMMANDS = ("demo", "mixture", "modal", "sample", "certify", "report", "relabel", "reproduce")


def main() -> None:
    fit = folt.sample(
        label_switching(2, 2),
        chains=2,
        draws=200,
        reference=Exact(2_000, 20),
        flow=Gaussian(jnp.array([2.0, 0.5, 5.0, 0.8]), jnp.eye(4)),
        progress=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = fit.save(Path(folder) / "fit.nc")
        back = folt.load(path)
        assert (back.draws == fit.draws).all()
        assert back.report(Path(folder) / "page.html").stat().st_size > 10_000
        assert set(back.to_arviz().posterior) == set(fit.posterior)
        assert run(["report", str(path), "--quiet"]) == 0
    for command in COMMANDS:
        assert run([command, "--help"]) == 0
    print(f"folt {folt.__version__} works: {fit.certificate.status.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
