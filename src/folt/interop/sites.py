"""What every probabilistic language has in common: named sites, their coordinates, their layout.

A front-end says for each site its shape, what values it takes and, where known, its prior. From
that come coordinates in which relabelling is orthogonal, the layout of a point, and the group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from folt._types import Key, Point, Scalar
from folt.coordinates import Coordinate, Identity, Logit, LogRatios, Prior, PriorNormal
from folt.coordinates.leaves import Leaf, parameter
from folt.detection import TOLERANCE, Detection, Strand, detect, swap_defect
from folt.groups import (
    Blocks,
    Fixed,
    Group,
    Joint,
    Part,
    Permutation,
    Product,
    SignedPermutation,
    Square,
    Trivial,
    Within,
    ZeroSum,
    ZeroSumRows,
)
from folt.symmetry import SymmetryError

Exchangeable = Literal["auto"] | Sequence[str]

LARGEST_EXPONENT = 700.0
"""Beyond it exp leaves double precision; a density there is nothing but rounding."""

MOST_LABELS = 20
"""Longest axis that is taken for a component axis without being named."""


class Bounded(Coordinate):
    """A parameter on one side of a bound: push(x) = bound + exp(x), or bound - exp(x)."""

    bound: Leaf = parameter()
    above: bool = eqx.field(static=True, default=True)

    def push(self, x: Array) -> Array:
        """The bound plus or minus exp(x)."""
        distance = jnp.exp(jnp.clip(x, -LARGEST_EXPONENT, LARGEST_EXPONENT))
        return jnp.asarray(self.bound + distance if self.above else self.bound - distance)

    def pull(self, value: Array) -> Array:
        """Logarithm of the distance from the bound."""
        return jnp.log(value - self.bound if self.above else self.bound - value)

    def log_slope(self, x: Array) -> Array:
        """X itself."""
        return jnp.asarray(x)


class SimplexRows(eqx.Module):
    """Probabilities along the last axis as centred log-ratios, (..., V) in (..., V - 1).

    Args:
        length: number of probabilities, V.
        concentration: of an independent Dirichlet prior (..., V), if that is what they have.
    """

    length: int = eqx.field(static=True)
    concentration: Any
    flat: bool = eqx.field(static=True)

    def __init__(self, length: int, concentration: np.ndarray | None = None):
        self.length = length
        self.concentration = concentration
        self.flat = concentration is not None and bool(np.all(concentration == 1.0))

    @property
    def ratios(self) -> LogRatios:
        """The coordinates of one simplex."""
        return LogRatios.symmetric(self.length)

    def push(self, x: Array) -> Array:
        """Probabilities, never exactly zero, where some densities would not be numbers."""
        flat = jax.vmap(self.ratios.push)(x.reshape(-1, self.length - 1))
        values = flat.reshape(*x.shape[:-1], self.length)
        return jnp.maximum(values, jnp.finfo(values.dtype).tiny)

    def pull(self, value: Array) -> Array:
        """Log-ratios of every row."""
        flat = jax.vmap(self.ratios.pull)(value.reshape(-1, self.length))
        return flat.reshape(*value.shape[:-1], self.length - 1)

    def sample(self, key: Key) -> Array:
        """Log-ratios drawn from the Dirichlet prior, one row per simplex."""
        rows = jnp.asarray(self.concentration).reshape(-1, self.length)
        if self.flat:  # exponential variables compile at once, Gamma ones do not
            return jax.vmap(self.ratios.pull)(jax.random.exponential(key, rows.shape, rows.dtype))
        keys = jax.random.split(key, rows.shape[0])
        return jax.vmap(lambda own, row: LogRatios(row).sample_prior(own))(keys, rows)

    def log_slope(self, x: Array) -> Array:
        """One number per row."""
        return jax.vmap(self.ratios.log_slope)(x.reshape(-1, self.length - 1))


@dataclasses.dataclass(frozen=True)
class Site:
    """One latent site, as a front-end describes it.

    Attributes:
        name: its name.
        shape: shape of its coordinates, before they are laid out in a point.
        coordinate: from coordinates of that shape to values; `push`, `pull`, `log_slope`.
        simplex: whether the last axis holds log-ratios of probabilities.
        axes: axes, counted from the front, that may be the component axis.
        real: whether values are unbounded, as locations are: the best to sort by.
    """

    name: str
    shape: tuple[int, ...]
    coordinate: Any
    simplex: bool
    axes: tuple[int, ...]
    real: bool

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(np.prod(self.shape, dtype=int))

    def placed(self, m: int, leading: bool = False) -> tuple[int, tuple[Part, ...]] | None:
        """The component axis for m labels and the parts it makes; None if there is none.

        Args:
            m: number of labels.
            leading: admit the first axis only.
        """
        axes = [axis for axis in self.axes if self.shape[axis] == m and (axis == 0 or not leading)]
        last = len(self.shape) - 1
        if self.simplex:
            probabilities = self.shape[last] + 1 == m
            if axes and self.shape == (m, m - 1):
                return 0, (ZeroSumRows(),)
            if probabilities and not axes and (last == 0 or not leading):
                return last, (ZeroSum(),) * (self.size // (m - 1))
        if not axes:
            return None
        if self.shape == (m, m) and not self.simplex and last in self.axes:
            return 0, (Square(),)
        return axes[0], (Blocks(self.size // m),)

    def labels(self) -> int | None:
        """Length of the leading component axis, or None if there is none."""
        if self.simplex and len(self.shape) == 1:
            return self.shape[0] + 1
        return self.shape[0] if 0 in self.axes else None


class SiteMap(eqx.Module):
    """A site with its place in a point: coordinates laid out with the component axis first."""

    name: str = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    axis: int = eqx.field(static=True)
    coordinate: Any

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(np.prod(self.shape, dtype=int))

    def array(self, piece: Array) -> Array:
        """The coordinates in the shape of the site."""
        if not self.shape:
            return piece.reshape(())
        rest = self.shape[: self.axis] + self.shape[self.axis + 1 :]
        return jnp.moveaxis(piece.reshape(self.shape[self.axis], *rest), 0, self.axis)

    def push(self, piece: Array) -> Array:
        """The value of the site."""
        return self.coordinate.push(self.array(piece))

    def pull(self, value: Array) -> Array:
        """The coordinates of a value."""
        return self._laid_out(jnp.asarray(self.coordinate.pull(jnp.asarray(value))))

    def sample(self, key: Key) -> Array | None:
        """Coordinates drawn from the prior; None where it is not known."""
        if isinstance(self.coordinate, PriorNormal):
            return jax.random.normal(key, (self.size,))
        alpha = getattr(self.coordinate, "concentration", None)
        if alpha is None:
            return None
        return self._laid_out(self.coordinate.sample(key).reshape(self.shape))

    def _laid_out(self, array: Array) -> Array:
        return (jnp.moveaxis(array, self.axis, 0) if self.shape else array).reshape(-1)

    def log_slope(self, piece: Array) -> Scalar:
        """Log Jacobian determinant of `push`."""
        return jnp.sum(self.coordinate.log_slope(self.array(piece)))


class Sites(eqx.Module):
    """All latent sites of a model, one after the other in a point."""

    maps: tuple[SiteMap, ...]

    @property
    def dim(self) -> int:
        """Number of coordinates in all."""
        return sum(each.size for each in self.maps)

    def pieces(self, x: Point) -> list[Array]:
        """The coordinates of every site."""
        ends = np.cumsum([each.size for each in self.maps])[:-1].tolist()
        return jnp.split(x, ends)

    def push(self, x: Point) -> dict[str, Array]:
        """Values of every site by name."""
        return {
            each.name: each.push(piece)
            for each, piece in zip(self.maps, self.pieces(x), strict=True)
        }

    def sample_known(self, key: Key) -> dict[str, Array]:
        """Coordinates of the sites whose prior is known and independent, drawn from it."""
        drawn = {}
        for number, each in enumerate(self.maps):
            piece = each.sample(jax.random.fold_in(key, number))
            if piece is not None:
                drawn[each.name] = piece
        return drawn

    def pull(self, values: dict[str, Array]) -> Point:
        """The point with these values."""
        return jnp.concatenate([each.pull(values[each.name]) for each in self.maps])

    def log_slope(self, x: Point) -> Scalar:
        """Log Jacobian determinant of `push`."""
        terms = [
            each.log_slope(piece) for each, piece in zip(self.maps, self.pieces(x), strict=True)
        ]
        return jnp.sum(jnp.stack(terms))

    def names(self) -> list[str]:
        """One name per coordinate: the site, and the index within it."""
        return [name for each in self.maps for name in _coordinate_names(each)]


def _coordinate_names(each: SiteMap) -> list[str]:
    if not each.shape:
        return [each.name]
    indices = np.moveaxis(np.indices(each.shape), each.axis + 1, 1).reshape(len(each.shape), -1)
    return [f"{each.name}[{','.join(map(str, index))}]" for index in indices.T]


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """How the sites are laid out, which group moves them, and what was found on the way.

    Attributes:
        sites: the sites in their order, with coordinates.
        group: the group.
        dims: names of the axes of the exchangeable sites.
        account: what detection found, in words; empty if nothing was looked for.
    """

    sites: Sites
    group: Group
    dims: dict[str, tuple[str, ...]]
    account: str = ""


DensityOf = Callable[[Sites], Callable[..., Any]]
"""From a layout to the log density in its coordinates."""


def arrange(
    sites: Sequence[Site], exchangeable: Exchangeable, density_of: DensityOf, data: Any = None
) -> Arrangement:
    """Lay out the sites and find, or verify, how they may be relabelled.

    Args:
        sites: the latent sites.
        exchangeable: "auto", or the names of the sites that are permuted together along their
            first axis; an empty list for none.
        density_of: gives the log density for a layout.
        data: handed to that density.

    Raises:
        ValueError: unknown sites, or sites of unequal length.
        SymmetryError: sites declared exchangeable that are not.
    """
    if not sites:
        raise ValueError("expected a model with at least one latent site, got none")
    if isinstance(exchangeable, str):
        if exchangeable != "auto":
            raise ValueError(
                f"expected exchangeable='auto' or a list of site names, got {exchangeable!r}"
            )
        return _found(sites, density_of, data)
    names = list(exchangeable)
    return _declared(sites, names, density_of, data) if names else _plain(sites)


def _plain(sites: Sequence[Site], account: str = "") -> Arrangement:
    """Nothing is exchangeable."""
    laid = Sites(tuple(_map(site, 0) for site in sites))
    return Arrangement(laid, Trivial(laid.dim), {}, account)


def _declared(
    sites: Sequence[Site], names: list[str], density_of: DensityOf, data: Any
) -> Arrangement:
    """The sites that the user named, verified."""
    known = {site.name: site for site in sites}
    for name in names:
        if name not in known:
            raise ValueError(
                f"the model has no latent site {name!r}; its latent sites are "
                f"{', '.join(map(repr, known))}"
            )
    lengths = {name: known[name].labels() for name in names}
    if None in lengths.values() or len(set(lengths.values())) != 1:
        told = ", ".join(f"{name!r} {length or 'none'}" for name, length in lengths.items())
        raise ValueError(
            f"exchangeable sites must share the length of their first axis, got {told}"
        )
    m = lengths[names[0]] or 1
    chosen = _by_key([known[name] for name in dict.fromkeys(names)])
    placed = [_placed(site, m, leading=True) for site in chosen]
    rest = [site for site in sites if site.name not in names]
    laid = _laid(zip(chosen, (axis for axis, _ in placed), strict=True), rest)
    parts = [part for _, parts in placed for part in parts] + _fixed(rest)
    ways, defect, swap = swap_defect(density_of(laid), m, parts, data=data)
    if defect > TOLERANCE:
        raise SymmetryError(
            f"sites {', '.join(map(repr, names))} are declared exchangeable, but the log density "
            f"changes by {defect:.3g} of its size under '{swap}': give the components equal priors "
            "and likelihoods, name other sites, or use exchangeable='auto'"
        )
    parts = list(ways)
    whole = len(parts) == 1 and isinstance(parts[0], Blocks)
    group: Group = Permutation(m, parts[0].length(m) // m) if whole else Joint(m, parts)
    return Arrangement(laid, group, _dims(zip(chosen, placed, strict=True)))


def _placed(site: Site, m: int, leading: bool = False) -> tuple[int, tuple[Part, ...]]:
    found = site.placed(m, leading)
    assert found is not None
    return found


def _found(sites: Sequence[Site], density_of: DensityOf, data: Any) -> Arrangement:
    """What detection finds for every length that an axis has."""
    lengths = {site.shape[axis] for site in sites for axis in site.axes}
    lengths |= {site.shape[-1] + 1 for site in sites if site.simplex}
    accounts: list[str] = []
    strands: list[_Moving] = []
    for m in sorted(length for length in lengths if 2 <= length <= MOST_LABELS):
        tried = _detected(sites, m, density_of, data)
        accounts.append(f"Components of number {m}. {tried.account}")
        strands += tried.strands
    used: list[_Moving] = []
    for strand in sorted(strands, key=lambda each: -each.order):
        taken = {site.name for other in used for site in other.sites}
        if not taken & {site.name for site in strand.sites}:
            used.append(strand)
    account = "\n".join(accounts)
    if not used:
        return _plain(sites, account)
    taken = {site.name for strand in used for site in strand.sites}
    rest = [site for site in sites if site.name not in taken]
    moving = [(site, axis) for s in used for site, axis in zip(s.sites, s.axes, strict=True)]
    laid = _laid(moving, rest)
    dims: dict[str, tuple[str, ...]] = {}
    for number, strand in enumerate(used):
        places = zip(strand.axes, strand.parts, strict=True)
        dims |= _dims(zip(strand.sites, places, strict=True), number)
    return Arrangement(laid, _joined(used, rest), dims, account)


@dataclasses.dataclass(frozen=True)
class _Moving:
    """Sites that move together: their component axes, parts, classes of labels, signs."""

    m: int
    sites: tuple[Site, ...]
    axes: tuple[int, ...]
    parts: tuple[tuple[Part, ...], ...]
    classes: tuple[tuple[int, ...], ...]
    signed: bool

    @property
    def order(self) -> int:
        """Number of transformations."""
        return self.group(()).order

    def group(self, rest: Sequence[Part]) -> Group:
        """The group on these sites, with other coordinates left alone behind them."""
        parts = [part for each in self.parts for part in each]
        only = parts[0]
        if len(parts) == 1 and isinstance(only, Blocks) and not rest:
            if self.signed:
                return SignedPermutation(self.m, only.size)
            if self.classes == (tuple(range(self.m)),):
                return Permutation(self.m, only.size)
        joint = Joint(self.m, [*parts, *rest])
        whole = self.classes == (tuple(range(self.m)),)
        return joint if whole else Within(joint, self.classes)


def _joined(used: Sequence[_Moving], rest: Sequence[Site]) -> Group:
    if len(used) == 1 and not used[0].signed:
        return used[0].group(_fixed(rest))
    groups = [strand.group(()) for strand in used]
    still = sum(site.size for site in rest)
    groups += [Trivial(still)] if still else []
    return groups[0] if len(groups) == 1 else Product(*groups)


@dataclasses.dataclass(frozen=True)
class _Detected:
    strands: tuple[_Moving, ...]
    account: str


def _detected(sites: Sequence[Site], m: int, density_of: DensityOf, data: Any) -> _Detected:
    """Detection among the sites that have an axis of length m."""
    placed = {site.name: site.placed(m) for site in sites}
    chosen = _by_key([site for site in sites if placed[site.name] is not None])
    rest = [site for site in sites if placed[site.name] is None]
    axes = [_placed(site, m)[0] for site in chosen]
    laid = _laid(zip(chosen, axes, strict=True), rest)
    parts, names, owner = [], [], []
    for site in chosen:
        for number, part in enumerate(_placed(site, m)[1]):
            parts.append(part)
            names.append(site.name if number == 0 else f"{site.name}[{number}]")
            owner.append(site)
    found = detect(
        density_of(laid), m, [*parts, *_fixed(rest)], names=[*names, *_rest_name(rest)], data=data
    )
    moving = [_moving(strand, m, chosen, owner, found) for strand in found.strands]
    return _Detected(tuple(each for each in moving if each is not None), str(found))


def _moving(
    strand: Strand, m: int, chosen: Sequence[Site], owner: Sequence[Site], found: Detection
) -> _Moving | None:
    """A strand in terms of sites; None if it moves only some rows of a site."""
    ways: dict[str, list[Part]] = {}
    for place in strand.parts:
        way = strand.choice[place]
        assert way is not None
        ways.setdefault(owner[place].name, []).append(way)
    sites = tuple(site for site in chosen if site.name in ways)
    if any(len(ways[site.name]) != len(_placed(site, m)[1]) for site in sites):
        return None
    whole = strand.classes == (tuple(range(m)),)
    signed = whole and len(sites) == 1 and found.flips.get(sites[0].name, ()) == tuple(range(m))
    return _Moving(
        m,
        sites,
        tuple(_placed(site, m)[0] for site in sites),
        tuple(tuple(ways[site.name]) for site in sites),
        strand.classes,
        signed and isinstance(ways[sites[0].name][0], Blocks),
    )


def _by_key(sites: Sequence[Site]) -> list[Site]:
    """Sites with the best sort key first: locations, other blocks, weights, matrices."""

    def rank(site: Site) -> int:
        if site.simplex:
            return 2
        return 0 if site.real else 1

    return sorted(sites, key=rank)


def _laid(moving: Any, rest: Sequence[Site]) -> Sites:
    maps = [_map(site, axis) for site, axis in moving]
    return Sites((*maps, *(_map(site, 0) for site in rest)))


def _map(site: Site, axis: int) -> SiteMap:
    # Log-ratios along the last axis rotate together: they keep their place.
    return SiteMap(site.name, site.shape, _layout_axis(site, axis), site.coordinate)


def _layout_axis(site: Site, axis: int) -> int:
    if site.simplex and axis == len(site.shape) - 1:
        return 0
    return axis


def _fixed(rest: Sequence[Site]) -> list[Part]:
    size = sum(site.size for site in rest)
    return [Fixed(size)] if size else []


def _rest_name(rest: Sequence[Site]) -> list[str]:
    return [", ".join(site.name for site in rest)] if _fixed(rest) else []


def _dims(placed: Any, number: int = 0) -> dict[str, tuple[str, ...]]:
    """Axis names of exchangeable sites: "component" where the labels run."""
    word = "component" if number == 0 else f"component_{number}"
    dims = {}
    for site, (axis, parts) in placed:
        axes = [f"{site.name}_dim_{n}" for n in range(len(site.shape))]
        axes[axis] = word
        if any(isinstance(part, (Square, ZeroSumRows)) for part in parts):
            axes[-1] = f"{word}_to"
        dims[site.name] = tuple(axes)
    return dims


def known_coordinate(
    shape: tuple[int, ...],
    low: np.ndarray | None,
    high: np.ndarray | None,
    prior: Prior | None,
) -> Coordinate:
    """The coordinate of real values between two bounds, either of which may be absent.

    Args:
        shape: shape of the site.
        low: lower bound.
        high: upper bound.
        prior: independent prior whose quantiles are known, if there is one.
    """
    if prior is not None:
        return PriorNormal(prior)
    if low is not None and high is not None:
        return Logit(np.broadcast_to(low, shape), np.broadcast_to(high, shape))
    if low is not None:
        return Bounded(np.broadcast_to(low, shape), True)
    if high is not None:
        return Bounded(np.broadcast_to(high, shape), False)
    return Identity()
