"""Checkpoints of a posterior between its sweeps: what columns, priors and blocks have learned."""

import time
import warnings
from typing import Any

import attrs
import numpy as np

from mcframe.compile import PartitionedProblem
from mcframe.contracts.errors import DataError
from mcframe.numerics.digest import digest_of
from mcframe.posterior.factor_state import FactorState
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import Observed
from mcframe.storage import Archive

# The name of the only entry of a checkpoint.
LATEST = "latest"
# What messages call a checkpoint, of data in memory and in partitions.
KINDS = "posterior", "posterior of partitions"
# Seconds after which a sweep is written at the latest, and how many times as long as writing took
# it may be left.
LATEST_WRITE, SHARE = 30.0, 20.0


@attrs.frozen
class Sweep:
    """One sweep: its number, the bound on the log evidence, factors, and seconds.

    With ``GaussianRows`` as the prior ``n_factors`` is the number of Gaussians in the mixture.
    """

    iteration: int
    evidence: float
    n_factors: int
    seconds: float


@attrs.define(eq=False)
class Checkpoint:
    """A file that keeps the state after a sweep: after each one as long as that takes little time.

    Bounds of entries stay where the entries are; a process that goes on finds them anew.
    """

    archive: Archive
    written: float = -np.inf  # the moment of the last one, and the seconds that it took
    took: float = 0.0

    @classmethod
    def at_path(
        cls, path: object, problem: Any, n_factors: int, random_state: int
    ) -> "Checkpoint":
        """The checkpoint of a posterior, or a ``DataError``."""
        identity = {
            "model": digest_of(problem.model),
            "data": problem.digest_of_data,
            "factors": str(n_factors),
            "random_state": str(random_state),
        }
        return cls(Archive.at_path(path, KINDS[isinstance(problem, PartitionedProblem)], identity))

    def read(self, entries: Observed) -> tuple[Observed, FactorState, list[Sweep]] | None:
        """The entries with summaries, the state and the history; None of a file without any.

        ``entries`` are those that are in this process, without summaries.
        """
        if LATEST not in self.archive:
            return None
        content = self.archive.read(LATEST, dict.__name__)
        summaries, history = content["summaries"], list(content["history"])
        return entries.with_summaries(summaries), content["state"], history

    def __call__(self, engine: FactorPosterior, history: list[Sweep]) -> None:
        """Write the state after a sweep, unless the last one was written a moment ago."""
        since = time.monotonic() - self.written
        if since >= min(LATEST_WRITE, SHARE * self.took):
            self.write(engine, history)

    def write(self, engine: FactorPosterior, history: list[Sweep]) -> None:
        """Write the state; where that fails the file keeps what it has, and the sweeps go on."""
        began = time.monotonic()
        summaries = engine.observed.summaries
        content = {"state": engine.state, "summaries": summaries, "history": tuple(history)}
        try:
            self.archive.replace(LATEST, content)
        except DataError as error:
            warnings.warn(
                f"{error}. The sweeps go on, and the checkpoint keeps what it held before",
                UserWarning,
                stacklevel=2,
            )
        self.written = time.monotonic()
        self.took = self.written - began
