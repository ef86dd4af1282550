"""Records as loggers write them: channels, and the rate that the clock beside them tells.

Records in files of arrays: NumPy's and MATLAB's.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from folt.modal.clock import clocks_of, rate_of
from folt.modal.spectrum import Record, record_of
from folt.store.columns import Column, ColumnKind, Table, suspected
from folt.store.files import require_readable
from folt.store.layout import TIME_NAMES
from folt.store.tables import read_table

_ARRAYS = (".npy", ".npz", ".mat")

RATES = frozenset(
    ["fs", "f_s", "rate", "sr", "sampling_rate", "samplerate", "sample_rate", "fsamp"]
)
"""Names of a number that is the sampling rate in Hz."""

_STEPS = frozenset(["dt", "delta_t", "deltat"])
"""Names of a number that is the time between samples in seconds."""


def table_of_arrays(path: Path) -> tuple[Table, float | None]:
    """The arrays of a file as columns, and the sampling rate where a number in it is named so.

    Raises:
        ValueError: the file cannot be read, or its arrays are not samples of one length.
    """
    arrays = _loaded(path)
    rate = None
    for name in list(arrays):
        if arrays[name].size == 1 and name.lower() in RATES | _STEPS:
            value = float(arrays.pop(name).ravel()[0])
            if not 0 < value < np.inf:
                raise ValueError(f"{path}: expected a positive {name}, got {value:g}")
            rate = value if name.lower() in RATES else 1 / value
    columns = {name: _samples(path, array) for name, array in arrays.items() if array.size > 1}
    shapes = ", ".join(f"{name} {array.shape}".strip() for name, array in arrays.items())
    if not columns or len({len(array) for array in columns.values()}) > 1:
        raise ValueError(f"{path}: expected arrays of as many samples each, got {shapes or 'none'}")
    alone = [name for name in columns if not TIME_NAMES.fullmatch(name)]
    found = []
    for name, array in columns.items():
        single = array.shape[1] == 1
        for j, values in enumerate(array.T):
            known = name if single and (name or len(columns) > 1) else f"{name} {j + 1}"
            own = str(j + 1) if alone == [name] else known
            found.append(Column(own, ColumnKind.NUMBERS, values.astype(float)))
    lines = np.arange(1, len(found[0].values) + 1)
    return Table(str(path), tuple(found), lines, named=True, row_word="sample"), rate


def _samples(path: Path, array: np.ndarray) -> np.ndarray:
    """An array by sample and channel; MATLAB writes a vector as a matrix with one row or column."""
    if array.ndim == 1 or (array.ndim == 2 and array.shape[0] == 1):
        array = array.reshape(-1, 1)
    if array.ndim != 2:
        raise ValueError(f"{path}: expected a record of shape (sample, channel), got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{path}: expected a record of real numbers, got {array.dtype}")
    if array.shape[0] <= array.shape[1]:
        raise ValueError(
            f"{path}: expected one column per channel and more samples than channels, got "
            f"{array.shape[0]} rows and {array.shape[1]} columns"
        )
    return array


def _loaded(path: Path) -> dict[str, np.ndarray]:
    matlab = path.suffix.lower() == ".mat"
    try:
        require_readable(path)
        if matlab:
            from scipy.io import loadmat

            variables = loadmat(path)
            return {name: np.asarray(v) for name, v in variables.items() if name[:2] != "__"}
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
    except NotImplementedError as error:
        raise ValueError(f"{path} is a file of MATLAB 7.3: save it with the option -v7") from error
    except Exception as error:  # whatever is made of a file that is damaged or forged
        raise ValueError(
            f"{path} is not a {'MATLAB' if matlab else 'NumPy'} file of numbers"
        ) from (error)


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
    if path.suffix.lower() in _ARRAYS:
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
    units = sorted({table.columns[j].unit for j in chosen})
    if len(units) > 1:
        several = ", ".join(unit or "none" for unit in units)
        notes = (*notes, f"{path} names several units of its channels ({several})")
    return dataclasses.replace(
        record_of(values, found, tuple(names), lines=table.lines),
        notes=tuple(filter(None, (*table.notes, *notes))),
        unit=units[0] if len(units) == 1 else "",
    )


def _channels(table: Table, clocks: list[int], channels: str) -> list[int]:
    """Return the positions of the channels that are asked for, or of all columns of numbers."""
    chosen = table.choose(channels, "--channels")
    for j in chosen:
        if j in clocks:
            raise ValueError(f"{table.place(j)} is the clock: expected channels in --channels")
    found = chosen or [j for j in table.of_kind(ColumnKind.NUMBERS) if j not in clocks]
    if not found:
        table.numbers()  # says what the columns hold
        raise ValueError(f"{table.where} has a clock and no channel: expected columns of samples")
    return found
