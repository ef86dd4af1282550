"""A fit as text: the verdict in words, estimates, and the numbers behind them."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from folt.certificate.certificate import headline as headline_words
from folt.certificate.certificate import tone, undefined_words, unstated
from folt.certificate.conditions import MIXED
from folt.certificate.exploration import modes_words
from folt.certificate.outcomes import Use
from folt.problem.cards import folding

if TYPE_CHECKING:
    from folt.certificate.diagnostics import Mixing
    from folt.certificate.outcomes import Status
    from folt.fit.fit import Fit

SUMMARY_WIDTH = 96

NOT_AVAILABLE = "not available"
"""What stands for a number that does not exist: infeasible, infinite, or never measured."""

UNSTATED = "not stated"
"""What stands for a statement that is withheld because the verdict doubts what it rests on."""

STYLES = {"good": "bold green", "caution": "bold yellow", "bad": "bold red"}


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One scalar of the user's parameters.

    Attributes:
        name: the parameter and its position.
        mean: posterior mean.
        deviation: posterior standard deviation.
        low: lower end of the 95 % interval.
        high: its upper end.
        ess: effective draws; zero where a chain is frozen.
        rhat: split R-hat; None where a chain is frozen.
        digits: decimals worth printing.
    """

    name: str
    mean: float
    deviation: float
    low: float
    high: float
    ess: float
    rhat: float | None
    digits: int


def summary(fit: Fit, commands: bool = False) -> str:
    """Verdict, estimates with intervals, and the numbers behind them, as plain text."""
    stream = io.StringIO()
    console = Console(file=stream, width=SUMMARY_WIDTH, color_system=None, highlight=False)
    console.print(overview(fit, commands))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def overview(fit: Fit, commands: bool = False) -> Group:
    """Return the same for a Rich console, which colours it if it is a terminal.

    Args:
        fit: what to tell of.
        commands: whether the next step is told for the command line instead of Python.
    """
    status, rows = fit.certificate.status, estimate_rows(fit)
    warnings = [Text(f"Warning: {sentence}", style="yellow") for sentence in cautions(fit)]
    return Group(
        *(Text(line, style="bold yellow") for line in _unfolded(fit)),
        styled_headline(status),
        Padding(Text(status.advice), (0, 0, 0, 2)),
        *cure_lines(status, commands),
        *(Padding(warning, (0, 0, 0, 2)) for warning in warnings),
        Text(),
        _estimates(rows),
        Text(),
        verdict_table(fit, rows),
    )


def cure_lines(status: Status, commands: bool = False) -> list[Padding]:
    """Return the next step as code, or as a command; nothing where the fit is good."""
    if status.outcome.use is Use.EVERYTHING:
        return []
    step = status.command if commands else status.cure
    return [Padding(Text(f"Next: {step}", style="bold"), (0, 0, 0, 2))]


def styled_headline(status: Status) -> Text:
    """Return the verdict in a few words, with a mark that does not need colour."""
    return Text(headline_words(status), style=STYLES[tone(status)])


def _unfolded(fit: Fit) -> list[str]:
    """Return the first line where nothing was folded although the model has repeated structure."""
    sites = fit.provenance.get("unfolded") or []
    named = ", ".join(str(site) for site in sites)
    return [f"! No relabelling symmetry was folded: {named} kept as labelled."] if sites else []


def cautions(fit: Fit) -> list[str]:
    """Return what a user should know besides the verdict, as sentences."""
    sentences = [str(caution) for caution in fit.certificate.reference.cautions]
    if fit.certificate.faults.not_a_number:
        words = undefined_words(fit.certificate)
        sentences.append(f"The log density was not a number at {words}.")
    if not fit.is_certified_whole:
        sentences.append(
            f"The certificate was made from {fit.certificate.chains.draws:,} of the "
            f"{fit.drawn:,} draws; the others were added later by the same kernel."
        )
    return sentences


def _estimates(rows: Sequence[Estimate]) -> Table:
    """One row per scalar of the user's parameters: mean, deviation, 95 % interval, ESS, R-hat."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("parameter")
    for heading in ("mean", "sd", "95 % interval", "ess", "rhat"):
        table.add_column(heading, justify="right")
    for row in rows:
        values = [
            f"{value:.{row.digits}f}" for value in (row.mean, row.deviation, row.low, row.high)
        ]
        width = max(len(values[2]), len(values[3]))
        interval = f"{values[2]:>{width}} to {values[3]:>{width}}"
        rhat = rounded_number(row.rhat, 3)
        table.add_row(Text(row.name), *values[:2], interval, f"{row.ess:.0f}", rhat)
    return table


def estimate_rows(fit: Fit) -> list[Estimate]:
    """Return mean, deviation, 95 % interval, ESS and R-hat of every scalar that varies.

    One that is the same in every draw of moving chains, such as a uniform initial distribution, is
    known and not estimated. Of symmetric matrices the upper triangle stands for both.
    """
    from folt.certificate.diagnostics.chains import effective_size, frozen_chains, split_rhat

    frozen = bool(frozen_chains(fit.accepted))
    rows = []
    for parameter, whole in fit.posterior.items():
        flat, mirrored = entries({parameter: whole}, fit), is_mirrored(whole)
        digits = decimals([float(values.std()) for values in flat.values()])
        for index, (name, values) in zip(np.ndindex(whole.shape[2:]), flat.items(), strict=True):
            if mirrored and index[-2] > index[-1]:
                continue
            if not frozen and np.ptp(values) == 0.0:
                continue
            low, high = np.quantile(values, [0.025, 0.975])
            ess = 0.0 if frozen else effective_size(values)
            rhat = None if frozen else split_rhat(values)
            numbers = (float(values.mean()), float(values.std()), float(low), float(high))
            rows.append(Estimate(name, *numbers, ess, rhat, digits))
    return rows


def is_mirrored(values: np.ndarray) -> bool:
    """Return whether an array (chain, draw, ..., p, p) holds symmetric matrices, p > 1."""
    if values.ndim < 4 or values.shape[-1] != values.shape[-2] or values.shape[-1] < 2:
        return False
    return bool(np.allclose(values, np.swapaxes(values, -1, -2), rtol=1e-9, atol=0.0))


def entries(posterior: Mapping[str, np.ndarray], fit: Fit | None = None) -> dict[str, np.ndarray]:
    """Return every scalar of `{name: (chain, draw, ...)}`, counted from zero as in ArviZ: `mu[0]`.

    Args:
        posterior: the values.
        fit: where the axes have labels, these stand for the numbers: `mu[left]`.
    """
    flat = {}
    for name, values in posterior.items():
        for index in np.ndindex(values.shape[2:]):
            words = index_words(name, index, fit)
            label = f"{name}[{','.join(words)}]" if index else name
            # Truth values and whole numbers have means and intervals too.
            flat[label] = np.asarray(values[(slice(None), slice(None), *index)], float)
    return flat


def index_words(name: str, index: tuple[int, ...], fit: Fit | None) -> list[str]:
    """Return the labels of an entry along every axis, its position where an axis has none."""
    axes = fit.dims.get(name, ()) if fit is not None else ()
    if fit is None or len(axes) != len(index):
        return [str(i) for i in index]
    pairs = zip(axes, index, strict=True)
    return [str(fit.coords[axis][i]) if axis in fit.coords else str(i) for axis, i in pairs]


def fewest_effective_draws(fit: Fit, rows: Sequence[Estimate] | None = None) -> float:
    """Return the fewest effective draws of any scalar that is estimated, as the table has them."""
    found = estimate_rows(fit) if rows is None else rows
    return min((row.ess for row in found), default=float(fit.ess().min()))


def verdict_table(fit: Fit, rows: Sequence[Estimate] | None = None) -> Table:
    """Return the numbers that stand behind the verdict, a line each."""
    ess, found = fewest_effective_draws(fit, rows), fit.certificate.exploration
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    shown = [
        ("Draws", draws_words(fit)),
        *([("Order", order_sentence(fit))] if fit.order else []),
        ("Acceptance", f"{100.0 * fit.accept_rate:.1f} %"),
        ("Effective", f"{ess:.0f} draws at least, {ess / fit.accepted.size:.2f} per draw"),
        ("Evidence", evidence_words(fit)),
        *_divided_out(fit),
        ("Mixing", mixing_words(fit)),
        *([("Modes", modes_words(found))] if found is not None else []),
        ("Gamma", f"{gamma_words(fit)} (ρ = 0.05; the paper's diagnostic, not a bound)"),
        ("Time", time_words(fit)),
        ("Cost", cost_words(fit)),
    ]
    for name, text in shown:
        table.add_row(name, Text(text))
    return table


def draws_words(fit: Fit) -> str:
    """How many draws there are, of how many if a file kept only some, and what was folded."""
    chains, draws, _ = fit.draws.shape
    kept = f" (its file kept these of {fit.drawn:,})" if fit.drawn > fit.accepted.size else ""
    chosen = "" if fit.provenance.get("draws_asked", True) else ", chosen by budget"
    return f"{chains} chains of {draws}{kept}{chosen}, {folding(fit.group)}"


def _divided_out(fit: Fit) -> list[tuple[str, str]]:
    """Return the rotations that the draws no longer have, where there were any."""
    words = fit.provenance.get("divided_out")
    return [("Divided out", f"{words}; Fit.rotated turns draws for reading")] if words else []


def order_sentence(fit: Fit) -> str:
    """Return what the numbers or labels of exchangeable components stand for."""
    axes = ", ".join(axis for axis in fit.exchanged_dims if not axis.endswith("_to"))
    places = f"; labels of {axes} are places in this order" if axes else ""
    return f"{fit.order}{places}{_mixed_words(fit)}"


def _mixed_words(fit: Fit) -> str:
    """Return what is to be said where the order mixes labels that differ in something else."""
    mixed = fit.certificate.symmetry.boundary.mixed or 0.0
    if mixed <= MIXED:
        return ""
    return (
        f"; in {100 * mixed:.0f} % of the draws this order confuses components that differ in "
        "something else: fit.relabelled(sort_by=...)"
    )


def evidence_words(fit: Fit) -> str:
    """Return log Z with its error, how it was made and how far another estimate lies from it."""
    evidence, difference = fit.log_evidence, fit.certificate.evidences.difference
    constant = " up to a constant that the model leaves out" if evidence.proportional else ""
    return (
        f"log Z = {rounded_number(evidence.value)}{constant}, "
        f"standard error {rounded_number(evidence.standard_error)} "
        f"({evidence.method}, Pareto k̂ {shape_words(evidence.pareto_k)}), "
        f"{rounded_number(abs(difference.score), 1)} errors from the bridge; every "
        "labelling counted once"
    )


def shape_words(shape: float) -> str:
    """Pareto k̂; below zero the weights are bounded, and by how much does not matter."""
    return "below 0" if shape < 0.0 else rounded_number(shape, 2)


def mixing_words(fit: Fit) -> str:
    """Certified steps to each distance, and how surely."""
    mixing = fit.certificate.mixing
    known = [f"{n:,} to {epsilon:g}" for epsilon, n in mixing.steps.items() if n is not None]
    if not known:
        return unstated(fit.certificate)
    return (
        f"steps to total variation: {', '.join(known)} ({100 * mixing.confidence:.0f} % confidence)"
    )


def step_words(mixing: Mixing, epsilon: float) -> str:
    """Return steps to one distance; words where they are withheld, or cannot be had."""
    steps = mixing.steps[epsilon]
    if steps is not None:
        return f"{steps:,}"
    return NOT_AVAILABLE if mixing.computed is None else UNSTATED


def gamma_words(fit: Fit) -> str:
    """γ at ρ = .05 in both protocols."""
    return ", ".join(
        f"{rounded_number(cores[0.05].gamma, 3)} on {protocol} draws"
        for protocol, cores in fit.certificate.qc.items()
    )


def time_words(fit: Fit) -> str:
    """Wall time, whole and by stage."""
    stages = ", ".join(f"{name} {rounded_seconds(wall)}" for name, wall in fit.wall.items())
    return f"{rounded_seconds(sum(fit.wall.values()))} s ({stages})"


def cost_words(fit: Fit) -> str:
    """Return what was spent, and what the thorough effort could buy at most."""
    spent, effort = fit.provenance.get("spent"), fit.provenance.get("effort")
    words = f"{fit.evaluations['value']} log densities, {fit.evaluations['gradient']} gradients"
    if spent is not None:
        words += f", {spent['programs']} programs, {rounded_seconds(spent['cpu_s'])} CPU s"
    if effort in (None, "thorough") or fit.provenance.get("preset") != "default":
        return words
    points = 100.0 * (1.0 - fit.accept_rate)
    return f"{words}; effort thorough could win at most {points:.0f} % of acceptance"


def rounded_seconds(value: float) -> str:
    """Return seconds as a person would write them."""
    return f"{value:.1f}" if value < 100.0 else f"{value:.0f}"


def rounded_number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many decimals; words where there is none."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    return f"{round(value, digits) + 0.0:.{digits}f}"  # Adding zero turns -0 into 0.


def decimals(deviations: list[float]) -> int:
    """Decimals that show three digits of a middling deviation, so that a column lines up."""
    usable = [value for value in deviations if math.isfinite(value) and value > 0.0]
    if not usable:
        return 4
    return int(np.clip(2 - math.floor(math.log10(float(np.median(usable)))), 0, 8))
