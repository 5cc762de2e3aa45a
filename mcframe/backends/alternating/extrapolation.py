"""Further along the way of the last step: what alternation approaches slowly is foreseen."""

import numpy as np

from mcframe.backends.alternating.state import AlternatingState
from mcframe.compile import Program
from mcframe.contracts.arrays import Array

__all__ = ["extrapolate"]

# The longest extrapolation, in lengths of the last move, and the shortest that is tried.
LONGEST, SHORTEST = 8.0, 0.05


def extrapolate(program: Program, state: AlternatingState) -> None:
    """Go on along the move from the last step's end to this one's, if the objective falls.

    Steps that each bring the iterate closer by the same factor r end at r / (1 - r) of the last
    move. The objective before the move, after it, and after it once more gives a parabola; the
    better one of the last point and the parabola's lowest is taken, if it is below. Two
    evaluations at most.
    """
    end, begun, earlier = (state.left, state.right), state.snapshot(), state.earlier
    if earlier is None:
        state.earlier = (*end, state.objective)
        return
    left, right = align(earlier[0], earlier[1], *end)
    moves = end[0] - left, end[1] - right
    # Both objectives are told by one round where rows are in partitions.
    state.arrive(program, end[0] + moves[0], end[1] + moves[1])
    further, beyond = state.snapshot(), state.objective
    state.restore(begun)
    objective = state.objective
    state.earlier = (*end, objective)
    best, reached = (further, beyond) if beyond < objective else (begun, objective)
    share = lowest(earlier[2], objective, beyond)
    if share > SHORTEST:
        state.arrive(program, end[0] + share * moves[0], end[1] + share * moves[1])
        if state.objective < reached:
            return
    state.restore(best)


def align(left: Array, right: Array, like_left: Array, like_right: Array) -> tuple[Array, Array]:
    """The factors, turned so that they come as close to others as they can (Procrustes).

    A turn of both leaves their product as it is; where the others have fewer columns, what is
    least like them is lost.
    """
    u, _, v = np.linalg.svd(left.T @ like_left + right.T @ like_right, full_matrices=False)
    turn = u @ v
    return left @ turn, right @ turn


def lowest(before: float, here: float, beyond: float) -> float:
    """The lowest point of a parabola through values at -1, 0 and 1, at most ``LONGEST``."""
    if not np.isfinite(beyond):
        return 0.5
    curvature, rise = before + beyond - 2.0 * here, 0.5 * (beyond - before)
    if curvature <= 0.0:
        return LONGEST
    return float(np.clip(-rise / curvature, 0.0, LONGEST))
