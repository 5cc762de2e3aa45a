"""When the loop looks at a certificate: by its plan, or where the gap that is foreseen will do."""

from typing import Any

import pytest

from mcframe.backends.backend import Budget
from mcframe.backends.loop import Watch

NO_PROGRAM: Any = None


def watch(tol, promises):
    """A watch whose earlier looks found these gaps where others were expected."""
    watch = Watch(NO_PROGRAM, Budget(tol=tol), None, progress=False, began=0.0)
    watch.promises.extend(promises)
    return watch


def test_a_first_promise_is_believed():
    assert watch(1e-4, []).is_due(5, 1e-4)
    assert not watch(1e-4, []).is_due(5, 1.1e-4)


def test_after_one_look_a_solver_is_as_far_off_as_it_was():
    seen = watch(1e-4, [(1e-5, 1e-3)])
    assert seen.foreseen(1e-6) == pytest.approx(1e-4)
    assert not seen.is_due(5, 1.1e-6)
    assert seen.is_due(5, 0.9e-6)


def test_a_gap_that_falls_slowly_is_foreseen_to_go_on_so():
    """A hundredth of what was expected halved the gap: the next hundredth halves it again."""
    seen = watch(1e-4, [(1e-3, 4e-3), (1e-5, 2e-3)])
    assert seen.foreseen(1e-7) == pytest.approx(1e-3)


def test_no_gap_is_foreseen_below_the_expected_one():
    assert watch(1e-4, [(1e-3, 1e-9)]).foreseen(1e-3) == 1e-3


def test_that_nothing_is_expected_is_no_promise():
    assert not watch(1e-4, []).is_due(5, 0.0)
