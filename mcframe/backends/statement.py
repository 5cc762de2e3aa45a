"""The exact reading: a problem as a CVXPY program, word by word."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile import Program, demand_determined
from mcframe.contracts.arrays import Array, mapped
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.term import Composed, Term
from mcframe.model import Block, Problem

# Importing it takes seconds, and the first-order backends run without it.
cp = Deferred("cvxpy", "the exact reading of a problem (the reference backend, to_cvxpy, laws)")


def to_cvxpy(problem: Problem) -> tuple[Any, dict[str, Any]]:
    """The problem as it is stated, term by term, and its variables by name.

    ``"Z"`` is the latent matrix (n_items x n_columns); ``"bias:NAME"``, ``"row_effects:NAME"``,
    ``"intercept:NAME"`` and ``"parameters:NAME"`` the free numbers of block NAME, counted from 0.
    The problem is not solved. A loss that no cone expresses (probit) enters by tangents from
    below; see ``Reference``.
    """
    demand_determined(problem.model)
    stated = Statement.of(problem.counted_from_zero())
    return stated.problem(), stated.variables


@attrs.define(eq=False)
class Statement:
    """The summands and constraints of a problem, its ``source``, in CVXPY.

    ``copies`` are equality constraints, one for each loss and term without a gradient where
    duals are asked for: a variable of its own is tied to what the loss or term acts on, and
    the multiplier of the tie is a subgradient of it.

    Variables are counted in a ``unit``: Z is the unit times ``variables["Z"]``, effects likewise.
    Losses and terms that have a form in units are stated in it, so that all numbers are about 1.
    """

    source: Problem
    variables: dict[str, Any]
    unit: float = 1.0
    summands: list[Any] = attrs.field(factory=list)
    constraints: list[Any] = attrs.field(factory=list)
    copies: dict[int, Any] = attrs.field(factory=dict)
    units: dict[int, float] = attrs.field(factory=dict)  # of the copies
    predictors: dict[str, Any] = attrs.field(factory=dict)
    losses: dict[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        program: Program | None = None,
        near: dict[str, tuple[Array, float]] | None = None,
        unit: float = 1.0,
        all_copied: bool = False,
    ) -> "Statement":
        """The statement; ``near`` says where approximated losses are to be tight.

        With a program, its nonsmooth losses and terms are stated of copies, or all losses with a
        conjugate: without one, F* is known at the gradient alone, and at no multiplier.
        """
        nonsmooth = (
            set() if program is None else {id(t.term) for t in program.terms if not t.smooth}
        )
        problem = problem.written_out()
        stated = cls(problem, {"Z": cp.Variable(problem.shape, name="Z")}, unit)
        for k, block in enumerate(problem.model.blocks):
            smooth = problem.likelihoods[block.name].smooth
            copied = program is not None and (
                not smooth or (all_copied and program.loss.block_losses[k].has_conjugate())
            )
            stated.add_block(k, block, copied, (near or {}).get(block.name))
        for k, term in enumerate(problem.terms):
            stated.add_term(len(problem.model.blocks) + k, term, id(term) in nonsmooth)
        return stated

    def problem(self, scale: float = 1.0) -> Any:
        """The whole, its objective divided by a scale."""
        objective = cp.sum(cp.hstack(self.summands)) / scale
        return cp.Problem(cp.Minimize(objective), self.constraints)

    def predictor(self, block: Block) -> Any:
        """Z + effects + offset over the unit at the entries of a block: (N,) or (N, K)."""
        problem, name = self.source, block.name
        table, width = problem.tables[name], block.likelihood.width
        places = table.columns[:, None] * width + np.arange(width)
        rows = np.repeat(table.rows, width)
        z = self.variables["Z"][rows, places.ravel() + problem.columns(name).start]
        for kind, effects in self.effects(name).items():
            chosen = {"bias": places.ravel(), "row_effects": rows, "intercept": 0 * rows}[kind]
            z = z + effects[chosen]
        added = problem.predictor_offsets(name)
        if added is not None:
            z = z + added.ravel() / self.unit
        return cp.reshape(z, places.shape, order="C") if width > 1 else z

    def effects(self, name: str) -> dict[str, Any]:
        """The variables of a block's effects by kind, and the ridge on them as a summand."""
        layout = self.source.layout(name)
        kinds = ("bias", "row_effects", "intercept")
        counts = (layout.n_biases, layout.n_row_effects, layout.n_intercepts)
        variables = {
            kind: cp.Variable(count) for kind, count in zip(kinds, counts, strict=True) if count
        }
        self.variables |= {f"{kind}:{name}": variable for kind, variable in variables.items()}
        ridge = self.source.ridge(name)
        if ridge:
            origin = self.source.origins.get(name, 0.0) / self.unit
            squares = cp.sum_squares(cp.hstack(list(variables.values())) + origin)
            self.summands.append(0.5 * ridge * self.unit**2 * squares)
        return variables

    def effects_of_cells(self, name: str, shape: tuple[int, int]) -> Any:
        """The sum of the effects in each cell of a block (n_rows x latent columns)."""
        total: Any = np.zeros(shape)
        down, across = np.ones((shape[0], 1)), np.ones((1, shape[1]))
        bias = self.variables.get(f"bias:{name}")
        if bias is not None:
            total = total + down @ cp.reshape(bias, (1, shape[1]), order="C")
        of_rows = self.variables.get(f"row_effects:{name}")
        if of_rows is not None:
            total = total + cp.reshape(of_rows, (shape[0], 1), order="C") @ across
        intercept = self.variables.get(f"intercept:{name}")
        if intercept is not None:
            total = total + down @ cp.reshape(intercept, (1, 1), order="C") @ across
        return total

    def latent(self) -> Array:
        """Z at the answer, dense."""
        return self.unit * np.asarray(self.variables["Z"].value)

    def free_numbers(self, name: str) -> Array:
        """Effects or parameters of a block at the answer."""
        kinds = {"bias": self.unit, "row_effects": self.unit, "intercept": self.unit}
        values = [
            unit * self.variables[f"{kind}:{name}"].value
            for kind, unit in {**kinds, "parameters": 1.0}.items()
            if f"{kind}:{name}" in self.variables
        ]
        return np.concatenate(values)

    def multiplier_of(self, k: int) -> Array:
        """The subgradient that a loss or term with a copy shows at the answer."""
        return -np.asarray(self.copies[k].dual_value) / self.units[k]

    def add_block(
        self, k: int, block: Block, copied: bool, near: tuple[Array, float] | None
    ) -> None:
        """One block's losses."""
        problem, name = self.source, block.name
        likelihood, table = problem.likelihoods[name], problem.tables[name]
        y, factor = problem.targets(name), 1.0
        z = self.predictor(block)
        scaled = None if self.unit == 1.0 else likelihood.in_units(self.unit)
        if scaled is None:
            z = self.unit * z
        else:
            (likelihood, factor), y = scaled, mapped(y, lambda numbers: numbers / self.unit)
        self.units[k] = 1.0 if scaled is None else self.unit
        self.predictors[name] = z
        parameters = self.parameters(name)
        losses, constraints = likelihood.statement(
            cp, self.copy_of(k, z) if copied else z, y, parameters=parameters, near=near
        )
        self.losses[name] = losses
        self.constraints += constraints
        scale = factor * problem.scale(name) * (1.0 if table.weights is None else table.weights)
        self.summands.append(cp.sum(cp.multiply(scale, losses)))

    def parameters(self, name: str) -> Any:
        """The variable of a block's fitted parameters; None if it has none."""
        count = self.source.layout(name).n_parameters
        if not count:
            return None
        variable = cp.Variable(count)
        self.variables[f"parameters:{name}"] = variable
        return variable

    def add_term(self, k: int, term: Term, copied: bool) -> None:
        """One term, of its columns of Z or of a copy of them; with effects, of predictors."""
        columns, scales = self.source.columns_of_term(term), self.source.scales_of(term)
        latent = self.variables["Z"][:, columns]
        latent = latent if scales is None else cp.multiply(scales.block(columns), latent)
        if self.source.effects_in_term(term) is not None:
            latent = latent + self.effects_of_cells(str(term.block), latent.shape)
        scaled = None if self.unit == 1.0 else term.in_units(self.unit)
        term, latent = (term, self.unit * latent) if scaled is None else (scaled, latent)
        self.units[k] = 1.0 if scaled is None else self.unit
        if copied and isinstance(term, Composed):
            # The copy is of what the inner term acts on, whose multiplier certificates need.
            latent = term.forward_expression(cp, latent)
            term = term.inner
        expression, constraints = term.statement(cp, self.copy_of(k, latent) if copied else latent)
        self.summands.append(expression)
        self.constraints += constraints

    def copy_of(self, k: int, argument: Any) -> Any:
        """A variable of its own for what a loss or term acts on, tied to it."""
        copy = cp.Variable(argument.shape)
        self.copies[k] = copy == argument
        self.constraints.append(self.copies[k])
        return copy
