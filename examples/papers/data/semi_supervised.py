"""Items with features and a label each, of one low rank; new items apart."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["SemiSupervised", "semi_supervised"]


@attrs.frozen(eq=False, repr=False)
class SemiSupervised:
    """Features and labels with holes, and new items with their labels.

    Attributes
    ----------
    features, labels : arrays (n_items x n_features), (n_items x 1)
        NaN is missing.
    new_features, new_labels : arrays (n_new x n_features), (n_new x 1)
        The features as incomplete as the others; the labels complete.
    """

    features: Array
    labels: Array
    new_features: Array
    new_labels: Array

    def __repr__(self) -> str:
        return (
            f"SemiSupervised: {len(self.features)} items, {self.features.shape[1]} features"
            f" ({np.isnan(self.features).mean():.0%} missing), labels"
            f" ({np.isnan(self.labels).mean():.0%} missing); {len(self.new_features)} new items"
        )


def semi_supervised(
    rng: np.random.Generator,
    *,
    n_items: int = 200,
    n_new: int = 50,
    n_features: int = 30,
    rank: int = 5,
    noise: float = 0.5,
    labelled: float = 0.2,
    missing: float = 0.0,
) -> SemiSupervised:
    """The situation of Zheng and Hastie (2015), section 2: many features, few labels.

    ``[X Y] = U V' + noise`` with standard normal factors, so that a label depends on the
    scores behind the features. The paper has no data of its own; all numbers are ours.

    Parameters
    ----------
    rng : numpy Generator
    n_items, n_new, n_features, rank : int
    noise : float
        Its standard deviation.
    labelled : float
        The share of items with a label: the first ones, as in the paper.
    missing : float
        The share of features that are missing, at random; the paper's case is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.data import semi_supervised
    >>> semi_supervised(np.random.default_rng(0), n_items=50, n_new=5)
    SemiSupervised: 50 items, 30 features (0% missing), labels (80% missing); 5 new items
    """
    n_rows = n_items + n_new
    scores, loadings = (
        rng.standard_normal((n_rows, rank)),
        rng.standard_normal((n_features + 1, rank)),
    )
    table = scores @ loadings.T + noise * rng.standard_normal((n_rows, n_features + 1))
    features, labels = table[:, :-1], table[:, -1:].copy()
    features = np.where(rng.random(features.shape) < missing, np.nan, features)
    seen = labels[:n_items].copy()
    seen[round(labelled * n_items) :] = np.nan
    return SemiSupervised(features[:n_items], seen, features[n_items:], labels[n_items:])
