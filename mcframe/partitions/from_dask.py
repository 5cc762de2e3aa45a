"""Collections of Dask, checked and counted, as tables whose rows come in partitions."""

import sys
from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

import attrs
import numpy as np

from mcframe.contracts.arrays import class_offers
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import a_type, suggests_options
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Observations
from mcframe.model.forms import numbers_of
from mcframe.model.long_lists import may_list_entries
from mcframe.partitions.chunks import (
    MOST_COUNTED_ROWS,
    TRIPLE_ADDITIONS,
    TRIPLE_COLUMNS,
    Chunk,
    arrays_of,
    check_chunk,
    chunk_of_rows,
    chunk_of_triples,
    matrix_of_chunk,
)
from mcframe.partitions.partitioned_data import (
    OBSERVATION_ADDITIONS,
    CountedPartitions,
    map_arrays,
    matrix_of_block,
)
from mcframe.storage.digest import digest_of

dask: Any = Deferred("dask", "reading Dask's collections")
Shapes = Mapping[str, tuple[int, int]]


@attrs.frozen
class ChunkSummary:
    """Counts and a digest of one block of one partition.

    Attributes
    ----------
    n_entries : int
    first_row, last_row, last_column : int
        Of its entries; 0, -1 and -1 where there is none.
    digest : str
        Of all its bits, by which a task is seen that gives something else another time.
    additions : tuple of str
        The additions to the values of its entries.
    """

    n_entries: int
    first_row: int
    last_row: int
    last_column: int
    digest: str
    additions: tuple[str, ...]


Summaries = Mapping[str, tuple[ChunkSummary, ...]]


def chunk_of(name: str, partition: Any, p: int, start: int, rows_given: bool) -> Chunk:
    """Return the checked entries of a partition from what its task gives."""
    label = f"partition {p}"
    if rows_given:
        return check_chunk(name, chunk_of_rows(name, in_scipy(partition), label, start))
    if "row" not in partition.columns and partition.index.name == "row":  # as set_index leaves it
        partition = partition.reset_index()
    named = [what for what in (*TRIPLE_COLUMNS, *TRIPLE_ADDITIONS) if what in partition.columns]
    return check_chunk(name, chunk_of_triples(name, partition[named], label))


def in_scipy(chunk: Any) -> Any:
    """Return a block of rows whose ``sparse.COO`` is a matrix of SciPy."""
    return map_arrays(
        chunk,
        lambda array: array.to_scipy_sparse() if class_offers(array, "to_scipy_sparse") else array,
    )


def facts_of_part(
    name: str, partition: Any, p: int, start: int, shape: tuple[int, int] | None
) -> ChunkSummary:
    """Return the summary of one block of one partition; ``shape`` is that of its rows."""
    chunk = chunk_of(name, partition, p, start, shape is not None)
    if shape is not None:
        actual = (chunk.rows_until or 0) - start, chunk.n_columns
        if actual != shape:
            raise DataError(
                f"block {name!r}: partition {p} is of shape {actual} and its array says {shape};"
                " every partition needs the same columns, and the rows that were said"
            )
    if not chunk.values.size:
        return ChunkSummary(0, 0, -1, -1, digest_of_chunk(chunk), chunk.names)
    last_column = int(chunk.columns.max())
    first, last = int(chunk.rows.min()), int(chunk.rows.max())
    refuse_labels(last, last - first + 1)
    arrays_of(name, chunk, first, (last - first + 1, last_column + 1))  # refuses cells given twice
    return ChunkSummary(
        chunk.values.size, first, last, last_column, digest_of_chunk(chunk), chunk.names
    )


def refuse_labels(row: int, n_rows: int) -> None:
    """Raise a ``DataError`` where so many rows up to this one are more likely labels."""
    if n_rows > MOST_COUNTED_ROWS:
        raise DataError(
            f"there are entries in row {row}; rows are counted from 0, and the factors have a row"
            " for each. If these are labels, number them first, for example by pandas.factorize;"
            " if there are so many rows, give them in shapes, and each partition some of them"
        )


def digest_of_chunk(chunk: Chunk) -> str:
    """Return a digest of all bits of some entries, in their order."""
    return digest_of([chunk.rows, chunk.columns, chunk.values, chunk.additions])


def tables_as_arrays(name: str, collection: Any) -> Any:
    """Return a block with the rows of its tables in chunks: arrays with whole rows in each.

    Frames of triples stay as they are.

    Raises
    ------
    DataError
        If it is no collection of Dask, one without known chunks, or a frame of which it is not
        clear whether its rows are items or entries.
    """
    values = matrix_of_block(collection)
    if not isinstance(collection, Observations):
        return values if is_triples(values) else single_chunk_array(name, "", values)
    if is_triples(values):
        raise DataError(
            f"block {name!r}: Observations of a frame of triples were given; weights, offsets and"
            " exposures are columns of the frame"
        )
    values = single_chunk_array(name, "", values)
    arrays: dict[str, Any] = {"values": values}
    for what in OBSERVATION_ADDITIONS:
        added = getattr(collection, what)
        if dask.is_dask_collection(added):
            added = single_chunk_array(name, f" {what}", added)
        if np.ndim(added) == 2 and np.shape(added)[0] == values.shape[0] > 1:
            if not dask.is_dask_collection(added):
                raise DataError(
                    f"block {name!r}: {what} of shape {np.shape(added)} are in memory as a whole;"
                    " give a collection of Dask, dask.array.from_array(array, chunks=(rows, -1))"
                )
        elif dask.is_dask_collection(added):
            raise DataError(
                f"block {name!r}: {what} have the shape {added.shape} and the values"
                f" {values.shape}; give as many rows, or what is the same for all rows as an array"
                " in memory"
            )
        arrays[what] = added
    return attrs.evolve(collection, **arrays)


class ChunkedArray(Protocol):
    """An array of Dask, in chunks."""

    chunks: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    ndim: int
    dtype: Any

    def __getitem__(self, key: Any) -> Any:
        """Some of its rows and columns."""

    def rechunk(self, chunks: Any) -> Any:
        """The array in other chunks."""


def is_chunked_array(values: object) -> TypeGuard[ChunkedArray]:
    """Return True for an array of Dask."""
    return class_offers(values, "chunks", "rechunk")


def is_dask_frame(values: object) -> bool:
    """Return True for a frame or a Series of Dask."""
    return class_offers(values, "columns", "__dask_graph__")


def in_columns(collection: Any) -> Any:
    """Return a frame, of a Series with one column."""
    return collection.to_frame() if class_offers(collection, "to_frame") else collection


def is_triples(collection: Any) -> bool:
    """Return True for a frame whose columns or index have the names of those of triples."""
    if not is_dask_frame(collection):
        return False
    frame = in_columns(collection)
    return {*TRIPLE_COLUMNS} <= {*frame.columns, frame.index.name}


def single_chunk_array(name: str, what: str, collection: Any) -> Any:
    """Return an array or a frame as an array of two dimensions, its columns in one chunk."""
    where = f"block {name!r}:{what}"
    if not dask.is_dask_collection(collection):
        raise DataError(
            f"{where} {a_type(collection)} was given; a dask.array or a dask.dataframe is"
            " needed for every block. dask.array.from_array(array, chunks=(rows, -1)) makes one"
        )
    refuse_persisted(name, collection)
    if is_dask_frame(collection):
        collection = array_of_frame(name, collection)
    if not is_chunked_array(collection):
        raise DataError(
            f"{where} {a_type(collection)} of Dask was given; a dask.array or a"
            " dask.dataframe is needed"
        )
    if collection.ndim not in (1, 2):
        raise DataError(
            f"{where} an array of {collection.ndim} dimensions was given; two are needed"
        )
    array = collection if collection.ndim == 2 else collection[:, None]
    if np.isnan([*array.chunks[0], *array.chunks[1]]).any():
        raise DataError(
            f"{where} its chunks are of unknown size; call compute_chunk_sizes() on the array"
            " first"
        )
    if 0 in array.shape:
        raise DataError(f"{where} it has the shape {array.shape}; a row and a column are needed")
    return array.rechunk((tuple(height for height in array.chunks[0] if height), -1))


def array_of_frame(name: str, collection: Any) -> Any:
    """Return a frame whose rows are items as an array; their lengths are computed for it."""
    frame = in_columns(collection)
    refuse_list_of_entries(name, frame)
    kind, names = type(frame._meta), frame.columns
    numbers = frame.map_partitions(
        floats_in_frame, name, meta=kind(columns=names, dtype=float), enforce_metadata=False
    )
    return numbers.to_dask_array(lengths=tuple(frame.map_partitions(len).compute()))


def floats_in_frame(frame: Any, name: str) -> Any:
    """Return a part of a frame with its values as floats, NaN where one is missing."""
    block = Block(name, Gaussian())  # what can be wrong here does not depend on the likelihood
    return type(frame)(numbers_of(block, frame), index=frame.index, columns=frame.columns)


def refuse_list_of_entries(name: str, frame: Any) -> None:
    """Raise a ``DataError`` where rows of a frame may be entries, (user, item, rating)."""
    kinds = [getattr(dtype, "kind", "O") for dtype in frame.dtypes]
    if not (is_triples(frame) or may_list_entries(list(frame.columns), kinds)):
        return
    named = ", ".join(map(repr, frame.columns))
    raise DataError(
        f"block {name!r}: the dask.dataframe has the columns {named}. If each of its rows is one"
        " entry of a table, call its columns 'row', 'column' and 'value', count both from 0, sort"
        f" the frame by rows and give mcframe.datasets.from_dask({{{name!r}: frame}}); or, in any"
        " order, mcframe.datasets.write_partitions({"
        f"{name!r}: (part.compute() for part in frame.partitions)}}, folder). If it is a table of"
        f" {len(frame.columns)} columns, give frame.to_dask_array(lengths=True)"
    )


def refuse_persisted(name: str, collection: Any) -> None:
    """Raise a ``DataError`` where parts of a collection exist nowhere but on workers.

    A part is computed in any process, and again when the worker that had it is gone.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return
    graph = collection.__dask_graph__()
    if any(isinstance(graph[key], distributed.Future) for key in graph):
        raise DataError(
            f"block {name!r}: it was made by persist() and is held by workers, and its parts have"
            " to be computed anew where they are needed; give the collection before persist()"
        )


def in_common_chunks(blocks: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, ...] | None]:
    """Return the blocks with the chunks of rows of the first array, and their rows.

    None where all blocks are frames of triples.
    """
    arrays = {name: matrix_of_block(block) for name, block in blocks.items()}
    arrays = {name: array for name, array in arrays.items() if is_chunked_array(array)}
    if not arrays:
        return dict(blocks), None
    first = next(iter(arrays))
    rows, height = arrays[first].chunks[0], arrays[first].shape[0]
    for name, array in arrays.items():
        if array.shape[0] != height:
            raise DataError(
                f"block {first!r} has {height} rows but block {name!r} has {array.shape[0]}; rows"
                " are items, so every block needs the same ones"
            )

    def cut(data: Any) -> Any:
        return data.rechunk((rows, -1)) if is_chunked_array(data) else data

    return {name: map_arrays(data, cut) for name, data in blocks.items()}, tuple(map(int, rows))


def refuse_unlike_numbers(tasks: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise a ``DataError`` where blocks are in different numbers of partitions."""
    numbers = {name: len(parts) for name, parts in tasks.items()}
    if len(set(numbers.values())) > 1:
        counts = ", ".join(f"{name!r} has {number}" for name, number in numbers.items())
        raise DataError(
            f"the blocks have different numbers of partitions: {counts}; rows are items, so"
            " give all the same ones by rechunk or repartition"
        )


def width_of(name: str, block: Any, facts: tuple[ChunkSummary, ...], shapes: Shapes) -> int:
    """Return how many columns a block has."""
    array = matrix_of_block(block)
    last = max(summary.last_column for summary in facts)
    width = int(array.shape[1]) if is_chunked_array(array) else last + 1
    stated_width = shapes[name][1] if name in shapes else width
    if last >= stated_width or (is_chunked_array(array) and stated_width != width):
        raise DataError(f"block {name!r}: it has {width} columns and shapes says {stated_width}")
    return int(stated_width)


def first_rows(
    facts: Summaries,
    heights: tuple[int, ...] | None,
    shapes: Shapes,
) -> tuple[int, ...]:
    """Return the first row of each partition, and the number of rows.

    Raises
    ------
    DataError
        If entries of a frame stand in another partition than their row.
    """
    row_counts = {int(shape[0]) for shape in shapes.values()} | (
        {sum(heights)} if heights else set()
    )
    if len(row_counts) > 1:
        raise DataError(
            f"the blocks have {' and '.join(map(str, sorted(row_counts)))} rows; rows are items,"
            " so every block needs the same ones"
        )
    if heights is not None:
        starts = tuple(int(start) for start in np.cumsum([0, *heights]))
    else:
        starts = starts_of_frames(facts, row_counts.pop() if row_counts else None)
    for name, parts in facts.items():
        for p, summary in enumerate(parts):
            refuse_elsewhere(name, p, summary, starts)
    return starts


def starts_of_frames(facts: Summaries, n_items: int | None) -> tuple[int, ...]:
    """Return where partitions of triples begin: each with its first entry of any block."""
    by_partition = [
        [summary for summary in parts if summary.n_entries]
        for parts in zip(*facts.values(), strict=True)
    ]
    last = max((summary.last_row for parts in by_partition for summary in parts), default=-1)
    if n_items is None:
        refuse_labels(last, last + 1)
    stop = last + 1 if n_items is None else n_items
    if last >= stop:
        raise DataError(
            f"there are entries in row {last} and shapes says {stop} rows, counted from 0; give"
            " more in shapes, or leave them out"
        )
    starts = [min((summary.first_row for summary in parts), default=0) for parts in by_partition]
    return (0, *starts[1:], stop)


def refuse_elsewhere(name: str, p: int, facts: ChunkSummary, starts: tuple[int, ...]) -> None:
    """Raise a ``DataError`` where entries of a partition are in rows of another one."""
    if not facts.n_entries or starts[p] <= facts.first_row <= facts.last_row < starts[p + 1]:
        return
    raise DataError(
        f"block {name!r}: partition {p} has entries in rows {facts.first_row} to {facts.last_row},"
        f" and its rows are {starts[p]} to {starts[p + 1] - 1}: all entries of an item must be"
        " in one partition, and partitions in the order of their items. Sort them by"
        " frame.set_index('row'), or write them by write_partitions({"
        f"{name!r}: (part.compute() for part in frame.partitions)}}, folder)"
    )


def refuse_unlike_additions(facts: Summaries) -> None:
    """Raise a ``DataError`` where only some partitions have weights, offsets or exposures."""
    for name, parts in facts.items():
        for p, summary in enumerate(parts):
            if summary.additions != parts[0].additions:
                added, first = (
                    " and ".join(f.additions) or "nothing" for f in (summary, parts[0])
                )
                raise DataError(
                    f"block {name!r}: partition {p} has {added} with its values and partition 0"
                    f" has {first}; give the same with every partition"
                )


def refuse_empty(facts: Summaries, rows_known: bool) -> None:
    """Raise a ``DataError`` where a block has no entry, or a partition of unknown rows none."""
    for name, parts in facts.items():
        if not any(summary.n_entries for summary in parts):
            raise DataError(f"block {name!r}: not one entry was given; leave the block out")
    for p, parts in enumerate(zip(*facts.values(), strict=True)):
        if not rows_known and not any(summary.n_entries for summary in parts):
            raise DataError(
                f"partition {p} has not one entry, in any block; put its rows to those of a"
                " neighbour by repartition, or leave it out"
            )


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
        digests = [[summary.digest for summary in facts] for facts in self.facts.values()]
        return digest_of([self.starts, self.columns, digests])

    def additions(self, name: str) -> tuple[str, ...]:
        """Names of the additions to the values of a block."""
        return tuple(sorted({what for summary in self.facts[name] for what in summary.additions}))

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
            If a task gives other entries than when they were counted.
        """
        tasks = [self.tasks[name][p] for name in self.blocks]
        start, stop = self.rows(p)
        # The workers' threads are the scheduler's to give out: a part takes the one it runs on.
        computed = dask.compute(*tasks, scheduler="synchronous")
        parts = {}
        for name, block in zip(self.blocks, computed, strict=True):
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
                parts[name] = matrix_of_chunk(arrays_of(name, chunk, start, shape), shape)
        return parts


@suggests_options
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
        them, ``weight`` and ``offset`` or ``exposure`` has one entry in each row; all entries of
        an item are in one partition, and partitions are in the order of their items. Any other
        frame is a table with an item in each row, counted from 0 whatever its index, and
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
            f"{a_type(data)} was given; a dict from the name of each block to its"
            " collection of Dask is needed"
        )
    shapes = shapes or {}
    arrays = {name: tables_as_arrays(name, block) for name, block in data.items()}
    names = {name: names_of(matrix_of_block(block)) for name, block in data.items()}
    data, heights = in_common_chunks(arrays)
    tasks = {name: tasks_of(name, block) for name, block in data.items()}
    refuse_unlike_numbers(tasks)
    rows_given = {name: is_chunked_array(matrix_of_block(block)) for name, block in data.items()}
    facts = computed_summaries(tasks, rows_given, heights, data)
    columns = {name: width_of(name, data[name], facts[name], shapes) for name in data}
    refuse_empty(facts, heights is not None)
    refuse_unlike_additions(facts)
    starts = first_rows(facts, heights, shapes)
    entries = {name: [summary.n_entries for summary in parts] for name, parts in facts.items()}
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
    for name, block in data.items():
        if is_triples(matrix_of_block(block)):
            refuse_list_of_entries(name, matrix_of_block(block))
    return from_dask(data)


def names_of(collection: Any) -> Any:
    """Return the names of the columns of a frame whose rows are items, as pandas' Index."""
    if is_triples(collection) or not is_dask_frame(collection):
        return None
    return in_columns(collection).columns


def tasks_of(name: str, collection: Any) -> tuple[Any, ...]:
    """Return a task for each partition of a block."""
    values = delayed_rows(matrix_of_block(collection))
    if not isinstance(collection, Observations):
        return values
    added = {
        what: delayed_rows(numbers)
        if dask.is_dask_collection(numbers)
        else [numbers] * len(values)
        for what in OBSERVATION_ADDITIONS
        if (numbers := getattr(collection, what)) is not None
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


def computed_summaries(
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
                shape = heights[p], int(matrix_of_block(data[name]).shape[1])
            wanted[name].append(find(name, task, p, starts[p], shape))
    (summaries,) = dask.compute(wanted)
    return {name: tuple(parts) for name, parts in summaries.items()}
