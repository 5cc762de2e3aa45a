"""Floor 7: real tables to try things on, read from what is installed or from your own files."""

from mcframe.datasets.files import folder
from mcframe.datasets.handwritten import digits
from mcframe.datasets.hiding import hide
from mcframe.datasets.multilabel import MultiLabel, read_multilabel
from mcframe.datasets.transduction import Transduction, masked, transduction

__all__ = [
    "MultiLabel",
    "Transduction",
    "digits",
    "folder",
    "hide",
    "masked",
    "read_multilabel",
    "transduction",
]
