"""Criteria by the losses of the model itself, over one block or all of them."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Conjugate,
    Likelihood,
    Parametric,
    TwiceDifferentiable,
)
from mcframe.contracts.validators import block_name
from mcframe.model import Block, Model
from mcframe.model.binding import Totals
from mcframe.model.table import Table
from mcframe.selection.best_constants import best_constants
from mcframe.selection.criteria import criterion_name, entries_of, likelihood_of
from mcframe.selection.folds import Held, all_entries

__all__ = ["HeldOutLoss", "RelativeDeviance"]


@attrs.frozen
class HeldOutLoss:
    """The mean loss l(z, y) of the held-out entries of one block, or of all blocks together.

    Over several blocks it is the sum of all their losses over the number of all their entries,
    so that a block counts by its entries: one column of classes does not outweigh a hundred of
    measurements. Weights of blocks and of entries play no part, so that models with different
    ones can be compared. Of a block of standardised values l is in its standard units, those of
    the entries that the fit has seen: models that standardize differently are compared by
    ``RelativeError``, which is in the data's own units. NaN where nothing was held out on a fold.
    """

    block: str | None = attrs.field(default=None, validator=attrs.validators.optional(block_name))

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The mean loss on this fold."""
        names = list(held) if self.block is None else [self.block]
        total, count = 0.0, 0
        for name in names:
            entries = entries_of(self, name, fit, held)
            total += float(np.sum(losses_at(fit, name, entries)))
            count += entries.values.size
        return total / count if count else np.nan

    def check(self, model: Model) -> None:
        """Raise a ``ModelError`` where the block is missing."""
        if self.block is not None:
            likelihood_of(self, self.block, model)


@attrs.frozen
class RelativeDeviance:
    """Held-out deviance beside that of the best constants: 1 is no better than a constant.

    With the deviance ``d(z, y) = l(z, y) - min over z' of l(z', y)`` and the best constant c_j of
    the entries of column j that the fit has seen (with a ridge of 0.1 where it may be infinite),

    ``sum d(z_ij, y_ij) / u_j  /  sum d(c_j, y_ij) / u_j``

    over the held-out entries of a block. u_j is 1 where losses are in nats, as of labels,
    classes, levels and counts. Of locations (``Gaussian``, ``Huber``, ``Quantile``), whose losses
    have the units of their column, it is the mean of ``d(c_j, y_ij)`` over the entries of the
    column that were seen. Then no scale or offset of a column plays a part, and of a Gaussian
    block of standardised columns the score is about ``1 - R^2``. Columns of a location that are
    all alike where they were seen are left out: they leave nothing to be explained.

    Without ``block`` the score is the mean over all blocks, each of them relative to its own
    constants: numbers, labels and classes count alike in a mixed table. Weights of blocks play no
    part, those of entries only in the constants. NaN where no block has anything to be explained
    on a fold.

    Parameters
    ----------
    block : str, optional

    Raises
    ------
    ModelError
        Before anything is fitted: where the block is missing; for ``Equality``, whose loss is 0
        or infinite, and a ``RiskMixture``, whose entries without a label carry loss too.

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

    block: str | None = attrs.field(default=None, validator=attrs.validators.optional(block_name))

    def __call__(self, fit: Any, held: Mapping[str, Held]) -> float:
        """The ratio on this fold, of several blocks their mean."""
        if not isinstance(fit, Fit):
            raise ModelError(
                f"criterion {criterion_name(self)}: path gave a {type(fit).__name__}, which does"
                " not say what it was fitted to; a Fit is needed"
            )
        names = list(held) if self.block is None else [self.block]
        found = [relative_deviance(fit, each, entries_of(self, each, fit, held)) for each in names]
        known = [ratio for ratio in found if not np.isnan(ratio)]
        return float(np.mean(known)) if known else np.nan

    def check(self, model: Model) -> None:
        """Raise a ``ModelError`` where the block is missing, or a loss has no deviance."""
        names = [each.name for each in model.blocks] if self.block is None else [self.block]
        for name in names:
            reason = refusal(likelihood_of(self, name, model))
            if reason is not None:
                raise ModelError(f"criterion {criterion_name(self)}: block {name!r} {reason}")


def refusal(likelihood: Likelihood) -> str | None:
    """Why a loss has no deviance, and what can be taken; None if it has one."""
    word = type(likelihood).__name__
    if likelihood.indicator:
        return f"has {word}, whose loss is 0 or infinite; take RelativeError(...)"
    if likelihood.reads_unlabeled:
        return f"has {word}, whose entries without a label carry loss too; take LabelError(...)"
    if likelihood.smooth and not isinstance(likelihood, TwiceDifferentiable):
        return f"has {word}, whose best constant needs a second derivative; take HeldOutLoss(...)"
    if not isinstance(likelihood, Conjugate | Parametric) and likelihood.infimum == -np.inf:
        return f"has {word}, whose least losses are not known; take HeldOutLoss(...)"
    return None


@attrs.frozen(eq=False)
class Yardstick:
    """What the losses at held-out entries of a block are compared with, the same along a path.

    ``least`` are the least losses of the entries, ``units`` the u_j of each, 0 where it is left
    out, ``deviance`` the one of the best constants in these units. All are those of the very
    ``block``, ``totals`` and ``entries`` that they were made of.
    """

    block: Block
    totals: Totals
    entries: Held
    least: Array
    units: Array
    deviance: float

    @classmethod
    def of(cls, fit: Fit, name: str, entries: Held) -> "Yardstick":
        """Return what the best constants say, for which the training entries are fitted."""
        constants = best_constants(fit, name)
        units = units_of_columns(constants, name)[entries.columns]
        least = least_losses(constants.likelihood(name), entries.values)
        theirs = in_units(losses_at(constants, name, entries) - least, units)
        return cls(fit.model.block(name), fit.problem.totals, entries, least, units, theirs)

    def suits(self, fit: Fit, name: str, entries: Held) -> bool:
        """Whether it was made of these objects; that its table is theirs is known."""
        block, totals = fit.model.block(name), fit.problem.totals
        return self.block is block and self.totals is totals and self.entries is entries


# The last one of each table: fits along a path share their tables, and are judged on one fold.
YARDSTICKS: WeakKeyDictionary[Table, Yardstick] = WeakKeyDictionary()


def yardstick_of(fit: Fit, name: str, entries: Held) -> Yardstick:
    """The yardstick of a fit's table at some entries, made once for all fits of a path."""
    table = fit.problem.tables[name]
    found = YARDSTICKS.get(table)
    if found is None or not found.suits(fit, name, entries):
        found = YARDSTICKS[table] = Yardstick.of(fit, name, entries)
    return found


def relative_deviance(fit: Fit, name: str, entries: Held) -> float:
    """The deviance of a fit at some entries over that of the best constants; NaN without any."""
    if entries.values.size == 0:
        return np.nan
    stick = yardstick_of(fit, name, entries)
    ours = in_units(losses_at(fit, name, entries) - stick.least, stick.units)
    return ours / stick.deviance if stick.deviance > 0.0 else np.nan


def in_units(deviances: Array, units: Array) -> float:
    """The sum of deviances over their units; those without one, 0, are left out."""
    kept = units > 0.0
    return float(np.sum(deviances[kept] / units[kept]))


def units_of_columns(constants: Fit, name: str) -> Array:
    """What a column's deviances are divided by; 0 where it was not seen or has no spread."""
    table = constants.problem.tables[name].as_given()
    n_columns = table.shape[1]
    counts = np.bincount(table.columns, minlength=n_columns)
    if not constants.likelihood(name).location:
        return np.asarray(counts > 0, dtype=np.float64)
    lowest, highest = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    np.minimum.at(lowest, table.columns, table.values)
    np.maximum.at(highest, table.columns, table.values)
    seen = all_entries(table)
    least = least_losses(constants.likelihood(name), seen.values)
    lost = losses_at(constants, name, seen) - least
    means = np.bincount(table.columns, lost, n_columns) / np.maximum(counts, 1)
    return np.where(highest > lowest, means, 0.0)  # of equal values rounding is all that is lost


def losses_at(fit: Any, name: str, entries: Held) -> Array:
    """The losses at some entries of a block, in its standard units if it has some."""
    return np.asarray(fit.losses_at(name, entries.rows, entries.columns, entries.values))


def least_losses(likelihood: Likelihood, y: Array) -> Array:
    """The infimum of l(z, y) over z: minus the conjugate at 0.

    Of levels 0, that of a probability of 1, which the thresholds of another fit do not move.
    """
    if isinstance(likelihood, Parametric) or not isinstance(likelihood, Conjugate):
        return np.zeros_like(y)
    shape = y.shape if likelihood.width == 1 else (*y.shape, likelihood.width)
    return -likelihood.conjugate(np.zeros(shape), y)
