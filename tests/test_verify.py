"""Verification: its verdicts, its time limit, and nothing but the package's own errors."""

import time
import tracemalloc
import warnings

import attrs
import cvxpy
import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings

import mcframe as mc
from mcframe.backends.certificate import at_zero
from mcframe.compile import CompiledProblem, SpectralPenalty
from mcframe.model import Problem

from .strategies import extreme_models, values_of

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, np.nan], [2.0, 1.0, 0.0], [1.0, np.nan, 4.0]])
MODEL = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])


@pytest.fixture(scope="module")
def verified():
    return mc.verify(MODEL, {"x": X})


def test_readings_that_agree(verified):
    assert (verified.verdict, verified.agrees, bool(verified)) == ("agree", True, True)
    assert repr(verified).splitlines()[-1].startswith("the two solvers agree: ")


@pytest.mark.parametrize("bias", [False, True])
def test_two_answers_of_rank_0_say_that_little_was_compared(verified, bias):
    block = mc.Block("x", mc.Gaussian(), bias=bias)
    found = mc.verify(mc.Model([block], [mc.NuclearNorm(1e3)]), {"x": X})
    assert (found.fast.rank, found.reference.rank, found.verdict) == (0, 0, "agree")
    compared = "effects alone were compared" if bias else "nothing was compared"
    assert f"note: both answers have Z = 0, so that {compared}" in repr(found)
    assert verified.note is None
    assert "note" not in repr(verified)
    one = attrs.evolve(found, reference=verified.reference)
    assert one.note is None


@pytest.mark.parametrize("which", ["fast", "reference"])
@pytest.mark.parametrize("other", ["fast", "reference"])
def test_a_bound_above_an_objective_is_a_contradiction(verified, which, other):
    """Of either reading above either objective, by more than rounding."""
    fits = {"fast": verified.fast, "reference": verified.reference}
    above = fits[other].objective * (1.0 + 1e-9)
    lifted = attrs.evolve(fits[which], bound=above)
    found = attrs.evolve(verified, **{which: lifted})
    assert (found.verdict, bool(found)) == ("differ", False)
    assert f"the {which} bound" in found.overstated
    assert "THE TWO SOLVERS DIFFER" in repr(found)


def test_a_reference_that_is_too_inexact_is_no_evidence(verified):
    """Above the optimum by more than the tolerance, and its own bound says so."""
    exact = verified.reference
    nonsmooth = attrs.evolve(exact, objective=1.01 * exact.objective, bound=0.9 * exact.bound)
    found = attrs.evolve(verified, reference=nonsmooth)
    assert (found.verdict, found.overstated, bool(found)) == ("too inexact", None, False)
    assert "no verdict, the reference is too inexact to compare" in repr(found)
    nonsmooth = attrs.evolve(exact, bound=0.9 * exact.bound)
    assert attrs.evolve(
        verified, reference=nonsmooth
    ).agrees  # its point is as good as the fast one


def test_a_fast_reading_that_is_too_inexact_is_named(verified):
    fast = attrs.evolve(verified.fast, objective=1.01 * verified.fast.objective, bound=0.0)
    assert "the fast reading is too inexact" in repr(attrs.evolve(verified, fast=fast))


ONE = np.full((7, 3), np.nan)
ONE[1, 1] = 1.0
TIMES = [[6.71e-02, 8.36e-01], [1.385, 1.5e-02], [1.348, 1.0618e03], [8.93, 1.53e-03]]
HARD = {
    "one entry": (mc.Huber(), ONE, {"effects_weight": 1e-3}, []),
    "a constant": (mc.Huber(), np.full((7, 3), 2.5), {"effects_weight": 1e-4}, []),
    "times": (mc.Exponential(), np.array(TIMES), {"standardize": True}, [mc.Ridge(0.02)]),
    "short times": (mc.Gamma(3.0), 1e-5 * np.array(TIMES), {}, []),
}


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
@pytest.mark.parametrize("name", HARD)
def test_the_reference_certifies_what_it_used_to_miss(name):
    """Values of any size inside an exponential, a scale without the ridge on effects."""
    word, values, options, terms = HARD[name]
    effects = {"bias": True, "row_effects": True} if "effects_weight" in options else {}
    block = mc.Block("x", word, **options, **effects)
    found = mc.verify(mc.Model([block], [mc.NuclearNorm(0.1), *terms]), {"x": values})
    assert found.reference.status == "certified"
    assert found.agrees


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
def test_effects_that_a_light_ridge_alone_holds_are_solved_for():
    """Damped as if the loss were flat, Newton's steps crept and ended far from the best ones."""
    block = mc.Block("x", mc.Huber(), bias=True, row_effects=True, effects_weight=1e-4)
    problem = Problem.bind(mc.Model([block], [mc.NuclearNorm(0.5)]), {"x": ONE})
    # The ridge is least where bias, row effect and intercept share a value of 1.
    found = at_zero(CompiledProblem(problem).program)[1].objective
    assert found == pytest.approx(1e-4 / 6, rel=1e-3)


def classes(n_classes):
    rng = np.random.default_rng(3)
    values = rng.integers(0, n_classes, (6, 4)).astype(float)
    values[rng.random(values.shape) < 0.25] = np.nan
    model = mc.Model([mc.Block("x", mc.Multinomial(n_classes), bias=True)], [mc.NuclearNorm(0.5)])
    return model, {"x": values}


def test_the_time_of_a_verification_is_limited():
    """A few seconds at most where it would take minutes; the answer says that it was cut short."""
    model, data = classes(30)
    began = time.perf_counter()
    with pytest.warns(mc.NotCertifiedWarning, match="time_limit"):
        found = mc.verify(model, data, max_seconds=1.5)
    assert time.perf_counter() - began < 15.0  # of some forty
    assert found.reference.status == "time_limit"
    assert found.verdict == "too inexact"


def test_no_time_is_an_error():
    with pytest.raises(mc.BackendError, match="max_seconds were spent"):
        mc.fit(MODEL, {"x": X}, backend="reference", max_seconds=1e-9)


def test_the_estimate_of_a_reference_counts_classes_and_iterations():
    few, many = (mc.explain(*classes(k)).eligibilities[-1].cost for k in (2, 30))
    assert "less than 0.1 s as a rule" not in many
    assert "minutes at most" in many
    assert "minutes" not in few


class Panic(BaseException):
    """As those of pyo3, which are no Exception."""


@pytest.mark.parametrize("raised", [Panic, ZeroDivisionError])
def test_a_conic_solver_that_breaks_down_is_an_error_of_the_package(monkeypatch, raised):
    def solve(*arguments, **options):
        raise raised("Eigval error")

    chain = cvxpy.reductions.solvers.solving_chain.SolvingChain
    monkeypatch.setattr(chain, "solve_via_data", solve)
    with pytest.raises(mc.BackendError, match="Eigval error"):
        mc.fit(MODEL, {"x": X}, backend="reference")


def test_ctrl_c_within_a_conic_solver_is_no_breakdown(monkeypatch):
    def solve(*arguments, **options):
        raise KeyboardInterrupt

    chain = cvxpy.reductions.solvers.solving_chain.SolvingChain
    monkeypatch.setattr(chain, "solve_via_data", solve)
    with pytest.raises(KeyboardInterrupt):
        mc.fit(MODEL, {"x": X}, backend="reference")


def test_numbers_that_no_conic_solver_takes_are_refused():
    model = attrs.evolve(MODEL, terms=(mc.NuclearNorm(1e100),))
    with pytest.raises(mc.BackendError, match="numbers beyond"):
        mc.fit(model, {"x": X}, backend="reference")


def test_infinite_bounds_along_a_search_do_not_warn():
    y = np.array([[1.0, 0.0, np.nan, 1.0], [np.nan, 1.0, 0.0, 0.0], [1.0, np.nan, 1.0, 0.0]])
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli())
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(0.5), mc.Ridge(0.1)])
    assert mc.fit(model, {"y": y}, backend="reference").status == "certified"


class Broken(mc.Proximal):
    """Which has no first certificate."""

    begins_at_zero = False

    def candidate(self, program, state):
        raise FloatingPointError("underflow")


def test_a_fit_that_ends_before_its_first_certificate_is_printed():
    with pytest.warns(mc.NotCertifiedWarning, match="the arithmetic broke down"):
        fit = mc.fit(MODEL, {"x": X}, backend=Broken())
    assert "0 iterations" in repr(fit)
    assert fit.history[-1].objective == fit.objective


@pytest.mark.parametrize("size", [1e9, 1e17, 1e150])
def test_a_small_ball_beside_a_ridge_is_not_rounded_away(size):
    """The maximiser of a conjugate was 0 there, and bounds lay above the optimum."""
    penalty = SpectralPenalty(mc.NuclearBall(1e-8), ridge=1.0)
    wanted = {1: size * 1e-8, 2: size * 1e-8}
    for count in wanted:
        found = penalty.conjugate(np.full(count, size))
        assert found == pytest.approx(wanted[count], rel=1e-6)
    shrunk = mc.NuclearBall(1e-8).shrink(np.array([size, 0.5 * size]), 1.0)
    np.testing.assert_allclose(shrunk, [1e-8, 0.0], rtol=1e-12)


def test_new_rows_of_many_classes_take_little_memory():
    """The matrices over all pairs of classes took 0.5 GB and seconds."""
    model, data = classes(1000)
    fit = mc.fit(model, data)
    tracemalloc.start()
    rows = fit.predict_rows("x", {"x": data["x"][:2]})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
    np.testing.assert_allclose(rows, fit.predict("x")[:2], atol=1e-3)


LIMITED = {
    "variance": mc.Gaussian,
    "delta": mc.Huber,
    "scale": mc.Bernoulli,
    "shape": mc.Gamma,
    "dispersion": mc.NegativeBinomial,
}


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("size", [1e-150, 1e-40, 1e40, 1e150])
def test_losses_of_extreme_parameters_have_values(name, size):
    """Neither an exception nor a NaN; refused where their squares are no numbers."""
    word = LIMITED[name](**{name: size})
    y = np.array([1.0, 1.0, 1.0])
    with np.errstate(over="ignore", under="ignore"):
        value, gradient = word.value_and_gradient(np.array([-2.0, 0.0, 3.0]), y)
    assert word.curvature > 0.0
    assert not np.isnan([*value, *gradient]).any()
    for beyond in (size**2 if size not in (1e-40, 1e40) else 0.0, -1.0):
        with pytest.raises(mc.ModelError, match=name):
            LIMITED[name](**{name: beyond})


@pytest.mark.parametrize(
    ("weight", "given", "named"),
    [
        (1e200, {"weights": np.full((4, 3), 1e200)}, "with weight=1e.200 an entry"),
        (1.0, {"weights": np.full((4, 3), 1e308)}, "so small that their sum is finite"),
        (1.0, {"offset": 1e200}, "at most 1e.140 in size"),
    ],
)
def test_what_overflows_is_refused_where_data_are_read(weight, given, named):
    model = mc.Model([mc.Block("x", mc.Gaussian(), weight=weight)], [mc.NuclearNorm(1.0)])
    with pytest.raises(mc.DataError, match=named):
        mc.explain(model, {"x": mc.Observations(X, **given)})


def test_a_ridge_on_effects_that_underflows_is_a_ridge():
    effects = {"bias": True, "row_effects": True, "effects_weight": 1e-200}
    block = mc.Block("x", mc.Gaussian(), weight=1e-200, **effects)
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(1.0)]), {"x": X}, max_iter=5)
    assert fit.rank == 0


def run_extremes(n_examples, part):
    """Everything that may be asked of a model is answered, or refused by the package's errors."""

    def ask(answer):
        try:
            return answer()
        except mc.McframeError:
            return None

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(extreme_models())
    def holds(example):
        if example is None:
            return
        model, data = example
        ask(lambda: repr(mc.explain(model, data)))
        fit = ask(lambda: mc.fit(model, data, max_iter=40, max_seconds=1.0))
        if fit is not None:
            repr(fit)
            for block in model.blocks:
                ask(lambda name=block.name: fit.predict(name))
            rows = {name: values_of(values)[:2] for name, values in data.items()}
            ask(lambda: fit.predict_rows(model.blocks[0].name, rows))
        found = ask(lambda: mc.verify(model, data, max_seconds=1.0))
        if found is not None:
            assert found.verdict != "differ", found

    with warnings.catch_warnings():
        for category in (mc.NotCertifiedWarning, mc.UnobservedWarning):
            warnings.simplefilter("ignore", category)
        holds()


def test_extreme_models_end_in_answers_or_own_errors():
    run_extremes(4, 3)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100, 105))
def test_extreme_models_end_in_answers_or_own_errors_often(part):
    run_extremes(100, part)
