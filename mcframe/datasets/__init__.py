"""Floor 7: real tables to try things on, read from what is installed or from your own files."""

from mcframe.datasets.csv_blocks import read_csv
from mcframe.datasets.files import folder
from mcframe.datasets.handwritten import digits
from mcframe.datasets.hiding import hide
from mcframe.datasets.mulan import read_mulan
from mcframe.datasets.multilabel import MultiLabel, read_multilabel
from mcframe.datasets.openml import fetch_multilabel
from mcframe.datasets.ratings import Ratings, read_ratings
from mcframe.datasets.transduction import Transduction, masked, transduction

__all__ = [
    "MultiLabel",
    "Ratings",
    "Transduction",
    "digits",
    "fetch_multilabel",
    "folder",
    "hide",
    "masked",
    "read_csv",
    "read_mulan",
    "read_multilabel",
    "read_ratings",
    "transduction",
]
