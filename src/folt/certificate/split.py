"""Chains divided among training, selection and certificate."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt.certificate.held_out import HeldOut
from folt.certificate.learnt import Learnt
from folt.problem import Problem
from folt.reference import Caution, Reference
from folt.reference.cautions import Concern

Draws = Float[np.ndarray, "chain draw dim"]


DECIDING = 3_000
"""Independent held-out draws that a statement at 5 % needs: 2 ln(2/δ)/ρ², δ = ρ = .05, is 2951."""


class Split(NamedTuple):
    """Disjoint sets of chains: two to learn from, each (chain, draw, dim), and one under seal."""

    train: Draws
    select: Draws
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
    """Chains to learn from (at least two) and chains to certify with (at least one)."""
    learn = max(2, math.ceil(training / length))
    certify = max(1, math.ceil(certification / length))
    if learn + certify <= chains:
        return learn, certify
    shared = round(chains * training / (training + certification))
    spare = chains - math.ceil(DECIDING / length)
    if spare >= chains / 4:
        shared = min(shared, spare)
    learn = min(max(2, shared), chains - 1)
    return learn, chains - learn


def _in_whole_chains(learn: int, rows: int, length: int, pieces: int) -> int:
    """Rows to learn from, as whole chains; rounded down only where the seal needs the rest."""
    chains = rows // pieces
    if chains == 1:
        return learn
    needed = math.ceil(DECIDING / length)
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
