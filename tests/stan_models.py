"""Compiled Stan programs, played by Python: BridgeStan's methods, Stan's own transforms."""

import jax
import jax.numpy as jnp
import numpy as np


def basis(length):
    """Stan's orthonormal basis of vectors that sum to zero."""
    found = np.zeros((length, length - 1))
    for n in range(1, length):
        found[:n, n - 1], found[n, n - 1] = 1.0, -n
    return found / np.linalg.norm(found, axis=0)


class Declared:
    """A declared parameter: how many free numbers it has, and its transform with log Jacobian."""

    def __init__(self, shape, free, transform):
        self.shape, self.free, self.transform = shape, free, transform


def real(*shape):
    return Declared(shape, int(np.prod(shape)), lambda u, _: (u.reshape(shape), 0.0))


def lower(*shape, bound=0.0):
    return Declared(
        shape,
        int(np.prod(shape)),
        lambda u, _: (bound + jnp.exp(u).reshape(shape), jnp.sum(u)),
    )


def upper(*shape, bound=0.0):
    return Declared(
        shape,
        int(np.prod(shape)),
        lambda u, _: (bound - jnp.exp(u).reshape(shape), jnp.sum(u)),
    )


def interval(*shape, low=0.0, high=1.0):
    def transform(u, _):
        share = jax.nn.sigmoid(u)
        slope = jnp.log(high - low) + jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)
        return (low + (high - low) * share).reshape(shape), jnp.sum(slope)

    return Declared(shape, int(np.prod(shape)), transform)


def affine(*shape, offset=1.0, multiplier=2.0):
    size = int(np.prod(shape))
    return Declared(
        shape,
        size,
        lambda u, _: ((offset + multiplier * u).reshape(shape), size * jnp.log(multiplier)),
    )


def above(name, *shape):
    """A lower bound that is another parameter."""
    return Declared(
        shape,
        int(np.prod(shape)),
        lambda u, others: (others[name] + jnp.exp(u).reshape(shape), jnp.sum(u)),
    )


def _stick(u):
    x, rest, slope = [], jnp.ones(()), jnp.zeros(())
    for k in range(len(u)):
        share = jax.nn.sigmoid(u[k] - jnp.log(len(u) - k))
        slope += jnp.log(share) + jnp.log1p(-share) + jnp.log(rest)
        x.append(rest * share)
        rest = rest * (1 - share)
    return jnp.stack([*x, rest]), slope


def _log_ratios(u):
    x = jax.nn.softmax(jnp.asarray(basis(len(u) + 1)) @ u)
    return x, jnp.sum(jnp.log(x)) + 0.5 * jnp.log(len(x))


def rows(one, count, length, free):
    """An array of `count` vectors, or a vector where it is None."""
    shape = (length,) if count is None else (count, length)

    def transform(u, _):
        found = [one(row) for row in u.reshape(-1, free)]
        return jnp.stack([x for x, _ in found]).reshape(shape), sum(s for _, s in found)

    return Declared(shape, free * (count or 1), transform)


def simplex(length, count=None, log_ratios=False):
    return rows(_log_ratios if log_ratios else _stick, count, length, length - 1)


def zero_sum(length, count=None):
    return rows(lambda u: (jnp.asarray(basis(length)) @ u, 0.0), count, length, length - 1)


def ordered(length, count=None):
    def one(u):
        return u[0] + jnp.cumsum(jnp.exp(u).at[0].set(0.0)), jnp.sum(u[1:])

    return rows(one, count, length, length)


def unit_vector(length):
    return rows(lambda u: (u / jnp.linalg.norm(u), -0.5 * jnp.sum(u**2)), None, length, length)


def cholesky(count=None):
    """Cholesky factors of 2 × 2 covariance matrices."""
    shape = (2, 2) if count is None else (count, 2, 2)

    def transform(u, _):
        a, b, c = jnp.moveaxis(u.reshape(-1, 3), 1, 0)
        x = jnp.stack([jnp.exp(a), jnp.zeros_like(a), b, jnp.exp(c)], -1).reshape(shape)
        return x, jnp.sum(a + c)

    return Declared(shape, 3 * (count or 1), transform)


class PythonModel:
    """A program: declared parameters, and a log density of their values."""

    def __init__(self, parameters, density, data=None):
        self.parameters, self.density, self.data = parameters, density, data

        def both(u):
            values, slope, start = {}, 0.0, 0
            for name, one in parameters.items():
                values[name], own = one.transform(u[start : start + one.free], values)
                slope, start = slope + own, start + one.free
            return values, slope

        def log_density(u, jacobian):
            values, slope = both(u)
            return density(values) + (slope if jacobian else 0.0)

        self.values = jax.jit(lambda u: both(u)[0])
        self.value = jax.jit(log_density, static_argnums=1)
        self.slope = jax.jit(jax.value_and_grad(log_density), static_argnums=1)

    def __reduce__(self):
        return (type(self), (self.parameters, self.density, self.data))

    def param_names(self, include_tp=False, include_gq=False):
        names = []
        for name, one in self.parameters.items():
            for index in np.ndindex(one.shape[::-1]):  # Stan's first index runs fastest
                names.append(".".join([name, *(str(i + 1) for i in index[::-1])]))
        return names + (["twice.1", "twice.2", "drawn"] if include_gq else [])

    def param_unc_num(self):
        return sum(one.free for one in self.parameters.values())

    def param_constrain(self, theta_unc, include_tp=False, include_gq=False, rng=None):
        with jax.enable_x64(True):
            values = self.values(theta_unc)
        flat = [np.asarray(values[name]).T.reshape(-1) for name in self.parameters]
        entries = np.concatenate(flat).astype(float)
        if not np.all(np.isfinite(entries)):
            raise RuntimeError("unit_vector_constrain: norm is 0, but must be positive finite!")
        return np.append(entries, [*(2 * entries[:2]), rng.normal()]) if include_gq else entries

    def param_unconstrain(self, theta):
        """Newton's method, which needs no inverse of its own."""
        from scipy.optimize import least_squares

        start = np.full(self.param_unc_num(), 0.1)
        return least_squares(lambda u: self.param_constrain(u) - theta, start, xtol=1e-15).x

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        with jax.enable_x64(True):
            return float(self.value(theta_unc, jacobian))

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        with jax.enable_x64(True):
            value, slope = self.slope(theta_unc, jacobian)
        return float(value), np.asarray(slope)

    def new_rng(self, seed):
        return np.random.default_rng(seed)


def normal(x, loc=0.0, scale=1.0):
    return jnp.sum(-0.5 * ((x - loc) / scale) ** 2 - jnp.log(scale) - 0.5 * jnp.log(2 * jnp.pi))


DATA = np.random.default_rng(1).normal([-2.0, 1.0, 4.0], 0.6, (40, 3)).reshape(-1)


def mixture_density(values):
    """Three normals with unknown weights; y[n] ~ Σ θ_k N(μ_k, σ_k), all constants included."""
    theta, mu, sigma = values["theta"], values["mu"], values["sigma"]
    terms = jnp.log(theta) - 0.5 * ((DATA[:, None] - mu) / sigma) ** 2 - jnp.log(sigma)
    terms = terms - 0.5 * jnp.log(2 * jnp.pi)
    prior = normal(mu, 1.0, 4.0) + normal(jnp.log(sigma), 0.0, 0.5) - jnp.sum(jnp.log(sigma))
    dirichlet = jnp.sum(jnp.log(theta)) + jnp.log(120.0)  # Γ(6) / Γ(2)³
    return prior + dirichlet + jnp.sum(jax.nn.logsumexp(terms, axis=1))


def mixture(log_ratios=False):
    parameters = {"theta": simplex(3, log_ratios=log_ratios), "mu": real(3), "sigma": lower(3)}
    return PythonModel(parameters, mixture_density)
