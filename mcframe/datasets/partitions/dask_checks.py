"""Whether Dask's collections are partitions of one table, and how large it is."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.dask_parts import BESIDE, Facts, refuse_labels
from mcframe.model import Observations

__all__ = [
    "common_chunks",
    "dask",
    "refuse_empty",
    "refuse_unlike_additions",
    "refuse_unlike_numbers",
    "rows_of_chunks",
    "starts_of",
    "values_of",
    "width_of",
]

dask: Any = Deferred("dask", "reading Dask's collections")
Shapes = Mapping[str, tuple[int, int]]
AllFacts = Mapping[str, tuple[Facts, ...]]


def values_of(given: Any) -> Any:
    """Return the collection of a block, without what stands beside it."""
    return given.values if isinstance(given, Observations) else given


def rows_of_chunks(name: str, given: Any) -> tuple[int, ...] | None:
    """Return how many rows the chunks of an array have, None for a frame.

    Raises
    ------
    DataError
        Where it is neither, or its chunks are no blocks of rows.
    """
    array = values_of(given)
    if not dask.is_dask_collection(array) or not hasattr(array, "to_delayed"):
        raise DataError(
            f"block {name!r}: a {type(array).__name__} was given; a dask.array or a dask.dataframe"
            " is needed"
        )
    refuse_persisted(name, array)
    if not hasattr(array, "chunks"):
        if isinstance(given, Observations):
            raise DataError(
                f"block {name!r}: Observations of a frame were given; weights, offsets and"
                " exposures are columns of the frame"
            )
        return None
    if array.ndim != 2:
        raise DataError(f"block {name!r}: an array of {array.ndim} dimensions was given; two are")
    rows, columns = array.chunks
    if np.isnan([*rows, *columns]).any():
        raise DataError(
            f"block {name!r}: its chunks are of unknown size; call compute_chunk_sizes() on the"
            " array first"
        )
    if len(columns) > 1:
        raise DataError(
            f"block {name!r}: its columns are in {len(columns)} chunks and a partition has whole"
            " rows; give array.rechunk({1: -1})"
        )
    if isinstance(given, Observations):
        refuse_other_chunks(name, given)
    return tuple(map(int, rows))


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


def refuse_other_chunks(name: str, given: Observations) -> None:
    """Raise a ``DataError`` where what stands beside values is not cut as they are."""
    rows, height = given.values.chunks[0], given.values.shape[0]
    for what in BESIDE:
        beside = getattr(given, what)
        if dask.is_dask_collection(beside):
            if getattr(beside, "ndim", 0) != 2 or beside.chunks[0] != rows:
                raise DataError(
                    f"block {name!r}: {what} are in other chunks of rows than the values; give"
                    f" {what}.rechunk((values.chunks[0], -1))"
                )
        elif np.ndim(beside) == 2 and np.shape(beside)[0] == height > 1:
            raise DataError(
                f"block {name!r}: {what} of shape {np.shape(beside)} are in memory as a whole;"
                " give a dask.array with the chunks of the values"
            )


def common_chunks(chunks: Mapping[str, tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """Return the rows of the chunks of all arrays, None where all blocks are frames."""
    known = {name: rows for name, rows in chunks.items() if rows is not None}
    if not known:
        return None
    first = next(iter(known))
    for name, rows in known.items():
        if rows != known[first]:
            raise DataError(
                f"blocks {first!r} and {name!r} have different chunks of rows, {len(known[first])}"
                f" of {sum(known[first])} rows and {len(rows)} of {sum(rows)}; rows are items, so"
                " give both the same by other.rechunk((array.chunks[0], -1))"
            )
    return known[first]


def refuse_unlike_numbers(tasks: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise a ``DataError`` where blocks are in different numbers of partitions."""
    numbers = {name: len(parts) for name, parts in tasks.items()}
    if len(set(numbers.values())) > 1:
        said = ", ".join(f"{name!r} has {number}" for name, number in numbers.items())
        raise DataError(
            f"the blocks have different numbers of partitions: {said}; rows are items, so"
            " give all the same ones by rechunk or repartition"
        )


def width_of(name: str, given: Any, facts: tuple[Facts, ...], shapes: Shapes) -> int:
    """Return how many columns a block has."""
    array = values_of(given)
    last = max(each.last_column for each in facts)
    width = int(array.shape[1]) if hasattr(array, "chunks") else last + 1
    said = shapes[name][1] if name in shapes else width
    if last >= said or (hasattr(array, "chunks") and said != width):
        raise DataError(f"block {name!r}: it has {width} columns and shapes says {said}")
    return int(said)


def starts_of(
    facts: AllFacts,
    heights: tuple[int, ...] | None,
    shapes: Shapes,
) -> tuple[int, ...]:
    """Return the first row of each partition, and the number of rows.

    Raises
    ------
    DataError
        Where entries of a frame stand in another partition than their row.
    """
    said = {int(shape[0]) for shape in shapes.values()} | ({sum(heights)} if heights else set())
    if len(said) > 1:
        raise DataError(
            f"the blocks have {' and '.join(map(str, sorted(said)))} rows; rows are items, so"
            " every block needs the same ones"
        )
    if heights is not None:
        starts = tuple(int(start) for start in np.cumsum([0, *heights]))
    else:
        starts = starts_of_frames(facts, said.pop() if said else None)
    for name, parts in facts.items():
        for p, each in enumerate(parts):
            refuse_elsewhere(name, p, each, starts)
    return starts


def starts_of_frames(facts: AllFacts, n_items: int | None) -> tuple[int, ...]:
    """Return where partitions of triples begin: each with its first entry of any block."""
    by_partition = [
        [each for each in parts if each.n_entries] for parts in zip(*facts.values(), strict=True)
    ]
    last = max((each.last_row for parts in by_partition for each in parts), default=-1)
    if n_items is None:
        refuse_labels(last, last + 1)
    stop = last + 1 if n_items is None else n_items
    if last >= stop:
        raise DataError(
            f"there are entries in row {last} and shapes says {stop} rows, counted from 0; give"
            " more in shapes, or leave them out"
        )
    starts = [min((each.first_row for each in parts), default=0) for parts in by_partition]
    return (0, *starts[1:], stop)


def refuse_elsewhere(name: str, p: int, facts: Facts, starts: tuple[int, ...]) -> None:
    """Raise a ``DataError`` where entries of a partition are in rows of another one."""
    if not facts.n_entries or starts[p] <= facts.first_row <= facts.last_row < starts[p + 1]:
        return
    raise DataError(
        f"block {name!r}: partition {p} has entries in rows {facts.first_row} to {facts.last_row},"
        f" and its rows are {starts[p]} to {starts[p + 1] - 1}: the entries of an item stand in"
        " one partition, those of a partition in front of those of the next. Sort them by"
        " frame.set_index('row'), or write them by write_partitions(folder,"
        f" {{{name!r}: (part.compute() for part in frame.partitions)}})"
    )


def refuse_unlike_additions(facts: AllFacts) -> None:
    """Raise a ``DataError`` where only some partitions have weights, offsets or exposures."""
    for name, parts in facts.items():
        for p, each in enumerate(parts):
            if each.additions != parts[0].additions:
                here, first = (" and ".join(f.additions) or "nothing" for f in (each, parts[0]))
                raise DataError(
                    f"block {name!r}: partition {p} has {here} beside its values and partition 0"
                    f" has {first}; give the same with every partition"
                )


def refuse_empty(facts: AllFacts) -> None:
    """Raise a ``DataError`` where a partition has not one entry, or a block has none."""
    for name, parts in facts.items():
        if not any(each.n_entries for each in parts):
            raise DataError(f"block {name!r}: not one entry was given; leave the block out")
    for p, parts in enumerate(zip(*facts.values(), strict=True)):
        if not any(each.n_entries for each in parts):
            raise DataError(
                f"partition {p} has not one entry, in any block; put its rows to those of a"
                " neighbour by rechunk or repartition, or leave it out"
            )
