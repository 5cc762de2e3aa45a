"""One partition: its tables, its program, and the numbers at its entries."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.compiling import compile_background, compile_loss
from mcframe.compile.entries import Entries, Orders
from mcframe.compile.loss import EntryLoss
from mcframe.compile.partitions.values import EntryValues, fresh_key
from mcframe.compile.piece import Piece
from mcframe.compile.program import Program
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Likelihood
from mcframe.model import Block, Model, Problem
from mcframe.model.binding import Totals
from mcframe.model.observations import Observations
from mcframe.model.partitioned import PartitionedData
from mcframe.model.reading import read_table
from mcframe.model.table import Table

# How many arrays of numbers a partition keeps. With one less a fit finds 1.7 to 2 times as many of
# them anew, with twice as many 3 to 7 % fewer: of all kinds of losses, with effects or not.
KEPT = 4
# What a compiled partition holds of an entry: 8 bytes of its row and column, 12 of its two orders
# besides, 8 of its value, and the numbers above.
BYTES_PER_ENTRY = 28 + 8 * KEPT
# What a process holds of an entry of the one partition that it reads, compiles or asks, at most.
BYTES_AT_WORK = 110


@attrs.frozen(eq=False)
class Source:
    """The data, the model and the totals of all rows: any process makes any partition of these.

    Without ``totals`` its tables are read and no more. Two sources with one ``key`` are the same,
    and with one ``key_of_tables`` they have the same tables.
    ``scratch`` names a folder for parts that do not fit into the memory of who makes them.
    ``form`` says what is made of a part in the place of a ``Program``.
    """

    data: PartitionedData
    model: Model
    totals: Totals | None = None
    scratch: str | None = None
    form: Callable[["Part"], Any] | None = None
    key: str = attrs.field(factory=fresh_key)
    key_of_tables: str = attrs.field(factory=fresh_key)

    @property
    def words(self) -> tuple[Likelihood, ...]:
        """What all parts share, and no part stores."""
        given = tuple(block.likelihood for block in self.model.blocks)
        return given if self.totals is None else (*given, *self.totals.likelihoods.values())

    def part(self, p: int, tables: Mapping[str, Table] | None = None) -> "Part":
        """Read partition p, unless its tables are at hand, and compile it.

        A ``DataError`` says which one it is.
        """
        part = Part(self, p)
        if tables is not None:
            part.__dict__["tables"] = tables
        try:
            _ = part.tables if self.totals is None else part.program
        except DataError as error:
            first, last = self.data.rows(p)
            raise DataError(
                f"partition {p} (rows {first} to {last - 1}, which are counted from 0 here):"
                f" {error}"
            ) from None
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

    def leave_tables(self) -> None:
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
            made: Any = self.source.form(self)
            return made
        loss, wide = compile_loss(self.problem, whole=False)
        found = self.problem.scales_of(self.source.model.terms[0])
        scales = None if found is None else found.inverse
        entries = attrs.evolve(narrowed_entries(wide), scales=scales)
        pieces = tuple(
            without_ridge_of_columns(narrowed_piece(piece, wide, entries)) for piece in loss.pieces
        )
        loss = EntryLoss(pieces)
        names = tuple(block.name for block in self.source.model.blocks)
        return Program(
            entries=entries,
            loss=loss,
            background=attrs.evolve(
                compile_background(self.problem, loss, entries), scales=scales
            ),
            penalty=None,
            names=names,
            columns=tuple(self.problem.columns(name) for name in names),
        )

    def entry_values(self, values: EntryValues) -> Array:
        """The values at its entries, found now or kept from before."""
        found = self.kept.pop(values.key, None)
        if found is None:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                found = values.find(self)
        self.keep(values.key, found)
        return found

    def keep(self, key: str, found: Array) -> None:
        """Keep what was found, and forget what was asked for longest ago."""
        self.kept[key] = found
        while len(self.kept) > KEPT:
            del self.kept[next(iter(self.kept))]


def read_part(block: Block, given: Any) -> Table:
    """Read the rows of one block in one partition: unlabeled cells are never written out."""
    if block.likelihood.reads_unlabeled and isinstance(given, Observations):
        raise DataError(
            f"block {block.name!r}: its data have weights or an offset, which unlabeled cells"
            " that are not written out do not take; leave these out, or fit the table in one"
            " piece"
        )
    return read_table(block, given, unwritten_beyond=0)


def narrowed(places: IntArray) -> IntArray:
    """Rows or columns with 4 bytes each, as patterns hold them."""
    found: Any = places.astype(np.uint32)
    return found


def narrowed_entries(entries: Entries) -> Entries:
    """The entries with rows and columns of 4 bytes, their columns once, and no values.

    Values count for the seed of the pattern alone, which is known then.
    """
    pattern = entries.with_form(sparse=True, random_state=0).pattern
    lines = pattern.by_rows
    columns: Any = lines.across if lines.as_given else narrowed(entries.columns)
    return Entries(
        entries.shape,
        narrowed(entries.rows),
        columns,
        np.zeros(0),
        sparse=True,
        orders=Orders(pattern=pattern),
    )


def narrowed_piece(piece: Piece, wide: Entries, entries: Entries) -> Piece:
    """The piece with rows and columns of 4 bytes: those of the entries where they are the same."""
    rows = entries.rows if piece.rows is wide.rows else narrowed(piece.rows)
    same = piece.columns is wide.columns
    columns = entries.columns if same else narrowed(piece.columns)
    effects = piece.effects
    of_classes = effects.width > 1 and effects.size
    places = narrowed(effects.columns) if of_classes else columns
    effects = attrs.evolve(effects, rows=rows, columns=places)
    return attrs.evolve(piece, rows=rows, columns=columns, effects=effects)


def without_ridge_of_columns(piece: Piece) -> Piece:
    """The piece without the ridge on biases: that counts once, and not in each partition."""
    if piece.layout.n_biases:
        return attrs.evolve(piece, effects=attrs.evolve(piece.effects, ridge=None))
    return piece
