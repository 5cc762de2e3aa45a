"""The type of each column of a table, detected or declared, with the warnings about it."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError, ModelError, warn_caller
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.validators import a_type, counted, instead_of_class, is_word, listed, plain
from mcframe.contracts.wording import wording
from mcframe.model.long_lists import list_of_entries
from mcframe.tables.applicability import split_types, with_conditions
from mcframe.tables.censoring import LimitColumns, split_limits, with_limits
from mcframe.tables.coding import Choice, Numbers
from mcframe.tables.columns import Bounds, read_columns, read_frame, text_as_numbers, warn_of_text
from mcframe.tables.declared_column import (
    KINDS,
    MOST_CLASSES,
    DeclaredColumn,
    declared_kind,
    detected_kind,
    mostly_numbers,
    placed_columns,
    remedy_for_numbers,
    with_constants,
)
from mcframe.tables.gaps import (
    POSSIBLE_CATEGORIES,
    Missing,
    gaps_of,
    is_phrase,
    is_sign,
    meant_column,
    stand_for_gaps,
    warn_of_suspects,
)
from mcframe.tables.related_rows import RelatedRows
from mcframe.tables.relations import NO_RELATIONS, Relations

# What Python and other packages call some types of columns.
KINDS_ELSEWHERE = {
    "number": ("int", "integer", "float", "numeric", "continuous", "real"),
    "label": ("bool", "boolean", "binary"),
    "category": ("str", "string", "text", "object", "nominal", "factor", "categorical"),
    "ordinal": ("ordered",),
    "date": ("datetime", "timestamp", "time"),
    "skip": ("ignore", "drop", "id"),
}


@attrs.frozen(eq=False)
class ReadTable:
    """A table as it was read, and the type of each of its columns.

    Attributes
    ----------
    frame : narwhals.DataFrame
    columns : tuple of DeclaredColumn
        In the order of the table, each with its place in a block.
    relations : Relations
        What holds between its columns; entries that follow from others are filled already.
    """

    frame: Any
    columns: tuple[DeclaredColumn, ...]
    relations: Relations = NO_RELATIONS

    def with_relations(self, relations: Any) -> "ReadTable":
        """The table with relations, and with the entries that follow from others by these."""
        read = Relations.of(relations, self.columns)
        if not read.declared:
            return self
        declared = {column.name: column for column in self.columns}
        columns = {name: column.column for name, column in declared.items()}
        rows = RelatedRows(read, declared, columns, self.frame.shape[0], is_table=True)
        frame, changed = rows.with_determined(self.frame)
        filled = tuple(
            column.with_values(changed[column.name]) if column.name in changed else column
            for column in self.columns
        )
        return ReadTable(frame, filled, read)


def read_table(
    frame: Any, types: Mapping[Any, Any] | None, missing: Missing, option: str = "missing"
) -> ReadTable:
    """Read a table, and detect the type of each column that is not declared.

    ``option`` is what ``missing`` is called where warnings name it.
    """
    table = read_frame(frame)
    types, conditions = split_types(types)
    types, censored = split_limits(types, table.columns)
    declared_types = checked_types(types, table.columns)
    gaps = checked_gaps(missing, declared_types, table.columns, option)
    columns = [
        text_as_numbers(column, type_of_text(declared_types, censored, column.name))
        for column in read_columns(table, gaps)
    ]
    columns = with_limits(columns, censored)
    placed = placed_columns(
        declared_kind(column, declared_types[column.name])
        if column.name in declared_types
        else detected_kind(column)
        for column in columns
    )
    if all(declared_column.place is None for declared_column in placed):
        placed = with_constants(placed)
    if all(declared_column.place is None for declared_column in placed):
        reasons = listed(
            [
                f"{plain(declared_column.name)!r}: {declared_column.why}"
                for declared_column in placed
            ],
            between="; ",
        )
        raise DataError(
            f"no column is left for a model ({reasons}); give a column with observed values, or"
            f" declare what a column holds by {wording().types_of_any()}"
        )
    warn_of_text(columns, declared_types)
    detected = [
        declared_column for declared_column in placed if declared_column.name not in declared_types
    ]
    warn_of_words(detected, option)
    warn_of_spellings(detected)
    warn_of_codes(placed, gaps, option)
    for column in placed:
        coding = column.coding
        if isinstance(coding, Choice) and len(coding.places) < column.column.n_distinct:
            n_rare = np.count_nonzero(np.isnan(column.codes) & ~column.column.missing)
            warn_caller(
                f"column {plain(column.name)!r} has {column.column.n_distinct} categories:"
                f" the {MOST_CLASSES} most frequent are classes, and the {n_rare} entries of"
                " others count as missing for the model, and stay as they are",
            )
    placed = with_limit_columns(placed, censored)
    return ReadTable(table, with_conditions(placed, conditions))


def type_of_text(types: Mapping[Any, Any], censored: Mapping[Any, LimitColumns], name: Any) -> Any:
    """The declared type by which text of a column is read: limits are numbers."""
    limits = {column for columns in censored.values() for column in (columns.lower, columns.upper)}
    if name in limits or (name in censored and name not in types):
        return "number"
    return types.get(name)


def with_limit_columns(
    columns: Sequence[DeclaredColumn], censored: Mapping[Any, LimitColumns]
) -> tuple[DeclaredColumn, ...]:
    """Columns with the columns of their limits, or a ``ModelError`` where they are no numbers."""
    placed = []
    for column in columns:
        declared = censored.get(column.name)
        if declared is not None:
            refuse_limits(column, declared)
            column = attrs.evolve(
                column, limit_columns=declared, why=f"{column.why}; limits: {declared}"
            )
        placed.append(column)
    return tuple(placed)


def refuse_limits(column: DeclaredColumn, declared: LimitColumns) -> None:
    """A ``ModelError`` where a column that is modelled has limits, and is no number."""
    if column.place is not None and not isinstance(column.coding, Numbers):
        name = plain(column.name)
        raise ModelError(
            f"limits ({declared}) are declared for column {name!r}, which is taken for:"
            f" {column.kind}, and limits are those of numbers; declare it a number, or leave"
            " limits out"
        )


def checked_gaps(
    missing: Missing, types: Mapping[Any, Any], names: Sequence[Any], option: str = "missing"
) -> dict[Any, tuple[Any, ...]]:
    """The values of each column that stand for missing ones, as ``gaps_of`` reads them.

    Raises
    ------
    ModelError
        As there, and where one is declared to be a level, too.
    """
    gaps = gaps_of(missing, names, option)
    for name, kind in types.items():
        levels = kind if isinstance(kind, list | tuple) else ()
        both = np.flatnonzero(stand_for_gaps(levels, gaps.get(name, ())))
        if both.size:
            declared = wording().either(python=f"types[{name!r}]", command=f"--types {name}")
            taker = wording().either(python=option, command="--missing")
            raise ModelError(
                f"{declared} has the level {plain(levels[both[0]])!r}, which {taker} takes for a"
                " missing value; leave it out of one of them"
            )
    return gaps


def warn_of_words(columns: Iterable[DeclaredColumn], option: str) -> None:
    """Two ``UserWarning``: categories that are mostly numbers, or mean that nothing was observed.

    Of columns that are set aside the reason says it.
    """
    modelled = [column for column in columns if column.place is not None or column.constant]
    numbers = {column.name: mostly_numbers(column.column) for column in modelled}
    mostly = [
        f"{plain(name)!r} ({text.what_is_unread})"
        for name, text in numbers.items()
        if text is not None
    ]
    if mostly:
        remedy = remedy_for_numbers(modelled, option)
        warn_caller(f"columns of text are taken for categories: {listed(mostly)}{remedy}")
    words, gaps = [], dict[Any, list[str]]()
    for column in modelled:
        if column.column.form == "number" or numbers[column.name] is not None:
            continue
        counts = Counter(column.column.values)
        for value in column.column.distinct:
            sign = is_sign(value) and value.strip().lower() not in POSSIBLE_CATEGORIES
            if sign or is_phrase(value):
                named = f"in column {plain(column.name)!r}"
                words.append(f"{plain(value)!r} {named} ({counts[value]}x)")
                gaps.setdefault(plain(column.name), []).append(value)
    if words:
        warn_caller(
            f"text that usually stands for missing entries is taken for a value: {listed(words)};"
            f" {wording().gaps(option, gaps)} makes it a gap"
        )


def warn_of_spellings(columns: Iterable[DeclaredColumn]) -> None:
    """A ``UserWarning`` of values that differ in case and spaces alone, as "yes" and "Yes "."""
    doubtful = []
    for column in columns:
        if not isinstance(column.coding, Choice):
            continue
        spellings = dict[str, list[str]]()
        for value in column.coding.places:
            if isinstance(value, str):
                spellings.setdefault("".join(value.split()).casefold(), []).append(value)
        several = [values for values in spellings.values() if len(values) > 1]
        if several:
            pair = " and ".join(map(repr, several[0][:2]))
            doubtful.append(f"{plain(column.name)!r} (such as {pair})")
    if doubtful:
        remedy = wording().either(
            python="column.str.strip().str.lower() makes them one", command="spell them alike"
        )
        warn_caller(
            "values that differ in case or spaces alone are taken for different ones:"
            f" {listed(doubtful)}; {remedy}, {wording().types_of_any('category')} confirms this"
        )


def warn_of_codes(
    columns: Iterable[DeclaredColumn], gaps: Mapping[Any, Sequence[Any]], option: str
) -> None:
    """A ``UserWarning`` of numbers that are probably codes for missing values.

    Not of columns for which an empty list of gaps was declared.
    """
    suspects = {
        plain(column.name): column.column.suspects
        for column in columns
        if column.place is not None and gaps.get(column.name) != ()
    }
    warn_of_suspects(suspects, option)


def warn_of_list(table: Any, declared: Iterable[Any], target: str | None = None) -> None:
    """A ``UserWarning`` where a table lists entries, (user, item, rating).

    Not where one of its keys has a declared type, which says that it is a column to complete.
    ``target`` is what the values are called if they are given beside the table.
    """
    entries = list_of_entries(table, by_names=True, target=target)
    if entries is not None and not {entries.row, entries.column} & {*declared}:
        table_word = wording().either(python="DataFrame", command="table")
        warn_caller(
            f"the {table_word} {entries}; its own {counted(table.shape[1], 'column')} are read as"
            f" a table. {entries.remedy}; if its own columns are to be completed,"
            f" {wording().types(entries.row, 'category')} confirms this"
        )


def checked_types(types: Any, names: Sequence[Any]) -> dict[Any, Any]:
    """The declared types by column name; a ``ModelError`` if one is unknown."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise ModelError(
            f"types is {a_type(types)}; a dict from column names is needed, such as"
            ' types={"visits": "count"}'
        )
    checked = {}
    for name, declared in types.items():
        if name not in names:
            hint = meant_column(name, names)
            option = wording().either(python="types", command="--types")
            raise ModelError(f"{option} names {plain(name)!r}, which is no column; {hint}")
        checked[name] = Bounds.of(declared) or declared
        needed = needed_instead(checked[name])
        if needed:
            raise ModelError(f"{wording().refused_type(name, declared)} {needed}")
    return checked


def needed_instead(declared: Any) -> str:
    """The types that a column can have instead; "" where the declared type is right."""
    if isinstance(declared, Likelihood) and declared.reads_unlabeled:
        remedy = wording().either(
            python="declare it in a model: mc.declare(frame, model=mc.Model([mc.Block('labels',"
            " likelihood, weight=1.0, bias=True), ...], terms), columns={'labels': [name], ...}),"
            " and fill the table by declared.table(mc.fit(*declared))",
            command="declare it in a block of a model, and give --model FILE",
        )
        return (
            "its loss at unlabeled entries has no standard unit, so that its block needs a weight"
            f" of your choice; {remedy}"
        )
    if isinstance(declared, Likelihood | Bounds) or is_word(declared, *KINDS):
        return ""
    remedy = instead_of_class(declared, Likelihood)
    if remedy:
        return remedy
    if isinstance(declared, list | tuple) and len(declared) > 1:
        if declared[0] in KINDS and not all(isinstance(value, str) for value in declared):
            return (
                'bounds are ["number", lower, upper], with lower below upper; give'
                f" {wording().value(None)} where there is none"
            )
        twice = [value for k, value in enumerate(declared) if value in declared[:k]]
        if twice:
            return f"the level {plain(twice[0])!r} stands twice; give each level once"
        if None not in declared:
            return ""
    word = declared.__name__ if isinstance(declared, type) else declared
    near = [kind for kind, words in KINDS_ELSEWHERE.items() if is_word(word, *words)]
    if not near and isinstance(word, str):
        near = difflib.get_close_matches(word, KINDS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"one of {', '.join(map(repr, KINDS))}, bounds of a number such as"
        f' ["number", 0, 100], a list of different levels from the lowest to'
        f" the highest, or a likelihood such as {wording().word('Huber')} is needed{hint}"
    )
