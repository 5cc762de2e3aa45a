"""Collections of Dask, as ``fit`` takes a table whose rows come in partitions."""

import sys
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.model import Observations
from mcframe.model.chunks.dask_checks import (
    ChunkSummary,
    chunk_of,
    dask,
    digest_of_chunk,
    facts_of_part,
    in_columns,
    in_common_chunks,
    in_scipy,
    is_frame,
    is_triples,
    refuse_empty,
    refuse_list_of_entries,
    refuse_unlike_additions,
    refuse_unlike_numbers,
    starts_of,
    tables_as_arrays,
    width_of,
)
from mcframe.model.chunks.entries import arrays_of, data_of
from mcframe.model.partitioned import ADDED, CountedPartitions, values_of
from mcframe.numerics.digest import digest_of

__all__ = ["DaskPartitions", "from_dask", "tables_from_dask"]


@attrs.frozen(eq=False, repr=False)
class DaskPartitions(CountedPartitions):
    """A table of Dask's collections, made by ``from_dask``; each part is a separate task.

    It stands where ``data`` stands in ``fit``. ``part`` runs the task in the process where it
    is called, on one thread. The tasks' graph travels with the object: one that reads from files
    is small, one over an array in memory has all of it.

    Attributes
    ----------
    tasks : dict from block name to tuple of Delayed
        One for each partition.
    rows_given : dict from block name to bool
        True if the block's tasks give blocks of rows, and not triples.
    facts : dict from block name to tuple of ChunkSummary
        One for each partition.
    names : dict from block name to pandas' Index or None
        The names of the columns of frames whose rows are items.
    """

    tasks: Mapping[str, tuple[Any, ...]]
    rows_given: Mapping[str, bool]
    facts: Mapping[str, tuple[ChunkSummary, ...]]
    names: Mapping[str, Any]

    @property
    def fingerprint(self) -> str:
        """A digest of partitions and of all bits of their entries."""
        digests = [[each.digest for each in facts] for facts in self.facts.values()]
        return digest_of([self.starts, self.columns, digests])

    @property
    def client(self) -> Any:
        """The current ``distributed.Client``, whose workers a fit takes by default, or None."""
        distributed = sys.modules.get("distributed")  # not loaded: nobody has a client
        if distributed is None:
            return None
        try:
            return distributed.Client.current()
        except ValueError:
            return None

    def additions(self, name: str) -> tuple[str, ...]:
        """Names of the additions to the values of a block."""
        return tuple(sorted({what for each in self.facts[name] for what in each.additions}))

    def column_labels(self, name: str) -> Any:
        """The names of the columns of a block, None where it is no frame of items."""
        return self.names[name]

    def part(self, p: int) -> Mapping[str, Any]:
        """Return the entries of partition p by block, as ``Problem.bind`` takes them.

        Each is a ``scipy.sparse.csr_array`` (rows of the partition x columns of the block), or
        ``Observations``: of triples such matrices, of arrays what the chunks are.

        Raises
        ------
        DataError
            Where a task gives other entries than when they were counted.
        """
        tasks = [self.tasks[name][p] for name in self.blocks]
        start, stop = self.rows(p)
        # The workers' threads are the scheduler's to give out: a part takes the one it runs on.
        given = dask.compute(*tasks, scheduler="synchronous")
        parts = {}
        for name, block in zip(self.blocks, given, strict=True):
            chunk = chunk_of(name, block, p, start, self.rows_given[name])
            if digest_of_chunk(chunk) != self.facts[name][p].digest:
                raise DataError(
                    f"block {name!r}: the task of partition {p} gives other entries than when"
                    " they were counted; it has to give the same each time it runs. Draw random"
                    " numbers from a fixed seed, and read files that nobody changes"
                )
            shape = (stop - start, self.columns[name])
            if isinstance(block, Observations):  # offsets count in cells without an entry, too
                parts[name] = in_scipy(block)
            else:
                parts[name] = data_of(arrays_of(name, chunk, start, shape), shape)
        return parts


def from_dask(
    data: Mapping[str, Any], *, shapes: Mapping[str, tuple[int, int]] | None = None
) -> DaskPartitions:
    """Read Dask's collections as data of ``fit``: their chunks of rows are its partitions.

    Each partition is computed once here, by the current client or scheduler, to check and count
    its entries, and again whenever its part is asked for. Its tasks have to give the same entries
    each time; that they do is checked.

    Parameters
    ----------
    data : dict from block name to dask.array or dask.dataframe
        An array has known chunks of rows, which those of the other arrays become; its chunks are
        arrays with NaN, ``scipy.sparse`` matrices or ``sparse.COO``, of which what is stored is
        observed. ``Observations`` of one have arrays of as many rows as additions, or
        numbers common to all rows.
        A frame with ``row``, ``column``, ``value`` and, where entries have
        them, ``weight`` and ``offset`` or ``exposure`` has one entry in each row; the entries of
        an item stand in one partition, those of a partition in front of those of the next. Any
        other frame is a table with an item in each row, counted from 0 whatever its index, and
        its columns keep their names; the lengths of its partitions are computed first.
    shapes : dict from block name to (rows, columns), optional
        Of frames: without it a table ends with the last row and column that occur.

    Returns
    -------
    DaskPartitions

    Raises
    ------
    DataError
        For unknown chunks, blocks of different rows, partitions with other columns than they say,
        frames of which it is not clear whether rows are items or entries, an item in two
        partitions of triples, cells with several entries, and numbers that are not finite.
    BackendError
        Where Dask is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe.datasets as datasets
    >>> import dask, dask.array as da
    >>> x = da.from_array(np.arange(6.0).reshape(3, 2), chunks=(2, 2))
    >>> with dask.config.set(scheduler="threads"):  # without a cluster
    ...     table = datasets.from_dask({"x": x})
    >>> table
    DaskPartitions: 'x' 3 x 2 with 6 entries; 2 partitions
    >>> with dask.config.set(scheduler="threads"):
    ...     table.part(1)["x"].toarray()
    array([[4., 5.]])
    """
    if not isinstance(data, Mapping) or not data:
        raise DataError(
            f"a {type(data).__name__} was given; a dict from the name of each block to its"
            " collection of Dask is needed"
        )
    shapes = shapes or {}
    arrays = {name: tables_as_arrays(name, given) for name, given in data.items()}
    names = {name: names_of(values_of(given)) for name, given in data.items()}
    data, heights = in_common_chunks(arrays)
    tasks = {name: tasks_of(name, given) for name, given in data.items()}
    refuse_unlike_numbers(tasks)
    rows_given = {name: hasattr(values_of(given), "chunks") for name, given in data.items()}
    facts = facts_of(tasks, rows_given, heights, data)
    columns = {name: width_of(name, data[name], facts[name], shapes) for name in data}
    refuse_empty(facts, heights is not None)
    refuse_unlike_additions(facts)
    starts = starts_of(facts, heights, shapes)
    entries = {name: [each.n_entries for each in parts] for name, parts in facts.items()}
    return DaskPartitions(
        tasks, rows_given, facts, names, starts=starts, columns=columns, entries=entries
    )


def tables_from_dask(data: Mapping[str, Any]) -> DaskPartitions:
    """Read Dask's collections that are given to ``fit`` as data: as tables, like those in memory.

    Raises
    ------
    DataError
        As ``from_dask``, and for a frame that lists entries: it would be a table of three columns.
    """
    for name, given in data.items():
        if is_triples(values_of(given)):
            refuse_list_of_entries(name, values_of(given))
    return from_dask(data)


def names_of(collection: Any) -> Any:
    """Return the names of the columns of a frame whose rows are items, as pandas' Index."""
    if is_triples(collection) or not is_frame(collection):
        return None
    return in_columns(collection).columns


def tasks_of(name: str, given: Any) -> tuple[Any, ...]:
    """Return a task for each partition of a block."""
    values = delayed_rows(values_of(given))
    if not isinstance(given, Observations):
        return values
    added = {
        what: delayed_rows(numbers)
        if dask.is_dask_collection(numbers)
        else [numbers] * len(values)
        for what in ADDED
        if (numbers := getattr(given, what)) is not None
    }
    observed = dask.delayed(Observations)
    return tuple(
        observed(block, **{what: numbers[p] for what, numbers in added.items()})
        for p, block in enumerate(values)
    )


def delayed_rows(collection: Any) -> tuple[Any, ...]:
    """Return a collection's partitions as tasks."""
    parts = collection.to_delayed()
    return tuple(parts if isinstance(parts, list) else parts.ravel())


def facts_of(
    tasks: Mapping[str, tuple[Any, ...]],
    rows_given: Mapping[str, bool],
    heights: tuple[int, ...] | None,
    data: Mapping[str, Any],
) -> dict[str, tuple[ChunkSummary, ...]]:
    """Compute every partition once, and return its summaries."""
    n_partitions = len(next(iter(tasks.values())))
    starts = np.cumsum([0, *(heights or [0] * n_partitions)]).tolist()
    find = dask.delayed(facts_of_part, pure=False)
    wanted: dict[str, list[Any]] = {name: [] for name in tasks}
    for name, parts in tasks.items():
        for p, task in enumerate(parts):
            shape = None
            if heights is not None and rows_given[name]:
                shape = heights[p], int(values_of(data[name]).shape[1])
            wanted[name].append(find(name, task, p, starts[p], shape))
    (summaries,) = dask.compute(wanted)
    return {name: tuple(parts) for name, parts in summaries.items()}
