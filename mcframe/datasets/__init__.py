"""Real tables to try things on, read from what is installed or from your files."""

from typing import TYPE_CHECKING

from mcframe.contracts.former import DATASETS as _FORMER
from mcframe.contracts.validators import meant as _meant
from mcframe.contracts.validators import suggest_options as _suggest_options
from mcframe.datasets.completing_files import complete_file
from mcframe.datasets.hiding import Hidden, hide
from mcframe.datasets.multilabel import (
    MultiLabel,
    digits,
    read_multilabel,
)
from mcframe.datasets.readers import Ratings, folder, read_csv, read_ratings
from mcframe.partitions.from_dask import DaskPartitions, from_dask
from mcframe.partitions.on_disk import PartitionsOnDisk, on_disk
from mcframe.partitions.parquet import impute_to, parquet_triples
from mcframe.partitions.writing import write_partitions

__all__ = [
    "DaskPartitions",
    "Hidden",
    "MultiLabel",
    "PartitionsOnDisk",
    "Ratings",
    "complete_file",
    "digits",
    "folder",
    "from_dask",
    "hide",
    "impute_to",
    "on_disk",
    "parquet_triples",
    "read_csv",
    "read_multilabel",
    "read_ratings",
    "write_partitions",
]

_suggest_options(*(globals()[name] for name in __all__))


if not TYPE_CHECKING:  # where it would be one of any name

    def __getattr__(name: str) -> object:
        """Say where a name is that was here once, or which one was probably meant."""
        hint = _FORMER.get(name) or _meant(name, __all__, "names")
        hint = "" if name.startswith("_") else f"; {hint}"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
