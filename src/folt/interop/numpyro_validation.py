"""Arguments of NumPyro's distributions, validated on the host.

NumPyro validates while a model is traced, which compiles dozens of small programs for matrices and
learns nothing from parameters. So it is switched off there, and what does not depend on parameters
is validated here, in NumPy.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints


def require_valid(functions: dict[str, tuple[Any, Any]]) -> None:
    """Refuse arguments of distributions that are wrong whatever the parameters are.

    Raises:
        ValueError: naming the site, the distribution and the argument.
    """
    for name, pair in functions.items():
        both = (_nested(jax.tree.map(np.asarray, function)) for function in pair)
        for first, second in zip(*both, strict=True):
            others = second.get_args()
            for argument, value in first.get_args().items():
                constraint = first.arg_constraints[argument]
                fixed = np.array_equal(value, others[argument], equal_nan=True)
                if not fixed or constraints.is_dependent(constraint):
                    continue
                if not np.all(constraint(value)):
                    raise ValueError(
                        f"the {type(first).__name__} distribution of the site {name!r} has an "
                        f"invalid {argument}: {np.asarray(value)}"
                    )


def _nested(function: Any) -> list[Any]:
    """A distribution and those that it is made of."""
    found = [function]
    for value in vars(function).values():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            found += _nested(part) if isinstance(part, dist.Distribution) else []
    return found
