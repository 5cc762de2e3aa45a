"""A problem as numbers only: what the first-order solvers read."""

import attrs
import numpy as np

from mcframe.compile.bias import infinite_biases
from mcframe.compile.loss import EntryLoss, Piece
from mcframe.compile.penalty import SpectralPenalty
from mcframe.constraints import OnesColumn
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import BackendError
from mcframe.contracts.likelihood import TwiceDifferentiable
from mcframe.contracts.term import Spectral
from mcframe.likelihoods import Gaussian
from mcframe.model.problem import Problem

__all__ = ["Program", "compile_problem", "refusal"]


@attrs.frozen(eq=False)
class Program:
    """minimise F(Z) + R(Z) over Z of ``shape``, with Z's last column 1 where ``ones``.

    The way back: ``biases`` maps the loss's biases, piece by piece, to block names.
    """

    shape: tuple[int, int]
    loss: EntryLoss
    penalty: SpectralPenalty
    ones: bool
    names: tuple[str, ...]

    def biases(self, solved: tuple[Array | None, ...]) -> dict[str, Array]:
        """The loss's biases by block name."""
        pairs = zip(self.names, solved, strict=False)
        return {name: bias for name, bias in pairs if bias is not None}

    def with_multiplier(self, multiplier: Array, stiffness: float) -> "Program":
        """The same program with ``Z[:, -1] = 1`` moved into the loss.

        The augmented Lagrangian nu'(z - 1) + beta/2 ||z - 1||^2 of the last column z is,
        up to a constant, a Gaussian loss with weight beta and data 1 - nu/beta.
        """
        n_rows, n_columns = self.shape
        rows: IntArray = np.arange(n_rows)
        piece = Piece(
            likelihood=Gaussian(),
            scale=stiffness,
            y=1.0 - multiplier / stiffness,
            columns=np.zeros(n_rows, dtype=np.intp),
            n_columns=1,
            has_bias=False,
            part=slice(0, 0),
            infinite=np.zeros(1),
        )
        columns: IntArray = np.full(n_rows, n_columns - 1)
        loss = self.loss.joined(piece, rows, columns)
        return attrs.evolve(self, loss=loss, ones=False)


def refusal(problem: Problem) -> str | None:
    """Why a problem is no program of smooth losses and one spectral penalty; None if it is."""
    for block in problem.model.blocks:
        word = type(block.likelihood).__name__
        if isinstance(block.likelihood, TwiceDifferentiable):
            continue
        if not np.isfinite(block.likelihood.curvature):
            return (
                f"block {block.name!r}: {word} has neither a bound on its curvature"
                " nor a second derivative"
            )
        if block.bias:
            return f"block {block.name!r}: a free bias needs the second derivative of {word}"
    for regularizer in problem.model.regularizers:
        if not isinstance(regularizer, Spectral):
            return f"{type(regularizer).__name__} is not a function of singular values"
    main = [r for r in problem.model.regularizers if not quadratic_weight(r)]
    if len(main) > 1:
        words = " and ".join(type(regularizer).__name__ for regularizer in main)
        return f"{words} together have no closed prox"
    for constraint in problem.model.constraints:
        if not isinstance(constraint, OnesColumn):
            return f"{type(constraint).__name__} is not a column fixed to 1"
    return None


def quadratic_weight(regularizer: object) -> float:
    """The weight of a term that is exactly quadratic, else 0."""
    return regularizer.quadratic_weight if isinstance(regularizer, Spectral) else 0.0


def compile_problem(problem: Problem) -> Program:
    """The numbers of a problem; ``BackendError`` where ``refusal`` finds a reason."""
    reason = refusal(problem)
    if reason is not None:
        raise BackendError(f"no first-order program: {reason}")
    pieces, rows, columns = [], [], []
    start = 0
    for block in problem.model.blocks:
        table = problem.tables[block.name]
        pieces.append(
            Piece(
                likelihood=block.likelihood,
                scale=problem.scale(block.name),
                y=table.values,
                columns=table.columns,
                n_columns=table.shape[1],
                has_bias=block.bias,
                part=slice(start, start + table.n_observed),
                infinite=infinite_biases(
                    block.likelihood, table.values, table.columns, table.shape[1]
                ),
            )
        )
        rows.append(table.rows)
        columns.append(table.columns + problem.columns(block.name).start)
        start += table.n_observed
    spectral = [r for r in problem.model.regularizers if isinstance(r, Spectral)]
    main = [r for r in spectral if not r.quadratic_weight]
    penalty = SpectralPenalty(
        main=main[0] if main else None, ridge=sum(r.quadratic_weight for r in spectral)
    )
    return Program(
        shape=problem.shape,
        loss=EntryLoss(tuple(pieces), np.concatenate(rows), np.concatenate(columns)),
        penalty=penalty,
        ones=bool(problem.model.constraints),
        names=tuple(block.name for block in problem.model.blocks),
    )
