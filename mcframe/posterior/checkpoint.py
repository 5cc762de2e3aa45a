"""Checkpoints of a posterior between its sweeps: what columns, priors and blocks have learned."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.compile import PartitionedProblem
from mcframe.contracts.errors import DataError
from mcframe.model import Problem
from mcframe.numerics.digest import digest_of
from mcframe.posterior.answer import Sweep
from mcframe.posterior.factor_state import Design, FactorState
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

    def read(
        self, problem: Problem, entries: Callable[[], Observed]
    ) -> tuple[Observed, FactorState, list[Sweep]] | None:
        """What is known of the blocks, the state, and the history; None of a file without any.

        ``entries`` are those that are in this process, not summed up.
        """
        if LATEST not in self.archive:
            return None
        likelihoods = [problem.likelihoods[block.name] for block in problem.model.blocks]
        found = self.archive.read(LATEST, dict.__name__, **by_place(likelihoods))
        known = []
        given: Any = zip(likelihoods, found["summaries"], found["parameters"], strict=True)
        for likelihood, summary, parameters in given:
            if parameters is not None:
                likelihood = likelihood.with_parameters(parameters)
            known.append(attrs.evolve(summary, likelihood=likelihood))
        observed = entries().summed_up(tuple(known))
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
            declared = [own.block.likelihood for own in engine.observed.blocks]
            self.archive.replace(LATEST, content_of(engine, history), **by_place(declared))
        except DataError as error:
            warnings.warn(
                f"{error}. The sweeps go on, and the checkpoint keeps what it held before",
                UserWarning,
                stacklevel=2,
            )
        self.written = time.monotonic()
        self.took = self.written - began


def by_place(likelihoods: list[Any]) -> dict[str, Any]:
    """The likelihoods of the blocks by words, under which files leave them out."""
    return {f"likelihood{b}": own for b, own in enumerate(likelihoods)}


def content_of(engine: FactorPosterior, history: list[Sweep]) -> dict[str, Any]:
    """The state and the history, which ``Checkpoint.read`` makes whole again, to the last bit.

    Likelihoods, which may be of the user's own, are those of the model.
    """
    summaries, parameters = [], []
    for own, known in zip(engine.observed.blocks, engine.observed.summaries, strict=True):
        likelihood: Any = known.likelihood
        parameters.append(np.array(likelihood.thresholds) if own.layout.n_parameters else None)
        summaries.append(attrs.evolve(known, likelihood=own.block.likelihood))
    state = engine.state
    return {
        "n_factors": state.design.n_factors,
        "key": state.key,
        "columns": state.columns,
        "priors": state.priors,
        "summaries": tuple(summaries),
        "parameters": tuple(parameters),
        "history": tuple(history),
    }
