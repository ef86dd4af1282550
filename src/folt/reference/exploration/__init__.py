"""Finding the modes: a ladder of tempered particles, descents along the gradient, masses.

Both searches are needed because they are blind in different ways, and where they disagree the
exploration says so.
"""

from folt.reference.exploration.explored import Explored
from folt.reference.exploration.explorer import ExplorationPlan, Explorer
from folt.reference.exploration.modes import Modes
from folt.reference.exploration.subset import SubsetExplorer, has_subset

__all__ = ["ExplorationPlan", "Explored", "Explorer", "Modes", "SubsetExplorer", "has_subset"]
