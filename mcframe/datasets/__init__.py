"""Floor 7: real tables to try things on, read from what is installed or from your own files."""

from mcframe.datasets.calibrated_tasks import CalibratedTasks, calibrated_tasks
from mcframe.datasets.files import folder
from mcframe.datasets.handwritten import digits
from mcframe.datasets.hiding import hide
from mcframe.datasets.multilabel import MultiLabel, read_multilabel
from mcframe.datasets.semi_supervised import SemiSupervised, semi_supervised

__all__ = [
    "CalibratedTasks",
    "MultiLabel",
    "SemiSupervised",
    "calibrated_tasks",
    "digits",
    "folder",
    "hide",
    "read_multilabel",
    "semi_supervised",
]
