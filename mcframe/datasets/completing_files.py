"""Files of more rows than fit into memory: learned from some rows, filled in parts."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import Options, RandomState, a_type, suggests_options
from mcframe.contracts.wording import rows_numbered
from mcframe.datasets.table_files import ParquetRows, checked_output, named_beside, write_parts
from mcframe.runtime.progress import current, stage
from mcframe.tables.coded_rows import UnlikeTable
from mcframe.tables.completing import complete
from mcframe.tables.completion import Completion
from mcframe.tables.gaps import Missing
from mcframe.tables.relations import Relation

# From so many rows all that a completed table has is learned: squared errors of numbers were a
# thousandth larger than from 300,000 rows, and they take less than a gigabyte with 20 columns.
TRAINING_ROWS = 50_000
# The formats of what is written in parts.
WRITTEN_IN_PARTS = (".parquet", ".csv")


@suggests_options
def complete_file(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    types: Mapping[Any, Any] | None = None,
    *,
    missing: Missing = None,
    level: float | None = None,
    training_rows: int = TRAINING_ROWS,
    random_state: RandomState = 0,
    row_weights: str | None = None,
    relations: Sequence[str | Relation] | None = None,
    nonlinear: bool | None = None,
    detect_limits: bool = True,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Completion[Any]:
    """Fill the missing entries of a Parquet file whose rows do not fit into memory.

    All that ``mc.complete`` learns (types, codings, the prior, means and covariances, corrections
    by similar rows and trees, probabilities, shapes of errors) is learned from rows that are drawn
    at random. Then the file is read again, in parts of some 260,000 entries, whose rows are filled
    as new rows are (``Completion.complete_rows``), and written. A file of at most
    ``training_rows`` rows is read and filled as a whole, as ``mc.complete`` does.

    The error of what is learned from some rows makes squared errors of filled numbers larger by a
    share of about d / ``training_rows``, with d columns as numbers. Labels and categories may lose
    more: on one of two tables of 300,000 rows 30 % of them were wrong in the place of 26 %.

    Parameters
    ----------
    path : path
        Of a file that ends in .parquet. A relative path that does not exist is searched for in the
        folder that the environment variable ``MCFRAME_DATA`` names.
    out : path
        Of what is written, .parquet or .csv. It appears there when it is whole.
    types, missing, row_weights, relations, nonlinear, progress : as in ``mc.complete``
        Weights are a column of the file.
    level : float, optional
        Between 0 and 1: the ends of intervals with this probability are written, too, beside
        ``out``: of "done.parquet" into "done.lower.parquet" and "done.upper.parquet".
    training_rows : int, default 50,000
        From how many rows all is learned. The peak of memory is that of ``mc.complete`` with so
        many rows.
    random_state : int, generator of numpy or None, default 0
        The seed of the drawn rows and of the held-out entries.
    detect_limits : bool, default True
        As in ``mc.complete``; ends are those of the rows that all is learned from.
    overwrite : bool, default False
        Replace outputs that exist, never the file that is read.

    Returns
    -------
    Completion
        Of the drawn rows: its table, report, draws, and ``save`` are of these.

    Raises
    ------
    DataError
        As ``mc.complete`` and ``Completion.complete_rows``, where rows are counted as in the file;
        if the file is not there or is no Parquet, or an output exists or cannot be written. Then
        nothing is written, nor is it after an interruption.
    ModelError
        As ``mc.complete``; if weights are no name of a column.

    Notes
    -----
    A value of a label, level or category that no drawn row has, or a number outside of what its
    column was taken for, stays as it is, and counts as missing where it would predict others; a
    ``UserWarning`` names such values. Rows in groups or in the order of a time, ``where`` and
    random draws need all rows: for these read the table, and take ``mc.complete``.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, pyarrow, pyarrow.parquet
    >>> from mcframe.datasets import complete_file
    >>> x = np.random.default_rng(0).standard_normal(300)
    >>> y = np.where(x > 0.0, "high", "low").astype(object)
    >>> y[::5] = None
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "rows.parquet")
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": x, "y": y}), file)
    ...     completed = complete_file(file, file.with_name("done.parquet"), training_rows=200)
    ...     pyarrow.parquet.read_table(file.with_name("done.parquet"))["y"].null_count
    0
    """
    training_rows, seed = Options.training_rows(training_rows), Options.random_state(random_state)
    level = None if level is None else Options.level(level)
    if row_weights is not None and not isinstance(row_weights, str):
        raise ModelError(
            f"row_weights is {a_type(row_weights)}; the name of a column of the file is needed"
        )
    rows = ParquetRows.of(path)
    written, ends = Path(out), ("lower", "upper") if level is not None else ()
    outputs = [
        checked_output(output, WRITTEN_IN_PARTS, [rows.path], overwrite)
        for output in [written, *(named_beside(written, end) for end in ends)]
    ]
    with stage("complete_file", Options.progress(progress)):
        numbers = rows_to_learn_from(rows.n_rows, training_rows, seed)
        with rows_numbered(numbers):
            completed = complete(
                rows.take(numbers),
                types,
                missing=missing,
                random_state=seed,
                row_weights=row_weights,
                relations=relations,
                nonlinear=nonlinear,
                detect_limits=detect_limits,
            )
        if rows.n_rows <= training_rows:
            intervals = () if level is None else completed.interval(level)
            write_parts(outputs, [[completed.table, *intervals]])
        else:
            write_filled(outputs, completed, rows, level)
    return completed


def write_filled(
    outputs: Sequence[Path],
    completed: Completion[Any],
    rows: ParquetRows,
    level: float | None,
    named: Callable[[Any, Any], Any] = lambda end, _filled: end,
) -> None:
    """Write a file that is filled in parts, and the ends of intervals where a level is given.

    ``named`` makes of an end and of the filled rows the table that is written of the end.
    """
    if level is not None:
        completed.demand_posterior("intervals")
    with stage("fill"):
        parts = filled_parts(completed, rows, level)
        write_parts(
            outputs, ([part, *(named(end, part) for end in ends)] for part, *ends in parts)
        )


def rows_to_learn_from(n_rows: int, training_rows: int, seed: int) -> IntArray:
    """The numbers of some rows, drawn at random and ascending; of all if there are no more."""
    if n_rows <= training_rows:
        return np.arange(n_rows)
    drawn = np.random.default_rng(seed).choice(n_rows, training_rows, replace=False, shuffle=False)
    return np.sort(drawn)


def filled_parts(
    completed: Completion[Any], rows: ParquetRows, level: float | None
) -> Iterator[list[Any]]:
    """The parts of a file, each filled by what was learned, with ends of intervals if wanted.

    At the end a warning says how rows are unlike those from which it was learned.
    """
    unlike = UnlikeTable()
    for first, part in rows.parts():
        with rows_numbered(range(first, first + part.num_rows)):
            tables = completed.complete_part(part, level, unlike)
        yield tables
        current().count(first + part.num_rows, rows.n_rows, "rows", rated=True)
    unlike.warn()
