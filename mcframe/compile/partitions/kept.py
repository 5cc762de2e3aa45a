"""Compiled partitions that a fit keeps from round to round: in memory, then on the disk."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs
import numpy as np

from mcframe.compile.partitions.part import KEPT, Part, Source
from mcframe.compile.partitions.work import bytes_of
from mcframe.contracts.arrays import Array
from mcframe.model.table import Table
from mcframe.numerics.scratch import Scratch, Stored, packed


@attrs.define(eq=False)
class KeptParts:
    """Compiled partitions of the source asked for last: the first in memory, others in a file.

    Tables that were read before all was known that compiling needs stay in memory until then, as
    far as memory allows; what is compiled comes first.

    Attributes
    ----------
    most : float
        The bytes of those that stay in memory.
    scratch : Scratch or None
        The file of the others; None where these are read and compiled anew in each round.
    """

    most: float = np.inf
    scratch: Scratch | None = None
    key: str = ""
    parts: dict[int, Part] = attrs.field(factory=dict)
    stored: dict[int, "StoredPart"] = attrs.field(factory=dict)
    held: int = 0
    compiled: int = 0  # how often a partition was
    key_of_tables: str = ""
    tables: dict[int, Mapping[str, Table]] = attrs.field(factory=dict)
    read: int = 0  # the bytes of these tables
    asked: float = 0.0  # a moment of ``time.monotonic``, of those that a worker keeps

    @contextmanager
    def borrowed(self, source: Source, p: int, n_ahead: int = 0) -> Iterator[Part]:
        """Partition p while it is asked something.

        What it has found by then is kept with it. ``n_ahead`` are the entries of partitions that
        are known to come here after it: space is left for them, too.
        """
        self.turn_to(source)
        if source.totals is None:
            looked_at = source.part(p, self.tables.get(p))
            yield looked_at
            self.take_tables(looked_at)
            return
        stored = self.stored.get(p)
        part = self.parts.get(p) or (None if stored is None else stored.part(source))
        if part is None:
            part = source.part(p, self.tables_given_up(p))
            self.compiled += 1
        yield part
        part.leave_tables()
        if stored is not None:
            stored.keep(part)
        elif p not in self.parts:
            self.take(part, n_ahead)

    def turn_to(self, source: Source) -> None:
        """Drop what was kept of another source, but for tables that are those of this one."""
        if self.key == source.key:
            return
        tables, read = self.tables, self.read
        self.forget()
        if self.key_of_tables == source.key_of_tables:
            self.tables, self.read = tables, read
        self.key, self.key_of_tables = source.key, source.key_of_tables

    def take_tables(self, part: Part) -> None:
        """Keep the tables of a part where memory allows."""
        size = bytes_of_tables(part.tables)
        if part.p not in self.tables and self.read + size <= self.most:
            self.tables[part.p], self.read = part.tables, self.read + size

    def tables_given_up(self, p: int) -> Mapping[str, Table] | None:
        """The tables of partition p if they were kept, which they are no more."""
        tables = self.tables.pop(p, None)
        self.read -= 0 if tables is None else bytes_of_tables(tables)
        return tables

    def take(self, part: Part, n_ahead: int) -> None:
        """Keep a part that was compiled just now."""
        found = packed(part.program, part.source.words)
        n_entries = part.source.data.n_entries(part.p)
        numbers = 8 * KEPT * part.program.n_numbers
        size = found.n_bytes + numbers
        if self.held + size <= self.most:
            while self.held + size + self.read > self.most:  # tables that are wanted last go first
                self.tables_given_up(next(reversed(self.tables)))
            self.parts[part.p], self.held = part, self.held + size
        elif self.scratch is not None:
            ahead = size * n_ahead // max(n_entries, 1)
            place = self.scratch.put(found, spare=numbers, ahead=ahead)
            stored = StoredPart(self.scratch, part.p, place)
            stored.keep(part)
            self.stored[part.p] = stored

    def forget(self) -> None:
        """Drop all parts, and free their memory."""
        self.parts, self.stored, self.held = {}, {}, 0
        self.tables, self.read = {}, 0
        if self.scratch is not None:
            self.scratch.close()

    def close(self) -> None:
        """Drop all parts; those that are asked for from now on are not kept."""
        self.forget()
        self.most, self.scratch = 0.0, None


def bytes_of_tables(tables: Mapping[str, Table]) -> int:
    """The bytes of arrays of tables, those over the pages of a file among them."""
    return bytes_of(tuple(tables.values()))


@attrs.define(eq=False)
class StoredPart:
    """A compiled partition in a file, and which of its numbers stand where behind it."""

    scratch: Scratch
    p: int
    place: Stored
    slots: dict[str, int] = attrs.field(factory=dict)

    def part(self, source: Source) -> Part:
        """The partition over the pages of the file."""
        program, spare = self.scratch.get(self.place, source.words)
        part, size = Part(source, self.p), 8 * program.n_numbers
        part.program = program
        for key, slot in self.slots.items():
            part.kept[key] = np.frombuffer(spare[slot * size : (slot + 1) * size])
        return part

    def keep(self, part: Part) -> None:
        """Write the numbers that the part has found; they take the places of those that it forgot.

        Interrupted anywhere, no name stands for a place that holds other numbers.
        """
        self.slots = {key: slot for key, slot in self.slots.items() if key in part.kept}
        free = sorted(set(range(KEPT)) - set(self.slots.values()))
        for key, numbers in part.kept.items():
            if key not in self.slots:
                slot = free.pop(0)
                self.write(slot, np.ascontiguousarray(numbers))
                self.slots[key] = slot
        self.slots = {key: self.slots[key] for key in part.kept}  # the order is that of their use

    def write(self, slot: int, numbers: Array) -> None:
        """Write the numbers of one place."""
        start = self.place.start + self.place.spare
        self.scratch.write(start + slot * numbers.nbytes, numbers.data)
