"""Multi-label data sets of OpenML, downloaded by scikit-learn when they are asked for."""

from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.datasets.arff import Attribute
from mcframe.datasets.mulan import feature_columns
from mcframe.datasets.multilabel import MultiLabel

__all__ = ["fetch_multilabel"]

# How OpenML's data sets write the two values of a label.
VALUES = {"1": 1.0, "TRUE": 1.0, "1.0": 1.0, "0": 0.0, "FALSE": 0.0, "0.0": 0.0}


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
    table = dense(bunch.data)
    columns = [
        column
        for feature, values in zip(bunch.feature_names, table.T, strict=True)
        for column in feature_columns(Attribute(feature, values_of(bunch, feature)), values)
    ]
    return MultiLabel(
        str(bunch.details["name"]),
        np.column_stack([values for _, values in columns]),
        np.column_stack(labels),
        [feature for feature, _ in columns],
        list(bunch.target_names),
    )


def values_of(bunch: Any, feature: str) -> tuple[str, ...] | None:
    """Give the values of a nominal feature, None for a number."""
    categories = bunch.categories or {}
    return tuple(map(str, categories[feature])) if feature in categories else None


def dense(table: Any) -> Array:
    """Write out a sparse table; what it does not store is 0 there."""
    array: Array = np.asarray(table.toarray() if hasattr(table, "toarray") else table, dtype=float)
    return array


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
