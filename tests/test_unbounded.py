"""Objectives that fall without end: every solver says so, and of no other one."""

import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings

import mcframe as mc
from mcframe.backends import Reference, eligibilities
from mcframe.backends.conic import Silent
from mcframe.compile import CompiledProblem
from mcframe.compile.penalty import NoPenalty
from mcframe.numerics.operators import LowRank

from .strategies import ROUGH, SMOOTH, falling_models, planted_sets

RNG = np.random.default_rng(70001)
POSITIVES = np.where(RNG.random((30, 12)) < 0.1, 1.0, np.nan)
RISK = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli())
MEANS = np.full((1, 30), 1 / 30)
BESIDE = {
    "nothing": [],
    "a column of ones": [mc.OnesColumn()],
    "a box below 0": [mc.Box(-1.0, np.inf)],
    "a box at 0": [mc.Box(0.0, np.inf)],
    "sums of 0": [mc.Calibration("y", MEANS, np.zeros((1, 12)), of="predictors")],
    "sums": [mc.Calibration("y", MEANS, np.full((1, 12), 0.1), of="predictors")],
    "a penalty on sums": [mc.Calibration("y", MEANS, np.full((1, 12), 0.1), 2.0, "predictors")],
}


def answers(model, data, max_seconds=5.0):
    """The fits of all backends that can run, by name; those without an answer left out."""
    able = eligibilities(CompiledProblem(mc.Problem.bind(model, data)))
    fits = {}
    for name in ["auto", *(verdict.name for verdict in able if verdict.can_run)]:
        try:
            fits[name] = mc.fit(model, data, backend=name, max_seconds=max_seconds)
        except mc.BackendError:
            continue
    return fits


@pytest.mark.parametrize("main", [mc.NuclearNorm(0.3), mc.MaxNorm(0.3)], ids=repr)
@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
@pytest.mark.some(0.3)
def test_every_solver_says_that_the_objective_falls(main, beside):
    model = mc.Model([mc.Block("y", RISK)], [main, *beside])
    with pytest.warns(mc.NotCertifiedWarning, match="unbounded: the objective falls without end"):
        fits = answers(model, {"y": POSITIVES})
    assert {"auto", "factored", "reference"} <= set(fits)
    for fit in fits.values():
        assert fit.status == "unbounded"
        assert fit.bound == -np.inf
        assert fit.history[-1].iteration <= 40
        assert np.isfinite(fit.objective)


@pytest.mark.parametrize("word", [mc.Gaussian(), mc.Huber()], ids=repr)
def test_it_is_seen_beside_sums_of_a_block_whose_effects_stay(word):
    """Those of a block that does not fall: its biases have no move, and its sums count Z alone."""
    blocks = [mc.Block("y", RISK), mc.Block("x", word, bias=True)]
    sums = mc.Calibration("x", MEANS, np.full((1, 4), 0.5))
    model = mc.Model(blocks, [mc.NuclearNorm(0.3), sums])
    values = RNG.standard_normal((30, 4))
    with pytest.warns(mc.NotCertifiedWarning, match="unbounded: the objective falls without end"):
        fit = mc.fit(model, {"y": POSITIVES, "x": values}, max_seconds=10.0)
    assert fit.status == "unbounded"


@pytest.mark.parametrize(
    "bounding", [mc.Ridge(1e-3), mc.Box(-np.inf, 2.0), mc.NuclearBall(50.0)], ids=repr
)
def test_what_bounds_it_is_certified(bounding):
    model = mc.Model([mc.Block("y", RISK)], [mc.NuclearNorm(0.3), bounding])
    assert mc.fit(model, {"y": POSITIVES}).status == "certified"


@pytest.mark.parametrize("word", [w for w in SMOOTH + ROUGH if w.width == 1], ids=repr)
def test_it_is_seen_beside_any_other_loss(word):
    values = np.nan_to_num(POSITIVES[:, :4], nan=2.0)
    values = np.where(word.invalid(values), 1.0, values)
    blocks = [mc.Block("y", RISK), mc.Block("x", word)]
    model = mc.Model(blocks, [mc.NuclearNorm(0.3)])
    with pytest.warns(mc.NotCertifiedWarning, match="unbounded: the objective falls without end"):
        fit = mc.fit(model, {"y": POSITIVES, "x": values}, max_seconds=10.0)
    assert fit.status == "unbounded"


def check(example, tally):
    """No bound contradicts the status "unbounded", and where one solver says it all do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = answers(*example, max_seconds=4.0)
    bounded = {name: fit for name, fit in fits.items() if np.isfinite(fit.bound)}
    falling = {name: fit for name, fit in fits.items() if fit.status == "unbounded"}
    tally["models"] += 1
    tally["unbounded"] += bool(falling)
    tally["bounded"] += bool(bounded)
    assert not (bounded and falling), fits
    if falling:
        assert all(fit.status == "unbounded" for fit in fits.values()), fits


@pytest.mark.parametrize(
    ("part", "n_examples"),
    [
        (0, 4),
        pytest.param(0, 8, marks=pytest.mark.slow(seconds=5)),
        *(pytest.param(k, 150, marks=pytest.mark.slow) for k in (1, 2)),
    ],
)
def test_random_risks_are_unbounded_for_all_solvers_or_for_none(part, n_examples, record_property):
    tally = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(falling_models())
    def holds(example):
        check(example, tally)

    holds()
    record_property("unbounded", ", ".join(f"{k} {v}" for k, v in sorted(tally.items())))
    assert min(tally["unbounded"], tally["bounded"]) >= n_examples / 5


def test_an_iteration_that_overflows_at_once_says_it_too():
    """Labels of a large scale under a small weight: alternation has no second iterate."""
    risk = mc.RiskMixture(nu=1.0, missing_rate=0.9, likelihood=mc.Bernoulli(scale=3e5))
    labels = np.full((4, 4), np.nan)
    labels[[0, 0, 1, 2, 3, 3], [1, 2, 0, 3, 1, 2]] = [0, 1, 0, 1, 0, 0]
    blocks = [mc.Block("risk", risk, weight=0.0879), mc.Block("y", mc.Bernoulli(scale=0.5))]
    data = {"risk": labels, "y": np.array([[np.nan, 0.0], [1.0, np.nan], *[[np.nan] * 2] * 2])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = answers(mc.Model(blocks, [mc.NuclearNorm(8.79e-10)]), data)
    assert {name: fit.status for name, fit in fits.items()} == dict.fromkeys(fits, "unbounded")
    assert {"alternating", "reference"} <= set(fits)


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
@pytest.mark.parametrize("status", ["unbounded", "unbounded_inaccurate", "infeasible"])
def test_what_conic_solvers_agree_on_is_not_believed_against_a_proof(status, monkeypatch):
    """Sets that meet in a planted point, and squared losses, which have a lower bound."""

    def wrong(self, scale, stated, solver, until):
        for variable in stated.problem().variables():  # the direction that it gives
            variable.value = np.ones(variable.shape)
        raise Silent(solver, status)

    monkeypatch.setattr(Reference, "conic", wrong)

    @seed(0)
    @settings(max_examples=30, phases=[Phase.generate], deadline=None)
    @given(planted_sets())
    def holds(example):
        model, data, _ = example
        with pytest.raises(mc.BackendError) as raised:
            mc.fit(model, data, backend="reference")
        assert "agree" not in str(raised.value)
        assert "which is no proof of anything" in str(raised.value)

    holds()


def test_no_penalty_grows_along_no_direction():
    direction = LowRank(np.ones((4, 1)), np.ones((3, 1)))
    assert NoPenalty().recession(direction) == 0.0
