"""One partition: its tables, its program, the values that it has alone, and what it takes."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.compiling import compile_background, compile_loss
from mcframe.compile.loss import BlockLoss, EntryLoss
from mcframe.compile.penalty import NoPenalty
from mcframe.compile.program import Entries, EntryIndex, Program
from mcframe.compile.solving import EntriesAt
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.sent import Broadcast, fresh_key
from mcframe.model import Block, Layout, Model, Problem
from mcframe.model.binding import Totals
from mcframe.model.model import Observations
from mcframe.model.reading import read_block
from mcframe.model.table import Table
from mcframe.partitions.partitioned_data import PartitionedData

# The key of numbers that are all 0.
ZEROS = "zeros"
# What holds no array, which is most of what a question consists of.
SCALAR_TYPES = frozenset({int, float, bool, str, type(None)})


@attrs.frozen(eq=False)
class RowSharded:
    """An array with one row an item, of which each partition is given its own rows.

    The first numbers, ``before`` the rows, and the last, ``after`` them, go to every partition.
    """

    array: Any
    before: int = 0
    after: int = 0
    start: int = 0  # the first row that the array has

    def of(self, first: int, last: int) -> Any:
        """The rows of one partition, and the numbers that all partitions get.

        Row by row in memory, as rows arrive that have travelled: of columns BLAS adds up in
        another order.
        """
        skipped = self.before - self.start
        rows = self.array[skipped + first : skipped + last]
        if not (self.before or self.after):
            return np.ascontiguousarray(rows)
        end = len(self.array) - self.after
        return np.concatenate([self.array[: self.before], rows, self.array[end:]])


def sharded_effects(layout: Layout, effects: Array | Mask | None) -> Any:
    """Effects of a block as questions take them: those of rows go to their partitions."""
    if effects is None or not layout.n_row_effects:
        return effects
    last = layout.size - layout.n_biases - layout.n_row_effects
    return RowSharded(effects, layout.n_biases, last)


class Distributed:
    """An attrs class whose ``RowSharded`` fields are cut by rows; ``at`` a part it is a value."""

    def at(self, part: "Part") -> Any:
        """The value of one partition, of what has been cut for it."""
        raise NotImplementedError


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """The fields of an attrs class, which are asked for once a task and partition."""
    return tuple(field.name for field in attrs.fields(kind))


def with_arrays(value: Any, change: Callable[[Any], Any]) -> Any:
    """A distributed value or a tuple, its arrays, which may be ``RowSharded``, changed."""
    if type(value) in SCALAR_TYPES:
        return value
    if isinstance(value, tuple):
        return tuple(with_arrays(part, change) for part in value)
    if isinstance(value, Distributed | Broadcast):
        kind: Any = type(value)
        fields = {name: getattr(value, name) for name in field_names(kind)}
        return kind(**{name: with_arrays(part, change) for name, part in fields.items()})
    return change(value)


def for_rows(value: Any, first: int, last: int) -> Any:
    """A distributed value, a tuple or an array, cut to the rows of a partition."""
    return with_arrays(
        value, lambda array: array.of(first, last) if isinstance(array, RowSharded) else array
    )


def values_at(value: Any, part: "Part") -> Any:
    """Distributed values, those in tuples among them, as one partition has them."""
    if isinstance(value, tuple):
        return tuple(values_at(element, part) for element in value)
    return value.at(part) if isinstance(value, Distributed) else value


@attrs.frozen(eq=False)
class PartAttribute(Distributed):
    """An attribute of a partition by its dotted name; the partition itself without one."""

    path: str = ""

    def at(self, part: "Part") -> Any:
        """The attribute of a partition."""
        return operator.attrgetter(self.path)(part) if self.path else part


PART, PROGRAM = PartAttribute(), PartAttribute("program")
LOSS, ENTRIES = PartAttribute("program.loss"), PartAttribute("program.entries")


@attrs.frozen(eq=False)
class PartValue(Distributed):
    """A function, or a method, and its arguments: each partition computes the result of its own.

    Of the arguments distributed values are those of the partition.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The name of the question."""
        return str(self.arguments[-1] if self.function is getattr else self.function.__name__)

    def at(self, part: "Part") -> Any:
        """The value of a partition."""
        return self.function(*values_at(self.arguments, part))


@attrs.frozen(eq=False)
class LazyEntryValues(PartValue):
    """One number an entry, as each partition finds its own: no process holds all of them.

    ``size`` counts those of all partitions; a partition keeps some of what it found by ``key``,
    which changes nothing.
    """

    # Of NumPy's numbers times these the product is ours.
    __array_ufunc__ = None

    size: int = attrs.field(kw_only=True)
    key: str = attrs.field(factory=fresh_key, kw_only=True)

    def at(self, part: "Part") -> Array:
        """The values of a partition, found now or kept from before."""
        return part.entry_values(self)

    def compute(self, part: "Part") -> Any:
        """The values of a partition, found now."""
        return PartValue.at(self, part)

    def changed(self, function: Callable[..., Array], *arguments: Any) -> "LazyEntryValues":
        """The result of a function, as many numbers as these."""
        return LazyEntryValues(function, arguments, size=self.size)

    def __add__(self, other: "LazyEntryValues") -> "LazyEntryValues":
        return self.changed(operator.add, self, other)

    def __sub__(self, other: "LazyEntryValues") -> "LazyEntryValues":
        return self.changed(operator.sub, self, other)

    def __rmul__(self, factor: float) -> "LazyEntryValues":
        if factor == 0.0:
            size = PartAttribute("program.entries.size")
            return LazyEntryValues(np.zeros, (size,), size=self.size, key=ZEROS)
        return self.changed(operator.mul, float(factor), self)


def block_loss_of(k: int) -> PartValue:
    """The losses of block k."""
    return PartValue(operator.getitem, (PartAttribute("program.loss.block_losses"), k))


def entries_of(block_loss: BlockLoss, z: Array) -> EntriesAt:
    """The entries of a block at predictors of all blocks without effects."""
    predictors = block_loss.offset_part(z)
    return EntriesAt(
        block_loss.effects, block_loss.likelihood, predictors, block_loss.y, block_loss.scale
    )


@attrs.frozen(eq=False)
class ElementwiseMin:
    """An answer of which the least is taken where others are added up; the largest by ``-x``."""

    numbers: Array

    def __add__(self, other: "ElementwiseMin") -> "ElementwiseMin":
        return ElementwiseMin(np.minimum(self.numbers, other.numbers))


@attrs.frozen(eq=False)
class ByEffect:
    """Sums by effect as an answer: of columns and an intercept they add up, of rows they join.

    ``sums`` are (how many, effects), effects in the order of a layout, of rows those that there
    are.
    """

    sums: Array
    n_biases: int
    n_intercepts: int

    @classmethod
    def of(cls, layout: Layout, sums: Sequence[Array]) -> "ByEffect":
        """Sums of the entries of a partition, whose layout this is."""
        return cls(np.stack(sums), layout.n_biases, layout.n_intercepts)

    def __add__(self, other: "ByEffect") -> "ByEffect":
        starts = [operand.sums.shape[1] - operand.n_intercepts for operand in (self, other)]
        rows = [
            operand.sums[:, operand.n_biases : k]
            for operand, k in zip((self, other), starts, strict=True)
        ]
        biases = self.sums[:, : self.n_biases] + other.sums[:, : self.n_biases]
        intercepts = self.sums[:, starts[0] :] + other.sums[:, starts[1] :]
        sums = np.concatenate([biases, *rows, intercepts], axis=1)
        return ByEffect(sums, self.n_biases, self.n_intercepts)


# How many arrays of numbers a partition keeps; with fewer a fit finds many of them anew.
ARRAYS_KEPT = 4
# What a compiled partition holds of an entry: 8 bytes of its row and column, 12 of its two orders
# besides, 8 of its value, and the numbers above.
BYTES_PER_ENTRY = 28 + 8 * ARRAYS_KEPT
# The most bytes for each entry in a process that reads, compiles or evaluates one partition.
WORKING_BYTES_PER_ENTRY = 110


@contextmanager
def in_partition(data: PartitionedData, p: int) -> Iterator[None]:
    """Have errors of data say in which partition they are."""
    try:
        yield
    except DataError as error:
        first, last = data.rows(p)
        raise DataError(
            f"partition {p} (rows {first} to {last - 1}, which are counted from 0 here): {error}"
        ) from None


@attrs.frozen(eq=False)
class Source:
    """The data, the model and the totals of all rows: any process makes any partition of these.

    Without ``totals`` its tables are read and no more. Two sources with one ``key`` are the same,
    and with one ``key_of_tables`` they have the same tables.
    ``form`` says what is made of a part in the place of a ``Program``. ``row_attributes``, an
    ``AttributeRows``, are those of a posterior.
    """

    data: PartitionedData
    model: Model
    totals: Totals | None = None
    form: Callable[["Part"], Any] | None = None
    row_attributes: Any = None
    key: str = attrs.field(factory=fresh_key)
    key_of_tables: str = attrs.field(factory=fresh_key)

    @property
    def words(self) -> tuple[Likelihood, ...]:
        """The likelihoods, which all parts share and no part stores."""
        likelihoods = tuple(block.likelihood for block in self.model.blocks)
        if self.totals is None:
            return likelihoods
        return (*likelihoods, *self.totals.likelihoods.values())

    def part(self, p: int, tables: Mapping[str, Table] | None = None) -> "Part":
        """Read partition p, unless its tables are at hand, and compile it.

        A ``DataError`` says which one it is.
        """
        part = Part(self, p)
        if tables is not None:
            part.__dict__["tables"] = tables
        with in_partition(self.data, p):
            _ = part.tables if self.totals is None else part.program
        return part

    def bound_with(self, totals: Totals) -> "Source":
        """The source of the same data with the totals of all rows."""
        return attrs.evolve(self, totals=totals, key=fresh_key())


@attrs.define(eq=False, slots=False)
class Part:
    """Some rows of a table as a program of their own, bound with the totals of all rows.

    ``entry_values`` keeps the last few arrays that it found: most are asked for again at once.
    """

    source: Source
    p: int
    kept: dict[str, Array] = attrs.field(factory=dict)

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables of its rows, checked; a block may have no entry here."""
        model, data = self.source.model, self.source.data.part(self.p)
        tables = {block.name: read_part(block, data[block.name]) for block in model.blocks}
        first, last = self.source.data.rows(self.p)
        for name, table in tables.items():
            wanted = (last - first, self.source.data.shape(name)[1])
            if table.shape != wanted:
                raise DataError(f"block {name!r} is {table.shape} here, and {wanted} is needed")
        return tables

    def drop_tables(self) -> None:
        """Forget the tables, which the program needs no more; they are read anew if asked for."""
        for name in ("tables", "problem"):
            self.__dict__.pop(name, None)

    @cached_property
    def problem(self) -> Problem:
        """The problem of its rows."""
        assert self.source.totals is not None
        return Problem.of_tables(self.source.model, self.tables, self.source.totals)

    @cached_property
    def program(self) -> Program:
        """The program of its rows, Z in factors, or what the source makes in its place."""
        if self.source.form is not None:
            return self.source.form(self)
        loss, wide = compile_loss(self.problem, whole=False)
        scales_of_term = self.problem.scales_of(self.source.model.terms[0])
        scales = None if scales_of_term is None else scales_of_term.inverse
        entries = attrs.evolve(compact_entries(wide), scales=scales)
        block_losses = tuple(
            compact_block_loss(block_loss, wide, entries) for block_loss in loss.block_losses
        )
        loss = EntryLoss(block_losses)
        names = tuple(block.name for block in self.source.model.blocks)
        return Program(
            entries=entries,
            loss=loss,
            background=attrs.evolve(
                compile_background(self.problem, loss, entries), scales=scales
            ),
            penalty=NoPenalty(),
            names=names,
            columns=tuple(self.problem.columns(name) for name in names),
        )

    def entry_values(self, values: LazyEntryValues) -> Array:
        """The values at its entries, found now or kept from before."""
        numbers = self.kept.pop(values.key, None)
        if numbers is None:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                numbers = values.compute(self)
        self.keep(values.key, numbers)
        return numbers

    def keep(self, key: str, numbers: Array) -> None:
        """Keep what was found, and forget what was asked for longest ago."""
        self.kept[key] = numbers
        while len(self.kept) > ARRAYS_KEPT:
            del self.kept[next(iter(self.kept))]


def read_part(block: Block, data: Any) -> Table:
    """Read the rows of one block in one partition: unlabeled cells are never written out."""
    if block.likelihood.reads_unlabeled and isinstance(data, Observations):
        raise DataError(
            f"block {block.name!r}: its data have weights or an offset, which unlabeled cells"
            " that are not written out do not take; leave these out, or fit the table in one"
            " piece"
        )
    return read_block(block, data, implicit_beyond=0)


def as_uint32(places: IntArray) -> Any:
    """Rows or columns with 4 bytes each, as patterns hold them."""
    return places.astype(np.uint32)


def compact_entries(entries: Entries) -> Entries:
    """The entries with rows and columns of 4 bytes, their columns once, and no values.

    Values count for the seed of the pattern alone, which is known then.
    """
    pattern = entries.with_form(sparse=True, random_state=0).pattern
    lines = pattern.by_rows
    columns: Any = lines.across if lines.in_order else as_uint32(entries.columns)
    return Entries(
        entries.shape,
        as_uint32(entries.rows),
        columns,
        np.zeros(0),
        sparse=True,
        index=EntryIndex(pattern=pattern),
    )


def compact_block_loss(block_loss: BlockLoss, wide: Entries, entries: Entries) -> BlockLoss:
    """The block with rows and columns of 4 bytes: those of the entries where they are the same.

    Without the ridge on biases, which counts once and not in each partition.
    """
    rows = entries.rows if block_loss.rows is wide.rows else as_uint32(block_loss.rows)
    same = block_loss.columns is wide.columns
    columns = entries.columns if same else as_uint32(block_loss.columns)
    effects = block_loss.effects
    of_classes = effects.width > 1 and effects.size
    places = as_uint32(effects.columns) if of_classes else columns
    ridge = None if block_loss.layout.n_biases else effects.ridge
    effects = attrs.evolve(effects, rows=rows, columns=places, ridge=ridge)
    return attrs.evolve(block_loss, rows=rows, columns=columns, effects=effects)


# How many answers a task on a cluster adds up, a power of 2 so that it is part of the pairwise
# tree. Twice as many are fewer tasks, and more that one worker holds and fetches in turn.
REDUCTION_ARITY = 8
# Bytes of all answers of a round that the driver fetches and adds up itself: with 32 partitions on
# two local workers their tree took as long at 20 MB, half as long again at 4 MB, and 0.7 of the
# time at 160 MB.
DRIVER_SUM_BYTES = 16_000_000


def bytes_of_equations(width: int) -> int:
    """Normal equations of one column, of one partition or of all: what slabs are cut by."""
    return 8 * (width * (width + 1) // 2 + width)


def bytes_to_driver(n_partitions: int, answer: int) -> int:
    """The bytes that come to the driver for the sum of answers of so many bytes."""
    return answer if n_partitions * answer > DRIVER_SUM_BYTES else n_partitions * answer


def sums_in_memory(n_partitions: int) -> int:
    """The largest number of answers that a process holds while it adds them up as they come.

    A sum for each level of the tree, the next answer, and one more where two are added.
    """
    return n_partitions.bit_length() + 2


# A number of double precision, and a place in an order.
NUMBER_BYTES, PLACE_BYTES = 8, 4


def bytes_compiled(model: Model, data: PartitionedData, p: int) -> int:
    """Bytes of partition p, compiled, with the numbers at its entries, less a pointer a row.

    Where data do not say how many entries each block has, that of the most bytes has all.
    """
    blocks = [block for block in model.blocks if block.name in data.blocks]
    entry_bytes = [bytes_of_entry(block, data, len(blocks) > 1) for block in blocks]
    counted = getattr(data, "block_entries", None)
    if counted is None:
        return max(entry_bytes, default=0) * data.n_entries(p)
    return sum(
        n_bytes * counted(block.name, p)
        for block, n_bytes in zip(blocks, entry_bytes, strict=True)
    )


def bytes_of_entry(block: Block, data: PartitionedData, several: bool) -> int:
    """Bytes of an entry of a block, one of ``several`` or alone.

    Where data do not say what else entries have than their values, they have all that there is.
    """
    additions_of, width = getattr(data, "additions", None), block.likelihood.width
    added = ("weight", "offset") if additions_of is None else additions_of(block.name)
    shifted = "offset" in added or "exposure" in added
    # Its value it has once, all else for each number of z. Of several blocks it also has its place
    # in the order by columns, and its row and column in the block; of classes those of effects.
    places = (
        width * several + 2 * (several or width > 1) + width * (width > 1 and bool(block.bias))
    )
    numbers = 1 + ("weight" in added or bool(block.standardize))
    # Offsets of a location are taken off its values.
    numbers += width * (shifted and not block.likelihood.location)
    rest = width * (BYTES_PER_ENTRY - NUMBER_BYTES)
    return NUMBER_BYTES * numbers + PLACE_BYTES * places + rest


def bytes_at_work(model: Model, data: PartitionedData, p: int) -> int:
    """Bytes of partition p while a process reads, compiles or asks it, at most."""
    widest = max((block.likelihood.width for block in model.blocks), default=1)
    return bytes_compiled(model, data, p) + WORKING_BYTES_PER_ENTRY * widest * data.n_entries(p)
