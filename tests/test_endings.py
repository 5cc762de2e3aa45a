"""Statuses and reasons are facts: equal to their texts, and stored as them."""

import copy
import json
import pickle
import warnings

import numpy as np
import pytest

import mcframe as mc
from mcframe.commands.parsing import as_json
from mcframe.contracts import EdgeOfGridWarning
from mcframe.contracts.endings import AgreementStatus, Ending, Status, StopReason
from mcframe.selection.cross_validation_answer import without_edge_warnings
from mcframe.storage.serializing import deserialize, serialize

pytestmark = pytest.mark.core


@pytest.fixture
def model():
    return mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])


@pytest.fixture
def data():
    x = np.random.default_rng(0).standard_normal((12, 6))
    x[::3, ::2] = np.nan
    return {"x": x}


def stop(record):
    return record.iteration > 0


def quit_by_ctrl_c(record):
    if record.iteration > 0:
        raise KeyboardInterrupt


ENDS = [
    ({}, Status.CERTIFIED, StopReason.TOLERANCE),
    ({"max_iter": 1, "tol": 1e-9}, Status.ITERATION_LIMIT, StopReason.ITERATIONS),
    ({"callback": stop, "tol": 1e-13}, Status.INTERRUPTED, StopReason.CALLBACK),
    ({"callback": quit_by_ctrl_c, "tol": 1e-13}, Status.INTERRUPTED, StopReason.FROM_OUTSIDE),
    ({"tol": 0.0}, Status.LIMITED_BY_ROUNDING, StopReason.ROUNDING),
    ({"backend": "fpc", "tol": 0.0}, Status.LIMITED_BY_ROUNDING, StopReason.ROUNDING),
]


@pytest.mark.parametrize(("options", "status", "reason"), ENDS)
def test_a_fit_says_how_and_why_it_ended(options, status, reason, model, data, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, data, **{"backend": "proximal", **options})
    assert (fit.status, fit.reason) == (status, reason)
    assert fit.status is status
    assert fit.status == status.value
    assert str(fit).startswith(f"Fit: {status.value} (")
    fit.save(tmp_path / "fit.npz")
    for again in (mc.load(tmp_path / "fit.npz"), pickle.loads(pickle.dumps(fit))):
        assert again.status is status
        assert again.reason is reason


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        return mc.fit(*arguments, **options)


def ending_of(fit):
    return fit.status, fit.reason


def test_an_objective_that_falls_without_end_is_a_reason():
    labels = np.where(np.random.default_rng(0).random((20, 8)) < 0.2, 1.0, np.nan)
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli())
    falling = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(0.3)])
    fit = quietly(falling, {"y": labels}, backend="factored")
    assert ending_of(fit) == (Status.UNBOUNDED, StopReason.FALLS_WITHOUT_END)


def test_a_stationary_point_is_a_reason():
    labels = np.where(np.random.default_rng(0).random((20, 8)) < 0.3, 1.0, np.nan)
    risk = mc.RiskMixture(
        pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli("probit"), nonconvex=True
    )
    nonconvex = mc.Model([mc.Block("y", risk)], [mc.NuclearBall(3.0)])
    fit = quietly(nonconvex, {"y": labels})
    assert ending_of(fit) == (Status.LOCAL, StopReason.STATIONARY)


def test_time_is_a_reason(model, data):
    fit = quietly(model, data, backend="proximal", tol=1e-13, max_seconds=1e-9)
    assert ending_of(fit) == (Status.TIME_LIMIT, StopReason.TIME)


def test_a_rule_of_the_solver_is_a_reason(model, data):
    fit = quietly(model, data, backend=mc.FPC(stopping="published"), tol=0.0)
    assert ending_of(fit) == (Status.INTERRUPTED, StopReason.OWN_RULE)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FloatingPointError("overflow"), StopReason.ARITHMETIC),
        (np.linalg.LinAlgError("SVD did not converge"), StopReason.ARITHMETIC),
        (MemoryError("64 GB"), StopReason.MEMORY),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_breaks_after_an_answer_is_a_reason(error, reason, model, data, monkeypatch):
    step, steps = mc.Proximal.step, []

    def breaks(solver, program, state):
        steps.append(state)
        if len(steps) > 12:  # the first certificate comes before
            raise error
        step(solver, program, state)

    monkeypatch.setattr(mc.Proximal, "step", breaks)
    fit = quietly(model, data, backend="proximal", tol=1e-15)
    assert ending_of(fit) == (Status.INTERRUPTED, reason)


def test_a_certificate_that_the_objective_contradicts_is_a_reason(model, data, monkeypatch):
    objective = mc.Problem.objective
    monkeypatch.setattr(mc.Problem, "objective", lambda *point: 2.0 * objective(*point))
    fit = quietly(model, data, backend="proximal")
    assert ending_of(fit) == (Status.INTERRUPTED, StopReason.CONTRADICTION)


def test_files_without_a_reason_have_the_usual_one(model, data):
    fit = mc.fit(model, data)
    arrays, facts = serialize(fit, "fit")
    assert facts["status"] == "certified"
    del facts["reason"]
    assert deserialize(arrays, facts).reason is StopReason.TOLERANCE


@pytest.mark.parametrize("wrong", ["certifed", 3, None])
def test_other_statuses_in_a_file_are_refused(wrong, model, data):
    arrays, facts = serialize(mc.fit(model, data), "fit")
    with pytest.raises(mc.DataError, match=r"Fit: status=.* was given; 'certified' or"):
        deserialize(arrays, {**facts, "status": wrong})


@pytest.mark.parametrize("fact", [*Status, *StopReason, *AgreementStatus])
def test_a_fact_is_its_text(fact):
    assert fact == fact.value
    assert hash(fact) == hash(fact.value)
    assert (str(fact), f"{fact:>30}".strip()) == (fact.value, fact.value)
    assert repr(fact) == repr(fact.value)
    assert json.loads(json.dumps(fact)) == as_json(fact) == fact.value
    assert copy.deepcopy(fact) is fact


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_usual_reason(status):
    assert Ending(status, "").reason is status.usual_reason


def test_a_posterior_says_how_it_ended(model, data):
    model = mc.Model(model.blocks, [mc.NuclearNorm()])
    assert mc.posterior(model, data).status is Status.CONVERGED
    with pytest.warns(mc.NotConvergedWarning):
        assert mc.posterior(model, data, max_iter=1).status is Status.ITERATION_LIMIT


def test_a_comparison_has_a_verdict(model, data):
    assert mc.verify(model, data).verdict is AgreementStatus.AGREE


def test_a_best_weight_at_an_edge_is_a_warning_of_its_own(model, data):
    def choose():
        return mc.cross_validate(model, data, weights=[0.03, 0.02, 0.01], cv=2)

    with pytest.warns(EdgeOfGridWarning, match="the lowest mean score is at the largest weight"):
        choose()
    with warnings.catch_warnings(), without_edge_warnings():
        warnings.simplefilter("error", mc.NotCertifiedWarning)
        choose()
