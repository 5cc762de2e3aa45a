"""Tables in files: formats, files that appear when they are whole, and rows in parts."""

import csv
import datetime as dt
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.contracts.limits import BATCH_ENTRIES, BATCH_NUMBERS
from mcframe.contracts.wording import wording
from mcframe.datasets.readers import find_file
from mcframe.runtime.machine import held
from mcframe.tables.columns import read_column, values_of

# What is missing if it is not installed, and how to get it.
TABLES = 'a table in Parquet or Arrow (pip install "mcframe[cli]")'
pa: Any = Deferred("pyarrow", TABLES)
compute: Any = Deferred("pyarrow.compute", TABLES)
feather: Any = Deferred("pyarrow.feather", TABLES)
parquet: Any = Deferred("pyarrow.parquet", TABLES)
# Where a field of Arrow names a type of another package.
EXTENSION = b"ARROW:extension:name"
MIDNIGHT = dt.time()
# The formats of tables, by the ending of their files.
FORMATS = {".csv": "csv", ".parquet": "parquet", ".arrow": "feather", ".feather": "feather"}


def format_of(path: Path) -> str:
    """Return the format of a table's file by its ending, or raise a ``DataError``."""
    if path.suffix.lower() not in FORMATS:
        tabs = r"; rename it to .csv and give --delimiter '\t'" * (path.suffix.lower() == ".tsv")
        raise DataError(f"{path}: the ending {', '.join(FORMATS)} is needed for a table{tabs}")
    return FORMATS[path.suffix.lower()]


def arrow_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Some errors, and those of pyarrow if it has been imported."""
    arrow = sys.modules.get("pyarrow")
    return others if arrow is None else (*others, arrow.ArrowException)


def gaps_by_name(missing: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return what stands for missing entries in each column, of arguments TEXT and NAME=TEXT.

    NAME= without a text says that no value of that column does.
    """
    everywhere, gaps = list[str](), dict[str, list[str]]()
    for text in missing:
        name = gaps_named(text, names)
        if name is None:
            everywhere.append(text)
        else:
            gaps.setdefault(name, []).extend([text[len(name) + 1 :]] * (len(name) + 1 < len(text)))
    return {
        name: [*everywhere, *gaps.get(name, [])] for name in names if everywhere or name in gaps
    }


def gaps_named(text: str, names: Sequence[str]) -> str | None:
    """Return the column that an argument NAME=TEXT is about, the longest such name, or None."""
    ends = [place for place, character in enumerate(text) if character == "="]
    return next((text[:place] for place in reversed(ends) if text[:place] in names), None)


def table_without_gaps(table: Any, missing: Sequence[str]) -> Any:
    """Return a table of Arrow without what stands for missing entries in its columns."""
    gaps = gaps_by_name(missing, table.column_names)
    columns = [
        without_gaps(column, gaps.get(name, ()))
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def without_gaps(column: Any, gaps: Sequence[str]) -> Any:
    """Return a column of Arrow without the values that stand for missing ones."""
    if not gaps:
        return column
    marked = read_column(nw.from_native(column, series_only=True), tuple(gaps)).marked
    if not marked.any():
        return column
    try:
        return compute.if_else(pa.array(marked), pa.scalar(None, column.type), column)
    except pa.ArrowNotImplementedError:  # of dictionaries
        kept = zip(column.to_pylist(), marked, strict=True)
        values = [None if gap else value for value, gap in kept]
        return pa.chunked_array([pa.array(values, type=column.type)])


def meet_extensions(schema: Any) -> bool:
    """True if a schema has types of another package that pyarrow knows from now on.

    Without pandas its periods are numbers.
    """
    if not any(EXTENSION in (field.metadata or {}) for field in schema):
        return False
    with suppress(ModuleNotFoundError):
        pa.array(import_module("pandas").PeriodIndex([], freq="D"))
        return True
    return False


@contextmanager
def reading(path: str | Path, file_format: str) -> Iterator[None]:
    """Turn errors within the block into a ``DataError`` that names the file that is read."""
    try:
        yield
    except arrow_errors(OSError, ValueError, LookupError) as error:
        if isinstance(error, DataError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path} cannot be read as {file_format}: {reason}") from None


@attrs.frozen(eq=False)
class ParquetRows:
    """The rows of a Parquet file, of which some are in memory at a time.

    Attributes
    ----------
    path : Path
    file : pyarrow.parquet.ParquetFile
        It stays open, so that all passes read the same rows.
    missing : tuple of str
        What stands for missing entries, too: TEXT in all columns, NAME=TEXT in one.
    """

    path: Path
    file: Any
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: str | os.PathLike[str], missing: Sequence[str] = ()) -> "ParquetRows":
        """The rows of the file of a path, or a ``DataError`` where there is none."""
        location = find_file(path)
        if format_of(location) != "parquet":
            raise DataError(
                f"{location}: rows are read in parts from a file that ends in .parquet; read"
                " another one as a whole, or write it as Parquet first"
            )
        with reading(location, "parquet"):
            file = parquet.ParquetFile(location)
            if meet_extensions(file.schema_arrow):
                file = parquet.ParquetFile(location)
        return cls(location, file, tuple(missing))

    @property
    def n_rows(self) -> int:
        """The number of all rows."""
        return int(self.file.metadata.num_rows)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.file.schema_arrow.names)

    def parts(self) -> Iterator[tuple[int, Any]]:
        """All rows in parts, in order: the number of the first row of a part, and its table."""
        size, first = max(1, BATCH_ENTRIES // max(len(self.names), 1)), 0
        batches = self.file.iter_batches(size, use_threads=False)
        while True:
            with reading(self.path, "parquet"):
                batch = next(batches, None)
            if batch is None:
                return
            table = pa.Table.from_batches([batch])
            table = table.replace_schema_metadata(self.file.schema_arrow.metadata)
            yield first, table_without_gaps(table, self.missing)
            first += batch.num_rows

    def take(self, rows: IntArray) -> Any:
        """The table of some rows, whose numbers ascend."""
        taken = [self.file.schema_arrow.empty_table()]
        for first, table in self.parts():
            begin, end = np.searchsorted(rows, [first, first + table.num_rows])
            taken.append(table.take(rows[begin:end] - first))
        return pa.concat_tables(taken).unify_dictionaries().combine_chunks()


def checked_output(
    path: Path, endings: Iterable[str], inputs: Iterable[Path], overwrite: bool
) -> Path:
    """Return where an output is to be written, links followed.

    Raises
    ------
    DataError
        Where it is an input, is there already, or cannot be written.
    """
    real = Path(os.path.realpath(path.expanduser()))
    if not {real.suffix.lower(), path.suffix.lower()} <= {*endings}:
        raise DataError(f"output {path}: the ending {', '.join(endings)} is needed")
    if not real.parent.is_dir():
        raise DataError(f"output {path}: its folder does not exist; make it first")
    if not os.access(real.parent, os.W_OK | os.X_OK):
        raise DataError(f"output {path}: its folder cannot be written to; give another one")
    if real.exists():
        if not real.is_file():
            raise DataError(f"output {path} is no file; give another path")
        if any(file.exists() and real.samefile(file) for file in inputs):
            raise DataError(f"output {path} is an input, which is never overwritten")
        if not overwrite:
            remedy = wording().either(python="overwrite=True", command="--overwrite")
            raise DataError(f"output {path} exists; give another path, or {remedy}")
    return real


def named_beside(path: Path, name: str) -> Path:
    """Return the path of a further output beside one: done.lower.csv beside done.csv."""
    return path.with_name(f"{path.stem}.{name}{path.suffix}")


def write_tables(tables: Mapping[Path, Any]) -> None:
    """Write tables into files, which appear under their names when all of them are whole.

    Raises
    ------
    DataError
        Where one cannot be written; then none is.
    """
    write_parts([*tables], [[*tables.values()]])


def write_parts(paths: Sequence[Path], parts: Iterable[Sequence[Any]]) -> None:
    """Write tables whose rows come in parts into files, as ``write_tables`` does.

    Parameters
    ----------
    paths : sequence of Path
        Of CSV or Parquet; others are written in one part.
    parts : iterable of sequences of tables
        Some rows of each of the tables. An error that it raises ends the writing.

    Raises
    ------
    DataError
        As in ``write_tables``.
    """
    with ExitStack() as stack:
        outputs = [stack.enter_context(unfinished_output(path)) for path in paths]
        for tables in parts:
            for output, table in zip(outputs, tables, strict=True):
                with writing(output.path):
                    output.writer.write(nw.from_native(table, eager_only=True))
        for output in outputs:
            with writing(output.path):
                output.writer.finish()
                output.file.flush()
                os.fsync(output.file.fileno())
        for output in outputs:
            with writing(output.path):
                os.replace(output.unfinished, output.path)


@attrs.frozen(eq=False)
class Output:
    """A file that is written under another name, until it is whole."""

    path: Path
    unfinished: Path
    file: IO[bytes]
    writer: "PartWriter"


@contextmanager
def unfinished_output(path: Path) -> Iterator[Output]:
    """An output that is empty, whose unfinished file is deleted at the end of the block."""
    unfinished = path.with_name(f"{path.name}.writing")
    with writing(path), ExitStack() as stack:  # to close a file may write what is left of it
        file = stack.enter_context(held(unfinished))
        stack.callback(unfinished.unlink, missing_ok=True)
        file.truncate(0)  # a process may have left it that died
        writer = WRITERS[format_of(path)](file)
        stack.callback(writer.release)
        yield Output(path, unfinished, file, writer)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors within the block into a ``DataError`` that names the file that is written."""
    try:
        yield
    except BlockingIOError:
        raise DataError(f"output {path} is being written by another process") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"output {path} cannot be written ({reason}); give another path") from None
    except arrow_errors() as error:
        raise DataError(f"output {path} cannot hold this table ({error})") from None


class PartWriter(Protocol):
    """Writes the parts of a table into an open file, one after the other."""

    def write(self, table: Any) -> None:
        """Write further rows, a ``narwhals.DataFrame``."""
        ...

    def finish(self) -> None:
        """Write what is left to write, if anything is."""

    def release(self) -> None:
        """Let go of the file, whether it is finished or not, if anything holds it."""


@attrs.define(eq=False)
class ParquetParts(PartWriter):
    """A table in Parquet, with the types of its first rows, and row groups of a good length."""

    file: IO[bytes]
    writer: Any = None
    waiting: list[Any] = attrs.field(factory=list)

    def write(self, table: Any) -> None:
        """Write further rows when there are enough of them."""
        new_writer = parquet.ParquetWriter  # an error that names pyarrow where it is not there
        rows = table.to_arrow()
        if self.writer is None:
            self.writer = new_writer(self.file, rows.schema)
        self.waiting.append(rows.cast(self.writer.schema))
        if sum(part.num_rows for part in self.waiting) * rows.num_columns >= BATCH_NUMBERS:
            self.write_waiting()

    def write_waiting(self) -> None:
        """Write the rows that wait as a row group."""
        if self.waiting:
            self.writer.write_table(pa.concat_tables(self.waiting).unify_dictionaries())
            self.waiting.clear()

    def finish(self) -> None:
        """Write the last rows, and the index of the file."""
        self.write_waiting()
        self.writer.close()

    def release(self) -> None:
        """Close what writes, which would do so later, when the file is closed."""
        if self.writer is not None and self.writer.is_open:
            with suppress(*arrow_errors(OSError)):  # of a file that is deleted
                self.writer.close()
            self.writer.is_open = False


@attrs.define(eq=False)
class FeatherTable(PartWriter):
    """A table in Feather, where all rows have the same list of categories: one part."""

    file: IO[bytes]

    def write(self, table: Any) -> None:
        """Write all rows."""
        feather.write_feather(table.to_arrow(), self.file)


@attrs.define(eq=False)
class CsvParts(PartWriter):
    """A table in CSV."""

    file: IO[bytes]
    has_names: bool = False

    def write(self, table: Any) -> None:
        """Write further rows, the first ones below the names of the columns."""
        text = io.TextIOWrapper(self.file, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        if not self.has_names:
            writer.writerow(table.columns)
            self.has_names = True
        writer.writerows(zip(*map(texts_of, table.iter_columns()), strict=True))
        text.detach()


WRITERS: Mapping[str, Callable[[IO[bytes]], PartWriter]] = {
    "parquet": ParquetParts,
    "feather": FeatherTable,
    "csv": CsvParts,
}


def texts_of(series: Any) -> list[Any]:
    """The values of a column as CSV has them, None where one is missing.

    Those of a type of another package, such as periods, are written as this does; times of pandas
    that are all at midnight are days, of which it has no dtype.
    """
    native, values = series.to_native(), values_of(series)
    if series.implementation.is_pyarrow():
        if isinstance(native.type, pa.BaseExtensionType):
            missing = native.is_null().to_pylist()
            pairs = zip(missing, native.to_pandas(), strict=True)
            return [None if gap else str(value) for gap, value in pairs]
    elif series.implementation.is_pandas() and isinstance(series.dtype, nw.Datetime):
        times = [value for value in values if value is not None]
        if all(time.time() == MIDNIGHT and time.tzinfo is None for time in times):
            return [None if value is None else value.date() for value in values]
    return values
