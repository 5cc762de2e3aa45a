"""What a fit got wrong on entries that it has not seen: criteria of cross-validation."""

from collections.abc import Mapping
from typing import Any, Protocol

import attrs
import numpy as np

from mcframe.selection.folds import Held

__all__ = ["Criterion", "HeldOutLoss", "LabelError", "RelativeError"]


class Criterion(Protocol):
    """A function of a fit and of what was held out of it; the lower the better.

    ``fit`` is whatever the path gives, a ``Fit`` by default; ``held`` has the held-out entries
    of each block: ``rows``, ``columns`` and ``values``.
    """

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The score of one fit on one fold."""
        ...


@attrs.frozen
class LabelError:
    """The share of held-out 0/1 labels of a block predicted wrongly; 1 is above 0.5."""

    block: str = "labels"

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The share on this fold."""
        entries = held[self.block]
        predicted = fit.predict(self.block, entries.rows, entries.columns) > 0.5
        return float(np.mean(predicted != (entries.values > 0.5)))


@attrs.frozen
class RelativeError:
    """``sum (x - x_hat)^2 / sum x^2`` over the held-out entries of a block."""

    block: str = "features"

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The ratio on this fold; infinite where all held-out entries are 0."""
        entries = held[self.block]
        missed = fit.predict(self.block, entries.rows, entries.columns) - entries.values
        squares = float(np.sum(np.square(entries.values)))
        return float(np.sum(np.square(missed))) / squares if squares > 0.0 else np.inf


@attrs.frozen
class HeldOutLoss:
    """The mean loss l(z, y) of held-out entries, of one block or summed over all blocks.

    Weights of blocks play no part, so that models with different ones can be compared.
    """

    block: str | None = None

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The mean loss on this fold."""
        names = list(held) if self.block is None else [self.block]
        total = 0.0
        for name in names:
            entries = held[name]
            z = fit.natural(name, entries.rows, entries.columns)
            total += float(np.mean(fit.likelihood(name).value(z, entries.values)))
        return total
