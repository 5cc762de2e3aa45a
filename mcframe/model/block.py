"""A named group of columns with one likelihood."""

import math
from typing import Any, Literal

import attrs

from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Conjugate, Likelihood, Parametric
from mcframe.contracts.validators import positive


def is_name(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a non-empty string."""
    if not isinstance(value, str) or not value.strip():
        raise ModelError(f"Block: name={value!r} was given; a non-empty string is needed")


def is_likelihood(instance: "Block", attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: an instance of a likelihood, not its class."""
    if isinstance(value, type) and issubclass(value, Likelihood):
        raise ModelError(
            f"block {instance.name!r}: the class {value.__name__} was given as likelihood;"
            f" write {value.__name__}() with parentheses"
        )
    if not isinstance(value, Likelihood):
        raise ModelError(
            f"block {instance.name!r}: likelihood={value!r} was given; a likelihood such as"
            " mc.Gaussian() or mc.Bernoulli() is needed"
        )


def one_of(*allowed: object) -> Any:
    """Return an attrs validator: one of some values, where 1 is not True."""

    def check(instance: "Block", attribute: "attrs.Attribute[Any]", value: object) -> None:
        if not any(type(value) is type(each) and value == each for each in allowed):
            *first, last = map(repr, allowed)
            raise ModelError(
                f"block {instance.name!r}: {attribute.name}={value!r} was given;"
                f" {', '.join(first)} or {last} is needed"
            )

    return check


@attrs.frozen
class Block:
    """A group of columns: ``weight / N * sum over observed (i, j) of l(z_ij + b_j + a_i, y_ij)``.

    The effects b and a exist if they are declared. With ``effects_weight`` = v the sum also
    contains ``v / 2 * (sum_j b_j^2 + sum_i a_i^2)``, inside the same factor, so v is measured in
    losses of one entry. With both kinds of effects there is then also an intercept c with the same
    penalty. Without it the ridge would divide a common level among all effects, and an item
    without an entry would be predicted at half of it.

    If unlabeled entries carry loss (``RiskMixture``) the sum is over all entries. Weights and
    offsets of single entries are data: see ``Observations``.

    Parameters
    ----------
    name : str
        The key of the block's data.
    likelihood : Likelihood
        One loss l for every entry of the block.
    weight : float, default 1
        Positive; the factor of the block's losses.
    reduce : "sum" or "mean", default "sum"
        N = 1 for "sum". For "mean" N is the number of entries in the sum, or the sum of their
        weights.
    bias : bool, default False
        If True, each column has an unpenalised offset b_j, fitted with Z.
    row_effects : bool, default False
        If True, each item has an unpenalised offset a_i within the block, fitted with Z. Together
        with ``bias`` these are the main effects of a two-way table, or the fixed effects of units
        and times in a panel (MC-NNM; Athey et al., 2021).
    effects_weight : float, optional
        Positive; the weight v of a ridge on the effects. Without it they are unpenalised, and
        infinite if all labels of a column are equal, or all its counts are 0: probabilities are
        then exactly 0 or 1. A weight of 0.1 counts as a tenth of an entry, and keeps predictions
        away from 0 and 1. Effects of locations (``Gaussian``, ``Huber``, ``Quantile``,
        ``Equality``) are finite without it, and would be shrunk to 0.
    standardize : False, True, "robust" or "ranks", default False
        Puts the columns on a common scale. For likelihoods of locations (``Gaussian``, ``Huber``,
        ``Quantile``, ``Equality``) the values are put in standard units, computed from the
        observed entries of each column:

        - True: ``(y - mean) / deviation``, the deviation of all entries (divided by their number)
        - "robust": ``(y - median) / (interquartile range / 1.349)``; the deviation if that range
          is 0
        - "ranks": normal scores ``Phi^-1((rank - 1/2) / number)``, ties by their average rank; the
          inverse is linear between observed values, and not beyond them

        Weights of entries count as repetitions, and offsets are subtracted from the values first.
        A column of equal values has spread 1. Z, the effects, the parameters of the likelihood
        (``delta``, ``variance``) and the terms are then in standard units; ``predict``,
        ``impute``, ``natural``, ``bias``, ``log_likelihood`` and answers for new rows are in the
        units of the data.

        For all likelihoods with True, and for those of locations with any value, the losses of a
        column are also divided by its mean loss at the best constant: half the variance of a
        ``Gaussian``, the entropy of labels and classes, half the deviance per entry of counts
        (Udell et al., 2016, Generalized low rank models, section 4). A column whose loss is 0
        there is not scaled. One weight of a nuclear norm then suits columns of all types.

    Examples
    --------
    >>> import mcframe as mc
    >>> mc.Block("labels", mc.Bernoulli(), weight=0.5, reduce="mean", bias=True).weight
    0.5
    """

    name: str = attrs.field(validator=is_name)
    likelihood: Likelihood = attrs.field(validator=is_likelihood)
    weight: float = attrs.field(default=1.0, validator=positive, kw_only=True)
    reduce: Literal["sum", "mean"] = attrs.field(
        default="sum", validator=one_of("sum", "mean"), kw_only=True
    )
    bias: bool = attrs.field(default=False, validator=one_of(True, False), kw_only=True)
    row_effects: bool = attrs.field(default=False, validator=one_of(True, False), kw_only=True)
    effects_weight: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(positive), kw_only=True
    )
    standardize: bool | Literal["robust", "ranks"] = attrs.field(
        default=False, validator=one_of(False, True, "robust", "ranks"), kw_only=True
    )

    def __attrs_post_init__(self) -> None:
        word = type(self.likelihood).__name__
        if isinstance(self.likelihood, Parametric) and self.likelihood.n_parameters:
            if self.bias or self.row_effects:
                raise ModelError(
                    f"block {self.name!r}: {word} fits its thresholds, which hold an offset"
                    " already; drop bias and row_effects, or give the thresholds"
                )
        elif self.row_effects and self.likelihood.width > 1:
            raise ModelError(
                f"block {self.name!r}: an effect of a row is common to all classes and has no"
                f" influence on {word}; drop row_effects"
            )
        if self.effects_weight is not None and not (self.bias or self.row_effects):
            raise ModelError(
                f"block {self.name!r}: effects_weight={self.effects_weight:g} was given, but the"
                " block has no effects; declare bias=True or row_effects=True, or drop it"
            )
        if self.standardize:
            self.check_standard(word)

    def check_standard(self, word: str) -> None:
        """Raise a ``ModelError`` where the likelihood has no values or no least loss."""
        likelihood, said = self.likelihood, f"standardize={self.standardize!r} was given"
        if self.standardize is not True and not likelihood.location:
            raise ModelError(
                f"block {self.name!r}: {said}, which is about values, and the predictors of {word}"
                " have a unit of their own; standardize=True scales the loss of each column"
            )
        if likelihood.reads_unlabeled:
            raise ModelError(
                f"block {self.name!r}: {said}, but what {word} loses at a constant, unlabeled"
                " entries included, is an estimate that may be 0 or below; drop it, and choose"
                " the block's weight"
            )
        if not (isinstance(likelihood, Conjugate) or math.isfinite(likelihood.infimum)):
            raise ModelError(
                f"block {self.name!r}: {said}, but {word} has neither a conjugate nor an infimum,"
                " so that nothing says what its best constant loses; drop it, and choose the"
                " block's weight"
            )

    @property
    def scales_losses(self) -> bool:
        """True if the losses of each column are divided by the loss at its best constant."""
        return bool(self.standardize) and not self.likelihood.indicator

    @property
    def intercept(self) -> bool:
        """True if a common intercept is fitted with the effects of columns and of rows."""
        return self.bias and self.row_effects and self.effects_weight is not None
