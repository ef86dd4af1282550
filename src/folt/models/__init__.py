"""Problems to start from: targets known exactly, and posteriors that repeat under relabelling.

Every model is a function from data to a `Problem`, with the log likelihood of every observation
(`Problem.pointwise`) and new data like those observed (`Problem.predictive`).
"""

import importlib
from typing import TYPE_CHECKING, Any

from folt.models import datasets
from folt.models.equal_weights import (
    MixturePosterior,
    bayesian_mixture,
    bayesian_mixture_data,
    mixture_log_likelihood,
)
from folt.models.factors import FactorPosterior, factor_analysis, ppca, simulate_factor_analysis
from folt.models.markov import HiddenMarkovPosterior, hidden_markov, simulate_hidden_markov
from folt.models.mixtures import (
    WeightedMixturePosterior,
    gaussian_mixture,
    poisson_mixture,
    simulate_gaussian_mixture,
    simulate_poisson_mixture,
)
from folt.models.multivariate import (
    MultivariateMixturePosterior,
    multivariate_gaussian_mixture,
    simulate_multivariate_gaussian_mixture,
)
from folt.models.network import LatentSpacePosterior, latent_space
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

if TYPE_CHECKING:
    from folt.modal.models.ordinates import FourierOrdinates, fourier_ordinates, scaled_ordinates
    from folt.modal.models.powers import ModalPowersPosterior, modal_powers, simulate_powers
    from folt.modal.models.shapes import ModalShapesPosterior, modal_shapes, simulate_shapes
    from folt.modal.models.spectrum import (
        AveragedSpectrum,
        ModalPosterior,
        Spectrum,
        averaged_spectrum,
        modal_spectrum,
        scaled_spectrum,
        simulate_spectrum,
    )

_OF_VIBRATION = {
    "ordinates": "FourierOrdinates fourier_ordinates scaled_ordinates",
    "powers": "ModalPowersPosterior modal_powers simulate_powers",
    "shapes": "ModalShapesPosterior modal_shapes simulate_shapes",
    "spectrum": "AveragedSpectrum ModalPosterior Spectrum averaged_spectrum modal_spectrum "
    "scaled_spectrum simulate_spectrum",
}
"""The names that each module of `folt.modal.models` defines, separated by spaces."""

__all__ = [
    "AveragedSpectrum",
    "Banana",
    "BrokenBanana",
    "FactorPosterior",
    "FourierOrdinates",
    "GaussianPair",
    "HiddenMarkovPosterior",
    "LabelSwitching",
    "LatentSpacePosterior",
    "MixturePosterior",
    "ModalPosterior",
    "ModalPowersPosterior",
    "ModalShapesPosterior",
    "MultivariateMixturePosterior",
    "Spectrum",
    "WeightedMixturePosterior",
    "averaged_spectrum",
    "banana",
    "bayesian_mixture",
    "bayesian_mixture_data",
    "broken_banana",
    "datasets",
    "factor_analysis",
    "fourier_ordinates",
    "gaussian_mixture",
    "gaussian_pair",
    "hidden_markov",
    "label_switching",
    "latent_space",
    "mixture_log_likelihood",
    "modal_powers",
    "modal_shapes",
    "modal_spectrum",
    "multivariate_gaussian_mixture",
    "poisson_mixture",
    "ppca",
    "scaled_ordinates",
    "scaled_spectrum",
    "simulate_factor_analysis",
    "simulate_gaussian_mixture",
    "simulate_hidden_markov",
    "simulate_multivariate_gaussian_mixture",
    "simulate_poisson_mixture",
    "simulate_powers",
    "simulate_shapes",
    "simulate_spectrum",
]


def __getattr__(name: str) -> Any:
    """Import the models of vibration on first use: their room stands above this one."""
    for module, names in _OF_VIBRATION.items():
        if name in names.split():
            return getattr(importlib.import_module(f"folt.modal.models.{module}"), name)
    raise AttributeError(f"module 'folt.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what can be asked for, imported or not."""
    return sorted(__all__)
