"""The sentence: blocks of columns joined by regularizers and constraints."""

from collections.abc import Iterable
from typing import Any

import attrs

from mcframe.contracts.errors import ModelError
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
from mcframe.model.mathematics import latex_of, text_of

__all__ = ["Model", "terms_with_weight"]


def as_tuple(value: object) -> tuple[Any, ...]:
    """An attrs converter: a tuple of what was given, one thing alone included."""
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
    shares = sorted({term.count_share for term in value if term.count_share})
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
    """An attrs validator: a term speaks of a block that there is."""
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
                f"Model: {term.word} states sums of block {term.block!r}, of which the ranks that"
                " standardize='ranks' keeps know nothing; take standardize=True or 'robust'"
            )


def terms_with_weight(terms: tuple[Term, ...], place: int, weight: float) -> tuple[Term, ...]:
    """Return the terms with another weight of one of them."""
    term = attrs.evolve(terms[place], weight=weight)  # type: ignore[misc]
    return (*terms[:place], term, *terms[place + 1 :])


@attrs.frozen(repr=False)
class Model:
    """A declared model of an incomplete table: words only, no data.

    minimise over Z, b:
    ``sum_k w_k / N_k * sum over observed (i, j) of block k of l_k(z_ij + b_j, y_ij)
    + regularizers(Z)`` subject to ``constraints(Z)``, where Z (n_items x n_columns) holds all
    blocks side by side and b exists for blocks with ``bias=True``.

    ``print(model)`` writes the objective as mathematics; notebooks show it as LaTeX. Models
    are compared by value and cannot be changed; ``attrs.evolve`` makes a changed copy.

    Parameters
    ----------
    blocks : list of Block
        At least one; names differ.
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
        """How many columns the constraints add to Z, to the right of all blocks."""
        return sum(constraint.extra_columns for constraint in self.constraints)

    def block(self, name: str) -> Block:
        """The block of that name; ``ModelError`` names the ones there are."""
        for block in self.blocks:
            if block.name == name:
                return block
        names = ", ".join(repr(block.name) for block in self.blocks)
        raise ModelError(f"there is no block {name!r}; the blocks are {names}")

    def __str__(self) -> str:
        return text_of(self.blocks, self.regularizers, self.constraints)

    def __repr__(self) -> str:
        words = ", ".join(repr(block) for block in self.blocks)
        terms = ", ".join(repr(term) for term in self.terms)
        return f"Model(blocks=[{words}], terms=[{terms}])"

    def _repr_latex_(self) -> str:
        return latex_of(self.blocks, self.regularizers, self.constraints)
