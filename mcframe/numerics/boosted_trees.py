"""Gradient boosting of regression trees: fitted by scikit-learn, kept and evaluated as arrays."""

from typing import Any, Literal

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.stored_classes import stored

# Trees, leaves of a tree, the shrinkage of a tree, the share of the features that a split may
# take, and the bins of a feature.
TREES, LEAVES, SHRINKAGE, FEATURE_SHARE, BINS = 30, 6, 0.2, 0.6, 32
# The leaves of a tree and the bins of a feature from so many rows on.
MANY_ROWS, MORE_LEAVES, MORE_BINS = 2500, 12, 64
# The fewest rows of a leaf: a part of all rows within these limits.
ROWS_OVER_LEAF, FEWEST_LEAF_ROWS, MOST_LEAF_ROWS = 20, 5, 20
# The ridge of the value of a leaf, in rows.
LEAF_RIDGE = 1.0


@stored
@attrs.frozen(eq=False)
class BoostedTrees:
    """A constant plus a sum of regression trees, whose nodes stand one after the other.

    Attributes
    ----------
    constant : float
    roots : array of integers (T,)
        The node at which each tree begins.
    features : array of integers (n_nodes,)
        The feature that a node asks for; -1 of leaves.
    thresholds : array (n_nodes,)
        Rows go left if their feature is at most the threshold.
    left, right : array of integers (n_nodes,)
        The next node; of leaves the leaf itself.
    values : array (n_nodes,)
        What a leaf adds.
    """

    constant: float
    roots: IntArray
    features: IntArray
    thresholds: Array
    left: IntArray
    right: IntArray
    values: Array

    @classmethod
    def fitted(
        cls,
        design: Array,
        responses: Array,
        seed: int,
        weights: Array | None = None,
        loss: Literal["squared_error", "gamma"] = "squared_error",
        trees: int = TREES,
    ) -> "BoostedTrees":
        """Fit trees to responses (n,) of rows of a design (n x p).

        ``weights`` (n,) say how often rows count. With the loss "gamma" they are the logarithms of
        means of positive responses.
        """
        # Only here: importing it takes more than a second.
        from sklearn.ensemble import HistGradientBoostingRegressor

        if weights is not None and np.ptp(weights) == 0.0:
            weights = None  # scikit-learn's weighted quantiles of features take longer than trees
        fewest = min(max(len(design) // ROWS_OVER_LEAF, FEWEST_LEAF_ROWS), MOST_LEAF_ROWS)
        leaves, bins = (LEAVES, BINS) if len(design) < MANY_ROWS else (MORE_LEAVES, MORE_BINS)
        booster = HistGradientBoostingRegressor(
            loss=loss,
            learning_rate=SHRINKAGE,
            max_iter=trees,
            max_leaf_nodes=leaves,
            min_samples_leaf=fewest,
            l2_regularization=LEAF_RIDGE,
            max_features=FEATURE_SHARE,
            max_bins=bins,
            early_stopping=False,
            random_state=seed,
        )
        return cls.of(booster.fit(design, responses, sample_weight=weights))

    @classmethod
    def of(cls, booster: Any) -> "BoostedTrees":
        """The trees of a fitted ``HistGradientBoostingRegressor`` of one response."""
        nodes = [predictors[0].nodes for predictors in booster._predictors]
        sizes = np.array([len(of_tree) for of_tree in nodes], dtype=np.intp)
        roots = np.cumsum(sizes) - sizes
        joined = np.concatenate(nodes)
        is_leaf, places = joined["is_leaf"].astype(bool), np.arange(len(joined))
        first = np.repeat(roots, sizes)
        left, right = (
            np.where(is_leaf, places, first + joined[side].astype(np.intp))
            for side in ("left", "right")
        )
        return cls(
            constant=float(np.ravel(booster._baseline_prediction)[0]),
            roots=roots,
            features=np.where(is_leaf, -1, joined["feature_idx"].astype(np.intp)),
            thresholds=np.where(is_leaf, 0.0, joined["num_threshold"]),
            left=left,
            right=right,
            values=np.where(is_leaf, joined["value"], 0.0),
        )

    def predict(self, design: Array) -> Array:
        """The sum of the trees for each row of a design (n x p) without gaps."""
        predicted = np.empty(len(design))
        size = max(1, BATCH_NUMBERS // max(self.roots.size, 1))
        for start in range(0, len(design), size):
            batch = slice(start, start + size)
            predicted[batch] = self._sums(design[batch])
        return predicted

    def _sums(self, design: Array) -> Array:
        nodes = np.tile(self.roots, (len(design), 1))
        rows = np.arange(len(design))[:, None]
        while True:
            features = self.features[nodes]
            inner = features >= 0
            if not inner.any():
                return self.constant + np.sum(self.values[nodes], axis=1)
            goes_left = design[rows, np.maximum(features, 0)] <= self.thresholds[nodes]
            nodes = np.where(goes_left, self.left[nodes], self.right[nodes])
