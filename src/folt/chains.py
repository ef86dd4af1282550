"""Markov kernels and running them: scalars and points in, chains out.

An independence sampler needs only the log ratios of its proposals, and whoever calls it has made
those in one batch; so the kernels know no proposals and no groups.

Independence Metropolis-Hastings on the fundamental domain.

Draw z' from q_F and accept with probability min(1, exp(h(z') - h(z))), h = log π_F - log q_F.
(The paper prints the exponent with the opposite sign; that chain does not leave π_F invariant,
and a test shows it.) Proposals do not depend on the state, so all of them and their h are computed
in one batch and only scalars are scanned.

How soon independence Metropolis-Hastings leaves its states, read off log ratios alone.

The random permutation sampler: an independence chain whose labels are shuffled at every step.

The standard remedy for label switching, kept here as the baseline. The shuffle leaves an
invariant target invariant, so the composite kernel does too.

Chains on the fundamental domain, begun or continued from the log ratio of their proposals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from folt.batching import map_points
from folt.types import (
    Density,
    Distribution,
    Key,
    Point,
    Points,
    Scalar,
    host_generator,
    in_float64,
)

_LEAST = 1e-4
"""Smallest chance to leave that is told apart from none."""


def chances_to_leave(
    fresh: Float[np.ndarray, " n"], states: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """a(z) = E_q min(1, w(z')/w(z)) at every state z, over all proposals z'.

    Args:
        fresh: h at proposals, -inf where the target vanishes.
        states: h at the states; a state with an h of +inf is never left.
    """
    finite = np.sort(fresh[np.isfinite(fresh)])
    if finite.size == 0:
        return np.zeros(states.shape)
    sums = np.concatenate([[0.0], np.cumsum(np.exp(finite - finite[-1]))])
    below = np.searchsorted(finite, states, side="right")
    with np.errstate(over="ignore"):  # far below every proposal nothing is summed
        smaller = sums[below] * np.exp(np.minimum(finite[-1] - states, 700.0))
    return np.clip((smaller + finite.size - below) / fresh.size, 0.0, 1.0)


TRIMMED = 0.01
"""Share of the states left least often that say nothing about the others."""


def autocorrelation_time(chances: Float[np.ndarray, " m"], steps: int = 1) -> float:
    """E_π of (1 + r)/(1 - r), r = (1 - a)^steps: (2 - a)/a where every step is recorded."""
    stay = (1.0 - np.maximum(chances, _LEAST)) ** steps
    return float(np.mean((1.0 + stay) / (1.0 - stay)))


def steps_worth_taking(chances: Float[np.ndarray, " m"], time: float, most: int) -> int:
    """Return the fewest steps per recorded draw that bring the autocorrelation time down to `time`.

    The states that are left least often are set aside: a few of them would ask for many steps, and
    would stay where they are all the same.
    """
    chances = np.sort(chances)[int(TRIMMED * chances.size) :]
    for steps in range(1, most):
        if autocorrelation_time(chances, steps) <= time:
            return steps
    return most


@overload
def accepts(log_uniform: Array, current: Array, proposed: Array) -> Bool[Array, ...]: ...
@overload
def accepts(
    log_uniform: np.ndarray, current: np.ndarray, proposed: np.ndarray
) -> Bool[np.ndarray, ...]: ...
def accepts(
    log_uniform: Array | np.ndarray, current: Array | np.ndarray, proposed: Array | np.ndarray
) -> Bool[Array | np.ndarray, ...]:
    """Return whether log U < h(z') - h(z); -inf is a rejection, and so is a fault (NaN or +inf).

    The one acceptance of the house, elementwise on arrays of JAX or of NumPy. With log densities
    in the place of log ratios it is the acceptance of a symmetric proposal.
    """
    numpy = jnp if isinstance(proposed, jax.Array) else np
    usable = numpy.isfinite(proposed)
    return usable & (log_uniform < numpy.where(usable, proposed, 0.0) - current)


def accepted(
    generator: np.random.Generator,
    current: Float[np.ndarray, " n"],
    proposed: Float[np.ndarray, " n"],
) -> Bool[np.ndarray, " n"]:
    """`accepts` on the host, with uniforms of the generator; one that is zero accepts anything."""
    with np.errstate(divide="ignore"):
        log_uniforms = np.log(generator.uniform(size=proposed.shape))
    return accepts(log_uniforms, current, proposed)


class Sweep(NamedTuple):
    """Chains as positions among their proposals.

    `source[c, t]` is the index of the proposal that chain c occupies after step t, -1 for its
    start.
    """

    source: Int[np.ndarray, "chain step"]
    log_ratio: Float[np.ndarray, "chain step"]
    accepted: Bool[np.ndarray, "chain step"]


def sweeps(log_uniforms: np.ndarray, start_log_ratios: np.ndarray, log_ratios: np.ndarray) -> Sweep:
    """Return all steps of several chains from the log ratios of their proposals.

    Scalar by scalar on the host, which is cheaper than compiling a loop; every step is that of
    `accepts`.
    """
    usable = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
    source = np.empty(usable.shape, np.int64)
    for row, start, proposed, chances in zip(
        source, start_log_ratios, usable, log_uniforms, strict=True
    ):
        row[:] = _sources(float(start), proposed.tolist(), chances.tolist())
    before = np.concatenate([np.full((len(source), 1), -1), source[:, :-1]], axis=1)
    padded = np.concatenate([np.asarray(start_log_ratios)[:, None], usable], axis=1)
    return Sweep(source, np.take_along_axis(padded, source + 1, axis=1), source != before)


def _sources(current: float, proposed: list[float], chances: list[float]) -> list[int]:
    """Return the proposal that one chain occupies after every step, -1 for its start."""
    place = -1
    places = []
    for number, (log_ratio, chance) in enumerate(zip(proposed, chances, strict=True)):
        if chance < log_ratio - current:
            place, current = number, log_ratio
        places.append(place)
    return places


@eqx.filter_jit
def relabelled_sweep(
    key: Key,
    start: Point,
    proposals: Points,
    log_ratios: Float[Array, " steps"],
    relabel: Callable[[Key, Point], Point],
    log_ratio: Callable[[Point], Scalar],
) -> tuple[Float[Array, "steps dim"], Bool[Array, " steps"]]:
    """Return an independence step, then a random relabelling, again and again.

    Args:
        key: randomness of acceptance and relabelling.
        start: first state.
        proposals: one per step, with their log ratios log π - log q on all of R^dim.
        log_ratios: those ratios.
        relabel: `relabel(key, x)`, a uniformly chosen image of x.
        log_ratio: log π - log q at a point; after a relabelling the ratio is another one,
            because q is not invariant.
    """

    def advance(
        state: tuple[Array, Array], inputs: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        x, current = state
        step_key, proposal, proposed = inputs
        uniform_key, label_key = jax.random.split(step_key)
        log_uniform = jnp.log(jax.random.uniform(uniform_key, dtype=current.dtype))
        moved = accepts(log_uniform, current, proposed)
        x = relabel(label_key, jnp.where(moved, proposal, x))
        return (x, log_ratio(x)), (x, moved)

    keys = jax.random.split(key, proposals.shape[0])
    _, trace = jax.lax.scan(advance, (start, log_ratio(start)), (keys, proposals, log_ratios))
    return trace


class _PlainRatio(Density):
    """log π - log q on all of R^dim, neither of them folded."""

    target: Density
    proposal: Distribution

    @property
    def dim(self) -> int:
        return self.target.dim

    def log_prob(self, x: Point) -> Scalar:
        """Return the log ratio at x."""
        return self.target.log_prob(x) - self.proposal.log_prob(x)


@in_float64
def random_permutation_chain(
    key: Key,
    target: Density,
    proposal: Distribution,
    relabel: Callable[[Key, Point], Point],
    steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Run the random permutation sampler from a draw of its proposal.

    Args:
        key: randomness of proposals, acceptance and relabelling.
        target: an invariant density.
        proposal: a distribution on all of R^dim.
        relabel: `relabel(key, x)`, a uniformly chosen image of x.
        steps: length of the chain.

    Returns:
        States (step, dim) under all labels, and which steps moved.
    """
    propose_key, sweep_key = jax.random.split(key)
    ratio = _PlainRatio(target, proposal)
    proposals = map_points(_draw, proposal, jax.random.split(propose_key, steps + 1))
    log_ratios = map_points(_PlainRatio.log_prob, ratio, proposals[1:])
    states, moved = relabelled_sweep(
        sweep_key, proposals[0], proposals[1:], log_ratios, relabel, ratio.log_prob
    )
    return np.asarray(states), np.asarray(moved)


def _draw(proposal: Distribution, key: Key) -> Point:
    return proposal.sample(key)


DOUBLINGS = 10
"""How often the proposals are doubled for chains that have not met the support yet: a chain of a
few steps on a small support would otherwise have nowhere to start."""


class Ratio(Protocol):
    """What chains need of a target and a proposal: draws of the one with h of both."""

    @property
    def dim(self) -> int:
        """Coordinates of a draw."""

    def draw(self, key: Key, count: int, /) -> tuple[np.ndarray, np.ndarray]:
        """Draw proposals, with their h; -inf for those outside the support."""


class Proposals(NamedTuple):
    """All that was proposed to chains, accepted or not, with h; -inf outside the support."""

    points: Float[np.ndarray, "chain step dim"]
    log_ratio: Float[np.ndarray, "chain step"]

    def joined(self, *others: Proposals) -> Proposals:
        """These, followed by others of the same chains."""
        parts = zip(self, *others, strict=True)
        return Proposals(*(np.concatenate(part, axis=1) for part in parts))

    def every(self, number: int) -> Proposals:
        """Every so many-th of them: they are independent, so that any of them do."""
        return self if number == 1 else Proposals(*(part[:, ::number].copy() for part in self))


AT_ONCE = 1 << 22
"""Coordinates of proposals that are in memory at once, 32 MB: four copies of them live. A million
proposals in 80 dimensions took 3.2 GB together."""

KEPT = 1 << 25
"""Coordinates of proposals that are kept for averages over them, 256 MB."""


class Chains(NamedTuple):
    """Chains as NumPy arrays: points, h at them, and whether the step into each of them moved.

    Where several steps lie between recorded draws, `accepted` is that of the last of them.
    """

    draws: Float[np.ndarray, "chain draw dim"]
    log_ratio: Float[np.ndarray, "chain draw"]
    accepted: Bool[np.ndarray, "chain draw"]
    proposals: Proposals | None = None

    def joined(self, *others: Chains) -> Chains:
        """These, followed by what comes after them."""
        all_ = (self, *others)
        known = [part.proposals for part in all_ if part.proposals is not None]
        plain = zip(*(part[:3] for part in all_), strict=True)
        draws, log_ratio, accepted = (np.concatenate(part, axis=1) for part in plain)
        return Chains(draws, log_ratio, accepted, known[0].joined(*known[1:]) if known else None)


def run_chains(
    key: Key, ratio: Ratio, chains: int, draws: int, burn_in: int, steps_per_draw: int = 1
) -> Chains:
    """New chains, piece after piece where the coordinates of all proposals are very many.

    Args:
        key: proposals and uniforms come from it.
        ratio: h of target and proposal.
        chains: how many.
        draws: recorded draws per chain.
        burn_in: steps thrown away first.
        steps_per_draw: steps from one recorded draw to the next.

    Raises:
        ValueError: no proposal of some chain hit the support.
    """
    per_draw = chains * steps_per_draw * ratio.dim
    piece = min(draws, max(1, AT_ONCE // per_draw))
    every = -(-draws * per_draw // KEPT)
    last = _first_chains(key, ratio, chains, piece, burn_in, steps_per_draw)
    parts = [_thinned(last, every)]
    for number, done in enumerate(range(piece, draws, piece)):
        new_key = jax.random.fold_in(key, FOLLOWING + number)
        last = continue_chains(new_key, ratio, last, min(piece, draws - done), steps_per_draw)
        parts.append(_thinned(last, every))
    return parts[0].joined(*parts[1:]) if len(parts) > 1 else parts[0]


FOLLOWING = 100
"""Number of the first random stream that continues chains which were just begun."""


def _thinned(chains: Chains, every: int) -> Chains:
    """The chains with every so many-th of their proposals."""
    return chains._replace(proposals=chains.proposals and chains.proposals.every(every))


def _first_chains(
    key: Key, ratio: Ratio, chains: int, draws: int, burn_in: int, steps_per_draw: int
) -> Chains:
    """New chains: all proposals and their h in one batch, then scalars only.

    Every chain starts at its first proposal inside the support. Proposals before that one are no
    steps: where proposals die or miss the support, more are drawn, so that the burn-in is counted
    from the start.
    """
    propose_key, sweep_key = (jax.random.fold_in(key, number) for number in range(2))
    steps = draws * steps_per_draw + burn_in
    points, log_ratios = _proposals(propose_key, ratio, chains, steps + 1)
    for number in range(DOUBLINGS):
        if np.isfinite(log_ratios).any(axis=1).all():
            break
        new_key = jax.random.fold_in(propose_key, 2 + number)
        more = _proposals(new_key, ratio, chains, log_ratios.shape[1])
        points = np.concatenate([points, more[0]], axis=1)
        log_ratios = np.concatenate([log_ratios, more[1]], axis=1)
    first = np.argmax(np.isfinite(log_ratios), axis=1)[:, None]
    start_ratio = np.take_along_axis(log_ratios, first, axis=1)[:, 0]
    if not np.isfinite(start_ratio).all():
        raise ValueError("no proposal hit the support of the target: a chain has nowhere to start")
    if first.any():
        more = _proposals(jax.random.fold_in(propose_key, 1), ratio, chains, int(first.max()))
        points = np.concatenate([points, more[0]], axis=1)
        log_ratios = np.concatenate([log_ratios, more[1]], axis=1)
    window = first + 1 + np.arange(steps)
    proposed = np.take_along_axis(log_ratios, window, axis=1)
    swept = sweeps(_chances(sweep_key, chains, steps), start_ratio, proposed)
    kept = slice(burn_in + steps_per_draw - 1, None, steps_per_draw)
    source = (first + 1 + swept.source)[:, kept]  # a source of -1 is the start
    return Chains(
        np.take_along_axis(points, source[..., None], axis=1),
        swept.log_ratio[:, kept],
        swept.accepted[:, kept],
        Proposals(points, log_ratios),
    )


def _proposals(key: Key, ratio: Ratio, chains: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """So many proposals for every chain, with their h."""
    points, log_ratios = ratio.draw(key, chains * count)
    return points.reshape(chains, count, -1), log_ratios.reshape(chains, count)


def continue_chains(
    key: Key, ratio: Ratio, chains: Chains, draws: int, steps_per_draw: int = 1
) -> Chains:
    """Return the next `draws` draws of chains that end where `chains` end."""
    count = len(chains.draws)
    propose_key, sweep_key = (jax.random.fold_in(key, number) for number in range(2))
    steps = draws * steps_per_draw
    points, log_ratios = _proposals(propose_key, ratio, count, steps)
    swept = sweeps(_chances(sweep_key, count, steps), chains.log_ratio[:, -1], log_ratios)
    # Position 0 holds the last state, so that a source of -1 (never moved) finds it.
    states = np.concatenate([chains.draws[:, -1:], points], axis=1)
    kept = slice(steps_per_draw - 1, None, steps_per_draw)
    return Chains(
        np.take_along_axis(states, swept.source[:, kept, None] + 1, axis=1),
        swept.log_ratio[:, kept],
        swept.accepted[:, kept],
        Proposals(points, log_ratios),
    )


def _chances(key: Key, chains: int, steps: int) -> Float[np.ndarray, "chain step"]:
    """Return logarithms of uniforms; those of a uniform that is exactly zero accept anything."""
    with np.errstate(divide="ignore"):
        return np.log(host_generator(key).uniform(size=(chains, steps)))
