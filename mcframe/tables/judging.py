"""What fits lose on held-out entries of a declared table, column by column."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.regularizers import NuclearNorm
from mcframe.selection import Held
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import DeclaredColumn

__all__ = ["ColumnScores", "JudgedColumns"]


@attrs.frozen
class ColumnScores:
    """What was held out of a column on one fold, and how far off the predictions were.

    Attributes
    ----------
    loss : float
        The mean loss of the held-out entries over the mean loss of the best constant.
    error, error_of_constant : float
        By the coding's measure; of the constant that is the best one for what the fit has seen.
    n_held : int
    """

    loss: float
    error: float
    error_of_constant: float
    n_held: int


@attrs.frozen(eq=False)
class JudgedColumns:
    """The criterion of ``complete``: the mean over columns of ``ColumnScores.loss``.

    A column counts once, whatever its kind and unit; 1 is what constants lose. It keeps what it
    saw of each column, by the weight of the nuclear norm.

    Attributes
    ----------
    declared : Declared
    seen : dict from weight to a list with, for each fold, a dict from column place to scores
    """

    declared: Declared
    seen: dict[float, list[dict[int, ColumnScores]]] = attrs.field(factory=dict)

    def __call__(self, fit: Fit, held: Mapping[str, Held]) -> float:
        """The mean loss of the columns, NaN where no column has a held-out entry."""
        found = {}
        for position, each in enumerate(self.declared.columns):
            if each.place is not None:
                scores = scores_of(each, fit, held[each.modelled[1]])
                if scores is not None:
                    found[position] = scores
        weight = next(term.weight for term in fit.model.terms if isinstance(term, NuclearNorm))
        self.seen.setdefault(weight, []).append(found)
        return float(np.mean([scores.loss for scores in found.values()])) if found else np.nan

    def at(self, weight: float, position: int) -> ColumnScores | None:
        """The scores of a column at a weight, pooled over folds; None without an entry."""
        folds = [scores[position] for scores in self.seen[weight] if position in scores]
        if not folds:
            return None
        shares = np.array([float(fold.n_held) for fold in folds])
        shares /= np.sum(shares)
        numbers = np.array([[f.loss, f.error, f.error_of_constant] for f in folds])
        loss, error, of_constant = shares @ numbers
        n_held = sum(fold.n_held for fold in folds)
        return ColumnScores(float(loss), float(error), float(of_constant), n_held)


def scores_of(each: DeclaredColumn, fit: Fit, held: Held) -> ColumnScores | None:
    """The scores of a column on one fold; None without a held-out entry, or if all are alike."""
    coding, block = each.modelled
    here, of_constant = held.columns == each.place, coding.loss_of_constant(observed(each.codes))
    if of_constant == 0.0 or not here.any():
        return None
    rows, columns, codes = held.rows[here], held.columns[here], held.values[here]
    losses = coding.losses(fit, block, rows, columns, codes)
    kept = np.ones(each.codes.size, dtype=bool)
    kept[rows] = False
    seen = observed(each.codes[kept])
    constant = np.full(codes.size, coding.constant(seen if seen.size else codes))
    return ColumnScores(
        loss=float(np.mean(losses)) / of_constant,
        error=coding.error(coding.predicted(fit, block, rows, columns), codes),
        error_of_constant=coding.error(constant, codes),
        n_held=codes.size,
    )


def observed(codes: Array) -> Array:
    """The numbers that are not missing."""
    return codes[~np.isnan(codes)]
