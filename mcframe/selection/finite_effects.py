"""Effects of fits that only serve to choose: kept finite, since few entries may be in a fold."""

import attrs

from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import number
from mcframe.model import Block, Model

__all__ = ["checked_effects_weight", "may_be_infinite", "with_ridge"]


def checked_effects_weight(weight: object) -> float | None:
    """A number above 0, or None."""
    if weight is None:
        return None
    found = number(weight, "effects_weight")
    if found <= 0.0:
        raise ModelError(
            f"effects_weight={weight!r} was given; a number above 0 is needed, or None for effects"
            " as the models declare them"
        )
    return found


def may_be_infinite(block: Block) -> bool:
    """Whether a block has effects that are infinite where all its observations are alike.

    Those of a location are means or quantiles of what is observed.
    """
    free = (block.bias or block.row_effects) and block.effects_weight is None
    return free and not block.likelihood.location


def with_ridge(model: Model, weight: float | None) -> Model:
    """The model with a ridge on effects that may be infinite without one."""
    if weight is None:
        return model
    blocks = [
        attrs.evolve(block, effects_weight=weight) if may_be_infinite(block) else block
        for block in model.blocks
    ]
    return attrs.evolve(model, blocks=blocks)
