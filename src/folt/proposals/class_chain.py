"""A Markov chain of classes along the labels: a proposal that sums itself over all labellings.

Blocks are Gaussian given their class, and the class of a label depends on that of the label
before. One class is a product of Gaussians, transitions near the identity a mixture of products.
Its sum over all m! labellings costs 2^m steps (`folt.proposals.orbit_chain`).

Single labellings of the blocks of a point: drawn given the blocks, or the likeliest.

Both walk back through the sets of `folt.proposals.orbit_chain`, from all blocks to none: the last
label's class, the block that carries it, the class before, and so on. The likeliest labelling and
classes come from the same walk where sums are replaced by maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from folt.groups import BlockForm, Group
from folt.groups.permutation import MOST_LABELS
from folt.proposals.elliptical import log_abs_det, log_radial
from folt.proposals.orbit_chain import (
    Forward,
    Logs,
    Scaled,
    forward_sums,
    layers,
    log_orbit_sums,
    scaled,
)
from folt.types import Key, OrbitSummed, Point, Scalar

_Labelling = tuple[Int[Array, " labels"], Int[Array, " labels"]]
"""For every label the block that carries it, and which of its signs (0 plain, 1 flipped)."""

SignedLogs = Float[Array, "signs labels blocks 1 classes"]


def drawn_labelling(key: Key, logs: Logs, signed: SignedLogs) -> _Labelling:
    """Return a labelling of one point with its probability under the chain, given the blocks."""
    parts = scaled(logs)
    steps = jax.random.split(key, 3 * parts.densities.shape[0])

    def choose(number: int, logits: Array) -> Array:
        return jax.random.categorical(steps[number], logits)

    return _walk(parts, forward_sums(parts), signed, choose)


def likeliest_labelling(logs: Logs, signed: SignedLogs) -> _Labelling:
    """Return the labelling of one point that is likeliest together with its classes and signs."""
    parts = scaled(logs._replace(densities=jnp.max(signed, axis=0)))
    passed = forward_sums(parts, largest=True)
    return _walk(parts, passed, signed, lambda _, logits: jnp.argmax(logits))


def _walk(
    parts: Scaled, passed: Forward, signed: SignedLogs, choose: Callable[[int, Array], Array]
) -> _Labelling:
    # Without a barrier the compiler computes whole layers again for the few entries looked at.
    sums, moved = jax.lax.optimization_barrier((passed.sums, passed.moved))
    m = parts.densities.shape[0]
    place = jnp.zeros((), int)
    state = choose(0, jnp.log(sums[-1][0, 0]))
    order, signs = [], []
    for number in reversed(range(m)):
        sources = jnp.asarray(layers(m)[number].sources)[place]
        members = jnp.asarray(layers(m)[number].members)[place]
        weights = moved[number][sources, 0, state] * parts.densities[number, members, 0, state]
        at = choose(3 * number + 1, jnp.log(weights))
        place, block = sources[at], members[at]
        order.append(block)
        signs.append(choose(3 * number + 2, signed[:, number, block, 0, state]))
        if number > 0:
            matrix = parts.transitions[number - 1]
            before = sums[number - 1][place, 0] * matrix[:, state]
            state = choose(3 * number, jnp.log(before))
    return jnp.stack(order[::-1]), jnp.stack(signs[::-1])


FLOOR = 1e-6
"""Share of every transition that is uniform, so that no sequence of classes is impossible."""

STEPS_PER_TERM = 1024
"""Sets times classes that cost about as much as one density of a mixture."""


class ClassChain(OrbitSummed):
    """q(x) = Σ_c w(c_1) N(x_0; c_1) Π_{j≥2} A_j(c_{j-1}, c_j) Π_j N(x_j; μ_{j,c_j}, Σ_{j,c_j}).

    x_j are the blocks that the group permutes, x_0 the coordinates that it leaves alone. Weights
    are trained freely: they are normalised when they are used, and a share `FLOOR` of every
    transition is uniform. Entries of the factors above the diagonal are ignored.

    Args:
        group: a group of block form with at most `MOST_LABELS` labels.
        log_weights: (C,), of the first class.
        log_transitions: (m - 1, C, C), rows of A_2, ..., A_m.
        means: (m, C, p).
        factors: (m, C, p, p), lower triangular roots of the precisions.
        fixed_means: (C, f), of the coordinates that carry no label.
        fixed_factors: (C, f, f).
    """

    group: Group = eqx.field(static=True)
    log_weights: Float[Any, " classes"]
    log_transitions: Float[Any, "steps classes classes"]
    means: Float[Any, "labels classes size"]
    factors: Float[Any, "labels classes size size"]
    fixed_means: Float[Any, "classes fixed"]
    fixed_factors: Float[Any, "classes fixed fixed"]

    def __check_init__(self) -> None:
        form = block_form_of(self.group)
        m, p, f = form.labels, form.size, len(form.fixed)
        count = self.log_weights.shape[0]
        expected = {
            "log_weights": (count,),
            "log_transitions": (m - 1, count, count),
            "means": (m, count, p),
            "factors": (m, count, p, p),
            "fixed_means": (count, f),
            "fixed_factors": (count, f, f),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape or count < 1:
                raise ValueError(
                    f"expected {name} of shape {shape} with at least one class, "
                    f"got {getattr(self, name).shape}"
                )

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.group.dim

    @property
    def summed_over(self) -> Group:
        """The group whose orbits are summed over."""
        return self.group

    @property
    def form(self) -> BlockForm:
        """Where the blocks are."""
        return block_form_of(self.group)

    @property
    def classes(self) -> int:
        """Number of classes, C."""
        return self.log_weights.shape[0]

    @property
    def orbit_cost(self) -> int:
        """Plain density terms that an orbit sum costs, roughly."""
        return max(1, 2**self.form.labels * self.classes // STEPS_PER_TERM)

    def log_prob(self, x: Point) -> Scalar:
        """Return the plain density, labels as they are."""
        blocks, fixed = self.form.split(x)
        standard = jnp.einsum("jcab,jcb->jca", jnp.tril(self.factors), blocks[:, None] - self.means)
        radial = log_radial(jnp.sum(standard**2, axis=-1), self.form.size)
        rows = radial + log_abs_det(self.factors)

        def follow(reached: Array, step: tuple[Array, Array]) -> tuple[Array, None]:
            matrix, row = step
            return logsumexp(reached[:, None] + matrix, axis=0) + row, None

        first = self._log_first(fixed) + rows[0]
        last, _ = jax.lax.scan(follow, first, (self._log_steps(), rows[1:]))
        return logsumexp(last)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        class_key, block_key, fixed_key = jax.random.split(key, 3)
        m, p = self.form.labels, self.form.size
        noise = jax.random.gumbel(class_key, (m, self.classes), self.means.dtype)

        def follow(old: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
            matrix, gumbel = step
            new = jnp.argmax(matrix[old] + gumbel)
            return new, new

        first = jnp.argmax(self.log_weights + noise[0])
        _, others = jax.lax.scan(follow, first, (self._log_steps(), noise[1:]))
        chosen = jnp.concatenate([first[None], others])
        labels = jnp.arange(m)
        normal = jax.random.normal(block_key, (m, p), self.means.dtype)
        roots = _inverses(self.factors)[labels, chosen]
        blocks = self.means[labels, chosen] + jnp.einsum("jab,jb->ja", roots, normal)
        still = jax.random.normal(fixed_key, (len(self.form.fixed),), self.means.dtype)
        fixed = self.fixed_means[first] + _inverses(self.fixed_factors)[first] @ still
        x = self.form.join(blocks, fixed)
        return x, self.log_prob(x)

    def log_orbit_sum(self, z: Point) -> Scalar:
        """Return log Σ_g q(g·z)."""
        return _log_orbit_sum(self, z)

    def log_orbit_sums(self, points: Float[Array, "n dim"]) -> Float[Array, " n"]:
        """Return log Σ_g q(g·z) at a block of points."""
        return log_orbit_sums(self.logs(points)[0])

    def draw_image(self, key: Key, z: Point) -> Point:
        """Return an image g·z with probability q(g·z)/q_F(z), drawn backwards through the sets."""
        return self._image(z, drawn_labelling(key, *self.logs(z[None])))

    def likeliest_image(self, z: Point) -> Point:
        """Return the image whose labelling and classes together are the likeliest."""
        return self._image(z, likeliest_labelling(*self.logs(z[None])))

    def logs(
        self, points: Float[Array, "n dim"]
    ) -> tuple[Logs, Float[Array, "signs labels blocks n classes"]]:
        """What an orbit sum is made of, and the densities of every block under either sign."""
        blocks, fixed = self.form.split(points)
        signs = (1.0, -1.0) if self.form.signed else (1.0,)
        factors = jnp.tril(self.factors)
        offsets = jnp.einsum("jcab,jcb->jca", factors, self.means)
        turned = jnp.einsum("jcab,nib->jinca", factors, blocks)
        constant = log_abs_det(self.factors)[:, None, None]
        each = []
        for sign in signs:
            standard = sign * turned - offsets[:, None, None]
            radial = log_radial(jnp.sum(standard**2, axis=-1), self.form.size)
            each.append((radial + constant).at[0].add(self._log_first(fixed)))
        stacked = jnp.stack(each)
        densities = logsumexp(stacked, axis=0) if self.form.signed else stacked[0]
        return Logs(self._log_steps(), densities), stacked

    def _image(self, z: Point, labelling: tuple[Array, Array]) -> Point:
        order, sign = labelling
        blocks, fixed = self.form.split(z)
        moved = blocks[order]
        if self.form.signed:
            moved = jnp.where(sign[:, None] == 0, moved, -moved)
        return self.form.join(moved, fixed)

    def _log_first(self, fixed: Float[Array, "*n f"]) -> Float[Array, "*n classes"]:
        """Log of the first weight times the density of the coordinates without a label."""
        away = fixed[..., None, :] - self.fixed_means
        standard = jnp.einsum("cab,...cb->...ca", jnp.tril(self.fixed_factors), away)
        radial = log_radial(jnp.sum(standard**2, axis=-1), fixed.shape[-1])
        return jax.nn.log_softmax(self.log_weights) + radial + log_abs_det(self.fixed_factors)

    def _log_steps(self) -> Float[Array, "steps classes classes"]:
        plain = jax.nn.log_softmax(self.log_transitions, axis=-1)
        return jnp.logaddexp(jnp.log1p(-FLOOR) + plain, jnp.log(FLOOR / self.classes))


def block_form_of(group: Group) -> BlockForm:
    """Return the block form of a group that a class chain can be summed over.

    Raises:
        ValueError: saying which groups have one.
    """
    form = group.block_form
    if form is None:
        raise ValueError(
            f"{type(group).__name__} of order {group.order} does not permute whole blocks: a class "
            "chain needs Permutation, SignedPermutation, or Joint of Blocks and Fixed parts"
        )
    if form.labels > MOST_LABELS:
        raise ValueError(
            f"expected at most {MOST_LABELS} labels, got {form.labels}: sums over all labellings "
            f"go through 2^{form.labels} sets"
        )
    return form


@custom_vmap
def _log_orbit_sum(chain: ClassChain, z: Point) -> Scalar:
    return chain.log_orbit_sums(z[None])[0]


@_log_orbit_sum.def_vmap
def _of_many(size: int, batched: tuple, chain: ClassChain, points: Array) -> tuple[Array, bool]:
    """Many points are one block: contiguous rows instead of a sum for each."""
    if any(jax.tree.leaves(batched[0])):
        raise NotImplementedError("map over points, not over class chains")
    return chain.log_orbit_sums(points), True


def _inverses(factors: Float[Array, "*n p p"]) -> Float[Array, "*n p p"]:
    identity = jnp.broadcast_to(jnp.eye(factors.shape[-1], dtype=factors.dtype), factors.shape)
    return solve_triangular(factors, identity, lower=True)
