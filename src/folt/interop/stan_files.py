"""Stan programs and data in files: compiled here, with whichever library there is."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from folt.interop.stan import from_stan
from folt.interop.stan_density import StanDensity
from folt.interop.stan_model import Services, extension_in
from folt.problem import Problem
from folt.problem.black_box import BlackBox
from folt.store.draws import draws_by_name, log_densities
from folt.types import in_float64

LOOKED_AT = 200
"""Draws at which Stan's log density is computed again."""

_DIGITS = 1e-5
"""Relative resolution of CmdStan's files, which hold six digits unless asked for more."""

DIFFERENT = 0.5
"""Spread in nats, beyond rounding, between the log densities of two programs."""

_ATTEMPTS = 3
"""Times that the translator is tried: httpstan gives it one second, too little when busy."""


def problem_of_files(program: Path, data: Path | None = None) -> Problem:
    """Return the problem of a Stan program in a file, with data in JSON.

    Raises:
        ValueError: no such file, no library to compile it with, a program that is none, or data
            that do not match.
    """
    if not program.is_file():
        raise ValueError(f"expected a Stan program, found nothing at {program}")
    return from_stan(_compiled(program, _data(data)))


def require_draws_of(problem: Problem, path: Path) -> None:
    """Refuse draws whose log density, as their sampler wrote it, is not that of the program.

    Stan's own log density of the draws may differ from this program's by a constant. Where it
    differs by other amounts from draw to draw, another program or other data made them.

    Raises:
        ValueError: with the spread of the difference.
    """
    known = log_densities(path)
    box = problem.log_density
    if known is None or not isinstance(box, BlackBox):
        return
    owner: Any = box.function.__self__  # type: ignore[attr-defined]
    density: StanDensity = owner if problem.quotient is None else owner.box.function.__self__
    draws = {n: v.reshape(-1, *v.shape[2:]) for n, v in draws_by_name(path).items()}
    count = known.size
    chosen = np.linspace(0, count - 1, min(count, LOOKED_AT)).astype(int)
    points = problem.unconstrain({name: value[chosen] for name, value in draws.items()})
    if problem.quotient is not None:
        with jax.enable_x64(True):
            points = np.asarray(jax.vmap(problem.quotient.lift)(jnp.asarray(points)))
    free = density.free(points)[0]
    ours = np.array([density.program.value(row, jacobian=True) for row in free])
    theirs = known.reshape(-1)[chosen]
    low, high = np.quantile(theirs - ours, [0.1, 0.9])
    allowed = DIFFERENT + _DIGITS * float(np.abs(theirs).max())
    if not high - low <= allowed:
        raise ValueError(
            f"the draws in {path} are of another program or other data: the log density that Stan "
            f"wrote beside them differs from this program's by amounts that spread over "
            f"{high - low:.3g} nats"
        )


def _data(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"expected a JSON file with data, found nothing at {path}") from error
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(
            f"expected an object {{name: value}} in {path}, got {type(found).__name__}"
        )
    return found


@in_float64
def _compiled(program: Path, data: dict[str, Any]) -> Any:
    """Return the model by BridgeStan, else by httpstan.

    Raises:
        ValueError: neither is installed, or what they say.
    """
    try:
        if importlib.util.find_spec("bridgestan") is not None:
            import bridgestan

            return bridgestan.StanModel(str(program), data or None)
        if importlib.util.find_spec("httpstan") is not None:
            return _services(program, data)
    except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = next((line for line in lines if "rror" in line or "xception" in line), "")
        told = told or (lines[0] if lines else type(error).__name__)
        raise ValueError(f"cannot use {program}: {told}") from error
    raise ValueError(
        f"{program} is compiled by BridgeStan or PyStan, and neither is installed: pip install "
        "bridgestan, or pip install pystan"
    )


def _services(program: Path, data: dict[str, Any]) -> Services:
    """Return the extension module of httpstan, from its cache where it is there already."""
    import httpstan.cache
    import httpstan.models

    source = program.read_text(encoding="utf-8")
    folder = httpstan.cache.model_directory(httpstan.models.calculate_model_name(source))
    with contextlib.suppress(ValueError):
        return _matching(extension_in(folder), data, source)
    for attempt in range(_ATTEMPTS):
        try:
            with _elsewhere():
                asyncio.run(httpstan.models.build_services_extension_module(source))
            break
        except subprocess.TimeoutExpired:
            if attempt == _ATTEMPTS - 1:
                raise
    return _matching(extension_in(folder), data, source)


class _MismatchError(RuntimeError):
    """Data that a program refuses."""


def _matching(extension: Path, data: dict[str, Any], source: str) -> Services:
    arrays = {name: np.array(v) if isinstance(v, list) else v for name, v in data.items()}
    try:
        return Services(extension, arrays, source)
    except (RuntimeError, ValueError) as error:
        raise _MismatchError(f"its data do not match: {error}") from error


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Work in a folder of its own: httpstan leaves what it builds where it is called."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="folt-stan-") as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
