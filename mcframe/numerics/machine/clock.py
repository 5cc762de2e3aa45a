"""A time limit that reaches into every inner loop."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

__all__ = ["OutOfTime", "check_time", "stop_at"]


class OutOfTime(Exception):
    """The time is up; raised by ``check_time`` in the midst of something."""


DEADLINE: ContextVar[float] = ContextVar("deadline", default=np.inf)


@contextmanager
def stop_at(moment: float) -> Iterator[None]:
    """Inside, ``check_time`` raises from a moment of ``time.perf_counter`` on."""
    before = DEADLINE.set(min(moment, DEADLINE.get()))
    try:
        yield
    finally:
        DEADLINE.reset(before)


def check_time() -> None:
    """Raise ``OutOfTime`` where the time is up.

    Every loop calls it whose number of rounds is not known beforehand, or whose rounds read all
    entries.
    """
    if time.perf_counter() > DEADLINE.get():
        raise OutOfTime
