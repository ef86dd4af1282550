"""The paper's proposal as a trainer: architecture by dimension, its objective, whitened draws."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

from folt.flows import Pushed, SpectralCoupling, paper_architecture, whitening
from folt.training.paper import fit_paper_flow
from folt.training.regression import TrainingTask
from folt.types import Distribution, Key, Progress


@dataclasses.dataclass(frozen=True)
class PaperFlow:
    """Trainer: a spectrally normalised RealNVP by the paper's annealed objective.

    Args:
        layers: coupling layers; the paper's table by dimension if None.
        width: hidden width; likewise.
        steps: minibatch steps; likewise.
    """

    layers: int | None = None
    width: int | None = None
    steps: int | None = None

    def __call__(
        self,
        key: Key,
        task: TrainingTask,
        start: Distribution | None = None,
        progress: Progress | None = None,
    ) -> Distribution:
        """The trained flow; `start` replaces the fresh one."""
        table = paper_architecture(task.group.dim)
        layers, width, steps = (
            given if given is not None else printed
            for given, printed in zip((self.layers, self.width, self.steps), table, strict=True)
        )
        flow_key, fit_key = jax.random.split(key)
        points = jnp.asarray(task.training.points)
        if start is None:
            base = SpectralCoupling(task.group.dim, layers, width, flow_key)
            start = Pushed(base, *whitening(task.group, points))

        def tell(done: int, loss: float) -> None:
            if progress is not None and math.isfinite(loss):
                progress(done / steps, f"step {done} of {steps}, loss {loss:.3f}")

        return fit_paper_flow(fit_key, start, points, task.target, steps, tell)
