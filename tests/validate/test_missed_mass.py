"""What the certificate says of a proposal that misses a far pair of modes."""

from collections import Counter

import numpy as np
import pytest
from table import write_table

from missed import certificate_of

SEEDS = 20
SHARES = (0.005, 0.01, 0.03, 0.1, 0.3)


@pytest.mark.validate
def test_missed_mass_is_never_called_good():
    """From 1 % up, with and without the guard, over 20 seeds; half a percent is shown as it is."""
    rows, called_good = [], {}
    for guarded in (False, True):
        for missed in SHARES:
            made = [certificate_of(missed, seed, guarded=guarded) for seed in range(SEEDS)]
            names = Counter(certificate.status.name for certificate in made)
            called_good[guarded, missed] = names["good"]
            rows.append((missed, "yes" if guarded else "no", *_row(made, names)))
    write_table(
        "missed-mass",
        f"A proposal that misses a symmetric pair of modes at ±20: {SEEDS} seeds, exact reference",
        (
            "missed",
            "guard",
            "verdicts",
            "coverage",
            "its error",
            "steps to .05",
            "steps to .01",
            "Pareto k̂",
            "log Z (truth 0)",
            "its error",
        ),
        rows,
    )
    assert all(count == 0 for (_, missed), count in called_good.items() if missed >= 0.01)


def _row(made, names):
    def middle(values, digits):
        return f"{np.median(values):.{digits}f}"

    def steps(epsilon):
        found = [certificate.mixing.steps[epsilon] for certificate in made]
        return "–" if None in found else f"{max(found)}"

    return (
        ", ".join(f"{name} {count}" for name, count in names.most_common()),
        middle([c.coverage.value for c in made], 4),
        middle([c.coverage.standard_error for c in made], 4),
        steps(0.05),
        steps(0.01),
        middle([c.evidence.pareto_k for c in made], 2),
        middle([c.evidence.value for c in made], 4),
        middle([c.evidence.standard_error for c in made], 4),
    )
