"""How much was asked of partitions: rounds of tasks, and the bytes that travelled for them."""

from typing import Any

import attrs
import numpy as np

# What a task or an answer takes in addition to its arrays is not counted: a number counts as this.
NUMBER = 8


@attrs.frozen
class Work:
    """What has been done for a fit of rows in partitions until some moment.

    Attributes
    ----------
    rounds : int
        Rounds of tasks, each over all partitions.
    sent, received : int
        Bytes of arrays and numbers that went to a cluster and came back from it: an array counts
        once, however many workers fetch it. What workers give each other, as where they add up
        answers, is not counted. 0 where all is in one process.
    compiled : int
        How often a partition was compiled in this process.
    seconds : float
        The time that the rounds took: that of the slowest partition of each, and the way there
        and back.
    """

    rounds: int = 0
    sent: int = 0
    received: int = 0
    compiled: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Work(*(mine + theirs for mine, theirs in pairs))

    def __sub__(self, other: "Work") -> "Work":
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Work(*(mine - theirs for mine, theirs in pairs))

    def __str__(self) -> str:
        said = [f"{self.rounds} rounds"]
        if self.rounds and self.seconds:
            said[0] += f" of {1000.0 * self.seconds / self.rounds:.3g} ms"
        if self.sent or self.received:
            said += [f"{in_bytes(self.sent)} sent", f"{in_bytes(self.received)} received"]
        if self.compiled:
            said += [f"{self.compiled} partitions compiled"]
        return ", ".join(said)


def bytes_of(value: Any) -> int:
    """The bytes of all arrays and numbers in a task or an answer, each array counted once."""
    arrays: dict[int, int] = {}

    def visit(part: Any) -> int:
        if isinstance(part, np.ndarray):
            arrays[id(part)] = part.nbytes
            return 0
        if isinstance(part, tuple | list):
            return sum(map(visit, part))
        if attrs.has(type(part)):
            return sum(visit(getattr(part, field.name)) for field in attrs.fields(type(part)))
        return NUMBER * isinstance(part, bool | int | float | np.number)

    numbers = visit(value)
    return numbers + sum(arrays.values())


def in_bytes(count: float) -> str:
    """A number of bytes in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000.0:
            return f"{count:.3g} {unit}"
        count /= 1000.0
    return f"{count:.3g} TB"
