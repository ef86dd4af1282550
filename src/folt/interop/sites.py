"""What every probabilistic language has in common: named sites, their coordinates, their layout.

A front-end says for each site its shape, what values it takes and, where known, its prior. From
that come coordinates in which relabelling is orthogonal, and the layout of a point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from folt.coordinates import Prior, PriorNormal
from folt.interop.coordinates import (
    Beta,
    BetaScores,
    Bounds,
    FreeTotal,
    SimplexRows,
    ZeroSumVectors,
    known_coordinate,
    plain_coordinate,
)
from folt.symmetry.assembly import Order
from folt.symmetry.candidates import Place
from folt.types import Coordinate, Key, Point, Scalar


@dataclasses.dataclass(frozen=True)
class Site:
    """One latent site, as a front-end describes it.

    Attributes:
        name: its name.
        shape: shape of its coordinates, before they are laid out in a point.
        coordinate: from coordinates of that shape to values; `push`, `pull`, `log_slope`.
        plain: the same without a prior: labels with equal values have equal coordinates.
        simplex: whether the last axis holds scores of probabilities.
        axes: axes, counted from the front, that may be the component axis.
        real: whether values are unbounded, as locations are: the best to sort by.
        unit: whether values lie between zero and one.
        ordered: whether values ascend by construction.
        key: equal for sites with equal supports.
        centre: a plain coordinate in the midst of the prior.
        spread: how far the prior reaches from there.
    """

    name: str
    shape: tuple[int, ...]
    coordinate: Coordinate
    plain: Coordinate
    simplex: bool = False
    axes: tuple[int, ...] = ()
    real: bool = False
    unit: bool = False
    ordered: bool = False
    key: Hashable = None
    centre: float = 0.0
    spread: float = 1.0

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def rank(self) -> int:
        """The lower, the better to sort by: locations, other blocks, weights."""
        if self.simplex or (self.unit and not self.shape):
            return 2
        return 0 if self.real else 1

    def place(self, start: int) -> Place:
        """Return the site as the search for symmetry sees it, with its coordinates from `start`."""
        return Place(
            name=self.name,
            columns=np.arange(start, start + self.size).reshape(self.shape),
            axes=self.axes,
            simplex=self.simplex,
            interval=self.unit,
            key=self.key,
            rank=self.rank,
            ordered=self.ordered,
        )


def simplex_site(name: str, shape: tuple[int, ...], concentration: np.ndarray | None) -> Site:
    """Return a site of probabilities along the last axis."""
    return _rows_site(name, shape, SimplexRows(shape[-1], concentration), "simplex")


def zero_sum_site(name: str, shape: tuple[int, ...]) -> Site:
    """Return a site of vectors along the last axis that sum to zero: labels act as on scores."""
    return _rows_site(name, shape, ZeroSumVectors(shape[-1]), "zero sum")


def _rows_site(name: str, shape: tuple[int, ...], coordinate: Coordinate, key: str) -> Site:
    inner = (*shape[:-1], shape[-1] - 1)
    axes = tuple(range(len(shape) - 1))
    return Site(name, inner, coordinate, coordinate, simplex=True, axes=axes, key=key)


def bounded_site(
    name: str, shape: tuple[int, ...], bounds: Bounds, prior: Prior | Beta | None
) -> Site:
    """Return a site of real numbers, each between the same bounds or none."""
    low, high = bounds
    centre, spread = _midst(bounds, prior)
    return Site(
        name,
        shape,
        known_coordinate(shape, bounds, prior),
        plain_coordinate(shape, low, high),
        axes=tuple(range(len(shape))),
        real=low is None and high is None,
        unit=bool(low is not None and high is not None and np.all(low == 0) and np.all(high == 1)),
        key=tuple(None if b is None else tuple(np.unique(b).tolist()) for b in bounds),
        centre=centre,
        spread=spread,
    )


def opaque_site(
    name: str,
    shape: tuple[int, ...],
    coordinate: Coordinate,
    axes: tuple[int, ...] = (),
    ordered: bool = False,
) -> Site:
    """Return a site whose values are not separate numbers: only whole axes may carry labels."""
    key = type(getattr(coordinate, "transform", coordinate)).__name__
    return Site(name, shape, coordinate, coordinate, axes=axes, ordered=ordered, key=key)


def _midst(bounds: Bounds, prior: Prior | Beta | None) -> tuple[float, float]:
    """Return the centre and spread of a prior in plain coordinates, roughly."""
    loc, scale = (getattr(prior, name, None) for name in ("loc", "scale"))
    if loc is None or scale is None:
        return 0.0, 1.0
    low, high = bounds
    if low is None and high is None:
        return float(np.mean(loc)), float(np.clip(np.mean(scale), 1e-3, 1e3))
    if low is not None and high is None:
        return float(np.log(np.mean(scale))), 1.0
    return 0.0, 1.0


class SiteMap(eqx.Module):
    """A site with its coordinate."""

    name: str = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    coordinate: Coordinate

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(np.prod(self.shape, dtype=int))

    def push(self, piece: Array) -> Array:
        """Return the value of the site."""
        return self.coordinate.push(piece.reshape(self.shape))

    def pull(self, value: Array, key: Key | None = None) -> Array:
        """Return the coordinates of a value; what it leaves open is drawn with the key."""
        given = (key,) if isinstance(self.coordinate, FreeTotal) else ()
        return jnp.asarray(self.coordinate.pull(jnp.asarray(value), *given)).reshape(-1)

    @property
    def known(self) -> bool:
        """Whether its prior is known and independent of other sites."""
        if isinstance(self.coordinate, (SimplexRows, FreeTotal)):
            return self.coordinate.concentration is not None
        return isinstance(self.coordinate, (PriorNormal, BetaScores))

    def sample(self, key: Key) -> Array:
        """Return coordinates drawn from the prior, where it is known."""
        if isinstance(self.coordinate, (SimplexRows, FreeTotal, BetaScores)):
            return self.coordinate.sample(key).reshape(-1)
        return jax.random.normal(key, (self.size,))

    def log_slope(self, piece: Array) -> Scalar:
        """Return the log Jacobian determinant of `push`."""
        return jnp.sum(self.coordinate.log_slope(piece.reshape(self.shape)))


class Sites(eqx.Module):
    """All latent sites of a model, and the order in which their coordinates make a point."""

    maps: tuple[SiteMap, ...]
    order: Order = eqx.field(static=True)

    @property
    def dim(self) -> int:
        """Number of coordinates in all."""
        return sum(each.size for each in self.maps)

    def pieces(self, x: Point) -> list[Array]:
        """Return the coordinates of every site."""
        places = np.array(self.order.places, int)
        if not np.array_equal(places, np.arange(self.dim)):
            x = x[np.argsort(places)]
        signs = np.array(self.order.signs)[np.argsort(places)]
        if np.any(signs < 0):
            x = x * jnp.asarray(signs, x.dtype)
        return jnp.split(x, np.cumsum([each.size for each in self.maps])[:-1].tolist())

    def joined(self, pieces: Sequence[Array]) -> Point:
        """Return the point with these coordinates of the sites."""
        x = jnp.concatenate(list(pieces))
        return x[np.array(self.order.places, int)] * jnp.asarray(self.order.signs, x.dtype)

    def push(self, x: Point) -> dict[str, Array]:
        """Return values of every site by name."""
        pairs = zip(self.maps, self.pieces(x), strict=True)
        return {each.name: each.push(piece) for each, piece in pairs}

    def sample_known(self, key: Key) -> dict[str, Array]:
        """Return coordinates of the sites whose prior is known and independent, drawn from it."""
        keys = jax.random.split(key, len(self.maps))
        pairs = zip(self.maps, keys, strict=True)
        return {each.name: each.sample(own) for each, own in pairs if each.known}

    def pull(
        self,
        values: dict[str, Array],
        key: Key | None = None,
        known: dict[str, Array] | None = None,
    ) -> Point:
        """Return the point with these values.

        Args:
            values: the value of every site by name.
            key: draws what values leave open, the total of augmented weights; its mean if None.
            known: coordinates of sites that need not be found from their values.
        """
        known = known or {}
        keys = [None] * len(self.maps) if key is None else jax.random.split(key, len(self.maps))
        return self.joined(
            [
                known[each.name] if each.name in known else each.pull(values[each.name], own)
                for each, own in zip(self.maps, keys, strict=True)
            ]
        )

    def log_slopes(self, x: Point) -> dict[str, Scalar]:
        """Return the log Jacobian determinant of every site's `push`."""
        pairs = zip(self.maps, self.pieces(x), strict=True)
        return {each.name: each.log_slope(piece) for each, piece in pairs}

    def log_slope(self, x: Point) -> Scalar:
        """Return the log Jacobian determinant of `push`."""
        return jnp.sum(jnp.stack(list(self.log_slopes(x).values())))

    def names(self, first: int = 0) -> list[str]:
        """Return one name per coordinate: the site, and the index in it, counted from `first`."""
        plain = [name for each in self.maps for name in _coordinate_names(each, first)]
        pairs = zip(self.order.places, self.order.signs, strict=True)
        return [plain[place] if sign > 0 else f"-{plain[place]}" for place, sign in pairs]


def _coordinate_names(each: SiteMap, first: int) -> list[str]:
    if not each.shape:
        return [each.name]
    indices = (first + np.array(index) for index in np.ndindex(each.shape))
    return [f"{each.name}[{','.join(map(str, index))}]" for index in indices]


def require_numbers(word: str, name: str, values: ArrayLike) -> None:
    """Refuse NaN among the observations of a site, by the word that its language has for it."""
    found = np.asarray(values)
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise ValueError(
            f"the observed {word} {name!r} has {int(np.isnan(found).sum())} NaN: leave out missing "
            "observations or make them latent"
        )


def laid_out(sites: Sequence[Site], order: Order | None = None, plain: bool = False) -> Sites:
    """Return the sites one after the other, then in the given order.

    Args:
        sites: the sites.
        order: order of the coordinates; as they come if None.
        plain: take the coordinates that do not know the prior.
    """
    maps = tuple(
        SiteMap(site.name, site.shape, site.plain if plain else site.coordinate) for site in sites
    )
    return Sites(maps, order or Order.plain(sum(site.size for site in sites)))
