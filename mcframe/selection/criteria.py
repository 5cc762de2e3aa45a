"""What a fit got wrong on entries that it has not seen: criteria of cross-validation."""

import inspect
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.validators import block_name
from mcframe.model import Model
from mcframe.selection.folds import Held

__all__ = [
    "CheckedCriterion",
    "Criterion",
    "HeldOutLoss",
    "LabelError",
    "RelativeError",
    "checked_criterion",
    "criterion_name",
    "score_of",
    "takes",
]


class Criterion(Protocol):
    """A function of a fit and of what was held out of it; the lower the better.

    ``fit`` is whatever the path gives, a ``Fit`` by default; ``held`` has the held-out entries
    of each block: ``rows``, ``columns`` and ``values``. NaN says that nothing can be said.
    """

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The score of one fit on one fold."""
        ...


@runtime_checkable
class CheckedCriterion(Protocol):
    """A criterion that knows, before anything is fitted, which models it can judge."""

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The score of one fit on one fold."""
        ...

    def check(self, model: Model) -> None:
        """Raise a ``ModelError`` where fits of that model cannot be judged."""
        ...


@attrs.frozen
class LabelError:
    """The share of held-out labels or classes of a block predicted wrongly.

    Of 0/1 labels 1 is predicted where its probability is above 0.5, of classes the most
    probable one. Other likelihoods are refused by a ``ModelError``.
    """

    block: str = attrs.field(default="labels", validator=block_name)

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The share on this fold."""
        entries = entries_of(self, self.block, fit, held)
        predicted = np.asarray(fit.predict(self.block, entries.rows, entries.columns))
        answers = np.argmax(predicted, axis=1) if predicted.ndim > 1 else predicted > 0.5
        return float(np.mean(answers != entries.values))

    def check(self, model: Model) -> None:
        """Raise a ``ModelError`` where the block is missing, or of other values."""
        likelihood = likelihood_of(self, self.block, model)
        if not (reads_labels(likelihood) or reads_classes(likelihood)):
            raise ModelError(
                f"criterion {criterion_name(self)}: block {self.block!r} holds neither labels 0"
                f" and 1 nor classes, as {type(likelihood).__name__} needs {likelihood.needs};"
                f" take RelativeError({self.block!r}) or HeldOutLoss({self.block!r})"
            )


@attrs.frozen
class RelativeError:
    """``sum (x - x_hat)^2 / sum x^2`` over the held-out entries of a block, x_hat by ``predict``.

    NaN where all of them are 0. Classes, whose codes have no size, are refused by a
    ``ModelError``.
    """

    block: str = attrs.field(default="features", validator=block_name)

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The ratio on this fold."""
        entries = entries_of(self, self.block, fit, held)
        missed = fit.predict(self.block, entries.rows, entries.columns) - entries.values
        squares = float(np.sum(np.square(entries.values)))
        return float(np.sum(np.square(missed))) / squares if squares > 0.0 else np.nan

    def check(self, model: Model) -> None:
        """Raise a ``ModelError`` where the block is missing or holds classes."""
        likelihood = likelihood_of(self, self.block, model)
        if likelihood.width > 1:
            raise ModelError(
                f"criterion {criterion_name(self)}: block {self.block!r} holds classes"
                f" ({type(likelihood).__name__}), whose codes have no size to compare an error"
                f" with; take LabelError({self.block!r}) or HeldOutLoss({self.block!r})"
            )


@attrs.frozen
class HeldOutLoss:
    """The mean loss l(z, y) of the held-out entries of one block, or of all blocks together.

    Over several blocks it is the sum of all their losses over the number of all their entries,
    so that a block counts by its entries: one column of classes does not outweigh a hundred of
    measurements. Weights of blocks and of entries play no part, so that models with different
    ones can be compared. Of a block of standardised values l is in its standard units, those of
    the entries that the fit has seen: models that standardize differently are compared by
    ``RelativeError``, which is in the data's own units.
    """

    block: str | None = attrs.field(default=None, validator=attrs.validators.optional(block_name))

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The mean loss on this fold."""
        names = list(held) if self.block is None else [self.block]
        total, count = 0.0, 0
        for name in names:
            entries = entries_of(self, name, fit, held)
            losses = fit.losses_at(name, entries.rows, entries.columns, entries.values)
            total += float(np.sum(losses))
            count += entries.values.size
        return total / count

    def check(self, model: Model) -> None:
        """Raise a ``ModelError`` where the block is missing."""
        if self.block is not None:
            likelihood_of(self, self.block, model)


def checked_criterion(criterion: Any, models: tuple[Model, ...]) -> Criterion:
    """A criterion that can judge the models, or a ``ModelError`` before anything is fitted."""
    if isinstance(criterion, type):
        raise ModelError(
            f"criterion is the class {criterion.__name__}; write {criterion.__name__}()"
        )
    if not takes(criterion, "fit", "held"):
        raise ModelError(
            f"criterion={criterion_name(criterion)} was given; a function of a fit and of what was"
            f" held out is needed, such as {' or '.join(suitable(models[0]))} of mcframe.selection"
        )
    if isinstance(criterion, CheckedCriterion):
        for model in models:
            criterion.check(model)
    found: Criterion = criterion
    return found


def suitable(model: Model) -> list[str]:
    """Criteria that judge a model as they are written, one for each kind of its blocks."""
    found: dict[str, str] = {}
    for block in model.blocks:
        labels = reads_labels(block.likelihood) or reads_classes(block.likelihood)
        word = (LabelError if labels else RelativeError).__name__
        found.setdefault(word, f"{word}({block.name!r})")
    return [*found.values(), f"{HeldOutLoss.__name__}()"]


def takes(function: object, *arguments: str) -> bool:
    """Whether a function can be called with so many arguments, as far as it says."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a compiled one does not say
        return True
    return True


def score_of(criterion: Criterion, fit: Any, held: Mapping[str, Held]) -> float:
    """The number that a criterion gives, or a ``ModelError`` where it is none."""
    score: Any = criterion(fit, held)
    try:
        if np.ndim(score) > 0 or isinstance(score, str):
            raise TypeError
        return float(score)
    except (TypeError, ValueError):
        raise ModelError(
            f"criterion {criterion_name(criterion)} gave {score!r}; one number is needed, the"
            " lower the better"
        ) from None


def criterion_name(criterion: object) -> str:
    """How messages call a criterion: a function by its name."""
    return str(getattr(criterion, "__name__", repr(criterion)))


def entries_of(criterion: Criterion, block: str, fit: Any, held: Mapping[str, Held]) -> Held:
    """The held-out entries of a block of a fit that the criterion can judge."""
    if isinstance(fit, Fit) and isinstance(criterion, CheckedCriterion):
        criterion.check(fit.model)
    if block not in held:
        raise missing_block(criterion, block, held)
    return held[block]


def likelihood_of(criterion: Criterion, block: str, model: Model) -> Likelihood:
    """The likelihood of a block, or a ``ModelError`` that names the blocks there are."""
    likelihoods = {each.name: each.likelihood for each in model.blocks}
    if block not in likelihoods:
        raise missing_block(criterion, block, likelihoods)
    return likelihoods[block]


def missing_block(criterion: Criterion, block: str, known: Mapping[str, Any]) -> ModelError:
    """The error of a criterion for a block that there is not."""
    word, names = type(criterion).__name__, [repr(name) for name in known]
    return ModelError(
        f"criterion {criterion_name(criterion)}: there is no block {block!r}; the blocks are"
        f" {', '.join(names)}: write {word}({names[0]})"
    )


def reads_labels(likelihood: Likelihood) -> bool:
    """Whether a likelihood's observations are 0 and 1, and nothing else."""
    inside, outside = np.array([0.0, 1.0]), np.array([-1.0, 0.5, 2.0])
    return likelihood.width == 1 and domain_has(likelihood, inside, outside)


def reads_classes(likelihood: Likelihood) -> bool:
    """Whether they are codes of classes, one for each of several latent columns."""
    inside, outside = np.arange(float(likelihood.width)), np.array([-1.0, 0.5, likelihood.width])
    return likelihood.width > 1 and domain_has(likelihood, inside, outside)


def domain_has(likelihood: Likelihood, inside: Any, outside: Any) -> bool:
    """Whether all of the former are valid observations, and none of the latter."""
    return not likelihood.invalid(inside).any() and bool(likelihood.invalid(outside).all())
