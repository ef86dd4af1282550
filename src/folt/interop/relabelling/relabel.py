"""`relabel`: draws by name in, the same draws under consistent labels out."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from folt.certificate.diagnostics.chains import effective_size, split_rhat
from folt.interop.relabelling.methods import (
    Ecr,
    GaussianOrbit,
    Material,
    Pivot,
    Relabeller,
    Sort,
    Stephens,
    permuted,
    permuted_square,
)
from folt.store.draws import GROUPED, draws_by_name

_UNEVEN = 1e-3
"""How far probabilities, perhaps in single precision, may be from one in sum."""

LEAST_DRAWS = 4
"""Draws per chain below which it cannot be split into halves that vary."""

METHODS: dict[str, Relabeller] = {
    method.name: method for method in (Sort(), Pivot(), GaussianOrbit(), Stephens(), Ecr())
}
"""By name, for the command line."""


@dataclasses.dataclass(frozen=True)
class Health:
    """R-hat and effective size of one scalar, before and after."""

    name: str
    rhat_before: float
    rhat_after: float
    ess_before: float
    ess_after: float


@dataclasses.dataclass(frozen=True, repr=False)
class Relabelled:
    """Relabelled draws.

    Attributes:
        draws: `{name: (chain, draw, component, ...)}`, every draw once, its components permuted.
        permutations: (chain, draw, label), the component that got each label.
        method: the name of the method.
        rounds: rounds until it settled.
        settled: whether it did.
        moved: share of draws whose components were permuted at all.
        health: R-hat and effective size of every scalar, before and after.
    """

    draws: dict[str, np.ndarray]
    permutations: Int[np.ndarray, "chain draw label"]
    method: str
    rounds: int
    settled: bool
    moved: float
    health: tuple[Health, ...]

    def __repr__(self) -> str:
        chains, draws, labels = self.permutations.shape
        before = max((one.rhat_before for one in self.health), default=float("nan"))
        after = max((one.rhat_after for one in self.health), default=float("nan"))
        ended = "settled" if self.settled else "not settled"
        rounds = f"{self.rounds} round{'s' * (self.rounds != 1)}"
        lines = (
            f"{chains} chains of {draws} draws by {self.method!r}, {ended} after {rounds}",
            f"  {', '.join(self.draws)} with {labels} labels; {self.moved:.0%} of draws permuted",
            f"  largest R-hat {before:.3f} before, {after:.3f} after",
        )
        return "\n".join(lines)


def relabel(
    draws: object,
    variables: str | Sequence[str] | None = None,
    *,
    chains: int | None = None,
    method: Relabeller | str | None = None,
    sort_by: str | None = None,
    square: Sequence[str] = (),
    probabilities: np.ndarray | None = None,
    allocations: np.ndarray | None = None,
) -> Relabelled:
    """Give the components of existing draws consistent labels.

    Args:
        draws: InferenceData, a DataTree, the path of a netCDF file, a NumPyro MCMC that has run, or
            `{name: (chain, draw, component, ...)}`.
        variables: names whose component axis is permuted together; all of them if None. Other
            names are left out of the result.
        chains: how many chains stand one after the other in a dict without a chain axis.
        method: "sort", "pivot", "gaussian", "stephens" or "ecr"; "pivot" if None, or "stephens"
            where there are allocation probabilities.
        sort_by: the variable of `Sort`, and of the starting point of the others; the first one
            if None. Its first entry counts if components are vectors. Labels are numbered in
            the order of its means.
        square: names of (component, component) matrices that are permuted on both sides.
        probabilities: (chain, draw, observation, component) allocation probabilities.
        allocations: (chain, draw, observation) component of every observation.

    Raises:
        ValueError: names, shapes or numbers that cannot be used, in one sentence.
    """
    use = _named(method)
    names = [variables] if isinstance(variables, str) else variables
    chosen = _chosen(draws_by_name(draws, chains), names, square)
    lead, m = _common_shape(chosen)
    count = math.prod(lead)
    flat = {name: values.reshape(count, *values.shape[2:]) for name, values in chosen.items()}
    features, keys = _features({n: flat[n] for n in chosen if n not in square}, m, sort_by)
    material = Material(
        features=features,
        keys=keys,
        probabilities=_proportions(_by_draw(probabilities, lead, m, "probabilities")),
        allocations=_labels(_by_draw(allocations, lead, None, "allocations"), m),
    )
    standard = Pivot() if material.probabilities is None else Stephens()
    use = standard if use is None else use
    labelling = use(material)
    permutations = _in_order(labelling.permutations, material.keys)
    after = {
        name: (permuted_square if name in square else permuted)(values, permutations).reshape(
            chosen[name].shape
        )
        for name, values in flat.items()
    }
    return Relabelled(
        draws=after,
        permutations=permutations.reshape(*lead, m),
        method=use.name,
        rounds=labelling.rounds,
        settled=labelling.settled,
        moved=float(np.mean((permutations != np.arange(m)).any(axis=1))),
        health=_health(chosen, after),
    )


def _named(method: Relabeller | str | None) -> Relabeller | None:
    if not isinstance(method, str):
        return method
    if method not in METHODS:
        raise ValueError(f"expected a method among {', '.join(METHODS)}, got {method!r}")
    return METHODS[method]


def _in_order(permutations: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Number the labels by the mean of the sort key, in the same way for all draws."""
    means = np.take_along_axis(keys, permutations, axis=1).mean(axis=0)
    return permutations[:, np.argsort(means, kind="stable")]


def _features(
    flat: dict[str, np.ndarray], m: int, sort_by: str | None
) -> tuple[Float[np.ndarray, "n m f"], Float[np.ndarray, "n m"]]:
    """Return all numbers of every component, and the one that components are sorted by."""
    key = next(iter(flat)) if sort_by is None else sort_by
    if key not in flat:
        raise ValueError(f"expected sort_by to be one of {', '.join(flat)}, got {key!r}")
    shaped = {name: v.reshape(len(v), m, -1).astype(float) for name, v in flat.items()}
    return np.concatenate([*shaped.values()], axis=2), shaped[key][:, :, 0]


def _chosen(
    draws: Mapping[str, np.ndarray], variables: Sequence[str] | None, square: Sequence[str]
) -> dict[str, np.ndarray]:
    wanted = [*(variables if variables is not None else draws)]
    wanted += [name for name in square if name not in wanted]
    missing = [name for name in wanted if name not in draws]
    if missing:
        raise ValueError(f"no variable {missing[0]!r}: the draws have {', '.join(draws)}")
    chosen = {name: np.asarray(draws[name]) for name in wanted}
    if not [name for name in chosen if name not in square]:
        raise ValueError("expected at least one variable with one entry per component")
    for name, values in chosen.items():
        if values.ndim < 3:
            raise ValueError(
                f"{name} has shape {values.shape}: expected (chain, draw, component, ...); without "
                f"a chain axis, {GROUPED}chains=4"
            )
        if values.dtype.kind not in "fiu":
            raise ValueError(f"{name} holds {values.dtype}: expected real numbers")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has draws that are not finite")
        if name in square and (values.ndim != 4 or values.shape[2] != values.shape[3]):
            raise ValueError(
                f"{name} has shape {values.shape}: expected (chain, draw, component, component) "
                "of what is square"
            )
    return chosen


def _common_shape(chosen: Mapping[str, np.ndarray]) -> tuple[tuple[int, int], int]:
    shapes = {name: values.shape[:3] for name, values in chosen.items()}
    if len(set(shapes.values())) > 1:
        words = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"chains, draws and components must be as many for all, got {words}")
    chains, length, m = next(iter(shapes.values()))
    if chains * length < 2 or m < 2:
        raise ValueError(f"expected two draws and two components at least, got {chains, length, m}")
    if length < LEAST_DRAWS:
        warnings.warn(
            f"with {length} draw{'s' * (length > 1)} per chain neither R-hat nor effective sizes "
            "mean anything",
            stacklevel=4,
        )
    return (chains, length), m


def _by_draw(
    values: np.ndarray | None, lead: tuple[int, int], last: int | None, what: str
) -> np.ndarray | None:
    if values is None:
        return None
    values = np.asarray(values)
    expected = 3 if last is None else 4
    if values.ndim != expected or values.shape[:2] != lead or last not in (None, values.shape[-1]):
        shape = "(chain, draw, observation" + (")" if last is None else ", component)")
        raise ValueError(f"expected {what} of shape {shape} as in the draws, got {values.shape}")
    return values.reshape(math.prod(lead), *values.shape[2:])


def _proportions(values: np.ndarray | None) -> np.ndarray | None:
    """Return allocation probabilities; refuse negative ones, and sums other than one."""
    if values is None:
        return None
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("expected allocation probabilities from 0 to 1, got others")
    off = float(np.abs(values.sum(axis=-1) - 1.0).max())
    if off > _UNEVEN:
        raise ValueError(
            f"expected allocation probabilities that sum to one over the components, got sums that "
            f"are off by {off:.2g}"
        )
    return values


def _labels(values: np.ndarray | None, m: int) -> np.ndarray | None:
    """Return allocations; refuse what is no component number counted from zero."""
    if values is None:
        return None
    labels = whole_numbers(values)
    low, high = int(labels.min()), int(labels.max())
    if low == 1 and high == m:
        raise ValueError(
            f"the allocations run from 1 to {m}: expected them counted from zero; subtract one"
        )
    if low < 0 or high >= m:
        raise ValueError(
            f"expected allocations from 0 to {m - 1}, one of {m} components, got {low} to {high}"
        )
    return labels


def whole_numbers(values: np.ndarray) -> np.ndarray:
    """Return allocations as integers.

    Raises:
        ValueError: they are no whole numbers.
    """
    if values.dtype.kind not in "fiu" or not np.array_equal(np.rint(values), values):
        raise ValueError("expected allocations to be whole numbers, counted from zero")
    return values.astype(np.int64)


def _health(
    before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]
) -> tuple[Health, ...]:
    rows = []
    for name, values in before.items():
        for index in np.ndindex(values.shape[2:]):
            pair = [
                v[(slice(None), slice(None), *index)].astype(float) for v in (values, after[name])
            ]
            rhats = [split_rhat(v) for v in pair]
            sizes = [effective_size(v) for v in pair]
            rows.append(Health(f"{name}[{','.join(map(str, index))}]", *rhats, *sizes))
    return tuple(rows)
