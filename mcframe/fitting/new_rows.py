"""Predictions of new items, which were not among the rows of a fit."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs
import numpy as np

from mcframe.backends.row_space import RowSpace, best_rows
from mcframe.backends.rowwise import batches
from mcframe.compile import BlockLoss
from mcframe.contracts.arrays import Array, IntArray, Mask, mapped, points_of
from mcframe.contracts.errors import (
    DataError,
    NotCertifiedWarning,
    UnobservedWarning,
    warn_caller,
)
from mcframe.contracts.row_stores import refuse_stores
from mcframe.contracts.term import Sums
from mcframe.contracts.validators import a_type, plain
from mcframe.fitting.prediction import Rows
from mcframe.model import Layout, Problem
from mcframe.model.binding import Origin, origin_of, row_counts, same_rows
from mcframe.model.labels import AxisLabels, pandas_index, some_in_words
from mcframe.model.reading import read_block
from mcframe.model.table import Table
from mcframe.model.transforms import Chain, latent_places
from mcframe.model.triples import in_columns_of


@attrs.frozen(eq=False)
class NewRows(Rows):
    """New items; the loadings of Z, biases, thresholds and scales of losses are those of the fit.

    Attributes
    ----------
    problem, effects
        Those of the fit.
    latent : LowRank
        The rows of Z of the new items (n_new x n_columns).
    row_effects : dict from block name to array (n_new,)
        Those of blocks that have them, counted from 0.
    tables : dict from block name to Table
        The data of the new items.
    index : their labels, or None
    """

    row_effects: Mapping[str, Array]
    tables: Mapping[str, Table]
    index: Any

    @classmethod
    def of(
        cls,
        problem: Problem,
        effects: Mapping[str, Array],
        space: RowSpace,
        data: Mapping[str, object],
    ) -> "NewRows":
        """The rows of new items with these data, some or all blocks of the problem.

        Raises
        ------
        DataError
            Where the data do not fit the model.
        """
        tables = tables_of_new_rows(problem, data)
        refuse_offsets(problem, tables)
        n_new, index = same_rows(tables.items())
        scores: Array = np.empty((n_new, space.directions.shape[1]))
        of_rows = {name: np.full(n_new, value) for name, value in space.idle.items()}
        off, costs = np.zeros(n_new, dtype=bool), row_costs(problem, tables)
        for part in batches(n_new, numbers_of_a_row(problem, tables, space)):
            row_pieces = block_losses_of(problem, effects, tables, part, costs)
            block_losses = tuple(block_loss for block_loss, _ in row_pieces.values())
            columns = tuple(problem.columns(name) for name in row_pieces)
            best = best_rows(part.stop - part.start, block_losses, columns, space)
            scores[part], off[part] = best.scores, best.unconverged
            for (name, (block_loss, origin)), solved in zip(
                row_pieces.items(), best.effects, strict=True
            ):
                if solved is not None:
                    with_entries = np.unique(block_loss.rows)
                    of_rows[name][part][with_entries] = (solved + origin)[with_entries]
        if off.any():
            report(problem, tables, off, index)
        return cls(problem, effects, space.rows(scores), of_rows, tables, index)

    def table(self, name: str) -> Table:
        """The observed entries of a block, if it was given, with the labels of an answer."""
        fitted, table = self.problem.tables[name], self.tables.get(name)
        if table is None:
            table = table_without_entries(self.problem, name, self.latent.shape[0])
        table = table.observed_entries()
        names = table.names if fitted.names is None else fitted.names
        return attrs.evolve(table, index=self.index, names=names)

    def predictor(self, name: str) -> Array:
        """z + b + a of a block (n_new x its latent columns), with the offset of the new data.

        In the units of the data, by the units of the fit.
        """
        z = self.latent.columns(self.problem.columns(name)).dense()
        z = z + known_effects(self.problem, name, self.effects)
        if name in self.row_effects:
            z = z + self.row_effects[name][:, None]
        transforms = Chain.of(*self.table(name).transforms, origin_of_biases(self.problem, name))
        return transforms.invert(z, *np.ogrid[: z.shape[0], : z.shape[1]])

    def natural(self, name: str, rows: IntArray, columns: IntArray) -> Array:
        """The linear predictor at some entries: one number each, or one for each class."""
        z, width = self.predictor(name), self.likelihood(name).width
        return (z if width == 1 else z.reshape(len(z), -1, width))[rows, columns]

    def predict(self, name: str, rows: IntArray, columns: IntArray) -> Array:
        """The mean response at some entries, as ``Fit.predict`` gives it."""
        means = self.likelihood(name).mean(self.natural(name, rows, columns))
        return self.problem.model.block(name).limited(means)


def block_losses_of(
    problem: Problem,
    effects: Mapping[str, Array],
    tables: Mapping[str, Table],
    part: slice,
    costs: Array | None,
) -> dict[str, tuple[BlockLoss, Array | float]]:
    """Some new rows as losses: for each block with entries there, its losses and effects of rows.

    And what these are counted from. Entries of tables are in the order of their rows; biases are
    among what is known; losses are divided by the ``costs`` of scores, one for each row.
    """
    row_losses: dict[str, tuple[BlockLoss, Array | float]] = {}
    begun, n_rows = 0, part.stop - part.start
    for name, table in tables.items():
        entries = slice(*np.searchsorted(table.rows, [part.start, part.stop]))
        if entries.start == entries.stop:
            continue
        block, likelihood = problem.model.block(name), problem.likelihood(name, effects)
        rows, columns, y = table.rows[entries], table.columns[entries], table.observations[entries]
        rows_of_part, width = rows - part.start, likelihood.width
        scale: Any = problem.scale(name)
        if costs is not None:
            scale = scale / costs[rows]
        places = latent_places(rows, columns, width)
        fixed_part = known_effects(problem, name, effects)[places[1]]
        layout, origin = Layout(n_row_effects=n_rows if block.row_effects else 0), None
        if likelihood.location:
            transforms = Chain.of(*table.pending, origin_of_biases(problem, name))
            y = transforms.observed(y, rows, columns)
            origin = origin_of(layout, rows_of_part, columns, points_of(y))
            if origin is not None:
                y = mapped(y, partial(np.add, -origin[rows_of_part]))
        else:
            fixed_part = table.pending.invert(fixed_part, *places)
        try:
            block_loss = BlockLoss.of(
                layout,
                problem.ridge(name),
                origin,
                likelihood=likelihood,
                scale=scale if table.weights is None else scale * table.weights[entries],
                y=y,
                rows=rows_of_part,
                columns=columns,
                part=slice(begun, begun + y.size * width),
                offset=fixed_part,
            )
        except DataError as error:
            raise DataError(f"block {name!r}: {error}") from None
        begun = block_loss.part.stop
        row_losses[name] = block_loss, 0.0 if origin is None else origin
    return row_losses


def row_costs(problem: Problem, tables: Mapping[str, Table]) -> Array | None:
    """The costs of scores, one for each row: the squares of its scale, by the counts of its data.

    None where all cost alike.
    """
    shares = [term.count_share for term in problem.model.terms if term.count_share]
    if not shares:
        return None
    assert problem.totals.counts is not None
    scales = problem.totals.counts.row_scales(shares[0], row_counts(problem.model, tables))
    return np.square(scales)


def table_without_entries(problem: Problem, name: str, n_rows: int) -> Table:
    """The table of a block of which new rows have no entry."""
    fitted, nowhere = problem.tables[name], np.zeros(0, dtype=np.intp)
    empty = Table((n_rows, fitted.shape[1]), nowhere, nowhere, np.zeros(0))
    return empty.on_standard_of(fitted)


def report(problem: Problem, tables: Mapping[str, Table], off: Mask, index: Any) -> None:
    """Say which rows the rule has no exact answer for; an error where entries are equalities.

    Raises
    ------
    DataError
        Where no row that the fit can have has the observed entries.
    """
    place = int(np.flatnonzero(off)[0])
    row = str(place) if index is None else repr(plain(index[place]))
    for name in tables:
        likelihood = problem.model.block(name).likelihood
        if likelihood.indicator:
            raise DataError(
                f"block {name!r}, row {row}: no row of Z as it was fitted has exactly these"
                f" observed entries, which {type(likelihood).__name__} asks for; refit with the"
                " new rows among the data, or take a Gaussian block"
            )
    warn_caller(
        f"new rows: {np.count_nonzero(off)} of {off.size} are not exactly the best ones, the first"
        f" of them row {row}",
        NotCertifiedWarning,
    )


def numbers_of_a_row(problem: Problem, tables: Mapping[str, Table], space: RowSpace) -> float:
    """The memory that each new row takes, a few dozen bytes for each of so many numbers.

    Its cells, and of blocks of classes the matrices of Newton's equations.
    """
    n_rows, width = max(table.shape[0] for table in tables.values()), space.directions.shape[1]
    widths = {name: problem.model.block(name).likelihood.width for name in tables}
    numbers = sum(table.n_entries * widths[name] for name, table in tables.items())
    classes = max(widths.values())
    per_row = numbers / n_rows + width * (width + classes if classes > 1 else 1)
    return per_row + sum(part.stop - part.start for part, _, _ in space.bounds)


def known_effects(problem: Problem, name: str, effects: Mapping[str, Array]) -> Array:
    """The effects common to all rows of a block, for each latent column, as they were fitted.

    Biases are counted from ``origin_of_biases``.
    """
    layout, fitted = problem.layout(name), np.zeros(problem.n_latent(name))
    if layout.n_biases:
        fitted = fitted + layout.biases(effects[name])
    if layout.n_intercepts:
        fitted = fitted + layout.intercept(effects[name] + problem.origins.get(name, 0.0))
    return fitted


def origin_of_biases(problem: Problem, name: str) -> Origin | None:
    """The origin of the biases of a block; that of row effects belongs to other rows."""
    n_biases = problem.layout(name).n_biases
    if not n_biases or name not in problem.origins:
        return None
    return Origin(Layout(n_biases=n_biases), problem.origins[name][:n_biases])


def refuse_offsets(problem: Problem, tables: Mapping[str, Table]) -> None:
    """A ``DataError`` where offsets of new rows are part of equations within rows."""
    stated = [
        (t.word, name) for t in problem.terms if isinstance(t, Sums) for name in t.block_names
    ]
    for word, name in stated:
        table = tables.get(name)
        if table is not None and table.offset_in_data is not None:
            raise DataError(
                f"block {name!r}: new rows under {word} have no offset or exposure;"
                " leave it out, or refit with the new rows among the data"
            )


def tables_of_new_rows(problem: Problem, data: Mapping[str, object]) -> dict[str, Table]:
    """The new data of each block that is given, in the order of the fit, columns as in the fit.

    A block may hold nothing but missing entries, as the labels of new items do.
    """
    block_names = ", ".join(repr(block.name) for block in problem.model.blocks)
    refuse_stores(data)
    if not isinstance(data, Mapping):
        raise DataError(
            f"the data of new rows are {a_type(data)}; a dict with some of {block_names} is"
            f" needed, such as {{{problem.model.blocks[0].name!r}: rows}}"
        )
    if not data:
        raise DataError(
            f"no data of new rows were given; a dict with some of {block_names} is needed"
        )
    for name in data:
        problem.model.block(name)
    tables = {}
    for block in problem.model.blocks:
        if block.name in data:
            fitted = problem.tables[block.name]
            values = in_columns_of(fitted, block.name, data[block.name])
            table = with_columns_of_fit(problem, block.name, read_block(block, values))
            tables[block.name] = table.on_standard_of(fitted)
    return tables


def with_columns_of_fit(problem: Problem, name: str, table: Table) -> Table:
    """A table of new rows with its columns in the order of the fit, by names if there are any.

    Columns that are absent count as missing, with one warning for all of them.
    """
    fitted = problem.tables[name]
    aligned = isinstance(table.names, AxisLabels)  # of triples, see ``in_columns_of``
    if aligned or table.names is None or fitted.names is None:
        if table.shape[1] != fitted.shape[1]:
            raise DataError(
                f"block {name!r}: new rows with {table.shape[1]} columns were given; the fit has"
                f" {fitted.shape[1]}. One new item is one row, [[...]]"
            )
        return table
    fitted_names = pandas_index(fitted.names, always=True)
    places = np.asarray(fitted_names.get_indexer(table.names), dtype=np.intp)
    unknown = [table.names[k] for k in np.flatnonzero(places < 0)]
    if unknown:
        raise DataError(
            f"block {name!r}: new rows have {columns_named(unknown)}, which the fit does not have;"
            f" its columns are {columns_named(fitted_names, kind='')}. Rename or drop what is no"
            " column of the fit"
        )
    absent = [fitted_names[k] for k in np.setdiff1d(np.arange(fitted.shape[1]), places)]
    if absent:
        is_missing = "it counts as missing" if len(absent) == 1 else "they count as missing"
        warn_caller(
            f"block {name!r}: new rows lack {columns_named(absent)} of the fit; {is_missing}",
            UnobservedWarning,
        )
    elif np.array_equal(places, np.arange(places.size)):
        return table
    reordered = table.with_columns(places, fitted.names)
    unlabeled = problem.model.block(name).likelihood.reads_unlabeled and table.weights is None
    return reordered.with_all_cells() if unlabeled else reordered


def columns_named(names: Any, kind: str = "column") -> str:
    """Some names of columns for a message, the first few of them quoted."""
    plural = "s" * bool(kind and len(names) > 1)
    return f"{kind}{plural} {some_in_words(list(names))}".lstrip()
