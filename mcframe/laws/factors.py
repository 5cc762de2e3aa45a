"""The laws of terms that are a least function of factors Z = U V'."""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Factored
from mcframe.laws.checking import (
    STEPS,
    TERM_LAWS,
    at_most,
    bounds_from_above,
    close,
    demand,
    feasible_samples,
    law_of,
    product,
    stacked_samples,
)

DESCENT_STEPS = 3000


@law_of(TERM_LAWS, "factors bound the value", Factored)
def factors_bound_the_value(term: Factored, points: list[Array]) -> None:
    """h(W) is at least the value at U V', and does not see a rotation of the columns."""
    shape = points[0].shape
    for stacked in stacked_samples(points):
        cut = term.prox_factors(stacked, 1.0)
        for factors in (stacked, 0.3 * stacked, cut):
            at_factors, value = term.of_factors(factors), term.value(product(factors, shape))
            at_most(value, at_factors, 1e-9, "the value, above that of some factors")
            turn = np.linalg.qr(np.vander(np.arange(1.0, 1.0 + factors.shape[1])))[0]
            close(term.of_factors(factors @ turn), at_factors, 1e-9, "value of turned factors")


@law_of(TERM_LAWS, "the prox of factors beats rivals", Factored)
def prox_of_factors(term: Factored, points: list[Array]) -> None:
    """No random rival has a lower h(X) + ||X - W||^2 / (2 step)."""
    rng = np.random.default_rng(0)
    for stacked in stacked_samples(points):
        for step in STEPS:
            there = term.prox_factors(stacked, step)
            demand(there.shape == stacked.shape, f"a prox of factors of shape {there.shape}")

            def total(factors: Array, start: Array = stacked, step: float = step) -> float:
                squared = float(np.sum(np.square(factors - start)))
                return term.of_factors(factors) + squared / (2 * step)

            lowest = total(there)
            for size in (1e-3, 0.1, 1.0):
                back = size * (stacked - there)
                shaken = there + size * rng.standard_normal(stacked.shape)
                # Also row by row: of a ball, some rows may go back where others may not.
                rows = (there + np.eye(len(back))[:, [k]] * back for k in range(len(back)))
                for other in (there + back, shaken, term.prox_factors(shaken, 1e-6), *rows):
                    what = f"rival factors are better than the prox, step {step:g}"
                    at_most(lowest, total(other), 1e-8, what)


@law_of(TERM_LAWS, "multipliers bound the conjugate", Factored)
def multipliers_bound_the_conjugate(term: Factored, points: list[Array]) -> None:
    """The bound from any multipliers holds, and is finite at the feasible scale."""
    rng = np.random.default_rng(0)
    order = sum(points[0].shape)
    inside = feasible_samples(term, points)
    values = [term.value(point) for point in inside]
    for dual in points:
        for multipliers in (np.zeros(order), np.ones(order), rng.random(order) ** 4):
            scale = term.feasible_scale(dual, multipliers)
            demand(0.0 <= scale <= 1.0, f"a feasible scale of {scale:g}")
            bound = term.conjugate_from(scale * dual, scale * multipliers)
            demand(np.isfinite(bound), f"the conjugate at the feasible scale {scale:g} is {bound}")
            for point, value in zip(inside, values, strict=True):
                bounds_from_above(bound, scale * float(np.vdot(dual, point)) - value)


@law_of(TERM_LAWS, "the best factors reach the conjugate", Factored)
def factors_reach_the_conjugate(term: Factored, points: list[Array]) -> None:
    """h is the value, and multipliers close the gap, where ||U V' - Y||^2 / 2 + h is least.

    There S = Y - U V' has h(W) + f*(S) = <S, U V'>, so that h(W) is f(U V') and
    ``row_multipliers`` must give ``conjugate_from`` what it needs. The first points only: a
    plain descent takes many steps.
    """
    for target in points[:2]:
        stacked = descend(term, target)
        latent = product(stacked, target.shape)
        dual, at_factors = target - latent, term.of_factors(stacked)
        demand(np.isfinite(at_factors), "the prox of factors leads outside of the domain")
        size = 1e-4 * (1 + float(np.vdot(target, target)))
        multipliers = term.row_multipliers(-dual, stacked)
        valid = multipliers.shape == (sum(target.shape),) and bool(np.all(multipliers >= 0.0))
        demand(valid, "there must be one multiplier for each row, none negative")
        matrix = np.diag(multipliers)
        matrix[: target.shape[0], target.shape[0] :] = -dual
        matrix[target.shape[0] :, : target.shape[0]] = -dual.T
        image = matrix @ stacked / size
        close(image, np.zeros_like(image), 1.0, "the dual matrix times the best factors")
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        demand(lowest >= -size, f"the dual matrix has the eigenvalue {lowest:g}")
        scale = term.feasible_scale(dual, multipliers)
        conjugate = term.conjugate_from(scale * dual, scale * multipliers)
        gap = at_factors + conjugate - scale * float(np.vdot(dual, latent))
        demand(-size <= gap <= size, f"the best factors leave a gap of {gap:g}")
        value = term.value(latent)
        close((at_factors - value) / size, 0.0, 1.0, "the value off that of the best factors")


def descend(term: Factored, target: Array) -> Array:
    """A minimiser of ||U V' - Y||^2 / 2 + h by proximal gradient steps with momentum."""
    n_rows = target.shape[0]
    rng = np.random.default_rng(0)
    width = sum(target.shape)
    stacked = term.prox_factors(0.5 * rng.standard_normal((width, width)), 1.0)
    ahead, momentum, step, last = stacked, 1.0, 1.0, np.inf

    def misfit(factors: Array) -> tuple[float, Array]:
        residual = product(factors, target.shape) - target
        gradient = np.vstack([residual @ factors[n_rows:], residual.T @ factors[:n_rows]])
        return 0.5 * float(np.vdot(residual, residual)), gradient

    for _ in range(DESCENT_STEPS):
        value, gradient = misfit(ahead)
        while True:
            moved = term.prox_factors(ahead - step * gradient, step)
            shift = moved - ahead
            allowed = float(np.vdot(gradient, shift)) + float(np.vdot(shift, shift)) / (2 * step)
            if misfit(moved)[0] <= value + allowed + 1e-12 * (1 + value):
                break
            step *= 0.5
        total = misfit(moved)[0] + term.of_factors(moved)
        if total > last:  # momentum has overshot: begin again without
            ahead, momentum, last = stacked, 1.0, np.inf
            continue
        faster = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead = moved + (momentum - 1) / faster * (moved - stacked)
        stacked, momentum, last = moved, faster, total
    return stacked
