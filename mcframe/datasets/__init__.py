"""Floor 7: real tables to try things on, read from what is installed or from your own files."""

from mcframe.datasets.calibrated_tasks import CalibratedTasks, calibrated_tasks
from mcframe.datasets.csv_blocks import read_csv
from mcframe.datasets.files import folder
from mcframe.datasets.handwritten import digits
from mcframe.datasets.hiding import hide
from mcframe.datasets.mulan import read_mulan
from mcframe.datasets.multilabel import MultiLabel, read_multilabel
from mcframe.datasets.openml import fetch_multilabel
from mcframe.datasets.ratings import Ratings, read_ratings
from mcframe.datasets.semi_supervised import SemiSupervised, semi_supervised

__all__ = [
    "CalibratedTasks",
    "MultiLabel",
    "Ratings",
    "SemiSupervised",
    "calibrated_tasks",
    "digits",
    "fetch_multilabel",
    "folder",
    "hide",
    "read_csv",
    "read_mulan",
    "read_multilabel",
    "read_ratings",
    "semi_supervised",
]
