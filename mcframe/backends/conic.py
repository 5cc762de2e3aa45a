"""CVXPY, for the reference and the laws: ``from mcframe.backends.conic import cp``.

Importing it takes seconds, and the first-order backends run without it.
"""

from mcframe.contracts.deferred import Deferred

__all__ = ["cp"]

cp = Deferred("cvxpy", "the exact reading of a problem (the reference backend, to_cvxpy, laws)")
