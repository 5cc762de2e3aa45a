"""Draws of completed tables from the distribution of the rows, given the observed entries."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.model.units import AffineUnits
from mcframe.posterior.joint import NOISE
from mcframe.posterior.rows import RowsPosterior, fit_rows
from mcframe.tables.as_numbers import BLOCK
from mcframe.tables.coding import Choice, Means
from mcframe.tables.declared_column import members_of
from mcframe.tables.rows_choice import TOLERANCE, RowsChoice, standard_units
from mcframe.tables.table_model import TableModel

__all__ = ["DrawnRows"]

# The prior of draws counts as this share of the rows at most, where columns are few.
MOST_PRIOR = 0.01
# Numbers from which the distribution of a draw is estimated at most.
MOST_NUMBERS = 1_000_000


@attrs.frozen(eq=False)
class DrawnRows:
    """Rows of a table of numbers as draws of a distribution that is itself uncertain.

    Attributes
    ----------
    model : TableModel
    values : array (n x d)
        Its numbers in standard units, NaN where missing.
    units : AffineUnits
    chosen : RowsChoice
        With a prior that is weak enough for draws.
    """

    model: TableModel
    values: Array
    units: AffineUnits
    chosen: RowsChoice

    @classmethod
    def of(cls, model: TableModel) -> "DrawnRows":
        """The rows of a table.

        A prior that predicts single entries best may hold correlations back so far that what is
        computed from draws is biased towards 0: that of n rows of d numbers counts as d^2 / n
        rows, a hundredth of n, or one, whichever is the most, or as the chosen one if that is
        less.
        """
        numbers = np.asarray(model.declared.data[BLOCK], dtype=np.float64)
        units = standard_units(numbers)
        values = units.standard(numbers, np.arange(numbers.shape[1]))
        n_rows, width = values.shape
        chosen = model.chosen
        if chosen.prior_rows is not None:
            most = max(1.0, MOST_PRIOR * n_rows, width**2 / n_rows)
            chosen = attrs.evolve(chosen, prior_rows=min(chosen.prior_rows, most))
        return cls(model, values, units, chosen)

    def tables(self, m: int, seed: int) -> list[Any]:
        """m draws of the completed table, in the library it came in."""
        return [self.table(np.random.default_rng((seed, k))) for k in range(m)]

    def table(self, rng: np.random.Generator) -> Any:
        """One draw of the completed table."""
        engine = self.model.posterior.engine
        if self.chosen.components is None:
            drawn = engine.draws(np.arange(len(self.values)), rng, 1)[0]
            drawn = drawn + np.sqrt(engine.noise) * rng.standard_normal(drawn.shape)
            return self.model.declared.with_codes(self.codes(None, drawn, rng))
        found = self.distribution(rng).condition(self.values, self.precisions)
        drawn = found.draws(np.arange(len(self.values)), rng, 1)[0]
        drawn = drawn + np.sqrt(NOISE) * rng.standard_normal(drawn.shape)
        return self.model.declared.with_codes(self.codes(found, drawn, rng))

    @property
    def precisions(self) -> Array:
        """One over the variance of the noise of each column."""
        return np.full(self.values.shape[1], 1.0 / NOISE)

    def distribution(self, rng: np.random.Generator) -> RowsPosterior:
        """The posterior of rows drawn with replacement, whose components are a draw's."""
        n_rows, width = self.values.shape
        n_drawn = min(n_rows, max(width, MOST_NUMBERS // width))
        return fit_rows(
            self.values[rng.integers(n_rows, size=n_drawn)],
            self.precisions,
            components=self.chosen.components or 1,
            prior_rows=self.chosen.prior_rows,
            tol=TOLERANCE,
        )

    def codes(
        self, found: RowsPosterior | None, drawn: Array, rng: np.random.Generator
    ) -> dict[Any, Array]:
        """Codes of the missing entries of each column that stands in a block.

        Numbers are drawn jointly; then one column of labels, levels or categories after the
        other, by its probabilities given all that is observed and drawn so far; of factors
        (``found`` is None) given what is observed.
        """
        codes: dict[Any, Array] = {}
        known = self.values.copy()
        [columns] = members_of(self.model.declared.columns).values()
        for each in sorted(columns, key=lambda each: isinstance(each.modelled[0], Choice)):
            coding, missing = each.modelled[0], np.flatnonzero(each.column.missing)
            if not missing.size:
                continue
            assert each.place is not None
            assert isinstance(coding, Means)
            own = each.place + np.arange(coding.width)
            cells = np.ix_(missing, own)
            if isinstance(coding, Choice):
                if found is None:
                    at = (grid.ravel() for grid in np.broadcast_arrays(*cells))
                    means = self.model.posterior.engine.mixture(*at)[1][0]
                    means = means.reshape(missing.size, -1)
                else:
                    given = found.condition(known[missing], self.precisions).cells
                    weights = given.responsibilities
                    means = np.einsum("nc,cnk->nk", weights, given.means[:, :, own])
                places = drawn_places(coding.read(self.units.natural(means, own)), rng)
                known[cells] = self.units.standard(coding.numbers(places), own)
                codes[each.name] = places
            else:
                known[cells] = drawn[cells]
                answer = coding.read(self.units.natural(drawn[cells], own))
                codes[each.name] = coding.predicted(answer)
        return codes


def drawn_places(probabilities: Array, rng: np.random.Generator) -> Array:
    """One place of each row, by its probabilities (n x K)."""
    heights = np.cumsum(probabilities, axis=1)
    level = rng.random(len(heights)) * heights[:, -1]
    places: Array = np.sum(heights <= level[:, None], axis=1).astype(np.float64)
    return np.minimum(places, heights.shape[1] - 1)
