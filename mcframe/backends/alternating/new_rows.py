"""Rows of one factor, the other fixed: what Zheng and Hastie's rule asks for."""

import numpy as np

from mcframe.backends.alternating.bends import bends
from mcframe.backends.alternating.state import AlternatingState, entries
from mcframe.backends.alternating.sweeps import descended
from mcframe.compile import Program
from mcframe.contracts.arrays import Array
from mcframe.numerics import kernels
from mcframe.numerics.shrinkage import Shrinker

__all__ = ["rows_for"]

# Newton steps at most, and the relative change of the rows that ends them.
MOST_STEPS, SETTLED = 500, 1e-13


def rows_for(program: Program, right: Array, weight: float) -> Array:
    """argmin over U of ``F(U V') + weight / 2 ||U||_F^2`` for smooth F: each row for itself.

    One ridge regression a row for Gaussian losses; else Newton steps, shortened where they do
    not descend, until the rows no longer move. The problem is strongly convex. A row without
    an entry is 0.

    Parameters
    ----------
    program : Program
        Its main term is not looked at.
    right : array (n_columns x k)
        V.
    weight : float
        Positive.
    """
    state = first_state(program, right)
    lines = program.pattern.lines(by_rows=True)
    for _ in range(MOST_STEPS):
        bend, sure = bends(program, state)
        pull: Array = bend * state.z - state.evaluation.slope
        fresh = np.empty_like(state.left)
        kernels.ridge_solutions(
            lines.starts, lines.across, lines.places, bend, pull, right, weight, fresh
        )
        if not sure:
            fresh = descended(program, state, True, fresh, weight)
        moved = float(np.linalg.norm(fresh - state.left))
        state.left = fresh
        if moved <= SETTLED * float(np.linalg.norm(fresh)):
            break
        state.z = entries(program, fresh, right)
        state.evaluation = program.loss.evaluate(state.z)
    return state.left


def first_state(program: Program, right: Array) -> AlternatingState:
    """U = 0."""
    z = np.zeros(program.loss.n_entries)
    return AlternatingState(
        left=np.zeros((program.shape[0], right.shape[1])),
        right=right,
        values=np.zeros(right.shape[1]),
        z=z,
        evaluation=program.loss.evaluate(z),
        penalty=0.0,
        shrinker=Shrinker(program.shape, np.random.default_rng(0)),
        curvature=1.0,
    )
