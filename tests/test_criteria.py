"""Criteria of cross-validation: what they say of each likelihood, and what they refuse."""

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.model import Problem
from mcframe.selection import (
    Held,
    HeldOutLoss,
    LabelError,
    LogLoss,
    MeanAbsoluteError,
    OneMinusAUC,
    OrdinalDistance,
    RelativeDeviance,
    RelativeError,
    criteria,
)

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((30, 2)) @ RNG.standard_normal((2, 6))
DATA = {
    "x": np.where(RNG.random(Z.shape) < 0.3, np.nan, Z + 50.0),
    "k": RNG.integers(0, 3, (30, 1)).astype(float),
    "c": RNG.poisson(3, (30, 2)).astype(float),
    "s": RNG.integers(1, 6, (30, 2)).astype(float),
    "y": (Z[:, :2] > 0) * 1.0,
}


@attrs.frozen
class Coin(mc.Bernoulli):
    """A likelihood of labels that is none of mcframe's own."""


MODEL = mc.Model(
    [
        mc.Block("x", mc.Gaussian(), bias=True),
        mc.Block("k", mc.Multinomial(3)),
        mc.Block("c", mc.Poisson(), bias=True),
        mc.Block("s", mc.Ordinal(levels=5)),
        mc.Block("y", Coin()),
    ],
    [mc.NuclearNorm(3.0)],
)


@pytest.fixture(scope="module")
def fit():
    return mc.fit(MODEL, DATA, tol=1e-4)


def held_of(name, count=20):
    rows, columns = np.nonzero(~np.isnan(DATA[name]))
    places = np.random.default_rng(1).permutation(rows.size)[:count]
    rows, columns = rows[places], columns[places]
    return Held(rows, columns, DATA[name][rows, columns])


HELD = {name: held_of(name) for name in DATA}


def test_label_errors_of_labels_and_classes(fit):
    y, k = HELD["y"], HELD["k"]
    expected = np.mean((fit.predict("y")[y.rows, y.columns] > 0.5) != (y.values == 1.0))
    assert LabelError("y")(fit, HELD) == expected
    most_probable = np.argmax(fit.predict("k"), axis=1)
    share = LabelError("k")(fit, HELD)
    assert share == np.mean(most_probable[k.rows] != k.values)
    assert 0.0 < share < 1.0


@pytest.mark.parametrize(
    "likelihood",
    [
        mc.Bernoulli(),
        mc.Bernoulli("probit"),
        mc.Hinge(),
        mc.Ordinal(2, lowest=0),
        mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli()),
        mc.Multinomial(4),
        Coin(),
    ],
)
def test_label_errors_go_by_the_domain_of_the_likelihood(likelihood):
    LabelError("y").check(mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(1.0)]))


@pytest.mark.parametrize(
    ("criterion", "named"),
    [
        (
            LabelError("x"),
            r"LabelError\(block='x'\): block 'x' holds neither labels 0 and 1 nor classes, as"
            r" Gaussian needs finite real numbers; take RelativeError\('x'\)",
        ),
        (LabelError("c"), "as Poisson needs"),
        (LabelError("s"), "as Ordinal needs"),
        (OneMinusAUC("c"), r"'c' holds no labels 0 and 1, .* take RelativeError\('c'\)"),
        (OneMinusAUC("k"), r"'k' holds no labels 0 and 1, .* take LabelError\('k'\)"),
        (OrdinalDistance("x"), r"'x' holds no ordered levels, .* take MeanAbsoluteError\('x'\)"),
        (OrdinalDistance("k"), r"take LabelError\('k'\)"),
        (
            MeanAbsoluteError("k"),
            r"'k' holds classes, whose codes have no size .* as Multinomial needs",
        ),
        (LogLoss("x"), r"'x' has Gaussian, whose density depends on the units of the data; take"),
        (RelativeDeviance("zzz"), "no block 'zzz'; the blocks are 'x'"),
        ([HeldOutLoss(), LabelError("x")], "take RelativeError"),
        ({"loss": HeldOutLoss(), "error": LabelError("x")}, "take RelativeError"),
        (RelativeError("k"), r"'k' holds classes, .*Multinomial.* take LabelError\('k'\)"),
        (
            RelativeError(),
            r"there is no block 'features'; the blocks are 'x', 'k', 'c', 's', 'y': write"
            r" RelativeError\('x'\)",
        ),
        (HeldOutLoss("zzz"), "no block 'zzz'; the blocks are 'x'"),
        (LabelError(), "no block 'labels'"),
        (HeldOutLoss, r"criterion is the class HeldOutLoss; write HeldOutLoss\(\)"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_any_fit(criterion, named, fit):
    def never(model, data, weights):
        raise AssertionError("fitted")

    with pytest.raises(mc.ModelError, match=named):
        mc.cross_validate(MODEL, DATA, criterion=criterion, path=never, weights=[1.0], cv=2)
    if not isinstance(criterion, type | list | dict):
        with pytest.raises(mc.ModelError, match=named):
            criterion(fit, HELD)


def test_a_block_that_was_not_held_out_is_said(fit):
    with pytest.raises(mc.ModelError, match="no block 'y'; the blocks are 'x'"):
        LabelError("y")(fit, {"x": HELD["x"]})


BLOCKWISE = [LabelError, LogLoss, MeanAbsoluteError, OneMinusAUC, OrdinalDistance, RelativeError]


@pytest.mark.parametrize("word", [*BLOCKWISE, HeldOutLoss, RelativeDeviance])
def test_the_name_of_a_block_is_a_string(word):
    with pytest.raises(mc.ModelError, match="block=3 was given"):
        word(3)


def test_a_relative_error_of_zeros_says_nothing(fit):
    zeros = Held(np.array([0]), np.array([0]), np.array([0.0]))
    assert np.isnan(RelativeError("c")(fit, {"c": zeros}))


def test_held_out_losses_weigh_entries_and_not_blocks(fit):
    held = {"x": held_of("x", 100), "k": held_of("k", 5)}
    losses = {}
    for name, entries in held.items():
        z = fit.natural(name, entries.rows, entries.columns)
        losses[name] = fit.likelihood(name).value(z, entries.values)
    assert HeldOutLoss("k")(fit, held) == pytest.approx(np.mean(losses["k"]))
    together = np.mean(np.concatenate([losses["x"], losses["k"]]))
    assert HeldOutLoss()(fit, held) == pytest.approx(together)


@attrs.frozen
class OnlyThreeBlocks:
    """A criterion of one's own with a check of its own."""

    def __call__(self, fit, held):
        return 0.0

    def check(self, model):
        if len(model.blocks) > 3:
            raise mc.ModelError("too many blocks")


def test_a_criterion_of_ones_own_may_check_the_models():
    with pytest.raises(mc.ModelError, match="too many blocks"):
        mc.cross_validate(MODEL, DATA, criterion=OnlyThreeBlocks(), weights=[1.0], cv=2)


@pytest.mark.parametrize("answer", [None, "low", np.ones(2), [1.0], 1j])
def test_what_a_criterion_gives_must_be_a_number(answer):
    def criterion(fit, held):
        return answer

    with pytest.raises(mc.ModelError, match=r"criterion criterion gave .* one number is needed"):
        mc.cross_validate(
            MODEL, DATA, criterion=criterion, path=lambda *_: [1], weights=[1.0], cv=2
        )


@pytest.mark.parametrize(
    ("likelihoods", "named"),
    [
        ([mc.Gaussian()], r"RelativeError\('0'\) or HeldOutLoss\(\)"),
        ([mc.Poisson(), mc.Gaussian()], r"RelativeError\('0'\) or HeldOutLoss\(\)"),
        ([mc.Bernoulli()], r"LabelError\('0'\) or HeldOutLoss\(\)"),
        (
            [mc.Gaussian(), mc.Multinomial(3)],
            r"RelativeError\('0'\) or LabelError\('1'\) or HeldOutLoss\(\)",
        ),
    ],
)
def test_a_criterion_that_is_none_is_answered_by_those_that_suit(likelihoods, named):
    blocks = [mc.Block(str(k), likelihood) for k, likelihood in enumerate(likelihoods)]
    model = mc.Model(blocks, [mc.NuclearNorm(1.0)])
    with pytest.raises(mc.ModelError, match=f"criterion='rmse' was given.* such as {named} of"):
        mc.cross_validate(model, {block.name: np.eye(2) for block in blocks}, criterion="rmse")


NOTHING = Held(np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.zeros(0))


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (LabelError, "y"),
        (LogLoss, "y"),
        (MeanAbsoluteError, "x"),
        (OneMinusAUC, "y"),
        (OrdinalDistance, "s"),
        (RelativeError, "x"),
        (HeldOutLoss, "x"),
        (RelativeDeviance, "x"),
    ],
)
def test_where_nothing_is_held_out_nothing_is_said(fit, word, name):
    assert np.isnan(word(name)(fit, {name: NOTHING}))


def test_absolute_errors_and_distances_of_levels(fit):
    x, s = HELD["x"], HELD["s"]
    missed = np.abs(fit.predict("x")[x.rows, x.columns] - x.values)
    assert MeanAbsoluteError("x")(fit, HELD) == pytest.approx(missed.mean())
    z, thresholds = fit.natural("s")[s.rows, s.columns], fit.likelihood("s").thresholds
    below = 1 / (1 + np.exp(z[:, None] - np.array(thresholds)))  # P(level <= k)
    median = 1 + (below < 0.5).sum(axis=1)
    assert OrdinalDistance("s")(fit, HELD) == pytest.approx(np.abs(median - s.values).mean())
    assert set(median.tolist()) != {3}


def test_levels_may_begin_anywhere():
    levels = mc.Ordinal(3, thresholds=(-1.0, 1.0), lowest=-5)
    model = mc.Model([mc.Block("s", levels)], [mc.NuclearNorm(0.01)])
    s = np.outer([1.0, 0.0, -1.0], [1.0, 1.0]) - 4.0
    fit = mc.fit(model, {"s": s}, tol=1e-3)
    rows, columns = np.indices(s.shape).reshape(2, -1)
    assert OrdinalDistance("s")(fit, {"s": Held(rows, columns, s.ravel())}) == 0.0


def test_log_losses_have_every_constant(fit):
    for name in ("c", "k", "s"):
        held = HELD[name]
        table = fit.log_likelihood(name)[held.rows, held.columns]
        assert LogLoss(name)(fit, HELD) == pytest.approx(-table.mean())
    assert LogLoss("y")(fit, HELD) == pytest.approx(HeldOutLoss("y")(fit, HELD))


def test_the_area_is_the_mean_over_columns_with_both_labels(fit):
    """Of the pairs of a 1 and a 0 in a column: the share that stands in the other order."""
    y, shares = HELD["y"], []
    z = fit.natural("y")
    for column in range(2):
        here = y.columns == column
        score = z[y.rows[here], column]
        ones, zeros = score[y.values[here] == 1.0], score[y.values[here] == 0.0]
        assert ones.size
        assert zeros.size
        shares.append(np.mean(ones[:, None] < zeros))
    assert OneMinusAUC("y")(fit, HELD) == pytest.approx(np.mean(shares))
    first = y.columns == 0
    alike = Held(
        np.append(y.rows[first], 0),
        np.append(y.columns[first], 1),
        np.append(y.values[first], 1.0),
    )
    assert OneMinusAUC("y")(fit, {"y": alike}) == pytest.approx(shares[0])
    ones = Held(np.arange(3), np.zeros(3, dtype=int), np.ones(3))
    assert np.isnan(OneMinusAUC("y")(fit, {"y": ones}))


def constant_model(likelihood, **options):
    """So heavy a norm that Z is 0: what is left is a bias, or thresholds."""
    return mc.Model([mc.Block("v", likelihood, **options)], [mc.NuclearNorm(1e6)])


def held_and_seen(values, share=0.3, seed=0):
    """A table without some of its entries, and these."""
    hidden = np.random.default_rng(seed).random(values.shape) < share
    hidden[0] = False
    rows, columns = np.nonzero(hidden)
    return np.where(hidden, np.nan, values), {"v": Held(rows, columns, values[hidden])}


def numbers_of_every_kind():
    rng = np.random.default_rng(5)
    z = rng.standard_normal((60, 3))
    yield pytest.param(mc.Gaussian(), z + 3.0, id="numbers")
    yield pytest.param(mc.Huber(), z + 3.0, id="outliers")
    yield pytest.param(mc.Quantile(0.3), z + 3.0, id="quantiles")
    yield pytest.param(mc.Bernoulli(), (z > 0.5) * 1.0, id="labels")
    yield pytest.param(mc.Bernoulli("probit"), (z > 0.5) * 1.0, id="probit")
    yield pytest.param(mc.Hinge(), (z > 0.5) * 1.0, id="hinge")
    yield pytest.param(mc.Poisson(), rng.poisson(4.0, z.shape) * 1.0, id="counts")
    yield pytest.param(mc.NegativeBinomial(0.5), rng.poisson(4.0, z.shape) * 1.0, id="dispersed")
    yield pytest.param(mc.Exponential(), rng.exponential(3.0, z.shape), id="exponential")
    yield pytest.param(mc.Gamma(2.0), rng.gamma(2.0, 3.0, z.shape), id="positive")
    yield pytest.param(mc.Multinomial(3), rng.integers(0, 3, z.shape) * 1.0, id="classes")


@pytest.mark.parametrize(("likelihood", "values"), list(numbers_of_every_kind()))
def test_the_best_constant_has_a_relative_deviance_of_one(likelihood, values):
    seen, held = held_and_seen(values)
    ridge = None if likelihood.location else 0.1
    fit = mc.fit(constant_model(likelihood, bias=True, effects_weight=ridge), {"v": seen})
    assert RelativeDeviance()(fit, held) == pytest.approx(1.0, abs=1e-3)


def test_the_best_constants_are_found_once_along_a_path(monkeypatch):
    found, original = [], criteria.fit_of_constants

    def counted(fit, name):
        found.append(name)
        return original(fit, name)

    monkeypatch.setattr(criteria, "fit_of_constants", counted)
    x = np.where(np.isnan(DATA["x"]), 50.0, DATA["x"])
    options = {"weights": mc.selection.Grid([4.0, 2.0, 1.0], patience=None), "cv": 3}
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1.0)])
    with pytest.warns(UserWarning, match="the lowest mean score is at"):
        mc.cross_validate(model, {"x": x}, criterion=RelativeDeviance(), **options)
    assert found == ["x"] * 3


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
def test_other_entries_and_another_fit_have_constants_of_their_own():
    seen, held = held_and_seen(DATA["c"])
    first, second = ({"v": Held(*some)} for some in halves_of(held["v"]))
    block = mc.Block("v", mc.Poisson(), bias=True)
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(3.0)]), {"v": seen})
    judge = RelativeDeviance()
    alone = [judge(attrs.evolve(fit, problem=rebound(fit)), some) for some in (first, second)]
    assert [judge(fit, some) for some in (first, second, first)] == [*alone, alone[0]]
    assert alone[0] != alone[1]


def halves_of(held):
    """The places and values of every other entry, and of those between."""
    for begin in (0, 1):
        part = slice(begin, None, 2)
        yield held.rows[part], held.columns[part], held.values[part]


def rebound(fit):
    """The problem of a fit with tables of its own."""
    return Problem.of_tables(
        fit.model, {name: attrs.evolve(table) for name, table in fit.problem.tables.items()}
    )


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
def test_a_column_of_levels_is_compared_with_its_thresholds():
    values = np.random.default_rng(5).integers(1, 6, (80, 1)) * 1.0
    seen, held = held_and_seen(values)
    fit = mc.fit(constant_model(mc.Ordinal(5)), {"v": seen})
    assert RelativeDeviance("v")(fit, held) == pytest.approx(1.0, abs=1e-2)


def test_of_standardised_columns_it_is_the_unexplained_variance():
    rng = np.random.default_rng(2)
    x = 3.0 * rng.standard_normal((40, 1)) * np.arange(1.0, 7.0) + rng.standard_normal((40, 6))
    seen, held = held_and_seen(x)
    mean, variance = np.nanmean(seen, axis=0), np.nanvar(seen, axis=0)
    fit = mc.fit(
        mc.Model([mc.Block("v", mc.Gaussian(), bias=True)], [mc.NuclearNorm(3.0)]), {"v": seen}
    )
    h = held["v"]
    missed = np.square(fit.predict("v")[h.rows, h.columns] - h.values) / variance[h.columns]
    total = np.square(mean[h.columns] - h.values) / variance[h.columns]
    score = RelativeDeviance()(fit, held)
    assert score == pytest.approx(missed.sum() / total.sum(), rel=1e-6)
    assert score < 0.9


@pytest.mark.parametrize(
    ("scale", "offset"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e9), (1e-3, -1e6)]
)
def test_no_unit_of_a_column_plays_a_part(scale, offset):
    """The columns' answers are moved along: the same fit in other units has the same score."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 6))
    seen, held = held_and_seen(x)
    model = mc.Model([mc.Block("v", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1e-6)])
    moved = np.ones(6)
    moved[2] = scale
    shift = np.where(moved == 1.0, 0.0, offset) if scale != 1.0 else np.eye(6)[2] * offset
    h = held["v"]
    other = {"v": Held(h.rows, h.columns, h.values * moved[h.columns] + shift[h.columns])}
    heavy = attrs.evolve(model, terms=[mc.NuclearNorm(1e30)])
    scores = [
        RelativeDeviance()(mc.fit(heavy, {"v": data}), entries)
        for data, entries in ((seen, held), (seen * moved + shift, other))
    ]
    assert scores[1] == pytest.approx(scores[0], rel=1e-5)


def test_a_column_that_is_all_alike_is_left_out():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 3))
    seen, held = held_and_seen(x)
    fit = mc.fit(constant_model(mc.Gaussian(), bias=True), {"v": seen})
    flat = np.hstack([seen, np.where(np.arange(40) < 20, 1e9 / 3.0, np.nan)[:, None]])
    more = Held(
        np.append(held["v"].rows, 30),
        np.append(held["v"].columns, 3),
        np.append(held["v"].values, 7.0),
    )
    beside = mc.fit(constant_model(mc.Gaussian(), bias=True), {"v": flat})
    expected = RelativeDeviance()(fit, held)
    assert RelativeDeviance()(beside, {"v": more}) == pytest.approx(expected)
    alone = Held(np.array([30]), np.array([3]), np.array([7.0]))
    assert np.isnan(RelativeDeviance()(beside, {"v": alone}))


def test_a_label_that_was_never_seen_has_a_finite_score():
    y = np.zeros((30, 2))
    y[::3, 1] = 1.0
    seen = y.copy()
    seen[5, 0] = np.nan
    model = mc.Model(
        [mc.Block("v", mc.Bernoulli(), bias=True, effects_weight=0.1)], [mc.NuclearNorm(3.0)]
    )
    surprise = {"v": Held(np.array([5]), np.array([0]), np.array([1.0]))}
    assert RelativeDeviance()(mc.fit(model, {"v": seen}), surprise) == pytest.approx(1.0, abs=0.1)


def test_blocks_count_alike_in_a_mean_of_their_ratios(fit):
    held = {"x": held_of("x", 100), "k": held_of("k", 5), "c": NOTHING}
    each = [RelativeDeviance(name)(fit, held) for name in ("x", "k")]
    assert RelativeDeviance()(fit, held) == pytest.approx(np.mean(each))
    assert each[0] < 0.9


def test_weights_of_entries_and_offsets_of_the_data():
    """Known offsets stay in the constant, weights count in it and not in the score."""
    rng = np.random.default_rng(0)
    days = rng.integers(1, 30, (50, 1)) * 1.0
    visits = rng.poisson(0.4 * days, (50, 3)) * 1.0
    seen, held = held_and_seen(visits)
    weights = rng.uniform(0.1, 5.0, visits.shape)
    model = constant_model(mc.Poisson(), bias=True, effects_weight=0.1)
    plain = mc.fit(model, {"v": mc.Observations(seen, exposure=days)})
    assert RelativeDeviance()(plain, held) == pytest.approx(1.0, abs=1e-4)
    weighted = mc.fit(model, {"v": mc.Observations(seen, weights=weights, exposure=days)})
    h = held["v"]
    weight = np.where(np.isnan(seen), 0.0, weights)
    rate = np.nansum(weight * np.nan_to_num(seen), axis=0) / np.sum(weight * days, axis=0)
    mean, y = (rate * days)[h.rows, h.columns], h.values
    np.testing.assert_allclose(weighted.predict("v")[h.rows, h.columns], mean, rtol=1e-2)
    assert RelativeDeviance()(weighted, held) == pytest.approx(1.0, abs=1e-4)
    light = attrs.evolve(model, terms=[mc.NuclearNorm(30.0)])
    fitted = mc.fit(light, {"v": mc.Observations(seen, weights=weights, exposure=days)})
    ours = fitted.predict("v")[h.rows, h.columns]
    deviances = [
        np.sum(each - y - y * np.log(each / np.where(y == 0.0, 1.0, y))) for each in (ours, mean)
    ]
    assert RelativeDeviance()(fitted, held) == pytest.approx(deviances[0] / deviances[1], rel=1e-2)


@pytest.mark.parametrize(
    ("likelihood", "named"),
    [
        (mc.Equality(), r"'v' has Equality, whose loss is 0 or infinite; take RelativeError"),
        (
            mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli()),
            "'v' has RiskMixture, whose entries without a label carry loss too; take HeldOutRisk",
        ),
    ],
)
def test_losses_without_a_deviance_are_refused(likelihood, named):
    with pytest.raises(mc.ModelError, match=named):
        RelativeDeviance().check(constant_model(likelihood))


def test_a_deviance_needs_to_know_what_was_fitted():
    with pytest.raises(mc.ModelError, match="path gave an int, which does not have"):
        RelativeDeviance()(3, HELD)


def test_log_losses_refuse_what_has_no_distribution():
    with pytest.raises(mc.ModelError, match="'v' has Hinge, a loss without a distribution; take"):
        LogLoss("v").check(constant_model(mc.Hinge()))


@pytest.mark.filterwarnings("ignore:the lowest mean score is at")
def test_several_criteria_are_judged_and_the_first_decides():
    several = [RelativeDeviance(), LabelError("y"), OneMinusAUC("y")]
    options = {"weights": [9.0, 3.0], "cv": 2, "tol": 1e-2}
    found = mc.cross_validate(MODEL, DATA, criterion=several, **options)
    names = ["RelativeDeviance(block=None)", "LabelError(block='y')", "OneMinusAUC(block='y')"]
    assert list(found.all_scores) == names
    assert found.criterion == names[0]
    for name, criterion in zip(names, several, strict=True):
        alone = mc.cross_validate(MODEL, DATA, criterion=criterion, **options)
        np.testing.assert_array_equal(found.all_scores[name], alone.scores)
        np.testing.assert_array_equal(found.means_of(name), alone.means)
    np.testing.assert_array_equal(found.scores, found.all_scores[names[0]])
    assert found.best[1] == int(np.argmin(found.means[0]))
    printed = repr(found).splitlines()
    assert any(line.startswith(f"mean {names[0]} ± standard error over folds") for line in printed)
    there = found.means_of(names[1])[found.best]
    assert any(f"the other criteria there: {names[1]} {there:.4g}" in line for line in printed)


@pytest.mark.parametrize(
    ("criterion", "named"),
    [
        ([], r"criterion=\[\] was given; one criterion at least is needed"),
        ([HeldOutLoss(), HeldOutLoss()], r"two that are called HeldOutLoss\(block=None\); give a"),
        ({3: HeldOutLoss()}, "criterion has the name 3; a string is needed"),
        ({"mean": HeldOutLoss()}, "the name 'mean', which is a column of the table"),
        ([HeldOutLoss], "criterion is the class HeldOutLoss"),
        ([HeldOutLoss(), "rmse"], "criterion='?rmse'? was given; a function"),
    ],
)
def test_lists_that_are_no_criteria_are_named(criterion, named):
    with pytest.raises(mc.ModelError, match=named):
        mc.cross_validate(MODEL, DATA, criterion=criterion, weights=[1.0], cv=2)


@pytest.mark.parametrize("standardize", [True, "robust", "ranks"])
def test_standardised_columns_are_judged_in_any_units(standardize):
    """Columns of other scales and offsets, standardised in the model, have the same score."""
    rng = np.random.default_rng(2)
    x = 3.0 * rng.standard_normal((40, 1)) * np.arange(1.0, 7.0) + rng.standard_normal((40, 6))
    scale, offset = 10.0 ** np.array([-9.0, -3, 0, 3, 6, 9]), np.array([0.0, 1, -5, 1e6, 0, 1e12])
    scores = []
    for values in (x, scale * x + offset):
        seen, held = held_and_seen(values)
        block = mc.Block("v", mc.Gaussian(), bias=True, standardize=standardize)
        fit = mc.fit(mc.Model([block], [mc.NuclearNorm(3.0)]), {"v": seen})
        scores.append(RelativeDeviance()(fit, held))
    assert scores[0] < 0.9
    assert scores[1] == pytest.approx(scores[0], rel=1e-4)


def test_held_out_labels_of_a_risk_mixture_are_judged_by_the_loss_of_its_likelihood():
    """However much of PU and NU it has: only so are mixtures compared by one measure."""
    y = np.where(np.random.default_rng(0).random((9, 6)) < 0.5, 1.0, 0.0)
    risk = mc.RiskMixture(pn=0.2, pu=0.5, nu=0.3, missing_rate=0.4, likelihood=mc.Bernoulli())
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(4.0)])
    held = Held(np.array([0, 3]), np.array([1, 2]), y[[0, 3], [1, 2]])
    shown = y.copy()
    shown[held.rows, held.columns] = np.nan
    fit = mc.fit(model, {"y": shown})
    p = fit.predict("y", held.rows, held.columns)
    expected = -np.mean(np.log(np.where(held.values == 1.0, p, 1.0 - p)))
    assert HeldOutLoss()(fit, {"y": held}) == pytest.approx(expected)


@pytest.mark.parametrize("criterion", [HeldOutLoss(), LabelError("y")])
def test_labels_of_one_kind_cannot_score_a_risk_mixture(criterion):
    y = np.where(np.random.default_rng(0).random((9, 6)) < 0.5, 1.0, np.nan)
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.4, likelihood=mc.Bernoulli())
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(4.0)])
    with pytest.raises(mc.ModelError, match=r"block 'y': all of its labels are 1.*of both kinds"):
        mc.cross_validate(model, {"y": y}, criterion=criterion, weights=[9.0, 8.0], cv=2)
