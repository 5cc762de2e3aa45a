"""Hidden entries of tables, by the mechanisms that research on missing data distinguishes."""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Mask
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import (
    RandomState,
    above_zero,
    as_given,
    counted,
    listed,
    one_of,
    plain,
    suggests_options,
    switch,
    whole,
)
from mcframe.datasets.gap_mechanisms import MECHANISMS, ArrayColumn, Request, Units
from mcframe.datasets.multilabel import as_matrix
from mcframe.model.labels import is_frame
from mcframe.selection.splitters import generator
from mcframe.tables.columns import filled_series, read_columns, read_frame
from mcframe.tables.gaps import meant_column
from mcframe.tables.native_tables import like_frame, with_columns

# The forms of columns whose values have an order of their own.
ORDERED_FORMS = ("number", "date", "ordered")


@attrs.frozen(eq=False, repr=False)
class Hidden:
    """A table with hidden entries.

    Attributes
    ----------
    table : as the table that was given
        With gaps: NaN, None or null, as its library has them. An array is one of floats. Whole
        numbers of numpy and pandas become floats in columns with gaps, and truth values objects;
        all other types stay, such as pandas' ``Int64``, categories and dates.
    cells : frame of truth values like the table, or array (n_rows, n_columns)
        True at the hidden entries; False at those that were missing before.
    how : str
        The mechanism.
    by : tuple
        The columns that decide what is missing, chosen ones too.
    n_candidates : int
        The observed entries that might have been hidden, of which ``share`` is a share.
    """

    table: Any
    cells: Any
    how: str
    by: tuple[Any, ...]
    n_candidates: int

    @property
    def n_hidden(self) -> int:
        """The number of hidden entries."""
        return int(np.sum(np.asarray(self.cells, dtype=bool)))

    def __repr__(self) -> str:
        by = f" by {', '.join(repr(plain(name)) for name in self.by)}" if self.by else ""
        share = self.n_hidden / max(1, self.n_candidates)
        of_all = f"{self.n_hidden} of {counted(self.n_candidates, 'entry', 'entries')}"
        return f"{of_all} hidden ({share:.1%}), {self.how}{by}"


# What is given where a mechanism needs an option, as messages show it.
EXAMPLES = {
    "blocks": {"columns": "columns=[['a', 'b'], ['c', 'd']], the groups of columns"},
    "skip": {
        "by": "by={'smokes': 'no'}, a column and the value that skips the others",
        "columns": "columns=['packs'], the columns that are skipped",
    },
    "clusters": {"by": "by='site', the column with the cluster of each row"},
    "two-phase": {"columns": "columns=['assay'], the columns of the second phase"},
}


@suggests_options
def hide(
    table: Any,
    share: float | None = None,
    how: str = "mcar",
    *,
    by: Any = None,
    columns: Any = None,
    largest: bool = True,
    strength: float | None = None,
    keep: tuple[int, int] = (1, 2),
    random_state: RandomState = 0,
) -> Hidden:
    """Hide observed entries of a table, by one of nine mechanisms.

    ============= ===============================================================================
    how           what is hidden
    ============= ===============================================================================
    "mcar"        Entries at random.
    "mar"         Entries of ``columns`` where ``by`` is large: logit P = a + strength * r with
                  the rank r of ``by`` from 0 to 1, of the mean rank of several columns. ``by``
                  loses nothing. Without ``by`` it is one of the columns with the fewest gaps,
                  drawn at random.
    "self-masked" Entries that are large themselves: logit P = a + strength * r with the rank r of
                  the entry in its column.
    "censored"    The largest values of each column, all above the same quantile. By default of
                  columns of numbers, dates and ordered categories.
    "blocks"      The entries of a row in a group of columns, all of them together: ``columns`` is
                  a list of such groups.
    "skip"        All entries of ``columns`` in rows where another column has a value:
                  ``by={"smokes": "no"}``, or a list of values.
    "monotone"    All entries of a row from one of ``columns`` on, in their order; none of the
                  first one. Of the rows that are left, the same share drops out at each column.
    "clusters"    A column in all rows of which ``by`` has the same value.
    "two-phase"   All ``columns`` of a row together, where the mean rank r of ``by`` is large:
                  logit P = a + strength * r. ``by`` are by default all other columns.
    ============= ===============================================================================

    The rank of a missing value is 1/2. Text has the order of the alphabet, and categories have
    that of their list.

    Parameters
    ----------
    table : DataFrame of pandas or polars, Table of pyarrow, array or nested lists of numbers
        It may have gaps.
    share : float, from 0 up to 1
        Of the observed entries of ``columns``; of "monotone" of those after the first column. Not
        given for "skip". Of single entries ("mcar", "mar", "self-masked", "monotone") exactly
        ``round(share * number)`` are hidden, and the intercept a above follows from it. What is
        hidden as a whole otherwise may leave the share short by less than its number of entries,
        and ``keep`` may leave it shorter.
    how : str, default "mcar"
    by : name of a column, list of names, or dict from a name to values, optional
        The columns that decide what is missing. Columns of arrays have the numbers from 0 as
        names.
    columns : name of a column, list of names, or list of such lists, optional
        The columns that may lose entries: by default all that do not decide.
    largest : bool, default True
        False: entries are missing where values are small.
    strength : float above 0, optional
        4 if not given: the difference of the logit between the smallest and the largest value.
    keep : pair of int, default (1, 2)
        So many observed entries stay at least in each row and in each column.
    random_state : int, generator of numpy or None, default 0
        Equal seeds give equal tables; a generator moves on, and None draws afresh.

    Returns
    -------
    Hidden
        With ``table`` and the mask ``cells``.

    Raises
    ------
    DataError
        For a share outside [0, 1), names that are no columns, a column that both decides and
        loses entries, values that do not occur, columns without an order that are to be censored,
        and where nothing can be hidden.
    ModelError
        For an option that the mechanism does not take, or one that it needs.

    References
    ----------
    D. B. Rubin (1976), Inference and missing data, Biometrika 63. R. J. A. Little and D. B. Rubin
    (2019), Statistical Analysis with Missing Data, 3rd edition, chapter 1.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mcframe.datasets import hide
    >>> hide(np.zeros((4, 5)), 0.25)
    5 of 20 entries hidden (25.0%), mcar
    >>> frame = pd.DataFrame({"age": range(8), "income": range(8)})
    >>> hidden = hide(frame, 0.5, "censored", columns="income")
    >>> hidden.table["income"].tolist()
    [0.0, 1.0, 2.0, 3.0, nan, nan, nan, nan]
    """
    one_of(how, "how", tuple(MECHANISMS))
    check_options(how, {"by": by, "columns": columns, "strength": strength}, largest)
    share, keep = checked_share(share, how), checked_keep(keep)
    frame = read_frame(table) if is_frame(table) else None
    read: list[Any] = (
        [ArrayColumn(place, numbers) for place, numbers in enumerate(as_matrix(table).T)]
        if frame is None
        else list(read_columns(frame))
    )
    request = requested(how, read, by, columns, generator(random_state))
    request = attrs.evolve(
        request,
        largest=switch(largest, "largest"),
        strength=request.strength if strength is None else above_zero(strength, "strength"),
    )
    hidden = hidden_entries(how, request, share, keep)
    deciding = tuple(read[place].name for place in request.by)
    n_candidates = len(request.entries)
    if frame is None:
        with_nan = np.where(hidden, np.nan, as_matrix(table))
        return Hidden(with_nan, hidden, how, deciding, n_candidates)
    cells = like_frame(frame, list(frame.columns), hidden.T)
    return Hidden(with_gaps(frame, hidden), cells, how, deciding, n_candidates)


def check_options(how: str, options: Mapping[str, Any], largest: bool) -> None:
    """Raise a ``ModelError`` for an option that a mechanism does not take, or that it needs."""
    mechanism = MECHANISMS[how]
    values = {**options, "largest": None if largest is True else largest}
    for option, value in values.items():
        if value is not None and option not in mechanism.takes:
            others = [repr(name) for name, other in MECHANISMS.items() if option in other.takes]
            raise ModelError(
                f"{option}={as_given(value)} was given, and how={how!r} does not take it; leave it"
                f" out, or choose how= from {', '.join(others)}"
            )
        if value is None and option in mechanism.needs:
            raise ModelError(f"how={how!r} needs {EXAMPLES[how][option]}")


def checked_share(share: float | None, how: str) -> float:
    """The share to hide, 1 where values decide it, or a ``DataError``."""
    if how == "skip":
        if share is not None:
            raise ModelError(
                f"share={as_given(share)} was given, and how='skip' hides all entries where by="
                " has the value; leave share= out"
            )
        return 1.0
    if not (isinstance(share, int | float | np.number) and 0.0 <= share < 1.0):
        raise DataError(
            f"share={as_given(share)} was given; a share from 0 up to 1, without 1, is needed"
        )
    return float(share)


def checked_keep(keep: Any) -> tuple[int, int]:
    """The numbers of entries that stay in rows and in columns, or a ``ModelError``."""
    if not (isinstance(keep, list | tuple) and len(keep) == 2):
        raise ModelError(
            f"keep={as_given(keep)} was given; a pair is needed, such as (1, 2): the observed"
            " entries that stay in each row and in each column"
        )
    return whole(keep[0], "keep[0]", least=0), whole(keep[1], "keep[1]", least=0)


def requested(
    how: str, read: list[Any], by: Any, columns: Any, rng: np.random.Generator
) -> Request:
    """The options of a mechanism, with columns by their places.

    Raises
    ------
    DataError
        For names that are no columns or stand twice, and where a column that is needed is missing.
    """
    observed = ~np.column_stack([column.missing for column in read])
    request = Request(read, observed, groups=[], by=[], values=[], rng=rng)
    names = [column.name for column in read]
    deciding, values = (by, []) if how != "skip" else name_and_values(by)
    of_by = [] if by is None else places_of("by", deciding, names)
    if how in ("skip", "clusters") and len(of_by) > 1:
        raise ModelError(f"by={as_given(by)} was given; how={how!r} needs one column that decides")
    if how == "blocks":
        groups = groups_of(columns, names)
    else:
        groups = [[] if columns is None else places_of("columns", columns, names)]
    losing = {place for group in groups for place in group}
    others = [place for place in range(len(names)) if place not in losing]
    both = losing & set(of_by)
    if both:
        raise DataError(
            f"column {plain(names[min(both)])!r} is in by= and in columns=; a column that decides"
            " what is missing loses no entries: leave it out of one of them"
        )
    if how in ("mar", "two-phase") and by is None:
        of_by = chosen_to_decide(how, others, request)
    if columns is None:
        groups = [[place for place in others if place not in of_by]]
    groups = with_an_order(read, groups, columns) if how == "censored" else groups
    groups = [groups[0][1:]] if how == "monotone" else groups  # the first column loses nothing
    if not groups[0]:
        raise DataError(
            f"how={how!r} needs {'two columns' if how == 'monotone' else 'a column'} at least that"
            f" may lose entries, and none that decides is one of them; the table has"
            f" {listed(names, repr)}"
        )
    check_values(read, of_by, values)
    return attrs.evolve(request, groups=groups, by=of_by, values=values)


def name_and_values(by: Any) -> tuple[Any, list[Any]]:
    """The column that decides what is skipped, and its values, or a ``ModelError``."""
    if not (isinstance(by, Mapping) and len(by) == 1):
        raise ModelError(f"by={as_given(by)} was given; how='skip' needs {EXAMPLES['skip']['by']}")
    [(name, values)] = by.items()
    several = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    return [name], list(values) if several else [values]


def check_values(read: list[Any], by: list[int], values: list[Any]) -> None:
    """Raise a ``DataError`` for a value that a column does not have."""
    for value in values:
        name = plain(read[by[0]].name)
        observed = dict.fromkeys(cell for cell in read[by[0]].values if cell is not None)
        if value not in observed:
            raise DataError(
                f"column {name!r}: value {plain(value)!r} of by= does not occur; give one of"
                f" {listed(list(observed), repr)}"
            )


def names_of(columns: Any, names: list[Any]) -> list[Any]:
    """The names of columns: one, which may be a tuple, or several."""
    one = isinstance(columns, str) or not isinstance(columns, Iterable)
    return [columns] if one or (isinstance(columns, tuple) and columns in names) else list(columns)


def places_of(option: str, columns: Any, names: list[Any]) -> list[int]:
    """The places of columns by their names, or a ``DataError``."""
    chosen = names_of(columns, names)
    if not chosen:
        raise DataError(f"{option}={as_given(columns)} was given; name a column at least")
    places = []
    for name in chosen:
        if isinstance(name, list | np.ndarray) or name not in names:
            raise DataError(
                f"{option}= names {plain(name)!r}, which is no column; {meant_column(name, names)}"
            )
        places.append(names.index(name))
    check_once(option, places, names)
    return places


def groups_of(columns: Any, names: list[Any]) -> list[list[int]]:
    """The places of the columns of each group, or an error."""
    if not isinstance(columns, list | tuple) or any(
        isinstance(group, str) or not isinstance(group, Iterable) for group in columns
    ):
        raise ModelError(
            f"columns={as_given(columns)} was given; how='blocks' needs"
            f" {EXAMPLES['blocks']['columns']}"
        )
    groups = [places_of("columns", group, names) for group in columns]
    check_once("columns", [place for group in groups for place in group], names)
    return groups or [[]]


def check_once(option: str, places: list[int], names: list[Any]) -> None:
    """Raise a ``DataError`` for a column that is named twice."""
    twice = [place for k, place in enumerate(places) if place in places[:k]]
    if twice:
        raise DataError(f"{option}= names {plain(names[twice[0]])!r} twice; name it once")


def chosen_to_decide(how: str, others: list[int], request: Request) -> list[int]:
    """The columns that decide where none was named, or a ``DataError``.

    For "mar" one of those with the fewest gaps, drawn at random.
    """
    if not others or len(request.columns) < 2:
        raise DataError(
            f"how={how!r} needs a column that decides beside those that may lose entries; the"
            " table has no other one"
        )
    if how == "two-phase":
        return others
    gaps = np.sum(~request.observed[:, others], axis=0)
    return [int(request.rng.choice(np.asarray(others)[gaps == gaps.min()]))]


def with_an_order(read: list[Any], groups: list[list[int]], columns: Any) -> list[list[int]]:
    """The columns whose values can be censored: all that were named, or a ``DataError``."""
    [places] = groups
    unordered = [place for place in places if read[place].form not in ORDERED_FORMS]
    if unordered and (columns is not None or unordered == places):
        raise DataError(
            f"column {plain(read[unordered[0]].name)!r}: its values have no order, so that none is"
            " above a limit; name columns of numbers, dates or ordered categories in columns=, or"
            " choose how='self-masked'"
        )
    return [[place for place in places if place not in unordered]]


def hidden_entries(how: str, request: Request, share: float, keep: tuple[int, int]) -> Mask:
    """Mark what is hidden, or raise a ``DataError`` where nothing can be."""
    if how == "mcar" and keep == (0, 0):  # any subset will do: no entry is tried by itself
        return request.random_subset(share)
    units = MECHANISMS[how].units(request)
    n_hidden = units.n_cells if how == "skip" else round(share * len(request.entries))
    hidden = units.hidden(request.observed, n_hidden, keep)
    if how == "skip" and hidden.sum() < n_hidden:
        raise cannot_skip(request, hidden, units, keep)
    if n_hidden and not hidden.any():
        smallest = min(map(len, units.cells))
        if smallest > n_hidden:
            raise DataError(
                f"share={share:g} is of {counted(n_hidden, 'entry', 'entries')}, and the fewest"
                f" that how={how!r} hides together are {smallest}; give a larger share"
            )
        raise DataError(
            f"how={how!r} hides nothing, since keep={keep} entries stay in each row and in each"
            " column; give smaller numbers as keep=, or a table with more entries"
        )
    return hidden


def cannot_skip(request: Request, hidden: Mask, units: Units, keep: tuple[int, int]) -> DataError:
    """The error of entries that are skipped where too few would stay."""
    cells = units.cells[0]
    row, column = cells[~hidden[cells[:, 0], cells[:, 1]]][0]
    of_column = np.sum(cells[:, 1] == column)
    left = int(request.observed[:, column].sum() - of_column)
    name = plain(request.columns[column].name)
    where = f"column {name!r}" if left < keep[1] else f"row {row}"
    return DataError(
        f"{where} would keep fewer observed entries than keep={keep} demands where by= skips"
        f" {name!r}; leave {name!r} out of columns=, give other values in by=, or smaller numbers"
        " as keep="
    )


def with_gaps(frame: Any, hidden: Mask) -> Any:
    """A table of the library of a ``narwhals.DataFrame`` with gaps at the marked entries."""
    if frame.implementation.is_pandas():
        return frame.to_native().mask(hidden)
    changed = [
        filled_series(series, np.flatnonzero(mask), [None] * int(mask.sum()))
        for series, mask in zip(frame.iter_columns(), hidden.T, strict=True)
        if mask.any()
    ]
    return with_columns(frame, changed)
