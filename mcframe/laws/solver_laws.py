"""The laws of solvers: they reach the reference, and their certificates are never too good."""

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Backend, BackendLike, Record, backend_from
from mcframe.compile import CompiledProblem
from mcframe.constraints import Box, OnesColumn
from mcframe.contracts.endings import Status
from mcframe.contracts.errors import NotCertifiedWarning, UnobservedWarning
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.fitting.verification import Verification
from mcframe.laws.checking import demand, demand_unharmed, law
from mcframe.likelihoods import Bernoulli, Gaussian, Quantile
from mcframe.model import Block, Model, Problem
from mcframe.regularizers import GaussianRows, MaxNorm, NuclearNorm, Ridge

# The relative gap up to which a reference counts as exact.
REFERENCE_TOL = 1e-6
# The relative difference that is allowed between two readings.
AGREEMENT_TOL = 1e-5
# Iterations of a fit that others start from: few enough to leave them something to do.
SHORT = 4
Example = tuple[Model, Mapping[str, Any]]


@attrs.frozen
class Agreement:
    """Comparison of one backend with the reference on one example.

    ``difference`` is |objective - reference| / max of both; ``exact`` says whether the
    gap of the reference is at most its tolerance: otherwise only the bounds were compared.
    """

    difference: float
    exact: bool
    gap: float
    status: str


@attrs.frozen(eq=False)
class TrialFit:
    """Fits of one example by a backend and by the reference, on which the laws are checked.

    Attributes
    ----------
    asked : BackendLike
        The backend as it was given.
    model, data : as in ``fit``
    tol : float
        The gap that the backend is asked for.
    certified : float or None
        The gap that it must reach, if any.
    fit, exact : Fit
        The backend's and the reference's.
    records : list of Record
        The records that a callback saw of ``fit``.
    """

    asked: BackendLike
    model: Model
    data: Mapping[str, Any]
    tol: float
    certified: float | None
    fit: Fit
    exact: Fit
    records: list[Record]

    @classmethod
    def of(
        cls,
        asked: BackendLike,
        example: Example,
        reference: Fit | None,
        tol: float,
        certified: float | None,
    ) -> "TrialFit":
        """Fit an example, and its reference if that is not at hand already."""
        model, data = example
        records: list[Record] = []
        exact = quiet(model, data, backend="reference") if reference is None else reference
        answer = quiet(model, data, backend=asked, tol=tol, callback=records.append)
        return cls(asked, model, data, tol, certified, answer, exact, records)

    @property
    def verification(self) -> Verification:
        """The example's fit and the reference's, side by side."""
        return Verification(self.fit, self.exact, AGREEMENT_TOL)

    @property
    def is_exact(self) -> bool:
        """True if the gap of the reference is at most its tolerance."""
        return self.exact.gap <= REFERENCE_TOL

    @property
    def agreement(self) -> Agreement:
        """The comparison with the reference."""
        difference = abs(self.verification.difference)
        return Agreement(difference, self.is_exact, self.fit.gap, self.fit.status)

    def again(self, **options: Any) -> Fit:
        """A new fit of the example by the same backend."""
        return quiet(self.model, self.data, **{"backend": self.asked, "tol": self.tol, **options})

    def hold(self, names: Iterable[str]) -> None:
        """Hold the backend to some of the laws."""
        for name in names:
            with law(self.asked, name):
                SOLVER_LAWS[name](self)


def quiet(model: Model, data: Mapping[str, Any], **options: Any) -> Fit:
    """A fit, whatever its status; numpy's warnings in a solver are no law's."""
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("ignore", NotCertifiedWarning)
        warnings.simplefilter("ignore", UnobservedWarning)
        return fit(model, data, **options)


def check_solver(
    backend: BackendLike, examples_: Iterable[Example] | None = None, *, tol: float = 1e-6
) -> list[Agreement]:
    """Hold a backend to the laws of solvers, on given or on built-in small examples.

    On each that it does not refuse it must reach the reference's value to 1e-5 relatively, its
    bound must not lie above the reference's objective, its objective must be that of the problem,
    a second run must give the same bits, a callback must see every record, and a start must
    be left unharmed and never for a worse point; ``mc.laws.SOLVER_LAWS`` names them.

    Parameters
    ----------
    backend : a name, an options object or a solver, as in ``fit``
    examples_ : iterable of (model, data), optional
        Small enough for the reference.
    tol : float, default 1e-6
        The gap that the backend is asked for.

    Returns
    -------
    list of Agreement
        One for each example that the backend ran.

    Raises
    ------
    LawViolation
        Names the law and the numbers that break it; also where the backend refuses every
        example, with its reasons.

    Examples
    --------
    >>> import mcframe as mc
    >>> all(a.exact for a in mc.laws.check_solver("proximal"))
    True
    """
    reasons, agreements = [], []
    for example in examples() if examples_ is None else examples_:
        reason = reason_against(backend, example)
        if reason is not None:
            reasons.append(reason)
            continue
        trial = TrialFit.of(backend, example, None, tol, None)
        trial.hold(SOLVER_LAWS)
        agreements.append(trial.agreement)
    with law(backend, "runs something"):
        demand(agreements, f"every example was refused: {'; '.join(dict.fromkeys(reasons))}")
    return agreements


def reason_against(backend: BackendLike, example: Example) -> str | None:
    """Return the reason why a backend refuses an example, None if it does not."""
    model, data = example
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)
        compiled = CompiledProblem(Problem.bind(model, data))
    chosen: Backend = backend_from(backend, compiled)
    return chosen.refusal(compiled)


def check_agreement(
    backend: BackendLike,
    model: Model,
    data: Mapping[str, Any],
    *,
    reference: Fit | None = None,
    tol: float = 1e-6,
    certified: float | None = None,
) -> Agreement:
    """Hold one fit of one example to the laws; a reference already at hand may be passed in.

    These are bounds, the objective, the bits of a second run, and the reference's value. With
    ``certified`` the gap must be at most that, or as small as double precision tells.
    """
    trial = TrialFit.of(backend, (model, data), reference, tol, certified)
    trial.hold(OF_ONE_FIT)
    return trial.agreement


def bounds_are_never_too_good(trial: TrialFit) -> None:
    """No lower bound lies above any objective, nor the other way round."""
    overstated = trial.verification.overstated
    demand(overstated is None, f"{overstated} on\n{trial.model}")


def objective_is_the_problems(trial: TrialFit) -> None:
    """The objective is that of the problem, at a point that meets all constraints."""
    answer = trial.fit
    objective = answer.problem.objective(answer.latent, answer.effects)
    demand(answer.objective == objective, "its objective is not that of the problem")
    demand(np.isfinite(objective), "its answer violates a constraint")


def equal_seeds_give_equal_bits(trial: TrialFit) -> None:
    """A second run ends with the same numbers, to the last bit."""
    first, again = trial.fit, trial.again()
    same = first.objective == again.objective and first.bound == again.bound
    demand(same, f"{first.objective!r} and {again.objective!r} in two equal runs")


def certifies(trial: TrialFit) -> None:
    """The gap is what was asked for, or as small as double precision tells."""
    answer = trial.fit
    if trial.certified is not None:
        small = answer.gap <= trial.certified or answer.status is Status.LIMITED_BY_ROUNDING
        demand(small, f"a gap of {answer.gap:.1e} (status {answer.status}) on\n{trial.model}")


def reaches_the_reference(trial: TrialFit) -> None:
    """The objective is the reference's, where that is exact."""
    answer, difference = trial.fit, abs(trial.verification.difference)
    if trial.is_exact:
        demand(
            difference <= AGREEMENT_TOL,
            f"objective {answer.objective!r} where the reference has {trial.exact.objective!r}"
            f" (relative difference {difference:.1e}, status {answer.status}) on\n{trial.model}",
        )


def callbacks_see_every_record(trial: TrialFit) -> None:
    """A callback is shown every record of the history."""
    seen, kept = len(trial.records), len(trial.fit.history)
    demand(
        trial.records == list(trial.fit.history.records),
        f"a callback saw {seen} records where the history has {kept}",
    )


def a_start_is_continued(trial: TrialFit) -> None:
    """A start is left unharmed; the answer is no worse, its bound no lower.

    A backend that knows no start must say so: ``Backend.start_refusal``.
    """
    chosen = backend_from(trial.asked, CompiledProblem(trial.fit.problem))
    if chosen.start_refusal is not None:
        return
    start = trial.again(max_iter=SHORT)
    before = copy.deepcopy(start.point)
    resumed = trial.again(start=start)
    for side in ("left", "right"):
        was, now = getattr(before.latent, side), getattr(start.point.latent, side)
        demand_unharmed(was, now, f"the {side} factor of the start")
    demand(
        resumed.objective <= start.objective,
        f"objective {resumed.objective!r} from a start of {start.objective!r}",
    )
    demand(
        resumed.bound >= start.bound,
        f"a bound of {resumed.bound!r} from a start with {start.bound!r}",
    )


TWICE = "equal seeds give equal bits"
SOLVER_LAWS: dict[str, Callable[[TrialFit], None]] = {
    "bounds are never too good": bounds_are_never_too_good,
    "the objective is the problem's": objective_is_the_problems,
    TWICE: equal_seeds_give_equal_bits,
    "certifies": certifies,
    "reaches the reference": reaches_the_reference,
    "callbacks see every record": callbacks_see_every_record,
    "a start is continued": a_start_is_continued,
}
# Laws that need no further fit, except for the second run.
OF_ONE_FIT = tuple(SOLVER_LAWS)[:5]


def examples() -> list[Example]:
    """Small models with something to do for every backend, and to refuse for each but one."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 2)) @ rng.standard_normal((2, 5))
    x[rng.random(x.shape) < 0.4] = np.nan
    y = (rng.random((9, 3)) < 0.5).astype(float)
    y[rng.random(y.shape) < 0.4] = np.nan
    data = {"x": x, "y": y}
    features = Block("x", Gaussian(), reduce="mean")
    labels = Block("y", Bernoulli(), reduce="mean", weight=0.5)
    biased = attrs.evolve(labels, bias=True)
    medians = attrs.evolve(features, likelihood=Quantile(0.5))
    return [
        (Model([features, biased], [NuclearNorm(0.05)]), data),
        (Model([features, biased], [NuclearNorm(0.05), Ridge(0.02)]), data),
        (Model([features, labels], [NuclearNorm(0.05), OnesColumn()]), data),
        (Model([features, labels], [Ridge(0.01)]), data),
        (Model([features, biased], [NuclearNorm(100.0)]), data),
        (Model([attrs.evolve(features, bias=True)], [NuclearNorm(0.01)]), {"x": x}),
        (Model([medians, labels], [NuclearNorm(0.05)]), data),
        (Model([features, labels], [NuclearNorm(0.05), Box(-1.0, 1.0, "x")]), data),
        (Model([features, biased], [MaxNorm(0.1)]), data),
        (Model([features, labels], [GaussianRows(0.5 * np.eye(8) + 0.5, np.ones(8), 0.1)]), data),
    ]
