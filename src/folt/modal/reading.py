"""Records as loggers write them: channels, and the rate that the clock beside them tells."""

from __future__ import annotations

from pathlib import Path

from folt.modal.arrays import ARRAYS, table_of_arrays
from folt.modal.clock import clocks_of, rate_of
from folt.modal.records import Record, record_of
from folt.store.columns import Kind, Table, suspected
from folt.store.tables import read_table


def read_record(path: str | Path, rate: float | None = None, channels: str = "") -> Record:
    """Read a record from text, a spreadsheet, Parquet, .npy, .npz or .mat.

    A column of times or dates, such as `Time (s)`, gives the rate and is held against the one
    given.

    Args:
        path: the file, one column per channel.
        rate: samples per second.
        channels: names of channels or numbers of columns from 1, as in `a,b`; empty for all.

    Raises:
        ValueError: the file cannot be used, in one sentence.
    """
    path = Path(path)
    if path.suffix.lower() in ARRAYS:
        table, stated = table_of_arrays(path)
    else:
        table, stated = read_table(path, missing=()), None
    if stated is not None and rate is not None and abs(rate / stated - 1) > 0.001:
        raise ValueError(f"{path} says {stated:g} Hz, --rate says {rate:g} Hz")
    clocks = clocks_of(table)
    chosen = _channels(table, [clock.position for clock in clocks], channels)
    values = table.numbers(chosen)
    for j, position in enumerate(chosen):
        if (row := suspected(values[:, j])) is not None:
            raise ValueError(
                f"{table.place(position, row)}: {values[row, j]:g} lies far from all other samples "
                "and may stand for a missing one: expected a record without gaps"
            )
    found, notes = rate_of(table, clocks, rate if rate is not None else stated)
    if not channels:
        notes = (table.aside([*chosen, *(clock.position for clock in clocks)]), *notes)
    names = [table.names[j] if table.named else str(j + 1) for j in chosen]
    if not table.named and not channels:  # counted without the clock
        names = [str(j + 1) for j in range(len(chosen))]
    record = record_of(values, found, tuple(names), lines=table.lines)
    return Record(
        record.values, record.rate, record.names, tuple(filter(None, (*table.notes, *notes)))
    )


def _channels(table: Table, clocks: list[int], channels: str) -> list[int]:
    """The positions of the channels that are asked for, or of all columns of numbers."""
    chosen = table.choose(channels, "--channels")
    for j in chosen:
        if j in clocks:
            raise ValueError(f"{table.place(j)} is the clock: expected channels in --channels")
    found = chosen or [j for j in table.of_kind(Kind.NUMBERS) if j not in clocks]
    if not found:
        table.numbers()  # says what the columns hold
        raise ValueError(f"{table.where} has a clock and no channel: expected columns of samples")
    return found
