"""Problems to start from: targets known exactly, and posteriors that repeat under relabelling.

Every model is a function from data to a `Problem`. Its module also has `pointwise`, the log
likelihood of every observation, and `predict`, which simulates data like those observed; both take
the parameters as `Problem.parameters` names them.
"""

import importlib
from typing import TYPE_CHECKING, Any

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
    from folt.models import datasets
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
    from folt.models.multivariate import (
        MultivariateMixturePosterior,
        multivariate_gaussian_mixture,
        simulate_multivariate_gaussian_mixture,
    )
    from folt.models.network import LatentSpacePosterior, latent_space
    from folt.models.poisson import (
        PoissonMixturePosterior,
        poisson_mixture,
        simulate_poisson_mixture,
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

_HOMES = {
    "folt.modal.models.ordinates": "FourierOrdinates fourier_ordinates scaled_ordinates",
    "folt.modal.models.powers": "ModalPowersPosterior modal_powers simulate_powers",
    "folt.modal.models.shapes": "ModalShapesPosterior modal_shapes simulate_shapes",
    "folt.modal.models.spectrum": "AveragedSpectrum ModalPosterior Spectrum averaged_spectrum "
    "modal_spectrum scaled_spectrum simulate_spectrum",
    "folt.models.factors": "FactorPosterior factor_analysis ppca rotation_defect "
    "simulate_factor_analysis",
    "folt.models.gaussian": "GaussianMixturePosterior gaussian_mixture simulate_gaussian_mixture",
    "folt.models.markov": "HiddenMarkovPosterior hidden_markov simulate_hidden_markov",
    "folt.models.mixture": "MixturePosterior bayesian_mixture bayesian_mixture_data "
    "mixture_log_likelihood",
    "folt.models.multivariate": "MultivariateMixturePosterior multivariate_gaussian_mixture "
    "simulate_multivariate_gaussian_mixture",
    "folt.models.network": "LatentSpacePosterior latent_space",
    "folt.models.poisson": "PoissonMixturePosterior poisson_mixture simulate_poisson_mixture",
    "folt.models.targets": "Banana BrokenBanana GaussianPair LabelSwitching banana broken_banana "
    "gaussian_pair label_switching",
}
"""The names that each module defines, separated by spaces; vibration's models live in its room."""
_MODULES = {name: home for home, names in _HOMES.items() for name in names.split()}

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
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'folt.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what can be asked for, imported or not."""
    return sorted(__all__)
