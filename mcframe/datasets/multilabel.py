"""Tables of items with features and several yes/no labels."""

import os
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import exact, suggests_options
from mcframe.datasets.readers import find_file, read_arrays

# Grey values of scikit-learn's digits run from 0 to 16.
DARKEST = 16.0


def as_matrix(value: Any) -> Array:
    """Convert to a float matrix (attrs), or raise a ``DataError``."""
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"entries of type {np.asarray(value).dtype} were given; numbers are needed, with NaN"
            " where one is missing"
        ) from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(
            f"an array of shape {matrix.shape} was given; (n_items, n_columns) is needed, both"
            " above 0"
        )
    if np.isinf(matrix).any():
        raise DataError("infinite entries were given; replace them by NaN if they are missing")
    return matrix


def as_names(value: Any) -> tuple[str, ...]:
    """Convert to a tuple of strings (attrs)."""
    return tuple(str(name) for name in value)


def are_labels(instance: "MultiLabel", _attribute: object, value: Array) -> None:
    """Demand 0, 1 or NaN, and as many rows as the features (attrs)."""
    wrong = ~np.isnan(value) & (value != 0.0) & (value != 1.0)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"{instance.name}: label {exact(value[row, column])} in row {row}, column {column};"
            " recode the labels as 0 and 1, with NaN where one is missing"
        )
    if len(value) != len(instance.features):
        raise DataError(
            f"{instance.name}: features of {len(instance.features)} items and labels of"
            f" {len(value)} were given; both need the same items, in the same order"
        )


def fit_columns(instance: "MultiLabel", attribute: Any, value: tuple[str, ...]) -> None:
    """Demand one name a column (attrs)."""
    block = instance.features if attribute.name == "feature_names" else instance.labels
    if len(value) != block.shape[1]:
        raise DataError(
            f"{instance.name}: {len(value)} {attribute.name} were given for {block.shape[1]}"
            " columns; give one name a column, or none at all"
        )


@attrs.frozen(eq=False, repr=False)
class MultiLabel:
    """Items with features and yes/no labels.

    Attributes
    ----------
    name : str
        How prints call the data.
    features : array (n_items, n_features)
        NaN where a value is missing.
    labels : array (n_items, n_labels)
        0 or 1; NaN where a label is missing.
    feature_names, label_names : tuple of str
        One a column; numbered where none are given.
    """

    name: str
    features: Array = attrs.field(converter=as_matrix)
    labels: Array = attrs.field(converter=as_matrix, validator=are_labels)
    feature_names: tuple[str, ...] = attrs.field(converter=as_names, validator=fit_columns)
    label_names: tuple[str, ...] = attrs.field(converter=as_names, validator=fit_columns)

    @feature_names.default
    def _numbered_features(self) -> list[str]:
        return [f"feature_{j}" for j in range(self.features.shape[1])]

    @label_names.default
    def _numbered_labels(self) -> list[str]:
        return [f"label_{j}" for j in range(self.labels.shape[1])]

    @property
    def n_items(self) -> int:
        """The number of rows."""
        return len(self.features)

    def rows(self, chosen: Any) -> "MultiLabel":
        """Keep some of the rows."""
        return attrs.evolve(self, features=self.features[chosen], labels=self.labels[chosen])

    def __repr__(self) -> str:
        x, y = self.features, self.labels
        positive = np.mean(y[~np.isnan(y)]) if not np.isnan(y).all() else 0.0
        return (
            f"{self.name}: {self.n_items} items, {x.shape[1]} features"
            f" ({np.isnan(x).mean():.0%} missing), {y.shape[1]} labels"
            f" ({np.isnan(y).mean():.0%} missing, {positive:.0%} of the rest are 1)"
        )


@suggests_options
def read_multilabel(path: str | os.PathLike[str]) -> MultiLabel:
    """Read a table of features and labels from an ``.npz`` file.

    Parameters
    ----------
    path : path of a file that ``numpy.savez`` or ``numpy.savez_compressed`` wrote
        It holds ``X`` (n_items, n_features), numbers, and ``Y`` (n_items, n_labels), 0 or 1;
        NaN is missing. It may hold ``feature_names`` and ``label_names``; other keys are left
        alone. A relative path that does not exist is searched for in the folder that the
        environment variable ``MCFRAME_DATA`` names. Pickled objects are never loaded.

    Raises
    ------
    DataError
        No such file, no npz file, a key missing, a wrong shape, a label that is not 0 or 1.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from mcframe.datasets import read_multilabel
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = pathlib.Path(place) / "two.npz"
    ...     np.savez(file, X=np.eye(2), Y=np.ones((2, 1)))
    ...     read_multilabel(file)
    two: 2 items, 2 features (0% missing), 1 labels (0% missing, 100% of the rest are 1)
    """
    file = find_file(path)
    arrays = read_arrays(
        file,
        needed=("X", "Y"),
        optional=("feature_names", "label_names"),
        recipe="write one with numpy.savez(path, X=features, Y=labels)",
    )
    names = {key: arrays[key] for key in ("feature_names", "label_names") if key in arrays}
    try:
        return MultiLabel(file.stem, arrays["X"], arrays["Y"], **names)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None


def digits() -> MultiLabel:
    """Load 1797 handwritten digits: 64 pixels in [0, 1], ten one-against-the-rest labels.

    Nothing is downloaded: scikit-learn installs them. Each item is an 8 x 8 picture, row by
    row; label k is 1 where the digit is k, so that one label of ten is 1.

    References
    ----------
    E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository.

    Examples
    --------
    >>> from mcframe.datasets import digits
    >>> digits()
    digits: 1797 items, 64 features (0% missing), 10 labels (0% missing, 10% of the rest are 1)
    """
    from sklearn.datasets import load_digits  # only here: importing it takes half a second

    source = load_digits()
    return MultiLabel(
        name="digits",
        features=source.data / DARKEST,
        labels=np.equal.outer(source.target, np.arange(10)),
        feature_names=source.feature_names,
        label_names=[str(k) for k in range(10)],
    )
