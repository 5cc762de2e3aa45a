"""Floor 8: the public harness, for our words and yours.

``check_likelihood``, ``check_regularizer`` (constraints too) and ``check_solver`` raise a
``LawViolation`` that names the law, the word and the numbers.
"""

from mcframe.contracts.errors import LawViolation
from mcframe.laws import loss_laws as loss_laws  # which adds its laws first
from mcframe.laws.checking import LIKELIHOOD_LAWS, TERM_LAWS
from mcframe.laws.likelihood_laws import check_likelihood
from mcframe.laws.solver_laws import SOLVER_LAWS, Agreement, check_agreement, check_solver
from mcframe.laws.term_laws import check_regularizer

__all__ = [
    "LIKELIHOOD_LAWS",
    "SOLVER_LAWS",
    "TERM_LAWS",
    "Agreement",
    "LawViolation",
    "check_agreement",
    "check_likelihood",
    "check_regularizer",
    "check_solver",
]
