"""Newton's step along the matrices of a rank, and what the proximal solver makes of it."""

import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import proximal
from mcframe.backends.proximal import FixedRank, Preconditioner, Tangent, newton_move
from mcframe.compile import CompiledProblem
from mcframe.model import Problem
from mcframe.numerics.operators import LowRank

pytestmark = pytest.mark.core


def orthonormal(rng, n_rows, width):
    return np.linalg.qr(rng.standard_normal((n_rows, width)))[0]


def tangent(at, rng):
    k = at.values.size
    left = rng.standard_normal((at.left.shape[0], k))
    right = rng.standard_normal((at.right.shape[0], k))
    aside = left - at.left @ (at.left.T @ left), right - at.right @ (at.right.T @ right)
    return Tangent(rng.standard_normal((k, k)), *aside)


def matrix_along(at, move, share):
    """Z moved along the matrices of its rank: ``share * move`` and a part of second order."""
    middle = np.diag(at.values) + share * move.middle
    left = at.left @ middle + share * move.left
    return left @ np.linalg.solve(middle, middle @ at.right.T + share * move.right.T)


def test_gradient_and_curvature_are_those_of_the_objective():
    rng = np.random.default_rng(0)
    seen, target = rng.random((9, 7)) < 0.7, 3.0 * rng.standard_normal((9, 7))
    left, right = orthonormal(rng, 9, 3), orthonormal(rng, 7, 3)
    values = np.array([4.0, 2.5, 1.0])
    gradient = np.where(seen, (left * values) @ right.T - target, 0.0)
    at = FixedRank(left, values, right, gradient)
    move = tangent(at, rng)

    def objective(share):
        z = matrix_along(at, move, share)
        loss = 0.5 * np.sum(np.square((z - target)[seen]))
        return loss + np.linalg.norm(z, "nuc")

    step = 1e-3
    before, here, after = (objective(s) for s in (-step, 0.0, step))
    written = at.matrix(move).dense()
    np.testing.assert_allclose(
        matrix_along(at, move, 1e-7) - matrix_along(at, move, -1e-7), 2e-7 * written, atol=1e-12
    )
    assert at.riemannian_gradient().dot(move) == pytest.approx(
        (after - before) / (2 * step), rel=1e-4
    )
    curved = at.hessian_product(move, np.where(seen, written, 0.0))
    second = (before + after - 2 * here) / step**2
    assert curved.dot(move) == pytest.approx(second, rel=1e-4)
    # Symmetric, and along the matrices of the rank.
    other = tangent(at, rng)
    mirrored = at.hessian_product(other, np.where(seen, at.matrix(other).dense(), 0.0))
    assert curved.dot(other) == pytest.approx(mirrored.dot(move))
    np.testing.assert_allclose(at.left.T @ curved.left, 0.0, atol=1e-12)
    np.testing.assert_allclose(at.right.T @ curved.right, 0.0, atol=1e-12)


@pytest.mark.parametrize("shape", [(9, 7), (7, 9)])
def test_the_preconditioner_inverts_an_even_curvature(shape):
    """Singular values of the gradient that crowd below the weight included."""
    rng = np.random.default_rng(0)
    left, right = orthonormal(rng, shape[0], 7), orthonormal(rng, shape[1], 7)
    crowded = np.array([0.99, 0.97, 0.94, 0.91])
    gradient = -left[:, :3] @ right[:, :3].T + (left[:, 3:] * crowded) @ right[:, 3:].T
    at = FixedRank(left[:, :3], np.array([4.0, 2.5, 0.1]), right[:, :3], gradient)
    near = (right if shape[0] > shape[1] else left)[:, 3:]
    curvature = 0.7
    precondition = Preconditioner(at, curvature, near)
    move = tangent(at, rng)
    found = precondition(at.hessian_product(move, curvature * at.matrix(move).dense()))
    for name in ("middle", "left", "right"):
        np.testing.assert_allclose(getattr(found, name), getattr(move, name), atol=1e-4)
    blind = Preconditioner(at, curvature, None)(
        at.hessian_product(move, curvature * at.matrix(move).dense())
    )
    assert np.max(np.abs(blind.left - move.left)) > 0.1


def test_a_stationary_point_stays():
    at = FixedRank(
        np.eye(4)[:, :1], np.ones(1), np.eye(3)[:, :1], -np.eye(4)[:, :3] * [1.0, 0.0, 0.0]
    )
    assert newton_move(at, lambda move: move, 1.0).length == 0.0


def noisy(shape=(90, 60), seed=0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((shape[0], 4)) @ rng.standard_normal((4, shape[1]))
    return np.where(rng.random(shape) < 0.4, z + rng.standard_normal(shape), np.nan)


def light_fit(table, likelihood, tol=1e-8):
    model = mc.Model([mc.Block("x", likelihood, bias=True)], [mc.NuclearNorm(1.0)])
    return mc.fit(model, {"x": table}, tol=tol, backend="proximal")


@pytest.mark.parametrize(
    ("shape", "likelihood"),
    [((90, 60), mc.Gaussian()), ((60, 90), mc.Gaussian()), ((90, 60), mc.Bernoulli())],
)
def test_leaps_spare_steps(monkeypatch, shape, likelihood):
    table = noisy(shape)
    if isinstance(likelihood, mc.Bernoulli):
        table = np.where(np.isnan(table), np.nan, table > 0.0)
    leaping = light_fit(table, likelihood)
    monkeypatch.setattr(proximal, "may_take_newton_step", lambda program, state: False)
    plain = light_fit(table, likelihood)
    assert leaping.status == plain.status == "certified"
    assert leaping.objective == pytest.approx(plain.objective, rel=2e-8)
    assert leaping.rank == plain.rank
    assert 2 * leaping.history[-1].iteration < plain.history[-1].iteration


@pytest.mark.parametrize("length", [3.0, 1e3, np.nan])  # tried, too far, an overflow
def test_a_leap_that_leads_up_leaves_the_iterate_and_waits(monkeypatch, length):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    program = CompiledProblem(Problem.bind(model, {"x": noisy()})).program
    solver = mc.Proximal()
    state = solver.init(program, None, np.random.default_rng(0))
    while not proximal.may_take_newton_step(program, state):
        solver.step(program, state)
    far = LowRank(length * np.ones((90, 1)), np.ones((60, 1)))
    monkeypatch.setattr(proximal, "newton_move_of", lambda *given: far)
    before, z = state.objective, state.iterates.iterate().array.copy()
    patience = state.steps_before_newton
    assert not proximal.riemannian_newton_step(program, state)
    np.testing.assert_array_equal(state.iterates.iterate().array, z)
    assert state.objective == before
    assert state.steps_before_newton == 2 * patience
    assert not proximal.may_take_newton_step(program, state)
    solver.step(program, state)  # an accelerated step instead, without momentum
    assert state.objective < before


def test_leaps_are_for_a_nuclear_norm_alone():
    table = noisy()
    for term in (mc.NuclearBall(20.0), mc.NuclearNorm(1.0)):
        program = CompiledProblem(
            Problem.bind(mc.Model([mc.Block("x", mc.Gaussian())], [term]), {"x": table})
        ).program
        solver = mc.Proximal()
        state = solver.init(program, None, np.random.default_rng(0))
        for _ in range(40):
            if proximal.may_take_newton_step(program, state):
                break
            solver.step(program, state)
        assert proximal.may_take_newton_step(program, state) == isinstance(term, mc.NuclearNorm)


def test_changes_of_the_gradient_follow_the_effects():
    """To first order, a bias solved for anew: its column's changes sum to 0."""
    table = noisy((40, 5))
    table[:, 0] = 1.0
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1.0)])
    program = CompiledProblem(Problem.bind(model, {"x": table})).program
    at = program.evaluate(LowRank.zeros(program.shape))
    move = np.random.default_rng(1).standard_normal((40, 5))
    change = program.gradient_changes(at, 1.0)(move.astype(np.float32))
    seen = ~np.isnan(table)
    centred = move - np.mean(move, axis=0, where=seen)
    np.testing.assert_allclose(change, np.where(seen, centred, 0.0), atol=1e-5)
