"""Chains divided among training, selection and certificate."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt.certificate.held_out import HeldOut
from folt.reference import Reference

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
    """Divide the chains among training, selection and certificate; no chain is in two parts.

    Draws of one chain resemble each other, so a division by random index would let the
    certificate see what training saw. The part for the certificate is sealed (`HeldOut`). Where
    there are fewer draws than asked for, the two demands shrink in proportion, but the
    certificate keeps as many as a statement at 5 % needs if that leaves a quarter to learn from.
    Selection gets a fifth of the chains not used to certify.

    Args:
        reference: at least three chains.
        training: draws for training and selection together.
        certification: draws for the certificate.
    """
    if training < 1 or certification < 1:
        raise ValueError(f"expected positive numbers of draws, got {training} and {certification}")
    chains, length, _ = reference.draws.shape
    if chains < 3:
        raise ValueError(f"expected at least 3 chains to split into three parts, got {chains}")
    learn, certify = _chains_per_part(chains, length, training, certification)
    select = min(max(1, round(learn / 5)), learn - 1)
    draws, known = reference.draws, reference.log_target
    sealed = slice(learn, learn + certify)
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
