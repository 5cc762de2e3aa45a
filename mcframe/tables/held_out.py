"""Predictions of held-out entries: probabilities fitted to them, and their errors."""

from collections.abc import Sequence

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.tables.as_numbers import calibrated, constant_everywhere, filled_by_constant
from mcframe.tables.coding import Choice, Coding, Means
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.missingness import Missingness

__all__ = ["ColumnScores", "calibrated_columns", "errors_of_constant", "observed"]


@attrs.frozen
class ColumnScores:
    """Errors of the predictions of a column at its held-out entries.

    Attributes
    ----------
    loss : float
        The mean loss of the held-out entries over the mean loss of the best constant.
    error, error_of_constant : float
        By the coding's measure; of the constant that is the best one for what the fit has seen.
    n_held : int
        How many entries were held out, over all folds.
    auc_of_holes : float or None
        How well the other columns tell which entries are missing: the area under the curve on rows
        that were left out; None where that was not looked at.
    weighted : bool
        Whether held-out entries are weighted by how likely they were to be missing.
    """

    loss: float
    error: float
    error_of_constant: float
    n_held: int
    auc_of_holes: float | None = None
    weighted: bool = False


def errors_of_constant(coding: Coding, left: Array, hidden: Array) -> float:
    """Return the summed errors, on hidden codes, of the best constant of what is left of a column.

    Of the hidden ones where nothing is left; ``left`` may hold NaN.
    """
    if not hidden.size:
        return 0.0
    known = observed(left)
    constant = coding.constant(known if known.size else hidden)
    return float(np.sum(coding.errors(np.full(hidden.size, constant), hidden)))


def constant_answer(coding: Coding, codes: Array, n: int) -> Array:
    """Return the answer of the best constant of observed codes, for n entries."""
    if not isinstance(coding, Choice):
        return np.full(n, np.mean(codes))
    counts = np.bincount(codes.astype(np.intp), minlength=len(coding.places))
    return np.tile(counts / codes.size, (n, 1))


def observed(codes: Array) -> Array:
    """Return the numbers that are not missing."""
    return codes[~np.isnan(codes)]


def calibrated_columns(
    columns: Sequence[DeclaredColumn],
    codes: Array,
    held: Sequence[Mask],
    means: Sequence[Array],
    holes: Sequence[Missingness],
) -> tuple[tuple[DeclaredColumn, ...], tuple[ColumnScores | None, ...]]:
    """Return all columns, their probabilities fitted to what was held out, and what was lost.

    Parameters
    ----------
    codes : array (n x n_columns)
        Of the columns that stand in a block, as ``held``.
    held : sequence of masks (n x n_columns)
        What each fold holds out.
    means : sequence of arrays (n x d)
        Of each number given the others of its row, by what each fold has fitted.
    holes : sequence of Missingness
        Of each column that stands in a block.
    """
    found: list[DeclaredColumn] = []
    scores: list[ColumnScores | None] = []
    positions = iter(range(codes.shape[1]))
    for each in columns:
        position = None if each.place is None else next(positions)
        if position is None or not any(here[:, position].any() for here in held):
            found.append(each)
            scores.append(None)
            continue
        assert each.place is not None
        assert isinstance(each.modelled[0], Means)
        here = slice(each.place, each.place + each.modelled[0].width)
        own = HeldOut(
            codes[:, position],
            [mask[:, position] for mask in held],
            [at[:, here] for at in means],
            holes[position],
        )
        coding, own_scores = own.calibrated_and_scored(each.modelled[0])
        found.append(attrs.evolve(each, taken=attrs.evolve(each.taken, coding=coding)))
        scores.append(own_scores)
    return tuple(found), tuple(scores)


@attrs.frozen(eq=False)
class HeldOut:
    """The held-out entries of a column, and their predictions.

    Attributes
    ----------
    codes : array (n,)
    held : sequence of masks (n,)
        Fold by fold.
    means : sequence of arrays (n x width of the coding)
    holes : Missingness
    """

    codes: Array
    held: Sequence[Mask]
    means: Sequence[Array]
    holes: Missingness

    def fitted(self, coding: Means, folds: Sequence[int]) -> Means:
        """The coding, its probabilities fitted to what these folds held out."""
        codes = [self.codes[self.held[k]] for k in folds]
        means = [self.means[k][self.held[k]] for k in folds]
        return (
            calibrated(coding, np.concatenate(codes), np.concatenate(means)) if codes else coding
        )

    def calibrated_and_scored(self, coding: Means) -> tuple[Means, ColumnScores]:
        """The coding, fitted to all that was held out, and what was lost.

        What is lost of a fold is by a coding that was fitted to the others. Probabilities that
        lose more than those of the constant are the constant's, and values that are farther off
        than the best constant are that one.
        """
        folds = range(len(self.held))
        known = observed(self.codes)
        sums = np.zeros(4)
        n_held = 0
        for k in folds:
            here = self.held[k]
            hidden, left = self.codes[here], observed(np.where(here, np.nan, self.codes))
            own = self.fitted(coding, [other for other in folds if other != k])
            answer = own.read(self.means[k][here])
            constant = coding.constant(left if left.size else hidden)
            lost = (
                own.losses(answer, hidden),
                coding.losses(constant_answer(coding, known, hidden.size), hidden),
                own.errors(own.predicted(answer), hidden),
                coding.errors(np.full(hidden.size, constant), hidden),
            )
            sums += np.array(lost) @ self.holes.weights[here]
            n_held += hidden.size
        found = self.fitted(coding, folds)
        if isinstance(coding, Choice):
            if sums[0] > sums[1]:
                found, sums[0], sums[2] = constant_everywhere(coding, known), sums[1], sums[3]
            elif sums[2] > sums[3]:
                found, sums[2] = filled_by_constant(found, known), sums[3]
        weight = sum(float(np.sum(self.holes.weights[here])) for here in self.held)
        return found, ColumnScores(
            loss=float(sums[0] / sums[1]) if sums[1] > 0.0 else np.nan,
            error=coding.error(float(sums[2] / weight)),
            error_of_constant=coding.error(float(sums[3] / weight)),
            n_held=n_held,
            auc_of_holes=self.holes.auc,
            weighted=self.holes.is_told,
        )
