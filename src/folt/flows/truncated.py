"""A proposal summed over the likeliest images of a point, where an orbit has too many.

Exact although most of the orbit is left out: N(z) is a function of the orbit alone, draws whose
labelling is not in it die, and q_N(z) = Σ_{g∈N(z)} q(g·z) is the density of those that live.
"""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int

from folt.flows.assignments import likely_arrangements, most_arrangements
from folt.flows.elliptical import log_abs_det, log_radial
from folt.flows.mixture import Mixture
from folt.groups import Group
from folt.groups.permutation import Relabelling
from folt.types import Key, OrbitSummed, Point, Scalar


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
        """The plain density, labels as they are."""
        return self.main.log_prob(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density, whether it will live or not."""
        return self.main.sample_and_log_prob(key)

    def propose(self, key: Key) -> tuple[Point, Bool[Array, ""]]:
        """A draw and whether it lives."""
        x = self.sample(key)
        return x, self.survives(x)

    def survives(self, x: Point) -> Bool[Array, ""]:
        """Whether x = g'·z, z folded, with g' in N(z); g' undoes the element that folds x."""
        folding = self.group.folding_element(x)
        kept = self.arrangements(self.group.act(folding, x))
        return jnp.any(jnp.all(kept == self.group.inverse(folding), axis=1))

    def log_orbit_sum(self, z: Point) -> Scalar:
        """Log q_N(z), the density of draws that live; the same at every image of z."""
        return logsumexp(self._terms(self.likely_images(z)))

    def draw_image(self, key: Key, z: Point) -> Point:
        """An image in N(z) with its share of q_N(z)."""
        images = self.likely_images(z)
        return images[jax.random.categorical(key, self._terms(images))]

    def likeliest_image(self, z: Point) -> Point:
        """The image in N(z) with the largest density."""
        images = self.likely_images(z)
        return images[jnp.argmax(self._terms(images))]

    def likely_images(self, z: Point) -> Float[Array, "kept dim"]:
        """The images g·z, g in N(z), of a point that is folded first."""
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
