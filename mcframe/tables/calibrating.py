"""Codings fitted to held-out entries, and the errors of each column at these."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.error_shapes import ErrorShape
from mcframe.runtime.machine import limits_blas
from mcframe.tables.coding import Coding, Numbers
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.discriminant import Discriminant
from mcframe.tables.indicator_codings import Indicator, Indicators
from mcframe.tables.missingness import Missingness
from mcframe.tables.platt_scaling import most_likely
from mcframe.tables.raw_predictions import RawPredictions, joined
from mcframe.tables.rows_folds import HeldOutMoments
from mcframe.tables.semicontinuous import SemiContinuous

CodingT = TypeVar("CodingT", bound=Coding)


@stored(renamed_fields={"auc_of_holes": "missingness_auc"}, former_fields=("missingness_p",))
@attrs.frozen
class ColumnScores:
    """Errors of the predictions of a column at its held-out entries.

    Attributes
    ----------
    loss : float
        The mean loss of the held-out entries over that of a constant.
    error, error_of_constant : float
        By the coding's measure. The constant is, as for ``loss``, the best one for what the fit
        has seen.
    n_held : int
        How many entries were held out, over all folds.
    missingness_auc : float or None
        How well the other columns tell which entries are missing: the area under the curve on rows
        that were left out; None if too few entries are missing or observed.
    weighted : bool
        Whether held-out entries are weighted by how likely they were to be missing.
    error_uncorrected : float or None
        The error without the correction of the column by trees; None where it has none.
    """

    loss: float
    error: float
    error_of_constant: float
    n_held: int
    missingness_auc: float | None = None
    weighted: bool = False
    error_uncorrected: float | None = None


@limits_blas  # threads wait for one another at numbers as few as these
def calibrated(
    coding: CodingT,
    codes: Array,
    raw: RawPredictions,
    weights: Array | None = None,
    with_shape: bool = False,
) -> CodingT:
    """Return the coding with probabilities that fit held-out codes.

    Labels and levels get the coefficient and the offsets with the largest likelihood, classes
    their discriminant.

    Parameters
    ----------
    codes : array (n,)
        Held-out values.
    raw : RawPredictions (n x width of the coding)
        What was predicted of them.
    weights : array (n,), optional
        How often each of them counts; by default once.
    with_shape : bool, default False
        Whether numbers get the shape of their errors.
    """
    weights = np.ones(codes.size) if weights is None else weights
    if with_shape and isinstance(coding, Numbers) and coding.has_scale:
        assert raw.variances is not None  # of the posterior of rows
        with np.errstate(over="ignore", invalid="ignore"):  # of a held-out number of 1e300
            errors = coding.numbers(codes)[:, -1] - raw.means[:, -1]
            standard = errors / np.sqrt(raw.variances[:, -1])
        coding = attrs.evolve(coding, shape=ErrorShape.of(standard, weights))
    if isinstance(coding, SemiContinuous):
        part = RawPredictions(*(numbers[:, :1] for numbers in raw.parts))
        fitted_part = calibrated(coding.part, coding.parts(codes), part, weights)
        return attrs.evolve(coding, part=fitted_part)
    if not codes.size or not isinstance(coding, Indicator):
        return coding
    places = codes.astype(np.intp)
    shares = tuple(coding.constant_answer(codes, weights)[0].tolist())
    fitted = attrs.evolve(coding, shares=shares, smoothing=1.0 / (codes.size + 2.0))
    fitted = fitted.with_reference(raw.variances)
    if isinstance(fitted, Indicators):
        explained = fitted.explained_share(raw.variances)
        discriminant = Discriminant.of(raw.means, explained, codes, fitted.width, weights)
        fitted = attrs.evolve(fitted, discriminant=discriminant)
    scores, offset_factors = fitted.scores_of_fit(raw.means, raw.variances, places, weights)
    slope, offsets = most_likely(
        scores, places, offset_factors, fitted.log_shares, fitted.usual_slope, weights
    )
    return attrs.evolve(fitted, slope=slope, offsets=offsets)


def calibrated_and_scored(
    coding: Coding,
    codes: Array,
    masks: Sequence[Mask],
    predictions_of_folds: Sequence[RawPredictions],
    missingness: Missingness,
    final_predictions: RawPredictions | None = None,
    row_weights: Array | None = None,
    with_shape: bool = False,
) -> tuple[Coding, ColumnScores]:
    """Return the coding of a column, fitted to its held-out entries, and the losses at these.

    The losses of a fold are those of a coding that was fitted to the other folds; the constant is
    the best one for the entries that the fold does not hold out. The final fit is another one than
    those of the folds: the losses are at least those of its predictions at the same entries.

    Parameters
    ----------
    codes : array (n,)
    masks : sequence of masks (n,)
        Fold by fold.
    predictions_of_folds : sequence of RawPredictions (n x width of the coding)
        Of each fold, NaN where nothing is held out.
    missingness : Missingness
    final_predictions : RawPredictions, optional
        Those of the final fit, each held-out entry from the rest of its row.
    row_weights : array (n,), optional
        How often each row counts, in fits, constants and losses.
    with_shape : bool, default False
        Whether numbers get the shape of their errors.
    """
    folds, observed, all_held = (
        range(len(masks)),
        np.flatnonzero(~np.isnan(codes)),
        np.logical_or.reduce(masks),
    )
    counts = np.ones(codes.size) if row_weights is None else row_weights
    score_weights = counts * missingness.weights

    def fitted(to: Iterable[int]) -> Coding:
        parts = [(masks[k], predictions_of_folds[k].at(masks[k])) for k in to]
        if not parts:
            return coding
        held = np.concatenate([np.flatnonzero(mask) for mask, _ in parts])
        raw = joined(predictions for _, predictions in parts)
        return calibrated(coding, codes[held], raw, counts[held], with_shape)

    def losses(
        fold_coding: Coding, predictions: RawPredictions, held: Mask, remaining: IntArray
    ) -> Array:
        """Losses of answers and of a constant, then their errors (4 x n_hidden)."""
        hidden, of_remaining = codes[held], (codes[remaining], counts[remaining])
        answer, constant = (
            fold_coding.decode(predictions.means, predictions.variances),
            fold_coding.constant(*of_remaining),
        )
        answers = np.repeat(fold_coding.constant_answer(*of_remaining), hidden.size, axis=0)
        losses_and_errors = (
            fold_coding.losses(answer, hidden),
            fold_coding.losses(answers, hidden),
            fold_coding.errors(fold_coding.predicted(answer), hidden),
            fold_coding.errors(np.full(hidden.size, constant), hidden),
        )
        return np.array(losses_and_errors)

    def fold_sums(k: int) -> Array:
        """Weighted sums of losses and errors of a fold (4,), by the coding of the other ones."""
        remaining = observed[~masks[k][observed]]
        remaining = remaining if remaining.size else observed
        predictions = predictions_of_folds[k].at(masks[k])
        fold_coding = fitted(other for other in folds if other != k)
        fold_coding = fold_coding.with_reference(predictions.variances)
        return losses(fold_coding, predictions, masks[k], remaining) @ score_weights[masks[k]]

    sums = sum((fold_sums(k) for k in folds), start=np.zeros(4))
    final_coding = fitted(folds)
    if final_predictions is not None:
        predictions = final_predictions.at(all_held)
        final_coding = final_coding.with_reference(predictions.variances)
        final_losses = losses(final_coding, predictions, all_held, observed)
        final_sums = final_losses @ score_weights[all_held]
        sums[[0, 2]] = np.maximum(sums, final_sums)[[0, 2]]
    weight = sum(float(np.sum(score_weights[mask])) for mask in masks)
    return final_coding, ColumnScores(
        loss=float(sums[0] / sums[1]) if sums[1] > 0.0 else np.nan,
        error=coding.error(float(sums[2] / weight)),
        error_of_constant=coding.error(float(sums[3] / weight)),
        n_held=sum(int(np.count_nonzero(mask)) for mask in masks),
        missingness_auc=missingness.auc,
        weighted=bool(np.ptp(missingness.weights) > 0.0),
    )


def calibrated_columns(
    columns: Sequence[DeclaredColumn],
    codes: Array,
    masks: Sequence[Mask],
    moments: Sequence[HeldOutMoments],
    missingness: Sequence[Missingness],
    final_moments: HeldOutMoments | None = None,
    row_weights: Array | None = None,
    without_shape: Collection[Any] = (),
) -> tuple[list[DeclaredColumn], dict[Any, ColumnScores]]:
    """Columns with codings fitted to held-out entries, and the scores of those with any.

    Codes (n x number of columns) are held out where ``masks`` says so, fold by fold. ``moments``
    are their predictions, and ``final_moments`` those of the final fit for all of them. Rows count
    as often as ``row_weights`` (n,) say. Errors of numbers are normal in columns ``without_shape``
    and in those of which limits of cells are known, whose draws are moved or cut off afterwards.
    """
    calibrated, scores, first = list(columns), {}, 0
    for k, column in enumerate(columns):
        column_masks, end = [mask[:, k] for mask in masks], first + column.block_coding.width
        numbers = slice(first, end)
        if any(mask.any() for mask in column_masks):
            coding, scores[column.name] = calibrated_and_scored(
                column.block_coding,
                codes[:, k],
                column_masks,
                [fold.of_columns(numbers) for fold in moments],
                missingness[k],
                None if final_moments is None else final_moments.of_columns(numbers),
                row_weights,
                column.name not in without_shape and not column.column.limited.any(),
            )
            calibrated[k] = attrs.evolve(column, coding=coding)
        first = end
    return calibrated, scores
