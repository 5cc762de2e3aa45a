"""The verb ``declare``: a table becomes a model and its data."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from mcframe.contracts.errors import ModelError, NoInfluence, UnobservedWarning
from mcframe.contracts.frames import Frame
from mcframe.contracts.validators import as_given, listed, plain, suggests_options
from mcframe.model import Model
from mcframe.regularizers import NuclearNorm
from mcframe.selection.weight_max import weight_max
from mcframe.tables.applicability import split_types, with_conditions
from mcframe.tables.censoring import split_limits, with_limits
from mcframe.tables.column_types import (
    checked_gaps,
    checked_types,
    read_table,
    type_of_text,
    warn_of_codes,
    warn_of_list,
    with_limit_columns,
)
from mcframe.tables.columns import read_columns, read_frame, text_as_numbers, warn_of_text
from mcframe.tables.declared import Declared, declared_of
from mcframe.tables.declared_column import (
    columns_set_aside,
    in_block,
    mostly_numbers,
    placed_columns,
    set_aside,
    warn_of_columns_set_aside,
    warn_of_limits,
)
from mcframe.tables.gaps import Missing, meant_column

# The weight of a declared model, as a share of ``weight_max``.
# Cross-validation of tables of 5 to 14 columns came to 0.003 to 0.14 of it.
STARTING_WEIGHT_SHARE = 0.1


@suggests_options
def declare(
    frame: Frame,
    types: Mapping[Any, Any] | None = None,
    *,
    missing: Missing = None,
    model: Model | None = None,
    columns: Mapping[str, Sequence[Any]] | None = None,
) -> Declared[Frame]:
    """Turn a table of any columns into a model and its data.

    The type of each column is detected from its dtype and values. ``types`` overrides it.

    - Number (``Gaussian``): numbers. Columns of only 0 and 1 are labels. A scale of at most 11
      whole numbers that begins at 0, 1 or 2 or is symmetric, such as answers from 1 to 5, is
      filled with whole numbers from its lowest to its highest one, of any dtype.
    - Label (``Bernoulli``): true and false, or text or categories of two values. The probability
      is that of the second value, in the order of the categories or the alphabet.
    - Number, with a ``UserWarning``: text of which at least nine in ten read as numbers, such as "
      3" and "1e5". It comes back as numbers. Signs of a missing value such as "?", "n/a" and "",
      and words such as "don't know", are missing. Text such as "<5", "> 100", "10-20" and "at
      least 3" gives limits of the number, which are data of a ``Censored`` likelihood: cells are
      filled within these. Other text, such as "spilled", counts as missing for the model and is
      not changed; then the column stays text.
    - Levels (``Ordinal``): ordered categories. Each column is a block, since thresholds belong to
      one.
    - Category (``Multinomial``): text and other categories. There is a block for each number of
      classes; only observed classes count.
    - Set aside, with a reason: columns without an observed value; dates; text whose values all or
      mostly differ or are numbers with commas; more than 100 categories; whole numbers that count
      the rows or have the name of an id; values of mixed types. A column with a single observed
      value is filled with it, and is in no block, unless all others are set aside or constant.

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
        ``mc.only_if("married")`` says to which rows a column applies, and
        ``mc.censored(upper="limit")`` which columns have limits of its values.
    missing : list of values, or dict from column name to such a list, optional
        Values that stand for missing ones beside NaN and None, such as ``[-99, "don't know"]`` in
        all columns, or ``{"age": [-99], "answer": [8, 9]}``. They are filled like other gaps, and
        count as missing in new rows, too. -99 and "-99" mean the same. A ``UserWarning`` names
        numbers that are probably codes for missing values; an empty list says that they are none.
    model : Model, optional
        A model of your own. The likelihood of a block says what its columns are; ``types`` can
        add the order of text levels, bounds, or "date". Levels are counted from 0.
    columns : dict from block name to a list of column names, optional
        The columns of each block of ``model``, in this order. All others are set aside.

    Returns
    -------
    Declared
        ``model, data = mc.declare(frame)`` unpacks it. ``print`` shows the type of each column and
        the reason, and ``table(fit)`` is the completed table.

    Raises
    ------
    DataError
        If the frame is not a table, is empty, or has a name twice; if a column is sparse, holds an
        infinite value, or does not match its declared type or the likelihood of its block; if no
        column is left.
    ModelError
        If ``types`` or ``missing`` names no column, or is none of the above; if ``columns`` does
        not give each block its columns.

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
    >>> own = mc.Model([mc.Block("habits", mc.Bernoulli(), bias=True)], [mc.NuclearNorm(0.1)])
    >>> mc.declare(frame, model=own, columns={"habits": ["smokes"]}).model == own
    True
    """
    if model is not None or columns is not None:
        return declared_by(model, columns, frame, types, missing)
    table = read_table(frame, types, missing)
    warn_of_list(table.frame, types or ())
    mostly = [
        column
        for column in columns_set_aside(table.columns)
        if mostly_numbers(column.column) is not None
    ]
    warn_of_columns_set_aside("columns that are mostly numbers are set aside", mostly)
    declared = declared_of(table.columns, table.frame)
    warn_of_limits(declared.columns, declared.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)  # the fit says it
        weight = starting_weight(declared.model, declared.data)
    return attrs.evolve(declared, model=Model(declared.model.blocks, [NuclearNorm(weight)]))


def declared_by(
    model: Any, columns: Any, frame: Any, types: Any, missing: Missing
) -> Declared[Any]:
    """Return a table whose columns stand in the blocks of a given model."""
    if not isinstance(model, Model):
        raise ModelError(f"model={as_given(model)} was given with columns; a Model is needed")
    table = read_frame(frame)
    types, conditions = split_types(types)
    types, censored = split_limits(types, table.columns)
    declared_types = checked_types(types, table.columns)
    gaps = checked_gaps(missing, declared_types, table.columns)
    places = checked_blocks(model, columns, table.columns)
    read = {column.name: column for column in read_columns(table, gaps)}
    placed = []
    for block in model.blocks:
        for name in columns[block.name]:
            kind = type_of_text(declared_types, censored, name) or block.likelihood
            read[name] = text_as_numbers(read[name], kind)
    read = {column.name: column for column in with_limits([*read.values()], censored)}
    for block in model.blocks:
        placed += [
            in_block(read[name], declared_types.get(name), block) for name in columns[block.name]
        ]
    why = "in no block of the model"
    outside = [set_aside(column, why) for name, column in read.items() if name not in places]
    warn_of_text([read[name] for name in places], {**declared_types, **places})
    warn_of_codes(placed, gaps, "missing")
    blocks = [
        attrs.evolve(block, likelihood=block.likelihood.from_zero()) for block in model.blocks
    ]
    model = Model(blocks, model.terms)
    everything = with_limit_columns(placed_columns([*placed, *outside]), censored)
    warn_of_limits(everything, model)
    columns = with_conditions(everything, conditions)
    return Declared.of(columns, table, model)


def checked_blocks(model: Model, columns: Any, names: Sequence[Any]) -> dict[Any, str]:
    """The block of each column that has one; a ``ModelError`` where ``columns`` is wrong."""
    blocks = [block.name for block in model.blocks]
    if not isinstance(columns, Mapping) or set(columns) != set(blocks):
        fault = f"columns={as_given(columns)} was given"
        if isinstance(columns, Mapping):
            strange = [name for name in columns if name not in blocks]
            lacking = [name for name in blocks if name not in columns]
            faults = [f"columns names {name!r}, which is no block" for name in strange[:1]]
            faults += [f"columns has no list for block {name!r}" for name in lacking[:1]]
            fault = ", and ".join(faults)
        raise ModelError(
            f"{fault}; a dict with a list of column names for each of the blocks"
            f" {listed([repr(name) for name in blocks])} is needed"
        )
    block_of: dict[Any, str] = {}
    for block in blocks:
        members = columns[block]
        if isinstance(members, str) or not isinstance(members, Iterable) or not len(list(members)):
            raise ModelError(
                f"columns[{block!r}] is {columns[block]!r}; a list of column names is needed"
            )
        for name in columns[block]:
            if name not in names:
                hint = meant_column(name, names)
                raise ModelError(
                    f"columns[{block!r}] names {plain(name)!r}, which is no column; {hint}"
                )
            if name in block_of:
                raise ModelError(
                    f"column {name!r} is in block {block_of[name]!r} and again in {block!r}; a"
                    " column belongs to one block"
                )
            block_of[name] = block
    return block_of


def starting_weight(model: Model, data: Mapping[str, Any]) -> float:
    """Return a tenth of ``weight_max``, or 1 where the weight has no influence, as of one row."""
    try:
        return STARTING_WEIGHT_SHARE * weight_max(model, data)
    except NoInfluence:
        return 1.0
