"""What follows once the verdict is read: tables, pictures, the paragraph for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from folt.problem.faces import Shown

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from folt.fit.fit import Fit

Plot = Literal["marginals", "chains", "pairs", "data", "modes"]


class Analysis(Shown):
    """The methods of a `Fit` that make tables, figures and words of it."""

    def to_dataframe(self) -> pandas.DataFrame:
        """The draws: a column per scalar of the user's parameters, a row per chain and draw."""
        from folt.fit.tables import draws_frame

        return draws_frame(self._fit)

    def table(self) -> pandas.DataFrame:
        """The estimates: mean, sd, 95 % interval (`low`, `high`), ess and rhat per scalar.

        A scalar that is the same in every draw is known and not estimated; it has no row.
        """
        from folt.fit.tables import estimates_frame

        return estimates_frame(self._fit)

    def methods(self) -> str:
        """A paragraph for a paper: how the posterior was sampled and how far it can be trusted."""
        from folt.fit.methods import methods

        return methods(self._fit)

    def plot(self, kind: Plot = "marginals") -> Figure:
        """A Matplotlib figure of the fit; `figure.savefig(path)` writes it.

        Args:
            kind: "marginals" for densities with intervals, "chains" for traces before and after
                folding, "pairs" for pairs of parameters, "data" for the observations with the
                fitted components, "modes" for the modes that were found and their masses.

        Raises:
            ValueError: another kind, or one that this fit has nothing to show for.
        """
        from folt.report.plots import plot

        return plot(self._fit, kind)

    @property
    def _fit(self) -> Fit:
        return cast("Fit", self)
