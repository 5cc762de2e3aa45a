"""Checkpoints of a fit or of a posterior while it runs, of data in memory and in partitions."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Outcome, Settings
from mcframe.contracts.errors import DataError, warn_caller
from mcframe.fitting.fit_answer import Fit, checked_start
from mcframe.storage.archive import Archive
from mcframe.storage.digest import digest_of

# The name of the only entry of a checkpoint.
LATEST = "latest"


@attrs.define(eq=False)
class Checkpoint:
    """A file with the latest state of a computation, from which another process goes on.

    A state is due unless the last one was written less than ``every`` seconds ago, and less than
    ``share`` times as long ago as writing it took.
    """

    archive: Archive
    every: float
    share: float = np.inf
    written: float = -np.inf  # the moment of the last one, and the seconds that it took
    took: float = 0.0

    @classmethod
    def at_path(
        cls,
        path: object,
        kind: str,
        problem: Any,
        identity: Mapping[str, object],
        every: float = 0.0,
        share: float = np.inf,
    ) -> "Checkpoint":
        """The file of a computation, which is begun or holds the same work, or a ``DataError``."""
        texts = {"model": digest_of(problem.model), "data": problem.digest_of_data}
        texts |= {name: str(value) for name, value in identity.items()}
        return cls(Archive.at_path(path, kind, texts), every, share)

    def read(self, kind: type, **given: object) -> Any:
        """The latest state, of this class; None of a file without any."""
        if LATEST not in self.archive:
            return None
        return self.archive.read(LATEST, kind.__name__, **given)

    @property
    def is_due(self) -> bool:
        """Whether a state is to be written now."""
        passed = time.monotonic() - self.written
        return passed >= self.every or passed >= self.share * self.took

    def write(self, state: object, **given: object) -> None:
        """Write a state; where that fails the file keeps what it has, and the work goes on."""
        began = time.monotonic()
        try:
            self.archive.replace(LATEST, state, **given)
        except DataError as error:
            warn_caller(f"{error}. The work goes on, and the checkpoint keeps what it held before")
        self.written = time.monotonic()
        self.took = self.written - began


def resumed(
    settings: Settings,
    start: Fit | None,
    problem: Any,
    fit_of: Callable[[Outcome], Fit],
    path: object,
    kind: str,
    every: float = 0.0,
) -> tuple[Settings, Checkpoint | None]:
    """The settings of a fit that goes on from its checkpoint, and that; None without a path.

    From ``start`` where the file is empty. Points are written there at a certificate that is due,
    and between two that are far apart, where the loop asks for it.
    """
    if path is None:
        return attrs.evolve(settings, start=checked_start(start, problem)), None
    identity = {"random_state": settings.random_state}
    checkpoint = Checkpoint.at_path(path, kind, problem, identity, every)
    last: Fit | None = None

    def keep(outcome: Outcome) -> None:
        nonlocal last
        if not checkpoint.is_due:
            return
        if last is None or last.latent is not outcome.point.latent:
            last = fit_of(outcome)
        else:
            names = ("bound", "rounding", "history", "paused")
            last = attrs.evolve(last, **{name: getattr(outcome, name) for name in names})
        checkpoint.write(last, problem=problem)

    saved = checkpoint.read(Fit, problem=problem)
    begin = checked_start(start if saved is None else saved, problem)
    return attrs.evolve(settings, start=begin, keep=keep), checkpoint
