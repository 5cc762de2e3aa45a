"""Posteriors of random models of everything: refused by name, or answers that agree."""

import re
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, assume, given, seed, settings
from hypothesis import strategies as st
from scipy import sparse

import mcframe as mc
from mcframe.contracts import Distribution
from mcframe.contracts.likelihood import has_probabilities
from mcframe.model import Problem
from mcframe.numerics.row_mixtures import RowMixture, moments_of
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.joint import JointPosterior

from .strategies import everything, posterior_models

# A block and the word, or the word alone, with the reason.
REFUSED = re.compile(
    r"no posterior: (block '\w+': )?(reduce='mean'|count_share=|normal equations|one prior of Z"
    r"|biases and row effects|[A-Z]\w+ (is|has|speaks)) .*"
)
# How many cells of a block are looked at, how many draws are taken of these, and how far means and
# deviations of so many may lie from closed forms, in their standard errors.
CELLS, DRAWS, ERRORS = 12, 4000, 6.0


def exponentials_overflow(posterior, name, rows, columns):
    """Where a count or a duration has no finite second moment in floats: the logs are too wide."""
    likelihood = posterior.engine.observed.likelihood(name)
    if likelihood.location or has_probabilities(likelihood):
        return False
    _, means, variances = posterior.engine.mixture(
        rows, posterior.problem.columns(name).start + columns
    )
    largest = np.max(means + 10.0 * np.sqrt(variances), axis=0)
    return posterior.tables[name].pending.invert(largest, rows, columns) > 300.0


def faults(posterior, name, rng):
    """What is wrong of the answers on one block, in words."""
    table, likelihood = posterior.tables[name], posterior.engine.observed.likelihood(name)
    rows = rng.integers(0, table.shape[0], CELLS)
    columns = rng.integers(0, table.shape[1], CELLS)
    mean = np.asarray(posterior.predict(name, rows, columns))
    sd = np.asarray(posterior.sd(name, rows, columns))
    endless = exponentials_overflow(posterior, name, rows, columns)
    if not np.all(np.isfinite(mean) | endless):
        yield f"{name}: mean {mean}"
    if not (np.all(np.isfinite(sd) | endless) and np.all(sd >= 0.0)):
        yield f"{name}: sd {sd}"
    if likelihood.width == 1 and not np.any(endless):
        ends = [posterior.interval(name, level, rows, columns) for level in (0.5, 0.9)]
        (low, high), (lowest, highest) = ends
        if not (np.all(np.isfinite(lowest)) and np.all(np.isfinite(highest))):
            yield f"{name}: interval {lowest} {highest}"
        if not np.all((lowest <= low) & (low <= high) & (high <= highest)):
            yield f"{name}: unordered {lowest} {low} {high} {highest}"
        if np.all(highest - lowest > 1e-9 * np.abs(mean)):  # else values round as coarsely
            yield from faults_of_density(posterior, name, (rows, columns), (lowest, highest))
        yield from faults_of_draws(posterior, name, (rows, columns), (mean, sd), ends[1])
    if has_probabilities(likelihood):
        yield from faults_of_sets(posterior, name, (rows, columns), mean)


def faults_of_sets(posterior, name, cells, mean):
    """What is wrong of probabilities, sets and densities of values."""
    likelihood = posterior.engine.observed.likelihood(name)
    probabilities = posterior.probabilities(name, *cells)
    chosen = posterior.set(name, 0.8, *cells)
    values = getattr(likelihood, "lowest", 0) + np.arange(probabilities.shape[1])
    if not np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-9):
        yield f"{name}: probabilities {probabilities}"
    if not np.all(np.sum(probabilities * chosen, axis=1) >= 0.8 - 1e-9):
        yield f"{name}: sets {chosen}"
    average = posterior.set(name, 0.8, *cells, on_average=True)
    held = np.sum(probabilities * average, axis=1)
    if held.mean() < 0.8 - 1e-9 or average.sum() > chosen.sum() or not np.all(average.any(axis=1)):
        yield f"{name}: sets on average {average}"
    if likelihood.width == 1 and not np.allclose(probabilities @ values, mean, atol=1e-8):
        yield f"{name}: mean {mean}, of probabilities {probabilities @ values}"
    for k, value in enumerate(values):
        density = posterior.log_predictive_density(name, *cells, np.full(CELLS, float(value)))
        if not np.allclose(np.exp(density), probabilities[:, k], atol=1e-6):
            yield f"{name}: density of {value} {np.exp(density)}, {probabilities[:, k]}"


def faults_of_density(posterior, name, cells, ends):
    """The integral of a density over an interval of 90 %, or the sum over counts."""
    likelihood, (low, high) = posterior.engine.observed.likelihood(name), ends
    ranked = posterior.model.block(name).standardize == "ranks"  # which have no density
    if ranked or has_probabilities(likelihood) or not isinstance(likelihood, Distribution):
        return
    if np.all(likelihood.invalid(np.array([0.5]))):  # counts
        if np.max(high) > 500.0:
            return
        points = np.arange(0.0, np.max(high) + 1.0)[:, None] + np.zeros(CELLS)
        widths, outside = np.ones_like(points), (points < low) | (points > high)
    else:
        shares = np.linspace(0.0, 1.0, 801)[:, None]
        edges = low + (high - low) * shares
        if np.all(likelihood.invalid(np.array([-1.0]))):  # over orders of magnitude
            edges = low * (high / low) ** shares
        points, widths = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges, axis=0)
        outside = np.zeros(points.shape, dtype=bool)
    flat = [np.tile(at, len(points)) for at in cells]
    density = posterior.log_predictive_density(name, *flat, points.ravel()).reshape(points.shape)
    covered = np.sum(np.where(outside, 0.0, widths * np.exp(density)), axis=0)
    wrong = (
        covered < 0.88
        if likelihood.invalid(np.array([0.5])).all()
        else np.abs(covered - 0.9) > 0.02
    )
    if np.any(wrong):
        yield f"{name}: 90 % intervals have {covered} by the density"


def faults_of_draws(posterior, name, cells, moments, ends):
    """Draws of new observations beside closed forms.

    Predictors of factors are products of Gaussians, and their distribution is taken for the
    Gaussian with these moments: that is exact in the moments of locations alone.
    """
    likelihood, (mean, sd) = posterior.engine.observed.likelihood(name), moments
    if isinstance(posterior.engine, JointPosterior):
        distributions = drawn_distributions(posterior.engine.refined)
        if distributions:
            yield from faults_of_drawn_rows(posterior.engine, cells[0], distributions)
            return
    draws = posterior.sample(name, DRAWS)[:, cells[0], cells[1]]
    exact = not isinstance(posterior.engine, FactorPosterior)
    ranked = posterior.model.block(name).standardize == "ranks"
    slack = 0.02 if exact else 0.06
    inside = np.mean((draws >= ends[0]) & (draws <= ends[1]), axis=0)
    if np.any(inside < 0.9 - slack - 0.01):
        yield f"{name}: 90 % intervals have {inside} of the draws"
    # Products of wide Gaussians have long tails, and lie within these intervals more often; so do
    # values with an interval of a few floats.
    whole = np.all(likelihood.invalid(np.array([0.5])))
    fine = ends[1] - ends[0] > 100.0 * np.spacing(np.abs(mean))
    if exact and not ranked and not whole and np.any(inside[fine] > 0.92 + slack):
        yield f"{name}: 90 % intervals have {inside} of the draws, sd {sd}"
    if likelihood.location and not ranked:
        errors = ERRORS * draws.std(axis=0) / np.sqrt(DRAWS) + 1e-7 * np.abs(mean)
        # A quantile is no mean.
        if likelihood.predicts_mean and np.any(np.abs(draws.mean(axis=0) - mean) > errors):
            yield f"{name}: draws have means {draws.mean(axis=0)}, not {mean}, sd {sd}"
        squares = np.square(draws - draws.mean(axis=0))
        errors = (
            ERRORS * squares.std(axis=0) / np.sqrt(DRAWS) + (1e-5 * sd + 1e-9 * abs(mean)) ** 2
        )
        if np.any(np.abs(squares.mean(axis=0) - sd**2) > 1.5 * errors):
            yield f"{name}: draws have deviations {draws.std(axis=0)}, not {sd}"
    if has_probabilities(likelihood):
        errors = ERRORS * sd / np.sqrt(DRAWS) + 0.002 + (0.0 if exact else 0.3 * sd)
        if np.any(np.abs(draws.mean(axis=0) - mean) > errors):
            yield f"{name}: draws have means {draws.mean(axis=0)}, not {mean}"


def drawn_distributions(engine):
    """The distributions of rows that were drawn, of which draws of z are; none where given."""
    if isinstance(engine.rows.components, RowsInGroups):
        return [levels.conditioned(engine.rows.table) for levels in engine.drawn_levels]
    drawn = engine.drawn_components
    if drawn is None:
        return []
    parts = zip(drawn.log_shares, drawn.means, drawn.precisions, strict=True)
    return [
        RowMixture(shares, means, np.linalg.inv(precisions)) for shares, means, precisions in parts
    ]


def faults_of_drawn_rows(engine, rows, distributions):
    """Draws of z beside mixtures over the drawn means and covariances.

    These are wider than the answers for single cells in tables of a few rows.
    """
    engine, moments = engine.refined, []  # by which answers are given
    for distribution in distributions:
        cells = distribution.conditionals(engine.rows.table.take(rows))
        weights = cells.responsibilities.T[:, :, None]
        moments.append(moments_of(weights, cells.means, cells.variances))
    means, variances = (np.array(part) for part in zip(*moments, strict=True))
    mean = means.mean(axis=0)
    variance = np.mean(variances + np.square(means - mean), axis=0)
    draws = engine.draws(rows, np.random.default_rng(0), DRAWS)
    squares = np.square(draws - mean)
    errors = ERRORS * draws.std(axis=0) / np.sqrt(DRAWS) + 1e-6 * np.abs(mean)
    if np.any(np.abs(draws.mean(axis=0) - mean) > errors):
        yield f"draws of rows have means {draws.mean(axis=0)}, not {mean}"
    errors = ERRORS * squares.std(axis=0) / np.sqrt(DRAWS) + 1e-6 * variance
    if np.any(np.abs(squares.mean(axis=0) - variance) > 1.5 * errors):
        yield f"draws of rows have variances {squares.mean(axis=0)}, not {variance}"


def asked(model, data, options):
    """A posterior, or an error of the package that is a refusal by name."""
    try:
        return mc.posterior(model, data, **options)
    except mc.McframeError as error:
        return error


def check(model, data, options, tally, number):
    """A refusal by name, or answers without faults."""
    tally["models"] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for known in (mc.UnobservedWarning, mc.NotConvergedWarning):
            warnings.simplefilter("ignore", known)
        found = asked(model, data, options)
        if isinstance(found, mc.McframeError):
            tally["refused"] += 1
            assert "bug in" not in str(found), str(found)
            assert isinstance(found, mc.DataError | mc.ModelError) or REFUSED.match(str(found))
            return None
        tally[found.status] += 1
        tally[type(found.engine).__name__] += 1
        rng = np.random.default_rng(number)
        wrong = [fault for block in model.blocks for fault in faults(found, block.name, rng)]
    assert not wrong, wrong
    return found


def drawn(strategy, part, n_examples, tally):
    """Check so many models of a strategy."""

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])  # shrinking takes minutes
    @given(strategy, st.integers(0, 2**20), st.sampled_from([None, 1e-3, 1e-6]))
    def holds(example, number, tol):
        check(*example[:2], {"tol": tol, "max_iter": 60}, tally, number)

    holds()


@pytest.mark.parametrize(
    ("part", "n_examples"),
    [
        (0, 6),
        pytest.param(0, 12, marks=pytest.mark.slow(seconds=15)),
        *(pytest.param(k, 200, marks=pytest.mark.slow) for k in range(100, 105)),
    ],
)
def test_posteriors_agree_with_themselves(part, n_examples, record_property):
    tally = Counter()
    drawn(posterior_models(), part, n_examples, tally)
    record_property("posteriors", ", ".join(f"{k} {v}" for k, v in sorted(tally.items())))
    assert tally["FactorPosterior"] + tally["JointPosterior"] >= n_examples / 2


def attributes_of(model, data, number):
    """Random attributes of the rows and columns of any model, with gaps and observed sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape = Problem.bind(model, data).shape
    rng, given = np.random.default_rng(number), {}
    for name, n in zip(("row_attributes", "column_attributes"), shape, strict=True):
        numbers = rng.normal(size=(n, int(rng.integers(1, 4))))
        numbers += 10.0 ** rng.integers(-3, 7, numbers.shape[1])
        numbers *= 10.0 ** rng.integers(-9, 10, numbers.shape[1])
        numbers[rng.random(numbers.shape) < 0.1] = np.nan
        numbers[0] = 1.0  # no attribute has gaps alone
        forms = {"numbers": numbers, "zeros": np.zeros((n, 1)), "cells": "observed"}
        forms["few"] = sparse.random_array((n, 3), density=0.3, rng=rng)
        chosen = rng.permutation(list(forms))[: rng.integers(0, 4)]
        given[name] = {str(form): forms[form] for form in chosen} or None
    return given


@pytest.mark.parametrize(
    ("part", "n_examples"),
    [
        (0, 3),
        pytest.param(0, 6, marks=pytest.mark.slow(seconds=4)),
        *(pytest.param(k, 200, marks=pytest.mark.slow) for k in range(300, 303)),
    ],
)
def test_attributes_stand_beside_everything(part, n_examples):
    tally = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(posterior_models(), st.integers(0, 2**20))
    def holds(example, number):
        model, data = example
        assume(isinstance(model.terms[0], mc.NuclearNorm))
        options = attributes_of(model, data, number)
        if number % 4 == 0:
            options["method"] = "sampler"
        found = check(model, data, {"max_iter": 60, **options}, tally, number)
        if found is not None and found.diagnostics is None:
            evidence = [sweep.evidence for sweep in found.history]
            assert np.all(np.isfinite(evidence))

    holds()
    assert tally["FactorPosterior"] >= n_examples / 3
    assert tally["SampledFactors"]


@pytest.mark.parametrize(
    ("part", "n_examples"),
    [
        (1, 40),
        *(pytest.param(k, 300, marks=pytest.mark.slow) for k in range(200, 203)),
    ],
)
def test_models_of_everything_are_refused_by_name_or_answered(part, n_examples, record_property):
    tally = Counter()
    drawn(everything(), part, n_examples, tally)
    record_property("posteriors", ", ".join(f"{k} {v}" for k, v in sorted(tally.items())))
    assert tally["models"] >= n_examples
    assert tally["refused"] > 0
