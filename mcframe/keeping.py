"""Checkpoints of a fit while it runs, of data in memory and in partitions."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.backends import Outcome, Settings
from mcframe.contracts.errors import DataError
from mcframe.numerics.digest import digest_of
from mcframe.options import checked_start
from mcframe.storage import Archive

# The name of the only entry of a checkpoint.
LATEST = "latest"


@attrs.define
class Keeper:
    """Writes the best point of a run and the state of its solver into a checkpoint.

    At a certificate, unless one was written less than ``every`` seconds ago; and between two
    certificates that are far apart, where the loop asks for it.
    """

    archive: Archive
    problem: Any
    fit_of: Callable[[Outcome], Fit]
    every: float = 0.0
    last: Fit | None = None
    written: float = -np.inf

    @classmethod
    def at_path(
        cls,
        checkpoint: object,
        kind: str,
        problem: Any,
        seed: int,
        fit_of: Callable[[Outcome], Fit],
        every: float = 0.0,
    ) -> "Keeper":
        """The keeper of a file, which is begun or holds the same work, or a ``DataError``."""
        identity = {
            "model": digest_of(problem.model),
            "data": problem.digest_of_data,
            "random_state": str(seed),
        }
        return cls(Archive.at_path(checkpoint, kind, identity), problem, fit_of, every)

    def settings(self, settings: Settings, start: Fit | None) -> Settings:
        """The settings of a run that goes on from the file, or from ``start`` if it is empty."""
        if LATEST in self.archive:
            start = self.archive.read(LATEST, Fit.__name__, problem=self.problem)
        return attrs.evolve(settings, start=checked_start(start, self.problem), keep=self)

    def __call__(self, outcome: Outcome) -> None:
        """Write an outcome, unless one was written a moment ago."""
        if time.monotonic() - self.written < self.every:
            return
        if self.last is None or self.last.latent is not outcome.point.latent:
            self.last = self.fit_of(outcome)
        else:
            names = ("bound", "rounding", "history", "paused")
            self.last = attrs.evolve(self.last, **{n: getattr(outcome, n) for n in names})
        self.write(self.last)

    def write(self, fit: Fit) -> None:
        """Write a fit; where that fails the file keeps what it has, and the fit goes on."""
        try:
            self.archive.replace(LATEST, fit, problem=self.problem)
        except DataError as error:
            warnings.warn(
                f"{error}. The fit goes on, and the checkpoint keeps what it held before",
                UserWarning,
                stacklevel=2,
            )
        self.written = time.monotonic()
