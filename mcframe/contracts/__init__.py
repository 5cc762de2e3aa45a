"""Floor 0: what a word of the vocabulary or a solver must be."""

from mcframe.contracts.errors import (
    BackendError,
    DataError,
    LawViolation,
    McframeError,
    ModelError,
    NotCertifiedWarning,
    UnobservedWarning,
)
from mcframe.contracts.likelihood import (
    Approximated,
    Conjugate,
    Distribution,
    Likelihood,
    LinearDifference,
    Parametric,
    Proximable,
    TwiceDifferentiable,
)
from mcframe.contracts.term import (
    Composed,
    Constraint,
    Factored,
    Norm,
    Prox,
    Regularizer,
    SmoothTerm,
    Spectral,
    Term,
)

__all__ = [
    "Approximated",
    "BackendError",
    "Composed",
    "Conjugate",
    "Constraint",
    "DataError",
    "Distribution",
    "Factored",
    "LawViolation",
    "Likelihood",
    "LinearDifference",
    "McframeError",
    "ModelError",
    "Norm",
    "NotCertifiedWarning",
    "Parametric",
    "Prox",
    "Proximable",
    "Regularizer",
    "SmoothTerm",
    "Spectral",
    "Term",
    "TwiceDifferentiable",
    "UnobservedWarning",
]
