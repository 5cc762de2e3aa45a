"""Gradients whose rows and columns are scaled down: cheap, feasible, and never a false bound."""

import attrs
import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import certificate as candidate
from mcframe.backends.alternating import Alternating
from mcframe.backends.certificate import Point, certify
from mcframe.compile import compile_problem, tapers
from mcframe.numerics.operators import LowRank
from mcframe.numerics.sampled import Pattern, Sampled
from mcframe.numerics.tapering import LineCosts, cheapest, taper


@settings(max_examples=25)
@given(st.integers(2, 12), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_the_cheapest_scales_are_those_of_a_conic_solver(n_lines, n_needed, seed):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(n_lines, 0.5), size=n_needed).T + 1e-3
    needed = rng.uniform(0.01, 0.5, n_needed)
    linear, quadratic = rng.uniform(0.0, 2.0, n_lines), rng.uniform(0.1, 5.0, n_lines)
    h = cvxpy_scales(shares, needed, linear, quadratic)
    found = cheapest(shares, needed, linear, quadratic)
    assert np.all(found >= 0.0)
    assert np.all(shares.T @ found >= needed * (1 - 1e-3))

    def cost(scales):
        return linear @ scales + 0.5 * quadratic @ scales**2

    assert cost(found) <= cost(h) * (1 + 1e-3) + 1e-9


def cvxpy_scales(shares, needed, linear, quadratic):
    """The same problem, stated."""
    h = cp.Variable(linear.size, nonneg=True)
    cost = linear @ h + 0.5 * cp.sum(cp.multiply(quadratic, cp.square(h)))
    cp.Problem(cp.Minimize(cost), [shares.T @ h >= needed]).solve(solver=cp.CLARABEL)
    return h.value


def with_a_heavy_row(rng):
    """Noise of norm below 1, but for a row that stands out."""
    dense = rng.standard_normal((120, 80)) * (rng.random((120, 80)) < 0.3)
    dense[7] *= 3.0
    rest = np.delete(dense, 7, axis=0)
    return dense / np.linalg.norm(rest, 2) * 0.97


def sparse_of(dense):
    rows, columns = np.nonzero(dense)
    return Sampled(Pattern.of(dense.shape, rows, columns), dense[rows, columns])


def test_a_heavy_row_alone_is_scaled_down():
    dense = with_a_heavy_row(np.random.default_rng(0))
    matrix = sparse_of(dense)
    assert np.linalg.norm(dense, 2) > 1.2
    costs = LineCosts(np.ones(200), np.ones(200))
    scaled, bound, untouched = taper(matrix, 1.0, costs, 1e-3, 1e-6)
    assert np.linalg.norm(dense, 2) <= untouched <= 1.01 * np.linalg.norm(dense, 2)
    found = scaled @ np.eye(80)
    ratios = np.divide(found, dense, out=np.full_like(dense, np.nan), where=dense != 0.0)
    known = ratios[dense != 0.0]
    exact = np.linalg.norm(found, 2)
    assert exact <= bound <= exact * (1 + 1e-5)
    assert exact <= 1.01
    assert np.all((known > 0.0) & (known <= 1.0 + 1e-12))
    assert np.nanmean(ratios[7]) < 0.75
    assert np.nanmean(np.delete(ratios, 7, axis=0)) > 0.97


def test_lines_of_infinite_cost_stay_as_they_are():
    dense = with_a_heavy_row(np.random.default_rng(0))
    costs = LineCosts(np.concatenate([np.full(120, np.inf), np.ones(80)]), np.ones(200))
    found = taper(sparse_of(dense), 1.0, costs, 1e-3, 1e-6)[0] @ np.eye(80)
    ratios = np.divide(found, dense, out=np.full_like(dense, np.nan), where=dense != 0.0)
    assert np.nanmax(np.nanmax(ratios, axis=0) - np.nanmin(ratios, axis=0)) < 1e-12
    assert np.nanmin(ratios) < 0.97


def test_scales_that_cost_nothing_at_first():
    """As where Z pulls the wrong way; scaling all of the matrix costs as little then."""
    dense = with_a_heavy_row(np.random.default_rng(0))
    matrix = sparse_of(dense)
    scaled, bound, _ = taper(matrix, 1.0, LineCosts(np.zeros(200), np.ones(200)), 1e-3, 1e-6)
    exact = np.linalg.norm((scaled @ np.eye(80)), 2)
    assert exact <= bound < np.linalg.norm(dense, 2)


def test_what_is_short_enough_stays_as_it_is():
    dense = with_a_heavy_row(np.random.default_rng(0))
    matrix = sparse_of(dense)
    costs = LineCosts(np.ones(200), np.ones(200))
    found, bound, untouched = taper(matrix, 2.0 * np.linalg.norm(dense, 2), costs, 1e-3, 1e-6)
    assert found is matrix
    assert bound == untouched >= np.linalg.norm(dense, 2)


def table(bias, seed=0):
    """A model of reals and labels, and a sparse table of rank 2 for it."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 120))
    y = z + 0.5 * rng.standard_normal(z.shape)
    seen = rng.random(z.shape) < 0.06
    y[:, 80:] = y[:, 80:] > 0.0
    parts = {"x": (slice(0, 80), mc.Gaussian()), "y": (slice(80, 120), mc.Bernoulli())}
    data, blocks = {}, []
    for name, (part, word) in parts.items():
        rows, columns = np.nonzero(seen[:, part])
        shape = seen[:, part].shape
        data[name] = sp.csr_array((y[:, part][rows, columns], (rows, columns)), shape=shape)
        blocks.append(mc.Block(name, word, bias=bias))
    return mc.Model(blocks, [mc.NuclearNorm(2.0)]), data


@pytest.mark.parametrize("bias", [False, True])
def test_a_tapered_bound_holds_and_is_the_tighter_one(monkeypatch, bias):
    """At iterates on the way, beside the optimum by gradients that are held dense."""
    model, data = table(bias)
    exact = mc.fit(model, data, backend="proximal", tol=1e-4)
    program = compile_problem(mc.Problem.bind(model, data)).held_for(in_factors=True)
    assert tapers(program)
    solver, gains = Alternating(), []
    state = solver.init(program, None, np.random.default_rng(0))
    for number in range(7):
        solver.step(program, state)
        if number < 3:
            continue
        point = solver.candidate(program, state)
        with_taper = certify(program, point, 1e-4).bound
        monkeypatch.setattr(candidate, "tapers", lambda program: False)
        without = certify(program, point, 1e-4).bound
        monkeypatch.undo()
        assert with_taper <= exact.objective * (1 + 1e-10)
        gains.append(with_taper - without)
    assert max(gains) > 1e-3 * exact.objective
    assert np.median(gains) >= -1e-6 * exact.objective


def test_a_gradient_that_lines_make_shorter_at_a_high_cost_is_scaled_as_a_whole(monkeypatch):
    """Weights over eight orders of magnitude: scales are large, and costs are of small ones."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 8))
    y = (z + rng.logistic(size=z.shape) > 0.0) * 1.0
    y[rng.random(y.shape) < 0.4] = np.nan
    data = {"y": mc.Observations(y, weights=10.0 ** rng.uniform(-4, 4, y.shape))}
    blocks = [mc.Block("y", mc.Bernoulli(), bias=True)]
    weight = 0.2 * mc.weight_max(mc.Model(blocks, [mc.NuclearNorm(1.0)]), data)
    problem = mc.Problem.bind(mc.Model(blocks, [mc.NuclearNorm(weight)]), data)
    program = compile_problem(problem)
    program = attrs.evolve(program, entries=program.entries.with_form(True, 0))
    solver, bounds = Alternating(), []
    state = solver.init(program, None, np.random.default_rng(0))
    for _ in range(6):
        solver.step(program, state)
    point, shrink = solver.candidate(program, state), candidate.shrink_gradient
    for some in (slice(None), slice(0, 1), slice(1, 2)):
        monkeypatch.setattr(candidate, "shrink_gradient", lambda *a, s=some: shrink(*a)[s])
        bounds.append(certify(program, point, 1e-4).bound)
    both, shrunk, whole = bounds
    assert both == whole > shrunk


def test_row_effects_are_left_alone():
    model, data = table(False)
    blocks = [mc.Block("x", mc.Gaussian(), row_effects=True), mc.Block("y", mc.Bernoulli())]
    program = compile_problem(mc.Problem.bind(mc.Model(blocks, model.terms), data))
    assert not tapers(program)
    latent = LowRank(np.ones((400, 1)), np.ones((120, 1)))
    assert np.isfinite(certify(program, Point(latent)).bound)
