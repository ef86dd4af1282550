"""Three closely spaced modes of a tower from 30 minutes of 15 accelerometers."""

import jax

from folt.modal import identify, mode_rows, simulate_record, welch

record = simulate_record(jax.random.key(1))
spectrum = welch(record, band=(0.7, 1.1))
found = identify(spectrum, modes=3)
for row in mode_rows(found.fit, spectrum.resolution):
    print(f"{row.frequency_hz:.4f} Hz, damping {row.damping_percent:.2f} %")
print(found.fit.summary())
