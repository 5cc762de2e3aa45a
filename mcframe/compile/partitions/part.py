"""One partition: its tables, its program, and the numbers at its entries."""

from collections.abc import Mapping
from functools import cached_property

import attrs
import numpy as np

from mcframe.compile.compiling import compile_loss
from mcframe.compile.effects import OneKind, TwoKinds
from mcframe.compile.loss import EntryLoss
from mcframe.compile.partitions.numbers import Numbers, fresh_key
from mcframe.compile.piece import Piece
from mcframe.compile.program import Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.model import Model, Problem
from mcframe.model.partitioned import PartitionedData
from mcframe.model.reading import read_table
from mcframe.model.table import Table
from mcframe.model.totals import Totals
from mcframe.numerics.unlabeled.background import Background

__all__ = ["BYTES_PER_ENTRY", "Part", "Source"]

# What a partition holds of an entry: 24 bytes of the table, 16 of its two orders, and some of the
# numbers below; and how many arrays of numbers it keeps.
BYTES_PER_ENTRY, KEPT = 100, 6


@attrs.frozen(eq=False)
class Source:
    """The data, the model and what all rows told: any process makes any partition of these.

    Without ``totals`` its tables are read and no more. Two sources with one ``key`` are the same.
    """

    data: PartitionedData
    model: Model
    totals: Totals | None = None
    key: str = attrs.field(factory=fresh_key)

    def part(self, p: int) -> "Part":
        """Read partition p; a ``DataError`` says which one it is."""
        part = Part(self, p)
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
        """The source of the same data with what all rows told."""
        return Source(self.data, self.model, totals)


@attrs.define(eq=False, slots=False)
class Part:
    """Some rows of a table as a program of their own, bound with the totals of all rows.

    ``numbers`` keeps the last few arrays that it found, since most are asked for again at once.
    """

    source: Source
    p: int
    kept: dict[str, Array] = attrs.field(factory=dict)

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables of its rows, checked; a block may have no entry here."""
        model, data = self.source.model, self.source.data.part(self.p)
        tables = {block.name: read_table(block, data[block.name]) for block in model.blocks}
        first, last = self.source.data.rows(self.p)
        for name, table in tables.items():
            wanted = (last - first, self.source.data.shape(name)[1])
            if table.shape != wanted:
                raise DataError(f"block {name!r} is {table.shape} here, and {wanted} is needed")
        return tables

    @cached_property
    def problem(self) -> Problem:
        """The problem of its rows."""
        assert self.source.totals is not None
        return Problem.of_tables(self.source.model, self.tables, self.source.totals)

    @cached_property
    def program(self) -> Program:
        """The program of its rows, Z in factors."""
        loss, entries = compile_loss(self.problem)
        pieces = tuple(without_ridge_of_columns(piece) for piece in loss.pieces)
        names = tuple(block.name for block in self.source.model.blocks)
        return Program(
            entries=entries.with_form(sparse=True, random_state=0),
            loss=EntryLoss(pieces),
            background=Background((), entries.columns, entries.shape),
            penalty=None,
            names=names,
            columns=tuple(self.problem.columns(name) for name in names),
        )

    @property
    def n_entries(self) -> int:
        """Entries of all its blocks."""
        return sum(table.n_entries for table in self.tables.values())

    def numbers(self, numbers: Numbers) -> Array:
        """The numbers at its entries, found now or kept from before."""
        found = self.kept.pop(numbers.key, None)
        if found is None:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                found = numbers.find(self)
        self.keep(numbers, found)
        return found

    def keep(self, numbers: Numbers, found: Array) -> None:
        """Keep what was found, and forget what was asked for longest ago."""
        self.kept[numbers.key] = found
        while len(self.kept) > KEPT:
            del self.kept[next(iter(self.kept))]


def without_ridge_of_columns(piece: Piece) -> Piece:
    """The piece without the ridge on biases: that counts once, and not in each partition."""
    if piece.layout.n_biases and isinstance(piece.effects, OneKind | TwoKinds):
        return attrs.evolve(piece, effects=attrs.evolve(piece.effects, ridge=None))
    return piece
