"""Parameters by name, which answer an unknown name with those there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax


class ByName(dict[str, Any]):
    """`{name: values}`; JAX and NumPyro take it as they take any dictionary."""

    def __missing__(self, name: object) -> Any:
        """Refuse a name that is none of a parameter.

        Raises:
            KeyError: with the names there are.
        """
        raise KeyError(
            f"no parameter {name!r} among {', '.join(map(repr, self))}: names come from constrain= "
            "of the problem, or from names="
        )


def _flattened(named: ByName) -> tuple[tuple[tuple[Any, Any], ...], Any]:
    return tuple((jax.tree_util.DictKey(name), named[name]) for name in named), tuple(named)


def _unflattened(names: Any, values: Iterable[Any]) -> ByName:
    return ByName(zip(names, values, strict=True))


jax.tree_util.register_pytree_with_keys(ByName, _flattened, _unflattened)
