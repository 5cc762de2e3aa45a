"""A table of any columns as rows of numbers, with their posterior and its predictions."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.model import Model
from mcframe.posterior.answer import Posterior
from mcframe.regularizers import NuclearNorm
from mcframe.selection.splitters import RowFolds
from mcframe.tables.as_numbers import BLOCK, as_numbers
from mcframe.tables.coding import Choice, Dates, Means, Metric, Numbers
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import (
    DeclaredColumn,
    data_of,
    in_content_order,
    in_table_order,
)
from mcframe.tables.held_out import ColumnScores, calibrated_columns
from mcframe.tables.missingness import Missingness
from mcframe.tables.rows_choice import (
    RowsChoice,
    RowsFold,
    choose_rows,
    dealt_entries,
    folds_of_parts,
    number_block,
    takes_factors,
)

__all__ = ["TableModel", "as_one_block", "fit_table"]

# Folds of held-out entries.
FOLDS = 3
# Numbers by which is chosen at most: of longer tables so many in rows drawn at random, of which
# one in ``FOLDS + 1`` is held out.
MOST_NUMBERS = 200_000


@attrs.frozen(eq=False)
class TableModel:
    """A table whose columns are numbers of one block, and the posterior of its rows.

    Attributes
    ----------
    declared : Declared
        With probabilities of values that fit what was held out.
    posterior : Posterior
    chosen : RowsChoice
    scores : tuple of ColumnScores or None
        What was lost on held-out entries, column by column of the table.
    """

    declared: Declared
    posterior: Posterior
    chosen: RowsChoice
    scores: tuple[ColumnScores | None, ...]

    def table(self) -> Any:
        """The table with its missing entries filled, as ``Declared.table``."""
        rows, columns = self.holes()
        means = self.posterior.predict(BLOCK, rows, columns)
        codes = {
            each.name: each.modelled[0].predicted(answer)
            for each, answer in self.answers(np.asarray(means))
        }
        return self.declared.with_codes(codes)

    @cached_property
    def sd(self) -> dict[Any, Array]:
        """Expected errors of the filled entries, column by column.

        Of numbers, counts and dates the standard deviation of the entry, of labels, levels and
        categories 1 minus the probability of the value that is filled in.
        """
        rows, columns = self.holes()
        means = np.asarray(self.posterior.predict(BLOCK, rows, columns))
        spreads = np.asarray(self.posterior.sd(BLOCK, rows, columns))
        found = {}
        pairs = zip(self.answers(means), self.parts(spreads), strict=True)
        for (each, answer), (_, spread) in pairs:
            coding = each.modelled[0]
            if isinstance(coding, Choice):
                places = coding.predicted(answer).astype(np.intp)
                found[each.name] = 1.0 - answer[np.arange(places.size), places]
            else:
                unit = coding.unit if isinstance(coding, Numbers) else 1.0
                assert isinstance(coding, Numbers | Dates)
                found[each.name] = unit * spread[:, 0]
        return found

    def interval(self, level: float) -> tuple[Any, Any]:
        """The table twice, holes filled with lower and with upper ends; see ``Completion``."""
        rows, columns = self.holes()
        kept = [
            k
            for k, each in enumerate(self.declared.columns)
            if each.place is not None and isinstance(each.modelled[0], Metric)
        ]
        tables = []
        ends = self.posterior.interval(BLOCK, level, rows, columns)
        for end, outwards in zip(ends, (np.floor, np.ceil), strict=True):
            codes = {}
            for each, own in self.parts(np.asarray(end)):
                coding = each.modelled[0]
                assert isinstance(coding, Means)
                whole = isinstance(coding, Numbers) and coding.whole is not None
                codes[each.name] = coding.predicted(coding.read(outwards(own) if whole else own))
            tables.append(nw.from_native(self.declared.with_codes(codes))[:, kept].to_native())
        return tables[0], tables[1]

    def holed(self) -> list[tuple[DeclaredColumn, IntArray]]:
        """The columns of the block that have holes, and the rows of these."""
        own = [each for each in self.declared.columns if each.place is not None]
        pairs = [(each, np.flatnonzero(each.column.missing)) for each in own]
        return [(each, rows) for each, rows in pairs if rows.size]

    def holes(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the block at all holes, those of one column after the other."""
        rows, columns = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
        for each, own in self.holed():
            assert each.place is not None
            width = each.modelled[0].width
            rows.append(np.repeat(own, width))
            columns.append(np.tile(each.place + np.arange(width), own.size))
        return np.concatenate(rows), np.concatenate(columns)

    def parts(self, numbers: Array) -> Iterator[tuple[DeclaredColumn, Array]]:
        """Numbers at all holes, column by column (n_holes x width)."""
        first = 0
        for each, rows in self.holed():
            size = rows.size * each.modelled[0].width
            yield each, numbers[first : first + size].reshape(rows.size, -1)
            first += size

    def answers(self, means: Array) -> Iterator[tuple[DeclaredColumn, Array]]:
        """What means at all holes say of the entries, column by column."""
        for each, own in self.parts(means):
            coding = each.modelled[0]
            assert isinstance(coding, Means)
            yield each, coding.read(own)


def fit_table(
    columns: Sequence[DeclaredColumn],
    frame: Any,
    *,
    seed: int = 0,
    groups: Any = None,
    n_folds: int = FOLDS,
    prior_rows: float | None = None,
    progress: bool = False,
) -> TableModel:
    """Choose the prior of a table's rows on held-out entries, and find their posterior.

    Parameters
    ----------
    columns : sequence of DeclaredColumn
        As ``declare`` takes them.
    frame : narwhals.DataFrame
    seed : int
        Draws what is held out.
    groups : sequence with a label for each row, optional
        Rows with the same label are held out together.
    n_folds : int
    prior_rows : float, optional
        How many rows the prior of one Gaussian counts as; by default it is chosen.
    progress : bool
        Whether what is tried is printed.
    """
    columns = as_numbers(in_content_order(columns))
    rng = np.random.default_rng(seed)
    own = [each for each in columns if each.place is not None]
    widths = [each.modelled[0].width for each in own]
    owners = np.repeat(np.arange(len(own)), widths)
    labels = checked_groups(groups, frame.shape[0])
    rows = rows_to_choose_by(frame.shape[0], owners.size, rng)
    codes = np.column_stack([each.codes[rows] for each in own])
    values = np.column_stack(
        [each.modelled[0].numbers(code) for each, code in zip(own, codes.T, strict=True)]
    )
    whole = rows.size == frame.shape[0]
    labels = None if labels is None else labels[rows]
    wide = takes_factors((frame.shape[0], owners.size))
    if wide:  # rows of which nothing is seen have no factors: single entries are held out
        labels, whole = None, True
    folds = folds_of(values, codes, owners, labels, n_folds, whole, rng)
    chosen, means = choose_rows(folds, wide, prior_rows, print if progress else None)
    held = [fold.held for fold in folds]
    if len(folds) == 1:  # probabilities are fitted and scored on different rows of the one fold
        part = np.arange(len(codes)) % n_folds
        held = [held[0] & (part == k)[:, None] for k in range(n_folds)]
        means = means * n_folds
    told = Missingness.of_columns(values, owners, rng)
    columns, scores = calibrated_columns(columns, codes, held, means, told)
    declared = as_one_block(columns, frame, chosen)
    found = chosen.posterior(declared.model, declared.data, random_state=seed, progress=progress)
    named = {each.name: own for each, own in zip(columns, scores, strict=True)}
    scores = tuple(named[each.name] for each in declared.columns)
    return TableModel(declared, found, chosen, scores)


def as_one_block(
    columns: tuple[DeclaredColumn, ...], frame: Any, chosen: RowsChoice | None = None
) -> Declared:
    """Return a table whose columns, which are as numbers, stand in one block."""
    codes = {each.name: each.codes for each in columns if each.place is not None}
    block = number_block(BLOCK)
    model = Model([block], [NuclearNorm()]) if chosen is None else chosen.model([block])
    data = data_of([block], columns, codes, frame)
    return Declared(model, data, in_table_order(columns, frame), frame)


def rows_to_choose_by(n_rows: int, width: int, rng: np.random.Generator) -> IntArray:
    """Return all rows, of very long tables some of them."""
    n_kept = MOST_NUMBERS // width
    if n_rows <= n_kept:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, n_kept, replace=False))


def checked_groups(groups: Any, n_rows: int) -> Any:
    """Return a label for each row, or None; a ``DataError`` where there are others."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise DataError(
            f"groups has the shape {labels.shape}; a label for each of the {n_rows} rows is needed"
        )
    return labels


def folds_of(
    values: Array,
    codes: Array,
    owners: IntArray,
    labels: Any,
    n_folds: int,
    whole: bool,
    rng: np.random.Generator,
) -> list[RowsFold]:
    """Return the folds of a table: of entries, of rows of groups, or one of rows of a long table.

    Parameters
    ----------
    values : array (n x d)
    codes : array (n x n_columns)
    labels : array (n,) or None
        The groups of rows.
    n_folds : int
    whole : bool
        Whether these are all rows of the table.
    """
    if labels is None and whole:
        parts = dealt_entries(codes, n_folds, rng)
        return folds_of_parts(values, parts, owners, n_folds)
    count = n_folds if whole else n_folds + 1
    part = RowFolds(count, groups=labels).parts_of_rows(len(values), rng)
    observed: Mask = ~np.isnan(codes)
    parts = np.where(observed, part[:, None], -1)
    return folds_of_parts(values, parts, owners, n_folds if whole else 1)
