"""Stores of rows: verbs find one of the user's own, and data of others are refused by name."""

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.contracts import row_stores
from mcframe.contracts.endings import Ending
from mcframe.posterior.observed import Observed
from mcframe.posterior.row_pass import PosteriorRows
from mcframe.storage.serializing import deserialize, serialize

pytestmark = pytest.mark.core

MODEL = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])


@attrs.frozen(eq=False)
class Halves:
    """A table in two halves, which no code of the package knows."""

    upper: np.ndarray
    lower: np.ndarray

    @property
    def whole(self):
        return {"x": np.concatenate([self.upper, self.lower])}


class Recognised:
    """A store that has no ability: a ``RowStore``."""

    def holds(self, data):
        return isinstance(data, Halves)

    def refusal(self, values):
        return "halves were given; give both together" if isinstance(values, Halves) else None


class StoreOfHalves(Recognised):
    """A ``FittingStore`` and ``EstimatingStore`` that puts the halves together."""

    def fit(self, model, data, settings, *, backend, start, checkpoint):
        return mc.fit(model, data.whole, tol=settings.budget.tol)

    def explain(self, model, data):
        return mc.explain(model, data.whole)

    def estimate(self, ascent, model, data, seed, options, *, checkpoint):
        other = mc.posterior(model, data.whole, random_state=seed, max_iter=5)
        ascent.problem, ascent.engine = other.problem, other.engine
        ascent.ending = Ending(other.status, other.message)
        ascent.history.extend(other.history)


@pytest.fixture
def halves(monkeypatch):
    monkeypatch.setattr(row_stores, "STORES", list(row_stores.STORES))
    rng = np.random.default_rng(0)
    return Halves(rng.normal(size=(3, 4)), rng.normal(size=(4, 4)))


@pytest.mark.filterwarnings("ignore::mcframe.NotConvergedWarning")
def test_a_store_of_the_users_own_is_asked_by_all_three_verbs(halves):
    row_stores.register(StoreOfHalves())
    fit = mc.fit(MODEL, halves)
    assert fit.objective == mc.fit(MODEL, halves.whole).objective
    assert mc.explain(MODEL, halves).chosen == mc.explain(MODEL, halves.whole).chosen
    whole = mc.posterior(MODEL, halves.whole, max_iter=5)
    np.testing.assert_array_equal(mc.posterior(MODEL, halves).predict("x"), whole.predict("x"))


def test_a_store_without_the_ability_of_a_verb_is_refused(halves):
    row_stores.register(Recognised())
    for verb in (mc.fit, mc.explain, mc.posterior, mc.to_cvxpy):
        with pytest.raises(mc.DataError, match="halves were given; give both together"):
            verb(MODEL, halves)
    with pytest.raises(mc.DataError, match="block 'x': halves were given"):
        mc.fit(MODEL, {"x": halves})


def test_rows_of_a_posterior_of_version_0_2_are_read():
    """They say that they have no partitions, which a class of its own has now."""
    problem = mc.Problem.bind(MODEL, {"x": np.eye(3)})
    rows = PosteriorRows(Observed.of(problem))
    arrays, facts = serialize(rows, "rows")
    assert "partitions" not in facts
    again = deserialize(arrays, facts | {"partitions": None})
    assert isinstance(again, PosteriorRows)
    np.testing.assert_array_equal(again.program.by_rows.across, rows.program.by_rows.across)
    with pytest.raises(mc.DataError, match="has no 'partitions'"):
        deserialize(arrays, facts | {"partitions": 1})
