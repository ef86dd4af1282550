"""Which draws a proposal has learnt from, kept as digests, so that none of them judges it later.

A fit may start from an earlier one, whose proposal has seen draws already. Digests are kept by draw
and not by chain: a chain that comes again thinned, sliced, reordered, cut otherwise or under other
labels is recognised all the same. They are those of the user's parameters at the folded draw, so
that auxiliary coordinates, which are drawn anew whenever draws are brought by name, do not hide it.
Draws that were rounded to single precision in between, and draws of a known chain that were left
out by thinning before, cannot be recognised.
"""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
from jaxtyping import Bool, Float, UInt64

from folt.problem import Problem

MOST = 16_384
"""Digests that are kept, eight bytes each; of more draws, those whose digests are smallest."""

EVERY = 2**64 - 1
"""The largest digest there is."""

BITS = 44
"""Significant bits of a number that enter its digest: coordinates and back costs a few of 53."""

KNOWN_SHARE = 0.01
"""Share of known draws above which a chain is known; independent draws have none in common."""


@dataclasses.dataclass(frozen=True, eq=False)
class Learnt:
    """Digests of the draws that a proposal and those it started from have learnt from.

    Attributes:
        digests: in increasing order, none twice.
        limit: draws with a larger digest were left out.
        draws: how many draws there were in all.
    """

    digests: UInt64[np.ndarray, " n"]
    limit: int = EVERY
    draws: int = 0

    @classmethod
    def of(cls, problem: Problem, draws: Float[np.ndarray, "*lead dim"]) -> Learnt:
        """The digests of folded draws."""
        found = digests_of(problem, draws).ravel()
        return cls(np.unique(found), draws=found.size)._short()

    def __or__(self, other: Learnt) -> Learnt:
        """What either has learnt from."""
        limit = min(self.limit, other.limit)
        both = np.union1d(self.digests, other.digests)
        kept = both[both <= np.uint64(limit)]
        return Learnt(kept, limit, self.draws + other.draws)._short()

    def knows(
        self, problem: Problem, draws: Float[np.ndarray, "chain draw dim"]
    ) -> Bool[np.ndarray, " chain"]:
        """Which chains of folded draws were learnt from, in whatever arrangement."""
        found = digests_of(problem, draws)
        compared = found <= np.uint64(self.limit)
        known = np.isin(found, self.digests) & compared
        # One known draw may be where all chains began.
        return known.sum(axis=1) > np.maximum(KNOWN_SHARE * compared.sum(axis=1), 1.0)

    @property
    def digest(self) -> str:
        """SHA-256 of all digests, by which two sets can be told apart."""
        return hashlib.sha256(self.digests.astype("<u8").tobytes()).hexdigest()

    @property
    def number(self) -> int:
        """A number for a stream of random numbers that is apart from that of the earlier fit."""
        return int(self.digest[:8], 16)

    def _short(self) -> Learnt:
        if self.digests.size <= MOST:
            return self
        kept = self.digests[:MOST]
        return dataclasses.replace(self, digests=kept, limit=int(kept[-1]))


def digests_of(
    problem: Problem, draws: Float[np.ndarray, "*lead dim"]
) -> UInt64[np.ndarray, "*lead"]:
    """A number of 64 bits for every draw, the same for equal parameters up to rounding."""
    lead, points = draws.shape[:-1], draws.reshape(-1, problem.dim)
    named = problem.parameters(points)
    columns = [
        np.asarray(named[name], np.float64).reshape(len(points), -1) for name in sorted(named)
    ]
    # Adding zero turns -0 into 0.
    mantissas, exponents = np.frexp(np.concatenate(columns, axis=1) + 0.0)
    rounded = np.ldexp(np.rint(np.ldexp(mantissas, BITS)), exponents).astype("<f8")
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rounded]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64).reshape(lead)
