"""Groups of rows, such as the visits of one patient: labels, the group of each row, and trends."""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import NotANumber, as_given, floats_of
from mcframe.contracts.wording import wording

# Polynomials of time differ from those of lower degrees by at least this root mean square, with
# times from -1 to 1: below it they are rounding.
LEAST_SHARE_OF_TIMES = 1e-7


@attrs.frozen(eq=False)
class GroupMembers:
    """The group of each row, and the functions of time with which the means of groups move.

    The mean of row i of group g is ``sum_a f_ia c_ga`` with q functions f, the first of which is
    1, and q vectors c_ga of coefficients, one after the other.

    Attributes
    ----------
    numbers : array of integers (n,)
    functions : array (n x q) or None
        None where means do not move: one function, which is 1.
    """

    numbers: IntArray
    functions: Array | None = None

    def take(self, rows: IntArray | Mask | slice) -> "GroupMembers":
        """Some of the rows."""
        functions = None if self.functions is None else self.functions[rows]
        return GroupMembers(self.numbers[rows], functions)

    def means(self, coefficients: Array) -> Array:
        """The means of the groups of rows (n x d), of coefficients of groups (G x qd)."""
        of_rows: Array = coefficients[self.numbers]
        if self.functions is None:
            return of_rows
        n, q = self.functions.shape
        return np.einsum("nq,nqd->nd", self.functions, of_rows.reshape(n, q, -1))

    def covariances(self, of_coefficients: Array) -> Array:
        """The covariances of these means (n x d x d), of those of coefficients (G x qd x qd)."""
        of_rows: Array = of_coefficients[self.numbers]
        if self.functions is None:
            return of_rows
        n, q = self.functions.shape
        d = of_rows.shape[1] // q
        blocks = of_rows.reshape(n, q, d, q, d)
        return np.einsum("na,naibj,nb->nij", self.functions, blocks, self.functions, optimize=True)


@stored
@attrs.frozen(eq=False)
class Trend:
    """Polynomials of time that have mean 0 and mean square 1 over the rows of a table.

    They are ``[1, t, ..., t^degree] coefficients`` with ``t = (time - centre) / scale``, and are
    orthogonal to each other over these rows.

    Attributes
    ----------
    centre, scale : float
    coefficients : array (degree + 1, degree + 1)
        Upper triangular; the first polynomial is 1.
    """

    centre: float
    scale: float
    coefficients: Array

    @classmethod
    def of_times(cls, times: Array, degree: int) -> "Trend":
        """The polynomials for rows at these times; a ``DataError`` if too few times differ."""
        largest = float(np.max(np.abs(times), initial=0.0)) or 1.0
        centre = float(np.mean(times / largest)) * largest
        scale = float(np.max(np.abs(times - centre))) or 1.0
        powers = np.vander((times - centre) / scale, degree + 1, increasing=True)
        triangle = np.linalg.qr(powers / np.sqrt(times.size), mode="r")
        sizes = np.diag(triangle)
        if times.size <= degree or np.min(np.abs(sizes)) < LEAST_SHARE_OF_TIMES:
            n_times = np.unique(times).size
            raise DataError(
                f"trend={degree} was given, and the rows have {n_times} different"
                f" time{'s' * (n_times != 1)}, or such as hardly differ; at least {degree + 1} are"
                " needed, or a lower degree"
            )
        return cls(centre, scale, np.linalg.inv(triangle * np.sign(sizes)[:, None]))

    @property
    def degree(self) -> int:
        """The highest power of time."""
        return len(self.coefficients) - 1

    def functions(self, times: Array) -> Array:
        """The polynomials at these times (n x (degree + 1))."""
        scaled = (times - self.centre) / self.scale
        return np.vander(scaled, len(self.coefficients), increasing=True) @ self.coefficients


@stored
@attrs.frozen
class RowGroups:
    """The groups of the rows of a table, numbered in the order in which they appear.

    Attributes
    ----------
    labels : tuple
        Of the groups.
    numbers : array of integers (n,)
        The group of each row.
    trend : Trend or None
        With which the means of groups move in time; None where they do not.
    functions : array (n x q) or None
        What the trend has at the times of the rows.
    """

    labels: tuple[Any, ...]
    numbers: IntArray = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)
    trend: Trend | None = attrs.field(default=None, eq=False)  # not in files of earlier versions
    functions: Array | None = attrs.field(
        default=None, eq=attrs.cmp_using(eq=np.array_equal), hash=False
    )

    @classmethod
    def of(cls, groups: Any, what: str = "groups") -> "RowGroups":
        """The groups of rows with these labels; a ``DataError`` names a row without one."""
        if isinstance(groups, RowGroups):
            return groups
        labels = labels_of(groups, what)
        numbers: dict[Any, int] = {}
        for label in labels:
            numbers.setdefault(label, len(numbers))
        return cls(tuple(numbers), np.array([numbers[label] for label in labels], dtype=np.intp))

    def of_new_rows(self, groups: Any, times: Any, n_rows: int) -> GroupMembers:
        """The groups of so many new rows; those that are not known have numbers from ``count`` on.

        A ``DataError`` says where there is not one label or not one time for each row.
        """
        numbers = {label: k for k, label in enumerate(self.labels)}
        labels = labels_of(groups, "groups")
        if len(labels) != n_rows:
            raise DataError(
                f"groups has {len(labels)} labels; one for each of the {n_rows} rows is needed"
            )
        of_rows = np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.intp)
        if self.trend is None or times is None:
            return GroupMembers(of_rows)
        checked = checked_times(times, "times", n_rows)
        return GroupMembers(of_rows, self.trend.functions(checked))

    def moving(self, times: Array, degree: int) -> "RowGroups":
        """Groups whose means are polynomials of the times of rows (n,)."""
        if degree == 0 or self.trend is not None:
            return self
        trend = Trend.of_times(times, degree)
        return attrs.evolve(self, trend=trend, functions=trend.functions(times))

    @property
    def members(self) -> GroupMembers:
        """The group of each row, and the functions of its time."""
        return GroupMembers(self.numbers, self.functions)

    def take(self, rows: IntArray) -> "RowGroups":
        """The groups of some of the rows."""
        members = self.members.take(rows)
        return attrs.evolve(self, numbers=members.numbers, functions=members.functions)

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.labels)


def checked_times(times: Any, what: str, n_rows: int) -> Array:
    """One finite number for each row; a ``DataError`` names the first row without one."""
    try:
        numbers = floats_of(times)
    except (NotANumber, TypeError, ValueError):
        raise DataError(f"{what}: a number is needed for each row") from None
    if numbers.shape != (n_rows,):
        raise DataError(
            f"{what} has the shape {numbers.shape}; one number for each of the {n_rows} rows is"
            " needed"
        )
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise DataError(f"{what}: {wording().row(int(wrong[0]))} has no time; each row needs one")
    return numbers


def labels_of(groups: Any, what: str) -> Sequence[Any]:
    """One label for each row, as values of Python."""
    labels = np.asarray(groups)
    if labels.ndim != 1:
        raise ModelError(
            f"{what}={as_given(groups)} was given; one label for each row is needed, such as"
            " frame['school']"
        )
    values: list[Any] = labels.tolist()
    for row, label in enumerate(values):
        if label is None or label != label:  # NaN
            raise DataError(f"{what}: {wording().row(row)} has no group; each needs one")
        if isinstance(label, list | dict | set):
            raise DataError(
                f"{what}: {wording().row(row)} has {label!r}, which is no label; texts, numbers or"
                " dates are needed"
            )
    return values
