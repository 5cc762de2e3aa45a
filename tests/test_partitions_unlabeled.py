"""Unlabeled cells of rows in partitions, against the fit of the table in one piece."""

import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.backends.alternating import Alternating
from mcframe.backends.certificate import Point, certify
from mcframe.compile import compile_problem, factor_rows_near
from mcframe.model import Problem, binding
from mcframe.numerics.operators import LowRank
from mcframe.partitions.binding_rounds import bind_partitions
from mcframe.partitions.executor import OneByOne
from mcframe.partitions.part import RowSharded, Source
from mcframe.partitions.partitioned_data import RowsInMemory

SQUARED = mc.Gaussian()
RISKS = {
    "pu": mc.RiskMixture(pu=1.0, missing_rate=0.8, likelihood=SQUARED),
    "pnu": mc.RiskMixture.pnu(0.6, likelihood=mc.Gaussian(variance=0.3)),
    "nu": mc.RiskMixture(pn=0.1, pu=0.2, nu=0.7, missing_rate=0.6, likelihood=SQUARED),
    "nearly all missing": mc.RiskMixture(pu=1.0, missing_rate=1 - 1e-6, likelihood=SQUARED),
}


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """In one piece no cell is written out either, but for those tests that say so."""
    monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 0)


def labels(shape=(60, 24), share=0.2, seed=0):
    """Sparse labels of rank 3; each row and column has one, each kind is there."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    seen = rng.random(shape) < share
    seen[np.arange(shape[0]), np.arange(shape[0]) % shape[1]] = True
    rows, columns = np.nonzero(seen)
    return sp.csr_array(((z[rows, columns] > 0) * 1.0, (rows, columns)), shape=shape)


BESIDE = {
    "alone": None,
    "beside reals": mc.Block("x", mc.Gaussian(), bias=True),
    "beside counts": mc.Block("x", mc.Poisson()),
}


def model_and_data(risk="pu", beside="alone", mean=False):
    block = mc.Block("y", RISKS[risk], reduce="mean" if mean else "sum")
    blocks, data = [block], {"y": labels()}
    if BESIDE[beside] is not None:
        seen = labels((60, 9), 0.4, seed=5)
        seen.data += 1.0
        blocks.insert(0, BESIDE[beside])
        data["x"] = seen
    weight = 3.0 / 1440 if mean else 3.0
    return mc.Model(blocks, [mc.NuclearNorm(weight)]), data


@pytest.mark.parametrize(
    "written",
    [False, pytest.param(True, marks=pytest.mark.slow(seconds=4))],
    ids=["unwritten", "written out"],
)
@pytest.mark.parametrize(
    ("risk", "beside", "mean"),
    [
        ("pu", "alone", False),
        ("pnu", "alone", True),
        ("nu", "beside reals", False),
        ("pu", "beside counts", False),
        ("nearly all missing", "alone", False),
    ],
)
@pytest.mark.some(0.8, risk=[0, 1, 2, 4])
def test_a_fit_of_partitions_is_the_fit_of_the_table(risk, beside, mean, written, monkeypatch):
    if written:
        monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 10**9)
    model, data = model_and_data(risk, beside, mean)
    whole = mc.fit(model, data, tol=1e-7, backend="alternating")
    assert whole.problem.tables["y"].has_implicit_cells != written
    for n_partitions in (1, 4):
        fit = mc.fit(model, RowsInMemory(data, n_partitions), tol=1e-7)
        assert fit.status == whole.status == "certified"
        size = abs(whole.objective)
        assert fit.objective == pytest.approx(whole.objective, abs=2e-7 * size)
        assert fit.bound <= whole.objective + 1e-12 * size
        np.testing.assert_allclose(
            fit.problem.objective(fit.latent, fit.effects), fit.objective, rtol=1e-12
        )
        own, theirs = fit.problem.likelihoods["y"], whole.problem.likelihoods["y"]
        assert own == theirs


def test_a_fit_of_partitions_bounds_the_exact_optimum():
    model = mc.Model([mc.Block("y", RISKS["pnu"])], [mc.NuclearNorm(1.0)])
    y = labels((12, 6), 0.4)
    exact = mc.fit(model, {"y": y}, backend="reference")
    fit = mc.fit(model, RowsInMemory({"y": y}, 3), tol=1e-6)
    assert fit.bound <= exact.objective
    assert fit.objective == pytest.approx(exact.objective, rel=2e-6)


@pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning")
@pytest.mark.parametrize("beside", ["alone", "beside reals"])
def test_partitionings_agree_to_rounding(beside):
    model, data = model_and_data("pnu", beside)
    one, *others = [mc.fit(model, RowsInMemory(data, p), tol=1e-6, max_iter=8) for p in (1, 2, 7)]
    for fit in others:
        assert fit.objective == pytest.approx(one.objective, rel=1e-10)
        assert fit.bound == pytest.approx(one.bound, rel=1e-10)
        size = np.abs(one.latent.dense()).max()
        np.testing.assert_allclose(fit.latent.dense(), one.latent.dense(), atol=1e-8 * size)


@pytest.fixture(params=[("pu", "alone"), ("nu", "beside reals"), ("pu", "beside counts")])
def programs(request):
    """The program of the table in one piece, and of rows in three partitions, at one point."""
    model, data = model_and_data(*request.param)
    whole = compile_problem(Problem.bind(model, data)).with_storage_for(
        in_factors=True, dense=False
    )
    parts = bind_partitions(model, OneByOne(Source(RowsInMemory(data, 3), model)))[1]
    rng = np.random.default_rng(2)
    left, right = (rng.standard_normal((n, 3)) for n in whole.shape)
    return whole, parts, LowRank(left, right)


def test_values_gradients_and_curvatures_are_those_of_the_table(programs):
    whole, parts, latent = programs
    rng = np.random.default_rng(3)
    moved = LowRank(*(0.1 * rng.standard_normal((n, 2)) for n in whole.shape))
    there = LowRank(np.hstack([latent.left, moved.left]), np.hstack([latent.right, moved.right]))
    found = []
    for program in (whole, parts):
        at = program.evaluate(latent)
        after = program.evaluate(there, fixed=at.effects)
        found.append((at, at.curvature_along(after, moved)))
    (at, curved), (of_parts, curved_parts) = found
    assert of_parts.losses == pytest.approx(at.losses, rel=1e-12)
    assert curved_parts == pytest.approx(curved, rel=1e-9)
    gradient = at.gradient.dense()
    np.testing.assert_allclose(
        of_parts.gradient.dense(), gradient, atol=1e-12 * np.abs(gradient).max()
    )
    np.testing.assert_allclose(
        of_parts.gradient.T @ latent.left, gradient.T @ latent.left, rtol=1e-9, atol=1e-9
    )
    block = rng.standard_normal((whole.shape[1], 4))
    np.testing.assert_allclose(
        of_parts.gradient.gram(block), gradient.T @ (gradient @ block), rtol=1e-9
    )
    assert 0.1 <= of_parts.gradient.rounding / at.gradient.rounding <= 10.0
    np.testing.assert_allclose(
        of_parts.column_gradient(latent.left, slice(None)),
        gradient.T @ latent.left,
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("by_rows", [True, False])
def test_lines_are_those_of_the_table(programs, by_rows):
    whole, parts, latent = programs
    own, other = (latent.left, latent.right) if by_rows else (latent.right, latent.left)
    rng, found = np.random.default_rng(4), []
    along = [rng.standard_normal((n, 2)) for n in whole.shape]
    far = own + 30.0 * rng.standard_normal(own.shape)  # steps that are too long for some rows
    for program in (whole, parts):
        lines = factor_rows_near(program, program.evaluate(latent))
        solved = lines.ridge_solutions(other, 3.0, by_rows)
        descended = lines.descend(own, far, other, 3.0, by_rows)
        found.append((solved, descended, lines.along(*along)))
    for one, many in zip(*found, strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-8, atol=1e-10)
    assert np.any(found[0][1] != far), "all steps are short enough"


@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_certificates_are_those_of_the_table(programs, tol):
    whole, parts, _ = programs
    state = Alternating().init(whole, None, np.random.default_rng(0))
    for _ in range(2):  # at the optimum gaps are what norms are known to, not what they measure
        Alternating().step(whole, state)
    latent = LowRank(state.left, state.right)
    one, many = (certify(program, Point(latent), tol) for program in (whole, parts))
    assert many.objective == pytest.approx(one.objective, rel=1e-12)
    assert many.bound <= many.objective
    gap = one.objective - one.bound
    assert many.objective - many.bound == pytest.approx(gap, rel=0.2, abs=tol * abs(gap))


def test_the_missing_rate_is_estimated_from_all_rows():
    """Of the first partition alone it could not be: that has no label 0."""
    rng = np.random.default_rng(6)
    y = np.where(rng.random((60, 24)) < 0.3, rng.integers(0, 2, (60, 24)), np.nan)
    y[:20][y[:20] == 0.0] = np.nan
    model = mc.Model([mc.Block("y", RISKS["pnu"])], [mc.NuclearNorm(3.0)])
    fit = mc.fit(model, RowsInMemory({"y": y}, 3), tol=1e-3)
    rate = fit.problem.likelihoods["y"].missing_rate
    assert rate == pytest.approx(np.mean(np.isnan(y)), rel=1e-12)


def test_a_rate_that_cannot_be_estimated_is_said_of_the_block():
    y = labels()
    y.data[:] = 1.0
    model = mc.Model([mc.Block("y", RISKS["pnu"])], [mc.NuclearNorm(3.0)])
    with pytest.raises(mc.DataError, match=r"block 'y': .*give missing_rate"):
        mc.fit(model, RowsInMemory({"y": y}, 3))


def test_labels_alone_are_their_likelihood():
    y = labels()
    risk, alone = (
        mc.Model([mc.Block("y", word, bias=True)], [mc.NuclearNorm(2.0)])
        for word in (mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli()), mc.Bernoulli())
    )
    fits = [mc.fit(model, RowsInMemory({"y": y}, 3), tol=1e-5) for model in (risk, alone)]
    assert fits[0].objective == fits[1].objective


def test_rows_without_a_label_are_learnt_from_their_unlabeled_cells():
    positive = labels().toarray() == 1.0
    positive[7], positive[:, 3] = False, False
    y = np.where(positive, 1.0, np.nan)
    model = mc.Model([mc.Block("y", RISKS["pu"])], [mc.NuclearNorm(1.0)])
    found = []
    for data in ({"y": y}, RowsInMemory({"y": y}, 4)):
        with pytest.warns(mc.UnobservedWarning, match="unlabeled entries alone") as warned:
            fit = mc.fit(model, data, tol=1e-6, backend="alternating")
        found.append(([str(each.message) for each in warned], fit.predict("y")))
    assert found[1][0] == found[0][0]
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-3)


@pytest.mark.parametrize("beside", [{"weights": 2.0}, {"offset": 1.0}])
def test_weights_and_offsets_are_refused_with_the_partition(beside):
    model, data = model_and_data()
    given = {"y": mc.Observations(data["y"].toarray(), **beside)}
    with pytest.raises(mc.DataError, match=r"partition 0 .*block 'y': .*leave these out"):
        mc.fit(model, RowsInMemory(given, 3))


def test_classes_that_all_observations_of_a_column_pull_one_way_have_a_bound():
    """Gradients there are next to nothing, and centred leave their domain: they are moved back."""
    classes = np.array(
        [[2.0, 0.0, 1.0, 1.0], [2.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 0.0], [1.0, 1.0, 0.0, 2.0]]
    )
    weights = np.array(
        [
            [7e-5, 6e-4, 7e-6, 1e-5],
            [1e-4, 5.0, 30.0, 1.5],
            [2.0, 3e5, 2e-6, 9e3],
            [7e3, 10.0, 2.0, 9e3],
        ]
    )
    labels_of_x = np.full((4, 4), np.nan)
    labels_of_x[0, 0] = 0.0
    data = {"x": labels_of_x, "y": mc.Observations(classes, weights=weights)}
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.6, likelihood=SQUARED)
    blocks = [
        mc.Block("x", risk, weight=6.2),
        mc.Block("y", mc.Multinomial(3), bias=True, reduce="mean"),
    ]
    model = mc.Model(blocks, [mc.NuclearNorm(0.03)])
    with pytest.warns(mc.UnobservedWarning):
        fit = mc.fit(model, RowsInMemory(data, 2), tol=1e-6)
    assert fit.status == "certified"


@pytest.mark.parametrize("n_partitions", [0, 1, 4], ids="{} partitions".format)
@pytest.mark.some(0.6, n_partitions=[2])
def test_a_tolerance_below_what_norms_are_told_to_ends_and_says_so(n_partitions):
    """An objective small beside its main regularizer: of a gap of 1e-10 norms would decide."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40)) > 1.0
    y = np.where(rng.random(truth.shape) < 0.3, 1.0 * truth, np.nan)
    risk = mc.RiskMixture.pnu(0.5, likelihood=SQUARED)
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(4.0)])
    data = RowsInMemory({"y": y}, n_partitions) if n_partitions else {"y": y}
    with pytest.warns(mc.NotCertifiedWarning, match="error of the norms in the bound"):
        fit = mc.fit(model, data, backend="alternating", tol=1e-10, max_iter=400)
    assert fit.status == "limited_by_rounding"
    assert fit.gap < 1e-7


def test_rows_are_given_as_they_arrive_where_they_travel():
    """Row by row, however the factor lies: BLAS adds up in another order otherwise."""
    factor = np.asfortranarray(np.random.default_rng(0).standard_normal((60, 5)))
    given = RowSharded(factor).of(10, 30)
    assert given.flags.c_contiguous
    np.testing.assert_array_equal(given, factor[10:30])


def test_rows_without_a_label_have_a_note():
    """Without a warning, since many tables of labels have such rows."""
    labels = np.array([[1.0, np.nan], [np.nan, np.nan], [np.nan, 1.0], [np.nan, np.nan]])
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.6, likelihood=mc.Gaussian())
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(0.1)])
    for data in ({"y": labels}, RowsInMemory({"y": labels}, 2)):
        (note,) = mc.fit(model, data, tol=1e-3).notes
        assert note.startswith("row 1 and 1 more row without one observed entry")
        assert note.endswith("which of its columns come first may be rounding")
