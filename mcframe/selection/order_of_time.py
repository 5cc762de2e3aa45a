"""Times cut into successive parts: all that is of one time is in one part."""

from typing import Any

import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.errors import DataError

__all__ = ["successive_parts", "times_of"]


def times_of(given: Any, what: str) -> Any:
    """Times as an array of numbers or of ``datetime64[ns]``, or a ``DataError``."""
    times = np.asarray(given)
    if times.dtype.kind == "M":
        return times.astype("datetime64[ns]")
    if times.dtype.kind not in "iuf":
        raise DataError(
            f"{what} of dtype {times.dtype} was given; numbers or numpy.datetime64 are needed, as"
            " pandas.to_datetime(column, utc=True).dt.tz_localize(None) makes of dates"
        )
    return times.astype(np.float64)


def successive_parts(times: Any, count: int, what: str) -> IntArray:
    """Cut times into ``count`` parts of about equal size, the earliest first.

    Raises
    ------
    DataError
        Where a time is missing, or times are so much alike that a part is empty.
    """
    if np.isnat(times).any() if times.dtype.kind == "M" else not np.isfinite(times).all():
        raise DataError(f"{what}: a time is missing or infinite; each needs one")
    distinct, place, sizes = np.unique(times, return_inverse=True, return_counts=True)
    # The part of a time is that of its middle entry, in the order of time.
    middle = np.cumsum(sizes) - 0.5 * sizes
    part_of_time = np.minimum((middle / times.size * count).astype(np.intp), count - 1)
    empty = count - np.unique(part_of_time).size
    if empty:
        raise DataError(
            f"{what}: {distinct.size} distinct times cannot be cut into {count} successive parts"
            f" of about equal size, one more than there are folds ({empty} would be empty); ask"
            " for fewer folds"
        )
    return np.asarray(part_of_time[place.ravel()])
