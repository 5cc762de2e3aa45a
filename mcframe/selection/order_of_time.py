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
        Where a time is missing, or there are fewer distinct times than parts.
    """
    if np.isnat(times).any() if times.dtype.kind == "M" else not np.isfinite(times).all():
        raise DataError(f"{what}: a time is missing or infinite; each needs one")
    distinct, place, sizes = np.unique(times, return_inverse=True, return_counts=True)
    if distinct.size < count:
        raise DataError(
            f"{what}: {distinct.size} distinct times cannot be cut into {count} successive parts,"
            " one more than there are folds; ask for fewer folds"
        )
    # A part begins with the time that is nearest to its share, one time after the last at least
    # and with a time left for each part to come.
    before = np.cumsum(sizes) - sizes
    part_of_time = np.zeros(distinct.size, dtype=np.intp)
    begin = 0
    for part in range(1, count):
        nearest = int(np.argmin(np.abs(before - part * times.size / count)))
        begin = min(max(nearest, begin + 1), distinct.size - count + part)
        part_of_time[begin:] = part
    return np.asarray(part_of_time[place.ravel()])
