"""Tables of features and labels in ARFF, with a list of labels as of Mulan, and of OpenML."""

import difflib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.data_forms import is_sparse_matrix
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import exact, some_names, suggests_options
from mcframe.datasets import MultiLabel
from mcframe.datasets.delimited import Dialect, read_text
from mcframe.datasets.readers import as_number, find_file, refuse_repeated

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


@attrs.frozen
class ArffLine:
    """A line of a file, which errors name."""

    file: Path
    number: int
    text: str

    def wrong(self, what: str) -> DataError:
        """Make the error that says what is wrong here."""
        return DataError(f"{self.file}, line {self.number}: {what}")


def read_arff(file: Path, encoding: str = "utf-8") -> tuple[tuple[Attribute, ...], Array]:
    """Read the attributes and cells of an ARFF file, dense or sparse, numeric and nominal.

    Cells (n_items x n_attributes) are numbers; of a nominal attribute the place of the value among
    those declared; NaN where the file has ``?``. A row ``{3 1.5, 7 a}`` is sparse: what it does
    not name is 0 or, of a nominal attribute, the first value that is declared, as in Weka.

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
    return attributes, np.array(rows)


def lines_of(file: Path, encoding: str) -> Iterator[ArffLine]:
    """Yield the lines that are neither empty nor a comment."""
    for place, line in enumerate(read_text(file, Dialect(encoding=encoding)).splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("%"):
            yield ArffLine(file, place, stripped)


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
                " begins with %; is it an ARFF file?"
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


# How OpenML's data sets write the two values of a label.
VALUES = {"1": 1.0, "TRUE": 1.0, "1.0": 1.0, "0": 0.0, "FALSE": 0.0, "0.0": 0.0}


@suggests_options
def read_mulan(
    arff: str | os.PathLike[str], xml: str | os.PathLike[str], *, encoding: str = "utf-8"
) -> MultiLabel:
    """Read a pair of files as the Mulan project distributes them.

    Parameters
    ----------
    arff : path of the table
        Dense or sparse; numeric and nominal attributes, ``?`` where a value is missing. A
        relative path that does not exist is searched for in the folder that the environment
        variable ``MCFRAME_DATA`` names; likewise ``xml``.
    xml : path of the list of labels
        Elements ``<label name="...">``, nested or not, in any order.
    encoding : str
        Of the ARFF file.

    Returns
    -------
    MultiLabel
        Features and labels in the order of the ARFF file. A nominal feature whose values are
        numbers is that number. Another one with two values is a column of 0 (the first) and 1,
        with more values one such column for each, called ``name=value``; missing is NaN.

    Raises
    ------
    DataError
        It names file, line, attribute, value and remedy.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from papers.mulan import read_mulan
    >>> table = '''@relation two
    ... @attribute length numeric
    ... @attribute colour {red, green, blue}
    ... @attribute loud {0, 1}
    ... @data
    ... 1.5, red, 1
    ... ?, blue, 0
    ... '''
    >>> with tempfile.TemporaryDirectory() as place:
    ...     arff, xml = pathlib.Path(place) / "two.arff", pathlib.Path(place) / "two.xml"
    ...     _ = arff.write_text(table)
    ...     _ = xml.write_text('<labels><label name="loud"/></labels>')
    ...     data = read_mulan(arff, xml)
    >>> data.feature_names
    ('length', 'colour=red', 'colour=green', 'colour=blue')
    >>> data.features.tolist()
    [[1.5, 1.0, 0.0, 0.0], [nan, 0.0, 0.0, 1.0]]
    >>> data.labels.tolist()
    [[1.0], [0.0]]
    """
    file, list_of_labels = find_file(arff), find_file(xml)
    attributes, table = read_arff(file, encoding)
    wanted = label_names(list_of_labels)
    names = [attribute.name for attribute in attributes]
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"its {near[0]!r} is near" if near else "do the files belong together?"
            raise DataError(
                f"{list_of_labels} names the label {name!r}, which is no attribute of {file};"
                f" {hint}"
            )
    features: list[tuple[str, Array]] = []
    labels: list[tuple[str, Array]] = []
    for attribute, cells in zip(attributes, table.T, strict=True):
        if attribute.name in wanted:
            labels.append((attribute.name, label_column(attribute, cells, file)))
        else:
            features += feature_columns(attribute, cells)
    if not features:
        raise DataError(f"{list_of_labels} names every attribute of {file}: no feature is left")
    return MultiLabel(
        file.stem,
        np.column_stack([column for _, column in features]),
        np.column_stack([column for _, column in labels]),
        [name for name, _ in features],
        [name for name, _ in labels],
    )


def label_names(file: Path) -> list[str]:
    """Read the names of the labels; those of a hierarchy are all labels."""
    try:
        root = ET.parse(file).getroot()
    except ET.ParseError as error:
        raise DataError(f"{file} is not XML ({error}); is it the list of labels?") from None
    # A tag is "{name space}label" where the file declares a name space.
    elements = [e for e in root.iter() if e.tag.rpartition("}")[2] == "label"]
    names = [name for e in elements if (name := e.get("name")) is not None]
    if not names or len(names) < len(elements):
        raise DataError(
            f"{file} has {len(elements)} labels, {len(names)} of them with a name;"
            ' <label name="..."> is needed for each'
        )
    return names


def label_column(attribute: Attribute, cells: Array, file: Path) -> Array:
    """Read a label as 0 and 1, in whichever order they are declared."""
    if attribute.values is None:
        numbers = cells
        wrong = cells[~np.isnan(cells) & (cells != 0.0) & (cells != 1.0)]
        wrong_values = [exact(value) for value in wrong[:1]]
    else:
        wrong_values = [value for value in attribute.values if value not in ("0", "1")]
        numbers = (
            cells
            if wrong_values
            else codes_of(cells, [float(value) for value in attribute.values])
        )
    if wrong_values:
        raise DataError(
            f"{file}: the label {attribute.name!r} has the value {wrong_values[0]!r}; declare it"
            " as {0,1} and write 0, 1, or ? where it is missing"
        )
    return numbers


def feature_columns(attribute: Attribute, cells: Array) -> Iterator[tuple[str, Array]]:
    """Turn a feature into columns of numbers, with their names."""
    if attribute.values is None:
        yield attribute.name, cells
        return
    numbers = [as_number(value) for value in attribute.values]
    if None not in numbers:
        yield attribute.name, codes_of(cells, [n for n in numbers if n is not None])
        return
    skipped = 1 if len(attribute.values) == 2 else 0
    for place, value in enumerate(attribute.values[skipped:], skipped):
        yield (
            f"{attribute.name}={value}",
            np.where(np.isnan(cells), np.nan, (cells == place).astype(np.float64)),
        )


def codes_of(cells: Array, numbers: list[float]) -> Array:
    """Replace places among the declared values by numbers."""
    places = np.where(np.isnan(cells), len(numbers), cells).astype(np.intp)
    return np.array([*numbers, np.nan])[places]


@suggests_options
def fetch_multilabel(name: str | int, *, version: int | str = "active") -> MultiLabel:
    """Download a data set from openml.org, or take it from scikit-learn's cache.

    Parameters
    ----------
    name : str or int
        A name, such as ``"emotions"``, or the number of a data set, such as 40589.
    version : int or "active"
        Of that name; names are not unique at OpenML. Left alone where a number is given.

    Returns
    -------
    MultiLabel
        The labels are the targets that the data set declares. Nominal features become numbers
        as in ``read_mulan``; NaN is missing.

    Raises
    ------
    DataError
        If its targets are not labels of two values, such as classes.
    OSError
        If openml.org cannot be reached.
    ValueError
        From scikit-learn, where there is no such data set.

    Notes
    -----
    Nothing else in mcframe uses the network. ``sklearn.datasets.fetch_openml`` does the work and
    keeps the file in its ``data_home``.
    """
    from sklearn.datasets import fetch_openml  # only here: importing it is slow

    wanted = {"data_id": name} if isinstance(name, int) else {"name": name, "version": version}
    bunch = fetch_openml(**wanted, as_frame=False, parser="liac-arff")
    targets = np.asarray(bunch.target, dtype=object).reshape(len(bunch.target), -1)
    labels = [
        label_of(bunch.target_names[place], values, name) for place, values in enumerate(targets.T)
    ]
    # What a sparse table does not store is 0.
    sparse = is_sparse_matrix(bunch.data)
    table: Array = np.asarray(bunch.data.toarray() if sparse else bunch.data, dtype=float)
    nominal = {name: tuple(map(str, values)) for name, values in (bunch.categories or {}).items()}
    columns = [
        column
        for feature, values in zip(bunch.feature_names, table.T, strict=True)
        for column in feature_columns(Attribute(feature, nominal.get(feature)), values)
    ]
    return MultiLabel(
        str(bunch.details["name"]),
        np.column_stack([values for _, values in columns]),
        np.column_stack(labels),
        [feature for feature, _ in columns],
        list(bunch.target_names),
    )


def label_of(label: str, values: Array, name: str | int) -> Array:
    """Read a label as 0 and 1, NaN where it is missing."""
    column = np.empty(len(values))
    for row, value in enumerate(values):
        if value is None or value != value:  # NaN alone differs from itself
            column[row] = np.nan
        elif str(value).upper() in VALUES:
            column[row] = VALUES[str(value).upper()]
        else:
            raise DataError(
                f"{name}: target {label!r} is {value!r} in row {row}; this is no label of two"
                " values (0 and 1, or TRUE and FALSE): another data set or version is needed"
            )
    return column
