"""Numbers beside a point mass, such as 0: a two-part model."""

from typing import Any, Self

import attrs
import numpy as np
from scipy.special import ndtr

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.contracts.stored_classes import stored
from mcframe.model.transforms import Chain
from mcframe.numerics.error_shapes import ErrorShape
from mcframe.posterior.answer import Posterior
from mcframe.posterior.predictive import interval_of_whole_numbers
from mcframe.tables.coding import NO_PLACES, Cells, Numbers
from mcframe.tables.indicator_codings import Indicator
from mcframe.tables.raw_predictions import RawPredictions


@stored(formerly=("mcframe.tables.coding.SemiContinuous",))
@attrs.frozen
class SemiContinuous(Numbers):
    """A value with a point mass, such as 0, or else a continuous number: two numbers of a block.

    The first one is 1 where the code is another than the ``atom``, and 0 where it is not. The
    second one is the code on the scale, missing where it is the atom (a two-part model: Duan and
    others, A comparison of alternative models for the demand for medical care, Journal of Business
    and Economic Statistics 1, 1983). The mean is ``(1 - p) atom + p m`` with p the probability of
    another value, by ``part``, and m the mean of these.

    Parameters
    ----------
    atom : float
    part : Indicator
        The probabilities of the atom and of another value.
    """

    atom: float = attrs.field(kw_only=True)
    part: Indicator = attrs.field(default=Indicator((False, True)), kw_only=True)

    @classmethod
    def at(cls, coding: Numbers, atom: float) -> "SemiContinuous":
        """A coding of numbers, with a point mass."""
        return cls(coding.whole, coding.lower, coding.upper, coding.unit, atom=atom)

    @property
    def scale_in_words(self) -> str:
        """The point mass, and the scale of other numbers."""
        scale = super().scale_in_words
        return f"{self.atom * self.unit:g} or {'x' if scale == str(Chain()) else scale}"

    @property
    def reads_variances(self) -> bool:
        """True: the probabilities do."""
        return True

    @property
    def is_drawn_last(self) -> bool:
        """True: first it is drawn whether it is the atom."""
        return True

    @property
    def width(self) -> int:
        """2: whether it is another number, and this number."""
        return 2

    def parts(self, codes: Array) -> Array:
        """1 where a code is another than the atom, 0 where it is not, NaN where it is missing."""
        return np.where(np.isnan(codes), np.nan, codes != self.atom)

    def numbers(self, codes: Array) -> Array:
        """The part of each code and its number on the scale (n_items x 2)."""
        others = np.where(codes == self.atom, np.nan, codes)
        return np.column_stack([self.parts(codes), self.scale.apply(others, *NO_PLACES)])

    def probability(self, means: Array, variances: Array | None) -> Array:
        """The probability of another value than the atom, of raw predictions (n x 2)."""
        first = None if variances is None else variances[:, :1]
        return self.part.decode(means[:, :1], first)[:, 1]

    def with_reference(self, variances: Array | None) -> Self:
        """The coding for which these are variances of held-out entries (n x 2)."""
        first = None if variances is None else variances[:, :1]
        return attrs.evolve(self, part=self.part.with_reference(first))

    def decode(self, means: Array, variances: Array | None = None) -> Array:
        """The mean response in the column's own unit."""
        others = means[:, 1:], None if variances is None else variances[:, 1:]
        mean = super().decode(*others)
        return self.mixed(self.probability(means, variances), mean, 1)

    def mixed(self, probability: Array, mean: Array, power: int) -> Array:
        """The mean of a power, from that of other values than the atom."""
        mixed: Array = (1.0 - probability) * self.atom**power + probability * mean
        return mixed

    def raw(self, posterior: Any, block: str, cells: Cells) -> RawPredictions:
        """Raw predictions of the entries (n x 2), whose cells stand side by side."""
        raw = RawPredictions.of(posterior, block, *cells)
        return raw.of_rows(slice(None), cells[0].size // 2, 2)

    def expected(self, posterior: Any, block: str, cells: Cells, power: int = 1) -> Array:
        """The mean of a power of a new code under a posterior."""
        raw, (rows, columns) = self.raw(posterior, block, cells), cells
        mean = super().expected(posterior, block, (rows[1::2], columns[1::2]), power)
        return self.mixed(self.probability(raw.means, raw.variances), mean, power)

    def ends(
        self, posterior: Posterior, block: str, cells: Cells, level: float, whole: bool
    ) -> tuple[Array, Array]:
        """The ends of intervals of new codes: quantiles of a distribution with a point mass."""
        raw = self.raw(posterior, block, cells)
        assert raw.variances is not None  # of a posterior
        p = self.probability(raw.means, raw.variances)
        means, deviations = raw.means[:, 1], np.sqrt(raw.variances[:, 1])
        shape = self.shape or ErrorShape()

        def share_below(numbers: Array) -> Array:
            return np.asarray(p * ndtr(shape.invert((numbers - means) / deviations)))

        below = share_below(self.inverse(np.array([self.atom])))

        def quantile(u: float | Array) -> Array:
            past_atom = u > below + 1.0 - p
            shares = np.where(past_atom, u - (1.0 - p), u) / p
            others = means + deviations * shape.quantile(np.clip(shares, EPS, 1.0 - EPS))
            codes = self.rounded(others) if whole else self.within(others)
            least = np.where(u > below, self.atom, -np.inf)
            return np.clip(codes, least, np.where(past_atom, np.inf, self.atom))

        def cdf(whole: Array) -> Array:
            return share_below(self.edges(whole)) + (1.0 - p) * (self.atom <= whole)

        if whole:
            return tuple(interval_of_whole_numbers(level, cdf, quantile).T)
        return quantile(0.5 - 0.5 * level), quantile(0.5 + 0.5 * level)
