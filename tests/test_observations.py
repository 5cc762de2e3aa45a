"""Weights, offsets and exposures of entries; effects of rows; what is refused."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.backends import certify
from mcframe.backends.certificate import Point
from mcframe.compile import compile_problem
from mcframe.fitting.prediction import FittedRows
from mcframe.numerics.operators import LowRank

from .catalogue import LIKELIHOODS

pytestmark = pytest.mark.core

SMOOTH = [
    entry
    for entry in LIKELIHOODS
    if entry.word.smooth and entry.word.width == 1 and not isinstance(entry.word, mc.RiskMixture)
]


def table(entry, rng, shape=(6, 3)):
    return rng.choice(entry.values, shape)


@pytest.mark.parametrize("entry", SMOOTH, ids=lambda entry: repr(entry.word))
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_whole_weights_are_repeated_rows(entry, reduce):
    """A row with weight w is w equal rows: the same losses, gradients and conjugates in sum."""
    rng = np.random.default_rng(0)
    y, weights = table(entry, rng), rng.integers(1, 4, (6, 1))
    again = np.repeat(np.arange(6), weights[:, 0])
    model = mc.Model([mc.Block("y", entry.word, reduce=reduce)], [mc.NuclearNorm(1.0)])
    weighted = mc.Problem.bind(model, {"y": mc.Observations(y, weights=weights)})
    repeated = mc.Problem.bind(model, {"y": y[again]})
    left, right = rng.standard_normal((6, 2)), entry.scale * rng.standard_normal((3, 2))
    one, many = LowRank(left, right), LowRank(left[again], right)
    parameters = {}
    if weighted.layout("y").size:
        return  # thresholds are fitted: covered by the next test through fits
    assert np.isclose(weighted.loss(one, parameters), repeated.loss(many, parameters), rtol=1e-12)
    first, second = compile_problem(weighted), compile_problem(repeated)
    gradients = [
        p.evaluate(z).entry_gradients.reshape(-1, 3) for p, z in ((first, one), (second, many))
    ]
    summed = np.zeros((6, 3))
    np.add.at(summed, again, gradients[1])
    np.testing.assert_allclose(gradients[0], summed, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_weights_of_fits_are_repetitions(bias):
    """With ||Z||_F^2 weighted alike, a weighted fit is a fit of repeated columns."""
    rng = np.random.default_rng(1)
    y = rng.standard_normal((5, 4))
    model = mc.Model([mc.Block("y", mc.Gaussian(), bias=bias)], [mc.Ridge(0.5)])
    doubled = mc.Model([mc.Block("y", mc.Gaussian(), bias=bias)], [mc.Ridge(0.25)])
    weighted = mc.fit(model, {"y": mc.Observations(y, weights=2.0)})
    plain = mc.fit(doubled, {"y": y})
    np.testing.assert_allclose(weighted.natural("y"), plain.natural("y"), atol=1e-3)
    assert np.isclose(weighted.objective, 2 * plain.objective, rtol=1e-6)


def test_an_entry_of_weight_zero_is_not_observed():
    y = np.array([[1.0, 2.0], [3.0, 50.0]])
    weights = np.array([[1.0, 1.0], [1.0, 0.0]])
    model = mc.Model([mc.Block("y", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    fit = mc.fit(model, {"y": mc.Observations(y, weights=weights)})
    hidden = mc.fit(model, {"y": np.where(weights > 0, y, np.nan)})
    assert fit.objective == hidden.objective
    assert fit.problem.n_observed == 3
    assert fit.impute("y")[1, 1] < 10


def test_an_offset_is_a_known_part_of_the_predictor():
    rng = np.random.default_rng(2)
    offset = rng.standard_normal((6, 3))
    y = rng.standard_normal((6, 3))
    model = mc.Model([mc.Block("y", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.3)])
    with_offset = mc.fit(model, {"y": mc.Observations(y, offset=offset)})
    shifted = mc.fit(model, {"y": y - offset})
    np.testing.assert_allclose(with_offset.natural("y"), shifted.natural("y") + offset, atol=1e-6)
    assert with_offset.status == "certified"


def test_exposure_is_a_rate_per_unit():
    """Ten times the days, ten times the counts: the same rate."""
    days = np.array([[1.0], [10.0], [1.0], [10.0]])
    counts = days * np.array([[3.0, 7.0]])
    model = mc.Model([mc.Block("y", mc.Poisson(), bias=True)], [mc.NuclearNorm(0.5)])
    fit = mc.fit(model, {"y": mc.Observations(counts, exposure=days)})
    assert fit.rank == 0
    np.testing.assert_allclose(np.exp(fit.bias("y")), [3.0, 7.0], rtol=1e-6)
    np.testing.assert_allclose(fit.predict("y"), counts, rtol=1e-6)


def test_effects_of_rows_and_columns_are_main_effects():
    """A two-way table of sums needs no Z at all."""
    rows, columns = np.array([5.0, -3.0, 0.5, 10.0]), np.array([100.0, 0.0, -7.0])
    y = rows[:, None] + columns
    y[1, 2] = y[3, 0] = np.nan
    block = mc.Block("y", mc.Gaussian(), bias=True, row_effects=True)
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(0.1)]), {"y": y})
    assert fit.rank == 0
    np.testing.assert_allclose(fit.impute("y"), rows[:, None] + columns, atol=1e-8)
    total = fit.row_effects("y")[:, None] + fit.bias("y")
    np.testing.assert_allclose(total, rows[:, None] + columns, atol=1e-8)


def test_a_log_likelihood_has_every_constant():
    counts = np.array([[0.0, 3.0], [2.0, np.nan]])
    model = mc.Model([mc.Block("y", mc.Poisson(), bias=True)], [mc.NuclearNorm(10.0)])
    fit = mc.fit(model, {"y": counts})
    rates = fit.predict("y")
    assert np.isnan(fit.log_likelihood("y")[1, 1])
    assert np.isclose(
        fit.log_likelihood("y")[1, 0], 2 * np.log(rates[1, 0]) - rates[1, 0] - np.log(2)
    )


def test_a_weighted_bound_is_a_bound():
    rng = np.random.default_rng(3)
    y = (rng.random((8, 4)) < 0.5).astype(float)
    data = {
        "y": mc.Observations(y, weights=rng.random((8, 4)) + 0.1, offset=rng.normal(size=(8, 1)))
    }
    block = mc.Block("y", mc.Bernoulli(), bias=True, row_effects=True)
    problem = mc.Problem.bind(mc.Model([block], [mc.NuclearNorm(0.2)]), data)
    program = compile_problem(problem)
    certified = [
        certify(
            program, Point(LowRank(s * rng.standard_normal((8, 2)), rng.standard_normal((4, 2))))
        )
        for s in (0.0, 0.3, 2.0)
    ]
    assert max(j.bound for j in certified) <= min(j.objective for j in certified)


WRONG = {
    "negative weight": (
        {"weights": -1.0},
        "weight -1 in column 0, row 0 and 3 more; every one must be 0",
    ),
    "infinite weight": ({"weights": np.inf}, "weight inf in column 0, row 0 .* finite"),
    "no exposure": ({"exposure": 0.0}, "exposure 0 in column 0, row 0 .* above 0"),
    "offset missing": (
        {"offset": np.array([[0.0, 0.0], [0.0, np.nan]])},
        "offset nan in column 1, row 1; every one must be finite",
    ),
    "one weight": ({"weights": [[1.0, 1.0], [-2.0, 1.0]]}, "weight -2 in column 0, row 1; every"),
    "shape": ({"offset": np.zeros((3, 2))}, r"offset of shape \(3, 2\)"),
    "text": ({"weights": "many"}, "weights 'many' were given"),
    "text of numbers": ({"weights": [["1", "2"]]}, "weights with value '1' were given; numbers"),
    "durations": ({"offset": np.ones((2, 2), "m8[s]")}, "offset with value datetime.timedelta"),
    "complex": ({"exposure": 1j}, "exposure 1j were given; numbers"),
    "masked": ({"weights": np.ma.array(np.eye(2), mask=np.eye(2))}, "weight nan in column 0"),
    "stored twice": (
        {"weights": sp.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(2, 2))},
        r"weights of entry \(row 0, column 1\) is stored more than once",
    ),
    "a vector": (
        {"weights": [1.0, 2.0]},
        r"weights of shape \(2,\) were given for 2 items and as many columns; .*numpy.asarray"
        r".*w\[:, None\] for one number for each item.*w\[None, :\] for one for each column",
    ),
    "a vector of offsets": ({"offset": np.ones(2)}, r"offset of shape \(2,\).*w\[:, None\]"),
    "a vector of exposures": ({"exposure": (1, 2)}, r"exposure of shape \(2,\).*w\[:, None\]"),
    "all zero": ({"weights": 0.0}, "not one of its"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_are_named(mistake):
    options, named = WRONG[mistake]
    model = mc.Model([mc.Block("visits", mc.Poisson())], [mc.NuclearNorm(1.0)])
    with pytest.raises(mc.DataError, match=f"(?s)block 'visits'.*{named}"):
        mc.fit(model, {"visits": mc.Observations(np.ones((2, 2)), **options)})


@pytest.mark.parametrize("entry", LIKELIHOODS, ids=lambda entry: repr(entry.word))
def test_an_exposure_multiplies_the_mean_or_is_refused(entry):
    """Added to z as log(exposure) it would mean nothing where the link is not the logarithm."""
    model = mc.Model([mc.Block("y", entry.word)], [mc.NuclearBall(1.0)])
    given = {"exposure": 2.0, "propensity": 0.5 if entry.word.takes_propensities else None}
    data = {"y": mc.Observations(np.full((2, 3), entry.values[-2]), **given)}
    if entry.word.z_name == "the log of the mean":
        problem = mc.Problem.bind(model, data)
        np.testing.assert_allclose(problem.tables["y"].offset.dense(), np.log(2.0))
        return
    with pytest.raises(mc.DataError, match=r"block 'y': an exposure was given.*Give offset="):
        mc.Problem.bind(model, data)


def test_a_vector_of_a_square_block_is_read_as_it_is_spelled():
    model = mc.Model([mc.Block("visits", mc.Poisson())], [mc.NuclearNorm(1.0)])
    w = np.array([1.0, 2.0])

    def weights_of(weights, shape=(2, 2)):
        data = {"visits": mc.Observations(np.ones(shape), weights=weights)}
        return mc.Problem.bind(model, data).tables["visits"].weights.tolist()

    assert weights_of(w[:, None]) == [1.0, 1.0, 2.0, 2.0]
    assert weights_of(w[None, :]) == [1.0, 2.0, 1.0, 2.0]
    # Where the block is not square there is one reading.
    assert weights_of(w, (3, 2)) == [1.0, 2.0] * 3
    assert weights_of(w, (2, 1)) == [1.0, 2.0]
    assert weights_of([3.0], (1, 1)) == [3.0]
    pandas = pytest.importorskip("pandas")
    frame, series = pandas.DataFrame(np.ones((2, 2))), pandas.Series(w)
    with pytest.raises(mc.DataError, match=r"w\[:, None\]"):
        mc.fit(model, {"visits": mc.Observations(frame, weights=series)})


def test_offset_and_exposure_exclude_each_other():
    with pytest.raises(mc.DataError, match="offset and exposure were both given"):
        mc.Observations(np.ones((2, 2)), offset=1.0, exposure=2.0)


def test_effects_that_cannot_be_told_apart_are_refused():
    with pytest.raises(mc.ModelError, match="hold an offset already"):
        mc.Block("y", mc.Ordinal(3), bias=True)
    with pytest.raises(mc.ModelError, match="common to all classes"):
        mc.Block("y", mc.Multinomial(3), row_effects=True)


def test_ragged_offsets_and_labels_of_effects():
    model = mc.Model([mc.Block("y", mc.Gaussian(), row_effects=True)], [mc.NuclearNorm(1.0)])
    with pytest.raises(mc.DataError, match="rows of different lengths"):
        mc.fit(model, {"y": mc.Observations(np.ones((2, 2)), offset=[[1], [1, 2]])})
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.eye(3), index=list("abc"), columns=list("xyz"))
    assert list(mc.fit(model, {"y": frame}).row_effects("y").index) == list("abc")
    other = pandas.DataFrame(np.ones((3, 3)), index=list("cba"), columns=list("xyz"))
    with pytest.raises(mc.DataError, match="other row or column labels"):
        mc.fit(model, {"y": mc.Observations(frame, weights=other)})


def test_an_optimum_of_zero_is_certified_and_verified():
    x = np.array([[1.0, 2.0, np.nan], [2.0, 4.0, 6.0], [np.nan, 1.0, 2.0], [1.0, 1.0, 1.0]])
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearBall(50.0)])
    assert mc.verify(model, {"x": x}).agrees
    nonsmooth = mc.Model([mc.Block("x", mc.Quantile(0.5))], [mc.MaxNormBall(20.0)])
    assert mc.fit(nonsmooth, {"x": x}, max_iter=3000).status == "certified"


def sparse_table(shape, n_entries, rng):
    """Places without repetition, as a matrix of random numbers above 0.1."""
    cells = rng.choice(shape[0] * shape[1], n_entries, replace=False)
    values = 0.1 + rng.random(n_entries)
    return sp.coo_array((values, np.divmod(cells, shape[1])), shape=shape)


BESIDE = {
    "weights": lambda given: {"weights": given},
    "offset": lambda given: {"offset": given},
    "a column": lambda given: {"offset": given.sum(axis=1)[:, None]},
    "a row": lambda given: {"offset": given.sum(axis=0)[None, :]},
    "exposure by column": lambda given: {"exposure": 1.0 + given.sum(axis=0)[None, :]},
}


@pytest.mark.parametrize("beside", BESIDE)
def test_no_array_of_all_cells_is_made_of_a_sparse_table(beside):
    """200,000 x 50,000 cells take 80 GB as numbers, and 10 GB as truth values."""
    rng = np.random.default_rng(0)
    values = sparse_table((200_000, 50_000), 20_000, rng)
    values.data = np.ceil(values.data)
    given = of_the_same_places(values, rng) if beside in ("weights", "offset") else values
    beside_it = BESIDE[beside](given)
    model = mc.Model([mc.Block("y", mc.Poisson())], [mc.NuclearNorm(1.0)])
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mc.UnobservedWarning)
            problem = mc.Problem.bind(model, {"y": mc.Observations(values, **beside_it)})
        problem.objective(LowRank(np.zeros((200_000, 1)), np.zeros((50_000, 1))), {})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6
    assert problem.tables["y"].n_entries <= 20_000


def of_the_same_places(values, rng):
    """Numbers of the same entries, stored in another order."""
    order = rng.permutation(values.nnz)
    rows, columns = (at[order] for at in values.coords)
    return sp.coo_array((values.data[order] + 1.0, (rows, columns)), shape=values.shape).tocsc()


@pytest.mark.parametrize("likelihood", [mc.Poisson(), mc.Multinomial(3)], ids=["one", "classes"])
@pytest.mark.parametrize("what", ["weights", "offset"])
def test_sparse_weights_and_offsets_are_those_of_dense_ones(what, likelihood):
    rng = np.random.default_rng(1)
    values = sparse_table((30, 20), 200, rng)
    values.data = np.floor(3.0 * rng.random(200)).clip(0, 2)
    beside = sparse_table((30, 20), 300, rng)  # of other places: what is not stored is 0
    model = mc.Model([mc.Block("y", likelihood, bias=True)], [mc.NuclearNorm(1.0)])
    problems = [
        mc.Problem.bind(model, {"y": mc.Observations(values, **{what: given})})
        for given in (beside, beside.toarray())
    ]
    latent = LowRank(*(rng.standard_normal((n, 2)) for n in problems[0].shape))
    effects = {"y": rng.standard_normal(20 * likelihood.width)}
    sparse, dense = problems
    assert sparse.objective(latent, effects) == dense.objective(latent, effects)
    np.testing.assert_array_equal(
        FittedRows(sparse, effects, latent).predictor("y"),
        FittedRows(dense, effects, latent).predictor("y"),
    )


def test_sparse_offsets_of_new_rows():
    rng = np.random.default_rng(2)
    counts = rng.poisson(2.0, (12, 5)).astype(float)
    model = mc.Model([mc.Block("y", mc.Poisson(), bias=True)], [mc.NuclearNorm(1.0)])
    fit = mc.fit(model, {"y": counts})
    offset = sparse_table((3, 5), 6, rng)
    given = [{"y": mc.Observations(counts[:3], offset=o)} for o in (offset, offset.toarray())]
    sparse, dense = (fit.predict_rows("y", new) for new in given)
    np.testing.assert_array_equal(sparse, dense)
    assert np.abs(sparse - fit.predict_rows("y", {"y": counts[:3]})).max() > 1e-3


def test_a_sparse_exposure_is_stored_for_every_cell():
    model = mc.Model([mc.Block("y", mc.Poisson())], [mc.NuclearNorm(1.0)])
    counts = np.array([[1.0, 2.0], [3.0, 0.0]])
    whole = mc.fit(model, {"y": mc.Observations(counts, exposure=sp.csr_array(counts + 1.0))})
    dense = mc.fit(model, {"y": mc.Observations(counts, exposure=counts + 1.0)})
    assert whole.objective == dense.objective
    for kept, place in (
        ([[1.0, 0.0], [0.0, 1.0]], "column 1, row 0 and 1 more"),
        ([[1.0, 1.0], [1.0, 0.0]], "column 1, row 1;"),
    ):
        with pytest.raises(mc.DataError, match=f"exposure 0 in {place}"):
            mc.fit(model, {"y": mc.Observations(counts, exposure=sp.csr_array(kept))})


def test_wrong_numbers_of_sparse_weights_and_offsets_are_named():
    model = mc.Model([mc.Block("y", mc.Poisson())], [mc.NuclearNorm(1.0)])
    wrong = sp.coo_array(([np.nan, np.inf, 1.0], ([1, 2, 0], [1, 0, 0])), shape=(3, 2))
    with pytest.raises(mc.DataError, match=r"offset nan in column 1, row 1 and 1 more; .* finite"):
        mc.fit(model, {"y": mc.Observations(np.ones((3, 2)), offset=wrong)})
    with pytest.raises(mc.DataError, match=r"weight nan in column 1, row 1 and 1 more; .* finite"):
        mc.fit(model, {"y": mc.Observations(np.ones((3, 2)), weights=wrong)})
    with pytest.raises(mc.DataError, match=r"weights of shape \(2, 3\) were given"):
        mc.fit(model, {"y": mc.Observations(np.ones((3, 2)), weights=wrong.T)})
