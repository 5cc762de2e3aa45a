"""A fit that changes its backend: when, from where, and what it says of it."""

import warnings

import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import BACKENDS, handover
from mcframe.backends.effort import EFFORTS, Effort
from mcframe.backends.handover import iterations_ahead
from mcframe.numerics.machine import OutOfTime

RNG = np.random.default_rng(2)
X = RNG.standard_normal((90, 60)) + RNG.standard_normal((90, 3)) @ RNG.standard_normal((3, 60))
X[RNG.random(X.shape) < 0.7] = np.nan
MODEL = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.3)])


def constant(count, seconds):
    iterations, rank, step = np.zeros((3, 9))
    iterations[0], step[0] = np.log(count), np.log(seconds)
    return Effort(tuple(iterations), tuple(rank), tuple(step), (seconds, *np.zeros(13)))


@pytest.fixture
def wrong(monkeypatch):
    """Alternation is taken, whose steps are dear, and whose iterations are far too few."""
    monkeypatch.setitem(EFFORTS, "alternating", constant(1, 1.0))
    monkeypatch.setitem(EFFORTS, "proximal", constant(100, 0.09))
    monkeypatch.setitem(EFFORTS, "factored", constant(100, 1.0))


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
    # Its steps are worth a second each, the other's nine in all at first, twelve to this gap.
    alone = fit(backend="alternating", max_iter=made)
    own = [record for record in changed.history if record.iteration <= made]
    assert [r.objective for r in own] == [r.objective for r in alone.history]
    assert made >= 12
    assert made <= 2 * 12


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
    assert "alternating hands over to proximal\n" in capsys.readouterr().out


def test_a_good_choice_is_kept(monkeypatch):
    """A step of any other is worth as much, and none is expected to need fewer."""
    for name in EFFORTS:
        monkeypatch.setitem(EFFORTS, name, constant(1000, 1.0))
    kept = fit()
    assert kept.backend == "proximal"
    assert "handed over" not in kept.message


def test_a_small_table_stays_where_it_is(wrong):
    small = {"x": X[:60, :50]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        begun = mc.fit(MODEL, small, backend="alternating", max_iter=1)
        slow = mc.fit(MODEL, small, tol=1e-12, max_iter=60, start=begun)
    assert slow.backend == "alternating"


def test_a_stuck_backend_hands_over_on_a_small_table():
    """Counts beside a heavier block: proximal makes no headway, alternating is soon done."""
    counts = np.zeros((7, 5))
    counts[0, 4], counts[1, 1], counts[3, 1], counts[6, 1:] = 2.0, 5.0, 3.0, [38.0, 5.0, 4.0, 10.0]
    counts[4, 0], counts[4, 2], counts[2, 0] = 2.0, np.nan, np.nan
    away = np.array([[-0.7, -0.6, -0.8, -0.6, -0.2, -0.1, 2.1]]).T
    x = np.array([[1.7, -0.4, 1.6, 1.1, 1.7, 0.2, 1.8], [1.9, np.nan, 0.2, 4.1, 0.3, 0.2, 4.1]]).T
    weights = np.array([[1, 12.1, 4.1, 0.1, 1, 1, 0.1], [1, 1, 1, 1, 6.9, 0.8, 6.2]]).T
    block = mc.Block("a", mc.Poisson(), weight=10.0, reduce="mean", standardize=True)
    other = mc.Block("b", mc.Gaussian(0.45), weight=200.0)
    data = {"a": mc.Observations(counts, offset=away), "b": mc.Observations(x, weights=weights)}
    model = mc.Model([block, other], [mc.NuclearNorm(0.01)])
    found = mc.fit(model, data)
    assert found.status == "certified"
    assert found.backend == "alternating"
    assert "proximal, slower than expected, handed over after" in found.message
    seen = found.history.iteration
    assert (np.diff(seen) > 0).all()
    assert seen[-1] < 2000


def test_what_has_no_estimate_is_not_doubted(monkeypatch):
    monkeypatch.delitem(EFFORTS, "proximal")
    monkeypatch.delitem(EFFORTS, "alternating")
    monkeypatch.setitem(EFFORTS, "factored", constant(10, 1e-6))
    assert fit(start=fit(backend="proximal", max_iter=20), max_iter=20).backend == "proximal"


def record(iteration, gap):
    return mc.Record(iteration, 0.0, 1.0, 1.0 - gap, gap, 5)


def test_time_that_is_up_within_an_estimate_ends_no_fit(wrong, monkeypatch):
    def out_of_time(compiled):
        raise OutOfTime

    monkeypatch.setattr(handover, "is_small", out_of_time)
    kept = fit(max_iter=3)
    assert kept.backend == "alternating"
    assert kept.status == "iteration_limit"


def test_iterations_that_are_left():
    falling = [record(k, 10.0 ** (-k / 10)) for k in (0, 8, 12, 20, 40)]
    assert iterations_ahead(falling, 1e-6) == pytest.approx(20.0)
    late = [*falling, record(80, 1e-4), record(100, 1e-4)]
    assert iterations_ahead(late, 1e-6) == np.inf
    assert iterations_ahead([record(0, np.inf), record(8, 0.1)], 1e-6) == 0.0
    assert set(BACKENDS) >= set(EFFORTS)
