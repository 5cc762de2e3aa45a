"""Criteria of cross-validation: errors of a fit on held-out entries, the lower the better."""

import inspect
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

import attrs
import numpy as np

from mcframe.backends import Point
from mcframe.contracts.arrays import Array
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    Likelihood,
    Parametric,
    TwiceDifferentiable,
    ValueKind,
    fits_parameters,
    value_kinds,
)
from mcframe.contracts.validators import a_type, as_given, block_name
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Model, Problem
from mcframe.model.best_constants import (
    ColumnEntries,
    best_constants_of_entries,
    no_predictors,
    with_best_parameters,
)
from mcframe.model.best_constants import least_losses as least_over_predictors
from mcframe.model.held_out import Held
from mcframe.model.standardising import weights_of_entries
from mcframe.model.table import Table
from mcframe.model.transforms import ranges_of
from mcframe.numerics.operators import LowRank
from mcframe.regularizers import NuclearNorm
from mcframe.selection.paths import EFFECTS_WEIGHT, may_be_infinite

metrics = Deferred("sklearn.metrics", "the area under a curve")

# Columns of the table of a cross-validation, in addition to one for each criterion.
RESERVED_NAMES = ("model", "weight", "mean", "standard_error", "folds")
# The kinds of observations that are codes, without a size or an order.
KINDS_OF_CODES = frozenset({ValueKind.LABEL, ValueKind.CLASS})


class ScoredFit(Protocol):
    """An element of a path as criteria read it, such as a ``Fit``."""

    @property
    def model(self) -> Model:
        """The model that was fitted."""
        ...

    @property
    def problem(self) -> Problem:
        """The model with its data."""
        ...

    def likelihood(self, block: str) -> Any:
        """The likelihood of a block, with its fitted parameters."""
        ...

    def natural(self, block: str, rows: Any, columns: Any) -> Array:
        """Linear predictors at entries."""
        ...

    def predict(self, block: str, rows: Any, columns: Any) -> Array:
        """Mean responses at entries."""
        ...

    def losses_at(self, block: str, rows: Any, columns: Any, values: Any) -> Array:
        """Losses of values at entries."""
        ...


class Criterion(Protocol):
    """A function of a fit and of the entries that were held out of it; the lower the better.

    ``fit`` is an element of the path, by default a ``Fit``. ``held`` has the held-out entries
    of each block: ``rows``, ``columns`` and ``values``. NaN means that there is no score.
    """

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The score of one fit on one fold."""
        ...


def checked_criteria(criteria: Any, models: tuple[Model, ...]) -> dict[str, Criterion]:
    """Return criteria by their names, the one that decides first, each able to score the models.

    One criterion, a list of them, a dict from name to criterion, or None for the default is
    given; anything else is a ``ModelError``, before anything is fitted.
    """
    if criteria is None:
        criteria = default_criterion(models)
    several = criteria if isinstance(criteria, list | tuple) else [criteria]
    listed = [(criterion_name(criterion), criterion) for criterion in several]
    if isinstance(criteria, Mapping):
        listed = list(criteria.items())
    if not listed:
        raise ModelError(
            f"criterion={as_given(criteria)} was given; one criterion at least is needed"
        )
    checked: dict[str, Criterion] = {}
    for name, criterion in listed:
        if not isinstance(name, str):
            raise ModelError(f"criterion has the name {name!r}; a string is needed")
        if name in RESERVED_NAMES:
            raise ModelError(
                f"criterion has the name {name!r}, which is a column of the table of all scores"
                " already; give it another"
            )
        if isinstance(criterion, type):
            raise ModelError(
                f"criterion is the class {criterion.__name__}; write {criterion.__name__}()"
            )
        if not takes(criterion, "fit", "held"):
            raise ModelError(
                f"criterion={criterion_name(criterion)} was given; a function of a fit and of the"
                f" held-out entries is needed, such as {' or '.join(suitable(models[0]))} of"
                " mcframe.selection"
            )
        check: Any = getattr(criterion, "check", None)  # which refuses models that it cannot score
        for model in models if check is not None else ():
            check(model)
        if name in checked:
            raise ModelError(
                f"criterion has two that are called {name}; give a dict from a name to each"
            )
        checked[name] = criterion
    return checked


def default_criterion(models: Sequence[Model]) -> Criterion:
    """Return the deviance relative to constants, or the loss where a block has no deviance."""
    deviance = RelativeDeviance()
    blocks = [block for model in models for block in model.blocks]
    refused = any(deviance.refusal(block.likelihood, block.name) for block in blocks)
    return HeldOutLoss() if refused else deviance


def suitable(model: Model) -> list[str]:
    """Return criteria for a model as they are written, one for each kind of its blocks."""
    criteria: dict[str, str] = {}
    for block in model.blocks:
        word = "LabelError" if value_kinds(block.likelihood) & KINDS_OF_CODES else "RelativeError"
        criteria.setdefault(word, f"{word}({block.name!r})")
    return [*criteria.values(), "HeldOutLoss()"]


def takes(function: object, *arguments: str) -> bool:
    """Return True for a function of so many arguments, or of unknown ones if it is compiled."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a compiled function has no signature
        pass
    return True


def score_of(criterion: Criterion, fit: ScoredFit, held: Mapping[str, Held]) -> float:
    """Return the number that a criterion gives, or raise a ``ModelError`` where it is none."""
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
    """Return the name of a criterion in messages."""
    return str(getattr(criterion, "__name__", repr(criterion)))


@attrs.frozen
class OfBlocks(ABC):
    """A criterion of the held-out entries of one block, or of all where ``block`` is None."""

    block: str | None = attrs.field(default=None, validator=attrs.validators.optional(block_name))

    @abstractmethod
    def __call__(self, fit: ScoredFit, held: Mapping[str, Held]) -> float:
        """The score of one fit on one fold."""

    def check(self, model: Model) -> None:
        """Raise a ``ModelError`` where the block is missing, or cannot be scored."""
        likelihoods = {block.name: block.likelihood for block in model.blocks}
        for name in self.names(likelihoods):
            reason = self.refusal(likelihoods[name], name)
            if reason is not None:
                raise ModelError(f"criterion {criterion_name(self)}: block {name!r} {reason}")

    def refusal(self, likelihood: Likelihood, block: str) -> str | None:
        """Reason why a block of this likelihood cannot be scored, with a remedy, or None."""
        return None

    def names(self, blocks: Mapping[str, Any]) -> list[str]:
        """Names of the scored blocks, or a ``ModelError`` that names the blocks of the model."""
        if self.block is not None and self.block not in blocks:
            word, names = type(self).__name__, [repr(name) for name in blocks]
            raise ModelError(
                f"criterion {criterion_name(self)}: there is no block {self.block!r}; the blocks"
                f" are {', '.join(names)}: write {word}({names[0]})"
            )
        return list(blocks) if self.block is None else [self.block]

    def entries(self, fit: ScoredFit, held: Mapping[str, Held]) -> dict[str, Held]:
        """Held-out entries of the blocks that are scored."""
        entries = {name: held[name] for name in self.names(held)}
        if isinstance(fit, Fit):
            self.check(fit.model)
            for name, at in entries.items():
                check_labels(fit, name, at)
        return entries


@attrs.frozen
class OfOneBlock(OfBlocks):
    """A criterion of one block; NaN where none of its entries was held out on a fold."""

    # The kinds of observations that are scored; for other blocks the end of the message "holds
    # ...", and the criterion that it names as a remedy.
    kinds: ClassVar[frozenset[ValueKind]] = frozenset()
    lacks: ClassVar[str]
    instead: ClassVar[str] = "RelativeError"
    # What is scored: z, or the mean response, of classes a probability each.
    reads_z: ClassVar[bool] = False

    block: str = attrs.field(validator=block_name)

    def __call__(self, fit: ScoredFit, held: Mapping[str, Held]) -> float:
        """The score of one fit on one fold."""
        (entries,) = self.entries(fit, held).values()
        if not entries.values.size:
            return np.nan
        ask = fit.natural if self.reads_z else fit.predict
        answers = np.asarray(ask(self.block, entries.rows, entries.columns))
        return float(self.score(fit, answers, entries))

    def score(self, fit: ScoredFit, answers: Array, entries: Held) -> Any:
        """The score of the answers of a fit at some entries, one at least."""
        raise NotImplementedError

    def refusal(self, likelihood: Likelihood, block: str) -> str | None:
        """Reason why a block without the right kind of observations cannot be scored."""
        if self.kinds & value_kinds(likelihood) or (not self.kinds and likelihood.width == 1):
            return None
        word = "LabelError" if likelihood.width > 1 else self.instead
        return (
            f"holds {self.lacks}, as {type(likelihood).__name__} needs {likelihood.needs}; take"
            f" {word}({block!r}) or HeldOutLoss({block!r})"
        )


@attrs.frozen
class LabelError(OfOneBlock):
    """The share of held-out labels or classes of a block predicted wrongly.

    The prediction of a 0/1 label is 1 if its probability is above 0.5; that of a class is the most
    probable one. Other likelihoods raise a ``ModelError``.
    """

    kinds = KINDS_OF_CODES
    lacks = "neither labels 0 and 1 nor classes"
    block: str = attrs.field(default="labels", validator=block_name)

    def score(self, fit: ScoredFit, answers: Array, entries: Held) -> Any:
        """The share on this fold."""
        labels = np.argmax(answers, axis=1) if answers.ndim > 1 else answers > 0.5
        return np.mean(labels != entries.values)


@attrs.frozen
class RelativeError(OfOneBlock):
    """``sum (x - x_hat)^2 / sum x^2`` over the held-out entries of a block, x_hat by ``predict``.

    NaN if all of them are 0. Classes raise a ``ModelError``, since their codes have no size.
    """

    lacks = "classes, whose codes have no size to compare an error with"
    block: str = attrs.field(default="features", validator=block_name)

    def score(self, fit: ScoredFit, answers: Array, entries: Held) -> Any:
        """The ratio on this fold."""
        squares = np.sum(np.square(entries.values))
        return np.sum(np.square(entries.errors(answers))) / squares if squares > 0.0 else np.nan


@attrs.frozen
class MeanAbsoluteError(OfOneBlock):
    """The mean of ``|x - x_hat|`` over the held-out entries of a block, x_hat by ``predict``.

    It is in the units of the data, so a column of large numbers outweighs one of small numbers.
    For labels x_hat is the probability of 1, for levels the expected level. Classes raise a
    ``ModelError``, since their codes have no size.
    """

    lacks = RelativeError.lacks
    block: str = attrs.field(default="features", validator=block_name)

    def score(self, fit: ScoredFit, answers: Array, entries: Held) -> Any:
        """The mean on this fold."""
        return np.mean(np.abs(entries.errors(answers)))


@attrs.frozen
class OrdinalDistance(OfOneBlock):
    """The mean of ``|level - predicted level|`` over the held-out entries of a block of levels.

    The predicted level is the median of the distribution of levels at z: the lowest level plus the
    number of thresholds below z. No other level has a smaller expected distance. Likelihoods other
    than ``Ordinal`` raise a ``ModelError``.
    """

    kinds = frozenset({ValueKind.LEVEL})
    lacks = "no ordered levels"
    instead = "MeanAbsoluteError"
    reads_z = True
    block: str = attrs.field(default="levels", validator=block_name)

    def score(self, fit: ScoredFit, answers: Array, entries: Held) -> Any:
        """The mean on this fold."""
        levels = fit.likelihood(self.block).quantile(answers, np.array(0.5))
        return np.mean(np.abs(levels - entries.values))


@attrs.frozen
class OneMinusAUC(OfOneBlock):
    """1 - AUC of a block of labels: lower is better, and a random ranking has 0.5.

    AUC is the area under the receiver operating characteristic of z within a column: the share of
    pairs of a held-out 1 and a held-out 0 in which the 1 has the larger z. The score is 1 minus
    the mean over the columns with both labels held out on that fold (macro average), and NaN if
    there is no such column. Likelihoods of other data than labels 0 and 1 raise a ``ModelError``.
    """

    kinds = frozenset({ValueKind.LABEL})
    lacks = "no labels 0 and 1"
    reads_z = True
    block: str = attrs.field(default="labels", validator=block_name)

    def score(self, fit: ScoredFit, answers: Array, entries: Held) -> Any:
        """1 minus the mean area on this fold."""
        order = np.argsort(entries.columns, kind="stable")
        ends = np.flatnonzero(np.diff(entries.columns[order])) + 1
        areas = [
            metrics.roc_auc_score(entries.values[column], answers[column])
            for column in np.split(order, ends)
            if np.ptp(entries.values[column]) > 0.0
        ]
        return 1.0 - np.mean(areas) if areas else np.nan


@attrs.frozen
class LogLoss(OfOneBlock):
    """The mean of ``-log p(y | z)`` over the held-out entries of a block, in nats.

    All constants are included, so likelihoods of one kind of data can be compared, for example
    ``Poisson`` and ``NegativeBinomial``. It is for labels, classes, levels, counts and positive
    numbers. Losses without a distribution raise a ``ModelError``. So do those of a location, such
    as ``Gaussian``, whose density depends on the unit.
    """

    reads_z = True
    block: str = attrs.field(default="labels", validator=block_name)

    def score(self, fit: ScoredFit, answers: Array, entries: Held) -> Any:
        """The mean on this fold."""
        return -np.mean(fit.likelihood(self.block).log_likelihood(answers, entries.observations))

    def refusal(self, likelihood: Likelihood, block: str) -> str | None:
        """Reason why losses without a distribution, and locations, cannot be scored."""
        word = type(likelihood).__name__
        refused = RelativeDeviance(block).refusal(likelihood, block)
        remedy = (
            f"take {'' if refused else f'RelativeDeviance({block!r}) or '}HeldOutLoss({block!r})"
        )
        if not isinstance(likelihood, Distribution):
            return f"has {word}, a loss without a distribution; {remedy}"
        if likelihood.location:
            return f"has {word}, whose density depends on the units of the data; {remedy}"
        return None


@attrs.frozen
class HeldOutLoss(OfBlocks):
    """The mean loss l(z, y) of the held-out entries of one block, or of all blocks together.

    For several blocks it is the sum of all losses divided by the number of all entries, so a block
    counts by its number of entries. Weights of blocks and of entries are not used, so models with
    different weights can be compared. For a ``RiskMixture`` l is the loss of its likelihood, so
    mixtures can be compared; labels of both kinds are needed (``HeldOutRisk`` takes one kind). For
    a standardised block l is in standard units, those of the training entries. To compare models
    that standardize differently use ``RelativeError``, which is in the units of the data. NaN if a
    fold holds out no entry.
    """

    def __call__(self, fit: ScoredFit, held: Mapping[str, Held]) -> float:
        """The mean loss on this fold."""
        entries = self.entries(fit, held)
        total = sum(float(np.sum(losses_at(fit, name, at))) for name, at in entries.items())
        count = sum(at.values.size for at in entries.values())
        return total / count if count else np.nan


@attrs.frozen
class RelativeDeviance(OfBlocks):
    """Held-out deviance relative to that of the best constants: 1 is no better than a constant.

    With the deviance ``d(z, y) = l(z, y) - min over z' of l(z', y)`` and the best constant c_j of
    the training entries of column j (with a ridge of 0.1 where it may be infinite),

    ``sum d(z_ij, y_ij) / u_j  /  sum d(c_j, y_ij) / u_j``

    over the held-out entries of a block. u_j is 1 for labels, classes, levels and counts, whose
    losses have no unit. For locations (``Gaussian``, ``Huber``, ``Quantile``), whose losses
    have the units of their column, it is the mean of ``d(c_j, y_ij)`` over the training entries
    of the column. So the score does not depend on the scale or offset of a column, and for a
    Gaussian block of standardised columns it is about ``1 - R^2``. Columns of a location whose
    training entries are all equal are left out, since they have no variation.

    Without ``block`` the score is the mean over all blocks, each relative to the constants of its
    columns, so numbers, labels and classes count equally in a mixed table. Weights of blocks are
    not used, and weights of entries only in the constants. NaN if no block has any variation on a
    fold.

    Parameters
    ----------
    block : str, optional

    Raises
    ------
    ModelError
        Before anything is fitted: if the block is missing; for ``Equality``, whose loss is 0 or
        infinite; and for a ``RiskMixture``, whose entries without a label have a loss, too.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import Held, RelativeDeviance
    >>> x = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, np.nan]])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1.0)])
    >>> held = {"x": Held(np.array([2]), np.array([1]), np.array([30.0]))}
    >>> round(RelativeDeviance()(mc.fit(model, {"x": x}), held), 3)
    0.888
    """

    def __call__(self, fit: ScoredFit, held: Mapping[str, Held]) -> float:
        """The ratio on this fold, of several blocks their mean."""
        if not isinstance(fit, Fit):
            raise ModelError(
                f"criterion {criterion_name(self)}: path gave {a_type(fit)}, which does"
                " not have the data that it was fitted to; a Fit is needed"
            )
        ratios = [
            relative_deviance(fit, *block_entries)
            for block_entries in self.entries(fit, held).items()
        ]
        finite = [ratio for ratio in ratios if not np.isnan(ratio)]
        return float(np.mean(finite)) if finite else np.nan

    def refusal(self, likelihood: Likelihood, block: str) -> str | None:
        """Reason why a loss has no deviance, with a remedy; None if it has one."""
        takes = "HeldOutLoss"
        if likelihood.indicator:
            why, takes = "whose loss is 0 or infinite", "RelativeError"
        elif likelihood.reads_unlabeled:
            why, takes = "whose entries without a label carry loss too", "HeldOutRisk"
        elif likelihood.smooth and not isinstance(likelihood, TwiceDifferentiable):
            why = "whose best constant needs a second derivative"
        elif isinstance(likelihood, Conjugate | Parametric) or likelihood.infimum > -np.inf:
            return None
        else:
            why = "whose least losses are not known"
        return f"has {type(likelihood).__name__}, {why}; take {takes}(...)"


def check_labels(fit: Fit, name: str, entries: Held) -> None:
    """Raise a ``ModelError`` where all labels of a risk mixture are alike, held out or not.

    The best answer would be to predict that label everywhere.
    """
    table = fit.problem.tables[name]
    if not fit.model.block(name).likelihood.reads_unlabeled or not isinstance(table, Table):
        return
    kinds = [label for label in (0, 1) if label in table.values or label in entries.values]
    if len(kinds) == 1:
        raise ModelError(
            f"block {name!r}: all of its labels are {kinds[0]}, so held-out labels cannot tell"
            " how good predictions are: to predict this label everywhere would be best; take"
            f" HeldOutRisk({name!r}), which counts unlabeled entries too, give labels of both"
            " kinds, or score another block"
        )


def losses_at(fit: ScoredFit, name: str, entries: Held) -> Array:
    """Losses at some entries of a block, in its standard units if it has some."""
    return np.asarray(fit.losses_at(name, entries.rows, entries.columns, entries.observations))


def least_losses(likelihood: Likelihood, y: Array) -> Array:
    """Infimum of l(z, y) over z: minus the conjugate at 0.

    For levels it is 0, the loss at a probability of 1, which does not depend on the thresholds.
    """
    levels = isinstance(likelihood, Parametric)
    return np.zeros(y.shape) if levels else least_over_predictors(likelihood, y)


# The last scales of each table: what they were computed from, and the least losses of the
# held-out entries, the unit of each entry, and the deviance of the best constants in these units.
# Fits along a path share their tables, and are scored on one fold.
Scales = tuple[tuple[object, ...], tuple[Array, Array, float]]
DEVIANCE_SCALES: WeakKeyDictionary[Table, Scales] = WeakKeyDictionary()


def relative_deviance(fit: Fit, name: str, entries: Held) -> float:
    """Deviance of a fit at some entries over that of the best constants; NaN without any."""
    if entries.values.size == 0:
        return np.nan
    table, source = fit.problem.tables[name], (fit.model.block(name), fit.problem.totals, entries)
    cached = DEVIANCE_SCALES.get(table)
    if cached is not None and all(map(operator.is_, cached[0], source)):
        least, units, of_constants = cached[1]
    else:
        constants = fit_of_constants(fit, name)
        units = units_of_columns(constants, name)[entries.columns]
        least = least_losses(constants.likelihood(name), entries.observations)
        of_constants = in_units(losses_at(constants, name, entries) - least, units)
        DEVIANCE_SCALES[table] = source, (least, units, of_constants)
    deviance = in_units(losses_at(fit, name, entries) - least, units)
    return deviance / of_constants if of_constants > 0.0 else np.nan


def in_units(deviances: Array, units: Array) -> float:
    """Sum of deviances over their units; entries with the unit 0 are left out."""
    kept = units > 0.0
    return float(np.sum(deviances[kept] / units[kept]))


def units_of_columns(constants: Fit, name: str) -> Array:
    """u_j of each column; 0 where it has no training entry or no spread."""
    table = constants.problem.tables[name].in_data_units()
    n_columns = table.shape[1]
    counts = np.bincount(table.columns, minlength=n_columns)
    if not constants.likelihood(name).location:
        return np.asarray(counts > 0, dtype=np.float64)
    lowest, highest = ranges_of(table.values, table.columns, n_columns)
    least = least_losses(constants.likelihood(name), table.observations)
    lost = losses_at(constants, name, Held.of(table)) - least
    means = np.bincount(table.columns, lost, n_columns) / np.maximum(counts, 1)
    return np.where(highest > lowest, means, 0.0)  # of equal values rounding is all that is lost


def fit_of_constants(fit: Fit, name: str) -> Fit:
    """Fit of a block with Z = 0: each column at its best constant.

    ``argmin over c_j of sum_i w_ij l(c_j, y_ij)`` over the training entries with their weights,
    and with a ridge of 0.1 where the best constant may be infinite, as of labels that are all
    alike. Known offsets stay, and a location keeps its standard units. Levels without thresholds
    have those that suit the whole block at Z = 0, in addition to a constant for each column.
    """
    table = fit.problem.tables[name].observed_entries().in_data_units()
    declared = fit.model.block(name)
    likelihood = declared.likelihood
    if fits_parameters(likelihood):
        z = zeros_or(table.offsets, likelihood, table.values)
        likelihood = with_best_parameters(likelihood, z, table.values, weights_of_entries(table))
    block = attrs.evolve(
        declared,
        likelihood=likelihood,
        weight=1.0,
        reduce="sum",
        bias=True,
        row_effects=False,
        effects_weight=None,
        standardize=declared.standardize if declared.likelihood.location else False,
    )
    problem = Problem.of_tables(Model([block], [NuclearNorm(1.0)]), {name: table})
    bound, targets = problem.tables[name], problem.targets(name)
    offsets = None if likelihood.location else bound.offsets  # a location's are off its targets
    bound_likelihood = problem.likelihoods[name]
    entries = ColumnEntries(
        bound_likelihood,
        targets,
        bound.columns,
        weights_of_entries(bound),
        bound.shape[1],
        zeros_or(offsets, bound_likelihood, targets),
    )
    constants = best_constants_of_entries(entries, EFFECTS_WEIGHT * may_be_infinite(block))
    point = Point(LowRank.zeros(problem.shape))
    effects = {name: constants.ravel()}
    return attrs.evolve(fit, problem=problem, point=point, effects=effects)


def zeros_or(offsets: Array | None, likelihood: Likelihood, values: Array) -> Array:
    """Return the predictors of entries at Z = 0: their offsets, 0 without any."""
    return no_predictors(likelihood, values) if offsets is None else offsets
