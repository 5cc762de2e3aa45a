"""Dates and points in time as days since one of them."""

import datetime as dt
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.stored_classes import stored
from mcframe.tables.coding import Numbers
from mcframe.tables.columns import Column
from mcframe.tables.known_limits import KnownLimits

DAY_MICROSECONDS = 86_400e6
EPOCH = dt.datetime(1970, 1, 1)
# A day after the first, and a day before the last date of Python, in microseconds.
EARLIEST_DATE, LATEST_DATE = (
    (dt.datetime(*day) - EPOCH) / dt.timedelta(microseconds=1)
    for day in ((1, 1, 2), (9999, 12, 30))
)


@stored(formerly=("mcframe.tables.coding.Dates",))
@attrs.frozen
class Dates(Numbers):
    """Days since a centre, which is one of the dates: exact to a microsecond within 285 years.

    Parameters
    ----------
    centre : float
        Microseconds since 1970, in UTC where the dates have a time zone.
    form : "date", "time" or "zoned time"
        Days alone; points in time without a zone, and with one.
    step : float
        Microseconds of a day, hour, minute or second if all dates are whole ones, or of 1/1000
        second; filled dates are whole ones, too.
    furthest : float
        The largest distance from 1970 that the dtype of the column holds, in microseconds.
    """

    centre: float = attrs.field(kw_only=True)
    form: str = attrs.field(kw_only=True)
    step: float = attrs.field(default=1.0, kw_only=True)
    furthest: float = attrs.field(default=LATEST_DATE, kw_only=True)

    measure = "root mean square, days"
    has_scale = False

    def codes(self, column: Column) -> Array:
        """Days since the centre."""
        return (column.numbers - self.centre) / DAY_MICROSECONDS

    def numbers_of(self, codes: Array) -> Array:
        """Microseconds since 1970."""
        return self.centre + DAY_MICROSECONDS * codes

    def limits_of(self, limits: KnownLimits) -> KnownLimits:
        """The limits of days since the centre, from those of microseconds since 1970."""
        return KnownLimits(limits.lower - self.centre, limits.upper - self.centre).over(
            DAY_MICROSECONDS
        )

    def values(self, codes: Array) -> list[Any]:
        """Dates, or points in time, in UTC where there is a zone."""
        ends = max(EARLIEST_DATE, -self.furthest), min(LATEST_DATE, self.furthest)
        moments = self.step * np.rint(self.numbers_of(codes) / self.step)
        moments = np.clip(moments, *ends).tolist()
        times = [EPOCH + dt.timedelta(microseconds=round(moment)) for moment in moments]
        if self.form == "date":
            return [time.date() for time in times]
        if self.form == "zoned time":
            return [time.replace(tzinfo=dt.UTC) for time in times]
        return list(times)
