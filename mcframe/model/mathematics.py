"""A model written as mathematics: plain text for terminals, LaTeX for notebooks."""

from collections.abc import Sequence

from mcframe.contracts.likelihood import Parametric
from mcframe.contracts.term import Constraint, Regularizer
from mcframe.model.block import Block

__all__ = ["latex_of", "text_of"]


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
    if any(has_parameters(block) for block in blocks):
        unknowns.append("θ")
    return ", ".join(unknowns)


def has_parameters(block: Block) -> bool:
    """Whether its likelihood has parameters that are fitted with Z."""
    likelihood = block.likelihood
    return isinstance(likelihood, Parametric) and likelihood.n_parameters > 0


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
    return "\n".join(lines)


def text_of_block(block: Block) -> str:
    """One summand: weight / N times the sum of losses over observed entries."""
    weight = f"{block.weight:g}"
    factor = f"{weight}/N_{block.name} " if block.reduce == "mean" else f"{weight} "
    factor = "" if factor == "1 " else factor
    loss = block.likelihood.formula(predictor(block), f"{block.likelihood.symbol}_ij")
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
    return rf"$\displaystyle {formula}$"


def latex_of_block(block: Block) -> str:
    """One summand as LaTeX."""
    name = rf"\mathrm{{{block.name.replace('_', '-')}}}"
    weight = "" if block.weight == 1.0 else f"{block.weight:g}"
    if block.reduce == "mean":
        weight = rf"\frac{{{weight or 1}}}{{N_{{{name}}}}}"
    z = predictor(block).replace("_ij", "_{ij}")
    loss = block.likelihood.latex(z, f"{block.likelihood.symbol}_{{ij}}")
    return rf"{weight} \sum_{{(i,j) \in {name}}} {loss}"


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
