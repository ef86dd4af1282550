"""Experiments of the paper, and Markdown tables of ours beside the published figures."""

from __future__ import annotations

import abc
import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from folt.paper.rows import ReproductionSettings, TableJob, by_method, figure_of
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from folt.paper.shared_fits import SharedFits

_RHOS = ("0.025", "0.05", "0.1", "0.25")
PRIMARY_RHO = "0.05"
NOTHING = "–"

TableRow = Document


class Claim(NamedTuple):
    """A sentence of the paper or a bar of ours, with what the rows say about it."""

    sentence: str
    holds: bool | None
    seen: str


@dataclasses.dataclass(eq=False)
class Experiment(abc.ABC):
    """A table or figure of the paper: which fits it is made of, and what is made of their rows."""

    name: ClassVar[str]
    title: ClassVar[str]

    @abc.abstractmethod
    def cases(self, settings: ReproductionSettings) -> list[TableJob]:
        """Return the jobs that make its rows."""

    @abc.abstractmethod
    def run(self, fits: SharedFits, job: TableJob) -> list[TableRow]:
        """Return the rows of one job."""

    @abc.abstractmethod
    def report(self, rows: list[TableRow]) -> list[tuple[str, str]]:
        """Return headings and tables of the document, as Markdown."""

    @abc.abstractmethod
    def claims(self, rows: list[TableRow], preset: str) -> list[Claim]:
        """Return what the paper says about it, and what the rows say."""

    def figure(self, document: Document) -> Figure | None:
        """Return the figure; None where the paper has none."""
        return None


def markdown(headers: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the empty string without lines."""
    body = ["| " + " | ".join(line) + " |" for line in lines]
    if not body:
        return ""
    return "\n".join(["| " + " | ".join(headers) + " |", "|---" * len(headers) + "|", *body])


def figure_text(value: float | None, digits: int = 3) -> str:
    """Return three digits after the point, powers of ten for what is tiny, a dash for nothing."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if digits == 0 or value == 0:
        return f"{value:.0f}"
    if digits == 3 and 1e-3 <= abs(value) < 1e-2:
        return f"{value:.4f}"
    if abs(value) < (10.0 ** (1 - digits) if digits > 2 else 0.5 * 10.0**-digits):
        return f"{value:.1e}"
    if abs(value) >= 1e5:
        return f"{value:.1e}"
    return f"{value:.{digits}f}" if abs(value) < 100 else f"{value:.1f}"


def range_text(values: Iterable[float | None], digits: int = 3) -> str:
    """Return one number, or the smallest and the largest over the seeds."""
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    low, high = figure_text(min(known), digits), figure_text(max(known), digits)
    return low if low == high else f"{low} to {high}"


def core(row: TableRow, protocol: str, what: str = "gamma", rho: str = PRIMARY_RHO) -> float | None:
    """Return one number of a quantile core; None where there is none."""
    return (((row.get("qc") or {}).get(protocol) or {}).get(rho) or {}).get(what)


def gammas(rows: Iterable[TableRow], protocol: str, rho: str = PRIMARY_RHO) -> list[float]:
    """γ over rows, those that are feasible."""
    found = (core(row, protocol, "gamma", rho) for row in rows)
    return [gamma for gamma in found if gamma is not None]


def like_with_like(row: TableRow) -> TableRow:
    """Return the part of a row that follows the published protocol: N = {e} where it was run."""
    return row.get("identity_orbit") or row


def published_osc(row: TableRow) -> float | None:
    """C at ρ = .05: saved if known, otherwise from the printed γ = 2/(1 + e^C).

    The printed C of the banana does not belong to its printed γ, so γ goes first.
    """
    saved = figure_of(row, "saved", "osc", PRIMARY_RHO)
    if saved is not None:
        return saved
    gamma = figure_of(row, "printed", "gamma", PRIMARY_RHO)
    return math.log(2.0 / gamma - 1.0) if gamma else None


def claim_verdict(rows: Sequence[TableRow]) -> str:
    """Return whether C of the tables' protocol agrees with the published one.

    Reproduced within a quarter of the published C or 0.05 of it, over the range of the seeds.
    """
    theirs = published_osc(rows[0])
    found = [core(like_with_like(row), "proposal", "osc") for row in rows]
    ours = [osc for osc in found if osc is not None]
    if theirs is None:
        return NOTHING
    if not ours:
        return "not feasible"
    slack = max(0.25 * theirs, 0.05)
    if min(ours) - slack <= theirs <= max(ours) + slack:
        return "reproduced"
    return "better" if max(ours) < theirs else "worse"


def diagnostic_table(rows: Sequence[TableRow]) -> str:
    """γ at ρ = .05 in both protocols, beside printed and saved figures."""
    truncated = any("identity_orbit" in row for row in rows)
    headers = ["case", "method", "seeds", "γ target draws", "γ proposal draws"]
    headers += ["γ, N = {e}"] * truncated
    headers += ["printed", "saved", "C", "C saved", "against the paper"]
    return markdown(headers, [_diagnostic_line(g, truncated) for g in by_method(rows).values()])


def _diagnostic_line(rows: list[TableRow], truncated: bool) -> list[str]:
    first = rows[0]
    line = [first["case"], first["method"], str(len(rows))]
    line += [range_text(gammas(rows, protocol)) for protocol in ("target", "proposal")]
    if truncated:
        twins = [row["identity_orbit"] for row in rows if "identity_orbit" in row]
        line.append(range_text(gammas(twins, "proposal")))
    line += [
        figure_text(figure_of(first, name, "gamma", PRIMARY_RHO)) for name in ("printed", "saved")
    ]
    line.append(range_text(core(like_with_like(row), "proposal", "osc") for row in rows))
    return [*line, figure_text(published_osc(first)), claim_verdict(rows)]


def every_rho_table(rows: Sequence[TableRow]) -> str:
    """γ of the tables' protocol at every ρ: ours / printed / saved."""
    lines = []
    for (case, method), group in by_method(rows).items():
        twins = [like_with_like(row) for row in group]
        cells = [
            " / ".join(
                [range_text(gammas(twins, "proposal", rho))]
                + [
                    figure_text(figure_of(group[0], name, "gamma", rho))
                    for name in ("printed", "saved")
                ]
            )
            for rho in _RHOS
        ]
        lines.append([case, method, *cells])
    return markdown(["case", "method", *(f"ρ = {rho}" for rho in _RHOS)], lines)


def chain_table(rows: Sequence[TableRow]) -> str:
    """Return what the chains did, ours / published."""
    headers = ["case", "method", "accept", "ESS per draw", "by batch means", "NLL", "full osc"]
    headers += ["steps to TV .05", "log Z", "verdict", "wall s"]
    return markdown(headers, [_chain_line(group) for group in by_method(rows).values()])


def _chain_line(rows: list[TableRow]) -> list[str]:
    first = rows[0]

    def beside(name: str, theirs: str | None = None) -> str:
        published = _published_number(first, theirs or name)
        ours = range_text(row.get(name) for row in rows)
        return ours if published is None else f"{ours} / {figure_text(published)}"

    return [
        first["case"],
        first["method"],
        beside("accept"),
        range_text(row.get("ess_per_draw") for row in rows),
        beside("batch_means_ess_per_draw", "ess_per_draw"),
        beside("nll"),
        beside("full_osc"),
        range_text(((row.get("mixing") or {}).get(PRIMARY_RHO) for row in rows), 0),
        range_text(((row.get("log_evidence") or {}).get("value") for row in rows), 4),
        ", ".join(sorted({row["status"] for row in rows if row.get("status")})) or NOTHING,
        range_text((row.get("wall_s") for row in rows), 0),
    ]


def _published_number(row: TableRow, name: str) -> float | None:
    saved = figure_of(row, "saved", name)
    return saved if saved is not None else figure_of(row, "printed", name)


def ratio_table(rows: Sequence[TableRow]) -> str:
    """γ folded over γ unfolded, per case, ours beside printed."""
    groups, lines = by_method(rows), []
    for case in dict.fromkeys(row["case"] for row in rows):
        folded, plain = groups.get((case, "folded")), groups.get((case, "unfolded"))
        if not folded or not plain:
            continue
        ours = ratio([like_with_like(row) for row in folded], plain)
        printed = [figure_of(g[0], "printed", "gamma", PRIMARY_RHO) for g in (folded, plain)]
        theirs = printed[0] / printed[1] if all(printed) else None
        lines.append([case, figure_text(ours, 1), figure_text(theirs, 1)])
    return markdown(["case", "γ folded / γ unfolded", "printed"], lines)


def ratio(
    folded: Sequence[TableRow], plain: Sequence[TableRow], protocol: str = "proposal"
) -> float | None:
    """Median γ folded over median γ unfolded."""
    above, below = (median(gammas(rows, protocol)) for rows in (folded, plain))
    return above / below if above is not None and below else None


def median(values: Sequence[float]) -> float | None:
    """Return the median; None without values."""
    return statistics.median(values) if values else None


def claim_list(claims: Sequence[Claim]) -> str:
    """Return the claims as a Markdown list."""
    words = {True: "holds", False: "does not hold", None: "cannot be said from these rows"}
    return "\n".join(f"* {c.sentence}: **{words[c.holds]}** ({c.seen})." for c in claims)


def floor_claim(
    rows: Sequence[TableRow], floor: float, cases: Callable[[TableRow], bool] = lambda row: True
) -> Claim:
    """Return folt's own bar: γ in both protocols, the worst of all folded rows."""
    folded = [row for row in rows if row["method"] == "folded" and cases(row)]
    worst = [min(gammas(folded, name), default=None) for name in ("target", "proposal")]
    sentence = (
        f"γ ≥ {floor:g} in every folded row and both protocols, the bar of the default preset"
    )
    target, proposal = (figure_text(value) for value in worst)
    seen = f"worst {target} with target draws, {proposal} with proposal draws"
    complete = all(len(gammas(folded, p)) == len(folded) for p in ("target", "proposal"))
    known = [value for value in worst if value is not None]
    holds = None if not known else complete and min(known) >= floor
    return Claim(sentence, holds, seen)
