"""Make a certificate from log ratios: this module alone knows both proposals and diagnostics.

`examine` evaluates h at the held-out draws and at fresh proposals, which gives the burn-in of the
chains. `certificate_from` adds what the chains show. `audit` draws around every known mode: a mode
that descents found and training lost shows neither in the chain nor, if the reference lost it too,
in held-out draws.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from folt.certificate.cautions import Reference
from folt.certificate.certificate import Certificate
from folt.certificate.conditions import MANY_STEPS, PRIMARY
from folt.certificate.diagnostics.coupling_bounds import acceptance, effective_sizes
from folt.certificate.diagnostics.coverage import Faults, agreement, coverage
from folt.certificate.diagnostics.evidence import evidences
from folt.certificate.diagnostics.mixing import Mixing, mixing_certificate
from folt.certificate.diagnostics.quantile_core import (
    RHOS,
    Core,
    gap_upper,
    proposal_core,
    target_core,
)
from folt.certificate.exploration import ExplorationFacts
from folt.certificate.facts import ChainFacts, ReferenceFacts, SafetyFacts, SymmetryFacts
from folt.certificate.held_out import HeldOut, Judged, judged_faults, refreshed_draws, steps_for
from folt.chains import Chains
from folt.problem.ratio import LogRatio
from folt.proposals.action import action_of
from folt.proposals.components import Components, log_sum_exp
from folt.proposals.sums import ListedSum, summable
from folt.types import Key, host_generator

_DRAWS_PER_MODE = 64
"""Draws around each mode: weights that vary by their mean give its mass to an eighth of itself."""

UNDER_REACHED = 10.0
"""Ratio of target and proposal, the mean being one, above which a place is under-reached."""

MOST_WEIGHT = 50.0
"""Logarithm at which weights are held: what is far above one is lost anyway."""


def audited(
    key: Key, ratio: LogRatio, fresh: np.ndarray, run: Reference
) -> ExplorationFacts | None:
    """Return what the exploration found, and how much of it the finished proposal under-reaches."""
    modes = None if run.explored is None else run.explored.components
    if run.exploration is None or modes is None:
        return run.exploration
    missed, error = audit(key, ratio, fresh, modes)
    return dataclasses.replace(run.exploration, audited=missed, audited_error=error)


def audit(key: Key, ratio: LogRatio, fresh: np.ndarray, modes: Components) -> tuple[float, float]:
    """Estimate the mass around the modes where the target outweighs the proposal tenfold.

    Args:
        key: of the draws around the modes.
        ratio: the finished log ratio.
        fresh: h at fresh proposals, which gives log Z.
        modes: components at the modes.

    Returns:
        The mass and its standard error.
    """
    finite = fresh[np.isfinite(fresh)]
    if finite.size == 0:
        return math.inf, 0.0
    log_evidence = float(logsumexp(finite)) - math.log(fresh.size)
    action, evenly = action_of(ratio.group), np.full(modes.count, -math.log(modes.count))
    components = Components(evenly, modes.means, modes.factors, modes.degrees)
    points = components.sample(host_generator(key), _DRAWS_PER_MODE * modes.count)
    log_target = ratio.target(points)
    if summable(action, modes.count):
        log_own = ListedSum((components,), action).log_sum(points)
    else:  # the images are far apart, or labels are a matter of chance
        log_own = log_sum_exp(components.log_terms(points))
    log_weights = np.minimum(log_target - log_own - log_evidence, MOST_WEIGHT)
    excess = ratio.at(points, log_target) - log_evidence
    lost = np.where(excess > math.log(UNDER_REACHED), np.exp(log_weights), 0.0)
    # A density that is no number there says nothing of its mass: as much as the modes promise.
    lost = np.where(np.isnan(log_target) | np.isposinf(log_target), 1.0, lost)
    return float(lost.mean()), float(lost.std() / math.sqrt(lost.size))


_DELTA = 0.05
"""Chance that a statement of the certificate fails: all of them hold with 95 % confidence."""


@dataclasses.dataclass(frozen=True)
class Examined:
    """Held-out draws, fresh proposals, and how fast a chain with these log ratios mixes.

    Attributes:
        judged: held-out draws with their h, refreshed unless they are exact.
        fresh: h at fresh proposals.
        mixing: the mixing certificate.
        faults: log ratios that are not finite.
    """

    judged: Judged
    fresh: Float[np.ndarray, " proposals"]
    mixing: Mixing
    faults: Faults

    @classmethod
    def of(
        cls,
        judged: Judged,
        fresh: np.ndarray,
        chain_length: int | None = None,
        faults: Faults | None = None,
    ) -> Examined:
        """Return what held-out draws and fresh proposals say of the kernel.

        Proposals at which h is not a number count as outside the support where that is harmless.
        Without `faults`, those of the fresh proposals are counted.
        """
        faults = faults or Faults.count(fresh)
        if faults.harmless:
            judged = dataclasses.replace(judged, proposed=_without_nan(judged.proposed))
            fresh = _without_nan(fresh)
        mixing = mixing_certificate(
            fresh,
            judged.log_ratio,
            delta=_DELTA,
            exact=judged.exact,
            raw=judged.raw_log_ratio,
            chain_length=chain_length,
        )
        return cls(judged, fresh, mixing, faults)

    def burn_in(self, least: int) -> int:
        """Return the steps to discard: those certified to bring the chain within .05."""
        return min(max(self.mixing.steps[PRIMARY] or 0, least), max(MANY_STEPS, least))

    def effective(self, rho: float) -> float:
        """Return independent draws that the held-out h are worth for a core that leaves out ρ."""
        values = self.judged.log_ratio
        if self.judged.exact:
            return float(values.size)
        if not np.isfinite(values).all():
            return 0.0
        threshold = np.quantile(values, [1.0 - rho])
        return float(effective_sizes(self.judged.raw_log_ratio, threshold)[0])


def examine(
    key: Key, ratio: LogRatio, held_out: HeldOut, proposals: int, chain_length: int
) -> Examined:
    """Break the seal, draw afresh, and move draws that are not exact by the chain's own kernel.

    Args:
        key: of the fresh proposals and of the refreshment.
        ratio: the finished log ratio.
        held_out: draws under seal.
        proposals: fresh proposals to draw.
        chain_length: steps of a chain, for the bound on its effective size.
    """
    judged = held_out.judge(ratio)
    points, fresh, alive = ratio.propose(jax.random.fold_in(key, 0), proposals)
    if not judged.exact:
        steps = steps_for(_accept_rate(fresh, judged.log_ratio), ratio.terms)
        judged = refreshed_draws(jax.random.fold_in(key, 1), judged, ratio, steps)
    faults = _faults(ratio, judged, points, fresh, died=int(np.sum(~alive)))
    return Examined.of(judged, fresh, chain_length, faults)


def _faults(
    ratio: LogRatio, judged: Judged, points: np.ndarray, fresh: np.ndarray, died: int
) -> Faults:
    """Count the faults of all proposals, fresh or made to held-out draws, and of these draws."""
    counted = Faults.count(fresh, died)
    later = Faults.count(judged.proposed)
    draws = judged.raw_log_ratio
    faults = dataclasses.replace(
        counted,
        not_a_number=counted.not_a_number + later.not_a_number,
        infinite=counted.infinite + later.infinite,
        proposals=counted.proposals + later.proposals,
        at_draws=int(np.sum(np.isnan(draws) | np.isposinf(draws))),
    )
    undefined = points[np.isnan(fresh)]
    if judged.undefined is not None:
        undefined = np.concatenate([undefined, judged.undefined])
    held_out = judged.as_they_came.reshape(-1, points.shape[1])
    return judged_faults(faults, ratio, undefined, (points, fresh), held_out)


def _without_nan(values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), -np.inf, values)


def _accept_rate(fresh: np.ndarray, held_out: np.ndarray) -> float:
    """Estimate E_π[a(w)], the acceptance rate of a stationary chain, from the two sets of h."""
    alive, states = np.where(np.isfinite(fresh), fresh, -np.inf), held_out[np.isfinite(held_out)]
    return float(acceptance(alive, states).mean()) if states.size else 0.0


def certificate_from(
    examined: Examined,
    chains: Chains,
    symmetry: SymmetryFacts,
    reference: ReferenceFacts,
    *,
    burn_in: int = 0,
    safety_weight: float = 0.0,
    exploration: ExplorationFacts | None = None,
) -> Certificate:
    """Return the certificate of chains whose kernel was examined.

    Args:
        examined: held-out draws, fresh proposals, mixing.
        chains: the chains as they ran.
        symmetry: what is known of the symmetry.
        reference: what is known of the reference run.
        burn_in: steps thrown away at the start of every chain.
        safety_weight: λ.
        exploration: where modes were looked for, the audit included.
    """
    judged, fresh = examined.judged, examined.fresh
    held_out = judged.log_ratio
    finite = np.isfinite(held_out).all()
    facts = ChainFacts.of(chains, burn_in)
    # What was proposed to held-out draws is as fresh as any: the evidence counts it too.
    proposed = np.concatenate([fresh, judged.proposed])
    made = evidences(proposed, chains.log_ratio, frozen=bool(facts.frozen))
    # The largest weight is looked for wherever the tail, the evidence or a bound has looked.
    seen = np.concatenate([proposed, held_out.ravel(), judged.raw_log_ratio.ravel()])
    gap = gap_upper(seen, made.importance.value)
    return Certificate(
        mixing=examined.mixing,
        qc=_cores(examined),
        full_osc=float(np.ptp(held_out)) if finite else math.inf,
        gap_upper=gap,
        gap_upper_error=gap * made.importance.standard_error,
        evidences=made,
        coverage=coverage(held_out, fresh, exact=judged.exact),
        agreement=agreement(chains.draws, judged.as_they_came, exact=judged.exact),
        chains=facts,
        symmetry=symmetry,
        safety=SafetyFacts.of(safety_weight),
        reference=reference,
        effective=examined.effective(PRIMARY),
        faults=examined.faults,
        exploration=exploration,
    )


def _cores(examined: Examined) -> dict[str, dict[float, Core]]:
    held_out, fresh = examined.judged.log_ratio, examined.fresh
    target = {rho: target_core(held_out, rho, _DELTA, examined.effective(rho)) for rho in RHOS}
    proposal = {rho: proposal_core(fresh, rho, _DELTA) for rho in RHOS}
    return {
        "target": {rho: core.with_target_mass(held_out) for rho, core in target.items()},
        "proposal": {rho: core.with_target_mass(held_out) for rho, core in proposal.items()},
    }
