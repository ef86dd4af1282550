"""Problems to start from: targets known exactly, and posteriors that repeat under relabelling.

Every model is a function from data to a `Problem`. Its module also has `pointwise`, the log
likelihood of every observation, and `predict`, which simulates data like those observed; both take
the parameters as `Problem.parameters` names them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from folt.models import datasets
    from folt.models.averaged import AveragedSpectrum, averaged_spectrum
    from folt.models.factors import (
        FactorPosterior,
        factor_analysis,
        ppca,
        rotation_defect,
        simulate_factor_analysis,
    )
    from folt.models.gaussian import (
        GaussianMixturePosterior,
        gaussian_mixture,
        simulate_gaussian_mixture,
    )
    from folt.models.markov import HiddenMarkovPosterior, hidden_markov, simulate_hidden_markov
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
    from folt.models.multivariate import (
        MultivariateMixturePosterior,
        multivariate_gaussian_mixture,
        simulate_multivariate_gaussian_mixture,
    )
    from folt.models.network import LatentSpacePosterior, latent_space
    from folt.models.ordinates import FourierOrdinates, fourier_ordinates, scaled_ordinates
    from folt.models.poisson import (
        PoissonMixturePosterior,
        poisson_mixture,
        simulate_poisson_mixture,
    )
    from folt.models.powers import ModalPowersPosterior, modal_powers, simulate_powers
    from folt.models.shapes import ModalShapesPosterior, modal_shapes, simulate_shapes
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

_MODULES = {
    "AveragedSpectrum": "averaged",
    "Banana": "targets",
    "BrokenBanana": "targets",
    "FactorPosterior": "factors",
    "FourierOrdinates": "ordinates",
    "GaussianMixturePosterior": "gaussian",
    "GaussianPair": "targets",
    "HiddenMarkovPosterior": "markov",
    "LabelSwitching": "targets",
    "LatentSpacePosterior": "network",
    "MixturePosterior": "mixture",
    "ModalPosterior": "modal",
    "ModalPowersPosterior": "powers",
    "ModalShapesPosterior": "shapes",
    "MultivariateMixturePosterior": "multivariate",
    "PoissonMixturePosterior": "poisson",
    "Spectrum": "modal",
    "averaged_spectrum": "averaged",
    "banana": "targets",
    "bayesian_mixture": "mixture",
    "bayesian_mixture_data": "mixture",
    "broken_banana": "targets",
    "factor_analysis": "factors",
    "fourier_ordinates": "ordinates",
    "gaussian_mixture": "gaussian",
    "gaussian_pair": "targets",
    "hidden_markov": "markov",
    "label_switching": "targets",
    "latent_space": "network",
    "mixture_log_likelihood": "mixture",
    "modal_powers": "powers",
    "modal_shapes": "shapes",
    "modal_spectrum": "modal",
    "multivariate_gaussian_mixture": "multivariate",
    "poisson_mixture": "poisson",
    "ppca": "factors",
    "rotation_defect": "factors",
    "scaled_ordinates": "ordinates",
    "scaled_spectrum": "modal",
    "simulate_factor_analysis": "factors",
    "simulate_gaussian_mixture": "gaussian",
    "simulate_hidden_markov": "markov",
    "simulate_multivariate_gaussian_mixture": "multivariate",
    "simulate_poisson_mixture": "poisson",
    "simulate_powers": "powers",
    "simulate_shapes": "shapes",
    "simulate_spectrum": "modal",
}

__all__ = [
    "AveragedSpectrum",
    "Banana",
    "BrokenBanana",
    "FactorPosterior",
    "FourierOrdinates",
    "GaussianMixturePosterior",
    "GaussianPair",
    "HiddenMarkovPosterior",
    "LabelSwitching",
    "LatentSpacePosterior",
    "MixturePosterior",
    "ModalPosterior",
    "ModalPowersPosterior",
    "ModalShapesPosterior",
    "MultivariateMixturePosterior",
    "PoissonMixturePosterior",
    "Spectrum",
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
    "rotation_defect",
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
    """Import a model on first use: a user of one of them does not wait for all."""
    if name == "datasets":
        return importlib.import_module("folt.models.datasets")
    if name in _MODULES:
        return getattr(importlib.import_module(f"folt.models.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'folt.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what can be asked for, imported or not."""
    return sorted(__all__)
