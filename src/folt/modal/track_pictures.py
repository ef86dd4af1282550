"""Figures over the windows of a long record: frequency, damping and shapes of every mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from folt.certificate.outcomes import Outcome
from folt.report.style import LINE, PALETTE, QUIET, blank, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

LONG_TRACK = 90.0
"""Minutes from which on windows are counted in hours."""

MOST_TRACKS = 6
"""Channels up to which shapes over time are lines; more are a map of colours."""


def track_figure(rows: Sequence[Document]) -> Figure:
    """Return the frequency and damping of every mode over time, with 95 % intervals.

    Args:
        rows: of the tidy table, one per window and mode.
    """
    time, unit = _middles(rows)
    tracks = np.array([row.get("track", row["mode"]) for row in rows])
    with styled():
        figure = blank(7.8, 5.0)
        panels = figure.subplots(2, 1, sharex=True, height_ratios=[1.2, 1])
        for track in np.unique(tracks).tolist():
            chosen = tracks == track
            shift = 0.008 * float(np.ptp(time)) * (track - np.mean(np.unique(tracks)))
            own = [row for row, there in zip(rows, chosen, strict=True) if there]
            _track(panels[0], time[chosen] + shift, own, ("frequency_hz", "frequency"), track)
            _track(panels[1], time[chosen] + shift, own, ("damping_percent", "damping"), track)
        panels[0].set_ylabel("natural frequency, Hz")
        panels[1].set_ylabel("damping ratio, %")
        panels[1].set_ylim(bottom=0)
        panels[1].set_xlabel(f"middle of the window, {unit}")
        for panel in panels:
            panel.grid(axis="y", color=LINE, linewidth=0.6)
            panel.set_axisbelow(True)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _middles(rows: Sequence[Document]) -> tuple[Float[np.ndarray, " row"], str]:
    """Return the middle of the window of every row, in minutes, or in hours where they are long."""
    minutes = np.array([0.5 * (row["start_s"] + row["end_s"]) for row in rows]) / 60
    long = float(np.ptp(minutes)) > LONG_TRACK
    return (minutes / 60, "hours") if long else (minutes, "minutes")


def _track(
    panel: Axes, time: np.ndarray, rows: Sequence[Document], names: tuple[str, str], track: int
) -> None:
    """Draw a line through the medians of a track, bars, hollow dots where a fit is not usable.

    Args:
        panel: where to draw.
        time: middle of every window.
        rows: of this track.
        names: of the median, and of the quantity whose ends are its low and high.
        track: its number.
    """
    colour = PALETTE[(track - 1) % len(PALETTE)]
    keys = (names[0], f"{names[1]}_low", f"{names[1]}_high")
    value, low, high = (np.array([row[key] for row in rows]) for key in keys)
    doubt = np.array([not Outcome.named(row["verdict"]).usable for row in rows])
    panel.plot(time, value, color=colour, linewidth=1.2, alpha=0.7)
    panel.vlines(time, low, high, color=colour, linewidth=1.6, alpha=0.45)
    panel.plot(time, value, "o", color=colour, markersize=4.5, label=f"mode {track}")
    panel.plot(time[doubt], value[doubt], "o", color=colour, markersize=4.5, mfc="white")


class ShapeTracks(NamedTuple):
    """Shapes of all windows by track, from the tidy table; NaN where a window has no such mode.

    Attributes:
        time: middles of the windows, in minutes, or in hours where they are many.
        unit: of the time, in words.
        tracks: their numbers.
        channels: their names.
        mean: of every entry.
        low: lower end of its 95 % interval.
        high: upper end.
    """

    time: Float[np.ndarray, " window"]
    unit: str
    tracks: list[int]
    channels: list[str]
    mean: Float[np.ndarray, "track window channel"]
    low: Float[np.ndarray, "track window channel"]
    high: Float[np.ndarray, "track window channel"]

    @classmethod
    def of(cls, rows: Sequence[Document]) -> ShapeTracks:
        """Tracks of the rows, one per window, track and channel."""
        windows = {row["window"]: row for row in rows}
        time, unit = _middles(list(windows.values()))
        tracks = sorted({row["track"] for row in rows})
        channels = list(dict.fromkeys(row["channel"] for row in rows))
        found = np.full((3, len(tracks), len(windows), len(channels)), np.nan)
        places = {window: k for k, window in enumerate(windows)}
        for row in rows:
            place = tracks.index(row["track"]), places[row["window"]], row["channel"]
            found[(slice(None), *place[:2], channels.index(place[2]))] = [
                row[key] for key in ("mean", "low", "high")
            ]
        return cls(time, unit, tracks, channels, *found)

    def mac(self) -> Float[np.ndarray, "track window"]:
        """MAC of the shape of every window with the track's own shape over all windows."""
        length = np.linalg.norm(self.mean, axis=2, keepdims=True)
        unit = self.mean / length
        kept = np.nan_to_num(unit)
        whole = np.linalg.eigh(np.einsum("twc,twd->tcd", kept, kept))[1][..., -1]
        return np.einsum("twc,tc->tw", unit, whole) ** 2


def shape_tracks_figure(rows: Sequence[Document]) -> Figure:
    """Shapes over time, one panel per track, and at the end how far they stay what they were.

    Few channels are lines with 95 % bands, many are a map of colours. The last panel has the MAC of
    every window's shape with the shape of its track over all windows.

    Args:
        rows: one per window, track and channel.
    """
    found = ShapeTracks.of(rows)
    many, count = len(found.channels) > MOST_TRACKS, len(found.tracks)
    heights = [*[1.2 + 0.11 * len(found.channels) if many else 1.7] * count, 1.4]
    with styled():
        figure = blank(7.8, 0.9 + sum(heights))
        panels = figure.subplots(count + 1, 1, sharex=True, height_ratios=heights)
        for k, panel in enumerate(panels[:-1]):
            if many:
                coloured = _shape_map(panel, found, k)
            else:
                _shape_lines(panel, found, k)
            panel.set_title(f"mode {found.tracks[k]}", loc="left")
        for k, values in enumerate(found.mac()):
            name = f"mode {found.tracks[k]}"
            colour = PALETTE[k % len(PALETTE)]
            panels[-1].plot(found.time, values, "o-", color=colour, markersize=3, label=name)
        panels[-1].set_title("MAC with the shape over all windows", loc="left")
        lowest = min(0.99, panels[-1].get_ylim()[0])
        panels[-1].set_ylim(lowest, 1.0 + 0.06 * (1.0 - lowest))
        panels[-1].ticklabel_format(axis="y", useOffset=False)
        panels[-1].set_ylabel("MAC")
        panels[-1].legend(loc="lower left", ncols=count)
        panels[-1].grid(axis="y", color=LINE, linewidth=0.6)
        panels[-1].set_xlabel(f"middle of the window, {found.unit}")
        if many:
            figure.colorbar(coloured, ax=panels[:-1].tolist(), label="shape", fraction=0.04)
        else:
            handles, labels = panels[0].get_legend_handles_labels()
            figure.legend(handles, labels, title="channel", loc="outside right upper")
    return figure


def _shape_lines(panel: Axes, found: ShapeTracks, track: int) -> None:
    """A line per channel with its 95 % band."""
    panel.axhline(0.0, color=QUIET, linewidth=0.8)
    for c, name in enumerate(found.channels):
        colour = PALETTE[c % len(PALETTE)]
        mean, low, high = (part[track, :, c] for part in (found.mean, found.low, found.high))
        panel.fill_between(found.time, low, high, color=colour, alpha=0.18, lw=0)
        panel.plot(found.time, mean, "o-", color=colour, markersize=3, label=name)
    panel.set_ylim(-1.05, 1.05)
    panel.set_ylabel("shape")


def _shape_map(panel: Axes, found: ShapeTracks, track: int) -> QuadMesh:
    """Entries of a shape by colour, a row per channel and a column per window."""
    largest = float(np.nanmax(np.abs(found.mean)))
    rows = np.arange(len(found.channels))
    step = np.diff(found.time).min() if found.time.size > 1 else 1.0
    edges = np.concatenate([found.time - 0.5 * step, found.time[-1:] + 0.5 * step])
    panel.set_yticks(rows[::2], found.channels[::2], fontsize=7)
    panel.set_ylabel("channel")
    return panel.pcolormesh(
        edges,
        np.arange(len(rows) + 1) - 0.5,
        found.mean[track].T,
        cmap="PuOr",
        vmin=-largest,
        vmax=largest,
        rasterized=True,
    )
