"""Problems to start from: targets known exactly, and posteriors that repeat under relabelling."""

from folt.models.mixture import (
    MixturePosterior,
    bayesian_mixture,
    bayesian_mixture_data,
    mixture_log_likelihood,
)
from folt.models.modal import (
    ModalPosterior,
    Spectrum,
    modal_spectrum,
    scaled_spectrum,
    simulate_spectrum,
)
from folt.models.targets import (
    Banana,
    BrokenBanana,
    GaussianPair,
    LabelSwitching,
    banana,
    broken_banana,
    gaussian_pair,
    label_switching,
)

__all__ = [
    "Banana",
    "BrokenBanana",
    "GaussianPair",
    "LabelSwitching",
    "MixturePosterior",
    "ModalPosterior",
    "Spectrum",
    "banana",
    "bayesian_mixture",
    "bayesian_mixture_data",
    "broken_banana",
    "gaussian_pair",
    "label_switching",
    "mixture_log_likelihood",
    "modal_spectrum",
    "scaled_spectrum",
    "simulate_spectrum",
]
