"""The base class of the estimators: options, the weight of the main regularizer, the fit."""

import datetime as dt
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError, NoInfluence, UnobservedWarning
from mcframe.contracts.row_stores import refuse_stores
from mcframe.contracts.validators import (
    REAL_KINDS,
    NotANumber,
    Options,
    RandomState,
    above_zero,
    floats_of,
    is_missing,
    is_word,
)
from mcframe.estimators.feature_blocks import FrameColumns, NumberColumns, holds_more_than_numbers
from mcframe.fitting.fit import fit
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.model.held_out import NEVER_HELD_OUT, dealt, dealt_cells, places_by_content
from mcframe.model.labels import leaves_zeros_out, numbers_of_frame
from mcframe.model.model import terms_with_weight
from mcframe.posterior.answer import Posterior
from mcframe.posterior.row_estimates import COMPONENTS_TRIED
from mcframe.regularizers import NuclearNorm
from mcframe.selection import Grid, HeldOutLoss, cross_validate
from mcframe.selection.cross_validation_answer import without_edge_warnings
from mcframe.selection.splitters import fewest_free
from mcframe.selection.weight_max import chosen_place
from mcframe.tables.calibrating import calibrated
from mcframe.tables.coding import Coding
from mcframe.tables.column_types import warn_of_list
from mcframe.tables.columns import read_column, read_frame
from mcframe.tables.declaring import starting_weight
from mcframe.tables.gaps import (
    codes_among,
    gaps_of,
    number_in,
    numbers_are_gaps,
    warn_of_suspects,
)
from mcframe.tables.native_tables import like_frame
from mcframe.tables.number_tables import takes_factors
from mcframe.tables.raw_predictions import joined
from mcframe.tables.rows_choice import RowsChoice, choose_rows
from mcframe.tables.rows_folds import HeldOutMoments, RowsFold, folds_of_parts

# What ``terms`` may be in the place of a list of terms.
GAUSSIAN_TERMS = "gaussian"


@attrs.frozen(eq=False)
class HeldOutPredictions:
    """Predictions of the entries that the choice of a prior held out.

    Attributes
    ----------
    folds : sequence of RowsFold
    by_fold : sequence of HeldOutMoments
        By the fit of each fold.
    final_moments : HeldOutMoments or None
        By the final posterior, of the entries of all folds; None for factors.
    """

    folds: Sequence[RowsFold] = ()
    by_fold: Sequence[HeldOutMoments] = ()
    final_moments: HeldOutMoments | None = None

    def calibrated(self, coding: Coding, codes: Array, targets: slice) -> Coding:
        """The coding of these codes (n,), which stand at ``targets`` among those of the folds.

        Slope and offsets are fitted to the predictions by folds, and the variance that they count
        from is that of the final posterior.
        """
        if not self.folds:
            return coding
        first = self.folds[0].n_features
        columns = slice(first + targets.start, first + targets.stop)
        held = [fold.held_out_entries[:, columns.start] & ~np.isnan(codes) for fold in self.folds]
        if not any(mask.any() for mask in held):
            return coding
        raw = joined(
            moments.of_columns(columns).at(rows)
            for moments, rows in zip(self.by_fold, held, strict=True)
        )
        suited = calibrated(coding, np.concatenate([codes[rows] for rows in held]), raw)
        if self.final_moments is None:
            return suited
        final_predictions = self.final_moments.of_columns(columns).at(np.logical_or.reduce(held))
        return suited.with_reference(final_predictions.variances)


@attrs.define(slots=False, eq=False, repr=False)
class TableEstimator(BaseEstimator):
    """An estimator that fits one model to all of a table, with the options common to all."""

    # The numbers of Gaussians that are mixed beside one where they predict better.
    components_tried: ClassVar[tuple[int, ...]] = COMPONENTS_TRIED
    # Whether probabilities are fitted to what is held out, where the prior is given, too.
    calibrates: ClassVar[bool] = False
    # What values are called that are given beside the table.
    target_name: ClassVar[str | None] = None

    likelihoods: Any = "auto"
    terms: Any = None
    model: Any = attrs.field(default=None, kw_only=True)
    types: Any = attrs.field(default=None, kw_only=True)
    missing_values: Any = attrs.field(default=np.nan, kw_only=True)
    unseen: str = attrs.field(default="missing", kw_only=True)
    weight: Any = attrs.field(default="cv", kw_only=True)
    n_weights: int = attrs.field(default=12, kw_only=True)
    cv: int = attrs.field(default=3, kw_only=True)
    tol: float = attrs.field(default=1e-5, kw_only=True)
    max_iter: int = attrs.field(default=20_000, kw_only=True)
    random_state: RandomState = attrs.field(default=0, kw_only=True)
    n_jobs: int | None = attrs.field(default=None, kw_only=True)

    @property
    def stated_relations(self) -> Any:
        """Equations between the columns of a frame; None without any."""
        return None

    def read(self, X: Any, reset: bool) -> Any:
        """X as floats, NaN where missing, or as the DataFrame of any columns that it is."""
        refuse_stores(X)
        if reset:
            names_columns = self.types is not None or self.stated_relations is not None
            is_table = names_columns or nw.dependencies.is_into_dataframe(X)
            table = read_frame(X) if is_table else None
            self.is_frame_ = table is not None and (
                names_columns or holds_more_than_numbers(table)
            )
            if table is not None:
                warn_of_list(table, self.types or (), self.target_name)
        elif self.is_frame_:
            read_frame(X)  # which refuses what is none
        if self.is_frame_:
            return validate_data(self, X, skip_check_array=True, reset=reset)
        return self.read_numbers(X, reset)

    def read_numbers(
        self, X: Any, reset: bool, dtype: Any = np.float64, copy: bool = False
    ) -> Any:
        """X as floats, NaN where missing."""
        table = self.checked_numbers(with_nan(X), reset, dtype, copy)
        names = getattr(self, "feature_names_in_", None)
        called = [*range(table.shape[1]), *([] if names is None else names)]
        gaps = gaps_of(self.missing_values, called, "missing_values")
        refuse_no_numbers(gaps)
        marked = np.zeros(table.shape, dtype=bool)
        for place in range(table.shape[1]):
            column_gaps = gaps.get(place, ()) + (
                () if names is None else gaps.get(names[place], ())
            )
            if column_gaps:
                column = table[:, place].astype(np.float64)
                marked[:, place] = numbers_are_gaps(column, column_gaps, table.dtype)
        if marked.any():
            table = np.where(marked, table.dtype.type(np.nan), table)
        if reset:
            suspects = {}
            for place, name in enumerate(range(table.shape[1]) if names is None else names):
                if gaps.get(place) != () and gaps.get(name) != ():
                    suspects[name] = codes_among(table[:, place].astype(np.float64))
            warn_of_suspects(suspects, "missing_values")
        return table

    def checked_numbers(self, X: Any, reset: bool, dtype: Any, copy: bool) -> Any:
        """X as floats, checked as scikit-learn asks for."""
        try:
            return validate_data(
                self, X, dtype=dtype, copy=copy, ensure_all_finite="allow-nan", reset=reset
            )
        except (ValueError, OverflowError) as error:
            is_large = isinstance(error, OverflowError)
            if not is_large and not str(error).startswith("could not convert"):
                raise
            try:
                floats_of(X)
            except NotANumber as first:
                raise error_of_value(first) from None
            if is_large:
                raise DataError("X holds a whole number that is too large for a float") from None
            raise

    def read_columns(self, table: Any) -> NumberColumns | FrameColumns:
        """The columns of a table that was read, as blocks, after a check of the options."""
        Options.unseen(self.unseen)
        auto = is_word(self.likelihoods, "auto")
        self.gaussian_ = isinstance(self.terms, str)
        if self.gaussian_ and self.terms != GAUSSIAN_TERMS:
            raise ModelError(
                f"terms={self.terms!r} was given; {GAUSSIAN_TERMS!r}, a list of terms or None is"
                " needed"
            )
        if self.model is None and self.terms is None:
            self.gaussian_ = isinstance(self.likelihoods, str) and is_word(self.weight, "cv")
        if self.model is not None and not isinstance(self.model, Model):
            raise ModelError(f"model={self.model!r} was given; a Model or None is needed")
        if self.model is not None and (not auto or self.terms is not None):
            raise ModelError(
                "model was given, and likelihoods or terms beside it, which a model has already;"
                " give one or the other"
            )
        if self.is_frame_:
            columns = FrameColumns.of(
                table,
                self.types,
                None if auto else self.likelihoods,
                self.unseen,
                self.model,
                self.gaussian_,
                self.missing_values,
                self.stated_relations,
            )
            self.declared_ = columns.declared
            return columns
        names = getattr(self, "feature_names_in_", None)
        return NumberColumns.of(table, self.likelihoods, names, self.model)

    def fit_blocks(
        self,
        blocks: Sequence[Block],
        data: Mapping[str, Array],
        target: str | None = None,
    ) -> tuple[HeldOutPredictions, HeldOutPredictions] | None:
        """Fit these blocks by a posterior of their rows or by an optimum.

        Parameters
        ----------
        blocks : sequence of Block
        data : dict from block name to array
        target : str or None
            The last block, if that alone is to be predicted.

        Returns
        -------
        two HeldOutPredictions or None
            Of a posterior, at the best prior: those for rows of the fit, and for new rows.
        """
        with warnings.catch_warnings():
            # Empty rows and columns have a meaning of their own in scikit-learn.
            warnings.simplefilter("ignore", UnobservedWarning)
            if self.gaussian_:
                return self.fit_rows(blocks, data, target)
            self.model_ = self.model_of(blocks, data, target)
            self.completion_: Any = fit(
                self.model_,
                data,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
            )
        self.n_iter_ = max(self.completion_.history[-1].iteration, 1)
        return None

    def fit_rows(
        self, blocks: Sequence[Block], data: Mapping[str, Array], target: str | None
    ) -> tuple[HeldOutPredictions, HeldOutPredictions]:
        """Find the posterior of the rows of these blocks; see ``fit_blocks``.

        Noise of features is chosen for rows with some of their targets. New rows have none, and
        get a posterior of their own then.
        """
        for block in blocks:
            if type(block.likelihood) is not Gaussian:
                raise ModelError(
                    f"terms={GAUSSIAN_TERMS!r} was given, which takes all columns for numbers, and"
                    f" block {block.name!r} has {block.likelihood}; leave likelihoods='auto', or"
                    " give terms such as [mc.NuclearNorm(1.0)]"
                )
        chosen, posterior, predictions = self.posterior_of(blocks, data, target)
        self.set_posterior(chosen, posterior)
        self.new_rows_, of_new_rows = posterior, predictions
        if chosen.noise_of(is_target=False) is not None:
            _, self.new_rows_, of_new_rows = self.posterior_of(blocks, data, target, chosen)
        return predictions, of_new_rows

    def posterior_of(
        self,
        blocks: Sequence[Block],
        data: Mapping[str, Array],
        target: str | None,
        choice_for_seen_targets: RowsChoice | None = None,
    ) -> tuple[RowsChoice, Posterior, HeldOutPredictions]:
        """The choice on held-out targets, its posterior, and the predictions of these targets.

        With ``choice_for_seen_targets``, which was made for rows with some of their targets, all
        targets of a row are held out together, as in new rows.
        """
        values, prior = np.hstack([data[block.name] for block in blocks]), self.given_prior()
        wide, predictions = takes_factors(values.shape), HeldOutPredictions()
        chosen = RowsChoice() if wide else RowsChoice(1, prior)
        folds, moments = list[RowsFold](), list[HeldOutMoments]()
        if prior is None or self.calibrates:
            rng = np.random.default_rng(Options.random_state(self.random_state))
            n_targets = 0 if target is None else data[target].shape[1]
            folds = folds_of_numbers(
                values,
                n_targets,
                Options.cv(self.cv),
                rng,
                by_rows=choice_for_seen_targets is not None,
            )
            chosen, moments = choose_rows(
                folds, wide, prior, self.components_tried, choice_for_seen_targets
            )
            predictions = HeldOutPredictions(folds, moments)
        model = chosen.model(
            [
                attrs.evolve(
                    block,
                    likelihood=Gaussian(variance=chosen.noise_of(block.name == target)),
                    bias=False,
                    standardize=True,
                )
                for block in blocks
            ]
        )
        posterior, final_moments = chosen.posterior(
            *(model, data, folds, moments),
            calibrated=np.full(values.shape[1], self.calibrates),
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        return chosen, posterior, attrs.evolve(predictions, final_moments=final_moments)

    def given_prior(self) -> float | None:
        """The given number of rows that the prior counts as, or None."""
        if is_word(self.weight, "cv"):
            return None
        return above_zero(self.weight, "weight", ": how many rows a prior counts as")

    def set_posterior(self, chosen: Any, posterior: Posterior) -> None:
        """Set the fitted attributes: the posterior of the rows, and the choice of its prior."""
        self.model_, self.n_iter_ = posterior.model, len(posterior.history)
        self.completion_ = posterior
        self.prior_rows_ = chosen.prior_rows
        if chosen.tried:
            self.prior_search_ = chosen

    def model_of(
        self, blocks: Sequence[Block], data: Mapping[str, Array], target: str | None
    ) -> Model:
        """The model of these blocks, with the given or the chosen weight."""
        if self.model is not None:
            names = {block.name for block in self.model.blocks}
            added = [block for block in blocks if block.name not in names]
            model = attrs.evolve(self.model, blocks=(*self.model.blocks, *added))
        elif self.weight is None and self.terms is None:
            raise ModelError(
                "weight=None was given, which is that of terms, and no terms; give"
                " terms=[mc.NuclearNorm(2.0)], or weight='cv' or a number"
            )
        else:
            model = Model(blocks, [NuclearNorm(1.0)] if self.terms is None else self.terms)
        if self.weight is None:
            return model
        place = chosen_place(model, None)
        if not isinstance(self.weight, str):
            weight = above_zero(self.weight, "weight")
        elif self.weight != "cv":
            raise ModelError(
                f"weight={self.weight!r} was given; 'cv', a number, or None for that of the terms"
                " is needed"
            )
        elif fewest_free(model, data) < 2 * Options.cv(self.cv):
            weight = starting_weight(model, data)
        else:
            weight = self.chosen_weight(model, data, target)
        return attrs.evolve(model, terms=terms_with_weight(model.terms, place, weight))

    def chosen_weight(self, model: Model, data: Mapping[str, Array], target: str | None) -> float:
        """The weight with the least held-out loss, 1 where it has no influence."""
        try:
            with without_edge_warnings():
                self.cross_validation_ = cross_validate(
                    model,
                    data,
                    criterion=HeldOutLoss(target),
                    weights=Grid(count=Options.n_weights(self.n_weights)),
                    cv=self.cv,
                    random_state=self.random_state,
                )
        except NoInfluence:  # nothing to be learnt beyond the columns' levels
            return 1.0
        return self.cross_validation_.best_weight


def with_nan(X: Any) -> Any:
    """X with NaN where it is masked, or where an object stands for a missing number.

    What is a number is what models take for one, whereas scikit-learn would read text and dates as
    numbers. Its own check refuses all other objects.

    Raises
    ------
    DataError
        With the first text or date among numbers.
    """
    try:
        if nw.dependencies.is_into_dataframe(X):
            table = read_frame(X)
            if all(dtype.is_numeric() and dtype != nw.Decimal for dtype in table.schema.values()):
                return X
            for series in filter(leaves_zeros_out, table.iter_columns()):
                read_column(series)  # refuses it
            return like_frame(table, table.columns, numbers_of_frame(table).T)
        array = np.asarray(X) if isinstance(X, list | tuple) else X
        if isinstance(array, np.ma.MaskedArray) or (
            isinstance(array, np.ndarray) and array.dtype.kind not in REAL_KINDS + "c"
        ):
            return floats_of(array)
    except NotANumber as error:
        if not isinstance(error.value, UNREAD):
            return X
        raise error_of_value(error) from None
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError):
        return X
    return X


# What scikit-learn would read as numbers, and models do not.
UNREAD = (str, bytes, tuple, dt.date, dt.timedelta)


def error_of_value(error: NotANumber) -> DataError:
    """The error of X with a value that is no number."""
    row, column = (*error.position, 0, 0)[:2]
    return DataError(
        f"column {column} of X holds {error.value!r} in row {row}, which is no number; give a"
        " DataFrame, whose columns may hold text, or an array of numbers"
    )


def refuse_no_numbers(gaps: Mapping[Any, Sequence[Any]]) -> None:
    """A ``ModelError`` where a value that stands for missing ones is no number."""
    for name, values in gaps.items():
        for value in values:
            is_nan = is_missing(value) or value != value
            if not is_nan and (isinstance(value, bool) or np.isnan(number_in(value))):
                raise ModelError(
                    f"missing_values={value!r} was given for column {name!r} of a table of"
                    " numbers; give numbers, NaN where None and NaN alone are missing"
                )


def folds_of_numbers(
    values: Array, n_targets: int, count: int, rng: np.random.Generator, by_rows: bool = False
) -> list[RowsFold]:
    """Return folds of the entries of a table of numbers (n x d), or of its last columns alone."""
    column_of_number = np.arange(values.shape[1])
    if not n_targets:
        return folds_of_parts(values, dealt_cells(values, count, rng), column_of_number, count)
    parts = np.full(values.shape, NEVER_HELD_OUT)
    parts[:, -n_targets:] = dealt_targets(values[:, -n_targets:], count, rng, by_rows)
    return folds_of_parts(
        values, parts, column_of_number, count, n_features=column_of_number.size - n_targets
    )


def dealt_targets(
    targets: Array, count: int, rng: np.random.Generator, by_rows: bool = False
) -> IntArray:
    """Return the fold of each observed target (n x k), -1 of others, as they will be asked for.

    Entry by entry if most rows have some of their targets and lack others, which these then help
    to predict. Else, or with ``by_rows``, row by row; rows with the same value of one target are
    dealt out in turn, so that each fold has its share of a rare class.
    """
    seen = ~np.isnan(targets)
    some = np.any(seen, axis=1)
    partly = ~np.all(seen[some], axis=1)
    if np.mean(partly) > 0.5 and not by_rows:
        return dealt_cells(targets, count, rng)
    order = rng.permutation(len(targets))
    observed = order[some[order]]
    one = int(np.argmin(places_by_content(targets)))
    of_rows = np.full(len(targets), NEVER_HELD_OUT)
    of_rows[observed] = dealt(targets[observed, one], count)
    return np.where(seen, of_rows[:, None], NEVER_HELD_OUT)
