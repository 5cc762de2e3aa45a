"""Handwritten digits, as scikit-learn brings them along."""

import numpy as np

from mcframe.datasets.multilabel import MultiLabel

__all__ = ["digits"]

# Grey values of the source run from 0 to 16.
DARKEST = 16.0


def digits() -> MultiLabel:
    """Load 1797 handwritten digits: 64 pixels in [0, 1], ten one-against-the-rest labels.

    Nothing is downloaded: scikit-learn installs them. Each item is an 8 x 8 picture, row by
    row; label k is 1 where the digit is k, so that one label of ten is 1.

    References
    ----------
    E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository.

    Examples
    --------
    >>> from mcframe.datasets import digits
    >>> digits()
    digits: 1797 items, 64 features (0% missing), 10 labels (0% missing, 10% of the rest are 1)
    """
    from sklearn.datasets import load_digits  # only here: importing it takes half a second

    source = load_digits()
    return MultiLabel(
        name="digits",
        features=source.data / DARKEST,
        labels=np.equal.outer(source.target, np.arange(10)),
        feature_names=source.feature_names,
        label_names=[str(k) for k in range(10)],
    )
