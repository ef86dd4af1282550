"""A fit as ArviZ InferenceData."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import arviz

    from folt.fit import Fit


def to_inference_data(fit: Fit) -> arviz.InferenceData:
    """Posterior in the user's parameters, acceptance and log ratio as sample statistics.

    The certificate and the evidence are attributes of the posterior: numbers where netCDF allows
    them, one JSON string for the whole.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz

    data = arviz.from_dict(
        posterior={name: np.asarray(value) for name, value in fit.posterior.items()},
        sample_stats={"log_ratio": fit.log_ratio, "accepted": fit.accepted.astype(np.int8)},
    )
    data.posterior.attrs.update(attributes(fit))
    return data


def attributes(fit: Fit) -> dict[str, Any]:
    """What netCDF can hold of the verdict."""
    evidence = fit.log_evidence
    return {
        "inference_library": "folt",
        "inference_library_version": fit.provenance["versions"]["folt"],
        "folt_status": fit.certificate.status.name,
        "folt_advice": fit.certificate.status.advice,
        "folt_accept_rate": fit.accept_rate,
        "folt_log_evidence": evidence.value,
        "folt_log_evidence_standard_error": evidence.standard_error,
        "folt_certificate": json.dumps(fit.certificate.to_dict()),
    }
