"""Certificates made worse in one respect, so that every outcome can be shown."""

import dataclasses

from folt.certificate.diagnostics.coverage import Coverage, Faults
from folt.certificate.diagnostics.evidence import Difference
from folt.certificate.diagnostics.switching import Switching
from folt.problem.ratio import BoundaryMass


def altered(certificate, **parts):
    """The certificate with parts of its parts replaced: `chains={"accept_rate": 0.3}`."""
    changed = {
        name: dataclasses.replace(getattr(certificate, name), **change)
        if isinstance(change, dict)
        else change
        for name, change in parts.items()
    }
    return dataclasses.replace(certificate, **changed)


def with_shape(evidences, shape):
    """Evidences whose plain weights have this Pareto k̂."""
    parts = {
        name: dataclasses.replace(getattr(evidences, name), pareto_k=shape)
        for name in ("importance", "psis", "bridge")
    }
    return dataclasses.replace(evidences, **parts)


def steps(to_tenth, to_twentieth, to_hundredth):
    return {"steps": {0.1: to_tenth, 0.05: to_twentieth, 0.01: to_hundredth}}


AMBIGUOUS = {"boundary": BoundaryMass(0.0, 0.0, 0.4, 0.1, 1.0)}

SWITCHING = Switching("mu[0]", "mu[1]", 1e-9, 0.01, 1, 4000)

WORSE = {
    "good": {},
    "fair": {"chains": {"accept_rate": 0.3}},
    "ambiguous labels": {"symmetry": AMBIGUOUS},
    "symmetry suspected": {"symmetry": {"order": 1, "switching": SWITCHING}},
    "poor": {"chains": {"accept_rate": 0.02}},
    "heavy tail": {"mixing": steps(9, None, None)},
    "undecided": {"effective": 200.0},
    "evidence in doubt": {"evidences": {"difference": Difference(0.1, 0.01)}},
    "reference in doubt": {"reference": {"rhat": 1.2, "exact": False}},
    "uncovered": {"coverage": Coverage(0.8, 0.01, 0.8)},
    "broken symmetry": {"symmetry": {**AMBIGUOUS, "defect": 0.1, "holds": False}},
    "faulty": {"faults": Faults(0, 1, 0)},
    "frozen": {"chains": {"accept_rate": 0.02, "frozen": (0, 2)}},
}
"""What alone brings about each outcome, from the mildest to the gravest."""


def worse(certificate, outcome):
    """A good certificate altered so that its verdict is this one."""
    return altered(certificate, **WORSE[outcome])
