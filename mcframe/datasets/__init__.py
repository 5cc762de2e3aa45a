"""Floor 11: real tables to try things on, read from what is installed or from your files."""

from mcframe.contracts.validators import suggest_options as _suggest_options
from mcframe.datasets.multilabel import (
    MultiLabel,
    digits,
    fetch_multilabel,
    hide,
    read_mulan,
    read_multilabel,
)
from mcframe.datasets.readers import Ratings, folder, read_csv, read_ratings
from mcframe.partitions.from_dask import DaskPartitions, from_dask
from mcframe.partitions.on_disk import PartitionsOnDisk, on_disk
from mcframe.partitions.parquet import ParquetTriples, impute_to, parquet_triples
from mcframe.partitions.writing import write_partitions

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

_suggest_options(*(globals()[name] for name in __all__))
