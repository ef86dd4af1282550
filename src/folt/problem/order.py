"""What labels are sorted by, in words: the names of the coordinates that a fold compares."""

from __future__ import annotations

import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from folt.groups import Group, Joint, Product, Reflection, SignedPermutation, Within
from folt.groups.relabelling import Relabelling
from folt.types import in_float64

INDEXED = re.compile(r"(-?)(.+)\[([\d,]+)\]")
"""A coordinate that is an entry of an array: its sign, the array and the index."""


@in_float64
def order_words(group: Group, names: Sequence[str]) -> str:
    """How the fundamental domain orders labels and signs, such as "mu ascends".

    Args:
        group: the group that was folded.
        names: one per coordinate.

    Returns:
        One clause per group that acts, joined by semicolons; empty where nothing is folded.
    """
    return "; ".join(dict.fromkeys(_clauses(group, tuple(names))))


def _clauses(group: Group, names: tuple[str, ...]) -> list[str]:
    if group.order == 1:
        return []
    if isinstance(group, Product):
        ends = np.cumsum([part.dim for part in group.groups])
        return [
            clause
            for part, end in zip(group.groups, ends, strict=True)
            for clause in _clauses(part, names[end - part.dim : end])
        ]
    if isinstance(group, Reflection):
        return [f"{', '.join(names[axis] for axis in group.axes)} not negative"]
    if isinstance(group, SignedPermutation):
        return [_signed(group, names)]
    if isinstance(group, Within):
        return [f"{_keys(group.joint, names)} within every class of labels"]
    return [_keys(group, names)] if isinstance(group, Relabelling) else ["as the fold sorts them"]


def _signed(group: SignedPermutation, names: tuple[str, ...]) -> str:
    rows = np.array(names, object).reshape(group.columns, group.size)
    if group.sort_by is not None:
        key = common(rows[:, group.sort_by].tolist())
    else:
        key = f"the sum of {common(rows[:, : group.size - group.unsigned].ravel().tolist())}"
    return f"{key} not negative" + (" and ascends" if group.columns > 1 else "")


def _keys(group: Relabelling | Joint, names: tuple[str, ...]) -> str:
    """The coordinates that the sort keys, which are linear, are made of."""
    weights = np.asarray(jax.vmap(group.sort_keys)(jnp.eye(group.dim)))
    used = [np.flatnonzero(column) for column in weights.T]
    named = [names[place] for places in used for place in places]
    if all(name.startswith("-") for name in named):
        return _verb(common([name[1:] for name in named]), "descend")
    return _verb(common(list(dict.fromkeys(named))), "ascend")


def _verb(names: str, verb: str) -> str:
    """Subject and verb, of which the latter has an s where there is one name."""
    return f"{names} {verb}" if ", " in names else f"{names} {verb}s"


def common(names: Sequence[str]) -> str:
    """Entries of one array in short: `mu` for mu[0], mu[1], and `mu[·,1]` for mu[0,1], mu[1,1]."""
    found = [INDEXED.fullmatch(name) for name in names]
    parts = [match.groups() for match in found if match is not None]
    if not parts or len(parts) < len(names) or len({part[:2] for part in parts}) > 1:
        return ", ".join(names)
    columns = list(zip(*(part[2].split(",") for part in parts), strict=True))
    fixed = [column[0] if len(set(column)) == 1 else "·" for column in columns]
    stem = "".join(parts[0][:2])
    return stem if set(fixed) == {"·"} else f"{stem}[{','.join(fixed)}]"
