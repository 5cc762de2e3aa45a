"""Ordered levels and categories: closed forms against grids, fits against other solvers."""

import math

import attrs
import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp, softmax

import mcframe as mc
from mcframe.likelihoods.cumulative import gap_loss

pytestmark = pytest.mark.core

FAR = np.array([-1e4, -700.0, -40.0, -3.0, 0.0, 1e-9, 3.0, 40.0, 700.0, 1e4])
THRESHOLDS = [
    (0.3,),
    (-1.0, 1.0),
    (-1e-3, 1e-3),
    (2.0, 2.0 + 1e-9),
    (0.0, 1e-300, 1e-13),
    (-500.0, 500.0),
    (-5e3, 5e3),
    (-2.0, -1.9, 0.0, 30.0),
]


def levels_of(word):
    return np.arange(word.lowest, word.lowest + word.levels, dtype=float)


@pytest.mark.parametrize("thresholds", THRESHOLDS, ids=repr)
def test_ordinal_conjugate_is_the_supremum(thresholds):
    word = mc.Ordinal(len(thresholds) + 1, thresholds)
    grid = np.concatenate(
        [np.linspace(-60.0, 60.0, 120_001), np.linspace(-6e3, 6e3, 120_001), thresholds]
    )
    for y in levels_of(word):
        level = np.full_like(grid, y)
        losses = word.value(grid, level)
        for gradient in np.linspace(-0.95, 0.95, 9):
            one, at = np.array([gradient]), np.array([y])
            found = word.conjugate(one, at)[0]
            if word.nearest_gradient(one, at)[0] != gradient:
                assert found == np.inf
                continue
            highest = np.max(gradient * grid - losses)
            # On the grid the supremum is missed by a little, and never passed.
            assert highest <= found + 1e-9 * (1.0 + abs(found))
            assert found <= highest + 1e-5 * (1.0 + abs(found))


@pytest.mark.parametrize("thresholds", THRESHOLDS, ids=repr)
def test_ordinal_far_out(thresholds):
    """Fenchel and Young hold with equality, and nothing warns."""
    word = mc.Ordinal(len(thresholds) + 1, thresholds)
    for y in levels_of(word):
        level = np.full_like(FAR, y)
        with np.errstate(all="raise", under="ignore"):
            value, gradient = word.value_and_gradient(FAR, level)
            conjugate = word.conjugate(gradient, level)
            ends = word.conjugate(word.nearest_gradient(np.sign(FAR), level), level)
        np.testing.assert_allclose(conjugate, gradient * FAR - value, rtol=1e-11, atol=1e-11)
        assert np.all(np.isfinite(ends))


def test_ordinal_is_the_logarithm_of_a_probability():
    word = mc.Ordinal(4, (-1.0, 0.5, 2.0), lowest=0)
    z = np.linspace(-5.0, 5.0, 41)
    edges = np.array([-np.inf, -1.0, 0.5, 2.0, np.inf])
    total, mean = np.zeros_like(z), np.zeros_like(z)
    for y in range(4):
        p = expit(edges[y + 1] - z) - expit(edges[y] - z)
        np.testing.assert_allclose(word.value(z, np.full_like(z, y)), -np.log(p), rtol=1e-12)
        total, mean = total + p, mean + y * p
    np.testing.assert_allclose(total, 1.0)
    np.testing.assert_allclose(word.mean(z), mean)


def test_ordinal_curvature_is_reached_by_a_narrow_level():
    word = mc.Ordinal(3, (-1e-9, 1e-9))
    assert word.second_derivative(np.zeros(1), np.full(1, 2.0))[0] == pytest.approx(0.5)
    assert word.curvature == 0.5
    assert mc.Ordinal(2, (0.0,)).curvature == 0.25


def test_two_levels_are_a_bernoulli():
    z, y = np.linspace(-9.0, 9.0, 37), np.arange(37) % 2 * 1.0
    word = mc.Ordinal(2, (0.0,), lowest=0)
    np.testing.assert_allclose(word.value(z, y), mc.Bernoulli().value(z, y))
    gradient = word.value_and_gradient(z, y)[1]
    np.testing.assert_allclose(word.conjugate(gradient, y), mc.Bernoulli().conjugate(gradient, y))


def test_losses_without_thresholds_are_refused():
    word, z = mc.Ordinal(), np.zeros(2)
    y = np.array([1.0, 5.0])
    for ask in (word.value, word.value_and_gradient, word.second_derivative, word.conjugate):
        with pytest.raises(mc.ModelError, match="thresholds=None was given"):
            ask(z, y)
    for ask in (
        lambda: word.mean(z),
        lambda: word.sample(z, None),
        lambda: word.statement(cp, z, y),
    ):
        with pytest.raises(mc.ModelError, match="thresholds=None was given"):
            ask()
    assert word.n_parameters == 4
    assert mc.Ordinal(3, (0.0, 1.0)).n_parameters == 0
    assert word.with_parameters(np.arange(4.0)) == mc.Ordinal(5, (0.0, 1.0, 2.0, 3.0))


def ratings(seed, n=300, levels=5, spread=1.5):
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, spread, n)
    middle = 0.5 * (levels + 1)
    y = np.clip(np.round(z + rng.logistic(size=n) + middle), 1, levels)
    return z, y, rng.uniform(0.5, 2.0, n)


def total_at(thresholds, z, y, weights, levels=5):
    return float(weights @ mc.Ordinal(levels, thresholds).value(z, y))


@pytest.mark.parametrize("seed", range(3))
def test_fitted_thresholds_beat_a_general_optimiser(seed):
    z, y, weights = ratings(seed)
    best = mc.Ordinal().best_parameters(z, y, weights, None)

    def total(free):
        return total_at(np.cumsum([free[0], *np.exp(free[1:])]), z, y, weights)

    other = minimize(total, np.array([-2.0, 0.0, 0.0, 0.0]), method="BFGS", options={"gtol": 1e-8})
    found = total_at(best, z, y, weights)
    assert found <= other.fun + 1e-12 * other.fun
    assert found == pytest.approx(other.fun, rel=1e-9)
    np.testing.assert_allclose(
        best, np.cumsum([other.x[0], *np.exp(other.x[1:])]), rtol=1e-4, atol=1e-4
    )


# Levels that do not occur: none, at either end, in the middle, several.
MISSING = [(), (1,), (5,), (3,), (2, 3), (1, 2, 4), (1, 4, 5), (2, 3, 4)]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
def test_fitted_thresholds_reach_the_infimum_of_the_joint_statement(missing):
    z, y, weights = ratings(0, n=120)
    kept = ~np.isin(y, missing)
    z, y, weights = z[kept], y[kept], weights[kept]
    word = mc.Ordinal()
    best = word.best_parameters(z, y, weights, None)
    assert np.all(np.diff(best) > 0.0)
    thresholds = cp.Variable(4)
    loss, constraints = word.statement(cp, cp.Constant(z), y, parameters=thresholds)
    problem = cp.Problem(cp.Minimize(weights @ loss), constraints)
    assert problem.is_dcp()
    with np.errstate(invalid="ignore"):  # thresholds that meet may pass by a rounding there
        problem.solve(solver="CLARABEL")
    assert total_at(best, z, y, weights) == pytest.approx(problem.value, rel=1e-8)


def test_thresholds_of_missing_levels():
    z, y, weights = ratings(0)
    best = mc.Ordinal().best_parameters(z, np.where(y == 3, 2.0, y), weights, None)
    assert 0.0 < best[2] - best[1] < 1e-14
    best = mc.Ordinal().best_parameters(z, np.maximum(y, 2.0), weights, None)
    assert best[0] < z.min() - 999.0
    # A loss at such a threshold is exactly what it is without the level below.
    upper = mc.Ordinal(4, tuple(best[1:]), lowest=2)
    here = np.maximum(y, 2.0)
    np.testing.assert_array_equal(mc.Ordinal(5, tuple(best)).value(z, here), upper.value(z, here))


@pytest.mark.parametrize("level", [1.0, 3.0, 5.0])
def test_one_level_alone_costs_nothing(level):
    z = np.array([-1e4, 0.0, 1e4])
    y = np.full(3, level)
    best = mc.Ordinal().best_parameters(z, y, np.ones(3), None)
    assert np.all(np.diff(best) > 0.0)
    assert total_at(best, z, y, np.ones(3)) == 0.0


def test_no_entries_give_some_thresholds():
    empty = np.zeros(0)
    np.testing.assert_array_equal(
        mc.Ordinal().best_parameters(empty, empty, empty, None), [-1.5, -0.5, 0.5, 1.5]
    )
    z, y, weights = ratings(0)
    ignored = mc.Ordinal().best_parameters(z, y, 0.0 * weights, None)
    assert np.all(np.isfinite(ignored))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 30.0, -30.0])
def test_gradients_in_the_thresholds_vanish(factor):
    z, y, weights = ratings(1, n=2000)
    z = factor * z
    best = mc.Ordinal().best_parameters(z, y, weights, None)
    # Each threshold is pulled up by the level below it and down by the level above.
    edges = np.array([-np.inf, *best, np.inf])
    code = y.astype(int) - 1
    lower, upper = edges[code], edges[code + 1]
    room = np.expm1(upper - lower)
    up = weights * (expit(z - upper) + 1.0 / room)
    down = weights * (expit(lower - z) + 1.0 / room)
    for k in range(4):
        rise, fall = np.sum(up[code == k]), np.sum(down[code == k + 1])
        assert abs(rise - fall) <= 1e-12 * (rise + fall)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_thresholds_far_out(sign):
    """Predictors of +-1e4, right and wrong: finite, without a warning, and the best."""
    z, y, weights = ratings(2)
    z = sign * 1e4 * z / np.max(np.abs(z))
    with np.errstate(all="raise", under="ignore"):
        best = mc.Ordinal().best_parameters(z, y, weights, None)
    found = total_at(best, z, y, weights)
    for k in range(4):
        for move in (1e-3, -1e-3, 0.1, -0.1, 10.0, -10.0):
            moved = best + move * np.eye(4)[k]
            if np.all(np.diff(moved) > 0.0):
                assert total_at(moved, z, y, weights) >= found * (1.0 - 1e-12)


@pytest.mark.parametrize("weight", [1e-3, 1e-9, 1e-15, 1e-30])
def test_a_level_of_little_weight(weight):
    z, y, _ = ratings(3)
    weights = np.where(y == 3, 0.0, 1.0)
    without = mc.Ordinal().best_parameters(z, y, weights, None)
    weights[np.flatnonzero(y == 3)[0]] = weight
    with np.errstate(all="raise", under="ignore"):
        best = mc.Ordinal().best_parameters(z, y, weights, None)
    assert np.all(np.diff(best) > 0.0)
    np.testing.assert_allclose(best, without, atol=max(10 * weight, 1e-7))
    seen = weights > 0
    here = z[seen], y[seen], weights[seen]
    assert total_at(best, *here) <= total_at(without, *here) * (1.0 + 1e-14)


def test_a_start_of_any_kind_leads_to_the_same_thresholds():
    z, y, weights = ratings(4)
    word = mc.Ordinal()
    best = word.best_parameters(z, y, weights, None)
    for start in (best, best + 3.0, np.arange(4.0) * 100.0, np.zeros(4), np.full(4, np.nan)):
        np.testing.assert_allclose(
            word.best_parameters(z, y, weights, start), best, rtol=1e-10, atol=1e-10
        )


def test_thresholds_are_told_by_sums_over_parts():
    """Parts that lack levels, one without a position, and one that holds most of them."""
    z, y, weights = ratings(6)
    word, order = mc.Ordinal(), np.argsort(y, kind="stable")
    parts = np.split(order, [3, 3, 250])
    told = [word.parameter_sums(z[part], y[part], weights[part]) for part in parts]

    def tell(asked):
        sums, largest = zip(*(one(asked) for one in told), strict=True)
        return tuple(sum(own) for own in zip(*sums, strict=True)), np.max(largest, axis=0)

    best = word.best_parameters(z, y, weights, None)
    np.testing.assert_allclose(word.parameters_by_sums(tell, None), best, rtol=1e-12, atol=1e-12)


def test_many_levels():
    z, y, weights = ratings(5, n=5000, levels=40, spread=15.0)
    best = mc.Ordinal(40).best_parameters(z, y, weights, None)
    found = total_at(best, z, y, weights, 40)
    rng = np.random.default_rng(0)
    for _ in range(20):
        moved = best + 1e-3 * rng.normal(size=39)
        assert total_at(moved, z, y, weights, 40) > found


def test_the_loss_of_a_gap():
    gap = np.array([5e-324, 1e-300, 1e-16, 0.5, np.log(2.0), 1.0, 40.0, 1e4, np.inf])
    with np.errstate(all="raise", under="ignore"):
        found = gap_loss(gap)
    assert np.all(np.isfinite(found))
    assert np.all(found >= 0.0)
    np.testing.assert_allclose(found[:3], -np.log(gap[:3]), rtol=1e-12)
    np.testing.assert_allclose(found[3:6], -np.log(1.0 - np.exp(-gap[3:6])), rtol=1e-12)
    assert found[6] == pytest.approx(np.exp(-40.0))


@attrs.frozen
class Hasty(mc.Ordinal):
    """Thresholds that are not the best."""

    def best_parameters(self, z, y, weights, start):
        return super().best_parameters(z, y, weights, start) + 1e-4


@attrs.frozen
class Unweighted(mc.Ordinal):
    """Thresholds of other weights."""

    def best_parameters(self, z, y, weights, start):
        return super().best_parameters(z, y, np.ones_like(weights), start)


@attrs.frozen
class WithoutBarrier(mc.Ordinal):
    """A joint reference that forgets the normaliser."""

    def normaliser(self, cp, y, thresholds):
        return 0.0


@pytest.mark.parametrize(
    ("word", "law"),
    [
        (Hasty(3), "the parameters are best"),
        (Unweighted(3), "the parameters are best"),
        (WithoutBarrier(3), "the joint statement"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fault_of_parameters_is_caught(word, law):
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_likelihood(word, (1.0, 2.0, 3.0), (0.0,))


# Categories


def draws_of_classes(k=4, n=200, size=3.0):
    rng = np.random.default_rng(0)
    return size * rng.normal(size=(n, k)), rng.integers(0, k, n).astype(float)


@pytest.mark.parametrize("size", [1e-8, 1.0, 30.0, 1e4])
def test_multinomial_is_the_softmax(size):
    z, y = draws_of_classes(size=size)
    word = mc.Multinomial(4)
    rows, code = np.arange(z.shape[0]), y.astype(int)
    with np.errstate(all="raise", under="ignore"):
        value, gradient = word.value_and_gradient(z, y)
    # The difference of two large numbers on the right keeps less than the left has.
    atol = 1e-15 * max(1.0, 10 * size)
    np.testing.assert_allclose(value, logsumexp(z, axis=1) - z[rows, code], atol=atol)
    indicator = np.eye(4)[code]
    np.testing.assert_allclose(gradient, softmax(z, axis=1) - indicator, atol=1e-14)
    np.testing.assert_allclose(word.mean(z), softmax(z, axis=1), atol=1e-15)
    logs = log_softmax(z, axis=1)[rows, code]
    np.testing.assert_allclose(word.log_likelihood(z, y), logs, atol=1e-15)
    assert np.max(np.abs(gradient.sum(axis=1))) < 1e-15


def test_multinomial_keeps_the_digits_of_small_losses():
    z = np.array([[0.0, -50.0, -60.0]])
    value, gradient = mc.Multinomial(3).value_and_gradient(z, np.zeros(1))
    assert value[0] == pytest.approx(np.exp(-50.0) + np.exp(-60.0), rel=1e-12)
    assert gradient[0, 0] == pytest.approx(-np.exp(-50.0) - np.exp(-60.0), rel=1e-12)
    second = mc.Multinomial(3).second_derivative(z, np.zeros(1))
    assert second[0, 0] == pytest.approx(np.exp(-50.0) + np.exp(-60.0), rel=1e-12)


def test_multinomial_bends_as_its_hessian():
    z, y = draws_of_classes()
    word = mc.Multinomial(4)
    direction = np.random.default_rng(1).normal(size=z.shape)
    p = softmax(z, axis=1)
    for i in range(5):
        hessian = np.diag(p[i]) - np.outer(p[i], p[i])
        np.testing.assert_allclose(
            word.hessian_product(z, y, direction)[i], hessian @ direction[i]
        )
        np.testing.assert_allclose(word.second_derivative(z, y)[i], np.diag(hessian))
        assert np.linalg.eigvalsh(hessian)[-1] <= word.curvature


def test_two_classes_are_a_bernoulli():
    z, y = draws_of_classes(2)
    np.testing.assert_allclose(
        mc.Multinomial(2).value(z, y), mc.Bernoulli().value(z[:, 1] - z[:, 0], y)
    )


def test_multinomial_conjugate_is_the_negative_entropy():
    word = mc.Multinomial(3)
    p = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.5, 0.6, -0.1], [0.5, 0.4, 0.0]])
    y = np.array([2.0, 0.0, 1.0, 1.0])
    gradient = p - np.eye(3)[y.astype(int)]
    entropy = -(0.2 * np.log(0.2) + 0.3 * np.log(0.3) + 0.5 * np.log(0.5))
    np.testing.assert_allclose(word.conjugate(gradient, y), [-entropy, 0.0, np.inf, np.inf])


def test_the_nearest_gradients_are_a_projection():
    word = mc.Multinomial(4)
    rng = np.random.default_rng(0)
    gradient, y = rng.normal(size=(20, 4)), rng.integers(0, 4, 20).astype(float)
    nearest = word.nearest_gradient(gradient, y)
    indicator = np.eye(4)[y.astype(int)]
    p = cp.Variable((20, 4), nonneg=True)
    away = cp.sum_squares(p - indicator - gradient)
    cp.Problem(cp.Minimize(away), [cp.sum(p, axis=1) == 1]).solve(solver="CLARABEL")
    np.testing.assert_allclose(nearest, p.value - indicator, atol=1e-6)
    assert np.all(np.isfinite(word.conjugate(nearest, y)))
    np.testing.assert_allclose(word.nearest_gradient(nearest, y), nearest, atol=1e-15)


def test_rounding_of_gradients_is_taken_back():
    z, y = draws_of_classes()
    word = mc.Multinomial(4)
    gradient = word.value_and_gradient(z, y)[1] + 1e-9
    assert np.all(word.conjugate(gradient, y) == np.inf)
    back = word.nearest_gradient(gradient, y)
    assert np.all(np.isfinite(word.conjugate(back, y)))
    np.testing.assert_allclose(back, gradient, atol=2e-9)


def test_multinomial_starts_and_fills():
    word = mc.Multinomial(3)
    start = word.start(np.array([0.0, 2.0]))
    np.testing.assert_allclose(start.sum(axis=1), 0.0, atol=1e-15)
    np.testing.assert_array_equal(word.most_probable(start), [0.0, 2.0])
    np.testing.assert_array_equal(word.most_probable(np.zeros((1, 3))), [0.0])
    np.testing.assert_array_equal(word.most_probable(np.array([[1.0, 5.0, 5.0]])), [1.0])


@attrs.frozen
class DiagonalOnly(mc.Multinomial):
    """The Hessian taken for its diagonal."""

    def hessian_product(self, z, y, direction):
        return self.second_derivative(z, y) * direction


@attrs.frozen
class FirstClassWins(mc.Multinomial):
    """Draws without regard to z."""

    def sample(self, z, rng):
        return np.zeros(z.shape[0])


@attrs.frozen
class SmallCurvature(mc.Multinomial):
    """The bound of a single logistic function."""

    @property
    def curvature(self):
        return 0.25


@attrs.frozen
class LostClass(mc.Multinomial):
    """A conjugate without one of its summands."""

    def conjugate(self, gradient, y):
        found = super().conjugate(gradient, y)
        p = gradient[:, 0] + (y == 0.0)
        return found - np.where(p > 0.0, p * np.log(np.maximum(p, 1e-300)), 0.0)


@pytest.mark.parametrize(
    ("word", "law"),
    [
        (DiagonalOnly(3), "second derivative"),
        (FirstClassWins(3), "samples match"),
        (SmallCurvature(3), "curvature"),
        (LostClass(3), "Fenchel"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fault_of_classes_is_caught(word, law):
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_likelihood(word, (0.0, 1.0, 2.0), (3.0,))


def test_the_nearest_gradient_keeps_the_digits_of_small_ones():
    """Sums of gradients that are 0 up to 1e-16 alone made false bounds where z is large."""
    gradient = np.array([[-1.5e-4, 4e-9, 1.5e-4 - 4e-9 + 3e-17]])
    near = mc.Multinomial(3).nearest_gradient(gradient, np.array([0.0]))
    assert abs(math.fsum(near[0])) <= 1e-19
    np.testing.assert_allclose(near, gradient, rtol=0.0, atol=1e-16)


def test_answers_for_no_cell_have_the_shape_of_classes():
    values = np.random.default_rng(0).integers(0, 3, (12, 4)).astype(float)
    posterior = mc.posterior(
        mc.Model([mc.Block("x", mc.Multinomial(classes=3))], [mc.NuclearNorm()]), {"x": values}
    )
    none = np.zeros(0, dtype=int)
    assert posterior.predict("x", none, none).shape == (0, 3)
    assert posterior.sd("x", none, none).shape == (0, 3)


def test_the_size_of_an_answer_is_that_of_the_rows_that_are_asked_for(monkeypatch):
    values = np.random.default_rng(0).standard_normal((300, 4))
    posterior = mc.posterior(
        mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm()]), {"x": values}
    )
    monkeypatch.setattr("mcframe.fitting.prediction.physical_gigabytes", lambda: 2e-5)
    with pytest.raises(mc.DataError, match="all of its 300 x 4 entries"):
        posterior.sd("x")
    assert posterior.condition({"x": values[:3]}).sd("x").shape == (3, 4)
