"""Which backend runs a problem, and why the others cannot."""

from collections.abc import Iterator
from typing import Any

import attrs

from mcframe.backends.alternating import Alternating
from mcframe.backends.factored import FactoredDescent
from mcframe.backends.fpc import FPC
from mcframe.backends.multipliers import Multipliers
from mcframe.backends.proximal import Proximal
from mcframe.backends.reference import Reference, estimate
from mcframe.compile import Program, compile_problem, pays_in_factors, refusal
from mcframe.contracts.errors import BackendError, ModelError
from mcframe.contracts.solver import Solver
from mcframe.model.problem import Problem
from mcframe.numerics.memory import MEMORY_SHARE, physical_gigabytes

__all__ = [
    "MEMORY_SHARE",
    "Backend",
    "Verdict",
    "able",
    "choose",
    "named",
    "physical_gigabytes",
    "solver_for",
    "verdict_on",
    "verdicts",
]

Backend = Solver[Program, Any] | Reference
NAMED: dict[str, Backend] = {
    "proximal": Proximal(),
    "splitting": Multipliers(Proximal()),
    "factored": FactoredDescent(),
    "alternating": Alternating(),
    "fpc": FPC(),
    "reference": Reference(),
}
LADDER = ("proximal", "splitting", "alternating", "factored", "reference")
# What a first-order solver holds at its peak, certificate included, in numbers of 8 bytes: per
# entry of Z, and per observed entry. Measured on 2000 x 500 with 2 % and 30 % observed.
NUMBERS_PER_CELL = 7.5
NUMBERS_PER_ENTRY = 10.0
# The same for one that holds no dense matrix, per observed entry: 16 were measured on
# 100,000 x 10,000 with 0.5 % observed.
NUMBERS_SPARSE = 20.0


UNREAD = "the unlabeled cells are too many to be written out, and it works on entries alone"


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


def choose(problem: Problem) -> Backend:
    """The first backend of a ladder that can run the problem.

    On sparse tables ``alternating`` comes first: on 4000 x 2000 and 20,000 x 5,000 with 1 to
    2.5 % observed it certified 1e-4 five to 25 times as fast as ``proximal``. Else:

    1. ``proximal``: smooth losses and terms, one function of singular values;
    2. ``splitting``: any losses and terms with a slope or a prox beside it;
    3. ``alternating``: a nuclear norm alone, on tables too large to be held dense;
    4. ``factored``: a max norm;
    5. ``reference``: whatever remains and is small.

    ``fpc`` is never chosen: it needs more iterations than ``proximal`` for the same gap.
    """
    for backend in able(problem):
        return backend
    # Backends that share a reason are named together.
    named_by: dict[str, list[str]] = {}
    for verdict in verdicts(problem):
        named_by.setdefault(str(verdict.reason), []).append(verdict.name)
    reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in named_by.items())
    raise BackendError(f"no backend can run this problem ({reasons})")


def able(problem: Problem) -> Iterator[Backend]:
    """The backends of the ladder that can run the problem, as they are asked for."""
    for name in ladder(problem):
        if verdict_on(NAMED[name], problem).can_run:
            yield NAMED[name]


def ladder(problem: Problem) -> tuple[str, ...]:
    """The backends that ``auto`` asks in turn."""
    n_entries = sum(table.n_entries for table in problem.tables.values())
    if pays_in_factors(problem.shape, n_entries):
        return ("alternating", *(name for name in LADDER if name != "alternating"))
    return LADDER


def named(backend: object, problem: Problem) -> Backend:
    """The backend asked for: a name, an options object, or "auto"."""
    if isinstance(backend, Solver | Reference):
        return backend
    if backend == "auto":
        return choose(problem)
    if isinstance(backend, str) and backend in NAMED:
        return NAMED[backend]
    if isinstance(backend, type):
        raise ModelError(f"backend is the class {backend.__name__}; write {backend.__name__}()")
    known = ", ".join(repr(name) for name in ("auto", *NAMED))
    raise ModelError(
        f"backend={backend!r} was given; one of {known}, or an options"
        " object such as mc.FPC(), is needed"
    )


def verdicts(problem: Problem) -> tuple[Verdict, ...]:
    """On every backend, without solving anything."""
    return tuple(verdict_on(backend, problem) for backend in NAMED.values())


def verdict_on(backend: Backend, problem: Problem) -> Verdict:
    """On one backend."""
    if isinstance(backend, Reference):
        return Verdict(backend.name, backend.refuses(problem), str(estimate(problem)))
    reason = refusal(problem)
    program = compile_problem(problem) if reason is None else None
    held, gigabytes = memory_of(backend, problem, program)
    cost = f"{held}, about {gigabytes:.2g} GB"
    if program is not None:
        reason = objection(backend, program)
    memory = physical_gigabytes()
    if reason is None and gigabytes > MEMORY_SHARE * memory:
        reason = f"{cost}, more than {MEMORY_SHARE:.0%} of the machine's {memory:.3g} GB"
    return Verdict(backend.name, reason, cost)


def memory_of(
    backend: Solver[Program, Any], problem: Problem, program: Program | None
) -> tuple[str, float]:
    """What a first-order backend holds, and its gigabytes."""
    n_rows, n_columns = problem.shape
    n_entries = sum(table.n_entries for table in problem.tables.values())
    if backend.dense if program is None else backend.holds_dense(program):
        numbers = NUMBERS_PER_CELL * n_rows * n_columns + NUMBERS_PER_ENTRY * n_entries
        return f"dense matrices of {n_rows} x {n_columns}", 8 * numbers / 1e9
    held, size = f"{n_entries} observed entries and thin factors", 8 * NUMBERS_SPARSE * n_entries
    background = None if program is None else program.background
    if background is not None:
        size += background.held_bytes
        if background.n_read:
            held += f", {background.n_read} cells read by blocks of rows at each step"
    return held, size / 1e9


def solver_for(backend: Solver[Program, Any], program: Program) -> Solver[Program, Any]:
    """The solver of a program: the backend itself, or inside multipliers for what is rough."""
    if unread(backend, program):
        raise BackendError(f"backend {backend.name!r} cannot run this problem: {UNREAD}")
    if backend.refuses(program) is None:
        return backend
    return Multipliers(backend, name=backend.name)


def unread(backend: Solver[Program, Any], program: Program) -> bool:
    """Whether a program has a background that a backend would leave out."""
    return program.background is not None and not backend.reads_background


def objection(backend: Solver[Program, Any], program: Program) -> str | None:
    """Why a first-order backend cannot run a program, size aside; None if it can."""
    if unread(backend, program):
        return UNREAD
    reason = backend.refuses(program)
    # The multipliers see to a fixed column, and around factors to whatever is rough.
    column_alone = program.loss.smooth and all(t.smooth or t.fixed for t in program.terms)
    if isinstance(backend, FactoredDescent) or (column_alone and backend.dense):
        return Multipliers(backend).refuses(program)
    return reason
