"""Criteria of cross-validation: what they say of each likelihood, and what they refuse."""

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.selection import Held, HeldOutLoss, LabelError, RelativeError

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
        (RelativeError("k"), r"'k' holds classes \(Multinomial\).* take LabelError\('k'\)"),
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
        mc.cross_validate(MODEL, DATA, criterion=criterion, path=never, weights=[1.0], folds=2)
    if not isinstance(criterion, type):
        with pytest.raises(mc.ModelError, match=named):
            criterion(fit, HELD)


def test_a_block_that_was_not_held_out_is_said(fit):
    with pytest.raises(mc.ModelError, match="no block 'y'; the blocks are 'x'"):
        LabelError("y")(fit, {"x": HELD["x"]})


@pytest.mark.parametrize("word", [LabelError, RelativeError, HeldOutLoss])
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
        mc.cross_validate(MODEL, DATA, criterion=OnlyThreeBlocks(), weights=[1.0], folds=2)


@pytest.mark.parametrize("answer", [None, "low", np.ones(2), [1.0], 1j])
def test_what_a_criterion_gives_must_be_a_number(answer):
    def criterion(fit, held):
        return answer

    with pytest.raises(mc.ModelError, match=r"criterion criterion gave .* one number is needed"):
        mc.cross_validate(
            MODEL, DATA, criterion=criterion, path=lambda *_: [1], weights=[1.0], folds=2
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
