"""Random small models with data, for hypothesis.

One to three blocks of one to four columns, one to twelve items, weights over four orders of
magnitude, masks down to one observed entry a block, with and without biases, ridge and the
all-ones column.
"""

import numpy as np
from hypothesis import strategies as st

import mcframe as mc

MAGNITUDES = st.floats(-2.0, 2.0).map(lambda e: float(f"{10.0**e:.3g}"))
LIKELIHOODS = st.sampled_from(
    [
        mc.Gaussian(),
        mc.Gaussian(variance=0.25),
        mc.Bernoulli(),
        mc.Bernoulli(scale=0.5),
        mc.Poisson(),
        mc.Huber(0.5),
    ]
)


@st.composite
def tables(draw, likelihood, n_items, n_columns):
    """Data of one block, at least one entry observed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if isinstance(likelihood, mc.Gaussian | mc.Huber):
        table = draw(MAGNITUDES) ** 0.5 * rng.standard_normal((n_items, n_columns))
    elif isinstance(likelihood, mc.Poisson):
        rate = np.exp(
            draw(st.sampled_from([0.5, 2.0])) * rng.standard_normal((n_items, n_columns))
        )
        table = rng.poisson(rate).astype(float)
    else:
        share = draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))
        table = (rng.random((n_items, n_columns)) < share).astype(float)
    hidden = rng.random(table.shape) < draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    hidden[rng.integers(n_items), rng.integers(n_columns)] = False
    table[hidden] = np.nan
    return table


@st.composite
def problems(draw):
    """(model, data)."""
    n_items = draw(st.integers(1, 12))
    blocks, data = [], {}
    for k in range(draw(st.integers(1, 3))):
        block = mc.Block(
            f"block{k}",
            draw(LIKELIHOODS),
            weight=draw(MAGNITUDES),
            reduce=draw(st.sampled_from(["sum", "mean"])),
            bias=draw(st.booleans()),
        )
        blocks.append(block)
        data[block.name] = draw(tables(block.likelihood, n_items, draw(st.integers(1, 4))))
    kinds = draw(st.sampled_from(["nuclear", "nuclear", "both", "ridge"]))
    terms = []
    if kinds != "ridge":
        terms.append(mc.NuclearNorm(draw(MAGNITUDES)))
    if kinds != "nuclear":
        terms.append(mc.Ridge(draw(MAGNITUDES)))
    if draw(st.integers(0, 2)) == 0:
        terms.append(mc.OnesColumn())
    return mc.Model(blocks, terms), data
