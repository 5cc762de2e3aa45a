"""The variational posterior beside the sampler: standard deviations and means of z.

    python examples/benchmarks/beside_sampler.py run [--models counts ...] [--shapes 30x8 ...]
    python examples/benchmarks/beside_sampler.py page

A table is drawn from each model, 30 % of its cells are hidden, and both methods say what z is in
all cells. The line of a model has the median ratio of their standard deviations, and the median
difference of their means in standard deviations of the sampler, over the hidden cells and over
the observed ones. Each model and shape is a line of ``beside_sampler.jsonl``; what is there is
not run again. Answers of the sampler are kept in the folder ``--keep``, if one is given, so that
another variational method can be held against them. ``page`` writes the table into
docs/quality.md.
"""

import argparse
import json
import pathlib
import time
import warnings

import numpy as np
from pages import DOCUMENT, markdown, write_part

import mcframe as mc

RESULTS = pathlib.Path(__file__).with_name("beside_sampler.jsonl")
FACTORS, SHARE = 2, 0.3
SHAPES = ("30x8", "100x12", "200x10")
LEVELS = mc.Ordinal(5, (-2.0, -0.7, 0.7, 2.0))
# The likelihood, the standard deviation of z, and that of noise in predictors.
LIKELIHOODS = {
    "numbers": (mc.Gaussian(variance=0.25), 1.0, 0.0),
    "counts, Poisson": (mc.Poisson(), 0.7, 0.0),
    "counts, Poisson, noisy": (mc.Poisson(), 0.7, 0.5),
    "durations, gamma": (mc.Gamma(shape=2.0), 1.0, 0.0),
    "durations, exponential": (mc.Exponential(), 1.0, 0.0),
    "counts, negative binomial": (mc.NegativeBinomial(0.5), 0.7, 0.0),
    "labels": (mc.Bernoulli(), 2.0, 0.0),
    "levels": (LEVELS, 2.0, 0.0),
}
PRIORS = ("weight given", "weight learned", "Gaussian rows")


def names():
    """All models: likelihood and prior."""
    without_rows = [one for one in LIKELIHOODS if "Poisson" in one or "durations" in one]
    return [
        f"{likelihood}; {prior}"
        for prior in PRIORS
        for likelihood in LIKELIHOODS
        if prior != PRIORS[2] or likelihood not in without_rows
    ]


def drawn(name, shape, seed):
    """The model, a table with NaN where cells are hidden, and which are."""
    of_likelihood, prior = name.split("; ")
    likelihood, deviation, noise = LIKELIHOODS[of_likelihood]
    rng = np.random.default_rng(seed)
    scores, loadings = (rng.standard_normal((n, FACTORS)) for n in shape)
    weight = np.sqrt(FACTORS) / deviation
    if prior == PRIORS[2]:
        d = shape[1]
        roots = rng.standard_normal((d, d + 2)) / np.sqrt(d + 2)
        z = deviation * rng.standard_normal((shape[0], d + 2)) @ roots.T
    else:
        z = scores @ loadings.T / weight
    noisy = z + noise * rng.standard_normal(shape)
    if isinstance(likelihood, mc.Gaussian):
        y = noisy + np.sqrt(likelihood.variance) * rng.standard_normal(shape)
    else:
        y = likelihood.sample(noisy, rng).astype(float)
    terms = {
        PRIORS[0]: lambda: mc.NuclearNorm(weight),
        PRIORS[1]: mc.NuclearNorm,
        PRIORS[2]: lambda: mc.GaussianRows(prior_rows=10.0),
    }
    hidden = rng.random(shape) < SHARE
    model = mc.Model([mc.Block("y", likelihood)], [terms[prior]()])
    return model, np.where(hidden, np.nan, y), hidden


def moments(model, table, **options):
    """Means and standard deviations of z in all cells, and CPU seconds."""
    began = time.process_time()
    factors = {} if isinstance(model.terms[0], mc.GaussianRows) else {"factors": FACTORS}
    posterior = mc.posterior(model, {"y": table}, **factors, **options)
    places = [index.ravel() for index in np.indices(table.shape)]
    weights, means, variances = posterior.engine.mixture(*places)
    mean = np.sum(weights * means, axis=0)
    variance = np.sum(weights * (variances + np.square(means - mean)), axis=0)
    seconds = time.process_time() - began
    return mean.reshape(table.shape), np.sqrt(variance).reshape(table.shape), seconds


def of_sampler(name, shape, seed, folder):
    """What the sampler says, kept in a folder."""
    model, table, _ = drawn(name, shape, seed)
    if folder is None:
        return moments(model, table, method="sampler")
    file = folder / f"{name}, {shape[0]}x{shape[1]}, {seed}.npz"
    if not file.exists():
        mean, sd, seconds = moments(model, table, method="sampler")
        np.savez(file, mean=mean, sd=sd, seconds=seconds)
    kept = np.load(file)
    return kept["mean"], kept["sd"], float(kept["seconds"])


def line_of(name, size, seed, folder):
    """What is stored of one model and shape."""
    shape = tuple(map(int, size.split("x")))
    model, table, hidden = drawn(name, shape, seed)
    exact_mean, exact_sd, exact_seconds = of_sampler(name, shape, seed, folder)
    moments(model, table)  # compiles the loops
    mean, sd, seconds = moments(model, table)
    line = {"model": name, "shape": size, "seed": seed}
    for kind, cells in (("hidden", hidden), ("observed", ~hidden)):
        ratios, moves = (sd / exact_sd)[cells], ((mean - exact_mean) / exact_sd)[cells]
        line[kind] = {
            "sd ratio": float(np.median(ratios)),
            "sampler sd": float(np.median(exact_sd[cells])),
            "quantiles": np.quantile(ratios, (0.1, 0.9)).tolist(),
            "move": float(np.median(np.abs(moves))),
            "shift": float(np.mean(moves)),
        }
    return line | {"seconds": seconds, "sampler seconds": exact_seconds}


def stored():
    """All lines of the file, of equal ones the last."""
    if not RESULTS.exists():
        return []
    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())
    return list({(one["model"], one["shape"]): one for one in lines}.values())


def printed(line):
    """The numbers of a line as they are printed."""
    cells = [line["model"], line["shape"]]
    for kind in ("hidden", "observed"):
        one = line[kind]
        low, high = one["quantiles"]
        cells += [f"{one['sd ratio']:.2f} ({low:.2f} to {high:.2f})", f"{one['move']:.2f}"]
    return [*cells, f"{line['hidden']['shift']:+.2f}", f"{line['seconds']:.2f}"]


def run(chosen, sizes, seed, folder, again):
    """Compute and store what is not stored yet."""
    ready = set() if again else {(one["model"], one["shape"]) for one in stored()}
    for size in sizes:
        for name in chosen:
            if (name, size) in ready:
                continue
            line = line_of(name, size, seed, folder)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(" | ".join(printed(line)), flush=True)


def page():
    """Write the table into docs/quality.md."""
    header = ["model", "table", "hidden: ratio of sd", "means differ by sd"]
    header += ["observed: ratio of sd", "means differ by sd", "mean shift, hidden", "CPU s"]
    order = {name: place for place, name in enumerate(names())}
    lines = sorted(stored(), key=lambda one: (order[one["model"]], SHAPES.index(one["shape"])))
    write_part(DOCUMENT, "beside-sampler", markdown(header, [printed(line) for line in lines]))


def main():
    """Run, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["run", "page"])
    parser.add_argument("--models", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", mc.NotConvergedWarning)
    if options.verb == "page":
        page()
        return
    chosen = [name for name in names() if any(part in name for part in options.models)]
    run(chosen, options.shapes, options.seed, options.keep, options.again)


if __name__ == "__main__":
    main()
