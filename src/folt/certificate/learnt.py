"""Divide chains among training, selection and certificate, and recognise draws seen before.

A fit may start from an earlier one, whose proposal has seen draws already. They are stored as
digests, so that none of them certifies the proposal later. Digests are made of single draws and not
of chains: a chain that comes again thinned, sliced, reordered, cut otherwise or under other labels
is recognised all the same. They are those of the user's parameters at the folded draw, so
that auxiliary coordinates, which are drawn anew whenever draws are brought by name, do not hide it,
and of their values in order of size, so that names do not. A second set of digests is that of
values in single precision, for draws that were rounded to it in between. Of a chain that was
thinned before it was learnt from, the draws in between cannot be recognised.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt64

from folt.certificate.cautions import Caution, Concern, Reference
from folt.certificate.held_out import HeldOut
from folt.problem import Problem
from folt.types import HostDraws

MOST = 8_192
"""Digests of a kind that are kept, eight bytes each; of more draws, the smallest digests."""

EVERY = 2**64 - 1
"""The largest digest there is."""

BITS = 44
"""Significant bits of a number that enter its digest: coordinates and back costs a few of 53."""

_KNOWN_SHARE = 0.01
"""Share of known draws above which a chain is known; independent draws have none in common."""

KNOWN_ROUNDED = 0.5
"""The same for draws in single precision, in which some independent draws look alike."""

TELLING = 0.9
"""Share of draws that must stay different in single precision, or else it says nothing."""


@dataclasses.dataclass(frozen=True, eq=False)
class Digests:
    """A set of digests, or of the smallest of them.

    Attributes:
        values: in increasing order, none twice.
        limit: larger ones were left out.
    """

    values: UInt64[np.ndarray, " n"]
    limit: int = EVERY

    @classmethod
    def of(cls, found: UInt64[np.ndarray, "*lead"]) -> Digests:
        """Return the set of those found."""
        return cls(np.unique(found))._short()

    def __or__(self, other: Digests) -> Digests:
        """Return those in either set, as far as both go."""
        limit = min(self.limit, other.limit)
        both = np.union1d(self.values, other.values)
        return Digests(both[both <= np.uint64(limit)], limit)._short()

    def among(
        self, found: UInt64[np.ndarray, "chain draw"], share: float
    ) -> Bool[np.ndarray, " chain"]:
        """Return which chains have more than a share of their digests, and more than one, here."""
        compared = found <= np.uint64(self.limit)
        known = np.isin(found, self.values) & compared
        # One known draw may be where all chains began.
        return known.sum(axis=1) > np.maximum(share * compared.sum(axis=1), 1.0)

    @property
    def size(self) -> float:
        """About how many digests there were, those left out included."""
        return self.values.size * (EVERY / self.limit)

    def _short(self) -> Digests:
        kept = self.values[:MOST]
        return self if kept.size == self.values.size else Digests(kept, int(kept[-1]))


@dataclasses.dataclass(frozen=True, eq=False)
class Learnt:
    """What a proposal and those it started from have learnt from.

    Attributes:
        exact: digests of the draws.
        rounded: digests of the draws in single precision.
        draws: how many draws there were in all.
    """

    exact: Digests
    rounded: Digests
    draws: int = 0

    @classmethod
    def of(cls, problem: Problem, draws: Float[np.ndarray, "*lead dim"]) -> Learnt:
        """Return the digests of folded draws."""
        exact, rounded = digests_of(problem, draws)
        return cls(Digests.of(exact), Digests.of(rounded), exact.size)

    def __or__(self, other: Learnt) -> Learnt:
        """Return what either has learnt from."""
        exact, rounded = self.exact | other.exact, self.rounded | other.rounded
        return Learnt(exact, rounded, self.draws + other.draws)

    def knows(
        self, problem: Problem, draws: Float[np.ndarray, "chain draw dim"]
    ) -> Bool[np.ndarray, " chain"]:
        """Return which chains of folded draws were learnt from, in whatever arrangement."""
        exact, rounded = digests_of(problem, draws)
        known = self.exact.among(exact, _KNOWN_SHARE)
        if self.rounded.size >= TELLING * self.exact.size:
            known |= self.rounded.among(rounded, KNOWN_ROUNDED)
        return known

    @property
    def digest(self) -> str:
        """SHA-256 of all digests, which identifies the set."""
        return hashlib.sha256(self.exact.values.astype("<u8").tobytes()).hexdigest()

    @property
    def number(self) -> int:
        """The number of a random stream of its own, so that a run after a start is a new one."""
        return int(self.digest[:8], 16)


def digests_of(
    problem: Problem, draws: Float[np.ndarray, "*lead dim"]
) -> tuple[UInt64[np.ndarray, "*lead"], UInt64[np.ndarray, "*lead"]]:
    """Return numbers of 64 bits for every draw, the same for equal parameters up to rounding.

    The first kind forgives rounding in the last bits, the second that to single precision.
    """
    lead, points = draws.shape[:-1], draws.reshape(-1, problem.dim)
    values = [
        np.asarray(value, np.float64).reshape(len(points), -1)
        for value in problem.parameters(points).values()
    ]
    rows = np.sort(np.concatenate(values, axis=1) + 0.0, axis=1)  # Zero turns -0 into 0.
    mantissas, exponents = np.frexp(rows)
    exact = np.ldexp(np.rint(np.ldexp(mantissas, BITS)), exponents).astype("<f8")
    with np.errstate(over="ignore"):
        rounded = rows.astype("<f4")
    return _hashed(exact).reshape(lead), _hashed(rounded).reshape(lead)


def _hashed(rows: np.ndarray) -> UInt64[np.ndarray, " row"]:
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


_DECIDING = 3_000
"""Independent held-out draws that a statement at 5 % needs: 2 ln(2/δ)/ρ², δ = ρ = .05, is 2951."""


class Split(NamedTuple):
    """Disjoint sets of chains: two to learn from, each (chain, draw, dim), and one under seal."""

    train: HostDraws
    select: HostDraws
    certify: HeldOut


def split_by_chain(
    reference: Reference, training: int = 5_000, certification: int = 20_000
) -> Split:
    """Divide the chains among learning (training and selection) and certificate.

    No chain is in both: what is learnt from is rounded up to whole chains, of which a few that were
    supplied come in pieces, and chains that a start has learnt from are not sealed. Only a single
    chain is divided, which `Reference.sealable` says.

    Draws of one chain resemble each other, so a division by random index would let the
    certificate see what training saw. The part for the certificate is sealed (`HeldOut`). Where
    there are fewer draws than asked for, the two demands shrink in proportion, but the
    certificate keeps as many as a statement at 5 % needs if that leaves a quarter to learn from.
    Selection gets a fifth of the chains not used to certify.

    Args:
        reference: at least three chains.
        training: draws for training and selection together.
        certification: draws for the certificate.

    Raises:
        ValueError: too few chains, or a start has learnt from all of them.
    """
    if training < 1 or certification < 1:
        raise ValueError(f"expected positive numbers of draws, got {training} and {certification}")
    chains, length, _ = reference.draws.shape
    if chains < 3:
        raise ValueError(f"expected at least 3 chains to split into three parts, got {chains}")
    if reference.known == chains:
        raise ValueError(
            "the start has learnt from every reference chain, so that none is left to judge the "
            "new fit: expected chains that are new to it, or no start="
        )
    learn, certify = _chains_per_part(chains, length, training, certification)
    learn = _in_whole_chains(learn, chains, length, reference.pieces)
    first = max(learn, reference.known)
    select = min(max(1, round(learn / 5)), learn - 1)
    draws, known = reference.draws, reference.log_target
    sealed = slice(first, first + certify)
    return Split(
        train=draws[: learn - select],
        select=draws[learn - select : learn],
        certify=HeldOut(draws[sealed], reference.exact, None if known is None else known[sealed]),
    )


def _chains_per_part(
    chains: int, length: int, training: int, certification: int
) -> tuple[int, int]:
    """Return how many chains to learn from (at least two) and to certify with (at least one)."""
    learn = max(2, math.ceil(training / length))
    certify = max(1, math.ceil(certification / length))
    if learn + certify <= chains:
        return learn, certify
    shared = round(chains * training / (training + certification))
    spare = chains - math.ceil(_DECIDING / length)
    if spare >= chains / 4:
        shared = min(shared, spare)
    learn = min(max(2, shared), chains - 1)
    return learn, chains - learn


def _in_whole_chains(learn: int, rows: int, length: int, pieces: int) -> int:
    """Return the rows to learn from as whole chains; fewer only if the seal needs the others."""
    chains = rows // pieces
    if chains == 1:
        return learn
    needed = math.ceil(_DECIDING / length)
    down, up = max(learn // pieces, 1), min(-(-learn // pieces), chains - 1)
    left_after_down, left_after_up = (rows - pieces * each for each in (down, up))
    return pieces * (down if left_after_up < needed <= left_after_down else up)


def known_first(reference: Reference, problem: Problem, learnt: Learnt) -> Reference:
    """Move chains that were learnt from before to the front, where the seal does not reach."""
    rows, length, dim = reference.draws.shape
    whole = reference.draws.reshape(-1, reference.pieces * length, dim)
    known = learnt.knows(problem, whole)
    if not known.any():
        return reference
    order = np.argsort(~known, kind="stable")
    values = reference.log_target
    if values is not None:
        values = values.reshape(len(whole), -1)[order].reshape(rows, length)
    caution = Caution.of(Concern.KNOWN_CHAINS, known=known.sum(), chains=len(whole))
    return dataclasses.replace(
        reference,
        draws=whole[order].reshape(rows, length, dim),
        log_target=values,
        known=int(known.sum()) * reference.pieces,
        cautions=(*reference.cautions, caution),
    )
