"""Markov kernels: scalars and points in, states out.

This room knows no flows and no groups: an independence sampler needs only the log ratios of its
proposals, and whoever calls it has made those in one batch.
"""

from folt.kernels.independence import Step, Sweep, init, step, sweep, sweeps
from folt.kernels.leaving import autocorrelation_time, chances_to_leave, steps_worth_taking
from folt.kernels.permutation import relabelled_sweep

__all__ = [
    "Step",
    "Sweep",
    "autocorrelation_time",
    "chances_to_leave",
    "init",
    "relabelled_sweep",
    "step",
    "steps_worth_taking",
    "sweep",
    "sweeps",
]
