"""Known sums of predictors: of each column over the rows, and of each row over the columns."""

from mcframe.sums.calibration import Calibration
from mcframe.sums.row_relation import RowRelation

__all__ = ["Calibration", "RowRelation"]
