"""Synthetic data as the papers draw them, one file a paper."""

from papers.data.binary_low_rank import BinaryLowRank, binary_low_rank
from papers.data.calibrated_tasks import CalibratedTasks, calibrated_tasks
from papers.data.cocompletion import CoCompletion, cocompletion
from papers.data.semi_supervised import SemiSupervised, semi_supervised
from papers.data.transduction import Transduction, masked, transduction

__all__ = [
    "BinaryLowRank",
    "CalibratedTasks",
    "CoCompletion",
    "SemiSupervised",
    "Transduction",
    "binary_low_rank",
    "calibrated_tasks",
    "cocompletion",
    "masked",
    "semi_supervised",
    "transduction",
]
