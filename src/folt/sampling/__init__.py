"""The algorithm: from a problem to a fit, with its options checked first and its stages said."""

from folt.sampling.algorithm import sample
from folt.sampling.certification import certify
from folt.sampling.checks import check
from folt.sampling.presets import capped
from folt.sampling.proposals import settled

__all__ = ["capped", "certify", "check", "sample", "settled"]
