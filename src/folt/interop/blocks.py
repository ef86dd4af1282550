"""Where relabelling would rotate the weights of a mixture: a free total makes it permute blocks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from folt.groups import Group
from folt.interop.coordinates import FreeTotal, SimplexRows
from folt.interop.model import Model, ModelDensity
from folt.interop.sites import Site, laid_out
from folt.models.gaussian import AUGMENTED_FROM
from folt.symmetry.assembly import Order, assembled
from folt.symmetry.findings import Factor
from folt.symmetry.moves import AlongAxis, Entries, Move, Mover

ASSUMED_OBSERVATIONS = 100
"""Where a model does not say how many it has: a likelihood in one number, without data."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Sites, and what moves the coordinates that they have one after the other."""

    sites: Sequence[Site]
    factors: Sequence[Factor]

    @functools.cached_property
    def assembled(self) -> tuple[Group, Order]:
        """The group, and the order in which it needs the coordinates."""
        return assembled(self.factors, sum(site.size for site in self.sites))

    @property
    def group(self) -> Group:
        """The group that the factors make."""
        return self.assembled[0]


def in_blocks(plan: Plan, count: Callable[[], int]) -> Plan:
    """The plan with free totals for vectors of weights, where all that moves is then plain blocks.

    From `AUGMENTED_FROM` labels on, a proposal sums over the labellings by sets of whole blocks. It
    needs the action in that form, which centred weights do not have; the evidence stays the same.
    The plan stays as it is for fewer labels, and where anything else is no block: transition
    matrices, several groups, weights of several rows. `count` tells the number of observations.
    """
    if len(plan.factors) != 1 or plan.factors[0].m < AUGMENTED_FROM:
        return plan
    (factor,) = plan.factors
    pairs = list(zip(factor.movers, factor.moves, strict=True))
    rotated = {mover.name for mover, move in pairs if isinstance(move, Entries)}
    vectors = {site.name for site in plan.sites if _is_vector(site)}
    if not rotated or not rotated <= vectors:
        return plan
    total = count()
    sites = [_with_total(site, total) if site.name in rotated else site for site in plan.sites]
    starts = np.cumsum([0, *(site.size for site in sites)])
    old = (np.arange(site.size) for site in plan.sites)
    columns = np.concatenate([start + own for start, own in zip(starts, old, strict=False)])
    moved = [_in_blocks(mover, move, columns, factor.m) for mover, move in pairs]
    movers, moves = zip(*moved, strict=True)
    blocks = Plan(sites, (dataclasses.replace(factor, movers=movers, moves=moves),))
    return blocks if blocks.group.block_form is not None else plan


def _is_vector(site: Site) -> bool:
    return isinstance(site.coordinate, SimplexRows) and len(site.shape) == 1


def _with_total(site: Site, count: int) -> Site:
    assert isinstance(site.coordinate, SimplexRows)
    total = FreeTotal(site.coordinate, count)
    return dataclasses.replace(site, shape=(site.coordinate.length,), coordinate=total)


def _in_blocks(mover: Mover, move: Move, columns: np.ndarray, m: int) -> tuple[Mover, Move]:
    """A mover where its coordinates stand now, weights with one coordinate per label."""
    if not isinstance(move, Entries):
        return dataclasses.replace(mover, columns=columns[mover.columns]), move
    rows = AlongAxis(0)
    own = columns[mover.columns[0]] + np.arange(m)
    return dataclasses.replace(mover, columns=own, moves=(rows,)), rows


def observations(model: Model, sites: Sequence[Site], data: PyTree) -> int:
    """The number of observations of a model: the most terms that any observed site has.

    A likelihood that is added by `numpyro.factor` or `pm.Potential` need not show them: then it is
    the length of the longest array among the data and the added terms, and without any
    `ASSUMED_OBSERVATIONS`. What depends on it is how well a proposal fits, never what is sampled.
    """
    laid = laid_out(sites, plain=True)
    terms = ModelDensity(model, laid).log_terms
    found = jax.eval_shape(terms, jnp.zeros(laid.dim), data)
    if found.observed:
        return max(each.size for each in found.observed.values())
    lengths = [np.shape(leaf)[0] for leaf in jax.tree.leaves((found.factors, data)) if leaf.ndim]
    return max(lengths, default=ASSUMED_OBSERVATIONS)
