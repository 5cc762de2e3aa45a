"""The risk of a held-out part with its unlabeled entries."""

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.model import binding
from mcframe.selection import (
    EntryFolds,
    Grid,
    Held,
    HeldOutLoss,
    HeldOutRisk,
    RowFolds,
    TimeFolds,
    folds_of,
)

SQUARED, LOGISTIC = mc.Gaussian(), mc.Bernoulli()


def likes(seed=0, shape=(30, 12), recorded=0.5):
    """The complete labels, and those that are recorded."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    true = rng.random(shape) < 1.0 / (1.0 + np.exp(-z))
    theta = recorded if np.ndim(recorded) else np.full(shape, recorded)
    return true, np.where(true & (rng.random(shape) < theta), 1.0, np.nan)


def by_definition(risk, fit, labels, held):
    """The criterion by the losses of all cells."""
    z, known = fit.natural("y"), ~np.isnan(labels)
    share = held.values.size / np.count_nonzero(known)
    unlabeled = risk.value(z[~known], np.full(np.count_nonzero(~known), np.nan))
    at = z[held.rows, held.columns]
    total = np.sum(risk.value(at, held.observations)) + share * np.sum(unlabeled)
    return total / (held.values.size + share * unlabeled.size)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC], ids=repr)
@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("unwritten", [False, True])
def test_it_is_what_it_says(loss, effects, unwritten, monkeypatch):
    if unwritten:
        monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 0)
    theta = np.random.default_rng(1).uniform(0.2, 0.9, (30, 12))
    _, labels = likes(recorded=theta)
    risk = mc.RiskMixture(pu=0.8, pn=0.2, propensities=True, likelihood=loss)
    block = mc.Block("y", risk, bias=effects, row_effects=effects)
    if effects:
        block = attrs.evolve(block, effects_weight=20.0)
    model = mc.Model([block], [mc.NuclearNorm(30.0)])
    data = {"y": mc.Observations(labels, propensity=theta)}
    for fold in folds_of(EntryFolds(3), mc.Problem.bind(model, data), data):
        fit = mc.fit(fold.fitted_model(model), fold.data)
        assert fit.likelihood("y").missing_rate == pytest.approx(1.0 - fold.kept["y"])
        held = fold.held["y"]
        expected = by_definition(risk, fit, labels, held)
        for criterion in (HeldOutRisk("y"), HeldOutRisk("y", risk)):
            assert criterion(fit, fold.held) == pytest.approx(expected, rel=1e-9)


def test_an_estimated_rate_is_that_of_all_labels():
    rng = np.random.default_rng(0)
    true, _ = likes()
    labels = np.where(rng.random(true.shape) < 0.4, true * 1.0, np.nan)
    risk = mc.RiskMixture.pnu(0.5, likelihood=SQUARED)
    model, data = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(3.0)]), {"y": labels}
    whole = mc.fit(model, data).likelihood("y")
    for fold in folds_of(EntryFolds(3), mc.Problem.bind(model, data), data):
        fit = mc.fit(fold.fitted_model(model), fold.data)
        expected = by_definition(whole, fit, labels, fold.held["y"])
        assert HeldOutRisk("y")(fit, fold.held) == pytest.approx(expected, rel=1e-9)


def test_its_expectation_is_the_loss_of_the_complete_labels():
    """Over labels and folds, where exposure differs by column; with one rate it is not."""
    theta = np.tile(np.where(np.arange(8) < 4, 0.9, 0.4), (40, 1))
    risk = mc.RiskMixture(pu=1.0, propensities=True, likelihood=SQUARED)
    one_rate = mc.RiskMixture(pu=1.0, missing_rate=0.4, likelihood=SQUARED)
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(4.0)])
    differences = {"propensities": [], "one rate": []}
    for seed in range(120):
        true, labels = likes(seed, theta.shape, theta)
        assert (labels == 1).sum(axis=0).min() > 1
        data = {"y": mc.Observations(labels, propensity=theta)}
        found, missed, wanted = [], [], []
        for fold in folds_of(EntryFolds(2), mc.Problem.bind(model, data), data, seed):
            fit, held = mc.fit(fold.fitted_model(model), fold.data, tol=1e-3), fold.held["y"]
            losses = SQUARED.value(fit.natural("y"), true * 1.0)
            share = held.values.size / np.count_nonzero(labels == 1)
            total = np.sum(losses[held.rows, held.columns])
            total += share * np.sum(losses[np.isnan(labels)])
            wanted.append(total / (share * labels.size))
            found.append(HeldOutRisk("y")(fit, fold.held))
            missed.append(HeldOutRisk("y", one_rate)(fit, fold.held))
        differences["propensities"].append(np.mean(found) - np.mean(wanted))
        differences["one rate"].append(np.mean(missed) - np.mean(wanted))
    mean, error = (
        {name: function(values) for name, values in differences.items()}
        for function in (np.mean, lambda values: np.std(values) / np.sqrt(len(values)))
    )
    assert abs(mean["propensities"]) < 3.0 * error["propensities"]
    assert error["propensities"] < 0.01
    assert abs(mean["one rate"]) > 6.0 * error["one rate"]


def test_it_chooses_a_weight_from_positive_labels_alone():
    """The best of the grid for the complete labels of the held-out part, which it does not see."""
    true, labels = likes(shape=(120, 40))
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=SQUARED)
    model, data = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(1.0)]), {"y": labels}

    def complete(fit, held):
        losses, at = SQUARED.value(fit.natural("y"), true * 1.0), held["y"]
        share = at.values.size / np.count_nonzero(labels == 1)
        total = np.sum(losses[at.rows, at.columns]) + share * np.sum(losses[np.isnan(labels)])
        return total / (share * labels.size)

    grid = Grid([40.0, 25.0, 16.0, 10.0, 6.0, 4.0], patience=None)
    criteria = {"risk": HeldOutRisk("y"), "complete": complete}
    chosen = mc.cross_validate(model, data, criterion=criteria, weights=grid)
    means = {name: chosen.all_scores[name][0].mean(axis=1) for name in criteria}
    best = means["complete"][np.argmin(means["risk"])]
    assert best < 1.02 * means["complete"].min() < 0.8 * means["complete"][[0, -1]].min()
    np.testing.assert_allclose(means["risk"], means["complete"], rtol=0.1)
    with pytest.raises(mc.ModelError, match=r"take HeldOutRisk\('y'\), which counts unlabeled"):
        mc.cross_validate(model, data, criterion=HeldOutLoss("y"), weights=[9.0, 8.0])


TIMES = {"y": np.random.default_rng(2).integers(0, 3, (30, 12))}


@pytest.mark.parametrize("cv", [RowFolds(3, hidden=0.5), TimeFolds(TIMES, 2)], ids=repr)
def test_rows_and_times_that_are_held_out(cv):
    _, labels = likes()
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=SQUARED)
    model, data = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(2.0)]), {"y": labels}
    known = ~np.isnan(labels)
    for fold in folds_of(cv, mc.Problem.bind(model, data), data):
        fit = fold.answer(mc.fit(fold.fitted_model(model), fold.data))
        held = fold.held["y"]
        rows = np.unique(np.append(held.rows, held.hidden.rows))
        chosen = np.isin(np.arange(30), rows) if cv.new_rows else np.ones(30, dtype=bool)
        losses = risk.value(fit.natural("y"), np.full(labels.shape, np.nan))
        share = held.values.size / np.count_nonzero(known[chosen])
        total = np.sum(losses[chosen][~known[chosen]]) * share
        total += np.sum(risk.value(fit.natural("y")[held.rows, held.columns], held.values))
        expected = total / (share * np.count_nonzero(chosen) * 12)
        assert HeldOutRisk("y", risk)(fit, fold.held) == pytest.approx(expected, rel=1e-9)


def test_a_fold_without_a_label_of_the_block_has_no_score():
    _, labels = likes()
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=SQUARED)
    fit = mc.fit(mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(2.0)]), {"y": labels})
    nothing = np.zeros(0, dtype=int)
    assert np.isnan(HeldOutRisk("y")(fit, {"y": Held(nothing, nothing, np.zeros(0))}))


def model_of(likelihood):
    return mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(2.0)])


RISK = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=SQUARED)


@pytest.mark.parametrize(
    ("criterion", "model", "named"),
    [
        (HeldOutRisk("y"), model_of(LOGISTIC), "no label carry|without a label carry no loss"),
        (HeldOutRisk(), model_of(RISK), "no block 'labels'"),
        (
            HeldOutRisk("y", RISK),
            model_of(LOGISTIC),
            r"has the likelihood Bernoulli.*, and the risk has Gaussian",
        ),
        (
            HeldOutRisk("y"),
            model_of(
                mc.RiskMixture.punu(0.3, 0.5, likelihood=mc.Bernoulli("probit"), nonconvex=True)
            ),
            "that is not convex",
        ),
    ],
    ids=["no risk", "no block", "other likelihood", "not convex"],
)
def test_what_cannot_be_scored_is_refused(criterion, model, named):
    _, labels = likes()
    with pytest.raises(mc.ModelError, match=named):
        mc.cross_validate(model, {"y": np.nan_to_num(labels)}, criterion=criterion, weights=[1.0])


def test_wrong_risks_are_named():
    for wrong in (LOGISTIC, "pu", mc.RiskMixture(pn=1.0, likelihood=LOGISTIC)):
        with pytest.raises(
            mc.ModelError, match=r"HeldOutRisk: risk=.* was given; a convex mixture"
        ):
            HeldOutRisk("y", wrong)
    _, labels = likes()
    word = mc.RiskMixture(pu=1.0, propensities=True, likelihood=SQUARED)
    options = {"weights": [9.0], "cv": 2}
    with pytest.raises(mc.ModelError, match="the risk has propensities, and the data"):
        mc.cross_validate(
            model_of(RISK), {"y": labels}, criterion=HeldOutRisk("y", word), **options
        )
    shifted = {"y": mc.Observations(labels, offset=0.1)}
    with pytest.raises(mc.ModelError, match="block 'y' has an offset"):
        mc.cross_validate(model_of(RISK), shifted, criterion=HeldOutRisk("y"), **options)
