"""What comes out of sampling: draws with their certificate, in words, in ArviZ and in a file."""

from folt.fit.fit import Fit, ReferenceSummary, in_user_parameters

__all__ = ["Fit", "ReferenceSummary", "in_user_parameters"]
