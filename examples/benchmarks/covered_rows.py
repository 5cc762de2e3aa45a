"""Coverage of all missing entries of a row at once, by the number of its gaps.

    python examples/benchmarks/covered_rows.py [--page] [--repetitions 20] [names ...]

Drawn tables of 200 rows and eight columns of two factors: numbers with Gaussian noise, with noise
of Student's distribution with 1.5 degrees of freedom, or four numbers, two labels and two columns
of five levels (half as many tables). Entries are missing completely at random, 30 % of them, or at
random: the first column is complete, and the others are missing with a probability that it
determines, which ``conformalize_jointly`` is given. ``--page`` writes the table into
docs/quality.md.
"""

import argparse
import time
import warnings

import numpy as np
from pages import DOCUMENT, markdown, write_part
from scipy.special import expit

import mcframe as mc

LEVEL = 0.9
N_ROWS, N_COLUMNS, SIZES = 200, 8, (1, 2, 3, 4, 5)
NOISES = ("Gaussian", "heavy tails", "mixed")
GAPS = ("at random", "completely at random")
LEVELS = mc.Ordinal(levels=5)
BLOCKS = {
    "numbers": (slice(0, 4), mc.Block("numbers", mc.Gaussian(variance=None), bias=True)),
    "labels": (slice(4, 6), mc.Block("labels", mc.Bernoulli(), bias=True)),
    "levels": (slice(6, 8), mc.Block("levels", LEVELS)),
}


def drawn(noise, gaps, rng):
    """All entries of a table, which of them are missing, and with what probabilities."""
    truth = rng.standard_normal((N_ROWS, 2)) @ rng.standard_normal((2, N_COLUMNS))
    heavy = noise == "heavy tails"
    shape = truth.shape
    truth += 0.5 * (rng.standard_t(1.5, shape) if heavy else rng.standard_normal(shape))
    if noise == "mixed":
        truth[:, 4:6] = truth[:, 4:6] > 0.0
        truth[:, 6:] = np.clip(np.round(truth[:, 6:] + 3.0), 1.0, 5.0)
    probabilities = np.full(shape, 0.3)
    if gaps == "at random":
        first = truth[:, :1] - np.median(truth[:, :1])
        probabilities[:] = expit(1.5 * np.clip(first / np.mean(np.abs(first)), -2.0, 2.0) - 1.0)
        probabilities[:, 0] = 1e-9
    return truth, rng.random(shape) < probabilities, probabilities


def model_and_data(noise, truth, missing, probabilities):
    """The model, the data of its blocks, and the probabilities of being missing."""
    seen = np.where(missing, np.nan, truth)
    if noise != "mixed":
        block = mc.Block("numbers", mc.Gaussian(variance=None), standardize=True)
        options = {"numbers": probabilities}
        return mc.Model([block], [mc.GaussianRows()]), {"numbers": seen}, options
    model = mc.Model([block for _, block in BLOCKS.values()], [mc.NuclearNorm()])
    parts = {name: columns for name, (columns, _) in BLOCKS.items()}
    data = {name: seen[:, columns] for name, columns in parts.items()}
    return model, data, {name: probabilities[:, columns] for name, columns in parts.items()}


def all_covered(answers, model, truth, missing):
    """The rows all of whose missing entries are in their intervals and sets."""
    inside = np.ones(missing.shape, dtype=bool)
    for block in model.blocks:
        columns = BLOCKS[block.name][0] if len(model.blocks) > 1 else slice(None)
        values = truth[:, columns]
        if block.name == "numbers":
            lower, upper = answers.interval(block.name, LEVEL)
            inside[:, columns] = (lower <= values) & (values <= upper)
        else:
            places = values.astype(int)[:, :, None] - (block.name == "levels")
            chosen = np.take_along_axis(answers.set(block.name, LEVEL), places, axis=2)
            inside[:, columns] = chosen[:, :, 0]
    return np.all(inside | ~missing, axis=1)


def rows_of(noise, gaps, repetitions):
    """A row of the page for each kind of interval."""
    shares, began = {}, time.process_time()
    is_mixed = noise == "mixed"
    for seed in range(repetitions // 2 if is_mixed else repetitions):
        truth, missing, probabilities = drawn(noise, gaps, np.random.default_rng(seed))
        model, data, options = model_and_data(noise, truth, missing, probabilities)
        factors = 2 if is_mixed else "auto"
        posterior = mc.posterior(model, data, factors=factors, max_iter=20)
        weights = options if gaps == "at random" else "uniform"
        ways = {
            "posterior, entry by entry": posterior,
            "conformal, entry by entry": posterior.conformalize(LEVEL, weights),
            "joint, mask": posterior.conformalize_jointly(LEVEL, weights),
            "joint, size": posterior.conformalize_jointly(LEVEL, weights, groups="size"),
        }
        n_gaps = np.count_nonzero(missing, axis=1)
        for way, answers in ways.items():
            covered = all_covered(answers, model, truth, missing)
            of_sizes = [(covered[n_gaps == k].sum(), np.sum(n_gaps == k)) for k in SIZES]
            shares.setdefault(way, []).append(of_sizes)
    print(f"{noise}, {gaps}: {time.process_time() - began:.0f} s of CPU", flush=True)
    for way, sums in shares.items():
        covered, counts = np.sum(sums, axis=0).T
        yield [noise, gaps, way, *(f"{share:.3f}" for share in covered / counts)]


def main():
    """Print the table, and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NOISES))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--repetitions", type=int, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        row
        for noise in arguments.names or NOISES
        for gaps in reversed(GAPS)
        for row in rows_of(noise, gaps, arguments.repetitions)
    ]
    header = ["data", "missing", "90 % intervals and sets", *(f"{k} gaps" for k in SIZES)]
    lines = markdown(header, rows)
    print("\n".join(lines))
    if arguments.page:
        write_part(DOCUMENT, "rows", lines)


if __name__ == "__main__":
    main()
