"""The best scores of new rows under smooth losses: Newton's method, each row for itself."""

import numpy as np

from mcframe.backends.new_rows.losses import At, RowLosses
from mcframe.compile import SHARES
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.rounding import EPS
from mcframe.numerics.machine.clock import check_time

__all__ = ["newton"]

MOST_STEPS = 300
# A row has settled where a step is shorter than this beside its scores.
SETTLED = 1e-13
# Armijo's constant; and the share of the sizes that an objective sums from which on it tells
# steps apart.
DECREASE, NOISE = 1e-4, 16.0 * EPS


def newton(losses: RowLosses, start: At | None = None) -> At:
    """argmin over t of the losses of each row: full steps as far as they descend, else shares.

    The objective of a row is a convex function plus ``||t||^2 / 2``: it has one minimum, and the
    length of its gradient bounds the distance from there. Where rounding no longer tells
    objectives apart steps are taken whole, for Newton's are then exact, until they get no
    shorter.
    """
    n_rows, width = losses.scored.n_rows, losses.scored.width
    here = losses.at(np.zeros((n_rows, width)) if start is None else start.scores, start)
    if not width:
        return here
    left, last = np.ones(n_rows, dtype=bool), np.full(n_rows, np.inf)
    for _ in range(MOST_STEPS):
        check_time()
        steps = losses.newton_steps(here)
        promised = np.einsum("ij,ij->i", here.gradient, steps)
        lengths = np.linalg.norm(steps, axis=1)
        fine = -promised <= NOISE * here.sizes
        left &= ~(fine & (lengths > 0.5 * last))
        left &= lengths > SETTLED * np.linalg.norm(here.scores, axis=1)
        if not left.any():
            break
        last = np.where(left, lengths, last)
        here = descend(losses, here, np.where(left[:, None], steps, 0.0), promised, fine)
    return here


def descend(losses: RowLosses, here: At, steps: Array, promised: Array, fine: Mask) -> At:
    """Each row moved by the largest share of its step at which its objective falls."""
    share, unsettled = np.ones(losses.scored.n_rows), np.any(steps != 0.0, axis=1)
    for trial in SHARES:
        share[unsettled] = trial
        there = losses.at(here.scores + share[:, None] * steps, here)
        with np.errstate(invalid="ignore"):
            enough = here.objectives + DECREASE * share * promised + NOISE * here.sizes
            fallen = (there.objectives <= enough) | (fine & np.isfinite(there.objectives))
        unsettled &= ~fallen
        if not unsettled.any():
            return there
    share[unsettled] = 0.0
    return losses.at(here.scores + share[:, None] * steps, here)
