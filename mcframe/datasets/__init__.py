"""Floor 7: real tables to try things on, read from what is installed or from your own files."""

from mcframe.datasets.binary_low_rank import BinaryLowRank, binary_low_rank
from mcframe.datasets.csv_blocks import read_csv
from mcframe.datasets.files import folder
from mcframe.datasets.handwritten import digits
from mcframe.datasets.hiding import hide
from mcframe.datasets.mulan import read_mulan
from mcframe.datasets.multilabel import MultiLabel, read_multilabel
from mcframe.datasets.openml import fetch_multilabel
from mcframe.datasets.ratings import Ratings, read_ratings

__all__ = [
    "BinaryLowRank",
    "MultiLabel",
    "Ratings",
    "binary_low_rank",
    "digits",
    "fetch_multilabel",
    "folder",
    "hide",
    "read_csv",
    "read_mulan",
    "read_multilabel",
    "read_ratings",
]
