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
from mcframe.contracts.likelihood import Conjugate, Likelihood, Sampler, TwiceDifferentiable
from mcframe.contracts.term import Constraint, Regularizer, Spectral, Term

__all__ = [
    "BackendError",
    "Conjugate",
    "Constraint",
    "DataError",
    "LawViolation",
    "Likelihood",
    "McframeError",
    "ModelError",
    "NotCertifiedWarning",
    "Regularizer",
    "Sampler",
    "Spectral",
    "Term",
    "TwiceDifferentiable",
    "UnobservedWarning",
]
