"""A declared model, blocks of columns joined by terms, and observations with weights."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.likelihood import Conjugate, Likelihood, Parametric, fits_parameters
from mcframe.contracts.showing import card, scrolled, table_as_html, text_as_html
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import (
    Constraint,
    Factored,
    Prox,
    Regularizer,
    RowQuadratic,
    Spectral,
    Sums,
    Term,
)
from mcframe.contracts.validators import (
    a_type,
    all_and_meant,
    as_given,
    block_name,
    instead_of_class,
    number,
    positive,
)
from mcframe.contracts.wording import wording
from mcframe.model.formulas import as_html, as_latex, name_in_formula
from mcframe.storage.serializing import from_text, to_text


@stored
@attrs.frozen(eq=False)
class Observations:
    """A block's data with weights w and offsets o: the loss of an entry is ``w * l(z + o, y)``.

    Or with limits of values that are not known exactly, or propensities of labels.

    It replaces a matrix in ``data``: ``{"visits": mc.Observations(counts, exposure=days)}``.

    Parameters
    ----------
    values : array, DataFrame, scipy.sparse matrix or triples (n_items x columns of the block)
        As without weights.
    weights : number or array, optional
        Survey weights, inverse propensities for entries that are not missing at random, or
        repetitions (an integer w is w equal observations). At least 0; 0 means not observed. With
        ``reduce="mean"`` N is the sum of the weights.
    offset : number or array, optional
        A known part of the linear predictor, in its units. Every entry needs one, observed or not,
        since predictions use it.
    exposure : number or array, optional
        For likelihoods with a log link, such as Poisson; others raise an error. The offset is
        log(exposure), with exposure above 0. Give this or ``offset``.
    lower, upper : number or array, optional
        For likelihoods that take limits, such as ``Censored``; others raise an error. A missing
        value with a limit is an entry: its value is known to lie above ``lower``, below ``upper``,
        or between both. NaN, and -inf as a lower or inf as an upper limit, is no limit. Equal
        limits are an exact value. Limits of a value that is known must contain it, and add
        nothing. In a sparse matrix, and in triples, what is not stored is no limit.
    propensity : number or array, optional
        For ``RiskMixture(propensities=True)``; others raise an error. The probability that the
        label of an entry is recorded, from 1e-140 to 1. Only entries with a label need one.
        ``estimate_propensities`` finds them from counts.

    Each may have the block's shape, be a column (n_items x 1), a row (1 x columns) or one number.
    A vector is a row, or a column if the block has one column; for a square block it raises an
    error. Values that a sparse matrix does not store are 0; every exposure must be stored. For
    triples they may be triples with the same labels, one for each of the values.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> days = np.array([[1.0, 10.0]])
    >>> counts = np.array([[2.0, 20.0], [1.0, 10.0], [4.0, np.nan]])
    >>> model = mc.Model([mc.Block("visits", mc.Poisson())], [mc.NuclearNorm(0.1)])
    >>> fit = mc.fit(model, {"visits": mc.Observations(counts, exposure=days)})
    >>> print(fit.predict("visits")[0].round(1))
    [ 2.  19.9]
    """

    values: Any
    weights: Any = attrs.field(default=None, kw_only=True)
    offset: Any = attrs.field(default=None, kw_only=True)
    exposure: Any = attrs.field(default=None, kw_only=True)
    lower: Any = attrs.field(default=None, kw_only=True)
    upper: Any = attrs.field(default=None, kw_only=True)
    propensity: Any = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.offset is not None and self.exposure is not None:
            raise DataError(
                "Observations: offset and exposure were both given; add log(exposure) to the"
                " offset and give that alone"
            )
        if isinstance(self.values, Observations):
            raise DataError("Observations: values are Observations already; give the matrix")

    @property
    def of_labels_alone(self) -> bool:
        """True without weights, offsets and limits, which every cell of a block would have."""
        parts = (self.weights, self.offset, self.exposure, self.lower, self.upper)
        return all(part is None for part in parts)


@attrs.frozen(eq=False)
class EntryExposures:
    """Exposures that are known at the entries alone, in a sparse matrix; elsewhere they are 1.

    Stands where ``Observations`` has an exposure, in tables that are too large to have one for
    every cell.
    """

    matrix: Any


# The formulas of an entry in standard units, by the value of ``standardize``.
STANDARD_UNIT_FORMULAS = {
    True: "({x}_ij − mean) / deviation of column j of {name}",
    "robust": "({x}_ij − median) / (interquartile range / 1.349) of column j of {name}",
    "ranks": "normal score of {x}_ij in column j of {name}",
}


def is_likelihood(instance: "Block", attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: an instance of a likelihood, not its class."""
    remedy = instead_of_class(value, Likelihood)
    if isinstance(value, type) and remedy:
        raise ModelError(
            f"block {instance.name!r}: the class {value.__name__} was given as likelihood;"
            f" {remedy}"
        )
    if not isinstance(value, Likelihood):
        raise ModelError(
            f"block {instance.name!r}: likelihood={as_given(value)} was given; a likelihood such"
            f" as {wording().word('Gaussian')} or {wording().word('Bernoulli')} is needed"
        )


def choice_of(*allowed: object) -> Any:
    """Return an attrs validator: one of some values, where 1 is not True."""

    def check(instance: "Block", attribute: "attrs.Attribute[Any]", value: object) -> None:
        if not any(type(value) is type(option) and value == option for option in allowed):
            *first, last = map(wording().value, allowed)
            raise ModelError(
                f"block {instance.name!r}: {attribute.name}={as_given(value)} was given;"
                f" {', '.join(first)} or {last} is needed"
            )

    return check


def checked_bounds(bounds: Any) -> tuple[float | None, float | None]:
    """The least and the largest value of a block, or a ``ModelError``; None is no end."""
    pair, no_end = wording().value((1, 5)), wording().value(None)
    needed = (
        f"the least and the largest value are needed, such as {pair}, or {no_end} for one of them"
    )
    if not isinstance(bounds, list | tuple) or len(bounds) != 2 or bounds[0] is bounds[1] is None:
        raise ModelError(f"bounds={as_given(bounds)} were given; {needed}")
    lower, upper = (end if end is None else number(end, "bounds", needed) for end in bounds)
    if lower is not None and upper is not None and not lower < upper:
        raise ModelError(f"bounds={as_given(bounds)} were given; {needed}")
    return lower, upper


@stored
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
    bounds : (lower, upper), optional
        The least and the largest value that there can be, such as ``(1, 5)`` of stars; None where
        there is no end. For likelihoods of locations. A value outside is an error. Predictions,
        ends of intervals and draws beyond a bound become the bound; loss, Z, ``natural`` and the
        order of ``top`` do not change.

    Examples
    --------
    >>> import mcframe as mc
    >>> mc.Block("labels", mc.Bernoulli(), weight=0.5, reduce="mean", bias=True).weight
    0.5
    """

    name: str = attrs.field(validator=block_name)
    likelihood: Likelihood = attrs.field(validator=is_likelihood)
    weight: float = attrs.field(default=1.0, validator=positive, kw_only=True)
    reduce: Literal["sum", "mean"] = attrs.field(
        default="sum", validator=choice_of("sum", "mean"), kw_only=True
    )
    bias: bool = attrs.field(default=False, validator=choice_of(True, False), kw_only=True)
    row_effects: bool = attrs.field(default=False, validator=choice_of(True, False), kw_only=True)
    effects_weight: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(positive), kw_only=True
    )
    standardize: bool | Literal["robust", "ranks"] = attrs.field(
        default=False, validator=choice_of(False, True, "robust", "ranks"), kw_only=True
    )
    bounds: tuple[float | None, float | None] | None = attrs.field(
        default=None, converter=attrs.converters.optional(checked_bounds), kw_only=True
    )

    def __attrs_post_init__(self) -> None:
        word = type(self.likelihood).__name__
        if self.bounds is not None and not self.likelihood.location:
            raise ModelError(
                f"block {self.name!r}: bounds={as_given(self.bounds)} were given, which are about"
                " values"
                f" of Gaussian, Huber, Quantile or Equality; drop them: {word} needs"
                f" {self.likelihood.needs} in any case"
            )
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
                f" block has no effects; declare {wording().argument('bias', True)} or"
                f" {wording().argument('row_effects', True)}, or drop it"
            )
        if self.standardize:
            self.check_standard(word)

    def check_standard(self, word: str) -> None:
        """Raise a ``ModelError`` where the likelihood has no values or no least loss."""
        likelihood, setting = (
            self.likelihood,
            f"standardize={as_given(self.standardize)} was given",
        )
        if self.standardize is not True and not likelihood.location:
            raise ModelError(
                f"block {self.name!r}: {setting}, which is about values, and the predictors of"
                f" {word} have a unit of their own; {wording().argument('standardize', True)}"
                " scales the loss of each column"
            )
        if self.standardize == "ranks" and likelihood.takes_intervals:
            raise ModelError(
                f"block {self.name!r}: {setting}, but of values known by limits alone there are no"
                f" ranks; take {wording().argument('standardize', True)} or 'robust'"
            )
        if likelihood.reads_unlabeled:
            raise ModelError(
                f"block {self.name!r}: {setting}, but what {word} loses at a constant, unlabeled"
                " entries included, is an estimate that may be 0 or below; drop it, and choose"
                " the block's weight"
            )
        if not (isinstance(likelihood, Conjugate) or math.isfinite(likelihood.infimum)):
            raise ModelError(
                f"block {self.name!r}: {setting}, but {word} has neither a conjugate nor an"
                " infimum, so that nothing says what its best constant loses; drop it, and choose"
                " the block's weight"
            )

    def limited(self, values: Any) -> Any:
        """Predicted values within the bounds, each beyond one of them at that bound."""
        return values if self.bounds is None else np.clip(values, *self.bounds)

    @property
    def scales_losses(self) -> bool:
        """True if the losses of each column are divided by the loss at its best constant."""
        return bool(self.standardize) and not self.likelihood.indicator

    @property
    def intercept(self) -> bool:
        """True if a common intercept is fitted with the effects of columns and of rows."""
        return self.bias and self.row_effects and self.effects_weight is not None


def predictor(block: Block) -> str:
    """The formula of a block's linear predictor."""
    parts = ["z_ij", *["b_j"] * block.bias, *["a_i"] * block.row_effects, *["c"] * block.intercept]
    return " + ".join(parts)


def text_of_predictors(block: Block) -> str:
    """The predictors of all cells of a block, in words, for messages about known sums."""
    cells = f"{predictor(block)} + offset, for all cells of {block.name}"
    if not in_standard_units(block):
        return cells
    return f"{cells}, in the units of {block.likelihood.symbol}_ij"


def unknowns_of(blocks: Sequence[Block]) -> str:
    """The variables of the minimisation: Z, biases, row effects, intercepts, parameters."""
    declared = {
        "Z": True,
        "b": any(block.bias for block in blocks),
        "a": any(block.row_effects for block in blocks),
        "c": any(block.intercept for block in blocks),
        "θ": any(fits_parameters(block.likelihood) for block in blocks),
    }
    return ", ".join(name for name, has in declared.items() if has)


def text_of(model: "Model") -> str:
    """The objective as plain text, a summand a line."""
    blocks, constraints = model.blocks, model.constraints
    summands = [text_of_block(block) for block in blocks]
    summands += [text_of_ridge(block) for block in blocks if block.effects_weight is not None]
    summands += [regularizer.formula() for regularizer in model.regularizers]
    lines = [f"minimise over {unknowns_of(blocks)}", "    " + "\n  + ".join(summands)]
    lines += [f"subject to {constraint.formula()}" for constraint in constraints]
    columns = [block.name for block in blocks]
    columns += ["1"] * model.extra_columns
    lines.append(f"where Z = [{', '.join(columns)}] is n_items × n_columns")
    explained = [
        f"N_{block.name} = number of"
        f" {'' if block.likelihood.reads_unlabeled else 'observed '}entries of {block.name}"
        for block in blocks
        if block.reduce == "mean"
    ]
    for block in filter(in_standard_units, blocks):
        x = block.likelihood.symbol
        formula = STANDARD_UNIT_FORMULAS[block.standardize].format(x=x, name=block.name)
        explained += [f"{x}°_ij = {formula}", f"Z_{block.name} is in the units of {x}°_ij"]
    if any(block.scales_losses for block in blocks):
        explained.append("ℓ_j = loss per entry of column j at its best constant, 1 where it is 0")
    explained += dict.fromkeys(
        f"P_{name} = {text_of_predictors(model.block(name))}"
        for term in model.terms
        if isinstance(term, Sums)
        for name in term.block_names
    )
    for share in count_shares(model.terms)[:1]:
        squares = f"{1.0 - share:g} + {share:g} n_i / mean of n"
        explained.append(
            f"R_ii = √({squares}), n_i = observed entries of row i; C_jj alike of columns"
        )
    return "\n".join([*lines, *(f"      {line}" for line in explained)])


def count_shares(terms: Iterable[Term]) -> list[float]:
    """The different shares of counts in the scales of rows and columns, ascending."""
    return sorted({term.count_share for term in terms if term.count_share})


def in_standard_units(block: Block) -> bool:
    """Return True where the values of a block, and its columns of Z, are in standard units."""
    return bool(block.standardize) and block.likelihood.location


def text_of_block(block: Block) -> str:
    """One summand: weight / N times the sum of losses over observed entries."""
    weight = f"{block.weight:g}"
    factor = f"{weight}/N_{block.name} " if block.reduce == "mean" else f"{weight} "
    factor = "" if factor == "1 " else factor
    symbol = block.likelihood.symbol + "°" * in_standard_units(block)
    loss = block.likelihood.formula(predictor(block), f"{symbol}_ij")
    loss = f"1/ℓ_j {loss}" if block.scales_losses else loss
    entries = "(all i,j)∈" if block.likelihood.reads_unlabeled else "(i,j)∈"
    return f"{factor}Σ_{entries}{block.name} {loss}"


def text_of_ridge(block: Block) -> str:
    """The ridge on a block's effects: half its weight, times the factor of the block."""
    assert block.effects_weight is not None
    squares = ["Σ b_j²"] * block.bias + ["Σ a_i²"] * block.row_effects + ["c²"] * block.intercept
    weight = f"{0.5 * block.weight * block.effects_weight:g}"
    weight = f"{weight}/N_{block.name}" if block.reduce == "mean" else weight
    return f"{weight} ({' + '.join(squares)}) of {block.name}"


def as_tuple(value: object) -> tuple[Any, ...]:
    """An attrs converter: a tuple of the given blocks or terms, or of a single one."""
    if isinstance(value, Block | Term):
        return (value,)
    try:
        return tuple(None if isinstance(value, str) else value)  # type: ignore[arg-type]
    except TypeError:
        raise ModelError(
            f"Model: {as_given(value)} was given; a list of blocks, then a list of terms is needed"
        ) from None


def are_blocks(instance: object, attribute: object, value: tuple[object, ...]) -> None:
    """An attrs validator: at least one block, each name once."""
    if not value:
        raise ModelError("Model: no block was given; at least one is needed")
    seen: set[str] = set()
    for block in value:
        if not isinstance(block, Block):
            raise ModelError(f"Model: blocks holds {as_given(block)}; mc.Block(...) is needed")
        if block.name in seen:
            raise ModelError(f"Model: two blocks are named {block.name!r}; rename one of them")
        seen.add(block.name)


# Terms over all of Z that a message proposes, each with its argument.
TERMS_OVER_ALL = {
    "NuclearNorm": "weight",
    "NuclearBall": "radius",
    "MaxNorm": "weight",
    "MaxNormBall": "radius",
    "Ridge": "weight",
}


def are_terms(instance: object, attribute: object, value: tuple[Any, ...]) -> None:
    """An attrs validator: terms only, each kind once, one of them a regularizer."""
    kinds: set[tuple[type, str | None]] = set()
    for term in value:
        if isinstance(term, type) and issubclass(term, Term):
            raise ModelError(
                f"Model: terms holds the class {term.__name__}; write {term.__name__}(...)"
            )
        if not isinstance(term, Term):
            raise ModelError(
                f"Model: terms holds {as_given(term)}; a regularizer or constraint such as"
                f" {wording().word('NuclearNorm', weight=0.1)} is needed"
            )
        if (type(term), term.block) in kinds:
            raise ModelError(
                f"Model: {term.word} stands twice among the terms; keep one"
                " (of two penalties, the one with the sum of their weights)"
            )
        kinds.add((type(term), term.block))
    alone = [t.word for t in value if isinstance(t, Factored) and not isinstance(t, Prox)]
    if len(alone) > 1:
        raise ModelError(
            f"Model: {' and '.join(alone)} were given, which have neither a prox nor a gradient,"
            " so that no solver takes them together; keep one of them, or put a nuclear norm in"
            f" the place of the other: {wording().word('NuclearNorm', 'weight')} or"
            f" {wording().word('NuclearBall', 'radius')}"
        )
    shares = count_shares(value)
    if len(shares) > 1:
        raise ModelError(
            f"Model: terms with count_share={shares[0]:g} and {shares[1]:g} were given; give all"
            " that have one the same"
        )
    over_all = Spectral | Factored | RowQuadratic
    if not any(isinstance(t, over_all) and t.block is None for t in value):
        *others, last = (
            wording().word(name, argument) for name, argument in TERMS_OVER_ALL.items()
        )
        raise ModelError(
            "Model: no term over all of Z was given, so nothing determines the missing entries;"
            f" add {', '.join(others)} or {last} to terms"
        )


def block_terms_exist(instance: "Model", attribute: object, value: tuple[Term, ...]) -> None:
    """An attrs validator: the block of each term is one of the model's."""
    names = [block.name for block in instance.blocks]
    for term in value:
        alone = () if term.block is None else (term.block,)
        for name in term.block_names if isinstance(term, Sums) else alone:
            if name not in names:
                raise ModelError(
                    f"Model: {term.word} speaks of block {name!r};"
                    f" {all_and_meant(name, names, 'blocks')}"
                )
        if term.needs_values and instance.block(str(term.block)).likelihood.width > 1:
            raise ModelError(
                f"Model: {term.word} compares Z with the values of block"
                f" {term.block!r}, which are classes; drop it for that block"
            )
        if isinstance(term, Sums):
            for name in term.block_names:
                check_sums(term, instance.block(name))


def check_sums(term: Sums, block: Block) -> None:
    """Raise a ``ModelError`` where known sums are no linear equations in a block's predictors."""
    if block.standardize == "ranks":
        raise ModelError(
            f"Model: {term.word} states sums of block {block.name!r}, which do not follow from"
            f" the ranks of {wording().argument('standardize', 'ranks')}; take"
            f" {wording().argument('standardize', True)} or 'robust'"
        )
    free = block.bias or block.row_effects
    if free and term.block is None:
        effects = wording().either(python="bias=True and row_effects=True", command="free effects")
        raise ModelError(
            f"Model: {term.word} of several blocks stands beside free effects of block"
            f" {block.name!r}, which it does not take; leave out {effects}, center columns by"
            f" {wording().argument('standardize', True)}, or put all its columns into one block"
        )
    z_name = block.likelihood.z_name
    if z_name is not None and not term.sums_predictors:
        of_predictors = wording().argument("of", "predictors")
        about_predictors = wording().either(
            python=f"{term.word}(..., {of_predictors})", command=of_predictors
        )
        raise ModelError(
            f"Model: {term.word} states sums of means of block {block.name!r}, whose likelihood"
            f" {type(block.likelihood).__name__} has a predictor that is not the mean but"
            f" {z_name}: sums of means are no linear equations in it. If A and B are about sums of"
            f" the predictor, declare them by {about_predictors}; for totals of the"
            " values themselves take a likelihood whose predictor is the mean, as"
            f" {wording().word('Gaussian')}"
        )


def with_signs(term: Term, signs: Mapping[str, str]) -> Term:
    """Return a term with signs in the place of the names of its blocks."""
    named: Any = term
    if term.block is not None:
        named = attrs.evolve(named, block=signs[term.block])
    elif isinstance(term, Sums):
        named = attrs.evolve(named, blocks=tuple(signs[name] for name in term.block_names))
    renamed: Term = named
    return renamed


def terms_with_weight(terms: tuple[Term, ...], place: int, weight: float) -> tuple[Term, ...]:
    """Return the terms with another weight of one of them."""
    term = terms[place]
    changed = term.with_weight(weight) if isinstance(term, Regularizer) else None
    if changed is None:
        raise ModelError(f"{term.word} has no weight to change")
    return (*terms[:place], changed, *terms[place + 1 :])


@stored
@attrs.frozen(repr=False)
class Model:
    """A declared model of an incomplete table: blocks and terms, without data.

    minimise over Z, b:
    ``sum_k w_k / N_k * sum over observed (i, j) of block k of l_k(z_ij + b_j, y_ij)
    + regularizers(Z)`` subject to ``constraints(Z)``. Z (n_items x n_columns) holds all blocks
    side by side, and b exists for blocks with ``bias=True``.

    ``print(model)`` writes the objective as a formula; notebooks show it as LaTeX. Models are
    compared by value and are immutable; ``attrs.evolve`` makes a changed copy.

    Parameters
    ----------
    blocks : list of Block
        At least one, with different names.
    terms : list of regularizers and constraints
        At least one of them over all of Z; each kind at most once for a block.

    Examples
    --------
    >>> import mcframe as mc
    >>> print(mc.Model([mc.Block("ratings", mc.Gaussian())], [mc.NuclearNorm(2.0)]))
    minimise over Z
        Σ_(i,j)∈ratings (z_ij − x_ij)²/2
      + 2 ‖Z‖_*
    where Z = [ratings] is n_items × n_columns
    """

    blocks: tuple[Block, ...] = attrs.field(converter=as_tuple, validator=are_blocks)
    terms: tuple[Term, ...] = attrs.field(
        default=(), converter=as_tuple, validator=[are_terms, block_terms_exist]
    )

    @property
    def regularizers(self) -> tuple[Regularizer, ...]:
        """The terms that add to the objective."""
        return tuple(term for term in self.terms if isinstance(term, Regularizer))

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The terms that are sets."""
        return tuple(term for term in self.terms if isinstance(term, Constraint))

    @property
    def extra_columns(self) -> int:
        """The number of columns that the constraints add to Z, to the right of all blocks."""
        return sum(constraint.extra_columns for constraint in self.constraints)

    def block(self, name: str) -> Block:
        """The block of that name; the ``ModelError`` for another name lists the blocks."""
        for block in self.blocks:
            if isinstance(name, str) and block.name == name:
                return block
        names = [block.name for block in self.blocks]
        if not isinstance(name, str):
            raise ModelError(
                f"the name of a block is needed first, and {a_type(name)} was given; the blocks"
                f" are {', '.join(map(repr, names))}. New rows come second, as in predict_rows"
            )
        raise ModelError(f"there is no block {name!r}; {all_and_meant(name, names, 'blocks')}")

    def to_json(self) -> str:
        """The model as JSON text: its classes by their public names, with their parameters.

        ``Model.from_json`` reads it back, to the last bit. Infinite numbers are written as
        ``{"is": "float", "of": "inf"}``, and arrays as ``{"is": "array", ...}``.

        Raises
        ------
        ModelError
            If the model has a class of your own: only classes of mcframe can be written.

        Examples
        --------
        >>> import mcframe as mc
        >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
        >>> mc.Model.from_json(model.to_json()) == model
        True
        """
        return to_text(self, "model")

    @classmethod
    def from_json(cls, text: str) -> "Model":
        """Read a model from text that ``to_json`` has written; nothing in it is run.

        Raises
        ------
        DataError
            If the text is not such a model, or was written by another version.
        """
        return from_text(text, cls)

    def __str__(self) -> str:
        return text_of(self)

    def __repr__(self) -> str:
        words = ", ".join(repr(block) for block in self.blocks)
        terms = ", ".join(repr(term) for term in self.terms)
        return f"Model(blocks=[{words}], terms=[{terms}])"

    def _formula(self) -> tuple[str, tuple[str, ...]]:
        """The objective with a character in the place of each block's name, and the names."""
        names = tuple(block.name for block in self.blocks)
        signs = {name: name_in_formula(number) for number, name in enumerate(names)}
        blocks = [attrs.evolve(block, name=signs[block.name]) for block in self.blocks]
        return text_of(Model(blocks, [with_signs(term, signs) for term in self.terms])), names

    def _repr_latex_(self) -> str:
        return as_latex(*self._formula())

    def _repr_html_(self) -> str:
        words = [(f"block {block.name}", repr(block.likelihood)) for block in self.blocks]
        words += [("regularizer", repr(term)) for term in self.regularizers]
        words += [("constraint", repr(term)) for term in self.constraints]
        formula = scrolled(f'<div class="mc-formula">{as_html(*self._formula())}</div>')
        latex = text_as_html(self._repr_latex_())
        latex = f"<details><summary>as LaTeX</summary>{latex}</details>"
        return card("Model", formula, table_as_html((), words), latex)
