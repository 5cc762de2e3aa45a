"""Known sums hold for what is predicted: effects, offsets and units included, in every reading."""

import itertools
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import mcframe as mc
from mcframe.backends.certificate import DualPoint
from mcframe.compile import CompiledProblem, Program
from mcframe.compile.effects import described_effects
from mcframe.compile.equations import Directions, EffectSquares, SquaresAt
from mcframe.model import Layout
from mcframe.numerics.operators import LowRank
from mcframe.sums.decomposed_equations import LinearEquations

from .strategies import SIDES, calibrated_models, values_of

RNG = np.random.default_rng(0)
N, D = 12, 4
X = np.where(RNG.random((N, D)) < 0.7, RNG.normal(3.0, 1.0, (N, D)), np.nan)
OFFSET = RNG.standard_normal((N, D))
MEAN = np.full((1, N), 1.0 / N)
HALVES = np.kron(np.eye(2), np.full(N // 2, 2.0 / N))
CONTRAST = HALVES[:1] - HALVES[1:]
EFFECTS = {
    "none": {},
    "biases": {"bias": True},
    "rows": {"row_effects": True},
    "both": {"bias": True, "row_effects": True},
    "ridge": {"bias": True, "row_effects": True, "effects_weight": 0.3},
}
COUNTS = RNG.poisson(3.0, (N, D)).astype(float)
LABELS = (COUNTS > 2.0) * 1.0


def sums_at(A, B, predicted):
    """A P - B, 0 where B is not known."""
    return np.where(np.isnan(B), 0.0, A @ predicted - np.nan_to_num(B))


# Random models have all of them together.
FORMS = [
    ("none", True, "robust"),
    ("biases", False, False),
    ("biases", True, True),
    ("rows", True, False),
    ("both", False, True),
    ("both", True, "robust"),
    ("ridge", True, False),
    ("ridge", False, True),
]


@pytest.mark.parametrize(
    ("effects", "offset", "standardize", "weight"),
    [
        *((*form, None) for form in FORMS),
        *((*form, 30.0) for form in FORMS[:3]),
        *(pytest.param(*form, 30.0, marks=pytest.mark.slow(seconds=1)) for form in FORMS[3:]),
    ],
)
@pytest.mark.some(0.7, effects=[0, 2, 3, 5, 6, 9])
def test_sums_are_those_of_what_is_predicted(effects, offset, standardize, weight):
    """And both readings find the same optimum, by equations and by a penalty."""
    block = mc.Block("x", mc.Gaussian(), standardize=standardize, **EFFECTS[effects])
    B = np.array([[10.0, 2.0, np.nan, 5.0], [9.0, 4.0, 1.0, np.nan]])
    calibration = mc.Calibration("x", HALVES, B, weight=weight)
    data = {"x": mc.Observations(X, offset=OFFSET) if offset else X}
    model = mc.Model([block], [mc.NuclearNorm(0.3), calibration])
    verified = mc.verify(model, data, tol=1e-5)
    assert verified.agrees, verified
    for fit in (verified.fast, verified.reference):
        off = sums_at(HALVES, B, fit.predict("x"))
        assert fit.residual("x") == pytest.approx(float(np.linalg.norm(off)), abs=1e-9)
        if weight is None:
            np.testing.assert_allclose(off, 0.0, atol=1e-6)
    if weight is not None:
        plain = mc.fit(mc.Model([block], [mc.NuclearNorm(0.3)]), data)
        away = np.linalg.norm(sums_at(HALVES, B, plain.predict("x")))
        assert verified.fast.residual("x") < 0.5 * away


@pytest.mark.parametrize("main", [mc.NuclearBall(4.0), mc.MaxNorm(0.5), mc.Ridge(0.4)], ids=repr)
@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.some(0.3)
def test_beside_every_main_regularizer(main, weight):
    block = mc.Block("x", mc.Huber(1.0), bias=True)
    term = mc.Calibration("x", MEAN, np.full((1, D), 7.0), weight=weight)
    verified = mc.verify(mc.Model([block], [main, term]), {"x": X}, tol=1e-4)
    assert verified.agrees, verified
    if weight is None:
        np.testing.assert_allclose(verified.fast.predict("x").mean(axis=0), 7.0, atol=1e-6)


@pytest.mark.parametrize("word", [mc.Quantile(0.3), mc.Quantile(0.5)], ids=repr)
def test_losses_without_a_gradient(word):
    block = mc.Block("x", word, bias=True)
    terms = [mc.NuclearNorm(0.7), mc.Calibration("x", MEAN, np.full((1, D), 4.0))]
    verified = mc.verify(mc.Model([block], terms), {"x": X}, tol=1e-4)
    assert verified.agrees, verified
    np.testing.assert_allclose(verified.fast.natural("x").mean(axis=0), 4.0, atol=1e-6)


def test_a_known_mean_moves_the_bias_and_not_z():
    """The bias costs nothing: Z is that of the fit without the equation, up to the tolerance."""
    block, tol = mc.Block("x", mc.Gaussian(), bias=True), 1e-9
    means = mc.Calibration("x", MEAN, np.full((1, D), 10.0))
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(50.0), means]), {"x": X}, tol=tol)
    assert fit.status == "certified"
    assert fit.rank == 0  # meeting the equation takes the biases alone
    np.testing.assert_allclose(fit.bias("x"), 10.0, rtol=1e-9)


@pytest.mark.slow(seconds=1)
def test_a_penalty_and_equations_of_one_block_share_its_effects():
    block = mc.Block("x", mc.Gaussian(), bias=True, row_effects=True)
    terms = [
        mc.Calibration("x", MEAN, np.full((1, D), 5.0)),
        mc.Calibration("x", CONTRAST, np.full((1, D), 1.0), weight=20.0),
    ]
    verified = mc.verify(mc.Model([block], [mc.NuclearNorm(0.5), *terms]), {"x": X})
    assert verified.agrees, verified
    np.testing.assert_allclose(verified.fast.predict("x").mean(axis=0), 5.0, atol=1e-7)


@pytest.mark.parametrize("away", [0.0, 1e6, 1e9])
def test_values_far_from_0_lose_no_digit(away):
    """Effects are counted from the data, and the equations with them."""
    block = mc.Block("x", mc.Gaussian(), bias=True)
    wanted = away + np.array([[3.5, 2.0, 4.0, 3.0]])
    terms = [mc.NuclearNorm(0.3), mc.Calibration("x", MEAN, wanted)]
    fit = mc.fit(mc.Model([block], terms), {"x": X + away})
    assert fit.status == "certified"
    np.testing.assert_allclose(fit.predict("x").mean(axis=0), wanted[0], atol=1e-15 * away + 1e-9)
    plain = mc.fit(
        mc.Model([block], [terms[0], mc.Calibration("x", MEAN, wanted - away)]), {"x": X}
    )
    assert fit.objective == pytest.approx(plain.objective, rel=1e-5)


@pytest.mark.parametrize("scale", [1e30, 1e100])
@pytest.mark.parametrize("weight", [None, 1.0])
def test_sums_of_any_size_raise_no_warning(scale, weight):
    """Equations of full rank have nothing out of reach, however large what rounding leaves is."""
    known = mc.Calibration("x", MEAN, scale * np.array([[3.5, 2.0, 4.0, 3.0]]), weight=weight)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1 * scale), known])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, {"x": scale * X}, max_iter=100)
    if weight is None:
        np.testing.assert_allclose(MEAN @ fit.predict("x"), known.B, rtol=1e-9)


def test_empty_columns_and_rows_follow_the_equations():
    """A bias, or the effect of a row, without an entry is what the equation leaves for it."""
    x = X.copy()
    x[:, 1] = np.nan
    x[3] = np.nan
    block = mc.Block("x", mc.Gaussian(), bias=True, row_effects=True)
    terms = [mc.NuclearNorm(0.5), mc.Calibration("x", MEAN, [[3.0, 8.0, 3.0, 3.0]])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        verified = mc.verify(mc.Model([block], terms), {"x": x})
    assert verified.agrees, verified
    assert verified.fast.predict("x")[:, 1].mean() == pytest.approx(8.0, abs=1e-6)


def test_the_objective_has_the_term_at_the_predictors():
    block = mc.Block("x", mc.Gaussian(), bias=True, row_effects=True)
    term = mc.Calibration("x", HALVES, np.ones((2, D)), weight=2.0)
    data = {"x": mc.Observations(X, offset=OFFSET)}
    with_term = mc.Problem.bind(mc.Model([block], [mc.Ridge(1.0), term]), data)
    without = mc.Problem.bind(mc.Model([block], [mc.Ridge(1.0)]), data)
    z, effects = RNG.standard_normal((N, D)), {"x": RNG.standard_normal(D + N)}
    predictors = z + effects["x"][:D] + effects["x"][D:, None] + OFFSET
    origin = with_term.origins.get("x", np.zeros(D + N))
    predictors = predictors + origin[:D] + origin[D:, None]
    wanted = 2.0 * np.sum(np.square(HALVES @ predictors - 1.0))
    found = with_term.objective(z, effects) - without.objective(z, effects)
    assert found == pytest.approx(wanted, rel=1e-9)


def test_labels_all_alike_have_a_finite_bias_where_sums_hold_it():
    """No note on an infinite effect; that of a column of which nothing is known stays infinite."""
    y = LABELS.copy()
    y[:, :2] = 0.0
    block = mc.Block("y", mc.Bernoulli(), bias=True)
    term = mc.Calibration("y", MEAN, [[-2.0, np.nan, 0.0, 0.5]], of="predictors")
    verified = mc.verify(mc.Model([block], [mc.NuclearNorm(0.3), term]), {"y": y})
    assert verified.agrees, verified
    fit = verified.fast
    assert fit.natural("y").mean(axis=0)[[0, 2, 3]] == pytest.approx([-2.0, 0.0, 0.5], abs=1e-6)
    assert [note for note in fit.notes if "no finite" in note] == [
        note for note in fit.notes if "bias of column 1" in note
    ]


CLASSES = RNG.integers(0, 3, (N, 2)).astype(float)
WORDS = {
    "counts": (mc.Poisson(), COUNTS),
    "durations": (mc.Gamma(), COUNTS + 1.0),
    "labels": (mc.Bernoulli(scale=0.5), LABELS),
    "scores": (mc.Hinge(), LABELS),
    "levels": (mc.Ordinal(4), np.minimum(COUNTS, 3.0)),
    "classes": (mc.Multinomial(3), CLASSES),
    "risks": (mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli()), LABELS),
}


@pytest.mark.parametrize("weight", [None, 2.0])
@pytest.mark.parametrize("name", WORDS)
def test_totals_of_means_that_are_no_linear_equations_are_refused(name, weight):
    word, table = WORDS[name]
    A, B = np.ones((1, N)), np.nansum(table, axis=0)[None]
    with pytest.raises(mc.ModelError) as error:
        mc.Model([mc.Block("y", word)], [mc.Ridge(1.0), mc.Calibration("y", A, B, weight)])
    for said in ("block 'y'", type(word).__name__, word.z_name, "of='predictors'", "mc.Gaussian"):
        assert said in str(error.value)


# Beside fitted thresholds there is no bias, and the risk falls along one.
WITH_BIAS = [name for name in WORDS if name not in ("levels", "risks")]


@pytest.mark.parametrize("weight", [None, 2.0])
@pytest.mark.parametrize(
    ("name", "bias"), [(name, False) for name in WORDS] + [(name, True) for name in WITH_BIAS]
)
@pytest.mark.some(0.2)
def test_sums_of_predictors_are_declared(name, bias, weight):
    word, table = WORDS[name]
    width = table.shape[1] * word.width
    B = np.linspace(-0.5, 0.5, width)[None]
    term = mc.Calibration("y", MEAN, B, weight, of="predictors")
    ridge = [mc.Ridge(0.3)] if name == "risks" else []  # without which they fall without end
    model = mc.Model([mc.Block("y", word, bias=bias)], [mc.NuclearNorm(0.5), term, *ridge])
    verified = mc.verify(model, {"y": table}, tol=1e-4)
    assert verified.agrees, verified
    off = MEAN @ verified.fast.natural("y").reshape(N, -1) - B
    assert verified.fast.residual("y") == pytest.approx(float(np.linalg.norm(off)), abs=1e-9)
    if weight is None:
        np.testing.assert_allclose(off, 0.0, atol=1e-6)


def test_exposures_are_part_of_the_predictors():
    """Sums of log rates times exposure, since P is what the loss is of."""
    exposure = np.exp(RNG.standard_normal((N, D)))
    term = mc.Calibration("y", MEAN, np.zeros((1, D)), of="predictors")
    model = mc.Model([mc.Block("y", mc.Poisson(), bias=True)], [mc.NuclearNorm(0.5), term])
    verified = mc.verify(model, {"y": mc.Observations(COUNTS, exposure=exposure)}, tol=1e-5)
    assert verified.agrees, verified
    np.testing.assert_allclose(MEAN @ np.log(verified.fast.predict("y")), 0.0, atol=1e-6)


def test_the_sentence_says_what_is_summed():
    block = mc.Block("x", mc.Gaussian(), standardize=True, **EFFECTS["both"])
    text = str(mc.Model([block], [mc.Ridge(1.0), mc.Calibration("x", MEAN, [1.0] * D)]))
    assert "subject to A P_x = B\n" in text
    assert "P_x = z_ij + b_j + a_i + offset, for all cells of x, in the units of x_ij" in text
    explained = repr(
        mc.explain(
            mc.Model(
                [mc.Block("x", mc.Gaussian())],
                [mc.NuclearNorm(1.0), mc.Calibration("x", MEAN, [1.0] * D, weight=2.0)],
            ),
            {"x": X},
        )
    )
    assert "2 ‖A P_x − B‖_F²" in explained


def test_the_option_is_checked_shown_stored_and_compared():
    plain = mc.Calibration("x", MEAN, [1.0] * D)
    declared = mc.Calibration("x", MEAN, [1.0] * D, of="predictors")
    assert plain != declared
    assert "of='predictors'" in repr(declared)
    model = mc.Model([mc.Block("x", mc.Poisson())], [mc.Ridge(1.0), declared])
    assert mc.Model.from_json(model.to_json()) == model
    with pytest.raises(mc.ModelError, match="of='rates' was given; 'means' or 'predictors'"):
        mc.Calibration("x", MEAN, [1.0] * D, of="rates")


def test_a_saved_fit_has_its_residual(tmp_path):
    block = mc.Block("x", mc.Gaussian(), bias=True)
    terms = [mc.NuclearNorm(0.5), mc.Calibration("x", MEAN, [[5.0] * D], weight=3.0)]
    fit = mc.fit(mc.Model([block], terms), {"x": mc.Observations(X, offset=OFFSET)})
    fit.save(tmp_path / "fit.npz")
    assert mc.load(tmp_path / "fit.npz").residual("x") == fit.residual("x") > 0.0


@pytest.mark.parametrize("backend", ["splitting", "factored", "proximal"])
def test_every_solver_finds_it(backend):
    block = mc.Block("x", mc.Gaussian(), **EFFECTS["both"])
    term = mc.Calibration("x", HALVES, np.full((2, D), 6.0), weight=3.0)
    model = mc.Model([block], [mc.NuclearNorm(0.5), term])
    exact = mc.fit(model, {"x": X}, backend="reference")
    fit = mc.fit(model, {"x": X}, backend=backend)
    assert fit.status == "certified"
    assert fit.objective == pytest.approx(exact.objective, rel=1e-5)


@pytest.mark.parametrize("effects", ["biases", "both"])
def test_a_path_begins_where_z_is_0_under_equations(effects):
    block = mc.Block("x", mc.Gaussian(), **EFFECTS[effects])
    term = mc.Calibration("x", MEAN, np.full((1, D), 5.0))
    weight = mc.weight_max(mc.Model([block], [mc.NuclearNorm(1.0), term]), {"x": X})
    ranks = [
        mc.fit(mc.Model([block], [mc.NuclearNorm(c * weight), term]), {"x": X}, tol=1e-8).rank
        for c in (1.01, 0.9)
    ]
    assert ranks[0] == 0 < ranks[1]


# The parts


def layouts():
    for biases, rows in ((True, False), (False, True), (True, True)):
        yield Layout(D * biases, N * rows, 0)
    yield Layout(D, N, 1)


@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (0, 1)], ids=str)
@pytest.mark.parametrize("layout", list(layouts()), ids=repr)
def test_squares_of_effects_are_what_they_say(layout, axes):
    """Against E written out, by unit vectors."""
    rng = np.random.default_rng(1)
    unit = np.eye(layout.size)
    written = np.array([layout.of_cells(e, (N, D)).ravel() for e in unit]).T
    matrix, e = rng.standard_normal((N, D)), rng.standard_normal(layout.size)
    np.testing.assert_allclose(layout.sums_of_cells(matrix), written.T @ matrix.ravel())
    groups = []
    for lines, axis in zip(([0, 2], [1, 3]), axes, strict=True):
        right = np.linalg.qr(rng.standard_normal(((N, D)[axis], 2)))[0]
        groups.append(Directions(np.array(lines), right, rng.random(2), axis))
    squares = EffectSquares(layout, tuple(groups))
    distances = tuple(rng.standard_normal((2, 2)) for _ in groups)
    at = SquaresAt(squares, distances)

    def plain(e):
        cells, total = (written @ e).reshape(N, D), 0.0
        for group, own in zip(groups, distances, strict=True):
            turned = cells if group.axis == 0 else cells.T
            off = group.right.T @ turned[:, group.lines] + own
            total += float(np.sum(group.weights[:, None] * off**2))
        return total

    assert at.value(e) == pytest.approx(plain(e))
    slopes = [(plain(e + 1e-6 * u) - plain(e - 1e-6 * u)) / 2e-6 for u in unit]
    np.testing.assert_allclose(at.gradient(e), slopes, rtol=1e-6, atol=1e-7)
    second = np.array([at.gradient(e + u) - at.gradient(e) for u in unit])
    np.testing.assert_allclose(squares.matrix, second, atol=1e-12)
    np.testing.assert_allclose(squares.diagonal, np.diag(second), atol=1e-12)
    assert np.all(at.sizes(e) >= np.abs(at.gradient(e)) * (1 - 1e-12))


@pytest.mark.parametrize("n_items", [20, 400])
@pytest.mark.parametrize("light", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("kinds", [(True, False), (False, True), (True, True)], ids=str)
def test_best_effects_leave_no_gradient(kinds, light, n_items):
    rng = np.random.default_rng(2)
    d, bias, rows = 3, *kinds
    layout = Layout(d * bias, n_items * rows, 0)
    places = np.divmod(np.flatnonzero(rng.random(n_items * d) < 0.6), d)
    y, z = rng.standard_normal((2, places[0].size))
    right = np.linalg.qr(rng.standard_normal((n_items, 2)))[0]
    group = Directions(np.arange(d), right, light * np.array([1.0, 3.0]))
    at = SquaresAt(EffectSquares(layout, (group,)), (rng.standard_normal((2, d)),))
    # Flat tails beside squares that are a million times as steep take more steps than are made.
    for word in (mc.Gaussian(), mc.Huber(0.5 if light < 1e6 else 1e6)):
        effects = described_effects(layout, word, *places, equations=at.squares)
        found = effects.solve(word, z, y, 1.0, None, at)
        gradients = word.value_and_gradient(effects.predictor(z, found), y)[1]
        left = effects.sum_by_effect(gradients) + at.gradient(found)
        size = effects.sum_by_effect(np.abs(gradients)) + at.sizes(found)
        assert np.max(np.abs(left)) <= 1e-8 * np.max(size)


def test_dual_matrices_are_part_of_the_sums_over_effects():
    """Gradients and dual matrices as they come, and moved by ``centred``: sums vanish then."""
    block = mc.Block("x", mc.Gaussian(), **EFFECTS["both"])
    terms = [
        mc.Calibration("x", MEAN, np.ones((1, D))),
        mc.Calibration("x", CONTRAST, np.ones((1, D)), weight=2.0),
    ]
    problem = mc.Problem.bind(mc.Model([block], [mc.NuclearNorm(1.0), *terms]), {"x": X})
    program = CompiledProblem(problem).program
    rng = np.random.default_rng(3)
    duals = tuple(t.nearest_dual(rng.standard_normal((N, D))) for t in program.terms)
    gradient = rng.standard_normal(program.entries.size)
    moved, matrices = program.centred(gradient, duals)
    layout = program.loss.block_losses[0].layout
    sums = program.loss.sums_by_effect(moved)[0][0] + sum(map(layout.sums_of_cells, matrices))
    assert np.max(np.abs(sums)) <= 1e-12
    for term, matrix in zip(program.terms, matrices, strict=True):
        assert term.nearest_dual(matrix) is matrix  # still of the form A'L


def test_a_bound_that_forgets_the_effects_is_found_out(monkeypatch):
    """A planted fault: dual matrices of equations left out of the sums that have to vanish."""
    block = mc.Block("x", mc.Gaussian(), bias=True)
    terms = [mc.NuclearNorm(0.3), mc.Calibration("x", MEAN, np.full((1, D), 10.0))]
    model = mc.Model([block], terms)
    honest = mc.fit(model, {"x": X})
    assert honest.status == "certified"
    monkeypatch.setattr(Program, "sums_of_terms", lambda program, duals: {})
    monkeypatch.setattr(
        Program, "centred", lambda program, gradient, duals: (program.loss.centre(gradient), duals)
    )
    with pytest.warns(mc.NotCertifiedWarning):
        faulty = mc.fit(model, {"x": X}, backend="reference")
    assert faulty.gap > 0.1


def test_no_bound_lies_above_the_best_effects():
    """Weak duality at dual points of all kinds, against points of all kinds."""
    rng = np.random.default_rng(4)
    for effects, weight in itertools.product(["biases", "rows", "both", "ridge"], [None, 2.0]):
        block = mc.Block("x", mc.Gaussian(), **EFFECTS[effects])
        term = mc.Calibration("x", HALVES, np.full((2, D), 5.0), weight=weight)
        problem = mc.Problem.bind(mc.Model([block], [mc.Ridge(0.5), term]), {"x": X})
        program = CompiledProblem(problem).program
        exact = mc.fit(problem.model, {"x": X}, backend="reference").objective
        for _ in range(20):
            gradient = rng.standard_normal(program.entries.size)
            dual = program.terms[0].nearest_dual(rng.standard_normal((N, D)))
            gradient, duals = program.centred(gradient, (dual,))
            at = program.evaluate(LowRank.zeros(program.shape))
            point = DualPoint(program, gradient, duals, (None,), at.background)
            total = point.conjugates()[0]
            total += np.sum(np.square(point.matrix.dense())) / (2 * 0.5)
            assert np.isfinite(total)
            assert -total <= exact * (1 + 1e-9)


# Random models


def fits_of(model, data, tally, **options):
    """The chosen backend's fit and the reference's; None where there is none."""
    found = []
    for backend in ("auto", "reference"):
        try:
            fit = mc.fit(model, data, backend=backend, tol=1e-6, **options)
        except mc.BackendError:  # conic solvers may have no answer
            assert backend == "reference"
            fit = None
        tally[backend, "no answer" if fit is None else fit.status] += 1
        found.append(fit)
    return found


def check_sums(fit, model, data):
    """Equations hold for ``natural``, where means are meant for ``predict``; ``residual`` too."""
    block = model.blocks[0]
    predictors = fit.natural("x").reshape(len(values_of(data["x"])), -1)
    if block.likelihood.z_name is None:
        np.testing.assert_array_equal(fit.predict("x"), fit.natural("x"))
    terms = [term for term in model.terms if isinstance(term, SIDES)]
    for place, term in enumerate(terms):
        turned = term.turned(predictors)
        off = float(np.linalg.norm(sums_at(term.A, term.turned(term.B), turned)))
        size = float(np.linalg.norm(np.abs(term.A) @ np.abs(turned)))
        size += float(np.linalg.norm(np.nan_to_num(term.B)))
        if place == 0:
            assert fit.residual("x") == pytest.approx(off, abs=1e-12 * size)
        if term.weight is None and np.isfinite(fit.objective):
            assert off <= 1e-7 * size


@pytest.mark.parametrize(
    ("part", "n_examples"),
    [
        (0, 4),
        pytest.param(0, 12, marks=pytest.mark.slow(seconds=9)),
        *(pytest.param(k, 150, marks=pytest.mark.slow) for k in range(10, 16)),
    ],
)
def test_random_calibrated_models_hold_their_sums(part, n_examples, record_property):
    tally = Counter()

    @seed(part)
    @settings(
        max_examples=n_examples,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(calibrated_models())
    def holds(example):
        model, data = example
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for known in (mc.UnobservedWarning, mc.NotCertifiedWarning):
                warnings.simplefilter("ignore", known)
            try:
                found = fits_of(model, data, tally, max_iter=600, max_seconds=10.0)
            except (mc.DataError, mc.ModelError) as error:
                tally[type(error).__name__] += 1
                return
            fits = [fit for fit in found if fit is not None]
            for fit in fits:
                check_sums(fit, model, data)
                again = fit.problem.objective(fit.latent, fit.effects)
                assert again == pytest.approx(fit.objective, rel=1e-6, abs=fit.rounding.total)
            for one, other in itertools.product(fits, fits):
                slack = max(one.allowed_excess, other.allowed_excess)
                assert one.bound <= other.objective + slack

    holds()
    counted = sorted(tally.items(), key=str)
    record_property("calibrated", ", ".join(f"{key} {count}" for key, count in counted))
    assert tally["auto", "certified"] >= n_examples / 2


def test_what_no_table_gives_is_found_at_any_size():
    """Beside sums of 1e160, whose squares are beyond double precision."""
    for size in (1e-200, 1.0, 1e160):
        coefficients = np.array([[1.0, 1.0], [2.0, 2.0]])
        nothing = np.zeros(0, dtype=np.intp)
        values = size * np.array([[1.0, 1.0], [2.0, 3.0]])
        equations = LinearEquations.of(nothing, nothing, coefficients, values)
        outside = equations.unreachable() / size
        assert np.all(outside[:, 0] == 0.0)
        np.testing.assert_allclose(outside[:, 1], [-0.4, 0.2], rtol=1e-9)


@pytest.mark.parametrize("power", [-200, 0, 160, 300])
def test_sums_of_any_size_are_told_from_those_that_no_table_has(power):
    """Squares of 1e160 overflow, those of 1e-200 vanish."""
    A = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    sums = 10.0**power * (A @ np.random.default_rng(0).standard_normal((3, 2)))
    assert np.array_equal(mc.Calibration("x", A, sums).B, sums)
    with pytest.raises(mc.ModelError, match="no P has A P = B"):
        mc.Calibration("x", A, sums + 10.0**power * np.array([[1.0, 1.0], [0.0, 0.0]]))
