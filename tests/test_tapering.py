"""Gradients whose rows and columns are scaled down: cheap, feasible, and never a false bound."""

import attrs
import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import Point, certificate
from mcframe.backends.certificate import certify
from mcframe.compile import (
    compile_problem,
    may_be_tapered,
    scaling_costs,
    unexplained_gradients,
)
from mcframe.numerics import tapering
from mcframe.numerics.operators import LowRank
from mcframe.numerics.sampled import Pattern, Sampled
from mcframe.numerics.tapering import ScalingCosts, cheapest_scales, lower_directions
from mcframe.partitions.binding_rounds import bind_partitions
from mcframe.partitions.fit_partitions import executor_for
from mcframe.partitions.partitioned_data import RowsInMemory


@settings(max_examples=25)
@given(st.integers(2, 12), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_the_cheapest_scales_are_those_of_a_conic_solver(n_lines, n_needed, number):
    rng = np.random.default_rng(number)
    shares = rng.dirichlet(np.full(n_lines, 0.5), size=n_needed).T + 1e-3
    needed = rng.uniform(0.01, 0.5, n_needed)
    linear, quadratic = rng.uniform(0.0, 2.0, n_lines), rng.uniform(0.1, 5.0, n_lines)
    exact = cvxpy_scales(shares, needed, linear, quadratic)
    scales = cheapest_scales(shares, needed, linear, quadratic)
    assert np.all(scales >= 0.0)
    assert np.all(shares.T @ scales >= needed * (1 - 1e-3))

    def cost(h):
        return linear @ h + 0.5 * quadratic @ h**2

    assert cost(scales) <= cost(exact) * (1 + 1e-3) + 1e-9


def cvxpy_scales(shares, needed, linear, quadratic):
    """The same problem, stated."""
    h = cp.Variable(linear.size, nonneg=True)
    cost = linear @ h + 0.5 * cp.sum(cp.multiply(quadratic, cp.square(h)))
    cp.Problem(cp.Minimize(cost), [shares.T @ h >= needed]).solve(solver=cp.CLARABEL)
    return h.value


def shortening(matrix):
    """The matrix less shares of its own rows and columns, by its definition."""
    dense, n_rows = matrix.dense(), matrix.shape[0]
    rows, columns = np.nonzero(dense)

    def shortened(shares):
        [share] = shares
        less = dense * (1.0 - share[:n_rows, None] - share[n_rows:])
        return Sampled(matrix.pattern, less[rows, columns])

    return shortened


def heavy_row_shortened(linear, unit=1.0):
    """Noise of norm below 1 with a row that stands out: the matrix, before and after."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((120, 80)) * (rng.random((120, 80)) < 0.3)
    dense[7] *= 3.0
    dense /= np.linalg.norm(np.delete(dense, 7, axis=0), 2) / 0.97
    rows, columns = np.nonzero(dense)
    matrix = Sampled(Pattern.of(dense.shape, rows, columns), unit * dense[rows, columns])
    near = np.linalg.svd(dense)[2][:12].T
    costs = ScalingCosts(linear[None], np.ones((1, 200)))
    parts, none = [(matrix, matrix)], np.zeros((1, 200))
    (shares,), cost = lower_directions(
        shortening(matrix), parts, near, none, unit, 1e-3, costs, 1e3, np.inf
    )
    assert costs.of(shares[None]) <= cost
    return dense, dense * (1.0 - shares[:120, None] - shares[120:]), shares


def test_a_heavy_row_alone_is_shortened():
    dense, shortened, shares = heavy_row_shortened(np.ones(200))
    assert np.linalg.norm(dense, 2) > 1.2
    assert np.linalg.norm(shortened, 2) <= 1.01
    assert np.all((shares >= 0.0) & (shares < 1.0))
    assert shares[7] > 0.25
    assert np.mean(np.delete(shares, 7)) < 0.02


@pytest.mark.parametrize("unit", [1.0, 1e60, 1e-60])
def test_shares_in_single_precision_are_those_in_double(unit, monkeypatch):
    in_single = heavy_row_shortened(np.ones(200), unit)[2]
    monkeypatch.setattr(tapering, "LEAST_SINGLE_EXCESS", np.inf)
    in_double = heavy_row_shortened(np.ones(200))[2]
    assert not np.array_equal(in_single, in_double)
    np.testing.assert_allclose(in_single, in_double, atol=1e-4)


def test_lines_of_infinite_cost_stay_as_they_are():
    _, shortened, shares = heavy_row_shortened(np.concatenate([np.full(120, np.inf), np.ones(80)]))
    assert np.all(shares[:120] == 0.0)
    assert np.linalg.norm(shortened, 2) <= 1.01


def test_shares_that_cost_nothing_at_first():
    """As where Z pulls the wrong way."""
    assert np.linalg.norm(heavy_row_shortened(np.zeros(200))[1], 2) <= 1.01


def test_what_costs_more_than_scaling_everything_is_left_as_it_is():
    """Of a matrix whose longest directions lie on all rows."""
    rng = np.random.default_rng(0)
    dense = 1.1 * np.linalg.qr(rng.standard_normal((60, 40)))[0]
    matrix, none = (
        Sampled(Pattern.of((60, 40), *np.nonzero(dense)), dense.ravel()),
        np.zeros((1, 100)),
    )
    costs = ScalingCosts(np.full((1, 100), 10.0), np.ones((1, 100)))
    parts = [(matrix, matrix)]
    shares, cost = lower_directions(
        shortening(matrix), parts, np.eye(40), none, 1.0, 1e-6, costs, 1.0, np.inf
    )
    assert cost == pytest.approx(np.log(1.1))
    assert shares is none


def table(bias=False, row_effects=False, number=0):
    """A model of reals and labels, and a sparse table of rank 2 for it."""
    rng = np.random.default_rng(number)
    z = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 120))
    y = z + 0.5 * rng.standard_normal(z.shape)
    seen = rng.random(z.shape) < 0.06
    y[:, 80:] = y[:, 80:] > 0.0
    parts = {"x": (slice(0, 80), mc.Gaussian()), "y": (slice(80, 120), mc.Bernoulli())}
    data, blocks = {}, []
    for name, (part, word) in parts.items():
        rows, columns = np.nonzero(seen[:, part])
        values = y[:, part][rows, columns]
        data[name] = sp.csr_array((values, (rows, columns)), shape=seen[:, part].shape)
        blocks.append(mc.Block(name, word, bias=bias, row_effects=row_effects and name == "x"))
    return mc.Model(blocks, [mc.NuclearNorm(4.0)]), data


def iterates(program, count):
    """The first iterates of alternation."""
    solver = mc.Alternating()
    state = solver.init(program, None, np.random.default_rng(0))
    for _ in range(count):
        solver.step(program, state)
        yield solver.candidate(program, state)


def certified_both_ways(program, point, tol):
    """The certificates with and without scales of single rows and columns."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(certificate, "may_be_tapered", lambda program: False)
        by_one_number = certify(program, point, tol)
    return certify(program, point, tol), by_one_number


def scattered_sparse(number=0):
    """A sparse table of rank 3 with a weight above the noise, but for some rows and columns."""
    rng = np.random.default_rng(number)
    n, d, rank = 8_000, 800, 3
    cells = np.unique(rng.integers(0, n * d, 160_000))
    i, j = cells // d, cells % d
    left, right = rng.standard_normal((n, rank)), rng.standard_normal((d, rank))
    y = np.einsum("ij,ij->i", left[i], right[j]) + 0.5 * rng.standard_normal(cells.size)
    return sp.csr_array((y, (i, j)), shape=(n, d))


def test_an_optimum_is_not_solved_for_beyond_the_tolerance():
    """What sticks out of the ball on few rows is scaled down: its columns are not sought.

    Without that this fit takes half as many iterations again.
    """
    x = scattered_sparse()
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(12.0)])
    fit = mc.fit(model, {"x": x}, backend="alternating", tol=1e-4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(certificate, "may_be_tapered", lambda program: False)
        slow = mc.fit(model, {"x": x}, backend="alternating", tol=1e-4)
    assert fit.status == slow.status == "certified"
    assert fit.bound <= slow.objective
    assert 1.5 * fit.history.records[-1].iteration <= slow.history.records[-1].iteration


def parts_of(program, latent):
    """An evaluation, its gradient as a part of itself, and what factors do not explain of it."""
    at = program.evaluate(latent)
    whole = at.entry_gradients, at.entry_gradients
    return at, (whole, unexplained_gradients(program, at, latent))


def test_costs_are_derivatives_of_the_conjugate():
    """The cost of small shares is how far F* of what is left rises, to second order."""
    model, data = table(bias=False)
    program = compile_problem(mc.Problem.bind(model, data)).with_storage_for(in_factors=True)
    *_, point = iterates(program, 4)
    at, parts = parts_of(program, point.latent)
    costs = scaling_costs(program, at, parts)
    dual = certificate.dual_point(program, at, None)
    rng, step = np.random.default_rng(0), 1e-3
    for part, line in rng.choice(np.argwhere(costs.linear > 0.0), 12, replace=False):
        shares = np.zeros((2, 520))
        shares[part, line] = step
        lines = np.split(shares.T, [400])
        gradient = program.entries.less(dual.gradient, parts, *lines)
        rise = attrs.evolve(dual, gradient=gradient).conjugates()[0] - dual.conjugates()[0]
        assert rise == pytest.approx(costs.of(shares), rel=0.02, abs=1e-9)


def test_what_factors_do_not_explain_costs_next_to_nothing_at_first():
    """Its rows and columns are all but orthogonal to Z, those of the gradient are not."""
    model, data = table(bias=False)
    program = compile_problem(mc.Problem.bind(model, data)).with_storage_for(in_factors=True)
    *_, point = iterates(program, 8)
    at, parts = parts_of(program, point.latent)
    whole, unexplained = scaling_costs(program, at, parts).linear
    assert np.sum(unexplained) < 0.05 * np.sum(whole)


def test_parts_and_costs_of_partitions_are_those_of_the_table():
    model, data = table(bias=True)
    whole = compile_problem(mc.Problem.bind(model, data)).with_storage_for(in_factors=True)
    cut = RowsInMemory(data, 3)
    _, parts = bind_partitions(model, executor_for(model, cut, None))
    parts = parts.with_storage_for(in_factors=True)
    rng = np.random.default_rng(0)
    latent = LowRank(rng.standard_normal((400, 2)), rng.standard_normal((120, 2)))
    rows, columns = (rng.uniform(0.0, 0.5, (size, 2)) for size in (400, 120))
    costs, norms, found = [], [], []
    block, squares = rng.standard_normal((120, 3)), rng.uniform(1.0, 2.0, 3)
    for program in (whole, parts):
        assert may_be_tapered(program)
        at, pairs = parts_of(program, latent)
        matrices = [tuple(map(program.entries.matrix, pair)) for pair in pairs]
        slopes = at.gradient.relative_falls(matrices, block, squares)
        found.append((at.gradient.gram_within(block), *slopes))
        costs.append(scaling_costs(program, at, pairs))
        less = program.entries.less(at.entry_gradients, pairs, rows, columns)
        norms.append(program.entries.norm(less))
    one, many = costs
    np.testing.assert_allclose(many.linear, one.linear, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(many.quadratic, one.quadratic, rtol=1e-6)
    assert norms[1] == pytest.approx(norms[0], rel=1e-8)
    for of_parts, of_table in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(of_parts, of_table, rtol=1e-6, atol=1e-6)


def test_gradients_unexplained_by_other_factors_of_the_same_z_are_the_same():
    """Of counts, whose steps are shortened where they do not descend; in partitions, too."""
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(rng.random((60, 20)) < 0.5)
    values = rng.poisson(1.0, rows.size).astype(float)
    data = {"x": sp.csr_array((values, (rows, columns)), shape=(60, 20))}
    model = mc.Model([mc.Block("x", mc.Poisson())], [mc.NuclearNorm(4.0)])
    whole = compile_problem(mc.Problem.bind(model, data)).with_storage_for(in_factors=True)
    whole = attrs.evolve(whole, entries=whole.entries.with_form(True, 0))
    _, parts = bind_partitions(model, executor_for(model, RowsInMemory(data, 3), None))
    latent = LowRank(-2.0 * rng.random((60, 2)), rng.random((20, 2)))
    turned = LowRank(latent.left[:, ::-1], latent.right[:, ::-1])
    norms = []
    for program in (whole, parts.with_storage_for(in_factors=True)):
        at = program.evaluate(latent)
        for factors in (latent, turned):
            gradients = unexplained_gradients(program, at, factors)
            norms.append([program.entries.norm(gradient) for gradient in gradients])
    np.testing.assert_allclose(norms, np.broadcast_to(norms[0], (4, 2)), rtol=1e-6)


@pytest.mark.parametrize(
    "block",
    [
        mc.Block("x", mc.Gaussian(), row_effects=True),
        mc.Block("x", mc.Ordinal(5, lowest=0)),
        mc.Block("x", mc.Multinomial(5)),
    ],
)
def test_what_has_sums_or_several_numbers_is_left_alone(block):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (30, 12)).astype(float)
    problem = mc.Problem.bind(mc.Model([block], [mc.NuclearNorm(2.0)]), {"x": x})
    program = compile_problem(problem).with_storage_for(in_factors=True)
    program = attrs.evolve(program, entries=program.entries.with_form(True, 0))
    assert not may_be_tapered(program)
    latent = LowRank(np.ones((program.shape[0], 1)), np.ones((program.shape[1], 1)))
    assert np.isfinite(certify(program, Point(latent), 1e-2).bound)


@pytest.mark.parametrize(
    ("part", "n_examples"), [(0, 15), pytest.param(1, 500, marks=pytest.mark.slow)]
)
def test_bounds_of_random_tables_hold(part, n_examples):
    """Beside optima of gradients held dense: rows and columns of any size, several losses."""
    gains = []

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate], deadline=None)
    @given(
        st.integers(0, 2**32 - 1),
        st.sampled_from([mc.Gaussian(), mc.Bernoulli(), mc.Poisson(), mc.Huber()]),
        st.booleans(),
        st.sampled_from([0.0, 0.5]),
        st.floats(0.15, 0.6),
        st.sampled_from([0.1, 1e-2, 1e-3]),
    )
    def holds(number, likelihood, bias, count_share, share, tol):
        rng = np.random.default_rng(number)
        n, d = rng.integers(60, 200), rng.integers(20, 60)
        sizes = np.exp(rng.normal(0.0, 0.4, (n, 1)) + rng.normal(0.0, 0.4, d))
        y = sizes * (rng.standard_normal((n, 2)) @ rng.standard_normal((2, d)))
        y += rng.standard_normal(y.shape)
        if isinstance(likelihood, mc.Bernoulli):
            y = (y > 0.0) * 1.0
        elif isinstance(likelihood, mc.Poisson):
            y = rng.poisson(np.exp(np.clip(y, -2.0, 2.0))) * 1.0
        y[rng.random(y.shape) > rng.uniform(0.1, 0.5) * np.minimum(sizes, 2.0)] = np.nan
        y[np.arange(n), rng.integers(0, d, n)] = 1.0
        block, data = mc.Block("x", likelihood, bias=bias), {"x": y}
        unit = mc.Model([block], [mc.NuclearNorm(1.0, count_share=count_share)])
        weight = share * mc.weight_max(unit, data)
        model = mc.Model([block], [mc.NuclearNorm(weight, count_share=count_share)])
        program = compile_problem(mc.Problem.bind(model, data))
        program = attrs.evolve(program, entries=program.entries.with_form(True, 0))
        assert may_be_tapered(program)
        exact = mc.fit(model, data, backend="proximal", tol=1e-7).objective * (1.0 + 1e-9)
        for point in iterates(program, 8):
            tapered, by_one_number = certified_both_ways(program, point, tol)
            assert by_one_number.bound <= tapered.bound <= exact
            gains.append(tapered.bound > by_one_number.bound)

    holds()
    assert np.mean(gains) > 0.02
