"""The verb ``declare``: a table becomes a model."""

import contextlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mcframe.contracts.errors import DataError, ModelError, NoInfluence, UnobservedWarning
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import plain
from mcframe.model import Model
from mcframe.regularizers import NuclearNorm
from mcframe.selection.weight_max import weight_max
from mcframe.tables.coding import Classes
from mcframe.tables.columns import Column, read_columns, read_frame
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import (
    DeclaredColumn,
    blocks_of,
    data_of,
    in_table_order,
    placed_columns,
)
from mcframe.tables.declared_kinds import declared_kind
from mcframe.tables.kinds import kind_of
from mcframe.tables.taken import KINDS, MOST_CLASSES, Bounds
from mcframe.tables.text_numbers import read_text, warn_of_text

__all__ = ["declare", "read_table"]

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
    blocks = blocks_of(columns)
    codes = {each.name: each.codes for each in columns if each.place is not None}
    data = data_of(blocks, columns, codes, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)  # the fit says it
        model = Model(blocks, [NuclearNorm(1.0)])
        with contextlib.suppress(NoInfluence):  # of one row nothing is learnt beyond its levels
            model = Model(blocks, [NuclearNorm(STARTING_SHARE * weight_max(model, data))])
    return Declared(model, data, in_table_order(columns, table), table)


def read_table(
    frame: Any, types: Mapping[Any, Any] | None
) -> tuple[Any, tuple[DeclaredColumn, ...]]:
    """Return a table as a ``narwhals.DataFrame``, and the type of each column."""
    table = read_frame(frame)
    columns = read_columns(table)
    given = checked_types(types, columns)
    columns = [read_text(column, given.get(column.name)) for column in columns]
    taken = [
        declared_kind(column, given[column.name]) if column.name in given else kind_of(column)
        for column in columns
    ]
    placed = placed_columns(zip(columns, taken, strict=True))
    if all(each.place is None for each in placed):
        raise nothing_left(placed)
    warn_of_text(columns, given)
    warn_of_rare(placed)
    return table, placed


def checked_types(types: Any, columns: list[Column]) -> dict[Any, Any]:
    """The declared types by column name; a ``ModelError`` if one is unknown."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise ModelError(
            f"types is a {type(types).__name__}; a dict from column names is needed, such as"
            ' types={"visits": "count"}'
        )
    names = [column.name for column in columns]
    checked = {}
    for name, given in types.items():
        if name not in names:
            known = ", ".join(repr(plain(each)) for each in names[:20])
            more = f" and {len(names) - 20} more" if len(names) > 20 else ""
            raise ModelError(
                f"types names {name!r}, which is no column; the columns are {known}{more}"
            )
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


def warn_of_rare(placed: Iterable[DeclaredColumn]) -> None:
    """A ``UserWarning`` that names columns with too many categories to be classes."""
    for each in placed:
        if isinstance(each.taken.coding, Classes):
            n_rare = np.count_nonzero(np.isnan(each.codes) & ~each.column.missing)
            if n_rare:
                warnings.warn(
                    f"column {plain(each.name)!r} has {each.column.n_distinct} categories: the"
                    f" {MOST_CLASSES} most frequent are classes, and the {n_rare} entries of"
                    " others count as missing for the model, and stay as they are",
                    UserWarning,
                    stacklevel=4,
                )


def nothing_left(placed: Iterable[DeclaredColumn]) -> DataError:
    """The error of a table of which no column can be modelled."""
    said = [f"{plain(each.name)!r}: {each.taken.why}" for each in placed]
    more = f"; and {len(said) - 5} more" if len(said) > 5 else ""
    return DataError(
        f"no column is left for a model ({'; '.join(said[:5])}{more}); a column with two different"
        " observed values is needed, and types={name: kind} declares what it is"
    )
