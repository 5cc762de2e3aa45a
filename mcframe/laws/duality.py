"""The laws of a conjugate, which certificates rest on."""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Composed, Prox, Term
from mcframe.laws.samples import feasible_samples
from mcframe.laws.violations import close, demand

__all__ = ["composition", "fenchel_young"]


def fenchel_young(term: Term, points: list[Array]) -> None:
    """f*(Y) >= <Y, X> - f(X) for every X, with equality at the subgradient that prox shows.

    Y is any matrix of ``nearest_dual``, at which the conjugate must be finite and which must
    stay where it is.
    """
    inside = feasible_samples(term, points)
    values = [term.value(point) for point in inside]
    duals = [*points, *(0.1 * point for point in points)]
    if isinstance(term, Prox):
        for point in points:
            there, value = term.prox(point, 1.0)
            dual = term.nearest_dual(point - there)
            close(dual, point - there, 1e-8, "the nearest dual to a subgradient")
            wanted = float(np.vdot(dual, there)) - value
            close(term.conjugate(dual), wanted, 1e-8, "conjugate at a subgradient")
            duals += [point - there, 0.5 * (point - there)]
    for dual in duals:
        near = term.nearest_dual(dual)
        conjugate = term.conjugate(near)
        demand(np.isfinite(conjugate), f"the conjugate at a nearest dual is {conjugate}")
        close(term.nearest_dual(near), near, 1e-12, "the nearest dual to a nearest dual")
        for point, value in zip(inside, values, strict=True):
            at_least(conjugate, float(np.vdot(near, point)) - value)
            at_least(term.conjugate(dual), float(np.vdot(dual, point)) - value)


def at_least(conjugate: float, least: float) -> None:
    """Demand that a conjugate is no smaller than one of the values that it is the sup of."""
    demand(
        conjugate >= least - 1e-9 * (1 + abs(least)),
        f"the conjugate is too small: {conjugate:g} where some point reaches {least:g}",
    )


def composition(term: Term, points: list[Array]) -> None:
    """inner(forward(Z)) is the value; forward is affine, with this adjoint and ||K|| <= 1."""
    if not isinstance(term, Composed):
        return
    shift = term.forward(np.zeros_like(points[0]))
    for point, other in zip(points, reversed(points), strict=True):
        image = term.forward(point)
        close(term.inner.value(image), term.value(point), 1e-12, "inner after forward")
        linear = image - shift
        demand(
            float(np.linalg.norm(linear)) <= float(np.linalg.norm(point)) * (1 + 1e-12),
            "forward makes a matrix longer",
        )
        dual = np.resize(other, image.shape)
        close(
            float(np.vdot(term.adjoint(dual), point)),
            float(np.vdot(dual, linear)),
            1e-12,
            "adjoint",
        )
        close(term.pairing(dual), -float(np.vdot(dual, shift)), 1e-12, "pairing")
        inner_dual = image - term.inner.prox(image, 1.0)[0]
        inner_dual = term.inner.nearest_dual(inner_dual)
        conjugate = term.inner.conjugate(inner_dual) + term.pairing(inner_dual)
        demand(np.isfinite(conjugate), "inner's conjugate at its nearest dual is not finite")
        pull = term.adjoint(inner_dual)
        for rival in points:
            at_least(conjugate, float(np.vdot(pull, rival)) - term.value(rival))
