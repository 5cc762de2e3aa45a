"""A column of a table: its type, detected or declared, and its position in the model."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError, warn_caller
from mcframe.contracts.likelihood import (
    IntervalProbability,
    Likelihood,
    ValueKind,
    fits_parameters,
)
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import counted, exact, listed, plain
from mcframe.contracts.wording import wording
from mcframe.likelihoods import Bernoulli, Censored, Gaussian, Multinomial, Ordinal, Poisson
from mcframe.model import Block, Model, Observations
from mcframe.model.held_out import places_by_content
from mcframe.model.long_lists import mark_as_table
from mcframe.posterior.answer import Posterior
from mcframe.posterior.row_limits import RowLimits
from mcframe.tables.coding import (
    NUMBERS_BLOCK,
    Choice,
    Coding,
    Constant,
    CountedNumbers,
    Counts,
    Levels,
    Numbers,
)
from mcframe.tables.columns import (
    Bounds,
    Column,
    TextNumbers,
    with_comma,
)
from mcframe.tables.date_coding import DAY_MICROSECONDS, LATEST_DATE, Dates
from mcframe.tables.gaps import LONGEST_SCALE
from mcframe.tables.indicator_codings import Indicator, Indicators, Steps
from mcframe.tables.known_limits import KnownLimits
from mcframe.tables.raw_predictions import RawPredictions
from mcframe.tables.semicontinuous import SemiContinuous

# The kinds of columns that have the labels of the groups of the rows, and their weights.
GROUPS, ROW_WEIGHTS = "groups", "weights"


@stored
@attrs.frozen(eq=False)
class DeclaredColumn:
    """A column of a table, its type, and its position in the model.

    Attributes
    ----------
    column : Column
        The column as it was read.
    kind : str
        The type, in a word or two: one of ``KINDS``, the class of a likelihood that was given,
        "constant" or "set aside".
    why : str
        The reason.
    coding : Coding or None
        None of a column that is set aside, or constant beside others that are not.
    likelihood : Likelihood or None
    block : str or None
        The block in which it stands.
    constant : tuple
        The only observed value of a constant column.
    place : int or None
        Its column number in its block; None if it is in no block.
    is_skipped : bool
        Whether it was declared to be set aside.
    condition : OnlyIf or None
        To which rows the column applies; None for all.
    fillable : mask (n_items,) or None
        The rows of the table in which it may be filled; None for all.
    limit_columns : LimitColumns or None
        The columns that have limits of this one, or numbers that are its limits.
    neighbour : Neighbour or None
        Of a column that is not in the table: whose values it has, of the row before or after.
    """

    column: Column
    kind: str
    why: str
    coding: Coding | None = None
    likelihood: Likelihood | None = None
    block: str | None = None
    constant: tuple[Any, ...] = ()
    place: int | None = None
    is_skipped: bool = False
    condition: Any = None
    fillable: Mask | None = None
    limit_columns: Any = None
    neighbour: Any = None

    @property
    def name(self) -> Any:
        """The name in the table."""
        return self.column.name

    @property
    def has_detected_limits(self) -> bool:
        """True if gaps of the table were taken for numbers beyond an end of the observed ones."""
        return self.limit_columns is not None and self.limit_columns.at_gaps_only

    @property
    def share_missing(self) -> float:
        """The share of entries that are missing, of which not even limits are known."""
        return float(np.mean(self.column.missing & ~self.column.limited))

    @cached_property
    def codes(self) -> Array:
        """The numbers that the likelihood reads (n_items,), NaN where missing."""
        return self.block_coding.codes(self.column)

    @property
    def block_coding(self) -> Coding:
        """The coding of a column that is in a block."""
        assert self.coding is not None
        return self.coding

    @property
    def block_name(self) -> str:
        """The block of a column that is in one."""
        assert self.block is not None
        return self.block

    @cached_property
    def has_whole_values(self) -> bool:
        """True if all observed numbers are whole, whatever dtype holds them."""
        codes = self.codes[~np.isnan(self.codes)]
        is_scaled = isinstance(self.coding, Numbers) and self.coding.unit != 1.0
        if is_scaled or not np.all(np.rint(codes) == codes):
            return False
        return self.limits is None or self.limits.hold_whole_numbers

    @cached_property
    def limits(self) -> KnownLimits | None:
        """The limits of codes that are known of cells without a number; None without any."""
        return self.limits_of(self.column)

    def limits_of(self, column: Column) -> KnownLimits | None:
        """The limits of codes in a column of this table or of new rows."""
        if not isinstance(self.coding, Numbers) or self.place is None:
            return None
        return self.coding.limits(column)

    @property
    def is_rounded(self) -> bool:
        """True if values are whole numbers."""
        return isinstance(self.coding, Numbers) and (self.coding.is_whole or self.has_whole_values)

    def clip(self, codes: Array, limits: KnownLimits) -> Array:
        """The codes nearest to these within limits, one for each."""
        return limits.clip(codes, isinstance(self.coding, Numbers) and self.coding.is_whole)

    def limits_on_scale(self, limits: KnownLimits) -> KnownLimits:
        """The limits of the numbers of the block, from those of codes."""
        assert isinstance(self.coding, Numbers)  # as all columns with limits have
        return self.coding.limits_on_scale(limits, self.is_rounded)

    def with_values(self, column: Column) -> "DeclaredColumn":
        """The column with further values; a scale of whole numbers holds them, too."""
        coding = self.coding
        if isinstance(coding, Numbers) and coding.whole not in (None, self.column.whole):
            numbers = column.numbers[~np.isnan(column.numbers)]
            coding = attrs.evolve(coding, whole=(int(np.min(numbers)), int(np.max(numbers))))
        return attrs.evolve(self, column=column, coding=coding)

    def rounded(self, codes: Array) -> Array:
        """Codes as values of the column may be drawn: whole ones where all observed ones are."""
        return np.rint(codes) if self.has_whole_values else codes

    def entries(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Rows and columns of its block for these rows, the columns of a row side by side."""
        assert self.place is not None
        width = self.block_coding.width
        return np.repeat(rows, width), np.tile(self.place + np.arange(width), rows.size)

    @property
    def has_classes(self) -> bool:
        """True of a category of more than two values, before columns are numbers."""
        return self.likelihood is not None and self.likelihood.width > 1

    @property
    def has_groups(self) -> bool:
        """True if the column has the labels of the groups of the rows."""
        return self.kind == GROUPS

    @property
    def is_filled(self) -> bool:
        """True if missing entries are filled."""
        return (self.place is not None and self.neighbour is None) or bool(self.constant)

    @property
    def is_changed(self) -> bool:
        """True if the column comes back changed: filled, or text that is numbers as numbers."""
        return self.is_filled and (self.column.is_converted or bool(self.column.missing.any()))

    def filled_with(self, codes: Array, fillable: Mask) -> Any:
        """The column with these codes at its missing entries, and a constant one with that.

        Entries of rows that are not ``fillable`` stay empty.
        """
        rows = np.flatnonzero(self.column.missing)
        values = list(self.constant) * rows.size
        if self.place is not None and rows.size:
            if self.limits is not None:
                codes = self.clip(codes, self.limits.at(rows))
            values = self.block_coding.values(codes)
        chosen = [value for value, row in zip(values, rows, strict=True) if fillable[row]]
        return self.column.filled(rows[fillable[rows]], chosen)


def columns_set_aside(columns: Iterable[DeclaredColumn]) -> list[DeclaredColumn]:
    """Return the columns that are not filled, but for those that were declared so."""
    return [column for column in columns if not column.is_filled and not column.is_skipped]


def warn_of_columns_set_aside(
    message: str, columns: Sequence[DeclaredColumn], option: str = "missing"
) -> None:
    """A ``UserWarning`` that names columns that are set aside, each with the reason."""
    named = [f"{plain(column.name)!r} ({column.why})" for column in columns]
    if named:
        warn_caller(
            f"{message}: {listed(named)}; {wording().types_of_any()} declares them,"
            f" {wording().types_of_any('skip')} confirms"
            f" this{remedy_for_numbers(columns, option)}",
        )


def remedy_for_numbers(columns: Iterable[DeclaredColumn], option: str) -> str:
    """The remedy where columns of text are mostly numbers; else ""."""
    texts = {plain(column.name): mostly_numbers(column.column) for column in columns}
    gaps = {name: [*text.obstacles] for name, text in texts.items() if text is not None}
    if not gaps:
        return ""
    return (
        f"; {wording().gaps(option, gaps)} makes these texts gaps, and"
        f" {wording().types(next(iter(gaps)), 'number')} reads the numbers"
    )


def with_constants(columns: Sequence[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return columns of which none stands in a block, the constant ones in one of their own.

    So that a table without any other columns has a model, too.
    """
    return placed_columns(
        attrs.evolve(
            column, coding=Constant(column.constant), likelihood=Gaussian(), block="constants"
        )
        if column.constant
        else column
        for column in columns
    )


def placed_columns(columns: Iterable[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return columns, each with its place in its block."""
    filled: dict[str, int] = {}
    placed = []
    for column in columns:
        place = None
        if column.block is not None:
            coding, block = column.block_coding, column.block_name
            place = filled.get(block, 0)
            filled[block] = place + coding.width
        placed.append(attrs.evolve(column, place=place))
    return tuple(placed)


def as_numbers(columns: Iterable[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return the columns, all that stand in a block moved into one Gaussian block."""
    converted = []
    for column in columns:
        coding = column.coding
        if column.place is None or coding is None:
            converted.append(column)
            continue
        if isinstance(coding, Counts):
            coding = CountedNumbers(coding.whole, bend=0.5 * float(np.nanmean(column.codes)))
        elif isinstance(coding, Levels) and not isinstance(coding, Indicator):
            coding = Steps(coding.places)
        elif isinstance(coding, Choice) and not isinstance(coding, Indicator | Constant):
            coding = (Indicators if column.has_classes else Indicator)(coding.places)
        converted.append(
            attrs.evolve(column, coding=coding, likelihood=Gaussian(), block=NUMBERS_BLOCK)
        )
    return placed_columns(converted)


def in_content_order(columns: Sequence[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return columns by what they hold, with places in this order; those in no block come last.

    So that an answer does not depend, not even by rounding, on the order of a table's columns.
    """
    inside = [column for column in columns if column.place is not None]
    order = np.argsort(places_by_content(np.column_stack([column.codes for column in inside])))
    outside = [column for column in columns if column.place is None]
    return placed_columns([*(inside[k] for k in order), *outside])


def members_of(columns: Iterable[DeclaredColumn]) -> dict[str, list[DeclaredColumn]]:
    """Return the columns of each block, by their places."""
    inside = [column for column in columns if column.place is not None]
    members: dict[str, list[DeclaredColumn]] = {}
    for column in sorted(inside, key=attrgetter("place")):
        members.setdefault(column.block_name, []).append(column)
    return members


def blocks_of(placed: Iterable[DeclaredColumn]) -> list[Block]:
    """A block for each kind, in the order in which they appear.

    Thresholds that are fitted hold an offset already: no bias stands beside them.
    """
    likelihoods: dict[str, Likelihood] = {}
    for column in placed:
        if column.block is not None and column.likelihood is not None:
            likelihood = likelihoods.setdefault(column.block, column.likelihood)
            has_limits = column.limits is not None and likelihood.why_no_optimum is None
            if has_limits and isinstance(likelihood, IntervalProbability):
                likelihoods[column.block] = Censored(likelihood)
    return [
        Block(name, likelihood, bias=not fits_parameters(likelihood), standardize=True)
        for name, likelihood in likelihoods.items()
    ]


def data_of(
    columns: Iterable[DeclaredColumn],
    codes: Mapping[Any, Array],
    table: Any,
    model: Model | None = None,
    limits: Mapping[Any, KnownLimits | None] | None = None,
) -> dict[str, Any]:
    """The codes of the columns of each block: DataFrames where the table is one of pandas.

    Parameters
    ----------
    codes : dict from column name to array (n_items,)
    table : narwhals.DataFrame
        Whose index a DataFrame gets.
    model : Model, optional
        Whose blocks with a likelihood that takes limits get ``Observations`` with those.
    limits : dict from column name to KnownLimits, optional
        Those of codes.
    """
    data: dict[str, Any] = {}
    for block, members in members_of(columns).items():
        values = [column.block_coding.numbers(codes[column.name]) for column in members]
        data[block] = np.column_stack(values)
        if table.implementation.is_pandas():
            native, names = (
                table.to_native(),
                [name for member in members for name in names_of(member)],
            )
            data[block] = type(native)(data[block], index=native.index, columns=names)
            mark_as_table(data[block])
        limits_by_place = {column.place: (limits or {}).get(column.name) for column in members}
        takes = model is not None and model.block(block).likelihood.takes_intervals
        if takes and any(part is not None for part in limits_by_place.values()):
            lower, upper = np.full(data[block].shape, -np.inf), np.full(data[block].shape, np.inf)
            for place, part in limits_by_place.items():
                if part is not None:
                    lower[:, place], upper[:, place] = part.lower, part.upper
            data[block] = Observations(data[block], lower=lower, upper=upper)
    return data


def warn_of_limits(columns: Iterable[DeclaredColumn], model: Model | None) -> None:
    """A ``UserWarning`` of columns whose limits the likelihood of their block cannot use.

    Without a model, of Gaussian factors, no limits are used.
    """
    unused = [
        f"{plain(column.name)!r}"
        + (f" ({model.block(column.block_name).likelihood})" if model is not None else "")
        for column in columns
        if column.place is not None
        and column.limits is not None
        and not (model is not None and model.block(column.block_name).likelihood.takes_intervals)
    ]
    if unused:
        name = wording().word("Censored")
        remedy = f" a likelihood {name} of one with a distribution function uses them"
        if model is None:
            remedy = " a table with fewer columns has a distribution of rows, which uses them"
        warn_caller(
            "limits of cells are not used by the estimate, and filled numbers are moved into them:"
            f" {listed(unused)};{remedy}"
        )


def numbers_in(data: Any) -> Any:
    """The values of a block's data, which may have limits beside them."""
    return data.values if isinstance(data, Observations) else data


def row_limits_of(
    columns: Iterable[DeclaredColumn], limits: Mapping[Any, KnownLimits | None], n_rows: int
) -> RowLimits | None:
    """The limits of the numbers of one block, in its columns' own units; None without any.

    Parameters
    ----------
    limits : dict from column name to KnownLimits
        Those of codes (n_rows,).
    """
    inside = [column for column in columns if column.place is not None]
    if all(limits.get(column.name) is None for column in inside):
        return None
    width = sum(column.block_coding.width for column in inside)
    lower, upper = np.full((n_rows, width), -np.inf), np.full((n_rows, width), np.inf)
    for column in inside:
        of_codes = limits.get(column.name)
        if of_codes is not None:
            on_scale = column.limits_on_scale(of_codes)
            lower[:, column.place], upper[:, column.place] = on_scale.lower, on_scale.upper
    return RowLimits.of(lower, upper)


def names_of(column: DeclaredColumn) -> list[Any]:
    """Return what the columns of a block are called: of several of one column, its values too."""
    coding = column.block_coding
    if isinstance(coding, SemiContinuous):
        return [f"{plain(column.name)} is not {coding.atom * coding.unit:g}", column.name]
    if coding.width == 1 or not isinstance(coding, Choice):
        return [column.name]
    return [f"{plain(column.name)} = {plain(value)}" for value in coding.places]


# Columns that stand in a block, with the rows of which something is asked.
Asked = Sequence[tuple[DeclaredColumn, IntArray]]


def by_block(asked: Asked) -> Iterator[tuple[str, Asked, tuple[IntArray, IntArray]]]:
    """Blocks, what is asked of their columns, and all of these entries: rows and columns."""
    for block in dict.fromkeys(column.block_name for column, _ in asked):
        members = [(column, rows) for column, rows in asked if column.block == block]
        cells = [column.entries(rows) for column, rows in members]
        rows, columns = (np.concatenate(part) for part in zip(*cells, strict=True))
        yield block, members, (rows, columns)


def answers(fit: Any, asked: Asked) -> Iterator[tuple[DeclaredColumn, Array]]:
    """Predictions of columns by a fit, a posterior or new rows of one, by their codings.

    Every answer of a table comes from here. The entries of a block are predicted together, and
    each coding reads its own.
    """
    for block, members, cells in by_block(asked):
        with_variances = any(column.block_coding.reads_variances for column, _ in members)
        raw, end = RawPredictions.of(fit, block, *cells, with_variances), 0
        for column, rows in members:
            width = column.block_coding.width
            start, end = end, end + rows.size * width
            coding = column.block_coding
            if (
                isinstance(coding, Numbers)
                and coding.reads_variances
                and isinstance(fit, Posterior)
            ):
                yield (
                    column,
                    coding.expected(fit, block, (cells[0][start:end], cells[1][start:end])),
                )
                continue
            part = raw.of_rows(slice(start, end), rows.size, width)
            yield column, coding.decode(part.means, part.variances)


def predicted_codes(fit: Any, asked: Asked) -> dict[Any, Array]:
    """The codes that entries are filled with, by the names of the columns that are in a block."""
    modelled = [(column, rows) for column, rows in asked if column.place is not None]
    return {
        column.name: column.block_coding.predicted(answer)
        for column, answer in answers(fit, modelled)
    }


def codes_of_intervals(
    posterior: Posterior, asked: Asked, level: float
) -> tuple[dict[Any, Array], dict[Any, Array]]:
    """Codes of the lower and the upper ends of intervals of numbers, by column.

    Within the bounds of their columns; of columns of whole numbers they are those of the whole
    numbers that are drawn.
    """
    lower, upper = dict[Any, Array](), dict[Any, Array]()
    for column, rows in asked:
        coding, cells = column.block_coding, column.entries(rows)
        assert isinstance(coding, Numbers)
        whole = column.is_rounded
        lower[column.name], upper[column.name] = coding.ends(
            posterior, column.block_name, cells, level, whole
        )
    return lower, upper


# What ``types`` may say of a column, beside a list of levels and a likelihood.
KINDS = ("number", "count", "label", "category", "ordinal", "date", "skip")
# Classes of a column that the model has at most.
MOST_CLASSES = 100
# Text with at most so many different values is taken for categories, however few entries it has.
FEW_CATEGORIES = 20
# Words of a name, such as PassengerId or user_id, that say that whole numbers identify.
NAMES_OF_IDENTIFIERS = {"id", "ids", "identifier", "uuid", "guid", "rownames"}
WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# The date furthest from 1970, but for a day, that 64 bits hold in nanoseconds; in microseconds.
FURTHEST_NANOSECOND_DATE = 2.0**63 / 1e3 - DAY_MICROSECONDS
# Microseconds of a day, an hour, a minute, a second, a thousandth of one, and one.
DATE_STEPS = (DAY_MICROSECONDS, 3.6e9, 6e7, 1e6, 1e3, 1.0)


def set_aside(column: Column, why: str) -> DeclaredColumn:
    """A column that the model does not use."""
    return DeclaredColumn(column, "set aside", why)


def number(column: Column, why: str, bounds: Bounds | None = None) -> DeclaredColumn:
    """Gaussian, around the column's own centre; numbers with bounds have a block of their own."""
    column.refuse_far_limits(column.numbers)
    coding, block = Numbers.of(column), "numbers"
    if bounds is not None:
        coding = Numbers.of(column, bounds.lower, bounds.upper)
        why, block = f"{why}, {bounds}", str(bounds)
        if coding.unit != 1.0:  # columns of a block have answers that are read alike
            block += f" of {plain(column.name)!r}"
    return DeclaredColumn(column, "number", why, coding, Gaussian(), block)


def date(column: Column, why: str) -> DeclaredColumn:
    """Gaussian, in days since the observed date in the middle."""
    dtype, observed = column.series.dtype, np.sort(column.numbers[~column.missing])
    zoned = getattr(dtype, "time_zone", None) is not None
    form = "date" if dtype == nw.Date else "zoned time" if zoned else "time"
    furthest = FURTHEST_NANOSECOND_DATE if getattr(dtype, "time_unit", "") == "ns" else LATEST_DATE
    step = next(step for step in DATE_STEPS if not np.any(np.mod(observed, step)))
    centre = float(observed[observed.size // 2])
    coding = Dates(centre=centre, form=form, step=step, furthest=furthest)
    return DeclaredColumn(column, "date", why, coding, Gaussian(), "numbers")


def label(column: Column, why: str) -> DeclaredColumn:
    """Bernoulli: the second value is the one that has a probability."""
    places = (False, True) if column.form == "boolean" else column.distinct
    if column.form not in ("boolean", "number"):
        why = f"{why}, of two values: {plain(places[0])!r} and {plain(places[1])!r}"
    return DeclaredColumn(column, "label", why, Choice(places), Bernoulli(), "labels")


def category(column: Column, why: str) -> DeclaredColumn:
    """Multinomial: columns with as many classes share a block.

    If there are very many values, the most frequent ones are classes, and others are missing.
    """
    places, why = column.distinct, f"{why}, of {column.n_distinct} values"
    if len(places) > MOST_CLASSES:
        times = Counter(column.values)
        kept = set(sorted(places, key=times.__getitem__, reverse=True)[:MOST_CLASSES])
        places = tuple(place for place in places if place in kept)
        why += f"; the model has the {MOST_CLASSES} most frequent"
    likelihood, block = Multinomial(len(places)), f"{len(places)} classes"
    return DeclaredColumn(column, "category", why, Choice(places), likelihood, block)


def ordinal(column: Column, places: tuple[Any, ...], why: str) -> DeclaredColumn:
    """Ordinal: thresholds are of a block, so that each column has its own."""
    why = f"{why}, of {len(places)} levels: {plain(places[0])!r} to {plain(places[-1])!r}"
    likelihood, block = Ordinal(len(places), lowest=0), f"levels of {plain(column.name)!r}"
    return DeclaredColumn(column, "ordinal", why, Levels(places), likelihood, block)


def detected_kind(column: Column) -> DeclaredColumn:
    """Return a column with its type by its dtype and values, and the reason."""
    if column.form == "other":
        numbers = mostly_numbers(column)
        return set_aside(column, column.trouble if numbers is None else numbers.what_is_unread)
    if column.n_observed == 0:
        return set_aside(column, "not one of its values is observed")
    if column.limited.any() and column.form in ("number", "date"):
        return kind_of_limited(column)
    if column.form == "date":
        hint = f"{wording().types(plain(column.name), 'date')} takes them as days"
        return set_aside(column, f"dates; {hint}")
    if column.form == "number":
        column.refuse_infinite()
    if column.n_distinct == 1:
        value = next(value for value in column.values if value is not None)
        why = f"every observed value is {plain(value)!r}"
        return DeclaredColumn(column, "constant", why, constant=(value,))
    if column.form == "boolean":
        return label(column, "true and false")
    if column.form == "number":
        return kind_of_numbers(column)
    return kind_of_text(column) if column.form == "text" else kind_of_categories(column)


def kind_of_limited(column: Column) -> DeclaredColumn:
    """Numbers or dates of which some are known to limits."""
    are_dates = column.form == "date"
    held = "dates" if are_dates else "numbers"
    if not are_dates:
        column.refuse_infinite()
    if column.n_distinct < 2:
        return set_aside(column, f"beside limits it has fewer than two different {held}")
    n_limited = int(np.count_nonzero(column.limited))
    kind = date if are_dates else number
    return kind(column, f"{held}, beside {counted(n_limited, 'cell')} known to limits")


def kind_of_numbers(column: Column) -> DeclaredColumn:
    """Numbers, labels 0 and 1, or an identifier."""
    numbers, prefix = column.numbers, ""
    observed = numbers[~np.isnan(numbers)]
    if isinstance(column, TextNumbers):
        prefix = "text that reads as "
        if column.n_distinct == 2:
            return label(column, f"{prefix}two numbers")
    if np.isin(observed, [0.0, 1.0]).all():
        return label(column, "0 and 1 alone")
    if not np.equal(np.floor(observed), observed).all():
        return number(column, f"{prefix}numbers")
    if numbers[0] in (0.0, 1.0) and np.all(np.diff(numbers) == 1.0):
        return set_aside(column, f"{prefix}whole numbers that count the rows")
    words = [word.lower() for word in WORDS_OF_NAME.findall(str(column.name))]
    if NAMES_OF_IDENTIFIERS & set(words):
        return set_aside(column, f"{prefix}whole numbers, and its name says that they identify")
    scale = scale_of(observed)
    if scale is None:
        return number(column, f"{prefix}whole numbers")
    on_scale = number(
        column, f"{prefix}whole numbers from {scale[0]} to {scale[1]}, and filled with such"
    )
    return attrs.evolve(on_scale, coding=Numbers(scale))


def scale_of(observed: Array) -> tuple[int, int] | None:
    """Return the ends of a scale of few whole numbers, such as answers from 1 to 5; else None.

    It begins at 0, 1 or 2 or is symmetric, such as -3 to 3. More than half of its levels are
    observed, which stand there twice on average.
    """
    levels = np.unique(observed)
    lowest, highest, n_levels = levels[0], levels[-1], levels[-1] - levels[0] + 1.0
    starts = lowest in (0.0, 1.0, 2.0) or lowest == -highest
    if not starts or n_levels > LONGEST_SCALE:
        return None
    seen = 2 * levels.size > n_levels and observed.size >= 2 * levels.size
    return (int(lowest), int(highest)) if seen else None


def kind_of_text(column: Column) -> DeclaredColumn:
    """Labels, categories, or text that identifies, says something, or should be numbers."""
    n_observed, n_distinct = column.n_observed, column.n_distinct
    row, why = with_comma(column.values), ""
    if n_distinct == 2 < n_observed and row is None:
        return label(column, "text")
    if row is not None:
        why = (
            f" of numbers with commas ({column.values[row]!r} in {wording().row(row)}), which may"
            f" stand before thousands or decimals; {conversion_of_text()}"
        )
    elif n_distinct == n_observed:
        why = f", and all {n_observed} values differ, as of an identifier"
    elif n_distinct > max(FEW_CATEGORIES, n_observed / 2):
        why = f", and {n_distinct} of {n_observed} values differ, as of names"
    elif n_distinct > MOST_CLASSES:
        why = f" with {n_distinct} different values, more than {MOST_CLASSES}"
    numbers = mostly_numbers(column)
    if why and numbers is not None:
        why = f", and {numbers.what_is_unread}"
    return set_aside(column, f"text{why}") if why else category(column, "text")


def mostly_numbers(column: Column) -> TextNumbers | None:
    """A column of text that is mostly numbers, as these, where it is not read so; else None."""
    numbers = column.text_numbers
    return numbers if numbers is not None and numbers.obstacles else None


def kind_of_categories(column: Column) -> DeclaredColumn:
    """Labels, levels, categories, or too many of them."""
    n_distinct = column.n_distinct
    if n_distinct > MOST_CLASSES:
        return set_aside(column, f"{n_distinct} categories, more than {MOST_CLASSES}")
    if n_distinct == 2:
        return label(column, "categories")
    if column.form == "ordered":
        return ordinal(column, column.distinct, "ordered categories")
    if n_distinct == column.n_observed:
        return set_aside(column, f"categories, and all {n_distinct} values differ")
    return category(column, "categories")


# What to do about a value that is none of a declared type; new rows, too, have such values.
CORRECT = "Correct it, or mark it as missing"


def contradiction(column: Column, declared: Any, why: str, remedy: str = "") -> DataError:
    """The error of a column whose values do not match its declared type."""
    written = str(declared) if isinstance(declared, Bounds) else wording().value(declared)
    sentence = f"column {plain(column.name)!r} was declared {written}, but {why}"
    return DataError(f"{sentence}. {remedy}" if remedy else sentence)


def declared_kind(column: Column, declared: Any, source: str = "declared") -> DeclaredColumn:
    """Return a column with its declared type; ``source`` says in reports where it is declared.

    Raises
    ------
    DataError
        If its values are not that, or nothing can be said of them.
    """
    if isinstance(declared, str) and declared == "skip":
        skipped = set_aside(column, f"{source} {wording().value('skip')}")
        return attrs.evolve(skipped, is_skipped=True)
    check_form(column, declared)
    if isinstance(declared, Likelihood):
        return declared_likelihood(column, declared, source)
    if isinstance(declared, Bounds):
        refuse_numbers(
            column, declared, Numbers(None, declared.lower, declared.upper).outside(column.numbers)
        )
        return number(column, source, declared)
    if not isinstance(declared, str):
        for row, value in enumerate(column.values):
            if value is not None and value not in declared:
                why = f"holds the value {plain(value)!r} in {wording().row(row)}"
                remedy = f"{CORRECT}, or add it to the levels"
                if str(plain(value)) in map(str, declared):
                    why += "; text and numbers differ, so write levels as the column has them"
                    remedy = ""
                raise contradiction(column, list(declared), why, remedy)
        return ordinal(column, tuple(declared), source)
    if declared in ("number", "date"):
        return (
            number(column, source) if declared == "number" else date(column, f"{source}, in days")
        )
    if declared == "count":
        counts = Counts(column.whole)
        refuse_numbers(column, declared, counts.outside(column.numbers), counts.rule)
        return DeclaredColumn(column, "count", source, counts, Poisson(), "counts")
    if declared == "label":
        if column.n_distinct != 2 and column.form != "boolean":
            several = "Declare it 'category', or mark as missing what is neither of the two"
            raise contradiction(
                column,
                declared,
                f"holds {counted(column.n_distinct, 'different value')}; a label has two",
                several if column.n_distinct > 2 else leave_out(column),
            )
        return label(column, source)
    if column.n_distinct < 2:
        why = f"every observed value is {plain(column.distinct[0])!r}"
        raise contradiction(column, declared, why, leave_out(column))
    return category(column, source) if declared == "category" else declared_ordinal(column, source)


def leave_out(column: Column) -> str:
    """The sentence on how to leave a column out."""
    return f"Leave it out by {wording().types(plain(column.name), 'skip')}"


def declared_ordinal(column: Column, source: str) -> DeclaredColumn:
    """Levels whose order is their own, or that of numbers."""
    if column.n_distinct > MOST_CLASSES:
        raise contradiction(
            column,
            "ordinal",
            f"holds {column.n_distinct} different values; more than {MOST_CLASSES} levels are a"
            f" number: {wording().types_of_any('number')}, or codes of the levels as numbers",
        )
    check_order(column, "ordinal")
    return ordinal(column, column.distinct, source)


def check_order(column: Column, declared: Any) -> None:
    """A ``DataError`` where text or categories have no order."""
    if column.form in ("text", "category"):
        name = plain(column.name)
        declaration = wording().either(
            python=f"types={{{name!r}: [lowest, ..., highest]}}",
            command=f'--types \'{name}=["lowest", ..., "highest"]\'',
        )
        raise contradiction(
            column,
            declared,
            f"the order of its {column.n_distinct} values is not known; give them from the lowest"
            f" to the highest: {declaration}",
        )


def check_form(column: Column, declared: Any) -> None:
    """A ``DataError`` where values of this form are not what the column was declared to be."""
    if column.form == "other":
        raise contradiction(column, declared, column.trouble)
    if column.n_observed == 0:
        raise contradiction(
            column, declared, "not one of its values is observed", leave_out(column)
        )
    if column.form == "number":
        column.refuse_infinite()
    word = "number" if isinstance(declared, Bounds) else declared
    needs_numbers = word in ("number", "count")
    if isinstance(declared, Likelihood):
        needs_numbers = not is_choice(column, declared)
    if (needs_numbers and column.form != "number") or (column.form == "date") != (word == "date"):
        hint, remedy = f"; {conversion_of_dates()}" * (word == "date"), ""
        if needs_numbers and column.form == "text" and with_comma(column.values) is not None:
            hint = f"; {conversion_of_text()}"
        if not hint:
            remedy = "Declare another type, or convert its values first"
        named = list(word) if isinstance(word, tuple) else word
        raise contradiction(column, named, f"its values are {what(column)}{hint}", remedy)


def conversion_of_text() -> str:
    """The remedy where numbers are text."""
    return wording().either(
        python="convert it, as by pandas.to_numeric(column.str.replace(...))",
        command="convert it, or see --decimal",
    )


def conversion_of_dates() -> str:
    """The remedy where dates are text."""
    return wording().either(
        python="convert it first, as by pandas.to_datetime", command="see --dates"
    )


def is_choice(column: Column, likelihood: Likelihood) -> bool:
    """True if a likelihood reads the values of a column as classes, levels or labels."""
    if likelihood.kind is not ValueKind.LABEL or column.form != "number":
        return likelihood.values is not None
    return bool((~likelihood.invalid(column.numbers) | column.missing).all())


def declared_likelihood(column: Column, likelihood: Likelihood, source: str) -> DeclaredColumn:
    """The coding that a likelihood reads: classes, levels, labels, or numbers as they are."""
    coding: Numbers | Choice
    if not is_choice(column, likelihood):
        coding = Numbers.of(column) if likelihood.location else Numbers(column.whole)
        wrong = likelihood.invalid(column.numbers) & ~column.missing
        refuse_numbers(column, likelihood, wrong, f"; it needs {likelihood.needs}")
    elif likelihood.kind is ValueKind.LEVEL:
        check_order(column, likelihood)
        coding = Levels(places_of(column, likelihood))
        likelihood = likelihood.from_zero()
    else:
        coding = Choice(places_of(column, likelihood))
    block = str(likelihood) if likelihood.width == 1 else f"{likelihood} of {plain(column.name)!r}"
    return DeclaredColumn(column, type(likelihood).__name__, source, coding, likelihood, block)


def in_block(column: Column, declared: Any, block: Block) -> DeclaredColumn:
    """Return a column in a block of a given model, of a declared type or by the likelihood.

    Raises
    ------
    DataError
        Where its values, or its declared type, do not suit the likelihood.
    """
    likelihood = block.likelihood
    source = f"in block {block.name!r}"
    declared_column = declared_kind(column, likelihood if declared is None else declared, source)
    are_levels = likelihood.kind is ValueKind.LEVEL
    if isinstance(declared_column.coding, Choice):
        suits = len(declared_column.coding.places) == (
            2 if likelihood.values is None else likelihood.values.size
        )
    else:
        suits = declared_column.coding is not None and likelihood.width == 1 and not are_levels
    if isinstance(declared_column.coding, Levels) != are_levels or not suits:
        in_words = wording().value(likelihood)
        why = f"it stands in block {block.name!r}, which has the likelihood {in_words}"
        raise contradiction(column, likelihood if declared is None else declared, why)
    return attrs.evolve(declared_column, block=block.name)


def places_of(column: Column, likelihood: Likelihood) -> tuple[Any, ...]:
    """The values that a likelihood of finitely many values stands for."""
    possible = np.zeros(0) if likelihood.values is None else likelihood.values
    if likelihood.kind is ValueKind.LEVEL and column.form == "number":
        levels = tuple(int(value) for value in possible)
        strange = [value for value in column.distinct if value not in levels]
        if strange:
            why = f"holds the value {plain(strange[0])!r}"
            raise contradiction(column, likelihood, why, f"{CORRECT}, or declare other levels")
        return levels
    if likelihood.kind is ValueKind.LABEL and column.form == "number":
        return (0, 1)  # one of them may be the only one that is observed
    places = (False, True) if column.form == "boolean" else column.distinct
    if len(places) != len(possible):
        raise contradiction(
            column,
            likelihood,
            f"holds {counted(len(places), 'different value')}",
            f"Declare the likelihood with {len(places)} values instead of {len(possible)}",
        )
    return places


def refuse_numbers(column: Column, declared: Any, wrong: Mask, rule: str = "") -> None:
    """A ``DataError`` that names the first wrong number, and what numbers are allowed."""
    rows = np.flatnonzero(wrong & ~column.missing)
    if rows.size:
        place = wording().row(int(rows[0]))
        why = f"holds the value {exact(column.numbers[rows[0]])} in {place}{rule}"
        wider = "wider bounds" if isinstance(declared, Bounds) else "another type"
        raise contradiction(column, declared, why, f"{CORRECT}, or declare {wider}")


def what(column: Column) -> str:
    """The form of a column in the plural, with an example."""
    forms = {
        "boolean": "true and false",
        "number": "numbers",
        "text": "text",
        "category": "categories",
        "ordered": "ordered categories",
        "date": "dates",
    }
    row, value = next((row, v) for row, v in enumerate(column.values) if v is not None)
    shown = plain(value) if column.form != "date" else str(value)
    return f"{forms[column.form]} ({shown!r} in {wording().row(row)})"
