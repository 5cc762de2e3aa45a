"""Limits of a column, in other columns or numbers: ``censored``."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import as_float, exact, plain, suggests_options
from mcframe.contracts.wording import wording
from mcframe.tables.columns import Column
from mcframe.tables.date_coding import EPOCH
from mcframe.tables.gaps import meant_column
from mcframe.tables.known_limits import KnownLimits


@stored
@attrs.frozen
class LimitNumber:
    """A number or a date that is a limit of a column, in whatever row it has one.

    Attributes
    ----------
    number : float
        Of a date the microseconds since 1970, in UTC where it has a time zone.
    is_date : bool
    """

    number: float
    is_date: bool = False  # not in files of earlier versions

    def __repr__(self) -> str:
        if not self.is_date:
            return exact(self.number)
        moment = EPOCH + dt.timedelta(microseconds=self.number)
        return moment.isoformat(sep=" ").removesuffix(" 00:00:00")


@stored
@attrs.frozen
class LimitColumns:
    """The limits of a column, as ``censored`` declares them: other columns, or numbers.

    Attributes
    ----------
    lower, upper : object, LimitNumber or None
        Names of columns, or numbers.
    where : object or None
        The name of a column.
    kind : object
        As in ``types``, or None to detect it.
    at_gaps_only : bool
        Whether a value that equals its limit is known.
    """

    lower: Any
    upper: Any
    where: Any
    kind: Any
    at_gaps_only: bool = False  # not in files of earlier versions

    @property
    def names(self) -> list[Any]:
        """The names of the columns."""
        return [
            name
            for name in (self.lower, self.upper, self.where)
            if name is not None and not isinstance(name, LimitNumber)
        ]

    def __str__(self) -> str:
        ends = {"lower": self.lower, "upper": self.upper, "where": self.where}
        return ", ".join(
            f"{end}={plain(name)!r}" for end, name in ends.items() if name is not None
        )


def as_limit(end: Any, names: Sequence[Any]) -> Any:
    """A finite number, or a date, that is no name of a column as a limit; all else as it is."""
    if isinstance(end, dt.date | np.datetime64) and end not in names:
        moment = microseconds_of(end)
        return end if moment is None else LimitNumber(moment, is_date=True)
    number = None if isinstance(end, bool) else as_float(end)
    if number is None or not np.isfinite(number) or end in names:
        return end
    return LimitNumber(number)


def microseconds_of(moment: dt.date | np.datetime64) -> float | None:
    """The microseconds of a date since 1970, in UTC where it has a time zone; None if missing."""
    if isinstance(moment, np.datetime64):
        moment = moment.astype("datetime64[us]").item()
    if not isinstance(moment, dt.date) or moment != moment:  # no time, of NumPy and of pandas
        return None
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime.combine(moment, dt.time())
    elif moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - EPOCH) / dt.timedelta(microseconds=1)


@suggests_options
def censored(
    *, lower: Any = None, upper: Any = None, where: Any = None, kind: Any = None
) -> LimitColumns:
    """Declare limits of a number or date that is not known exactly: other columns, or one.

    For limits of detection, top-coded amounts, and values that are known to lie in a range.
    ``types={"load": mc.censored(upper="limit")}``: where ``load`` is a gap, or equals the number
    in column ``limit``, it is known to be at most that number. With ``upper=0.5`` it is at most .5
    there, and with ``lower=datetime.date(2025, 1, 1)`` a date is that day or a later one. Such
    cells are neither missing nor observed: they are filled within their limits, in the table, in
    draws and in intervals, and means and covariances are estimated from what is known. Limits may
    also be text in the column itself, such as "<0.5", "> 100", "10-20", "1,000+" and "at least 3",
    which needs no declaration. Where all numbers that are known are positive, others are taken to
    be so, too; ``kind=("number", -100, None)`` declares another end.

    Parameters
    ----------
    lower, upper : object, optional
        The names of columns of numbers, or of dates for a column of dates, or a number or a date;
        one of them at least. A number that is the name of a column is that column. A date without
        a time zone is in UTC where the column has one. Where a column of limits is missing itself,
        there is no limit. With both of them a gap lies between the two; between columns a value
        that is known must, too.
    where : object, optional
        The name of a column of truth values: limits hold where it is true, whatever number stands
        in the declared column. By default they hold at gaps, and with one limit where the value
        equals it.
    kind : optional
        What the declared column holds, as in ``types`` of ``mc.complete``; detected by default.

    Returns
    -------
    LimitColumns
        A value of ``types``. The columns it names are set aside, unless ``types`` has them, too.

    Raises
    ------
    ModelError
        Without a limit.

    Examples
    --------
    >>> import numpy as np, pandas as pd, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.standard_normal((200, 2)), columns=["load", "dose"])
    >>> frame["limit"] = -0.5
    >>> frame["load"] = frame["load"].where(frame["load"] > -0.5)
    >>> table = mc.complete(frame, {"load": mc.censored(upper="limit")}).table
    >>> bool((table["load"][frame["load"].isna()] <= -0.5).all())
    True
    """
    if lower is None and upper is None:
        example = wording().either(python='mc.censored(upper="limit")', command="an upper limit")
        raise ModelError(f"censored names no limit; give the column with it, such as {example}")
    return LimitColumns(lower, upper, where, kind)


def split_limits(types: Any, names: Sequence[Any]) -> tuple[Any, dict[Any, LimitColumns]]:
    """Declared types without ``censored``, and the columns of limits by column name.

    Raises
    ------
    ModelError
        If one names a column that there is not, or its own.
    """
    if not isinstance(types, Mapping):
        return types, {}
    censored = {
        name: attrs.evolve(
            kind, lower=as_limit(kind.lower, names), upper=as_limit(kind.upper, names)
        )
        for name, kind in types.items()
        if isinstance(kind, LimitColumns)
    }
    for name, columns in censored.items():
        declared = f"types[{plain(name)!r}]"
        for place in (name, *columns.names):
            if place not in names:
                hint = meant_column(place, list(names))
                raise ModelError(
                    f"{declared} names {plain(place)!r}, which is neither a column nor a finite"
                    f" number or a date; {hint}"
                )
        if name in columns.names:
            raise ModelError(
                f"{declared} names the column itself; name the column that has its limits"
            )
    kinds = {place: "skip" for columns in censored.values() for place in columns.names}
    kinds |= {name: kind for name, kind in types.items() if name not in censored}
    kinds |= {name: part.kind for name, part in censored.items() if part.kind is not None}
    for name, columns in censored.items():
        if columns.kind is None:  # not even where it has limits of others
            kinds.pop(name, None)
    return kinds, censored


def with_limits(columns: Sequence[Column], censored: Mapping[Any, LimitColumns]) -> list[Column]:
    """Columns with the limits that stand in others.

    Raises
    ------
    ModelError, DataError
        As ``limits_from``.
    """
    by_name = {column.name: column for column in columns}
    return [
        attrs.evolve(column, given_limits=limits_from(column, censored[column.name], by_name))
        if column.name in censored
        else column
        for column in columns
    ]


def limits_from(
    column: Column, declared: LimitColumns, others: Mapping[Any, Column]
) -> KnownLimits | None:
    """The limits of a column, of which declared ones stand in others; None without any.

    Columns of limits that are not among the others, of new rows, have none.

    Raises
    ------
    ModelError
        If the column holds something else than numbers or dates.
    DataError
        If a column of limits does, one of ``where`` something else than truth values, a lower
        limit is above the upper one, or a value outside of its limits.
    """
    name = plain(column.name)
    if column.form not in ("number", "date"):
        raise ModelError(
            f"limits ({declared}) are declared for column {name!r}, which holds {column.form}"
            " values; limits are those of numbers and dates. Convert the column, or leave limits"
            " out"
        )
    lower, upper = (
        numbers_of_limits(column, end, others, none)
        for end, none in ((declared.lower, -np.inf), (declared.upper, np.inf))
    )
    values = column.numbers
    holds = np.isnan(values)
    is_range = declared.lower is not None and declared.upper is not None
    are_numbers = all(isinstance(end, LimitNumber) for end in (declared.lower, declared.upper))
    if declared.where is not None:
        holds = truths(column, others.get(declared.where))
    elif not (is_range or declared.at_gaps_only):
        holds |= (values == lower) | (values == upper)
    crossed = lower > upper
    refuse(column, crossed, lower, upper, "its lower limit is above its upper one")
    if declared.where is not None or (is_range and not are_numbers):
        outside = (values < lower) | (values > upper)
        if declared.where is not None:
            outside &= holds
        refuse(column, outside, lower, upper, "its value is not between them")
    limits = KnownLimits(lower, upper).only(holds)
    return limits if limits.cells.any() else None


def refuse(column: Column, wrong: Mask, lower: Array, upper: Array, why: str) -> None:
    """A ``DataError`` that names the first row with wrong limits."""
    rows = np.flatnonzero(wrong)
    if rows.size:
        row, is_date = int(rows[0]), column.form == "date"
        value = column.numbers[row]
        ends = [
            LimitNumber(end, is_date and bool(np.isfinite(end)))
            for end in (lower[row], upper[row])
        ]
        held = "" if np.isnan(value) else f", and the value {LimitNumber(value, is_date)}"
        raise DataError(
            f"column {plain(column.name)!r} has the limits {ends[0]} and {ends[1]} in"
            f" {wording().row(row)}{held}: {why}. Correct the limits, or mark them as missing"
        )


def numbers_of_limits(
    column: Column, end: Any, others: Mapping[Any, Column], none: float
) -> Array:
    """The numbers of a column of limits, or one for all rows; ``none`` where it is missing."""
    if isinstance(end, LimitNumber):
        if end.is_date != (column.form == "date"):
            held, is_now = ("numbers", "a date") if end.is_date else ("dates", "a number")
            raise DataError(
                f"column {plain(column.name)!r} holds {held}, and its limit {end} is {is_now};"
                f" give {held} as limits, or a column of them"
            )
        return np.full(len(column.cells), end.number)
    other = others.get(end)
    if other is None:
        return np.full(len(column.cells), none)
    if other.form != column.form and other.n_observed:
        needed = "dates" if column.form == "date" else "numbers"
        raise DataError(
            f"column {plain(other.name)!r} has the limits of {plain(column.name)!r}, and holds"
            f" {other.form} values; {needed} are needed. Convert it, or name another column"
        )
    numbers = other.numbers if other.n_observed else np.full(len(column.cells), np.nan)
    return np.where(np.isnan(numbers), none, numbers)


def truths(column: Column, other: Column | None) -> Mask:
    """The mask of the rows in which a column of truth values is true."""
    if other is None:
        return np.zeros(len(column.cells), dtype=bool)
    is_truth = other.form == "boolean" or (
        other.form == "number" and bool(np.isin(other.numbers[other.observed], (0.0, 1.0)).all())
    )
    if not is_truth:
        raise DataError(
            f"column {plain(other.name)!r} says where limits of {plain(column.name)!r} hold, and"
            f" holds other values than true and false; convert it, or name another column"
        )
    return np.nan_to_num(other.numbers) == 1.0
