"""Modes linked from window to window, and the tidy tables of all windows.

Within a window modes are numbered by frequency, and frequencies may cross. Where windows have
shapes, every mode continues the track whose last shape and frequency are most like its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from folt.fleet.rows import Row
from folt.store.strict_json import Document


@dataclasses.dataclass(frozen=True)
class Link:
    """The mode of a window as the continuation of a track.

    Attributes:
        track: its number, that of the mode in the first window.
        mac: with the shape of the window before; None in the first.
        sign: by which its shape is turned to agree with the one before.
    """

    track: int
    mac: float | None
    sign: float


def linked(rows: list[Row]) -> list[list[Link]]:
    """For every window and mode the track that it continues.

    Of all assignments of modes to tracks the one with the smallest sum of 1 - MAC and the shift of
    the frequency in half-power bandwidths, at most one, is taken: shapes tell close modes apart,
    frequencies those that have like shapes.
    """
    found: list[list[Link]] = []
    for row in rows:
        shapes, modes = _mean_shapes(row), row["modes"]
        if not found:
            found.append([Link(j + 1, None, 1.0) for j in range(len(modes))])
            last, before = shapes, modes
            continue
        cosine = shapes @ last.T
        shift = np.array([[_bandwidths(old, new) for old in before] for new in modes])
        _, places = linear_sum_assignment(1 - cosine**2 + np.minimum(shift, 1.0))
        signs = np.where(cosine[np.arange(len(modes)), places] < 0, -1.0, 1.0)
        found.append(
            [
                Link(int(place) + 1, float(cosine[j, place] ** 2), float(signs[j]))
                for j, place in enumerate(places)
            ]
        )
        # By track, signed as shown.
        order = np.argsort(places)
        last, before = (signs[:, None] * shapes)[order], [modes[j] for j in order]
    return found


def _bandwidths(old: Document, new: Document) -> float:
    """Shift of a frequency in half-power bandwidths of the earlier mode."""
    width = 2 * old["damping_percent"] / 100 * old["frequency_hz"]
    return float(abs(new["frequency_hz"] - old["frequency_hz"]) / width)


def _mean_shapes(row: Row) -> Float[np.ndarray, "mode channel"]:
    means = np.array([one["mean"] for one in row["shapes"]]).reshape(len(row["modes"]), -1)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def tidy(rows: list[Row], tracked: list[list[Link]] | None = None) -> list[Document]:
    """Return one row per window and mode, with its track where modes were linked."""
    none: list[list[Link | None]] = [[None] * len(row["modes"]) for row in rows]
    links: Sequence[Sequence[Link | None]] = none if tracked is None else tracked
    return [
        {
            "window": int(row["job"]),
            "start_s": row["start_s"],
            "end_s": row["end_s"],
            **mode,
            **({} if link is None else {"track": link.track, "mac": link.mac}),
            "verdict": row["verdict"],
            "started_from": row["started_from"] or "nothing",
            "accept": row["accept"],
            "log_evidence": row["log_evidence"],
        }
        for row, of_row in zip(rows, links, strict=True)
        for mode, link in zip(row["modes"], of_row, strict=True)
    ]


def tidy_shapes(rows: list[Row], tracked: list[list[Link]]) -> list[Document]:
    """One row per window, mode and channel; signs follow a track from window to window."""
    found = []
    for row, links in zip(rows, tracked, strict=True):
        for one in row["shapes"]:
            link = links[one["mode"] - 1]
            low, high = sorted((link.sign * one["low"], link.sign * one["high"]))
            found.append(
                {
                    "window": int(row["job"]),
                    "start_s": row["start_s"],
                    "end_s": row["end_s"],
                    "track": link.track,
                    "mode": one["mode"],
                    "channel": one["channel"],
                    "mean": link.sign * one["mean"],
                    "low": low,
                    "high": high,
                }
            )
    return found
