"""Rows in partitions as a store that verbs find: loaded with the package, and light."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from mcframe.backends import Settings
from mcframe.contracts.arrays import class_offers
from mcframe.contracts.deferred import Deferred
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Model
from mcframe.model.model import Observations
from mcframe.partitions.partitioned_data import OBSERVATION_ADDITIONS, PartitionedData

if TYPE_CHECKING:
    from mcframe.partitions import estimate_partitions, fit_partitions
    from mcframe.partitions.fit_partitions import PartitionsExplanation
else:
    fit_partitions = Deferred("mcframe.partitions.fit_partitions", "a fit of rows in partitions")
    estimate_partitions = Deferred(
        "mcframe.partitions.estimate_partitions", "a posterior of rows in partitions"
    )


class PartitionStore:
    """Data in partitions and collections of Dask: a ``FittingStore`` and ``EstimatingStore``."""

    def holds(self, data: object) -> bool:
        """True where the rows are in partitions, or blocks are collections of Dask."""
        if isinstance(data, Mapping):
            return any(map(is_collection, data.values()))
        return is_partitioned(data)

    def refusal(self, values: object) -> str | None:
        """The reason why rows in partitions are refused where all are needed, and the remedy."""
        return refusal_of_rows(values)

    def fit(
        self,
        model: Model,
        data: object,
        settings: Settings,
        *,
        backend: object,
        start: Fit | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> Fit:
        """The fit of a model, by sums of what the partitions answer."""
        options = backend, start, settings, checkpoint
        return fit_partitions.fit_partitions(model, data, *options)

    def explain(self, model: Model, data: object) -> "PartitionsExplanation":
        """Memory and traffic of a fit."""
        return fit_partitions.explain_partitions(model, fit_partitions.read_partitions(data))

    def estimate(self, *arguments: Any, **options: Any) -> None:
        """Run the ascent of a posterior; see ``estimate_partitions``."""
        estimate_partitions.estimate_partitions(*arguments, **options)


def is_partitioned(data: object) -> TypeGuard[PartitionedData]:
    """Return True for data in partitions, without computing any property."""
    return class_offers(data, "part", "rows", "n_entries", "fingerprint")


def is_collection(data: object) -> bool:
    """Return True for a collection of Dask, or ``Observations`` with one."""
    parts = (
        (data.values, *(getattr(data, what) for what in OBSERVATION_ADDITIONS))
        if isinstance(data, Observations)
        else (data,)
    )
    return any(class_offers(part, "__dask_graph__") for part in parts)


def refusal_of_rows(data: object) -> str | None:
    """The reason why rows in partitions are refused where all are needed, or None."""
    taken = "here all rows are needed in this process"
    if is_partitioned(data):
        return (
            f"{type(data).__name__} was given, rows in partitions, which mc.fit and"
            f" mc.explain take in the place of all data; {taken}. Give arrays, for example of a"
            " sample of the rows"
        )
    if is_collection(data):
        return (
            f"a collection of Dask was given; mc.fit and mc.explain take a dict from the"
            f" name of each block to one. But {taken}: give collection.compute()"
        )
    return None
