"""Checkpoints of a posterior between its sweeps: what columns, priors and blocks have learned."""

import time
import warnings
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.model import Problem
from mcframe.numerics.digest import digest_of
from mcframe.numerics.stored import Entry
from mcframe.posterior.answer import Sweep
from mcframe.posterior.factor_state import Design, FactorState
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import Observed, nothing
from mcframe.storage import Archive

# The name of the only entry of a checkpoint.
LATEST = "latest"
# Seconds after which a sweep is written at the latest, and how many times as long as writing took
# it may be left.
LATEST_WRITE, SHARE = 30.0, 20.0


@attrs.define(eq=False)
class Checkpoint:
    """A file that keeps the state after a sweep: after each one as long as that takes little time.

    Bounds of entries stay in the partitions; a process that goes on finds them anew.
    """

    archive: Archive
    written: float = -np.inf  # the moment of the last one, and the seconds that it took
    took: float = 0.0

    @classmethod
    def at_path(
        cls, path: object, problem: Any, n_factors: int, random_state: int
    ) -> "Checkpoint":
        """The checkpoint of a posterior of data in partitions, or a ``DataError``."""
        identity = {
            "model": digest_of(problem.model),
            "data": problem.digest_of_data,
            "factors": str(n_factors),
            "random_state": str(random_state),
        }
        return cls(Archive.at_path(path, "posterior of partitions", identity))

    def read(self, problem: Problem) -> tuple[Observed, FactorState, list[Sweep]] | None:
        """What is known of the blocks, the state, and the history; None of a file without any."""
        if LATEST not in self.archive:
            return None
        found = self.archive.read(LATEST).value()
        n_rows, blocks = problem.n_items, problem.model.blocks
        empty = {block.name: nothing(problem, block.name, n_rows) for block in blocks}
        known = []
        for block, summary, parameters in zip(
            blocks, found["summaries"], found["parameters"], strict=True
        ):
            likelihood: Any = problem.likelihoods[block.name]
            if parameters is not None:
                likelihood = likelihood.with_parameters(parameters)
            known.append(attrs.evolve(summary, likelihood=likelihood))
        observed = Observed.of_tables(problem, empty).summed_up(tuple(known))
        design = Design.of(observed, found["n_factors"])
        state = FactorState(design, found["columns"], found["priors"], found["key"])
        return observed, state, list(found["history"])

    def __call__(self, engine: FactorPosterior, history: list[Sweep]) -> None:
        """Write the state after a sweep, unless the last one was written a moment ago."""
        since = time.monotonic() - self.written
        if since >= min(LATEST_WRITE, SHARE * self.took):
            self.write(engine, history)

    def write(self, engine: FactorPosterior, history: list[Sweep]) -> None:
        """Write the state; where that fails the file keeps what it has, and the sweeps go on."""
        began = time.monotonic()
        try:
            self.archive.replace(LATEST, entry_of(engine, history))
        except DataError as error:
            warnings.warn(
                f"{error}. The sweeps go on, and the checkpoint keeps what it held before",
                UserWarning,
                stacklevel=2,
            )
        self.written = time.monotonic()
        self.took = self.written - began


def entry_of(engine: FactorPosterior, history: list[Sweep]) -> Entry:
    """The state and the history, which ``Checkpoint.read`` makes whole again, to the last bit.

    Likelihoods, which may be of the user's own, are those of the model.
    """
    gone: Any = None
    summaries, parameters = engine.observed.summaries, []
    for block, known in zip(engine.observed.blocks, summaries, strict=True):
        likelihood: Any = known.likelihood
        parameters.append(np.array(likelihood.thresholds) if block.layout.n_parameters else None)
    state = engine.state
    return Entry.of(
        {
            "n_factors": state.design.n_factors,
            "key": state.key,
            "columns": state.columns,
            "priors": state.priors,
            "summaries": tuple(attrs.evolve(each, likelihood=gone) for each in summaries),
            "parameters": tuple(parameters),
            "history": tuple(history),
        }
    )
