"""Random small models with data from the whole vocabulary, for hypothesis.

One to three blocks of one to four columns, one to twelve items, weights over four orders of
magnitude, masks down to one observed entry a block, with and without biases, effects of rows,
weights and offsets of entries; every main term, and up to two terms beside it.
"""

import warnings

import attrs
import numpy as np
import pandas as pd
from hypothesis import strategies as st

import mcframe as mc
from mcframe.compile.partitions.binding import refusal_of_block
from mcframe.contracts import Factored, Spectral
from mcframe.contracts.likelihood import fits_parameters
from mcframe.numerics.operators.pattern import Pattern

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
    *(mc.OnesColumn, mc.ResidualNuclearNorm, mc.CalibrationPenalty, mc.CalibrationConstraint),
    mc.GaussianRows,
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
    if draw(st.integers(0, 5)) == 0:
        weights = rng.integers(1, 5, table.shape).astype(float)
        if isinstance(likelihood, mc.Equality) or draw(st.booleans()):
            return mc.Observations(table, weights=weights)
        return mc.Observations(table, weights=weights, offset=rng.standard_normal(table.shape))
    return table


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
    return mc.Model(blocks, terms), data


def values_of(given):
    """The matrix of a block's data."""
    return given.values if isinstance(given, mc.Observations) else given


def gaussian_rows(draw, n_columns, condition, offsets=0.0):
    """A Gaussian of so many columns; its covariance has a condition, its mean these offsets."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    turn = np.linalg.qr(rng.standard_normal((n_columns, n_columns)))[0]
    covariance = (turn * condition ** -np.linspace(0.0, 1.0, n_columns)) @ turn.T
    mean = offsets + rng.standard_normal(n_columns)
    return mc.GaussianRows(draw(MAGNITUDES) * covariance, mean, draw(MAGNITUDES))


def main_terms(draw, risky, exact, n_columns):
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


def terms_beside(draw, problem, exact):
    """Up to two terms beside the main one, feasible together: they all hold one small matrix."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    blocks = problem.model.blocks
    gaussian = [b.name for b in blocks if isinstance(b.likelihood, mc.Gaussian)]
    name = draw(st.sampled_from(gaussian or [block.name for block in blocks]))
    small = 1e-3 * rng.standard_normal((problem.n_items, problem.n_columns))
    inside = small[:, problem.columns(name)]
    A = rng.standard_normal((draw(st.integers(1, 2)), problem.n_items))
    sums = A @ inside
    widest = 2.0 * max(1.0, exact)
    lower, upper = draw(st.sampled_from([(-0.5, 0.5), (-np.inf, 1.0), (-2.0, 0.25)]))
    lower, upper = (-widest, widest) if exact else (lower, upper)
    beside = {
        "box": mc.Box(lower, upper),
        "box of a block": mc.Box(lower, upper, name),
        "penalty": mc.Calibration(name, A, sums + 1.0, weight=draw(MAGNITUDES)),
        "ones": mc.OnesColumn(),
        **{repr(term): term for term in OTHERS_BESIDE if holds(term, small)},
    }
    if isinstance(problem.model.block(name).likelihood, mc.Gaussian):
        beside["residual"] = mc.ResidualNuclearNorm(name, draw(MAGNITUDES))
    if not exact:
        beside["calibration"] = mc.Calibration(name, A, sums)
    chosen = draw(st.lists(st.sampled_from(sorted(beside)), max_size=2, unique=True))
    if {"box", "box of a block"} <= set(chosen):
        chosen.remove("box")
    return [beside[kind] for kind in chosen]


def holds(term, matrix):
    """Whether a term of the catalogue may stand in a model of any blocks that holds a matrix."""
    return term.block is None and term.value(matrix) < np.inf


@st.composite
def probit_models(draw):
    """(model, data) with probit labels, whose reference takes seconds."""
    _, blocks, data = blocks_and_data(draw, [mc.Bernoulli("probit"), mc.Bernoulli("probit", 0.3)])
    main = draw(st.sampled_from([mc.NuclearNorm(0.3), mc.NuclearBall(2.0), mc.MaxNormBall(1.0)]))
    return mc.Model(blocks[:1], [main]), {blocks[0].name: data[blocks[0].name]}


@st.composite
def residual_models(draw):
    """(model, data) of COCO's kind: a Gaussian block with the nuclear norm of its residual."""
    n_items, blocks, data = blocks_and_data(draw, [mc.Bernoulli(), mc.Hinge(), mc.Poisson()])
    features = mc.Block("x", mc.Gaussian(), weight=draw(MAGNITUDES), bias=draw(st.booleans()))
    data = {"x": draw(tables(mc.Gaussian(), n_items, 4)), blocks[0].name: data[blocks[0].name]}
    main = draw(st.sampled_from([mc.NuclearNorm(0.3), mc.NuclearNorm(2.0), mc.MaxNormBall(1.0)]))
    residual = mc.ResidualNuclearNorm("x", draw(MAGNITUDES))
    return mc.Model([features, blocks[0]], [main, residual]), data


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
    main = main_terms(draw, risky, bool(exact), sum(widths))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        problem = mc.Problem.bind(mc.Model(blocks, main), data)
    beside = terms_beside(draw, problem, sum(exact))
    # The fixed column and a ball may exclude each other; beside a max norm and a loss without
    # a slope its multiplier takes tens of thousands of steps.
    kinds = mc.NuclearBall | mc.MaxNormBall | mc.MaxNorm
    if any(isinstance(term, kinds) for term in main):
        beside = [term for term in beside if not isinstance(term, mc.OnesColumn)]
    return mc.Model(blocks, [*main, *beside]), data


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
def far_models(draw):
    """(model, data) whose columns have scales of 1e-9 to 1e9 and lie up to 1e12 away from 0.

    With exposures, entry weights, effects of all kinds, with a ridge on them and without.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_items = draw(st.integers(1, 12))
    blocks, data = [], {}
    scale = draw(POWERS)
    for k in range(draw(st.integers(1, 3))):
        likelihood = draw(st.sampled_from(SMOOTH + ROUGH))
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
        main = far_main(draw, blocks, data, scale)
    return mc.Model(blocks, main), data


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


def far_main(draw, blocks, data, scale):
    """A norm at some share of the weight from which on Z is 0, or a ball of the data's size."""
    kind = draw(st.sampled_from(["norm", "norm", "norm and ridge", "ball", "max norm ball"]))
    if kind == "ball":
        return [mc.NuclearBall(scale * draw(RADII))]
    if kind == "max norm ball":
        return [mc.MaxNormBall(scale * draw(RADII))]
    try:
        largest = mc.weight_max(mc.Model(blocks, [mc.NuclearNorm(1.0)]), data)
    except mc.McframeError:  # nothing pulls, or what pulls has no slope
        largest = 1.0
    weight = largest * 10.0 ** draw(st.floats(-2.5, 0.3))
    ridge = [mc.Ridge(weight / scale * draw(MAGNITUDES))] if kind == "norm and ridge" else []
    return [mc.NuclearNorm(weight), *ridge]


@st.composite
def models_for_partitions(draw):
    """(model, data, number of partitions): what is fitted to rows in partitions, far and near.

    Columns of any scale and offset, exposures, weights, effects with a ridge and without, standard
    units, and unlabeled cells; down to a partition a row.
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
    return mc.Model(blocks, [norm]), data, draw(st.integers(1, n_items))


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
