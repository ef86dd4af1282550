"""Which images of a point are looked at in training, where the group is large.

Of hundreds of images all but a few have no density under any reasonable proposal. A pilot, one
Gaussian fitted over the whole orbit, names the few that may have some; the others are left out.
Only training does this: chains and certificates sum the whole orbit.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float

from folt.groups import Group
from folt.types import Distribution, Point

CANDIDATES = 16
"""Images looked at. Of the galaxies with five components (120 images) one point in 1000 has its
likeliest image under a mixture of 88 components beyond these."""

PILOTED_IMAGES = 8
"""Images that a pilot looks at for the price of one that is looked at in full."""


def looks_at_all(group: Group, pilot: Distribution | None) -> bool:
    """Whether every image is looked at: the group is small, or there is no pilot."""
    return pilot is None or group.order <= CANDIDATES


def price(group: Group, pilot: Distribution | None) -> int:
    """Density terms that one point costs, for the size of chunks."""
    if looks_at_all(group, pilot):
        return group.order
    return CANDIDATES + group.order // PILOTED_IMAGES


def candidates(
    group: Group, pilot: Distribution | None, z: Point
) -> Float[Array, "candidates dim"]:
    """All images of a point, or of a large group those that the pilot finds likeliest."""
    images = group.orbit(z)
    if pilot is None or looks_at_all(group, pilot):
        return images
    _, places = jax.lax.top_k(jax.vmap(pilot.log_prob)(images), CANDIDATES)
    return images[places]
