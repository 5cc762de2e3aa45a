"""Floor 7: real tables to try things on, read from what is installed or from your files."""

from mcframe.datasets.csv_blocks import read_csv
from mcframe.datasets.files import folder
from mcframe.datasets.mulan import fetch_multilabel, read_mulan
from mcframe.datasets.multilabel import MultiLabel, digits, hide, read_multilabel
from mcframe.datasets.partitions.on_disk import PartitionsOnDisk, on_disk
from mcframe.datasets.partitions.parquet import ParquetTriples, parquet_triples
from mcframe.datasets.partitions.saving import impute_to
from mcframe.datasets.partitions.writing import write_partitions
from mcframe.datasets.ratings import Ratings, read_ratings
from mcframe.model.chunks.from_dask import DaskPartitions, from_dask

__all__ = [
    "DaskPartitions",
    "MultiLabel",
    "ParquetTriples",
    "PartitionsOnDisk",
    "Ratings",
    "digits",
    "fetch_multilabel",
    "folder",
    "from_dask",
    "hide",
    "impute_to",
    "on_disk",
    "parquet_triples",
    "read_csv",
    "read_mulan",
    "read_multilabel",
    "read_ratings",
    "write_partitions",
]
