"""Whether an objective falls without end: along a direction in which its feasible set goes on."""

import attrs
import numpy as np

from mcframe.backends.feasible import (
    EffectsByBlock,
    Joint,
    constraints_of,
    project_in_turn,
    projection_of,
)
from mcframe.compile import BlockTerm, Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank

UNBOUNDED_MESSAGE = "the objective falls without end: a larger weight, a ball or a box bounds it"
# The limit has to lie below 0 by this share of the sizes of its summands: far more than a
# direction may lie outside of the cone and still count as inside. Projections of a W of length 1
# that are shorter are rounding.
MIN_DESCENT = 1e-6


def falls_along(program: Program, latent: LowRank, effects: dict[str, Array]) -> bool:
    """True if the objective f falls without end along a direction near this W and these effects.

    The limit of f(W + t D) / t as t grows is one number for all W at which f is finite, the
    recession function of f at D; where it is negative, f has no lower bound (Rockafellar, Convex
    Analysis, 1970, theorem 8.5). It is the sum of those of all losses and terms: of a linear tail
    its gradient times the move, of a norm the norm, of a constraint 0 in the cone of directions in
    which the set goes on. An iterate far out is near such a direction. It is projected onto that
    cone, and is 0 in columns without a loss that may fall, where it could but raise the limit.
    """
    if all(block_loss.bounded_below for block_loss in program.loss.block_losses):
        return False
    length = latent.length
    if not 0.0 < length < np.inf:
        return False
    moves = tuple(  # effects with a ridge do not move
        effects[name] / length
        if name in effects and not block_loss.bounded_below and block_loss.effects.ridge is None
        else None
        for name, block_loss in zip(program.names, program.loss.block_losses, strict=True)
    )
    receding = in_recession_cone(program, latent.multiple(1.0 / length), moves)
    if receding is None:
        return False
    direction, moves, terms = receding
    losses = program.loss.recession(program.entries.of(direction), moves)
    losses = losses + program.background.recession(direction)
    added = [program.penalty.recession(direction)]
    added += [term.value(direction.columns(term.columns).dense(), moves) for term in terms]
    limit, size = float(losses[0]) + sum(added), float(losses[1]) + sum(map(abs, added))
    return bool(limit < -MIN_DESCENT * size)


def falls_from(program: Program, latent: LowRank, effects: dict[str, Array]) -> bool:
    """True if the objective falls without end against the gradient of the losses at a W.

    For an iteration that overflows, from which no direction is left. It is not asked where Z is
    kept in factors, as the gradient is written out.
    """
    if program.entries.sparse:
        return False
    gradient = program.evaluate(latent).gradient.dense()
    return bool(np.all(np.isfinite(gradient))) and falls_along(
        program, program.penalty.factors_of(-gradient), effects
    )


def in_recession_cone(
    program: Program, latent: LowRank, moves: EffectsByBlock
) -> tuple[LowRank, EffectsByBlock, list[BlockTerm]] | None:
    """A direction near W and moves of effects in which all sets go on; what others grow by along.

    None where there is none but 0. Effects without a move stay, in sums of predictors, too.
    """
    falling = np.zeros(program.shape[1], dtype=bool)
    for block_loss, columns in zip(program.loss.block_losses, program.columns, strict=True):
        falling[columns] = not block_loss.bounded_below
    terms = []
    for attached in program.terms:
        limit = attached.recession()
        if limit is None:
            falling[attached.columns] = False
        elif limit.block_index is None or moves[limit.block_index] is not None:
            terms.append(limit)
        else:
            terms.append(attrs.evolve(limit, block_index=None, layout=None))
    direction = LowRank(latent.left, latent.right * falling[:, None])
    along = attrs.evolve(program, terms=tuple(terms))
    if constraints_of(along):
        projections = [projection_of(term) for term in constraints_of(along)]
        projections.append(lambda joint: attrs.evolve(joint, dense=joint.dense * falling))
        joint = project_in_turn(along, projections, Joint(direction.dense(), moves))
        direction, moves = program.penalty.factors_of(joint.dense * falling), joint.effects
    return (direction, moves, terms) if direction.length > MIN_DESCENT else None
