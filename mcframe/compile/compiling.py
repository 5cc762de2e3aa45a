"""Compile a problem to its program, once for all that certify or solve it, or say why not."""

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects import equations_of
from mcframe.compile.loss import BlockLoss, EntryLoss
from mcframe.compile.penalty import (
    BlockTerm,
    FactoredPenalty,
    Penalty,
    RowPenalty,
    SpectralPenalty,
)
from mcframe.compile.program import Entries, Program
from mcframe.contracts.arrays import IntArray, points_of
from mcframe.contracts.errors import BackendError, DataError, ModelError
from mcframe.contracts.likelihood import Parametric, Proximable, TwiceDifferentiable
from mcframe.contracts.term import (
    Composed,
    Constraint,
    Factored,
    Prox,
    RowQuadratic,
    SmoothTerm,
    Spectral,
    Term,
)
from mcframe.model import Block, Model, Problem
from mcframe.model.table import Table
from mcframe.numerics.operators import Scales
from mcframe.numerics.unlabeled import ImplicitLoss, UnlabeledBlock


def demand_determined(model: Model) -> None:
    """Raise a ``ModelError`` where a block or a term leaves open what no optimum determines."""
    for block in model.blocks:
        if block.likelihood.why_no_optimum is not None:
            raise ModelError(f"block {block.name!r}: {block.likelihood.why_no_optimum}")
    for term in model.terms:
        if term.why_no_optimum is not None:
            raise ModelError(term.why_no_optimum)


def refusal(problem: Problem) -> str | None:
    """Why a problem is no first-order program, with the nearest that is; None if it is one."""
    for block in problem.model.blocks:
        reason = refusal_of_block(block)
        if reason is not None:
            return f"block {block.name!r}: {reason}"
    main, others = split_terms(problem)
    if main is None and not any(is_quadratic(term) for term in problem.terms):
        return "no term covers all of Z; add NuclearNorm, NuclearBall, MaxNorm or Ridge"
    for term in others:
        if isinstance(main, RowQuadratic) and isinstance(term, Constraint) and term.extra_columns:
            return (
                f"the column that {term.word} adds stands outside of {main.word}, whose mean is an"
                f" intercept of each column already; drop {term.word}"
            )
        if not isinstance(term, SmoothTerm | Prox | Composed):
            with_main = "" if main is None else f" beside {main.word}"
            return (
                f"{term.word} has neither a prox nor a gradient and cannot stand"
                f"{with_main}; drop one of them, or replace it by a nuclear norm"
            )
    return None


def refusal_of_block(block: Block) -> str | None:
    """Why a block's loss cannot enter a program; None if it can."""
    likelihood = block.likelihood
    word = type(likelihood).__name__
    has_effects = block.bias or block.row_effects
    if not likelihood.smooth:
        if not isinstance(likelihood, Proximable):
            return f"{word} has neither a gradient nor a prox"
        return None
    if isinstance(likelihood, TwiceDifferentiable):
        return None
    if isinstance(likelihood, Parametric) and likelihood.n_parameters:
        return None
    if not np.isfinite(likelihood.curvature):
        return f"{word} has neither a bound on its curvature nor a second derivative"
    if has_effects:
        return f"a free bias needs the second derivative of {word}"
    return None


def is_quadratic(term: Term) -> bool:
    """True of a ridge over all of Z, which joins any other term."""
    return isinstance(term, Spectral) and term.block is None and term.quadratic_weight > 0.0


def split_terms(problem: Problem) -> tuple[Term | None, list[Term]]:
    """The main regularizer, which covers all of Z, and the other terms.

    A term that has factors alone must be the main one; else the first function of singular
    values is, else a square of each row. Ridges are neither, but join
    the latter two.
    """
    candidates = [t for t in problem.terms if isinstance(t, Spectral | Factored)]
    candidates = [t for t in candidates if not is_quadratic(t) and t.block is None]
    factored = [t for t in candidates if not isinstance(t, Prox)]
    rows = [t for t in problem.terms if isinstance(t, RowQuadratic) and t.block is None]
    main = (factored or candidates or rows or [None])[0]
    joined = takes_ridges(main)
    others = [t for t in problem.terms if t is not main and not (joined and is_quadratic(t))]
    return main, others


def takes_ridges(main: Term | None) -> bool:
    """True where a ridge joins the main regularizer: of singular values or rows, not scaled."""
    return main is None or (isinstance(main, Spectral | RowQuadratic) and not main.count_share)


def compile_problem(problem: Problem) -> Program:
    """The numbers of a problem; ``BackendError`` where ``refusal`` finds a reason."""
    demand_program(problem)
    loss, entries = compile_loss(problem)
    background = compile_background(problem, loss, entries)
    return compile_terms(problem, loss, entries, background)


def recompile_terms(program: Program, problem: Problem) -> Program:
    """The program of a problem that differs from the compiled one in its terms alone.

    The losses, all that grows with the data, are those of ``program`` and not copied, unless
    other effects take part in equations. ``BackendError`` where ``refusal`` finds a reason.
    """
    demand_program(problem)
    for name, block_loss in zip(program.names, program.loss.block_losses, strict=True):
        equations = equations_of(problem, name)
        restrained = False if equations is None else equations.restrained
        if np.any(block_loss.effects.restrained != restrained):
            return compile_problem(problem)
    entries, background = program.entries, program.background
    if entries.shape != problem.shape:  # a term that adds a column to Z is new, or gone
        entries = Entries(problem.shape, entries.rows, entries.columns, entries.values)
        background = attrs.evolve(background, shape=problem.shape)
    return compile_terms(problem, program.loss, entries, background)


def demand_program(problem: Problem) -> None:
    """Raise a ``BackendError`` where a problem is no first-order program."""
    reason = refusal(problem)
    if reason is not None:
        raise BackendError(f"no first-order program: {reason}")


def compile_terms(
    problem: Problem, loss: EntryLoss, entries: Entries, background: ImplicitLoss
) -> Program:
    """The program of compiled losses and a problem's terms."""
    main, others = split_terms(problem)
    inverse = None if main is None else problem.scales_of(main)
    scales = None if inverse is None else inverse.inverse
    program = Program(
        entries=attrs.evolve(entries, scales=scales),
        loss=loss,
        penalty=compile_main(problem),
        names=tuple(block.name for block in problem.model.blocks),
        columns=tuple(problem.columns(block.name) for block in problem.model.blocks),
        terms=tuple(block_term(problem, term, scales) for term in others),
        background=attrs.evolve(background, scales=scales),
    )
    unit = loss.unit or constrained_size(program) or 1.0
    return attrs.evolve(program, unit=unit).with_storage_for(in_factors=False)


def block_term(problem: Problem, term: Term, scales: Scales | None) -> BlockTerm:
    """A term at its columns of W, with the factors by which its argument is scaled, if any.

    ``scales`` are those of Z in W: a term of the same share as the main one is given W itself.
    """
    columns, main = problem.columns_of_term(term), split_terms(problem)[0]
    layout, block_index = problem.effects_in_term(term), None
    if layout is not None:
        block_index = [block.name for block in problem.model.blocks].index(str(term.block))
    unscaled = BlockTerm(term, columns, block_index=block_index, layout=layout)
    if main is None or term.count_share == main.count_share:
        return unscaled
    both = [s for s in (problem.scales_of(term), scales) if s is not None]
    return attrs.evolve(unscaled, factor=np.prod([s.block(columns) for s in both], axis=0))


def constrained_size(program: Program) -> float:
    """The largest entry of what is nearest to 0 in each set other than the main regularizer."""
    sizes = [0.0]
    for term in program.terms:
        if isinstance(term.term, Constraint):
            zero = term.forward(np.zeros((program.shape[0], term.width)))
            sizes.append(float(np.max(np.abs(term.prox(zero, 1.0)[0]))))
    return max(sizes)


def compile_main(problem: Problem) -> Penalty:
    """The part that covers all of Z, with the ridges that join it."""
    main: Any = split_terms(problem)[0]
    spectral = [term for term in problem.terms if isinstance(term, Spectral)]
    quadratic = [term for term in spectral if is_quadratic(term) and takes_ridges(main)]
    ridge = sum(term.quadratic_weight for term in quadratic)
    if isinstance(main, RowQuadratic):
        return RowPenalty(main, ridge)
    if main is not None and not isinstance(main, Spectral):
        assert isinstance(main, Factored)
        return FactoredPenalty(main)
    return SpectralPenalty(main=main, ridge=ridge)


def compile_background(problem: Problem, loss: EntryLoss, entries: Entries) -> ImplicitLoss:
    """The losses of unwritten cells; no parts where all are written out."""
    parts = []
    for block, block_loss in zip(problem.model.blocks, loss.block_losses, strict=True):
        cells: Any = problem.implicit_cells(block.name)
        if cells is not None:  # whose entries stand where the block has them
            cells = attrs.evolve(cells, rows=block_loss.rows, columns=block_loss.columns)
            parts.append(UnlabeledBlock(cells, problem.columns(block.name), block_loss.part))
    return ImplicitLoss(tuple(parts), entries.columns, problem.shape)


def compile_loss(problem: Problem, whole: bool = True) -> tuple[EntryLoss, Entries]:
    """The losses of all blocks, block after block, and where in Z they stand.

    ``whole`` says whether the problem has all entries, and not those of some rows alone.
    """
    block_losses, rows, columns = [], [], []
    start = 0
    for block in problem.model.blocks:
        table, width = problem.tables[block.name], block.likelihood.width
        scale = problem.scale(block.name)
        stop = start + table.n_entries * width
        try:
            block_loss = BlockLoss.of(
                problem.layout(block.name),
                problem.ridge(block.name),
                problem.origins.get(block.name),
                whole,
                equations_of(problem, block.name),
                likelihood=problem.likelihoods[block.name],
                scale=scale if table.weights is None else scale * table.weights,
                y=problem.targets(block.name),
                rows=table.rows,
                columns=table.columns,
                part=slice(start, stop),
                offset=problem.predictor_offsets(block.name),
            )
        except DataError as error:
            raise DataError(f"block {block.name!r}: {error}") from None
        block_losses.append(block_loss)
        places = places_of(table, width, problem.columns(block.name).start)
        rows.append(places[0])
        columns.append(places[1])
        start = stop
    values = concatenated([points_of(block_loss.y) for block_loss in block_losses])
    entries = Entries(problem.shape, concatenated(rows), concatenated(columns), values)
    return EntryLoss(tuple(block_losses)), entries


def places_of(table: Table, width: int, first: int) -> tuple[IntArray, IntArray]:
    """Rows and columns of Z of a block's numbers; the table's own where they are the same."""
    rows, columns = table.rows, table.columns
    if width > 1:
        rows = np.repeat(rows, width)
        columns = (columns[:, None] * width + np.arange(width)).ravel()
    return rows, columns + first if first else columns


def concatenated(arrays: list[Any]) -> Any:
    """All of some arrays in one, of a single one itself: no copy of the caller's."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


@attrs.frozen(eq=False)
class CompiledProblem:
    """A problem and its first-order program, which is compiled when it is first asked for.

    ``origin`` is another problem of the same blocks and data: its losses, all of a program that
    grows with the data, are shared and not compiled again.
    """

    problem: Problem
    origin: "CompiledProblem | None" = None

    def __attrs_post_init__(self) -> None:
        demand_determined(self.problem.model)

    @cached_property
    def refusal(self) -> str | None:
        """Why there is no program, as a clause; None if there is one. Nothing is compiled."""
        return refusal(self.problem)

    @cached_property
    def program(self) -> Program:
        """The program; a ``BackendError`` with the reason where there is none."""
        if self.origin is None or self.origin.refusal is not None:
            return compile_problem(self.problem)
        return recompile_terms(self.origin.program, self.problem)

    def with_weight(self, place: int, weight: float) -> "CompiledProblem":
        """The problem with another weight of the term at a place; the losses are shared."""
        return CompiledProblem(self.problem.with_weight(place, weight), self)

    def with_terms(self, terms: tuple[Term, ...]) -> "CompiledProblem":
        """The problem under other terms, bound to its data already; the losses are shared."""
        return CompiledProblem(attrs.evolve(self.problem, terms=terms), self)
