"""Markov kernels and running them: scalars and points in, chains out.

An independence sampler needs only the log ratios of its proposals, and whoever calls it has made
those in one batch; so the kernels know no flows and no groups.
"""

from folt.chains.independence import Step, Sweep, init, step, sweep, sweeps
from folt.chains.leaving import autocorrelation_time, chances_to_leave, steps_worth_taking
from folt.chains.permutation import relabelled_sweep
from folt.chains.running import Chains, Proposals, continue_chains, run_chains

__all__ = [
    "Chains",
    "Proposals",
    "Step",
    "Sweep",
    "autocorrelation_time",
    "chances_to_leave",
    "continue_chains",
    "init",
    "relabelled_sweep",
    "run_chains",
    "step",
    "steps_worth_taking",
    "sweep",
    "sweeps",
]
