"""The algorithm: from a problem to a fit, with its options checked first and its stages said."""

from folt.sampling.algorithm import certify, sample
from folt.sampling.checks import check

__all__ = ["certify", "check", "sample"]
