"""A compiled Stan program: what folt asks of it, and the two libraries that have it."""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from folt.store.draws import by_name

Free = Float[np.ndarray, " free"]
"""Unconstrained parameters."""

_Entries = Float[np.ndarray, " entry"]
"""The entries of all parameters, in the order of their names."""

_METHODS = (
    "param_names",
    "param_unc_num",
    "param_constrain",
    "param_unconstrain",
    "log_density",
    "log_density_gradient",
)
"""What a model must have, by the names that BridgeStan gave them."""

_MOST_PARAMETERS = 100_000
"""Unconstrained parameters up to which their number is looked for, where nothing tells it."""


SOMEWHERE = 0.1
"""An unconstrained number at which every parameter has a value; a unit vector has none at zero."""


class StanModel(Protocol):
    """A compiled program with its data; `bridgestan.StanModel` is one."""

    def param_names(self) -> Sequence[str]:
        """Return the entries of the parameters with Stan's indices: `mu.1`, `mu.2`, ..."""

    def param_unc_num(self) -> int:
        """Return how many unconstrained parameters there are."""

    def param_constrain(self, theta_unc: Free) -> _Entries:
        """Return the parameters at unconstrained ones."""

    def param_unconstrain(self, theta: _Entries) -> Free:
        """Return the inverse."""

    def log_density(self, theta_unc: Free, *, propto: bool, jacobian: bool) -> float:
        """Return the log density, with or without constants and the log Jacobian."""

    def log_density_gradient(
        self, theta_unc: Free, *, propto: bool, jacobian: bool
    ) -> tuple[float, Free]:
        """Return the same with its gradient."""


class Program:
    """A compiled program whose lengths are checked; what Stan rejects has density zero.

    Args:
        model: anything with BridgeStan's methods, or a model that PyStan 3 built.

    Raises:
        ValueError: a model without these methods, or without parameters.
    """

    def __init__(self, model: Any) -> None:
        if hasattr(model, "model_name") and hasattr(model, "program_code"):
            model = Services.of_pystan(model)
        missing = [name for name in _METHODS if not callable(getattr(model, name, None))]
        if missing:
            advice = (
                ": for a density without gradient use folt.from_callable"
                if missing == ["log_density_gradient"]
                else ": give bridgestan.StanModel(file, data), or what PyStan's stan.build returns"
            )
            raise ValueError(
                f"expected a compiled Stan model, got {type(model).__name__} without "
                f"{', '.join(missing)}{advice}"
            )
        self.model: StanModel = model
        self.names = tuple(model.param_names())
        self.free = int(model.param_unc_num())
        if self.free < 1:
            raise ValueError("expected a Stan program with parameters, got one without")

    @property
    def proportional(self) -> bool:
        """Whether the log density lacks constants that the program leaves out."""
        return bool(getattr(self.model, "proportional", False))

    def __getstate__(self) -> dict[str, Any]:
        """Send the compiled file and the data: BridgeStan's models cannot be sent."""
        state = dict(self.__dict__)
        if hasattr(self.model, "lib_path") and hasattr(self.model, "data"):
            state["model"] = None
            state["recipe"] = (
                type(self.model),
                self.model.lib_path,
                self.model.data,
                getattr(self.model, "seed", 0),
            )
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        recipe = state.pop("recipe", None)
        self.__dict__.update(state)
        if recipe is not None:
            kind, path, data, seed = recipe
            self.model = kind(path, data, seed=seed, warn=False)

    def constrained(self, free: Free) -> _Entries:
        """Return the entries of the parameters in the order of `names`."""
        found = np.asarray(self.model.param_constrain(self._free(free)), np.float64)
        if found.shape != (len(self.names),):
            raise ValueError(
                f"expected param_constrain to give {len(self.names)} numbers, one for each of "
                f"param_names, got shape {found.shape}"
            )
        return found

    def constrained_or_nan(self, free: Free) -> _Entries:
        """Return the entries; NaN where there are none, as for a unit vector at zero."""
        try:
            return self.constrained(free)
        except (RuntimeError, ValueError):
            return np.full(len(self.names), np.nan)

    def unconstrained_or_nan(self, entries: _Entries) -> Free:
        """Return Stan's unconstrained parameters; NaN where the entries are impossible."""
        try:
            found = self.model.param_unconstrain(np.ascontiguousarray(entries))
        except (RuntimeError, ValueError):
            return np.full(self.free, np.nan)
        return np.asarray(found, np.float64)

    def value(self, free: Free, jacobian: bool) -> float:
        """Return the log density with all constants; -inf where Stan rejects the parameters."""
        free = self._free(free)
        try:
            return float(self.model.log_density(free, propto=False, jacobian=jacobian))
        except (RuntimeError, ValueError):
            return -np.inf

    def gradient(self, free: Free, jacobian: bool) -> tuple[float, Free]:
        """Return the same with its gradient."""
        free = self._free(free)
        try:
            value, slope = self.model.log_density_gradient(free, propto=False, jacobian=jacobian)
        except (RuntimeError, ValueError):
            return -np.inf, np.zeros(self.free)
        return float(value), np.asarray(slope, np.float64)

    def generated(self, free: Float[np.ndarray, "n free"], seed: int) -> dict[str, np.ndarray]:
        """Return transformed parameters and generated quantities, by the program itself.

        Raises:
            ValueError: the model cannot make them.
        """
        model: Any = self.model
        if not hasattr(model, "new_rng"):
            raise ValueError(
                f"a {type(model).__name__} makes no generated quantities: compile the program with "
                "BridgeStan"
            )
        every = {"include_tp": True, "include_gq": True}
        names, random = tuple(model.param_names(**every)), model.new_rng(seed)
        rows = np.stack([model.param_constrain(row, rng=random, **every) for row in free])
        more = names[len(self.names) :]
        return by_name(more, rows[:, len(self.names) :])

    def _free(self, free: Free) -> Free:
        if free.shape != (self.free,):
            raise ValueError(f"expected {self.free} unconstrained parameters, got {free.shape}")
        return np.ascontiguousarray(free, np.float64)


class WrongThreadError(Exception):
    """A compiled module was called in another thread than its own; no rejection of Stan's."""


class Services:
    """The extension module that httpstan compiled for PyStan, with BridgeStan's methods.

    It drops the constants of `~` statements always, and must be called in the thread that loaded
    it: in another one the process would die.

    Args:
        path: the extension module.
        data: the data of the program.
        source: the program, which tells whether constants are dropped.
    """

    def __init__(self, path: str | Path, data: Mapping[str, Any], source: str) -> None:
        self.path, self.data, self.source = str(path), dict(data), source
        self._load()

    @classmethod
    def of_pystan(cls, model: Any) -> Services:
        """Take a model that `stan.build` returned."""
        from httpstan.cache import model_directory

        return cls(extension_in(model_directory(model.model_name)), model.data, model.program_code)

    def _load(self) -> None:
        spec = importlib.util.spec_from_file_location("stan_services", self.path)
        assert spec is not None
        assert spec.loader is not None
        self._module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._module)
        self._owner = threading.get_ident()
        self._count = self._free_count()
        entries = self._module.write_array(self.data, [SOMEWHERE] * self._count, False, False)
        self._names = tuple(self._module.constrained_param_names(self.data)[: len(entries)])

    def _free_count(self) -> int:
        """Find the number of unconstrained parameters, which the module does not say."""
        for count in range(_MOST_PARAMETERS):
            try:
                self._module.write_array(self.data, [SOMEWHERE] * count, False, False)
            except RuntimeError as error:
                if "number of parameters does not match" not in str(error):
                    raise
            else:
                return count
        raise ValueError(f"expected a program of fewer than {_MOST_PARAMETERS} parameters")

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "data": self.data, "source": self.source}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._load()

    @property
    def proportional(self) -> bool:
        """Whether the program has statements whose constants are dropped."""
        plain = without_comments(self.source)
        return "~" in plain or re.search(r"_lup[dm]f\b", plain) is not None

    def _here(self) -> Any:
        if threading.get_ident() != self._owner:
            raise WrongThreadError(
                "a model of PyStan can only be evaluated in the thread that loaded it: call "
                "folt.from_stan in the thread that samples, or use BridgeStan"
            )
        return self._module

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> Sequence[str]:
        """Return the entries of the parameters, or of these and all that follows from them."""
        whole = include_tp and include_gq
        return self._here().constrained_param_names(self.data) if whole else self._names

    def param_unc_num(self) -> int:
        """Return how many unconstrained parameters there are."""
        return self._count

    def param_constrain(
        self,
        theta_unc: Free,
        *,
        include_tp: bool = False,
        include_gq: bool = False,
        rng: None = None,
    ) -> _Entries:
        """Return the parameters, and what follows from them where asked for."""
        free = theta_unc.tolist()
        return np.array(self._here().write_array(self.data, free, include_tp, include_gq))

    def new_rng(self, seed: int) -> None:
        """Return no generator: the module starts every call from the same seed.

        Raises:
            ValueError: the program draws at random, and all its draws would be made alike.
        """
        if re.search(r"_rng\s*\(", without_comments(self.source)):
            raise ValueError(
                "PyStan draws generated quantities from one seed at every point, so that they "
                "would not be draws: compile the program with BridgeStan"
            )

    def param_unconstrain(self, theta: _Entries) -> Free:
        """Return the inverse."""
        values = {name: value.tolist() for name, value in by_name(self._names, theta).items()}
        return np.array(self._here().transform_inits(self.data, values))

    def log_density(self, theta_unc: Free, *, propto: bool, jacobian: bool) -> float:
        """Return the log density; the constants of `~` statements are missing."""
        return float(self._here().log_prob(self.data, theta_unc.tolist(), jacobian))

    def log_density_gradient(
        self, theta_unc: Free, *, propto: bool, jacobian: bool
    ) -> tuple[float, Free]:
        """Return the same with its gradient."""
        value = self.log_density(theta_unc, propto=propto, jacobian=jacobian)
        slope = self._here().log_prob_grad(self.data, theta_unc.tolist(), jacobian)
        return value, np.array(slope)


def without_comments(source: str) -> str:
    """Return a Stan program without its comments and strings."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"[^"]*"', "", source, flags=re.DOTALL)


def extension_in(folder: Path) -> Path:
    """Return the compiled module in a folder of httpstan's cache.

    Raises:
        ValueError: there is none.
    """
    from importlib.machinery import EXTENSION_SUFFIXES

    found = [path for path in Path(folder).glob("*") if path.suffix in EXTENSION_SUFFIXES]
    if not found:
        raise ValueError(f"expected a compiled Stan program in {folder}, found none: build it anew")
    return found[0]
