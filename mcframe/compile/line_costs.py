"""What it costs a dual point to scale rows and columns of its gradient down."""

from typing import Any

import numpy as np

from mcframe.compile.evaluation import Evaluation
from mcframe.compile.partitions.lines import lines_near
from mcframe.compile.program import Program
from mcframe.numerics.tapering import LineCosts


def tapers(program: Program) -> bool:
    """Whether rows and columns of the gradient may be scaled down one by one.

    Not where sums over rows have to vanish, nor where gradients of several numbers belong
    together, nor where nothing but multiples of the gradient has a known conjugate.
    """
    if program.background:
        return False
    if not program.entries.sparse or program.terms:
        return False
    if not np.isfinite(program.penalty.dual_radius):
        return False
    return all(
        piece.has_conjugate() and piece.width == 1 and not piece.layout.n_row_effects
        for piece in program.loss.pieces
    )


def line_costs(program: Program, at: Evaluation, gradient: Any) -> LineCosts:
    """The rise of F* of the gradient at z where rows and columns of it are scaled down.

    It falls by ``-S_ij z_ij`` for each relative change of an entry, as F*' is z there; its second
    derivative is ``S_ij^2 / f''``. Where a block has biases columns alone are scaled: their sums
    stay 0.
    """
    rows, columns = lines_near(program, at).scaling_costs(gradient)
    linear, quadratic = (np.concatenate(own) for own in zip(rows, columns, strict=True))
    linear = np.maximum(linear, 0.0)
    if any(piece.layout.n_biases for piece in program.loss.pieces):
        linear[: program.shape[0]] = np.inf
    return LineCosts(linear, quadratic)
