"""Stan programs, compiled by BridgeStan or by PyStan, as problems with the symmetry they have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from folt.interop.arrange import Exchangeable, arrange_probed, settled
from folt.interop.model import ASSUMED_OBSERVATIONS
from folt.interop.sites import laid_out
from folt.interop.stan_blocks import Block, BlockKind, program_blocks
from folt.interop.stan_density import StanDensity, StanParameters, StanPoints
from folt.interop.stan_model import SOMEWHERE, Program
from folt.problem import Problem
from folt.problem.black_box import BlackBox
from folt.problem.named_values import SortKey
from folt.symmetry.probe import Probe, TermValues
from folt.types import HostPoints, in_float64

_DISTANCES = {
    BlockKind.REAL: (1e3, 1e6, 1e9, 1e12),
    BlockKind.AFFINE: (1e3, 1e6, 1e9, 1e12),
    BlockKind.LOWER: (30.0, 100.0, 300.0, 600.0),
    BlockKind.UPPER: (30.0, 100.0, 300.0, 600.0),
}
"""How far from the midst a proper density has fallen, in plain coordinates: those of bounded values
are logarithms."""

FALL = 1.0
"""Nats by which a proper density is lower there at least."""


@in_float64
def from_stan(
    model: Any,
    *,
    exchangeable: Exchangeable = "auto",
    keep_order: bool = True,
    names: Sequence[str] | None = None,
    workers: int = 1,
    allow_rotation: bool = False,
    sort_by: str | SortKey | None = None,
    sign: str | None = None,
) -> Problem:
    """Return a compiled Stan program with its data as a problem, with the symmetry it has.

    Parameters get coordinates in which relabelling is orthogonal, in place of Stan's: centred
    scores for simplexes, logarithm, scores between bounds, identity. Ordered vectors, unit vectors,
    correlation matrices and parameters whose bounds depend on others keep Stan's coordinates. The
    gradient is Stan's own.

    Args:
        model: `bridgestan.StanModel(file, data)`, anything with its methods, or what `stan.build`
            of PyStan 3 returns; the latter is evaluated in this thread, without its server.
        exchangeable: names of the parameters whose first axis is permuted together (transition
            matrices on both sides), which is then verified; `{name: slice}` where only some
            entries are alike; "auto" looks for them; [] for none.
        keep_order: must be True where a parameter is declared `ordered`: a compiled program has no
            density elsewhere.
        names: one name per coordinate; Stan's, with its indices, if None.
        workers: processes that evaluate the program side by side; they load it from its file.
        allow_rotation: leave rotations of labels into each other in the posterior, and fold signed
            permutations alone; by default they are divided out.
        sort_by: what labels are sorted by instead of the order of the fold: the name of a
            parameter with one number per label, or a function as for `Fit.relabelled`.
        sign: "largest", or a coordinate such as "loadings[0,1]" that is made positive, where signs
            may be flipped.

    Returns:
        A problem whose `constrain` gives the parameters; `Fit.generated` adds transformed
        parameters and generated quantities. Where PyStan drops constants of `~` statements the
        evidence is one up to a constant.

    Raises:
        ValueError: no compiled model, an improper density, order that cannot be undone.
        SymmetryError: parameters declared exchangeable that are not.
        RotationError: a continuous rotation symmetry that cannot be divided out.
    """
    program = Program(model)
    blocks = program_blocks(program)
    _require_order(blocks, keep_order)
    sites = [block.site() for block in blocks]
    plain = StanDensity(program, blocks, laid_out(sites, plain=True))
    _require_proper(plain, blocks)
    arranged = arrange_probed(
        sites,
        exchangeable,
        lambda _: _probe(plain),
        lambda: _observations(program),
        "stan",
    )
    density = StanDensity(program, blocks, arranged.sites)
    black_box = BlackBox(density.values, True, workers=workers, gradient=density.gradients)
    black_box.close()  # what cannot be sent to other processes is refused here
    found, symmetry = settled(arranged, black_box, None, None, allow_rotation)
    return Problem(
        black_box,
        symmetry,
        names=arranged.sites.names(first=1) if names is None else names,
        constrain=StanParameters(density),  # type: ignore[arg-type]
        unconstrain=StanPoints(density),  # type: ignore[arg-type]
        dims=arranged.dims,
        symmetry_found=found,
        allow_rotation=allow_rotation,
        proportional=program.proportional,
        sort_by=sort_by,
        sign=sign,
        generated=density.generated,
    )


def _probe(plain: StanDensity) -> Probe:
    """Return the log density in plain coordinates, as one term."""

    def evaluate(points: HostPoints) -> TermValues:
        return plain.values(points)[:, None]

    centre = _midst(plain)
    return Probe(evaluate, ("log density",), centre, np.ones_like(centre))


def _midst(plain: StanDensity) -> np.ndarray:
    """Return a point at which every parameter has a value."""
    sizes = [each.size for each in plain.way.sites.maps]
    kept = [SOMEWHERE if block.kept else 0.0 for block in plain.way.blocks]
    return np.repeat(kept, sizes)


def _observations(program: Program) -> int:
    """Return the length of the longest array among the data, where the model says what they are."""
    data = getattr(program.model, "data", None)
    if isinstance(data, str) and data:
        data = json.loads(data)
    if not isinstance(data, dict):
        return ASSUMED_OBSERVATIONS
    lengths = [np.shape(value)[0] for value in data.values() if np.ndim(value)]
    return max(lengths, default=ASSUMED_OBSERVATIONS)


def _require_order(blocks: Sequence[Block], keep_order: bool) -> None:
    """Refuse to undo an order that the compiled program cannot do without."""
    ordered = [block.name for block in blocks if block.kind is BlockKind.ORDERED]
    if ordered and not keep_order:
        raise ValueError(
            f"{', '.join(map(repr, ordered))} is declared ordered, and a compiled program has no "
            "density out of order: declare it as vector[...] in the program, and folt folds its "
            "labels"
        )


def _require_proper(plain: StanDensity, blocks: Sequence[Block]) -> None:
    """Refuse a density that does not fall as an unbounded parameter goes to its end.

    Each coordinate is sent far out alone. Nothing is concluded where the program has no number.
    """
    dim, starts = plain.way.sites.dim, np.cumsum([0, *(block.site().size for block in blocks)])
    rays = []
    for block, start in zip(blocks, starts, strict=False):
        for place, index in enumerate(np.ndindex(block.shape)):
            for sign in (1.0, -1.0) if block.kind in (BlockKind.REAL, BlockKind.AFFINE) else (1.0,):
                if block.kind in _DISTANCES:
                    rays.append((block, index, start + place, sign))
    if not rays:
        return
    points = np.tile(_midst(plain), (len(rays), 4, 1))
    for number, (block, _, place, sign) in enumerate(rays):
        points[number, :, place] = sign * np.array(_DISTANCES[block.kind])
    middle = plain.values(_midst(plain)[None])[0]
    far = plain.values(points.reshape(-1, dim)).reshape(len(rays), 4)
    for (block, index, _, sign), values in zip(rays, far, strict=True):
        if np.isfinite(middle) and np.all(values > middle - FALL):
            entry = f"[{','.join(str(i + 1) for i in index)}]" if index else ""
            way = "falls" if (sign < 0) != (block.kind is BlockKind.UPPER) else "grows"
            raise ValueError(
                f"the log density of the program does not fall as {block.name}{entry} {way} "
                f"without end, so its posterior is improper: give {block.name} a prior in the "
                "model block"
            )
