"""A declared model: blocks of columns joined by regularizers and constraints."""

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import fits_parameters
from mcframe.contracts.term import (
    Constraint,
    Factored,
    Regularizer,
    RowQuadratic,
    Spectral,
    Sums,
    Term,
)
from mcframe.model.block import Block
from mcframe.numerics.stored import from_text, to_text

# The formulas of an entry in standard units, by the value of ``standardize``.
STANDARD = {
    True: "({x}_ij − mean) / deviation of column j of {name}",
    "robust": "({x}_ij − median) / (interquartile range / 1.349) of column j of {name}",
    "ranks": "normal score of {x}_ij in column j of {name}",
}
LATEX_STANDARD = {
    True: r"({x}_{{ij}} - \text{{mean}}_j) / \text{{deviation}}_j",
    "robust": r"1.349 \, ({x}_{{ij}} - \text{{median}}_j) / \text{{interquartile range}}_j",
    "ranks": r"\text{{normal score of }} {x}_{{ij}} \text{{ in column }} j",
}


def predictor(block: Block) -> str:
    """The formula of a block's linear predictor."""
    parts = ["z_ij", *["b_j"] * block.bias, *["a_i"] * block.row_effects, *["c"] * block.intercept]
    return " + ".join(parts)


def unknowns_of(blocks: Sequence[Block]) -> str:
    """The variables of the minimisation: Z, biases, row effects, intercepts, parameters."""
    unknowns = ["Z"]
    if any(block.bias for block in blocks):
        unknowns.append("b")
    if any(block.row_effects for block in blocks):
        unknowns.append("a")
    if any(block.intercept for block in blocks):
        unknowns.append("c")
    if any(fits_parameters(block.likelihood) for block in blocks):
        unknowns.append("θ")
    return ", ".join(unknowns)


def text_of(
    blocks: Sequence[Block], regularizers: Sequence[Regularizer], constraints: Sequence[Constraint]
) -> str:
    """The objective as plain text, a summand a line."""
    summands = [text_of_block(block) for block in blocks]
    summands += [text_of_ridge(block) for block in blocks if block.effects_weight is not None]
    summands += [regularizer.formula() for regularizer in regularizers]
    unknowns = unknowns_of(blocks)
    lines = [f"minimise over {unknowns}", "    " + "\n  + ".join(summands)]
    lines += [f"subject to {constraint.formula()}" for constraint in constraints]
    columns = [block.name for block in blocks]
    columns += ["1"] * sum(constraint.extra_columns for constraint in constraints)
    lines.append(f"where Z = [{', '.join(columns)}] is n_items × n_columns")
    explained = [
        f"N_{block.name} = number of"
        f" {'' if block.likelihood.reads_unlabeled else 'observed '}entries of {block.name}"
        for block in blocks
        if block.reduce == "mean"
    ]
    terms = [*regularizers, *constraints]
    for block in filter(in_standard_units, blocks):
        x = block.likelihood.symbol
        formula = STANDARD[block.standardize].format(x=x, name=block.name)
        explained += [f"{x}°_ij = {formula}", f"Z_{block.name} is in the units of {x}°_ij"]
        if any(isinstance(term, Sums) and term.block == block.name for term in terms):
            explained[-1] += f", A and B in those of {x}_ij"
    if any(block.scales_losses for block in blocks):
        explained.append("ℓ_j = loss per entry of column j at its best constant, 1 where it is 0")
    for share in count_shares(terms)[:1]:
        squares = f"{1.0 - share:g} + {share:g} n_i / mean of n"
        explained.append(
            f"R_ii = √({squares}), n_i = number of losses in row i of Z; C_jj alike of columns"
        )
    return "\n".join([*lines, *(f"      {line}" for line in explained)])


def count_shares(terms: Iterable[Term]) -> list[float]:
    """The different shares of counts in the scales of rows and columns, ascending."""
    return sorted({term.count_share for term in terms if term.count_share})


def in_standard_units(block: Block) -> bool:
    """Return True where the values of a block, and its columns of Z, are in standard units."""
    return bool(block.standardize) and block.likelihood.location


def symbol_of(block: Block) -> str:
    """The symbol of an observation of a block, with ° in standard units."""
    return block.likelihood.symbol + "°" * in_standard_units(block)


def text_of_block(block: Block) -> str:
    """One summand: weight / N times the sum of losses over observed entries."""
    weight = f"{block.weight:g}"
    factor = f"{weight}/N_{block.name} " if block.reduce == "mean" else f"{weight} "
    factor = "" if factor == "1 " else factor
    loss = block.likelihood.formula(predictor(block), f"{symbol_of(block)}_ij")
    loss = f"1/ℓ_j {loss}" if block.scales_losses else loss
    entries = "every (i,j) of " if block.likelihood.reads_unlabeled else "(i,j)∈"
    return f"{factor}Σ_{entries}{block.name} {loss}"


def text_of_ridge(block: Block) -> str:
    """The ridge on a block's effects: half its weight, times the factor of the block."""
    assert block.effects_weight is not None
    squares = ["Σ b_j²"] * block.bias + ["Σ a_i²"] * block.row_effects + ["c²"] * block.intercept
    weight = f"{0.5 * block.weight * block.effects_weight:g}"
    weight = f"{weight}/N_{block.name}" if block.reduce == "mean" else weight
    return f"{weight} ({' + '.join(squares)}) of {block.name}"


def latex_of(
    blocks: Sequence[Block], regularizers: Sequence[Regularizer], constraints: Sequence[Constraint]
) -> str:
    """The objective as one displayed formula."""
    summands = [latex_of_block(block) for block in blocks]
    summands += [latex_of_ridge(block) for block in blocks if block.effects_weight is not None]
    summands += [regularizer.latex() for regularizer in regularizers]
    unknowns = unknowns_of(blocks)
    formula = rf"\min_{{{unknowns}}} \; " + " + ".join(summands)
    if constraints:
        sets = ", ".join(constraint.latex() for constraint in constraints)
        formula += r" \quad \text{subject to } " + sets
    explained = []
    for block in filter(in_standard_units, blocks):
        x, name = block.likelihood.symbol, block.name.replace("_", "-")
        value = LATEX_STANDARD[block.standardize].format(x=x)
        explained.append(rf"{x}^{{\circ}}_{{ij}} = {value} \text{{ in }} \mathrm{{{name}}}")
    if any(block.scales_losses for block in blocks):
        explained.append(
            r"\ell_j = \text{loss per entry of column } j \text{ at its best constant}"
        )
    for share in count_shares([*regularizers, *constraints])[:1]:
        squares = rf"{1.0 - share:g} + {share:g} \, n_i / \bar n"
        losses = r"\text{ of the losses in row } i \text{, } C \text{ alike}"
        explained.append(rf"R_{{ii}}^2 = {squares} {losses}")
    if explained:
        formula += r" \quad \text{where } " + ", ".join(explained)
    return rf"$\displaystyle {formula}$"


def latex_of_block(block: Block) -> str:
    """One summand as LaTeX."""
    name = rf"\mathrm{{{block.name.replace('_', '-')}}}"
    weight = "" if block.weight == 1.0 else f"{block.weight:g}"
    if block.reduce == "mean":
        weight = rf"\frac{{{weight or 1}}}{{N_{{{name}}}}}"
    z = predictor(block).replace("_ij", "_{ij}")
    symbol = symbol_of(block).replace("°", r"^{\circ}")
    loss = block.likelihood.latex(z, f"{symbol}_{{ij}}")
    loss = rf"\frac{{1}}{{\ell_j}} {loss}" if block.scales_losses else loss
    return rf"{weight} \sum_{{(i,j) \in {name}}} {loss}"


def latex_of_ridge(block: Block) -> str:
    """The ridge on a block's effects as LaTeX."""
    assert block.effects_weight is not None
    name = rf"\mathrm{{{block.name.replace('_', '-')}}}"
    squares = [r"\sum_j b_j^2"] * block.bias + [r"\sum_i a_i^2"] * block.row_effects
    squares += ["c^2"] * block.intercept
    weight = f"{0.5 * block.weight * block.effects_weight:g}"
    if block.reduce == "mean":
        weight = rf"\frac{{{weight}}}{{N_{{{name}}}}}"
    return rf"{weight} ({' + '.join(squares)})_{{{name}}}"


def as_tuple(value: object) -> tuple[Any, ...]:
    """An attrs converter: a tuple of the given blocks or terms, or of a single one."""
    if isinstance(value, Block | Term):
        return (value,)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ModelError(
            f"Model: {value!r} was given; a list of blocks, then a list of terms is needed"
        )
    return tuple(value)


def are_blocks(instance: object, attribute: object, value: tuple[object, ...]) -> None:
    """An attrs validator: at least one block, each name once."""
    if not value:
        raise ModelError("Model: no block was given; at least one is needed")
    seen: set[str] = set()
    for block in value:
        if not isinstance(block, Block):
            raise ModelError(f"Model: blocks holds {block!r}; mc.Block(...) is needed")
        if block.name in seen:
            raise ModelError(f"Model: two blocks are named {block.name!r}; rename one of them")
        seen.add(block.name)


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
                f"Model: terms holds {term!r}; a regularizer or constraint such as"
                " mc.NuclearNorm(0.1) is needed"
            )
        if (type(term), term.block) in kinds:
            raise ModelError(
                f"Model: {term.word} stands twice among the terms; keep one"
                " (of two penalties, the one with the sum of their weights)"
            )
        kinds.add((type(term), term.block))
    shares = count_shares(value)
    if len(shares) > 1:
        raise ModelError(
            f"Model: terms with count_share={shares[0]:g} and {shares[1]:g} were given; give all"
            " that have one the same"
        )
    over_all = Spectral | Factored | RowQuadratic
    if not any(isinstance(t, over_all) and t.block is None for t in value):
        raise ModelError(
            "Model: no term over all of Z was given, so nothing determines the missing entries;"
            " add mc.NuclearNorm(weight), mc.NuclearBall(radius), mc.MaxNorm(weight),"
            " mc.MaxNormBall(radius) or mc.Ridge(weight) to terms"
        )


def block_terms_exist(instance: "Model", attribute: object, value: tuple[Term, ...]) -> None:
    """An attrs validator: the block of each term is one of the model's."""
    names = [block.name for block in instance.blocks]
    for term in value:
        if term.block is not None and term.block not in names:
            known = ", ".join(repr(name) for name in names)
            raise ModelError(
                f"Model: {term.word} speaks of block {term.block!r}; the blocks are {known}"
            )
        if term.needs_values and instance.block(str(term.block)).likelihood.width > 1:
            raise ModelError(
                f"Model: {term.word} compares Z with the values of block"
                f" {term.block!r}, which are classes; drop it for that block"
            )
        sums = isinstance(term, Sums) and term.block is not None
        if sums and instance.block(str(term.block)).standardize == "ranks":
            raise ModelError(
                f"Model: {term.word} states sums of block {term.block!r}, which do not follow from"
                " the ranks of standardize='ranks'; take standardize=True or 'robust'"
            )


def terms_with_weight(terms: tuple[Term, ...], place: int, weight: float) -> tuple[Term, ...]:
    """Return the terms with another weight of one of them."""
    term = attrs.evolve(terms[place], weight=weight)  # type: ignore[misc]
    return (*terms[:place], term, *terms[place + 1 :])


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
            if block.name == name:
                return block
        names = ", ".join(repr(block.name) for block in self.blocks)
        raise ModelError(f"there is no block {name!r}; the blocks are {names}")

    def to_json(self) -> str:
        """The model as text: its words by their public names, with all that they were given.

        ``Model.from_json`` reads it back, to the last bit. Numbers that no JSON has, as infinite
        bounds, and arrays stand as ``{"is": "float", "of": "inf"}`` and ``{"is": "array", ...}``.

        Raises
        ------
        ModelError
            Where a word of the model is a class of your own: a text names words of mcframe alone.

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
        """The model of a text that ``to_json`` has written; nothing in it is run.

        Raises
        ------
        DataError
            Where the text is no such model, or one of another version.
        """
        return from_text(text, cls)

    def __str__(self) -> str:
        return text_of(self.blocks, self.regularizers, self.constraints)

    def __repr__(self) -> str:
        words = ", ".join(repr(block) for block in self.blocks)
        terms = ", ".join(repr(term) for term in self.terms)
        return f"Model(blocks=[{words}], terms=[{terms}])"

    def _repr_latex_(self) -> str:
        return latex_of(self.blocks, self.regularizers, self.constraints)
