"""Random finite independence chains whose gap, distances and variances are known by matrices."""

from typing import NamedTuple

import numpy as np


class FiniteChains(NamedTuple):
    """A batch of chains: target, surviving proposal, and what follows from them exactly."""

    target: np.ndarray  # (chain, state)
    proposal: np.ndarray  # (chain, state); sums to κ, below one where proposals die
    ratio: np.ndarray  # w
    transition: np.ndarray  # (chain, state, state)
    values: np.ndarray  # eigenvalues, ascending
    vectors: np.ndarray  # orthonormal eigenvectors of the symmetrised matrix

    @property
    def mass(self):
        return self.proposal.sum(axis=1)

    @property
    def gap(self):
        return 1.0 - self.values[:, -2]

    def at_thresholds(self):
        """a(t), π(w > t) and q(w > t)/κ exactly, at every t that is some state's w."""
        below = np.minimum(1.0, self.ratio[:, None, :] / self.ratio[:, :, None])
        beyond = self.ratio[:, None, :] > self.ratio[:, :, None]
        accept = (self.proposal[:, None, :] * below).sum(axis=-1)
        exceed = (self.target[:, None, :] * beyond).sum(axis=-1)
        start = (self.survivors[:, None, :] * beyond).sum(axis=-1)
        return accept, exceed, start

    @property
    def survivors(self):
        """The start of a run: the proposal where it survives."""
        return self.proposal / self.mass[:, None]

    def distance(self, n, start=None):
        """TV(μPⁿ, π) from a start (chain, state), by default the survivors."""
        law = (self.survivors if start is None else start)[:, None, :]
        law = (law @ np.linalg.matrix_power(self.transition, n))[:, 0]
        return 0.5 * np.abs(law - self.target).sum(axis=1)

    def spectrum(self, functions):
        """Squared coefficients of centred functions (chain, state); they sum to the variance."""
        centred = functions - (self.target * functions).sum(axis=1, keepdims=True)
        return (np.einsum("bs,bsk->bk", np.sqrt(self.target) * centred, self.vectors)) ** 2

    def variance(self, functions):
        mean = (self.target * functions).sum(axis=1, keepdims=True)
        return (self.target * (functions - mean) ** 2).sum(axis=1)


def random_chains(generator, count, states):
    """A third tame, a third with heavy-tailed w, a third whose proposals partly die."""
    target = generator.dirichlet(np.ones(states), count)
    proposal = generator.dirichlet(np.ones(states), count)
    kind = np.arange(count) % 3
    heavy = generator.dirichlet(np.full(states, 0.15), count) + 1e-6
    proposal = np.where((kind == 1)[:, None], heavy / heavy.sum(axis=1, keepdims=True), proposal)
    alive = generator.beta(1.0, 0.7, (count, states)) + 1e-6
    proposal = np.where((kind == 2)[:, None], proposal * np.minimum(alive, 1.0), proposal)
    return finite_chains(target + 1e-9, proposal)


def finite_chains(target, proposal):
    """The chains for target and proposal (chain, state); a proposal may sum to less than one."""
    target = target / target.sum(axis=1, keepdims=True)
    ratio = target / proposal
    moves = proposal[:, None, :] * np.minimum(1.0, ratio[:, None, :] / ratio[:, :, None])
    states = np.arange(target.shape[1])
    moves[:, states, states] = 0.0
    moves[:, states, states] = 1.0 - moves.sum(axis=-1)
    root = np.sqrt(target)
    symmetric = root[:, :, None] * moves / root[:, None, :]
    values, vectors = np.linalg.eigh((symmetric + np.swapaxes(symmetric, 1, 2)) / 2)
    return FiniteChains(target, proposal, ratio, moves, values, vectors)
