"""The algorithm, from a problem to a fit.

Symmetry check, reference draws, sealed split, training, tail safety; then the log ratio of target
and proposal, chains from it, and the certificate from sealed draws and fresh proposals.
"""

from __future__ import annotations

import dataclasses
import platform
import warnings
from importlib.metadata import version
from typing import Literal

import jax
import numpy as np

from folt.certificate.cautions import Caution, Concern, Reference
from folt.certificate.certify import audited, certificate_from, examine
from folt.certificate.facts import ReferenceFacts, SymmetryFacts
from folt.certificate.learnt import Learnt, known_first, split_by_chain
from folt.chains import run_chains
from folt.fit import Fit, ReferenceSummary
from folt.fit.relabelling import with_labels_told_apart
from folt.problem import Problem
from folt.problem.named_values import Naming, SortKey
from folt.problem.ratio import IDENTITY_ONLY, LogRatio, Target
from folt.problem.symmetry import require_symmetry
from folt.reference import AdaptiveRandomWalk, Exact, Given, HostChains
from folt.reference.landscape import require_numbers_around
from folt.sampling.checks import require_possible
from folt.sampling.options import Options, cap_cautions, one_problem
from folt.sampling.progress import Stages
from folt.sampling.spending import Spending, draws_within_budget, forecast, reference_work
from folt.store.strict_json import Document
from folt.training.effort import Effort, EffortName
from folt.training.proposal import TrainingData, proposal_from, worthwhile
from folt.types import (
    Distribution,
    Key,
    Progress,
    ReferenceSampler,
    Trainer,
    in_float64,
    one_blas_thread,
    root_key,
)

EARLIER_DRAWS = 64
"""Draws of an earlier fit, about, from which descents begin."""

_FRESH = (AdaptiveRandomWalk, Exact, HostChains)
"""Samplers whose draws are new whenever their key is."""


@one_problem
@in_float64
@one_blas_thread
def sample(
    problem: Problem,
    *,
    seed: int = 0,
    chains: int = 4,
    draws: int | None = None,
    reference: object = None,
    flow: Trainer | Distribution | None = None,
    effort: Effort | EffortName | None = None,
    evaluations: int | None = None,
    preset: Literal["default", "paper"] = "default",
    labels: Literal["sorted", "proposal"] = "sorted",
    sort_by: str | SortKey | None = None,
    sign: str | None = None,
    start: Fit | None = None,
    whole_orbit: bool = True,
    progress: bool = True,
) -> Fit:
    """Return draws of a posterior on its fundamental domain, with their certificate.

    The chains leave the folded posterior exactly invariant; how far from it they are after their
    burn-in is what the certificate bounds.

    Args:
        problem: log density and symmetry.
        seed: same seed, same draws, bit for bit, on the same machine.
        chains: independent chains.
        draws: draws per chain, after a burn-in of at least the steps that are certified to bring
            the chain within 0.05 of its target; if None, as many as a fifth of the fit's
            evaluations buys, between 5000 and 50000.
        reference: draws (n, dim) or (chain, draw, dim) to learn from, or a sampler object of
            `folt.reference`; by default the problem's exact sampler, or tempered particles
            followed by Hamiltonian chains.
        flow: a trainer, or a `Distribution` to propose from as it is, which must not have been
            made from the reference draws; by default the preset's.
        effort: what the fit may cost, "quick", "default", "thorough" or a `folt.Effort`.
        evaluations: log densities that a fit may take, about. A black box without gradient is
            timed and gets about a minute of them unless this is given; its number makes draws
            repeatable on machines of any speed (`fit.provenance["evaluations_cap"]`).
            Black boxes have such a cap unless the effort is thorough or your own.
        preset: "default", or "paper" for the architecture and objective of the paper.
        labels: report draws in the order of the fold, which `print(problem)` names, or under the
            labels the proposal finds likeliest; these also where a symmetry that folt found itself
            sorts by one of several entries and would confuse components, as `fit.order` then says.
        sort_by: sort labels by this parameter, or function, instead, as `Fit.relabelled` does, or
            "proposal" for the labels that the proposal finds likeliest;
            where it does not tell them apart, a warning says the share of draws in which their
            order is a matter of chance, and they stay in the order of the fold.
        sign: "largest", or a coordinate that is made positive, where signs may be flipped.
        start: an earlier fit whose proposal is polished instead of fitting one from scratch.
            Reference chains that it has learnt from do not judge the new fit; where there are no
            others, it is refused.
        whole_orbit: False truncates the orbit to N = {e}, the sampler behind the published tables.
        progress: say how far it is: a live bar if standard error is a terminal, otherwise a plain
            line every few seconds.

    Returns:
        The fit: draws, certificate, evidence, timings.

    Raises:
        ValueError: wrong shapes or parts, a density that is not a number.
        SymmetryError: a density declared invariant that is not.
    """
    budget = (seed, chains, draws, reference, flow, effort, evaluations, preset)
    asked = Options(*budget, labels, sort_by, sign, start, whole_orbit, progress)
    return _sampled(problem, asked, require_possible(problem, asked))


def _sampled(problem: Problem, asked: Options, width: int) -> Fit:
    """The algorithm with options that are known to be usable, for draws of so many numbers."""
    keys, target, spending = _named_keys(asked.seed), Target(problem), Spending()
    with Stages(asked.progress) as stages, problem.evaluating():
        with stages.stage("symmetry"):
            account = require_symmetry(problem, asked.seed)
        effort = asked.effort_for(problem, account.pace)
        sampler = asked.sampler_for(problem, effort)
        maker = asked.proposal_for(problem, effort)
        stages.expect("reference", *forecast(problem, account, reference_work(problem, sampler)))
        with stages.stage("reference") as tell:
            run = _reference_draws(keys, sampler, target, tell, asked.start)
            stages.set_apart("exploration", run.exploring)
            if asked.reference is None and not run.exact:
                run = dataclasses.replace(run, cautions=run.cautions + cap_cautions(effort))
            train, select, sealed = split_by_chain(
                run, effort.training_draws, effort.held_out_draws
            )
            learnt = _learnt(problem, (train, select), asked.start)
        with stages.stage("training") as tell:
            data = TrainingData.of(run, train, select, target, effort)
            earlier = None if asked.start is None else asked.start.flow
            proposal = proposal_from(maker, keys["training"], target, data, effort, earlier, tell)
        kept = None if asked.whole_orbit else IDENTITY_ONLY
        ratio = LogRatio(target, proposal, problem.group, kept)
        with stages.stage("certificate"):
            steps, fresh = worthwhile(
                keys["training"], ratio, data.selection, effort, isinstance(sampler, Given)
            )
            draws = asked.draws or _affordable(target, fresh, steps, asked.chains, width)
            examined = examine(keys["certificate"], ratio, sealed, fresh, draws * steps)
            burn_in = examined.burn_in(effort.burn_in)
        work = asked.chains * (burn_in + draws * steps)
        stages.expect("sampling", *forecast(problem, account, work))
        with stages.stage("sampling"):
            chains = run_chains(keys["chains"], ratio, asked.chains, draws, burn_in, steps)
        with stages.stage("certificate"):
            judged = examined.judged
            certificate = certificate_from(
                examined,
                chains,
                SymmetryFacts.of(ratio, judged.points, run, account, chains, asked.labels),
                ReferenceFacts.of(
                    run, judged.points, judged.steps, judged.stayed, effort.evaluations
                ),
                burn_in=burn_in,
                safety_weight=effort.safety_weight,
                exploration=audited(keys["audit"], ratio, examined.fresh, run),
            )
    fit = Fit.assemble(
        problem=problem,
        proposal=proposal,
        chains=chains,
        certificate=certificate,
        reference=ReferenceSummary(run.raw),
        wall=stages.wall,
        evaluations=target.evaluations,
        labels=asked.labels,
        whole_orbit=asked.whole_orbit,
        learnt=learnt,
        provenance={
            **_provenance(problem, asked, effort, steps),
            "spent": spending.so_far(),
        },
    )
    return _as_asked(fit, asked.naming_of(problem))


def _as_asked(fit: Fit, naming: Naming) -> Fit:
    """The fit in the order and with the signs asked for; as it is, with a warning, if that fails.

    What the draws say of a sort key is known last, when a refusal would lose the fit.
    """
    if naming:
        try:
            fit = fit.relabelled(naming.sort_by, naming.sign)
        except ValueError as error:
            words = f"{error}; labels stay as they are: {fit.order}"
            warnings.warn(words, UserWarning, stacklevel=5)
    return fit if naming.sign is not None else with_labels_told_apart(fit)


def _affordable(target: Target, fresh: int, steps: int, chains: int, width: int) -> int:
    """Draws per chain that the fit's evaluations so far, and those of its certificate, buy."""
    images = 1 if target.problem.invariant else target.problem.group.order
    spent = {**target.evaluations, "value": target.evaluations["value"] + fresh * images}
    return draws_within_budget(spent, steps * images, chains, width)


def _reference_draws(
    keys: dict[str, Key],
    sampler: ReferenceSampler,
    target: Target,
    tell: Progress,
    start: Fit | None,
) -> Reference:
    """Draws to learn from and to certify with, around which the density is a number.

    What a start has learnt from stands first, where it cannot be sealed. A run after a start takes
    random numbers of its own: with the seed of the start it would be the run that taught the start.
    """
    problem, key = target.problem, keys["reference"]
    if start is not None:
        key = jax.random.fold_in(key, 1 if start.learnt is None else start.learnt.number)
        sampler = _from_its_modes(sampler, start)
    run = sampler(key, problem, tell)
    if start is not None and start.learnt is not None:
        run = known_first(run, problem, start.learnt)
    elif start is not None and not isinstance(sampler, _FRESH):
        unknown = Caution.of(Concern.UNKNOWN_START)
        run = dataclasses.replace(run, cautions=(*run.cautions, unknown), sealable=False)
    target.add(run.evaluations)
    probed = require_numbers_around(keys["probes"], problem, run.draws)
    target.add({"value": probed * (1 if problem.invariant else problem.group.order)})
    return run


def _from_its_modes(sampler: ReferenceSampler, start: Fit) -> ReferenceSampler:
    """The sampler with descents from some draws of an earlier fit, which stand at its modes."""
    if not isinstance(sampler, HostChains):
        return sampler
    points = start.draws.reshape(-1, start.draws.shape[-1])
    return dataclasses.replace(sampler, known=points[:: max(1, len(points) // EARLIER_DRAWS)])


def _learnt(
    problem: Problem, parts: tuple[np.ndarray, np.ndarray], start: Fit | None
) -> Learnt | None:
    """Return what this proposal and its start learn from; None where the start does not say."""
    found = Learnt.of(problem, np.concatenate(parts))
    if start is None:
        return found
    return None if start.learnt is None else found | start.learnt


def _named_keys(seed: int) -> dict[str, Key]:
    names = ("reference", "training", "chains", "certificate", "probes", "audit")
    root = root_key(seed)
    return {name: jax.random.fold_in(root, number) for number, name in enumerate(names)}


def _provenance(problem: Problem, asked: Options, effort: Effort, steps: int) -> Document:
    packages = ("folt", "jax", "equinox", "numpy")
    return {
        "seed": asked.seed,
        "preset": asked.preset,
        "invariant": problem.invariant,
        "proportional": problem.proportional,
        "divided_out": "" if problem.quotient is None else problem.quotient.words(),
        "unfolded": _unfolded(problem),
        "versions": {name: version(name) for name in packages},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "effort": effort.name,
        "evaluations_cap": effort.evaluations,
        "steps_per_draw": steps,
        "draws_asked": asked.draws is not None,
    }


def _unfolded(problem: Problem) -> list[str]:
    """Return sites with repeated structure of a model in which no symmetry was found to fold."""
    found = problem.symmetry_found
    return list(found.repeated) if found is not None and found.missed else []


def certify(
    problem: Problem,
    draws: object,
    *,
    seed: int = 0,
    effort: Effort | EffortName | None = None,
    labels: Literal["sorted", "proposal"] = "sorted",
    progress: bool = True,
) -> Fit:
    """Return a certificate and the evidence for a posterior of which you have draws.

    The draws are folded, so that chains stuck in different labellings are welcome; a proposal is
    trained on some of the chains, and the others, which it never saw, make the certificate. The fit
    holds new draws of that proposal's chain: where the verdict is good they are as good as
    independent ones, under one labelling.

    Args:
        problem: the posterior that the draws are of.
        draws: InferenceData, a DataTree, the path of a netCDF file or of CmdStan's CSV files (a
            folder, a pattern such as out_*.csv, or a list), a NumPyro MCMC that has run,
            `{name: (chain, draw, ...)}`, points (chain, draw, dim), or
            `folt.reference.Given(draws, chains=4)` for draws without a chain axis.
        seed: same seed, same result.
        effort: what it may cost, as for `folt.sample`.
        labels: as for `folt.sample`.
        progress: as for `folt.sample`.

    Raises:
        ValueError: draws of another model, or of a form that is not known.
    """
    reference = draws if isinstance(draws, Given) else Given(draws)
    return sample(
        problem, reference=reference, seed=seed, effort=effort, labels=labels, progress=progress
    )
