"""Sentences that say what a solver cannot run."""

from mcframe.compile import Program

__all__ = ["nonsmooth_parts"]


def nonsmooth_parts(program: Program) -> str:
    """What stands beside the main term without a gradient: the reason for multipliers."""
    parts = [
        f"the loss {type(piece.likelihood).__name__}"
        for piece in program.loss.pieces
        if not piece.likelihood.smooth
    ]
    parts += [type(term.term).__name__ for term in program.terms if not term.smooth]
    verb = "have" if len(parts) > 1 else "has"
    return f"{', '.join(parts)} {verb} no gradient"
