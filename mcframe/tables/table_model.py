"""A table of any columns as rows of numbers: their posterior at holes, and draws of them."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.model.units import AffineUnits
from mcframe.posterior.answer import Posterior
from mcframe.posterior.joint import NOISE
from mcframe.posterior.rows import RowsPosterior, fit_rows
from mcframe.tables.as_numbers import BLOCK
from mcframe.tables.coding import Choice, Numbers
from mcframe.tables.declared_column import DeclaredColumn, members_of
from mcframe.tables.declaring import Declared
from mcframe.tables.rows_choice import TOLERANCE, RowsChoice, standard_units


@attrs.frozen(eq=False)
class TableModel:
    """A table whose columns are numbers of one block, and the posterior of its rows.

    Attributes
    ----------
    declared : Declared
        With probabilities of values that fit what was held out.
    posterior : Posterior
    """

    declared: Declared
    posterior: Posterior

    @cached_property
    def holes(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the block at all holes, those of one column after the other."""
        rows, columns = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
        for each in self.declared.columns:
            if each.place is not None:
                missing, width = np.flatnonzero(each.column.missing), each.modelled[0].width
                rows.append(np.repeat(missing, width))
                columns.append(np.tile(each.place + np.arange(width), missing.size))
        return np.concatenate(rows), np.concatenate(columns)

    def by_column(self, numbers: Any) -> Iterator[tuple[DeclaredColumn, Array]]:
        """Numbers at all holes, column by column that has some (n_holes x width)."""
        numbers, first = np.asarray(numbers), 0
        for each in self.declared.columns:
            if each.place is not None and each.column.missing.any():
                width = each.modelled[0].width
                end = first + width * int(np.count_nonzero(each.column.missing))
                yield each, numbers[first:end].reshape(-1, width)
                first = end

    def table(self) -> Any:
        """The table with its missing entries filled, as ``Declared.table``."""
        codes = {}
        for each, means in self.by_column(self.posterior.predict(BLOCK, *self.holes)):
            coding = each.modelled[0]
            codes[each.name] = coding.predicted(coding.read(means))
        return self.declared.with_codes(codes)

    @cached_property
    def sd(self) -> dict[Any, Array]:
        """Expected errors of the filled entries, column by column.

        Of numbers, counts and dates the standard deviation of the entry, of labels, levels and
        categories 1 minus the probability of the value that is filled in.
        """
        found = {}
        spreads = self.by_column(self.posterior.sd(BLOCK, *self.holes))
        for each, means in self.by_column(self.posterior.predict(BLOCK, *self.holes)):
            coding, (_, spread) = each.modelled[0], next(spreads)
            if isinstance(coding, Choice):
                answer = coding.read(means)
                places = coding.predicted(answer).astype(np.intp)
                found[each.name] = 1.0 - answer[np.arange(places.size), places]
            else:
                found[each.name] = coding.unit * spread[:, 0]
        return found

    def interval(self, level: float) -> tuple[Any, Any]:
        """The table twice, holes filled with lower and with upper ends; see ``Completion``."""
        kept = [
            k for k, each in enumerate(self.declared.columns) if isinstance(each.coding, Numbers)
        ]
        tables = []
        ends = self.posterior.interval(BLOCK, level, *self.holes)
        for end, outwards in zip(ends, (np.floor, np.ceil), strict=True):
            codes = {}
            for each, own in self.by_column(end):
                coding = each.modelled[0]
                whole = isinstance(coding, Numbers) and coding.whole is not None
                codes[each.name] = coding.predicted(coding.read(outwards(own) if whole else own))
            tables.append(nw.from_native(self.declared.with_codes(codes))[:, kept].to_native())
        return tables[0], tables[1]


# The prior of draws counts as this share of the rows at most, where columns are few.
MOST_PRIOR = 0.01
# Numbers from which the distribution of a draw is estimated at most.
MOST_NUMBERS = 1_000_000


@attrs.frozen(eq=False)
class DrawnRows:
    """Rows of a table of numbers as draws of a distribution that is itself uncertain.

    Attributes
    ----------
    declared : Declared
        Its columns are numbers of one block.
    engine : RowsPosterior or FactorPosterior
        The posterior of all rows.
    chosen : RowsChoice
        With a prior that is weak enough for draws.
    units : AffineUnits
    values : array (n x d)
        The numbers in standard units, NaN where missing.
    """

    declared: Declared
    engine: Any
    chosen: RowsChoice
    units: AffineUnits
    values: Array

    @classmethod
    def of(cls, declared: Declared, posterior: Posterior, chosen: RowsChoice) -> "DrawnRows":
        """The rows of a table.

        A prior that predicts single entries best may hold correlations back so far that what is
        computed from draws is biased towards 0: that of n rows of d numbers counts as d^2 / n
        rows, a hundredth of n, or one, whichever is the most, or as the chosen one if that is
        less.
        """
        numbers = np.asarray(declared.data[BLOCK], dtype=np.float64)
        n_rows, width = numbers.shape
        if chosen.prior_rows is not None:
            most = max(1.0, MOST_PRIOR * n_rows, width**2 / n_rows)
            chosen = attrs.evolve(chosen, prior_rows=min(chosen.prior_rows, most))
        units = standard_units(numbers)
        values = units.standard(numbers, np.arange(width))
        return cls(declared, posterior.engine, chosen, units, values)

    def tables(self, m: int, seed: int) -> list[Any]:
        """m draws of the completed table, in the library it came in."""
        return [self.table(np.random.default_rng((seed, k))) for k in range(m)]

    def table(self, rng: np.random.Generator) -> Any:
        """One draw of the completed table."""
        rows, found = np.arange(len(self.values)), None
        if self.chosen.components is None:
            drawn, noise = self.engine.draws(rows, rng, 1)[0], self.engine.noise
        else:
            found = self.distribution(rng).condition(self.values, self.precisions)
            drawn, noise = found.draws(rows, rng, 1)[0], NOISE
        drawn = drawn + np.sqrt(noise) * rng.standard_normal(drawn.shape)
        return self.declared.with_codes(self.codes(found, drawn, rng))

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
        [columns] = members_of(self.declared.columns).values()
        for each in sorted(columns, key=lambda each: isinstance(each.coding, Choice)):
            coding, missing = each.modelled[0], np.flatnonzero(each.column.missing)
            if each.place is None or not missing.size:
                continue
            own = each.place + np.arange(coding.width)
            cells = np.ix_(missing, own)
            if not isinstance(coding, Choice):
                known[cells] = drawn[cells]
                answer = coding.read(self.units.natural(drawn[cells], own))
                codes[each.name] = coding.predicted(answer)
                continue
            if found is None:
                at = (grid.ravel() for grid in np.broadcast_arrays(*cells))
                means = self.engine.mixture(*at)[1][0].reshape(missing.size, -1)
            else:
                given = found.condition(known[missing], self.precisions).cells
                weights = given.responsibilities
                means = np.einsum("nc,cnk->nk", weights, given.means[:, :, own])
            places = drawn_places(coding.read(self.units.natural(means, own)), rng)
            known[cells] = self.units.standard(coding.numbers(places), own)
            codes[each.name] = places
        return codes


def drawn_places(probabilities: Array, rng: np.random.Generator) -> Array:
    """One place of each row, by its probabilities (n x K)."""
    heights = np.cumsum(probabilities, axis=1)
    level = rng.random(len(heights)) * heights[:, -1]
    places: Array = np.sum(heights <= level[:, None], axis=1).astype(np.float64)
    return np.minimum(places, heights.shape[1] - 1)
