"""Signs of a low-rank matrix, most of them unobserved: synthetic data of Hayashi et al."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.likelihoods import Bernoulli

__all__ = ["BinaryLowRank", "binary_low_rank"]


@attrs.frozen(eq=False, repr=False)
class BinaryLowRank:
    """What is observed, and what lies behind it.

    Attributes
    ----------
    latent : array (n_rows, n_columns)
        M, which nobody sees.
    complete : array (n_rows, n_columns)
        A label 0 or 1 for each entry.
    labels : array (n_rows, n_columns)
        Those that are observed; NaN elsewhere.
    """

    latent: Array
    complete: Array
    labels: Array

    def relative_error(self, latent: Array) -> float:
        """||Z - M||_F / ||M||_F: 0 for M itself, 1 for Z = 0."""
        return float(np.linalg.norm(latent - self.latent) / np.linalg.norm(self.latent))

    def __repr__(self) -> str:
        n_rows, n_columns = self.labels.shape
        missing = float(np.mean(np.isnan(self.labels)))
        return f"binary_low_rank: {n_rows} x {n_columns} labels ({missing:.0%} missing)"


def binary_low_rank(
    shape: tuple[int, int],
    rank: int,
    missing_rate: float,
    rng: np.random.Generator,
    *,
    bound: float = 1.0,
    likelihood: Any = None,
) -> BinaryLowRank:
    """Draw M = U V' with entries of U and V uniform in [-1, 1], and a label for each entry.

    M is scaled so that its largest entry is ``bound`` in size. A label is 1 with the
    likelihood's probability at M, and missing at ``missing_rate``, all independently (Hayashi,
    Sakai and Sugiyama, 2018, section 6.1).

    Parameters
    ----------
    shape : (n_rows, n_columns)
    rank : int
        Columns of U and V.
    missing_rate : float, from 0 up to 1
    rng : numpy Generator
    bound : float, default 1
        Their alpha.
    likelihood : default Bernoulli()
        Its mean is their quantization probability function.

    Raises
    ------
    DataError

    Examples
    --------
    >>> import numpy as np
    >>> from papers.data import binary_low_rank
    >>> draw = binary_low_rank((40, 30), 2, 0.8, np.random.default_rng(0))
    >>> draw, int(np.linalg.matrix_rank(draw.latent)), float(np.abs(draw.latent).max())
    (binary_low_rank: 40 x 30 labels (79% missing), 2, 1.0)
    """
    if min(*shape, rank) < 1 or not bound > 0.0 or not 0.0 <= missing_rate < 1.0:
        raise DataError(
            f"shape={shape!r}, rank={rank!r}, bound={bound!r} and missing_rate={missing_rate!r}"
            " were given; sizes of at least 1, a bound above 0 and a rate from 0 up to 1, without"
            " 1, are needed"
        )
    left = rng.uniform(-1.0, 1.0, (shape[0], rank))
    right = rng.uniform(-1.0, 1.0, (shape[1], rank))
    latent = left @ right.T
    latent *= bound / np.max(np.abs(latent))
    quantization = Bernoulli() if likelihood is None else likelihood
    complete = quantization.sample(latent, rng)
    labels = np.where(rng.random(shape) < missing_rate, np.nan, complete)
    return BinaryLowRank(latent, complete, labels)
