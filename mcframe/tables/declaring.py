"""The verb ``declare``, and its answer: a model, its data, and the way back to a table."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError, NoInfluence, UnobservedWarning
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import plain
from mcframe.model import Model
from mcframe.regularizers import NuclearNorm
from mcframe.selection.weight_max import weight_max
from mcframe.tables.coding import Choice
from mcframe.tables.columns import Bounds, listed, read_columns, read_frame
from mcframe.tables.declared_column import DeclaredColumn, blocks_of, data_of, placed_columns
from mcframe.tables.kinds import KINDS, MOST_CLASSES, declared_kind, detected_kind
from mcframe.tables.new_rows import CodedRows, imputed_rows
from mcframe.tables.text_numbers import read_text, warn_of_text

# How many rows are printed; the rest is counted.
SHOWN = 60


@attrs.frozen(eq=False, repr=False)
class Declared:
    """A table as a model and its data; ``model, data = mc.declare(frame)`` unpacks them.

    ``print`` shows the type of each column, and the reason.

    Attributes
    ----------
    model : Model
        A block for each type of column, and a ``NuclearNorm``.
    data : dict from block name to DataFrame or array
        The codes of the columns of each block, NaN where missing. They are DataFrames with the
        index of the table if it is of pandas.
    columns : tuple of DeclaredColumn
        All columns in the order of the table.
    frame : narwhals.DataFrame
        The original table.
    """

    model: Model
    data: Mapping[str, Any]
    columns: tuple[DeclaredColumn, ...]
    frame: Any

    @classmethod
    def of(cls, columns: Sequence[DeclaredColumn], table: Any, model: Model) -> "Declared":
        """A table whose columns have their places, in any order, and a model of their blocks."""
        codes = {each.name: each.codes for each in columns if each.place is not None}
        data = data_of(columns, codes, table)
        position = {name: k for k, name in enumerate(table.columns)}
        ordered = sorted(columns, key=lambda each: position[each.name])
        return cls(model, data, tuple(ordered), table)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.data))

    def table(self, fit: Any) -> Any:
        """The table with its missing entries filled by a fit, in its own library.

        Observed entries and dtypes do not change. Numbers are filled with their mean, rounded if
        the dtype holds whole numbers only. Labels, classes and levels are filled with the most
        probable value, as it is written in the column. Columns that are set aside are returned
        unchanged; a constant column is filled with its constant.

        Parameters
        ----------
        fit : Fit or Posterior
            Of this model, or of a changed one with the same blocks, to this data.
        """
        return self.with_codes(
            {
                each.name: each.answered(fit)
                for each in self.columns
                if each.place is not None and each.column.missing.any()
            }
        )

    def with_codes(self, codes: Mapping[Any, Array]) -> Any:
        """The table with the given codes at its missing entries; constants are filled."""
        changed = [
            each.filled_with(codes.get(each.name, np.zeros(0)))
            for each in self.columns
            if each.column.missing.any()
        ]
        return self.frame.with_columns(*changed).to_native() if changed else self.frame.to_native()

    def rows(
        self, frame: Any, *, unseen: Literal["missing", "error"] = "missing"
    ) -> dict[str, Any]:
        """The data of new rows, coded like this table, for ``fit.predict_rows``.

        Parameters
        ----------
        frame : DataFrame or Table
            With the columns of this table in any order. Absent columns count as missing, with a
            ``UserWarning`` that names them.
        unseen : "missing" or "error", default "missing"
            Values that no row of this table has, such as a new category, count as missing, with
            one ``UserWarning`` that names them; or they raise a ``DataError``.

        Returns
        -------
        dict from block name to DataFrame or array (n_new x columns of the block)

        Raises
        ------
        DataError
            If the frame is not a table, has a column that this one does not have, or values of
            another form.
        """
        rows = CodedRows.of(self.columns, frame, unseen)
        return data_of(self.columns, rows.codes, rows.table)

    def complete_rows(
        self, fit: Any, frame: Any, *, unseen: Literal["missing", "error"] = "missing"
    ) -> Any:
        """New rows with their missing entries filled by a fit, in their own library.

        By the rule for new rows (``Fit.impute_rows``), as ``table`` does for the rows of the fit:
        labels, categories and levels are filled with the most probable value, numbers with the
        mean. Observed entries and dtypes do not change. If a dtype cannot hold a filled value, it
        becomes that of the declared table, or is given the missing category. Columns that are set
        aside are returned unchanged.

        Parameters
        ----------
        fit : Fit or Posterior
            As for ``table``.
        frame : DataFrame or Table
            With the columns of this table in any order. Absent columns count as missing, with a
            ``UserWarning`` that names them; they are filled and appended.
        unseen : "missing" or "error", default "missing"
            Values that no row of this table has count as missing, with one ``UserWarning`` that
            names them, and are not replaced; or they raise a ``DataError``.

        Returns
        -------
        DataFrame or Table
            With the rows of ``frame`` in their order, and its index.

        Raises
        ------
        DataError
            As in ``rows``.
        ModelError
            If the model does not define new rows; see ``Fit.predict_rows``.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, 1.8, 1.9] * 5, "size": ["S", "S", "L", "L"] * 5,
        ... })
        >>> declared = mc.declare(frame)
        >>> fit = mc.fit(declared.model, declared.data)
        >>> declared.complete_rows(fit, pd.DataFrame({"height": [1.55, 1.85], "size": None}))
           height size
        0    1.55    S
        1    1.85    L
        """
        rows = CodedRows.of(self.columns, frame, unseen)
        return rows.completed(imputed_rows(fit, data_of(self.columns, rows.codes, rows.table)))

    def predict(self, fit: Any, name: Any) -> Any:
        """Predictions of a column in every row, in the library of the table.

        For a label, a category or levels there is one column of probabilities for each value,
        named by the value (by its text in polars and pyarrow, where names are text). For a number
        or a count there is one column with its mean.

        Parameters
        ----------
        fit : Fit or Posterior
            As for ``table``.
        name : object
            A column that is in a block; otherwise a ``ModelError`` gives the reason.
        """
        each = self.column(name)
        if each.place is None:
            raise ModelError(
                f"column {plain(name)!r} stands in no block, so that nothing is predicted of it:"
                f" {each.why}"
            )
        coding, block = each.modelled
        rows = np.arange(self.frame.shape[0])
        answer = coding.answer(fit, block, rows, np.full(rows.size, each.place))
        if isinstance(coding, Choice):
            return self.like_frame([plain(value) for value in coding.places], answer)
        return self.like_frame([name], (answer * coding.unit)[:, None])

    def column(self, name: Any) -> DeclaredColumn:
        """The column of that name; a ``ModelError`` if there is none."""
        for each in self.columns:
            if each.name == name:
                return each
        raise ModelError(f"there is no column {plain(name)!r} in the table")

    def like_frame(self, names: list[Any], numbers: Array) -> Any:
        """Numbers (n_items x names) as a table of the same library, with its index."""
        pandas = self.frame.implementation.is_pandas()
        told = range(len(names)) if pandas else names
        columns = {str(name): own for name, own in zip(told, numbers.T, strict=True)}
        made = nw.from_dict(columns, backend=self.frame.implementation).to_native()
        if pandas:
            made.columns, made.index = names, self.frame.to_native().index
        return made

    def __repr__(self) -> str:
        n_rows, n_columns = self.frame.shape
        modelled = sum(each.place is not None for each in self.columns)
        blocks = len(self.model.blocks)
        lines = [
            f"Declared: {n_rows} rows, {modelled} of {n_columns} columns in {blocks}"
            f" block{'s' * (blocks != 1)}"
        ]
        rows = [
            (str(plain(each.name)), f"{each.share_missing:.0%}", each.kind, each.why)
            for each in self.columns
        ]
        return "\n".join([*lines, *lines_of([("column", "missing", "taken for", "why"), *rows])])


def lines_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a header and rows as lines, columns aligned; of very many rows the first ones."""
    header, *body = rows
    kept = [header, *body[:SHOWN]]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    lines = [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in kept
    ]
    if len(body) > SHOWN:
        lines.append(f"  and {len(body) - SHOWN} more")
    return lines


# The weight to begin with, beside the one from which on nothing is left of Z.
# Cross-validation of tables of 5 to 14 columns came to 0.003 to 0.14 of it.
STARTING_SHARE = 0.1


def declare(frame: Any, types: Mapping[Any, Any] | None = None) -> Declared:
    """Turn a table of any columns into a model and its data.

    The type of each column is detected from its dtype and values. ``types`` overrides it.

    - Number (``Gaussian``): numbers. Columns of only 0 and 1 are labels.
    - Label (``Bernoulli``): true and false, or text or categories of two values. The probability
      is that of the second value, in the order of the categories or the alphabet.
    - Number, with a ``UserWarning``: text of which at least nine in ten read as numbers, such as "
      3" and "1e5". Signs of a missing value such as "?", "n/a" and "" are missing. Other text
      counts as missing for the model and is not changed.
    - Levels (``Ordinal``): ordered categories. Each column is a block, since thresholds belong to
      one.
    - Category (``Multinomial``): text and other categories. There is a block for each number of
      classes; only observed classes count.
    - Set aside, with a reason: columns without an observed value; dates; text whose values all or
      mostly differ or are numbers with commas; more than 100 categories; whole numbers that count
      the rows or have the name of an id; values of mixed types. A column with a single observed
      value is in no block either; its missing entries are filled with that value.

    Every block has ``standardize=True``, so one ``NuclearNorm`` suits columns of any unit and
    type, and a bias if that makes sense. The weight is a tenth of ``weight_max``, as a first
    guess. ``cross_validate`` chooses a better one, and ``attrs.evolve`` changes any part of the
    model.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, or Table of pyarrow
        For pandas with NumPy, nullable or Arrow dtypes.
    types : dict from column name to a word, a list or a likelihood, optional
        ``"number"``, ``"count"`` (``Poisson``), ``"label"``, ``"category"``, ``"ordinal"``,
        ``"date"`` (days as a number), ``"skip"``; bounds of a number, such as
        ``("number", 0, None)``, to which predictions are limited; levels from the lowest to the
        highest, such as ``["I", "II", "III"]``; or a likelihood such as ``mc.Huber()``. If a
        declared category has more than 100 values, the 100 most frequent are classes.

    Returns
    -------
    Declared
        ``model, data = mc.declare(frame)`` unpacks it. ``print`` shows the type of each column and
        the reason, and ``table(fit)`` is the completed table.

    Raises
    ------
    DataError
        If the frame is not a table, is empty, or has a name twice; if a column is sparse, holds an
        infinite value, or does not match its declared type; if no column is left.
    ModelError
        If ``types`` names no column, or is none of the above.

    Examples
    --------
    >>> import pandas as pd, mcframe as mc
    >>> frame = pd.DataFrame({
    ...     "age": [31.0, None, 42.5, 27.0, 55.0], "smokes": [True, False, None, False, True],
    ...     "town": ["Ulm", "Bonn", "Ulm", None, "Kiel"],
    ... })
    >>> declared = mc.declare(frame)
    >>> print(declared)
    Declared: 5 rows, 3 of 3 columns in 3 blocks
      column  missing  taken for  why
      age         20%  number     numbers
      smokes      20%  label      true and false
      town        20%  category   text, of 3 values
    >>> model, data = declared
    >>> declared.table(mc.fit(model, data))["town"].tolist()
    ['Ulm', 'Bonn', 'Ulm', 'Bonn', 'Kiel']
    """
    table, columns = read_table(frame, types)
    return declared_of(columns, table)


def declared_of(columns: Sequence[DeclaredColumn], table: Any) -> Declared:
    """Return the model and the data of columns that have their places."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)  # the fit says it
        blocks = blocks_of(columns)
        found = Declared.of(columns, table, Model(blocks, [NuclearNorm(1.0)]))
        weight = starting_weight(found.model, found.data)
        return attrs.evolve(found, model=Model(blocks, [NuclearNorm(weight)]))


def starting_weight(model: Model, data: Mapping[str, Any]) -> float:
    """Return a tenth of ``weight_max``, or 1 where the weight has no influence, as of one row."""
    try:
        return STARTING_SHARE * weight_max(model, data)
    except NoInfluence:
        return 1.0


def read_table(
    frame: Any, types: Mapping[Any, Any] | None
) -> tuple[Any, tuple[DeclaredColumn, ...]]:
    """Return a table as a ``narwhals.DataFrame``, and the type of each column."""
    table = read_frame(frame)
    given = checked_types(types, table.columns)
    columns = [read_text(own, given.get(own.name)) for own in read_columns(table)]
    placed = placed_columns(
        declared_kind(own, given[own.name]) if own.name in given else detected_kind(own)
        for own in columns
    )
    if all(each.place is None for each in placed):
        said = listed([f"{plain(each.name)!r}: {each.why}" for each in placed], between="; ")
        raise DataError(
            f"no column is left for a model ({said}); a column with two different observed values"
            " is needed, and types={name: kind} declares what it is"
        )
    warn_of_text(columns, given)
    for each in placed:
        if isinstance(each.coding, Choice) and len(each.coding.places) < each.column.n_distinct:
            n_rare = np.count_nonzero(np.isnan(each.codes) & ~each.column.missing)
            warnings.warn(
                f"column {plain(each.name)!r} has {each.column.n_distinct} categories: the"
                f" {MOST_CLASSES} most frequent are classes, and the {n_rare} entries of others"
                " count as missing for the model, and stay as they are",
                UserWarning,
                stacklevel=3,
            )
    return table, placed


def checked_types(types: Any, names: Sequence[Any]) -> dict[Any, Any]:
    """The declared types by column name; a ``ModelError`` if one is unknown."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise ModelError(
            f"types is a {type(types).__name__}; a dict from column names is needed, such as"
            ' types={"visits": "count"}'
        )
    checked = {}
    for name, given in types.items():
        if name not in names:
            known = listed([repr(plain(each)) for each in names], most=20)
            raise ModelError(f"types names {name!r}, which is no column; the columns are {known}")
        checked[name] = Bounds.of(given) or given
        if not is_kind(checked[name]):
            words = ", ".join(map(repr, KINDS))
            raise ModelError(
                f"types[{name!r}] is {given!r}; one of {words}, bounds of a number such as"
                " ('number', 0, None), a list of different levels from the lowest to the highest,"
                " or a likelihood such as mc.Huber() is needed"
            )
    return checked


def is_kind(given: Any) -> bool:
    """Whether a column can be declared so."""
    if isinstance(given, list | tuple):
        bounds = given[:1] and given[0] in KINDS and not all(isinstance(v, str) for v in given)
        differ = all(value not in given[:k] for k, value in enumerate(given))
        return len(given) > 1 and differ and not bounds and None not in given
    return isinstance(given, Likelihood | Bounds) or (isinstance(given, str) and given in KINDS)
