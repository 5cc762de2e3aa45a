"""Hiding entries that are known, so that what is predicted for them can be judged."""

from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError

__all__ = ["hide"]


def hide(entries: Array, share: float, random_state: int | np.random.Generator = 0) -> Mask:
    """Make a mask that is True at a random share of the entries that are not NaN.

    Exactly ``round(share * number of entries that are not NaN)`` of them, all subsets of that
    size equally likely.

    Parameters
    ----------
    entries : array (n_items, n_columns)
    share : float, from 0 up to 1
        Below 1: an array with nothing left to see is no experiment.
    random_state : int or numpy Generator
        Equal seeds give equal masks; a Generator moves on.

    Raises
    ------
    DataError

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.datasets import hide
    >>> int(hide(np.zeros((4, 5)), 0.25).sum())
    5
    """
    if not 0.0 <= share < 1.0:
        raise DataError(f"share={share!r} was given; a share from 0 up to 1, without 1, is needed")
    values: Any = np.asarray(entries, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(values))
    rng = np.random.default_rng(random_state)
    chosen = rng.choice(known, size=round(share * known.size), replace=False)
    hidden: Mask = np.zeros(values.shape, dtype=bool)
    hidden.ravel()[chosen] = True
    return hidden
