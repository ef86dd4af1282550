"""The fit: what comes out, with its certificate."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from folt.batching import map_points
from folt.certificate.certificate import Certificate
from folt.certificate.diagnostics.chains import ChainSummary, summarise_chains
from folt.certificate.diagnostics.evidence import Evidence
from folt.certificate.learnt import Learnt
from folt.chains import Chains, Proposals, continue_chains
from folt.fit.analysis import Analysis
from folt.fit.arviz import Keep
from folt.fit.by_name import ByName
from folt.fit.relabelling import SIGNS_BY, SORTED_BY, labelled, likely_image, random_image
from folt.fit.replicates import OfSomeDraws
from folt.groups import Group
from folt.problem import Problem
from folt.problem.cards import Card
from folt.problem.named_values import fitting_coords, fitting_dims, label_axes
from folt.problem.ratio import IDENTITY_ONLY, LogRatio, Target
from folt.proposals import Safety
from folt.store.strict_json import Document
from folt.types import Distribution, in_float64, one_blas_thread

if TYPE_CHECKING:
    from folt.fit.expectation import Averages
    from folt.fit.section import Section


EXTENSIONS = 1_000
"""Number of the random stream of extensions, apart from those of the stages of sampling."""


@dataclasses.dataclass(frozen=True)
class ReferenceSummary:
    """A few raw chains of the reference run, for a picture; its numbers are in the certificate.

    Attributes:
        raw: (chain, draw, dim) before folding, thinned; None if none were kept.
        raw_posterior: the same in the user's parameters.
    """

    raw: np.ndarray | None = None
    raw_posterior: dict[str, np.ndarray] | None = None


@dataclasses.dataclass(frozen=True, repr=False)
class Fit(Analysis):
    """Draws on the fundamental domain with their certificate; NumPy arrays throughout.

    Attributes:
        draws: (chain, draw, dim) in the problem's coordinates, on D.
        log_ratio: h at every draw, (chain, draw).
        accepted: which steps moved, (chain, draw).
        posterior: `{name: array}` in the user's parameters, leading axes (chain, draw).
        certificate: how far the chain can be trusted.
        names: one name per coordinate.
        group: the symmetry that was folded.
        proposal: what was proposed from, before folding; None if a file could not hold it.
        problem: the problem; None after loading unless it was given again.
        reference: a few raw chains of the reference run.
        wall: seconds per stage.
        evaluations: log densities ("value") and gradients computed.
        labels: "sorted", "proposal" for the labels the proposal finds likeliest, or "sorted by"
            and "signs by" what `relabelled` was given.
        whole_orbit: False if the orbit was truncated to the identity.
        provenance: seed, preset, versions, whether the target was declared invariant.
        dims: names of the axes of the parameters after chain and draw, where they are known.
        coords: labels along these axes. Along an axis of exchangeable labels they name places of
            the order that `Fit.order` names.
        exchanged: the axes of every parameter along which relabelling exchanges entries.
        sections: what the model adds to the report; kept in the file of the fit.
        log_likelihood: pointwise terms of some draws as a file has them; None where they are
            computed from the problem.
        learnt: digests of the draws that the proposal has learnt from; None where a file of an
            older version does not say.
        proposals: all that was proposed to the chains, on D, which `expectation` averages over;
            None after loading.
        labelled: the axes whose labels were given; those of the others are positions.
    """

    draws: np.ndarray
    log_ratio: np.ndarray
    accepted: np.ndarray
    posterior: dict[str, np.ndarray]
    certificate: Certificate
    names: tuple[str, ...]
    group: Group
    proposal: Distribution | None
    problem: Problem | None
    reference: ReferenceSummary
    wall: dict[str, float]
    evaluations: dict[str, int]
    labels: str
    whole_orbit: bool
    provenance: Document
    dims: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    coords: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    exchanged: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    sections: tuple[Section, ...] = ()
    log_likelihood: OfSomeDraws | None = None
    learnt: Learnt | None = None
    proposals: Proposals | None = None
    labelled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Let the posterior answer an unknown name with those there are."""
        object.__setattr__(self, "posterior", ByName(self.posterior))

    @classmethod
    def assemble(
        cls,
        *,
        problem: Problem,
        proposal: Distribution,
        chains: Chains,
        certificate: Certificate,
        reference: ReferenceSummary,
        wall: dict[str, float],
        evaluations: dict[str, int],
        labels: str,
        whole_orbit: bool,
        provenance: Document,
        learnt: Learnt | None = None,
    ) -> Fit:
        """Make a fit of its parts: label the draws and express them in the user's parameters."""
        draws = labelled(chains.draws, proposal, problem.group, labels)
        posterior = in_user_parameters(problem, draws)
        if reference.raw is not None:
            raw_posterior = in_user_parameters(problem, reference.raw)
            reference = dataclasses.replace(reference, raw_posterior=raw_posterior)
        dims = fitting_dims(problem, posterior)
        shapes = {name: np.shape(value)[2:] for name, value in posterior.items()}
        return cls(
            draws=draws,
            log_ratio=chains.log_ratio,
            accepted=chains.accepted,
            posterior=posterior,
            certificate=certificate,
            names=problem.names,
            group=problem.group,
            proposal=proposal,
            problem=problem,
            reference=reference,
            wall=dict(wall),
            evaluations=dict(evaluations),
            labels=labels,
            whole_orbit=whole_orbit,
            provenance=provenance,
            dims=dims,
            coords=fitting_coords(problem.coords, dims, shapes),
            exchanged=label_axes(problem, draws[0, -1]),
            labelled=tuple(problem.coords),
            learnt=learnt,
            proposals=chains.proposals,
        )

    @functools.cached_property
    def _averages(self) -> Averages:
        from folt.fit.expectation import Averages

        return Averages(self)

    def _card(self) -> Card:
        from folt.fit.text import fit_card

        return fit_card(self)

    @property
    def accept_rate(self) -> float:
        """Share of steps that moved: of all draws, those included that a file did not keep."""
        if self.is_certified_whole:
            return self.certificate.chains.accept_rate
        return float(self.accepted.mean())

    @property
    def is_certified_whole(self) -> bool:
        """Whether the certificate was made from all draws there were, not from earlier ones."""
        return self.drawn == self.certificate.chains.draws

    @property
    def drawn(self) -> int:
        """Draws of all chains together, those included that a file did not keep."""
        thinned = self.provenance.get("thinned", {"of": 0, "kept": 0})
        return self.accepted.size + int(thinned["of"]) - int(thinned["kept"])

    @property
    def steps_per_draw(self) -> int:
        """Steps of the chain from one recorded draw to the next."""
        return int(self.provenance.get("steps_per_draw", 1))

    @property
    def log_evidence(self) -> Evidence:
        """Log Z with its standard error, every labelling counted once.

        The best of three estimates by the Pareto k̂ of the weights; `.method` says which. Where
        `.proportional` is true, the density lacked a constant, and log Z lacks it too.
        """
        if self.provenance.get("proportional", False):
            return dataclasses.replace(self.certificate.evidence, proportional=True)
        return self.certificate.evidence

    @property
    def flow(self) -> Distribution | None:
        """The trained part of the proposal, without the tail safety."""
        return self.proposal.main if isinstance(self.proposal, Safety) else self.proposal

    @property
    def order(self) -> str:
        """What labels and signs are sorted by, such as "mu ascends"; empty without symmetry."""
        from folt.fit.text import order_of_labels

        return order_of_labels(self)

    @property
    def exchanged_dims(self) -> tuple[str, ...]:
        """Names of the axes along which relabelling exchanges entries."""
        named = [
            self.dims[name][axis]
            for name, axes in self.exchanged.items()
            if name in self.dims
            for axis in axes
        ]
        return tuple(dict.fromkeys(named))

    def chain_summary(self) -> ChainSummary:
        """ESS and R-hat of every coordinate on the domain; frozen chains first."""
        return summarise_chains(self.draws, self.accepted)

    def ess(self) -> np.ndarray:
        """Rank-normalised effective sample size of every coordinate; zero for frozen chains."""
        return self.chain_summary().ess

    @in_float64
    def unfolded(self, seed: int = 0) -> np.ndarray:
        """The draws under all labels, (chain, draw, dim): as close to the target as `draws` to π_F.

        A group element is drawn with probability proportional to the density at the image;
        uniformly where the target is invariant. Rotations that were divided out come back: the
        points are whole ones then, each turned by a rotation of its own.

        Raises:
            ValueError: the symmetry is broken and the fit was loaded without its problem.
        """
        points = self.draws.reshape(-1, self.group.dim)
        keys = jax.random.split(jax.random.key(seed), points.shape[0])
        if self.problem is None or self.problem.invariant:
            if self.problem is None and not self.provenance.get("invariant", True):
                raise ValueError("this target is not invariant: load the fit with its problem")
            images = map_points(random_image, self.group, (keys, points))
        else:
            log_terms = self.problem.log_orbits(points)
            images = map_points(likely_image, self.group, (keys, points, log_terms))
        quotient = None if self.problem is None else self.problem.quotient
        if quotient is None and self.provenance.get("divided_out"):
            raise ValueError("rotations were divided out: load the fit with its problem")
        if quotient is not None:
            from folt.fit.rotated import whole_at_random

            images = map_points(whole_at_random, quotient, (keys, np.asarray(images)))
        return np.asarray(images).reshape(*self.draws.shape[:2], -1)

    def rotated(
        self, to: Literal["varimax"] | np.ndarray | list[np.ndarray] = "varimax"
    ) -> dict[str, np.ndarray]:
        """Return the posterior with every draw turned for reading, `{name: (chain, draw, ...)}`.

        Where rotations were divided out, `posterior` holds lower-trapezoidal matrices.

        Args:
            to: "varimax", or a target (rows, columns) which every draw is turned as near to as
                possible; a list where several matrices turn on their own.

        Raises:
            ValueError: nothing was divided out, no problem, or a target of another shape.
        """
        from folt.fit.rotated import rotated

        return rotated(self, to)

    def generated(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Further quantities at every draw by the model's own program, (chain, draw, ...).

        Of a Stan program these are its transformed parameters and generated quantities.

        Args:
            seed: of what the program draws at random.

        Raises:
            ValueError: the problem has none, or the fit was loaded without its problem.
        """
        if self.problem is None or self.problem.generated is None:
            raise ValueError(
                "expected a fit of a Stan program with its problem, whose program can be run: "
                "a loaded fit needs folt.load(path, problem=problem)"
            )
        found = self.problem.generated(self.draws.reshape(-1, self.group.dim), seed)
        lead = self.draws.shape[:2]
        return {name: value.reshape(*lead, *value.shape[1:]) for name, value in found.items()}

    @in_float64
    @one_blas_thread
    def extend(self, draws: int) -> Fit:
        """The fit with more draws on every chain, from the same proposal.

        The certificate stays that of the draws it was made from, which `is_certified_whole` and
        the summary say: its statements about the kernel hold for the new draws as well, those
        about the chains were read off the earlier ones.

        Args:
            draws: additional draws per chain.

        Raises:
            ValueError: draws < 1, or the fit was loaded without its problem or proposal.
        """
        if draws < 1:
            raise ValueError(f"expected draws ≥ 1, got {draws}")
        if self.problem is None or self.proposal is None:
            raise ValueError(
                "to extend a loaded fit, give its problem: folt.load(path, problem=problem)"
            )
        order, _, sign = self.labels.partition(SIGNS_BY)
        if order.startswith(SORTED_BY) or sign:
            by = order.removeprefix(SORTED_BY) if order.startswith(SORTED_BY) else None
            if by is not None and by not in self.posterior:
                raise ValueError(f"extend the fit before it is sorted by {by}, then sort it again")
            plain = "sorted" if by is not None else order
            longer = dataclasses.replace(self, labels=plain).extend(draws)
            return longer.relabelled(by, sign or None)
        target = Target(self.problem, dict(self.evaluations))
        kept = None if self.whole_orbit else IDENTITY_ONLY
        ratio = LogRatio(target, self.proposal, self.group, kept)
        key = jax.random.fold_in(jax.random.key(self.provenance["seed"]), EXTENSIONS)
        key = jax.random.fold_in(key, self.draws.shape[1])
        old = Chains(self.draws, self.log_ratio, self.accepted)
        with self.problem.evaluating():
            new = continue_chains(key, ratio, old, draws, self.steps_per_draw)
        new = new._replace(draws=labelled(new.draws, self.proposal, self.group, self.labels))
        pairs = zip(old[:3], new[:3], strict=True)
        all_draws, log_ratio, accepted = (np.concatenate(parts, axis=1) for parts in pairs)
        return dataclasses.replace(
            self,
            draws=all_draws,
            log_ratio=log_ratio,
            accepted=accepted,
            posterior=in_user_parameters(self.problem, all_draws),
            proposals=self.proposals and new.proposals and self.proposals.joined(new.proposals),
            evaluations=target.evaluations,
            log_likelihood=None,
            provenance={**self.provenance, "draws_asked": True},
        )

    def to_arviz(
        self, *, log_likelihood: bool = True, posterior_predictive: bool = False, seed: int = 0
    ) -> Any:
        """Return the fit as ArviZ has it, its certificate in the attributes of the posterior.

        This is InferenceData before ArviZ 1, and a DataTree of xarray since.

        Args:
            log_likelihood: add the pointwise log-likelihood, if the problem has it.
            posterior_predictive: add one replicate of the observations per draw. Of both there
                are at most eight million numbers, those of evenly spaced draws where all have more.
            seed: of the replicates.
        """
        from folt.fit.arviz import to_inference_data

        return to_inference_data(
            self,
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            seed=seed,
        )

    def summary(self) -> str:
        """Estimates, acceptance, effective draws, evidence and the verdict, as text."""
        from folt.fit.text import summary

        return summary(self)

    def report(self, path: str | Path, sections: Sequence[Section] = ()) -> Path:
        """Write a self-contained HTML page.

        Args:
            path: the file; an existing one is replaced only by a complete one.
            sections: what the model adds, `folt.fit.section.Section(title, text, figure)`; the
                sections of the fit if none are given.
        """
        from folt.report.page import write_page

        return write_page(self, Path(path), sections)

    def save(self, path: str | Path, *, keep: Keep = None) -> Path:
        """Write a netCDF file that ArviZ can open too; nothing is left half-written.

        Args:
            path: the file; an existing one is replaced only by a complete one.
            keep: draws of every chain that the file holds at least, evenly spaced, or "all". By
                default all draws that you asked for; of those that were chosen by budget 5000 to
                9999 per chain, which give every mean to .7 % of its posterior deviation.

        Raises:
            ValueError: `keep` is no such number, or the path cannot be written.
        """
        from folt.fit.file import save

        return save(self, Path(path), keep)


@in_float64
def in_user_parameters(problem: Problem, draws: np.ndarray) -> dict[str, np.ndarray]:
    """`{name: (chain, draw, ...)}` in the user's parameters."""
    return problem.parameters(draws)
