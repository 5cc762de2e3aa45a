"""Data far from 0, very large or very small: certified answers are optimal, others say why not."""

import decimal
import warnings

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import Rounding, loop, relative_gap
from mcframe.backends import certificate as candidate
from mcframe.backends.certificate import Point, certify
from mcframe.compile import CompiledProblem
from mcframe.numerics.operators import LowRank

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 3)) @ RNG.standard_normal((3, 6))
X[RNG.random(X.shape) < 0.3] = np.nan
BACKENDS = ("proximal", "splitting", "alternating", "factored", "reference")


def certain(model, data, backend="auto", **options):
    """A fit that is certified, or says that rounding is in its way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, data, backend=backend, **options)
    assert fit.status in ("certified", "limited_by_rounding"), fit
    return fit


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("away", [1e3, 1e7, -1.7e9, 1e12])
@pytest.mark.some(0.1)
def test_a_column_far_from_0_beside_a_bias_is_a_column_near_0(away, backend):
    """Where no bit is lost by the shift the answers are the same ones."""
    near = np.round(X * 64.0) / 64.0  # few bits: X + away is exact
    near[:, 0] = np.round(near[:, 0])
    far = near.copy()
    far[:, 0] += away
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.5)])
    ours = mc.fit(model, {"x": far}, backend=backend, tol=1e-6)
    wanted = mc.fit(model, {"x": near}, tol=1e-9)
    assert ours.status == "certified"
    assert ours.objective == pytest.approx(wanted.objective, rel=2e-6)
    assert ours.bias("x")[0] == pytest.approx(wanted.bias("x")[0] + away, rel=1e-12, abs=1e-3)
    np.testing.assert_allclose(ours.predict("x")[:, 1:], wanted.predict("x")[:, 1:], atol=1e-2)


def test_an_identifier_is_not_certified_by_decree():
    """Six columns of which one holds numbers up to 1e15 with all their digits."""
    data = X.copy()
    data[:, 0] = 1e15 + np.arange(20.0) ** 2
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.5)])
    fit = certain(model, {"x": data})
    assert mc.verify(model, {"x": data}).agrees
    centred = data.copy()
    centred[:, 0] -= 1e15
    other = mc.fit(model, {"x": centred})
    assert fit.objective == pytest.approx(other.objective, rel=1e-6)


@pytest.mark.parametrize("backend", ["proximal", "alternating", "factored", "reference"])
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.some(0.1)
def test_the_answer_to_a_scaled_table_is_the_scaled_answer(scale, backend):
    """x -> s x and weight -> s weight make Z -> s Z and the objective s^2 times as large."""
    blocks = [mc.Block("x", mc.Gaussian(), bias=True)]
    plain = mc.fit(mc.Model(blocks, [mc.NuclearNorm(0.5)]), {"x": X}, tol=1e-8)
    scaled = mc.Model(blocks, [mc.NuclearNorm(0.5 * scale)])
    fit = mc.fit(scaled, {"x": scale * X}, backend=backend, tol=1e-6)
    assert fit.status == "certified"
    assert fit.objective / scale**2 == pytest.approx(plain.objective, rel=2e-6)
    assert fit.bound / scale**2 <= plain.objective * (1.0 + 1e-9)


@pytest.mark.parametrize("weight", [1e-300, 1e-14, 1e14, 1e300])
def test_the_answer_does_not_depend_on_what_everything_is_multiplied_by(weight):
    """Block weight and term weight times one number."""
    plain = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)]), {"x": X})
    model = mc.Model([mc.Block("x", mc.Gaussian(), weight=weight)], [mc.NuclearNorm(0.5 * weight)])
    fit = mc.fit(model, {"x": X})
    assert fit.status == "certified"
    assert fit.objective / weight == pytest.approx(plain.objective, rel=2e-6)


@pytest.mark.parametrize("scale", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("backend", ["auto", "factored"])
@pytest.mark.some(0.3)
def test_a_large_block_does_not_hide_a_small_one(scale, backend):
    """Dollars of exactly low rank, which fit whole, beside labels, which do not."""
    rng = np.random.default_rng(0)
    x = scale * np.outer(rng.random(6) + 1.0, rng.random(4) + 1.0)
    y = (rng.random((6, 5)) < 0.5).astype(float)
    model = mc.Model(
        [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli())],
        [mc.NuclearBall(60.0 * scale), mc.Box(-1.0, 1.0, "y")],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, {"x": x, "y": y}, backend=backend, max_seconds=1.0)
    optimum = y.size * np.log1p(np.exp(-1.0))
    assert fit.bound <= optimum * (1.0 + 1e-6) + fit.allowed_excess
    assert (fit.objective - optimum) / fit.objective <= fit.gap + 1e-9


def test_a_fit_of_rounding_alone_has_a_gap_of_0():
    """The optimum is 0: all data fit into the ball."""
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearBall(100.0)])
    fit = mc.fit(model, {"x": X})
    assert (fit.status, fit.gap) == ("certified", 0.0)
    assert fit.objective <= fit.rounding.zero_below <= 1e-9 * np.nansum(X**2)


def test_a_gap_is_never_below_what_rounding_hides():
    known = Rounding(total=1e-3, zero_below=1e-6)
    assert relative_gap(1.0, 1.0, known) == 1e-3
    assert relative_gap(1.0, 0.5, known) == 0.5
    assert relative_gap(1e-7, 0.0, known) == 0.0
    assert relative_gap(1e-5, 1e-5, known) == 1.0
    assert relative_gap(1.0, -np.inf, known) == np.inf


def test_gaps_say_where_double_precision_ends():
    """A tolerance beyond the 16th digit is not met by decree."""
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1e3)])
    with pytest.warns(mc.NotCertifiedWarning, match="limited_by_rounding: objective and bound"):
        fit = mc.fit(model, {"x": X}, tol=1e-18)
    assert 0.0 < fit.gap < 1e-12
    assert fit.bound <= fit.objective + fit.allowed_excess


def test_a_bound_from_a_bad_point_is_as_exact_as_any():
    """At Z = 0 the losses are 1e16 and known to 100, which says nothing of the bound there."""
    x = np.array([[1e8, 1.0], [2e8, np.nan], [np.nan, 1e-8]])
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    fit = mc.fit(model, {"x": x})
    assert fit.status == "certified"
    assert fit.rounding.total < 1e-12 * fit.objective


@pytest.mark.parametrize("effects", [{}, {"bias": True}, {"row_effects": True}])
def test_columns_are_centred_only_where_that_is_exact(effects):
    """Values within a factor of two of each other lose no bit by a subtraction."""
    data = X.copy()
    data[:, 0] = 1e9 + np.arange(20.0)
    data[:, 1] = np.geomspace(1.0, 1e9, 20)
    model = mc.Model([mc.Block("x", mc.Gaussian(), **effects)], [mc.NuclearNorm(0.5)])
    problem = mc.Problem.bind(model, {"x": data})
    if not effects:
        assert not problem.origins
        return
    table, origin = problem.tables["x"], problem.origins.get("x")
    if origin is None:
        assert effects == {"row_effects": True}
        return
    shift = problem.layout("x").at(table.rows, table.columns, origin)
    assert shift[table.columns == 0].all()
    assert not shift[table.columns == 1].any()
    np.testing.assert_array_equal(problem.targets("x") + shift, table.values)


def test_verify_compares_what_is_left_of_far_columns():
    data = X.copy()
    data[:, 2] += 4e8
    model = mc.Model(
        [mc.Block("x", mc.Gaussian(), bias=True, row_effects=True)], [mc.NuclearNorm(0.5)]
    )
    verified = mc.verify(model, {"x": data})
    assert verified.agrees
    assert np.isfinite(verified.difference)


def test_an_entry_weight_beyond_all_measure_is_no_proof():
    weights = np.ones(X.shape)
    weights[0, 0] = 1e300
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.5)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, {"x": mc.Observations(np.nan_to_num(X), weights=weights)}, max_iter=50)
    reached = fit.problem.objective(fit.latent, fit.effects)
    assert fit.objective == reached
    if fit.status == "certified":
        # By an independent statement: the heavy entry exact, all others with weight 1.
        free = weights.copy()
        free[0, 0] = 1e6
        near = mc.fit(model, {"x": mc.Observations(np.nan_to_num(X), weights=free)})
        assert fit.objective == pytest.approx(near.objective, rel=1e-3)


def test_what_is_given_of_rounding_is_what_the_judge_gave():
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])
    fit = mc.fit(model, {"x": X})
    lax = attrs.evolve(fit, rounding=Rounding(total=0.1 * fit.objective))
    assert lax.gap == pytest.approx(0.1)
    assert lax.allowed_excess == pytest.approx(0.1 * fit.objective)


@pytest.mark.parametrize("backend", ["alternating", "factored"])
@pytest.mark.parametrize("excess", [0.0, 6e-14])
def test_a_dual_point_at_the_edge_of_two_domains(backend, excess):
    """Gradients reach the ends of their domains where their norm reaches the weight.

    At 10 the objective is bounded to rounding, and |Z| is some hundreds: a dual point that is
    1e-13 too long is worth 1e-9, which the bound has to be lowered by.
    """
    seen = [[1, np.nan, 1, np.nan], [np.nan, 1, np.nan, 1], [1, 1, np.nan, np.nan]]
    labels = np.array([*seen, [np.nan, 1, 1, 1.0]])
    risk = mc.RiskMixture(pu=0.5, nu=0.5, missing_rate=0.9, likelihood=mc.Bernoulli())
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(10.0 * (1.0 + excess))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, {"y": labels}, backend=backend, max_iter=100)
    assert fit.bound <= fit.objective + fit.allowed_excess


def test_an_answer_of_biases_alone_is_told_from_its_rounding():
    """The conic solver leaves 1e-23 in Z, beside nothing at all: that is no gap of 1."""
    model = mc.Model([mc.Block("y", mc.Hinge(), bias=True)], [mc.NuclearNorm(4.48)])
    for backend in ("reference", "splitting"):
        fit = mc.fit(model, {"y": np.ones((3, 2))}, backend=backend)
        assert fit.status == "certified"
        assert fit.objective < 1e-12


def test_a_point_without_a_bound_takes_the_bound_of_another():
    nothing = Rounding(total=np.inf, infeasibility=1e-9, of_bound=np.inf)
    known = Rounding(total=3e-14, infeasibility=2e-9, of_bound=1e-14)
    both = nothing.with_bound_of(known)
    assert both.of_bound == known.of_bound
    assert both.infeasibility == 2e-9
    assert both.total == pytest.approx(known.total)
    assert known.with_bound_of(nothing).total == np.inf
    assert nothing.with_bound_of(nothing).total == np.inf  # and not NaN


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_labels_of_a_small_scale_are_not_certified_at_0(link):
    """What is nothing is told by the losses at the better of two constants."""
    y = np.where(np.isnan(X), np.nan, X > 0.0)
    found = []
    for scale in (1.0, 1e-9):
        model = mc.Model([mc.Block("y", mc.Bernoulli(link, scale))], [mc.NuclearNorm(0.5 / scale)])
        fit = mc.fit(model, {"y": y})
        assert fit.status == "certified"
        assert fit.objective - fit.bound <= 1e-6 * fit.objective
        found.append((fit.objective, fit.history[-1].iteration))
    assert found[0] == pytest.approx(found[1])


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("main", [mc.NuclearNorm(0.1), mc.NuclearBall(10.0)], ids=repr)
def test_data_that_are_all_0_have_the_unit_of_the_constraints(main, unit):
    """A loss of a few units in 1e-9 is not nothing where nothing else says what is large."""
    box = mc.Box(0.1 * unit, 0.5 * unit)
    if isinstance(main, mc.NuclearBall):
        main = mc.NuclearBall(10.0 * unit)
    fit = mc.fit(mc.Model([mc.Block("x", mc.Quantile(0.5))], [main, box]), {"x": np.zeros((5, 3))})
    assert fit.status == "certified"
    least = 0.05 * 15 + (0.1 * 0.1 * np.sqrt(15) if isinstance(main, mc.NuclearNorm) else 0.0)
    assert fit.objective / unit == pytest.approx(least, rel=1e-6)
    assert fit.bound / unit == pytest.approx(least, rel=2e-6)


def test_one_value_of_a_column_with_a_bias_is_not_certified_before_it_is_met():
    """Centring takes it to 0; its size is still what losses are compared with."""
    found = []
    for unit in (1.0, 2.0**-30):
        sums = mc.Calibration("x", [1.0], [-0.5e-3 * unit])
        terms = [mc.NuclearBall(unit), sums, mc.Box(-0.5 * unit, 0.5 * unit)]
        model = mc.Model([mc.Block("x", mc.Quantile(0.5), bias=True, weight=1.0 / unit)], terms)
        found.append(mc.fit(model, {"x": np.array([[-0.26 * unit]])}))
    assert [fit.status for fit in found] == ["certified"] * 2
    assert found[0].objective == pytest.approx(found[1].objective, abs=1e-9)


@pytest.mark.parametrize("size", [1e4, 1e8])
def test_a_ball_of_a_large_block_does_not_hide_a_small_one(size):
    """Labels under a box beside values that are met whole: the ball holds both."""
    rng = np.random.default_rng(0)
    x = size * np.outer(rng.random(6) + 1.0, rng.random(4) + 1.0)
    y = np.where(rng.random((6, 5)) < 0.3, np.nan, rng.random((6, 5)) < 0.5)
    blocks = [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli())]
    terms = [mc.NuclearBall(60.0 * size), mc.Box(-1.0, 1.0, "y")]
    fit = mc.fit(mc.Model(blocks, terms), {"x": x, "y": y})
    assert fit.status == "certified"
    assert fit.objective == pytest.approx(np.sum(~np.isnan(y)) * np.log1p(np.exp(-1.0)), rel=1e-9)


def test_sums_over_effects_count_of_the_point_that_a_bound_is_of(monkeypatch):
    """Moved into every domain a dual point has other sums than the one that it comes from."""
    x = np.random.default_rng(0).standard_normal((8, 3)) + 5.0
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1.0)])
    program = CompiledProblem(mc.Problem.bind(model, {"x": x})).program
    latent = LowRank.of(np.zeros((8, 3)))
    before = certify(program, Point(latent))
    off = 1e-6

    def moved(*arguments):
        found = fenchel_bound(*arguments)
        return attrs.evolve(
            found, point=attrs.evolve(found.dual, gradient=found.dual.gradient + off), scale=1.0
        )

    fenchel_bound = candidate.fenchel_bound
    monkeypatch.setattr(candidate, "fenchel_bound", moved)
    after = certify(program, Point(latent))
    worth = 8 * off * np.sum(np.abs(after.effects["x"]))
    assert after.rounding.of_bound - before.rounding.of_bound == pytest.approx(
        worth, rel=1e-6, abs=0.0
    )


@pytest.mark.parametrize("rows", [1, 10])
@pytest.mark.parametrize("weight", [1.0, 5.0, 17.2, 30.0])
@pytest.mark.parametrize("main", [mc.NuclearNorm, mc.MaxNorm])
@pytest.mark.some(0.1)
def test_the_bound_of_one_label_is_below_the_optimum(main, weight, rows):
    """One entry z > 0 has either norm z, and the optimum w h + a z is where a = w / (1 + e^z).

    h = log(1 + e^-z) at a label of weight w. In 50 digits, beside the bound's own rounding.
    """
    labels = np.full((rows, 2), np.nan)
    labels[rows // 2, 1] = 1.0
    block = mc.Block("b", mc.Bernoulli(), weight=74.7, reduce="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)  # of the empty column
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)  # a gap of 0 cannot be reached
        fit = mc.fit(mc.Model([block], [main(weight)]), {"b": labels}, tol=0.0, max_iter=300)
    with decimal.localcontext() as context:
        context.prec = 50
        whole, own = decimal.Decimal(block.weight), decimal.Decimal(weight)
        z = ((whole - own) / own).ln()
        optimum = whole * (1 + (-z).exp()).ln() + own * z
        assert decimal.Decimal(fit.bound) <= optimum
    assert fit.objective - fit.bound <= 1e-10 * fit.objective


@pytest.mark.parametrize("backend", ["proximal", "alternating", "splitting", "fpc"])
def test_a_small_gap_that_no_certificate_closes_is_due_to_rounding(backend, monkeypatch):
    """Also where its estimate is too small, which is nothing here."""
    monkeypatch.setattr(loop.SolverRun, "rounding", Rounding())
    monkeypatch.setattr(loop, "relative_gap", lambda *values: relative_gap(*values) or 1e-16)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])
    fit = certain(model, {"x": X}, backend, tol=0.0)
    assert fit.status == "limited_by_rounding"
    assert "no closer in 10 certificates" in fit.message
    assert fit.history[-11].gap == fit.history[-1].gap <= 1e-12


@pytest.mark.parametrize("shape", [(60, 10), (200, 150)])
def test_a_tolerance_of_0_ends_where_rounding_does(shape):
    """The bound on the norm of the gradient is above it by its own rounding."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    x += 0.3 * rng.standard_normal(shape)
    x[rng.random(shape) < 0.2] = np.nan
    weight = 0.3 * np.sqrt(max(shape))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(weight)])
    with pytest.warns(mc.NotCertifiedWarning):
        fit = mc.fit(model, {"x": x}, tol=0.0, max_iter=5000)
    assert fit.status == "limited_by_rounding"
    assert fit.gap < 1e-10


SMALL = RNG.standard_normal((6, 4))
SUMS = RNG.standard_normal((1, 6))
BESIDE = {
    "sums that the data have": lambda u: [mc.Calibration("x", SUMS, u * SUMS @ SMALL)],
    "other sums": lambda u: [mc.Calibration("x", SUMS, u * (SUMS @ SMALL + 1.0))],
    "a box": lambda u: [mc.Box(-0.5 * u, u)],
    "a residual": lambda u: [mc.ResidualNuclearNorm("x", 0.05 * u)],
    "both": lambda u: [mc.Box(-9.0 * u, 9.0 * u), mc.Calibration("x", SUMS, u * SUMS @ SMALL)],
}


@pytest.mark.parametrize("unit", [2.0**-100, 2.0**100])
@pytest.mark.parametrize("backend", ["auto", "splitting", "reference"])
@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
@pytest.mark.some(0.1)
def test_no_size_of_numbers_keeps_the_gap_of_terms_open(beside, backend, unit):
    """Constants of rounding have the unit of what they are added to."""
    fits = []
    for size in (1.0, unit):
        terms = [mc.NuclearNorm(0.1 * size), *beside(size)]
        model = mc.Model([mc.Block("x", mc.Gaussian())], terms)
        fits.append(mc.fit(model, {"x": size * SMALL}, backend=backend, tol=1e-8))
    assert [fit.status for fit in fits] == ["certified"] * 2
    assert fits[1].objective / unit**2 == pytest.approx(fits[0].objective, rel=1e-7)


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
def test_the_size_of_a_conjugate_bounds_what_cancels_in_it(beside):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1), *beside(1.0)])
    for term in mc.Problem.bind(model, {"x": SMALL}).terms[1:]:
        dual = term.nearest_dual(RNG.standard_normal(SMALL.shape))
        assert abs(term.conjugate(0.01 * dual)) <= 0.01 * term.conjugate_size(dual)
