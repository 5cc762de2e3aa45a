"""Propensities of labels in the risk of positive and unlabeled entries."""

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.compile import compile_problem
from mcframe.contracts.arrays import EXPOSED, exposed, labels_of, propensities_of
from mcframe.model import binding
from mcframe.model.held_out import entries_as_data
from mcframe.numerics.operators import LowRank
from mcframe.partitions.partitioned_data import RowsInMemory

LOSSES = [mc.Bernoulli(), mc.Bernoulli(scale=0.5), mc.Gaussian(variance=0.25)]


def exposures(shape=(14, 9), spread=3.0, seed=0):
    """Positive labels, some of which are recorded, and their propensities."""
    rng = np.random.default_rng(seed)
    theta = 10.0 ** -(spread * rng.random(shape))
    labels = np.where(rng.random(shape) < 0.35, 1.0, np.nan)
    return labels, theta


def risk(likelihood=LOSSES[0], **options):
    return mc.RiskMixture(**{"pu": 1.0, **options}, propensities=True, likelihood=likelihood)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("rate", [None, 0.3])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_its_expectation_is_the_loss_of_the_label(loss, rate, label):
    """Over whether the label is recorded, with its propensity: PU of a 1, NU of a 0."""
    theta, z = np.array([1.0, 0.7, 0.02, 1e-7]), np.array([0.3, -2.0, 1.0, 0.5])
    word = risk(loss, missing_rate=rate, pu=label, nu=1.0 - label)
    recorded = word.value(z, exposed(np.full(4, label), theta))
    unlabeled = word.value(z, np.full(4, np.nan))
    chance = theta * (1.0 - (rate or 0.0))
    expected = chance * recorded + (1.0 - chance) * unlabeled
    np.testing.assert_allclose(expected, loss.value(z, np.full(4, label)), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_propensity_for_all_is_a_missing_rate(loss):
    z, label = np.linspace(-3.0, 3.0, 7), np.array([1.0, 1.0, 0.0, 1.0, np.nan, 0.0, 1.0])
    for shares in ({"pu": 1.0}, {"pn": 0.3, "pu": 0.3, "nu": 0.4}):
        plain = mc.RiskMixture(**shares, missing_rate=0.85, likelihood=loss)
        word = mc.RiskMixture(**shares, propensities=True, likelihood=loss)
        given = exposed(label, np.full(7, 1.0 - 0.85))
        for one, other in zip(
            word.value_and_gradient(z, given), plain.value_and_gradient(z, label), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        both = attrs.evolve(word, missing_rate=0.5)
        half = exposed(label, np.full(7, 0.3))
        np.testing.assert_allclose(both.value(z, half), plain.value(z, label), rtol=1e-12)


def test_the_squared_loss_is_that_of_the_inverse_propensity():
    """``z^2 / 2 - z / theta`` and a constant: a label 1 stands for 1 / theta positives."""
    word, theta = risk(mc.Gaussian()), np.array([1.0, 0.1, 1e-6])
    y = exposed(np.ones(3), theta)
    _, gradient = word.value_and_gradient(np.zeros(3), y)
    np.testing.assert_allclose(gradient, -1.0 / theta, rtol=1e-12)
    assert word.quadratic
    assert word.bounded_below
    assert word.infimum == -np.inf


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("spread", [1.0, 4.0, 9.0])
@pytest.mark.some(0.2)
def test_a_fit_is_certified_and_the_reference_agrees(loss, spread):
    labels, theta = exposures(spread=spread)
    model = mc.Model([mc.Block("y", risk(loss))], [mc.NuclearBall(5.0)])
    data = {"y": mc.Observations(labels, propensity=theta)}
    fit = mc.fit(model, data, tol=1e-6)
    assert fit.status == "certified"
    assert mc.verify(model, data).agrees
    assert mc.fit(model, data, backend="splitting", tol=1e-6).objective == pytest.approx(
        fit.objective, rel=1e-5
    )


def planted(word, **changes):
    """A copy of a word that forgets something: its class has these members."""
    kind = attrs.frozen(kw_only=True)(type("Planted", (type(word),), changes))
    return kind(**attrs.asdict(word, recurse=False))


def forgets_in_values(self, z, y):
    """The gradient of all labels, the value of fully exposed ones."""
    gradient = self.entries(y).value_and_gradient(z)[1]
    return self.entries(labels_of(y)).value_and_gradient(z)[0], gradient


def forgets_in_conjugate(self, gradient, y):
    """The conjugate of fully exposed labels."""
    return self.entries(labels_of(y)).conjugate(gradient)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=repr)
@pytest.mark.parametrize(
    ("member", "function", "law"),
    [
        ("value_and_gradient", forgets_in_values, "gradient"),
        ("conjugate", forgets_in_conjugate, "conjugate|Fenchel"),
        ("invalid", lambda self, y: mc.RiskMixture.invalid(self, labels_of(y)), "domain"),
    ],
    ids=["value", "conjugate", "domain"],
)
def test_a_planted_fault_is_caught(loss, member, function, law):
    valid, invalid = [(1.0, 0.3), (0.0, 0.01), np.nan, 1.0], [(1.0, 0.0), (1.0, 1.5)]
    word = risk(loss, missing_rate=0.5)
    mc.laws.check_likelihood(word, valid, invalid)
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_likelihood(planted(word, **{member: function}), valid, invalid)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_unlabeled_cells_stay_unwritten(loss, monkeypatch):
    labels, theta = exposures((60, 40), spread=1.0)
    model = mc.Model([mc.Block("y", risk(loss, pu=0.7, pn=0.3))], [mc.NuclearNorm(60.0)])
    data = {"y": mc.Observations(labels, propensity=theta)}
    written = mc.fit(model, data, tol=1e-7)
    monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 0)
    problem = mc.Problem.bind(model, data)
    assert problem.tables["y"].n_entries == np.count_nonzero(~np.isnan(labels))
    rng = np.random.default_rng(1)
    z = LowRank(rng.standard_normal((60, 2)), rng.standard_normal((40, 2)))
    whole = problem.written_out()
    assert problem.objective(z, {}) == pytest.approx(whole.objective(z, {}), rel=1e-12)
    program, dense = compile_problem(problem), compile_problem(whole)
    gradient = dense.evaluate(z).gradient.dense()
    np.testing.assert_allclose(
        program.evaluate(z).gradient @ np.eye(40), gradient, atol=1e-12 * np.abs(gradient).max()
    )
    fit = mc.fit(model, data, tol=1e-7)
    assert fit.backend == "alternating"
    assert fit.status == written.status == "certified"
    assert fit.objective == pytest.approx(written.objective, rel=1e-6)


def test_every_form_of_data_gives_the_same_fit():
    labels, theta = exposures()
    rows, columns = np.nonzero(~np.isnan(labels))
    model = mc.Model([mc.Block("y", risk())], [mc.NuclearBall(3.0)])
    at = (np.ones(rows.size), (rows, columns))
    names = [f"c{j}" for j in range(labels.shape[1])]
    triples = [
        mc.from_triples(row=rows, column=columns, value=value)
        for value in (np.ones(rows.size), theta[rows, columns])
    ]
    sparse = sp.coo_array((theta[rows, columns], (rows, columns)), shape=labels.shape)
    frame = pd.DataFrame(labels, columns=names)
    missing = np.where(np.isnan(labels), np.nan, theta)
    objectives = {
        "array": mc.Observations(labels, propensity=theta),
        "only at labels": mc.Observations(labels, propensity=missing),
        "sparse": mc.Observations(sp.coo_array(at, shape=labels.shape), propensity=sparse),
        "array and sparse": mc.Observations(labels, propensity=sparse),
        "frame": mc.Observations(frame, propensity=pd.DataFrame(theta, columns=names)),
        "polars": mc.Observations(pl.DataFrame(labels), propensity=pl.DataFrame(theta)),
        "triples": mc.Observations(triples[0], propensity=triples[1]),
    }
    fits = {name: mc.fit(model, {"y": given}).objective for name, given in objectives.items()}
    for name, objective in fits.items():
        assert objective == pytest.approx(fits["array"], rel=1e-6), name


def test_rows_selected_and_saved_keep_theirs(tmp_path):
    labels, theta = exposures()
    data = {"y": mc.Observations(labels, propensity=theta)}
    fit = mc.fit(mc.Model([mc.Block("y", risk())], [mc.NuclearBall(3.0)]), data)
    table = fit.problem.tables["y"].observed_entries()
    again = entries_as_data(table, 1)
    np.testing.assert_array_equal(
        again.propensity.toarray()[table.rows, table.columns], theta[table.rows, table.columns]
    )
    some = table.rows_at(np.array([3, 3, 0]))
    assert np.all(some.propensities == theta[np.array([3, 3, 0])[some.rows], some.columns])
    path = tmp_path / "fit.mcf"
    fit.save(path)
    loaded = mc.load(path)
    assert loaded.problem.objective(loaded.point.latent, {}) == fit.objective
    other = mc.Observations(labels, propensity=np.sqrt(theta))
    bound = mc.Problem.bind(fit.model, {"y": other})
    assert bound.digest_of_data != fit.problem.digest_of_data
    assert "propensities down to" in str(mc.explain(fit.model, data))


def test_limits_are_part_of_the_digest():
    """The same middles, other intervals."""
    model = mc.Model([mc.Block("x", mc.Censored(mc.Gaussian()))], [mc.NuclearNorm(1.0)])
    nothing = np.full((2, 2), np.nan)
    digests = {
        mc.Problem.bind(
            model, {"x": mc.Observations(nothing, lower=-end, upper=end)}
        ).digest_of_data
        for end in (1.0, 2.0)
    }
    assert len(digests) == 2


def test_new_rows_have_their_own():
    labels, theta = exposures((40, 9), spread=1.0)
    model = mc.Model([mc.Block("y", risk(mc.Gaussian()))], [mc.NuclearNorm(4.0)])
    fit = mc.fit(model, {"y": mc.Observations(labels, propensity=theta)}, tol=1e-8)
    new = {"y": mc.Observations(labels[:5], propensity=theta[:5])}
    near = fit.predict_rows("y", new)
    np.testing.assert_allclose(near, fit.predict("y")[:5], atol=1e-3)
    with pytest.raises(mc.DataError, match="the data have none"):
        fit.predict_rows("y", {"y": labels[:5]})


def test_folds_lower_all_propensities():
    labels, theta = exposures((200, 10), spread=1.0)
    word, kept = risk(mc.Gaussian()), []

    def criterion(fit, held):
        bound = fit.likelihood("y")
        kept.append(1.0 - bound.missing_rate)
        at = held["y"]
        assert at.observations.dtype == EXPOSED
        np.testing.assert_array_equal(propensities_of(at.observations), theta[at.rows, at.columns])
        return float(np.mean(fit.losses_at("y", at.rows, at.columns, at.observations)))

    model = mc.Model([mc.Block("y", word)], [mc.NuclearNorm(9.0)])
    data = {"y": mc.Observations(labels, propensity=theta)}
    mc.cross_validate(model, data, criterion=criterion, weights=[9.0, 8.0], cv=4)
    np.testing.assert_allclose(kept, 0.75, atol=0.01)


def test_rows_in_partitions_have_none():
    labels, theta = exposures()
    data = {"y": mc.Observations(labels, propensity=theta)}
    model = mc.Model([mc.Block("y", risk(mc.Gaussian()))], [mc.NuclearNorm(9.0)])
    with pytest.raises(mc.BackendError, match="takes propensities of labels, which partitions"):
        mc.fit(model, RowsInMemory(data, 3))


def test_propensities_undo_what_exposure_does():
    """Half of the columns are shown to few rows; with propensities their rates come out alike."""
    rng = np.random.default_rng(0)
    true = rng.random((3000, 12)) < 0.5
    theta = np.where(np.arange(12) < 6, 0.9, 0.1)[None]
    labels = np.where(true & (rng.random(true.shape) < theta), 1.0, np.nan)
    means = {}
    for name, word, given in (
        ("rate", mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Gaussian()), labels),
        ("propensities", risk(mc.Gaussian()), mc.Observations(labels, propensity=theta)),
    ):
        block = mc.Block("y", word, bias=True)
        fit = mc.fit(mc.Model([block], [mc.NuclearNorm(3000.0)]), {"y": given})
        means[name] = fit.natural("y").mean(axis=0)
    assert means["rate"][:6].min() > 4.0 * means["rate"][6:].max()
    np.testing.assert_allclose(means["propensities"], 0.5, atol=0.06)


ESTIMATES = {
    "array": lambda y: y,
    "frame": lambda y: pd.DataFrame(y, index=list("abcd"), columns=["u", "v", "w"]),
    "sparse": lambda y: sp.coo_array(np.nan_to_num(y)),
    "triples": lambda y: mc.from_triples(
        row=np.nonzero(y == 1)[0], column=np.nonzero(y == 1)[1], value=y[y == 1]
    ),
}


@pytest.mark.parametrize("form", ESTIMATES)
def test_estimates_have_the_form_of_the_labels(form):
    y = np.full((4, 3), np.nan)
    y[:, 0], y[:2, 1], y[0, 2] = 1.0, 1.0, 1.0
    given = ESTIMATES[form](y)
    found = mc.estimate_propensities(given, columns=0.5, rows=1.0, least=0.2)
    wanted = np.sqrt([1.0, 0.5, 0.25]) * np.array([[1.0], [2 / 3], [1 / 3], [1 / 3]])
    wanted = np.maximum(wanted, 0.2)
    at = np.nonzero(y == 1)
    if form == "triples":
        np.testing.assert_allclose(found.values, wanted[at])
    elif form == "sparse":
        assert found.nnz == 7
        np.testing.assert_allclose(found.toarray()[at], wanted[at])
    else:
        np.testing.assert_allclose(np.asarray(found), wanted)
    model = mc.Model([mc.Block("y", risk())], [mc.NuclearBall(3.0)])
    assert mc.fit(model, {"y": mc.Observations(given, propensity=found)}).status == "certified"


def test_estimates_are_never_0():
    y = np.full((4, 2), np.nan)
    y[:, 0] = 1.0
    assert np.all(mc.estimate_propensities(y, columns=2.0)[:, 1] == 1.0 / 16.0)
    assert np.all(mc.estimate_propensities(y, columns=1e6) >= 1e-140)
    assert np.all(mc.estimate_propensities(y, columns=0.0) == 1.0)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"columns": -1}, r"estimate_propensities: columns=-1 was given; a finite number of at"),
        ({"rows": np.nan}, "rows=nan was given"),
        ({"least": 1.5}, "least=1.5 was given; a number from 0 to 1"),
        ({"colums": 1}, "columns"),
    ],
)
def test_wrong_options_of_estimates(options, named):
    with pytest.raises((mc.ModelError, TypeError), match=named):
        mc.estimate_propensities(np.ones((2, 2)), **options)


def test_numbers_that_are_no_labels_have_no_estimates():
    with pytest.raises(mc.DataError, match="needs labels 0 or 1"):
        mc.estimate_propensities(np.full((2, 2), 3.0))


@pytest.mark.parametrize(
    ("theta", "named"),
    [
        (0.0, r"block 'y': propensity 0 in column \d, row \d and \d+ more; every one must be t"),
        (1.5, "propensity 1.5 in column"),
        (-0.5, "propensity -0.5 in column"),
        (np.nan, "propensity nan in column"),
        (1e-200, "the probability that a label of the entry is recorded, from 1e-140 to 1"),
        (np.ones(5), r"propensities of shape \(5,\) were given; numbers of shape \(14, 9\)"),
        ("often", "propensities 'often' were given"),
        (sp.coo_array((14, 9)), "propensity 0 in column"),
    ],
    ids=str,
)
def test_what_is_no_propensity_is_named(theta, named):
    labels, _ = exposures()
    model = mc.Model([mc.Block("y", risk())], [mc.NuclearBall(3.0)])
    with pytest.raises(mc.DataError, match=named):
        mc.fit(model, {"y": mc.Observations(labels, propensity=theta)})


def test_words_and_data_agree_on_propensities():
    labels, theta = exposures()
    ball = [mc.NuclearBall(3.0)]
    given = {"y": mc.Observations(labels, propensity=theta)}
    with pytest.raises(mc.DataError, match=r"the data have none; give mc\.Observations"):
        mc.fit(mc.Model([mc.Block("y", risk())], ball), {"y": labels})
    plain = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli())
    for word in (plain, mc.Bernoulli()):
        with pytest.raises(mc.DataError, match=r"which \w+ as declared does not take"):
            mc.fit(mc.Model([mc.Block("y", word)], ball), given)
    with pytest.raises(mc.ModelError, match="PN has no use for them"):
        mc.RiskMixture(pn=1.0, propensities=True, likelihood=mc.Bernoulli())
    with pytest.raises(mc.ModelError, match="bends the loss without limit"):
        risk(mc.Bernoulli("probit"), nonconvex=True)


def test_the_model_is_printed_with_them():
    text = str(mc.Model([mc.Block("y", risk())], [mc.NuclearBall(3.0)]))
    assert "(PU at θ_ij)[" in text
    assert "(PU at θ_ij and ρ = 0.5)[" in risk(missing_rate=0.5).formula("z", "y")
