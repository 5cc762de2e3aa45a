"""A solver from outside the package has all that the package's solvers have.

Each one here lets a solver of the package make its steps, and is none of its classes. Solver and
state have the members of the contract and no others, so an answer that differs, or an error, comes
from code that asks for a class or for a member that the contract does not name.
"""

import attrs
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.backends import Alternating, FactoredDescent, Proximal, Rowwise, Splitting
from mcframe.contracts import stored
from mcframe.contracts.solver import Solver
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.selection import Grid

from .helpers import check_equal_fits, of_any_status, table_of_rank_two

mpl.use("Agg")


@stored
@attrs.define(eq=False)
class OwnState:
    """A state of the package's solver, of which only the members of the contract are seen."""

    inside: object

    @property
    def residual(self):
        return self.inside.residual

    @property
    def rank(self):
        return self.inside.rank

    @property
    def finished(self):
        return self.inside.finished

    @property
    def objective(self):
        return self.inside.objective

    def increase_accuracy(self):
        self.inside.increase_accuracy()

    @property
    def evaluation(self):
        return self.inside.evaluation

    def retarget(self, program):
        self.inside.retarget(program)


@stored
@attrs.frozen
class OwnSolver(Solver):
    """A solver that asks another one for everything."""

    inside: object

    @property
    def name(self):
        return f"my {self.inside.name}"

    def refusal(self, program):
        return self.inside.refusal(program)

    def init(self, program, start, rng):
        return OwnState(self.inside.init(program, start, rng))

    def step(self, program, state):
        self.inside.step(program, state.inside)

    def stages(self, program, state):
        yield from self.inside.stages(program, state.inside)

    def pause(self, program, state):
        return OwnState(self.inside.pause(program, state.inside))

    def resume(self, program, paused, rng):
        return OwnState(self.inside.resume(program, paused.inside, rng))

    def expected_gap(self, state):
        return self.inside.expected_gap(state.inside)

    def candidate(self, program, state):
        return self.inside.candidate(program, state.inside)

    def holds_dense(self, program):
        return self.inside.holds_dense(program)


FACTS = ("dense", "in_factors", "reads_background", "sums_over_rows", "begins_at_zero")
for fact in (*FACTS, "answers_last", "leaves"):
    setattr(OwnSolver, fact, property(lambda self, fact=fact: getattr(self.inside, fact)))


def test_it_stands_in_for_every_member_of_the_contract():
    members = {name for name in vars(Solver) if not name.startswith("_")}
    assert members | {"name"} <= set(vars(OwnSolver))


SHAPE = (14, 5)
NORM = mc.NuclearNorm(1.5)
CASES = {
    "proximal": (Proximal(), mc.Gaussian(), [NORM]),
    "a ridge": (Proximal(), mc.Huber(), [NORM, mc.Ridge(0.3)]),
    "a column of ones": (Proximal(), mc.Gaussian(), [NORM, mc.OnesColumn()]),
    "splitting": (Splitting(), mc.Quantile(0.4), [NORM, mc.Box(-1.0, 1.0)]),
    "alternating": (Alternating(), mc.Gaussian(), [NORM]),
    "factored": (FactoredDescent(), mc.Gaussian(), [mc.MaxNorm(1.0)]),
    "factors and a box": (FactoredDescent(), mc.Gaussian(), [NORM, mc.Box(-1.0, 1.0)]),
    "rowwise": (Rowwise(), mc.Huber(), [mc.GaussianRows(np.eye(5))]),
}


@pytest.mark.parametrize(("solver", "likelihood", "terms"), CASES.values(), ids=CASES)
def test_every_verb_takes_it(solver, likelihood, terms, tmp_path):
    model, data = (
        mc.Model([mc.Block("y", likelihood, bias=True)], terms),
        {"y": table_of_rank_two(0, SHAPE)},
    )
    if isinstance(solver, Rowwise):
        model = mc.Model([mc.Block("y", likelihood)], terms)
    own = OwnSolver(solver)
    options = {"tol": 1e-5, "max_seconds": 20.0}
    theirs = of_any_status(mc.fit, model, data, backend=solver, **options)
    ours = of_any_status(mc.fit, model, data, backend=own, **options)
    check_equal_fits(ours, theirs, f"my {theirs.backend}")
    compared = mc.verify(model, data, backend=own, max_seconds=20.0)
    assert compared.agrees
    assert own.name in str(compared)
    ours.plot.gap()

    short = of_any_status(mc.fit, model, data, backend=own, tol=1e-5, max_iter=6)
    short.save(tmp_path / "short.mcf")
    file = tmp_path / "checkpoint"
    for iterations in (6, 20_000):
        resumed = of_any_status(
            mc.fit, model, data, backend=own, max_iter=iterations, checkpoint=file, **options
        )
    loaded = mc.load(tmp_path / "short.mcf")
    continued = of_any_status(mc.fit, model, data, backend=own, start=loaded, **options)
    for fit in (resumed, continued):
        assert fit.backend == own.name
        assert fit.objective <= short.objective
        assert fit.status == ours.status

    weighted = [term for term in terms if hasattr(term, "weight")]
    grid = Grid(values=[3.0, 1.5], term=type(weighted[0]))
    paths = [
        of_any_status(mc.path, model, data, weights=grid, backend=b, tol=1e-4)
        for b in (own, solver)
    ]
    for our_fit, their_fit in zip(*(path.fits for path in paths), strict=True):
        check_equal_fits(our_fit, their_fit, f"my {their_fit.backend}")
    scores = [
        of_any_status(
            mc.cross_validate, model, data, weights=grid, cv=2, backend=b, tol=1e-4
        ).table
        for b in (own, solver)
    ]
    pd.testing.assert_frame_equal(*scores)


def test_rows_in_partitions_take_it_or_say_which_they_take():
    model = mc.Model([mc.Block("y", mc.Gaussian())], [NORM])
    parts = RowsInMemory({"y": table_of_rank_two(0, SHAPE)}, n_partitions=3)
    theirs = mc.fit(model, parts, backend=Alternating())
    ours = mc.fit(model, parts, backend=OwnSolver(Alternating()))
    check_equal_fits(ours, theirs, f"my {theirs.backend}")
    with pytest.raises(mc.BackendError, match=r"OwnSolver.*'alternating' alone, or"):
        mc.fit(model, parts, backend=OwnSolver(Proximal()))


def test_it_is_refused_in_its_own_words():
    model = mc.Model([mc.Block("y", mc.Quantile(0.5))], [NORM])
    for solver in (Alternating(), OwnSolver(Alternating())):
        said = f"backend '{solver.name}' cannot run this problem: the loss Quantile has no"
        with pytest.raises(mc.BackendError, match=said):
            mc.fit(model, {"y": table_of_rank_two(0, SHAPE)}, backend=solver)
