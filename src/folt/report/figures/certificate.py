"""The certificate in pictures: log ratio, mixing, the diagnostic of the paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.style import INK, LINE, PALETTE, below, blank, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from folt.certificate.certificate import Certificate
    from folt.diagnostics import Mixing

PROTOCOLS = {"target": "held-out target draws", "proposal": "proposal draws"}
"""Whose h the core is made from."""


def log_ratio_figure(log_ratio: np.ndarray, certificate: Certificate) -> Figure:
    """Histogram of h - log Z along the chains, with the ρ = .05 core of the held-out draws.

    A proposal equal to the target has h = log Z everywhere: one spike at zero.
    """
    values, level = centred(log_ratio, certificate)
    core = certificate.qc["target"][0.05]
    shown = histogram_range(values)
    with styled():
        figure = blank(5.4, 3.1)
        panel = figure.subplots()
        if core.low is not None and core.high is not None:
            label = f"core holding 95 %, width C = {core.high - core.low:.2f}"
            panel.axvspan(
                core.low - level,
                core.high - level,
                color=PALETTE[5],
                alpha=0.25,
                linewidth=0,
                label=label,
            )
        if values.size:
            panel.hist(values, bins=60, range=shown, color=PALETTE[0], density=True)
            panel.set_xlim(*shown)
        panel.axvline(0.0, color=INK, linewidth=1.0, linestyle=(0, (3, 2)), label="perfect fit")
        panel.set_xlabel("log ratio h − log Z, middle 99 % of the draws")
        panel.set_ylabel("density")
        below(figure, panel, 2)
    return figure


def centred(log_ratio: np.ndarray, certificate: Certificate) -> tuple[np.ndarray, float]:
    """The finite h - log Z, and log Z; h itself where log Z is not known."""
    level = certificate.evidence.value
    level = level if math.isfinite(level) else 0.0
    return log_ratio[np.isfinite(log_ratio)] - level, level


def mixing_figure(mixing: Mixing) -> Figure:
    """Bound and estimate of the total variation against the number of steps."""
    from matplotlib.ticker import MaxNLocator

    steps, bound, estimate = mixing.curve.steps, mixing.curve.bound, mixing.curve.estimate
    with styled():
        figure = blank(5.4, 3.1)
        panel = figure.subplots()
        panel.set_xlabel("steps")
        panel.set_ylabel("distance to the target")
        panel.set_yscale("log")
        panel.set_ylim(5e-4, 1.2)
        if not steps:
            panel.text(0.5, 0.5, "cannot be had", ha="center", transform=panel.transAxes)
            return figure
        panel.plot(
            steps,
            bound,
            color=PALETTE[0],
            label=f"certified, {100 * mixing.confidence:.0f} % confidence",
        )
        panel.plot(steps, estimate, color=PALETTE[1], linestyle=(0, (4, 1.5)), label="estimated")
        for epsilon, n in mixing.steps.items():
            panel.axhline(epsilon, color=LINE, linewidth=0.6, zorder=0)
            if n is not None:
                panel.plot([n], [mixing.bound(n)], "o", color=PALETTE[0], markersize=5)
                panel.annotate(
                    f"{epsilon:g} after {n:,}",
                    (n, epsilon),
                    textcoords="offset points",
                    xytext=(7, 3),
                    fontsize="small",
                )
        panel.set_xlim(0, last_step(mixing))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        below(figure, panel, 2)
    return figure


def last_step(mixing: Mixing) -> int:
    """Where the picture ends: well after the last certified step, or where the bound is flat."""
    known = [n for n in mixing.steps.values() if n is not None]
    return max(8, 3 * max(known)) if known else max(mixing.curve.steps)


def gamma_figure(certificate: Certificate) -> Figure:
    """γ against ρ in both protocols; what cannot be had is a cross at zero."""
    with styled():
        figure = blank(5.4, 3.1)
        panel = figure.subplots()
        for k, (protocol, cores) in enumerate(certificate.qc.items()):
            rhos = sorted(rho for rho, core in cores.items() if core.gamma is not None)
            gammas = [cores[rho].gamma or 0.0 for rho in rhos]
            style: Document = {"color": PALETTE[k], "marker": "os"[k % 2], "markersize": 5}
            panel.plot(
                rhos,
                gammas,
                clip_on=False,
                zorder=3,
                label=PROTOCOLS.get(protocol, protocol),
                **style,
            )
            missing = sorted(set(cores) - set(rhos))
            if missing:
                panel.plot(
                    missing,
                    [0.0] * len(missing),
                    "x",
                    color=PALETTE[k],
                    clip_on=False,
                    label="too few draws to say",
                )
        panel.set_xlabel("share of draws left out, ρ")
        panel.set_ylabel("γ = 2 / (1 + exp C)")
        panel.set_xlim(0.0, 0.26)
        ticks = sorted({rho for cores in certificate.qc.values() for rho in cores})
        panel.set_xticks(ticks, [f"{rho:g}" for rho in ticks])
        panel.set_ylim(0.0, 1.0)
        panel.grid(axis="y", color=LINE, linewidth=0.6)
        panel.set_axisbelow(True)
        below(figure, panel, 2)
    return figure


def histogram_range(values: np.ndarray) -> tuple[float, float]:
    """From zero and almost all values to a little beyond; a few far ones would hide the rest."""
    if values.size == 0:
        return -1.0, 1.0
    low, high = np.quantile(values, [0.005, 0.995])
    reach = max(float(high - low), 1e-6)
    return min(float(low), 0.0) - 0.3 * reach, max(float(high), 0.0) + 0.3 * reach
