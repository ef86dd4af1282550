"""A fit as text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from folt.fit import Fit

WIDTH = 96


def summary(fit: Fit) -> str:
    """Verdict, estimates with intervals, and the numbers behind them, as plain text."""
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, highlight=False)
    status = fit.certificate.status
    console.print(f"{status.name.upper()}. {status.advice}")
    console.print()
    console.print(estimates(fit))
    for line in facts(fit):
        console.print(line)
    for sentence in fit.reference.warnings:
        console.print(f"Warning: {sentence}")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def estimates(fit: Fit) -> Table:
    """One row per scalar of the user's parameters: mean, deviation, 95 % interval, ESS, R-hat."""
    from folt.diagnostics.chains import effective_size, split_rhat

    table = Table(box=None, pad_edge=False)
    table.add_column("parameter")
    for heading in ("mean", "sd", "2.5 %", "97.5 %", "ess", "rhat"):
        table.add_column(heading, justify="right")
    frozen = bool(fit.chain_summary().frozen)
    for name, values in scalars(fit).items():
        low, high = np.quantile(values, [0.025, 0.975])
        numbers = (values.mean(), values.std(), low, high)
        ess = 0.0 if frozen else effective_size(values)
        rhat = float("nan") if frozen else split_rhat(values)
        table.add_row(name, *(f"{number:.4f}" for number in numbers), f"{ess:.0f}", f"{rhat:.3f}")
    return table


def scalars(fit: Fit) -> dict[str, np.ndarray]:
    """Every scalar of the posterior, counted from one: `{"mu[1]": (chain, draw)}`."""
    flat = {}
    for name, values in fit.posterior.items():
        for index in np.ndindex(values.shape[2:]):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name
            flat[label] = values[(slice(None), slice(None), *index)]
    return flat


def facts(fit: Fit) -> list[str]:
    """The numbers that stand behind the verdict, a line each."""
    certificate = fit.certificate
    ess = fit.ess()
    count = fit.accepted.size
    evidence = fit.log_evidence
    seconds = sum(fit.wall.values())
    lines = [
        "",
        f"Draws        {fit.draws.shape[0]} chains x {fit.draws.shape[1]}, symmetry of order "
        f"{fit.group.order}, acceptance {fit.accept_rate:.3f}, "
        f"effective draws {ess.min():.0f} ({ess.min() / count:.2f} each)",
        f"Evidence     log Z = {evidence.value:.4f} ± {evidence.standard_error:.4f}, "
        f"all {fit.group.order} labellings counted",
    ]
    for protocol in ("target", "proposal"):
        core = certificate.qc[protocol][0.05]
        value = f"{core.gamma:.3f}" if core.gamma is not None else "cannot be had"
        lines.append(
            f"Core gamma   {value} from {protocol} draws (rho = 0.05, n = {core.n:.0f}); "
            "the paper's diagnostic, not a bound"
        )
    stages = ", ".join(f"{name} {wall:.1f}" for name, wall in fit.wall.items())
    lines.append(f"Time         {seconds:.1f} s ({stages})")
    gradients = fit.evaluations["gradient"]
    lines.append(f"Evaluations  {fit.evaluations['value']} values, {gradients} gradients")
    return lines
