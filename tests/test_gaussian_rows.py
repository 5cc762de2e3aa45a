"""A Gaussian of the rows: its formulas, its answers row by row, and what is refused."""

import pickle
from collections import Counter
from fractions import Fraction

import attrs
import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings
from scipy import sparse as sp
from scipy import stats

import mcframe as mc
from mcframe.backends import rowwise
from mcframe.backends.reference import null_size
from mcframe.backends.rowwise import RowLosses
from mcframe.compile import CompiledProblem
from mcframe.model import Problem
from mcframe.numerics.row_squares import RowSquares, residual_of
from mcframe.selection import HeldOutLoss

from .helpers import of_any_status
from .strategies import rows_with_effects, scaled_rows, weighty_rows

# A row and a column without an entry are among what is tried.
pytestmark = pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")


def covariance_of(size, condition=30.0, seed=0):
    """A covariance of so many columns with a condition, its largest eigenvalue 1."""
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]
    return (turn * condition ** -np.linspace(0.0, 1.0, size)) @ turn.T


def hidden(values, share=0.3, seed=1):
    """The values with holes."""
    return np.where(np.random.default_rng(seed).random(values.shape) < share, np.nan, values)


def conditional(x, covariance, mean, variance):
    """The conditional means of rows with noise, from the textbook's formula, row by row."""
    found = np.tile(mean, (len(x), 1))
    for row, values in enumerate(x):
        o = ~np.isnan(values)
        between = covariance[np.ix_(o, o)] + variance * np.eye(o.sum())
        found[row] += covariance[:, o] @ np.linalg.solve(between, values[o] - mean[o])
    return found


def gaussian(x, covariance, mean, variance=0.1, **options):
    """A fit of one Gaussian block."""
    block = mc.Block("x", mc.Gaussian(variance=variance))
    return mc.fit(mc.Model([block], [mc.GaussianRows(covariance, mean)]), {"x": x}, **options)


@pytest.fixture(scope="module")
def mixed():
    """Blocks of four kinds over ten columns of Z, a row and a column without an entry."""
    rng = np.random.default_rng(5)
    data = {
        "x": hidden(rng.standard_normal((25, 3))),
        "y": hidden((rng.random((25, 2)) < 0.5) * 1.0),
        "c": hidden(rng.poisson(1.5, (25, 2)) * 1.0),
        "k": hidden(rng.integers(0, 3, (25, 1)) * 1.0),
    }
    for table in data.values():
        table[3] = np.nan
    data["y"][:, 1] = np.nan
    blocks = [
        mc.Block("x", mc.Gaussian(variance=0.3)),
        mc.Block("y", mc.Bernoulli(), weight=2.0, reduce="mean"),
        mc.Block("c", mc.Poisson()),
        mc.Block("k", mc.Multinomial(3)),
    ]
    mean = rng.standard_normal(10)
    return mc.Model(blocks, [mc.GaussianRows(covariance_of(10), mean, weight=0.7)]), data


def test_the_value_is_minus_the_logarithm_of_a_density():
    rng = np.random.default_rng(0)
    z, mean, covariance = rng.standard_normal((6, 4)), rng.standard_normal(4), covariance_of(4)
    density = stats.multivariate_normal(mean, covariance)
    wanted = np.sum(density.logpdf(mean) - density.logpdf(z))
    assert mc.GaussianRows(covariance, mean).value(z) == pytest.approx(wanted, rel=1e-12)
    assert mc.GaussianRows(covariance, mean, 3.0).value(z) == pytest.approx(3 * wanted, rel=1e-12)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_gaussian_entries_get_their_conditional_means(condition, offset):
    rng = np.random.default_rng(2)
    covariance, mean = covariance_of(7, condition), offset + rng.standard_normal(7)
    x = hidden(rng.multivariate_normal(mean, covariance + 0.1 * np.eye(7), 40))
    x[5], x[6, 1:], x[:, 2] = np.nan, np.nan, np.nan
    fit = gaussian(x, covariance, mean, tol=1e-9)
    assert fit.backend == "rowwise"
    assert fit.status == "certified"
    assert fit.history.records[-1].iteration == 1
    wanted = conditional(x, covariance, mean, 0.1)
    np.testing.assert_allclose(fit.latent.dense(), wanted, rtol=0.0, atol=1e-9 * (1.0 + offset))
    np.testing.assert_array_equal(fit.latent.dense()[5], mean)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (6, 1)])
def test_one_row_and_one_column(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    covariance, mean = covariance_of(shape[1]), np.ones(shape[1])
    fit = gaussian(x, covariance, mean)
    wanted = conditional(x, covariance, mean, 0.1)
    np.testing.assert_allclose(fit.latent.dense(), wanted, rtol=1e-12)


def test_scales_of_columns_do_not_matter():
    """Columns of 1e-12 and 1e12 beside others get what they get in units of their own."""
    scales, covariance = np.array([1e-12, 1.0, 1e12, 1e3]), covariance_of(4)
    rng = np.random.default_rng(0)
    x = hidden(rng.multivariate_normal(np.ones(4), covariance, 30))
    blocks = [mc.Block(f"x{k}", mc.Gaussian(variance=0.1 * s**2)) for k, s in enumerate(scales)]
    model = mc.Model(blocks, [mc.GaussianRows(covariance * np.outer(scales, scales), scales)])
    with np.errstate(all="raise"):
        fit = mc.fit(model, {f"x{k}": scales[k] * x[:, [k]] for k in range(4)}, tol=1e-9)
    wanted = conditional(x, covariance, np.ones(4), 0.1)
    np.testing.assert_allclose(fit.latent.dense() / scales, wanted, rtol=1e-9, atol=1e-9)


def test_exact_entries_are_met_and_the_rest_regressed_on_them():
    """A noise of 1e-10: systems whose curvature is 1e10 of the cost of a row."""
    covariance, x = covariance_of(5), hidden(np.random.default_rng(0).standard_normal((12, 5)))
    fit = gaussian(x, covariance, np.zeros(5), variance=1e-10, tol=1e-9)
    wanted = conditional(x, covariance, np.zeros(5), 1e-10)
    np.testing.assert_allclose(fit.latent.dense(), wanted, rtol=0.0, atol=1e-7)


def test_a_row_of_the_fit_given_as_a_new_one_is_itself(mixed):
    model, data = mixed
    fit = mc.fit(model, data, tol=1e-10)
    assert (fit.backend, fit.status) == ("rowwise", "certified")
    rows = fit.latent_rows(data).dense()
    np.testing.assert_allclose(rows, fit.latent.dense(), rtol=0.0, atol=1e-9)
    alone = fit.latent_rows({name: table[7:8] for name, table in data.items()}).dense()
    np.testing.assert_allclose(alone[0], fit.latent.dense()[7], rtol=0.0, atol=1e-9)
    for name in data:
        np.testing.assert_allclose(fit.predict_rows(name, data), fit.predict(name), atol=1e-9)


def test_a_ridge_joins(mixed):
    model, data = mixed
    ridged = attrs.evolve(model, terms=[*model.terms, mc.Ridge(0.4)])
    fit = mc.fit(ridged, data, tol=1e-9)
    assert mc.verify(ridged, data).agrees
    assert (fit.backend, fit.status) == ("rowwise", "certified")
    rows = fit.latent_rows(data).dense()
    np.testing.assert_allclose(rows, fit.latent.dense(), rtol=0.0, atol=1e-9)


def test_squares_with_a_ridge_are_their_sum():
    rng = np.random.default_rng(0)
    term = mc.GaussianRows(covariance_of(4, 1e4), rng.standard_normal(4), 2.0)
    (z, other), squares = rng.standard_normal((2, 5, 4)), term.squares.with_ridge(0.7)

    def both(rows):
        return term.value(rows) + mc.Ridge(0.7).value(rows)

    # They are that less a constant.
    differ = squares.value(z) - squares.value(other)
    assert differ == pytest.approx(both(z) - both(other), rel=1e-9)
    dual = squares.gradient(z)  # where Fenchel's inequality is an equality
    np.testing.assert_allclose(dual, term.squares.gradient(z) + 0.7 * z, rtol=1e-9)
    reached = np.vdot(dual, z) - squares.value(z)
    assert squares.dual(dual).conjugate() == pytest.approx(reached, rel=1e-9)
    np.testing.assert_allclose(squares.best_rows(dual), z, rtol=1e-9, atol=1e-9)
    latent = squares.latent(squares.coordinates(z))
    np.testing.assert_allclose(latent.dense(), z, atol=1e-12)


def test_the_bound_holds_away_from_the_optimum(mixed):
    """At the start, at the mean, the gap is wide, and the bound below the optimum."""
    model, data = mixed
    fit = mc.fit(model, data, tol=1e-10)
    first = fit.history.records[0]
    assert first.gap > 1e-2
    assert first.bound < fit.objective - 1e-6


def test_short_systems_are_those_of_all_columns(mixed):
    """Newton's step from the observed entries is that from the columns, by Woodbury."""
    model, data = mixed
    model = attrs.evolve(model, blocks=model.blocks[:1], terms=[mc.GaussianRows(covariance_of(3))])
    program = CompiledProblem(mc.Problem.bind(model, {"x": data["x"]})).program
    squares = program.penalty.squares
    block_loss = program.loss.block_losses[0]
    losses = RowLosses.of(25, (block_loss,), (slice(0, 3),), squares.centre, squares.loadings)
    assert losses.has_short_rows
    here = losses.at(np.random.default_rng(0).standard_normal((25, 3)))
    curvatures, _ = losses.curvatures(here)
    lines = losses.pattern.by_rows
    steps = losses.newton_steps(here)
    for row in range(25):
        own = lines.places[lines.starts[row] : lines.starts[row + 1]]
        loadings = losses.loadings[losses.columns[own]]
        system = np.eye(3) + (loadings.T * curvatures[own]) @ loadings
        wanted = np.linalg.solve(system, -here.gradient[row])
        np.testing.assert_allclose(steps[row], wanted, rtol=1e-9, atol=1e-12)


def test_entries_come_row_after_row_in_whatever_order_they_are_given(monkeypatch):
    monkeypatch.setattr("mcframe.backends.rowwise.BATCH_NUMBERS", 100)
    rng = np.random.default_rng(0)
    x = hidden(rng.standard_normal((40, 4)))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows(np.eye(4))])
    wanted = mc.fit(model, {"x": x}).latent.dense()
    rows, columns = np.nonzero(~np.isnan(x))
    order = rng.permutation(rows.size)
    table = sp.coo_array((x[rows, columns][order], (rows[order], columns[order])), shape=x.shape)
    for entries in (table, table.tocsc(), np.asfortranarray(x)):
        np.testing.assert_array_equal(mc.fit(model, {"x": entries}).latent.dense(), wanted)


def test_batches_of_rows_are_all_rows(mixed, monkeypatch):
    model, data = mixed
    whole = mc.fit(model, data)
    monkeypatch.setattr("mcframe.backends.rowwise.BATCH_NUMBERS", 300)
    parts = mc.fit(model, data)
    np.testing.assert_allclose(parts.latent.dense(), whole.latent.dense(), atol=1e-12)


def test_standard_units():
    """Mean and covariance speak of standard units; answers are the data's."""
    x = hidden(1e9 + 5.0 * np.random.default_rng(0).standard_normal((30, 3)))
    block, term = mc.Block("x", mc.Gaussian(), standardize=True), mc.GaussianRows(covariance_of(3))
    fit = mc.fit(mc.Model([block], [term]), {"x": x}, tol=1e-9)
    assert (fit.backend, fit.status) == ("rowwise", "certified")
    spread = np.nanstd(x, axis=0)
    assert np.all(np.abs(fit.predict("x") - 1e9) < 5.0 * spread)
    np.testing.assert_allclose(fit.predict_rows("x", {"x": x}), fit.predict("x"), rtol=1e-14)


def test_beside_a_nuclear_norm_it_is_a_smooth_term():
    x = hidden(np.random.default_rng(0).standard_normal((12, 4)))
    terms = [mc.NuclearNorm(0.5), mc.GaussianRows(covariance_of(4, 10.0), np.ones(4))]
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], terms)
    fit = mc.fit(model, {"x": x})
    assert fit.backend == "proximal"
    assert mc.verify(model, {"x": x}).agrees
    with pytest.raises(mc.ModelError, match=r"with Ridge and Box only; .* NuclearNorm too"):
        fit.latent_rows({"x": x})


def test_the_reference_takes_what_the_solver_leaves():
    x = hidden(np.random.default_rng(0).standard_normal((6, 3)))
    rows = mc.GaussianRows(covariance_of(3), np.ones(3))
    boxed = mc.Model([mc.Block("x", mc.Gaussian())], [rows, mc.Box(-0.5, 0.5)])
    fit = mc.fit(boxed, {"x": x})
    assert (fit.backend, fit.status) == ("reference", "certified")
    np.testing.assert_allclose(fit.latent_rows({"x": x}).dense(), fit.latent.dense(), atol=1e-6)


def block_of(likelihood=None, **options):
    return mc.Block("x", likelihood or mc.Gaussian(), **options)


@pytest.mark.parametrize(
    ("block", "terms", "reason"),
    [
        (block_of(bias=True), [], "the mean of GaussianRows has the part of a bias"),
        (block_of(row_effects=True), [], "free effects and thresholds tie rows"),
        (block_of(), [mc.Box(-1.0, 1.0)], "terms other than GaussianRows"),
        (block_of(mc.Quantile(0.5)), [], "Quantile has no gradient"),
        (block_of(), [mc.OnesColumn()], "an intercept of each column already; drop OnesColumn"),
    ],
)
def test_what_the_solver_refuses_it_says(block, terms, reason):
    model = mc.Model([block], [mc.GaussianRows(np.eye(3)), *terms])
    with pytest.raises(mc.BackendError, match=reason):
        mc.fit(model, {"x": np.ones((4, 3))}, backend="rowwise")


def test_other_solvers_refuse_by_what_they_can(mixed):
    model, data = mixed
    reasons = {verdict.name: verdict.reason for verdict in mc.explain(model, data).eligibilities}
    assert reasons["proximal"] == "GaussianRows is no function of singular values"
    assert reasons["factored"] == "GaussianRows has no factored form"
    assert reasons["rowwise"] is None


def test_a_wrong_number_of_columns_is_said():
    model = mc.Model([block_of(mc.Multinomial(3))], [mc.GaussianRows(np.eye(2))])
    with pytest.raises(mc.DataError) as error:
        mc.fit(model, {"x": np.zeros((4, 2))})
    assert str(error.value) == (
        "GaussianRows: a covariance of 2 columns was given; 6 are needed, those of all blocks"
        " side by side, K for each column of K classes"
    )


def test_a_path_needs_weights(mixed):
    model, data = mixed
    with pytest.raises(mc.ModelError, match=r"give weights=\[...\], descending, for Gaussian"):
        mc.path(model, data)
    path = mc.path(model, data, weights=[10.0, 1.0, 0.1])
    assert [fit.status for fit in path] == ["certified"] * 3
    x = hidden(np.random.default_rng(0).multivariate_normal(np.zeros(4), covariance_of(4), 60))
    alone = mc.Model([block_of(mc.Gaussian(0.01))], [mc.GaussianRows(covariance_of(4))])
    weights = [1e3, 1e2, 1.0, 1e-1]
    chosen = mc.cross_validate(alone, {"x": x}, weights=weights, criterion=HeldOutLoss(), cv=3)
    assert chosen.best_weight == 1.0


def test_a_fit_goes_on_from_another(mixed):
    model, data = mixed
    first = mc.fit(model, data)
    again = mc.fit(model, data, start=first)
    assert again.objective <= first.objective
    assert again.bound >= first.bound


def test_terms_and_fits_are_values(mixed):
    model, data = mixed
    term = model.terms[0]
    assert pickle.loads(pickle.dumps(term)) == term
    assert attrs.evolve(term, mean=term.mean + 1.0) != term
    assert attrs.evolve(term, covariance=2.0 * term.covariance) != term
    with pytest.raises(ValueError, match="read-only"):
        term.covariance[0, 0] = 2.0
    fit = mc.fit(model, data)
    read = pickle.loads(pickle.dumps(fit))
    assert read.gap == fit.gap
    np.testing.assert_array_equal(
        read.compact().predict_rows("y", data), fit.predict_rows("y", data)
    )


def test_loadings_of_any_scale_are_inverted():
    squares = RowSquares.of_loadings(np.zeros(2), np.array([[1e-12, 0.0], [5e11, 1e12]]))
    t = np.array([[0.3, -0.7]])
    np.testing.assert_allclose(squares.coordinates(t @ squares.loadings.T), t, rtol=1e-12)


def fractions_of(values):
    """An array of numbers as nested lists of fractions, which have no rounding."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values, dtype=float))


def solved(matrix, images):
    """The solution of a linear system in rational arithmetic, images side by side."""
    size, rows = len(matrix), np.hstack([matrix, images])
    for k in range(size):
        pivot = k + int(np.argmax([abs(value) for value in rows[k:, k]]))
        rows[[k, pivot]] = rows[[pivot, k]]
        rows[k] = rows[k] / rows[k, k]
        for other in set(range(size)) - {k}:
            rows[other] = rows[other] - rows[other, k] * rows[k]
    return rows[:, size:]


def exact_optimum(fit):
    """The optimum of Gaussian entries under a Gaussian of the rows and a ridge, as a fraction."""
    problem, (term, *ridges) = fit.problem, fit.model.terms
    size, ridge = term.mean.size, sum(fractions_of([r.weight for r in ridges]))
    heavy, x = (np.full((problem.n_items, size), Fraction(0)) for _ in range(2))
    for block in problem.model.blocks:
        table, own = problem.tables[block.name], problem.columns(block.name)
        weights = np.ones(table.n_entries) if table.weights is None else table.weights
        each = Fraction(problem.scale(block.name)) / Fraction(block.likelihood.variance)
        heavy[table.rows, table.columns + own.start] = fractions_of(weights) * each
        x[table.rows, table.columns + own.start] = fractions_of(table.values)
    unit, mean = fractions_of(np.eye(size)), fractions_of(term.mean)
    precision = Fraction(term.weight) * solved(fractions_of(term.covariance), unit)
    total = Fraction(0)
    for a, y in zip(heavy, x, strict=True):
        pulled = a * y + precision @ mean
        z = solved(precision + unit * (a + ridge)[:, None], pulled[:, None])[:, 0]
        away = z - mean
        total += a @ (y - z) ** 2 + away @ precision @ away + ridge * (z @ z)
    return total / 2


def hold_against_exact_optimum(fit, tol):
    """No bound above the optimum, no certificate that is not true, by rational arithmetic."""
    optimum = exact_optimum(fit)
    assert Fraction(fit.bound) <= optimum * (1 + Fraction(1e-14))
    if fit.status == "certified":
        size = max(abs(fit.objective), abs(fit.bound))
        assert fit.gap <= tol
        assert abs(float(Fraction(fit.objective) - optimum)) <= tol * size


@pytest.mark.parametrize("scale", [1e4, 1e8])
@pytest.mark.parametrize("away", [0.0, 1e3])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 1e6])
def test_a_column_of_another_scale_beside_a_ridge(scale, away, ridge):
    """The objective of the solver and that of the two terms are one."""
    deviations = np.array([1.0, 1.0, scale])
    x = (np.random.default_rng(0).standard_normal((3, 3)) + away) * deviations
    x[1:, 2], x[0, 2] = np.nan, 0.0
    alike = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.5], [0.3, 0.5, 1.0]])
    rows = mc.GaussianRows(alike * np.outer(deviations, deviations), away * deviations)
    fit = mc.fit(mc.Model([block_of()], [rows, mc.Ridge(ridge)]), {"x": x}, tol=1e-9)
    assert fit.status == "certified"
    hold_against_exact_optimum(fit, 1e-9)


@pytest.mark.parametrize("off", [1e-10, 1e-9])
def test_nearly_dependent_columns(off):
    """Conditions of 1e10: what rounding left of the Cholesky factor is known."""
    rng = np.random.default_rng(3)
    covariance = np.ones((4, 4)) + off * np.diag(rng.uniform(1.0, 2.0, 4))
    fit = gaussian(rng.standard_normal((1, 4)), covariance, np.zeros(4), 3.0 * off, tol=1e-9)
    assert fit.status == "certified"
    hold_against_exact_optimum(fit, 1e-9)
    limited = of_any_status(
        mc.fit, fit.model, {"x": fit.problem.tables["x"].values[None]}, tol=1e-14
    )
    assert limited.status == "limited_by_rounding"


@pytest.mark.parametrize("variance", [1e-8, 1e-12, 1e-16])
def test_exact_entries_are_certified(variance):
    """Rounding of z leaves no digit of the gradient there; Newton's systems have them all."""
    x = hidden(np.random.default_rng(0).standard_normal((5, 3)))
    fit = gaussian(x, covariance_of(3), np.zeros(3), variance, tol=1e-9)
    assert fit.status == "certified"
    hold_against_exact_optimum(fit, 1e-9)


def test_exact_entries_beside_classes_are_certified():
    rng = np.random.default_rng(0)
    x, k = hidden(rng.standard_normal((5, 3))), rng.integers(0, 3, (5, 1)) * 1.0
    blocks = [block_of(mc.Gaussian(1e-14)), mc.Block("k", mc.Multinomial(3))]
    model = mc.Model(blocks, [mc.GaussianRows(covariance_of(6))])
    fit = mc.fit(model, {"x": x, "k": k}, tol=1e-9)
    assert fit.status == "certified"


def test_a_start_of_huge_losses_beside_classes():
    """At the mean an exponential loss is 1e80: systems in scores lose all but that."""
    rng = np.random.default_rng(0)
    blocks = [mc.Block("t", mc.Exponential()), mc.Block("k", mc.Multinomial(3))]
    data = {"t": rng.exponential(size=(6, 2)), "k": rng.integers(0, 3, (6, 1)) * 1.0}
    mean = np.array([-190.0, -150.0, 0.0, 0.0, 0.0])
    model = mc.Model(blocks, [mc.GaussianRows(covariance_of(5), mean)])
    fit = mc.fit(model, data, tol=1e-9)
    assert fit.status == "certified"


def test_small_losses_far_from_0_are_not_nothing():
    """Beside y^2 the losses at the mean are nothing, beside the optimum they are everything."""
    x = np.array([[1e9 + 2.0, 1e9 - 1.0]])
    fit = of_any_status(
        mc.fit,
        mc.Model([block_of(mc.Gaussian(1e-4))], [mc.GaussianRows(np.eye(2), [1e9, 1e9])]),
        {"x": x},
        tol=1e-9,
    )
    assert fit.status == "limited_by_rounding"
    assert fit.objective == pytest.approx(float(exact_optimum(fit)), rel=1e-6)


def test_what_a_cholesky_factor_leaves_is_known_to_twice_the_digits():
    covariance = covariance_of(6, 1e9)
    factor = np.linalg.cholesky(covariance)
    exact = fractions_of(factor)
    wanted = (fractions_of(covariance) - exact @ exact.T).astype(float)
    np.testing.assert_allclose(residual_of(covariance, factor), wanted, rtol=0.0, atol=1e-22)


def run_scaled(n_examples, part, tol, record_property):
    statuses = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(scaled_rows())
    def holds(example):
        fit = of_any_status(mc.fit, *example, tol=tol)
        statuses[fit.status] += 1
        hold_against_exact_optimum(fit, tol)

    holds()
    record_property("scaled rows", f"tol {tol:g}: {dict(statuses)}")
    known = statuses["certified"] + statuses["limited_by_rounding"]
    assert known >= 0.9 * statuses.total()


@pytest.mark.parametrize("tol", [1e-6, 1e-9, 1e-12])
def test_columns_of_any_scale_are_certified_or_honestly_not(tol, record_property):
    run_scaled(15, 0, tol, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100, 103))
@pytest.mark.parametrize("tol", [1e-6, 1e-9, 1e-12])
def test_columns_of_any_scale_are_certified_or_honestly_not_often(part, tol, record_property):
    run_scaled(400, part, tol, record_property)


def test_the_part_of_a_ridge_has_digits_beside_a_wide_gaussian():
    """The gradient of the Gaussian is 1e-24 of the ridge's, and its conjugate 1e18 of a square."""
    labels = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    rows = mc.GaussianRows(1e18 * covariance_of(2), [3e8, -1e9])
    block = block_of(mc.Bernoulli(), weight=1e9)
    for ridge in (1e3, 1e9, 1e14):
        fit = mc.fit(mc.Model([block], [rows, mc.Ridge(ridge)]), {"x": labels})
        assert fit.status == "certified"


@pytest.mark.parametrize("word", [mc.Poisson(), mc.Huber(1.0), mc.Bernoulli()], ids=repr)
def test_rows_whose_mean_is_far_beyond_what_a_loss_can_be(word):
    """At the mean rates overflow, and other losses have no curvature; at Z = 0 they have."""
    values = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, np.nan]])
    rows = mc.GaussianRows(1e14 * covariance_of(2), [1e8, 3e8])
    model = mc.Model([block_of(word, weight=1e6)], [rows, mc.Ridge(1e-9)])
    fit = of_any_status(mc.fit, model, {"x": values})
    assert fit.status == "certified"


def run_weighty(n_examples, part, record_property):
    statuses = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(weighty_rows())
    def holds(example):
        fit = of_any_status(mc.fit, *example, max_seconds=20.0)
        statuses[fit.status] += 1
        assert fit.bound <= fit.objective + fit.rounding.total

    holds()
    record_property("weighty rows", str(dict(statuses)))
    known = statuses["certified"] + statuses["limited_by_rounding"]
    assert known >= 0.98 * statuses.total()


@pytest.mark.parametrize("n", [30, pytest.param(100, marks=pytest.mark.slow(seconds=1))])
def test_rows_of_any_unit_weight_and_ridge_are_certified(n, record_property):
    run_weighty(n, 1, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2, 4))
def test_rows_of_any_unit_weight_and_ridge_are_certified_often(part, record_property):
    run_weighty(500, part, record_property)


@pytest.mark.parametrize("weight", [1.0, 1e9])
@pytest.mark.parametrize("variance", [1e12, 1e25, 1e30])
@pytest.mark.some(0.2)
def test_rows_of_outliers_are_certified_whatever_their_variance(variance, weight):
    """In its tails Huber's loss is flat, so that Newton's steps are too long by any factor."""
    rng = np.random.default_rng(0)
    for width in (1, 3):
        x = rng.standard_normal((6, width))
        prior = mc.GaussianRows(variance * np.eye(width), np.full(width, 100.0 * variance**0.5))
        model = mc.Model([mc.Block("x", mc.Huber(1e-3), weight=weight)], [prior, mc.Ridge(1e-9)])
        assert mc.fit(model, {"x": x}, backend="rowwise").status == "certified"


@pytest.mark.parametrize("state", range(20))
def test_least_shares_are_where_slopes_vanish(state):
    """Of sums of Huber's losses along a line, with a minimum between 0 and 1."""
    rng = np.random.default_rng(state)
    centres, power = rng.uniform(0.0, 1.0, (5, 7)), rng.uniform(-40.0, 0.0, (5, 1))
    moves = 10.0**-power

    def slopes_at(shares):
        away = shares[:, None] * moves - centres
        return np.sum(moves * np.clip(away, -0.1, 0.1), axis=1)

    shares = rowwise.least_shares(slopes_at, np.ones(5), slopes_at(np.zeros(5)))
    assert np.all(np.abs(slopes_at(shares)) <= 1e-9 * moves[:, 0])


@pytest.mark.parametrize("effects", [{"bias": True}, {"row_effects": True}], ids=str)
@pytest.mark.parametrize("variance", [1e12, 1e14])
@pytest.mark.parametrize("power", [-100, 0, 100])
@pytest.mark.some(0.1)
def test_effects_beside_a_wide_gaussian_are_certified_by_the_reference(power, variance, effects):
    """The losses at Z = 0 are 1e12 times the optimum, whose gradients have few digits left."""
    rng, unit = np.random.default_rng(0), 2.0**power
    x = rng.standard_normal((8, 1)) @ rng.standard_normal((1, 3))
    x = unit * (x + 0.3 * rng.standard_t(2, (8, 3)))
    rows = mc.GaussianRows(variance * unit**2 * np.eye(3), np.zeros(3))
    block = mc.Block("x", mc.Huber(0.1 * unit), weight=1.0 / unit**2, **effects)
    fit = of_any_status(mc.fit, mc.Model([block], [rows]), {"x": x})
    assert fit.status == "certified"


def run_rows_with_effects(n_examples, part, record_property):
    statuses = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(rows_with_effects())
    def holds(example):
        try:
            fit = of_any_status(mc.fit, *example, max_seconds=20.0)
        except mc.BackendError:  # no conic solver answers
            statuses["no answer"] += 1
            return
        statuses[fit.status] += 1
        assert fit.bound <= fit.objective + fit.rounding.total

    holds()
    record_property("rows with effects", str(dict(statuses)))
    solved = statuses["certified"] + statuses["limited_by_rounding"]
    assert solved >= 0.8 * statuses.total()


@pytest.mark.parametrize("n", [10, pytest.param(30, marks=pytest.mark.slow(seconds=3))])
def test_rows_with_effects_of_any_unit_and_variance_are_certified(n, record_property):
    run_rows_with_effects(n, 1, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2, 4))
def test_rows_with_effects_of_any_unit_and_variance_are_certified_often(part, record_property):
    run_rows_with_effects(200, part, record_property)


@pytest.mark.parametrize("case", [0, 9, 10])
def test_fitted_thresholds_give_no_bound_above_the_optimum_in_any_unit(case):
    # Their losses have no conjugate: at the multipliers of copies F* would not be known.
    rng = np.random.default_rng(case)
    z = rng.standard_normal((8, 1)) @ rng.standard_normal((1, 4))
    levels = np.clip(np.round(z[:, :2] + 2.0), 1.0, 3.0)
    numbers = z[:, 2:] + 0.3 * rng.standard_normal((8, 2))
    covariance = 100.0 ** rng.uniform(-1.0, 4.0) * np.eye(4)
    blocks = [mc.Block("y", mc.Ordinal(levels=3)), mc.Block("x", mc.Huber(0.3), bias=True)]
    model = mc.Model(blocks, [mc.GaussianRows(covariance, np.zeros(4))])
    compiled = CompiledProblem(Problem.bind(model, {"y": levels, "x": numbers}))
    null = null_size(compiled.program)
    certificates = [
        mc.Reference().opinion(compiled, "CLARABEL", 1e-9, np.inf, unit)[1]
        for unit in (None, 1e-1 * null, 1e-2 * null, 1e-4 * null)
    ]
    least = min(certificate.objective for certificate in certificates)
    assert max(certificate.bound for certificate in certificates) <= least * (1.0 + 1e-12)
