"""The synthetic tables of Xu et al. (2018): features and labels that share a low-rank matrix."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import whole

__all__ = ["CoCompletion", "cocompletion"]

# Entries of both factors are uniform between minus this and this.
FACTOR_BOUND = 5.0


@attrs.frozen(eq=False)
class CoCompletion:
    """Complete features and labels, and which of their entries are observed.

    Attributes
    ----------
    features : array (n_items, n_features)
    labels : array (n_items, n_labels)
        0 or 1.
    seen_features, seen_labels : boolean arrays of the same shapes
        True where an entry is observed.
    latent : array (n_items, n_labels), optional
        The logits of the labels, where they are known.
    """

    features: Array
    labels: Array
    seen_features: Mask
    seen_labels: Mask
    latent: Array | None = None

    @property
    def data(self) -> dict[str, Array]:
        """Blocks "features" and "labels" as ``fit`` takes them, NaN where nothing is observed."""
        return {
            "features": np.where(self.seen_features, self.features, np.nan),
            "labels": np.where(self.seen_labels, self.labels, np.nan),
        }


def cocompletion(
    n_items: int,
    n_features: int,
    n_labels: int,
    rank: int,
    observed: float,
    random_state: int | np.random.Generator = 0,
) -> CoCompletion:
    """Draw a table as in section 4.1 of Xu et al. (2018).

    M = L R, both factors uniform in [-5, 5]. The first columns of M are the features; each
    other entry m gives a label that is 1 with probability 1 / (1 + exp(-m)). Every entry is
    observed with probability ``observed``, independently.

    Parameters
    ----------
    n_items, n_features, n_labels, rank : int
    observed : float, above 0 and at most 1
    random_state : int or numpy Generator
        Equal seeds give equal tables; a Generator moves on.

    Raises
    ------
    DataError

    Examples
    --------
    >>> from papers.data import cocompletion
    >>> table = cocompletion(30, 20, 5, rank=2, observed=0.4)
    >>> table.features.shape, table.labels.shape
    ((30, 20), (30, 5))
    """
    shape = (whole(n_items, "n_items", 1), whole(n_features, "n_features", 1))
    n_labels, rank = whole(n_labels, "n_labels", 1), whole(rank, "rank", 1)
    if not 0.0 < observed <= 1.0:
        raise DataError(
            f"observed={observed!r} was given; a share above 0 and at most 1 is needed"
        )
    rng = np.random.default_rng(random_state)
    left = rng.uniform(-FACTOR_BOUND, FACTOR_BOUND, (shape[0], rank))
    right = rng.uniform(-FACTOR_BOUND, FACTOR_BOUND, (rank, shape[1] + n_labels))
    latent = left @ right
    # exp of a large entry is infinite, and its label surely 0.
    with np.errstate(over="ignore"):
        probability = 1.0 / (1.0 + np.exp(-latent[:, shape[1] :]))
    labels = (rng.random(probability.shape) < probability).astype(np.float64)
    features = np.ascontiguousarray(latent[:, : shape[1]])
    seen_features = rng.random(features.shape) < observed
    seen_labels = rng.random(labels.shape) < observed
    return CoCompletion(features, labels, seen_features, seen_labels, latent[:, shape[1] :])
