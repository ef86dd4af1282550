"""The account of a search in sentences: made last, and only here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from folt.symmetry.findings import (
    Attempt,
    Factor,
    Kind,
    Reason,
    Remark,
    RotationFound,
    SymmetryFound,
)
from folt.symmetry.probe import TOLERANCE

MOST_NEAR = 3
"""Near misses that are told."""

LIKELIHOOD = "likelihood"
"""Name of the last term of a density that comes in terms."""


def account_of(found: SymmetryFound) -> str:
    """Return what was tried, what was found, what nearly held, and why."""
    if not found.looked:
        return "No relabelling symmetry was looked for, as asked."
    held = len(found.found)
    lines = [
        f"Tried {len(found.attempts)} transformations at {found.points} points: {held} "
        f"{'leaves' if held == 1 else 'leave'} the log density unchanged."
    ]
    lines += [factor_in_words(factor) for factor in found.factors]
    if not found.folded:
        lines.append(no_symmetry(found))
    lines += [
        f"Nearest: {near_miss(attempt, found.front_end)}" for attempt in found.nearly[:MOST_NEAR]
    ]
    lines += [rotation_in_words(rotation, found.divided) for rotation in found.rotations]
    lines += [remark_in_words(remark, found.front_end) for remark in found.remarks]
    beside = " beside the rotations" if found.divided else ""
    lines.append(f"Group{beside}: {type(found.group).__name__} of order {found.group.order}.")
    return "\n".join(dict.fromkeys(lines))  # two factors may be left out for one reason


def warning(found: SymmetryFound) -> str:
    """Return what a user has to hear where nothing is folded although labels might be alike."""
    lines = [no_symmetry(found)]
    lines += [near_miss(attempt, found.front_end) for attempt in found.nearly[:1]]
    lines += [remark_in_words(remark, found.front_end) for remark in found.remarks]
    return "\n".join([*dict.fromkeys(lines), "The whole account is in problem.symmetry_found."])


def no_symmetry(found: SymmetryFound) -> str:
    """Return the first line where nothing is folded."""
    if not found.repeated:
        return "No relabelling symmetry found."
    return (
        "No relabelling symmetry was folded, although "
        f"{_quoted(found.repeated)} {'has' if len(found.repeated) == 1 else 'have'} repeated "
        "structure."
    )


def factor_in_words(factor: Factor) -> str:
    """Return what is exchangeable together."""
    names = ", ".join(factor.names)
    if factor.negated:
        return f"Signs that may be flipped together: {names}."
    if not factor.classes:
        signed = ", ".join(str(label + 1) for label in factor.signed)
        return f"Signs that may be flipped: {names} (components {signed})."
    labels = "; ".join(", ".join(str(label + 1) for label in each) for each in factor.classes)
    flipped = [name for n, name in enumerate(factor.names) if n not in factor.unsigned]
    signs = ", each with either sign" if factor.signed else ""
    signs += f" of {', '.join(flipped)}" if factor.signed and factor.unsigned else ""
    return f"Exchangeable together: {names} (components {labels}{signs})."


def attempt_in_words(attempt: Attempt) -> str:
    """Return one transformation: "swap components 1 and 2 of mu, sigma"."""
    names = ", ".join(attempt.moved)
    labels = " and ".join(str(label + 1) for label in attempt.labels)
    if attempt.kind is Kind.FLIP:
        return f"flip the sign of {f'component {labels} of ' if labels else ''}{names}"
    return f"{attempt.kind.value} components {labels} of {names}"


def near_miss(attempt: Attempt, front_end: str = "") -> str:
    """Return a transformation that failed, by how much, and what stands in its way."""
    change = attempt.change
    size = f"the log density by {change.defect:.2g} of its size"
    told = f"'{attempt_in_words(attempt)}' changes {size}"
    if change.blame == LIKELIHOOD and front_end:
        return (
            f"{told}, that of the likelihood too. If more has to move with it, "
            "exchangeable= takes the names of the sites, or the entries of each."
        )
    if change.blame == LIKELIHOOD or not change.blame:
        return f"{told}."
    if change.likelihood > TOLERANCE:
        return f"{told}; what changes most is the prior of '{change.blame}'."
    return (
        f"{told}: the likelihood stays as it is, the prior of '{change.blame}' does not. With "
        "equal priors for all labels they would be exchangeable."
    )


def rotation_in_words(rotation: RotationFound, divided: bool = False) -> str:
    """Return a continuous symmetry with its plane and its defect."""
    return (
        f"{_quoted(rotation.sites)} {'has' if len(rotation.sites) == 1 else 'have'} a continuous "
        "rotation symmetry: turning components 1 and 2 into each other by "
        f"{rotation.angle:g} radians changes the log density by {rotation.change.defect:.1g} of "
        f"its size, {'which is divided out' if divided else 'and no finite group folds that away'}."
    )


def refusal(rotation: RotationFound) -> str:
    """Return why a model with a rotation is not taken."""
    return (
        f"{rotation_in_words(rotation)} Give the loadings a prior that is not round, such as "
        "Laplace, or fix a triangle of them; allow_rotation=True folds the signed permutations "
        "alone and leaves the rotation in the posterior."
    )


def remark_in_words(remark: Remark, front_end: str = "") -> str:
    """Return why something is not folded, with advice in the words of the front-end."""
    sites, count = _quoted(remark.sites), remark.count
    told = _REMARKS[remark.reason].format(sites=sites, count=count)
    if remark.reason is Reason.STICKS:
        line = _DIRICHLET.get(front_end, "weights ~ Dirichlet({count})").format(count=count)
        return f"{told}\n    {line}"
    if remark.reason is not Reason.ORDERED:
        return told
    if front_end != "pymc":
        return f"{told} To fold instead, give it a plain prior without the order."
    return (
        f"{told} keep_order=False undoes it: the symmetry is then folded and the evidence is "
        f"{count}! times larger (log {count}! = {math.lgamma(count + 1):.4g})."
    )


_REMARKS = {
    Reason.ORDERED: "{sites} is ordered by construction, so the labels are fixed and there is "
    "nothing to fold: the model is fitted in order.",
    Reason.STICKS: "{sites} breaks a stick into {count} weights: relabelling them is no orthogonal "
    "map and their prior may favour early labels, so it is not folded. Two lines rewrite them: "
    "take out {sites} with its pieces, and put",
    Reason.OVERLAPS: "A further symmetry of {sites} is not folded, because another one moves them "
    "too and both together are more than folt lists: modes that it links are still there.",
    Reason.SIGNS_APART: "Signs of some of {sites} may be flipped too, but no group of folt joins "
    "these flips to the permutations found: only the permutations are used.",
    Reason.TOO_LARGE: "The group has {count} elements, too many to be summed over one by one.",
}

_DIRICHLET = {
    "numpyro": 'weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones({count})))',
    "pymc": 'weights = pm.Dirichlet("weights", np.ones({count}))',
}


def declared_refusal(named: Mapping[str, object], worst: Attempt, factors: Sequence[Factor]) -> str:
    """Return what fails of sites declared exchangeable, and which sites would make it hold.

    Args:
        named: the declared sites.
        worst: the exchange of two labels that changes the density most.
        factors: what a search finds exchangeable.
    """
    message = (
        f"sites {_quoted(named)} are declared exchangeable, but the log density changes by "
        f"{worst.change.defect:.3g} of its size under '{attempt_in_words(worst)}'"
    )
    for factor in factors:
        if not set(named) & set(factor.sites):
            continue
        listed = _to_declare(factor)
        add = _quoted(site for site in factor.sites if site not in named)
        drop = _quoted(name for name in named if name not in factor.sites)
        steps = [*([f"add {add}"] if add else []), *([f"leave out {drop}"] if drop else [])]
        if steps:
            return f"{message}: {' and '.join(steps)}, that is exchangeable={listed}"
        if factor.partial:
            return f"{message}: say which entries, exchangeable={listed}"
    blame = worst.change.blame
    culprit = "the likelihood" if blame == LIKELIHOOD else f"the prior of '{blame}'"
    return (
        f"{message}; what changes most is {culprit}: give the components equal priors and "
        "likelihoods, name other sites, or use exchangeable='auto'"
    )


def _to_declare(factor: Factor) -> str:
    """Return what to declare for a factor."""
    if not factor.partial:
        return "[" + ", ".join(f'"{site}"' for site in factor.sites) + "]"
    ranges = {site: mover.chosen for mover in factor.movers for site in mover.sites}
    told = (f'"{site}": {list(chosen) or None}' for site, chosen in ranges.items())
    return "{" + ", ".join(told) + "}"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
