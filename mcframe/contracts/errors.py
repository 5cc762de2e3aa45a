"""What mcframe raises and warns. Each message names block, column, value and remedy."""

import sys
import warnings

__all__ = [
    "BackendError",
    "DataError",
    "EdgeOfGridWarning",
    "LawViolation",
    "McframeError",
    "ModelError",
    "NoInfluence",
    "NoSuchAnswer",
    "NotCertifiedWarning",
    "NotConvergedWarning",
    "NothingFeasible",
    "UndefinedScoreWarning",
    "UnobservedWarning",
]


class McframeError(Exception):
    """Base of every error that mcframe raises on purpose."""


class ModelError(McframeError, ValueError):
    """The sentence itself is wrong: a weight below zero, a name given twice, no regularizer."""


class NoSuchAnswer(ModelError, AttributeError):
    """An attribute that answers of another method have; ``hasattr`` is False, and says no more."""


class NoInfluence(ModelError):
    """The weight of a term changes nothing: with these data the trivial Z is always optimal."""


class DataError(McframeError, ValueError):
    """The data do not fit the sentence: a wrong shape, a label outside {0, 1}, an infinity."""


class BackendError(McframeError, RuntimeError):
    """No solver, or not the one asked for, can run this model at this size."""


class NothingFeasible(BackendError):
    """A backend found no point that meets all constraints; another one may."""


class LawViolation(McframeError, AssertionError):
    """A likelihood, regularizer or solver breaks a law that its contract promises."""


class NotCertifiedWarning(UserWarning):
    """The fit stopped before its gap reached the tolerance; its numbers are a best effort."""


class NotConvergedWarning(UserWarning):
    """The sweeps of a posterior stopped before they converged; it is that of the last sweep."""


class EdgeOfGridWarning(UserWarning):
    """The best weight is the largest or the smallest that was tried; one beyond may be better."""


class UndefinedScoreWarning(UserWarning):
    """A criterion has no score of a fit on held-out entries: it is NaN."""


class UnobservedWarning(UserWarning):
    """A row or column has no observed entry: what is predicted there is not learnt from data."""


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line outside the package that led here, however deep the call is."""
    frame, level, package_prefixes = sys._getframe(1), 2, ("mcframe.", "contextlib", "sklearn.")
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(package_prefixes):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
