"""Results for machines: one strict JSON document on standard output.

Every document has `command`, `version` and `files` (paths written). A fit adds

    verdict       name, advice
    estimates     a list: name, mean, sd, low, high (95 %), ess, rhat
    log_evidence  value, standard_error, pareto_k, method, proportional (up to a constant that the
                  model leaves out): every labelling counted once
    certificate   accept; ess, rhat: the worst over the coordinates; qc: by protocol and rho, with
                  osc, gamma, core_gap, feasible, n; full_osc; mixing: steps by epsilon, confidence
    warnings      sentences about the reference run and the age of the certificate
    learnt        draws that the proposal has learnt from: how many, and a digest of them; the
                  file of the fit has a digest of each
    wall_s        seconds per stage
    evaluations   of the log density: value, gradient

What is infinite, infeasible or not a number is null. The commands add what is theirs: see the
docstring of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.store.strict_json import Document

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def print_json(command: str, files: Iterable[Path], fields: Document) -> None:
    """Print the document of a command."""
    from importlib.metadata import version

    from folt.store.strict_json import strict_json

    tree = {"command": command, "version": version("folt"), "files": [str(path) for path in files]}
    typer.echo(strict_json({**tree, **fields}))


def fit_fields(fit: Fit) -> Document:
    """What a fit found, as plain values."""
    from folt.fit.text import cautions, estimate_rows

    tree = fit.certificate.to_dict()
    return {
        "verdict": tree["status"],
        "estimates": [
            {
                "name": row.name,
                "mean": row.mean,
                "sd": row.deviation,
                "low": row.low,
                "high": row.high,
                "ess": row.ess,
                "rhat": row.rhat,
            }
            for row in estimate_rows(fit)
        ],
        "log_evidence": {
            **{key: tree["evidence"][key] for key in ("value", "standard_error", "pareto_k")},
            "method": tree["evidence"]["method"],
            "proportional": fit.log_evidence.proportional,
        },
        "certificate": {
            "accept": fit.accept_rate,
            "ess": tree["chains"]["ess"],
            "rhat": tree["chains"]["rhat"],
            "qc": tree["qc"],
            "full_osc": tree["full_osc"],
            "mixing": {key: tree["mixing"][key] for key in ("steps", "confidence", "reason")},
        },
        "warnings": cautions(fit),
        "learnt": None
        if fit.learnt is None
        else {"draws": fit.learnt.draws, "digest": fit.learnt.digest},
        "wall_s": dict(fit.wall),
        "evaluations": dict(fit.evaluations),
    }
