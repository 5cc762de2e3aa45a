"""Steps of alternating factors followed further: never upwards, and faster than without."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import alternating as solver
from mcframe.backends.alternating import MAX_EXTRAPOLATION, align, extrapolate, parabola_minimiser
from mcframe.compile import compile_problem

pytestmark = pytest.mark.core


def program_of(likelihood, seed=0):
    """400 x 150, rank 3, a tenth observed, so much of the noise fitted that steps are many."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 150))
    y = z + 0.5 * rng.standard_normal(z.shape)
    y = y if isinstance(likelihood, mc.Gaussian) else (y > 0.0) * 1.0
    rows, columns = np.nonzero(rng.random(z.shape) < 0.1)
    table = sp.csr_array((y[rows, columns], (rows, columns)), shape=z.shape)
    weight = 3.0 if isinstance(likelihood, mc.Gaussian) else 1.2
    model = mc.Model([mc.Block("x", likelihood, bias=True)], [mc.NuclearNorm(weight)])
    return compile_problem(mc.Problem.bind(model, {"x": table}))


@given(st.floats(-2.0, 3.0), st.floats(0.1, 5.0), st.floats(-3.0, 3.0))
def test_the_lowest_point_of_a_parabola(place, bend, height):
    def value(share):
        return bend * (share - place) ** 2 + height

    found = parabola_minimiser(value(-1.0), value(0.0), value(1.0))
    assert found == pytest.approx(max(place, 0.0), abs=1e-6)


def test_where_there_is_no_parabola():
    assert parabola_minimiser(3.0, 2.0, 1.0) == MAX_EXTRAPOLATION
    assert 0.0 < parabola_minimiser(3.0, 2.0, np.inf) < 1.0
    assert parabola_minimiser(1e6, 0.0, -1e6 + 1.0) == MAX_EXTRAPOLATION


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_turned_factors_have_the_same_product_and_come_back(seed, width):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((20, width)), rng.standard_normal((15, width))
    turn = np.linalg.qr(rng.standard_normal((width, width)))[0]
    found = align(left @ turn, right @ turn, left, right)
    np.testing.assert_allclose(found[0], left, atol=1e-10)
    np.testing.assert_allclose(found[1], right, atol=1e-10)


@pytest.mark.parametrize("likelihood", [mc.Gaussian(), mc.Bernoulli()], ids=["reals", "labels"])
def test_the_objective_never_rises_and_falls_faster(monkeypatch, likelihood):
    """Beside the same solver without it, after the same number of steps."""
    program = program_of(likelihood)
    reached, gained = {}, []

    def watched(program, state):
        before = state.objective
        extrapolate(program, state)
        gained.append(before - state.objective)

    for name, move in (("with", watched), ("without", lambda program, state: None)):
        monkeypatch.setitem(solver.STAGES, "extrapolate", move)
        backend = solver.Alternating()
        state = backend.init(program, None, np.random.default_rng(0))
        for _ in range(14):
            backend.step(program, state)
        reached[name] = state.objective
    assert min(gained) >= 0.0
    assert max(gained) > 0.0
    assert reached["with"] < reached["without"]


def test_a_first_step_has_nothing_to_follow():
    program = program_of(mc.Gaussian())
    state = solver.Alternating().init(program, None, np.random.default_rng(0))
    solver.initial_columns(program, state)
    before = state.objective
    extrapolate(program, state)
    assert state.objective == before
    assert state.previous is not None


def test_what_is_not_lower_is_not_taken(monkeypatch):
    """A parabola may lead anywhere."""
    monkeypatch.setattr(solver, "parabola_minimiser", lambda *values: 1e4)
    program = program_of(mc.Gaussian())
    backend = solver.Alternating()
    state = backend.init(program, None, np.random.default_rng(0))
    for _ in range(12):
        before = state.objective
        backend.step(program, state)
        assert state.objective <= before * (1 + 1e-12)
