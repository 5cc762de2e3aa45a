"""Checkpoints of a fit or of a posterior while it runs, of data in memory and in partitions."""

import time
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError, warn_caller
from mcframe.model.problem import Problem
from mcframe.storage.archive import Archive
from mcframe.storage.digest import digest_of

# The name of the only entry of a checkpoint.
ENTRY_NAME = "latest"


@attrs.define(eq=False)
class Checkpoint:
    """A file with the latest state of a computation, from which another process goes on.

    A state is due unless the last one was written less than ``min_seconds`` ago, and less than
    ``time_ratio`` times as long ago as writing it took.
    """

    archive: Archive
    min_seconds: float
    time_ratio: float = np.inf
    last_written: float = -np.inf  # the moment of the last one
    writing_seconds: float = 0.0

    @classmethod
    def at_path(
        cls,
        path: object,
        kind: str,
        problem: Problem,
        identity: Mapping[str, object],
        min_seconds: float = 0.0,
        time_ratio: float = np.inf,
    ) -> "Checkpoint":
        """The file of a computation, which is begun or holds the same work, or a ``DataError``."""
        texts = {"model": digest_of(problem.model), "data": problem.digest_of_data}
        texts |= {name: str(value) for name, value in identity.items()}
        return cls(Archive.at_path(path, kind, texts), min_seconds, time_ratio)

    def read(self, *kinds: type, **shared: object) -> Any:
        """The latest state, of one of these classes; None of a file without any."""
        if ENTRY_NAME not in self.archive:
            return None
        return self.archive.read(ENTRY_NAME, *(kind.__name__ for kind in kinds), **shared)

    @property
    def is_due(self) -> bool:
        """True if a state is to be written now."""
        passed = time.monotonic() - self.last_written
        return passed >= self.min_seconds or passed >= self.time_ratio * self.writing_seconds

    def write(self, state: object, **shared: object) -> None:
        """Write a state; where that fails the file keeps what it has, and the work goes on."""
        began = time.monotonic()
        try:
            self.archive.replace(ENTRY_NAME, state, **shared)
        except DataError as error:
            warn_caller(f"{error}. The work goes on, and the checkpoint keeps what it held before")
        self.last_written = time.monotonic()
        self.writing_seconds = self.last_written - began
