"""Rows in partitions: the fit of the whole table, whoever computes the parts."""

import itertools
import pickle
import re
from contextlib import closing

import attrs
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import xlogy

import mcframe as mc
from mcframe.compile import compile_problem
from mcframe.compile.factor_rows import FactorRows
from mcframe.contracts.likelihood import Parametric
from mcframe.fitting.prediction import FittedRows
from mcframe.numerics.operators import LowRank
from mcframe.partitions import alternating_rows, partitioned_effects
from mcframe.partitions.binding_rounds import bind_partitions
from mcframe.partitions.executor import (
    OneByOne,
    PartCache,
    add_answers,
    bytes_of,
    tree_sum,
)
from mcframe.partitions.part import (
    BYTES_PER_ENTRY,
    REDUCTION_ARITY,
    ElementwiseMin,
    Source,
)
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.partitions.partitioned_effects import ColumnParts
from mcframe.partitions.store import is_partitioned
from mcframe.runtime.scratch import Scratch
from mcframe.runtime.work import Work

N_ROWS, N_COLUMNS = 48, 16
WORDS = {
    "gaussian": (mc.Gaussian(), 3.0),
    "bernoulli": (mc.Bernoulli(), 1.2),
    "poisson": (mc.Poisson(), 4.0),
    "huber": (mc.Huber(), 2.0),
}
EFFECTS = {
    "none": {},
    "biases": {"bias": True},
    "effects of rows": {"row_effects": True},
    "ridge on biases": {"bias": True, "effects_weight": 0.3},
    "ridge on effects of rows": {"row_effects": True, "effects_weight": 0.3},
    "both kinds": {"bias": True, "row_effects": True},
    "ridge on both kinds": {"bias": True, "row_effects": True, "effects_weight": 0.3},
}


def table(kind, seed=0, n_rows=N_ROWS, n_columns=N_COLUMNS, share=0.3):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, n_columns))
    if kind == "bernoulli":
        y = (z + rng.logistic(size=z.shape) > 0.0) * 1.0
    elif kind == "poisson":
        y = rng.poisson(np.exp(0.5 * z)).astype(float)
    else:
        y = z + 0.3 * rng.standard_normal(z.shape) + 2.0 * rng.standard_normal(n_columns)
    seen = rng.random(y.shape) < share
    seen[rng.integers(0, n_rows, n_columns), np.arange(n_columns)] = True
    seen[np.arange(n_rows), rng.integers(0, n_columns, n_rows)] = True
    rows, columns = np.nonzero(seen)
    return sp.csr_array((y[rows, columns], (rows, columns)), shape=y.shape)


def model_of(kind, effects="none"):
    word, weight = WORDS[kind]
    return mc.Model([mc.Block("x", word, **EFFECTS[effects])], [mc.NuclearNorm(weight)])


def fits_of(model, data, counts, tol=1e-6, **options):
    return [mc.fit(model, RowsInMemory(data, p), tol=tol, **options) for p in counts]


@pytest.mark.parametrize(
    ("kind", "effects"),
    [
        *itertools.product(["gaussian"], EFFECTS),
        *itertools.product(list(WORDS)[1:], ["none", "biases"]),
        *(
            pytest.param(kind, "both kinds", marks=pytest.mark.slow(seconds=1))
            for kind in list(WORDS)[1:]
        ),
    ],
)
@pytest.mark.parametrize("tol", [1e-5, pytest.param(1e-6, marks=pytest.mark.slow)])
@pytest.mark.some(0.5, kind=[0, 1, 2, *range(5, 13)])
def test_a_fit_of_partitions_is_the_fit_of_the_table(kind, effects, tol):
    small = {"n_rows": 24, "n_columns": 8} if effects == "both kinds" else {}
    model, x = model_of(kind, effects), table(kind, **small)
    tol = 1e-6 if kind == "gaussian" else tol
    whole = mc.fit(model, {"x": x}, tol=tol, backend="alternating")
    for fit in fits_of(model, {"x": x}, (1, 5) if kind == "gaussian" else (5,), tol):
        assert fit.status == "certified"
        assert fit.bound <= whole.objective * (1.0 + 1e-12)
        assert fit.objective == pytest.approx(whole.objective, rel=2 * tol)


@pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning")
@pytest.mark.parametrize(
    ("kind", "effects"),
    [
        ("gaussian", "effects of rows"),
        *itertools.product(WORDS, ["biases"]),
        *itertools.product(WORDS, ["both kinds"]),
        *(
            pytest.param(kind, "ridge on both kinds", marks=pytest.mark.slow(seconds=1))
            for kind in WORDS
        ),
    ],
)
@pytest.mark.some(0.4, kind=[0, 1, 2, 3, 4, 5])
def test_partitionings_agree_to_rounding(kind, effects):
    """After 10 iterations and two looks: later on rounding may decide which step is taken."""
    one, *others = fits_of(model_of(kind, effects), {"x": table(kind)}, (1, 5), max_iter=10)
    for fit in others:
        assert fit.objective == pytest.approx(one.objective, rel=1e-10)
        assert fit.bound == pytest.approx(one.bound, rel=1e-10)
        size = np.abs(one.latent.dense()).max()
        np.testing.assert_allclose(fit.latent.dense(), one.latent.dense(), atol=1e-8 * size)
        np.testing.assert_allclose(fit.effects["x"], one.effects["x"], atol=1e-8 * size)


def test_a_certificate_of_partitions_bounds_the_exact_optimum():
    model, x = model_of("bernoulli", "biases"), table("bernoulli", n_rows=12, n_columns=6)
    exact = mc.fit(model, {"x": x}, backend="reference")
    (fit,) = fits_of(model, {"x": x}, [3])
    assert fit.bound <= exact.objective
    assert fit.objective == pytest.approx(exact.objective, rel=1e-5)


@pytest.mark.parametrize("kind", ["poisson", "classes", "levels"])
def test_parts_that_are_dropped_and_made_again_change_no_bit(kind):
    if kind == "classes":
        model, x = model_of_classes({}), classes_of()
    elif kind == "levels":
        model, x = model_of_levels(), levels_of()
    else:
        model, x = model_of(kind, "biases"), table(kind)
    data, kept = RowsInMemory({"x": x}, 3), []
    for most, scratch in ((np.inf, None), (20_000, None), (20_000, Scratch()), (0, Scratch())):
        executor = OneByOne(Source(data, model), PartCache(most, scratch))
        with closing(executor):
            kept.append(bits_of_fit(model, data, executor))
    assert kept[0] == kept[1] == kept[2] == kept[3]


def bits_of_fit(model, data, executor, tol=1e-4):
    from mcframe.backends import Alternating, Budget, Settings, run

    problem, program = bind_partitions(model, executor)
    outcome = run(Alternating(), program, Settings(Budget(tol)))
    objective = problem.objective(outcome.point.latent, outcome.effects)
    factors = (np.asarray(array).tobytes() for array in outcome.point.latent.thin())
    effects = [own.tobytes() for own in outcome.effects.values()]
    return objective, outcome.bound, *factors, effects


def test_blocks_side_by_side_with_weights_and_means():
    x, y = table("gaussian"), table("bernoulli", seed=1, n_columns=5)
    weights = sp.csr_array(
        (np.random.default_rng(2).uniform(0.5, 2.0, x.nnz), x.indices, x.indptr)
    )
    data = {"x": mc.Observations(x, weights=weights), "y": y}
    blocks = [
        mc.Block("x", mc.Gaussian(), reduce="mean", bias=True),
        mc.Block(
            "y", mc.Bernoulli(), weight=0.5, reduce="mean", row_effects=True, effects_weight=0.1
        ),
    ]
    model = mc.Model(blocks, [mc.NuclearNorm(0.02)])
    whole = mc.fit(model, data, tol=1e-6, backend="alternating")
    for fit in fits_of(model, data, (1, 4)):
        assert fit.status == "certified"
        assert fit.objective == pytest.approx(whole.objective, rel=2e-6)


@pytest.mark.parametrize(
    "effects", [pytest.param("none", marks=pytest.mark.slow(seconds=2)), "biases"]
)
@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.some(0.7, kind=2)
def test_standard_units_are_those_of_whole_columns(kind, effects):
    x = table(kind)
    weights = sp.csr_array(
        (np.random.default_rng(2).uniform(0.5, 2.0, x.nnz), x.indices, x.indptr)
    )
    data = {"x": mc.Observations(x, weights=weights)}
    block = mc.Block("x", WORDS[kind][0], standardize=True, **EFFECTS[effects])
    model = mc.Model([block], [mc.NuclearNorm(3.0)])
    whole = mc.fit(model, data, tol=1e-5, backend="alternating")
    standard = whole.problem.totals.standards["x"]
    for fit in fits_of(model, data, (1, 5) if kind == "gaussian" else (5,), tol=1e-5):
        found = fit.problem.totals.standards["x"]
        np.testing.assert_allclose(found.weights, standard.weights, rtol=1e-9)
        assert fit.status == "certified"
        assert fit.objective == pytest.approx(whole.objective, rel=2e-5)
        rows, columns = np.array([0, 40]), np.array([1, 2])
        np.testing.assert_allclose(
            fit.predict("x", rows, columns), whole.predict("x", rows, columns), rtol=0.1, atol=0.05
        )


def test_standard_units_of_columns_far_from_zero_of_any_size_alike_and_empty():
    x = np.array(table("gaussian", n_rows=12, n_columns=6).todense())
    x[x == 0.0] = np.nan
    x[:, 1], x[:, 2], x[:, 3] = 1e12 + np.arange(12.0), 1e-12 * np.arange(12.0), 7.0
    x[:, 4] = np.nan
    model = mc.Model([mc.Block("x", mc.Gaussian(), standardize=True)], [mc.NuclearNorm(1.0)])
    with pytest.warns(mc.UnobservedWarning):
        whole = mc.fit(model, {"x": x}, tol=1e-6, backend="alternating")
    with pytest.warns(mc.UnobservedWarning):
        fit = mc.fit(model, RowsInMemory({"x": x}, 12), tol=1e-6)
    standard, found = (f.problem.totals.standards["x"] for f in (whole, fit))
    for word in ("pivot", "shift", "spread"):
        np.testing.assert_allclose(
            getattr(found.units, word), getattr(standard.units, word), rtol=1e-12, atol=1e-28
        )
    assert fit.objective == pytest.approx(whole.objective, rel=2e-6)
    rows, columns = np.array([3, 3]), np.array([1, 3])
    seen = fit.predict("x", rows, columns), whole.predict("x", rows, columns)
    np.testing.assert_allclose(*seen, rtol=1e-3)
    new = fit.predict_rows("x", {"x": x[:2]}), whole.predict_rows("x", {"x": x[:2]})
    np.testing.assert_allclose(*new, rtol=1e-2, atol=1e-2)


def test_exposures_are_those_of_the_rows():
    x = table("poisson")
    days = np.random.default_rng(1).uniform(1.0, 9.0, (N_ROWS, 1))
    data = {"x": mc.Observations(x, exposure=days)}
    model = model_of("poisson", "biases")
    whole = mc.fit(model, data, tol=1e-5, backend="alternating")
    (fit,) = fits_of(model, data, [4], tol=1e-5)
    assert fit.objective == pytest.approx(whole.objective, rel=2e-5)
    rows, columns = np.array([0, 30, 47]), np.array([3, 3, 4])
    np.testing.assert_allclose(
        fit.predict("x", rows, columns), whole.predict("x", rows, columns), rtol=1e-2
    )


@pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning")
@pytest.mark.parametrize("kind", WORDS)
def test_a_partition_without_an_entry_of_a_weighted_block(kind):
    y = table(kind).toarray()
    y[table(kind).toarray() == 0.0] = np.nan
    y[8:16] = np.nan
    weights = 10.0 ** np.random.default_rng(3).uniform(-2, 2, y.shape)
    data = {"x": mc.Observations(y, weights=weights), "z": table("gaussian", 1)}
    blocks = [mc.Block("x", WORDS[kind][0], bias=True), mc.Block("z", mc.Gaussian())]
    model = mc.Model(blocks, [mc.NuclearNorm(WORDS[kind][1])])
    whole = mc.fit(model, data, tol=1e-9, max_iter=2, backend="alternating")
    (fit,) = fits_of(model, data, (6,), 1e-9, max_iter=2)
    assert fit.objective == pytest.approx(whole.objective, rel=1e-9)
    assert np.isfinite(fit.bound)


def test_labels_alike_in_a_part_are_not_alike_in_the_table():
    """The bias of column 0 is finite, though every partition by itself would have it infinite."""
    y = np.array(table("bernoulli").todense())
    y[:24, 0], y[24:, 0] = 1.0, 0.0
    y[:, 1] = 1.0
    model = model_of("bernoulli", "biases")
    whole = mc.fit(model, {"x": y}, tol=1e-6, backend="alternating")
    (fit,) = fits_of(model, {"x": y}, [2])
    assert abs(fit.bias("x")[0]) < 5.0
    assert fit.bias("x")[1] > 100.0
    assert fit.notes == whole.notes
    assert "column 1 has no finite" in fit.notes[0]
    assert fit.objective == pytest.approx(whole.objective, rel=2e-6)


def test_effects_of_both_kinds_that_no_partition_knows_to_be_infinite():
    """Perfect scores of a Rasch model, found in turns: row 0, then column 2 without it."""
    y = np.array(table("bernoulli", n_rows=24, n_columns=8).todense())
    y[y == 0.0] = np.where(np.random.default_rng(1).random(y[y == 0.0].shape) < 0.4, 0.0, np.nan)
    y[:12, 0], y[12:, 0] = 1.0, 0.0  # alike in either half
    y[0] = 1.0
    y[1:, 2] = 0.0
    model = model_of("bernoulli", "both kinds")
    whole = mc.fit(model, {"x": y}, tol=1e-6, backend="alternating")
    (fit,) = fits_of(model, {"x": y}, [2])
    np.testing.assert_array_equal(np.abs(fit.effects["x"]) > 100, abs(whole.effects["x"]) > 100)
    assert abs(fit.effects["x"][2]) > 100.0
    assert abs(fit.effects["x"][0]) < 50.0
    assert fit.notes == whole.notes
    assert "column 2 and 5 more effects" in fit.notes[0]
    assert fit.status == "certified"
    assert fit.objective == pytest.approx(whole.objective, rel=2e-6)


@attrs.frozen
class Unflipped(mc.Bernoulli):
    """Labels that were flipped now and then, told as -0.1 and 1.1: a loss with no lower bound."""

    infimum = -np.inf

    def invalid(self, y):
        return ~np.isfinite(y)

    def value(self, z, y):
        return np.logaddexp(0.0, z) - y * z

    def value_and_gradient(self, z, y):
        return self.value(z, y), 1.0 / (1.0 + np.exp(-z)) - y

    def conjugate(self, gradient, y):
        t = gradient + y
        inside = (t >= 0.0) & (t <= 1.0)
        t = np.clip(t, 0.0, 1.0)
        return np.where(inside, xlogy(t, t) + xlogy(1.0 - t, 1.0 - t), np.inf)

    def start(self, y):
        return np.zeros(y.shape)


def unflipped_labels():
    """Of column 0 all in the first half of the rows are 1, and in the others 0."""
    y = np.array(table("bernoulli", share=0.9).todense())
    y[:24, 0], y[24:, 0] = 1.0, 0.0
    y[:, 1:][np.random.default_rng(0).random((48, 15)) < 0.3] = 0.5
    return 1.2 * y - 0.1


@pytest.mark.parametrize("effects", ["biases", "both kinds"])
def test_a_loss_that_falls_in_one_partition_alone_is_fitted(effects):
    y = unflipped_labels()
    model = mc.Model([mc.Block("x", Unflipped(), **EFFECTS[effects])], [mc.NuclearNorm(6.0)])
    whole = mc.fit(model, {"x": y}, tol=1e-5, backend="alternating")
    for fit in fits_of(model, {"x": y}, (2, 3), tol=1e-5):
        assert fit.status == "certified"
        assert fit.objective == pytest.approx(whole.objective, abs=2e-5 * abs(whole.objective))


@pytest.mark.parametrize("effects", ["biases", "effects of rows", "both kinds"])
def test_a_loss_that_falls_without_end_is_named_as_in_the_table(effects):
    """By the row's place in the table, and not in its partition."""
    y = unflipped_labels()
    if "biases" in effects:
        y[:, 3] = 1.1
    else:
        y[40] = 1.1
    model = mc.Model([mc.Block("x", Unflipped(), **EFFECTS[effects])], [mc.NuclearNorm(6.0)])
    said = []
    for data in ({"x": y}, RowsInMemory({"x": y}, 3)):
        with pytest.raises(mc.DataError, match=r"^block 'x'.*(bias of column 3|row 40);") as error:
            mc.fit(model, data, backend="alternating")
        said.append(str(error.value))
    assert said[0] == said[1]


def test_parts_that_partitions_connect_or_leave_apart():
    """Rows 0 to 23 and 24 to 47 share no column but in the last row; two stand alone."""
    x = np.array(table("gaussian", share=0.8).todense())
    x[x == 0.0] = np.nan
    x[:24, 8:], x[24:47, :8] = np.nan, np.nan
    x[:, 3], x[30] = np.nan, np.nan
    for row in (0, 47):  # the last row apart from the first columns, then not
        x[47, :8] = np.nan if row == 0 else np.arange(8.0)
        x[47, 3] = np.nan
        model = model_of("gaussian", "both kinds")
        with pytest.warns(mc.UnobservedWarning):
            whole = mc.fit(model, {"x": x}, tol=1e-9, backend="alternating")
        with pytest.warns(mc.UnobservedWarning):
            fit = mc.fit(model, RowsInMemory({"x": x}, 3), tol=1e-9)
        assert fit.status == "certified"
        np.testing.assert_allclose(fit.effects["x"], whole.effects["x"], atol=1e-3)


def classes_of(n_rows=16, n_columns=5, n_classes=3, share=0.7, seed=0):
    """Classes of which column 1 never has the last, and either half of column 2 only one."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, n_columns * n_classes))
    z = z.reshape(n_rows, n_columns, n_classes) + rng.gumbel(size=(n_rows, n_columns, n_classes))
    y = np.argmax(z, axis=-1).astype(float)
    y[:, 1] = np.minimum(y[:, 1], n_classes - 2)
    y[: n_rows // 2, 2], y[n_rows // 2 :, 2] = 0.0, 1.0  # alike in either half
    y[rng.random(y.shape) > share] = np.nan
    return y


CLASSES = {
    "free": {},
    "ridge": {"effects_weight": 0.3},
    "means": {"reduce": "mean"},
}


def model_of_classes(options, n_classes=3):
    weight = 0.02 if "reduce" in options else 1.5
    block = mc.Block("x", mc.Multinomial(n_classes), bias=True, **options)
    return mc.Model([block], [mc.NuclearNorm(weight)])


@pytest.mark.parametrize("case", CLASSES)
def test_biases_of_classes_are_those_of_the_table(case):
    model, y = model_of_classes(CLASSES[case]), classes_of()
    whole = mc.fit(model, {"x": y}, tol=1e-5, backend="alternating")
    far = np.abs(whole.effects["x"]) > 100.0
    assert far.sum() == (0 if case == "ridge" else 2)
    for fit in fits_of(model, {"x": y}, (2, 5), tol=1e-5):
        assert fit.notes == whole.notes
        assert len(fit.notes) == (0 if case == "ridge" else 1)
        assert fit.status == "certified"
        assert fit.bound <= whole.objective * (1.0 + 1e-12)
        assert fit.objective == pytest.approx(whole.objective, rel=2e-5)
        np.testing.assert_array_equal(np.abs(fit.effects["x"]) > 100.0, far)


@pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning")
@pytest.mark.parametrize("case", CLASSES)
@pytest.mark.some(0.7, case=1)
def test_biases_of_classes_agree_between_partitionings(case):
    model, y = model_of_classes(CLASSES[case]), classes_of(seed=1)
    one, *others = fits_of(model, {"x": y}, (1, 3, 16), max_iter=10)
    for fit in others:
        assert fit.objective == pytest.approx(one.objective, rel=1e-10)
        assert fit.bound == pytest.approx(one.bound, rel=1e-10)
        rows, columns = np.repeat(np.arange(16), 5), np.tile(np.arange(5), 16)
        np.testing.assert_allclose(  # effects of a column are told up to a constant
            fit.predict("x", rows, columns), one.predict("x", rows, columns), atol=1e-8
        )


def test_gradients_are_centred_class_by_class_over_all_partitions():
    """Weights of entries and gradients far from the best biases: sums are not small before."""
    model, y = model_of_classes({}), classes_of()
    data = RowsInMemory({"x": mc.Observations(y, weights=np.full(y.shape, 0.3))}, 3)
    with closing(OneByOne(Source(data, model), PartCache(np.inf))) as executor:
        program = bind_partitions(model, executor)[1]
        loss, counts = program.loss, program.loss.block_losses[0].effects.counts
        nowhere = program.entries.of(LowRank.zeros((16, 15)))
        gradient = loss.evaluate_at(nowhere, (np.zeros(15),)).gradient
        centred = loss.centre(gradient)
        sums, sizes = loss.sums_by_effect(gradient)[0]
        assert np.max(np.abs(sums[counts > 0])) > 0.3
        assert np.all(np.abs(loss.sums_by_effect(centred)[0][0]) <= 1e-14 * sizes)


def test_many_classes_are_solved_by_products(monkeypatch):
    """Of more classes than are written out systems are known by products, a round each."""
    model, y = model_of_classes({}), classes_of()
    (written,) = fits_of(model, {"x": y}, [2], tol=1e-5)
    with monkeypatch.context() as context:
        context.setattr("mcframe.compile.solving.FEW_CLASSES", 0)
        (products,) = fits_of(model, {"x": y}, [2], tol=1e-5)
    assert products.status == "certified"
    assert products.objective == pytest.approx(written.objective, rel=2e-5)


def test_a_certificate_of_classes_bounds_the_exact_optimum():
    model, y = model_of_classes({}), classes_of(n_rows=10, n_columns=4)
    exact = mc.fit(model, {"x": y}, backend="reference")
    (fit,) = fits_of(model, {"x": y}, [3])
    assert fit.bound <= exact.objective * (1.0 + 1e-9)
    assert fit.objective == pytest.approx(exact.objective, rel=1e-5)


def test_classes_beside_biases_of_another_block_with_weights_and_gaps():
    """Columns without an entry; weights; the centring of one block leaves the other's alone."""
    y, x = classes_of(seed=2), table("gaussian", n_rows=16, n_columns=5)
    y[:, 4] = np.nan
    weights = np.random.default_rng(3).uniform(0.5, 2.0, y.shape)
    data = {"y": mc.Observations(y, weights=weights), "x": x}
    blocks = [
        mc.Block("y", mc.Multinomial(3), bias=True),
        mc.Block("x", mc.Gaussian(), bias=True),
    ]
    model = mc.Model(blocks, [mc.NuclearNorm(2.0)])
    with pytest.warns(mc.UnobservedWarning):
        whole = mc.fit(model, data, tol=1e-6, backend="alternating")
    with pytest.warns(mc.UnobservedWarning):
        fit = mc.fit(model, RowsInMemory(data, 4), tol=1e-6)
    assert fit.status == "certified"
    assert fit.objective == pytest.approx(whole.objective, rel=2e-6)
    seen = (
        fit.predict("y", np.arange(5), np.arange(5)),
        whole.predict("y", np.arange(5), np.arange(5)),
    )
    np.testing.assert_allclose(*seen, atol=0.02)


def levels_of(seed=0, n_rows=24, n_columns=8, levels=4, share=0.6):
    """Levels; the rows of either half have one end each alone, and row 0 nothing."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, n_columns))
    y = np.clip(np.round(z + rng.logistic(size=z.shape) + 0.5 * (levels + 1)), 1, levels)
    y[: n_rows // 2] = np.minimum(y[: n_rows // 2], levels - 1)
    y[n_rows // 2 :] = np.maximum(y[n_rows // 2 :], 2)
    y[rng.random(y.shape) > share] = np.nan
    return y


def model_of_levels(levels=4, weight=1.5, **options):
    return mc.Model([mc.Block("x", mc.Ordinal(levels), **options)], [mc.NuclearNorm(weight)])


@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.some(0.8, levels=[1])
def test_fitted_thresholds_are_those_of_the_table(levels):
    model, y = model_of_levels(levels), np.minimum(levels_of(), levels)
    whole = mc.fit(model, {"x": y}, tol=1e-6, backend="alternating")
    for fit in fits_of(model, {"x": y}, (1, 5)):
        assert fit.status == "certified"
        assert fit.bound <= whole.objective * (1.0 + 1e-12)
        assert fit.objective == pytest.approx(whole.objective, rel=2e-6)
        assert not fit.notes
        np.testing.assert_allclose(fit.effects["x"], whole.effects["x"], atol=0.05)


def test_each_weighted_level_has_the_curvature_of_its_own_weight():
    """Where thresholds are fitted steps count with curvatures, one a weight."""
    y = levels_of()
    weights = 10.0 ** np.random.default_rng(0).uniform(-3, 3, y.shape)
    problem = mc.Problem.bind(model_of_levels(), {"x": mc.Observations(y, weights=weights)})
    program = compile_problem(problem)
    (block_loss,) = program.loss.block_losses
    lines = FactorRows(program, program.evaluate(LowRank.zeros(program.shape)))
    np.testing.assert_allclose(
        lines.newton_weights, block_loss.scale * block_loss.likelihood.curvature, rtol=1e-12
    )


@pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning")
def test_fitted_thresholds_agree_between_partitionings():
    model, y = model_of_levels(), levels_of(seed=1)
    one, *others = fits_of(model, {"x": y}, (1, 2, 24), max_iter=10)
    for fit in others:
        assert fit.objective == pytest.approx(one.objective, rel=1e-10)
        assert fit.bound == pytest.approx(one.bound, rel=1e-10)
        np.testing.assert_allclose(fit.effects["x"], one.effects["x"], rtol=1e-8)


def test_thresholds_of_levels_that_no_partition_has_with_offsets_and_tiny_weights():
    """Level 3 of 5 is never seen, nor is 5."""
    y = levels_of(levels=3)
    y[y == 3.0] = 4.0
    offsets = np.zeros(y.shape)
    offsets[1::2] = 3.0
    data = {"x": mc.Observations(y, offset=offsets, weights=np.full(y.shape, 1e-12))}
    model = model_of_levels(5, weight=1.5e-12)
    whole = mc.fit(model, data, tol=1e-5, backend="alternating")
    (fit,) = fits_of(model, data, [3], tol=1e-5)
    assert fit.objective == pytest.approx(whole.objective, rel=2e-5)
    low, meet, met, beyond = fit.effects["x"]
    assert low < meet < met == pytest.approx(meet, rel=1e-12)
    assert beyond > 900.0
    assert fit.notes == whole.notes
    assert "nothing was observed at the levels 3, 5:" in fit.notes[0]


def test_a_certificate_of_thresholds_bounds_the_exact_optimum():
    model, y = model_of_levels(), levels_of(n_rows=12, n_columns=5)
    exact = mc.fit(model, {"x": y}, backend="reference")
    (fit,) = fits_of(model, {"x": y}, [3])
    assert fit.bound <= exact.objective * (1.0 + 1e-9)
    assert fit.objective == pytest.approx(exact.objective, rel=1e-5)


def test_systems_that_are_written_out_are_those_of_rounds(monkeypatch):
    for effects in ("both kinds", "ridge on both kinds"):
        model, x = model_of("bernoulli", effects), table("bernoulli", n_rows=20, n_columns=6)
        (written,) = fits_of(model, {"x": x}, [2])
        with monkeypatch.context() as context:
            context.setattr("mcframe.partitions.partitioned_effects.EXPLICIT_COLUMNS", 0)
            (fit,) = fits_of(model, {"x": x}, [2])
        assert fit.status == "certified"
        assert fit.objective == pytest.approx(written.objective, rel=2e-6)


@pytest.mark.parametrize("offset", [0.0, 1e12])
def test_both_kinds_far_from_zero_and_partitions_of_one_row(offset):
    x, model = table("gaussian", n_rows=9, n_columns=4), model_of("gaussian", "both kinds")
    x.data = np.round(x.data, 3) + offset
    (fit,) = fits_of(model, {"x": x}, [9])
    x.data = np.round(x.data - offset, 3)
    (near,) = fits_of(model, {"x": x}, [9])
    assert fit.status == "certified"
    assert fit.objective == pytest.approx(near.objective, rel=1e-3)


@pytest.mark.parametrize("offset", [0.0, 1e12])
def test_columns_far_from_zero(offset):
    x = table("gaussian")
    x.data += offset
    model = model_of("gaussian", "biases")
    (fit,) = fits_of(model, {"x": x}, [4])
    (near,) = fits_of(model, {"x": table("gaussian")}, [4])
    assert fit.status == "certified"
    assert fit.objective == pytest.approx(near.objective, rel=1e-3)


def test_a_scale_of_1e_12_and_partitions_of_one_row():
    x = table("gaussian", n_rows=9, n_columns=4)
    x.data *= 1e-12
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1e-12)])
    whole = mc.fit(model, {"x": x}, tol=1e-6)
    (fit,) = fits_of(model, {"x": x}, [9], tol=1e-6)
    assert fit.objective == pytest.approx(whole.objective, rel=2e-6)


def test_rows_and_columns_without_an_entry_are_said_and_predicted_as_of_the_table():
    x = np.array(table("gaussian").todense())
    x[x == 0.0] = np.nan
    x[:, 3] = np.nan
    x[16:32] = np.nan  # a whole partition
    model = model_of("gaussian", "biases")
    with pytest.warns(mc.UnobservedWarning):
        whole = mc.fit(model, {"x": x}, tol=1e-8, backend="alternating")
    with pytest.warns(mc.UnobservedWarning) as said:
        fit = mc.fit(model, RowsInMemory({"x": x}, 3), tol=1e-8)
    assert tuple(str(warning.message) for warning in said) == whole.notes == fit.notes
    np.testing.assert_allclose(fit.bias("x"), whole.bias("x"), atol=1e-3)


def test_answers_need_no_entry():
    model, x = model_of("gaussian", "biases"), table("gaussian")
    whole = mc.fit(model, {"x": x}, tol=1e-8, backend="alternating")
    (fit,) = fits_of(model, {"x": x}, [3], tol=1e-8)
    rows, columns = np.array([0, 40]), np.array([1, 2])
    np.testing.assert_allclose(
        fit.predict("x", rows, columns), whole.predict("x", rows, columns), atol=1e-3
    )
    np.testing.assert_allclose(
        fit.predict_rows("x", {"x": x[:3]}), whole.predict_rows("x", {"x": x[:3]}), atol=1e-3
    )
    best, best_of_whole = fit.top("x", [5, 40], n=3), whole.top("x", [5, 40], n=3)
    assert [pair[:2] for pair in best] == [pair[:2] for pair in best_of_whole]
    with pytest.raises(mc.ModelError, match=r"observed entries.*fit\.losses_at"):
        fit.log_likelihood("x")


def test_a_start_goes_on_with_what_is_known():
    model, data = model_of("gaussian"), RowsInMemory({"x": table("gaussian")}, 3)
    with pytest.warns(mc.NotCertifiedWarning):
        begun = mc.fit(model, data, tol=1e-8, max_iter=8)
    ended = mc.fit(model, data, tol=1e-8, start=begun)
    straight = mc.fit(model, data, tol=1e-8)
    assert ended.status == "certified"
    assert ended.bound >= begun.bound
    assert ended.objective == pytest.approx(straight.objective, rel=1e-8)
    assert begun.objective > straight.objective


class Shifted(mc.Gaussian, Parametric):
    """A word whose parameter needs all entries in one place: a median of residuals."""

    n_parameters = 1

    def best_parameters(self, z, y, weights, start):
        raise AssertionError("all entries were asked for")

    def with_parameters(self, parameters):
        return self


REFUSED = {
    "max norm": ([mc.Block("x", mc.Gaussian())], [mc.MaxNorm(1.0)], "NuclearNorm"),
    "two terms": (
        [mc.Block("x", mc.Gaussian())],
        [mc.NuclearNorm(1.0), mc.Ridge(1.0)],
        "only term",
    ),
    "hinge": ([mc.Block("x", mc.Hinge())], [mc.NuclearNorm(1.0)], "no gradient"),
    "parameters": ([mc.Block("x", Shifted())], [mc.NuclearNorm(1.0)], "not by sums"),
    "standard levels": (
        [mc.Block("x", mc.Ordinal(3), standardize=True)],
        [mc.NuclearNorm(1.0)],
        "best constants",
    ),
    "standard": (
        [mc.Block("x", mc.Gaussian(), standardize="robust")],
        [mc.NuclearNorm(1.0)],
        "sorts whole columns",
    ),
    "standard classes": (
        [mc.Block("x", mc.Multinomial(3), standardize=True)],
        [mc.NuclearNorm(1.0)],
        "best constants",
    ),
    "unlabeled": (
        [mc.Block("x", mc.RiskMixture(pu=1.0, likelihood=mc.Bernoulli()))],
        [mc.NuclearNorm(1.0)],
        "without reading each one",
    ),
    "unlabeled and biases": (
        [mc.Block("x", mc.RiskMixture(pu=1.0, likelihood=mc.Gaussian()), bias=True)],
        [mc.NuclearNorm(1.0)],
        "neither bias nor row_effects",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_why_and_explain_says_it_too(case):
    blocks, terms, why = REFUSED[case]
    model, data = mc.Model(blocks, terms), RowsInMemory({"x": table("gaussian")}, 2)
    with pytest.raises(mc.BackendError, match=why):
        mc.fit(model, data)
    explained = mc.explain(model, data)
    assert why in repr(explained)
    assert (explained.chosen, why in explained.why) == (None, True)
    assert [verdict.can_run for verdict in explained.eligibilities] == [False]


def test_another_backend_is_refused():
    model, x = model_of("gaussian"), table("gaussian")
    with pytest.raises(mc.BackendError, match="'alternating' alone"):
        mc.fit(model, RowsInMemory({"x": x}, 2), backend="proximal")
    halves = RowsInMemory({"x": x}, 2)
    assert repr(mc.explain(model, halves)) == repr(mc.explain(model, halves))
    assert mc.explain(model, halves).chosen == "alternating"
    assert mc.explain(model, halves).eligibilities[0].can_run
    with pytest.raises(mc.DataError, match="RowsInMemory was given, rows in partitions"):
        mc.weight_max(model, halves)


def test_a_wrong_value_is_named_with_its_partition():
    x = table("bernoulli")
    x.data[x.indptr[42]] = 2.0
    with pytest.raises(mc.DataError, match=r"partition 2 \(rows 32 to 47.*row 10"):
        mc.fit(model_of("bernoulli"), RowsInMemory({"x": x}, 3))


class Changed(RowsInMemory):
    """Data that break what the protocol says."""

    def rows(self, p):
        first, last = super().rows(p)
        return (first + 1, last) if p else (first, last)


def test_partitions_that_do_not_follow_each_other_are_refused():
    with pytest.raises(mc.DataError, match="follow each other"):
        mc.fit(model_of("gaussian"), Changed({"x": table("gaussian")}, 3))
    with pytest.raises(mc.DataError, match="'z'"):
        mc.fit(model_of("gaussian"), RowsInMemory({"z": table("gaussian")}, 3))
    with pytest.raises(mc.DataError, match="n_partitions=49"):
        RowsInMemory({"x": table("gaussian")}, 49)


def test_explain_tells_bytes_without_reading_a_partition():
    class Unread(RowsInMemory):
        def part(self, p):
            raise AssertionError("it was read")

    told = mc.explain(model_of("gaussian"), Unread({"x": table("gaussian")}, 3))
    assert told.n_partitions == 3
    assert told.refusal is None
    entries = table("gaussian").nnz
    assert sum(told.partition_bytes) == BYTES_PER_ENTRY * entries
    assert len(told.partition_bytes) == 3
    assert "3 partitions" in repr(told)


def test_parts_of_columns_add_up_to_those_of_all_entries():
    rng, d = np.random.default_rng(0), 30
    found = [rng.integers(0, 24, d) for _ in range(3)]
    labels = tree_sum([ColumnParts(own) for own in found]).labels
    starts = 30 * np.arange(3)[:, None] + np.array(found)
    graph = sp.coo_array((np.ones(3 * d), (starts.ravel(), np.tile(100 + np.arange(d), 3))))
    graph.resize((130, 130))
    whole = sp.csgraph.connected_components(graph, directed=False)[1][100:]
    assert 1 < len(set(whole)) < d
    np.testing.assert_array_equal(labels[:, None] == labels, whole[:, None] == whole)


def test_the_least_and_the_largest_are_answers_that_add_up():
    x = np.random.default_rng(0).standard_normal((5, 4))
    least, largest = tree_sum([(ElementwiseMin(own), ElementwiseMin(-own)) for own in x])
    np.testing.assert_array_equal(least.numbers, x.min(axis=0))
    np.testing.assert_array_equal(-largest.numbers, x.max(axis=0))


def test_sums_are_taken_neighbours_first():
    said = []

    class Noted(str):
        def __add__(self, other):
            said.append((str(self), str(other)))
            return Noted(f"({self}+{other})")

    sums = [str(tree_sum(map(Noted, "abcdefg"[:n]))) for n in (1, 2, 3, 5, 7)]
    assert sums == ["a", "(a+b)", "((a+b)+c)", "(((a+b)+(c+d))+e)", "(((a+b)+(c+d))+((e+f)+g))"]
    for n in range(1, 40):  # by groups of neighbours first, as on a cluster
        values = [Noted(str(k)) for k in range(n)]
        groups = values
        while len(groups) > 1:
            groups = [
                tree_sum(groups[k : k + REDUCTION_ARITY])
                for k in range(0, len(groups), REDUCTION_ARITY)
            ]
        assert str(groups[0]) == str(tree_sum(values))
    assert add_answers((1, None, (2.0,)), (3, None, (4.0,))) == (4, None, (6.0,))


def test_rows_in_memory_are_partitions_and_a_dict_is_none():
    data = RowsInMemory({"x": table("gaussian")}, 4)
    assert is_partitioned(data)
    assert not is_partitioned({"x": 1})
    again = pickle.loads(pickle.dumps(data))
    assert again.fingerprint == data.fingerprint
    other = RowsInMemory({"x": table("gaussian", seed=5)}, 4)
    assert other.fingerprint != data.fingerprint
    assert [data.rows(p) for p in range(4)] == [(0, 12), (12, 24), (24, 36), (36, 48)]
    assert sum(data.n_entries(p) for p in range(4)) == table("gaussian").nnz


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    """A process dies in the midst of an iteration; the file holds the last look."""
    path, model = tmp_path / "fit.npz", model_of("gaussian", "biases")
    data = RowsInMemory({"x": table("gaussian")}, 3)
    seen = []

    def die(record):
        seen.append(record)
        if len(seen) == 3:
            raise RuntimeError("the process dies")

    with pytest.raises(RuntimeError, match="dies"):
        mc.fit(model, data, tol=1e-8, callback=die, checkpoint=path)
    resumed = []
    fit = mc.fit(model, data, tol=1e-8, callback=resumed.append, checkpoint=path)
    assert fit.status == "certified"
    assert resumed[0].objective <= seen[1].objective * (1.0 + 1e-12)
    assert resumed[0].bound == seen[1].bound
    again = mc.fit(model, data, tol=1e-8, checkpoint=path)
    assert len(again.history.records) == 1, "a fit that is done is not made again"
    assert again.objective == fit.objective
    with pytest.raises(mc.DataError, match="another fit of partitions"):
        mc.fit(model_of("gaussian"), data, checkpoint=path)
    with pytest.raises(mc.DataError, match="another fit of partitions"):
        mc.fit(model, RowsInMemory({"x": table("gaussian")}, 2), checkpoint=path)
    with pytest.raises(mc.DataError, match=r"holds a fit of partitions, and a fit is asked for"):
        mc.fit(model, {"x": table("gaussian")}, checkpoint=path)


def test_a_compact_fit_answers_without_its_partitions():
    model, x = model_of("gaussian", "biases"), table("gaussian")
    (fit,) = fits_of(model, {"x": x}, [3], tol=1e-3)
    small = pickle.loads(pickle.dumps(fit.compact()))
    at = {"rows": [0, 40], "columns": [1, 2]}
    for ask in (
        lambda own: own.predict("x", **at),
        lambda own: own.predict_pairs("x", [(0, 1), (40, 2)]),
        lambda own: own.predict_rows("x", {"x": x[:3]}),
        lambda own: own.top("x", [7, 40], n=3, observed=True),
        lambda own: own.top_rows("x", {"x": x[7:8]}, n=3),
        lambda own: own.bias("x"),
        lambda own: [own.gap, own.objective, own.bound, own.rank],
    ):
        np.testing.assert_array_equal(ask(small), ask(fit))
    assert repr(small) == repr(fit)
    assert repr(small.compact()) == repr(fit)
    with pytest.raises(mc.ModelError, match=r"left its data behind.*observed=True"):
        small.top("x", 7)
    for ask in (lambda: small.impute("x"), lambda: mc.fit(model, {"x": x}, start=small)):
        with pytest.raises(mc.ModelError, match="compact fit has left its data behind"):
            ask()
    assert type(small.problem) is mc.Problem
    assert len(pickle.dumps(small)) + 12 * x.nnz < len(pickle.dumps(fit))


@pytest.mark.parametrize(
    ("word", "options"),
    [
        (mc.Poisson(), {"bias": True}),
        (mc.Gaussian(), {"bias": True, "row_effects": True}),
        (mc.Gaussian(), {"standardize": True}),
        (mc.Ordinal(20, lowest=0), {}),
        (mc.Multinomial(20), {"bias": True}),
    ],
    ids=["exposures", "offsets", "offsets in units", "thresholds", "classes"],
)
@pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning")
def test_losses_of_other_values_need_no_entry(word, options):
    """Those of the fit of the table at the same point, without offsets a compact fit's, too."""
    y = table("poisson")
    numbers = np.random.default_rng(1).uniform(1.0, 9.0, y.shape)
    beside = {"exposure": numbers} if isinstance(word, mc.Poisson) else {"offset": numbers}
    shifted = isinstance(word, mc.Poisson | mc.Gaussian)
    data = {"x": mc.Observations(y, **beside) if shifted else y}
    model = mc.Model([mc.Block("x", word, **options)], [mc.NuclearNorm(3.0)])
    (fit,) = fits_of(model, data, [3], max_iter=2)
    at = "x", np.array([0, 20, 40, 47]), np.array([1, 2, 3, 15]), np.array([0.0, 3.0, 1.0, 2.0])
    whole = FittedRows(mc.Problem.bind(model, data), fit.effects, fit.latent).losses_at(*at)
    np.testing.assert_allclose(fit.losses_at(*at), whole, rtol=1e-9)
    if shifted:
        for ask in (fit.compact().losses_at, lambda *given: fit.compact().predict(*given[:3])):
            with pytest.raises(mc.ModelError, match=r"block 'x'.*offsets.*left behind"):
                ask(*at)
    else:
        np.testing.assert_array_equal(fit.compact().losses_at(*at), fit.losses_at(*at))


def test_a_compact_fit_leaves_offsets_behind_and_says_so():
    x = table("poisson")
    days = np.random.default_rng(1).uniform(1.0, 9.0, (N_ROWS, 1))
    data = {"x": mc.Observations(x, exposure=days)}
    (fit,) = fits_of(model_of("poisson", "biases"), data, [3], tol=1e-2)
    small = pickle.loads(pickle.dumps(fit.compact()))
    for ask in (
        lambda: small.predict("x", [0], [0]),
        lambda: small.predict("x"),
        lambda: small.compact().top("x", 0, observed=True),
    ):
        with pytest.raises(mc.ModelError, match=r"block 'x'.*offsets.*left behind.*predict_rows"):
            ask()
    new = {"x": mc.Observations(x[:2], exposure=days[:2])}
    np.testing.assert_array_equal(small.predict_rows("x", new), fit.predict_rows("x", new))


def test_a_fit_holds_no_compiled_part_and_pickles_without_any():
    data = RowsInMemory({"x": table("gaussian")}, 3)
    fit = mc.fit(model_of("gaussian"), data, tol=1e-3)
    assert not fit.problem.partitions.kept.parts
    objective = fit.problem.objective(fit.latent, fit.effects)
    assert objective == fit.objective
    again = pickle.loads(pickle.dumps(fit))
    assert not again.problem.partitions.kept.parts
    assert again.problem.objective(again.latent, again.effects) == objective
    assert not again.problem.partitions.kept.parts, "a fit from a file keeps no part in memory"
    assert len(mc.fit(fit.model, data, tol=1e-3, start=again).history.records) == 1


def test_progress_says_rounds_and_compiled_partitions(capsys, monkeypatch):
    """Counted by hand, and again where each round makes the parts anew."""
    model, data = model_of("gaussian", "biases"), RowsInMemory({"x": table("gaussian")}, 3)
    rounds, answers = [], OneByOne.answers_to

    def counted(self, task):
        rounds.append(type(task).__name__)
        return answers(self, task)

    monkeypatch.setattr(OneByOne, "answers_to", counted)
    records = []

    def callback(record):
        assert record.work.rounds == len(rounds)
        records.append(record)

    fit = mc.fit(model, data, tol=1e-2, progress=True, callback=callback)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("fit: round 1, partition 1 of 3 after")
    assert f", {records[-1].work.rounds} rounds after" in last
    said = rf"{records[0].work.rounds} rounds of [\d.e+]+ ms, 3 partitions compiled"
    assert re.fullmatch(said, str(records[0].work))
    assert records[-1].work.rounds > records[0].work.rounds
    assert records[-1].work.compiled == 3
    assert records[-1].work.sent == records[-1].work.received == 0
    assert fit.history[-1].work == records[-1].work
    whole = mc.fit(model, {"x": table("gaussian")}, tol=1e-2, backend="alternating")
    assert whole.history[-1].work is None
    assert "rounds" not in str(whole.history[-1])


def test_bytes_are_those_of_arrays_and_numbers_each_once():
    array = np.zeros((4, 3))
    assert bytes_of((array, [array, 1.0, None], "name")) == 96 + 8
    assert bytes_of([(np.zeros(2), 3), (np.zeros(2), 4)]) == 48
    first, second = Work(1, 10, 20, 2), Work(3, 0, 1, 0)
    assert first + second == Work(4, 10, 21, 2)
    assert first + second - second == first
    assert str(Work(2, 1500, 3e6)) == "2 rounds, 1.5 kB sent, 3 MB received"
    assert str(Work(4, seconds=0.05)) == "4 rounds of 12.5 ms"


def test_slabs_of_columns_change_no_bit_and_keep_answers_small(monkeypatch):
    """Each column's normal equations are its own: how many come back at once plays no part."""
    model, data = model_of("poisson", "biases"), RowsInMemory({"x": table("poisson")}, 3)
    sizes, answer = [], OneByOne.answer

    def noted(self, task, p):
        found = answer(self, task, p)
        if task.name.endswith("normal_equations"):
            sizes.append(bytes_of(found[-1]))
        return found

    monkeypatch.setattr(OneByOne, "answer", noted)
    fits = []
    for limit in (alternating_rows.EQUATION_BYTES, 1_000, 1):
        monkeypatch.setattr(alternating_rows, "EQUATION_BYTES", limit)
        sizes.clear()
        fits.append(mc.fit(model, data, tol=1e-3))
        assert sizes
        if limit == 1_000:
            assert max(sizes) <= limit
    whole, slabs, columns = ((f.objective, f.bound, f.latent.left.tobytes()) for f in fits)
    assert whole == slabs == columns
    assert len(sizes) >= 3 * N_COLUMNS, "one column at least comes back"


@pytest.mark.parametrize(
    ("n_columns", "width", "n_slabs"),
    [(300, 10, 1), (20_003, 30, 2), (10**6, 50, 166), (1, 4_000, 1), (7, 0, 1)],
)
def test_the_answer_to_a_slab_fits(n_columns, width, n_slabs):
    cuts = alternating_rows.cuts_of_columns(n_columns, width)
    assert len(cuts) == n_slabs + 1
    assert (cuts[0], cuts[-1]) == (0, n_columns)
    sizes = np.diff(cuts)
    assert sizes.min() > 0
    assert sizes.max() - sizes.min() <= 1
    each = 8 * (width * (width + 1) // 2 + width)
    assert sizes.max() * each <= alternating_rows.EQUATION_BYTES or sizes.max() == 1


def test_second_derivatives_are_asked_for_where_they_are_used(monkeypatch):
    """Newton's steps of a loss that may be flat have the curvatures of its chords."""
    asked = []
    plain = partitioned_effects.second_derivatives

    def counted(entries, effects, chord_share):
        asked.append(chord_share)
        return plain(entries, effects, chord_share)

    monkeypatch.setattr(partitioned_effects, "second_derivatives", counted)
    rng = np.random.default_rng(0)
    for likelihood, with_chords in ((mc.Bernoulli(), True), (mc.Poisson(), False)):
        block = mc.Block("x", likelihood, bias=True, row_effects=True, effects_weight=0.3)
        model = mc.Model([block], [mc.NuclearNorm(1.0)])
        labels = (rng.random((12, 5)) < 0.5).astype(float)
        asked.clear()
        in_parts = mc.fit(model, RowsInMemory({"x": labels}, 3))
        assert asked
        assert all(share > 0.0 for share in asked) == with_chords
        together = mc.fit(model, {"x": labels})
        assert in_parts.objective == pytest.approx(together.objective, rel=1e-5)
