"""Numbers that cannot be: what no fit holds, whoever wrote its file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from folt.fit.fit import Fit

SHARES = (
    "gamma",
    "core_gap",
    "accept_rate",
    "confidence",
    "p_value",
    "weight",
    "acceptance_cost",
    "switch_rate",
    "ambiguity",
)
"""Numbers of a certificate between 0 and 1."""

NEVER_NEGATIVE = (
    "standard_error",
    "osc",
    "full_osc",
    "gap_upper",
    "gap_upper_error",
    "burn_in",
    "refreshed_limit",
    "refreshed_rhat",
    "refreshed_ess",
    "ess",
    "tail_ess",
    "batch_means_ess",
    "ess_log_ratio",
    "effective",
    "rhat",
    "rhat_log_ratio",
    "defect",
    "n",
    "draws",
    "order",
    "refreshed",
    "not_a_number",
    "infinite",
)
"""Numbers of a certificate from 0 upwards, infinity included."""

ROUNDING = 1e-9


def require_plausible(fit: Fit) -> None:
    """Refuse a fit whose parts do not fit together or hold numbers that cannot be.

    Raises:
        ValueError: naming the first of them.
    """
    lead = fit.draws.shape[:2]
    _require(fit.draws.ndim == 3 and fit.draws.size > 0, "draws have the shape", fit.draws.shape)
    _require(fit.draws.shape[2] == fit.group.dim, "draws have the shape", fit.draws.shape)
    _require(len(fit.names) == fit.group.dim, "the number of names is", len(fit.names))
    for name, values in {"log_ratio": fit.log_ratio, "accepted": fit.accepted}.items():
        _require(values.shape == lead, f"{name} has the shape", values.shape)
    for name, values in fit.posterior.items():
        _require(values.shape[:2] == lead, f"{name} has the shape", values.shape)
    _require(bool(np.isfinite(fit.draws).all()), "draws are", "not finite")
    _require(not np.isnan(fit.log_ratio).any(), "log ratios are", "not numbers")
    for name, seconds in fit.wall.items():
        _require(_number(seconds) and seconds >= 0, f"wall[{name!r}] is", seconds)
    for name, count in fit.evaluations.items():
        _require(_number(count) and count >= 0, f"evaluations[{name!r}] is", count)
    for path, value in _leaves(fit.certificate.tree()):
        _require(_is_possible(path[-1], value), f"{'.'.join(path)} of the certificate is", value)


def _require(holds: bool, what: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{what} {value}, which no fit has")


def _is_possible(name: str, value: object) -> bool:
    if not _number(value) or math.isnan(value):
        return True
    if name in SHARES:
        return -ROUNDING <= value <= 1.0 + ROUNDING
    return name not in NEVER_NEGATIVE or value >= 0


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaves(tree: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*path, str(key)))
    else:
        yield path, tree
