"""The certificate as charts: mixing, log ratio, the diagnostic of the paper."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.text import UNSTATED, rounded_number
from folt.report.charts import Bars, Chart, Line, Mark, Rule, Shade
from folt.report.style import PALETTE
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate
    from folt.certificate.diagnostics import Mixing
    from folt.certificate.exploration import ExplorationFacts
    from folt.fit import Fit

CORE_SOURCES = {"target": "held-out target draws", "proposal": "proposal draws"}
"""Whose h the core is made from."""

_BARS = 60

_DISTANCES = {0.001: "0.001", 0.01: "0.01", 0.1: "0.1", 1.0: "1"}


def certificate_charts(fit: Fit) -> list[Chart]:
    """Return every chart of the certificate, in the order of the page."""
    found = fit.certificate.exploration
    return [
        mixing_chart(fit.certificate.mixing),
        log_ratio_chart(fit.log_ratio, fit.certificate),
        gamma_chart(fit.certificate),
        *([modes_chart(found)] if found is not None and found.modes else []),
    ]


def modes_chart(found: ExplorationFacts) -> Chart:
    """Mass, share of the particles and share of the reference, mode by mode."""
    numbers = list(range(1, len(found.modes) + 1))
    searches = "polished particles" if found.polished else "descents"
    kinds = {
        "mass by importance sampling": ([mode.mass for mode in found.modes], "circle"),
        "tempered particles in its reach": ([mode.tempered for mode in found.modes], "square"),
        "reference draws in its reach": ([mode.reference for mode in found.modes], "x"),
    }
    readings = {
        float(k): f"mode {k}\nmass {100 * mode.mass:.2f} %\n{mode.hits:,} {searches} ended there\n"
        f"tempered {100 * mode.tempered:.1f} %\nreference {100 * mode.reference:.1f} %"
        for k, mode in zip(numbers, found.modes, strict=True)
    }
    marks: list[Mark] = []
    for k, (name, (shares, marker)) in enumerate(kinds.items()):
        labels = [f"{mode.hits:,} {searches}" for mode in found.modes] if k == 0 else ()
        shown = [100.0 * share for share in shares]
        look: Document = {"joined": False, "marker": marker, "labels": labels}
        marks.append(Line(numbers, shown, PALETTE[k], name, **look))
    return Chart(
        name="modes",
        description="The modes that were found, with their masses and how often each was reached",
        caption=f"Every mode that {searches} found, the heaviest first, with the {searches} that "
        "ended there. Its mass should agree with the share of the reference draws, and tempering "
        "should not have much less; reaches may overlap.",
        x_label="mode",
        y_label="share, %",
        x_range=(0.5, len(numbers) + 0.9),
        y_range=(-4.0, 108.0),
        marks=tuple(marks),
        readings=readings,
        x_ticks={float(number): str(number) for number in numbers},
    )


def mixing_chart(mixing: Mixing) -> Chart:
    """Bound and estimate of the total variation against the number of steps."""
    curve = mixing.curve
    known = {epsilon: n for epsilon, n in mixing.steps.items() if n is not None}
    confidence = f"{100 * mixing.confidence:.0f} % confidence"
    readings = {
        float(n): f"{n:,} steps\ncertified: {bound:.4f}\nestimated: {estimate:.4f}"
        for n, bound, estimate in zip(curve.steps, curve.bound, curve.estimate, strict=True)
    }
    marks: list[Mark] = [
        *(Rule(epsilon) for epsilon in mixing.steps),
        Line(curve.steps, curve.bound, PALETTE[0], f"certified, {confidence}"),
        Line(curve.steps, curve.estimate, PALETTE[1], "estimated", dashed=True),
        Line(
            list(known.values()),
            [float(mixing.bound(n)) for n in known.values()],
            PALETTE[0],
            joined=False,
            marker="circle",
            labels=[f"{epsilon:g} after {n:,}" for epsilon, n in known.items()],
        ),
    ]
    # Well after the last certified step, or where the bound is flat.
    last = max(8, 3 * max(known.values())) if known else max(curve.steps, default=8)
    return Chart(
        name="mixing",
        description="Certified and estimated distance to the target against the number of steps",
        caption="How far the law of the chain can be from the target after so many steps, started "
        "from the proposal. "
        + (
            f"The line holds with {confidence} if the held-out draws are from the target; the "
            "dashes estimate it without promising."
            if curve.steps
            else mixing.reason or ""
        ),
        x_label="steps",
        y_label="distance to the target",
        x_range=(0, last),
        y_range=(5e-4, 1.2),
        marks=tuple(marks) if curve.steps else (),
        readings=readings,
        y_ticks=_DISTANCES,
        log=True,
        nothing="no bound can be given" if mixing.computed is None else UNSTATED,
    )


def log_ratio_chart(log_ratio: np.ndarray, certificate: Certificate) -> Chart:
    """Histogram of h - log Z along the chains, with the ρ = .05 core of the held-out draws.

    A proposal equal to the target has h = log Z everywhere: one spike at zero.
    """
    level = certificate.evidence.value
    known = math.isfinite(level)
    level = level if known else 0.0
    values = log_ratio[np.isfinite(log_ratio)] - level
    low, high = _middle(values)
    counts, edges = np.histogram(values, bins=_BARS, range=(low, high))
    shares = 100.0 * counts / max(values.size, 1)
    core = certificate.qc["target"][0.05]
    words = ["The log ratio h of target and proposal at the draws."]
    marks: list[Mark] = []
    if known:
        words[0] = "The log ratio h of target and proposal at the draws, less the log evidence."
        words.append("Zero everywhere is a perfect fit.")
    if core.low is not None and core.high is not None:
        name = f"core, width C = {rounded_number(core.osc, 2)}"
        marks.append(Shade(core.low - level, core.high - level, PALETTE[5], name))
        words.append(
            "The shaded core holds at least 95 % of the target, as far as held-out draws tell; the "
            "narrower it is, the more nearly the draws are independent."
        )
    else:
        words.append("There are too few independent held-out draws for a core.")
    if beyond := int(values.size - counts.sum()):
        words.append(f"{beyond:,} of {values.size:,} draws lie beyond the picture.")
    readings = {
        0.5 * (a + b): f"log ratio {a:.2f} to {b:.2f}\n{share:.1f} % of the draws"
        for (a, b), share in zip(itertools.pairwise(edges.tolist()), shares, strict=True)
    }
    marks.append(Bars(edges, shares, PALETTE[0], "draws of this fit"))
    marks += [Rule(0.0, upright=True, name="perfect fit")] if known else []
    return Chart(
        name="log-ratio",
        description="Histogram of the log ratio of target and proposal, with its core",
        caption=" ".join(words),
        x_label="log ratio h − log Z" if known else "log ratio h",
        y_label="share of the draws, %",
        x_range=(low, high),
        y_range=(0.0, 1.05 * max(float(shares.max()), 1.0)),
        marks=tuple(marks) if values.size else (),
        readings=readings,
        nothing="no draw has a finite log ratio",
    )


def _middle(values: np.ndarray) -> tuple[float, float]:
    """From zero and almost all values to a little beyond; a few far ones would hide the rest."""
    if values.size == 0:
        return -1.0, 1.0
    low, high = (float(end) for end in np.quantile(values, [0.005, 0.995]))
    room = 0.3 * max(high - low, 1e-6)
    return min(low, 0.0) - room, max(high, 0.0) + room


def gamma_chart(certificate: Certificate) -> Chart:
    """γ against ρ in both protocols; what too few draws leave open is a cross at zero."""
    marks: list[Mark] = []
    crosses: list[Mark] = []
    readings: dict[float, str] = {}
    for k, (protocol, cores) in enumerate(certificate.qc.items()):
        name = CORE_SOURCES.get(protocol, protocol)
        known = {rho: cores[rho] for rho in sorted(cores) if cores[rho].gamma is not None}
        for rho, core in known.items():
            gamma, osc = (rounded_number(value, 3) for value in (core.gamma, core.osc))
            words = f"γ = {gamma}, C = {osc}, {core.n:,.0f} draws"
            readings[rho] = f"{readings.get(rho, f'ρ = {rho:g}')}\n{name}:\n{words}"
        gammas = [core.gamma or 0.0 for core in known.values()]
        marker = ("circle", "square")[k % 2]
        marks.append(Line(list(known), gammas, PALETTE[k], name, marker=marker))
        if missing := sorted(set(cores) - set(known)):
            zeros, once = [0.0] * len(missing), "" if crosses else "too few draws to say"
            crosses.append(Line(missing, zeros, PALETTE[k], once, joined=False, marker="x"))
    weight = certificate.safety.weight
    widened = (
        ""
        if weight == 0.0
        else "At small ρ the proposal's core is widened by its tail safety, which makes "
        f"{weight:g} of the proposals."
    )
    shares = sorted({rho for cores in certificate.qc.values() for rho in cores})
    return Chart(
        name="gamma",
        description="The published diagnostic gamma against the share of draws left out, for "
        "target and proposal draws",
        caption="γ = 2/(1 + exp C), the functional that the paper publishes, against the share ρ "
        "of draws left out of the core, of proposal draws in each tail; C is the core's width. "
        "From held-out target draws it sees what the proposal misses; from proposal draws it does "
        f"not. {widened}",
        caveat="γ is a diagnostic of the fit over the core, not a bound on the running chain.",
        x_label="share of draws left out, ρ",
        y_label="γ = 2 / (1 + exp C)",
        x_range=(0.0, 0.265),
        y_range=(0.0, 1.04),
        marks=(*marks, *crosses),
        readings=readings,
        x_ticks={rho: f"{rho:g}".lstrip("0") for rho in shares},
    )
