"""What used to break down, hang or be refused: only answers and mcframe's own errors come out."""

import time

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import Alternating, Point, reference
from mcframe.numerics.operators import LowRank
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.runtime.machine import OutOfTime

from .helpers import of_any_status

NAN = np.nan
X = np.array([[1.0, 2.0, NAN], [3.0, NAN, 1.0], [0.5, 4.0, 2.0], [NAN, 1.0, 3.0]])
FIRST_ORDER = ("auto", "factored", "reference")


@pytest.mark.parametrize("exposure", [1.0, 1e-3, 1e-9, 1e6])
@pytest.mark.parametrize("weight", [0.1, 2.0])
@pytest.mark.some(0.1)
def test_alternating_beside_extreme_exposures(exposure, weight):
    counts = np.random.default_rng(0).poisson(2, (6, 4)).astype(float)
    model = mc.Model([mc.Block("y", mc.Poisson())], [mc.NuclearNorm(weight)])
    data = {"y": mc.Observations(counts, exposure=exposure)}
    began = time.perf_counter()
    fit = of_any_status(mc.fit, model, data, backend="alternating", max_seconds=5.0)
    assert time.perf_counter() - began < 20.0
    assert fit.bound <= mc.fit(model, data).objective + fit.allowed_excess


@pytest.mark.parametrize("backend", FIRST_ORDER)
@pytest.mark.parametrize("effects", [{"bias": True}, {"row_effects": True}, {}])
@pytest.mark.parametrize(
    "terms",
    [
        [mc.NuclearNorm(1.0), mc.Box(0, np.inf)],
        [mc.NuclearNorm(1.0), mc.Box(0, 5)],
        [mc.MaxNorm(1.0), mc.Box(0, 5)],
        [mc.MaxNormBall(5.0), mc.NuclearBall(12.0), mc.Ridge(0.1)],
    ],
    ids=["half-open", "box", "max norm", "two balls"],
)
@pytest.mark.some(0.1)
def test_equalities_with_effects_beside_sets(terms, effects, backend):
    """Z = x with all effects 0 is feasible."""
    model = mc.Model([mc.Block("x", mc.Equality(), **effects)], terms)
    fit = mc.fit(model, {"x": X}, backend=backend)
    assert fit.status == "certified"
    observed = ~np.isnan(X)
    np.testing.assert_allclose(fit.natural("x")[observed], X[observed], atol=1e-8)


@pytest.mark.parametrize("offset", [0.5, np.array([[0.1], [0.3]])], ids=["one", "a column"])
@pytest.mark.parametrize("term", [mc.NuclearNorm(1.0), mc.Ridge(1.0), mc.MaxNorm(1.0)])
def test_equalities_with_offsets(term, offset):
    table = np.array([[1.0, 2.0], [3.0, NAN]])
    model = mc.Model([mc.Block("x", mc.Equality())], [term])
    fit = mc.fit(model, {"x": mc.Observations(table, offset=offset)})
    moved = mc.fit(model, {"x": table - offset})
    assert fit.objective == pytest.approx(moved.objective, rel=1e-5)


def test_an_equality_whose_values_are_alike():
    """Once centred they are all 0, and say nothing of how exactly they are to be met."""
    table = np.array([[NAN, -0.1425], [NAN, NAN]])
    model = mc.Model(
        [mc.Block("e", mc.Equality(), bias=True), mc.Block("x", mc.Gaussian())],
        [mc.NuclearNorm(0.03)],
    )
    data = {"e": table, "x": np.array([[0.0, 1.0], [1.0, 1.0]])}
    with pytest.warns(mc.UnobservedWarning):
        fit = mc.fit(model, data)
    assert fit.status == "certified"
    assert np.isfinite(fit.objective)
    assert fit.natural("e")[0, 1] == pytest.approx(-0.1425, abs=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("word", [mc.Equality(), mc.Gaussian()], ids=["equality", "gaussian"])
@pytest.mark.some(0.2)
def test_sets_are_met_as_exactly_at_every_scale(word, scale):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 4))
    x[rng.random(x.shape) < 0.3] = NAN
    term = mc.NuclearNorm(1.0) if isinstance(word, mc.Equality) else mc.MaxNorm(0.5 * scale)
    terms = [term]
    A, B = np.full((1, 6), 1 / 6), np.array([[0.5, -0.3, 0.2, 0.8]])
    if isinstance(word, mc.Gaussian):
        terms.append(mc.Calibration("x", A, scale * B))
    fit = mc.fit(mc.Model([mc.Block("x", word)], terms), {"x": scale * x})
    z = fit.latent.dense() / scale
    off = A @ z - B if isinstance(word, mc.Gaussian) else (z - x)[~np.isnan(x)]
    assert fit.status == "certified"
    assert np.max(np.abs(off)) < 1e-8


@pytest.mark.parametrize("term", [mc.MaxNorm(0.1), mc.NuclearNorm(0.1)])
def test_what_falls_without_end_is_said(term):
    """Soon, where a direction shows it; a fit that has a bound goes on."""
    y = np.array([[1, 0, 1], [1, 1, NAN], [0, 1, 1.0]])
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli())
    fit = of_any_status(
        mc.fit, mc.Model([mc.Block("y", risk)], [term]), {"y": y}, max_seconds=60.0
    )
    assert fit.status == "unbounded"
    assert fit.bound == -np.inf
    assert fit.message.startswith("the objective falls without end")
    larger = attrs.evolve(term, weight=30.0)
    assert mc.fit(mc.Model([mc.Block("y", risk)], [larger]), {"y": y}).status == "certified"


@pytest.mark.parametrize(("weight", "other"), [(4.425, 6.3e-4), (1.0, 0.1), (1e3, 1e-4)])
def test_two_norms_of_which_one_leaves_nothing(weight, other):
    x = np.random.default_rng(7).standard_normal((5, 4))
    terms = [mc.NuclearNorm(weight), mc.MaxNorm(other)]
    fit = mc.fit(mc.Model([mc.Block("x", mc.Gaussian(), reduce="mean")], terms), {"x": x})
    assert (fit.status, fit.rank) == ("certified", 0)


def test_a_factored_fit_whose_inner_answer_is_0():
    """The multipliers have to pull before anything is worth a norm."""
    terms = [mc.NuclearNorm(1.0), mc.Calibration("x", np.full((1, 4), 0.25), [1.5, 2.0, 2.0])]
    model = mc.Model([mc.Block("x", mc.Equality(), bias=True)], terms)
    fit = mc.fit(model, {"x": X}, backend="factored")
    assert fit.status == "certified"
    assert fit.objective == pytest.approx(mc.fit(model, {"x": X}).objective, rel=1e-5)


def test_many_rows_of_levels_end_in_time():
    """Gradients of 1e-15 were asked for where rounding leaves 1e-14."""
    rng = np.random.default_rng(0)
    stars = rng.integers(1, 6, (30_000, 3)).astype(float)
    model = mc.Model([mc.Block("y", mc.Ordinal(5))], [mc.NuclearNorm(200.0)])
    began = time.perf_counter()
    of_any_status(mc.fit, model, {"y": stars}, max_seconds=2.0)
    assert time.perf_counter() - began < 15.0


@pytest.mark.parametrize("ew", [0.01, 1.0])
@pytest.mark.parametrize("heavy", [1.0, 1e6])
def test_classes_that_a_column_lacks_beside_a_light_ridge(heavy, ew):
    data = mc.Observations(np.array([[2.0], [1.0]]), weights=heavy * np.array([[1.0], [0.3]]))
    block = mc.Block("y", mc.Multinomial(3), bias=True, effects_weight=ew)
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(0.5 * heavy)]), {"y": data})
    assert fit.status == "certified"


def test_heavy_entries_have_exact_conjugates():
    """An entry that counts 1e5 times and is fitted well: log(1 - q) in all its digits."""
    y = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    weights = np.array([[8.6e4, 3.6e2], [1e-4, 1.3e5], [1e4, 0.2]])
    block = mc.Block("y", mc.Bernoulli(scale=0.5), bias=True, effects_weight=0.01)
    model = mc.Model([block], [mc.NuclearNorm(5e5)])
    fit = mc.fit(model, {"y": mc.Observations(y, weights=weights)}, tol=1e-13)
    assert fit.status == "certified"
    assert fit.rank == 0


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
@pytest.mark.parametrize("backend", ["auto", "splitting"])
def test_what_is_infeasible_and_overflows_is_said_to_be_infeasible(backend):
    """A ball 1e14 times smaller than what an equality asks for, beside rates that overflow."""
    exact, counts = np.full((7, 1), np.nan), np.full((7, 1), np.nan)
    exact[[0, 5], 0] = -213990.53810785, -213990.53810862
    counts[[1, 5], 0] = 0.0, 1.0
    exposure = np.array([447.0, 8.7e-6, 5.1e-3, 5.5, 4.0e5, 4.8e-4, 1.6e-2])[:, None]
    blocks = [
        mc.Block("exact", mc.Equality(), weight=10.0, reduce="sum"),
        mc.Block("counts", mc.Poisson(), reduce="mean"),
    ]
    data = {"exact": exact, "counts": mc.Observations(counts, exposure=exposure)}
    model = mc.Model(blocks, [mc.NuclearBall(2.65e-9)])
    with pytest.raises(mc.BackendError, match="no Z was found"):
        mc.fit(model, data, backend=backend, max_seconds=5.0)


def test_a_look_that_is_cut_off_keeps_its_point(monkeypatch):
    """The bound is lost with the time, the iterate is not."""

    def late(*arguments):
        raise OutOfTime

    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])
    x = np.random.default_rng(0).standard_normal((8, 5))
    monkeypatch.setattr("mcframe.backends.certificate.fenchel_bound", late)
    with pytest.warns(mc.NotCertifiedWarning):
        fit = mc.fit(model, {"x": x}, max_iter=20)
    assert fit.rank > 0
    assert fit.bound == -np.inf


@pytest.mark.parametrize("partitions", [False, True], ids=["in one piece", "in partitions"])
def test_a_step_that_memory_does_not_suffice_for_loses_no_work(monkeypatch, partitions):
    """As wide factors of a million rows may under a limit: the best point so far is returned."""
    x = np.random.default_rng(0).standard_normal((30, 8))
    data = RowsInMemory({"x": x}, 3) if partitions else {"x": x}
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(2.0)])
    steps, stages = [], Alternating.stages

    def short_of_memory(solver, program, state):
        steps.append(state)
        if len(steps) == 2:
            raise MemoryError("unable to allocate 267 MiB")
        yield from stages(solver, program, state)

    monkeypatch.setattr(Alternating, "stages", short_of_memory)
    with pytest.warns(mc.NotCertifiedWarning, match="memory did not suffice .*267 MiB"):
        fit = mc.fit(model, data, backend="alternating", tol=1e-14)
    assert fit.status == "interrupted"
    assert np.isfinite(fit.bound)
    assert fit.bound <= mc.fit(model, {"x": x}, backend="proximal").objective


def test_the_reference_never_answers_with_an_infinite_objective(monkeypatch):
    """A conic answer that cannot be made feasible gives way to a point that meets all sets."""
    monkeypatch.setattr(
        reference, "point_of", lambda problem, *_: Point(LowRank.zeros(problem.shape))
    )
    x = np.array([[1.5, 1.2], [1.1, NAN], [1.9, 1.4]])
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1), mc.Box(1.0, 2.0)])
    fit = of_any_status(mc.fit, model, {"x": x}, backend="reference")
    assert np.isfinite(fit.objective)
    assert np.all((fit.natural("x") >= 1.0 - 1e-9) & (fit.natural("x") <= 2.0 + 1e-9))
