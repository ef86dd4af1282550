"""Diagnostics: arrays in, numbers out.

Nothing here knows densities, groups or proposals. A statistical outcome that cannot be had (too few
draws, a frozen chain) is data in the result, never an exception and never a made-up number.
"""
