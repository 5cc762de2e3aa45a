"""Tables in text: their cells, what the cells of a column read as, and frames of them."""

import csv
import datetime as dt
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import counted
from mcframe.datasets import arrow_cells

# Cells that are missing in every table of text, beside those that a caller names.
MISSING = ("", "NA", "NaN", "nan")
# What may stand between two cells where the given delimiter never does, the likeliest first.
DELIMITERS = ";,\t|"
# Marks of bytes that begin a text in UTF-16.
WIDE = (b"\xff\xfe", b"\xfe\xff")
# Texts of a column that are all numbers, or all dates, and what they become. Numbers that begin
# with 0, as "007", are codes and stay text.
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
# An infinite number is one, so that it is refused by its row, as in a frame.
NUMBER = re.compile(
    r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(?i:inf(inity)?)"
)
# Whole numbers that a float need not hold, such as identifiers.
LONG, LENGTH = re.compile(r"-?[0-9]{17,}"), 16
# Numbers whose points mark thousands, where something else marks decimals.
THOUSANDS = re.compile(r"[-+]?([0-9]{1,3}(\.[0-9]{3})*|[0-9]*)([^0-9.][0-9]*)?")
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = re.compile(rf"{DAY}[T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?")
# What a format of dates says of the time of day.
CLOCK = re.compile("%[HIMSTRcX]")
# Libraries of the frames that are made, the first one that is installed.
LIBRARIES = ("pyarrow", "polars", "pandas")

# What the cells of a column are.
CellKind = Literal["text", "whole", "number", "date", "time"]
READINGS: tuple[tuple[re.Pattern[str], CellKind, Callable[[str], Any]], ...] = (
    (WHOLE, "whole", int),
    (NUMBER, "number", float),
    (re.compile(DAY), "date", dt.date.fromisoformat),
    (TIME, "time", dt.datetime.fromisoformat),
)


@attrs.frozen
class Dialect:
    """The form of a table as text, and the options of it as messages write them.

    Attributes
    ----------
    delimiter : str
        What stands between two cells.
    encoding : str
    option : function of name and value
        How an option is written: ``encoding='latin-1'`` in Python.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    option: Callable[[str, str], str] = "{}={!r}".format


@attrs.frozen(eq=False)
class TextTable:
    """The cells of a file as they are written.

    Attributes
    ----------
    file : Path
    names : list of str
        The cells of the first line.
    columns : list of lists of str, or of arrays of Arrow
        The cells below each of them.
    lines : sequence of int
        The line of the file in which each row ends.
    """

    file: Path
    names: list[str]
    columns: list[Any]
    lines: Sequence[int]


@attrs.frozen(eq=False)
class ReadColumn:
    """A column of a table of text: what its cells are, and their values, None where missing.

    The values are a list, or an array of Arrow.
    """

    name: str
    kind: CellKind
    values: Any


def read_text(file: Path, dialect: Dialect) -> str:
    """Return the text of a file without the byte order mark that spreadsheets write first.

    Raises
    ------
    DataError
        Where it is no text in this encoding; the message names the one to try.
    """
    encoding, raw = dialect.encoding, file.read_bytes()
    try:
        return raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeError as error:
        likely = "utf-16" if raw[:2] in WIDE else "latin-1"
        where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        raise DataError(
            f"{file} is not text in {encoding}{where}; give its encoding, such as"
            f" {dialect.option('encoding', likely)}"
        ) from None
    except (LookupError, TypeError):
        raise DataError(
            f"unknown encoding: {encoding}; give one such as {dialect.option('encoding', 'utf-8')}"
        ) from None


def read_cells(file: Path, dialect: Dialect) -> TextTable:
    """Return the cells of a table of text, whose first line names the columns.

    Cells may be quoted, and lines without a character are left out. This is the only reader of
    such files: of ``mcframe.datasets.read_csv``, and of commands.

    Raises
    ------
    DataError
        Where the first line names nothing, a row has another number of cells, a quote is not
        closed, or the file is no text; the message names file, line and remedy.
    """
    text, delimiter = read_text(file, dialect), dialect.delimiter
    by_arrow = arrow_cells.columns_of_text(text, delimiter) if arrow_cells.is_installed() else None
    if by_arrow is None:
        return read_plainly(file, text, dialect)
    names, columns = by_arrow
    check_names(file, names, dialect)
    return TextTable(file, names, columns, range(2, len(columns[0]) + 2))


def check_names(file: Path, names: list[str], dialect: Dialect) -> None:
    """Raise a ``DataError`` where the first line names nothing, or holds another delimiter."""
    if not any(name.strip() for name in names):
        raise DataError(f"{file}: the first line is empty; it must name the columns")
    others = [mark for mark in DELIMITERS if mark in names[0] and mark != dialect.delimiter]
    if len(names) == 1 and others:
        option = dialect.option("delimiter", others[0])
        raise DataError(
            f"{file} has a single column, called {names[0]!r}; give what stands between two"
            f" cells, such as {option}"
        )


def read_plainly(file: Path, text: str, dialect: Dialect) -> TextTable:
    """Return the cells of any table of text by the reader of Python.

    Raises
    ------
    DataError
        As ``read_cells``.
    """
    delimiter = dialect.delimiter
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        names = next(reader, [])
        for row in filter(None, reader):
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        check_quotes(file, text, delimiter)
        raise DataError(
            f"{file}: line {reader.line_num} cannot be read ({error}); check its quotes"
        ) from None
    check_names(file, names, dialect)
    if '"' in text and any("\n" in cell or "\r" in cell for row in rows for cell in row):
        check_quotes(file, text, delimiter)
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise DataError(
                f"{file}: line {line} has {counted(len(row), 'cell')}, and the first line has"
                f" {len(names)}; add or remove cells (an empty one is a missing value), and quote"
                " a cell that holds the delimiter"
            )
    columns = [list(cells) for cells in zip(*rows, strict=True)] or [[] for _ in names]
    return TextTable(file, names, columns, lines)


def list_of_cells(cells: Any) -> list[Any]:
    """Return the cells or the values of a column as a list; they may be in an array of Arrow."""
    return cells if isinstance(cells, list) else cells.to_pylist()


def check_quotes(file: Path, text: str, delimiter: str) -> None:
    """Raise a ``DataError`` where a quote is not closed, so that rows became a single cell."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    before = 0
    try:
        for _ in reader:
            before = reader.line_num
    except csv.Error:
        raise DataError(
            f"{file}: line {before + 1} and those after it have a quote that is not closed, or"
            " text behind a closing one; write a quote within a quoted cell twice"
        ) from None


# Columns of these dtypes stay text, whatever their text reads as.
TEXT_TYPES = (nw.String, nw.Categorical, nw.Enum, nw.Object)


def column_of_text(
    name: str,
    cells: Any,
    like: Any = None,
    decimal: str = ".",
    dates: str | None = None,
) -> ReadColumn:
    """Return a column of text as numbers or dates where all of its cells read as these.

    Parameters
    ----------
    name : str
    cells : list of str or None, or array of Arrow
        None where an entry is missing; so are the cells that are empty, or in ``MISSING``.
    like : dtype of narwhals, optional
        That of a fitted column: text stays text, and numbers that need not be whole are floats.
    decimal : str
        What stands before decimals.
    dates : str, optional
        The format of dates in the words of ``strptime``, beside that of ISO.
    """
    if not isinstance(cells, list):
        column = read_arrow_column(name, cells, like) if dates is None and decimal == "." else None
        if column is not None:
            return column
    cells = list_of_cells(cells)
    texts = [None if cell is None else cell.strip() for cell in cells]
    texts = [None if text in MISSING else text for text in texts]
    observed = [text for text in texts if text is not None]
    kind: CellKind = "text"
    values: list[Any] | None = None
    if observed and like not in TEXT_TYPES:
        if dates is not None:
            kind, values = read_times(texts, dates)
        if values is None:
            if decimal != ".":
                texts, observed = (with_points(part, decimal) for part in (texts, observed))
            kind, values = read_texts(texts, observed, like is not None and like.is_float())
    if values is None:
        kept = zip(texts, cells, strict=True)
        return ReadColumn(name, "text", [None if text is None else cell for text, cell in kept])
    return ReadColumn(name, kind, values)


def read_arrow_column(name: str, cells: Any, like: Any) -> ReadColumn | None:
    """Return what ``column_of_text`` does of an array of Arrow; None where that is to read it."""
    texts = arrow_cells.without_missing(cells, MISSING)
    if texts.null_count < len(texts) and like not in TEXT_TYPES:
        for pattern, kind, _ in READINGS:
            is_other = kind == "whole" and like is not None and like.is_float()
            if is_other or not arrow_cells.matches(texts, pattern, every=True):
                continue
            if kind == "number" and arrow_cells.matches(texts, LONG, every=False):
                break
            values = arrow_cells.as_type(texts, kind)
            return None if values is None else ReadColumn(name, kind, values)
    observed = arrow_cells.without_missing(cells, MISSING, stripped=False)
    return ReadColumn(name, "text", observed)


def read_times(texts: Sequence[str | None], form: str) -> tuple[CellKind, list[Any] | None]:
    """Return days or times in a format of ``strptime``; None for the values where one is none."""
    kind: CellKind = "time" if CLOCK.search(form) else "date"
    times: dict[str | None, Any] = {None: None}
    try:
        for text in {*texts} - {None}:
            time = dt.datetime.strptime(str(text), form)
            times[text] = time if kind == "time" else time.date()
    except ValueError:
        return "text", None
    return kind, [times[text] for text in texts]


def with_points(texts: list[Any], decimal: str) -> list[Any]:
    """Return texts with a point before decimals, and without points before thousands."""
    written = [text for text in texts if text is not None]
    if all(map(THOUSANDS.fullmatch, written)):
        texts = [text and text.replace(".", "") for text in texts]
    return [text and text.replace(decimal, ".") for text in texts]


def read_texts(
    texts: Sequence[str | None], observed: Sequence[str], is_float: bool
) -> tuple[CellKind, list[Any] | None]:
    """Return what all texts read as: numbers or times; None for the values where they do not."""
    for pattern, kind, reading in READINGS:
        if (kind == "whole" and is_float) or not all(map(pattern.fullmatch, observed)):
            continue
        if kind == "number" and any(len(t) > LENGTH and LONG.fullmatch(t) for t in observed):
            break
        with suppress(ValueError):  # no day of the calendar
            return kind, [None if text is None else reading(text) for text in texts]
        break
    return "text", None


def frame_of_columns(columns: Sequence[ReadColumn]) -> Any:
    """Return a table of these columns: of pyarrow, polars or pandas, whichever is installed.

    Raises
    ------
    DataError
        Where none of them is.
    """
    for library in LIBRARIES:
        try:
            module = import_module(library)
        except ModuleNotFoundError:
            continue
        return MAKERS[library](module, columns)
    raise DataError(
        "a table in a file needs a library of tables, and neither pyarrow, polars nor pandas can"
        ' be imported: pip install "mcframe[cli]"'
    )


def arrow_table(pa: Any, columns: Sequence[ReadColumn]) -> Any:
    """Return a table of pyarrow."""
    kinds = {"text": pa.string(), "whole": pa.int64(), "number": pa.float64()}
    kinds |= {"date": pa.date32(), "time": pa.timestamp("us")}
    arrays = [
        pa.array(column.values, type=kinds[column.kind])
        if isinstance(column.values, list)
        else column.values
        for column in columns
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def polars_frame(pl: Any, columns: Sequence[ReadColumn]) -> Any:
    """Return a DataFrame of polars."""
    kinds = {"text": pl.String, "whole": pl.Int64, "number": pl.Float64}
    kinds |= {"date": pl.Date, "time": pl.Datetime("us")}
    return pl.DataFrame(
        [
            pl.Series(column.name, list_of_cells(column.values), dtype=kinds[column.kind])
            for column in columns
        ]
    )


def pandas_frame(pd: Any, columns: Sequence[ReadColumn]) -> Any:
    """Return a DataFrame of pandas, which has no dtype for days: they are times at midnight."""
    kinds = {"text": object, "whole": "Int64", "number": np.float64}
    kinds |= {"date": "datetime64[us]", "time": "datetime64[us]"}
    return pd.DataFrame(
        {
            column.name: pd.Series(list_of_cells(column.values), dtype=kinds[column.kind])
            for column in columns
        }
    )


MAKERS: dict[str, Callable[[Any, Sequence[ReadColumn]], Any]] = {
    "pyarrow": arrow_table,
    "polars": polars_frame,
    "pandas": pandas_frame,
}


def rows_with_lines(table: TextTable, places: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line of each row, and its cells in some of the columns."""
    columns = [list_of_cells(table.columns[place]) for place in places]
    for row, line in enumerate(table.lines):
        yield line, [cells[row] for cells in columns]
