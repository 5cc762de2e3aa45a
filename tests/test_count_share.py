"""Nuclear norms and balls weighted by how much of each row and column is observed."""

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.compile import CompiledProblem
from mcframe.model import binding
from mcframe.numerics.operators import LowRank
from mcframe.partitions.partitioned_data import RowsInMemory

pytestmark = pytest.mark.filterwarnings("ignore::mcframe.contracts.errors.UnobservedWarning")
SHARE = 0.8


def uneven(seed=0, shape=(30, 12)):
    """A low-rank table whose rows and columns are observed more or less; one row is not at all."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    x += 0.1 * rng.standard_normal(shape)
    x[rng.random(shape) < np.maximum(rng.random((shape[0], 1)), rng.random(shape[1]) - 0.2)] = (
        np.nan
    )
    x[3], x[0, 0] = np.nan, 1.0
    return x


def scales(x, share=SHARE):
    """R and C by their definition."""
    rows, columns = np.sum(~np.isnan(x), axis=1), np.sum(~np.isnan(x), axis=0)
    return (np.sqrt(1 - share + share * n / n.mean()) for n in (rows, columns))


def norm(weight=1.0, **options):
    return mc.NuclearNorm(weight, **{"count_share": SHARE, **options})


def model_of(terms, **options):
    return mc.Model([mc.Block("x", mc.Gaussian(), **options)], terms)


def test_the_objective_is_the_definition():
    x, rng = uneven(), np.random.default_rng(1)
    z, seen = rng.standard_normal(x.shape), ~np.isnan(x)
    r, c = scales(x)
    problem = mc.Problem.bind(model_of([norm(2.0)]), {"x": x})
    nuclear = np.linalg.norm(r[:, None] * z * c, "nuc")
    wanted = 0.5 * np.sum((z - x)[seen] ** 2) + 2.0 * nuclear
    assert problem.objective(z, {}) == pytest.approx(wanted, rel=1e-12)
    ball = mc.NuclearBall(nuclear * 1.001, count_share=SHARE)
    problem = mc.Problem.bind(model_of([ball]), {"x": x})
    assert np.isfinite(problem.objective(z, {}))
    assert problem.objective(1.01 * z, {}) == np.inf


@pytest.mark.parametrize("backend", ["proximal", "alternating", "factored", "fpc", "reference"])
def test_it_is_the_plain_norm_of_a_scaled_table(backend):
    """With W = R Z C entries y / f of weight f^2 have the loss that y has, f = 1 / (r c)."""
    x = uneven()
    factor = 1.0 / np.outer(*scales(x))
    own = mc.fit(model_of([norm()]), {"x": x}, backend=backend, tol=1e-8)
    scaled = mc.Observations(x / factor, weights=np.where(np.isnan(x), 0.0, factor**2))
    plain = mc.fit(model_of([mc.NuclearNorm(1.0)]), {"x": scaled}, backend=backend, tol=1e-8)
    assert own.status == plain.status == "certified"
    assert own.objective == pytest.approx(plain.objective, rel=1e-7)
    np.testing.assert_allclose(own.latent.dense(), factor * plain.latent.dense(), atol=2e-3)


BESIDE = {
    "ridge": [norm(), mc.Ridge(0.3)],
    "box": [norm(), mc.Box(-1.0, 2.0)],
    "ones": [norm(), mc.OnesColumn()],
    "sums": [norm(), mc.Calibration("x", np.ones((1, 30)), np.arange(12.0))],
    "residual": [norm(), mc.ResidualNuclearNorm("x", 0.3)],
    "ball": [norm(0.5), mc.NuclearBall(20.0, count_share=SHARE)],
    "plain ball": [norm(0.5), mc.NuclearBall(20.0)],
    "ball and ones": [mc.NuclearBall(20.0, count_share=SHARE), mc.OnesColumn()],
    "max norm ball": [norm(0.5), mc.MaxNormBall(2.0)],
}


@pytest.mark.parametrize("terms", BESIDE.values(), ids=BESIDE)
def test_it_stands_beside_all_terms_as_the_reference_has_it(terms):
    x, model = uneven(), model_of(terms)
    exact = mc.fit(model, {"x": x}, backend="reference", tol=1e-4)
    fit = mc.fit(model, {"x": x}, tol=1e-4)
    assert fit.status == "certified"
    for one, other in [(fit, exact), (exact, fit)]:
        assert one.bound <= other.objective + max(one.allowed_excess, other.allowed_excess)


def test_a_share_of_0_is_the_plain_norm():
    assert mc.NuclearNorm(2.0, count_share=0.0) == mc.NuclearNorm(2.0)
    x = {"x": uneven()}
    plain = mc.fit(model_of([mc.NuclearNorm(1.0)]), x, tol=1e-9)
    nearly = mc.fit(model_of([norm(count_share=1e-9)]), x, tol=1e-9)
    assert nearly.objective == pytest.approx(plain.objective, rel=1e-8)


def test_where_all_cells_are_observed_it_is_the_plain_norm():
    x = {"x": np.random.default_rng(0).standard_normal((8, 5))}
    own, plain = (mc.fit(model_of([t]), x, tol=1e-9) for t in (norm(), mc.NuclearNorm(1.0)))
    assert own.objective == pytest.approx(plain.objective, rel=1e-12)


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_counts_are_those_of_all_partitions(n_partitions):
    x, model = {"x": uneven()}, model_of([norm()], bias=True)
    whole = mc.fit(model, x, tol=1e-6)
    parts = mc.fit(model, RowsInMemory(x, n_partitions), tol=1e-6)
    assert parts.objective == pytest.approx(whole.objective, rel=2e-6)
    assert parts.bound <= whole.objective + max(parts.allowed_excess, whole.allowed_excess)
    np.testing.assert_allclose(parts.predict_rows("x", x), whole.predict_rows("x", x), atol=1e-2)


def test_new_rows_have_scales_of_their_own_counts():
    x = uneven()
    both = {"x": x, "y": np.where(np.random.default_rng(2).random((30, 4)) < 0.5, 1.0, 0.0)}
    blocks = [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli(), bias=True)]
    for terms in [[norm()], [mc.NuclearBall(20.0, count_share=SHARE)], [norm(), mc.OnesColumn()]]:
        fit = mc.fit(mc.Model(blocks, terms), both, tol=1e-11)
        for kept in (fit, fit.compact()):
            rows = kept.latent_rows(both).dense()
            np.testing.assert_allclose(rows, fit.latent.dense(), atol=2e-4)
    one = {name: values[5:6] for name, values in both.items()}
    np.testing.assert_allclose(fit.latent_rows(one).dense(), fit.latent.dense()[5:6], atol=2e-4)


REFUSED = [
    ([norm(), mc.Ridge(1.0)], {}, "NuclearNorm with count_share .* together with a Ridge"),
    ([norm(0.1), mc.NuclearBall(9.0)], {}, "one of them has no count_share"),
    ([norm()], {"row_effects": True, "effects_weight": 1.0}, "block 'x': .* effects_weight"),
]


@pytest.mark.parametrize(("terms", "options", "message"), REFUSED)
def test_new_rows_that_cost_two_things_are_refused(terms, options, message):
    x = {"x": uneven()}
    with pytest.raises(mc.ModelError, match=message):
        mc.fit(model_of(terms, **options), x, tol=1e-2).predict_rows("x", x)


def test_one_model_has_one_share():
    with pytest.raises(mc.ModelError, match=r"count_share=0.5 and 0.8 .* the same"):
        model_of([norm(), mc.NuclearBall(9.0, count_share=0.5)])


def test_the_largest_weight_is_where_z_vanishes():
    x = {"x": uneven()}
    for terms, options, rank in [
        ([norm()], {"bias": True}, 0),
        ([norm(), mc.OnesColumn()], {}, 1),
    ]:
        model = model_of(terms, **options)
        largest = mc.weight_max(model, x)
        for share, more in [(1.001, False), (0.99, True)]:
            heavy = attrs.evolve(model, terms=[norm(share * largest), *terms[1:]])
            found = mc.fit(heavy, x, tol=1e-10).latent.singular_values()
            assert (np.count_nonzero(found > 1e-6) > rank) == more


def test_counts_in_folds_are_those_of_training_entries():
    x = uneven()
    model, weights = model_of([norm()]), [3.0, 1.0]
    folds = np.random.default_rng(0).integers(0, 3, x.shape)
    path = mc.path(model, {"x": np.where(folds == 0, np.nan, x)}, weights=weights, tol=1e-8)
    trained = np.where(folds == 0, np.nan, x)
    for fit, weight in zip(path, weights, strict=True):
        alone = mc.fit(model_of([norm(weight)]), {"x": trained}, tol=1e-8)
        assert fit.objective == pytest.approx(alone.objective, rel=2e-8)
        r, c = scales(trained)
        z = fit.latent.dense()
        seen = ~np.isnan(trained)
        wanted = 0.5 * np.sum((z - trained)[seen] ** 2)
        wanted += weight * np.linalg.norm(r[:, None] * z * c, "nuc")
        assert fit.objective == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize(("loss", "weight"), [(mc.Gaussian(), 1.0), (mc.Bernoulli(), 6.0)])
def test_unlabeled_cells_have_a_loss_and_count(loss, weight, monkeypatch):
    """Written out or not, beside a block whose counts vary."""
    rng, x = np.random.default_rng(4), uneven()
    labels = np.where(rng.random((30, 7)) < 0.3, 1.0, np.nan)
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.4, likelihood=loss)
    model = mc.Model([mc.Block("x", mc.Gaussian()), mc.Block("y", risk)], [norm(weight)])
    data = {"x": x, "y": labels}
    written = mc.Problem.bind(model, data)
    monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 1)
    problem = mc.Problem.bind(model, data)
    assert problem.implicit_cells("y") is not None
    np.testing.assert_array_equal(problem.row_counts, np.sum(~np.isnan(x), axis=1) + 7)
    latent = LowRank(rng.standard_normal((30, 2)), rng.standard_normal((19, 2)))
    assert problem.objective(latent, {}) == pytest.approx(written.objective(latent, {}), rel=1e-12)
    programs = [CompiledProblem(each).program for each in (written, problem)]
    dense, thin = (p.evaluate(latent).gradient.dense() for p in programs)
    np.testing.assert_allclose(thin, dense, atol=1e-10)
    fit = mc.fit(model, data, tol=1e-7)
    assert fit.backend == "alternating"
    assert fit.status == "certified"
    monkeypatch.undo()
    other = mc.fit(model, data, backend="proximal", tol=1e-7)
    assert fit.objective == pytest.approx(other.objective, rel=2e-7)


def test_a_start_is_the_point_that_was_reached():
    x, model = {"x": uneven()}, model_of([norm()], bias=True)
    fit = mc.fit(model, x, tol=1e-9)
    for backend in ("proximal", "alternating", "factored"):
        again = mc.fit(model, x, backend=backend, start=fit, tol=1e-6)
        assert len(again.history) <= 2
        assert again.objective <= fit.objective * (1 + 1e-6)
    changed = mc.fit(model_of([norm(0.9)], bias=True), x, start=fit, tol=1e-8)
    assert changed.status == "certified"


def test_paths_are_kept_in_files_and_of_one_share(tmp_path):
    x, given = {"x": uneven()}, {"weights": [2.0, 1.0], "tol": 1e-7}
    file = tmp_path / "path.ckpt"
    first = mc.path(model_of([norm()]), x, **given, checkpoint=file)
    again = mc.path(model_of([norm()]), x, **given, checkpoint=file)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.latent.dense(), other.latent.dense())
        assert one.objective == other.objective
    with pytest.raises(mc.DataError, match="another path: different model"):
        mc.path(model_of([norm(count_share=0.5)]), x, **given, checkpoint=file)


def test_a_model_says_what_r_and_c_are():
    text = str(model_of([norm(2.0), mc.NuclearBall(4.0, count_share=SHARE)]))
    assert "+ 2 ‖R Z C‖_*" in text
    assert "subject to ‖R Z C‖_* ≤ 4" in text
    assert "R_ii = √(0.2 + 0.8 n_i / mean of n), n_i = observed entries of row i" in text
    assert r"R_{ii} = \surd(0.2 + 0.8" in model_of([norm(2.0)])._repr_latex_()
