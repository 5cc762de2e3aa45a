"""Floor 7: real tables to try things on, read from what is installed or from your own files."""

from mcframe.datasets.binary_low_rank import BinaryLowRank, binary_low_rank
from mcframe.datasets.calibrated_tasks import CalibratedTasks, calibrated_tasks
from mcframe.datasets.cocompletion import CoCompletion, cocompletion
from mcframe.datasets.csv_blocks import read_csv
from mcframe.datasets.files import folder
from mcframe.datasets.handwritten import digits
from mcframe.datasets.hiding import hide
from mcframe.datasets.mulan import read_mulan
from mcframe.datasets.multilabel import MultiLabel, read_multilabel
from mcframe.datasets.openml import fetch_multilabel
from mcframe.datasets.partitions import (
    DaskPartitions,
    ParquetTriples,
    PartitionsOnDisk,
    from_dask,
    impute_to,
    load_fit,
    on_disk,
    parquet_triples,
    save_fit,
    write_partitions,
)
from mcframe.datasets.ratings import Ratings, read_ratings
from mcframe.datasets.semi_supervised import SemiSupervised, semi_supervised
from mcframe.datasets.transduction import Transduction, masked, transduction

__all__ = [
    "BinaryLowRank",
    "CalibratedTasks",
    "CoCompletion",
    "DaskPartitions",
    "MultiLabel",
    "ParquetTriples",
    "PartitionsOnDisk",
    "Ratings",
    "SemiSupervised",
    "Transduction",
    "binary_low_rank",
    "calibrated_tasks",
    "cocompletion",
    "digits",
    "fetch_multilabel",
    "folder",
    "from_dask",
    "hide",
    "impute_to",
    "load_fit",
    "masked",
    "on_disk",
    "parquet_triples",
    "read_csv",
    "read_mulan",
    "read_multilabel",
    "read_ratings",
    "save_fit",
    "semi_supervised",
    "transduction",
    "write_partitions",
]
