"""When the loop computes a certificate: by its plan, or where the predicted gap will do."""

from typing import Any

from mcframe.backends.backend import Budget
from mcframe.backends.loop import Watch

NO_PROGRAM: Any = None


def watch(tol, gap_ratio=1.0):
    """A watch whose last certificate found so many times the gap that was expected."""
    budget = Budget(tol=tol)
    return Watch(NO_PROGRAM, budget, None, progress=False, began=0.0, gap_ratio=gap_ratio)


def test_a_first_estimate_is_believed():
    assert watch(1e-4).is_due(5, 1e-4)
    assert not watch(1e-4).is_due(5, 1.1e-4)


def test_after_one_certificate_a_solver_is_as_far_off_as_it_was():
    assert not watch(1e-4, 100.0).is_due(5, 1.1e-6)
    assert watch(1e-4, 100.0).is_due(5, 0.9e-6)


def test_no_gap_is_predicted_below_the_expected_one():
    assert not watch(1e-4, 1e-6).is_due(5, 1e-3)


def test_that_nothing_is_expected_is_no_promise():
    assert not watch(1e-4).is_due(5, 0.0)
