"""What a criterion of cross-validation is, and the checks of those that are given."""

import inspect
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Likelihood
from mcframe.model import Model
from mcframe.selection.folds import Held
from mcframe.selection.value_kinds import reads_classes, reads_labels

__all__ = [
    "CheckedCriterion",
    "Criterion",
    "checked_criteria",
    "criterion_name",
    "entries_of",
    "likelihood_of",
    "score_of",
    "takes",
]


# Columns of the table of a cross-validation, beside one for each criterion.
RESERVED = ("model", "weight", "mean", "standard_error", "folds")


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


def checked_criteria(given: Any, models: tuple[Model, ...]) -> dict[str, Criterion]:
    """Criteria by their names, the one that decides first, each able to judge the models.

    One criterion, a list of them, or a dict from name to criterion; a ``ModelError`` for anything
    else, before anything is fitted.
    """
    if isinstance(given, Mapping):
        listed = [(name, each) for name, each in given.items()]
    elif isinstance(given, list | tuple):
        listed = [(criterion_name(each), each) for each in given]
    else:
        listed = [(criterion_name(given), given)]
    if not listed:
        raise ModelError(f"criterion={given!r} was given; one criterion at least is needed")
    for name, each in listed:
        if not isinstance(name, str):
            raise ModelError(f"criterion has the name {name!r}; a string is needed")
        if name in RESERVED:
            raise ModelError(
                f"criterion has the name {name!r}, which is a column of the table of all scores"
                " already; give it another"
            )
        check_criterion(each, models)
    names = [name for name, _ in listed]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ModelError(
            f"criterion has two that are called {twice}; give a dict from a name to each"
        )
    return dict(listed)


def check_criterion(criterion: Any, models: tuple[Model, ...]) -> None:
    """Raise a ``ModelError`` where this is no criterion, or cannot judge a model."""
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


def suitable(model: Model) -> list[str]:
    """Criteria that judge a model as they are written, one for each kind of its blocks."""
    found: dict[str, str] = {}
    for block in model.blocks:
        labels = reads_labels(block.likelihood) or reads_classes(block.likelihood)
        word = "LabelError" if labels else "RelativeError"
        found.setdefault(word, f"{word}({block.name!r})")
    return [*found.values(), "HeldOutLoss()"]


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
