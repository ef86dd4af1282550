"""Modal identification: from accelerometers to natural frequencies and damping ratios.

Records become a spectrum (`welch`), with the transform of all channels where shapes are wanted
(`measured_channels`), these become a posterior (`folt.models.modal_shapes`,
`folt.models.modal_powers` or the paper's `folt.models.modal_spectrum`), a posterior becomes a table
of modes (`identify`, or `identify_bands` for several bands), and a long record a table over time
(`track`).
"""

from folt.modal.bands import band_rows, identify_bands
from folt.modal.cross_spectra import welch
from folt.modal.geometry import Structure, simulate_record
from folt.modal.identification import Identification, Settings, identify
from folt.modal.reading import read_record
from folt.modal.shapes import mac_rows, measured_channels, shape_draws, shape_rows
from folt.modal.spectrum import Measured, Record, read_spectrum
from folt.modal.table import ModeRow, mode_rows
from folt.modal.tracking import track

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
