"""How exactly objective and bound are known, and how far apart they are."""

import attrs
import numpy as np

from mcframe.contracts.rounding import EPS

__all__ = ["NOTHING", "Rounding", "relative_gap", "summed_rounding"]

# Terms below this share of their value at Z = 0 are 0.
NOTHING = 1e-12


@attrs.frozen(eq=False)
class Rounding:
    """How exactly objective and bound are known in double precision, all as absolute numbers.

    Attributes
    ----------
    moved : float
        By how much rounding may have moved them against each other at the candidate.
    nothing : float
        An objective up to this is 0: its losses are in every column below 1e-12 of what one
        constant costs there (losses with kinks, which grow as residuals do, below 1e-9; where
        one constant fits a column whole, predictors are off by 1e-9 of their unit), its terms
        below 1e-12 of theirs at Z = 0, and the main term 0.
    resolved : float
        How far apart they may stay because each entry of Z is known to the rounding of the whole
        Z alone, as it is by singular vectors; and because norms of sparse gradients are told to
        1e-9, which is worth that share of the main term.
    room : float
        What it is worth at most that sets count as met up to 1e-9 of their size.
    bound : float
        The part of ``moved`` that is the bound's.
    """

    moved: float = 0.0
    nothing: float = 0.0
    resolved: float = 0.0
    room: float = 0.0
    bound: float = 0.0

    def beside(self, other: "Rounding") -> "Rounding":
        """The rounding of this objective beside a bound that comes from another point.

        Where there is no bound at this point, its rounding infinite, that of the objective is
        taken from the other one.
        """
        known = self if np.isfinite(self.bound) else other
        if not np.isfinite(known.bound):  # neither has a bound
            return self
        moved, room = known.moved - known.bound + other.bound, max(self.room, other.room)
        return attrs.evolve(self, moved=moved, room=room, bound=other.bound)


def relative_gap(objective: float, bound: float, rounding: Rounding | None = None) -> float:
    """|objective - bound| / max(|objective|, |bound|), the most that it can be.

    Never below what rounding may have moved them against each other by, up to 1: a difference
    that cannot be told from 0 is no proof of it. 0 where the objective is one of residuals that
    are rounding, and the bound is no farther from 0.
    """
    known = Rounding() if rounding is None else rounding
    difference = abs(objective - bound)
    if not np.isfinite(difference):
        return np.inf
    size = max(abs(objective), abs(bound))
    if size <= known.nothing:
        return 0.0
    return float(max(difference / size, min(known.moved / size, 1.0)))


def summed_rounding(size: float, count: int) -> float:
    """How far rounding can have moved a sum of so many summands whose sizes add up to that."""
    return EPS * (8 + float(np.log2(count + 1))) * abs(size)
