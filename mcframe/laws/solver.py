"""The laws of solvers: they reach the reference, and their certificates are never too good."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.backends import Backend
from mcframe.constraints import OnesColumn
from mcframe.contracts.errors import NotCertifiedWarning, UnobservedWarning
from mcframe.fitting import fit
from mcframe.laws.violations import demand, law
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model
from mcframe.regularizers import NuclearNorm, Ridge

__all__ = ["Agreement", "check_agreement", "check_solver", "examples"]

# The relative gap up to which a reference counts as exact.
REFERENCE_TOL = 1e-6
# What two readings may differ by, relatively.
AGREEMENT_TOL = 1e-5
Example = tuple[Model, Mapping[str, Any]]


@attrs.frozen
class Agreement:
    """One backend beside the reference on one example.

    ``difference`` is |objective - reference| / max of both; ``exact`` says whether the
    reference reached its own tolerance: where it did not, only the bounds were compared.
    """

    difference: float
    exact: bool
    gap: float
    status: str


def check_solver(
    backend: str | Backend, examples_: Iterable[Example] | None = None, *, tol: float = 1e-6
) -> list[Agreement]:
    """Hold a backend to the laws of solvers, on given or on built-in small examples.

    On each it must reach the reference's value to 1e-5 relatively, its bound must not lie
    above the reference's objective, its objective must be the problem's own, and a second
    run must give the same bits.

    Parameters
    ----------
    backend : a name or an options object, as in ``fit``
    examples_ : iterable of (model, data), optional
        Small enough for the reference.
    tol : float, default 1e-6
        The gap that the backend is asked for.

    Raises
    ------
    LawViolation, and whatever ``fit`` raises where the backend cannot run an example.

    Examples
    --------
    >>> import mcframe as mc
    >>> all(a.exact for a in mc.laws.check_solver("proximal"))
    True
    """
    chosen = examples() if examples_ is None else examples_
    return [check_agreement(backend, model, data, tol=tol) for model, data in chosen]


def check_agreement(
    backend: str | Backend,
    model: Model,
    data: Mapping[str, Any],
    *,
    reference: Fit | None = None,
    tol: float = 1e-6,
    certified: float | None = None,
    twice: bool = True,
) -> Agreement:
    """The laws of solvers on one example; a reference already at hand may be passed in.

    With ``certified`` the gap must be at most that, or as small as double precision tells.
    ``twice=False`` leaves out the second run, whose bits must be equal.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        warnings.simplefilter("ignore", UnobservedWarning)
        exact = fit(model, data, backend="reference") if reference is None else reference
        found = fit(model, data, backend=backend, tol=tol)
        again = fit(model, data, backend=backend, tol=tol) if twice else found
    with law(backend, "bounds are never too good"):
        bounds_hold(found, exact)
    with law(backend, "one judge"):
        objective = found.problem.objective(found.latent, found.biases)
        demand(found.objective == objective, "its objective is not the problem's own")
        demand(np.isfinite(objective), "its answer violates a constraint")
    with law(backend, "equal seeds give equal bits"):
        same = found.objective == again.objective and found.bound == again.bound
        demand(same, f"{found.objective!r} and {again.objective!r} in two equal runs")
    difference = relative(found, exact)
    is_exact = exact.gap <= REFERENCE_TOL
    if certified is not None:
        with law(backend, "certifies"):
            said = f"a gap of {found.gap:.1e} (status {found.status}) on\n{model}"
            demand(found.gap <= certified or found.status == "limited_by_rounding", said)
    if is_exact:
        with law(backend, "reaches the reference"):
            demand(
                difference <= AGREEMENT_TOL,
                f"objective {found.objective!r} where the reference has {exact.objective!r}"
                f" (relative difference {difference:.1e}, status {found.status}) on\n{model}",
            )
    return Agreement(difference, is_exact, found.gap, found.status)


def bounds_hold(found: Fit, exact: Fit) -> None:
    """No lower bound lies above any objective that was reached, nor the other way round.

    Beyond ``Fit.slack``: rounding, and the room that sets have.
    """
    slack = max(found.slack, exact.slack)
    for bound, objective, whose in (
        (found.bound, found.objective, "its own objective"),
        (found.bound, exact.objective, "the reference's objective"),
        (exact.bound, found.objective, "its objective, where that bound is the reference's"),
    ):
        demand(
            bound <= objective + slack,
            f"a bound of {bound!r} lies above {whose} {objective!r} on\n{found.model}",
        )


def relative(found: Fit, exact: Fit) -> float:
    """|difference of objectives| / max of both; 0 where both are 0 up to rounding."""
    largest = max(abs(found.objective), abs(exact.objective))
    nothing = max(found.rounding.nothing, exact.rounding.nothing)
    return abs(found.objective - exact.objective) / largest if largest > nothing else 0.0


def examples() -> list[Example]:
    """Small models that cover the vocabulary of smooth losses and spectral penalties."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 2)) @ rng.standard_normal((2, 5))
    x[rng.random(x.shape) < 0.4] = np.nan
    y = (rng.random((9, 3)) < 0.5).astype(float)
    y[rng.random(y.shape) < 0.4] = np.nan
    data = {"x": x, "y": y}
    features = Block("x", Gaussian(), reduce="mean")
    labels = Block("y", Bernoulli(), reduce="mean", weight=0.5)
    biased = attrs.evolve(labels, bias=True)
    return [
        (Model([features, biased], [NuclearNorm(0.05)]), data),
        (Model([features, biased], [NuclearNorm(0.05), Ridge(0.02)]), data),
        (Model([features, labels], [NuclearNorm(0.05), OnesColumn()]), data),
        (Model([features, labels], [Ridge(0.01)]), data),
        (Model([features, biased], [NuclearNorm(100.0)]), data),
        (Model([attrs.evolve(features, bias=True)], [NuclearNorm(0.01)]), {"x": x}),
    ]
