"""Which backend runs a problem, and why the others cannot."""

from collections.abc import Iterator
from typing import Any

import attrs

from mcframe.backends.backend import Backend
from mcframe.backends.first_order import FirstOrder
from mcframe.backends.ladder import BACKENDS, backends_in_turn, with_ladder
from mcframe.compile import CompiledProblem, Program
from mcframe.contracts.errors import BackendError, ModelError
from mcframe.contracts.solver import Solver

__all__ = [
    "BackendLike",
    "Verdict",
    "able",
    "backend_from",
    "checked_backend",
    "choose",
    "verdict_on",
    "verdicts",
]

# What ``backend=`` takes: a name, an options object, or a solver of one's own.
BackendLike = str | Backend | Solver[Program, Any]


@attrs.frozen
class Verdict:
    """Whether a backend can run a problem; the reason if it cannot, its cost if it can."""

    name: str
    reason: str | None
    cost: str

    @property
    def can_run(self) -> bool:
        """True without a reason against it."""
        return self.reason is None


@with_ladder
def choose(compiled: CompiledProblem) -> Backend:
    """The first backend of a ladder that can run the problem; a ``BackendError`` if none can.

    {ladder}
    """
    for backend in able(compiled):
        return backend
    # Backends that share a reason are named together.
    named_by: dict[str, list[str]] = {}
    for verdict in verdicts(compiled):
        named_by.setdefault(str(verdict.reason), []).append(verdict.name)
    reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in named_by.items())
    raise BackendError(f"no backend can run this problem ({reasons})")


def able(compiled: CompiledProblem) -> Iterator[Backend]:
    """The backends of the ladder that can run the problem, as they are asked for."""
    for backend in backends_in_turn(compiled.problem):
        if verdict_on(backend, compiled).can_run:
            yield backend


def backend_from(backend: object, compiled: CompiledProblem) -> Backend:
    """The backend asked for: a name, an options object, or "auto"."""
    if isinstance(backend, Backend):
        return backend
    if isinstance(backend, Solver):
        return FirstOrder(backend)
    if backend == "auto":
        return choose(compiled)
    if isinstance(backend, str) and backend in BACKENDS:
        return BACKENDS[backend]
    if isinstance(backend, type):
        raise ModelError(f"backend is the class {backend.__name__}; write {backend.__name__}()")
    known = ", ".join(repr(name) for name in ("auto", *BACKENDS))
    raise ModelError(
        f"backend={backend!r} was given; one of {known}, or an options"
        " object such as mc.FPC(), is needed"
    )


def checked_backend(backend: object, compiled: CompiledProblem, force: bool = False) -> Backend:
    """The backend asked for, or a ``BackendError`` with the reason why it cannot run.

    ``force`` allows what would take too much time or memory, and nothing else.
    """
    chosen = backend_from(backend, compiled)
    # What "auto" has chosen has been looked at already.
    if backend != "auto":
        reason = chosen.refuses(compiled) if force else verdict_on(chosen, compiled).reason
        if reason is not None:
            raise BackendError(f"backend {chosen.name!r} cannot run this problem: {reason}")
    return chosen


def verdicts(compiled: CompiledProblem) -> tuple[Verdict, ...]:
    """The verdict on every backend, without solving anything."""
    return tuple(verdict_on(backend, compiled) for backend in BACKENDS.values())


def verdict_on(backend: Backend, compiled: CompiledProblem) -> Verdict:
    """The verdict on one backend: what it refuses, else what would be too much."""
    cost = backend.cost(compiled)
    reason = backend.refuses(compiled) or cost.excess
    return Verdict(backend.name, reason, cost.text)
