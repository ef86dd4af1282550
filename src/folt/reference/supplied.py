"""Draws that need no chain: those of an exact sampler, and those a user brings."""

from __future__ import annotations

import dataclasses
import os

import jax
import numpy as np
from jaxtyping import Float

from folt.certificate.cautions import Caution, Concern, Reference, folded_chains, health
from folt.problem import Problem
from folt.store.draws import GROUPED, draws_by_name, split
from folt.types import HostDraws, Key, Progress, in_float64

Pieces = Float[np.ndarray, "piece length dim"]

PSEUDO_CHAINS = 20
"""Pieces into which draws without a chain axis are cut."""

FEWEST_CHAINS = 3
"""Chains that training, selection and certificate need, one each."""

_FEW_CHAINS = 6
"""Chains so few that one whole chain each for training and selection would be too much."""

_ARRAYS = (np.ndarray, jax.Array, list, tuple, int, float)
"""Forms of points, which have no names."""

DRAWS_PER_DIMENSION = 50
"""Fewest draws per dimension from which a covariance is learned."""

PICTURE_CHAINS = 4
PICTURE_DRAWS = 500
"""Raw chains, and draws of each, that a fit keeps for its picture of label switching."""


@dataclasses.dataclass(frozen=True)
class Exact:
    """Independent draws from the problem's own sampler, folded.

    Args:
        draws: draws in all.
        chains: groups they are dealt into, so that they split like chains.
    """

    draws: int = 25_000
    chains: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.chains <= self.draws:
            raise ValueError(f"expected 1 ≤ chains ≤ draws, got {self.chains} and {self.draws}")

    @in_float64
    def __call__(self, key: Key, problem: Problem, progress: Progress | None = None) -> Reference:
        """Draw, fold and deal into chains."""
        length = -(-self.draws // self.chains)
        flat = np.asarray(problem.exact_draws(key, length * self.chains), np.float64)
        raw = flat.reshape(self.chains, length, problem.dim)
        if not np.all(np.isfinite(raw)):
            raise ValueError("the problem's sampler returned a draw that is not finite")
        if progress is not None:
            progress(1.0, "exact draws")
        return Reference(
            draws=folded_chains(problem.group, raw),
            rhat=1.0,
            ess=float(flat.shape[0]),
            exact=True,
            evaluations={"value": 0, "gradient": 0},
            raw=for_picture(raw),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """Draws that the user brings, checked and folded; chains under different labels are welcome.

    Args:
        draws: points (draw, dim) or (chain, draw, dim); or draws in the user's parameters, matched
            by name: InferenceData, a DataTree, the path of a netCDF file, those of CmdStan's CSV
            files, a NumPyro MCMC that has run, or `{name: (chain, draw, ...)}`. Points without a
            chain axis are cut, in order, into twenty pieces; as they may be of one chain, the
            verdict is `fair` at best.
        chains: how many chains stand one after the other in draws without a chain axis.
    """

    draws: object
    chains: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.draws, _ARRAYS) and not _are_files(self.draws):
            object.__setattr__(self, "draws", _array(self.draws))

    @in_float64
    def __call__(
        self, key: Key | None, problem: Problem, progress: Progress | None = None
    ) -> Reference:
        """Check the draws, fold them and judge their chains.

        The key draws coordinates that the user's parameters do not determine.
        """
        given = self._checked(problem, key)
        raw = _without_copies(given)
        draws = folded_chains(problem.group, raw)
        rhat, ess, cautions = health(draws)
        pieces = _pieces(draws)
        if len(raw) < len(given):
            copies = Caution.of(
                Concern.COPIED_CHAINS, copies=len(given) - len(raw), chains=len(given)
            )
            cautions += (copies,)
        # Points without a chain axis come as pieces of what may be one chain.
        one = self._one_chain(raw)
        if one:
            cautions += (Caution.of(Concern.ONE_CHAIN),)
        if progress is not None:
            progress(1.0, "draws supplied")
        return Reference(
            draws=_cut(draws, pieces),
            rhat=rhat,
            ess=ess,
            exact=False,
            evaluations={"value": 0, "gradient": 0},
            cautions=cautions,
            raw=for_picture(raw),
            pieces=len(draws) * pieces if one else pieces,
            sealable=not one,
        )

    def _one_chain(self, raw: HostDraws) -> bool:
        """Return whether all draws may be of one chain: no axis or number tells of several."""
        flat = isinstance(self.draws, np.ndarray) and self.draws.ndim == 2
        return len(raw) == 1 or (flat and self.chains is None)

    def points(self, problem: Problem, key: Key | None = None) -> np.ndarray:
        """The draws as points, (chain, draw, dim), or (draw, dim) where chains were not told."""
        if isinstance(self.draws, np.ndarray):
            points = _as_points(self.draws, problem.dim)
        else:
            points = problem.unconstrain(draws_by_name(self.draws), key)
            if points.ndim == 2 and self.chains is None:
                raise ValueError(
                    "the reference draws have no chain axis: "
                    f"{GROUPED}folt.reference.Given(draws, chains=4)"
                )
        if points.ndim not in (2, 3):
            raise ValueError(
                "expected reference draws with the axes chain and draw in front, got "
                f"{points.ndim - 1} axes"
            )
        if self.chains is None:
            return points
        if points.ndim == 3:
            raise ValueError(
                f"the reference draws have {len(points)} chains of their own: leave out "
                f"chains={self.chains}"
            )
        return split(points, self.chains)

    def require_usable(self, problem: Problem) -> None:
        """Refuse draws that cannot be learned from, before anything is done with them.

        Raises:
            ValueError: naming the shape, or the draw or coordinate that is wrong.
        """
        self._checked(problem)

    def _checked(self, problem: Problem, key: Key | None = None) -> HostDraws:
        raw = chains_told(_enough(self.points(problem, key)))
        _require_usable(raw)
        return raw


def _are_files(values: object) -> bool:
    """Return whether these are the names of files, one for every chain."""
    files = isinstance(values, (list, tuple)) and len(values) > 0
    return files and all(isinstance(one, (str, os.PathLike)) for one in values)  # type: ignore[attr-defined]


def _array(values: object) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "expected reference draws of shape (draw, dim) or (chain, draw, dim), by name, or a "
            f"sampler object, got a ragged {type(values).__name__}"
        ) from error


def _as_points(values: np.ndarray, dim: int) -> np.ndarray:
    """As float64, or a ValueError naming the shape."""
    if values.ndim not in (2, 3) or values.shape[-1] != dim:
        raise ValueError(
            f"expected reference draws of shape (draw, {dim}) or (chain, draw, {dim}), or by name, "
            f"got {values.shape}"
        )
    if not (np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)):
        raise ValueError(f"expected real reference draws, got dtype {values.dtype}")
    return values.astype(np.float64)


def _enough(points: np.ndarray) -> np.ndarray:
    """Return the points, or a ValueError where they are too few to learn a covariance from."""
    dim, count = points.shape[-1], int(np.prod(points.shape[:-1]))
    if count < DRAWS_PER_DIMENSION * dim:
        raise ValueError(
            f"expected at least {DRAWS_PER_DIMENSION * dim} reference draws "
            f"({DRAWS_PER_DIMENSION} per dimension), got {count}"
        )
    return points


def chains_told(points: np.ndarray) -> HostDraws:
    """(chain, draw, dim); points without a chain axis as twenty pieces that stand for chains."""
    return points if points.ndim == 3 else _cut(points[None], PSEUDO_CHAINS)


def _pieces(draws: HostDraws) -> int:
    """Pieces to cut every chain into, so that whole chains can be divided among the parts.

    One or two chains become twenty pieces. Up to six are halved: the two halves of the first are
    enough to learn from, so that the certificate gets all the others.
    """
    chains = len(draws)
    if chains < FEWEST_CHAINS:
        return PSEUDO_CHAINS // chains
    return 2 if chains <= _FEW_CHAINS else 1


def _without_copies(draws: HostDraws) -> Float[np.ndarray, "kept draw dim"]:
    """The chains, each once: a copy under seal would judge what its twin has taught."""
    first = {chain.tobytes(): number for number, chain in reversed(list(enumerate(draws)))}
    return draws[sorted(first.values())]


def _cut(draws: HostDraws, pieces: int) -> Pieces:
    """Return every chain cut, in order, into pieces of equal length."""
    chains, length, dim = draws.shape[0], draws.shape[1] // pieces, draws.shape[2]
    return draws[:, : length * pieces].reshape(chains * pieces, length, dim)


def _require_usable(draws: HostDraws) -> None:
    """Refuse draws that are not finite, or whose covariance is degenerate."""
    flat = draws.reshape(-1, draws.shape[-1])
    bad = np.flatnonzero(~np.all(np.isfinite(flat), axis=1))
    if bad.size:
        raise ValueError(
            f"expected finite reference draws, got {bad.size} that are not, "
            f"the first at position {bad[0]}: {flat[bad[0]]}"
        )
    deviations = flat.std(axis=0)
    constant = np.flatnonzero(deviations <= 1e-12 * np.maximum(1.0, np.abs(flat.mean(axis=0))))
    if constant.size:
        raise ValueError(
            f"expected every coordinate of the reference draws to vary, "
            f"got constant coordinate {constant[0]}"
        )
    correlation = np.cov(flat / deviations, rowvar=False).reshape(flat.shape[1], -1)
    smallest = float(np.linalg.eigvalsh(correlation)[0])
    if smallest < 1e-12:
        raise ValueError(
            "expected reference draws with a covariance of full rank, got draws that lie in a "
            f"subspace (smallest eigenvalue of their correlation {smallest:.1e})"
        )


def for_picture(raw: np.ndarray) -> HostDraws:
    """Return a few chains before folding, thinned to a few hundred draws each."""
    every = max(1, raw.shape[1] // PICTURE_DRAWS)
    return np.asarray(raw[:PICTURE_CHAINS, ::every], np.float64)


def part_of(progress: Progress | None, low: float, high: float) -> Progress:
    """The same progress, told in a part of the bar; silent if there is none."""

    def tell(fraction: float, message: str) -> None:
        if progress is not None:
            progress(low + (high - low) * fraction, message)

    return tell
