"""Floor 11: scikit-learn's estimators over models of a table, with its conventions.

Importing this package imports scikit-learn; ``import mcframe`` does not.
"""

from mcframe.estimators.imputer import MatrixCompletionImputer
from mcframe.estimators.supervised import MatrixCompletionClassifier, MatrixCompletionRegressor

__all__ = [
    "MatrixCompletionClassifier",
    "MatrixCompletionImputer",
    "MatrixCompletionRegressor",
]
