"""Partitions on the workers of a Dask cluster: pure tasks of a partition and of small arrays."""

import itertools
import math
import threading
import time
import weakref
from contextlib import closing, suppress
from functools import partial
from operator import itemgetter
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError, McframeError, warn_caller
from mcframe.contracts.limits import STORED_NUMBERS
from mcframe.contracts.sent import Broadcast, fresh_key
from mcframe.partitions.cluster import (
    ANSWER_SECONDS,
    Gathering,
    arithmetic_of,
    demand_connection,
    key_of,
    local_environment,
    note_on_arithmetic,
    refuse_another_environment,
    workers_of,
)
from mcframe.partitions.executor import (
    ArrayByRows,
    PartCache,
    Partitions,
    Round,
    answer_of,
    bytes_of,
    tree_sum,
)
from mcframe.partitions.part import (
    DRIVER_SUM_BYTES,
    REDUCTION_ARITY,
    Distributed,
    RowSharded,
    Source,
    bytes_at_work,
    field_names,
    for_rows,
    with_arrays,
)
from mcframe.partitions.tall_matrix import StoredRows
from mcframe.runtime.machine import thread_limit
from mcframe.runtime.progress import current
from mcframe.runtime.scratch import Scratch
from mcframe.runtime.work import Work

# Arrays of fewer bytes travel with their tasks. Of larger ones so many stay with the workers.
INLINE_BYTES, ARRAYS_PER_PARTITION = 4_096, 48
# Rows that took more rounds in turn are brought here: else all of these would be repeated for rows
# of a worker that dies.
MOST_DEPTH = 64
# Rounds after which it is asked anew which workers there are, for those that joined late.
REFRESH_ROUNDS = 25
# The share of a worker's memory that compiled partitions may take, of all fits together; and the
# seconds after which those of a fit that asks no more are dropped: its process may be killed.
COMPILED_MEMORY_SHARE, UNUSED_SECONDS = 0.5, 600.0


@attrs.frozen
class Slot:
    """The place of an array in a task that comes as a future."""

    place: int


@attrs.frozen(eq=False)
class ClusterRows:
    """Rows with the workers: those of the partitions of each group as one list, a future.

    Where a worker dies the scheduler computes them again from what they were computed from. The
    ``depth`` is the number of rounds in turn that this takes.
    """

    groups: tuple[tuple[tuple[int, ...], int, Any], ...]  # the first rows, the last one, a future
    depth: int

    @classmethod
    def of(
        cls, futures: list[Any], rows: list[tuple[int, int]], length: int, depth: int
    ) -> "ClusterRows":
        """Rows of groups of so many partitions; the last one may have fewer."""
        groups = []
        for k, future in enumerate(futures):
            firsts, lasts = zip(*rows[k * length : (k + 1) * length], strict=True)
            groups.append((firsts, lasts[-1], future))
        return cls(tuple(groups), depth)

    def slots(self, arrays: list[Any], rows: tuple[int, int]) -> "RowsOfGroups":
        """The places of the groups that have some of these rows among ``arrays``."""
        slots = []
        for firsts, last, future in self.groups:
            if firsts[0] < rows[1] and rows[0] < last:
                slots.append((firsts, Slot(len(arrays))))
                arrays.append(future)
        return RowsOfGroups(tuple(slots))


@attrs.frozen(eq=False)
class RowsOfGroups:
    """Rows of some groups in a task: a list of arrays, one of each partition, with first rows."""

    groups: tuple[tuple[tuple[int, ...], Any], ...]

    def filled(self, arrays: list[Any]) -> "RowsOfGroups":
        """The rows themselves in the place of their slots."""
        return RowsOfGroups(tuple((firsts, arrays[slot.place]) for firsts, slot in self.groups))

    def __getitem__(self, rows: slice) -> Array:
        """The rows of one partition."""
        for firsts, blocks in self.groups:
            if rows.start in firsts:
                block: Array = aligned(blocks[firsts.index(rows.start)])
                return block
        raise AssertionError("rows are cut as partitions are")


@attrs.define(eq=False, slots=False)
class OnDask(Partitions):
    """Each round is a task or more for each worker, of what its partitions are given alone.

    An array goes to the cluster once, as a task that returns it: where the worker dies that had
    it, the scheduler runs that task again, as it does with every other. It stays there as long as
    this process has the array, which it may ask for again until then. What a worker keeps of its
    partitions makes later rounds fast, and changes none of their answers.
    """

    source: Source
    client: Any
    sent: dict[tuple[int, int], tuple[Any, Any]] = attrs.field(factory=dict)
    shared_source: Any = None  # its environment and its source, as a future
    preferred_workers: list[str] = attrs.field(factory=list)  # the workers that partitions prefer
    arithmetic: dict[str, dict[str, str]] = attrs.field(factory=dict)  # of workers seen so far
    summands: dict[str, int] = attrs.field(factory=dict)  # bytes of a sum, by its questions
    work: Work = attrs.field(factory=Work)

    def answers_to(self, task: Round) -> tuple[list[Any], Any]:
        """The answers that are not added up, and the sum by ``tree_sum``, in tasks or here.

        The first time that no one knows how large summands are, tasks take the sum. What comes
        back then is as large as each of them.
        """
        began, doing = time.perf_counter(), f"a round of {task.name}"
        current().begin(f"round {self.work.rounds + 1} on the cluster")
        demand_connection(self.client, doing)
        stored: list[Any] = []
        try:
            futures, length = self.submit_round(task)
            n, size = len(futures), self.summands.get(task.name, np.inf)
            has_sums = task.apart in ("nothing", "halves", "rows") or (
                task.apart == "answers" and bool(task.waiting)
            )
            by_tasks = n > 1 and n * size > DRIVER_SUM_BYTES and has_sums
            if by_tasks or task.apart == "rows":
                apart = [self.half_of(future, 0) for future in futures if task.apart != "nothing"]
                sums = [self.half_of(future, 1) for future in futures]
                if task.apart == "rows":
                    depth = 1 + deepest(task)
                    stored, apart = [ClusterRows.of(apart, self.rows, length, depth)], []
                futures = [*apart, self.root_of(sums)] if by_tasks else sums
        except Exception:
            demand_connection(self.client, doing)  # which may be lost meanwhile
            raise
        # An array comes group by group.
        groups = [[future] for future in futures] if task.apart == "array" else [futures]
        answers_of = partial(Gathering, self.client, doing=doing, size=self.size_of_partition)
        coming = itertools.chain.from_iterable(answers_of(group).answers() for group in groups)
        if task.apart == "array":
            with closing(ArrayByRows(self.rows[-1][1])) as by_rows:
                answers = list(map(by_rows.take, coming))
            stored = [by_rows.array]
        else:
            answers = list(coming)
        received = bytes_of(answers) + (bytes_of(stored) if task.apart == "array" else 0)
        if by_tasks:
            rows, total = list(itertools.chain(*answers[:-1])), answers[-1]
        elif task.apart == "rows":
            rows, total = [], tree_sum(answers)
        else:
            rows, total = tree_sum(answers)
        took = time.perf_counter() - began
        self.work += Work(rounds=1, received=received, seconds=took)
        self.summands[task.name] = bytes_of(total)
        for key in list(self.sent)[: -ARRAYS_PER_PARTITION * max(len(self.rows), 1)]:
            self.sent.pop(key, None)
        return stored or aligned(rows), aligned(total)

    def secure(self, rows: StoredRows) -> None:
        """Bring all rows here where a worker's death would repeat many rounds, if they are few."""
        few = self.rows[-1][1] * rows.width <= STORED_NUMBERS
        if not few or rows.array.depth <= MOST_DEPTH:
            return
        for stored in tuple(self.stored_rows):
            if isinstance(stored.array, ClusterRows):
                stored.array = self.concatenate(np.asarray, RowSharded(stored))

    def submit_round(self, task: Round) -> tuple[list[Any], int]:
        """The answers of all groups of partitions, as futures, and the length of a group."""
        if self.shared_source is None:
            self.shared_source = self.submit_value((local_environment(), self.source))
        if not self.preferred_workers or self.work.rounds % REFRESH_ROUNDS == 0:
            self.refresh_preferred_workers()
        n, preferred_workers, futures = len(self.rows), self.preferred_workers, []
        length = length_of_groups(n, len(preferred_workers))
        for first in range(0, n, length):
            last = min(first + length, n) - 1
            arrays: list[Any] = []
            rows = self.rows[first][0], self.rows[last][1]
            cut = with_arrays(task, partial(self.slot, arrays=arrays, group=first, rows=rows))
            self.work += Work(sent=bytes_of(cut))
            preferred_worker = (
                preferred_workers[first * len(preferred_workers) // n]
                if preferred_workers
                else None
            )
            future = self.client.submit(
                answer_in_environment,
                self.shared_source,
                range(first, last + 1),
                cut,
                arrays,
                pure=False,
                key=key_of(task.name, first, last, fresh_key()),
                workers=None if preferred_worker is None else [preferred_worker],
                allow_other_workers=preferred_worker is not None,
            )
            futures.append(future)
        return futures, length

    def half_of(self, answer: Any, k: int) -> Any:
        """One half of an answer, where the answer is."""
        return self.client.submit(itemgetter(k), answer, pure=False, priority=1)

    def root_of(self, summands: list[Any]) -> Any:
        """The sum of all summands, ``REDUCTION_ARITY`` a task: the bits of a pairwise sum."""
        while len(summands) > 1:
            groups = [
                summands[k : k + REDUCTION_ARITY] for k in range(0, len(summands), REDUCTION_ARITY)
            ]
            summands = [self.sum_of(group) if len(group) > 1 else group[0] for group in groups]
        return summands[0]

    def sum_of(self, summands: list[Any]) -> Any:
        """The sum of a few answers, before any other partition begins on its worker."""
        return self.client.submit(
            sum_in_environment, self.shared_source, summands, pure=False, priority=1
        )

    def slot(self, array: Any, arrays: list[Any], group: int, rows: tuple[int, int]) -> Any:
        """The rows of an array for a group, or their place among those that are futures."""
        if isinstance(array, RowSharded) and isinstance(array.array, StoredRows):
            held = array.array.array
            if isinstance(held, ClusterRows):
                return RowSharded(held.slots(arrays, rows))
            array = RowSharded(held)
        if isinstance(array, RowSharded):
            shard = self.slot_of(array.array, array.of(*rows), arrays, group)
            return attrs.evolve(array, array=shard, start=rows[0])
        if isinstance(array, np.ndarray):
            return self.slot_of(array, array, arrays, -1)
        return array

    def slot_of(self, array: Any, shard: Any, arrays: list[Any], group: int) -> Any:
        """A group's own part of an array, or its place among those that come as futures."""
        if shard.nbytes <= INLINE_BYTES:
            return shard
        key, sent = (id(array), group), self.sent
        entry = sent.pop(key, None)  # asked for again: among those that stay
        if entry is None:
            gone = weakref.ref(array, lambda _: sent.pop(key, None))
            entry = gone, self.submit_value(shard)
            self.work += Work(sent=shard.nbytes)
        sent[key] = entry
        arrays.append(entry[1])
        return Slot(len(arrays) - 1)

    def forget(self, value: Any) -> None:
        """Drop what was sent of the arrays of a value: these are not asked for again."""
        if isinstance(value, np.ndarray):
            self.sent.pop((id(value), -1), None)
        elif isinstance(value, Distributed | Broadcast):
            kind: Any = type(value)
            for name in field_names(kind):
                self.forget(getattr(value, name))

    def submit_value(self, value: Any) -> Any:
        """A value on the cluster, which the scheduler can make again."""
        return self.client.submit(identity, value, pure=False)

    def refresh_preferred_workers(self) -> None:
        """Look again which workers there are, unless the scheduler is slow to say so.

        The first time that some compute for another processor a warning says so.
        """
        self.preferred_workers = sorted(workers_of(self.client) or self.preferred_workers)
        fresh, noted = set(self.preferred_workers) - self.arithmetic.keys(), self.notes
        if fresh:
            self.arithmetic.update(arithmetic_of(self.client, fresh))
        if self.notes and not noted:
            warn_caller(self.notes[0])

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of a fit on its workers."""
        note = note_on_arithmetic(self.arithmetic)
        return () if note is None else (note,)

    def size_of_partition(self) -> float:
        """The bytes that the largest partition takes of a worker."""
        model, data = self.source.model, self.source.data
        return max(bytes_at_work(model, data, p) for p in range(len(self.rows)))

    def bound_to(self, source: Source) -> "OnDask":
        """An executor of another source on the same cluster."""
        return OnDask(source, self.client, arithmetic=self.arithmetic, work=self.work)

    def close(self) -> None:
        """Have workers drop their parts; one that is gone has none, one that hangs is left."""
        if self.client.status == "running":
            with suppress(Exception):
                key = self.source.key_of_tables
                self.client.run(
                    drop_cache, key, on_error="ignore", callback_timeout=ANSWER_SECONDS
                )


def deepest(task: Round) -> int:
    """The number of rounds in turn that the rows within a task were computed by."""
    depths = [0]

    def visit(array: Any) -> Any:
        if isinstance(array, RowSharded) and isinstance(array.array, StoredRows):
            depths.append(getattr(array.array.array, "depth", 0))
        return array

    with_arrays(task, visit)
    return max(depths)


def identity(value: Any) -> Any:
    """The value itself: as a task it can be run again where it was lost."""
    return value


def length_of_groups(n_partitions: int, n_workers: int) -> int:
    """Number of neighbouring partitions that one task answers for.

    A power of 2, so that their sum is part of the sum pair by pair; the largest one with which no
    worker has a tenth more to do than its share.
    """
    n_workers, best, length = max(n_workers, 1), 1, 1
    while 2 * length <= n_partitions:
        length *= 2
        n_groups = math.ceil(n_partitions / length)
        if length * math.ceil(n_groups / n_workers) * n_workers <= 1.1 * n_partitions:
            best = length
    return best


def filled(value: Any, arrays: list[Array]) -> Any:
    """A task with its arrays in their places."""

    def fill(array: Any) -> Any:
        if isinstance(array, RowSharded):
            return attrs.evolve(array, array=fill(array.array))
        if isinstance(array, RowsOfGroups):
            return array.filled(arrays)
        return aligned(arrays[array.place]) if isinstance(array, Slot) else array

    return with_arrays(value, fill)


def aligned(value: Any) -> Any:
    """Numbers, arrays, tuples and answers, arrays as the process that made them had them.

    What the network brings may begin at any byte. NumPy computes with a copy of that whose rows
    and columns may stand in the other order, and BLAS then adds up in another one.
    """
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["ALIGNED"])
    if isinstance(value, tuple | list):
        return type(value)(map(aligned, value))
    if not attrs.has(type(value)):
        return value
    kind: Any = type(value)
    return kind(**{name: aligned(getattr(value, name)) for name in field_names(kind)})


@attrs.define(eq=False)
class CachesByFit:
    """The parts that a process keeps as a worker, those of each fit by themselves.

    All together they take a share of its memory: who comes later finds what others leave, and has
    the rest of its parts in a file.
    """

    fits: dict[str, PartCache] = attrs.field(factory=dict)

    def of(self, source: Source, worker: Any) -> PartCache:
        """The parts of the fit that a source belongs to, with the memory that they have now."""
        key, now = source.key_of_tables, time.monotonic()
        if key not in self.fits:
            scratch = Scratch(worker.local_directory)
            scratch.check(f" on worker {worker.address}")
            self.fits[key] = PartCache(scratch=scratch)
        kept = self.fits[key]
        kept.last_used = now
        for other in [k for k, fit in self.fits.items() if now - fit.last_used > UNUSED_SECONDS]:
            self.fits.pop(other).close()
        if kept.scratch is not None:  # which one that is closed has no more
            limit = worker.memory_manager.memory_limit or np.inf
            others = sum(f.held_bytes + f.table_bytes for f in self.fits.values() if f is not kept)
            kept.max_bytes = COMPILED_MEMORY_SHARE * limit - others
        return kept


CACHES, PARTITION_LOCK = CachesByFit(), threading.Lock()


def answer_in_environment(
    shared_source: tuple[dict[str, str], Source], group: range, task: Round, arrays: list[Array]
) -> Any:
    """The answers of neighbouring partitions, and their sum.

    Of a worker that computes with what the fit computes with: those that join late are seen here
    alone. One partition at a time in a process: its loops share its threads.
    """
    from distributed import get_worker

    environment, source = shared_source
    refuse_another_environment(environment)
    worker, filled_task = get_worker(), filled(task, arrays)

    def answer(p: int) -> Any:
        try:
            with (
                PARTITION_LOCK,
                thread_limit(worker.state.nthreads),
                CACHES.of(source, worker).borrowed(source, p) as part,
            ):
                return answer_of(for_rows(filled_task, *source.data.rows(p)), part)
        except McframeError:
            raise
        except Exception as error:
            description = f"{type(error).__name__}: {str(error).rstrip('.')}"
            raise BackendError(
                f"partition {p} was lost in a round of {task.name}: {description}"
            ) from error

    return tree_sum(map(answer, group))


def sum_in_environment(shared_source: tuple[dict[str, str], Source], answers: list[Any]) -> Any:
    """The sum of answers, of a worker that computes with what the fit computes with."""
    refuse_another_environment(shared_source[0])
    return tree_sum(map(aligned, answers))


def drop_cache(key: str) -> None:
    """Drop the parts of a fit that this process has kept as a worker, unless it works for long."""
    if key in CACHES.fits and PARTITION_LOCK.acquire(timeout=ANSWER_SECONDS):
        try:
            CACHES.fits[key].close()
        finally:
            PARTITION_LOCK.release()
