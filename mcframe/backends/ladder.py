"""Every backend by its name, and the order in which ``auto`` asks them, with the reasons."""

import textwrap
from collections.abc import Callable
from typing import TypeVar

import attrs

from mcframe.backends.alternating import Alternating
from mcframe.backends.backend import Backend
from mcframe.backends.factored import FactoredDescent
from mcframe.backends.first_order import FirstOrder
from mcframe.backends.fpc import FPC
from mcframe.backends.proximal import Proximal
from mcframe.backends.reference import Reference
from mcframe.backends.splitting import Splitting
from mcframe.compile.entries import LARGEST_SMALL, SPARSE
from mcframe.model import Problem

__all__ = ["BACKENDS", "LADDER", "Rung", "backends_in_turn", "ladder_text", "with_ladder"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


@attrs.frozen
class Rung:
    """A backend of the ladder, and what it is there for.

    Attributes
    ----------
    backend : Backend
    serves : str
        The problems that ``auto`` takes it for, or why it never does.
    automatic : bool
        Whether ``auto`` asks it at all.
    first_if_sparse : str or None
        Why it is asked before all others on sparse tables.
    """

    backend: Backend
    serves: str
    automatic: bool = True
    first_if_sparse: str | None = None

    @property
    def name(self) -> str:
        """The name of the backend."""
        return self.backend.name

    def __str__(self) -> str:
        return f"{self.name:<11} {'' if self.automatic else 'never: '}{self.serves}"


# From the top: ``auto`` takes the first that can run a problem.
LADDER = (
    Rung(
        FirstOrder(Proximal()),
        "smooth losses and terms, one function of singular values",
    ),
    Rung(
        FirstOrder(Splitting(Proximal())),
        "any losses and terms with a slope or a prox beside it",
    ),
    Rung(
        FirstOrder(Alternating()),
        "a nuclear norm alone, on tables too large to be held dense",
        first_if_sparse=(
            "on 4000 x 2000 and 20,000 x 5,000 with 1 to 2.5 % observed it certified 1e-4 five to"
            " 25 times as fast as ``proximal``"
        ),
    ),
    # Its class is not called Factored: that is the ability of a term (``contracts.term``).
    Rung(FirstOrder(FactoredDescent()), "a max norm"),
    Rung(
        FirstOrder(FPC()),
        "it needs more iterations than ``proximal`` for the same gap",
        automatic=False,
    ),
    Rung(Reference(), "whatever remains and is small"),
)
BACKENDS = {rung.name: rung.backend for rung in LADDER}


def backends_in_turn(problem: Problem) -> tuple[Backend, ...]:
    """The backends that ``auto`` asks about a problem, in turn."""
    rungs = [rung for rung in LADDER if rung.automatic]
    if is_sparse(problem):
        rungs.sort(key=lambda rung: rung.first_if_sparse is None)
    return tuple(rung.backend for rung in rungs)


def is_sparse(problem: Problem) -> bool:
    """Whether few entries of a large table carry loss."""
    n_cells = problem.shape[0] * problem.shape[1]
    n_entries = sum(table.n_entries for table in problem.tables.values())
    return n_cells > LARGEST_SMALL and n_entries <= SPARSE * n_cells


def ladder_text() -> str:
    """The ladder in words, as docstrings have it."""
    automatic = [rung for rung in LADDER if rung.automatic]
    lines = [f"{k}. ``{rung.name}``: {rung.serves};" for k, rung in enumerate(automatic, 1)]
    lines[-1] = lines[-1].removesuffix(";") + "."
    said = [
        f"On tables of more than {LARGEST_SMALL:,} cells of which at most {SPARSE:.0%} are"
        f" observed ``{rung.name}`` comes first: {rung.first_if_sparse}."
        for rung in LADDER
        if rung.first_if_sparse is not None
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
