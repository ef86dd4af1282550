"""`certify`: draws that somebody has already, put under one labelling and judged."""

from __future__ import annotations

from typing import Literal

from folt.fit import Fit
from folt.problem import Problem
from folt.reference import Given
from folt.sampling.algorithm import sample
from folt.training.effort import Effort


def certify(
    problem: Problem,
    draws: object,
    *,
    seed: int = 0,
    effort: Effort | None = None,
    labels: Literal["sorted", "proposal"] = "sorted",
    progress: bool = True,
) -> Fit:
    """Return a certificate and the evidence for a posterior of which you have draws.

    The draws are folded, so that chains stuck in different labellings are welcome; a proposal is
    trained on some of the chains, and the others, which it never saw, make the certificate. The fit
    holds new draws of that proposal's chain: where the verdict is good they are as good as
    independent ones, under one labelling.

    Args:
        problem: the posterior that the draws are of.
        draws: InferenceData, a DataTree, the path of a netCDF file or of CmdStan's CSV files (a
            folder, a pattern such as out_*.csv, or a list), a NumPyro MCMC that has run,
            `{name: (chain, draw, ...)}`, points (chain, draw, dim), or
            `folt.reference.Given(draws, chains=4)` for draws without a chain axis.
        seed: same seed, same result.
        effort: what it may cost, as for `folt.sample`.
        labels: as for `folt.sample`.
        progress: as for `folt.sample`.

    Raises:
        ValueError: draws of another model, or of a form that is not known.
    """
    reference = draws if isinstance(draws, Given) else Given(draws)
    return sample(
        problem, reference=reference, seed=seed, effort=effort, labels=labels, progress=progress
    )
