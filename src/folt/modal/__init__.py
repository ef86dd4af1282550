"""Modal identification: from accelerometers to natural frequencies and damping ratios.

Records become a spectrum (`welch`), with the transform of all channels where shapes are wanted
(`measured_channels`), these become a posterior (`folt.models.modal_shapes`,
`folt.models.modal_powers` or the paper's `folt.models.modal_spectrum`), a posterior becomes a table
of modes (`identify`, or `identify_bands` for several bands), and a long record a table over time
(`track`).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from folt.modal.bands import band_rows, identify_bands
    from folt.modal.cross_spectra import welch
    from folt.modal.identification import Identification, Settings, identify
    from folt.modal.reading import read_record
    from folt.modal.shapes import mac_rows, measured_channels, shape_draws, shape_rows
    from folt.modal.simulation import Structure, simulate_record
    from folt.modal.spectrum import Measured, Record, read_spectrum
    from folt.modal.table import ModeRow, mode_rows
    from folt.modal.tracking import track

_HOMES = {
    "folt.modal.bands": "band_rows identify_bands",
    "folt.modal.cross_spectra": "welch",
    "folt.modal.identification": "Identification Settings identify",
    "folt.modal.reading": "read_record",
    "folt.modal.shapes": "mac_rows measured_channels shape_draws shape_rows",
    "folt.modal.simulation": "Structure simulate_record",
    "folt.modal.spectrum": "Measured Record read_spectrum",
    "folt.modal.table": "ModeRow mode_rows",
    "folt.modal.tracking": "track",
}
"""The names that each module defines, separated by spaces."""
_MODULES = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Identification",
    "Measured",
    "ModeRow",
    "Record",
    "Settings",
    "Structure",
    "band_rows",
    "identify",
    "identify_bands",
    "mac_rows",
    "measured_channels",
    "mode_rows",
    "read_record",
    "read_spectrum",
    "shape_draws",
    "shape_rows",
    "simulate_record",
    "track",
    "welch",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `folt --help` does not wait for JAX."""
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'folt.modal' has no attribute {name!r}")
