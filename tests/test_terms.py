"""Regularizers and constraints, beyond the laws: known values, second opinions, messages."""

import copy
import pickle

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.contracts.term import Constraint, Regularizer
from mcframe.numerics import max_norm_bounds as max_norms
from mcframe.numerics.max_norm_bounds import (
    dual_max_norm_bound,
    dual_max_norm_split,
    max_norm,
    max_norm_bounds,
    max_norm_multipliers,
)

pytestmark = pytest.mark.core

HADAMARD = np.array([[1.0, 1.0], [1.0, -1.0]])


def solved(objective, constraints):
    """The value of a small program, by an interior point method."""
    program = cp.Problem(objective, constraints)
    with np.errstate(all="ignore"):
        return program.solve(solver="CLARABEL")


def max_norm_by_cvxpy(matrix):
    n_rows, n_columns = matrix.shape
    whole = cp.Variable((n_rows + n_columns,) * 2, PSD=True)
    equal = whole[:n_rows, n_rows:] == matrix
    return solved(cp.Minimize(cp.max(cp.diag(whole))), [equal])


def dual_max_norm_by_cvxpy(matrix):
    n_rows, n_columns = matrix.shape
    whole = cp.Variable((n_rows + n_columns,) * 2, PSD=True)
    inner = cp.sum(cp.multiply(whole[:n_rows, n_rows:], matrix))
    return solved(cp.Maximize(inner), [cp.diag(whole) <= 1])


@st.composite
def matrices(draw, largest=25):
    """Matrices of many kinds: dense, low-rank, sparse, of signs, ill-scaled, on the boundary."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    kind = draw(st.sampled_from(["dense", "low rank", "sparse", "signs", "scaled", "ball"]))
    matrix = rng.standard_normal(shape)
    if kind == "low rank":
        rank = draw(st.integers(1, 4))
        matrix = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    elif kind == "sparse":
        matrix = matrix * (rng.random(shape) < draw(st.sampled_from([0.05, 0.1, 0.3])))
    elif kind == "signs":
        matrix = np.sign(matrix)
    elif kind == "scaled":
        matrix = matrix * 10.0 ** rng.uniform(-4, 4, (shape[0], 1))
        matrix = matrix * 10.0 ** rng.uniform(-4, 4, (1, shape[1]))
    elif kind == "ball":
        rank = draw(st.integers(1, 6))
        left, right = (rng.standard_normal((size, rank)) for size in shape)
        left /= np.maximum(1.0, np.linalg.norm(left, axis=1))[:, None]
        right /= np.maximum(1.0, np.linalg.norm(right, axis=1))[:, None]
        matrix = left @ right.T
    return matrix


# The max norm


@pytest.mark.parametrize(
    ("matrix", "wanted"),
    [
        (np.zeros((3, 2)), 0.0),
        (np.array([[-3.0]]), 3.0),
        (np.eye(5), 1.0),
        (np.ones((4, 7)), 1.0),
        (np.array([[1.0, 2.0, -3.0]]), 3.0),
        (HADAMARD, np.sqrt(2)),
        (np.kron(HADAMARD, np.kron(HADAMARD, HADAMARD)), np.sqrt(8)),
        (np.kron(np.eye(3), 1e-3 * HADAMARD), 1e-3 * np.sqrt(2)),
        (np.diag([1.0, 0.5, 1e-9]), 1.0),
        (1e-200 * HADAMARD, 1e-200 * np.sqrt(2)),
        (1e200 * HADAMARD, 1e200 * np.sqrt(2)),
    ],
)
def test_known_max_norms(matrix, wanted):
    lower, upper = max_norm_bounds(matrix)
    assert lower == pytest.approx(wanted, rel=1e-9)
    assert upper == pytest.approx(wanted, rel=1e-9)


@settings(max_examples=60)
@given(matrices())
def test_bounds_on_the_max_norm_meet(matrix):
    lower, upper = max_norm_bounds(matrix)
    assert lower <= upper * (1 + 1e-12)
    assert upper - lower <= 1e-9 * upper
    assert upper >= np.max(np.abs(matrix)) * (1 - 1e-12)
    for same in (matrix.T, -matrix[::-1], np.repeat(matrix, 2, axis=0)):
        assert max_norm(same) == pytest.approx(upper, rel=1e-8)


@settings(max_examples=15)
@given(matrices(largest=7))
def test_the_max_norm_and_its_dual_against_cvxpy(matrix):
    size = np.max(np.abs(matrix)) or 1.0
    matrix = matrix / size
    assert max_norm(matrix) == pytest.approx(max_norm_by_cvxpy(matrix), abs=2e-6)
    bound = dual_max_norm_bound(matrix, np.zeros(sum(matrix.shape)))
    assert bound == pytest.approx(dual_max_norm_by_cvxpy(matrix), rel=2e-6, abs=2e-6)


@settings(max_examples=30)
@given(matrices(), matrices())
def test_the_dual_max_norm_is_the_dual_of_the_max_norm(matrix, other):
    shape = tuple(np.minimum(matrix.shape, other.shape))
    matrix, other = (m[: shape[0], : shape[1]] for m in (matrix, other))
    inner = abs(float(np.vdot(matrix, other)))
    assert inner <= dual_max_norm_bound(matrix) * max_norm(other) * (1 + 1e-9)


@settings(max_examples=30)
@given(matrices(), st.integers(0, 1000))
def test_the_dual_bound_hardly_depends_on_multipliers_and_proves_itself(matrix, seed):
    multipliers = np.random.default_rng(seed).random(sum(matrix.shape)) ** 4
    bound, diagonal = dual_max_norm_split(matrix, multipliers)
    assert bound == pytest.approx(dual_max_norm_bound(matrix), rel=1e-6)
    assert dual_max_norm_bound(3.0 * matrix, multipliers) == pytest.approx(3.0 * bound, rel=1e-6)
    assert 0.5 * np.sum(diagonal) == pytest.approx(bound, rel=1e-9)
    whole = np.diag(diagonal)
    whole[: matrix.shape[0], matrix.shape[0] :] = matrix
    whole[matrix.shape[0] :, : matrix.shape[0]] = matrix.T
    assert np.linalg.eigvalsh(whole)[0] >= -1e-12 * np.max(np.abs(whole))


def ascent(dual, rng):
    """Factors with rows of norm 1 that maximise <S, U V'>: its value is the dual norm."""
    stacked = rng.standard_normal((sum(dual.shape), 30))
    left, right = stacked[: dual.shape[0]], stacked[dual.shape[0] :]
    for _ in range(3000):
        left = dual @ right
        left /= np.linalg.norm(left, axis=1)[:, None]
        right = dual.T @ left
        right /= np.linalg.norm(right, axis=1)[:, None]
    return np.vstack([left, right])


def test_large_matrices_rely_on_multipliers(monkeypatch):
    """Without the polish, the multipliers of good factors give a bound as good as they are."""
    rng = np.random.default_rng(0)
    dual = rng.standard_normal((40, 30))
    stacked = ascent(dual, rng)
    reached = float(np.vdot(dual, stacked[:40] @ stacked[40:].T))
    exact = dual_max_norm_bound(dual)
    assert reached <= exact <= reached * (1 + 1e-7)
    monkeypatch.setattr(max_norms, "SMALL_ORDER", 0)
    multipliers = max_norm_multipliers(-dual, stacked)
    assert exact * (1 - 1e-9) <= dual_max_norm_bound(dual, multipliers) <= exact * (1 + 1e-6)
    nonsmooth = multipliers * (1 + 0.1 * rng.random(70))
    assert exact * (1 - 1e-9) <= dual_max_norm_bound(dual, nonsmooth) <= exact * 1.1
    assert exact * (1 - 1e-9) <= dual_max_norm_bound(dual) <= exact * 1.3


def test_large_matrices_have_bounds_on_their_max_norm(monkeypatch):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((30, 5)) @ rng.standard_normal((5, 20))
    exact = max_norm(matrix)
    monkeypatch.setattr(max_norms, "MOST_OPERATIONS", 0.0)
    lower, upper = max_norm_bounds(matrix)
    assert lower <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-9) <= upper <= lower * (1 + 1e-4)


def test_a_threshold_stops_early():
    matrix = np.random.default_rng(0).standard_normal((30, 20))
    exact = max_norm(matrix)
    for threshold in (0.5 * exact, 0.99 * exact, 1.01 * exact, 2.0 * exact):
        lower, upper = max_norm_bounds(matrix, threshold)
        assert lower <= exact * (1 + 1e-9) <= upper * (1 + 2e-9)
        assert (lower > threshold) == (exact > threshold)
        assert (upper < threshold) == (exact < threshold)
    assert np.subtract(*max_norm_bounds(matrix, 2.0 * exact)[::-1]) > 1e-3 * exact


def test_max_norm_words():
    rng = np.random.default_rng(0)
    stacked = rng.standard_normal((9, 3))
    ball = mc.MaxNormBall(0.5)
    cut = ball.prox_factors(stacked, 1.0)
    assert np.max(np.sum(cut**2, axis=1)) == pytest.approx(0.5, rel=1e-14)
    latent = cut[:5] @ cut[5:].T
    assert ball.value(latent) == 0.0
    assert ball.value(latent * (0.5 * 1.001 / max_norm(latent))) == np.inf
    # At W = 0 the multipliers are those that prove that 0 is the best, where it is.
    gradient = rng.standard_normal((5, 4))
    norm = dual_max_norm_bound(gradient)
    for weight in (0.9 * norm, 1.1 * norm):
        matrix = np.diag(mc.MaxNorm(weight).row_multipliers(gradient, np.zeros((9, 3))))
        matrix[:5, 5:], matrix[5:, :5] = gradient, gradient.T
        assert (np.linalg.eigvalsh(matrix)[0] >= 0.0) == (weight > norm)


# The nuclear ball and the box


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(0, 10**6), st.floats(-3, 3))
def test_the_projection_onto_the_l1_ball(size, seed, exponent):
    s = np.random.default_rng(seed).exponential(size=size) * 10.0**exponent
    shrunk = mc.NuclearBall(1.0).shrink(s, 1.0)
    if np.sum(s) <= 1.0:
        np.testing.assert_array_equal(shrunk, s)
        return
    assert np.sum(shrunk) == pytest.approx(1.0, rel=1e-12)
    off = np.max(s - shrunk)
    np.testing.assert_allclose(shrunk, np.maximum(s - off, 0.0), atol=1e-12)


def test_a_box_with_one_bound():
    above = mc.Box(0.5, np.inf)
    dual = np.array([[1.0, -2.0], [0.0, -1.0]])
    assert above.conjugate(dual) == np.inf
    np.testing.assert_array_equal(above.nearest_dual(dual), np.minimum(dual, 0.0))
    assert above.conjugate(np.minimum(dual, 0.0)) == -1.5
    below = mc.Box(-np.inf, 2)
    assert below.conjugate(np.maximum(dual, 0.0)) == 2.0
    assert below.value(np.full((2, 2), 2.0 + 1e-10)) == 0.0
    assert below.value(np.full((2, 2), 2.0 + 1e-8)) == np.inf
    assert below == mc.Box(-np.inf, np.float32(2.0))
    assert len(below.constraints(cp, cp.Variable((2, 2)))) == 1


# Calibration


def test_calibration_is_a_penalty_or_a_constraint():
    ones = np.ones(3)
    assert isinstance(mc.Calibration("x", ones, [1.0]), Constraint)
    assert not isinstance(mc.Calibration("x", ones, [1.0]), Regularizer)
    penalty = mc.Calibration("x", ones, 1.0, weight=2)
    assert isinstance(penalty, mc.Calibration)
    assert isinstance(penalty, Regularizer)
    assert penalty == mc.Calibration("x", [[1, 1, 1]], [[1]], 2.0)
    assert (
        repr(penalty)
        == "Calibration(block='x', A=array([[1., 1., 1.]]), B=array([[1.]]), weight=2.0)"
    )
    for term in (penalty, mc.Calibration("x", ones, 1.0)):
        again = pickle.loads(pickle.dumps(term))
        assert (type(again), again) == (type(term), term)
    assert hash(penalty) == hash(copy.deepcopy(penalty))
    assert penalty != mc.Calibration("x", ones, 2.0, weight=2)
    assert penalty != mc.Calibration("x", ones, 1.0)
    assert penalty.A.shape == (1, 3)
    assert penalty.B.shape == (1, 1)
    ones[0] = 7.0
    assert penalty.A[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        penalty.A[0, 0] = 7.0
    latent = np.array([[1.0], [2.0], [3.0]])
    assert penalty.residual(latent) == 5.0
    assert mc.Calibration("x", np.ones(3), 1.0).residual(latent) == 5.0


def test_equations_that_contradict_each_other_are_named():
    coefficients = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    values = np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 5.0]])
    term = mc.Calibration("x", coefficients, values)
    assert term.value(term.prox(np.zeros((3, 2)), 1.0)[0]) == 0.0
    values[1, 1] = 9.0
    with pytest.raises(mc.ModelError, match=r"block 'x'.*row 0, column 1: 4 for the given 2"):
        mc.Calibration("x", coefficients, values)
    with pytest.raises(mc.ModelError, match=r"weight=\.\.\."):
        mc.Calibration("x", [0.0, 0.0], [1.0])
    soft = mc.Calibration("x", coefficients, values, weight=1.0)
    assert soft.prox(np.zeros((3, 2)), 1e9)[1] == pytest.approx(5.0, rel=1e-6)


def test_redundant_equations_change_nothing():
    rng = np.random.default_rng(0)
    once = rng.standard_normal((3, 8))
    mix = rng.standard_normal((7, 3))
    values = rng.standard_normal((3, 4))
    plain = mc.Calibration("x", once, values)
    redundant = mc.Calibration("x", mix @ once, mix @ values)
    assert redundant.equations.groups[0].singular_values.size == 3
    point = rng.standard_normal((8, 4))
    np.testing.assert_allclose(redundant.prox(point, 1.0)[0], plain.prox(point, 1.0)[0])
    dual = plain.nearest_dual(point)
    np.testing.assert_allclose(redundant.nearest_dual(point), dual)
    assert redundant.conjugate(dual) == pytest.approx(plain.conjugate(dual))
    assert plain.conjugate(point) == np.inf
    assert plain.nearest_dual(dual) is dual  # nothing to repair: the very same


@pytest.mark.parametrize("weight", [None, 0.5])
def test_calibration_of_another_shape_is_refused(weight):
    term = mc.Calibration("x", np.ones((2, 4)), np.ones((2, 3)), weight)
    none = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros(0)
    assert term.bound_to((4, 3), *none) is term
    with pytest.raises(mc.DataError, match=r"block 'x': A has shape 2 x 4 and the block 5 rows"):
        term.bound_to((5, 3), *none)
    with pytest.raises(mc.DataError, match=r"B has shape 2 x 3 and the block 2 columns"):
        term.bound_to((4, 2), *none)


def test_a_heavy_penalty_is_the_constraint():
    rng = np.random.default_rng(0)
    coefficients, values = rng.standard_normal((2, 6)), rng.standard_normal((2, 3))
    point = rng.standard_normal((6, 3))
    soft = mc.Calibration("x", coefficients, values, weight=1e9).prox(point, 1.0)[0]
    hard = mc.Calibration("x", coefficients, values).prox(point, 1.0)[0]
    np.testing.assert_allclose(soft, hard, atol=1e-7)


def test_equations_that_are_not_known_ask_for_nothing():
    """Each column is the calibration of that column alone, with the equations known of it."""
    rng = np.random.default_rng(0)
    coefficients, latent = rng.standard_normal((3, 6)), rng.standard_normal((6, 5))
    sums = coefficients @ rng.standard_normal((6, 5))
    sums[[0, 1, 2, 0], [1, 2, 3, 3]] = np.nan
    sums[:, 4] = np.nan
    for weight in (None, 0.7):
        whole = mc.Calibration("x", coefficients, sums, weight)
        moved = whole.prox(latent, 1.3)[0]
        dual = whole.nearest_dual(latent)
        np.testing.assert_array_equal(moved[:, 4], latent[:, 4])
        np.testing.assert_array_equal(dual[:, 4], 0.0)
        conjugate = value = 0.0
        for j in range(4):
            known, column = ~np.isnan(sums[:, j]), [j]
            alone = mc.Calibration("x", coefficients[known], sums[known][:, column], weight)
            np.testing.assert_allclose(alone.prox(latent[:, column], 1.3)[0], moved[:, column])
            np.testing.assert_allclose(alone.nearest_dual(latent[:, column]), dual[:, column])
            conjugate += alone.conjugate(dual[:, column])
            value += alone.residual(latent[:, column]) ** 2
        assert whole.conjugate(dual) == pytest.approx(conjugate)
        assert whole.residual(latent) ** 2 == pytest.approx(value)
        assert whole.conjugate(dual + np.eye(6, 5, -1)) == np.inf
    assert whole.formula() == "0.7 ‖A P_x − B‖_F² where B is known"
    norms = [np.linalg.norm(coefficients[rows], 2) for rows in ([0, 1, 2], [1, 2], [0, 2], [1])]
    assert whole.curvature == pytest.approx(2 * 0.7 * max(norms) ** 2)


def test_equations_that_contradict_each_other_may_be_unknown_in_a_column():
    coefficients = np.array([[1.0, 1.0], [2.0, 2.0]])
    term = mc.Calibration("x", coefficients, [[1.0, 1.0], [2.0, np.nan]])
    assert term.residual(term.prox(np.zeros((2, 2)), 1.0)[0]) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(mc.ModelError, match=r"row 0, column 2: 1\.8 for the given 1\."):
        mc.Calibration("x", coefficients, [[1.0, 1.0, 1.0], [2.0, np.nan, 4.0]])


@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize("main", [mc.NuclearNorm(0.5), mc.MaxNormBall(1.5)], ids=repr)
def test_a_fit_with_sums_that_are_known_in_part(main, weight):
    rng = np.random.default_rng(1)
    truth = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 5))
    seen = np.where(rng.random(truth.shape) < 0.6, truth, np.nan)
    halves = np.kron(np.eye(2), np.full(4, 0.25))
    means = halves @ truth
    means[0, 1] = np.nan
    means[:, 3] = np.nan
    sums = mc.Calibration("x", halves, means, weight)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [main, sums])
    assert mc.verify(model, {"x": seen}).agrees
    fit = mc.fit(model, {"x": seen})
    assert fit.status == "certified"
    off = halves @ fit.latent.dense() - means
    assert fit.residual("x") == pytest.approx(np.sqrt(np.nansum(off**2)), abs=1e-9)
    assert fit.notes == ()


def test_a_box_bounds_z_and_not_what_biases_add_to_it():
    """As its docstring says, while known sums are those of the predictions."""
    x = 10.0 + np.arange(12.0).reshape(4, 3)
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.Ridge(0.1), mc.Box(-1, 1)])
    fit = mc.fit(model, {"x": x})
    assert np.max(np.abs(fit.latent.dense())) <= 1.0 + 1e-8
    assert np.min(fit.predict("x")) > 1.0


@pytest.mark.parametrize("weight", [None, 1.0])
def test_messages_say_the_word_that_the_user_wrote(weight):
    term = mc.Calibration("x", np.ones(2), np.ones(2), weight)
    block = mc.Block("x", mc.Gaussian())
    with pytest.raises(mc.ModelError, match="Model: Calibration stands twice"):
        mc.Model([block], [mc.Ridge(1.0), term, term])
    with pytest.raises(mc.ModelError, match="Model: Calibration speaks of block 'x'"):
        mc.Model([mc.Block("y", mc.Gaussian())], [mc.Ridge(1.0), term])
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(0.1), term]), {"x": np.eye(2)})
    with pytest.raises(mc.ModelError, match="has Calibration too"):
        fit.predict_rows("x", {"x": np.eye(2)})


# The residual's nuclear norm


def test_a_residual_needs_data():
    word = mc.ResidualNuclearNorm("x", 0.5)
    for asked in (
        lambda: word.value(np.zeros((2, 2))),
        lambda: word.conjugate(np.zeros((2, 2))),
        lambda: word.statement(cp, cp.Variable((2, 2))),
    ):
        with pytest.raises(mc.DataError, match=r"block 'x' has no data.*Problem.bind"):
            asked()
    assert word.formula() == "0.5 ‖R_Ω(Z_x − X)‖_*"


def test_a_bound_residual():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((5, 4))
    observed = rng.random((5, 4)) < 0.6
    rows, columns = np.nonzero(observed)
    term = mc.ResidualNuclearNorm("x", 0.5).bound_to((5, 4), rows, columns, table[observed])
    latent = rng.standard_normal((5, 4))
    masked = np.where(observed, latent - table, 0.0)
    assert term.value(latent) == pytest.approx(0.5 * np.linalg.norm(masked, "nuc"))
    assert term.value(table) == 0.0
    assert term.conjugate(np.ones((5, 4))) == np.inf
    kept = np.where(observed, 0.1, 0.0)
    assert term.conjugate(kept) == pytest.approx(float(np.sum(kept * table)))
    assert term.conjugate(9.0 * kept) == np.inf
    # The multiplier of the inner term gives the conjugate where the masked one alone does not.
    left, _, right = np.linalg.svd(masked, full_matrices=False)
    dual = 0.5 * left @ right
    pulled = term.adjoint(dual)
    exact = term.inner.conjugate(term.inner.nearest_dual(dual)) + term.pairing(dual)
    assert exact == pytest.approx(float(np.vdot(pulled, latent)) - term.value(latent))


def test_labels_that_would_be_ignored_are_refused():
    pandas = pytest.importorskip("pandas")
    sums = pandas.DataFrame(np.ones((1, 3)), columns=list("cba"))
    with pytest.raises(mc.ModelError, match=r"labels would be ignored.*to_numpy"):
        mc.Calibration("x", sums, [1.0])
    sparse = mc.Calibration("x", sp.csr_array(np.ones((1, 3))), [1.0])
    assert sparse == mc.Calibration("x", np.ones((1, 3)), [1.0])


def test_sums_that_some_matrix_has_cost_nothing_at_least():
    """Rounding of B is no part of it that no Z gives: it was a bound above an optimum of 0."""
    rng = np.random.default_rng(0)
    for scale in (1e-9, 1.0, 1e9):
        A, B = rng.standard_normal((2, 10)), scale * rng.standard_normal((2, 4))
        term = mc.Calibration("x", A, B, weight=1.0)
        assert term.conjugate(np.zeros((10, 4))) == 0.0
    apart = mc.Calibration("x", np.ones((2, 3)), [[1.0], [2.0]], weight=1.0)
    assert apart.conjugate(np.zeros((3, 1))) == pytest.approx(-0.5, rel=1e-12)


def test_two_terms_that_have_factors_alone_are_refused_by_the_model():
    block = mc.Block("x", mc.Gaussian())
    for terms in ([mc.MaxNorm(1.0), mc.MaxNormBall(2.0)], [mc.MaxNormBall(2.0), mc.MaxNorm(1.0)]):
        with pytest.raises(mc.ModelError, match="keep one of them, or put a nuclear norm in the"):
            mc.Model([block], terms)
    for other in (mc.NuclearNorm(0.5), mc.NuclearBall(3.0)):  # the remedies
        for term in (mc.MaxNorm(1.0), mc.MaxNormBall(2.0)):
            model = mc.Model([block], [term, other])
            assert mc.explain(model, {"x": np.eye(4)}).chosen
