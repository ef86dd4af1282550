"""Limits that are known before anything is imported or computed."""

from __future__ import annotations

MOST_LABELS = 14
"""Most exchangeable labels that a sum over all their orders takes: it goes through 2^m sets."""

MOST_LIKELY_LABELS = 20
"""Most exchangeable labels at all: beyond those above, the likeliest orders alone are summed."""


def require_labels(word: str, count: int) -> None:
    """Refuse more exchangeable labels than any proposal can be summed over.

    Args:
        word: what the labels are called.
        count: how many there are.

    Raises:
        ValueError: with the largest number.
    """
    if count > MOST_LIKELY_LABELS:
        raise ValueError(f"expected at most {MOST_LIKELY_LABELS} {word}, got {count}")
