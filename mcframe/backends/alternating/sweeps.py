"""Half a sweep: each row of one factor is a ridge regression on the other."""

from mcframe.backends.alternating.state import AlternatingState
from mcframe.compile import Program, lines_near

__all__ = ["half_sweep"]


def half_sweep(program: Program, state: AlternatingState, by_rows: bool) -> None:
    """New rows of one factor, the other and the effects fixed; then the best effects."""
    own, other = (state.left, state.right) if by_rows else (state.right, state.left)
    lines, weight = lines_near(program, state.evaluation), program.penalty.threshold(1.0)
    fresh = lines.ridge_solutions(other, weight, by_rows)
    # Cells that are not read one by one have one quadratic, of which a full step is sure.
    read = program.background.n_read > 0
    if read:  # to look at each line takes a pass, and is seldom needed
        before, objective = state.snapshot(), state.objective
        state.arrive(program, *((fresh, other) if by_rows else (other, fresh)))
        if state.objective < objective:
            return
        state.restore(before)
    if read or not lines.sure:
        fresh = lines.descend(own, fresh, other, weight, by_rows)
    state.arrive(program, *((fresh, other) if by_rows else (other, fresh)))
