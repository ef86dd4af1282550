"""Pairs of target and proposal whose w has a known law, to hold certificates against."""

import numpy as np
from scipy import signal, stats

from finite_chains import finite_chains
from folt.certificate.diagnostics.coupling_bounds import effective_sizes


class Refreshable:
    """A law that can draw fresh proposals."""

    def refreshed(self, generator, held_out, steps):
        """Held-out h after some steps of independence Metropolis-Hastings."""
        moved = held_out
        for _ in range(steps):
            proposed = self.propose(generator, held_out.size).reshape(held_out.shape)
            accepted = np.log(generator.random(held_out.shape)) < proposed - moved
            moved = np.where(accepted, proposed, moved)
        return moved


class Exponentials(Refreshable):
    """π = Exp(1), q = Exp(rate): w is Pareto with index 1/(rate-1) under π if rate > 1.

    A share `dead` of the proposals dies.
    """

    def __init__(self, rate, dead=0.0):
        self.rate, self.dead = rate, dead

    def draw(self, generator, proposals, targets, chains=1, correlation=0.0):
        """h at fresh draws, and at target draws: chains of a Gaussian autoregression, turned."""
        fresh = self.propose(generator, proposals)
        noise = generator.normal(size=(chains, targets))
        noise[:, 1:] *= np.sqrt(1 - correlation**2)
        normal = signal.lfilter([1.0], [1.0, -correlation], noise, axis=1)
        return fresh, (self.rate - 1) * stats.expon.isf(stats.norm.sf(normal))

    def propose(self, generator, count):
        fresh = (self.rate - 1) * generator.exponential(1 / self.rate, count)
        fresh[generator.random(count) < self.dead] = -np.inf
        return fresh

    def truth(self, log_threshold):
        """a(t), π(w > t), μ(w > t) in closed form; the crossing is where w = t."""
        x = np.asarray(log_threshold) / (self.rate - 1)
        near, near_target = 1 - np.exp(-self.rate * x), 1 - np.exp(-x)
        if self.rate > 1:
            beyond, beyond_target = 1 - near, 1 - near_target
            accept = near_target * np.exp(-np.asarray(log_threshold)) * self.rate + beyond
        else:
            beyond, beyond_target = near, near_target
            accept = (1 - near_target) * np.exp(-np.asarray(log_threshold)) * self.rate + beyond
        return (1 - self.dead) * accept, beyond_target, beyond


class Regimes(Refreshable):
    """A body where w is constant, and a regime of mass β where log w is normal about log `weight`.

    Held-out chains switch between the two slowly: a stay in the regime lasts `dwell` draws on
    average. All else about them is independent, so that R-hat sees nothing.
    """

    SPREAD = 0.3

    def __init__(self, mass, weight, dwell):
        self.mass, self.centre, self.dwell = mass, np.log(weight), dwell
        self.proposed = mass * np.exp(self.SPREAD**2 / 2) / weight  # share of the proposal
        self.body = np.log((1 - mass) / (1 - self.proposed))

    def propose(self, generator, count):
        """Under the proposal log w is normal too, lower by the square of its deviation."""
        inside = generator.random(count) < self.proposed
        high = self.centre - self.SPREAD**2 + self.SPREAD * generator.normal(size=count)
        return np.where(inside, high, self.body)

    def draw(self, generator, proposals, targets, chains):
        leave, enter = 1 / self.dwell, self.mass / (1 - self.mass) / self.dwell
        inside = np.empty((chains, targets), bool)
        inside[:, 0] = generator.random(chains) < self.mass
        uniform = generator.random((chains, targets))
        for t in range(1, targets):
            before = inside[:, t - 1]
            inside[:, t] = np.where(before, uniform[:, t] >= leave, uniform[:, t] < enter)
        high = self.centre + self.SPREAD * generator.normal(size=inside.shape)
        return self.propose(generator, proposals), np.where(inside, high, self.body)

    def truth(self, log_threshold):
        """a(t) = E_π[min(1/w, 1/t)], π(w > t), q(w > t)."""
        t = np.asarray(log_threshold)
        score = (t - self.centre) / self.SPREAD
        exceed = self.mass * stats.norm.sf(score)
        start = self.proposed * stats.norm.sf(score + self.SPREAD)
        accept = (1 - self.mass) * np.exp(-np.maximum(self.body, t))
        accept += self.mass * stats.norm.cdf(score) * np.exp(-t) + start
        return accept, exceed, start


class Atoms:
    """A finite chain with many states: ties everywhere, and a distance known by matrices."""

    def __init__(self, seed, dead=0.0):
        generator = np.random.default_rng(seed)
        target, proposal = generator.dirichlet(np.ones(12)), generator.dirichlet(np.ones(12))
        proposal = (0.3 * proposal + 0.7 * target)[None] * (1 - dead)
        self.chains, self.dead = finite_chains(target[None], proposal), dead

    def draw(self, generator, proposals, targets):
        log_ratio = np.append(np.log(self.chains.ratio[0]), -np.inf)
        law = np.append(self.chains.proposal[0], self.dead)
        fresh = generator.choice(log_ratio, proposals, p=law / law.sum())
        return fresh, generator.choice(log_ratio[:-1], (1, targets), p=self.chains.target[0])

    def truth(self, log_threshold):
        log_ratio, threshold = np.log(self.chains.ratio[0]), np.asarray(log_threshold)[:, None]
        beyond, proposal = log_ratio > threshold, self.chains.proposal[0]
        return (
            np.exp(np.minimum(log_ratio - threshold, 0.0)) @ proposal,
            beyond @ self.chains.target[0],
            beyond @ proposal / proposal.sum(),
        )


LAWS = {
    "light proposal, Pareto index 1": Exponentials(2.0),
    "light proposal, Pareto index 5": Exponentials(1.2),
    "wide proposal": Exponentials(0.9),
    "half the proposals die": Exponentials(1.1, dead=0.5),
    "atoms": Atoms(6),
    "atoms, a fifth dies": Atoms(7, dead=0.2),
}


def credited_sizes(steps, fresh):
    """The mutant that credits refreshment: of the draws, u = (1 - a(t))ᵏ are said not to move."""

    def sizes(raw, log_thresholds):
        own = effective_sizes(raw, log_thresholds)
        accept = np.exp(np.minimum(fresh - np.ravel(log_thresholds)[:, None], 0.0)).mean(axis=1)
        return raw.size * own / (own + (1 - accept) ** steps * (raw.size - own))

    return sizes


def holds(law, certificate, parts=("accept_lower", "exceed_upper", "start_upper")):
    """Whether the bounds of these kinds hold at all thresholds at once."""
    accept, exceed, start = law.truth(certificate.grid.log_threshold)
    slack = 1e-12  # an atom's mass is known to rounding only
    excess = {
        "accept_lower": np.array(certificate.grid.accept_lower) - accept,
        "exceed_upper": exceed - np.array(certificate.grid.exceed_upper),
        "start_upper": start - np.array(certificate.grid.start_upper),
    }
    return all((excess[part] <= slack).all() for part in parts)


def distances_hold(law, certificate):
    """Whether the chain is as close as certified after the certified steps."""
    steps = certificate.steps.items()
    return all(n is None or law.chains.distance(n)[0] <= epsilon for epsilon, n in steps)
