"""The verbs ``explain``, ``verify`` and ``to_cvxpy``: a problem without a fit, or with two."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends import (
    BackendLike,
    Budget,
    Eligibility,
    Reference,
    Settings,
    backend_from,
    checked_backend,
    checked_budget,
    choice_of,
    eligibilities,
    relative_gap,
)
from mcframe.backends import to_cvxpy as problem_to_cvxpy
from mcframe.compile import CompiledProblem
from mcframe.contracts.endings import AgreementStatus
from mcframe.contracts.errors import ModelError
from mcframe.contracts.former import VERIFY
from mcframe.contracts.limits import MOST_LISTED
from mcframe.contracts.row_stores import store_of
from mcframe.contracts.showing import (
    card,
    remarks,
    table_as_html,
    table_as_text,
    text_as_html,
)
from mcframe.contracts.validators import suggests_options, without_former_options
from mcframe.contracts.wording import wording
from mcframe.fitting.fit import fit_problem
from mcframe.fitting.fit_answer import Fit
from mcframe.fitting.fitting_store import FittingStore, StoreExplanation
from mcframe.model import Model, Problem
from mcframe.model.transforms import Chain
from mcframe.runtime.progress import stage

# The reference that a fit is verified by, if no other is given.
DEFAULT_REFERENCE = Reference()


@attrs.frozen(eq=False, repr=False)
class Explanation:
    """The backends that can run a problem, their costs, and the one that ``auto`` takes.

    Attributes
    ----------
    problem : Problem
        The model with its data, checked.
    eligibilities : tuple of Eligibility
        One a backend: ``name``, ``can_run``, ``reason`` against it or None, and ``cost``.
    chosen : str or None
        The backend that ``auto`` takes; None if none can run.
    why : str
        The sentence that says why ``auto`` takes it.
    transforms : dict from block name to Chain
        What values go through between the data and their losses: offset, standard units, origin.
    """

    problem: Problem
    eligibilities: tuple[Eligibility, ...]
    chosen: str | None
    why: str

    @property
    def transforms(self) -> dict[str, Chain]:
        """The transforms of the values of each block, from the data to its losses.

        Each chain has ``apply`` and ``invert``, by which predictions come back.
        """
        return {name: self.problem.transforms(name) for name in self.problem.tables}

    def _transforms(self) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
        """Yield the transforms of each block in words, then a header and a row for each column.

        Last are the scales of terms. Nothing if all is as in the data.
        """
        problem, chains = self.problem, self.transforms
        blocks = problem.model.blocks
        if any(block.standardize or chains[block.name] for block in blocks):
            for block in blocks:
                table = problem.tables[block.name]
                by_column = dict(chains[block.name].by_column)
                if block.scales_losses and table.original is not None:
                    by_column["1/ℓ"] = table.original.standard.weights
                factor = ", losses times 1/ℓ" * block.scales_losses
                rows = [
                    (table.column_label(j), *(f"{number:.8g}" for number in numbers))
                    for j, numbers in enumerate(zip(*by_column.values(), strict=True))
                ]
                yield f"{block.name}: {chains[block.name]}{factor}", ("column", *by_column), rows
        for term in problem.terms:
            scales = problem.scales_of(term)
            if scales is not None:
                yield f"{term.word}: {scales}", (), []

    def __repr__(self) -> str:
        lines = [repr(self.problem), ""]
        for sentence, header, rows in self._transforms():
            lines.append(sentence)
            lines += table_as_text(header, rows, 2 * MOST_LISTED) if rows else []
        if lines[-1]:
            lines.append("")
        for verdict in self.eligibilities:
            mark = "yes" if verdict.can_run else "no "
            auto = "  <- auto" if verdict.name == self.chosen else ""
            lines.append(f"{verdict.name:<11} {mark}  {verdict}{auto}")
        return "\n".join([*lines, self.why])

    def _repr_html_(self) -> str:
        rows = [
            (verdict.name, "yes" if verdict.can_run else "no", str(verdict))
            for verdict in self.eligibilities
        ]
        chosen = [(place, 0) for place, row in enumerate(rows) if row[0] == self.chosen]
        table = table_as_html(("backend", "can run it", "cost, or why not"), rows, chosen)
        transforms = [
            remarks([sentence]) + (table_as_html(header, by_column) if by_column else "")
            for sentence, header, by_column in self._transforms()
        ]
        problem = text_as_html(repr(self.problem))
        return card("Explanation", problem, *transforms, table, remarks([self.why]))


@suggests_options
def explain(model: Model, data: Any) -> Explanation | StoreExplanation:
    """Check data against a model and say which backends can run it, without solving.

    Parameters
    ----------
    model, data : as in ``fit``

    Returns
    -------
    Explanation
        Its text has the model, the sizes of the data, the cost of each backend or the reason why
        it cannot run, and the reason for the choice of ``auto``. If values change their units, it
        has the transforms of each block: offsets, standard units, and the origins from which
        effects are counted, with what is subtracted from each column and by what it is divided.
        ``transforms`` has them as objects with ``apply`` and ``invert``. For data in partitions it
        is a ``PartitionsExplanation``: the bytes of a partition, of the driver, and of a round.
        Their units are only known after a fit, as ``fit.problem.transforms(block)``. To count the
        entries of collections of Dask, each partition is computed once.

    Raises
    ------
    DataError, ModelError

    Notes
    -----
    The rule by which ``auto`` chooses stands in the notes of ``fit``. Attributes of rows and
    columns are no part of a model but of its posterior, whose text has their formula.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    >>> mc.explain(model, {"x": np.eye(3)}).chosen
    'proximal'
    """
    store = store_of(data)
    if isinstance(store, FittingStore):
        return store.explain(model, data)
    compiled = CompiledProblem(Problem.bind(model, data))
    chosen, why = choice_of(compiled)
    return Explanation(compiled.problem, eligibilities(compiled), chosen, why)


@suggests_options
def to_cvxpy(model: Model, data: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model with its data as a CVXPY problem, stated term by term.

    Parameters
    ----------
    model, data : as in ``fit``

    Returns
    -------
    problem : cvxpy.Problem
        Not solved.
    variables : dict from name to cvxpy.Variable
        ``"Z"`` (n_items x n_columns, blocks side by side, then the all-ones column if there
        is one) and ``"bias:NAME"`` for each block with a bias.

    Raises
    ------
    DataError, ModelError
        As in ``fit``.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.1)])
    >>> problem, variables = mc.to_cvxpy(model, {"x": np.eye(2)})
    >>> problem.is_dcp(), sorted(variables)
    (True, ['Z', 'bias:x'])
    """
    return problem_to_cvxpy(Problem.bind(model, data))


@attrs.frozen(eq=False, repr=False)
class Verification:
    """The answers of a fast backend and of CVXPY to one problem, side by side.

    Each answer claims that the optimum lies between its bound and its objective.

    Attributes
    ----------
    fast, reference : Fit
    tol : float
        The largest relative distance of an objective from the larger bound at which the answers
        agree.
    verdict : "agree", "differ" or "too inexact"
        "agree" if both objectives are within ``tol`` of the larger bound, and no bound lies
        above an objective. "differ" if a bound lies above an objective by more than
        ``Fit.allowed_excess``: one of the answers is wrong. "too inexact" if there is no
        contradiction, but an objective, mostly the reference's, is not within ``tol``: nothing is
        proven.
    agrees : bool
        Whether the verdict is "agree". ``bool(verification)`` is the same.
    difference : float
        (fast objective - reference objective) / max of both in absolute value; negative if
        the fast answer is better.
    distance : float
        ||Z_fast - Z_reference||_F / max(||Z_reference||_F, ||Z_fast||_F).
    note : str or None
        What limits the verdict: that both answers have Z = 0.
    overstated : str or None
        A bound that lies above an objective by more than ``Fit.allowed_excess``, in words.
    """

    fast: Fit
    reference: Fit
    tol: float

    @property
    def difference(self) -> float:
        """Relative difference of the objectives; 0 where both are 0 up to rounding."""
        ours, exact = self.fast.objective, self.reference.objective
        largest = max(abs(ours), abs(exact))
        nothing = max(self.fast.rounding.zero_below, self.reference.rounding.zero_below)
        return (ours - exact) / largest if largest > nothing else 0.0

    @property
    def distance(self) -> float:
        """Relative Frobenius distance of the latent matrices."""
        ours, exact = self.fast.latent.dense(), self.reference.latent.dense()
        largest = max(float(np.linalg.norm(exact)), float(np.linalg.norm(ours)))
        return float(np.linalg.norm(ours - exact)) / largest if largest > 0 else 0.0

    @property
    def overstated(self) -> str | None:
        """A contradiction, a lower bound above an objective, in words; None without one.

        Beyond ``Fit.allowed_excess``: rounding, and the feasibility tolerance of constraints.
        """
        allowed = max(self.fast.allowed_excess, self.reference.allowed_excess)
        answers = {"fast": self.fast, "reference": self.reference}
        for name, lower in answers.items():
            for other, upper in answers.items():
                if not lower.bound <= upper.objective + allowed:
                    return (
                        f"the {name} bound {lower.bound!r} lies above the {other} objective"
                        f" {upper.objective!r}"
                    )
        return None

    @property
    def note(self) -> str | None:
        """The limit of the verdict: with Z = 0 on both sides little was compared."""
        if self.fast.rank or self.reference.rank:
            return None
        compared = "effects alone were compared" if self.fast.effects else "nothing was compared"
        tenth = wording().either(
            python="as of a tenth of mc.weight_max", command="as of a tenth of this one"
        )
        return (
            f"both answers have Z = 0, so that {compared}; verify with a smaller weight, {tenth},"
            " or a larger radius, at which Z is not 0"
        )

    @property
    def inexact(self) -> tuple[str, ...]:
        """The answers whose objective is not within ``tol`` of the larger bound."""
        best = max(self.fast, self.reference, key=lambda fit: fit.bound)
        backends = []
        for name, fit in (("reference", self.reference), ("fast reading", self.fast)):
            rounding = fit.rounding.with_bound_of(best.rounding)
            if not relative_gap(fit.objective, best.bound, rounding) <= self.tol:
                backends.append(name)
        return tuple(backends)

    @property
    def verdict(self) -> AgreementStatus:
        """The verdict: the two answers confirm or contradict each other, or neither is proven."""
        if self.overstated is not None:
            return AgreementStatus.DIFFER
        return AgreementStatus.TOO_INEXACT if self.inexact else AgreementStatus.AGREE

    @property
    def agrees(self) -> bool:
        """True where the two answers confirm each other."""
        return self.verdict is AgreementStatus.AGREE

    def __bool__(self) -> bool:
        """Return ``agrees``, as the truth value of a verification."""
        return self.agrees

    def __repr__(self) -> str:
        lines = ["{:<12}{:>16}{:>16}{:>10}{:>6}{:>11}".format(*row) for row in self._cells()]
        return "\n".join([*lines, *self._remarks()])

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        return card("Verification", table_as_html(header, rows), remarks(self._remarks()))

    def _cells(self) -> list[tuple[str, ...]]:
        """A header, and a row for each of the two answers."""
        rows = [
            (
                *(fit.backend, f"{fit.objective:.9g}", f"{fit.bound:.9g}", f"{fit.gap:.1e}"),
                *(str(fit.rank), f"{fit.history[-1].seconds:.2f} s"),
            )
            for fit in (self.fast, self.reference)
        ]
        return [("", "objective", "bound", "gap", "rank", "time"), *rows]

    def _remarks(self) -> list[str]:
        """The verdict, and a note if there is one."""
        inexact = " and the ".join(self.inexact)
        verdict = {
            AgreementStatus.AGREE: "the two solvers agree",
            AgreementStatus.DIFFER: f"THE TWO SOLVERS DIFFER ({self.overstated})",
            AgreementStatus.TOO_INEXACT: f"no verdict, the {inexact} is too inexact to compare",
        }[self.verdict]
        numbers = f"relative difference {self.difference:.1e} (tol {self.tol:g})"
        lines = [f"{verdict}: {numbers}, distance of Z {self.distance:.1e}"]
        return [*lines, *([] if self.note is None else [f"note: {self.note}"])]


@without_former_options(VERIFY)
def verify(
    model: Model,
    data: Mapping[str, Any],
    *,
    backend: BackendLike = "auto",
    tol: float = 1e-5,
    max_seconds: float = np.inf,
    reference: Reference = DEFAULT_REFERENCE,
) -> Verification:
    """Solve a small problem twice, by a fast backend and exactly by CVXPY, and compare.

    Parameters
    ----------
    model, data : as in ``fit``
    backend : the fast one, as in ``fit``
    tol : float, default 1e-5
        The largest relative distance of both objectives from the larger bound at which they
        agree. The fast backend runs to a tenth of it.
    max_seconds : float, default inf
        The limit for both together: the reference has the time that the fast backend leaves.
        If a solver was stopped early, the answers may be too inexact to compare.
    reference : Reference, default Reference()
        ``Reference(solver="CLARABEL")`` has another conic solver, and ``Reference(force=True)``
        solves although the estimate of size or time is above the limit.

    Returns
    -------
    Verification
        Its text has both answers and the verdict: "agree", "differ" or "too inexact".

    Raises
    ------
    BackendError
        If the problem is too large for the reference, or the reference has no answer. Verify a
        sample of rows then.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    >>> mc.verify(model, {"x": np.eye(3)}).verdict
    'agree'
    """
    if not isinstance(reference, Reference):
        raise ModelError(f"reference={reference!r} was given; mc.Reference(...) is needed")
    began, budget = time.perf_counter(), checked_budget(tol, Budget().max_iter, max_seconds)
    compiled = CompiledProblem(Problem.bind(model, data))
    chosen = backend_from(backend, compiled)
    if chosen.exact:
        raise ModelError("verify compares the reference with another backend; name that one")
    checked_backend(reference, compiled)
    tighter = Settings(attrs.evolve(budget, tol=tol / 10), began=began)
    with stage("verify"):
        fast = fit_problem(compiled, chosen, tighter)
        rest = attrs.evolve(budget, max_seconds=began + max_seconds - time.perf_counter())
        exact = fit_problem(compiled, reference, Settings(rest))
    return Verification(fast, exact, tol)
