"""Free effects: infinite ones, a ridge on them, two kinds, lines that nobody observed."""

import itertools
import types

import attrs
import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.compile import CompiledProblem, Program, solving
from mcframe.compile.effects import described_effects
from mcframe.compile.loss import SmoothedLoss
from mcframe.model import Layout, Problem
from mcframe.selection import HeldOutLoss

RNG = np.random.default_rng(3)
NORM = mc.NuclearNorm(0.5)
TWO = {"bias": True, "row_effects": True}
KINDS = ({"bias": True}, {"row_effects": True}, TWO)


def labels(n=12, d=4):
    y = (RNG.random((n, d)) < 0.5).astype(float)
    y[:, 0] = 0.0
    return y


WORDS = {
    "labels": (mc.Bernoulli(), labels()),
    "counts": (mc.Poisson(), RNG.poisson(2.0, (12, 4)).astype(float)),
    "values": (mc.Gaussian(), 3.0 + RNG.standard_normal((12, 4))),
    "classes": (mc.Multinomial(3), RNG.integers(0, 2, (12, 2)).astype(float)),
}


def cases():
    for (name, (word, table)), effects in itertools.product(WORDS.items(), KINDS):
        if word.width == 1 or effects == {"bias": True}:
            yield pytest.param(word, table, effects, id=f"{name}-{'-'.join(effects)}")


@pytest.mark.parametrize("weight", [1e-3, 0.1, 30.0])
@pytest.mark.parametrize(("word", "table", "effects"), list(cases()))
@pytest.mark.some(0.1)
def test_a_ridge_on_effects_reaches_the_reference(word, table, effects, weight):
    block = mc.Block("y", word, weight=2.0, reduce="mean", effects_weight=weight, **effects)
    model = mc.Model([block], [mc.NuclearNorm(0.05)])
    assert mc.verify(model, {"y": table}).agrees


@pytest.mark.parametrize("backend", ["proximal", "alternating", "factored", "splitting"])
def test_a_ridge_keeps_effects_finite_in_every_backend(backend):
    block, y = mc.Block("y", mc.Bernoulli(), effects_weight=0.1, **TWO), labels()
    fit = mc.fit(mc.Model([block], [NORM]), {"y": y}, backend=backend, max_iter=2000)
    wanted = mc.fit(mc.Model([block], [NORM]), {"y": y})
    assert fit.objective == pytest.approx(wanted.objective, rel=1e-4)
    p = fit.predict("y")
    assert np.all((p > 1e-5) & (p < 1 - 1e-5))
    assert not any("finite" in note for note in fit.notes)


def test_more_observations_say_more():
    """What a column of zeros is predicted at falls with their number, and is never 0."""
    predicted = []
    for n in (2, 20, 200):
        block = mc.Block("y", mc.Bernoulli(), bias=True, effects_weight=0.1)
        fit = mc.fit(mc.Model([block], [mc.NuclearNorm(5.0)]), {"y": np.zeros((n, 1))})
        predicted.append(fit.predict("y")[0, 0])
    assert 0.2 > predicted[0] > predicted[1] > predicted[2] > 1e-4


def test_the_ridge_is_part_of_the_sentence():
    block = mc.Block("y", mc.Bernoulli(), effects_weight=0.3, **TWO)
    assert "0.15 (Σ b_j² + Σ a_i² + c²) of y" in str(mc.Model([block], [NORM]))


def test_infinite_effects_are_said():
    for word, table in (WORDS["labels"], (mc.Poisson(), np.zeros((5, 2)))):
        model = mc.Model([mc.Block("y", word, bias=True)], [NORM])
        fit = mc.fit(model, {"y": table})
        (note,) = [note for note in fit.notes if "no finite optimum" in note]
        assert "bias of column 0" in note
        assert "effects_weight" in note
    ridged = mc.Model([mc.Block("y", word, bias=True, effects_weight=0.1)], [NORM])
    assert not mc.fit(ridged, {"y": table}).notes


@pytest.mark.parametrize(("effects", "ridge"), [*((kinds, None) for kinds in KINDS), (TWO, 1e-3)])
def test_what_nobody_observed_is_predicted_as_an_average(effects, ridge):
    rng = np.random.default_rng(0)
    x = 3.7 + 0.3 * rng.standard_normal((30, 1)) + 0.3 * rng.standard_normal((1, 20))
    x = x + 0.1 * rng.standard_normal((30, 20))
    x[rng.random(x.shape) < 0.5] = np.nan
    x[0], x[:, 0] = np.nan, np.nan
    block = mc.Block("x", mc.Gaussian(), effects_weight=ridge, **effects)
    with pytest.warns(mc.UnobservedWarning):
        fit = mc.fit(mc.Model([block], [mc.NuclearNorm(5.0)]), {"x": x})
    p = fit.predict("x")
    assert abs(p[0, 1:].mean() - 3.7) < 0.2
    assert abs(p[1:, 0].mean() - 3.7) < 0.2
    assert abs(p[0, 0] - 3.7) < 0.2


def test_predictions_do_not_depend_on_the_order_of_rows_and_columns():
    x = 3.0 + RNG.standard_normal((9, 7))
    x[RNG.random(x.shape) < 0.4] = np.nan
    x[0] = np.nan
    model = mc.Model([mc.Block("x", mc.Gaussian(), **TWO)], [NORM])
    rows, columns = RNG.permutation(9), RNG.permutation(7)
    with pytest.warns(mc.UnobservedWarning):
        p = mc.fit(model, {"x": x}, tol=1e-10).predict("x")
    with pytest.warns(mc.UnobservedWarning):
        q = mc.fit(model, {"x": x[rows][:, columns]}, tol=1e-10).predict("x")
    np.testing.assert_allclose(q, p[rows][:, columns], atol=1e-4)


def test_two_kinds_are_solved_as_by_least_squares():
    """Of a Gaussian block at Z = 0: dense least squares on the indicators of rows and columns."""
    x = 5.0 + RNG.standard_normal((8, 6))
    x[RNG.random(x.shape) < 0.4] = np.nan
    weights = 10.0 ** RNG.uniform(-2, 2, x.shape)
    model = mc.Model([mc.Block("x", mc.Gaussian(), **TWO)], [mc.NuclearNorm(1e6)])
    fit = mc.fit(model, {"x": mc.Observations(x, weights=weights)})
    i, j = np.nonzero(~np.isnan(x))
    design = np.hstack([np.eye(8)[i], np.eye(6)[j]])
    roots = np.sqrt(weights[i, j])
    solved = np.linalg.lstsq(design * roots[:, None], x[i, j] * roots, rcond=None)[0]
    np.testing.assert_allclose(fit.predict("x")[i, j], design @ solved, rtol=1e-7)


def as_declared(model, data, weights):
    """Fits whose effects have no ridge but that of their model."""
    return mc.path(model, data, weights=weights, tol=1e-3)


def test_cross_validation_is_not_decided_by_one_entry():
    """A label with one positive: in the fold that holds it back there is none left."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 5))
    y = (z > 0).astype(float)
    y[:, 0], y[0, 0] = 0.0, 1.0
    model = mc.Model([mc.Block("y", mc.Bernoulli(), bias=True)], [NORM])
    options = {
        "criterion": HeldOutLoss(),
        "weights": mc.selection.Grid(count=5, ratio=1e-3),
        "cv": 3,
        "tol": 1e-3,
    }
    chosen = mc.cross_validate(model, {"y": y}, **options)
    assert chosen.means.max() < 1.0
    assert chosen.effects_weight == 0.1
    assert "effects_weight=0.1" in repr(chosen)
    assert chosen.best_model.blocks == model.blocks
    free = mc.cross_validate(model, {"y": y}, path=as_declared, **options)
    assert free.means.max() > 2.0
    assert "effects_weight" not in repr(free)


def test_a_declared_ridge_is_kept_in_cross_validation():
    model = mc.Model([mc.Block("y", mc.Bernoulli(), bias=True, effects_weight=2.0)], [NORM])
    options = {"criterion": HeldOutLoss(), "weights": [1.0, 0.3], "cv": 2, "tol": 1e-3}
    y = labels()
    ours = mc.cross_validate(model, {"y": y}, **options)
    same = mc.cross_validate(model, {"y": y}, path=as_declared, **options)
    np.testing.assert_array_equal(ours.scores, same.scores)


def test_a_ridge_of_two_kinds_on_a_sparse_table():
    rng = np.random.default_rng(0)
    flat = np.unique(rng.integers(0, 800 * 500, 9000))
    values = 3.5 + 0.3 * rng.standard_normal(flat.size)
    x = sp.csr_array((values, (flat // 500, flat % 500)), shape=(800, 500))
    block = mc.Block("x", mc.Gaussian(), effects_weight=1.0, **TWO)
    model = mc.Model([block], [mc.NuclearNorm(4.0)])
    fit = mc.fit(model, {"x": x}, tol=1e-5)
    assert fit.status == "certified"
    free = attrs.evolve(block, effects_weight=None)
    assert mc.fit(mc.Model([free], model.terms), {"x": x}, tol=1e-5).objective < fit.objective


PAIRED = {
    "values": (mc.Gaussian(), {"bias": True}),
    "counts": (mc.Poisson(), {"bias": True, "effects_weight": 0.3}),
    "labels": (mc.Bernoulli(), {"row_effects": True, "effects_weight": 0.3}),
    "ratings": (mc.Gaussian(), TWO),
    "ridged": (mc.Poisson(), {**TWO, "effects_weight": 0.3}),
    "classes": (mc.Multinomial(3), {"bias": True}),
}


def program_with_effects(name):
    """A table of 30 rows with effects, its program, and two predictors of all entries."""
    rng, (word, effects) = np.random.default_rng(1), PAIRED[name]
    y = {
        mc.Poisson: rng.poisson(2.0, (30, 5)),
        mc.Bernoulli: rng.integers(0, 2, (30, 5)),
        mc.Multinomial: rng.integers(0, 3, (30, 3)),
    }.get(type(word), rng.standard_normal((30, 5)))
    table = np.where(rng.random(y.shape) < 0.2, np.nan, y)
    table[:, 0] = y[:, 0]  # each row has an entry
    model = mc.Model([mc.Block("y", word, **effects)], [NORM])
    loss = CompiledProblem(Problem.bind(model, {"y": table})).program.loss
    size = sum(block_loss.n_numbers for block_loss in loss.block_losses)
    return loss, 0.3 * rng.standard_normal(size), rng.standard_normal(size)


@pytest.mark.parametrize("name", list(PAIRED))
def test_effects_that_are_nearly_solved_for_err_by_powers_of_the_step(name):
    loss, z, direction = program_with_effects(name)
    warm = loss.evaluate(z).effects
    errors = []
    for length in (0.01, 0.005):
        exact = loss.evaluate(z + length * direction, warm)
        nearly = loss.evaluate(z + length * direction, warm, nearly=True)
        sums = loss.block_losses[0].effects.sum_by_effect(nearly.gradient)
        if loss.block_losses[0].effects.ridge is None:
            np.testing.assert_allclose(sums, 0.0, atol=1e-9)
        errors.append(
            (abs(nearly.value - exact.value), np.abs(nearly.gradient - exact.gradient).max())
        )
    (value, gradient), (value_half, gradient_half) = errors
    if loss.block_losses[0].likelihood.quadratic:
        assert max(value, gradient) < 1e-10
        return
    assert 1e-12 < value_half < value / 6.0  # of third order: an eighth
    assert 1e-9 < gradient_half < gradient / 3.5  # of second order: a quarter


@pytest.mark.parametrize("name", ["counts", "ridged", "classes"])
def test_effects_far_from_the_best_are_solved_for(name):
    loss, z, direction = program_with_effects(name)
    warm = loss.evaluate(z).effects
    exact = loss.evaluate(z + direction, warm)
    nearly = loss.evaluate(z + direction, warm, nearly=True)
    assert nearly.value == exact.value
    np.testing.assert_array_equal(nearly.gradient, exact.gradient)
    np.testing.assert_array_equal(nearly.effects[0], exact.effects[0])


def test_a_step_takes_one_pass_of_the_losses_for_each_evaluation(monkeypatch):
    calls = {"losses": 0, "evaluations": 0}

    def counted(kind, name, key):
        inner = getattr(kind, name)

        def wrapper(*arguments, **options):
            calls[key] += 1
            return inner(*arguments, **options)

        monkeypatch.setattr(kind, name, wrapper)

    counted(mc.Poisson, "value_and_gradient", "losses")
    counted(Program, "evaluate", "evaluations")
    rng = np.random.default_rng(0)
    rate = np.exp(0.5 * rng.standard_normal((40, 2)) @ rng.standard_normal((2, 12)))
    model = mc.Model([mc.Block("n", mc.Poisson(), bias=True)], [mc.NuclearNorm(1.0)])
    fit = mc.fit(model, {"n": rng.poisson(rate) * 1.0}, backend="proximal", tol=1e-8)
    assert fit.status == "certified"
    assert calls["evaluations"] > 50
    assert calls["losses"] < 2.0 * calls["evaluations"]


@pytest.mark.parametrize("seed", range(30))
def test_what_rounding_leaves_of_a_singular_system_is_not_blown_up(seed):
    """A graph's Laplacian, and a target that is off its range by a millionth of its size."""
    from mcframe.compile.solving import conjugate_gradients

    rng = np.random.default_rng(seed)
    links = rng.random((6, 20)) < 0.5
    links[:, 0] = links[0] = True
    laplacian = np.block([[np.diag(links.sum(1)), links], [links.T, np.diag(links.sum(0))]])
    null = np.concatenate([np.ones(6), -np.ones(20)]) / np.sqrt(26.0)
    target = laplacian @ rng.standard_normal(26)
    target += (1e-6 * np.linalg.norm(target) - null @ target) * null
    inverse, usable = 1.0 / np.diag(laplacian), np.ones(26, dtype=bool)
    found = conjugate_gradients(lambda x: laplacian @ x, target, inverse, usable, 1e-13)
    left = target - laplacian @ found
    assert np.linalg.norm(left) <= 2e-6 * np.linalg.norm(target)


@pytest.mark.parametrize("effects", KINDS, ids=str)
@pytest.mark.some(1, effects=1)
def test_effects_of_a_huber_loss_know_no_unit(effects):
    """Rows whose residuals are all beyond delta have a best effect, in any unit of the data."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((26, 2)) @ rng.standard_normal((2, 4)) + rng.normal(0, 0.3, (26, 4))
    hidden = rng.random(x.shape) < 0.6
    hidden[24] = False
    x[hidden] = np.nan
    weights = np.exp(rng.uniform(-3.0, 3.0, x.shape))
    found = []
    for unit in (1.0, 1e-9, 1e9):
        block = mc.Block("x", mc.Huber(0.1 * unit), **effects)
        model = mc.Model([block], [mc.NuclearNorm(0.3 * unit)])
        fit = mc.fit(model, {"x": mc.Observations(unit * x, weights=weights)})
        assert fit.status == "certified"
        found.append(fit.objective / unit**2)
    assert found == pytest.approx(found[:1] * len(found), rel=2e-6)


def loss_with_flat_tails(rng, weights):
    """Huber's loss or the envelope of a quantile's."""
    width = 10.0 ** rng.uniform(-4.0, 1.0)
    if rng.random() < 0.7:
        return mc.Huber(width)
    steps = weights / np.mean(weights) * width
    return SmoothedLoss(mc.Quantile(rng.uniform(0.1, 0.9)), steps, np.zeros(steps.size))


def tied_effects_of_flat_losses(state):
    """Rows and columns whose values have outliers and weights of many orders: what to solve."""
    rng = np.random.default_rng(state)
    shape = int(rng.integers(3, 60)), int(rng.integers(2, 12))
    rows, columns = np.nonzero(rng.random(shape) < rng.choice([0.3, 0.6, 1.0]))
    means = rng.standard_normal((shape[0], 1)) + rng.standard_normal((1, shape[1]))
    outliers = 10.0 ** rng.uniform(-2.0, 1.0) * rng.standard_t(1.5, shape)
    far = 10.0 ** rng.uniform(0.0, 3.0) * rng.standard_normal((1, shape[1]))
    y = (means + outliers + far)[rows, columns]
    z = 10.0 ** rng.uniform(-2.0, 1.0) * rng.standard_normal(y.size)
    orders = rng.choice([0.0, 1.0, 3.0])
    weights = 10.0 ** (rng.uniform(-9.0, 9.0) + rng.uniform(-orders, orders, y.size))
    likelihood = loss_with_flat_tails(rng, weights)
    ridge = np.mean(weights) * 10.0 ** rng.uniform(-6.0, 0.0) if state % 3 == 0 else 0.0
    layout = Layout(n_biases=shape[1], n_row_effects=shape[0])
    design = described_effects(layout, likelihood, rows, columns, ridge)
    return design, solving.EntriesAt(design, likelihood, z, y, weights)


def test_tied_effects_of_losses_with_flat_tails_take_few_newton_steps(monkeypatch):
    """Most entries are in a tail, without curvature, and steps of Newton's would never end."""
    steps, newton_step = [], solving.newton_step

    def counted(*arguments):
        steps.append(1)
        return newton_step(*arguments)

    monkeypatch.setattr(solving, "newton_step", counted)
    for state in range(100):
        design, entries = tied_effects_of_flat_losses(state)
        effects, _ = solving.best_effects(design, entries, entries.likelihood, None)
        objective = solving.ObjectiveAt(design, entries.at(effects), effects)
        if objective.relative_gradient > 0.0:
            gain = -float(objective.gradient @ newton_step(objective, entries.likelihood))
            # A loss of 1e-20 is rounding, where values can be fitted exactly.
            assert gain <= 1e-9 * objective.value + 1e-20 * np.sum(entries.weights), state
    assert len(steps) <= 2500


@attrs.frozen
class KinkAt:
    """f(x) = -x up to a kink, and .29 (x - kink) - kink beyond it, for a line search."""

    kink: float
    effects: np.ndarray

    @property
    def value(self):
        [x] = self.effects
        return -x if x <= self.kink else 0.29 * (x - self.kink) - self.kink

    @property
    def gradient(self):
        return np.where(self.effects <= self.kink, -1.0, 0.29)

    @property
    def sums(self):
        return types.SimpleNamespace(summands=1.0)


@pytest.mark.parametrize("kink", [0.9, 1e-2, 1e-6, 1e-12])
def test_a_step_beyond_a_kink_is_taken_only_where_the_value_falls(kink):
    start, step = KinkAt(kink, np.zeros(1)), np.ones(1)
    found, length = solving.line_search(lambda x: KinkAt(kink, x), start, step, -1.0)
    assert found.value <= 0.0
    np.testing.assert_array_equal(found.effects, length * step)
