"""Table 6 and Figure 5: closely spaced vibration modes in a measured or simulated spectrum."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from folt.fit import in_user_parameters
from folt.modal.models.spectrum import modal_spectrum, simulate_spectrum
from folt.paper.rows import (
    TRACE_STEPS,
    ReproductionSettings,
    TableJob,
    by_method,
    estimates,
    figure_of,
    rounded,
    row,
)
from folt.paper.shared_fits import PairTable, SharedFits, pair_jobs
from folt.paper.tables import (
    NOTHING,
    Claim,
    TableRow,
    figure_text,
    floor_claim,
    gammas,
    like_with_like,
    markdown,
    range_text,
)
from folt.problem import Problem
from folt.problem.ratio import label_switch_rate
from folt.store.strict_json import Document
from folt.store.tables import read_table
from folt.types import in_float64

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TYPHOON = "f58d3063ea180381"
"""By this the paper's window is known: a hash of its ordinates over their mean, to four digits."""


SIMULATED: Document = {
    "frequency": (0.80, 0.84, 0.88),
    "damping": (0.01, 0.015, 0.02),
    "ordinates": 101,
}
"""The window without measured data: three modes, closely spaced."""


def window_name(data: Path | None) -> str:
    """`simulated`, `typhoon` for the paper's window, `measured` for any other."""
    if data is None:
        return "simulated"
    frequency, psd = read_window(data)
    mean = sum(psd) / len(psd)
    text = "".join(f"{f:.4f} {p / mean:.4f};" for f, p in zip(frequency, psd, strict=True))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "typhoon" if digest.startswith(TYPHOON) else "measured"


@functools.cache
def read_window(path: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return columns `frequency_hz` and `psd` of a CSV file; lines that begin with # are remarks.

    Raises:
        ValueError: the columns are missing, or something in them is no number.
    """
    table = read_table(path, missing=())
    wanted = ("frequency_hz", "psd")
    if not set(wanted) <= set(table.names):
        raise ValueError(f"expected columns frequency_hz,psd in {path}, got {table.names}")
    frequency, psd = table.numbers([table.names.index(name) for name in wanted]).T
    return tuple(frequency.tolist()), tuple(psd.tolist())


@in_float64
def window(data: Path | None) -> Problem:
    """Return the posterior of three modes given the window."""
    if data is not None:
        return modal_spectrum(*read_window(data))
    return modal_spectrum(*simulate_spectrum(jax.random.key(0), **SIMULATED))


class ModalTable(PairTable):
    """Table 6 and Figure 5: closely spaced vibration modes in a measured or simulated spectrum."""

    name = "modal"
    title = "Closely spaced modes (Table 6, Figure 5)"

    def cases(self, settings: ReproductionSettings) -> list[TableJob]:
        """Return one window, folded and unfolded."""
        return pair_jobs([window_name(settings.data)], settings)

    def run(self, fits: SharedFits, job: TableJob) -> list[TableRow]:
        """Return the row of one case, method and seed."""
        problem = fits.problem(self.name, lambda: window(fits.settings.data))
        (method,) = job.methods
        parts = fits.facts(self.name, job.seed, folded=method == "folded")
        fit = fits.fit(self.name, job.seed, folded=method == "folded")
        values = in_user_parameters(problem, fit.draws)
        parts["estimates"] = estimates(values)
        parts["details"] = {"label_switch_rate": label_switch_rate(problem.group, fit.draws)}
        parts["figure"] = {"frequency": rounded(values["frequency"][0][:TRACE_STEPS])}
        return [row(self.name, job.case, method, job.seed, **parts)]

    def report(self, rows: list[TableRow]) -> list[tuple[str, str]]:
        """Return the tables of the document, as Markdown."""
        headers = ["case", "method", "median f, Hz", "printed", "median ξ"]
        headers += ["label switches", "printed"]
        lines = []
        for (case, method), group in by_method(rows).items():
            medians = {
                name: np.array([one["estimates"][name]["median"] for one in group]).T.tolist()
                for name in ("frequency", "damping")
            }
            theirs = figure_of(group[0], "printed", "frequency_hz")
            lines.append(
                [
                    case,
                    method,
                    ", ".join(range_text(values) for values in medians["frequency"]),
                    ", ".join(figure_text(value) for value in theirs) if theirs else NOTHING,
                    ", ".join(range_text(values, 4) for values in medians["damping"]),
                    range_text((one["details"]["label_switch_rate"] for one in group), 3),
                    figure_text(figure_of(group[0], "printed", "label_switch_rate")),
                ]
            )
        return [*super().report(rows), ("Estimates and labels", markdown(headers, lines))]

    def claims(self, rows: list[TableRow], preset: str) -> list[Claim]:
        """Return what the paper says about it, and our bar."""
        plain = [one for one in rows if one["method"] == "unfolded"]
        folded = [one for one in rows if one["method"] == "folded"]
        if not plain or not folded:
            return []
        rates = [[one["details"]["label_switch_rate"] for one in side] for side in (plain, folded)]
        values = [
            gammas([like_with_like(one) for one in side], "proposal") for side in (plain, folded)
        ]
        found = [
            Claim(
                "The unfolded chain switches labels (17 % of steps in print), the folded one never",
                min(rates[0]) > 0.0 and max(rates[1]) == 0.0,
                f"{range_text(rates[0])} unfolded, {range_text(rates[1])} folded",
            ),
            Claim(
                "Unfolded γ is below 0.05 (1e-5 in print) and folded it is larger (180 times in "
                "print)",
                max(values[0]) < 0.05 and min(values[1]) > max(values[0]) if all(values) else None,
                f"{range_text(values[0])} unfolded, {range_text(values[1])} folded",
            ),
        ]
        measured = any(one["case"] == "typhoon" for one in rows)
        return found + ([floor_claim(rows, 0.75)] if preset == "default" and measured else [])

    def figure(self, document: Document) -> Figure:
        """Traces of the frequencies, unfolded and folded."""
        from folt.paper.pictures import chain_panels_figure

        told = {
            "unfolded": ("Unfolded", "labels change at {switches:.1%} of steps"),
            "folded": ("Folded", "labels never change"),
        }
        labels = [f"f{mark}" for mark in "₁₂₃"]
        return chain_panels_figure(document, told, "frequency", labels, "natural frequency, Hz")
