"""Coverage of 90 % intervals and sets on hidden entries.

Of the posterior, at the level of each entry and on average, and conformal ones.

    MCFRAME_DATA=... python examples/benchmarks/covered.py [--page] [--repetitions 5] [names ...]

Ratings are MovieLens 100k with a tenth hidden; labels are those of the emotions data, with 40 % of
the labels and 20 % of the features hidden. Counts and mixed tables are drawn: 300 rows, three
factors, 30 % of the entries hidden. ``--page`` writes the table into docs/quality.md.
"""

import argparse
import os
import time
import warnings

import numpy as np
import scipy.sparse as sp
from pages import DOCUMENT, markdown, write_part
from posterior import ratings

import mcframe as mc

LEVEL = 0.9
LEARNED = mc.Gaussian(variance=None)
STARS = mc.Ordinal(5, (-1.5, -0.5, 0.5, 1.5))


def hide(rng, values, share):
    """Values without a share of them, and where these were."""
    hidden = rng.random(values.shape) < share
    return np.where(hidden, np.nan, values), np.nonzero(hidden)


def rating_table(seed, likelihood):
    """Blocks, data, and hidden cells with their values, of MovieLens 100k."""
    users, films, values = ratings()
    order, tenth = np.random.default_rng(seed).permutation(values.size), values.size // 10
    test, train = order[:tenth], order[tenth:]
    shape = users.max() + 1, films.max() + 1
    table = sp.csr_array((values[train], (users[train], films[train])), shape=shape)
    ordered = isinstance(likelihood, mc.Ordinal)
    block = mc.Block("stars", likelihood, bias=not ordered, row_effects=not ordered)
    return [block], {"stars": table}, {"stars": ((users[test], films[test]), values[test])}


def emotions(seed, bias):
    """Features and labels of the emotions data."""
    kept = np.load(os.path.join(os.environ["MCFRAME_DATA"], "emotions.npz"))
    rng = np.random.default_rng(seed)
    features, _ = hide(rng, kept["X"], 0.2)
    labels = kept["Y"].astype(float)
    seen, cells = hide(rng, labels, 0.4)
    blocks = [
        mc.Block("features", LEARNED, standardize=True, bias=bias),
        mc.Block("labels", mc.Bernoulli(), bias=bias),
    ]
    return blocks, {"features": features, "labels": seen}, {"labels": (cells, labels[cells])}


def drawn(seed, kinds):
    """A table drawn from three factors: a block of ten columns for each kind."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((300, 3))
    blocks, data, hidden = [], {}, {}
    for name, likelihood in kinds.items():
        z = rows @ (0.6 * rng.standard_normal((3, 10))) + 0.5
        noise = 0.5 * rng.standard_normal(z.shape)
        values = z + noise if likelihood.location else likelihood.sample(z, rng).astype(float)
        data[name], cells = hide(rng, values, 0.3)
        blocks.append(mc.Block(name, likelihood, bias=True))
        hidden[name] = cells, values[cells]
    return blocks, data, hidden


COUNTS = {"Poisson": mc.Poisson(), "negative binomial": mc.NegativeBinomial(0.5)}
MIXED = {"numbers": LEARNED, "labels": mc.Bernoulli(), "counts": mc.Poisson(), "levels": STARS}
TABLES = {
    "ratings": lambda seed: rating_table(seed, LEARNED),
    "ratings as levels": lambda seed: rating_table(seed, mc.Ordinal(5)),
    "emotions, Gaussian rows": lambda seed: emotions(seed, bias=False),
    "emotions, factors": lambda seed: emotions(seed, bias=True),
    "drawn counts": lambda seed: drawn(seed, COUNTS),
    "drawn mixed table": lambda seed: drawn(seed, MIXED),
}


def covered(answers, name, likelihood, cells, values, **options):
    """Coverage and mean size of intervals and sets, those that a block has."""
    found = {}
    if likelihood.width == 1 and not isinstance(likelihood, mc.Bernoulli) and not options:
        lower, upper = answers.interval(name, LEVEL, *cells)
        inside = (lower <= values) & (values <= upper)
        found["intervals"] = np.mean(inside), np.mean(upper - lower)
    if isinstance(likelihood, mc.Bernoulli | mc.Ordinal | mc.Multinomial):
        chosen = answers.set(name, LEVEL, *cells, **options)
        places = values.astype(int) - getattr(likelihood, "lowest", 0)
        inside = chosen[np.arange(places.size), places]
        found["sets"] = np.mean(inside), np.mean(chosen.sum(axis=1))
    return found


def rows_of(name, repetitions):
    """A row of the table for each block and kind of answer."""
    found, began = {}, time.process_time()
    for seed in range(repetitions):
        blocks, data, hidden = TABLES[name](seed)
        prior = mc.GaussianRows() if name.endswith("rows") else mc.NuclearNorm()
        posterior = mc.posterior(mc.Model(blocks, [prior]), data)
        conformal = posterior.conformalize(LEVEL, random_state=seed)
        ways = (posterior, {}), (posterior, {"on_average": True}), (conformal, {})
        for block in blocks:
            if block.name in hidden:
                likelihood = posterior.engine.observed.likelihood(block.name)
                for way, (answers, options) in enumerate(ways):
                    cells, values = hidden[block.name]
                    own = covered(answers, block.name, likelihood, cells, values, **options)
                    for kind, numbers in own.items():
                        found.setdefault((block.name, kind), ([], [], []))[way].append(numbers)
    print(f"{name}: {time.process_time() - began:.0f} s of CPU", flush=True)
    for (block, kind), ways in found.items():
        row = [name, f"{block}, {kind}"]
        for numbers in ways:
            if not numbers:
                row += ["", ""]
                continue
            share, size = np.array(numbers).T
            spread = np.std(share, ddof=1) / np.sqrt(share.size) if share.size > 1 else np.nan
            row += [f"{np.mean(share):.3f} ± {spread:.3f}", f"{np.mean(size):.3g}"]
        yield row


def main():
    """Print the table, and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(TABLES))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore", mc.UnobservedWarning)
    names = given.names or list(TABLES)
    rows = [row for name in names for row in rows_of(name, given.repetitions)]
    header = ["data", "hidden entries"]
    for way in ("posterior covers", "on average", "conformal covers"):
        header += [way, "size"]
    lines = markdown(header, rows)
    print("\n".join(lines))
    if given.page:
        write_part(DOCUMENT, "coverage", lines)


if __name__ == "__main__":
    main()
