"""The lower bound on the optimum that a dual point proves."""

import attrs
import numpy as np
import scipy

from mcframe.backends.certificate.main_term import Aim, MainTerm, main_term
from mcframe.backends.certificate.rounding import summed_rounding
from mcframe.compile import DualPoint
from mcframe.contracts.rounding import DUAL_ROUNDING, SET_ROUNDING
from mcframe.contracts.term import Constraint
from mcframe.numerics.operators import LowRank

__all__ = ["NO_BOUND", "Bound", "fenchel_bound"]

# How often a scale is tried that brings a dual point into every domain at once.
ROUNDS = 6
# How much shorter still gradients are tried that rounding has left just outside of a domain.
SHORTER = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)


@attrs.frozen(eq=False)
class Bound:
    """A lower bound, and what it was lowered by for rounding.

    With the dual point it comes from, and what the main term takes of it.
    """

    value: float
    rounding: float
    taken: float = 0.0
    point: DualPoint | None = None

    def room(self, length: float) -> float:
        """What it is worth at most that sets count as met by a Z of that length close to them."""
        if self.point is None:
            return 0.0
        ball = isinstance(self.point.program.main, Constraint)
        return self.point.room(length) + (SET_ROUNDING * abs(self.taken) if ball else 0.0)


NO_BOUND = Bound(-np.inf, 0.0)


def fenchel_bound(point: DualPoint, latent: LowRank, aim: Aim) -> Bound:
    """The bound at the best feasible scale, lowered by what rounding may have added.

    Or at scale 0, where it is the infimum of all losses: the better one if the optimum is 0.
    ``latent`` is the candidate that the point comes from, ``aim`` how close a bound is wanted.
    """
    point = point.without_rounding()
    main = main_term(point, latent, aim)
    nothing = bound_at(point, main, 0.0)
    scaled = scaled_bound(point, main)
    if not np.isfinite(scaled.value):
        scaled = bound_in_every_domain(point, main.largest, latent, aim)
    return scaled if scaled.value >= nothing.value else nothing


def scaled_bound(point: DualPoint, main: MainTerm) -> Bound:
    """The bound at the largest feasible scale, or with a ridge at the best one."""
    for shorter in SHORTER:
        reached = bound_at(point, main, main.largest * (1.0 - shorter))
        if np.isfinite(reached.value):
            break
    if not (point.program.penalty.smooth and np.isfinite(reached.value)):
        return reached
    # With a ridge every scale is feasible, and the bound is concave in it; 1 is exact at the
    # optimum.
    search = scipy.optimize.minimize_scalar(
        lambda scale: -bound_at(point, main, float(scale)).value,
        bounds=(0.0, 1.0),
        method="bounded",
    )
    shorter_point = bound_at(point, main, float(search.x))
    return reached if reached.value >= shorter_point.value else shorter_point


def bound_at(point: DualPoint, main: MainTerm, scale: float) -> Bound:
    """The bound from a scaled dual point and the main term's unscaled matrix."""
    taken, rounding = main.conjugate(scale), main.rounding(scale)
    return bound_from_conjugates(point.multiple(scale), taken, rounding)


def bound_from_conjugates(point: DualPoint, taken: float, outside: float = 0.0) -> Bound:
    """The bound from the sum of all conjugates, less what rounding may have added.

    ``taken`` is that of the main term, ``outside`` what its own rounding is worth, and that the
    point lies outside of its domain by rounding.
    """
    conjugates, size = point.conjugates()
    rounding = summed_rounding(size + abs(taken), point.gradient.size) + outside
    return Bound(float(-conjugates - taken - rounding), rounding, taken, point)


def bound_in_every_domain(point: DualPoint, scale: float, latent: LowRank, aim: Aim) -> Bound:
    """The bound where scaling leaves the domain of a loss whose gradients do not reach 0.

    Moving back into that domain changes the main term's matrix a little, so that the scale is
    sought in a few rounds; -inf if none is found. Beyond the main term's domain by rounding it is
    a bound of a weight so much larger, which is worth that share of the term at the candidate.
    """
    for _ in range(ROUNDS):
        repaired = point.repair(scale)
        found = main_term(repaired, latent, aim)
        if found.largest >= 1.0 - DUAL_ROUNDING:
            beyond = (1.0 / found.largest - 1.0) * point.program.penalty.value(latent)
            outside = beyond + found.rounding(1.0)
            return bound_from_conjugates(repaired, found.conjugate(1.0), outside)
        scale -= 2.0 * (1.0 - found.largest) * scale if found.largest > 0.7 else 0.5 * scale
    return NO_BOUND
