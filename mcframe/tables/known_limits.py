"""Cells of which only limits are known: "<0.5", "10-20", "1,000+", or limits in other columns."""

import re
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.stored_classes import stored
from mcframe.tables.gaps import number_in


@stored
@attrs.frozen(eq=False)
class KnownLimits:
    """The limits between which the cells of a column lie.

    Attributes
    ----------
    lower, upper : arrays (n_items,)
        Infinite where there is none; the lower one is not above the upper one. A value that is
        only below a limit has the next smaller float as its upper limit.
    """

    lower: Array
    upper: Array

    @classmethod
    def none(cls, n_items: int) -> "KnownLimits":
        """No limits of any cell."""
        return cls(np.full(n_items, -np.inf), np.full(n_items, np.inf))

    @property
    def cells(self) -> Mask:
        """Mark the cells of which a limit is known."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)

    def at(self, chosen: Any) -> "KnownLimits":
        """The limits of some cells."""
        return KnownLimits(self.lower[chosen], self.upper[chosen])

    def only(self, chosen: Mask) -> "KnownLimits":
        """The limits of these cells, and none of others."""
        return KnownLimits(
            np.where(chosen, self.lower, -np.inf), np.where(chosen, self.upper, np.inf)
        )

    def joined(self, other: "KnownLimits") -> "KnownLimits":
        """The limits, and other ones of cells without any."""
        mine = self.cells
        return KnownLimits(
            np.where(mine, self.lower, other.lower), np.where(mine, self.upper, other.upper)
        )

    def within(self, lowest: float, highest: float) -> "KnownLimits":
        """The parts of the limits inside a range, where cells have limits."""
        cells = self.cells
        return KnownLimits(
            np.where(cells, np.maximum(self.lower, lowest), -np.inf),
            np.where(cells, np.minimum(self.upper, highest), np.inf),
        )

    def over(self, unit: float) -> "KnownLimits":
        """The limits of numbers over a unit."""
        return KnownLimits(self.lower / unit, self.upper / unit)

    @property
    def whole(self) -> "KnownLimits":
        """The least and the largest whole numbers between the limits."""
        return KnownLimits(np.ceil(self.lower), np.floor(self.upper))

    @property
    def hold_whole_numbers(self) -> bool:
        """True if there is a whole number between the limits of each cell."""
        return bool(np.all(self.whole.lower <= self.whole.upper))

    def clip(self, numbers: Array, whole: bool) -> Array:
        """The nearest numbers between the limits, one for each cell."""
        ends = self.whole if whole else self
        return np.clip(numbers, ends.lower, ends.upper)


# A number as it may stand in a text of limits, with commas before thousands, too.
NUMBER_TEXT = r"[+-]?[0-9.][0-9.,]*(?:e[+-]?[0-9]+)?"
# Words before or behind a number, and whether the number itself is one of the values.
UPPER_BEFORE = r"(?P<at_most><=|=<|≤|⩽|at most|up to|no more than)|(?:<|below|under|less than)"
LOWER_BEFORE = r"(?P<at_least>>=|=>|≥|⩾|at least|no less than)|(?:>|above|over|more than)"
LOWER_BEHIND = r"\+|or (?:more|above|over|higher|greater)|and (?:more|above|over|higher)"
UPPER_BEHIND = r"or (?:less|below|under|lower|fewer)|and (?:below|under|lower)"
FORMS_OF_LIMITS = (
    re.compile(rf"(?:{UPPER_BEFORE})\s*(?P<upper>{NUMBER_TEXT})"),
    re.compile(rf"(?:{LOWER_BEFORE})\s*(?P<lower>{NUMBER_TEXT})"),
    re.compile(rf"(?P<lower>{NUMBER_TEXT})\s*(?P<at_least>{LOWER_BEHIND})"),
    re.compile(rf"(?P<upper>{NUMBER_TEXT})\s*(?P<at_most>{UPPER_BEHIND})"),
    re.compile(
        rf"(?:between |from )?(?P<lower>{NUMBER_TEXT})\s*(?P<at_least>-|–|—|\.\.|to|and)\s*"
        rf"(?P<upper>{NUMBER_TEXT})(?P<at_most>)"
    ),
)
THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+")


def limits_in(value: Any) -> tuple[float, float] | None:
    """The limits that a text gives for a number, as "<0.5", "at least 100" or "10-20"; or None."""
    if not isinstance(value, str):
        return None
    text = " ".join(value.lower().split())
    for form in FORMS_OF_LIMITS:
        match = form.fullmatch(text)
        if match is None:
            continue
        groups = match.groupdict()
        ends = []
        for end, included, none in (("lower", "at_least", -1.0), ("upper", "at_most", 1.0)):
            number = none * np.inf
            if end in groups:
                read = groups[end]
                number = number_in(read.replace(",", "") if THOUSANDS.fullmatch(read) else read)
                if groups.get(included) is None:
                    number = float(np.nextafter(number, -none * np.inf))
            ends.append(number)
        lower, upper = ends
        return (lower, upper) if lower <= upper else None  # and not where one is no number
    return None


def limits_of_texts(texts: list[Any], places: IntArray) -> KnownLimits:
    """The limits of cells that texts give; the places of cells are among the texts."""
    ends = [limits_in(text) or (-np.inf, np.inf) for text in texts]
    return KnownLimits(*np.array(ends, dtype=np.float64).reshape(-1, 2)[places].T)
