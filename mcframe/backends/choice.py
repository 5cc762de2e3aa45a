"""Which backend runs a problem, and why the others cannot."""

from typing import Any

import attrs

from mcframe.backends.backend import Backend, Budget, Paused
from mcframe.backends.effort import Size, in_words
from mcframe.backends.first_order import FirstOrder
from mcframe.backends.ladder import BACKENDS, LADDER, in_turn, is_small, with_ladder, work_of
from mcframe.compile import CompiledProblem, Program
from mcframe.contracts.errors import BackendError, ModelError
from mcframe.contracts.solver import Solver

__all__ = [
    "BackendLike",
    "Verdict",
    "able",
    "backend_from",
    "backend_that_paused",
    "checked_backend",
    "choose",
    "verdict_on",
    "verdicts",
]

# What ``backend=`` takes: a name, an options object, or a solver of one's own.
BackendLike = str | Backend | Solver[Program, Any]


@attrs.frozen
class Verdict:
    """Whether a backend can run a problem.

    Attributes
    ----------
    name : str
    reason : str or None
        Why it cannot; None if it can.
    cost : str
        What it holds.
    seconds : float or None
        An estimate of how long a gap of 1e-6 takes, off by a factor of two as a rule and by more
        at times; None where there is none, as on tables of up to 5,000 cells.
    """

    name: str
    reason: str | None
    cost: str
    seconds: float | None = None

    @property
    def can_run(self) -> bool:
        """True without a reason against it."""
        return self.reason is None

    def __str__(self) -> str:
        if not self.can_run or self.seconds is None:
            return self.reason or self.cost
        return f"{self.cost}; estimated at {in_words(self.seconds)}"


@with_ladder
def choose(compiled: CompiledProblem, tol: float = Budget().tol) -> Backend:
    """The backend of a ladder that suits a problem best; a ``BackendError`` if none can run it.

    {ladder}
    """
    for backend in able(compiled, tol):
        return backend
    # Backends that share a reason are named together.
    named_by: dict[str, list[str]] = {}
    for verdict in verdicts(compiled):
        named_by.setdefault(str(verdict.reason), []).append(verdict.name)
    reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in named_by.items())
    raise BackendError(f"no backend can run this problem ({reasons})")


def able(compiled: CompiledProblem, tol: float = Budget().tol) -> tuple[Backend, ...]:
    """The backends of the ladder that can run the problem, as ``auto`` takes them."""
    asked = [rung.backend for rung in LADDER if rung.automatic]
    found = [backend for backend in asked if verdict_on(backend, compiled).can_run]
    return in_turn(found, compiled, tol)


def backend_from(backend: object, compiled: CompiledProblem, tol: float = Budget().tol) -> Backend:
    """The backend asked for: a name, an options object, or "auto"."""
    if isinstance(backend, Backend):
        return backend
    if isinstance(backend, Solver):
        return FirstOrder(backend)
    if backend == "auto":
        return choose(compiled, tol)
    if isinstance(backend, str) and backend in BACKENDS:
        return BACKENDS[backend]
    if isinstance(backend, type):
        raise ModelError(f"backend is the class {backend.__name__}; write {backend.__name__}()")
    known = ", ".join(repr(name) for name in ("auto", *BACKENDS))
    raise ModelError(
        f"backend={backend!r} was given; one of {known}, or an options"
        " object such as mc.FPC(), is needed"
    )


def checked_backend(
    backend: object, compiled: CompiledProblem, force: bool = False, tol: float = Budget().tol
) -> Backend:
    """The backend asked for, or a ``BackendError`` with the reason why it cannot run.

    ``force`` allows what would take too much time or memory, and nothing else.
    """
    chosen = backend_from(backend, compiled, tol)
    # What "auto" has chosen has been looked at already.
    if backend != "auto":
        reason = chosen.refuses(compiled) if force else verdict_on(chosen, compiled).reason
        if reason is not None:
            raise BackendError(f"backend {chosen.name!r} cannot run this problem: {reason}")
    return chosen


def backend_that_paused(paused: Paused, compiled: CompiledProblem) -> Backend | None:
    """The backend of the ladder whose solver goes on from where it stood, if it is one of them."""
    for rung in LADDER:
        backend = rung.backend
        if isinstance(backend, FirstOrder) and rung.automatic:
            able = verdict_on(backend, compiled).can_run
            if able and backend.solver_for(compiled) == paused.solver:
                return backend
    return None


def verdicts(compiled: CompiledProblem) -> tuple[Verdict, ...]:
    """The verdict on every backend without solving anything; with estimates if not small."""
    found = [verdict_on(backend, compiled) for backend in BACKENDS.values()]
    if compiled.refusal is not None or is_small(compiled):
        return tuple(found)
    size = Size.of(compiled)
    works = [work_of(BACKENDS[v.name], size) if v.can_run else None for v in found]
    return tuple(
        verdict if work is None else attrs.evolve(verdict, seconds=work.seconds())
        for verdict, work in zip(found, works, strict=True)
    )


def verdict_on(backend: Backend, compiled: CompiledProblem) -> Verdict:
    """The verdict on one backend: what it refuses, else what would be too much."""
    cost = backend.cost(compiled)
    reason = backend.refuses(compiled) or cost.excess
    return Verdict(backend.name, reason, cost.text)
