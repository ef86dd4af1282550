"""Problems to start from: targets known exactly, and posteriors that repeat under relabelling.

Every model is a function from data to a `Problem`. Its module also has `pointwise`, the log
likelihood of every observation, and `predict`, which simulates data like those observed; both take
the parameters as `Problem.parameters` names them.
"""

from folt.models import datasets
from folt.models.factors import (
    FactorPosterior,
    factor_analysis,
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
from folt.models.modal_powers import (
    AveragedSpectrum,
    ModalPowersPosterior,
    averaged_spectrum,
    modal_powers,
    simulate_powers,
)
from folt.models.multivariate import (
    MultivariateMixturePosterior,
    multivariate_gaussian_mixture,
    simulate_multivariate_gaussian_mixture,
)
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

__all__ = [
    "AveragedSpectrum",
    "Banana",
    "BrokenBanana",
    "FactorPosterior",
    "GaussianMixturePosterior",
    "GaussianPair",
    "HiddenMarkovPosterior",
    "LabelSwitching",
    "MixturePosterior",
    "ModalPosterior",
    "ModalPowersPosterior",
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
    "gaussian_mixture",
    "gaussian_pair",
    "hidden_markov",
    "label_switching",
    "mixture_log_likelihood",
    "modal_powers",
    "modal_spectrum",
    "multivariate_gaussian_mixture",
    "poisson_mixture",
    "rotation_defect",
    "scaled_spectrum",
    "simulate_factor_analysis",
    "simulate_gaussian_mixture",
    "simulate_hidden_markov",
    "simulate_multivariate_gaussian_mixture",
    "simulate_poisson_mixture",
    "simulate_powers",
    "simulate_spectrum",
]
