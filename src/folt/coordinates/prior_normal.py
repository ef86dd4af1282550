"""The coordinate in which a known prior is standard normal."""

from __future__ import annotations

from folt.coordinates.elementary import Coordinate
from folt.coordinates.leaves import Values
from folt.coordinates.location_scale import Prior
from folt.coordinates.tails import normal_log_density


class PriorNormal(Coordinate):
    """The coordinate x = Φ⁻¹(F(v)) of a parameter v with prior distribution function F.

    The prior density becomes exactly N(0, 1), and independent, identically distributed blocks
    stay exchangeable.
    """

    prior: Prior

    def __check_init__(self) -> None:
        if not isinstance(self.prior, Prior):
            raise ValueError(
                f"PriorNormal needs a prior whose distribution function and inverse are known, "
                f"such as folt.coordinates.Normal(0, 1), got {type(self.prior).__name__}; "
                f"without one, use Log() for a positive or Logit(low, high) for a bounded parameter"
            )

    def push(self, x: Values) -> Values:
        """The value F⁻¹(Φ(x))."""
        return self.prior.from_normal(x)

    def pull(self, value: Values) -> Values:
        """The coordinate Φ⁻¹(F(value))."""
        return self.prior.to_normal(value)

    def log_slope(self, x: Values) -> Values:
        """Log φ(x) - log p(push(x)), because the prior p turns into φ."""
        return normal_log_density(x) - self.prior.log_prob(self.push(x))
