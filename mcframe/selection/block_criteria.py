"""Criteria of one block: what a fit got wrong on its held-out entries."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Distribution, Likelihood
from mcframe.contracts.validators import block_name
from mcframe.model import Model
from mcframe.selection.criteria import criterion_name, entries_of, likelihood_of
from mcframe.selection.folds import Held
from mcframe.selection.value_kinds import reads_classes, reads_labels, reads_levels

__all__ = [
    "LabelError",
    "LogLoss",
    "MeanAbsoluteError",
    "OneMinusAUC",
    "OrdinalDistance",
    "RelativeError",
]

metrics = Deferred("sklearn.metrics", "the area under a curve")


@attrs.frozen
class OfOneBlock(ABC):
    """A criterion of the held-out entries of one block; NaN where it has none on a fold."""

    block: str = attrs.field(validator=block_name)

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The score of one fit on one fold."""
        entries = entries_of(self, self.block, fit, held)
        return self.score(fit, entries) if entries.values.size else np.nan

    def check(self, model: Model) -> None:
        """Raise a ``ModelError`` where the block is missing, or of other values."""
        likelihood = likelihood_of(self, self.block, model)
        reason = self.refusal(likelihood)
        if reason is not None:
            raise ModelError(f"criterion {criterion_name(self)}: block {self.block!r} {reason}")

    def predicted(self, fit: Any, entries: Held) -> Any:
        """The mean response at the entries, of classes a probability each."""
        return np.asarray(fit.predict(self.block, entries.rows, entries.columns))

    @abstractmethod
    def score(self, fit: Any, entries: Held) -> float:
        """The score of one fit at some entries, one at least."""

    @abstractmethod
    def refusal(self, likelihood: Likelihood) -> str | None:
        """Why a block of this likelihood cannot be judged, and what can; None if it can."""


@attrs.frozen
class LabelError(OfOneBlock):
    """The share of held-out labels or classes of a block predicted wrongly.

    Of 0/1 labels 1 is predicted where its probability is above 0.5, of classes the most
    probable one. Other likelihoods are refused by a ``ModelError``.
    """

    block: str = attrs.field(default="labels", validator=block_name)

    def score(self, fit: Any, entries: Held) -> float:
        """The share on this fold."""
        predicted = self.predicted(fit, entries)
        answers = np.argmax(predicted, axis=1) if predicted.ndim > 1 else predicted > 0.5
        return float(np.mean(answers != entries.values))

    def refusal(self, likelihood: Likelihood) -> str | None:
        """Why anything but labels and classes cannot be judged."""
        if reads_labels(likelihood) or reads_classes(likelihood):
            return None
        return (
            f"holds neither labels 0 and 1 nor classes, as {type(likelihood).__name__} needs"
            f" {likelihood.needs}; take RelativeError({self.block!r}) or"
            f" HeldOutLoss({self.block!r})"
        )


@attrs.frozen
class RelativeError(OfOneBlock):
    """``sum (x - x_hat)^2 / sum x^2`` over the held-out entries of a block, x_hat by ``predict``.

    NaN where all of them are 0. Classes, whose codes have no size, are refused by a
    ``ModelError``.
    """

    block: str = attrs.field(default="features", validator=block_name)

    def score(self, fit: Any, entries: Held) -> float:
        """The ratio on this fold."""
        missed = self.predicted(fit, entries) - entries.values
        squares = float(np.sum(np.square(entries.values)))
        return float(np.sum(np.square(missed))) / squares if squares > 0.0 else np.nan

    def refusal(self, likelihood: Likelihood) -> str | None:
        """Why classes cannot be judged."""
        return refusal_of_classes(likelihood, self.block)


@attrs.frozen
class MeanAbsoluteError(OfOneBlock):
    """The mean of ``|x - x_hat|`` over the held-out entries of a block, x_hat by ``predict``.

    In the units of the data, so that a column of large numbers outweighs one of small ones. Of
    labels x_hat is a probability, of levels the expected one. Classes, whose codes have no size,
    are refused by a ``ModelError``.
    """

    block: str = attrs.field(default="features", validator=block_name)

    def score(self, fit: Any, entries: Held) -> float:
        """The mean on this fold."""
        return float(np.mean(np.abs(self.predicted(fit, entries) - entries.values)))

    def refusal(self, likelihood: Likelihood) -> str | None:
        """Why classes cannot be judged."""
        return refusal_of_classes(likelihood, self.block)


@attrs.frozen
class OrdinalDistance(OfOneBlock):
    """The mean of ``|level - predicted level|`` over the held-out entries of a block of levels.

    The predicted level is the median of the levels' probabilities at z, the lowest one plus the
    number of thresholds below z: no other has a smaller expected distance. Likelihoods other than
    ``Ordinal`` are refused by a ``ModelError``.
    """

    block: str = attrs.field(default="levels", validator=block_name)

    def score(self, fit: Any, entries: Held) -> float:
        """The mean on this fold."""
        likelihood = fit.likelihood(self.block)
        z = fit.natural(self.block, entries.rows, entries.columns)
        levels = likelihood.lowest + np.searchsorted(likelihood.thresholds, z)
        return float(np.mean(np.abs(levels - entries.values)))

    def refusal(self, likelihood: Likelihood) -> str | None:
        """Why anything but levels cannot be judged."""
        if reads_levels(likelihood):
            return None
        suited = "LabelError" if reads_classes(likelihood) else "MeanAbsoluteError"
        return (
            f"holds no ordered levels, as {type(likelihood).__name__} needs {likelihood.needs};"
            f" take {suited}({self.block!r})"
        )


@attrs.frozen
class OneMinusAUC(OfOneBlock):
    """1 - AUC of a block of labels: the lower the better, 0.5 where the ranking is one by chance.

    AUC is the area under the receiver operating characteristic of z within a column, the share of
    pairs of a held-out 1 and a held-out 0 that z puts in this order. The score is 1 minus the mean
    over the columns with both labels held out on that fold (macro average), NaN where there is
    none. Other likelihoods than those of labels 0 and 1 are refused by a ``ModelError``.
    """

    block: str = attrs.field(default="labels", validator=block_name)

    def score(self, fit: Any, entries: Held) -> float:
        """1 minus the mean area on this fold."""
        z = np.asarray(fit.natural(self.block, entries.rows, entries.columns))
        order = np.argsort(entries.columns, kind="stable")
        ends = np.flatnonzero(np.diff(entries.columns[order])) + 1
        areas = [
            metrics.roc_auc_score(entries.values[column], z[column])
            for column in np.split(order, ends)
            if np.ptp(entries.values[column]) > 0.0
        ]
        return 1.0 - float(np.mean(areas)) if areas else np.nan

    def refusal(self, likelihood: Likelihood) -> str | None:
        """Why anything but labels cannot be judged."""
        if reads_labels(likelihood):
            return None
        suited = "LabelError" if reads_classes(likelihood) else "RelativeError"
        return (
            f"holds no labels 0 and 1, as {type(likelihood).__name__} needs {likelihood.needs};"
            f" take {suited}({self.block!r})"
        )


@attrs.frozen
class LogLoss(OfOneBlock):
    """The mean of ``-log p(y | z)`` over the held-out entries of a block, in nats.

    With every constant, so that it compares likelihoods of one kind of data, as ``Poisson`` with
    ``NegativeBinomial``. For labels, classes, levels, counts and positive numbers; losses without
    a distribution are refused by a ``ModelError``, and so are those of a location
    (``Gaussian``), whose density is a matter of units.
    """

    block: str = attrs.field(default="labels", validator=block_name)

    def score(self, fit: Any, entries: Held) -> float:
        """The mean on this fold."""
        z = fit.natural(self.block, entries.rows, entries.columns)
        return float(-np.mean(fit.likelihood(self.block).log_likelihood(z, entries.values)))

    def refusal(self, likelihood: Likelihood) -> str | None:
        """Why losses without a distribution, and locations, cannot be judged."""
        word = type(likelihood).__name__
        remedy = f"take RelativeDeviance({self.block!r}) or HeldOutLoss({self.block!r})"
        if not isinstance(likelihood, Distribution):
            return f"has {word}, a loss without a distribution; {remedy}"
        if likelihood.location:
            return f"has {word}, whose density depends on the units of the data; {remedy}"
        return None


def refusal_of_classes(likelihood: Likelihood, block: str) -> str | None:
    """Why classes cannot be judged by a distance of numbers."""
    if likelihood.width == 1:
        return None
    return (
        f"holds classes ({type(likelihood).__name__}), whose codes have no size to compare an"
        f" error with; take LabelError({block!r}) or HeldOutLoss({block!r})"
    )
