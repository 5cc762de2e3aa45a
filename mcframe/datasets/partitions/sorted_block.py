"""One block sorted into partitions: an external sort, bucket by bucket."""

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.extents import Extent
from mcframe.datasets.partitions.header import StoredFile, file_name, save_array
from mcframe.datasets.partitions.sorting import Spool, distribute, sort_bucket
from mcframe.datasets.partitions.workshop import refuse_full

__all__ = ["SortedBlock"]

Records = npt.NDArray[Any]


@attrs.frozen(eq=False)
class SortedBlock:
    """The writing of one block, partition by partition.

    Attributes
    ----------
    place : Path
        The workshop.
    position : int
        Of the block among the blocks.
    spool : Spool
        Deleted when its entries are in buckets.
    extent : Extent
    cuts : array (n_partitions + 1,)
    duplicates : str
    """

    place: Path
    position: int
    spool: Spool
    extent: Extent
    cuts: IntArray
    duplicates: str

    def write(self, files: dict[str, StoredFile]) -> tuple[int, ...]:
        """Write all partitions, add their files, and return how many entries each has."""
        if self.duplicates == "sum" and self.spool.names:
            raise DataError(
                f"block {self.extent.name!r}: its entries have {' and '.join(self.spool.names)},"
                " which have no sum; give each cell one entry"
            )
        n_partitions = self.cuts.size - 1
        refuse_full(self.place, self.spool.n_bytes)
        buckets = [self.place / f"p{p:05d}-b{self.position}.bucket" for p in range(n_partitions)]
        distribute(self.spool, self.cuts, buckets)
        self.spool.path.unlink(missing_ok=True)
        counts, repeated = [], Repeated(self.extent.name)
        for p, bucket in enumerate(buckets):
            records, cells = self.sorted(bucket, p)
            bucket.unlink(missing_ok=True)
            records = self.summed(records, cells, repeated)
            counts.append(int(records.size))
            if not repeated.count:  # else nothing will be kept, and the rest is only counted
                files |= self.save(records, p)
        repeated.refuse()
        return tuple(counts)

    def sorted(self, bucket: Path, p: int) -> tuple[Records, IntArray]:
        """Return the records of a partition in order, and their cells."""
        return sort_bucket(
            bucket,
            self.spool.record,
            first_row=int(self.cuts[p]),
            n_columns=self.extent.width,
            by_value=self.duplicates == "sum",
        )

    def summed(self, records: Records, cells: IntArray, repeated: "Repeated") -> Records:
        """Return one record a cell: those of one cell are summed, or counted to be refused."""
        first = np.diff(cells, prepend=-1) != 0
        if first.all():
            return records
        if self.duplicates == "refuse":
            repeated.add(records[~first])
            return records
        kept = records[first]
        kept["value"] = np.add.reduceat(records["value"], np.flatnonzero(first))
        return kept

    def save(self, records: Records, p: int) -> dict[str, StoredFile]:
        """Write the arrays of a partition, and return their files."""
        start, stop = int(self.cuts[p]), int(self.cuts[p + 1])
        ends = np.searchsorted(records["row"], np.arange(start, stop + 1))
        # SciPy copies both where they differ in type.
        places = np.int32 if records.size <= np.iinfo(np.int32).max else np.int64
        arrays = {"indptr": ends.astype(places), "columns": records["column"].astype(places)}
        for what, exact in self.spool.exact.items():
            arrays[what] = records[what].astype(np.float32 if exact else np.float64)
        names = {what: file_name(p, self.position, what) for what in arrays}
        return {names[what]: save_array(self.place / names[what], arrays[what]) for what in arrays}


@attrs.define
class Repeated:
    """Cells of a block that have several entries."""

    name: str
    count: int = 0
    place: tuple[int, int] = (0, 0)

    def add(self, records: Records) -> None:
        """Count the entries whose cell has one already."""
        if not self.count:
            self.place = (int(records["row"][0]), int(records["column"][0]))
        self.count += int(records.size)

    def refuse(self) -> None:
        """Raise a ``DataError`` that counts them, if there are any."""
        if self.count:
            row, column = self.place
            raise DataError(
                f"block {self.name!r}: {self.count} entries stand in a cell that has another one,"
                f" the first in row {row}, column {column}; keep one of each, or give"
                " duplicates='sum'"
            )
