"""Draws of completed tables, given what is observed, under the estimated distribution of rows."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.model.units import AffineUnits
from mcframe.numerics.gaussian_rows import RowDistribution, conditional_means, estimate_rows
from mcframe.regularizers import GaussianRows
from mcframe.selection.prior_rows import LAST_STEPS, NOISE, rows_of_estimate, standard_units
from mcframe.tables.as_numbers import BLOCK
from mcframe.tables.coding import Choice, Means
from mcframe.tables.declared import Declared

__all__ = ["DrawnRows"]

# The prior of draws counts as this share of the rows at most, where columns are few.
MOST_PRIOR = 0.01


@attrs.frozen(eq=False)
class DrawnRows:
    """Rows of a table of numbers as draws of a Gaussian distribution that is itself uncertain.

    Attributes
    ----------
    declared : Declared
        All columns as numbers of one block.
    values : array (n x d)
        Its numbers in standard units, NaN where missing.
    units : AffineUnits
    prior : float
        How many rows the prior of the covariance counts as.
    """

    declared: Declared
    values: Array
    units: AffineUnits
    prior: float

    @classmethod
    def of(cls, declared: Declared, prior: float) -> "DrawnRows":
        """The rows of a table under ``GaussianRows``.

        A prior that predicts single entries best may hold correlations back so far that what is
        computed from draws is biased towards 0: that of n rows of d numbers counts as d^2 / n
        rows, a hundredth of n, or one, whichever is the most, or as ``prior`` if that is less.
        """
        numbers = np.asarray(declared.data[BLOCK], dtype=np.float64)
        units = standard_units(numbers)
        values = units.standard(numbers, np.arange(numbers.shape[1]))
        n_rows, width = values.shape
        most = max(1.0, MOST_PRIOR * n_rows, width**2 / n_rows)
        return cls(declared, values, units, min(prior, most))

    def tables(self, m: int, seed: int) -> list[Any]:
        """m draws of the completed table, in the library it came in."""
        return [self.table(np.random.default_rng((seed, k))) for k in range(m)]

    def table(self, rng: np.random.Generator) -> Any:
        """One draw of the completed table."""
        codes = self.codes(self.distribution(rng), rng)
        changed = [
            each.filled_with(codes.get(each.name, np.zeros(0)))
            for each in self.declared.columns
            if each.column.missing.any()
        ]
        frame = self.declared.frame
        return frame.with_columns(*changed).to_native() if changed else frame.to_native()

    def distribution(self, rng: np.random.Generator) -> RowDistribution:
        """The distribution that EM finds of rows drawn with replacement."""
        [term] = self.declared.model.terms
        assert isinstance(term, GaussianRows)
        assert term.mean is not None
        assert term.covariance is not None
        start = RowDistribution(term.mean, term.covariance, NOISE)
        drawn = rng.integers(len(self.values), size=rows_of_estimate(self.values.shape))
        return estimate_rows(self.values[drawn], NOISE, self.prior, LAST_STEPS, start)

    def codes(self, rows: RowDistribution, rng: np.random.Generator) -> dict[Any, Array]:
        """Codes of the missing entries of each column that stands in a block.

        Numbers are drawn jointly; then one column of labels, levels or categories after the
        other, by its probabilities given all that is observed and drawn so far.
        """
        found: dict[Any, Array] = {}
        known, drawn = self.values.copy(), conditional_draw(self.values, rows, rng)
        columns = [each for each in self.declared.columns if each.place is not None]
        for each in sorted(columns, key=lambda each: isinstance(each.modelled[0], Choice)):
            coding, missing = each.modelled[0], np.flatnonzero(each.column.missing)
            if not missing.size:
                continue
            assert each.place is not None
            assert isinstance(coding, Means)
            own = each.place + np.arange(coding.width)
            cells = np.ix_(missing, own)
            if isinstance(coding, Choice):
                here = known[missing]
                means = conditional_means(here, np.isnan(here), rows)[0][:, own]
                answer = coding.read(self.units.natural(means, own))
                codes = drawn_places(answer, rng)
                known[cells] = self.units.standard(coding.numbers(codes), own)
            else:
                known[cells] = drawn[cells]
                codes = coding.predicted(coding.read(self.units.natural(drawn[cells], own)))
            found[each.name] = codes
        return found


def conditional_draw(values: Array, rows: RowDistribution, rng: np.random.Generator) -> Array:
    """Rows with a draw in the place of what is missing, jointly given what is observed.

    What is missing less its conditional mean is independent of what is observed: so a draw x of
    whole rows gives ``E[missing | observed] + x_m - E[x_m | x_o]``, in one conditional mean.
    """
    roots = np.linalg.cholesky(rows.total)
    whole = rng.standard_normal(values.shape) @ roots.T
    missing = np.isnan(values)
    means = conditional_means(values - whole, missing, rows)[0]
    return np.where(missing, means + whole, values)


def drawn_places(probabilities: Array, rng: np.random.Generator) -> Array:
    """One place of each row, by its probabilities (n x K)."""
    heights = np.cumsum(probabilities, axis=1)
    level = rng.random(len(heights)) * heights[:, -1]
    places: Array = np.sum(heights <= level[:, None], axis=1).astype(np.float64)
    return np.minimum(places, heights.shape[1] - 1)
