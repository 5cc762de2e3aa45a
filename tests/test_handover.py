"""A fit that changes its backend: when, from where, and what it says of it."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import Certificate, choice, feasible
from mcframe.backends.choice import iterations_ahead

from .strategies import least_radius

RNG = np.random.default_rng(2)
X = RNG.standard_normal((90, 60)) + RNG.standard_normal((90, 3)) @ RNG.standard_normal((3, 60))
X[RNG.random(X.shape) < 0.7] = np.nan
MODEL = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.3)])


@pytest.fixture
def wrong(monkeypatch):
    """Alternation is taken, and soon has to make way for the next one."""
    monkeypatch.setattr(choice, "MAX_OPERATIONS_PER_ENTRY", 0)
    monkeypatch.setattr(choice, "ITERATIONS_PER_TURN", 20)
    candidates = [r for r in choice.CANDIDATES if r.name in ("alternating", "proximal")]
    monkeypatch.setattr(choice, "CANDIDATES", candidates)


def fit(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        return mc.fit(MODEL, {"x": X}, **{"tol": 1e-8, **options})


def test_a_slow_backend_hands_over(wrong):
    changed = fit()
    assert changed.backend == "proximal"
    assert changed.status == "certified"
    assert changed.gap <= 1e-8
    assert changed.message.startswith("the gap is at most")
    assert "alternating, slower than expected, handed over after" in changed.message
    made = int(changed.message.split("after ")[1].split()[0])
    alone = fit(backend="alternating", max_iter=made)
    own = [record for record in changed.history if record.iteration <= made]
    assert [r.objective for r in own] == [r.objective for r in alone.history]
    assert made >= 20
    assert made <= 2 * 20


def test_no_solver_with_steps_for_a_stiff_loss_takes_over(monkeypatch):
    """They would go on for thousands of iterations, where the first one needs some hundred."""
    monkeypatch.setattr(choice, "ITERATIONS_PER_TURN", 20)
    monkeypatch.setattr(choice, "MAX_REFERENCE_SECONDS", 0.0)
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1e-9)])
    fitted = mc.fit(model, {"x": X[:30, :12]}, max_iter=1500)
    assert fitted.status == "certified"
    assert fitted.backend == "splitting"
    assert "handed over" not in fitted.message


def test_the_history_goes_on(wrong):
    history = fit().history
    assert (np.diff(history.iteration) > 0).all()
    assert (np.diff(history.seconds) >= 0).all()
    assert (np.diff(history.bound) >= 0).all()
    assert (np.diff(history.gap) <= 0).all()


def test_a_callback_sees_all_of_it(wrong):
    seen = []
    changed = fit(callback=seen.append)
    at = [record.iteration for record in seen]
    assert sorted(set(at)) == sorted(changed.history.iteration.tolist())
    # The second backend begins by the record where the first one ended.
    assert len(at) == len(set(at)) + 1


def test_a_callback_that_stops_stops_for_good(wrong):
    stopped = fit(callback=lambda record: record.iteration >= 1)
    assert stopped.backend == "alternating"
    assert stopped.status == "interrupted"


def test_iterations_of_both_are_the_budget(wrong):
    changed = fit(max_iter=30, tol=1e-12)
    assert changed.backend == "proximal"
    assert changed.status == "iteration_limit"
    assert changed.history[-1].iteration == 30


def test_the_same_bits_twice(wrong):
    first, again = fit(), fit()
    np.testing.assert_array_equal(first.latent.left, again.latent.left)
    assert first.bound == again.bound


def test_a_resumed_fit_goes_on_with_the_solver_that_it_comes_from(wrong):
    changed = fit(max_iter=30, tol=1e-12)
    resumed = fit(start=changed, max_iter=8, tol=1e-12)
    assert resumed.backend == "proximal"
    assert resumed.objective <= changed.objective
    assert resumed.bound >= changed.bound
    named = fit(start=changed, max_iter=8, tol=1e-12, backend="proximal")
    assert [r.objective for r in resumed.history] == [r.objective for r in named.history]


def test_a_backend_asked_for_by_name_stays(wrong):
    assert fit(backend="alternating", max_iter=60).backend == "alternating"


def test_progress_names_both(wrong, capsys):
    fit(progress=True)
    assert "fit: " in (said := capsys.readouterr().err)
    assert "alternating hands over to proximal after" in said


def test_a_good_choice_is_kept():
    kept = fit()
    assert kept.backend == "proximal"
    assert "handed over" not in kept.message


@pytest.mark.slow(seconds=2)
def test_a_stuck_backend_hands_over_on_a_small_table():
    """Counts beside a heavier block: splitting makes no headway, the reference is soon done."""
    counts = np.zeros((7, 5))
    counts[0, 4], counts[1, 1], counts[3, 1], counts[6, 1:] = 2.0, 5.0, 3.0, [38.0, 5.0, 4.0, 10.0]
    counts[4, 0], counts[4, 2], counts[2, 0] = 2.0, np.nan, np.nan
    away = np.array([[-0.7, -0.6, -0.8, -0.6, -0.2, -0.1, 2.1]]).T
    x = np.array([[1.7, -0.4, 1.6, 1.1, 1.7, 0.2, 1.8], [1.9, np.nan, 0.2, 4.1, 0.3, 0.2, 4.1]]).T
    weights = np.array([[1, 12.1, 4.1, 0.1, 1, 1, 0.1], [1, 1, 1, 1, 6.9, 0.8, 6.2]]).T
    block = mc.Block("a", mc.Poisson(), weight=10.0, reduce="mean", standardize=True)
    other = mc.Block("b", mc.Gaussian(0.45), weight=200.0)
    data = {"a": mc.Observations(counts, offset=away), "b": mc.Observations(x, weights=weights)}
    model = mc.Model([block, other], [mc.NuclearNorm(0.005)])
    tiny = mc.fit(model, data)
    assert (tiny.backend, tiny.status) == ("reference", "certified")
    assert tiny.history[-1].iteration <= 600
    assert "splitting, slower than expected, handed over after" in tiny.message
    assert (np.diff(tiny.history.iteration) > 0).all()


def test_the_only_backend_that_can_stays(wrong, monkeypatch):
    monkeypatch.setattr(
        choice, "CANDIDATES", [r for r in choice.CANDIDATES if r.name == "alternating"]
    )
    assert fit(max_iter=60, tol=1e-12).backend == "alternating"


def record(iteration, gap):
    return mc.Record(iteration, 0.0, 1.0, 1.0 - gap, gap, 5)


def test_iterations_that_are_left():
    falling = [record(k, 10.0 ** (-k / 10)) for k in (0, 8, 12, 20, 40)]
    assert iterations_ahead(falling, 1e-6) == pytest.approx(20.0)
    late = [*falling, record(80, 1e-4), record(100, 1e-4)]
    assert iterations_ahead(late, 1e-6) == np.inf
    assert iterations_ahead([record(0, np.inf), record(8, 0.1)], 1e-6) == 0.0
    assert iterations_ahead([record(0, np.inf), record(8, np.inf)], 1e-6) == np.inf


def test_iterations_that_are_left_to_an_objective_far_above_its_optimum():
    """The gap is 1 to the end, though the objective falls tenfold in ten iterations."""
    falling = [mc.Record(k, 0.0, 1.0 + 10.0 ** (9 - k / 10), 1.0, 1.0, 3) for k in (0, 20, 40)]
    assert iterations_ahead(falling, 1e-6) == pytest.approx(110.0)


def test_a_backend_keeps_its_turn_while_its_objective_falls_by_orders():
    """Copies need 1,203 iterations; half way the objective is still far above the optimum."""
    rng = np.random.default_rng(4)
    x = 3.0 + rng.standard_normal((40, 2)) @ rng.standard_normal((2, 12))
    size = np.max(np.abs(x))
    x[rng.random(x.shape) < 0.3] = np.nan
    model = mc.Model([mc.Block("x", mc.Huber(size))], [mc.NuclearNorm(1e-12 * size)])
    fit = mc.fit(model, {"x": x}, max_iter=2000)
    assert fit.status == "certified"
    assert fit.backend == "splitting"


# No first-order solver makes headway on this table; a conic solver takes a tenth of a second.
HARD = mc.Model(
    [
        mc.Block("x", mc.Quantile(0.3), weight=22.3, reduce="mean"),
        mc.Block("y", mc.Poisson(), weight=0.01, reduce="mean"),
    ],
    [mc.NuclearNorm(1.0, count_share=0.9), mc.OnesColumn(), mc.Box(-2.0, 0.25)],
)


def hard_data():
    x = np.full((11, 4), np.nan)
    x[[3, 5, 6], 0] = -0.15, -0.37, 0.58
    x[[0, 1, 2, 5, 6, 8], 2] = -0.75, -1.03, -1.67, -0.42, -0.79, -2.15
    x[[2, 4, 6, 9], 3] = -0.87, -1.16, -0.26, 0.34
    counts = """14 0 0 20  1 1 0 5  0 3 0 3  7 44 0 98  0 4 1 10  5 34 1244 1  9 0 5 8
                0 2 4 1  12 0 0 0  1 5 4 3  0 1 8 1"""
    return {"x": x, "y": np.array(counts.split(), float).reshape(11, 4)}


def fit_hard(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        return mc.fit(HARD, hard_data(), **options)


def test_the_reference_is_asked_where_no_solver_makes_headway(capsys):
    seen = []
    found = fit_hard(callback=seen.append, progress=True)
    assert found.backend == "reference"
    assert found.status == "certified"
    assert found.gap <= 1e-6
    assert found.message.count("slower than expected, handed over after") == 2
    assert "the reference is asked after" in capsys.readouterr().err
    history = found.history
    assert (np.diff(history.iteration) > 0).all()
    assert (np.diff(history.bound) >= 0).all()
    # The next solver evaluates the point that it begins at anew, with sums in another order.
    assert (np.diff(history.gap) <= 1e-14).all()
    assert seen[-1] == history[-1]
    alone = fit_hard(backend="splitting", max_iter=history[-1].iteration)
    assert alone.status == "iteration_limit"
    assert found.objective < alone.objective


def in_a_tight_ball(excess):
    """A model whose ball is larger than the least one by this share, and its data."""
    rng = np.random.default_rng(1)
    planted = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 5))
    sums, seen = rng.standard_normal((2, 6)), rng.random(planted.shape) < 0.4
    z = cp.Variable(planted.shape)
    asked = [z[seen] == planted[seen], sums @ z == sums @ planted]
    ball = mc.NuclearBall((1.0 + excess) * least_radius(z, False, asked))
    model = mc.Model(
        [mc.Block("x", mc.Equality())], [ball, mc.Calibration("x", sums, sums @ planted)]
    )
    return model, {"x": np.where(seen, planted, np.nan)}


def test_every_backend_has_a_point_of_a_tight_ball():
    model, data = in_a_tight_ball(1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, data, backend="splitting", max_iter=20)
    assert np.isfinite(fit.objective)


@pytest.mark.slow(seconds=5)
def test_the_reference_soon_finds_a_point_of_a_tight_ball(monkeypatch):
    """Searches find nothing in it where the deepest point is not at hand."""
    monkeypatch.setattr(feasible, "solved_for_depth", lambda *_: None)
    model, data = in_a_tight_ball(1e-6)
    records = []
    with pytest.raises(mc.BackendError, match="no Z was found"):
        mc.fit(model, data, backend="splitting")
    fit = mc.fit(model, data, callback=records.append)
    assert fit.status == "certified"
    assert fit.backend == "reference"
    assert len(records) <= 3


@pytest.mark.parametrize("excess", [1e-3, 1e-4, 1e-6])
def test_a_start_from_which_nothing_feasible_comes_is_given_up(excess):
    model, data = in_a_tight_ball(excess)
    start = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)]), data)
    assert mc.fit(model, data, start=start).status == "certified"


def test_a_backend_that_was_stopped_for_a_silent_reference_goes_on(monkeypatch):
    """With a point of its own too, as a solver has that begins at Z = 0."""

    def fails(*_):
        raise mc.BackendError("no conic solver has an answer")

    monkeypatch.setattr(choice.Reference, "answer", fails)
    model, data = in_a_tight_ball(1e-3)
    fit = mc.fit(model, data, max_iter=3000)
    assert fit.status == "certified"
    assert "callback" not in fit.message


@pytest.mark.slow(seconds=2)
def test_solvers_go_on_where_the_reference_fails(monkeypatch):
    def fails(*_):
        raise mc.BackendError("no conic solver has an answer")

    monkeypatch.setattr(choice.Reference, "answer", fails)
    found = fit_hard(max_iter=3000)
    assert found.status == "iteration_limit"
    assert found.history[-1].iteration == 3000


@pytest.mark.slow(seconds=2)
def test_a_reference_that_is_inexact_leaves_its_point_to_the_solvers(monkeypatch):
    exact = fit_hard()
    monkeypatch.setattr(Certificate, "gap", 1e-3)
    found = fit_hard(max_iter=3000)
    assert found.backend != "reference"
    assert found.objective <= exact.objective * (1.0 + 1e-12)
    assert found.gap <= 1e-6


def test_ctrl_c_in_the_reference_keeps_the_best_point(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(choice.Reference, "answer", interrupted)
    found = fit_hard()
    assert found.status == "interrupted"
    assert np.isfinite(found.objective)


def test_a_callback_that_stops_at_the_reference_stops_for_good():
    stopped = fit_hard(callback=lambda record: record.gap <= 1e-6, tol=1e-12)
    assert stopped.backend == "reference"
    assert stopped.status == "interrupted"
    assert stopped.gap <= 1e-6
