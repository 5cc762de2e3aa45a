"""Random small models with data from the whole vocabulary, for hypothesis.

One to three blocks of one to four columns, one to twelve items, weights over four orders of
magnitude, masks down to one observed entry a block, with and without biases, effects of rows,
weights and offsets of entries; every main regularizer, and up to two terms beside it. And random
tables of any columns, of the kinds, units and signs of missing values that users have.
"""

import warnings
from decimal import Decimal

import attrs
import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st
from scipy.special import ndtr

import mcframe as mc
from mcframe.contracts import Factored, Spectral
from mcframe.contracts.arrays import between, points_of
from mcframe.contracts.likelihood import fits_parameters
from mcframe.numerics.max_norm_bounds import max_norm
from mcframe.numerics.sampled import Pattern
from mcframe.partitions.binding_rounds import refusal_of_block
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.posterior.estimation import refusal_of_block as why_no_posterior

from . import catalogue

MAGNITUDES = st.floats(-2.0, 2.0).map(lambda e: float(f"{10.0**e:.3g}"))
# A ball that holds the data whole leaves an optimum of 0, of which no gap is a small part; light
# max norms take a factored descent thousands of steps.
RADII = st.floats(-1.5, 0.5).map(lambda e: float(f"{10.0**e:.3g}"))
FACTORED = st.floats(-1.0, 1.5).map(lambda e: float(f"{10.0**e:.3g}"))
POWERS = st.floats(-9.0, 9.0).map(lambda e: 10.0**e)
DRAWN = [entry.word for entry in catalogue.LIKELIHOODS if entry.drawn]
RISKS = [word for word in DRAWN if isinstance(word, mc.RiskMixture)]
SMOOTH = [word for word in DRAWN if word.smooth and word not in RISKS]
ROUGH = [word for word in DRAWN if not word.smooth]
CORE = [
    mc.Gaussian(),
    mc.Gaussian(variance=0.25),
    mc.Bernoulli(),
    mc.Bernoulli(scale=0.5),
    mc.Poisson(),
    mc.Huber(0.5),
]
# Losses whose predictors have a unit, of their data or of their scale.
IN_UNITS = [*(word for word in DRAWN if word.location), mc.Bernoulli(), mc.Bernoulli(scale=0.5)]
# Forms of rows in partitions.
FORMS = ("in memory", "on disk", "dask array", "dask frame")
# What rows in partitions are fitted with, labels that are missing among them.
SQUARED = mc.Gaussian(variance=0.25)
IN_PARTITIONS = [
    *(word for word in SMOOTH if refusal_of_block(mc.Block("x", word)) is None),
    mc.RiskMixture(pu=1.0, missing_rate=0.6, likelihood=mc.Gaussian()),
    mc.RiskMixture.pnu(0.4, 0.5, likelihood=SQUARED),
    mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli()),
]
# Terms whose parameters are drawn with the data here. Others come from the catalogue as they are.
MADE = (
    *(mc.NuclearNorm, mc.NuclearBall, mc.MaxNorm, mc.MaxNormBall, mc.Ridge, mc.Box),
    *(mc.OnesColumn, mc.ResidualNuclearNorm, mc.Calibration, mc.RowRelation, mc.GaussianRows),
)
OTHERS = [term for term in catalogue.TERMS if not isinstance(term, MADE)]
MAIN_OTHERS = [term for term in OTHERS if isinstance(term, Spectral | Factored)]
OTHERS_BESIDE = [term for term in OTHERS if term not in MAIN_OTHERS]
# Observations that only one kind of data holds.
PROBES = {"reals": [-1.5, 0.5], "positive": [0.5, 3.5], "counts": [0.0, 1.0, 1e6]}


def kind_of(likelihood):
    """Its kind of data, by what its domain takes: the first kind that fits, else levels."""
    for kind, probe in PROBES.items():
        if not np.any(likelihood.invalid(np.array(probe))):
            return kind
    return "levels"


def levels_of(likelihood):
    """The whole numbers that it takes, of a likelihood of labels or levels."""
    whole = np.arange(-20.0, 21.0)
    return whole[~likelihood.invalid(whole)]


def observations(draw, rng, likelihood, shape):
    """Values from the domain of a likelihood, none missing."""
    kind = kind_of(likelihood)
    if kind == "reals":
        return draw(MAGNITUDES) ** 0.5 * rng.standard_normal(shape)
    rate = np.exp(draw(st.sampled_from([0.5, 2.0])) * rng.standard_normal(shape))
    if kind == "counts":
        return rng.poisson(rate).astype(float)
    if kind == "positive":
        return rate
    levels = levels_of(likelihood)
    if levels.size > 2:
        return levels[rng.integers(0, levels.size, shape)]
    return levels[(rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))).astype(int)]


@st.composite
def tables(draw, likelihood, n_items, n_columns):
    """Data of one block, at least one entry observed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = observations(draw, rng, likelihood, (n_items, n_columns))
    hidden = rng.random(table.shape) < draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    hidden[rng.integers(n_items), rng.integers(n_columns)] = False
    table[hidden] = np.nan
    given = limits(draw, rng, table) if likelihood.takes_intervals else {}
    if likelihood.takes_propensities:
        given["propensity"] = propensities(draw, rng, table)
    if draw(st.integers(0, 5)) == 0:
        given["weights"] = rng.integers(1, 5, table.shape).astype(float)
        if not (isinstance(likelihood, mc.Equality) or draw(st.booleans())):
            given["offset"] = rng.standard_normal(table.shape)
    return mc.Observations(given.pop("values", table), **given) if given else table


def propensities(draw, rng, table):
    """Propensities of labels over many orders of magnitude; unlabeled entries need none."""
    spread = draw(st.sampled_from([0.0, 1.0, 4.0, 9.0]))
    numbers = 10.0 ** -(spread * rng.random(table.shape))
    return np.where(np.isnan(table), draw(st.sampled_from([np.nan, 0.5])), numbers)


def limits(draw, rng, table, unit=1.0):
    """Values of which some are known between two limits alone, below one or above one.

    ``unit`` is about what values differ by: a number, or one for each column.
    """
    kinds = rng.random(table.shape)
    share = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    width = unit * draw(st.sampled_from([1e-3, 0.5, 3.0]))
    censored = ~np.isnan(table) & (rng.random(table.shape) < share)
    lower = np.where(censored & (kinds < 0.7), table - width * rng.random(table.shape), np.nan)
    upper = np.where(censored & (kinds > 0.3), table + width * rng.random(table.shape), np.nan)
    return {"values": np.where(censored, np.nan, table), "lower": lower, "upper": upper}


def blocks_and_data(draw, likelihoods, effects=True):
    """One to three blocks with their data, and the number of items."""
    n_items = draw(st.integers(1, 12))
    blocks, data = [], {}
    for k in range(draw(st.integers(1, 3))):
        likelihood = draw(st.sampled_from(likelihoods))
        free = not isinstance(likelihood, mc.RiskMixture) and not (
            isinstance(likelihood, mc.Ordinal) and likelihood.thresholds is None
        )
        single = likelihood.width == 1 and likelihood.smooth
        block = mc.Block(
            f"block{k}",
            likelihood,
            weight=draw(MAGNITUDES),
            reduce=draw(st.sampled_from(["sum", "mean"])),
            bias=free and draw(st.booleans()),
            row_effects=effects and free and single and draw(st.integers(0, 7)) == 0,
        )
        blocks.append(block)
        data[block.name] = draw(tables(block.likelihood, n_items, draw(st.integers(1, 4))))
    return n_items, blocks, data


@st.composite
def problems(draw):
    """(model, data) of smooth losses and functions of singular values."""
    _, blocks, data = blocks_and_data(draw, CORE, effects=False)
    kinds = draw(st.sampled_from(["nuclear", "nuclear", "both", "ridge"]))
    terms = []
    if kinds != "ridge":
        terms.append(mc.NuclearNorm(draw(MAGNITUDES)))
    if kinds != "nuclear":
        terms.append(mc.Ridge(draw(MAGNITUDES)))
    if draw(st.integers(0, 2)) == 0:
        terms.append(mc.OnesColumn())
    return mc.Model(blocks, with_scales(draw, terms)), data


def values_of(given):
    """The matrix of a block's data, a number within them where limits are all that is known."""
    if not isinstance(given, mc.Observations) or given.lower is None:
        return given.values if isinstance(given, mc.Observations) else given
    lower, upper = (
        np.where(np.isnan(limit), end, limit)
        for limit, end in ((given.lower, -np.inf), (given.upper, np.inf))
    )
    known = np.isfinite(lower) | np.isfinite(upper)
    points = np.full(known.shape, np.nan)
    points[known] = points_of(between(lower[known], upper[known]))
    return np.where(np.isnan(given.values), points, given.values)


@st.composite
def with_bounds(draw, models):
    """(model, data) of which values have bounds in a quarter of the draws."""
    model, data = draw(models)
    if draw(st.integers(0, 3)):
        return model, data
    blocks = []
    for block in model.blocks:
        values = np.asarray(values_of(data[block.name]), dtype=float)
        lower, upper = np.nanmin(values), np.nanmax(values)
        if block.likelihood.location and lower < upper:
            ends = draw(st.sampled_from([(lower, upper), (lower, None), (None, upper)]))
            block = attrs.evolve(block, bounds=ends)
        blocks.append(block)
    return attrs.evolve(model, blocks=blocks), data


def gaussian_rows(draw, n_columns, condition, offsets=0.0):
    """A Gaussian of so many columns; its covariance has a condition, its mean these offsets."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    turn = np.linalg.qr(rng.standard_normal((n_columns, n_columns)))[0]
    covariance = (turn * condition ** -np.linspace(0.0, 1.0, n_columns)) @ turn.T
    mean = offsets + rng.standard_normal(n_columns)
    return mc.GaussianRows(draw(MAGNITUDES) * covariance, mean, draw(MAGNITUDES))


def with_scales(draw, terms):
    """The terms, nuclear norms and balls weighted by counts in every third draw."""
    if draw(st.integers(0, 2)):
        return terms
    share = draw(st.sampled_from([0.3, 0.5, 0.9, 0.99]))
    nuclear = mc.NuclearNorm | mc.NuclearBall
    return [
        attrs.evolve(term, count_share=share) if isinstance(term, nuclear) else term
        for term in terms
    ]


def main_regularizers(draw, risky, exact, n_columns):
    """What covers all of Z. A risk may fall without end under a penalty: it gets a ball.

    Equalities get a penalty: in a ball they may have no solution, or any; and not the max norm,
    beside which they can take tens of thousands of steps.
    """
    kinds = [] if exact else ["nuclear ball", "max norm ball"]
    if not risky:
        kinds += ["nuclear", "nuclear", "nuclear", "nuclear and ridge"]
        kinds += ["ridge", *["max norm", "both"] * (not exact)]
        kinds += [repr(term) for term in MAIN_OTHERS if not exact]
        kinds += ["nuclear and rows"] * (not exact)
    kind = draw(st.sampled_from(kinds))
    weight, radius = draw(MAGNITUDES), draw(RADII)
    if kind == "nuclear and rows":
        return [mc.NuclearNorm(weight), gaussian_rows(draw, n_columns, 10.0)]
    return {
        "nuclear": [mc.NuclearNorm(weight)],
        "nuclear and ridge": [mc.NuclearNorm(weight), mc.Ridge(draw(MAGNITUDES))],
        "ridge": [mc.Ridge(weight)],
        "nuclear ball": [mc.NuclearBall(radius)],
        "max norm": [mc.MaxNorm(draw(FACTORED))],
        "max norm ball": [mc.MaxNormBall(radius)],
        "both": [mc.NuclearNorm(weight), mc.NuclearBall(10.0 * radius)],
        **{repr(term): [term] for term in MAIN_OTHERS},
    }[kind]


# The words of known sums: over the rows, of each column, and over the columns, of each row.
SIDES = (mc.Calibration, mc.RowRelation)


def known_sums(block, A, B, weight=None, word=mc.Calibration):
    """The equations of a block's predictors, declared as such where z is not the mean."""
    of = "means" if block.likelihood.z_name is None else "predictors"
    return word(block.name, A, B, weight=weight, of=of)


def sums_of(word, A, predictors):
    """The sums that a word states of predictors: over rows, or over columns."""
    return A @ predictors if word is mc.Calibration else predictors @ A.T


def across_blocks(rng, blocks, predictors, weight=None):
    """Equations of the columns of all blocks without free effects; None for fewer than two.

    ``predictors`` are those of each block, side by side.
    """
    joined = [b for b in blocks if not (b.bias or b.row_effects or b.standardize == "ranks")]
    if len(joined) < 2:
        return None
    spoken_of = [np.full(p.shape[1], b in joined) for b, p in zip(blocks, predictors, strict=True)]
    spoken_of = np.concatenate(spoken_of)
    A = rng.standard_normal((rng.integers(1, 3), spoken_of.size)) * spoken_of
    names, B = [block.name for block in joined], np.hstack(predictors) @ A.T
    return mc.RowRelation(names, A, B, weight, of="predictors")


def some_unknown(draw, rng, sums, share):
    """Sums of which some are NaN in a quarter of the draws; one at least is known."""
    if draw(st.integers(0, 3)) == 0:
        sums.ravel()[1:][rng.random(sums.size - 1) < share] = np.nan
    return sums


def terms_beside(draw, problem, exact):
    """Up to two terms beside the main one, feasible together: they all hold one small matrix."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    blocks = problem.model.blocks
    gaussian = [b.name for b in blocks if isinstance(b.likelihood, mc.Gaussian)]
    others = gaussian or [block.name for block in blocks]
    name = draw(st.sampled_from([*others, *[block.name for block in blocks]]))
    block = problem.model.block(name)
    small = 1e-3 * rng.standard_normal((problem.n_items, problem.n_columns))
    inside = small[:, problem.columns(name)]
    offset = problem.tables[name].offset_in_data
    inside = inside if offset is None else inside + offset.dense()
    stated = {}
    for word in draw(st.sampled_from([SIDES[:1], SIDES[1:], SIDES])):
        length = inside.shape[SIDES.index(word)]
        A = rng.standard_normal((draw(st.integers(1, 2)), length))
        stated[word] = A, some_unknown(draw, rng, sums_of(word, A, inside), 0.3)
    widest = 2.0 * max(1.0, exact)
    lower, upper = draw(st.sampled_from([(-0.5, 0.5), (-np.inf, 1.0), (-2.0, 0.25)]))
    lower, upper = (-widest, widest) if exact else (lower, upper)
    beside = {
        "box": mc.Box(lower, upper),
        "box of a block": mc.Box(lower, upper, name),
        **{
            f"{word.__name__} penalty": known_sums(block, A, sums + 1.0, draw(MAGNITUDES), word)
            for word, (A, sums) in stated.items()
        },
        "ones": mc.OnesColumn(),
        **{repr(term): term for term in OTHERS_BESIDE if holds(term, small)},
    }
    if isinstance(block.likelihood, mc.Gaussian):
        beside["residual"] = mc.ResidualNuclearNorm(name, draw(MAGNITUDES))
    if not exact:
        for word, (A, sums) in stated.items():
            beside[word.__name__] = known_sums(block, A, sums, word=word)
    wide = [small[:, problem.columns(block.name)] for block in blocks]
    offsets = [problem.tables[block.name].offset_in_data for block in blocks]
    whole = [p if o is None else p + o.dense() for p, o in zip(wide, offsets, strict=True)]
    across = across_blocks(rng, blocks, whole, draw(st.sampled_from([None, 2.0])))
    if across is not None and not (exact and across.weight is None):
        beside["across blocks"] = across
    chosen = draw(st.lists(st.sampled_from(sorted(beside)), max_size=2, unique=True))
    if {"box", "box of a block"} <= set(chosen):
        chosen.remove("box")
    return [beside[kind] for kind in chosen]


def holds(term, matrix):
    """Whether a term of the catalogue may stand in a model of any blocks that holds a matrix."""
    return term.block is None and term.value(matrix) < np.inf


@st.composite
def models_in_units(draw):
    """(model, data) with hard constraints, effects, weights and sparse tables, in units of 1.

    What ``in_unit`` states in another one.
    """
    _, blocks, data = blocks_and_data(draw, IN_UNITS)
    exact = [isinstance(block.likelihood, mc.Equality) for block in blocks]
    for k, block in enumerate(blocks):
        if block.likelihood.smooth and draw(st.booleans()):
            blocks[k] = attrs.evolve(block, row_effects=True)
    sizes = [np.nansum(np.abs(values_of(data[b.name]))) for b in blocks]
    weight, radius = draw(MAGNITUDES), draw(RADII)
    mains = [mc.NuclearNorm(weight), mc.Ridge(weight), mc.MaxNorm(draw(FACTORED))]
    mains = mains[:2] if any(exact) else [*mains, mc.NuclearBall(radius), mc.MaxNormBall(radius)]
    main = with_scales(draw, [draw(st.sampled_from(mains))])[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        problem = mc.Problem.bind(mc.Model(blocks, [main]), data)
    beside = terms_beside(draw, problem, sum(np.array(sizes) * exact))
    kept = [term for term in beside if term.in_units(1.0) is not None]
    return mc.Model(blocks, [main, *kept]), data


def in_unit(model, data, unit):
    """The same model with everything of the unit of Z times another: its objective stays."""
    blocks, given = [], {}
    for block in model.blocks:
        values, own, factor = data[block.name], block.likelihood, 1.0
        if own.location:
            own, factor = own.in_units(1.0 / unit)
        else:
            own = attrs.evolve(own, scale=own.scale * unit)
        ridge = block.effects_weight and block.effects_weight / unit**2
        weight = block.weight * factor
        blocks.append(attrs.evolve(block, likelihood=own, weight=weight, effects_weight=ridge))
        size = unit if block.likelihood.location else 1.0
        if isinstance(values, mc.Observations):
            given[block.name] = attrs.evolve(
                values,
                values=size * values.values,
                **{
                    name: None if numbers is None else numbers * factor
                    for name, numbers, factor in (
                        ("offset", values.offset, unit),
                        ("lower", values.lower, size),
                        ("upper", values.upper, size),
                    )
                },
            )
        else:
            given[block.name] = size * values
    return mc.Model(blocks, [term.in_units(1.0 / unit) for term in model.terms]), given


@st.composite
def probit_models(draw):
    """(model, data) with probit labels, whose reference takes seconds."""
    words = [
        mc.Bernoulli("probit"),
        mc.Bernoulli("probit", 0.3),
        mc.Censored(mc.Gaussian()),
        mc.Censored(mc.Gaussian(0.1)),
    ]
    _, blocks, data = blocks_and_data(draw, words)
    main = draw(st.sampled_from([mc.NuclearNorm(0.3), mc.NuclearBall(2.0), mc.MaxNormBall(1.0)]))
    return mc.Model(blocks[:1], with_scales(draw, [main])), {blocks[0].name: data[blocks[0].name]}


@st.composite
def residual_models(draw):
    """(model, data) of COCO's kind: a Gaussian block with the nuclear norm of its residual."""
    n_items, blocks, data = blocks_and_data(draw, [mc.Bernoulli(), mc.Hinge(), mc.Poisson()])
    features = mc.Block("x", mc.Gaussian(), weight=draw(MAGNITUDES), bias=draw(st.booleans()))
    data = {"x": draw(tables(mc.Gaussian(), n_items, 4)), blocks[0].name: data[blocks[0].name]}
    main = draw(st.sampled_from([mc.NuclearNorm(0.3), mc.NuclearNorm(2.0), mc.MaxNormBall(1.0)]))
    residual = mc.ResidualNuclearNorm("x", draw(MAGNITUDES))
    return mc.Model([features, blocks[0]], with_scales(draw, [main, residual])), data


@st.composite
def whole_vocabulary(draw):
    """(model, data) of any words that go together."""
    _, blocks, data = blocks_and_data(draw, SMOOTH + ROUGH + ROUGH + RISKS)
    exact = [
        np.nansum(np.abs(values_of(data[block.name])))
        for block in blocks
        if isinstance(block.likelihood, mc.Equality)
    ]
    risky = any(isinstance(block.likelihood, mc.RiskMixture) for block in blocks)
    risky = risky and not exact
    if exact:
        blocks = [b for b in blocks if not isinstance(b.likelihood, mc.RiskMixture)]
        data = {block.name: data[block.name] for block in blocks}
    widths = [values_of(data[b.name]).shape[1] * b.likelihood.width for b in blocks]
    main = with_scales(draw, main_regularizers(draw, risky, bool(exact), sum(widths)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        problem = mc.Problem.bind(mc.Model(blocks, main), data)
    beside = terms_beside(draw, problem, sum(exact))
    # The fixed column and a ball may exclude each other; beside a max norm and a loss without
    # a gradient its multiplier takes tens of thousands of steps.
    kinds = mc.NuclearBall | mc.MaxNormBall | mc.MaxNorm
    if any(isinstance(term, kinds) for term in main):
        beside = [term for term in beside if not isinstance(term, mc.OnesColumn)]
    return mc.Model(blocks, [*main, *beside]), data


@st.composite
def falling_models(draw):
    """(model, data) with risks that may fall without end, under penalties, beside any constraint.

    Weights lie around the one at which they begin to fall; labels and scales are of any size.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_items, unit = draw(st.integers(1, 12)), draw(st.sampled_from([1.0, 1.0, 1e-6, 1e6]))
    blocks, data = [], {}
    for k in range(draw(st.integers(1, 2))):
        loss = mc.Bernoulli(scale=unit * draw(st.sampled_from([1.0, 0.3])))
        share = draw(st.sampled_from([0.0, 0.3, 1.0]))
        risk = draw(st.sampled_from([mc.RiskMixture.punu, mc.RiskMixture.pnu]))(
            share, draw(st.sampled_from([0.2, 0.5, 0.9])), likelihood=loss
        )
        blocks.append(mc.Block(f"risk{k}", risk, weight=draw(MAGNITUDES)))
        given = draw(tables(loss, n_items, draw(st.integers(1, 4))))
        if isinstance(given, mc.Observations) and given.offset is not None:
            given = attrs.evolve(given, offset=unit * given.offset)
        data[f"risk{k}"] = given
    if draw(st.booleans()):
        word = draw(st.sampled_from([word for word in SMOOTH + ROUGH if word.width == 1]))
        blocks.append(mc.Block("beside", word, bias=word.smooth and not fits_parameters(word)))
        data["beside"] = values_of(draw(tables(word, n_items, draw(st.integers(1, 3)))))
    heaviest = max(block.weight for block in blocks[: len(blocks) - ("beside" in data)]) / unit
    weight = heaviest * draw(st.sampled_from([0.01, 0.3, 1.0, 3.0]))
    norms = [mc.NuclearNorm, mc.NuclearNorm, mc.MaxNorm]
    exact = [np.nansum(np.abs(data["beside"]))] if "beside" in data else [0.0]
    norms = norms[:2] if "beside" in data and not blocks[-1].likelihood.smooth else norms
    terms = [draw(st.sampled_from(norms))(weight)]
    name, sums = blocks[0].name, rng.standard_normal((1, n_items))
    totals = unit * rng.standard_normal((1, values_of(data[name]).shape[1]))
    edge = unit * draw(st.sampled_from([0.0, 1.0]))
    beside = {
        "below": mc.Box(-edge, np.inf, name),
        "above": mc.Box(-np.inf, edge, name),
        "between": mc.Box(-unit, unit, name),
        "ones": mc.OnesColumn(),
        "sums": known_sums(blocks[0], sums, 0.1 * totals),
        "near sums": known_sums(blocks[0], sums, totals, draw(MAGNITUDES)),
        "ridge": mc.Ridge(1e-3 * heaviest / unit),
    }
    if "beside" in data and blocks[-1].bias:  # effects that stay while the others fall
        middle = np.full((1, values_of(data["beside"]).shape[1]), 0.1)
        beside["sums of biases"] = known_sums(blocks[-1], np.full((1, n_items), 0.1), middle)
    if not exact[0]:
        chosen = draw(st.lists(st.sampled_from(sorted(beside)), max_size=2, unique=True))
        boxes = [kind for kind in chosen if kind in ("below", "above", "between")]
        kept = [kind for kind in chosen if kind not in boxes[1:]]
        kept = [kind for kind in kept if not ("sums" in kept and kind in boxes)]
        terms += [beside[kind] for kind in kept]
    return mc.Model(blocks, terms), data


@st.composite
def planted_sets(draw):
    """(model, data, size): hard constraints of any scale that a planted matrix of this size meets.

    Tight boxes, known sums, some of them unknown, a column of ones, values that are met exactly,
    and balls that hold little more than the matrix.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape, rank = (draw(st.integers(2, 8)), draw(st.integers(1, 5))), draw(st.integers(1, 2))
    size = draw(POWERS)
    planted = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    planted = size * 10.0 ** draw(st.floats(-3.0, 0.0)) * (planted + draw(st.sampled_from([0, 3])))
    bias, ones = draw(st.integers(0, 2)) == 0, draw(st.integers(0, 2)) == 0
    predictors = planted + bias * size * rng.standard_normal(shape[1])
    whole = np.hstack([planted, np.ones((shape[0], 1))]) if ones else planted
    slack = draw(st.sampled_from([1.01, 2.0, 10.0]))
    nuclear = float(np.sum(np.linalg.svd(whole, compute_uv=False)))
    balls = [mc.MaxNormBall(slack * max_norm(whole)), mc.NuclearBall(slack * nuclear)]
    terms = [draw(st.sampled_from([*balls, *balls, mc.MaxNorm(size), mc.NuclearNorm(size)]))]
    low, high = float(np.min(planted)), float(np.max(planted))
    if draw(st.booleans()):
        share = draw(st.sampled_from([0.0, 1e-3, 0.1, 1.0]))
        wider = share * (high - low) + 1e-6 * max(abs(low), abs(high))
        ends = (low - wider, high + wider)
        ends = draw(st.sampled_from([ends, ends, (ends[0], np.inf), (-np.inf, ends[1])]))
        terms.append(mc.Box(*ends, "x"))
    if draw(st.integers(0, 2)):
        A = rng.standard_normal((draw(st.integers(1, 3)), shape[0]))
        A = A * 10.0 ** draw(st.sampled_from([0.0, -6.0, 6.0]))
        sums = A @ predictors
        if draw(st.integers(0, 3)) == 0:
            sums.ravel()[1:][rng.random(sums.size - 1) < 0.3] = np.nan  # one is known
        terms.append(mc.Calibration("x", A, sums))
    terms += [mc.OnesColumn()] * ones
    if draw(st.integers(0, 2)) == 0:
        seen = rng.random(shape) < draw(st.sampled_from([0.2, 0.6]))
        seen[0, 0] = True
        word, values = mc.Equality(), np.where(seen, predictors, np.nan)
    else:
        word, values = mc.Gaussian(size**2), size * rng.standard_normal(shape)
    return mc.Model([mc.Block("x", word, bias=bias)], terms), {"x": values}, size


@st.composite
def mixed_scales(draw):
    """(model, data) of kinks, exact values and squares whose columns have scales of their own.

    Scales, weights and the ridge are 1e-6 to 1e6; a box may be tight around what is exact.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_items, blocks, data = draw(st.integers(2, 8)), [], {}
    sizes = st.floats(-6.0, 6.0).map(lambda e: 10.0**e)
    words = [mc.Quantile(0.3), mc.Quantile(0.9), mc.Huber(0.5), mc.Equality(), mc.Gaussian()]
    for k in range(draw(st.integers(1, 3))):
        word, width = draw(st.sampled_from(words)), draw(st.integers(1, 4))
        scales = draw(sizes) * 10.0 ** rng.uniform(-1.0, 1.0, width)
        values = scales * (rng.standard_normal((n_items, width)) + rng.choice([0.0, 3.0]))
        hidden = rng.random(values.shape) < draw(st.sampled_from([0.0, 0.3, 0.7]))
        hidden[rng.integers(n_items), rng.integers(width)] = False
        blocks.append(mc.Block(f"x{k}", word, weight=draw(sizes), bias=draw(st.booleans())))
        data[f"x{k}"] = np.where(hidden, np.nan, values)
    largest = max(float(np.nanmax(np.abs(values))) for values in data.values())
    terms = [draw(st.sampled_from([mc.NuclearNorm, mc.MaxNorm]))(draw(sizes))]
    if draw(st.booleans()):
        terms = [mc.NuclearNorm(draw(sizes)), mc.Ridge(draw(sizes))]
    if draw(st.booleans()):
        wider = draw(st.sampled_from([1.0, 1.01, 100.0]))
        terms.append(mc.Box(-wider * largest, wider * largest))
    return mc.Model(blocks, terms), data


@st.composite
def tight_balls(draw):
    """(model, data) in a ball of 1 to 1.001 times the least radius that holds what is exact.

    What is exact are values, sums, bounds or a column of ones, one of them or several together.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape, rank = (draw(st.integers(2, 7)), draw(st.integers(2, 5))), draw(st.integers(1, 3))
    planted = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    size, beside, asked = draw(st.just(1.0) | POWERS), [], []
    seen = rng.random(shape) < draw(st.sampled_from([0.0, 0.4, 0.8, 1.0]))
    z = cp.Variable(shape)
    kinds = draw(st.sets(st.sampled_from(["values", "sums", "box", "ones"]), min_size=1))
    if "values" in kinds:
        seen[0, 0] = True
        asked.append(z[seen] == planted[seen])
    if "sums" in kinds:
        A = rng.standard_normal((draw(st.integers(1, 2)), shape[0]))
        asked.append(A @ z == A @ planted)
        beside.append(mc.Calibration("x", A, size * (A @ planted)))
    if "box" in kinds:
        width = draw(st.sampled_from([1e-3, 0.1, 1.0]))
        lower, upper = (float(end(planted)) for end in (np.min, np.max))
        lower, upper = draw(st.sampled_from([(lower, upper + width), (0.1 * upper, upper)]))
        lower = min(lower, float(np.min(planted)))
        asked += [z >= lower, z <= upper]
        beside.append(mc.Box(size * lower, size * upper, "x"))
    whole = z
    if "ones" in kinds:
        beside.append(mc.OnesColumn())
        whole = cp.hstack([z, np.full((shape[0], 1), 1.0 / size)])
    ball = draw(st.sampled_from([mc.NuclearBall, mc.MaxNormBall]))
    radius = size * least_radius(whole, ball is mc.MaxNormBall, asked)
    slack = draw(st.sampled_from([0.0, 1e-6, 1e-4, 1e-3]))
    assume(1e-3 * size < radius < np.inf)
    word, values = mc.Gaussian(size**2), size * rng.standard_normal(shape)
    if "values" in kinds:
        word, values = mc.Equality(), np.where(seen, size * planted, np.nan)
    main = ball(radius * (1.0 + 1e-7 + slack))
    return mc.Model([mc.Block("x", word)], [main, *beside]), {"x": values}


def least_radius(z, of_rows, asked):
    """The least nuclear or max norm of an expression of CVXPY under constraints; else infinite."""
    least = cp.normNuc(z)
    if of_rows:
        n_rows, order, least = z.shape[0], sum(z.shape), cp.Variable()
        cone = cp.Variable((order, order), PSD=True)
        asked = [*asked, cone[:n_rows, n_rows:] == z, cp.diag(cone) <= least]
    problem = cp.Problem(cp.Minimize(least), asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an answer that is not exact
        try:
            problem.solve(cp.CLARABEL)
        except cp.error.SolverError:
            return np.inf
    return float(problem.value) if problem.status == cp.OPTIMAL else np.inf


@st.composite
def vanishing_models(draw):
    """(model, data) whose optimum is far below the loss at Z = 0, or 0: few values or a wide set.

    Balls that hold what is observed with 1e-12 to 1 of their radius to spare, or weights of next
    to nothing.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape, size = (draw(st.integers(2, 8)), draw(st.integers(1, 5))), draw(st.just(1.0) | POWERS)
    planted = rng.standard_normal((shape[0], 1)) @ rng.standard_normal((1, shape[1]))
    seen = rng.random(shape) < draw(st.sampled_from([0.2, 0.7, 1.0]))
    seen[0, 0] = True
    words = [mc.Gaussian(size**2), mc.Huber(size), mc.Quantile(0.3)]
    block = mc.Block("x", draw(st.sampled_from(words)), bias=draw(st.booleans()))
    spare = draw(st.sampled_from([-1e-3, -1e-6, -1e-9, 1e-12, 1e-6, 1e-2, 1.0]))
    nuclear = float(np.sum(np.linalg.svd(planted, compute_uv=False)))
    small = 10.0 ** draw(st.floats(-12.0, -4.0)) / size
    mains = [mc.NuclearBall(size * nuclear * (1.0 + spare)), mc.NuclearNorm(small)]
    mains += [mc.MaxNormBall(size * max_norm(planted) * (1.0 + spare)), mc.MaxNorm(small)]
    terms = [draw(st.sampled_from(mains))]
    if draw(st.booleans()):
        ends = size * float(np.max(np.abs(planted))) * draw(st.sampled_from([1.0, 1.001, 10.0]))
        terms.append(mc.Box(-ends, ends))
    return mc.Model([block], terms), {"x": np.where(seen, size * planted, np.nan)}


@st.composite
def huge_models(draw):
    """(model, data) whose values, weights or both are around 1e30 or 1e-30, effects included."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_items, blocks, data = draw(st.integers(1, 6)), [], {}
    far = st.sampled_from([1e-30, 1.0, 1e30])
    for k in range(draw(st.integers(1, 2))):
        unit = draw(far)
        words = [mc.Gaussian(), mc.Gaussian(unit**2), mc.Huber(unit), mc.Quantile(0.3)]
        words += [mc.Bernoulli(), mc.Poisson(), mc.Equality(), mc.Hinge()]
        word = draw(st.sampled_from(words))
        values = observations(draw, rng, word, (n_items, draw(st.integers(1, 3))))
        values = unit * values if word.location else values
        values[rng.random(values.shape) < 0.3] = np.nan
        values[0, 0] = unit if word.location else 1.0
        rows = word.smooth and draw(st.booleans())
        effects = {"bias": draw(st.booleans()), "row_effects": rows}
        blocks.append(mc.Block(f"x{k}", word, weight=draw(far), **effects))
        heavy = draw(st.booleans())
        data[f"x{k}"] = mc.Observations(values, weights=draw(far)) if heavy else values
    mains = [mc.NuclearNorm, mc.MaxNorm, mc.NuclearBall, mc.MaxNormBall, mc.Ridge]
    terms = [draw(st.sampled_from(mains))(draw(far))]
    if draw(st.booleans()):
        terms.append(draw(st.sampled_from([mc.Box(-1e30, 1e30), mc.Box(-1.0, 1.0)])))
    return mc.Model(blocks, terms), data


@st.composite
def nearly_exact_models(draw):
    """(model, data) of losses under a norm whose weight is far below the size of the values.

    Of low rank and exact, or with noise; with effects, a box that holds the values, or ones.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(5, 40)), draw(st.integers(2, 12))
    rank = draw(st.integers(1, 3))
    values = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    values += draw(st.sampled_from([0.0, 0.0, 1e-3, 1.0])) * rng.standard_normal(shape)
    values = draw(POWERS) * (values + draw(st.sampled_from([0.0, 3.0])))
    size = float(np.max(np.abs(values)))
    values[rng.random(shape) < draw(st.sampled_from([0.1, 0.3, 0.6]))] = np.nan
    values[0, 0] = size
    weight = size * 10.0 ** draw(st.floats(-12.0, -2.0))
    word = draw(st.sampled_from([mc.Gaussian(), mc.Huber(size), mc.Huber(10.0 * weight)]))
    effects = draw(st.sampled_from([{}, {"bias": True}, {"row_effects": True}]))
    beside = draw(st.sampled_from([[], [], [mc.Box(-2.0 * size, 2.0 * size)]]))
    terms = with_scales(draw, [mc.NuclearNorm(weight), *beside])
    if draw(st.integers(0, 3)) == 0:
        word = draw(st.sampled_from([word, mc.Quantile(0.3)]))
        effects = {} if word == mc.Quantile(0.3) else effects
        terms = [mc.MaxNorm(weight), *beside]
    return mc.Model([mc.Block("x", word, **effects)], terms), {"x": values}


@st.composite
def row_models(draw):
    """(model, data) of smooth losses under a Gaussian of the rows, with a ridge or without.

    Conditions of the covariance are up to 1e6; columns of Gaussian blocks lie up to 1e3 away.
    """
    fitted = [loss for loss in SMOOTH if isinstance(loss, mc.Ordinal) and loss.thresholds is None]
    smooth = [loss for loss in SMOOTH if loss not in fitted]
    _, blocks, data = blocks_and_data(draw, [mc.Gaussian(), *smooth, mc.Multinomial(3)], False)
    blocks = [attrs.evolve(block, bias=False) for block in blocks]
    away, offsets = draw(st.sampled_from([0.0, 10.0, 1e3])), []
    for block in blocks:
        values = values_of(data[block.name])
        gaussian = isinstance(block.likelihood, mc.Gaussian)
        offsets += [away * gaussian] * (values.shape[1] * block.likelihood.width)
        if gaussian:
            data[block.name] = values + away
    condition = draw(st.sampled_from([1.0, 1e2, 1e4, 1e6]))
    terms = [gaussian_rows(draw, len(offsets), condition, np.array(offsets))]
    if draw(st.integers(0, 3)) == 0:
        terms.append(mc.Ridge(draw(MAGNITUDES)))
    return mc.Model(blocks, terms), data


@st.composite
def scaled_rows(draw):
    """(model, data) of Gaussian entries under a Gaussian of the rows, a small quadratic.

    Columns have scales of 1e-9 to 1e9, correlations a condition of up to 1e12, means lie up to
    1e9 deviations away, noise is 1e-16 to 1e8 of a column's variance; entries have weights of 1e-4
    to 1e4, and there may be a ridge of any size.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 3))
    widths = draw(st.sampled_from([(1,), (3,), (2, 1), (1, 1, 2)]))
    size = sum(widths)
    common, spread = draw(POWERS), draw(st.sampled_from([0.0, 2.0, 6.0]))
    scales = np.clip(common * 10.0 ** rng.uniform(-spread, spread, size), 1e-9, 1e9)
    turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
    condition = draw(st.sampled_from([1.0, 1e4, 1e8, 1e10, 1e12]))
    covariance = (turn * condition ** -np.linspace(0.0, 1.0, size)) @ turn.T
    covariance = np.outer(scales, scales) * (0.5 * (covariance + covariance.T))
    away = draw(st.sampled_from([0.0, 1.0, 1e3, 1e6, 1e9]))
    mean = scales * away * rng.uniform(0.5, 1.0, size)
    x = mean + scales * rng.standard_normal((n_rows, size))
    x[rng.random(x.shape) < draw(st.sampled_from([0.0, 0.3, 0.7]))] = np.nan
    blocks, data, first = [], {}, 0
    for k, width in enumerate(widths):
        own = slice(first, first := first + width)
        noise = scales[own.start] ** 2 * 10.0 ** draw(st.floats(-16.0, 8.0))
        x[rng.integers(n_rows), own.start] = mean[own.start]
        blocks.append(mc.Block(f"x{k}", mc.Gaussian(variance=noise), weight=draw(MAGNITUDES)))
        data[f"x{k}"] = x[:, own]
        if draw(st.integers(0, 2)) == 0:
            weights = 10.0 ** rng.uniform(-4.0, 4.0, data[f"x{k}"].shape)
            data[f"x{k}"] = mc.Observations(data[f"x{k}"], weights=weights)
    terms = [mc.GaussianRows(covariance, mean, draw(MAGNITUDES))]
    if draw(st.booleans()):
        terms.append(mc.Ridge(10.0 ** draw(st.floats(-12.0, 12.0)) / common**2))
    return mc.Model(blocks, terms), data


@st.composite
def weighty_rows(draw):
    """(model, data) of smooth losses of any unit and weight under a Gaussian of rows and a ridge.

    Units, weights and the ridge are from 1e-9 to 1e9 or at these ends, the variances of the
    Gaussian up to 1e36 times those of the data, and its mean up to 100 deviations away.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    far = st.sampled_from([1e-9, 1.0, 1e9]) | POWERS
    n_rows, blocks, data, spreads = draw(st.integers(1, 8)), [], {}, []
    for k in range(draw(st.integers(1, 2))):
        unit, width = draw(far), draw(st.integers(1, 3))
        words = [mc.Gaussian(), mc.Gaussian(unit**2), mc.Huber(unit), mc.Bernoulli(scale=unit)]
        words += [mc.Bernoulli(), mc.Ordinal(3, (-unit, unit)), mc.Poisson()]
        word = draw(st.sampled_from(words))
        values = observations(draw, rng, word, (n_rows, width))
        values = unit * values if word.location else values
        values[rng.random(values.shape) < 0.3] = np.nan
        values[0, 0] = 1.0
        blocks.append(mc.Block(f"x{k}", word, weight=draw(far)))
        data[f"x{k}"] = values
        spreads += [unit * draw(st.just(1.0) | POWERS)] * width
    turn = np.linalg.qr(rng.standard_normal((len(spreads), len(spreads))))[0]
    condition = draw(st.sampled_from([1.0, 10.0, 1e3]))
    covariance = (turn * condition ** -np.linspace(0.0, 1.0, len(spreads))) @ turn.T
    covariance = np.outer(spreads, spreads) * (0.5 * (covariance + covariance.T))
    away = draw(st.sampled_from([0.0, 1.0, 100.0]))
    mean = np.array(spreads) * away * rng.standard_normal(len(spreads))
    terms = [mc.GaussianRows(covariance, mean, draw(far)), mc.Ridge(draw(far))]
    return mc.Model(blocks, terms), data


@st.composite
def rows_with_effects(draw):
    """(model, data) of Huber's losses with free effects under a Gaussian of the rows.

    Blocks have one unit of 2^-100 to 2^100, and there may be a Gaussian one, too; variances are
    1e-12 to 1e24 times those of the data, and a mean may lie up to 10 deviations away.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, unit = draw(st.integers(3, 20)), 2.0 ** draw(st.integers(-100, 100))
    kinds = [{"bias": True}, {"row_effects": True}, {"bias": True, "row_effects": True}]
    words = [mc.Huber(unit * 10.0 ** rng.uniform(-2.0, 1.0))]
    if draw(st.booleans()):
        words.append(draw(st.sampled_from([words[0], mc.Gaussian(unit**2)])))
    blocks, data = [], {}
    for k, word in enumerate(words):
        width = draw(st.integers(1, 3))
        values = rng.standard_normal((n_rows, 1)) @ rng.standard_normal((1, width))
        values = values + 0.3 * rng.standard_t(2.0, values.shape)
        values[rng.random(values.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
        values[0, 0] = 1.0
        weight = 10.0 ** rng.uniform(-3.0, 3.0)
        weight = weight / unit**2 if isinstance(word, mc.Huber) else weight
        blocks.append(mc.Block(f"x{k}", word, weight=weight, **draw(st.sampled_from(kinds))))
        data[f"x{k}"] = unit * values
    size = sum(values.shape[1] for values in data.values())
    turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
    covariance = (turn * rng.uniform(0.1, 1.0, size)) @ turn.T
    spread = unit * 10.0 ** rng.uniform(-6.0, 12.0)
    covariance = spread**2 * 0.5 * (covariance + covariance.T)
    mean = unit * draw(st.sampled_from([0.0, 1.0, 10.0])) * rng.standard_normal(size)
    return mc.Model(blocks, [mc.GaussianRows(covariance, mean)]), data


@st.composite
def far_models(draw):
    """(model, data) whose columns have scales of 1e-9 to 1e9 and lie up to 1e12 away from 0.

    With exposures, entry weights, effects of all kinds, with a ridge on them and without, scales
    of losses, and hard constraints of the data's size; tables of one block may have 26 rows.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_items = draw(st.one_of(st.integers(1, 12), st.just(26)))
    blocks, data = [], {}
    scale = draw(POWERS)
    for k in range(draw(st.integers(1, 3 if n_items <= 12 else 1))):
        likelihood = with_scale(draw, draw(st.sampled_from(SMOOTH + ROUGH)), scale)
        fitted = isinstance(likelihood, mc.Ordinal) and likelihood.thresholds is None
        single = likelihood.width == 1 and likelihood.smooth and not fitted
        bias, rows = not fitted and draw(st.booleans()), single and draw(st.booleans())
        ridged = likelihood.smooth and (bias or rows) and draw(st.integers(0, 2)) == 0
        block = block_with_effects(draw, f"block{k}", likelihood, bias, rows, ridged)
        blocks.append(block)
        table = draw(tables(likelihood, n_items, draw(st.integers(1, 4))))
        data[block.name] = far(draw, rng, block, values_of(table), scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        main = with_scales(draw, far_main(draw, blocks, data, scale))
    return mc.Model(blocks, [*main, *far_constraint(draw, blocks, data, scale)]), data


def with_scale(draw, likelihood, scale):
    """A loss with its own scale in the unit of the data, or of any size."""
    if likelihood.location and draw(st.booleans()):
        return likelihood.in_units(1.0 / scale)[0]
    if isinstance(likelihood, mc.Bernoulli | mc.Gaussian) and draw(st.integers(0, 2)) == 0:
        name = "scale" if isinstance(likelihood, mc.Bernoulli) else "variance"
        return attrs.evolve(likelihood, **{name: draw(POWERS)})
    return likelihood


def far_constraint(draw, blocks, data, scale):
    """None, or one that a small matrix of the data's scale meets: bounds, or sums of a block."""
    kind = draw(st.sampled_from(["none", "none", "box", "sums"]))
    block = draw(st.sampled_from(blocks))
    if kind == "none" or any(isinstance(b.likelihood, mc.Equality) for b in blocks):
        return []
    if kind == "box":
        lower, upper = draw(st.sampled_from([(-0.5, 0.5), (-np.inf, 1.0), (0.01, 2.0)]))
        return [mc.Box(scale * lower, scale * upper, block.name)]
    n_items, width = values_of(data[block.name]).shape
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    small = 1e-3 * scale * rng.standard_normal((n_items, width * block.likelihood.width))
    word = draw(st.sampled_from(SIDES))
    A = rng.standard_normal((1, small.shape[SIDES.index(word)]))
    return [known_sums(block, A, sums_of(word, A, small), word=word)]


def block_with_effects(draw, name, likelihood, bias, row_effects, ridged):
    """A block of any weight; a ridge on its effects is of any weight, too."""
    return mc.Block(
        name,
        likelihood,
        weight=draw(MAGNITUDES),
        reduce=draw(st.sampled_from(["sum", "mean"])),
        bias=bias,
        row_effects=row_effects,
        effects_weight=draw(MAGNITUDES) * 10.0 ** draw(st.integers(-4, 4)) if ridged else None,
    )


def far(draw, rng, block, values, scale):
    """Values that are far from 0, or of another scale, with weights and an exposure."""
    given = {}
    kind = kind_of(block.likelihood)
    if kind == "reals":
        own = 10.0 ** rng.uniform(-1, 1, values.shape[1]) if draw(st.booleans()) else 1.0
        values = scale * own * values
        if draw(st.booleans()):
            away = rng.choice([-1.0, 1.0], values.shape[1]) * 10.0 ** rng.uniform(-9, 12)
            values = values + away
    elif kind == "positive":
        values = draw(POWERS) * values
    elif kind == "counts" and draw(st.booleans()):
        given["exposure"] = 10.0 ** rng.uniform(-6, 6, values.shape)
    if draw(st.integers(0, 2)) == 0:
        # Beside kinks the method of multipliers takes ever longer with them.
        orders = 6.0 if block.likelihood.smooth else 2.0
        given["weights"] = 10.0 ** rng.uniform(-orders, orders, values.shape)
    return mc.Observations(values, **given) if given else values


FAR_MAINS = ["norm", "norm", "norm and ridge", "ball", "max norm ball"]


def far_main(draw, blocks, data, scale, kinds=FAR_MAINS):
    """A norm at some share of the weight from which on Z is 0, or a ball of the data's size."""
    kind = draw(st.sampled_from(kinds))
    if kind == "ball":
        return [mc.NuclearBall(scale * draw(RADII))]
    if kind == "max norm ball":
        return [mc.MaxNormBall(scale * draw(RADII))]
    try:
        largest = mc.weight_max(mc.Model(blocks, [mc.NuclearNorm(1.0)]), data)
    except mc.McframeError:  # nothing pulls, or what pulls has no gradient
        largest = 1.0
    weight = largest * 10.0 ** draw(st.floats(-2.5, 0.3))
    ridge = [mc.Ridge(weight / scale * draw(MAGNITUDES))] if kind == "norm and ridge" else []
    return [mc.NuclearNorm(weight), *ridge]


def coefficients(draw, rng, n_items):
    """The rows of A: means of all items or of groups, contrasts, any numbers, or one row twice."""
    kind = draw(st.sampled_from(["mean", "groups", "contrast", "any", "twice"]))
    if kind == "mean":
        return np.full((1, n_items), 1.0 / n_items)
    if kind == "groups":
        return np.eye(2)[rng.integers(0, 2, n_items)].T
    A = rng.standard_normal((draw(st.integers(1, 2)), n_items))
    if kind == "contrast":
        return A - A.mean(axis=1, keepdims=True)
    return np.vstack([A, 2.0 * A]) if kind == "twice" else A


@st.composite
def calibrated_models(draw, sides=((mc.Calibration,), (mc.RowRelation,), (*SIDES,))):
    """(model, data): known sums of a block with effects, offsets, exposures, weights and units.

    Over rows, over columns, or both. As a penalty over eight orders of magnitude, as equations, or
    both; some of them unknown; of predictors that the block can have, or of others. Values have
    any scale and origin. Another block, and a box or a column of ones, may stand beside it.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_items, n_columns, scale = draw(st.integers(1, 9)), draw(st.integers(1, 4)), draw(POWERS)
    reals = [word for word in SMOOTH if word.location]
    word = with_scale(draw, draw(st.sampled_from([*reals, *reals, *SMOOTH, *ROUGH])), scale)
    free = not fits_parameters(word)
    single = free and word.width == 1 and word.smooth
    bias, rows = free and draw(st.booleans()), single and draw(st.integers(0, 2)) == 0
    ridged = word.smooth and (bias or rows) and draw(st.integers(0, 2)) == 0
    block = block_with_effects(draw, "x", word, bias, rows, ridged)
    units = [False, False, True, *["robust"] * word.location] if free else [False]
    block = attrs.evolve(block, standardize=draw(st.sampled_from(units)))
    values = values_of(draw(tables(word, n_items, n_columns)))
    given = far(draw, rng, block, values, scale)
    offset = 0.0
    if draw(st.integers(0, 2)) == 0:
        seen = given if isinstance(given, mc.Observations) else mc.Observations(given)
        if seen.exposure is None:
            offset = (scale if word.location else 1.0) * rng.standard_normal(values.shape)
            given = attrs.evolve(seen, offset=offset)
    blocks, data = [block], {"x": given}
    if draw(st.integers(0, 3)) == 0:
        blocks.append(mc.Block("beside", mc.Gaussian(), bias=draw(st.booleans())))
        data["beside"] = values_of(draw(tables(mc.Gaussian(), n_items, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        main = far_main(draw, blocks, data, scale, ["norm", "norm", "norm and ridge"])
    middle = np.nanmean(values_of(given)) if word.location else 0.0
    spread = max(np.nanstd(values_of(given)), 1e-3 * scale) if word.location else 1.0
    wanted = middle + spread * rng.standard_normal((n_items, n_columns * word.width))
    kinds, terms = draw(st.sampled_from(["hard", "hard", "penalty", "penalty", "both"])), []
    if kinds != "penalty" and not isinstance(word, mc.Equality):
        for kind in draw(st.sampled_from(sides)):
            sums = coefficients(draw, rng, wanted.shape[SIDES.index(kind)])
            totals = some_unknown(draw, rng, sums_of(kind, sums, wanted), 0.4)
            terms.append(known_sums(block, sums, totals, word=kind))
    if kinds != "hard" or not terms:
        for kind in draw(st.sampled_from(sides)):
            other = coefficients(draw, rng, wanted.shape[SIDES.index(kind)])
            weight = 10.0 ** draw(st.floats(-4.0, 4.0)) / spread**2
            terms.append(known_sums(block, other, sums_of(kind, other, wanted), weight, kind))
    if draw(st.integers(0, 5)) == 0:
        terms.append(mc.OnesColumn())
    return mc.Model(blocks, [*main, *terms]), data


@st.composite
def models_for_partitions(draw):
    """(model, data, number of partitions, form): what is fitted to rows in partitions.

    Columns of any scale and offset, exposures, weights, effects with a ridge and without, standard
    units, and unlabeled cells; down to a partition a row. The form is one of ``FORMS``, in which
    ``in_form`` gives the data.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_items = draw(st.integers(2, 14))
    blocks, data = [], {}
    scale = draw(POWERS)
    for k in range(draw(st.integers(1, 2))):
        word = draw(st.sampled_from(IN_PARTITIONS))
        fitted, labels = fits_parameters(word), isinstance(word, mc.RiskMixture)
        bias = not fitted and not labels and draw(st.booleans())
        rows = not fitted and not labels and word.width == 1 and draw(st.integers(0, 2)) == 0
        ridged = (bias or rows) and draw(st.integers(0, 2)) == 0
        block = block_with_effects(draw, f"block{k}", word, bias, rows, ridged)
        standard = word.width == 1 and not fitted and not labels and draw(st.booleans())
        block = attrs.evolve(block, standardize=standard)
        values = values_of(draw(tables(word, n_items, draw(st.integers(1, 4)))))
        data[block.name] = values if labels else far(draw, rng, block, values, scale)
        blocks.append(block)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        try:
            largest = mc.weight_max(mc.Model(blocks, [mc.NuclearNorm(1.0)]), data)
        except mc.McframeError:  # nothing pulls
            largest = 1.0
    norm = mc.NuclearNorm((largest or 1.0) * 10.0 ** draw(st.floats(-2.0, 0.3)))
    form = FORMS[rng.integers(len(FORMS))]
    return mc.Model(blocks, with_scales(draw, [norm])), data, draw(st.integers(1, n_items)), form


def in_form(form, data, n_partitions, folder):
    """Data in partitions as users have them: cut in memory, on disk, or Dask's collections.

    Blocks of Dask's are of both kinds in turn, and cut at different rows and columns.
    """
    if form == "in memory":
        return RowsInMemory(data, n_partitions)
    if form == "on disk":
        sources = {name: [given] for name, given in data.items()}
        seen = [~np.isnan(values_of(given)).all(axis=1) for given in data.values()]
        n_partitions = min(n_partitions, np.count_nonzero(np.any(seen, axis=0)))
        return mc.datasets.write_partitions(sources, folder, n_partitions=n_partitions)
    return {
        name: in_dask(given, n_partitions + k, (form == "dask frame") ^ bool(k))
        for k, (name, given) in enumerate(data.items())
    }


def in_dask(given, n_chunks, as_frame):
    """A matrix or ``Observations`` as collections of Dask: frames, or arrays in chunks."""
    if isinstance(given, mc.Observations):
        added = {what: getattr(given, what) for what in ("weights", "offset", "exposure")}
        found = {
            what: None if numbers is None else in_dask(numbers, n_chunks + 1, as_frame)
            for what, numbers in added.items()
        }
        return mc.Observations(in_dask(given.values, n_chunks, as_frame), **found)
    if as_frame:
        import dask.dataframe as dd
        import pandas as pd

        names = [f"c{k}" for k in range(given.shape[1])]
        return dd.from_pandas(pd.DataFrame(given, columns=names), npartitions=n_chunks)
    import dask.array as da

    return da.from_array(given, chunks=(max(1, -(-given.shape[0] // n_chunks)), 2))


@st.composite
def sampled(draw):
    """A pattern with its entries in any order, their rows and columns, and a generator."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    mask = rng.random(shape) < draw(st.sampled_from([0.05, 0.3, 1.0]))
    rows, columns = np.nonzero(mask)
    order = rng.permutation(rows.size)
    rows, columns = rows[order], columns[order]
    return Pattern.of(shape, rows, columns), rows, columns, rng


@st.composite
def damaged(draw, content):
    """Other content of a file: some bytes changed, a run of zeros, cut off, or with more."""
    found, at = bytearray(content), draw(st.integers(0, len(content) - 1))
    kind = draw(st.sampled_from(["flips", "flips", "zeros", "cut", "more"]))
    if kind == "flips":
        for place in {at, *draw(st.lists(st.integers(0, len(content) - 1), max_size=4))}:
            found[place] ^= draw(st.integers(1, 255))
    elif kind == "zeros":
        length = min(draw(st.sampled_from([4, 64, 4096])), len(content) - at)
        found[at : at + length] = bytes(length)
    elif kind == "cut":
        del found[at:]
    else:
        found[at:at] = draw(st.binary(min_size=1, max_size=4))
    assume(bytes(found) != content)
    return bytes(found)


@st.composite
def everything(draw):
    """(model, data, number of partitions): any words, options and scales that may stand together.

    Each block has a scale of its own between 1e-9 and 1e9. The covariance of Gaussian rows follows
    the columns, so that its diagonal has up to 36 orders of magnitude; its correlations have
    conditions up to 1e10.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_items = draw(st.integers(1, 14))
    common, blocks, data = draw(POWERS), [], {}
    for k in range(draw(st.integers(1, 3))):
        scale = common if draw(st.booleans()) else draw(POWERS)
        word = with_scale(draw, draw(st.sampled_from(SMOOTH + ROUGH + RISKS)), scale)
        labels = isinstance(word, mc.RiskMixture)
        free = not labels and not fits_parameters(word)
        single = free and word.width == 1
        bias = free and draw(st.booleans())
        rows = single and word.smooth and draw(st.integers(0, 3)) == 0
        ridged = word.smooth and (bias or rows) and draw(st.integers(0, 2)) == 0
        block = block_with_effects(draw, f"block{k}", word, bias, rows, ridged)
        units = [False, True] if free else [False]
        if free and word.location:
            units += ["robust", *["ranks"] * (not word.takes_intervals)]
        block = attrs.evolve(block, standardize=draw(st.sampled_from(units)))
        values = values_of(draw(tables(word, n_items, draw(st.integers(1, 4)))))
        given = values if labels else far(draw, rng, block, values, scale)
        if word.takes_propensities:
            given = mc.Observations(values, propensity=propensities(draw, rng, values))
        if word.takes_intervals and draw(st.booleans()):
            seen = given if isinstance(given, mc.Observations) else mc.Observations(given)
            spread = np.ptp(np.nan_to_num(seen.values), axis=0)
            unit = np.where(spread > 0.0, spread, scale)
            given = attrs.evolve(seen, **limits(draw, rng, seen.values, unit))
        if not labels and draw(st.integers(0, 7)) == 0:
            seen = given if isinstance(given, mc.Observations) else mc.Observations(given)
            if seen.exposure is None:
                given = attrs.evolve(seen, offset=scale * rng.standard_normal(values.shape))
        blocks.append(block)
        data[block.name] = given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        terms = with_scales(draw, everywhere(draw, rng, blocks, data, common))
    return mc.Model(blocks, terms), data, draw(st.integers(1, n_items))


@st.composite
def posterior_models(draw):
    """(model, data): blocks of ``everything`` that have likelihoods, under a prior of any size."""
    model, data, _ = draw(everything())
    blocks = []
    for block in model.blocks:
        changed = attrs.evolve(block, reduce="sum")
        takes_any = changed.likelihood.location and not changed.likelihood.takes_intervals
        if takes_any and draw(st.booleans()):
            changed = attrs.evolve(changed, likelihood=mc.Gaussian(variance=None))
        if why_no_posterior(changed) is None:
            blocks.append(changed)
    assume(blocks)
    data = {block.name: data[block.name] for block in blocks}
    wide = [np.repeat(values_of(data[b.name]), b.likelihood.width, 1) for b in blocks]
    kind = draw(st.sampled_from(["learned", "norm", "rows", "given rows"]))
    if kind.endswith("rows"):  # whose mean is what biases are elsewhere
        plain = {"bias": False, "row_effects": False, "effects_weight": None}
        blocks = [attrs.evolve(block, **plain) for block in blocks]
    if kind == "norm":
        terms = [mc.NuclearNorm(draw(MAGNITUDES) / draw(POWERS))]
    elif kind == "learned":
        terms = [mc.NuclearNorm()]
    elif kind == "rows":
        components = draw(st.sampled_from([1, 1, 2, "auto"]))
        variables = None
        if draw(st.booleans()):
            widths = [b.likelihood.width for b in blocks]
            shapes = [np.shape(values_of(data[b.name])) for b in blocks]
            n_labels = sum(shape[1] for shape in shapes)
            variables = np.repeat(
                np.arange(n_labels), np.repeat(widths, [shape[1] for shape in shapes])
            )
        terms = [mc.GaussianRows(components=components, variables=variables)]
        if components == 1 and len(wide[0]) > 1 and draw(st.booleans()):
            groups = [0, 1, *draw(st.lists(st.integers(0, 3), min_size=98, max_size=98))]
            options = {"groups": groups[: len(wide[0])]}
            if len(wide[0]) > 3 and draw(st.booleans()):
                times = 10.0 ** draw(st.integers(-9, 9)) * np.arange(len(wide[0]))
                options |= {"times": times, "trend": draw(st.integers(1, 3))}
            terms = [mc.GaussianRows(**options)]
        elif all(isinstance(block.likelihood, mc.Gaussian) for block in blocks):
            exponents = draw(st.lists(st.integers(-9, 9), min_size=99, max_size=99))
            weights = 10.0 ** np.resize(exponents, len(wide[0]))
            options = {"variables": variables, "row_weights": weights}
            terms = [mc.GaussianRows(components=components, **options)]
    else:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        terms = [rows_of_any_scale(draw, rng, blocks, wide)]
    return mc.Model(blocks, terms), data


def everywhere(draw, rng, blocks, data, scale):
    """What covers all of Z, often with a ridge, sums, bounds or a column of ones beside it."""
    values = [values_of(data[block.name]) for block in blocks]
    wide = [np.repeat(v, b.likelihood.width, 1) for v, b in zip(values, blocks, strict=True)]
    kind = draw(st.sampled_from(["norm", "norm", "any", "rows", "rows and ridge", "rows and any"]))
    main = [rows_of_any_scale(draw, rng, blocks, wide)] if kind.startswith("rows") else []
    if kind == "rows and ridge":
        main.append(mc.Ridge(draw(MAGNITUDES) / draw(POWERS)))
    elif kind != "rows":
        main += far_main(draw, blocks, data, scale, ["norm"] if kind == "norm" else FAR_MAINS)
    if kind != "any" and draw(st.booleans()):  # which partitions or ``rowwise`` take
        return main
    known = [block for block in blocks if block.standardize != "ranks"]
    if not known:
        return main
    block = draw(st.sampled_from(known))
    kind = draw(st.sampled_from(["hard", "penalty", "ones", "residual", "across"]))
    if kind == "across":
        near = [scale * 1e-3 * rng.standard_normal(v.shape) for v in wide]
        weight = draw(st.sampled_from([None, 1.0])) and draw(MAGNITUDES)
        found = across_blocks(rng, blocks, near, weight)
        exact = any(isinstance(block.likelihood, mc.Equality) for block in blocks)
        return main if found is None or (exact and weight is None) else [*main, found]
    if kind == "hard":
        return [*main, *far_constraint(draw, known, data, scale)]
    if kind == "penalty":
        n_items, n_columns = values_of(data[block.name]).shape
        predictors = scale * rng.standard_normal((n_items, n_columns * block.likelihood.width))
        word = draw(st.sampled_from(SIDES))
        sums = rng.standard_normal((2, predictors.shape[SIDES.index(word)]))
        totals = sums_of(word, sums, predictors)
        return [*main, known_sums(block, sums, totals, draw(MAGNITUDES), word)]
    if kind == "residual" and block.likelihood.location:
        return [*main, mc.ResidualNuclearNorm(block.name, draw(MAGNITUDES))]
    return [*main, mc.OnesColumn()]


def rows_of_any_scale(draw, rng, blocks, wide):
    """Gaussian rows with the scale and the place of the data in each column of reals, or not."""
    spread, centre = [], []
    for block, values in zip(blocks, wide, strict=True):
        reals = kind_of(block.likelihood) == "reals" and not block.standardize
        for column in values.T:
            seen = column[np.isfinite(column)] if reals else np.zeros(0)
            wide_enough = seen.size > 1 and np.ptp(seen) > 0
            spread.append(np.std(seen) if wide_enough else 1.0)
            centre.append(np.mean(seen) if seen.size else 0.0)
    condition = draw(st.sampled_from([1.0, 1e2, 1e4, 1e6, 1e8, 1e10]))
    d = len(spread)
    if draw(st.booleans()):  # a prior that does not fit the data
        spread = np.array(spread) * 10.0 ** rng.uniform(-8, 8, d)
        centre = np.array(centre) * rng.choice([0.0, 1.0, 10.0], d)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    covariance = (turn * condition ** -np.linspace(0.0, 1.0, d)) @ turn.T
    covariance = covariance * np.outer(spread, spread)
    return mc.GaussianRows((covariance + covariance.T) / 2, np.asarray(centre), draw(MAGNITUDES))


# Of parameters, weights and values: as far from 1 as a table may have them, and beyond.
EXTREME = st.one_of(
    MAGNITUDES, *(st.floats(-e, e).map(lambda e: 10.0**e) for e in (9.0, 40.0, 300.0))
)


def extreme_word(draw):
    """A likelihood of which some parameters are extreme; it may be refused."""
    kinds = [
        mc.Gaussian,
        mc.Huber,
        lambda scale: mc.Bernoulli(scale=scale),
        lambda scale: mc.Bernoulli("probit", scale=scale),
        mc.NegativeBinomial,
        mc.Gamma,
        lambda q: mc.Quantile(min(q, 0.5)),
        lambda width: mc.Ordinal(3, (-width, width)),
        *(lambda _, word=word: word for word in [*SMOOTH, *ROUGH, *RISKS]),
    ]
    return draw(st.sampled_from(kinds))(draw(EXTREME))


def extreme_values(draw, likelihood, shape):
    """Values of any size, with weights and offsets of any size."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = observations(draw, rng, likelihood, shape)
    with np.errstate(over="ignore"):
        if kind_of(likelihood) != "levels":
            values = values * draw(EXTREME)
        if kind_of(likelihood) == "counts":
            values = np.floor(values)
    hidden = rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 0.7]))
    hidden[rng.integers(shape[0]), rng.integers(shape[1])] = False
    values[hidden] = np.nan
    given = {}
    if draw(st.integers(0, 2)) == 0:
        spread = draw(st.sampled_from([0.0, 5.0, 300.0]))
        with np.errstate(over="ignore"):
            given["weights"] = draw(EXTREME) * 10.0 ** rng.uniform(-spread, spread, shape)
    if draw(st.integers(0, 3)) == 0:
        given["offset"] = draw(EXTREME) * rng.standard_normal(shape)
    return mc.Observations(values, **given) if given else values


def extreme_block(draw, name):
    """A block whose parameters and weights are extreme; it may be refused."""
    word = extreme_word(draw)
    unread, fitted = isinstance(word, mc.RiskMixture), fits_parameters(word)
    bias = not unread and not fitted and draw(st.booleans())
    rows = not unread and not fitted and word.width == 1 and draw(st.integers(0, 2)) == 0
    standard = [False, False, True, "robust" if word.location else True]
    return mc.Block(
        name,
        word,
        weight=draw(EXTREME),
        reduce=draw(st.sampled_from(["sum", "mean"])),
        bias=bias,
        row_effects=rows,
        standardize=not unread and draw(st.sampled_from(standard)),
        effects_weight=draw(st.none() | EXTREME) if bias or rows else None,
    )


def extreme_terms(draw, name, n_columns, shape):
    """One main regularizer and up to two beside it, of any weight; a block's shape is needed."""
    main = [mc.NuclearNorm, mc.NuclearNorm, mc.Ridge, mc.NuclearBall, mc.MaxNorm, mc.MaxNormBall]
    main.append(lambda size: mc.GaussianRows(size * np.eye(n_columns), np.zeros(n_columns)))
    beside = [mc.Ridge, lambda size: mc.Box(-size, size), lambda _: mc.OnesColumn()]
    beside.append(lambda weight: mc.ResidualNuclearNorm(name, weight))
    mean, sums = np.full((1, shape[0]), 1.0 / shape[0]), np.linspace(-1.0, 1.0, shape[1])[None]
    beside.append(lambda size: mc.Calibration(name, mean, size * sums, of="predictors"))
    all_columns = np.ones(shape[1])
    beside.append(lambda size: mc.RowRelation(name, all_columns, size, of="predictors"))
    kinds = [draw(st.sampled_from(main))]
    kinds += draw(st.lists(st.sampled_from(beside), max_size=2, unique=True))
    return [kind(draw(EXTREME)) for kind in kinds]


@st.composite
def extreme_models(draw):
    """(model, data) with parameters, weights and values from 1e-300 to 1e300; None if refused."""
    n_items = draw(st.integers(1, 8))
    blocks, data = [], {}
    try:
        for k in range(draw(st.integers(1, 2))):
            blocks.append(extreme_block(draw, f"block{k}"))
            shape = n_items, draw(st.integers(1, 4))
            data[f"block{k}"] = extreme_values(draw, blocks[-1].likelihood, shape)
        widths = [values_of(data[b.name]).shape[1] * b.likelihood.width for b in blocks]
        return mc.Model(
            blocks, extreme_terms(draw, blocks[0].name, sum(widths), (n_items, widths[0]))
        ), data
    except mc.McframeError:
        return None


def of_text_numbers(rng, n_rows):
    """Numbers as text, with signs of missing values and text that is none."""
    numbers = rng.choice(["1.5", " 2", "3e1", "-7.25", "4", "0.125"], n_rows).astype(object)
    numbers[rng.random(n_rows) < 0.2] = rng.choice(["?", "n/a", "", " NULL"])
    numbers[rng.random(n_rows) < 0.05] = "<5"
    return numbers


def of_mostly_numbers(rng, n_rows):
    """Numbers as text, some of them replaced by a word that means that nothing was observed."""
    numbers = np.array([f"{number:.1f}" for number in rng.normal(50, 9, n_rows)], dtype=object)
    word = rng.choice(["Don't know", "ND", "*", "<35", "keine Angabe"])
    numbers[rng.random(n_rows) < rng.choice([0.05, 0.2])] = word
    return numbers


def of_decimals(rng, n_rows):
    """Decimal numbers of two places."""
    return np.array([Decimal(f"{number:.2f}") for number in rng.normal(0, 9, n_rows)])


# Columns by the normal numbers z that they follow, with the ends of their supports.
SHAPES = {
    "normal": (lambda z: 3.0 * z, -np.inf, np.inf),
    "positive": (np.exp, 0.0, np.inf),
    "negative": (lambda z: -np.exp(0.7 * z), -np.inf, 0.0),
    "share": (lambda z: ndtr(2.0 * z), 0.0, 1.0),
    "counted": (lambda z: np.floor(np.exp(1.5 + z)), 0.0, np.inf),
    "heavy": (lambda z: z + 0.25 * z**3, -np.inf, np.inf),
    "near a bound": (lambda z: np.abs(4.0 + z), 0.0, np.inf),
    "zero or more": (lambda z: np.where(z < 0.0, 0.0, np.exp(z)), 0.0, np.inf),
    "zero or any": (lambda z: np.where(z < -0.3, 0.0, z + 0.1), -np.inf, np.inf),
}


def of_limits(rng, n):
    """Numbers in any unit, small, negative and large ones as text of limits alone."""
    numbers = rng.choice([0.0, 3.0, 100.0]) + rng.standard_normal(n)
    if rng.random() < 0.3:
        numbers = np.exp(numbers / max(1.0, np.abs(numbers).max() / 3.0))
    if rng.random() < 0.3:
        numbers = np.rint(3.0 * numbers)
    unit = 10.0 ** rng.choice([-6.0, 0.0, 0.0, 6.0])
    ends = np.quantile(numbers, [rng.choice([0.0, 0.2, 0.6]), rng.choice([0.8, 1.0])])
    low, high = (float(end * unit) for end in ends)
    texts = [repr(float(number * unit)) for number in numbers]
    for k, number in enumerate(numbers * unit):
        if number < low:
            texts[k] = rng.choice([f"<{low!r}", f"below {low!r}", f"≤ {low!r}"])
        elif number > high:
            texts[k] = rng.choice([f"> {high!r}", f"at least {high!r}", f"{high!r}+"])
        elif rng.random() < 0.1:
            texts[k] = f"{number - unit!r} to {number + 2.0 * unit!r}"
    return np.array([text.replace("np.float64(", "").replace(")", "") for text in texts], object)


# Columns of tables that users have: values by the generator and the number of rows.
COLUMNS = {
    "numbers": lambda rng, n: rng.standard_normal(n),
    "any unit": lambda rng, n: rng.standard_normal(n) * 10.0 ** rng.uniform(-300.0, 300.0),
    "far from 0": lambda rng, n: 1e9 + rng.standard_normal(n),
    "whole": lambda rng, n: pd.array(rng.poisson(3.0, n), dtype="Int64"),
    "large": lambda rng, n: pd.array(2**53 + 1 + 2 * rng.integers(0, 2**61, n), dtype="Int64"),
    "small": lambda rng, n: pd.array(rng.integers(0, 200, n), dtype="UInt8"),
    "truth": lambda rng, n: pd.array(rng.random(n) < 0.4, dtype="boolean"),
    "label": lambda rng, n: rng.choice(["no", "yes"], n).astype(object),
    "town": lambda rng, n: pd.Series(rng.choice(["Ulm", "Bonn", "Kiel"], n), dtype="string"),
    "kinds": lambda rng, n: pd.Categorical(rng.choice(["p", "q", "r", "s"], n)),
    "levels": lambda rng, n: pd.Categorical(rng.choice([*"abc"], n), [*"abc"], ordered=True),
    "day": lambda rng, n: (
        pd.Timestamp("2020-02-29") + pd.to_timedelta(rng.integers(0, 99, n), "D")
    ),
    "coded": lambda rng, n: np.where(rng.random(n) < 0.2, -99.0, rng.integers(18, 90, n)),
    "scale": lambda rng, n: np.where(rng.random(n) < 0.1, 9, rng.integers(1, 6, n)),
    "halves": lambda rng, n: rng.choice([0.5, 1.0, 1.5, 2.0], n),
    "decimals": of_decimals,
    "other bytes": lambda rng, n: rng.standard_normal(n).astype(">f8"),
    "mostly numbers": of_mostly_numbers,
    "text": of_text_numbers,
    "limits": of_limits,
    "limits of a column": lambda rng, n: np.full(n, rng.normal()),
    "arrow text": lambda rng, n: pd.array(of_text_numbers(rng, n), dtype="string[pyarrow]"),
    "mixed": lambda rng, n: np.where(
        rng.random(n) < 0.9, rng.integers(0, 9, n).astype(object), "-"
    ),
    "strange": lambda rng, n: rng.choice(np.array([1.5, "a", True, 7], dtype=object), n),
    "shares": lambda rng, n: rng.choice(["10 %", "2.5 %", "33 %"], n).astype(object),
    "times": lambda rng, n: rng.choice(["8:00", "12:30", "17:45"], n).astype(object),
    "months": lambda rng, n: pd.PeriodIndex.from_ordinals(rng.integers(500, 600, n), freq="M"),
    "spans": lambda rng, n: pd.to_timedelta(rng.integers(0, 9000, n), "s"),
    "commas": lambda rng, n: rng.choice(["1,234", "5,5", "6"], n).astype(object),
    "code": lambda rng, n: rng.choice(["007", "012", "99"], n).astype(object),
    "constant": lambda rng, n: np.full(n, "de", dtype=object),
    "name": lambda rng, n: np.array([f"name {k}" for k in range(n)], dtype=object),
    "nothing": lambda rng, n: np.full(n, np.nan),
}
COLUMNS |= {
    name: lambda rng, n, shape=shape: shape(rng.standard_normal(n))
    for name, (shape, *_) in SHAPES.items()
}
LIBRARIES = {
    "pandas": lambda frame: frame,
    "nullable": lambda frame: frame.convert_dtypes(),
    "arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda frame: pl.from_pandas(frame),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame),
}


# Scales by the names of columns that have them, as lists of whole numbers and of floats.
SCALES = {
    "scale": [1, 2, 3, 4, 5, 9],
    "small": [0.0, 1.0, 2.0],
    "halves": [0.5, 1.0, 1.5, 2.0],
    "levels": ["a", "b", "c"],
}


def list_of_entries(draw, rng):
    """A table that lists numbers of users and items, each pair of them once or not."""
    n_users, n_items = draw(st.integers(2, 12)), draw(st.integers(2, 8))
    cells = np.flatnonzero(rng.random(n_users * n_items) < draw(st.sampled_from([0.4, 1.0])))
    cells = rng.permutation(cells if cells.size else np.zeros(1, dtype=int))
    if draw(st.booleans()):
        cells = np.append(cells, cells[:1])
    users, items = np.divmod(cells, n_items)
    names = draw(st.sampled_from([("user", "item"), ("user_id", "film_id"), ("row", "column")]))
    keys = {names[0]: users, names[1]: np.array([f"item {k}" for k in items], dtype=object)}
    return pd.DataFrame({**keys, "numbers": rng.integers(1, 6, cells.size).astype(float)})


@st.composite
def frames(draw):
    """A table of pandas with columns of any kind, holes in each, and a function to its library.

    One in eight lists entries.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    form = draw(st.sampled_from(list(LIBRARIES)))
    if draw(st.integers(0, 7)) == 0:
        return list_of_entries(draw, rng), LIBRARIES[form]
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=5, unique=True))
    n_rows = draw(st.one_of(st.integers(1, 24), st.just(80)))
    columns = dict.fromkeys(["numbers", *names])
    frame = pd.DataFrame({name: COLUMNS[name](rng, n_rows) for name in columns})
    hidden = rng.random(frame.shape) < draw(st.sampled_from([0.0, 0.2, 0.5]))
    page = rng.random(frame.shape[1]) < draw(st.sampled_from([0.0, 0.5]))  # missing together
    hidden[:, page] = rng.random((n_rows, 1)) < 0.3
    frame = frame.mask(hidden)
    if n_rows > 24:  # pandas cannot shorten them when it prints
        frame = frame.drop(columns=["other bytes"], errors="ignore")
    if form in ("arrow", "polars", "pyarrow"):
        frame = frame.drop(columns=["months", "other bytes"], errors="ignore")
    if form in ("polars", "pyarrow"):
        frame = frame.drop(columns=["mixed", "strange"], errors="ignore")
    return frame, LIBRARIES[form]


@st.composite
def skewed_tables(draw):
    """A table of skewed labels and levels and a rare category, whole and with holes.

    Holes are random, or depend on the first column, which is observed.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([40, 150, 400]))
    size, other = rng.standard_normal((2, n))
    scale = draw(POWERS)

    def cut(shares):
        """Places 0, 1, ... of a noisy number, so many of each."""
        z = draw(st.sampled_from([0.0, 1.0, 2.0])) * size + other + rng.standard_normal(n)
        return np.searchsorted(np.quantile(z, np.cumsum(shares)[:-1]), z)

    rare = draw(st.sampled_from([0.02, 0.1, 0.5]))
    label, town = cut([1.0 - rare, rare]), cut([0.6, 0.4 - rare / 2.0, rare / 2.0])
    level = cut(draw(st.permutations([0.75, 0.15, 0.05, 0.05])))
    names = [("label", label, "ny", False), ("level", level, "abcd", True)]
    names += [("town", town, ["Bonn", "Kiel", "Ulm"], False)]
    whole = pd.DataFrame({"size": scale * size, "other": other})
    for name, codes, places, ordered in names:
        whole[name] = pd.Categorical.from_codes(codes, list(places), ordered=ordered)
    tilt = draw(st.sampled_from([0.0, 2.0]))
    hidden = rng.random((n, 4)) < 1.0 / (1.0 + np.exp(1.0 - tilt * size[:, None]))
    frame = whole.mask(np.column_stack([np.zeros(n, dtype=bool), hidden]))
    for name, codes, places, _ in names:  # every value stays somewhere
        for place in range(len(places)):
            own = np.flatnonzero(codes == place)
            frame.loc[own[:1], name] = whole.loc[own[:1], name]
    return whole, frame


# Columns of a table that tell of each other, by a number with the same distribution everywhere.
RELATED = {
    "number": lambda rng, z: z,
    "far": lambda rng, z: 1e6 + 1e-3 * z,
    "whole": lambda rng, z: pd.array(np.rint(20.0 * z), dtype="Int64"),
    "visits": lambda rng, z: rng.poisson(np.exp(0.7 * z)).astype(float),
    "share": lambda rng, z: 1.0 / (1.0 + np.exp(-z)),
    "truth": lambda rng, z: pd.array(z > rng.choice([0.0, 1.2]), dtype="boolean"),
    "answer": lambda rng, z: np.where(z > rng.choice([0.0, -1.0]), "yes", "no").astype(object),
    "town": lambda rng, z: np.array(["Bonn", "Kiel", "Ulm"], dtype=object)[
        np.digitize(z, rng.choice([-1.0, 0.0]) + np.array([0.0, 1.0]))
    ],
    "grade": lambda rng, z: pd.Categorical(np.digitize(z, [-1.0, 0.0, 0.8]), ordered=True),
    "day": lambda rng, z: (
        pd.Timestamp("2020-02-29") + pd.to_timedelta(np.rint(100.0 * z), unit="D")
    ),
}
RELATED |= {
    f"{name} of a support": lambda rng, z, shape=shape: shape(z)
    for name, (shape, *_) in SHAPES.items()
}
RELATED_TYPES = {"visits": "count", "share": ("number", 0, 1), "day": "date"}


@st.composite
def tables_with_an_end(draw):
    """A table without the largest or smallest numbers of "cut", columns of any kind beside it.

    Also the end, whether it is the upper one, and a function to a library.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, z = 240, rng.standard_normal(240)
    names = draw(st.lists(st.sampled_from(list(RELATED)), min_size=1, max_size=4, unique=True))
    columns = {f"near {k}": z + 0.2 * rng.standard_normal(n) for k in range(2)}
    columns |= {name: RELATED[name](rng, z + 0.3 * rng.standard_normal(n)) for name in names}
    beside = draw(st.lists(st.sampled_from(list(COLUMNS)), max_size=2, unique=True))
    columns |= {name: COLUMNS[name](rng, n) for name in beside}
    frame = pd.DataFrame(columns)
    frame = frame.mask(rng.random(frame.shape) < draw(st.sampled_from([0.0, 0.2])))
    form = draw(st.sampled_from(list(LIBRARIES)))
    if form in ("arrow", "polars", "pyarrow"):
        frame = frame.drop(columns=["months", "other bytes", "mixed", "strange"], errors="ignore")
    frame = frame.drop(columns="other bytes", errors="ignore")  # pandas cannot shorten them
    upper, scale = draw(st.booleans()), draw(POWERS)
    offset = draw(st.sampled_from([0.0, 0.0, 1.0, -1e4]))
    numbers = scale * (offset + z + 0.2 * rng.standard_normal(n))
    kind = draw(st.sampled_from(["normal", "normal", "whole", "lognormal"]))
    if kind == "whole":
        numbers = np.rint(8.0 * numbers / scale)
    elif kind == "lognormal":
        numbers = scale * np.exp(numbers / scale - offset)
    end = np.quantile(numbers, 0.7 if upper else 0.3, method="nearest")
    frame.insert(0, "cut", np.where(numbers <= end if upper else numbers >= end, numbers, np.nan))
    return frame, float(end), upper, LIBRARIES[form]


# Columns without any variation, of every form.
CONSTANTS = {
    "number": lambda n: np.full(n, -2.5),
    "zero": np.zeros,
    "large": lambda n: np.full(n, 1e200),
    "whole": lambda n: pd.array(np.full(n, 3), dtype="Int64"),
    "truth": lambda n: pd.array(np.ones(n, dtype=bool), dtype="boolean"),
    "text": lambda n: np.full(n, "de", dtype=object),
    "text number": lambda n: np.full(n, "7", dtype=object),
    "category": lambda n: pd.Categorical(["Ulm"] * n, categories=["Bonn", "Ulm"]),
    "level": lambda n: pd.Categorical([2] * n, ordered=True),
}


@st.composite
def constant_tables(draw):
    """A table of constants with holes, perhaps beside columns that are set aside, in any library.

    The first entry of each constant is observed.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, names = draw(st.integers(1, 9)), draw(st.permutations(list(CONSTANTS)))
    whole = pd.DataFrame({name: CONSTANTS[name](n) for name in names[: draw(st.integers(1, 4))]})
    hidden = rng.random(whole.shape) < draw(st.sampled_from([0.0, 0.3, 0.8]))
    hidden[0] = False
    frame = whole.mask(hidden)
    if draw(st.booleans()):
        frame["nothing"] = np.full(n, np.nan)
    if draw(st.booleans()):
        frame["name"] = np.array([f"name {k}" for k in range(n + 1)], dtype=object)[1:]
        frame.loc[0, "name"] = None if n < 3 else "name 1"
    return whole, LIBRARIES[draw(st.sampled_from(list(LIBRARIES)))](frame)


@st.composite
def related_tables(draw):
    """A table whose columns, of all kinds in any order, tell of each other; its types.

    Whole and with holes in every column; some rows are empty. Rows lie along a line, a curve, or
    in clusters, which mixtures tell apart.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, form = draw(st.sampled_from([12, 40, 90])), draw(st.sampled_from(["line", "curve", "some"]))
    names = draw(st.permutations(list(RELATED)))[: draw(st.integers(2, 6))]
    noise, common = draw(st.sampled_from([0.1, 0.5, 1.5])), rng.standard_normal(n)
    centres = 2.0 * rng.standard_normal((3, len(names)))
    clusters = rng.integers(0, 3, n)
    whole = pd.DataFrame(index=range(n))
    for k, name in enumerate(names):
        z = common if form == "line" else rng.choice([1.0, -1.0]) * common
        z = np.square(z) - 1.0 if form == "curve" and k % 2 else z
        z = centres[clusters, k] if form == "some" else z
        whole[name] = RELATED[name](rng, z + noise * rng.standard_normal(n))
    hidden = rng.random(whole.shape) < draw(st.sampled_from([0.1, 0.3]))
    if draw(st.booleans()):
        hidden[::7] = True
    hidden[1:3] = False  # so that each column has two observed entries
    frame = whole.mask(hidden)
    few = [name for name in names if frame[name].nunique() < 2]
    types = {name: kind for name, kind in RELATED_TYPES.items() if name in names}
    whole, frame = whole.drop(columns=few), frame.drop(columns=few)
    assume(frame.shape[1] > 0)
    return whole, frame, {name: kind for name, kind in types.items() if name not in few}


@st.composite
def tables_of_chance(draw):
    """Numbers of which some tell of a label, levels or categories; whole and with holes.

    Along a line or a curve or in clusters, such that one Gaussian or a mixture is chosen, with
    rows that are empty.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_numbers = draw(st.sampled_from([60, 120, 300])), draw(st.integers(2, 5))
    form, noise = (
        draw(st.sampled_from(["line", "curve", "some"])),
        draw(st.sampled_from([0.3, 1.0])),
    )
    s, tells = rng.standard_normal(n), rng.choice([1.0, 1.0, -1.0, 0.0], n_numbers)
    numbers = s[:, None] * tells
    if form == "some":
        clusters, centres = rng.integers(0, 3, n), 2.0 * rng.standard_normal((3, n_numbers + 1))
        numbers, s = centres[clusters, 1:], 0.5 * centres[clusters, 0]
    s = np.square(s) - 1.0 if form == "curve" else s
    z = s + 0.6 * rng.standard_normal(n)
    cuts = draw(st.sampled_from([[0.5], [0.9], [0.4, 0.7], [0.3, 0.55, 0.8]]))
    values = pd.Series(np.array(list("abcd"))[np.searchsorted(np.quantile(z, cuts), z)])
    if len(cuts) == 3:
        values = values.astype(pd.CategoricalDtype(list("abcd"), ordered=True))
    whole = pd.DataFrame(numbers + noise * rng.standard_normal(numbers.shape)).rename(columns=str)
    whole["k"] = values
    hidden = rng.random(whole.shape) < draw(st.sampled_from([0.1, 0.25, 0.4]))
    hidden[::15] = True
    frame = whole.mask(hidden)
    assume(set(frame["k"].dropna()) == set(values))
    return whole, frame


@st.composite
def wide_frames(draw):
    """A table of pandas with few rows and 50 to 400 columns of several kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_columns = draw(st.integers(3, 40)), draw(st.integers(50, 400))
    numbers = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, n_columns))
    numbers += 0.5 * rng.normal(size=numbers.shape)
    share = draw(st.sampled_from([0.0, 0.1, 0.3]))
    frame = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(n_columns)])
    for j in np.flatnonzero(rng.random(n_columns) < share):
        words = np.array(["low", "middle", "high"][: rng.integers(2, 4)], dtype=object)
        frame[f"x{j}"] = words[np.clip(np.rint(numbers[:, j]) + 1, 0, words.size - 1).astype(int)]
    return frame.mask(rng.random(frame.shape) < draw(st.sampled_from([0.05, 0.3])))


# What becomes of a field in the next version of a stored class, and values of fields.
FATES = ("kept", "renamed", "dropped", "dropped None", "recomputed")
FIELD_VALUES = [3, 0.5, "text", True, None, (1, 2.5), {"a": 1}, mc.Huber(0.5)]


@st.composite
def versions_of_a_class(draw):
    """Fields of a stored class with values, what becomes of each, and the options that say so.

    Returns the values by the names of the earlier version, those by the names of the later one,
    and the options of ``stored`` for that one.
    """
    fates = draw(st.lists(st.sampled_from(FATES), min_size=1, max_size=6))
    earlier, later = {}, {}
    options = {"renamed_fields": {}, "former_fields": (), "formerly_none": (), "recomputed": ()}
    for k, fate in enumerate(fates):
        name, value = f"field_{k}", draw(st.sampled_from(FIELD_VALUES))
        earlier[name] = None if fate == "dropped None" else value
        if fate == "kept":
            later[name] = value
        elif fate == "renamed":
            options["renamed_fields"][name] = f"new_{name}"
            later[f"new_{name}"] = value
        elif fate == "recomputed":
            options["recomputed"] += (name,)
            later[name] = "computed"
        else:
            options["former_fields" if fate == "dropped" else "formerly_none"] += (name,)
    return earlier, later, options
