"""When the loop computes a certificate: by its plan, or where the predicted gap will do."""

from typing import Any

from mcframe.backends.backend import Budget, Settings
from mcframe.backends.loop import SolverRun

NOTHING: Any = None


def run(tol, gap_ratio=1.0):
    """A run at iteration 5 whose last certificate found so many times the gap that it expected."""
    settings = Settings(Budget(tol=tol))
    return SolverRun(NOTHING, NOTHING, settings, iteration=5, gap_ratio=gap_ratio)


def test_a_first_estimate_is_believed():
    assert run(1e-4).is_due(1e-4)
    assert not run(1e-4).is_due(1.1e-4)


def test_after_one_certificate_a_solver_is_as_far_off_as_it_was():
    assert not run(1e-4, 100.0).is_due(1.1e-6)
    assert run(1e-4, 100.0).is_due(0.9e-6)


def test_no_gap_is_predicted_below_the_expected_one():
    assert not run(1e-4, 1e-6).is_due(1e-3)


def test_that_nothing_is_expected_is_no_promise():
    assert not run(1e-4).is_due(0.0)
