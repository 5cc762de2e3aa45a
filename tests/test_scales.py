"""Scales on which columns of numbers are Gaussian: inverses, densities, choice, and answers."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.numerics.row_mixtures import moments_of
from mcframe.posterior.joint import NOISE_SHARE
from mcframe.tables.coding import NO_PLACES, Numbers
from mcframe.tables.marginals import (
    ScaleChoice,
    Support,
    atom_of,
    scales_tried,
    standardized_scale,
    with_scales,
)
from mcframe.tables.raw_predictions import RawPredictions
from mcframe.tables.semicontinuous import SemiContinuous
from mcframe.tables.shifts import NO_SHIFTS
from mcframe.tables.table_draws import DrawnRows

from .strategies import SHAPES

# Shapes of the default run: whole numbers, and a point mass.
QUICK = ("counted", "zero or more")


@st.composite
def columns(draw):
    """Numbers of a shape in any unit, with the ends of their support."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape, lower, upper = SHAPES[draw(st.sampled_from(list(SHAPES)))]
    numbers = shape(rng.standard_normal(draw(st.sampled_from([12, 60, 400]))))
    unit = draw(st.sampled_from([1.0, 1e-6, 1e6]))
    return unit * numbers, unit * lower, unit * upper


@settings(deadline=None, max_examples=120, derandomize=True)
@given(columns())
def test_scales_are_increasing_and_numbers_come_back(drawn):
    numbers, lower, upper = drawn
    whole = bool(np.all(np.rint(numbers) == numbers))
    support = Support.of(numbers, lower, upper, whole)
    for make in scales_tried(support, np.mean(numbers), np.std(numbers)):
        chain = standardized_scale(make(numbers), numbers)
        if chain is None:
            continue
        ordered = np.unique(numbers)
        scaled = chain.apply(ordered, *NO_PLACES)
        assert np.all(np.diff(scaled) >= 0.0)
        size = np.max(np.abs(numbers))
        np.testing.assert_allclose(chain.invert(scaled, *NO_PLACES), ordered, atol=1e-9 * size)
        coding = Numbers(scale=chain, support=(support.lower, support.upper))
        far = coding.within(np.linspace(-9.0, 9.0, 50)[:, None])
        assert np.all(np.isfinite(far))
        assert np.all(far >= support.lower)
        assert np.all(far <= support.upper)
        if len(chain):  # the slope, but at the knots of scores
            middle = 0.5 * (ordered[1:] + ordered[:-1])
            step = 1e-6 * np.diff(ordered)
            low, high = (chain.apply(middle + end * step, *NO_PLACES) for end in (-1.0, 1.0))
            slopes, logs = (high - low) / (2.0 * step), chain.log_derivative(middle, *NO_PLACES)
            agree = np.isclose(np.log(slopes), logs, atol=1e-3)
            assert np.mean(agree) >= 0.8 if ordered.size < 20 else np.mean(agree) >= 0.9


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("normal", "as in the data"),
        ("positive", "log(x)"),
        ("share", "logit of x between 0 and 1"),
        ("heavy", "arsinh"),
    ],
)
def test_the_scale_is_that_of_the_largest_density(shape, words):
    make, _lower, _upper = SHAPES[shape]
    numbers = make(np.random.default_rng(0).standard_normal(400))
    _, best = with_scales(Numbers(), numbers)
    assert best.scale_in_words.startswith(words)
    assert (best.scale_gain > 0.02) == (shape in ("positive", "heavy"))


def test_two_clusters_are_left_to_a_mixture():
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.normal(-4.0, 1.0, 150), rng.normal(4.0, 1.0, 150)])
    assert with_scales(Numbers(), numbers)[1].scale_in_words == "as in the data"


@pytest.mark.parametrize(
    ("numbers", "atom"),
    [
        (np.append(np.zeros(20), np.linspace(1.0, 2.0, 40)), 0.0),
        (np.append(np.full(30, 0.05), np.linspace(0.06, 2.0, 40)), 0.05),
        (np.append(np.zeros(4), np.linspace(1.0, 2.0, 90)), None),
        (np.random.default_rng(0).poisson(0.8, 300).astype(float), None),
        (np.linspace(0.0, 1.0, 50), None),
    ],
)
def test_a_point_mass_is_one_value_far_more_frequent_than_others(numbers, atom):
    assert atom_of(numbers) == atom


def frame_of(shape, n=300, seed=0):
    """Three normal columns, and one of a shape that follows them; the hidden values."""
    rng = np.random.default_rng(seed)
    slopes = np.array([0.6, 0.4, -0.3])
    x = rng.standard_normal((n, 3))
    z = x @ slopes + np.sqrt(1.0 - slopes @ slopes) * rng.standard_normal(n)
    whole = pd.DataFrame(x, columns=list("abc")).assign(y=SHAPES[shape][0](z))
    hidden = rng.random(n) < 0.4
    return whole, whole.assign(y=whole["y"].mask(hidden)), hidden


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(shape, marks=[pytest.mark.slow(seconds=1)] * (shape not in QUICK))
        for shape in SHAPES
    ],
)
def test_draws_intervals_and_means_agree_and_lie_in_the_support(shape):
    whole, frame, hidden = frame_of(shape)
    _, lower, upper = SHAPES[shape]
    completed = mc.complete(frame)
    drawn = np.array([table["y"][hidden] for table in completed.draws(30)])
    ends = [end["y"][hidden].to_numpy() for end in completed.interval(0.9)]
    filled = completed.table["y"][hidden].to_numpy()
    for values in (drawn, *ends, filled):
        assert np.all(values >= lower)
        assert np.all(values <= upper)
    if shape == "counted":
        np.testing.assert_array_equal(drawn, np.rint(drawn))
    truth = whole["y"][hidden].to_numpy()
    spread = np.std(truth)
    assert abs(np.mean(drawn) - np.mean(filled)) < 0.12 * spread
    sd, column = completed.sd["y"][hidden].to_numpy(), completed.declared.column("y")
    if shape != "heavy":  # far out the caution of an sd on the scale is exponentially larger
        np.testing.assert_allclose(np.median(np.std(drawn, axis=0) / sd), 1.0, atol=0.15)
    if not isinstance(column.coding, SemiContinuous):
        sd = completed.posterior.sd(column.block, *column.entries(np.flatnonzero(hidden)))
        scaled = column.coding.numbers(drawn)[:, 0]
        np.testing.assert_allclose(np.median(np.std(scaled, axis=0) / sd), 1.0, atol=0.15)
    inside = (drawn >= ends[0] - 1e-9) & (drawn <= ends[1] + 1e-9)
    assert 0.86 < np.mean(inside) < 0.999
    assert np.mean((truth >= ends[0]) & (truth <= ends[1])) > 0.82
    report = completed.report().set_index("column")
    assert report.loc["y", "loss"] < 1.0
    error = np.sqrt(np.mean(np.square(filled - truth)))
    most = 2.0 if shape == "heavy" else 1.33  # there a few numbers decide
    assert 1.0 / most < report.loc["y", "error"] / error < most
    if shape.startswith("zero"):
        assert abs(np.mean(drawn == 0.0) - np.mean(truth == 0.0)) < 0.1


def drawn_alone(completed, column, cells, count, rng):
    """Draws of the number of each cell by itself on its scale, of the mixture or of the shape."""
    weights, means, variances = completed.posterior.engine.mixture(*cells)
    normal = rng.standard_normal((count, cells[0].size))
    if column.coding.shape is None:
        heights = np.cumsum(weights, axis=0)
        component = np.sum(rng.random((count, 1, cells[0].size)) > heights, axis=1)
        chosen = np.minimum(component, len(weights) - 1), np.arange(cells[0].size)
        standard = means[chosen] + np.sqrt(variances[chosen] + NOISE_SHARE) * normal
    else:
        mean, variance = moments_of(weights, means, variances)
        standard = mean + np.sqrt(variance + NOISE_SHARE) * column.coding.shape.apply(normal)
    numbers = completed.posterior.tables[column.block].units.invert(standard, *cells)
    width = column.coding.width
    return numbers[:, width - 1 :: width]


WHOLE = {
    "a scale of three": lambda z: 1.0 + (z > -0.7) + (z > 0.7),
    "a scale of seven": lambda z: np.clip(np.rint(4.0 + 1.5 * z), 1.0, 7.0),
    "whole numbers": lambda z: np.rint(20.0 + 3.0 * z),
    "amounts": lambda z: np.rint(np.exp(1.5 + 0.8 * z)),
    "nothing or an amount": lambda z: np.where(z > 0.0, np.rint(np.exp(2.0 + z)), 0.0),
    "counts": lambda z: np.floor(np.exp(0.5 + 0.8 * z)),
}


@pytest.mark.parametrize("level", [pytest.param(0.5, marks=pytest.mark.slow(seconds=3)), 0.9])
@pytest.mark.parametrize("dtype", ["float64", "Int64"])
@pytest.mark.parametrize("kind", list(WHOLE))
@pytest.mark.some(0.3)
def test_intervals_of_whole_columns_are_no_longer_than_they_need_be(kind, dtype, level):
    """They hold the level of the whole numbers that are drawn, and less without one end."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((200, 2))
    values = WHOLE[kind](x @ [0.6, 0.5] + 0.6 * rng.standard_normal(200))
    y = pd.Series(values).mask(rng.random(200) < 0.3).astype(dtype)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    completed = mc.complete(frame, {"y": "count"} if kind == "counts" else None)
    column = completed.declared.column("y")
    coding, rows = column.coding, np.flatnonzero(y.isna())[:25]
    assert isinstance(coding, SemiContinuous) == (kind == "nothing or an amount")
    cells = column.entries(rows)
    others = drawn_alone(completed, column, cells, 20_000, rng)
    whole = coding.whole_within(column.rounded(coding.within(others)))
    if coding.width == 2:
        raw = coding.raw(completed.posterior, column.block, cells)
        p = coding.probability(raw.means, raw.variances)
        whole = np.where(rng.random(whole.shape) < p, whole, coding.atom)
    lower, upper = (end["y"][rows].to_numpy(float) for end in completed.interval(level))
    for end in (lower, upper):
        np.testing.assert_array_equal(end, np.rint(end))
    assert np.all(np.mean((whole >= lower) & (whole <= upper), axis=0) > level - 0.02)
    without_ends = [
        np.mean((whole >= lower + first) & (whole <= upper - last), axis=0)
        for first, last in ((1.0, 0.0), (0.0, 1.0))
    ]
    assert np.all(np.min(without_ends, axis=0) < level + 0.02)


@pytest.mark.parametrize("shape", ["positive", "zero or more"])
@pytest.mark.some(0.8, shape=1)
def test_means_and_deviations_are_those_of_draws_of_one_entry(shape):
    """The quadrature of the mean and the sd against draws of the mixture of each entry."""
    _, frame, hidden = frame_of(shape)
    completed = mc.complete(frame)
    column = completed.declared.column("y")
    rows = np.flatnonzero(hidden)[:40]
    cells = column.entries(rows)
    coding = column.coding
    numbers = drawn_alone(completed, column, cells, 40_000, np.random.default_rng(1))
    others = coding.within(numbers)
    filled = completed.table["y"][rows].to_numpy()
    sd = completed.sd["y"][rows].to_numpy()
    if isinstance(coding, SemiContinuous):
        raw = coding.raw(completed.posterior, column.block, cells)
        p = coding.probability(raw.means, raw.variances)
        others = np.where(np.random.default_rng(0).random(others.shape) < p, others, coding.atom)
    error = np.std(others, axis=0) / np.sqrt(len(others))
    assert np.all(np.abs(np.mean(others, axis=0) - filled) < 5.0 * error)
    np.testing.assert_allclose(np.std(others, axis=0), sd, rtol=0.2)
    lower, upper = (end["y"][rows].to_numpy() for end in completed.interval(0.8))
    inside = np.mean((others >= lower) & (others <= upper), axis=0)
    assert np.all(inside > 0.76)


def test_a_mixture_has_the_mean_of_its_components():
    """Not of one normal distribution with their moments: clusters of logarithms."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 2, 400)
    x = np.where(cluster, 3.0, -3.0) + rng.standard_normal((3, 400))
    y = np.exp(np.where(cluster, 2.0, -2.0) * rng.choice([1.0, 1.0, 1.0, -1.0], 400))
    frame = pd.DataFrame({"a": x[0], "b": x[1], "y": y * np.exp(0.2 * x[2])})
    hidden = rng.random(400) < 0.3
    completed = mc.complete(frame.assign(y=frame["y"].mask(hidden)))
    drawn = np.mean([table["y"][hidden] for table in completed.draws(40)], axis=0)
    filled = completed.table["y"][hidden].to_numpy()
    assert abs(np.mean(drawn) / np.mean(filled) - 1.0) < 0.15


def test_draws_of_a_point_mass_go_with_what_is_observed():
    """Amounts are drawn given that there is one, and labels of the column by its own curve."""
    _, frame, hidden = frame_of("zero or more", n=500)
    completed = mc.complete(frame)
    rows = DrawnRows.of(completed.declared, completed.posterior, completed.chosen)
    tables = (one.table(NO_SHIFTS) for one in rows.drawn_codes(15, 0))
    drawn = np.array([table["y"][hidden] for table in tables])
    signal = frame.loc[hidden, ["a", "b", "c"]].to_numpy() @ [0.6, 0.4, -0.3]
    high = signal > np.median(signal)
    assert np.mean(drawn[:, high] > 0.0) > np.mean(drawn[:, ~high] > 0.0) + 0.3
    amounts = [drawn[:, part][drawn[:, part] > 0.0] for part in (high, ~high)]
    assert np.median(amounts[0]) > np.median(amounts[1])


def test_the_report_names_the_scale_and_why():
    _, frame, _ = frame_of("positive")
    completed = mc.complete(frame)
    assert "'y' as log(x) (log density of its held-out numbers +" in repr(completed)
    report = completed.report().set_index("column")
    assert report.loc["y", "scale"] == "log(x)"
    _, frame, _ = frame_of("zero or more")
    assert "'y' as 0 or log(x)" in repr(mc.complete(frame))


def test_the_order_of_rows_does_not_change_the_scale():
    numbers = np.exp(np.random.default_rng(0).standard_normal(200))
    support = Support.of(numbers, -np.inf, np.inf, whole=False)
    one, other = (ScaleChoice.of(n, support) for n in (numbers, numbers[::-1]))
    assert str(one.best) == str(other.best)
    assert one.gain == other.gain


@pytest.mark.parametrize("end", [1.0, 5.0, -2.0])
def test_a_number_at_an_end_and_one_next_to_it_have_a_scale(end):
    """Half the distance between them is nothing beside an end that is not 0."""
    inside = end + np.random.default_rng(0).uniform(-1.0, -0.1, 60)
    numbers = np.sort([*inside, np.nextafter(end, -np.inf), end])
    support = Support.of(numbers, end - 1.0, end, whole=False)
    assert support.upper_edge > end
    mirrored = Support.of(-numbers, -end, 1.0 - end, whole=False)
    assert mirrored.lower_edge < -end
    for of, ends in ((numbers, support), (-numbers, mirrored)):
        choice = ScaleChoice.of(of, ends)
        for chain in filter(None, (choice.nearest, choice.best)):
            assert np.all(np.isfinite(chain.apply(of, *NO_PLACES)))


def test_answers_on_scales_come_back_from_files(tmp_path):
    """Every step of every chain: the same table, errors, intervals, draws, and new rows."""
    z = np.random.default_rng(0).standard_normal((300, len(SHAPES)))
    whole = {name: shape(z[:, k]) for k, (name, (shape, *_)) in enumerate(SHAPES.items())}
    frame = pd.DataFrame(whole).mask(np.random.default_rng(1).random(z.shape) < 0.2)
    completed = mc.complete(frame)
    scales = set(completed.report()["scale"])
    assert len(scales) >= 5
    again = mc.load(completed.save(tmp_path / "shaped.npz"), mc.Completion)
    for ask in (
        lambda answer: answer.table,
        lambda answer: answer.sd,
        lambda answer: answer.interval(0.9)[0],
        lambda answer: answer.interval_rows(frame[:40], 0.9)[1],
        lambda answer: answer.draws(2)[1],
        lambda answer: answer.complete_rows(frame[:40]),
        lambda answer: answer.report(),
    ):
        pd.testing.assert_frame_equal(ask(again), ask(completed))
    filled = completed.table[:40]
    pd.testing.assert_frame_equal(completed.complete_rows(frame[:40]), filled, rtol=1e-6)
    for name in whole:
        means = np.asarray(completed.predict(name)).ravel()
        holes = frame[name].isna().to_numpy()
        np.testing.assert_allclose(means[holes], completed.table[name][holes], rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_ends_of_intervals_are_ordered_where_numbers_lie_at_the_point_mass(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    amount = np.where(rng.random(300) < 0.4, 0.0, np.exp(rng.standard_normal(300)))
    frame = pd.DataFrame({"x": rng.standard_normal(300), "amount": amount})
    completed = mc.complete(frame.assign(amount=frame["amount"].where(rng.random(300) < 0.8)))
    (coding,) = (c.coding for c in completed.declared.columns if c.name == "amount")
    at_zero = float(coding.inverse(np.array([0.0]))[0])
    deviations = 10.0 ** rng.uniform(-9.0, 1.0, 2000)
    seconds = at_zero + deviations * rng.uniform(-3.0, 3.0, 2000)
    means = np.column_stack([rng.uniform(-0.5, 1.5, 2000), seconds])
    raw = RawPredictions(means, np.column_stack([np.full(2000, 0.1), deviations**2]))
    monkeypatch.setattr(SemiContinuous, "raw", lambda *_: raw)
    for level in (0.5, 0.9, 0.99):
        lower, upper = coding.ends(completed.posterior, "", None, level, False)
        assert np.all(lower <= upper)


def test_a_number_far_beyond_all_others_gives_a_warning_of_its_own_alone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((100, 3)), columns=["a", "b", "c"])
    frame["a"] += frame["b"]
    frame.loc[:20, "b"] = np.nan
    frame.loc[50, "b"] = 1e300
    with pytest.warns(UserWarning, match="1e\\+300 in row 50 of column 'b'"):
        completed = mc.complete(frame)
    assert np.isfinite(completed.table.to_numpy()).all()


@pytest.mark.parametrize(("deviation", "told"), [(0.5, False), (4.0, True)])
def test_means_of_long_tails_are_said_to_lie_outside_of_intervals(deviation, told):
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200)
    frame = pd.DataFrame({"a": np.exp(deviation * (0.3 * z + rng.standard_normal(200))), "z": z})
    gaps = rng.random(200) < 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there are outliers
        completed = mc.complete(frame.assign(a=frame["a"].mask(gaps)), nonlinear=False)
    lower, upper = (end["a"][gaps] for end in completed.interval(0.9))
    filled = completed.table["a"][gaps]
    beyond = int(((filled < lower) | (filled > upper)).sum())
    assert bool(2 * beyond > gaps.sum()) is told
    assert completed.beyond_intervals == ({"a": beyond} if told else {})
    assert ("where a tail is long: 'a'" in repr(completed)) is told
