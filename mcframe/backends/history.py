"""How a fit came about: one record for each time its certificate was computed."""

from collections.abc import Mapping

import attrs
import numpy as np

from mcframe.compile import Work
from mcframe.contracts.arrays import Array

__all__ = ["History", "Record"]


@attrs.frozen
class Record:
    """One look at the iterate.

    ``seconds`` count from the start of the solver; ``bound`` is the best lower bound so far
    and ``gap`` the relative gap of the best point so far. Of rows in partitions ``work`` tells
    rounds of tasks, bytes sent and received, and partitions compiled until then; else it is None.
    """

    iteration: int
    seconds: float
    objective: float
    bound: float
    gap: float
    rank: int
    work: Work | None = None

    def __str__(self) -> str:
        said = (
            f"iteration {self.iteration:6d}  {self.seconds:8.2f} s"
            f"  objective {self.objective:<13.9g}  gap {self.gap:8.1e}  rank {self.rank:4d}"
        )
        return said if self.work is None else f"{said}  {self.work}"


# The fields of a record that are numbers: all but the last.
NUMBERS = tuple(field.name for field in attrs.fields(Record))[:-1]


@attrs.frozen(repr=False)
class History:
    """The records of a fit, oldest first; each number as an array by its name.

    ``history.gap`` is the array of gaps, ``history[-1]`` the last record,
    ``pandas.DataFrame(history.table())`` a frame.
    """

    records: tuple[Record, ...]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, position: int) -> Record:
        return self.records[position]

    def table(self) -> dict[str, Array]:
        """Every number of the records as an array."""
        return {name: np.array([getattr(r, name) for r in self.records]) for name in NUMBERS}

    @classmethod
    def of_table(cls, table: Mapping[str, Array]) -> "History":
        """Return the history whose ``table`` this is, without what was asked of partitions."""
        columns = [table[name].tolist() for name in NUMBERS]
        return cls(tuple(Record(*row) for row in zip(*columns, strict=True)))

    @property
    def iteration(self) -> Array:
        """Iterations at the looks."""
        return self.table()["iteration"]

    @property
    def seconds(self) -> Array:
        """Seconds since the solver began."""
        return self.table()["seconds"]

    @property
    def objective(self) -> Array:
        """Objectives of the iterates."""
        return self.table()["objective"]

    @property
    def bound(self) -> Array:
        """Best lower bounds so far."""
        return self.table()["bound"]

    @property
    def gap(self) -> Array:
        """Relative gaps of the best points so far."""
        return self.table()["gap"]

    @property
    def rank(self) -> Array:
        """Ranks of the iterates."""
        return self.table()["rank"]

    def __repr__(self) -> str:
        if not self.records:
            return "History: no record"
        shown = self.records if len(self) <= 8 else (*self.records[:4], *self.records[-4:])
        lines = [str(record) for record in shown]
        if len(self) > 8:
            lines.insert(4, f"... {len(self) - 8} more ...")
        return "\n".join(lines)
