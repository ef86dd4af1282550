"""How far the draws can be trusted: sealed draws, a certificate made from them, its verdict.

A certificate is computed from draws that training and selection never saw; what may be concluded
from it is one of a few named outcomes.
"""
