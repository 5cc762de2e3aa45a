"""Standardised blocks: one scale within, the data's own units without."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import mcframe as mc
from mcframe.contracts import Conjugate, Likelihood
from mcframe.contracts.term import Sums
from mcframe.model.transforms import affine_units, rank_units
from mcframe.selection import EntryFolds, HeldOutLoss, RelativeError, folds_of

from .catalogue import LIKELIHOODS

EPS = np.finfo(float).eps
WAYS = [True, "robust", "ranks"]
LOCATIONS = [mc.Gaussian(), mc.Gaussian(variance=0.25), mc.Huber(0.5), mc.Quantile(0.3)]
LOSSES = [
    entry
    for entry in LIKELIHOODS
    if not (entry.word.reads_unlabeled or entry.word.indicator or not entry.word.convex)
    and not isinstance(entry.word, mc.RiskMixture)
]


def model_of(*blocks, weight=0.3, terms=()):
    return mc.Model(list(blocks), [mc.NuclearNorm(weight), *terms])


def table_of(shape=(12, 4), seed=0, missing=0.25):
    """A table of rank 2 with noise and holes, but none without an entry in a row or column."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    x += 0.3 * rng.standard_normal(shape)
    hidden = rng.random(shape) < missing
    hidden[:3] = hidden[:, 0] = False
    return np.where(hidden, np.nan, x)


def units_of_rows(values, weights=None, robust=False):
    rows, columns = np.nonzero(~np.isnan(values))
    own = np.ones(values.shape) if weights is None else np.broadcast_to(weights, values.shape)
    entries = (values[rows, columns], columns, own[rows, columns], values.shape[1])
    return affine_units(*entries, robust)


@pytest.mark.parametrize("n", [10, pytest.param(25, marks=pytest.mark.slow(seconds=3))])
def test_a_fit_of_other_units_is_the_fit_in_these_units(n):
    drawn = given(
        st.sampled_from(WAYS),
        st.floats(-12.0, 12.0),
        st.sampled_from([0.0, 1.0, -1.0]),
        st.floats(-12.0, 12.0),
    )
    settings(max_examples=n)(drawn(check_fit_of_other_units))()


def check_fit_of_other_units(way, power, sign, offset):
    """Columns times s plus c are fitted as the columns are, as far as they keep their digits."""
    x = table_of()
    s = 10.0 ** np.array([power, 0.0, -power, 0.5 * power])
    c = sign * 10.0 ** np.array([offset, 0.0, offset, -offset])
    lost = 16.0 * EPS * np.max(np.abs(c) / s)
    assume(lost < 1e-6)
    model = model_of(mc.Block("x", mc.Gaussian(), standardize=way, bias=True))
    plain, other = (mc.fit(model, {"x": data}, tol=1e-9) for data in (x, s * x + c))
    assert other.status == plain.status == "certified"
    assert other.objective == pytest.approx(plain.objective, rel=1e-7 + 100.0 * lost)
    np.testing.assert_allclose(
        (other.predict("x") - c) / s, plain.predict("x"), atol=1e-3 * np.sqrt(1.0 + lost)
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("word", LOCATIONS, ids=repr)
def test_units_of_losses_of_locations(word, way):
    x = table_of(seed=1)
    model = model_of(mc.Block("x", word, standardize=way, reduce="mean"), weight=0.05)
    s, c = np.array([1e-12, 1e9, 3.0, 1e12]), np.array([0.0, 1e12, -50.0, 1e12])
    plain, other = (mc.fit(model, {"x": data}, tol=1e-5) for data in (x, s * x + c))
    assert other.objective == pytest.approx(plain.objective, rel=3e-5)
    shift = (other.predict("x") - c) / s - plain.predict("x")
    assert np.max(np.abs(shift)) < 0.05


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_what_is_standardised_by_hand(bias, reduce):
    """With twice the weight, since the best constant of a standardised column loses 1/2."""
    x = 1e3 * table_of(seed=2) - 40.0
    mean, deviation = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    options = {"bias": bias, "reduce": reduce}
    inside = model_of(mc.Block("x", mc.Gaussian(), standardize=True, **options), weight=0.1)
    outside = model_of(mc.Block("x", mc.Gaussian(), weight=2.0, **options), weight=0.1)
    fit = mc.fit(inside, {"x": x}, tol=1e-9)
    by_hand = mc.fit(outside, {"x": (x - mean) / deviation}, tol=1e-9)
    assert fit.objective == pytest.approx(by_hand.objective, rel=1e-8)
    np.testing.assert_allclose(
        fit.predict("x"), mean + deviation * by_hand.predict("x"), atol=1e-3 * deviation.max()
    )
    if bias:
        own = mean + deviation * by_hand.bias("x")
        np.testing.assert_allclose(fit.bias("x"), own, atol=1e-3 * deviation.max())


def test_robust_units_and_what_stands_in_for_them():
    values = np.array([[1.0, 5.0, 0.0], [2.0, 5.0, 0.0], [3.0, 5.0, 0.0], [4.0, 5.0, 8.0]])
    values = np.vstack([values, [[1e6, 5.0, 0.0]]])
    units = units_of_rows(values, robust=True)
    np.testing.assert_allclose(units.centre, [3.0, 5.0, 0.0], atol=1e-9)
    quartiles = np.quantile(values[:, 0], [0.25, 0.75], method="averaged_inverted_cdf")
    # Of the last column the quartiles are equal, so that its deviation stands in.
    np.testing.assert_allclose(units.spread, [np.diff(quartiles)[0] / 1.349, 1.0, 3.2], rtol=1e-9)


@pytest.mark.parametrize("robust", [False, True])
def test_weights_of_units_are_repetitions(robust):
    rng = np.random.default_rng(5)
    values, weights = rng.standard_normal((9, 3)), rng.integers(1, 4, (9, 1))
    weighted = units_of_rows(values, weights.astype(float), robust)
    repeated = units_of_rows(np.repeat(values, weights[:, 0], axis=0), robust=robust)
    np.testing.assert_allclose(weighted.centre, repeated.centre, rtol=1e-12)
    np.testing.assert_allclose(weighted.spread, repeated.spread, rtol=1e-12)
    columns = np.zeros(9, dtype=int)
    scores = rank_units(values[:, 0], columns, weights[:, 0].astype(float), 1)
    again = np.repeat(values[:, 0], weights[:, 0])
    more = rank_units(again, np.zeros(again.size, dtype=int), np.ones(again.size), 1)
    np.testing.assert_array_equal(scores.values, more.values)
    np.testing.assert_allclose(scores.scores, more.scores, atol=1e-12)


def test_units_of_a_column_far_from_zero_lose_no_digit():
    steps = np.arange(8.0)
    values = 1e12 + 2.0**-13 * steps  # each of these is a number of double precision
    units = units_of_rows(values[:, None])
    standard = units.apply(values, np.arange(8), np.zeros(8, dtype=int))
    np.testing.assert_allclose(standard, (steps - 3.5) / np.std(steps), rtol=1e-14)


def test_normal_scores_and_their_way_back():
    values, columns = np.array([3.0, 1.0, 3.0, 10.0]), np.zeros(4, dtype=int)
    units = rank_units(values, columns, np.ones(4), 2)
    scores = stats.norm.ppf([0.5, 0.125, 0.5, 0.875])
    rows = np.arange(4)
    np.testing.assert_allclose(units.apply(values, rows, columns), scores)
    again = units.invert(units.apply(values, rows, columns), rows, columns)
    np.testing.assert_array_equal(again, values)
    assert units.invert(np.array([-9.0, 9.0]), rows[:2], columns[:2]).tolist() == [1.0, 10.0]
    between = units.invert(scores[1:2] / 2, rows[:1], columns[:1])  # half the way from 3 to 1
    np.testing.assert_allclose(between, [2.0])
    scores = np.array([[0.3, 0.7]])
    assert units.invert(scores, rows[:1, None], np.array([0, 1]))[0, 1] == 0.0  # never observed


def test_ranks_are_blind_to_monotone_maps():
    x = table_of(seed=3)
    model = model_of(mc.Block("x", mc.Gaussian(), standardize="ranks"))
    plain, skewed = (mc.fit(model, {"x": data}) for data in (x, np.exp(3.0 * x)))
    np.testing.assert_array_equal(plain.latent.dense(), skewed.latent.dense())
    answer = skewed.predict("x")
    assert np.all(answer >= np.nanmin(np.exp(3.0 * x), axis=0))
    assert np.all(answer <= np.nanmax(np.exp(3.0 * x), axis=0))


@pytest.mark.parametrize("entry", LOSSES, ids=lambda entry: repr(entry.word))
def test_the_best_constant_of_a_column_loses_one_an_entry(entry):
    """Above what each entry loses at the least: that is half the deviance of counts."""
    rng = np.random.default_rng(4)
    fitted = getattr(entry.word, "n_parameters", 0) > 0
    y = rng.choice(entry.values, (30, 1 if fitted else 3))
    y[: len(entry.values)] = entry.values[:, None]
    block = mc.Block("y", entry.word, standardize=True, bias=not fitted)
    fit = mc.fit(model_of(block, weight=1e9), {"y": y}, tol=1e-7)
    assert fit.rank == 0
    least = 0.0
    if isinstance(entry.word, Conjugate) and not fitted:
        problem = fit.problem
        values, table = problem.targets("y"), problem.tables["y"]
        shape = (values.size, entry.word.width) if entry.word.width > 1 else values.shape
        least = -np.sum(table.weights * entry.word.conjugate(np.zeros(shape), values))
    assert fit.objective - least == pytest.approx(y.size, rel=1e-4)


def test_the_best_constant_stands_beside_offsets():
    """Counts that are as their exposures leave the best rate nothing to lose."""
    rng = np.random.default_rng(15)
    days = np.exp(rng.standard_normal((200, 1)))
    counts = rng.poisson(3.0 * days * np.ones((1, 2))).astype(float)
    block = mc.Block("n", mc.Poisson(), standardize=True, bias=True)
    fit = mc.fit(model_of(block, weight=1e9), {"n": mc.Observations(counts, exposure=days)})
    table = fit.problem.tables["n"]
    least = -np.sum(
        table.weights * mc.Poisson().conjugate(np.zeros(table.n_entries), table.values)
    )
    assert fit.objective - least == pytest.approx(counts.size, rel=1e-5)


def test_columns_without_a_choice_count_as_they_are():
    """Labels all alike, none at all, and one count: the best constant of each loses nothing."""
    labels = np.array([[1.0, np.nan, 0.0], [1.0, np.nan, 1.0], [1.0, np.nan, 0.0]])
    with pytest.warns(mc.UnobservedWarning):
        problem = mc.Problem.bind(
            model_of(mc.Block("y", mc.Bernoulli(), standardize=True)), {"y": labels}
        )
    entropy = -(np.log(1 / 3) / 3 + 2 * np.log(2 / 3) / 3)
    weights = problem.tables["y"].original.standard.weights
    np.testing.assert_allclose(weights, [1.0, 1.0, 1.0 / entropy], rtol=1e-9)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (6, 1)])
def test_small_and_empty_tables(way, shape):
    rng = np.random.default_rng(6)
    x = 1e12 + rng.standard_normal(shape)
    x[0] = 1e12
    x[:, -1] = 7.0
    model = model_of(mc.Block("x", mc.Gaussian(), standardize=way))
    fit = mc.fit(model, {"x": x})
    np.testing.assert_allclose(fit.predict("x")[:, -1], 7.0, rtol=1e-9)
    if shape[1] > 1:
        x[:, 0] = np.nan
        with pytest.warns(mc.UnobservedWarning):
            fit = mc.fit(model, {"x": x})
        np.testing.assert_allclose(fit.predict("x")[:, 0], 0.0, atol=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_impute_keeps_what_was_observed_to_the_bit(way):
    x = 1e12 + 1e-3 * table_of(seed=7)
    x[:, 1] *= 1e-24
    seen = ~np.isnan(x)
    model = model_of(mc.Block("x", mc.Huber(), standardize=way, bias=True, row_effects=True))
    offset = np.random.default_rng(0).standard_normal(x.shape)
    for data in (x, mc.Observations(x, weights=1.0 + seen, offset=offset)):
        fit = mc.fit(model, {"x": data}, tol=1e-4)
        filled = fit.impute("x")
        np.testing.assert_array_equal(filled[seen], x[seen])
        assert np.all(np.isfinite(filled))
        np.testing.assert_array_equal(filled[~seen], fit.predict("x")[~seen])


@pytest.mark.parametrize("way", WAYS)
def test_entries_are_those_of_the_whole(way):
    x = table_of(seed=8)
    rows, columns = np.array([0, 5, 5, 11]), np.array([3, 0, 2, 1])
    offset = np.random.default_rng(0).standard_normal(x.shape)
    model = model_of(mc.Block("x", mc.Gaussian(), standardize=way, bias=True))
    fit = mc.fit(model, {"x": mc.Observations(x, offset=offset)})
    for answer in (fit.predict, fit.natural):
        np.testing.assert_allclose(
            answer("x", rows=rows, columns=columns), answer("x")[rows, columns], rtol=1e-12
        )


@pytest.mark.parametrize("way", [True, "robust"])
def test_an_offset_is_taken_off_before(way):
    x = table_of(seed=9)
    offset = 1e6 * np.random.default_rng(1).standard_normal((x.shape[0], 1))
    model = model_of(mc.Block("x", mc.Gaussian(), standardize=way, bias=True))
    beside = mc.fit(model, {"x": mc.Observations(x + offset, offset=offset)}, tol=1e-8)
    before = mc.fit(model, {"x": x}, tol=1e-8)
    np.testing.assert_allclose(beside.predict("x") - offset, before.predict("x"), atol=1e-4)
    assert beside.problem.digest_of_data != before.problem.digest_of_data


@pytest.mark.parametrize("way", WAYS)
def test_new_rows_have_the_units_of_the_fit(way):
    x = 1e6 + 50.0 * table_of(seed=10, shape=(20, 4))
    y = (table_of(seed=10, shape=(20, 2)) > 0).astype(float)
    blocks = [
        mc.Block("x", mc.Gaussian(), standardize=way, bias=True),
        mc.Block("y", mc.Bernoulli(), standardize=True, bias=True),
    ]
    fit = mc.fit(model_of(*blocks, weight=2.0), {"x": x, "y": y}, tol=1e-12)
    size = 1e-3 * np.nanstd(x)
    for name in ("x", "y"):
        again = fit.predict_rows(name, {"x": x[:7], "y": y[:7]})
        np.testing.assert_allclose(
            again, fit.predict(name)[:7], atol=size if name == "x" else 1e-3
        )
    alone = fit.predict_rows("x", {"x": x[4:5]})  # one row has neither mean nor deviation
    assert np.all(np.abs(alone - 1e6) < 1e3)
    filled = fit.impute_rows("x", {"x": x[:7]})
    np.testing.assert_array_equal(filled[~np.isnan(x[:7])], x[:7][~np.isnan(x[:7])])
    nothing = fit.predict_rows("x", {"y": np.full((1, 2), np.nan)})  # z = 0 is the bias
    np.testing.assert_allclose(nothing[0], fit.bias("x"), rtol=1e-12)


def test_an_offset_of_new_rows_is_in_their_own_units():
    x = 1e6 + 50.0 * table_of(seed=10, shape=(20, 4))
    offset = 100.0 * np.arange(20.0)[:, None]
    model = model_of(mc.Block("x", mc.Gaussian(), standardize=True, bias=True), weight=2.0)
    fit = mc.fit(model, {"x": mc.Observations(x + offset, offset=offset)}, tol=1e-12)
    again = fit.predict_rows("x", {"x": mc.Observations((x + offset)[:7], offset=offset[:7])})
    np.testing.assert_allclose(again, fit.predict("x")[:7], atol=0.05)


MIXED = {
    "x": 1e6 + 50.0 * table_of(seed=11, shape=(9, 3)),
    "y": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]] * 3),
    "n": np.array([[0.0, 100.0], [3.0, np.nan], [1.0, 250.0]] * 3),
    "k": np.array([[0.0], [2.0], [1.0]] * 3),
    "o": np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 1.0]] * 3),
}
WORDS = {
    "y": mc.Bernoulli(),
    "n": mc.Poisson(),
    "k": mc.Multinomial(3),
    "o": mc.Ordinal(3),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("other", WORDS)
@pytest.mark.some(0.1)
def test_both_readings_agree(way, other):
    x = mc.Observations(MIXED["x"], weights=np.arange(1.0, 10.0)[:, None], offset=2.0)
    blocks = [
        mc.Block("x", mc.Gaussian(), standardize=way, bias=True, reduce="mean"),
        mc.Block(other, WORDS[other], standardize=True, reduce="mean"),
    ]
    verified = mc.verify(model_of(*blocks, weight=0.1), {"x": x, other: MIXED[other]})
    assert verified.agrees, verified
    assert verified.fast.status == "certified"


@pytest.mark.parametrize("word", [mc.Huber(0.5), mc.Quantile(0.3), mc.Equality()], ids=repr)
def test_both_readings_agree_on_nonsmooth_losses(word):
    model = model_of(mc.Block("x", word, standardize="robust"))
    assert mc.verify(model, {"x": MIXED["x"]}, tol=1e-4).agrees


@pytest.mark.parametrize("way", [True, "robust"])
@pytest.mark.parametrize("weight", [None, 100.0])
def test_sums_are_stated_in_the_units_of_the_data(way, weight):
    x = MIXED["x"]
    means = np.array([[1e6 + 20.0, np.nan, 1e6 - 10.0]])
    calibration = mc.Calibration("x", np.full(9, 1 / 9), means, weight=weight)
    model = model_of(mc.Block("x", mc.Gaussian(), standardize=way), terms=[calibration])
    verified = mc.verify(model, {"x": x})
    assert verified.agrees, verified
    fit = verified.fast
    found = fit.natural("x").mean(axis=0)
    known = ~np.isnan(means[0])
    assert fit.residual("x") == pytest.approx(
        np.linalg.norm((found - means[0])[known]), abs=1e-6 * np.nanstd(x)
    )
    plain = mc.fit(model_of(mc.Block("x", mc.Gaussian(), standardize=way)), {"x": x})
    away = np.abs(plain.natural("x").mean(axis=0) - means[0])[known]
    near = np.abs(found - means[0])[known]
    assert np.all(near < (1e-4 if weight is None else 0.5 * away))


def test_a_log_likelihood_is_a_density_of_the_data():
    x = 1e6 + 50.0 * table_of(seed=12)
    model = model_of(mc.Block("x", mc.Gaussian(variance=0.5), standardize=True, bias=True))
    fit = mc.fit(model, {"x": mc.Observations(x, offset=3.0)})
    deviation = np.nanstd(x, axis=0) * np.sqrt(0.5)
    wanted = stats.norm.logpdf(x, fit.predict("x"), deviation)
    np.testing.assert_allclose(fit.log_likelihood("x"), wanted, atol=1e-8)


def test_weight_max_and_a_path_with_a_checkpoint(tmp_path):
    data = {"x": MIXED["x"], "y": MIXED["y"]}
    blocks = [
        mc.Block("x", mc.Gaussian(), standardize=True),
        mc.Block("y", mc.Bernoulli(), standardize=True, bias=True),
    ]
    model = model_of(*blocks)
    largest = mc.weight_max(model, data)
    options = {"weights": [1.001 * largest, 0.5 * largest], "checkpoint": tmp_path / "fits.npz"}
    first = mc.path(model, data, **options)
    again = mc.path(model, data, **options)
    assert first[0].rank == 0 < first[1].rank
    np.testing.assert_array_equal(first[1].predict("x"), again[1].predict("x"))
    other = {**data, "x": 2.0 * data["x"]}  # the same in standard units
    with pytest.raises(mc.DataError, match=r"checkpoint .* holds another"):
        mc.path(model, other, **options)


def test_cross_validation_judges_in_the_units_of_the_data():
    x = table_of(seed=13, shape=(20, 4), missing=0.1)
    s, c = np.array([1e-6, 1e6, 1.0, 1.0]), np.array([0.0, 1e9, -3.0, 0.0])
    model = model_of(mc.Block("x", mc.Gaussian(), standardize=True))
    options = {"criterion": HeldOutLoss(), "weights": mc.selection.Grid(count=4), "cv": 3}
    plain = mc.cross_validate(model, {"x": x}, **options)
    other = mc.cross_validate(model, {"x": s * x + c}, **options)
    np.testing.assert_allclose(other.scores, plain.scores, rtol=1e-2)
    problem = mc.Problem.bind(model, {"x": s * x + c})
    fold = folds_of(EntryFolds(3), problem, {"x": s * x + c})[0]
    held = fold.held["x"]
    np.testing.assert_array_equal(held.values, (s * x + c)[held.rows, held.columns])
    fit = mc.fit(model, fold.data)
    missed = fit.predict("x")[held.rows, held.columns] - held.values
    assert RelativeError("x")(fit, fold.held) == pytest.approx(
        np.sum(missed**2) / np.sum(held.values**2)
    )


def test_a_frame_comes_back_as_a_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(1e6 + table_of(seed=14), columns=list("abcd"))
    model = model_of(mc.Block("x", mc.Gaussian(), standardize="ranks", bias=True))
    fit = mc.fit(model, {"x": frame})
    pd.testing.assert_frame_equal(fit.impute("x").where(frame.notna()), frame)
    assert list(fit.bias("x").index) == list("abcd")


WRONG = {
    "a word": (
        lambda: mc.Block("x", mc.Gaussian(), standardize="z-score"),
        "block 'x': standardize='z-score' was given; False, True, 'robust' or 'ranks' is needed",
    ),
    "a number": (
        lambda: mc.Block("x", mc.Gaussian(), standardize=1),
        "standardize=1 was given; False, True",
    ),
    "ranks of labels": (
        lambda: mc.Block("y", mc.Bernoulli(), standardize="ranks"),
        "block 'y': standardize='ranks' was given, which is about values, and the predictors of"
        " Bernoulli have a unit of their own; standardize=True scales the loss of each column",
    ),
    "unlabeled entries": (
        lambda: mc.Block("y", mc.RiskMixture(pu=1.0, likelihood=mc.Bernoulli()), standardize=True),
        "what RiskMixture loses at a constant, unlabeled entries included, is an estimate",
    ),
    "sums of ranks": (
        lambda: model_of(
            mc.Block("x", mc.Gaussian(), standardize="ranks"),
            terms=[mc.Calibration("x", np.ones(3), [1.0])],
        ),
        "Calibration states sums of block 'x', which do not follow from the ranks of"
        " standardize='ranks'; take standardize=True or 'robust'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_has_no_standard_is_refused(case):
    make, message = WRONG[case]
    with pytest.raises(mc.ModelError) as error:
        make()
    assert message in str(error.value)


def test_a_loss_of_which_nothing_says_how_little_it_can_be_is_refused():
    class Bare(mc.Poisson):
        """A loss that may fall below any number."""

    class Unbounded(Likelihood):
        needs = remedy = ""
        curvature, infimum = 1.0, -np.inf
        invalid = value = value_and_gradient = mean = start = formula = None

    assert mc.Block("n", Bare(), standardize=True).standardize is True  # it has a conjugate
    with pytest.raises(mc.ModelError, match="Unbounded has neither a conjugate nor an infimum"):
        mc.Block("n", Unbounded(), standardize=True)


def test_sums_of_ones_own_say_what_they_state_in_standard_units():
    class Total(Sums):
        conjugate = formula = groups = residual = statement = value = None

    with pytest.raises(mc.ModelError, match=r"Total does not say .* about\(origin, scale\)"):
        Total().about(np.zeros((3, 2)), np.ones(2))


def test_ranks_have_no_density():
    model = model_of(mc.Block("x", mc.Gaussian(), standardize="ranks"))
    fit = mc.fit(model, {"x": MIXED["x"]})
    with pytest.raises(mc.ModelError, match="block 'x': normal scores have a density"):
        fit.log_likelihood("x")


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (True, "x°_ij = (x_ij − mean) / deviation of column j of x"),
        ("robust", "x°_ij = (x_ij − median) / (interquartile range / 1.349) of column j of x"),
        ("ranks", "x°_ij = normal score of x_ij in column j of x"),
    ],
)
def test_the_sentence_says_it(way, said):
    blocks = [
        mc.Block("x", mc.Gaussian(), standardize=way),
        mc.Block("y", mc.Bernoulli(), standardize=True),
    ]
    text = str(model_of(*blocks))
    assert "Σ_(i,j)∈x 1/ℓ_j (z_ij − x°_ij)²/2" in text
    assert f"\n      {said}\n      Z_x is in the units of x°_ij\n" in text
    assert text.count("loss per entry of column j at its best constant") == 1
    assert "y°" not in text
    assert "1/ℓ_j log(" in text
    latex = model_of(*blocks)._repr_latex_()
    assert r"x^{\circ}_{ij} = " in latex
    assert r"\ell_j = " in latex
    assert latex.count("{") == latex.count("}")
    assert "°" not in str(model_of(mc.Block("x", mc.Gaussian())))


def test_the_sentence_on_sums_and_on_exact_values():
    sums = mc.Calibration("x", np.ones(3), [1.0])
    text = str(model_of(mc.Block("x", mc.Equality(), standardize=True), terms=[sums]))
    assert "Z_x is in the units of x°_ij\n" in text
    assert "P_x = z_ij + offset, for all cells of x, in the units of x_ij" in text
    assert "ℓ_j" not in text


def test_no_warning_comes_from_extreme_columns():
    x = np.array([[1e-140, 0.0, 1e140], [2e-140, 1e-300, -1e140], [4e-140, 5.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for way in WAYS:
            fit = mc.fit(model_of(mc.Block("x", mc.Gaussian(), standardize=way)), {"x": x})
            assert np.all(np.isfinite(fit.predict("x")))
            np.testing.assert_array_equal(fit.impute("x"), x)
