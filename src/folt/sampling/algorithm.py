"""The algorithm, from a problem to a fit."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from folt.certificate.certify import certify, examine
from folt.certificate.facts import ReferenceFacts, SymmetryFacts
from folt.certificate.held_out import Judged
from folt.certificate.split import split_by_chain
from folt.chains import Chains, chances_to_leave, run_chains, steps_worth_taking
from folt.chains.threads import one_blas_thread
from folt.diagnostics import switching
from folt.fit import Fit, ReferenceSummary
from folt.flows import Mixture, OrbitSafety, Safety, StudentT
from folt.problem import Problem
from folt.problem.boundary import boundary_mass, label_switch_rate
from folt.problem.ratio import IDENTITY_ONLY, LogRatio, Target
from folt.problem.symmetry import SymmetryAccount, check, require_symmetry
from folt.reference import Reference, reference_for
from folt.reference.soundness import require_numbers_around
from folt.sampling.checks import require_options, whole_number
from folt.sampling.forecast import forecast, reference_work
from folt.sampling.presets import Preset, preset_named
from folt.sampling.progress import Stages
from folt.store.strict_json import Document
from folt.training import (
    Arena,
    Sample,
    guard_of,
    invariant_guard,
    proposal_maker,
    sums_itself,
)
from folt.training.effort import Effort, evaluations_of_black_box
from folt.types import Distribution, Key, OrbitSummed, Progress, Trainer, in_float64, root_key

PILOT = 1_000
"""Number of the random stream that tells how many steps a draw is worth."""

PILOT_DRAWS = 2_048

WORTHWHILE = 1.2
"""Autocorrelation time of recorded draws above which more steps lie between them."""

SHARP = 0.0017
"""Standard error of log Z above which more proposals are drawn."""

SYMMETRY_DRAWS = 2_048
"""Held-out draws at which labels are looked at."""


@in_float64
@one_blas_thread
def sample(
    problem: Problem,
    *,
    seed: int = 0,
    chains: int = 4,
    draws: int = 5000,
    reference: object = None,
    flow: Trainer | Distribution | None = None,
    effort: Effort | None = None,
    evaluations: int | None = None,
    preset: Literal["default", "paper"] = "default",
    labels: Literal["sorted", "proposal"] = "sorted",
    start: Fit | None = None,
    whole_orbit: bool = True,
    progress: bool = True,
) -> Fit:
    """Draws of a posterior on its fundamental domain, with their certificate.

    The chains leave the folded posterior exactly invariant; how far from it they are after their
    burn-in is what the certificate bounds.

    Args:
        problem: log density and symmetry.
        seed: same seed, same draws, bit for bit, on the same machine.
        chains: independent chains.
        draws: draws per chain, after a burn-in of at least the steps that are certified to bring
            the chain within 0.05 of its target.
        reference: draws (n, dim) or (chain, draw, dim) to learn from, or a sampler object of
            `folt.reference`; by default the problem's exact sampler, or tempered particles
            followed by Hamiltonian chains.
        flow: a trainer, or a `Distribution` to propose from as it is; by default the preset's.
        effort: what the fit may cost, `folt.Effort.quick()`, `.default()` or `.thorough()`.
        evaluations: log densities that a fit may take, about; for densities whose calls are dear.
            Black boxes have such a cap unless the effort is thorough or your own.
        preset: "default", or "paper" for the architecture and objective of the paper.
        labels: report draws in the sorted chamber, or under the labels the proposal finds
            likeliest.
        start: an earlier fit whose proposal is polished instead of fitting one from scratch.
        whole_orbit: False truncates the orbit to N = {e}, the sampler behind the published tables.
        progress: say how far it is: a live bar if standard error is a terminal, otherwise a plain
            line every few seconds.

    Returns:
        The fit: draws, certificate, evidence, timings.

    Raises:
        ValueError: wrong shapes or parts, a density that is not a number.
        SymmetryError: a density declared invariant that is not.
    """
    if evaluations is not None:
        whole_number("evaluations", evaluations, 1)
    require_options(
        problem,
        seed,
        chains,
        draws,
        reference,
        flow,
        effort,
        preset,
        labels,
        start,
        whole_orbit,
        progress,
    )
    chosen = preset_named(preset, capped(problem, effort, preset, evaluations))
    flow = proposal_maker(problem, flow, chosen.trainer)
    keys = _named_keys(seed)
    target = Target(problem)
    with Stages(progress) as stages:
        with stages.stage("symmetry"):
            account = require_symmetry(problem, seed)
        sampler = reference_for(problem, reference, chosen.reference)
        work = reference_work(problem, sampler)
        stages.expect("reference", *forecast(problem, account, work))
        with stages.stage("reference") as tell:
            run = sampler(keys["reference"], problem, tell)
            target.add(run.evaluations)
            probed = require_numbers_around(keys["probes"], problem, run.draws)
            target.add({"value": probed * (1 if problem.invariant else problem.group.order)})
            train, select, held_out = split_by_chain(
                run, chosen.training_draws, chosen.effort.held_out_draws
            )
        with stages.stage("training") as tell:
            learn = _learnable(run, train, select, target)
            visited = _visited(run, len(learn[0].points)) if chosen.effort.evaluations else None
            proposal = _proposal(
                keys["training"], problem, target, (*learn, visited), flow, chosen, start, tell
            )
        ratio = LogRatio(target, proposal, problem.group, None if whole_orbit else IDENTITY_ONLY)
        with stages.stage("certificate"):
            steps, proposals = _worthwhile(keys["training"], ratio, learn[1], chosen)
            examined = examine(keys["certificate"], ratio, held_out, proposals, draws * steps)
            burn_in = examined.burn_in(chosen.burn_in)
        work = chains * (burn_in + draws * steps)
        stages.expect("sampling", *forecast(problem, account, work))
        with stages.stage("sampling"):
            result = run_chains(keys["chains"], ratio, chains, draws, burn_in, steps)
        with stages.stage("certificate"):
            judged = examined.judged
            certificate = certify(
                examined,
                result,
                _symmetry_facts(ratio, judged, run, account, result),
                ReferenceFacts.of(run, judged.points, judged.steps),
                burn_in=burn_in,
                safety_weight=chosen.safety_weight,
            )
    return Fit.assemble(
        problem=problem,
        proposal=proposal,
        chains=result,
        certificate=certificate,
        reference=ReferenceSummary(run.raw),
        wall=stages.wall,
        evaluations=target.evaluations,
        labels=labels,
        whole_orbit=whole_orbit,
        provenance={
            **_provenance(seed, preset, problem),
            "effort": chosen.effort.name,
            "steps_per_draw": steps,
        },
    )


def _proposal(
    key: Key,
    problem: Problem,
    target: Target,
    learn: tuple[Sample, Sample, Sample | None],
    flow: Trainer | Distribution,
    preset: Preset,
    start: Fit | None,
    tell: Progress,
) -> Distribution:
    """Train on what may be learnt from, or take what was given, and add the tail safety."""
    training, selection, visited = learn
    guard = _guard(problem, training, flow, preset.safety_weight)
    if isinstance(flow, Distribution):
        fitted: Distribution = flow
    else:
        arena = Arena(
            group=problem.group,
            target=problem.folded(),
            guard=guard,
            guard_weight=preset.safety_weight,
            evaluate=target,
            training=training,
            selection=selection,
            visited=visited,
        )
        fitted = flow(key, arena, None if start is None else start.flow, tell)
    fitted = settled(fitted)
    if guard is None:
        return fitted
    if isinstance(fitted, OrbitSummed):
        return OrbitSafety(fitted, guard, preset.safety_weight)
    return Safety(fitted, guard, preset.safety_weight)


def _guard(
    problem: Problem, training: Sample, flow: Trainer | Distribution, weight: float
) -> StudentT | None:
    """The guard of the tail safety, invariant where the proposal sums itself over the orbit."""
    if weight <= 0:
        return None
    if sums_itself(flow):
        return invariant_guard(problem.group, training.points)
    return guard_of(training.points, weight)


def settled(flow: Distribution) -> Distribution:
    """The same flow, made accurate: h is a difference of large numbers.

    Parameters become float64, and mixtures of narrow components give up their fast formula.
    """

    def doubled(leaf: PyTree) -> PyTree:
        if not eqx.is_array(leaf) or leaf.dtype not in (np.float16, np.float32):
            return leaf
        return jax.device_put(np.asarray(leaf, np.float64))

    def accurate(part: PyTree) -> PyTree:
        return part.settled() if isinstance(part, Mixture) else part

    doubled_flow = jax.tree.map(doubled, flow)
    return jax.tree.map(accurate, doubled_flow, is_leaf=lambda part: isinstance(part, Mixture))


def _worthwhile(key: Key, ratio: LogRatio, selection: Sample, preset: Preset) -> tuple[int, int]:
    """Steps of the chain per recorded draw, and fresh proposals for the certificate.

    Few steps where draws would not repeat, more where they pay; more proposals where the error of
    log Z would exceed `SHARP`. A few proposals beforehand tell.
    """
    effort, proposals = preset.effort, preset.certification_draws
    if effort.rounds is None or effort.evaluations is not None:
        return 1, proposals
    _, fresh = ratio.draw(jax.random.fold_in(key, PILOT), PILOT_DRAWS)
    states = selection.log_target - ratio.log_proposal(selection.points)
    steps = steps_worth_taking(chances_to_leave(fresh, states), WORTHWHILE, effort.steps_per_draw)
    finite = fresh[np.isfinite(fresh)]
    if finite.size == 0:
        return steps, proposals
    weights = np.exp(finite - finite.max())
    needed = (fresh.size * np.sum(weights**2) / np.sum(weights) ** 2 - 1.0) / SHARP**2
    return steps, int(min(max(proposals, needed), 3 * proposals))


def _visited(run: Reference, most: int) -> Sample | None:
    """Points that the reference run has valued on its way: where calls are dear, they train too."""
    if run.visited is None:
        return None
    points, values = run.visited
    every = max(1, len(values) // most)
    return Sample(points[::every], values[::every])


def capped(
    problem: Problem, effort: Effort | None, preset: str, evaluations: int | None
) -> Effort | None:
    """The effort within the cap on evaluations that was asked for, or that black boxes have."""
    usual = effort in (None, Effort.quick(), Effort.default())
    if evaluations is None and usual and problem.black_box is not None:
        evaluations = evaluations_of_black_box(problem.dim)
    if evaluations is None or preset != "default":
        return effort
    return (Effort.default() if effort is None else effort).within(evaluations)


def _learnable(
    run: Reference, train: np.ndarray, select: np.ndarray, target: Target
) -> tuple[Sample, Sample]:
    """Draws to train on and to select by, with the values that the reference run knows already."""
    known = run.log_target
    parts = []
    for draws, first in ((train, 0), (select, len(train))):
        points = draws.reshape(-1, draws.shape[-1])
        values = target(points) if known is None else known[first : first + len(draws)].ravel()
        parts.append(Sample(points, values))
    return parts[0], parts[1]


def _symmetry_facts(
    ratio: LogRatio, judged: Judged, run: Reference, account: SymmetryAccount, chains: Chains
) -> SymmetryFacts:
    problem = ratio.target.problem
    points = judged.points.reshape(-1, problem.dim)
    points = points[:: max(len(points) // SYMMETRY_DRAWS, 1)][:SYMMETRY_DRAWS]
    within = check(problem, points=points[:: max(len(points) // account.points, 1)])
    return SymmetryFacts(
        order=account.order,
        invariant=problem.invariant,
        defect=max(account.defect, within.defect),
        holds=account.holds and within.holds,
        boundary=boundary_mass(problem.group, points, ratio.proposal),
        switch_rate=None if run.raw is None else label_switch_rate(problem.group, run.raw),
        switching=switching(chains.draws, problem.names) if account.order == 1 else None,
    )


def _named_keys(seed: int) -> dict[str, Key]:
    names = ("reference", "training", "chains", "certificate", "probes")
    root = root_key(seed)
    return {name: jax.random.fold_in(root, number) for number, name in enumerate(names)}


def _provenance(seed: int, preset: str, problem: Problem) -> Document:
    packages = ("folt", "jax", "equinox", "blackjax", "numpy")
    return {
        "seed": seed,
        "preset": preset,
        "invariant": problem.invariant,
        "unfolded": _unfolded(problem),
        "versions": {name: version(name) for name in packages},
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def _unfolded(problem: Problem) -> list[str]:
    """Sites with repeated structure of a model in which no symmetry was found to fold."""
    found = problem.symmetry_found
    return list(found.repeated) if found is not None and found.missed else []
