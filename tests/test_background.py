"""Unlabeled cells that are not written out, against the same problem with all of them."""

import attrs
import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.backends.alternating import Alternating, half_sweep
from mcframe.backends.certificate import Point, certify
from mcframe.compile import compile_problem
from mcframe.compile import program as programs
from mcframe.model import Problem, binding, reading
from mcframe.numerics import blockwise
from mcframe.numerics.norms import norm_bound
from mcframe.numerics.operators import LowRank, Sum
from mcframe.numerics.sampled import Pattern, Sampled

RISKS = {
    "pu": mc.RiskMixture(pu=1.0, missing_rate=0.8, likelihood=mc.Gaussian()),
    "pnu": mc.RiskMixture.pnu(0.6, 0.8, likelihood=mc.Gaussian(variance=0.3)),
    "mixed": mc.RiskMixture(pn=0.2, pu=0.5, nu=0.3, likelihood=mc.Gaussian()),
    "nu": mc.RiskMixture(pn=0.1, pu=0.2, nu=0.7, missing_rate=0.6, likelihood=mc.Gaussian()),
}
QUADRATIC = tuple(RISKS)
LOGIT, SHORT = mc.Bernoulli(), mc.Bernoulli(scale=0.5)
LOGISTIC = {
    "logistic pu": mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=LOGIT),
    "logistic pnu": mc.RiskMixture.pnu(0.6, 0.5, likelihood=SHORT),
    "logistic tri": mc.RiskMixture(pn=0.2, pu=0.5, nu=0.3, missing_rate=0.4, likelihood=LOGIT),
    "logistic nu": mc.RiskMixture.pnu(-0.8, 0.3, likelihood=LOGIT),
}
RISKS |= LOGISTIC


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """No cell is written out; those that are read come in several blocks and slices."""
    monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 0)
    monkeypatch.setattr(blockwise, "CELLS_PER_BLOCK", 530)
    monkeypatch.setattr(blockwise, "CACHED_NUMBERS", 128)


def labels(shape, share, seed=0):
    """Sparse labels of rank 3, some of them negative."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    rows, columns = np.nonzero(rng.random(shape) < share)
    values = (z[rows, columns] > 0) * 1.0
    return sp.csr_array((values, (rows, columns)), shape=shape)


def problem_of(name, weight=8.0, mean=False, features=None):
    """Labels under a risk, beside a block of sparse features where they are given."""
    reduce = "mean" if mean else "sum"
    blocks, data = [mc.Block("y", RISKS[name], reduce=reduce)], {"y": labels((60, 40), 0.2)}
    weight = weight / 2400 if mean else weight
    if features is not None:
        seen = labels((60, 25), 0.3, seed=5)
        blocks.insert(0, mc.Block("x", features, reduce=reduce))
        data["x"] = seen
    return mc.Model(blocks, [mc.NuclearNorm(weight)]), data


def bound(name, **options):
    problem = Problem.bind(*problem_of(name, **options))
    assert problem.tables["y"].has_implicit_cells
    return problem


OPTIONS = [{}, {"mean": True}, {"features": mc.Gaussian()}, {"features": mc.Bernoulli()}]


@pytest.fixture(params=OPTIONS, ids=["alone", "mean", "beside reals", "beside logistic"])
def options(request):
    return request.param


def point(problem, seed=1, width=3):
    rng = np.random.default_rng(seed)
    n_rows, n_columns = problem.shape
    return LowRank(rng.standard_normal((n_rows, width)), rng.standard_normal((n_columns, width)))


@pytest.mark.parametrize("name", QUADRATIC)
def test_an_unlabeled_entry_is_that_quadratic(name):
    risk = attrs.evolve(RISKS[name], missing_rate=0.7)
    curvature, centre, constant = risk.unlabeled.quadratic
    z = np.linspace(-3, 4, 15)
    quadratic = 0.5 * curvature * np.square(z - centre) + constant
    np.testing.assert_allclose(risk.value(z, np.full(15, np.nan)), quadratic, atol=1e-13)
    assert risk.second_derivative(z, np.ones(15)).min() >= curvature - 1e-15


def test_only_a_convex_mixture_that_reads_unlabeled_entries_has_one():
    assert mc.RiskMixture(pu=1.0, likelihood=mc.Bernoulli()).unlabeled.quadratic is None
    probit = mc.Bernoulli("probit")
    assert mc.RiskMixture(pu=1.0, likelihood=probit, nonconvex=True).unlabeled is None
    assert mc.RiskMixture(pn=1.0, likelihood=mc.Gaussian()).unlabeled is None
    assert mc.Gaussian().unlabeled is None


@pytest.mark.parametrize("name", RISKS)
def test_objective_and_gradient_are_those_of_all_cells(name, options):
    problem = bound(name, **options)
    whole = problem.written_out()
    assert problem.scale("y") == whole.scale("y")
    latent = point(problem)
    for z in (LowRank.zeros(problem.shape), latent):
        assert problem.objective(z, {}) == pytest.approx(whole.objective(z, {}), rel=1e-12)
    program, dense = compile_problem(problem), compile_problem(whole)
    found, wanted = program.evaluate(latent), dense.evaluate(latent)
    assert found.value == pytest.approx(wanted.value, rel=1e-12)
    matrix, gradient = found.gradient, wanted.gradient.dense()
    right, left = np.eye(problem.shape[1])[:, :7], np.eye(problem.shape[0])[:, :5]
    size = np.abs(gradient).max()
    np.testing.assert_allclose(matrix @ right, gradient[:, :7], atol=1e-12 * size)
    np.testing.assert_allclose(matrix.T @ left, gradient[:5].T, atol=1e-12 * size)
    np.testing.assert_allclose((2.0 * matrix) @ right, 2 * gradient[:, :7], atol=1e-12 * size)


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("name", QUADRATIC)
def test_half_a_sweep_is_that_of_all_cells(name, by_rows, options):
    problem = bound(name, **options)
    start, solver = Point(point(problem)), Alternating()
    swept = []
    for one in (problem, problem.written_out()):
        program = compile_problem(one)
        state = solver.init(program, start, np.random.default_rng(0))
        before = state.objective
        half_sweep(program, state, by_rows)
        assert state.objective < before
        swept.append((state.objective, state.left @ state.right.T))
    assert swept[0][0] == pytest.approx(swept[1][0], rel=1e-10)
    np.testing.assert_allclose(swept[0][1], swept[1][1], atol=1e-9)


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.some(0.1)
def test_the_bound_is_that_of_all_cells(name, options, monkeypatch):
    monkeypatch.setattr(programs, "STORED_NUMBERS", 0)
    problem = bound(name, **options)
    for latent in (point(problem), LowRank.zeros(problem.shape)):
        found, wanted = (
            certify(compile_problem(one), Point(latent))
            for one in (problem, problem.written_out())
        )
        assert found.objective == pytest.approx(wanted.objective, rel=1e-12)
        assert found.bound == pytest.approx(wanted.bound, rel=1e-6)


@pytest.mark.parametrize("name", LOGISTIC)
@pytest.mark.some(0.1)
def test_gradients_that_do_not_fit_are_computed_anew(name, options, monkeypatch):
    problem, latent = bound(name, **options), point(bound(name, **options))
    judged = []
    for held in (10**9, 0):
        monkeypatch.setattr(blockwise, "STORED_NUMBERS", held)
        judged.append(certify(compile_problem(problem), Point(latent)))
    assert judged[0].objective == judged[1].objective
    assert judged[0].bound == pytest.approx(judged[1].bound, rel=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("name", LOGISTIC)
def test_a_background_and_its_conjugate_are_fenchel_and_young(name, share, monkeypatch):
    """Equal at its own gradients, above the product at others; unwritten cells alone count."""
    problem = bound(name)
    program, latent = compile_problem(problem), point(problem)
    seen, loss = problem.tables["y"], RISKS[name].unlabeled
    mask = np.ones(problem.shape, dtype=bool)
    mask[seen.rows, seen.columns] = False
    z = latent.dense()[mask]
    gradients = share * loss.value_and_gradient(z)[1]
    monkeypatch.setattr(blockwise, "STORED_NUMBERS", 0)
    background = program.evaluate(latent).background
    found, size = background.conjugate(share)
    assert found == pytest.approx(np.sum(loss.conjugate(gradients)), rel=1e-10)
    assert size >= abs(found)
    product = float(np.sum(z * gradients))
    assert background.value + found >= product - 1e-9
    if share == 1.0:
        assert background.value + found == pytest.approx(product, rel=1e-8)


@pytest.mark.parametrize("name", LOGISTIC)
def test_gradients_in_32_bits_stay_in_their_domain(name):
    loss = RISKS[name].unlabeled
    gradients = loss.value_and_gradient(np.array([-900.0, -80.0, -17.0, 0.0, 17.0, 80.0, 900.0]))[
        1
    ]
    short = blockwise.round_to_single(loss, gradients)
    assert short.dtype == np.float32
    assert np.all(np.isfinite(loss.conjugate(short.astype(float))))
    np.testing.assert_allclose(short, gradients, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("formed", [True, False])
@pytest.mark.parametrize("name", LOGISTIC)
@pytest.mark.some(0.02)
def test_half_a_sweep_lowers_the_objective(name, by_rows, formed, options, monkeypatch):
    """By Newton's equations, and by the highest curvature where these are too large."""
    if not formed:
        monkeypatch.setattr(blockwise, "STORED_NUMBERS", 0)
    program, solver = compile_problem(bound(name, **options)), Alternating()
    for seed in range(3):
        start = Point(point(bound(name, **options), seed))
        state = solver.init(program, start, np.random.default_rng(0))
        before = state.objective
        half_sweep(program, state, by_rows)
        assert state.objective < before


@pytest.mark.parametrize(("name", "options"), [*zip(RISKS, OPTIONS * 2, strict=True)])
@pytest.mark.some(0.2)
def test_the_fit_is_that_of_all_cells(name, options, monkeypatch):
    model, data = problem_of(name, **options)
    found = mc.fit(model, data, tol=1e-7)
    assert found.backend == "alternating"
    assert found.status == "certified"
    monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 10**9)
    exact = mc.fit(model, data, tol=1e-8)
    assert exact.backend == "proximal"
    assert found.objective == pytest.approx(exact.objective, rel=1e-6)
    assert found.bound <= exact.objective
    assert exact.bound <= found.objective
    assert found.rank == exact.rank > 0
    assert np.isnan(found.problem.tables["y"].values).sum() == 0


@pytest.mark.parametrize("formed", [True, False])
def test_both_kinds_of_background_stand_side_by_side(formed, monkeypatch):
    if not formed:
        monkeypatch.setattr(blockwise, "STORED_NUMBERS", 0)
    names = {"a": "pu", "b": "logistic tri", "c": "mixed"}
    model = mc.Model([mc.Block(k, RISKS[risk]) for k, risk in names.items()], [mc.NuclearNorm(9)])
    data = {
        "a": labels((60, 20), 0.2),
        "b": labels((60, 30), 0.3, 1),
        "c": labels((60, 9), 0.4, 2),
    }
    program = compile_problem(Problem.bind(model, data))
    assert len(program.background.parts) == 3
    found = mc.fit(model, data, tol=1e-6)
    monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 10**9)
    exact = mc.fit(model, data, tol=1e-8)
    assert found.objective == pytest.approx(exact.objective, rel=1e-6)
    assert found.bound <= exact.objective
    assert found.status == "certified"
    assert found.rank == exact.rank > 1


def test_the_hessians_of_lines_are_those_of_their_losses():
    """Beside differences of the gradients that a fit uses, line by line."""
    program, latent = compile_problem(bound("logistic tri")), point(bound("logistic tri"))
    rng, h = np.random.default_rng(0), 1e-5
    for by_rows in (True, False):
        moves = rng.standard_normal((latent.left if by_rows else latent.right).shape)

        def gradient(share, by_rows=by_rows, moves=moves):
            left = latent.left + (share * moves if by_rows else 0.0)
            right = latent.right + (0.0 if by_rows else share * moves)
            gradient = program.evaluate(LowRank(left, right)).background.points[0].gradient()
            return gradient @ right if by_rows else gradient.T @ left

        matrices, factor, _ = program.evaluate(latent).background.points[0].hessians(by_rows)
        along = factor * np.einsum("ijk,ik->ij", matrices, moves)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(blockwise, "STORED_NUMBERS", 0)  # gradients of 64 bits
            numeric = (gradient(h) - gradient(-h)) / (2.0 * h)
        np.testing.assert_allclose(along, numeric, atol=1e-7)


def test_a_fit_of_almost_full_rank():
    """The block of short columns then reaches into the null space beside the long ones."""
    fit = mc.fit(*problem_of("pu", weight=4.0))
    assert fit.rank > 30
    assert fit.status == "certified"


def test_nothing_stands_out():
    fit = mc.fit(*problem_of("pu", weight=1e4))
    assert fit.rank == 0
    assert fit.status == "certified"


def test_a_reference_states_all_cells():
    model, _ = problem_of("mixed", weight=1.0)
    side_by_side = mc.verify(model, {"y": labels((9, 7), 0.6)})
    assert side_by_side.agrees


def test_the_norm_of_a_sum_is_bounded():
    rng = np.random.default_rng(2)
    rows, columns = np.nonzero(rng.random((50, 30)) < 0.2)
    pattern = Pattern.of((50, 30), rows, columns)
    thin = LowRank(rng.standard_normal((50, 2)), rng.standard_normal((30, 2)))
    values = rng.standard_normal(rows.size)
    dense = thin.dense()
    dense[rows, columns] += values
    matrix = Sum((Sampled(pattern, values), thin))
    exact = np.linalg.norm(dense, 2)
    for aim in (np.inf, exact):
        assert exact <= norm_bound(matrix, aim) * (1 + 1e-12) <= exact * (1 + 1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"bias": True},
        {
            "likelihood": mc.RiskMixture(
                pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli("probit"), nonconvex=True
            )
        },
    ],
)
def test_what_is_no_background_is_written_out(change):
    model, data = problem_of("pu")
    changed = attrs.evolve(model, blocks=[attrs.evolve(model.blocks[0], **change)])
    assert Problem.bind(changed, data).tables["y"].n_entries == 2400
    beside = attrs.evolve(model, terms=[*model.terms, mc.Box(0.0, 1.0)])
    assert Problem.bind(beside, data).tables["y"].n_entries == 2400
    weighted = {"y": mc.Observations(data["y"], weights=2.0)}
    assert Problem.bind(model, weighted).tables["y"].n_entries == 2400


def test_cells_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(reading, "physical_gigabytes", lambda: 1e-4)
    model, data = problem_of("pu")
    assert Problem.bind(model, data).tables["y"].n_entries == data["y"].nnz
    beside = attrs.evolve(model, terms=[*model.terms, mc.Box(0.0, 1.0)])
    with pytest.raises(
        mc.DataError, match=r"block 'y'.*all 2400 cells.*0\.000192 GB.*NuclearNorm"
    ):
        Problem.bind(beside, data)
    with pytest.raises(mc.DataError, match="all 2400 cells"):
        Problem.bind(model, {"y": mc.Observations(data["y"], weights=2.0)})


def test_what_reading_cells_takes_is_said():
    said = str(mc.explain(*problem_of("logistic pu")))
    assert "2400 cells read by blocks of rows" in said
    assert "read by blocks" not in str(mc.explain(*problem_of("pu")))


def test_a_column_of_unlabeled_entries_is_learnt_from_them():
    model, data = problem_of("logistic pu")
    seen = data["y"].tocoo()
    kept = seen.col != 3
    empty = sp.csr_array((seen.data[kept], (seen.row[kept], seen.col[kept])), shape=seen.shape)
    with pytest.warns(mc.UnobservedWarning, match="column 3 .*its unlabeled entries alone"):
        fit = mc.fit(model, {"y": empty})
    assert np.abs(fit.natural("y")[:, 3]).max() > 0.1


def test_other_backends_say_why_not():
    model, data = problem_of("pu")
    explained = mc.explain(model, data)
    assert "too many to be written out" in str(explained)
    assert "carry loss as unlabeled" in str(Problem.bind(model, data))
    with pytest.raises(mc.BackendError, match="too many to be written out"):
        mc.fit(model, data, backend="proximal")
    with pytest.raises(mc.BackendError, match="too many to be written out"):
        mc.fit(model, data, backend=mc.backends.Forced(mc.Proximal()))
