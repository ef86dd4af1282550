"""From a measured spectrum to its modes: the posterior, the fit, and how many modes there are."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Literal

import numpy as np

from folt.certificate.comparison import compare_evidences
from folt.fit import Fit
from folt.fleet.work import may_start
from folt.modal.models.powers import Motion, modal_powers
from folt.modal.models.shapes import modal_shapes
from folt.modal.models.spectrum import modal_spectrum
from folt.modal.spectrum import Measured
from folt.problem import Problem
from folt.reference import HostChains
from folt.sampling import sample
from folt.store.strict_json import Document, plain
from folt.training import OrbitMixture, Refinement
from folt.training.effort import EFFORTS, Effort, EffortName, effort_named

ModalModel = Literal["paper", "powers", "shapes"]

_FEW_CHAINS = 40
"""Chains of a model with powers, whose power and damping pull on each other along a bend: fewer and
longer ones bring R-hat down at the same effective size (it is bounded below by the number of chains
over that size)."""

_SHARPER = 6
"""Most times as many proposals for the evidence of shapes, where it would be blurred otherwise. At
quick effort three times as many left a right fit of four channels in doubt for its evidence alone;
six times as many cost one CPU second in eleven."""

POLISH = OrbitMixture(fresh=8192, patience=3, refinement=Refinement(rounds=3, rate=0.005))
"""The thorough trainer beside a start: a few steps from the proposal of the spectrum before."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How modes are identified.

    Attributes:
        model: "paper", "powers" or "shapes"; None for "shapes" where the ordinates of all channels
            are there, else for "powers" where the averages are known.
        frequency_range: bounds of the uniform prior of natural frequencies, in Hz; the range of
            the spectrum, rounded outwards to two digits, if None.
        damping_range: bounds of the uniform prior of damping ratios.
        motion: what the sensors measure, for "powers" and "shapes".
        noise: one density for all sensors or one for each channel, for "shapes".
        forces: whether forces of different modes may be correlated, for "shapes".
        chains: independent chains.
        draws: draws per chain.
        seed: same seed, same draws.
        effort: what a fit may cost, as for `folt.sample`.
    """

    model: ModalModel | None = None
    frequency_range: tuple[float, float] | None = None
    damping_range: tuple[float, float] = (0.001, 0.05)
    motion: Motion = "acceleration"
    noise: Literal["common", "channel"] = "common"
    forces: Literal["uncorrelated", "correlated"] = "uncorrelated"
    chains: int = 4
    draws: int = 5000
    seed: int = 0
    effort: Effort | EffortName = "default"

    def asked(self) -> Document:
        """Return the settings as plain values, an effort that has a name by its name."""
        effort = effort_named(self.effort)
        name = effort.name
        usual = name in EFFORTS and effort == EFFORTS[name]()
        found: Document = plain(dataclasses.asdict(self))
        return {**found, "effort": name} if usual else found

    def model_for(self, measured: Measured) -> ModalModel:
        """Return the model asked for, or the one that the spectrum allows."""
        if self.model is not None:
            return self.model
        if measured.ordinates is not None:
            return "shapes"
        return "paper" if measured.averages is None else "powers"


@dataclasses.dataclass(frozen=True)
class Identification:
    """Fits of one spectrum by number of modes.

    Attributes:
        measured: the spectrum.
        model: which model was fitted.
        fits: one fit per number of modes.
    """

    measured: Measured
    model: ModalModel
    fits: dict[int, Fit]

    @property
    def probabilities(self) -> dict[int, float]:
        """Posterior probability of each number of modes, all of them equally likely before."""
        ranking = compare_evidences({str(m): fit.log_evidence for m, fit in self.fits.items()})
        return {int(row.name): row.probability for row in ranking}

    @property
    def modes(self) -> int:
        """The most probable number of modes."""
        probabilities = self.probabilities
        return max(probabilities, key=lambda m: probabilities[m])

    @property
    def fit(self) -> Fit:
        """The fit with the most probable number of modes."""
        return self.fits[self.modes]


def identify(
    measured: Measured,
    modes: int | range = 3,
    settings: Settings | None = None,
    *,
    start: Fit | None = None,
    progress: bool = True,
) -> Identification:
    """Return frequencies and damping of one spectrum, for one number of modes or several.

    Args:
        measured: the spectrum.
        modes: their number, or a range of numbers to choose from by evidence.
        settings: model, priors and sampling.
        start: an earlier fit of a similar spectrum; used where it still fits, which the
            certificate decides anew.
        progress: show a live progress bar if standard error is a terminal.

    Raises:
        ValueError: the spectrum or the settings cannot be used.
    """
    settings = Settings() if settings is None else settings
    numbers = range(modes, modes + 1) if isinstance(modes, int) else modes
    if not numbers or numbers[0] < 1:
        raise ValueError(f"expected at least one mode, got {modes}")
    # All of them first: what is wrong with one should not be found after an hour with the others.
    problems = {m: problem_for(measured, m, settings) for m in numbers}
    model = settings.model_for(measured)
    fits = {m: fitted(p, model, settings, start, progress) for m, p in problems.items()}
    return Identification(measured, model, fits)


def problem_for(measured: Measured, modes: int, settings: Settings) -> Problem:
    """Return the posterior of one spectrum."""
    bounds = settings.frequency_range
    if bounds is None:
        bounds = rounded_outwards(float(measured.frequency[0]), float(measured.frequency[-1]))
    model = settings.model_for(measured)
    if model == "shapes":
        if measured.ordinates is None:
            raise ValueError(
                "expected the ordinates of at least two channels for shapes: give a record, as "
                "folt.modal.measured_channels does"
            )
        return modal_shapes(
            measured.ordinates,
            modes,
            frequency_range=bounds,
            damping_range=settings.damping_range,
            motion=settings.motion,
            noise=settings.noise,
            forces=settings.forces,
            names=measured.names,
        )
    if settings.noise == "channel" or settings.forces == "correlated":
        raise ValueError(
            "noise per channel and correlated forces go with shapes: expected a record of at least "
            f"two channels, got the model {model!r}"
        )
    if model == "paper":
        return modal_spectrum(
            measured.frequency,
            measured.psd,
            modes,
            frequency_range=bounds,
            damping_range=settings.damping_range,
        )
    return modal_powers(
        measured.frequency,
        measured.psd,
        modes,
        averages=measured.averages,
        frequency_range=bounds,
        damping_range=settings.damping_range,
        motion=settings.motion,
        window=measured.window,
    )


def fitted(
    problem: Problem,
    model: ModalModel,
    settings: Settings,
    start: Fit | None = None,
    progress: bool = True,
) -> Fit:
    """A fit, polished from an earlier one where that is good enough, otherwise from scratch."""
    effort = effort_named(settings.effort)
    if model == "shapes":
        effort = dataclasses.replace(effort, sharper=max(effort.sharper, _SHARPER))
    run = functools.partial(
        sample,
        problem,
        seed=settings.seed,
        chains=settings.chains,
        draws=settings.draws,
        effort=effort,
        progress=progress,
    )
    if start is not None and may_start(start, problem):
        polish = POLISH if effort.rounds is None else None
        warm = run(start=start, flow=polish, reference=reference_of(model, effort, share=0.5))
        if warm.certificate.status.outcome.usable:
            warm.provenance["started_from"] = "previous"
            return warm
    fresh = run(reference=reference_of(model, effort))
    fresh.provenance["started_from"] = "nothing"
    return fresh


def reference_of(model: ModalModel, effort: Effort, share: float = 1.0) -> HostChains | None:
    """Return the reference run of a model at an effort; None for the effort's own.

    Args:
        model: which model.
        effort: how many draws.
        share: of these draws; beside a start half of them leave enough to certify with.
    """
    if model != "powers":
        return None
    return HostChains(
        particles=effort.particles,
        moves=effort.moves,
        chains=_FEW_CHAINS,
        draws=round(share * effort.chains * effort.draws / _FEW_CHAINS),
    )


def rounded_outwards(low: float, high: float) -> tuple[float, float]:
    """A range widened to two significant digits: .703 to 1.094 becomes .7 to 1.1."""

    def unit(value: float) -> float:
        return 10.0 ** (math.floor(math.log10(value)) - 1)

    # Rounding removes what the division adds: .7/.01 is 69.99999999999999.
    below = math.floor(np.round(low / unit(low), 9)) * unit(low)
    above = math.ceil(np.round(high / unit(high), 9)) * unit(high)
    return round(below, 12), round(above, 12)
