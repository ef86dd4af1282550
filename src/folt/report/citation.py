"""How to cite the method and the software."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from folt.fit import Fit

PAPER = """\
@unpublished{hu-folded-transport,
  author = {Hu, Jun},
  title  = {Folded Transport {MCMC}: Eliminating Label Switching
            by Sampling on a Fundamental Domain},
  note   = {Wuhan University of Technology}
}"""

SOFTWARE = """\
@software{{folt,
  author  = {{{{The folt developers}}}},
  title   = {{folt: sampling, certificates and evidence for
             posteriors that repeat themselves under relabelling}},
  version = {{{version}}}
}}"""


def bibtex(fit: Fit) -> str:
    """The paper, and the version of folt that made the fit."""
    version = fit.provenance.get("versions", {}).get("folt", "unknown")
    return f"{PAPER}\n\n{SOFTWARE.format(version=version)}"
