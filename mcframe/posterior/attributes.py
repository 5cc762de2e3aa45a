"""Attributes of rows or columns as they are given: groups of numbers, and sets of observed cells.

Numbers in an array or a frame are counted from their means in units of their standard deviations,
a gap as the mean, and turned to their principal axes: under a prior of coefficients that is the
same for all of a group no answer depends on the axes, and sums over rows are then diagonal.
Numbers of a sparse matrix stay as they are, so that 0 means that the attribute is absent.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from scipy import sparse

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.data_forms import is_sparse_matrix
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.row_stores import refuse_stores
from mcframe.contracts.sent import Broadcast
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import (
    REAL_KINDS,
    NotANumber,
    a_type,
    as_given,
    floats_of,
    is_word,
    listed,
)
from mcframe.model.labels import frame_in_memory, is_frame, numbers_of_frame
from mcframe.posterior.coefficients import AttributeValues
from mcframe.posterior.observed import Observed

# The word for the set of cells that are observed in a row or column.
OBSERVED = "observed"
# Axes along which attributes vary by less than this share of the largest deviation are rounding.
LEAST_AXIS = 1e-7
# Each attribute has a covariance of all factors, and sums over rows are taken for it.
MOST_ATTRIBUTES = 20_000


@stored
@attrs.frozen(eq=False)
class AttributeGroup(Broadcast):
    """The reading of a group of attributes, for the rows of the fit and for new ones.

    Attributes
    ----------
    name : str
        Of the group in messages.
    n_given : int
        The number of attributes in what was given.
    labels : tuple or None
        Names of columns of a frame.
    centres : array (n_given,) or None
        Means; None of sparse matrices and observed sets, which stay as they are.
    axes : array (n_given x p) or None
        Principal axes, divided by standard deviations.
    is_observed, varies : bool
        Whether it is the sets of observed cells, and whether anything depends on the group.
    """

    name: str
    n_given: int
    labels: tuple[Any, ...] | None = None
    centres: Array | None = None
    axes: Array | None = None
    is_observed: bool = False
    varies: bool = True

    def numbers(self, raw: Any, n: int) -> Any:
        """The attributes of some rows as a sparse matrix (n x p)."""
        if self.centres is None or self.axes is None:
            return sparse_numbers(self.name, raw, n)
        numbers, _ = dense_numbers(self.name, raw, n)
        return sparse.csr_array(np.nan_to_num(numbers - self.centres) @ self.axes)

    def check_form(self, raw: Any) -> None:
        """Raise a ``DataError`` where attributes of new rows have another form than these."""
        if is_sparse_matrix(raw) != (self.centres is None):
            form = "a sparse matrix" if self.centres is None else "an array or a frame"
            raise DataError(
                f"{self.name}: {a_type(raw)} was given, and the fit had {form}; give the same"
            )
        labels = labels_of(raw)
        if self.labels is not None and labels is not None and labels != self.labels:
            raise DataError(
                f"{self.name}: columns {listed(labels, repr)} were given, and the fit had"
                f" {listed(self.labels, repr)}; give the same in this order"
            )
        if shape_of(raw)[1] != self.n_given:
            raise DataError(
                f"{self.name}: {shape_of(raw)[1]} attributes were given, and the fit had"
                f" {self.n_given}; give the same ones"
            )

    def __str__(self) -> str:
        name = self.name.partition("[")[2].strip("]'\"")
        kind = "observed cells" if self.is_observed else str(self.n_given)
        return f"{name} ({kind})" if name else kind


@stored
@attrs.frozen(eq=False)
class SparseAttributes(Broadcast):
    """A sparse matrix as files hold it, row after row."""

    starts: Array
    places: Array
    values: Array
    shape: tuple[int, int]

    @property
    def matrix(self) -> Any:
        """The numbers in the form of SciPy."""
        return sparse.csr_array((self.values, self.places, self.starts), shape=self.shape)


def storable(raw: Any) -> Any:
    """Attributes as they are given, sparse matrices in the form that files hold."""
    if isinstance(raw, Mapping):
        return {name: storable(group) for name, group in raw.items()}
    if not is_sparse_matrix(raw):
        return raw
    matrix = sparse.csr_array(raw)
    return SparseAttributes(matrix.indptr, matrix.indices, matrix.data, matrix.shape)


def stored_attributes(row_attributes: Any, column_attributes: Any) -> Any:
    """Attributes of both sides as options of an answer, in the form that files hold."""
    sides = {"row_attributes": row_attributes, "column_attributes": column_attributes}
    return {name: storable(raw) for name, raw in sides.items() if raw is not None}


def raw_groups(raw: Any, what: str) -> dict[str, Any]:
    """Attributes as they are given by the name of their group in messages; {} of None."""
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        groups = {what: raw}
    elif raw:
        groups = {f"{what}[{name!r}]": group for name, group in raw.items()}
    else:
        raise DataError(f"{what} is an empty dict; give a group of attributes, or leave it out")
    return {
        name: group.matrix if isinstance(group, SparseAttributes) else group
        for name, group in groups.items()
    }


@attrs.frozen(eq=False)
class AttributesRead:
    """Attributes of all rows, or of all columns, as they are read.

    Attributes
    ----------
    groups : tuple of AttributeGroup
    values : AttributeValues or None
        None where no attribute varies. Of rows in partitions, which have the values, without rows.
    mean_squares : array (p,)
        Of the values, over all rows.
    """

    groups: tuple[AttributeGroup, ...] = ()
    values: AttributeValues | None = None
    mean_squares: Array = attrs.field(factory=lambda: np.zeros(0))


def read_attributes(raw: Any, observed: Observed, side: int) -> AttributesRead:
    """Groups of attributes of rows (side 0) or columns (1) of Z, and their numbers.

    Attributes that do not vary are left out.
    """
    what, n = ("row_attributes", "column_attributes")[side], observed.shape[side]
    groups, numbers = [], []
    for name, raw_group in raw_groups(raw, what).items():
        group = group_of(name, raw_group, observed, side)
        chosen = observed_sets(observed, side) if group.is_observed else None
        chosen = group.numbers(raw_group, n) if chosen is None else chosen
        groups.append(attrs.evolve(group, varies=bool(chosen.count_nonzero())))
        if groups[-1].varies:
            numbers.append(chosen)
    n_attributes = sum(one.shape[1] for one in numbers)
    if n_attributes > MOST_ATTRIBUTES:
        raise ModelError(
            f"{what}: {n_attributes} attributes are more than {MOST_ATTRIBUTES}; take principal"
            " components of them, or leave rare ones out"
        )
    if not numbers:
        return AttributesRead(tuple(groups))
    values = AttributeValues.of(numbers)
    return AttributesRead(tuple(groups), values, values.sums_of_squares / n)


def read_new_rows(
    raw: Any, groups: tuple[AttributeGroup, ...], observed: Observed
) -> AttributeValues:
    """The attributes of new rows, in the groups of the fit."""
    new_groups = raw_groups(raw, "row_attributes")
    names = [group.name for group in groups if not group.is_observed]
    new_names = [name for name in new_groups if not is_word(new_groups[name], OBSERVED)]
    if sorted(new_names) != sorted(names):
        needed = f"{listed(names)} of each new row" if names else "no attributes"
        raise DataError(
            f"{listed(new_names) if new_names else 'no row_attributes'} of new rows were"
            f" given, and the fit needs {needed}; give as row_attributes what the posterior had,"
            " of the new rows"
        )
    numbers = []
    for group in groups:
        if group.is_observed:
            numbers.append(observed_sets(observed, 0))
        else:
            group.check_form(new_groups[group.name])
            chosen = group.numbers(new_groups[group.name], observed.shape[0])
            if group.varies:
                numbers.append(chosen)
    return AttributeValues.of(numbers)


def group_of(name: str, raw: Any, observed: Observed, side: int) -> AttributeGroup:
    """The group that is read from these attributes."""
    if isinstance(raw, str):
        if not is_word(raw, OBSERVED):
            raise ModelError(
                f"{name}={raw!r} was given; {OBSERVED!r}, an array, a frame or a sparse matrix"
                " is needed"
            )
        return AttributeGroup(name, observed.shape[1 - side], is_observed=True)
    refuse_stores(raw, f"{name}: ")
    n = observed.shape[side]
    if is_sparse_matrix(raw):
        return AttributeGroup(name, sparse_numbers(name, raw, n).shape[1])
    numbers, labels = dense_numbers(name, raw, n)
    n_given = numbers.shape[1]
    return dense_group(name, labels, (n, n_given), lambda centres: moments_about(numbers, centres))


def dense_group(
    name: str,
    labels: tuple[Any, ...] | None,
    shape: tuple[int, int],
    moments: Callable[[Array], tuple[IntArray, Array, Array]],
) -> AttributeGroup:
    """The group of numbers (n x p), wherever these are, by ``moments_about`` of all rows."""
    counts, sums, _ = moments(np.zeros(shape[1]))
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        label = empty[0] if labels is None else repr(labels[empty[0]])
        raise DataError(f"{name}: attribute {label} has no number; drop it")
    centres = sums / counts
    products = moments(centres)[2]
    sds = np.sqrt(np.diag(products) / shape[0])
    varies = sds > LEAST_AXIS * np.abs(centres)
    units = np.where(varies, 1.0 / np.where(varies, sds, 1.0), 0.0)
    sizes, axes = np.linalg.eigh(units[:, None] * products * units)
    kept = sizes > LEAST_AXIS * max(float(sizes[-1]), 1.0)
    return AttributeGroup(name, shape[1], labels, centres, units[:, None] * axes[:, kept])


def moments_about(numbers: Array, centres: Array) -> tuple[IntArray, Array, Array]:
    """Counts (p,), and sums of deviations (p,) and of their products (p x p), where gaps are 0."""
    gaps = np.isnan(numbers)
    deviations = np.where(gaps, 0.0, numbers - centres)
    return np.sum(~gaps, axis=0), np.sum(deviations, axis=0), deviations.T @ deviations


def observed_sets(observed: Observed, side: int) -> Any:
    """The set of observed cells of each row or column, with weights of its size ** -1/2."""
    by_rows, shape = observed.by_rows, observed.shape
    ones = np.ones(by_rows.across.size)
    sets = sparse.csr_array((ones, by_rows.across, by_rows.starts), shape=shape)
    if side:
        sets = sets.T.tocsr()
    sizes = np.maximum(np.asarray(sets.sum(axis=1)).ravel(), 1.0)
    return sparse.csr_array(sparse.diags_array(sizes**-0.5) @ sets)


def sparse_numbers(name: str, raw: Any, n: int) -> Any:
    """The numbers of a sparse matrix of n rows."""
    matrix = sparse.csr_array(raw)
    if matrix.dtype.kind not in REAL_KINDS:
        raise DataError(
            f"{name}: a sparse matrix of {matrix.dtype} was given; one of real numbers is needed"
        )
    matrix = matrix.astype(np.float64)
    check_rows(name, matrix.shape[0], n)
    if not np.all(np.isfinite(matrix.data)):
        entries = matrix.tocoo()
        wrong = int(np.flatnonzero(~np.isfinite(entries.data))[0])
        raise DataError(
            f"{name}: row {entries.row[wrong]}, attribute {entries.col[wrong]} is"
            f" {entries.data[wrong]}; a sparse matrix needs finite numbers (an array"
            " may have NaN as gaps)"
        )
    return matrix


def dense_numbers(name: str, raw: Any, n: int) -> tuple[Array, tuple[Any, ...] | None]:
    """The numbers of an array or frame of n rows, NaN where missing, and names of its columns."""
    labels = labels_of(raw)
    try:
        if labels is not None:
            numbers = numbers_of_frame(frame_in_memory(raw, f"{name}: "))
        else:
            numbers = floats_of(raw)
    except NotANumber as error:
        at = error.position
        place = f"row {at[0]}" if at else "the value"
        if len(at) > 1:
            place += f", attribute {at[1] if labels is None else repr(labels[at[1]])}"
        raise DataError(
            f"{name}: {place} is {as_given(error.value)}, no number; give indicators of categories"
        ) from None
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"{name}: {a_type(raw)} was given, which numpy reads as no array; an array or a"
            " frame of numbers is needed, with a row for each row of the data"
        ) from None
    if numbers.ndim == 1:
        numbers = numbers[:, None]
    if numbers.ndim != 2 or not numbers.shape[1]:
        raise DataError(
            f"{name}: an array of shape {numbers.shape} was given; (rows x attributes) is needed"
        )
    check_rows(name, numbers.shape[0], n)
    infinite = np.argwhere(np.isinf(numbers))
    if infinite.size:
        row, column = infinite[0]
        label = column if labels is None else repr(labels[column])
        raise DataError(
            f"{name}: row {row}, attribute {label} is {numbers[row, column]}; give a finite"
            " number, or NaN where it is unknown"
        )
    return numbers, labels


def check_rows(name: str, n_given: int, n: int) -> None:
    """Raise a ``DataError`` where there are more or fewer rows of attributes than n."""
    if n_given != n:
        what = "column" if name.startswith("column") else "row"
        raise DataError(
            f"{name}: attributes of {n_given} {what}s were given, and the data have {n}; give one"
            f" row of attributes for each {what} of the data"
        )


def labels_of(raw: Any) -> tuple[Any, ...] | None:
    """The names of a frame's columns; None of anything else."""
    return tuple(frame_in_memory(raw).columns) if is_frame(raw) else None


def shape_of(raw: Any) -> tuple[int, int]:
    """Rows and attributes of what is given."""
    shape = np.shape(raw)
    return (shape[0], 1) if len(shape) == 1 else (shape[0], shape[1])
