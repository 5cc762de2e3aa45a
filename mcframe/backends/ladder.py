"""Every backend by its name, what each is for, and which of them ``auto`` takes when."""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from mcframe.backends.alternating import Alternating
from mcframe.backends.backend import Backend
from mcframe.backends.effort import EFFORTS, Size, Work
from mcframe.backends.factored import FactoredDescent
from mcframe.backends.first_order import FirstOrder
from mcframe.backends.fpc import FPC
from mcframe.backends.proximal import Proximal
from mcframe.backends.reference import Reference
from mcframe.backends.rowwise import Rowwise
from mcframe.backends.splitting import Splitting
from mcframe.compile import CompiledProblem

__all__ = [
    "BACKENDS",
    "LADDER",
    "Rung",
    "in_turn",
    "is_small",
    "ladder_text",
    "with_ladder",
    "work_of",
]

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


# Tables of up to so many cells are fitted in a second or less by any backend, and estimates, which
# were measured on larger ones, say little of them: the order of the ladder decides.
SMALL = 5_000


@attrs.frozen
class Rung:
    """A backend of the ladder, and what it is there for.

    Attributes
    ----------
    backend : Backend
    serves : str
        The problems that it can run, or why ``auto`` never takes it.
    automatic : bool
        Whether ``auto`` asks it at all.
    """

    backend: Backend
    serves: str
    automatic: bool = True

    @property
    def name(self) -> str:
        """The name of the backend."""
        return self.backend.name

    def __str__(self) -> str:
        return f"{self.name:<11} {'' if self.automatic else 'never: '}{self.serves}"


SPLITTING = Splitting(Proximal())
# From the top: as ``auto`` takes them where tables are small, or estimates alike.
LADDER = (
    Rung(
        FirstOrder(Proximal()),
        "smooth losses and terms, one function of singular values",
    ),
    Rung(
        FirstOrder(SPLITTING),
        "any losses and terms with a gradient or a prox beside it",
    ),
    Rung(FirstOrder(Alternating()), "a nuclear norm alone over smooth losses"),
    # Its class is not called Factored: that is the ability of a term (``contracts.term``).
    Rung(FirstOrder(FactoredDescent()), "a nuclear norm or ball, a max norm"),
    Rung(FirstOrder(Rowwise()), "a square of each row, as of GaussianRows, over smooth losses"),
    Rung(
        FirstOrder(FPC()),
        "it needs more iterations than ``proximal`` for the same gap",
        automatic=False,
    ),
    Rung(Reference(), "whatever remains and is small"),
)
BACKENDS = {rung.name: rung.backend for rung in LADDER}


def work_of(backend: Backend, size: Size) -> Work | None:
    """What a backend has to do on a problem of a size; None where nothing was measured of it."""
    # Without nonsmooth parts splitting is the solver that it holds.
    inside = backend.name == SPLITTING.name and not size.nonsmooth
    effort = EFFORTS.get(SPLITTING.inner.name if inside else backend.name)
    return Work(effort, size) if effort and backend == BACKENDS.get(backend.name) else None


def in_turn(able: Sequence[Backend], compiled: CompiledProblem, tol: float) -> tuple[Backend, ...]:
    """Backends that can run a problem, given as they stand in the ladder, as ``auto`` takes them.

    By their estimates, those without one last; as they stand where the table is small.
    """
    if len(able) < 2 or is_small(compiled):
        return tuple(able)
    size = Size.of(compiled)
    works = {backend.name: work_of(backend, size) for backend in able}
    seconds = {
        name: math.inf if work is None else work.seconds(tol) for name, work in works.items()
    }
    return tuple(sorted(able, key=lambda backend: seconds[backend.name]))


def is_small(compiled: CompiledProblem) -> bool:
    """Whether a table has so few cells that estimates say little of it."""
    n_rows, n_columns = compiled.problem.shape
    return n_rows * n_columns <= SMALL


def ladder_text() -> str:
    """The ladder in words, as docstrings have it."""
    automatic = [rung for rung in LADDER if rung.automatic]
    lines = [f"{k}. ``{rung.name}``: {rung.serves};" for k, rung in enumerate(automatic, 1)]
    lines[-1] = lines[-1].removesuffix(";") + "."
    said = [
        "Of those that can run a problem it takes the one with the least estimate of seconds, on"
        f" tables of up to {SMALL:,} cells the first. What has no estimate comes last."
    ]
    said += [f"``{r.name}`` is never chosen: {r.serves}." for r in LADDER if not r.automatic]
    return "\n".join([*lines, "", *textwrap.wrap(" ".join(said), 88)])


def with_ladder(function: FunctionT) -> FunctionT:
    """Put the ladder where a docstring says ``{ladder}``, indented as that line is."""
    lines: list[str] = []
    for line in (function.__doc__ or "").split("\n"):
        if line.strip() == "{ladder}":
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + each if each else each for each in ladder_text().split("\n")]
        else:
            lines.append(line)
    function.__doc__ = "\n".join(lines)
    return function
