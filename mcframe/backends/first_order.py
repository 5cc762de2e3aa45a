"""A solver of programs as a backend: memory, multipliers for what it leaves to them, the loop."""

from typing import Any

import attrs

from mcframe.backends.backend import Backend, Cost, Outcome, Settings
from mcframe.backends.loop import run
from mcframe.backends.splitting import with_multipliers
from mcframe.compile import CompiledProblem, Program
from mcframe.contracts.solver import Solver
from mcframe.numerics.machine import MEMORY_SHARE, physical_gigabytes

__all__ = ["FirstOrder"]

# What a first-order solver holds at its peak, certificate included, in numbers of 8 bytes: per
# entry of Z, and per observed entry. Measured on 2000 x 500 with 2 % and 30 % observed.
NUMBERS_PER_CELL = 7.5
NUMBERS_PER_ENTRY = 10.0
# The same for one that holds no dense matrix, per observed entry: 16 were measured on
# 100,000 x 10,000 with 0.5 % observed.
NUMBERS_SPARSE = 20.0
UNREAD = "the unlabeled cells are too many to be written out, and it works on entries alone"


@attrs.frozen
class FirstOrder(Backend):
    """Steps a solver on the program of a problem, until its certificate says that it is done.

    ``backend=`` makes one of any ``Solver``. Multipliers around the solver see to what it leaves
    to them (``Solver.leaves``); the loop sees to budget, certificates, history and callbacks.
    """

    solver: Solver[Program, Any]

    @property
    def name(self) -> str:
        """The name of the solver."""
        return self.solver.name

    def refuses(self, compiled: CompiledProblem) -> str | None:
        """Why the solver runs the program neither alone nor with multipliers, or None."""
        if compiled.refusal is not None:
            return compiled.refusal
        program = compiled.program
        if program.background and not self.solver.reads_background:
            return UNREAD
        return with_multipliers(self.solver, program).refuses(program)

    def cost(self, compiled: CompiledProblem) -> Cost:
        """What it holds in memory, and whether that is too large a share of the machine's."""
        held, gigabytes = self.memory(compiled)
        text = f"{held}, about {gigabytes:.2g} GB"
        memory = physical_gigabytes()
        if gigabytes <= MEMORY_SHARE * memory:
            return Cost(text)
        return Cost(text, f"{text}, more than {MEMORY_SHARE:.0%} of the machine's {memory:.3g} GB")

    def memory(self, compiled: CompiledProblem) -> tuple[str, float]:
        """What it holds, and its gigabytes."""
        problem = compiled.problem
        program = compiled.program if compiled.refusal is None else None
        n_rows, n_columns = problem.shape
        n_entries = sum(table.n_entries for table in problem.tables.values())
        if self.solver.dense if program is None else self.solver.holds_dense(program):
            numbers = NUMBERS_PER_CELL * n_rows * n_columns + NUMBERS_PER_ENTRY * n_entries
            return f"dense matrices of {n_rows} x {n_columns}", 8 * numbers / 1e9
        size = 8 * NUMBERS_SPARSE * n_entries
        held = f"{n_entries} observed entries and thin factors"
        if program is not None:
            size += program.background.held_bytes
            if program.background.n_read:
                read = program.background.n_read
                held += f", {read} cells read by blocks of rows at each step"
        return held, size / 1e9

    def solve(self, compiled: CompiledProblem, settings: Settings) -> Outcome:
        """The loop around the solver."""
        return run(self.solver_for(compiled), compiled.program, settings)

    def solver_for(self, compiled: CompiledProblem) -> Solver[Program, Any]:
        """The solver, or within multipliers where the program has parts that it leaves to them."""
        return with_multipliers(self.solver, compiled.program)
