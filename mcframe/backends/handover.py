"""A change of backend in mid-fit: where another would be done sooner than the one that runs."""

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

import attrs

from mcframe.backends.backend import Backend, Settings
from mcframe.backends.effort import LEAST_TOL, Size, Work
from mcframe.backends.history import Record
from mcframe.backends.ladder import is_small, work_of
from mcframe.compile import CompiledProblem
from mcframe.numerics.machine import OutOfTime

__all__ = ["Doubt"]

# A backend is left once its steps so far are worth what the other is expected to take in all, so
# that a wrong estimate of the other at most doubles the time, and if what lies ahead of it, at
# the rate of its last looks, is worth so many times as much.
SLOWER = 2.0
# On small tables, where estimates say little, steps of all backends are worth the same, and the
# next one is expected to take so many. Each change doubles what the next one needs: whichever is
# the best, all of them in turn then make but a few times its steps.
EXPECTED = 500.0
# The rate is that of the fall since the last look within this share of the steps so far.
LOOKED_BACK = 0.5


@attrs.define(eq=False, slots=False)
class Doubt:
    """A callback that stops a fit which another backend would finish sooner: ``better``.

    Nothing but gaps, ranks and counts of iterations decides, each step worth what the model of
    effort says: a fit of the same table changes at the same step on a slow machine and on a busy
    one. ``others`` are those that can run the problem, too, in the order of their turns;
    ``n_changes`` is how often the backend changed before.
    """

    compiled: CompiledProblem
    running: Backend
    others: Sequence[Backend]
    settings: Settings
    n_changes: int = 0
    records: list[Record] = attrs.field(factory=list)
    better: Backend | None = None

    @cached_property
    def works(self) -> dict[str, Work]:
        """What the backends have to do, by their names, where that is known."""
        backends, size = [self.running, *self.others], Size.of(self.compiled)
        works = {each.name: work_of(each, size) for each in backends}
        return {name: work for name, work in works.items() if work is not None}

    def __call__(self, record: Record) -> bool:
        """Whether to stop: since the user's callback says so, or for a better backend."""
        callback = self.settings.callback
        stopped = callback is not None and bool(callback(record))
        self.records.append(record)
        if not stopped:
            # Where the time is up in the midst of an estimate, the loop ends the fit by itself.
            with suppress(OutOfTime):
                self.better = self.find_better(record)
        return stopped or self.better is not None

    def find_better(self, record: Record) -> Backend | None:
        """The backend that is expected to be done first, if the one that runs is far behind."""
        tol = max(self.settings.budget.tol, LEAST_TOL)
        made = record.iteration - self.records[0].iteration
        if not self.others or made == 0 or record.gap <= tol:
            return None
        other, worth, step = self.next_one(tol, record.rank)
        worth *= 2.0**self.n_changes
        ahead = step * iterations_ahead(self.records, tol)
        return other if step * made >= worth and ahead >= SLOWER * worth else None

    def next_one(self, tol: float, rank: int) -> tuple[Backend | None, float, float]:
        """Return the next backend, its expected effort, and that of one running step."""
        if is_small(self.compiled):
            return self.others[0], EXPECTED, 1.0
        known = [other for other in self.others if other.name in self.works]
        if not known or self.running.name not in self.works:
            return None, math.inf, 0.0
        other = min(known, key=lambda each: self.works[each.name].seconds(tol))
        step = self.works[self.running.name].seconds_a_step(max(rank, 1))
        return other, self.works[other.name].seconds(tol), step


def iterations_ahead(records: Sequence[Record], tol: float) -> float:
    """How many iterations are left if the gap goes on falling as it did; infinite if it did not.

    0 where there was no bound before, so that nothing is known of its fall.
    """
    first, last = records[0].iteration, records[-1]
    middle = first + LOOKED_BACK * (last.iteration - first)
    earlier = [record for record in records[:-1] if record.iteration <= middle][-1]
    if earlier.gap == math.inf:
        return 0.0
    if not last.gap < earlier.gap:
        return math.inf
    fall = math.log(earlier.gap / last.gap) / (last.iteration - earlier.iteration)
    return math.log(last.gap / tol) / fall
