"""Problem and program agree; certificates hold at any point, not only at answers."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import Point, Proximal, certify
from mcframe.backends import certificate as certificates
from mcframe.backends.certificate import Dual
from mcframe.backends.feasible import made_feasible, with_fixed_columns
from mcframe.compile import compile_problem
from mcframe.contracts import Likelihood, TwiceDifferentiable
from mcframe.numerics.operators import LowRank

from .strategies import problems

pytestmark = pytest.mark.core


def bound_quietly(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        return mc.Problem.bind(model, data)


@settings(max_examples=60)
@given(problems(), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]))
def test_program_objective_is_problem_objective(example, seed, size):
    """Where nothing is lost on the way, both give the same number at random points."""
    problem = bound_quietly(*example)
    program = compile_problem(problem)
    rng = np.random.default_rng(seed)
    latent = LowRank(
        size * rng.standard_normal((problem.n_items, 2)),
        rng.standard_normal((problem.n_columns, 2)),
    )
    latent = with_fixed_columns(program, latent)
    evaluation = program.evaluate(latent)
    value = evaluation.value + program.penalty.of_singular_values(latent.singular_values())
    effects = program.effects_by_block(evaluation.effects)
    latent = program.latent(latent)
    objective = problem.objective(latent, effects)
    assert abs(value - objective) <= 1e-10 * max(1.0, abs(objective))
    # No other bias is better. (Thresholds must stay in order: their own law moves them.)
    for name in effects:
        if problem.layout(name).n_parameters:
            continue
        moved = {**effects, name: effects[name] + 0.01 * rng.standard_normal(effects[name].size)}
        assert problem.objective(latent, moved) >= objective - 1e-12 * max(1.0, abs(objective))


def test_an_iterate_moved_to_the_edge_of_a_ball_counts_as_inside():
    """Whatever rounding does to the factors that it is written in."""
    rng = np.random.default_rng(0)
    x, A = rng.standard_normal((9, 4)), rng.standard_normal((2, 9))
    sums = A @ (1e-3 * rng.standard_normal((9, 4)))
    terms = [mc.NuclearBall(0.05), mc.Calibration("x", A, sums)]
    model = mc.Model([mc.Block("x", mc.Gaussian())], terms)
    program = compile_problem(bound_quietly(model, {"x": x}))
    for size in np.geomspace(0.03, 30.0, 40):
        begin = LowRank(size * rng.standard_normal((9, 3)), rng.standard_normal((4, 3)))
        latent, _ = made_feasible(program, begin, (None,))
        assert program.penalty.value(latent) == 0.0
        assert all(term.value(latent.dense()) == 0.0 for term in program.terms)


def test_biases_of_a_huber_loss_do_not_go_to_and_fro_between_kinks():
    """Newton's steps from either of two kinks lead to the other; the best bias lies between."""
    weights, rng = np.array([[2.0], [1.0], [1.0]]) * np.ones((3, 300)), np.random.default_rng(0)
    x = np.array([[-1.2389], [-0.6022], [-0.13586]]) * np.ones((3, 300))
    model = mc.Model([mc.Block("x", mc.Huber(0.5), bias=True)], [mc.NuclearNorm(1.0)])
    problem = bound_quietly(model, {"x": mc.Observations(x, weights=weights)})
    program = compile_problem(problem)
    latent = LowRank(np.eye(3), 0.03 * rng.standard_normal((300, 3)))
    gradients = program.evaluate(latent).entry_gradients
    sums = np.bincount(program.entries.columns, weights=gradients)
    assert sums == pytest.approx(np.zeros(300), abs=1e-12)


@settings(max_examples=100)
@given(problems(), st.integers(0, 2**32 - 1))
def test_a_bound_from_any_point_holds(example, seed):
    """Random points, random multipliers: the bound lies below every objective there is."""
    problem = bound_quietly(*example)
    program = compile_problem(problem)
    rng = np.random.default_rng(seed)
    points = []
    for scale in (0.0, 0.1, 3.0):
        latent = LowRank(
            scale * rng.standard_normal((problem.n_items, 2)),
            rng.standard_normal((problem.n_columns, 2)),
        )
        dual = None
        if program.terms:  # a fixed column
            latent = with_fixed_columns(program, latent)
            multiplier = rng.standard_normal((problem.n_items, 1)) * rng.choice([0.01, 1.0])
            dual = Dual.of(program, program.evaluate(latent), (multiplier,))
        points.append(certify(program, Point(latent, dual)))
    highest = max(p.bound for p in points)
    assert highest <= min(p.objective for p in points)


class Plain(Likelihood, TwiceDifferentiable):
    """A logistic loss whose conjugate nobody wrote: convexity must serve."""

    needs, remedy = mc.Bernoulli.needs, mc.Bernoulli.remedy

    def __init__(self):
        self.inner = mc.Bernoulli()

    curvature = property(lambda self: self.inner.curvature)
    infimum = property(lambda self: self.inner.infimum)

    def invalid(self, y):
        return self.inner.invalid(y)

    def value(self, z, y):
        return self.inner.value(z, y)

    def value_and_gradient(self, z, y):
        return self.inner.value_and_gradient(z, y)

    def second_derivative(self, z, y):
        return self.inner.second_derivative(z, y)

    def mean(self, z):
        return self.inner.mean(z)

    def start(self, y):
        return self.inner.start(y)

    def expression(self, cp, z, y):
        return self.inner.expression(cp, z, y)

    def formula(self, z, y):
        return self.inner.formula(z, y)


@pytest.mark.parametrize(
    "terms",
    [
        [mc.NuclearNorm(0.3)],
        [mc.NuclearNorm(0.3), mc.Ridge(0.1)],
        [mc.NuclearNorm(0.3), mc.OnesColumn()],
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_a_loss_without_conjugate_is_certified_all_the_same(table, terms, bias):
    data = {"y": np.where(np.arange(20)[:, None] == 13, 1.0, table["labels"])}
    plain = mc.Model([mc.Block("y", Plain(), bias=bias)], terms)
    ours = mc.Model([mc.Block("y", mc.Bernoulli(), bias=bias)], terms)
    fit, usual = mc.fit(plain, data), mc.fit(ours, data)
    assert fit.status == "certified"
    assert fit.bound <= usual.objective
    assert abs(fit.objective - usual.objective) <= 1e-6 * usual.objective


def test_the_certificate_closes_at_the_optimum(model, table):
    """Ridge or none, bias or none, ones column or none: the gap falls to rounding."""
    features = mc.Block("features", mc.Gaussian(), bias=True)
    labels = mc.Block("labels", mc.Bernoulli(), bias=True)
    for terms in (
        [mc.NuclearNorm(1.0)],
        [mc.NuclearNorm(1.0), mc.Ridge(0.1)],
        [mc.Ridge(0.1)],
        [mc.NuclearNorm(1.0), mc.OnesColumn()],
    ):
        fit = mc.fit(mc.Model([features, labels], terms), table, tol=1e-10)
        assert fit.gap <= 1e-10


def test_rounding_is_taken_off_the_bound(table):
    """At an exactly solved problem the bound stays at or below the objective."""
    for weight in (0.01, 0.3, 2.0):
        model = mc.Model([mc.Block("features", mc.Gaussian())], [mc.Ridge(weight)])
        data = {"features": table["features"]}
        program = compile_problem(mc.Problem.bind(model, data))
        exact = np.where(np.isnan(table["features"]), 0.0, table["features"]) / (1 + weight)
        certificate = certify(program, Point(LowRank.of(exact)))
        assert certificate.bound <= certificate.objective
        # 16 roundings of terms that cancel to a fiftieth of their size
        gap = certificates.relative_gap(certificate.objective, certificate.bound)
        assert gap <= 50 * 16 * np.finfo(float).eps


def test_an_inexact_shrinkage_is_never_certified_as_exact():
    """A block iteration that misses singular values delays the fit; it cannot fool the bound."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 6)) @ rng.standard_normal((6, 120))
    x += 0.5 * rng.standard_normal(x.shape)
    x[rng.random(x.shape) < 0.5] = np.nan
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(8.0)])
    fit = mc.fit(model, {"x": x}, tol=1e-7)
    dense = mc.fit(model, {"x": x}, tol=1e-9, backend="fpc")
    assert fit.status == "certified"
    assert dense.bound <= fit.objective
    assert fit.bound <= dense.objective


def test_certificates_know_which_point_they_judge():
    assert certificates.relative_gap(1.0, 1.0) == 0.0
    assert certificates.relative_gap(2.0, 1.0) == 0.5
    assert certificates.relative_gap(0.0, 0.0) == 0.0
    assert certificates.relative_gap(1.0, -np.inf) == np.inf


def test_a_users_solver_runs_by_itself(model, table):
    """Any solver that keeps the contract may be passed to fit."""

    class Mine(Proximal):
        name = "mine"

    fit = mc.fit(model, table, backend=Mine())
    assert fit.backend == "mine"
    assert fit.status == "certified"
