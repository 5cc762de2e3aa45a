"""Floor 8: scikit-learn's estimators over models of a table, with its conventions.

Importing this package imports scikit-learn; ``import mcframe`` does not.
"""

from mcframe.estimators.classifier import MatrixCompletionClassifier
from mcframe.estimators.imputer import MatrixCompletionImputer
from mcframe.estimators.regressor import MatrixCompletionRegressor

__all__ = [
    "MatrixCompletionClassifier",
    "MatrixCompletionImputer",
    "MatrixCompletionRegressor",
]
