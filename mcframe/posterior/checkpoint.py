"""Checkpoints of a posterior between its sweeps: what columns, priors and blocks have learned."""

import time
import warnings
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.model import Problem
from mcframe.numerics.digest import digest_of
from mcframe.posterior.answer import Sweep
from mcframe.posterior.factor_state import Design, FactorState, Gaussians, Priors
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import Observed, Summary, nothing
from mcframe.storage import Archive, Entry

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
        entry = self.archive.read(LATEST)
        n_rows, blocks = problem.n_items, problem.model.blocks
        empty = {block.name: nothing(problem, block.name, n_rows) for block in blocks}
        known = []
        for b, block in enumerate(blocks):
            likelihood: Any = problem.likelihoods[block.name]
            if f"parameters.{b}" in entry.arrays:
                likelihood = likelihood.with_parameters(entry.arrays[f"parameters.{b}"])
            known.append(fields_from(Summary, f"block.{b}", entry, likelihood=likelihood))
        observed = Observed.of_tables(problem, empty).summed_up(tuple(known))
        design = Design.of(observed, entry.facts["n_factors"])
        columns = fields_from(Gaussians, "columns", entry)
        priors = fields_from(Priors, "priors", entry)
        history = [Sweep(*row) for row in entry.facts["history"]]
        return observed, FactorState(design, columns, priors, entry.facts["key"]), history

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
    """The state and the history, which ``Checkpoint.read`` makes whole again, to the last bit."""
    state = engine.state
    arrays: dict[str, Any] = {}
    facts: dict[str, Any] = {
        "n_factors": state.design.n_factors,
        "key": state.key,
        "history": [attrs.astuple(sweep) for sweep in history],
    }
    named: dict[str, Any] = {"columns": state.columns, "priors": state.priors}
    for b, known in enumerate(engine.observed.summaries):
        named[f"block.{b}"] = known
        if engine.observed.blocks[b].layout.n_parameters:
            likelihood: Any = known.likelihood
            arrays[f"parameters.{b}"] = np.array(likelihood.thresholds)
    for name, value in named.items():
        for field in attrs.fields(type(value)):
            found = getattr(value, field.name)
            if isinstance(found, np.ndarray):
                arrays[f"{name}.{field.name}"] = found
            elif found is None or isinstance(found, float):
                facts[f"{name}.{field.name}"] = found
    return Entry(arrays, facts)


def fields_from(kind: Any, name: str, entry: Entry, **given: Any) -> Any:
    """An object of arrays and numbers by the name under which ``entry_of`` has put its fields."""
    found = {}
    for field in attrs.fields(kind):
        key = f"{name}.{field.name}"
        if field.name not in given:
            found[field.name] = entry.arrays[key] if key in entry.arrays else entry.facts[key]
    return kind(**found, **given)
