"""ARFF, the text format of Weka and Mulan: a header that declares columns, then rows."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.datasets.files import read_text, refuse_repeated, some_names

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
# A value up to the next comma; commas between quotation marks are part of it.
VALUE = re.compile(rf"""\s*({QUOTED}|[^,'"]*?)\s*(,|$)""")
PAIR = re.compile(rf"\s*(\d+)\s+{VALUE.pattern}")
DECLARATION = re.compile(rf"""@attribute\s+({QUOTED}|[^\s{{'"]+)\s*(.*)""", re.IGNORECASE)
NOMINAL = re.compile(rf"""\{{((?:{QUOTED}|[^'"}}])*)\}}\s*(%.*)?""")
NUMERIC = re.compile(r"(numeric|real|integer)\s*(%.*)?", re.IGNORECASE)
ESCAPED = re.compile(r"\\(.)")
CONTROL = {"n": "\n", "t": "\t", "r": "\r"}
MISSING = "?"


@attrs.frozen
class Attribute:
    """A column: its name, and the values that it may have, None for numbers."""

    name: str
    values: tuple[str, ...] | None = None


@attrs.frozen(eq=False)
class ArffTable:
    """The content of an ARFF file.

    Attributes
    ----------
    attributes : one for each column
    cells : array (n_items, n_columns)
        Numbers; of a nominal column the place of the value among those declared; NaN where
        the file has ``?``.
    """

    attributes: tuple[Attribute, ...]
    cells: Array


@attrs.frozen
class ArffLine:
    """A line of a file, which errors name."""

    file: Path
    number: int
    text: str

    def wrong(self, what: str) -> DataError:
        """Make the error that says what is wrong here."""
        return DataError(f"{self.file}, line {self.number}: {what}")


def read_arff(file: Path, encoding: str = "utf-8") -> ArffTable:
    """Read an ARFF file, dense or sparse, of numeric and nominal attributes.

    A row ``{3 1.5, 7 a}`` is sparse: what it does not name is 0 or, of a nominal attribute, the
    first value that is declared, as in Weka.

    Raises
    ------
    DataError
        An attribute of another type, a value that was not declared or is no number, a row of
        another length; it names file, line, attribute, value and remedy.
    """
    lines = lines_of(file, encoding)
    attributes = tuple(header(file, lines))
    refuse_repeated(file, [attribute.name for attribute in attributes], "attributes")
    rows = [cells_of(attributes, line) for line in lines]
    if not rows:
        raise DataError(f"{file} has no rows after its line @data; is it complete?")
    return ArffTable(attributes, np.array(rows))


def lines_of(file: Path, encoding: str) -> Iterator[ArffLine]:
    """Yield the lines that are neither empty nor a comment."""
    for number, line in enumerate(read_text(file, encoding).splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("%"):
            yield ArffLine(file, number, stripped)


def header(file: Path, lines: Iterator[ArffLine]) -> Iterator[Attribute]:
    """Read the attributes, up to and with the line @data."""
    empty = True
    for line in lines:
        keyword = line.text.split(maxsplit=1)[0].lower()
        if keyword == "@data":
            if empty:
                raise line.wrong("no attribute is declared before @data")
            return
        if keyword == "@attribute":
            empty = False
            yield read_attribute(line)
        elif keyword != "@relation":
            raise line.wrong(
                f"{line.text[:40]!r} is neither @relation, @attribute, @data nor a comment, which"
                " begins with %"
            )
    raise DataError(f"{file} has no line @data; is it an ARFF file, and complete?")


def read_attribute(line: ArffLine) -> Attribute:
    """Read one attribute."""
    declared = DECLARATION.fullmatch(line.text)
    if declared is None:
        raise line.wrong(f"{line.text[:60]!r} declares nothing; @attribute NAME TYPE is needed")
    name, kind = without_quotes(declared[1]), declared[2]
    if NUMERIC.fullmatch(kind):
        return Attribute(name)
    nominal = NOMINAL.fullmatch(kind)
    if nominal is None:
        raise line.wrong(
            f"attribute {name!r} is of the type {kind[:40]!r}; only numeric, real, integer and"
            " {value, value} are read: remove the attribute, or turn it into numbers"
        )
    return Attribute(name, tuple(without_quotes(value) for value in values_of(nominal[1], line)))


def values_of(text: str, line: ArffLine) -> list[str]:
    """Split at commas outside quotation marks."""
    if "'" not in text and '"' not in text:
        return [value.strip() for value in text.split(",")]
    values, place, more = [], 0, True
    while more:
        match = VALUE.match(text, place)
        if match is None:
            raise line.wrong(f"quotation marks do not match at {text[place : place + 40]!r}")
        values.append(match[1])
        place, more = match.end(), match[2] == ","
    return values


def without_quotes(text: str) -> str:
    """Take off quotation marks and undo backslashes between them."""
    if text[:1] in ("'", '"') and len(text) > 1:
        return ESCAPED.sub(lambda match: CONTROL.get(match[1], match[1]), text[1:-1])
    return text


def as_number(text: str) -> float | None:
    """Read a number, None where it is none; Python alone would take 1_000 for one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if "_" in text or math.isinf(value) else value


def cells_of(attributes: tuple[Attribute, ...], line: ArffLine) -> list[float]:
    """Read a line of values as numbers."""
    text = line.text
    if text.startswith("{"):
        return sparse_cells(attributes, line)
    values = values_of(text, line)
    if len(values) != len(attributes):
        raise line.wrong(
            f"{len(values)} values were given for {len(attributes)} attributes; write"
            " one for each, ? where it is missing"
        )
    return [cell_of(*pair, line) for pair in zip(attributes, values, strict=True)]


def sparse_cells(attributes: tuple[Attribute, ...], line: ArffLine) -> list[float]:
    """Read pairs of a place, from 0, and the value there."""
    text = line.text
    if not text.endswith("}"):
        raise line.wrong("a sparse row begins with { and does not end with }")
    cells = [0.0] * len(attributes)
    taken = set()
    inner = text[1:-1].strip()
    at, more = 0, bool(inner)
    while more:
        pair = PAIR.match(inner, at)
        if pair is None:
            raise line.wrong(
                f"{inner[at : at + 40]!r} is no pair of a place and a value, such as 3 1.5"
            )
        place, value = int(pair[1]), pair[2]
        at, more = pair.end(), pair[3] == ","
        if place >= len(cells) or place in taken:
            reason = "twice" if place in taken else f"but {len(cells) - 1} is the last"
            raise line.wrong(f"place {place} is named, {reason}; places count from 0")
        taken.add(place)
        cells[place] = cell_of(attributes[place], value, line)
    return cells


def cell_of(attribute: Attribute, text: str, line: ArffLine) -> float:
    """Read one value."""
    if text == MISSING:
        return math.nan
    if attribute.values is not None:
        value = without_quotes(text)
        if value in attribute.values:
            return float(attribute.values.index(value))
        raise line.wrong(
            f"{value!r} was given for {attribute.name!r}, which is declared as"
            f" {{{some_names(attribute.values)}}}; declare it, or write ? where it is missing"
        )
    number = as_number(text)
    if number is None:
        raise line.wrong(
            f"{text!r} was given for {attribute.name!r}, which is numeric; a finite number is"
            " needed, or ? where it is missing"
        )
    return number
