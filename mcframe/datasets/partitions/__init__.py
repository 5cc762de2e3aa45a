"""Rows in partitions: a table of any source written to a folder, and read as ``fit`` takes it."""

from mcframe.datasets.partitions.imputing import impute_to
from mcframe.datasets.partitions.on_disk import PartitionsOnDisk, on_disk
from mcframe.datasets.partitions.parquet import ParquetTriples, parquet_triples
from mcframe.datasets.partitions.saving import load_fit, save_fit
from mcframe.datasets.partitions.writing import write_partitions
from mcframe.model.chunks.from_dask import DaskPartitions, from_dask

__all__ = [
    "DaskPartitions",
    "ParquetTriples",
    "PartitionsOnDisk",
    "from_dask",
    "impute_to",
    "load_fit",
    "on_disk",
    "parquet_triples",
    "save_fit",
    "write_partitions",
]
