"""A model written as mathematics: plain text for terminals, LaTeX for notebooks."""

from collections.abc import Sequence

from mcframe.contracts.likelihood import fits_parameters
from mcframe.contracts.term import Constraint, Regularizer, Sums, Term
from mcframe.model.block import Block

__all__ = ["latex_of", "text_of"]

# How an entry in standard units is made of the data, by what a block declares.
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
    """What the likelihood of a block is a function of."""
    parts = ["z_ij", *["b_j"] * block.bias, *["a_i"] * block.row_effects, *["c"] * block.intercept]
    return " + ".join(parts)


def unknowns_of(blocks: Sequence[Block]) -> str:
    """What is minimised over: Z, biases, row effects, intercepts, parameters."""
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
    blocks: Sequence[Block],
    regularizers: Sequence[Regularizer],
    constraints: Sequence[Constraint],
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
    lines += [
        f"      N_{block.name} = number of"
        f" {'' if block.likelihood.reads_unlabeled else 'observed '}entries of {block.name}"
        for block in blocks
        if block.reduce == "mean"
    ]
    terms = [*regularizers, *constraints]
    return "\n".join([*lines, *lines_on_standards(blocks, terms), *lines_on_scales(terms)])


def lines_on_standards(blocks: Sequence[Block], terms: Sequence[Term]) -> list[str]:
    """What is in standard units, and how losses are scaled; no line where nothing is."""
    lines = []
    for block in blocks:
        if in_standard_units(block):
            x = block.likelihood.symbol
            made = STANDARD[block.standardize].format(x=x, name=block.name)
            lines += [f"{x}°_ij = {made}", f"Z_{block.name} is in the units of {x}°_ij"]
            if any(isinstance(term, Sums) and term.block == block.name for term in terms):
                lines[-1] += f", A and B in those of {x}_ij"
    if any(block.scales_losses for block in blocks):
        lines.append("ℓ_j = what column j loses per entry at its best constant, 1 where that is 0")
    return [f"      {line}" for line in lines]


def lines_on_scales(terms: Sequence[Term]) -> list[str]:
    """What the scales of rows and columns are; no line where no term has any."""
    shares = [term.count_share for term in terms if term.count_share]
    if not shares:
        return []
    squares = f"{1.0 - shares[0]:g} + {shares[0]:g} n_i / mean of n"
    return [
        f"      R_ii = √({squares}), n_i = number of losses in row i of Z; C_jj alike of columns"
    ]


def in_standard_units(block: Block) -> bool:
    """Whether the values of a block, and its columns of Z, are in standard units."""
    return bool(block.standardize) and block.likelihood.location


def symbol_of(block: Block) -> str:
    """How an observation of a block is written as its likelihood takes it."""
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
    """The ridge on a block's effects: half its weight, in the block's own scale."""
    assert block.effects_weight is not None
    own = ["Σ b_j²"] * block.bias + ["Σ a_i²"] * block.row_effects + ["c²"] * block.intercept
    weight = f"{0.5 * block.weight * block.effects_weight:g}"
    weight = f"{weight}/N_{block.name}" if block.reduce == "mean" else weight
    return f"{weight} ({' + '.join(own)}) of {block.name}"


def latex_of(
    blocks: Sequence[Block],
    regularizers: Sequence[Regularizer],
    constraints: Sequence[Constraint],
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
    said = [*latex_of_standards(blocks), *latex_of_scales([*regularizers, *constraints])]
    if said:
        formula += r" \quad \text{where } " + ", ".join(said)
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


def latex_of_standards(blocks: Sequence[Block]) -> list[str]:
    """What is in standard units, and how losses are scaled, as LaTeX."""
    said = []
    for block in blocks:
        if in_standard_units(block):
            x, name = block.likelihood.symbol, block.name.replace("_", "-")
            made = LATEX_STANDARD[block.standardize].format(x=x)
            said.append(rf"{x}^{{\circ}}_{{ij}} = {made} \text{{ in }} \mathrm{{{name}}}")
    if any(block.scales_losses for block in blocks):
        said.append(r"\ell_j = \text{loss per entry of column } j \text{ at its best constant}")
    return said


def latex_of_scales(terms: Sequence[Term]) -> list[str]:
    """What the scales of rows and columns are, as LaTeX."""
    shares = [term.count_share for term in terms if term.count_share]
    if not shares:
        return []
    squares = rf"{1.0 - shares[0]:g} + {shares[0]:g} \, n_i / \bar n"
    losses = r"\text{ of the losses in row } i \text{, } C \text{ alike}"
    return [rf"R_{{ii}}^2 = {squares} {losses}"]


def latex_of_ridge(block: Block) -> str:
    """The ridge on a block's effects as LaTeX."""
    assert block.effects_weight is not None
    name = rf"\mathrm{{{block.name.replace('_', '-')}}}"
    own = [r"\sum_j b_j^2"] * block.bias + [r"\sum_i a_i^2"] * block.row_effects
    own += ["c^2"] * block.intercept
    weight = f"{0.5 * block.weight * block.effects_weight:g}"
    if block.reduce == "mean":
        weight = rf"\frac{{{weight}}}{{N_{{{name}}}}}"
    return rf"{weight} ({' + '.join(own)})_{{{name}}}"
