"""Multi-label data sets of the Mulan project (an ARFF and an XML file) and of OpenML."""

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.datasets.arff import Attribute, as_number, read_arff
from mcframe.datasets.files import find_file
from mcframe.datasets.multilabel import MultiLabel

# How OpenML's data sets write the two values of a label.
VALUES = {"1": 1.0, "TRUE": 1.0, "1.0": 1.0, "0": 0.0, "FALSE": 0.0, "0.0": 0.0}


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
    >>> from mcframe.datasets import read_mulan
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
    table = read_arff(file, encoding)
    wanted = label_names(list_of_labels)
    names = [attribute.name for attribute in table.attributes]
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
    for attribute, cells in zip(table.attributes, table.cells.T, strict=True):
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
        given = [f"{value:g}" for value in wrong[:1]]
    else:
        given = [value for value in attribute.values if value not in ("0", "1")]
        numbers = cells if given else codes_of(cells, [float(value) for value in attribute.values])
    if given:
        raise DataError(
            f"{file}: the label {attribute.name!r} has the value {given[0]!r}; declare it as"
            " {0,1} and write 0, 1, or ? where it is missing"
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
        Where its targets are not labels of two values, such as classes.
    OSError
        Where openml.org cannot be reached.
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
    sparse = hasattr(bunch.data, "toarray")
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
