"""What the estimators with a target share: features and targets in one table."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.estimators.columns import groups_of, table_data
from mcframe.estimators.completion import Completion
from mcframe.model import Block
from mcframe.selection import HeldOutLoss

__all__ = ["TARGETS", "Prediction"]

#: The name of the block of targets.
TARGETS = "targets"


class Prediction(Completion):
    """An estimator whose targets are columns beside the features, missing in new rows.

    Rows of the fit are answered by the fit: their own targets, where they were observed, and
    those of all others have their part in it. Other rows are answered by the rule for new rows.
    A row that stood in the fit more than once counts as new.
    """

    def read(self, X: Any, reset: bool) -> Array:
        """The features as floats, NaN where missing."""
        table: Array = validate_data(
            self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset
        )
        return table

    def fit_targets(self, table: Array, block: Block, targets: Array) -> None:
        """Fit features and targets (n_samples x columns of the block) together."""
        if len(targets) != len(table):
            raise DataError(
                f"X has {len(table)} rows and y {len(targets)}; one row of both for each sample is"
                " needed"
            )
        if np.isnan(targets).all():
            raise DataError("y holds nothing but missing values; at least one target is needed")
        self.kept_ = np.flatnonzero(~np.isnan(table).all(axis=0))
        names: Sequence[Any] | None = getattr(self, "feature_names_in_", None)
        self.groups_ = groups_of(self.likelihoods, self.kept_, names) if self.kept_.size else []
        data = {**table_data(self.groups_, table[:, self.kept_]), TARGETS: targets}
        blocks = [*(group.block for group in self.groups_), block]
        self.fit_model(blocks, data, HeldOutLoss(TARGETS))
        self.n_targets_, self.known_ = targets.shape[1], distinct_rows(table)

    def means(self, X: Any) -> Array:
        """The mean response of the targets in each row: (n_samples x latent columns of them)."""
        check_is_fitted(self, "completion_")
        table = self.read(X, reset=False)
        fitted = np.asarray(self.completion_.predict(TARGETS))
        places = np.asarray([self.known_.get(row_key(row), -1) for row in table])
        answers = fitted[places]
        new = places < 0
        if new.any():
            data = {
                **table_data(self.groups_, table[new][:, self.kept_]),
                TARGETS: np.full((np.count_nonzero(new), self.n_targets_), np.nan),
            }
            answers[new] = self.completion_.predict_rows(data, TARGETS)
        return np.asarray(answers)

    def __sklearn_tags__(self) -> Any:
        """NaN are allowed among the features."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def row_key(row: Array) -> bytes:
    """The bits of a row, the same ones for every NaN and for both zeros."""
    return np.where(np.isnan(row), np.nan, row + 0.0).tobytes()


def distinct_rows(table: Array) -> dict[bytes, int]:
    """The position of each row that stands once."""
    keys = [row_key(row) for row in table]
    counts = Counter(keys)
    return {key: position for position, key in enumerate(keys) if counts[key] == 1}
