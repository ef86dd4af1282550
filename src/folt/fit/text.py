"""A fit as text: summary, card, table of estimates and the methods paragraph for a paper."""

from __future__ import annotations

import dataclasses
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from folt.certificate.conditions import MIXED
from folt.certificate.outcomes import Use
from folt.certificate.sentences import cautions as reference_cautions
from folt.certificate.sentences import chain_rows, mixing_steps, modes_words, tone, undefined_words
from folt.certificate.sentences import headline as headline_words
from folt.fit.labels import are_places, given_label, has_labels, place_number
from folt.fit.relabelling import LARGEST, SIGNS_BY, SORTED_BY, cure_of_order
from folt.problem.cards import Card, counted, folding, order_words
from folt.problem.named_values import LIKELIEST, spoken_names

if TYPE_CHECKING:
    from folt.certificate.diagnostics.mixing import Mixing
    from folt.certificate.outcomes import Status
    from folt.fit.fit import Fit

SUMMARY_WIDTH = 96

MOST_ROWS = 60
"""Rows of estimates in a summary; the table has every one."""

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
    return plain_text(overview(fit, commands)) + "\n"


def plain_text(*parts: RenderableType) -> str:
    """Return what a console without colours would show, one part below the other."""
    stream = io.StringIO()
    console = Console(file=stream, width=SUMMARY_WIDTH, color_system=None, highlight=False)
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def overview(fit: Fit, commands: bool = False) -> Group:
    """Return the same for a Rich console, which colours it if it is a terminal.

    Args:
        fit: the fit.
        commands: whether the next step is a command instead of a line of Python.
    """
    status, rows = fit.certificate.status, estimate_rows(fit)
    heed = caution_word(fit)
    warnings = [Text(f"{heed}: {sentence}", style="yellow") for sentence in cautions(fit)]
    return Group(
        *(Text(line, style="bold yellow") for line in _unfolded(fit)),
        styled_headline(status),
        Padding(Text(status.advice), (0, 0, 0, 2)),
        *cure_lines(status, commands),
        *(Padding(warning, (0, 0, 0, 2)) for warning in warnings),
        Text(),
        *_shortened_estimates(fit, rows),
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


def caution_word(fit: Fit) -> str:
    """Return what begins a caution: a warning does not stand beside a fit that can be trusted."""
    return "Note" if fit.certificate.status.outcome.use is Use.EVERYTHING else "Warning"


def cautions(fit: Fit) -> list[str]:
    """Return what a user should know besides the verdict, as sentences."""
    sentences = reference_cautions(fit.certificate)
    if (mixed := confused(fit)) and (cure := cure_of_order(fit)) != fit.certificate.status.cure:
        sentences.insert(
            0,
            f"The order of the labels confuses components in {100 * mixed:.0f} % of the draws, so "
            f"that summaries by label mislead: {cure} names them better.",
        )
    if fit.certificate.faults.not_a_number:
        words = undefined_words(fit.certificate)
        sentences.append(f"The log density was not a number at {words}.")
    if not fit.is_certified_whole:
        sentences.append(
            f"The certificate was made from {fit.certificate.chains.draws:,} of the "
            f"{fit.drawn:,} draws; the others were added later by the same kernel."
        )
    return sentences


def _shortened_estimates(fit: Fit, rows: Sequence[Estimate]) -> list[RenderableType]:
    """Return the table of estimates, and what it leaves out where there are very many."""
    shown = rows_of(rows, shortened(fit, MOST_ROWS), fit)
    left = [words for words in (left_out_words(rows, shown), constant_words(fit, rows)) if words]
    return [_estimates(shown), *(Text(words, style="italic") for words in left)]


def rows_of(
    rows: Sequence[Estimate], posterior: Mapping[str, np.ndarray], fit: Fit
) -> list[Estimate]:
    """Return the rows of some parameters, in the order of these."""
    known = {row.name: row for row in rows}
    return [known[name] for name in entry_names(posterior, fit) if name in known]


def left_out_words(rows: Sequence[Estimate], shown: Sequence[Estimate]) -> str:
    """Return how many rows a table leaves out, and of what; empty where it has all."""
    names = {row.name for row in shown}
    counts = Counter(_array_of(row.name) for row in rows if row.name not in names)
    if not counts:
        return ""
    whose = ", ".join(f"{count:,} of {name}" for name, count in list(counts.items())[:_CARD_ROWS])
    more = ", …" if len(counts) > _CARD_ROWS else ""
    return (
        f"{counts.total():,} of {len(rows):,} rows are left out ({whose}{more}): "
        "fit.table() has all."
    )


def constant_words(fit: Fit, rows: Sequence[Estimate]) -> str:
    """Return which entries have no row because they never vary; empty where all do."""
    listed = {row.name for row in rows}
    same = [
        name
        for parameter, whole in fit.posterior.items()
        for name, values in entries({parameter: whole}, fit).items()
        if name not in listed and is_constant(values)
    ]
    if not same:
        return ""
    are = "1 entry is" if len(same) == 1 else f"{len(same):,} entries are"
    named = ", ".join(same[:_CARD_ROWS]) + (", …" if len(same) > _CARD_ROWS else "")
    return f"{are} the same in every draw and not estimated: {named}."


def shortened(fit: Fit, most: int) -> dict[str, np.ndarray]:
    """Return parameters with about so many entries in all: large arrays are cut to their beginning.

    What has coordinates of its own comes first; what is derived shares the room that is left.
    """
    whole = {name: math.prod(values.shape[2:]) for name, values in fit.posterior.items()}
    if sum(whole.values()) <= most:
        return fit.posterior
    roots = {_array_of(name) for name in fit.names}
    sampled = [name for name in whole if _array_of(name) in roots]
    derived = [name for name in whole if name not in sampled]
    found: dict[str, np.ndarray] = {}
    room = most
    for names in (sampled, derived):
        level = _share([whole[name] for name in names], room)
        for name in names if level else ():
            found[name] = _cut(fit.posterior[name], level)
            room -= math.prod(found[name].shape[2:])
    return found


def _array_of(name: str) -> str:
    return name.partition("[")[0]


def _share(sizes: Sequence[int], room: int) -> int:
    """Return how many entries each may have at most, so that all together fit into the room."""
    for place, size in enumerate(sorted(sizes)):
        share = max(room, 0) // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _cut(values: np.ndarray, most: int) -> np.ndarray:
    """Return the beginning of an array (chain, draw, ...) along its longest axis."""
    shape = values.shape[2:]
    if math.prod(shape) <= most:
        return values
    axis = int(np.argmax(shape))
    kept = max(most * shape[axis] // math.prod(shape), 1)
    return np.take(values, range(kept), axis=2 + axis)


def _estimates(rows: Sequence[Estimate]) -> Table:
    """Return mean, deviation, 95 % interval, ESS and R-hat, a row per scalar."""
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

    One that is the same in every draw of moving chains, up to rounding, such as a uniform initial
    distribution or the diagonal of a correlation matrix, is known and not estimated. Of symmetric
    matrices the upper triangle stands for both.
    """
    from folt.certificate.diagnostics.chains import effective_size, frozen_chains, split_rhat

    frozen = bool(frozen_chains(fit.accepted))
    rows = []
    for parameter, whole in fit.posterior.items():
        flat, mirrored = entries({parameter: whole}, fit), is_mirrored(whole)
        digits = decimals([_spread(values) for values in flat.values()])
        for index, (name, values) in zip(np.ndindex(whole.shape[2:]), flat.items(), strict=True):
            if mirrored and index[-2] > index[-1]:
                continue
            if not frozen and is_constant(values):
                continue
            low, high = np.quantile(values, [0.025, 0.975])
            ess = 0.0 if frozen else effective_size(values)
            rhat = None if frozen else split_rhat(values)
            numbers = (float(values.mean()), float(values.std()), float(low), float(high))
            rows.append(Estimate(name, *numbers, ess, rhat, digits))
    return rows


ROUNDING = 1e-12
"""Spread, as a share of the size, up to which numbers that were computed alike are the same."""


def is_constant(values: np.ndarray) -> bool:
    """Return whether numbers are all the same up to rounding; False if one of them is not finite.

    Another spread says nothing: its effective draws and its histogram would be those of rounding.
    """
    largest = float(np.abs(values).max(initial=0.0))
    return math.isfinite(largest) and float(np.ptp(np.asarray(values, float))) <= ROUNDING * largest


def _spread(values: np.ndarray) -> float:
    return 0.0 if is_constant(values) else float(values.std())


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


def entry_names(posterior: Mapping[str, np.ndarray], fit: Fit | None = None) -> list[str]:
    """Return the names of all scalars, as `entries` has them."""
    return list(entries({name: values[:1, :1] for name, values in posterior.items()}, fit))


def index_words(name: str, index: tuple[int, ...], fit: Fit | None) -> list[str]:
    """Return the labels of an entry along every axis, its position where an axis has none.

    Labels along an axis that relabelling permutes are places: they are numbered, and not named.
    """
    axes = fit.dims.get(name, ()) if fit is not None else ()
    if fit is None or len(axes) != len(index):
        return [str(i) for i in index]
    pairs = zip(axes, index, strict=True)
    return [
        (given_label(fit, axis, i) or place_number(axis, i)) if has_labels(fit, axis) else str(i)
        for axis, i in pairs
    ]


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
        ("Mixing", mixing_steps(fit.certificate, confidence=True)),
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
    whole = f"{fit.drawn // chains:,} each"
    kept = f" (its file kept these of {whole})" if fit.drawn > fit.accepted.size else ""
    chosen = "" if fit.provenance.get("draws_asked", True) else ", chosen by budget"
    return f"{chains} chains of {draws}{kept}{chosen}, {folding(fit.group)}"


def _divided_out(fit: Fit) -> list[tuple[str, str]]:
    """Return the rotations that the draws no longer have, where there were any."""
    words = fit.provenance.get("divided_out")
    return [("Divided out", f"{words}; Fit.rotated turns draws for reading")] if words else []


def order_of_labels(fit: Fit) -> str:
    """Return what labels and signs are sorted by, such as "mu ascends"; empty without symmetry."""
    if fit.group.order == 1:
        return ""
    labels, _, sign = fit.labels.partition(SIGNS_BY)
    if labels == "sorted":
        points = fit.draws.reshape(-1, fit.group.dim)
        values = {name: v.reshape(len(points), *v.shape[2:]) for name, v in fit.posterior.items()}
        order = order_words(fit.group, spoken_names(fit.names, points, values))
    elif labels == LIKELIEST:
        order = "labels are those that the proposal finds likeliest"
    else:
        order = f"{labels.removeprefix(SORTED_BY)} ascends"
    if not sign:
        return order
    entry = "the largest entry" if sign == LARGEST else sign
    return f"{order}{_SIGNS_CHOSEN}{entry} is positive"


def confused(fit: Fit) -> float:
    """Return the share of the draws whose components the order confuses; zero where it is small."""
    mixed = fit.certificate.symmetry.boundary.mixed or 0.0
    return mixed if mixed > MIXED else 0.0


def order_sentence(fit: Fit) -> str:
    """Return what the numbers or labels of exchangeable components stand for."""
    axes = [axis for axis in fit.exchanged_dims if not axis.endswith("_to")]
    named = [axis for axis in axes if has_labels(fit, axis) and not are_places(fit, axis)]
    numbered = [axis for axis in axes if axis not in named]
    places = f"; labels of {', '.join(numbered)} are places in this order" if numbered else ""
    if any(has_labels(fit, axis) for axis in numbered):
        places += ", not names"
    places += "".join(
        f"; labels of {axis} are given by this order, {fit.coords[axis][0]} to its first place"
        for axis in named
    )
    return f"{fit.order}{places}"


def evidence_words(fit: Fit) -> str:
    """Return log Z with its error, how it was made and how far another estimate lies from it."""
    evidence, difference = fit.log_evidence, fit.certificate.evidences.difference
    constant = " up to a constant that the model leaves out" if evidence.proportional else ""
    return (
        f"log Z = {rounded_number(evidence.value)}{constant}, "
        f"standard error {rounded_number(evidence.standard_error)} "
        f"({evidence.method}, Pareto k̂ {shape_words(evidence.pareto_k)}), "
        f"{rounded_number(abs(difference.score), 1)} errors from the bridge"
        f"{counted_once(fit, '; ')}"
    )


def counted_once(fit: Fit, before: str) -> str:
    """Return what log Z counts once, after these signs; empty where nothing repeats."""
    labels = ["every labelling counted once"] if fit.group.order > 1 else []
    turned = ["the volume of all rotations included"] if fit.provenance.get("divided_out") else []
    return "".join(f"{before}{words}" for words in labels + turned)


def shape_words(shape: float) -> str:
    """Pareto k̂; below zero the weights are bounded, and by how much does not matter."""
    return "below 0" if shape < 0.0 else rounded_number(shape, 2)


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


_FINEST = 0.0005
"""The smallest probability of which three decimals show something."""


def rounded_number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many decimals; words where there is none."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    return f"{round(value, digits) + 0.0:.{digits}f}"  # Adding zero turns -0 into 0.


def probability_words(probability: float, error: float | None = None) -> str:
    """Return a probability with three decimals and its error, or on which side of these it lies."""
    if math.isnan(probability):
        return "–"
    if probability < _FINEST:
        return "< 0.001"
    told = f"{probability:.3f}"
    return told if error is None else f"{told} ± {error:.3f}"


def decimals(deviations: list[float]) -> int:
    """Decimals that show three digits of a middling deviation, so that a column lines up."""
    usable = [value for value in deviations if math.isfinite(value) and value > 0.0]
    if not usable:
        return 4
    return int(np.clip(2 - math.floor(math.log10(float(np.median(usable)))), 0, 8))


_CARD_ROWS = 5
"""Parameters that are listed; the summary has them all."""

ENTRIES = 4
"""Entries of one parameter that are listed."""


def fit_card(fit: Fit) -> Card:
    """Verdict, what was drawn, a row per parameter, the numbers behind them, where to go on."""
    status = fit.certificate.status
    rows = [("Draws", draws_words(fit))]
    if mixed := confused(fit):
        rows.append(
            ("Labels", f"confused in {100 * mixed:.0f} % of the draws: {cure_of_order(fit)}")
        )
    rows += [(name, _means(values)) for name, values in list(fit.posterior.items())[:_CARD_ROWS]]
    if len(fit.posterior) > _CARD_ROWS:
        rows[-1] = ("…", f"{len(fit.posterior) - _CARD_ROWS + 1} more parameters")
    rows += chain_rows(fit.certificate)[:2]
    ess = fewest_effective_draws(fit)
    rows.append(
        ("Chains", f"acceptance {100 * fit.accept_rate:.1f} %, {ess:,.0f} effective draws at least")
    )
    rows.append(("More", 'fit.summary(), fit.report("report.html"), fit.to_arviz()'))
    return Card(headline_words(status), tuple(rows), tone(status))


def _means(values: np.ndarray) -> str:
    """Return the mean ± standard deviation of every entry, the first few."""
    chains, draws, *shape = values.shape
    if len(shape) > 1:
        return _rows(values)
    flat = values.reshape(chains * draws, math.prod(shape))
    centres, spreads = flat.mean(axis=0), [_spread(one) for one in flat.T]
    digits = decimals(spreads)
    words = [
        f"{centre:.{digits}f} ± {spread:.{digits}f}"
        for centre, spread in zip(centres[:ENTRIES], spreads[:ENTRIES], strict=True)
    ]
    if not words:
        return "no entries"
    more = f", … ({flat.shape[1]} entries)" if flat.shape[1] > ENTRIES else ""
    return ", ".join(words) + more


def _rows(values: np.ndarray) -> str:
    """Return the means of a matrix or a larger array in its own shape, the first few rows."""
    centres = values.mean(axis=(0, 1))
    digits = decimals([_spread(one) for one in values.reshape(-1, centres.size).T])
    table = centres.reshape(-1, centres.shape[-1])
    lines = [f"[{', '.join(f'{x:.{digits}f}' for x in row[:ENTRIES])}]" for row in table[:ENTRIES]]
    cut = len(table) > ENTRIES or table.shape[1] > ENTRIES
    return (
        f"{', '.join(lines)}{', …' if cut else ''} (means, {' × '.join(map(str, centres.shape))})"
    )


_SIGNS_CHOSEN = "; signs then chosen so that "
"""Stands in an order before the entry that the user wants to be positive."""

_LONGEST_ORDER = 100
"""Letters of an order that a paragraph tells; of a longer one it says only whose it is."""

CITATION = (
    "J. Hu, Folded Transport MCMC: Eliminating Label Switching by Sampling on a Fundamental Domain"
)


def methods(fit: Fit) -> str:
    """Model, symmetry, draws, certificate, evidence and citation, in a few sentences."""
    sentences = [
        _symmetry_sentence(fit),
        _draws_sentence(fit),
        _mixing_sentence(fit),
        _evidence_sentence(fit),
        _verdict_sentence(fit),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _symmetry_sentence(fit: Fit) -> str:
    version = fit.provenance.get("versions", {}).get("folt", "unknown")
    seed = fit.provenance.get("seed", "unknown")
    dim = counted(fit.group.dim, "dimension")
    sampled = f"The posterior in {dim} was sampled with folt {version} (seed {seed}; {CITATION})"
    if divided := fit.provenance.get("divided_out"):
        sampled += f", with {divided} divided out exactly"
    if fit.group.order == 1:
        return f"{sampled}."
    order, signs, entry = fit.order.partition(_SIGNS_CHOSEN)
    if len(order) > _LONGEST_ORDER:
        order = "labels are in the order of the fold"
    return (
        f"{sampled}. Its {fit.group.order:,} equivalent labellings were folded into one, in which "
        f"{order}{signs}{entry}."
    )


def _draws_sentence(fit: Fit) -> str:
    chains, draws = fit.draws.shape[:2]
    rows = estimate_rows(fit)
    rhats = [row.rhat for row in rows if row.rhat is not None]
    worst = f" and split R-hat of at most {max(rhats):.3f}" if rhats else ""
    summed = " summed over the labellings" if fit.group.order > 1 else ""
    return (
        f"{counted(chains, 'chain')} of {draws:,} draws by independence Metropolis–Hastings with a "
        f"learned proposal{summed} accepted {100 * fit.accept_rate:.1f} % of "
        f"the steps, with at least {fewest_effective_draws(fit, rows):,.0f} effective draws of "
        f"every parameter{worst}."
    )


def _mixing_sentence(fit: Fit) -> str:
    mixing = fit.certificate.mixing
    steps = mixing.steps.get(0.05)
    if steps is None:
        return ""
    return (
        f"The distance to the posterior in total variation was certified to be at most 0.05 after "
        f"{counted(steps, 'step')} with {100 * mixing.confidence:.0f} % confidence."
    )


def _evidence_sentence(fit: Fit) -> str:
    evidence = fit.log_evidence
    return (
        f"The log evidence is {rounded_number(evidence.value, 3)} (standard error "
        f"{rounded_number(evidence.standard_error, 3)}){counted_once(fit, ', ')}."
    )


def _verdict_sentence(fit: Fit) -> str:
    status = fit.certificate.status
    verdict = f"The verdict of the certificate is “{status.name}”"
    good = status.outcome.use is Use.EVERYTHING
    return f"{verdict}." if good else f"{verdict}: {status.advice}"
