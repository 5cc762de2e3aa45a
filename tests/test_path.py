"""The verb path: equal to cold fits, however it is interrupted, whatever it is given."""

import os
import signal
import warnings

import attrs
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.selection import paths

pytestmark = pytest.mark.core


def cold(model, data, weight, **options):
    return mc.fit(attrs.evolve(model, terms=[mc.NuclearNorm(weight)]), data, **options)


def sparse_table(rng, shape=(300, 200), share=0.05):
    n_cells = shape[0] * shape[1]
    rows, columns = np.divmod(rng.choice(n_cells, int(share * n_cells), False), shape[1])
    left, right = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2))
    values = np.einsum("ij,ij->i", left[rows], right[columns])
    return sp.coo_array((values, (rows, columns)), shape=shape)


def test_a_path_equals_cold_fits(model, table):
    path = mc.path(model, table, weights=mc.selection.Grid(count=6))
    assert len(path) == len(path.weights) == 6
    assert [fit.status for fit in path] == ["certified"] * 6
    np.testing.assert_allclose(path.weights, np.geomspace(1, 0.01, 6) * path.weights[0])
    for weight, fit in zip(path.weights, path, strict=True):
        assert fit.model.terms == (mc.NuclearNorm(weight),)
        expected = cold(model, table, weight)
        assert fit.objective == pytest.approx(expected.objective, rel=2e-6)
        assert fit.bound <= expected.objective
        assert fit.problem.tables is path[0].problem.tables


def test_the_largest_weight_is_the_smallest_that_gives_zero(model, table):
    path = mc.path(model, table, weights=mc.selection.Grid(count=3))
    assert path[0].rank == 0
    assert path[0].history[-1].iteration == 0
    assert cold(model, table, 0.99 * path.weights[0]).rank > 0


def test_large_sparse_tables_and_the_alternating_backend():
    rng = np.random.default_rng(0)
    data = {"x": sparse_table(rng, (500, 300))}
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    path = mc.path(
        model, data, backend="alternating", weights=mc.selection.Grid(count=5, ratio=0.2), tol=1e-5
    )
    gradient = np.linalg.norm(data["x"].toarray(), 2)
    assert path.weights[0] == pytest.approx(gradient, rel=1e-5)
    assert path.weights[0] >= gradient
    for weight, fit in zip(path.weights, path, strict=True):
        assert fit.backend == "alternating"
        expected = cold(model, data, weight, backend="alternating", tol=1e-5)
        assert fit.objective == pytest.approx(expected.objective, rel=2e-5)


def test_counts_whose_continuation_may_overflow(table):
    counts = np.round(np.exp(2.0 * table["features"]))
    model = mc.Model([mc.Block("n", mc.Poisson(), bias=True)], [mc.NuclearNorm(1.0)])
    path = mc.path(model, {"n": counts}, weights=mc.selection.Grid(count=6, ratio=1e-3), tol=1e-5)
    for weight, fit in zip(path.weights, path, strict=True):
        expected = cold(model, {"n": counts}, weight, tol=1e-5)
        assert fit.objective == pytest.approx(expected.objective, rel=2e-5)


def test_a_max_norm(table):
    model = mc.Model([mc.Block("features", mc.Gaussian())], [mc.MaxNorm(1.0)])
    data = {"features": table["features"]}
    path = mc.path(model, data, weights=mc.selection.Grid(count=3, ratio=0.3), tol=1e-4)
    assert path.term == "MaxNorm"
    assert path[0].rank == 0
    for weight, fit in zip(path.weights, path, strict=True):
        again = attrs.evolve(model, terms=[mc.MaxNorm(weight)])
        assert fit.objective == pytest.approx(mc.fit(again, data, tol=1e-4).objective, rel=2e-4)


def test_the_weight_of_another_term(model, table):
    both = attrs.evolve(model, terms=[mc.NuclearNorm(0.02), mc.Ridge(1.0)])
    path = mc.path(both, table, weights=mc.selection.Grid([0.1, 0.01], term=mc.Ridge))
    assert [fit.model.terms for fit in path] == [
        (mc.NuclearNorm(0.02), mc.Ridge(weight)) for weight in (0.1, 0.01)
    ]
    same = mc.path(both, table, weights=mc.selection.Grid([0.1, 0.01], term=mc.Ridge(1.0)))
    assert same[1].objective == path[1].objective


def test_a_term_with_data_of_its_own(model, table):
    terms = [mc.NuclearNorm(0.02), mc.ResidualNuclearNorm("features", 1.0)]
    both = attrs.evolve(model, terms=terms)
    path = mc.path(
        both, table, weights=mc.selection.Grid([0.02, 0.01], term=mc.ResidualNuclearNorm), tol=1e-4
    )
    single = attrs.evolve(both, terms=[terms[0], mc.ResidualNuclearNorm("features", 0.01)])
    expected = mc.fit(single, table, tol=1e-4)
    assert path[1].objective == pytest.approx(expected.objective, rel=2e-4)


def test_the_reference_starts_anew(model, table):
    path = mc.path(model, table, backend="reference", weights=[0.05, 0.02], tol=1e-5)
    assert path[1].objective == pytest.approx(mc.fit(model, table).objective, rel=2e-5)


def test_frames_keep_their_labels(model, table):
    items = [f"item{i}" for i in range(20)]
    frames = {name: pd.DataFrame(block, index=items) for name, block in table.items()}
    path = mc.path(model, frames, weights=[0.05, 0.02])
    assert path[-1].predict("features").index.tolist() == items


@pytest.mark.parametrize("kind", [tuple, np.array, pd.Series])
def test_weights_may_come_in_any_sequence(model, table, kind):
    path = mc.path(model, table, weights=kind([0.05, 0.02]), tol=1e-3)
    np.testing.assert_array_equal(path.weights, [0.05, 0.02])


def test_budgets_end_fits_and_not_the_path(model, table):
    with pytest.warns(
        mc.NotCertifiedWarning, match=r"3 of 4 fits are not .*iteration_lim"
    ) as said:
        path = mc.path(model, table, weights=mc.selection.Grid(count=4), max_iter=2)
    assert len(said) == 1
    assert len(path) == 4
    assert path[-1].status == "iteration_limit"


def interrupting(at, how):
    """``solved`` that is interrupted in the fit number ``at``."""
    solved, calls = paths.solve_with, []

    def interrupted(compiled, chosen, settings):
        calls.append(1)
        if len(calls) < at:
            return solved(compiled, chosen, settings)
        return how(solved, compiled, chosen, settings)

    return interrupted


def control_c_within(solved, compiled, chosen, settings):
    def interrupt(record):
        os.kill(os.getpid(), signal.SIGINT)

    return solved(compiled, chosen, attrs.evolve(settings, callback=interrupt))


def control_c_between(solved, compiled, chosen, settings):
    raise KeyboardInterrupt


def no_answer(solved, compiled, chosen, settings):
    raise mc.BackendError("the conic solver found nothing")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("how", "kept", "said"),
    [
        (control_c_within, 3, "ended after 3 of 5 weights: it was interrupted from outside"),
        (control_c_between, 2, "ended after 2 of 5 weights: it was interrupted from outside"),
        (no_answer, 2, "ended after 2 of 5 weights: the conic solver found nothing"),
    ],
)
def test_what_is_done_is_never_lost(model, table, monkeypatch, how, kept, said):
    monkeypatch.setattr(paths, "solve_with", interrupting(3, how))
    with pytest.warns(mc.NotCertifiedWarning, match=said):
        path = mc.path(model, table, weights=mc.selection.Grid(count=5))
    assert len(path) == path.weights.size == kept
    assert path[1].status == "certified"
    assert (path[-1].status == "interrupted") == (kept == 3)


@pytest.mark.parametrize("how", [control_c_between, no_answer])
def test_nothing_done_is_passed_on(model, table, monkeypatch, how):
    monkeypatch.setattr(paths, "solve_with", interrupting(1, how))
    with pytest.raises((KeyboardInterrupt, mc.BackendError)):
        mc.path(model, table, weights=mc.selection.Grid(count=5))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"weights": [0.1, 0.2]}, r"weights hold 0.2 after 0.1; they must descend"),
        ({"weights": [0.1, 0.1]}, r"0.1 after 0.1"),
        ({"weights": [0.1, 0.0]}, r"weights hold 0; each must be above 0"),
        ({"weights": [np.inf, 0.1]}, "weights hold inf"),
        ({"weights": []}, "at least one"),
        ({"weights": "many"}, "weights='many'"),
        ({"weights": ["2", "1"]}, r"weights=\['2', '1'\] were given; a list of numbers"),
        ({"weights": [True]}, r"weights=\[True\]"),
        ({"weights": 0.5}, r"weights of shape \(\) were given; .* such as \[1.0\]"),
        (
            {"weights": mc.selection.Grid(term=mc.MaxNorm)},
            r"term=MaxNorm was given, which is none .*NuclearNorm\(weight=0.02",
        ),
        (
            {"weights": mc.selection.Grid(term=mc.NuclearNorm(7.0))},
            r"term=NuclearNorm\(weight=7.0, count_share=0.0\)",
        ),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"backend": "fast"}, "backend='fast'"),
    ],
)
def test_wrong_options_are_named(model, table, options, named):
    with pytest.raises(mc.ModelError, match=named):
        mc.path(model, table, **options)


@pytest.mark.parametrize(
    ("terms", "options", "named"),
    [
        ([mc.NuclearNorm(1.0), mc.MaxNorm(1.0)], {}, "no term was given, which is several"),
        ([mc.NuclearBall(1.0)], {}, "the model has no term with a weight"),
        (
            [mc.NuclearNorm(1.0), mc.ResidualNuclearNorm("features", 1.0)],
            {"weights": mc.selection.Grid(term=mc.ResidualNuclearNorm)},
            r"no weight of ResidualNuclearNorm is known .* give weights=",
        ),
    ],
)
def test_a_first_weight_that_is_not_known_is_asked_for(model, table, terms, options, named):
    with pytest.raises(mc.ModelError, match=named):
        mc.path(attrs.evolve(model, terms=terms), table, **options)


def test_what_is_printed(model, table, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = mc.path(model, table, weights=[0.05, 0.02], progress=True)
    lines = repr(path).splitlines()
    assert lines[0] == "Path: 2 weights of NuclearNorm"
    assert lines[1].split() == ["weight", "status", "objective", "gap", "rank", "time"]
    assert lines[3].split()[:2] == ["0.02", "certified"]
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("path: 2 of 2 weights after")


@pytest.mark.parametrize("norm", [mc.NuclearNorm(2.0), mc.MaxNorm(2.0)])
def test_dual_norms(norm):
    rng = np.random.default_rng(0)
    gradient = rng.standard_normal((6, 5))
    largest = norm.dual_norm(gradient)
    values = [
        np.vdot(gradient, z) / (norm.value(z) / norm.weight)
        for z in (np.outer(rng.standard_normal(6), rng.standard_normal(5)) for _ in range(20))
    ]
    assert max(values) <= largest * (1 + 1e-12)
    assert norm.conjugate(gradient * norm.weight / largest * (1 - 1e-8)) == 0.0
    assert norm.conjugate(gradient * norm.weight / largest * (1 + 1e-6)) == np.inf
