"""Figure 1: target, folded target, chain and log ratio of a real run on two blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.batching import map_points
from folt.fit import Fit
from folt.models import label_switching
from folt.paper.pictures import FOLDED, UNFOLDED, remark
from folt.paper.rows import ReproductionSettings, TableJob, fit_facts, rounded, row
from folt.paper.shared_fits import SharedFits
from folt.paper.tables import (
    PRIMARY_RHO,
    Claim,
    Experiment,
    TableRow,
    chain_table,
    diagnostic_table,
)
from folt.problem import Problem
from folt.proposals.fold import Folded
from folt.report.style import INK, LINE, PALETTE, QUIET, blank, styled
from folt.store.strict_json import Document
from folt.types import in_float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_CASE = "m2p1"
_CENTRES = ((2.0,), (5.0,))
_GRID = (-1.2, 8.2, 64)
"""First and last grid coordinate, and their number, of the densities in the picture."""


@in_float64
def _picture(fit: Fit) -> Document:
    assert fit.problem is not None
    assert fit.proposal is not None
    assert fit.reference.raw is not None
    axis = np.linspace(*_GRID)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    log_target = map_points(Problem.log_prob, fit.problem, points)
    folded = Folded(fit.proposal, fit.group)
    log_proposal = map_points(Folded.log_prob, folded, points, terms=fit.group.order)
    shape = (axis.size, axis.size)
    core = fit.certificate.qc["target"][0.05]
    return {
        "axis": rounded(axis),
        "target": rounded(np.exp(log_target).reshape(shape), 6),
        "proposal": rounded(np.exp(log_proposal).reshape(shape), 6),
        "raw": rounded(fit.reference.raw.reshape(-1, 2)[:400], 3),
        "chain": rounded(fit.draws[0, :150], 3),
        "log_ratio": rounded(fit.log_ratio[0, :1000]),
        "core": [core.low, core.high],
    }


def schematic_figure(row: TableRow) -> Figure:
    """Return the pipeline in four panels: target, fold, proposal and chain, certificate."""
    seen = row["figure"]
    with styled():
        figure = blank(11.4, 3.5)
        panels = figure.subplots(1, 4)
        _target_panel(panels[0], seen)
        _folded_panel(panels[1], seen)
        _chain_panel(panels[2], seen, row)
        _ratio_panel(panels[3], seen, row)
        for panel in panels[:3]:
            panel.set_aspect("equal")
            panel.set_xlabel("x₁")
            panel.set_xlim(seen["axis"][0], seen["axis"][-1])
            panel.set_ylim(seen["axis"][0], seen["axis"][-1])
            panel.set_xticks([0, 4, 8])
            panel.set_yticks([0, 4, 8])
        panels[0].set_ylabel("x₂")
    return figure


def _levels(density: np.ndarray) -> list[float]:
    return [density.max() * share for share in (0.02, 0.1, 0.3, 0.6, 0.9)]


def _mirror(panel: Axes, axis: Sequence[float]) -> None:
    panel.plot([axis[0], axis[-1]], [axis[0], axis[-1]], color=INK, linewidth=0.9,
               linestyle=(0, (4, 2)))  # fmt: skip


def _target_panel(panel: Axes, seen: Document) -> None:
    axis, density, raw = seen["axis"], np.array(seen["target"]), np.array(seen["raw"])
    panel.contour(axis, axis, density, levels=_levels(density), colors=QUIET, linewidths=0.6)
    above = raw[:, 0] <= raw[:, 1]
    panel.plot(*raw[above].T, ".", color=FOLDED, markersize=3.2, markeredgewidth=0)
    panel.plot(*raw[~above].T, ".", color=UNFOLDED, markersize=3.2, markeredgewidth=0)
    _mirror(panel, axis)
    remark(panel, "1  Target π", "two labellings, one answer")


def _folded_panel(panel: Axes, seen: Document) -> None:
    axis, raw = seen["axis"], np.array(seen["raw"])
    below = raw[:, 0] > raw[:, 1]
    _shade(panel, axis)
    ends = (axis[0], axis[-1])
    for point in raw[below][:14]:
        panel.annotate(
            "", point[::-1], point,
            arrowprops={"arrowstyle": "-", "color": LINE, "linewidth": 0.6},
        )  # fmt: skip
    panel.plot(*raw[~below].T, ".", color=FOLDED, markersize=3.2, markeredgewidth=0)
    panel.plot(*raw[below][:, ::-1].T, ".", color=UNFOLDED, markersize=3.2, markeredgewidth=0)
    panel.plot(*raw[below][:14].T, "o", markerfacecolor="none", markeredgecolor=UNFOLDED,
               markersize=3, markeredgewidth=0.6)  # fmt: skip
    _mirror(panel, axis)
    panel.text(ends[0] + 0.4, ends[1] - 0.9, "D", fontsize=11, fontweight="bold", color=INK)
    remark(panel, "2  Fold", "x ↦ its representative in D")


def _shade(panel: Axes, axis: Sequence[float]) -> None:
    panel.fill_between([axis[0], axis[-1]], [axis[0], axis[-1]], axis[-1],
                       color=PALETTE[5], alpha=0.13, linewidth=0)  # fmt: skip


def _chain_panel(panel: Axes, seen: Document, row: TableRow) -> None:
    from matplotlib.patches import Polygon

    axis, density, chain = seen["axis"], np.array(seen["proposal"]), np.array(seen["chain"])
    _shade(panel, axis)
    drawn = panel.contour(
        axis, axis, density, levels=_levels(density), colors=PALETTE[2], linewidths=0.8
    )
    corners = [(axis[0], axis[0]), (axis[0], axis[-1]), (axis[-1], axis[-1])]
    drawn.set_clip_path(Polygon(corners, transform=panel.transData))
    panel.plot(*chain.T, color=INK, linewidth=0.25, alpha=0.5)
    panel.plot(*chain.T, ".", color=INK, markersize=3.4, markeredgewidth=0)
    _mirror(panel, axis)
    remark(panel, "3  Propose and accept", f"from q_F (green); accepts {row['accept']:.1%}")


def _ratio_panel(panel: Axes, seen: Document, row: TableRow) -> None:
    low, high = seen["core"]
    values = np.array(seen["log_ratio"])
    level = (row["log_evidence"] or {}).get("value") or 0.0
    middle = np.quantile(values - level, [0.004, 0.996])
    if low is not None:
        panel.axvspan(low - level, high - level, color=PALETTE[5], alpha=0.3, linewidth=0)
        middle = np.array([min(middle[0], low - level), max(middle[1], high - level)])
    reach = max(float(np.ptp(middle)), 1e-3)
    limits = (float(middle[0] - 0.25 * reach), float(middle[1] + 0.25 * reach))
    panel.hist(values - level, bins=40, range=limits, color=FOLDED, density=True)
    panel.set_xlim(*limits)
    panel.set_box_aspect(1)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.set_xlabel("log ratio h − log Z along the chain")
    panel.locator_params(axis="x", nbins=4)
    gamma = row["qc"]["target"][PRIMARY_RHO]["gamma"]
    steps = (row["mixing"] or {}).get(PRIMARY_RHO)
    words = [f"γ = {gamma:.3f}" if gamma is not None else "γ cannot be had"]
    if steps is not None:
        words.append(f"within .05 of π_F after {steps} step{'s' * (steps != 1)}")
    remark(panel, "4  Certify", ", ".join(words))


class Schematic(Experiment):
    """Figure 1: the pipeline, drawn from a real run on two blocks of one coordinate."""

    name = "schematic"
    title = "The pipeline (Figure 1)"

    def cases(self, settings: ReproductionSettings) -> list[TableJob]:
        """Return the one run that the picture needs."""
        return [TableJob(_CASE, ("folded",), settings.seed)]

    def run(self, fits: SharedFits, job: TableJob) -> list[TableRow]:
        """Return the row, with what the picture shows."""
        fits.problem(_CASE, lambda: label_switching(2, 1, _CENTRES))
        fit = fits.fit(_CASE, job.seed)
        parts = {**fit_facts(fit), "quick": fits.settings.quick, "figure": _picture(fit)}
        return [row(self.name, _CASE, "folded", job.seed, **parts)]

    def report(self, rows: list[TableRow]) -> list[tuple[str, str]]:
        """Return what the run behind the picture says."""
        return [
            ("γ at ρ = 0.05", diagnostic_table(rows)),
            ("Chains, ours / published", chain_table(rows)),
        ]

    def claims(self, rows: list[TableRow], preset: str) -> list[Claim]:
        """None: a picture claims nothing."""
        return []

    def figure(self, document: Document) -> Figure:
        """Return the schematic, drawn from the document."""
        return schematic_figure(document["rows"][0])
