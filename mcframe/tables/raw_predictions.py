"""Predictions of a block's entries, as codings read them: means and variances."""

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.likelihood import ValueKind
from mcframe.posterior.answer import Posterior


@attrs.frozen(eq=False)
class RawPredictions:
    """Predictions of entries of one block by a fit or a posterior, before they are decoded.

    Attributes
    ----------
    means : array (n_entries x K)
        Mean responses, K of them in a block of K classes; probabilities in one of K levels.
    variances : array (n_entries x K) or None
        Those of new observations, as shares of the variances of their columns, where a posterior
        of standardised numbers has them; None elsewhere.
    """

    means: Array
    variances: Array | None = None

    @classmethod
    def of(
        cls,
        fit: Any,
        block: str,
        rows: IntArray,
        columns: IntArray,
        with_variances: bool = True,
    ) -> "RawPredictions":
        """Ask a fit, a posterior or new rows of one for some entries."""
        is_posterior = isinstance(fit, Posterior)
        likelihood = fit.model.block(block).likelihood if is_posterior else fit.likelihood(block)
        if likelihood.kind is ValueKind.LEVEL:
            return cls(probabilities_of_levels(fit, block, rows, columns))
        predicted = np.asarray(fit.predict(block, rows, columns))
        means = predicted.reshape(rows.size, likelihood.width)
        units = fit.problem.tables[block].units
        if not (is_posterior and with_variances and units):
            return cls(means)
        unit = units.unit(columns)
        if unit is None:
            return cls(means)
        variances = np.square(fit.sd(block, rows, columns) / unit)
        return cls(means, variances.reshape(means.shape))

    def of_rows(self, entries: slice, n_rows: int, width: int) -> "RawPredictions":
        """Some of the entries, the ``width`` of a row side by side (n_rows x width)."""
        return RawPredictions(
            *(part[entries].reshape(n_rows, width * part.shape[1]) for part in self.parts)
        )

    def at(self, rows: Mask | slice) -> "RawPredictions":
        """Return the predictions of some of the rows."""
        return RawPredictions(*(part[rows] for part in self.parts))

    @property
    def parts(self) -> list[Array]:
        """Means, and variances if they are known."""
        return [self.means] if self.variances is None else [self.means, self.variances]

    def split(self, count: int) -> list["RawPredictions"]:
        """So many parts of equally many columns."""
        columns = (np.hsplit(part, count) for part in self.parts)
        return [RawPredictions(*parts) for parts in zip(*columns, strict=True)]


def joined(raw: Iterable[RawPredictions]) -> RawPredictions:
    """Raw predictions of a column, one after the other."""
    parts = zip(*(prediction.parts for prediction in raw), strict=True)
    return RawPredictions(*(np.concatenate(part) for part in parts))


def probabilities_of_levels(fit: Any, block: str, rows: IntArray, columns: IntArray) -> Array:
    """The probability of each level; of a fit exp(-loss), the negative log-likelihood."""
    if isinstance(fit, Posterior):
        return fit.probabilities(block, rows, columns)
    likelihood, z = fit.likelihood(block), np.asarray(fit.natural(block, rows, columns))
    losses = [likelihood.value(z, np.full(z.shape, level)) for level in likelihood.values]
    return np.exp(-np.column_stack(losses))
