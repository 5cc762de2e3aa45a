"""The base class of the classifier and the regressor: features and targets in one table."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError
from mcframe.estimators.completion import Completion
from mcframe.estimators.frame_columns import FrameColumns
from mcframe.estimators.gaussian import folds_of_targets
from mcframe.model import Block
from mcframe.selection import HeldOutLoss

__all__ = ["TARGETS", "Prediction"]

#: The name of the block of targets.
TARGETS = "targets"


class Prediction(Completion):
    """An estimator whose targets are further columns of the table, missing in new rows.

    Rows of the fit are predicted by the fit, which uses all observed targets, their own included.
    Other rows are predicted by the rule for new rows. A row that was in the fit more than once
    counts as new.
    """

    def fit_targets(self, table: Any, block: Block, targets: Array) -> Array | None:
        """Fit features and targets (n_samples x columns of the block) together.

        Returned are the means of targets that were held out, of that shape, of Gaussian rows.
        """
        if len(targets) != len(table):
            raise DataError(
                f"X has {len(table)} rows and y {len(targets)}; one row of both for each sample is"
                " needed"
            )
        if np.isnan(targets).all():
            raise DataError("y holds nothing but missing values; at least one target is needed")
        self.columns_ = self.columns_of(table)
        if TARGETS in [block.name for block in self.columns_.blocks]:
            raise ModelError(
                f"model has a block {TARGETS!r}, the name of the block of y, which is put beside"
                " those of the model; call it otherwise"
            )
        if isinstance(self.columns_, FrameColumns):
            self.columns_.warn_of_unused()
        features = self.columns_.data(table)
        blocks, data = [*self.columns_.blocks, block], {**features, TARGETS: targets}
        self.n_targets_ = targets.shape[1]
        self.known_ = distinct_rows(side_by_side(features, len(targets)))
        if self.gaussian_:
            held_means = self.fit_gaussian(
                blocks,
                data,
                lambda values, *how: folds_of_targets(values, self.n_targets_, *how),
            )
            return held_means[:, -self.n_targets_ :]
        self.fit_model(blocks, data, HeldOutLoss(TARGETS))
        return None

    def means(self, X: Any) -> Array:
        """The mean response of the targets in each row: (n_samples x latent columns of them)."""
        check_is_fitted(self, "completion_")
        table = self.read(X, reset=False)
        features = self.columns_.data(table)
        rows = side_by_side(features, len(table))
        fitted = np.asarray(self.completion_.predict(TARGETS))
        places = np.asarray([self.known_.get(row_key(row), -1) for row in rows])
        answers = fitted[places]
        new = places < 0
        if new.any():
            data = {name: values[new] for name, values in features.items()}
            data[TARGETS] = np.full((np.count_nonzero(new), self.n_targets_), np.nan)
            answers[new] = self.completion_.predict_rows(TARGETS, data)
        return np.asarray(answers)

    def __sklearn_tags__(self) -> Any:
        """NaN are allowed among the features."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def side_by_side(features: Mapping[str, Array], n_rows: int) -> Array:
    """The data of all blocks as one matrix (n_rows x columns of them)."""
    return np.hstack([np.empty((n_rows, 0)), *features.values()])


def row_key(row: Array) -> bytes:
    """The bits of a row, the same ones for every NaN and for both zeros."""
    return np.where(np.isnan(row), np.nan, row + 0.0).tobytes()


def distinct_rows(table: Array) -> dict[bytes, int]:
    """The position of each row that stands once."""
    keys = [row_key(row) for row in table]
    counts = Counter(keys)
    return {key: position for position, key in enumerate(keys) if counts[key] == 1}
