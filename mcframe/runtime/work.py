"""The cost of a computation that several processes share: rounds, bytes and seconds."""

import attrs

from mcframe.contracts.stored_classes import stored


@stored
@attrs.frozen
class Work:
    """The work done for a fit of rows in partitions until some moment.

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
        parts = [f"{self.rounds} rounds"]
        if self.rounds and self.seconds:
            parts[0] += f" of {1000.0 * self.seconds / self.rounds:.3g} ms"
        if self.sent or self.received:
            parts += [f"{in_bytes(self.sent)} sent", f"{in_bytes(self.received)} received"]
        if self.compiled:
            parts += [f"{self.compiled} partitions compiled"]
        return ", ".join(parts)


def in_bytes(count: float) -> str:
    """A number of bytes in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000.0:
            return f"{count:.3g} {unit}"
        count /= 1000.0
    return f"{count:.3g} TB"
