"""Features and labels of one low-rank matrix: the synthetic tasks of Goldberg et al. (2010)."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError
from mcframe.datasets.multilabel import MultiLabel

__all__ = ["Transduction", "masked", "transduction"]

# "N(0, 10)" of W and b, read as a variance.
LABEL_VARIANCE = 10.0


@attrs.frozen(eq=False)
class Transduction:
    """Features and labels, and which of their entries may be seen.

    Attributes
    ----------
    truth : MultiLabel
        Complete features X, with their noise, and labels Y.
    seen_features, seen_labels : array of bool
        True where observed.
    """

    truth: MultiLabel
    seen_features: Mask
    seen_labels: Mask

    @property
    def observed(self) -> dict[str, Array]:
        """Blocks "features" and "labels", NaN where hidden."""
        return {
            "features": np.where(self.seen_features, self.truth.features, np.nan),
            "labels": np.where(self.seen_labels, self.truth.labels, np.nan),
        }


def transduction(
    rng: np.random.Generator,
    *,
    n_items: int = 100,
    n_features: int = 20,
    n_labels: int = 10,
    rank: int = 2,
    noise: float = 0.01,
    observed: float = 0.1,
    expected: bool = False,
) -> Transduction:
    """Draw a task as in section 4.1 of Goldberg et al. (2010).

    X0 = L R' with entries of L and R from N(0, 1), divided by the standard deviation of its
    entries, or by the expected one, the root of r; X = X0 + N(0, noise); Y0 = X0 W + b with
    entries of W and b from N(0, 10); P(y = 1) = 1 / (1 + exp(-y0)). Rows are items. Of each
    block exactly the share ``observed`` of the entries is seen, all subsets of that size equally
    likely.

    Parameters
    ----------
    rng : numpy Generator
    n_items, n_features, n_labels : int
        n, d and t of the paper.
    rank : int
        r.
    noise : float
        The variance of the features' noise.
    observed : float
        omega, above 0 and up to 1.
    expected : bool
        Whether the entries of X0 have variance 1 in expectation, and not in each draw. The
        random numbers are the same.

    References
    ----------
    Goldberg, Zhu, Recht, Xu, Nowak, Transduction with Matrix Completion: Three Birds with One
    Stone, NIPS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.data import transduction
    >>> task = transduction(np.random.default_rng(0), observed=0.4)
    >>> int(task.seen_features.sum()), int(task.seen_labels.sum())
    (800, 400)
    """
    sizes = {"n_items": n_items, "n_features": n_features, "n_labels": n_labels, "rank": rank}
    for name, size in sizes.items():
        if size < 1:
            raise DataError(f"{name}={size!r} was given; at least 1 is needed")
    if not 0.0 < observed <= 1.0 or noise < 0.0:
        raise DataError(
            f"observed={observed!r} and noise={noise!r} were given; a share above 0 up to 1 and a"
            " variance of 0 or above are needed"
        )
    scores, loadings = (rng.standard_normal((side, rank)) for side in (n_items, n_features))
    clean = scores @ loadings.T
    clean /= np.sqrt(rank) if expected else clean.std()
    deviation = np.sqrt(LABEL_VARIANCE)
    weights = deviation * rng.standard_normal((n_features, n_labels))
    soft = clean @ weights + deviation * rng.standard_normal(n_labels)
    features = clean + np.sqrt(noise) * rng.standard_normal(clean.shape)
    labels = rng.random(soft.shape) < 1.0 / (1.0 + np.exp(-soft))
    return masked(MultiLabel("synthetic", features, labels), observed, rng)


def masked(truth: MultiLabel, observed: float, rng: np.random.Generator) -> Transduction:
    """Hide all but a share of the entries of each block, at random.

    Parameters
    ----------
    truth : MultiLabel
        Complete.
    observed : float
        Of each block exactly the nearest whole number of entries, at least one, is seen.
    rng : numpy Generator
    """
    shapes = truth.features.shape, truth.labels.shape
    masks = [np.zeros(rows * columns, dtype=bool) for rows, columns in shapes]
    for mask in masks:
        mask[rng.choice(mask.size, max(1, round(observed * mask.size)), replace=False)] = True
    return Transduction(truth, masks[0].reshape(shapes[0]), masks[1].reshape(shapes[1]))
