"""A proposal summed over the likeliest images of a point, where an orbit has too many.

Exact although most of the orbit is left out: N(z) is a function of the orbit alone, draws whose
labelling is not in it die, and q_N(z) = Σ_{g∈N(z)} q(g·z) is the density of those that live.

The likeliest labellings of a point, found without going through all of them.

Scores say how well every block suits every label. The best labelling is a linear assignment; the
ones after it exchange two labels, move three in a circle, or make two exchanges at once.
"""

from __future__ import annotations

import functools
import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int

from folt.groups import Group
from folt.groups.permutation import Relabelling
from folt.proposals.elliptical import log_abs_det, log_radial
from folt.proposals.mixture import Mixture
from folt.types import Key, OrbitSummed, Point, Scalar

_LOWEST = -1e150
"""Scores are held above this, so that sums and differences of them stay finite."""

_PAIRED = 12
"""Cheapest exchanges of which pairs are looked at."""


def likely_arrangements(scores: Float[np.ndarray, "*n m m"], count: int) -> Int[np.ndarray, ...]:
    """Return the best arrangement of every point and the cheapest changes of it, (*n, count, m).

    Label j of an arrangement a takes block a[j], and its score is Σ_j scores[j, a[j]]. The same
    scores give the same arrangements, the best one first; all of them differ.

    Args:
        scores: of block i under label j at [j, i], such as log densities.
        count: how many arrangements, at most `most_arrangements(m)`.
    """
    from scipy.optimize import linear_sum_assignment  # a fifth of a second to import

    m = scores.shape[-1]
    flat = np.maximum(np.nan_to_num(scores.reshape(-1, m, m), nan=_LOWEST), _LOWEST)
    best = np.stack([linear_sum_assignment(one, maximize=True)[1] for one in flat])
    held = np.take_along_axis(flat, np.repeat(best[:, None], m, axis=1), axis=2)
    loss = held[:, np.arange(m), np.arange(m)][:, :, None] - held
    changes = _cheapest(loss, count)
    found = np.take_along_axis(np.repeat(best[:, None], count, axis=1), changes, axis=2)
    return found.astype(np.int32).reshape(*scores.shape[:-2], count, m)


def most_arrangements(m: int) -> int:
    """Return how many arrangements there are at least: the best one, exchanges and circles."""
    return 1 + math.comb(m, 2) + 2 * math.comb(m, 3)


def _cheapest(loss: Float[np.ndarray, "n m m"], count: int) -> Int[np.ndarray, "n count m"]:
    """Changes of the best arrangement, nothing first, then those that lose least.

    Args:
        loss: what it costs label j to take the block of label l, at [j, l].
        count: how many changes.
    """
    n, m, _ = loss.shape
    nothing = np.broadcast_to(np.arange(m), (n, 1, m))
    if count == 1:
        return nothing
    catalogue = _catalogue(m)
    (a, b), (c, d, e) = _exchanges(m).T, _circles(m).T
    exchanged = loss[:, a, b] + loss[:, b, a]
    turned = loss[:, c, d] + loss[:, d, e] + loss[:, e, c]
    left, right, both = _pairs(exchanged, m)
    losses = np.concatenate([exchanged, turned, both], axis=1)
    order = np.argpartition(losses, count - 2, axis=1)[:, : count - 1]
    singles = exchanged.shape[1] + turned.shape[1]
    paired = np.maximum(order - singles, 0)
    # Positions in the catalogue, whose first row is to do nothing.
    first = np.where(order < singles, 1 + order, 1 + np.take_along_axis(left, paired, 1))
    second = np.where(order < singles, 0, 1 + np.take_along_axis(right, paired, 1))
    changes = np.take_along_axis(catalogue[first], catalogue[second], axis=2)
    return np.concatenate([nothing, changes], axis=1)


def _pairs(exchanged: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of the cheapest exchanges, and what both lose: infinite if they share a label."""
    exchanges = _exchanges(m)
    few = min(len(exchanges), _PAIRED)
    near = np.argsort(exchanged, axis=1, kind="stable")[:, :few]
    # A lone exchange is paired with itself: no pair, and no special case.
    first, second = np.triu_indices(few, 1) if few > 1 else (np.zeros(1, int), np.zeros(1, int))
    left, right = near[:, first], near[:, second]
    apart = (exchanges[left][..., :, None] != exchanges[right][..., None, :]).all(axis=(2, 3))
    both = np.take_along_axis(exchanged, left, 1) + np.take_along_axis(exchanged, right, 1)
    return left, right, np.where(apart, both, np.inf)


@functools.lru_cache
def _exchanges(m: int) -> Int[np.ndarray, "n 2"]:
    return np.array(list(itertools.combinations(range(m), 2)), int).reshape(-1, 2)


@functools.lru_cache
def _circles(m: int) -> Int[np.ndarray, "n 3"]:
    both = [
        turn for a, b, c in itertools.combinations(range(m), 3) for turn in ((a, b, c), (a, c, b))
    ]
    return np.array(both, int).reshape(-1, 3)


@functools.lru_cache
def _catalogue(m: int) -> Int[np.ndarray, "n m"]:
    """Nothing, every exchange and every circle as arrangements."""
    exchanges, circles = _exchanges(m), _circles(m)
    rows = np.tile(np.arange(m), (1 + len(exchanges) + len(circles), 1))
    for row, (a, b) in zip(rows[1:], exchanges, strict=False):
        row[[a, b]] = b, a
    for row, (a, b, c) in zip(rows[1 + len(exchanges) :], circles, strict=True):
        row[[a, b, c]] = b, c, a
    return rows


class TruncatedOrbit(OrbitSummed):
    """A mixture with its sum over a part N(z) of the orbit, chosen by what every label carries.

    What label i of a point carries is scored under a normal for every label; N(z) holds the best
    labelling of the folded point and the cheapest changes of it. Nothing is renormalised.

    Args:
        main: the mixture q, its labels being those of the normals.
        group: all permutations of m labels, acting in any way.
        centres: (m, f), of what each label carries.
        factors: (m, f, f), lower triangular roots of the precisions.
        kept: size of N(z).
    """

    main: Mixture
    group: Relabelling = eqx.field(static=True)
    centres: Float[Array, "m features"]
    factors: Float[Array, "m features features"]
    kept: int = eqx.field(static=True, default=32)

    def __check_init__(self) -> None:
        if not isinstance(self.group, Relabelling):
            raise ValueError(
                "expected a group of all permutations of labels (Permutation or Joint), "
                f"got {type(self.group).__name__}"
            )
        most = most_arrangements(self.group.labels)
        if not 1 <= self.kept <= most:
            raise ValueError(f"expected from 1 to {most} labellings to keep, got {self.kept}")

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.main.dim

    @property
    def summed_over(self) -> Group:
        """The group over whose orbits the sum runs in part."""
        return self.group

    @property
    def whole(self) -> bool:
        """Whether N(z) is the whole group, as for two or three labels it may be."""
        return self.kept >= self.group.order

    @property
    def orbit_cost(self) -> int:
        """Plain density terms of a sum."""
        return self.kept

    def log_prob(self, x: Point) -> Scalar:
        """Return the plain density, labels as they are."""
        return self.main.log_prob(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density, whether it will live or not."""
        return self.main.sample_and_log_prob(key)

    def propose(self, key: Key) -> tuple[Point, Bool[Array, ""]]:
        """Return a draw and whether it lives."""
        x = self.sample(key)
        return x, self.survives(x)

    def survives(self, x: Point) -> Bool[Array, ""]:
        """Whether x = g'·z, z folded, with g' in N(z); g' undoes the element that folds x."""
        folding = self.group.folding_element(x)
        kept = self.arrangements(self.group.act(folding, x))
        return jnp.any(jnp.all(kept == self.group.inverse(folding), axis=1))

    def log_orbit_sum(self, z: Point) -> Scalar:
        """Return log q_N(z), the density of draws that live; the same at every image of z."""
        return logsumexp(self._terms(self.likely_images(z)))

    def draw_image(self, key: Key, z: Point) -> Point:
        """Return an image in N(z) with its share of q_N(z)."""
        images = self.likely_images(z)
        return images[jax.random.categorical(key, self._terms(images))]

    def likeliest_image(self, z: Point) -> Point:
        """Return the image in N(z) with the largest density."""
        images = self.likely_images(z)
        return images[jnp.argmax(self._terms(images))]

    def likely_images(self, z: Point) -> Float[Array, "kept dim"]:
        """Return the images g·z, g in N(z), of a point that is folded first."""
        folded = self.group.fold(z)
        kept = self.arrangements(folded)
        return jax.vmap(self.group.act, in_axes=(0, None))(kept, folded)

    def arrangements(self, z: Point) -> Int[Array, "kept m"]:
        """N(z) of a folded point: linear assignments are solved on the host."""
        carried = self.group.carried(z)
        away = carried[None] - self.centres[:, None]
        standard = jnp.einsum("jab,jib->jia", jnp.tril(self.factors), away)
        radial = log_radial(jnp.sum(standard**2, axis=-1), carried.shape[1])
        scores = radial + log_abs_det(self.factors)[:, None]
        shape = jax.ShapeDtypeStruct((self.kept, self.group.labels), np.int32)
        solve = functools.partial(_on_host, self.kept)
        return jax.pure_callback(solve, shape, scores, vmap_method="expand_dims")

    def _terms(self, images: Float[Array, "kept dim"]) -> Float[Array, " kept"]:
        return jax.vmap(self.main.log_prob)(images)


def _on_host(kept: int, scores: Float[Array, "*n m m"]) -> Int[np.ndarray, "*n kept m"]:
    return likely_arrangements(np.asarray(scores, float), kept)
