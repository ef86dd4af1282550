"""The algorithm: from a problem to a fit, with its options checked first and its stages said."""

from folt.sampling.algorithm import capped, sample, settled
from folt.sampling.certification import certify
from folt.sampling.checks import check

__all__ = ["capped", "certify", "check", "sample", "settled"]
