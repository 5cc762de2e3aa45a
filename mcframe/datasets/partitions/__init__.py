"""Rows in partitions: a table of any source written to a folder, and read as ``fit`` takes it."""

from mcframe.datasets.partitions.on_disk import PartitionsOnDisk, on_disk
from mcframe.datasets.partitions.parquet import ParquetTriples, parquet_triples
from mcframe.datasets.partitions.writing import write_partitions

__all__ = [
    "ParquetTriples",
    "PartitionsOnDisk",
    "on_disk",
    "parquet_triples",
    "write_partitions",
]
