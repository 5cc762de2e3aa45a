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


def is_reduction(instance: "Block", attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: one of the two reductions."""
    if value not in ("sum", "mean"):
        raise ModelError(
            f"block {instance.name!r}: reduce={value!r} was given; 'sum' or 'mean' is needed"
        )


def is_switch(instance: "Block", attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: True or False."""
    if not isinstance(value, bool):
        raise ModelError(
            f"block {instance.name!r}: {attribute.name}={value!r} was given;"
            " True or False is needed"
        )


def is_standard(instance: "Block", attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: one of the ways to put columns on one scale."""
    named = isinstance(value, str) and value in ("robust", "ranks")
    if not (named or isinstance(value, bool)):
        raise ModelError(
            f"block {instance.name!r}: standardize={value!r} was given; False, True, 'robust' or"
            " 'ranks' is needed"
        )


@attrs.frozen
class Block:
    """A group of columns: ``weight / N * sum over observed (i, j) of l(z_ij + b_j + a_i, y_ij)``.

    The effects b and a exist where they are declared. With ``effects_weight`` = v the sum gets
    ``+ v / 2 * (sum_j b_j^2 + sum_i a_i^2)`` inside the same factor: v is counted in losses of one
    entry. Beside both kinds there is then an intercept c of its own, penalised alike: without it
    the ridge would share a common level out among all effects, and an item without an entry would
    be predicted at half of it.

    Where unlabeled entries carry loss (``RiskMixture``) the sum is over all entries. Weights
    and offsets of single entries are data: see ``Observations``.

    Parameters
    ----------
    name : str
        The key of the block's data.
    likelihood : Likelihood
        One loss l for every entry of the block.
    weight : float, default 1
        Positive; how much the block counts relative to the others.
    reduce : "sum" or "mean", default "sum"
        N = 1 for "sum"; for "mean", N is the number of entries in the sum (where they have
        weights, the sum of those).
    bias : bool, default False
        Whether each column has an unpenalised offset b_j, fitted with Z.
    row_effects : bool, default False
        Whether each item has an unpenalised offset a_i within the block, fitted with Z: with
        ``bias`` beside it the main effects of a two-way table, or the fixed effects of units
        and times in a panel (MC-NNM; Athey et al., 2021).
    effects_weight : float, optional
        Positive; the weight v of a ridge on the effects. Without it they are unpenalised, and
        infinite where all labels of a column are alike, or all its counts 0: probabilities are
        then exactly 0 or 1. A weight of 0.1 says as much as a tenth of an entry, and keeps
        predictions off 0 and 1 by what the data support. Effects of locations (``Gaussian``,
        ``Huber``, ``Quantile``, ``Equality``) are finite without it, and would be shrunk to 0.
    standardize : False, True, "robust" or "ranks", default False
        Puts the columns on one scale, whatever their own. For likelihoods of locations
        (``Gaussian``, ``Huber``, ``Quantile``, ``Equality``) the values are put in standard units,
        made of the observed entries of each column:

        - True: ``(y - mean) / deviation``, the deviation of all entries (divided by their number)
        - "robust": ``(y - median) / (interquartile range / 1.349)``; the deviation where that
          range is 0
        - "ranks": normal scores ``Phi^-1((rank - 1/2) / number)``, ties by their average rank; the
          inverse is linear between observed values, and not beyond them

        Weights of entries count as repetitions; the values are those less their offsets; a column
        of equal values has spread 1. Z, the effects, the parameters of the likelihood (``delta``,
        ``variance``) and the terms are then in standard units; ``predict``, ``impute``,
        ``natural``, ``bias``, ``log_likelihood`` and what is said of new rows in the data's own.

        For all likelihoods with True, and for those of locations in any way, an entry counts
        besides 1 over the mean loss of its column at the best constant: half the variance of a
        ``Gaussian``, the entropy of labels and classes, half the deviance an entry of counts
        (Udell et al., 2016, Generalized low rank models, section 4). A column of which nothing is
        lost there counts as it is. One weight of a nuclear norm then serves columns of all kinds.

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
        default="sum", validator=is_reduction, kw_only=True
    )
    bias: bool = attrs.field(default=False, validator=is_switch, kw_only=True)
    row_effects: bool = attrs.field(default=False, validator=is_switch, kw_only=True)
    effects_weight: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(positive), kw_only=True
    )
    standardize: bool | Literal["robust", "ranks"] = attrs.field(
        default=False, validator=is_standard, kw_only=True
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
        """A ``ModelError`` where the likelihood has no values to standardise, or no least loss."""
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
        """True where the losses of each column are divided by the loss at its best constant."""
        return bool(self.standardize) and not self.likelihood.indicator

    @property
    def intercept(self) -> bool:
        """True where a common intercept is fitted with the effects of columns and of rows."""
        return self.bias and self.row_effects and self.effects_weight is not None
