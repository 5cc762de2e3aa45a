"""The best constant of a column, beside brute force, over the catalogue of likelihoods."""

import attrs
import numpy as np
import pytest
from scipy import optimize
from scipy.special import softmax

import mcframe as mc
from mcframe.contracts.likelihood import fits_parameters
from mcframe.model.best_constants import (
    ColumnEntries,
    best_constants_of_entries,
    no_predictors,
    with_best_parameters,
)
from mcframe.selection import Held
from mcframe.selection.criteria import fit_of_constants
from mcframe.tables.coding import Choice, Levels, Numbers
from tests.catalogue import LIKELIHOODS

# Those with a finite best constant for values that are not all alike.
ENTRIES = [
    entry
    for entry in LIKELIHOODS
    if not (entry.word.indicator or entry.word.reads_unlabeled)
    and entry.word.why_no_optimum is None
    and not np.isnan(entry.values).any()  # a risk, which reads unlabeled entries
]


def entries_of(entry, seed, decades, with_offsets):
    """Two columns of values of an entry of the catalogue, with weights over so many decades."""
    rng = np.random.default_rng(seed)
    values = np.tile(rng.permutation(entry.values), 4)
    columns = np.repeat([0, 2], values.size // 2)
    word = entry.word
    if fits_parameters(word):
        word = with_best_parameters(word, np.zeros(values.size), values, np.ones(values.size))
    weights = 10.0 ** rng.uniform(-0.5 * decades, 0.5 * decades, values.size)
    offsets = no_predictors(word, values)
    if with_offsets:
        offsets = entry.scale * rng.standard_normal(offsets.shape)
    return ColumnEntries(
        word.bound_to((values.size, 1), values), values, columns, weights, 3, offsets
    )


def lost(entries, column, constant, ridge):
    """The sum that a constant is to make least."""
    rows = entries.columns == column
    losses = entries.likelihood.value(entries.offsets[rows] + constant, entries.values[rows])
    return float(entries.weights[rows] @ losses) + 0.5 * ridge * float(np.sum(constant**2))


def least_by_brute_force(entries, column, ridge, about):
    """The least sum on a grid about a point, and from its best place on, by a search of SciPy."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.ndim(about) == 0:
            steps = np.concatenate([[0.0], np.geomspace(1e-9, 1e3, 400)])
            size = max(abs(float(about)), 1.0)
            places = np.concatenate([about - size * steps, about + size * steps, [0.0]])
            return min(lost(entries, column, place, ridge) for place in places)
        begin = np.zeros(np.shape(about))
        found = optimize.minimize(
            lambda z: lost(entries, column, z, ridge), begin, method="Powell", tol=1e-12
        )
        return min(found.fun, lost(entries, column, begin, ridge))


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize(
    ("decades", "with_offsets"),
    [
        pytest.param(0, False, marks=pytest.mark.slow(seconds=3)),
        (8, False),
        pytest.param(0, True, marks=pytest.mark.slow(seconds=3)),
        (4, True),
    ],
)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.word))
@pytest.mark.some(0.03)
def test_no_constant_loses_less(entry, decades, with_offsets, ridge):
    entries = entries_of(entry, 0, decades, with_offsets)
    constants = best_constants_of_entries(entries, ridge)
    assert np.all(constants[1] == 0.0)  # a column without entries
    for column in (0, 2):
        reached = lost(entries, column, constants[column], ridge)
        least = least_by_brute_force(entries, column, ridge, constants[column])
        size = np.sum(entries.weights) + abs(least)
        assert reached <= least + 1e-8 * size


def test_constants_have_closed_forms():
    rng = np.random.default_rng(0)
    y, weights = rng.poisson(3.0, 50) * 1.0, rng.random(50)
    columns = np.zeros(50, dtype=int)

    def constant(word, values, ridge=0.0):
        zeros = no_predictors(word, values)
        entries = ColumnEntries(word, values, columns, weights, 1, zeros)
        return best_constants_of_entries(entries, ridge)[0]

    mean = np.average(y, weights=weights)
    assert constant(mc.Gaussian(), y) == pytest.approx(mean, rel=1e-12)
    shrunken = np.sum(weights * y) / (np.sum(weights) + 5.0)
    assert constant(mc.Gaussian(), y, 5.0) == pytest.approx(shrunken, rel=1e-12)
    assert constant(mc.Poisson(), y) == pytest.approx(np.log(mean), rel=1e-12)
    labels = (y > 2.0) * 1.0
    share = np.average(labels, weights=weights)
    logit = np.log(share / (1.0 - share))
    assert constant(mc.Bernoulli(), labels) == pytest.approx(logit, rel=1e-12)
    classes = np.minimum(y, 2.0)
    shares = [np.sum(weights[classes == k]) for k in range(3)] / np.sum(weights)
    assert softmax(constant(mc.Multinomial(3), classes)) == pytest.approx(shares, rel=1e-6)


@pytest.mark.parametrize(
    ("q", "values", "middle"),
    [
        (0.5, [0.0, 1.0, 10.0, 20.0], 5.5),
        (0.25, [0.0, 1.0, 10.0, 20.0], 0.5),
        (0.5, [3.0, 1.0, 2.0], 2.0),
    ],
)
def test_where_several_constants_are_best_it_is_the_middle(q, values, middle):
    y = np.array(values)
    columns, weights = np.zeros(y.size, int), np.ones(y.size)
    entries = ColumnEntries(mc.Quantile(q), y, columns, weights, 1, np.zeros(y.size))
    assert best_constants_of_entries(entries)[0] == pytest.approx(middle, abs=1e-9)


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_labels_that_are_all_alike_have_a_finite_constant_with_a_ridge(alike):
    word, values = mc.Bernoulli(), np.full(20, alike)
    entries = ColumnEntries(word, values, np.zeros(20, int), np.ones(20), 1, np.zeros(20))
    [c] = best_constants_of_entries(entries, 0.1)
    assert 20.0 * (1.0 / (1.0 + np.exp(-c)) - alike) + 0.1 * c == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("with_offset", [False, True])
@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry.drawn], ids=lambda entry: str(entry.word)
)
def test_constants_of_a_criterion_are_those_of_a_fit(entry, with_offset):
    """A heavy norm leaves the biases alone; the certified fit has no less loss at Z = 0."""
    rng = np.random.default_rng(1)
    word = entry.word
    values = rng.choice(entry.values, (16, 2))
    values[: len(entry.values), :] = entry.values[:, None]
    if fits_parameters(word):
        word = attrs.evolve(
            word, thresholds=tuple(np.linspace(-1.0, 1.0, word.n_parameters).tolist())
        )
    offset = entry.scale * rng.standard_normal(values.shape) if with_offset else None
    data = {"v": mc.Observations(values, weights=1.0 + rng.random(values.shape), offset=offset)}
    ridge = None if word.location else 0.1
    block = mc.Block("v", word, bias=True, effects_weight=ridge)
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(1e9)]), data, tol=1e-8)
    constants = fit_of_constants(fit, "v")
    held = Held(*np.nonzero(np.ones(values.shape)), values.ravel())
    weights = data["v"].weights.ravel()

    def objective(answer):
        losses = weights @ answer.losses_at("v", held.rows, held.columns, held.values)
        effects = answer.problem.reported_effects("v", answer.effects)
        return losses + (0.0 if ridge is None else 0.5 * ridge * np.sum(effects**2))

    least = objective(fit)
    assert objective(constants) <= least + 1e-7 * abs(least) + 1e-9


@pytest.mark.parametrize("coding", [Choice(tuple("abcd")), Levels(tuple("abcd"))], ids=type)
def test_constants_of_codings_have_the_least_error(coding):
    for seed in range(50):
        codes = np.random.default_rng(seed).integers(0, 4, 1 + seed % 9) * 1.0
        errors = [np.sum(coding.errors(np.full(codes.size, k), codes)) for k in range(4)]
        assert coding.constant(codes) == np.argmin(errors)
    numbers = np.random.default_rng(0).standard_normal(20)
    best = Numbers().constant(numbers)
    for other in (best - 1e-3, best + 1e-3):
        assert np.sum((numbers - best) ** 2) < np.sum((numbers - other) ** 2)
