"""Scikit-learn's estimators over models of a table, with its conventions.

Importing this package imports scikit-learn; ``import mcframe`` does not.
"""

from mcframe.contracts.validators import suggest_options as _suggest_options
from mcframe.estimators.imputer import MatrixCompletionImputer
from mcframe.estimators.supervised import MatrixCompletionClassifier, MatrixCompletionRegressor

__all__ = [
    "MatrixCompletionClassifier",
    "MatrixCompletionImputer",
    "MatrixCompletionRegressor",
]

_suggest_options(*(globals()[name] for name in __all__))
