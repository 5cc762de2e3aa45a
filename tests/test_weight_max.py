"""The verb weight_max: beside fits at weights around it, on every kind of model."""

import attrs
import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.model import binding

RNG = np.random.default_rng(0)
N_ITEMS, N_COLUMNS = 24, 9
Z = RNG.standard_normal((N_ITEMS, 2)) @ RNG.standard_normal((2, N_COLUMNS))


def with_holes(full):
    return np.where(np.random.default_rng(1).random(full.shape) < 0.3, np.nan, full)


X = with_holes(Z + 0.3 * RNG.standard_normal(Z.shape))
Y = with_holes((Z[:, :4] + RNG.standard_normal((N_ITEMS, 4)) > 0) * 1.0)
COUNTS = with_holes(RNG.poisson(np.exp(np.clip(Z[:, :5], -3, 2))) * 1.0)
MEAN = np.full(N_ITEMS, 1 / N_ITEMS)
NORM, ONES = mc.NuclearNorm(1.0), mc.OnesColumn()


def gaussian(**options):
    return mc.Block("x", mc.Gaussian(), **options)


def declared(blocks, terms, **data):
    """A model whose first term is the one in question, and its data."""
    return mc.Model(blocks, terms), data


def rank_at(case, weight, tol=1e-6):
    """The number of singular values that count, of a fit at a weight of the first term."""
    model, data = case
    first, *others = model.terms
    model = attrs.evolve(model, terms=[attrs.evolve(first, weight=weight), *others])
    values = mc.fit(model, data, tol=tol).latent.singular_values()
    return int(np.count_nonzero(values > 1e-4 * np.max(values, initial=1.0)))


LABELS = mc.Block("y", mc.Bernoulli())
EXACT = {
    "gaussian": declared([gaussian()], [NORM], x=X),
    "a bias": declared([gaussian(bias=True)], [NORM], x=X + 3),
    "a ridge beside it": declared([gaussian()], [NORM, mc.Ridge(3.0)], x=X),
    "counts": declared([mc.Block("c", mc.Poisson(), bias=True)], [NORM], c=COUNTS),
    "two blocks": declared([gaussian(), LABELS], [NORM], x=X, y=Y),
    "a box around 0": declared([gaussian()], [NORM, mc.Box(-1, 1)], x=X),
    "a smooth calibration": declared(
        [gaussian()], [NORM, mc.Calibration("x", MEAN, np.ones(N_COLUMNS), weight=2.0)], x=X
    ),
    "quantiles without a tie": declared([mc.Block("x", mc.Quantile(0.7))], [NORM], x=X),
    "hinge": declared([mc.Block("y", mc.Hinge())], [NORM], y=Y),
    "effects with a weight, and ones": declared(
        [gaussian(bias=True, effects_weight=2.0)], [NORM, ONES], x=X + 3
    ),
    "ones": declared([gaussian(), LABELS], [NORM, ONES], x=X + 3, y=Y),
    "ones, far off": declared([gaussian()], [NORM, ONES], x=X + 50),
    "ones and a bias": declared([gaussian(bias=True)], [NORM, ONES], x=X + 3),
    "ones and a ridge": declared([gaussian()], [NORM, ONES, mc.Ridge(1.0)], x=X + 3),
    "ones and counts": declared([mc.Block("c", mc.Poisson())], [NORM, ONES], c=COUNTS),
}


@pytest.mark.parametrize("name", EXACT)
def test_where_it_is_exact_the_answer_is_trivial_from_there_on(name):
    case = EXACT[name]
    trivial = int(any(isinstance(term, mc.OnesColumn) for term in case[0].terms))
    weight = mc.weight_max(*case)
    assert rank_at(case, 1.05 * weight) == trivial
    assert rank_at(case, 0.95 * weight) > trivial


ROUNDED = np.round(X)
ESTIMATED = {
    "quantiles with ties": declared([mc.Block("x", mc.Quantile(0.5))], [NORM], x=ROUNDED),
    "hinge, a bias": declared([mc.Block("y", mc.Hinge(), bias=True)], [NORM], y=Y),
    "quantiles, both effects": declared(
        [mc.Block("x", mc.Quantile(0.7), bias=True, row_effects=True)], [NORM], x=X + 3
    ),
    "ones and quantiles": declared([mc.Block("x", mc.Quantile(0.5))], [NORM, ONES], x=X + 3),
    "ones and a box": declared([gaussian()], [NORM, ONES, mc.Box(-1, 6)], x=X + 3),
    "a box that ends at 0": declared([gaussian()], [NORM, mc.Box(0.0, np.inf)], x=X),
    "a box without 0": declared([gaussian()], [NORM, mc.Box(0.1, np.inf)], x=X),
    "sums of 0": declared(
        [gaussian()], [NORM, mc.Calibration("x", MEAN, np.zeros(N_COLUMNS))], x=X
    ),
    "known sums": declared(
        [gaussian()], [NORM, mc.Calibration("x", MEAN, np.ones(N_COLUMNS))], x=X
    ),
    "a residual's norm": declared(
        [gaussian(), LABELS], [NORM, mc.ResidualNuclearNorm("x", 0.5)], x=X, y=Y
    ),
    "a ball": declared([gaussian()], [NORM, mc.NuclearBall(2.0)], x=X),
}


@pytest.mark.parametrize("name", ESTIMATED)
def test_an_estimate_is_close_to_where_fits_become_trivial(name):
    case = ESTIMATED[name]
    weight = mc.weight_max(*case)
    trivial = rank_at(case, 10.0 * weight)
    assert trivial <= 1
    assert rank_at(case, weight / 10.0) > trivial


def test_an_equality_beside_labels():
    """No Z of a low rank meets the equalities: what labels add to the answer is what vanishes."""
    blocks = [mc.Block("x", mc.Equality()), LABELS]
    model, data = declared(blocks, [NORM], x=Z, y=Y)
    path = mc.path(model, data, weights=mc.selection.Grid(count=3), tol=1e-5)
    sizes = [np.linalg.norm(fit.natural("y")) for fit in path]
    assert sizes[0] < 0.2 * sizes[-1]


def test_weights_whose_squares_are_infinite():
    """They scale the weight: its gradients are not taken for those of the multipliers."""
    case = declared([gaussian()], [NORM, mc.ResidualNuclearNorm("x", 1.0)], x=X)
    heavy = declared([gaussian(weight=1e200)], [NORM, mc.ResidualNuclearNorm("x", 1e200)], x=X)
    np.testing.assert_allclose(mc.weight_max(*heavy), 1e200 * mc.weight_max(*case), rtol=1e-6)


@pytest.mark.parametrize(
    ("terms", "term"),
    [
        ([mc.MaxNorm(1.0)], None),
        ([mc.MaxNorm(1.0), mc.Box(-1, 1)], None),
        ([mc.MaxNorm(1.0), mc.NuclearNorm(3.0)], mc.MaxNorm),
    ],
)
def test_max_norms(terms, term):
    case = declared([gaussian()], terms, x=X)
    weight = mc.weight_max(*case, term=term)
    assert rank_at(case, 1.1 * weight, tol=1e-4) == 0
    assert rank_at(case, 0.3 * weight, tol=1e-4) > 0


def test_a_max_norm_beside_the_norm_in_question_takes_up_its_share():
    alone = mc.weight_max(*declared([gaussian()], [NORM], x=X))
    beside = mc.weight_max(*declared([gaussian()], [NORM, mc.MaxNorm(5.0)], x=X), mc.NuclearNorm)
    assert 0.5 * alone < beside < alone


def test_a_max_norm_beside_ones():
    case = declared([gaussian()], [mc.MaxNorm(1.0), ONES], x=X + 3)
    weight = mc.weight_max(*case)
    assert rank_at(case, 3.0 * weight, tol=1e-4) == 1
    assert rank_at(case, 0.3 * weight, tol=1e-4) > 1


@pytest.mark.parametrize("loss", [mc.Gaussian(), mc.Poisson(), mc.Quantile(0.5)])
def test_a_ridge_alone_begins_where_little_is_left_of_z(loss):
    data = {"x": COUNTS if isinstance(loss, mc.Poisson) else X[:, :5]}
    model = mc.Model([mc.Block("x", loss)], [mc.Ridge(1.0)])
    path = mc.path(model, data, weights=mc.selection.Grid(count=3), tol=1e-4)
    free = mc.fit(attrs.evolve(model, terms=[mc.Ridge(path.weights[0] / 1e4)]), data, tol=1e-4)
    rows, columns = np.nonzero(~np.isnan(data["x"]))
    sizes = [np.linalg.norm(fit.natural("x", rows, columns)) for fit in (path[0], free)]
    assert sizes[0] < 0.05 * sizes[1]


def test_a_calibration_s_weight_begins_where_it_nearly_holds():
    term = mc.Calibration("x", MEAN, np.ones(N_COLUMNS), weight=1.0)
    model, data = declared([gaussian()], [mc.NuclearNorm(2.0), term], x=X)
    path = mc.path(model, data, weights=mc.selection.Grid(term=mc.Calibration, count=3), tol=1e-4)
    assert path[0].residual("x") < 0.05 * path[-1].residual("x")


def test_unlabeled_cells_that_are_not_written_out_count(monkeypatch):
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.8, likelihood=mc.Gaussian())
    labels = sp.csr_array(np.nan_to_num(Y[:, :3]))
    case = declared([mc.Block("y", risk)], [NORM], y=labels)
    written = mc.weight_max(*case)
    monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 0)
    assert mc.weight_max(*case) == pytest.approx(written, rel=1e-6)


def test_the_first_weight_of_paths_and_of_cross_validation(table, model):
    weight = mc.weight_max(model, table)
    assert mc.path(model, table, weights=mc.selection.Grid(count=2)).weights[0] == weight
    ones = attrs.evolve(model, terms=[NORM, ONES])
    path = mc.path(ones, table, weights=mc.selection.Grid(count=3, ratio=0.3), tol=1e-4)
    assert path.weights[0] == mc.weight_max(ones, table)
    values = path[0].latent.singular_values()
    assert np.all(values[1:] < 1e-2 * values[0])


NOTHING = "has no influence: at Z = 0, or at the feasible point nearest to it"


@pytest.mark.parametrize(
    ("case", "term", "named"),
    [
        (declared([mc.Block("x", mc.Equality())], [NORM], x=X), None, NOTHING),
        (declared([mc.Block("x", mc.Equality(), bias=True)], [NORM], x=X), None, NOTHING),
        (declared([gaussian()], [NORM], x=np.zeros((4, 3))), None, NOTHING),
        (declared([gaussian()], [NORM, ONES], x=np.ones((4, 3))), None, NOTHING),
        (
            declared([gaussian()], [NORM, mc.ResidualNuclearNorm("x", 1.0)], x=X),
            mc.ResidualNuclearNorm,
            "no weight of ResidualNuclearNorm is known .* give weights=",
        ),
        (
            declared([gaussian()], [mc.NuclearBall(1.0)], x=X),
            None,
            "the model has no term with a weight",
        ),
        (declared([gaussian()], [NORM], x=X), "NuclearNorm", "term='NuclearNorm' was given"),
        (declared([gaussian()], [NORM], x=X), np.ones(2), "term=array"),
    ],
)
def test_what_has_no_answer_is_said(case, term, named):
    with pytest.raises(mc.ModelError, match=named):
        mc.weight_max(*case, term=term)


def test_beside_a_ridge_an_equality_leaves_a_weight_some_influence():
    model, data = declared([mc.Block("x", mc.Equality())], [NORM, mc.Ridge(2.0)], x=X)
    path = mc.path(model, data, weights=mc.selection.Grid(count=3, ratio=0.01), tol=1e-5)
    answers = [fit.latent.dense() for fit in path]
    assert np.linalg.norm(answers[0] - answers[-1]) > 0.05 * np.linalg.norm(answers[0])


def test_a_loss_that_overflows_at_0_is_said():
    model = mc.Model([mc.Block("c", mc.Poisson())], [NORM])
    with pytest.raises(mc.ModelError, match="a loss overflows at Z = 0"):
        mc.weight_max(model, {"c": mc.Observations(COUNTS, offset=800.0)})
