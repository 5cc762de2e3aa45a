"""The public harness, for our words and yours.

``check_likelihood``, ``check_regularizer`` (constraints too), ``check_solver`` and
``check_posterior`` raise a ``LawViolation`` that names the law, the word and the numbers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcframe.contracts.errors import LawViolation
from mcframe.laws import loss_laws as loss_laws  # which adds its laws first
from mcframe.laws.checking import LIKELIHOOD_LAWS, TERM_LAWS
from mcframe.laws.likelihood_laws import check_likelihood
from mcframe.laws.solver_laws import SOLVER_LAWS, Agreement, check_agreement, check_solver
from mcframe.laws.term_laws import check_regularizer

if TYPE_CHECKING:
    from mcframe.laws.posterior_laws import PosteriorCalibration, check_posterior

# What needs the posterior, which is loaded where it is first asked for.
OF_POSTERIORS = ("PosteriorCalibration", "check_posterior")

__all__ = [
    "LIKELIHOOD_LAWS",
    "SOLVER_LAWS",
    "TERM_LAWS",
    "Agreement",
    "LawViolation",
    "PosteriorCalibration",
    "check_agreement",
    "check_likelihood",
    "check_posterior",
    "check_regularizer",
    "check_solver",
]


if not TYPE_CHECKING:  # where it would be one of any name

    def __getattr__(name: str) -> Any:
        if name in OF_POSTERIORS:
            return getattr(import_module("mcframe.laws.posterior_laws"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
