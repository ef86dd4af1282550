"""The methods of a fit that make tables, figures and text of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from folt.problem.cards import Shown

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from matplotlib.figure import Figure

    from folt.fit.expectation import Expectation, Quantity
    from folt.fit.fit import Fit
    from folt.fit.memberships import TermsOfPoint
    from folt.fit.predictions import Predicted
    from folt.fit.relabelling import SortKey


Plot = Literal["marginals", "chains", "pairs", "data", "modes", "memberships", "path", "checks"]


class Analysis(Shown):
    """The methods of a `Fit` that make tables, figures and words of it."""

    def to_dataframe(self) -> pandas.DataFrame:
        """The draws: a column per scalar of the user's parameters, a row per chain and draw."""
        from folt.fit.frames import draws_frame

        return draws_frame(self._fit)

    def table(self) -> pandas.DataFrame:
        """The estimates: mean, sd, 95 % interval (`low`, `high`), ess and rhat per scalar.

        A scalar that is the same in every draw is known and not estimated; it has no row.
        """
        from folt.fit.frames import estimates_frame

        return estimates_frame(self._fit)

    def memberships(self, log_terms: TermsOfPoint | None = None) -> pandas.DataFrame:
        """Return the probability of every component for every observation.

        Args:
            log_terms: for a density of one's own, from a point and, where the problem has data,
                the data, to an array (observation, component) of log weight plus log density, as
                `folt.Problem(log_terms=...)` takes it; what the problem says if None. Ready
                mixtures and mixtures of PyMC and NumPyro say it themselves; of a hidden Markov
                model these are the smoothed probabilities of its states.

        Returns:
            A row per observation: `mean[k]` is the probability of component k, `low[k]` and
            `high[k]` the 95 % interval of the probability given the parameters, and
            `most_probable` the component with the largest mean. Components are named by
            the labels of their axis, and by its places (`cultivar 1`) where relabelling permutes
            it: such labels are names only after `relabelled(sort_by=...)`.

        Raises:
            ValueError: the model has no components, or the fit was loaded without its problem.
        """
        from folt.fit.memberships import memberships

        return memberships(self._fit, log_terms).frame()

    def path(self) -> pandas.DataFrame:
        """Return the most probable path of the hidden states, with how sure it is.

        Among the most probable paths (Viterbi) given the parameters of many draws, the one that is
        most probable when the parameters are averaged over.

        Returns:
            A row per observation: `state`, its smoothed `probability` at that time whatever the
            other states, and `agreement`, the share of draws whose own path is in it then. The
            probability of the path as a whole is `frame.attrs["path_probability"]`.

        Raises:
            ValueError: the model has no states that follow each other, or the fit was loaded
                without its problem.
        """
        from folt.fit.memberships import most_probable_path

        return most_probable_path(self._fit).frame()

    def predict(
        self, new: object = None, function: Predicted | None = None, *, seed: int = 0
    ) -> pandas.DataFrame:
        """Return what the model predicts for new conditions, with 95 % bands.

        Args:
            new: for a mixture, values at which the predictive density is wanted, or None for a
                grid over the data; for a hidden Markov model, the number of steps ahead; for a
                factor model, rows whose missing entries (NaN) are drawn given the others; for a
                network, pairs of nodes.
            function: for other models, from `{name: value}` of one draw and `new` to the predicted
                values (row,) or (row, column), such as
                `lambda p, x: p["intercept"] + p["slope"] * x` for regression lines.
            seed: of what is drawn at random: future observations, missing entries.

        Returns:
            A row per prediction with `mean`, `low` and `high`; per column with `mean[label]` and
            so on where there are several, such as the states of a hidden Markov model and `y`.

        Raises:
            ValueError: the model does not say what it predicts, `new` has another shape than the
                data, or the fit was loaded without its problem.
        """
        from folt.fit.predictions import predictions

        return predictions(self._fit, new, function, seed).frame()

    def replicates(self, seed: int = 0, *, draws: int | None = None) -> dict[str, np.ndarray]:
        """Data that the fitted model would make, `{name: (chain, draw, ...)}`, one set per draw.

        Args:
            seed: of the replicates.
            draws: of how many draws of every chain, evenly spaced. By default of all, or where
                that makes more than eight million entries (64 MB), of as many as do not.

        Raises:
            ValueError: the model does not say how observations are drawn, the chains have fewer
                draws, or the fit was loaded without its problem.
        """
        from folt.fit.replicates import replicates

        return replicates(self._fit, seed, draws).values

    def expectation(self, quantity: Quantity | str) -> Expectation:
        """Return the posterior mean of a quantity with its standard error, from all proposals.

        Every proposal counts with its importance weight, those included that the chain rejected.
        Where they help, scrambled Sobol points are sent through the proposal instead (evaluated
        once per fit), with an error from independent scrambles. Where the weights have a heavy
        tail, or the fit was loaded without its problem, it is the average over the draws with
        its Monte Carlo error. `mean, error = fit.expectation(...)`; `.method` says which it was.

        Args:
            quantity: from the parameters, `{name: (chain, draw, ...)}` as in `fit.posterior` but
                with other numbers of chains and draws, to an array with the same two leading axes
                and any others, such as `lambda p: p["mu"][..., 0] > 1`; or the name of a parameter.

        Raises:
            KeyError: there is no such parameter.
            ValueError: the quantity is no function or does not keep the leading axes.
        """
        return self._fit._averages.of(quantity)

    def relabelled(self, sort_by: str | SortKey | None = None, sign: str | None = None) -> Fit:
        """The same draws with labels sorted by another key, or other signs, without a new fit.

        Args:
            sort_by: the name of a parameter with one number per label, such as "sigma", or a
                function from `fit.posterior` to an array (chain, draw, label), such as
                `lambda posterior: posterior["mu"] / posterior["sigma"]`; or "proposal" for the
                labels that the proposal finds likeliest, which tell components apart by all that
                they have.
            sign: which signs to report where they may be flipped: "largest" makes the entry of
                every column positive that is largest on average beside its prior, the name of a
                coordinate such as "loadings[0,1]" that entry, and its like in other columns.

        Raises:
            ValueError: nothing is permuted, or the key does not tell the labels apart; the
                sentence says in which share of the draws their order is a matter of chance.
        """
        from folt.fit.relabelling import relabelled

        return relabelled(self._fit, sort_by, sign)

    def methods(self) -> str:
        """A paragraph for a paper: how the posterior was sampled and how far it can be trusted."""
        from folt.fit.text import methods

        return methods(self._fit)

    def plot(self, kind: Plot = "marginals") -> Figure:
        """A Matplotlib figure of the fit; `figure.savefig(path)` writes it.

        Args:
            kind: "marginals" for densities with intervals, "chains" for traces before and after
                folding, "pairs" for pairs of parameters, "data" for the observations with the
                fitted components, "modes" for the modes that were found and their masses,
                "memberships" for the observations in the colours of their components, "path" for
                a series in those of its states, "checks" for replicated data beside the observed.

        Raises:
            ValueError: another kind, or one that this fit has nothing to show for.
        """
        from folt.report.plots import plot

        return plot(self._fit, kind)

    @property
    def _fit(self) -> Fit:
        return cast("Fit", self)
