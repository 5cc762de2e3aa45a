"""Linear discriminant analysis of predicted indicators of classes."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored

# The largest unexplained share of a variance that held-out entries have on average, and the
# smallest variance of a class of an entry of which more is explained than of these.
MOST_UNEXPLAINED_SHARE, LEAST_CLASS_VARIANCE = 0.99, 0.5
# The ridge that is added to the variances of a discriminant, as a share of their mean.
DISCRIMINANT_RIDGE = 0.05


@stored(formerly=("mcframe.tables.coding.Discriminant",))
@attrs.frozen(eq=False)
class Discriminant:
    """Gaussian means of classes with one covariance: linear discriminant analysis (Fisher, 1936).

    The points are predicted indicators of the classes, and those of held-out entries of a class
    lie around its centre. A class between two others may nowhere have the largest indicator, but
    it has a centre (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning,
    2nd edition, 2009, section 4.2).

    Of an entry of which r times as much is explained as of the held-out ones on average,
    predictions lie around ``middle + r (centre - middle)`` with the covariance ``r (W + (1 - r)
    B)``, where W and B are those within and between classes at r = 1: so it is under one Gaussian.

    Attributes
    ----------
    middle : array (K,)
        What is predicted on average.
    root : array (K x K)
        It takes W to the identity and B to ``spread``, a diagonal.
    spread : array (K,)
    centres : array (K x K)
        The centres about the middle, class by class, by this root.
    reference : float
        The share that is explained of held-out entries on average.
    """

    middle: Array
    root: Array
    spread: Array
    centres: Array
    reference: float

    @classmethod
    def of(
        cls, means: Array, explained: Array, codes: Array, n_classes: int, weights: Array
    ) -> "Discriminant":
        """Fit one to held-out means (n x K); each class has one more entry, at the middle.

        ``weights`` (n,) say how often each entry counts.
        """
        explained = np.maximum(explained, 1.0 - MOST_UNEXPLAINED_SHARE)
        reference = float(np.mean(explained))
        relative = np.broadcast_to(explained, codes.shape) / reference
        weighted = weights * relative
        middle, counts = np.average(means, axis=0, weights=weights), np.empty(n_classes)
        centres, residuals = np.empty((n_classes, n_classes)), np.empty_like(means)
        for k in range(n_classes):
            members = codes == k
            counts[k] = np.sum(weights[members])
            differences = means[members] - middle
            centres[k] = weights[members] @ differences / (np.sum(weighted[members]) + 1.0)
            residuals[members] = differences - relative[members][:, None] * centres[k]
        within = (residuals.T * weights) @ residuals / np.sum(weighted)
        # The K columns add up to 1, so that there is no variance in one direction.
        ridge = max(DISCRIMINANT_RIDGE * float(np.trace(within)) / n_classes, TINY)
        half = np.linalg.inv(np.linalg.cholesky(within + ridge * np.eye(n_classes)))
        shares = counts / np.sum(counts)
        between = half @ (shares * centres.T) @ centres @ half.T
        spread, vectors = np.linalg.eigh(between)
        root = vectors.T @ half
        spread = np.maximum(spread, 0.0)
        return cls(middle, root, spread, centres @ root.T, reference)

    def scores(self, means: Array, explained: Array) -> Array:
        """The logarithm of the density of means of each class, up to a constant (n x K)."""
        points, relative, widths = self.whitened(means, explained)
        return points / widths @ self.centres.T - 0.5 * relative / widths @ self.centres.T**2

    def left_out_scores(
        self, means: Array, explained: Array, codes: IntArray, weights: Array
    ) -> Array:
        """The score of the class of each entry of the fit (n,), about a centre without the entry.

        A curve that is fitted to these is no steeper because centres lie near their own entries.
        Only centres leave it out: covariances, for which one entry counts less, are those of all.
        An entry that counts as several is one of these, and the others stay.
        """
        points, relative, widths = self.whitened(means, explained)
        least = (1.0 - MOST_UNEXPLAINED_SHARE) / self.reference  # as in the fit
        counted, left_out = np.maximum(relative[:, 0], least), np.minimum(weights, 1.0)
        sums = (np.bincount(codes, weights * counted, len(self.centres)) + 1.0)[codes]
        moments = sums[:, None] * self.centres[codes] - left_out[:, None] * points
        centres = moments / (sums - left_out * counted)[:, None]
        scores: Array = np.sum((points - 0.5 * relative * centres) * centres / widths, axis=1)
        return scores

    def whitened(self, means: Array, explained: Array) -> tuple[Array, Array, Array]:
        """Means about the middle, by the root, r (n x 1), and variances of classes (n x K)."""
        relative = (explained / self.reference)[:, None]
        widths = np.maximum(1.0 + (1.0 - relative) * self.spread, LEAST_CLASS_VARIANCE)
        return (means - self.middle) @ self.root.T, relative, widths
