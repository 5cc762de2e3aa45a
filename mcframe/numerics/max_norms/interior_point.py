"""The diagonal that proves the smallest bound on a dual max norm, by an interior-point method."""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.numerics.machine.clock import check_time
from mcframe.numerics.spectra.spectral_norm import is_positive_definite

__all__ = ["interior_point", "with_unit_sums"]

# Where the improvement ends, relatively.
TOLERANCE, STEPS = 1e-10, 60
# A bound by a norm is larger than the half sum by rounding.
MARGIN = 1.0 + 1e-9


def interior_point(dual: Array, diagonal: Array, bound: float, aim: float = 0.0) -> Array:
    """The diagonal D of least sum that keeps [[D1, S], [S', D2]] positive semidefinite.

    The primal-dual interior point method of Helmberg, Rendl, Vanderbei and Wolkowicz (SIAM
    J. Optim. 1996) for max-cut, whose semidefinite program has the same form: the other
    unknown X has diagonal 1/2, and tr(M X) is the distance from the optimum. Rounding ends
    it; whatever it returns gives a bound. A step costs about 8 N^3 operations, N rows and columns
    together.

    Parameters
    ----------
    dual : array
        S, (n_rows x n_columns), its entries of size 1.
    diagonal : array
        A positive diagonal of which a multiple proves ``bound``: where to begin.
    bound : float
        An upper bound on the dual max norm of S.
    aim : float, optional
        A bound that will do. It ends where that is reached or known to be out of reach; by
        default, 0, where the bound is exact to a relative 1e-10.
    """
    n_rows, n_columns = dual.shape
    order = n_rows + n_columns
    off_diagonal = np.zeros((order, order))
    off_diagonal[:n_rows, n_rows:] = dual
    off_diagonal[n_rows:, :n_rows] = dual.T
    # Well inside: from the edge of the cone the first steps would be short.
    diagonal = 2.0 * bound * with_unit_sums(diagonal, n_rows)
    other = 0.5 * np.eye(order)
    reduction = 0.1
    for _ in range(STEPS):
        check_time()
        matrix = off_diagonal + np.diag(diagonal)
        distance, total = float(np.vdot(matrix, other)), float(np.sum(diagonal))
        # The optimum lies between the half sum less the distance and the half sum.
        told = aim > 0.0 and not 0.5 * total - distance <= aim < MARGIN * 0.5 * total
        if distance <= TOLERANCE * total or told:
            break
        inverse = np.linalg.inv(matrix)
        target = reduction * distance / order
        move = np.linalg.solve(inverse * other, target * np.diag(inverse) - 0.5)
        turned = inverse @ (move[:, None] * other)
        move_other = target * inverse - other - 0.5 * (turned + turned.T)
        step, step_other = feasible(matrix, np.diag(move)), feasible(other, move_other)
        if min(step, step_other) < 0.01:
            break
        # Short steps come from a point near the edge: the next one leads back to the middle.
        reduction = 0.1 if min(step, step_other) > 0.5 else 0.5
        diagonal = diagonal + step * move
        other = other + step_other * move_other
    return diagonal


def with_unit_sums(diagonal: Array, n_rows: int) -> Array:
    """The diagonal with both blocks' sums scaled to 1."""
    first, second = diagonal[:n_rows], diagonal[n_rows:]
    return np.concatenate([first / np.sum(first), second / np.sum(second)])


def feasible(matrix: Array, move: Array) -> float:
    """A step that keeps a matrix positive definite, within a factor of the longest; 0 if none."""
    step = 1.0
    while step > 1e-6:
        if is_positive_definite(matrix + step * move):
            return 1.0 if step == 1.0 else 0.95 * step
        step *= 0.8
    return 0.0
