"""Points of hard constraints that meet in a planted one: found wherever the search begins."""

import warnings
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import Phase, given, seed, settings

import mcframe as mc
from mcframe.backends.feasible import made_feasible
from mcframe.compile import compile_problem
from mcframe.numerics.max_norm_bounds import max_norm, max_norm_subgradient
from mcframe.numerics.operators import LowRank
from mcframe.numerics.polyhedra import Polyhedron

from .strategies import planted_sets, tight_balls


def program_of(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        return compile_problem(mc.Problem.bind(model, data))


def sum_of_sets(program, latent, effects):
    """All sets and the losses at a point: finite where it is one of the sets."""
    latent, effects = made_feasible(program, latent, effects)
    total = program.penalty.value(latent) + program.evaluate(latent, None, effects).losses
    for term in program.terms:
        total += term.value(latent.columns(term.columns).dense(), effects)
    return total


def check(example, tally):
    """From 0, from near the data, and from far away."""
    model, data, size = example
    program, rng = program_of(model, data), np.random.default_rng(0)
    begun = tuple(
        np.zeros(block_loss.effects.size) if block_loss.effects.size else None
        for block_loss in program.loss.block_losses
    )
    for scale in (0.0, 1e-3, 1.0, 1e3):
        begin = LowRank.of(scale * size * rng.standard_normal(program.shape))
        begin = program.penalty.nearest(begin)
        effects = program.evaluate(begin, fixed=begun).effects
        tally["projections"] += 1
        assert np.isfinite(sum_of_sets(program, begin, effects)), (model, data, scale)


@pytest.mark.parametrize(
    ("part", "n_examples"), [(0, 60), pytest.param(1, 600, marks=pytest.mark.slow)]
)
def test_a_point_of_planted_sets_is_found(part, n_examples, record_property):
    tally = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(planted_sets())
    def holds(example):
        check(example, tally)

    holds()
    record_property("projections", str(tally["projections"]))


@pytest.mark.parametrize(
    ("part", "n_examples"), [(0, 25), pytest.param(1, 300, marks=pytest.mark.slow)]
)
def test_a_point_of_the_least_ball_is_found(part, n_examples):
    """Balls of 1 + 1e-7 to 1.001 times the least radius, small and large."""

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(tight_balls())
    def holds(example):
        model, data = example
        check((model, data, float(np.nanmax(np.abs(data["x"])))), Counter())

    holds()


@pytest.mark.parametrize("backend", ["factored", "splitting"])
def test_a_tight_box_beside_known_sums_and_ones_is_solved(backend):
    """Data of 1e-9 beside a column of ones."""
    rng = np.random.default_rng(3)
    planted = 1e-9 * rng.standard_normal((6, 4))
    sums = rng.standard_normal((3, 6))
    ball = mc.MaxNormBall(2.0) if backend == "factored" else mc.NuclearNorm(1e-10)
    low, high = planted.min(), planted.max()
    terms = [ball, mc.Box(low, high, "x"), mc.Calibration("x", sums, sums @ planted)]
    model = mc.Model([mc.Block("x", mc.Gaussian(1e-18))], [*terms, mc.OnesColumn()])
    data = {"x": planted + 1e-9 * rng.standard_normal(planted.shape)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, data, backend=backend, max_iter=300)
    assert np.isfinite(fit.objective)


def test_a_point_that_meets_all_constraints_stays_as_it_is():
    """Else an optimum near 0 would be a share of the data away from it."""
    x = np.outer([1.0, -2.0, 3.0], [1e6, 2e6])
    terms = [mc.MaxNorm(1e-12), mc.Box(-1e7, 1e7)]
    data = {"x": x}
    program = program_of(mc.Model([mc.Block("x", mc.Quantile(0.3))], terms), data)
    latent = LowRank(np.array([[1.0], [-2.0], [3.0]]), np.array([[1e6], [2e6]]))
    moved, _ = made_feasible(program, latent, (None,))
    assert np.array_equal(moved.dense(), x)


@pytest.mark.parametrize("state", range(200))
@pytest.mark.some(0.02, state=60)
def test_points_of_polyhedra_meet_bounds_and_equations(state):
    """From anywhere; where the bounds allow the shortest move to the equations, by that one."""
    rng = np.random.default_rng(state)
    n = int(rng.integers(2, 30))
    m, size = int(rng.integers(1, n)), 10.0 ** rng.uniform(-9.0, 9.0)
    planted, matrix = size * rng.standard_normal(n), rng.standard_normal((m, n))
    matrix *= 10.0 ** rng.uniform(-6.0, 6.0) * (rng.random((m, n)) < rng.choice([0.3, 1.0]))
    lower = planted - size * rng.choice([0.0, 1e-6, 0.1, 10.0, np.inf], n)
    upper = planted + size * rng.choice([0.0, 1e-6, 0.1, 10.0, np.inf], n)
    sets = Polyhedron.of(lower, upper, sp.csr_array(matrix), matrix @ planted)
    begin = planted + size * rng.choice([1e-3, 1.0, 1e3]) * rng.standard_normal(n)
    point = sets.near(begin)
    assert np.all((point >= lower) & (point <= upper))
    left = np.abs(sets.coefficients @ point - sets.targets)
    assert np.all(left <= 1e-11 * np.max(np.abs(point)))
    free = Polyhedron.of(
        np.full(n, -np.inf), np.full(n, np.inf), sp.csr_array(matrix), matrix @ planted
    )
    shortest = begin - np.linalg.pinv(matrix, rcond=1e-12) @ (matrix @ (begin - planted))
    assert np.allclose(free.near(begin), shortest, atol=1e-9 * np.max(np.abs(begin)))


@pytest.mark.parametrize("state", range(20))
@pytest.mark.some(0.1, state=8)
def test_a_subgradient_of_the_max_norm_lies_below_it(state):
    rng = np.random.default_rng(state)
    shape = tuple(rng.integers(1, 7, 2))
    matrix = rng.standard_normal(shape)
    gradient = max_norm_subgradient(matrix)
    assert np.vdot(gradient, matrix) == pytest.approx(max_norm(matrix), rel=1e-6)
    for other in rng.standard_normal((20, *shape)):
        assert np.vdot(gradient, other) <= max_norm(other) * (1.0 + 1e-9)
