"""Write a file of each kind of answer and of checkpoint: ``python write_files.py FOLDER``.

The folders beside this script hold such files: ``format_8`` by the last version whose files
have that format, ``format_8_earlier`` by one from before some classes and fields were renamed. Run
it before the format of files changes, and add the folder to ``tests/test_earlier_files.py``.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import mcframe as mc
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.selection import Grid

RNG = np.random.default_rng(0)
X = RNG.standard_normal((10, 2)) @ RNG.standard_normal((2, 5)) + 0.1 * RNG.standard_normal((10, 5))
X[RNG.random(X.shape) < 0.2] = np.nan
LABELS = np.where(RNG.random((10, 2)) < 0.3, np.nan, (RNG.random((10, 2)) < 0.5) * 1.0)
STARS = np.clip(np.round(X + 3.0), 1, 5)
FRAME = pd.DataFrame(X, columns=list("abcde"), index=[f"row {k}" for k in range(10)])
GAUSSIAN, NORM = mc.Block("x", mc.Gaussian(), bias=True), mc.NuclearNorm(0.5)
STANDARD = mc.Block("x", mc.Gaussian(), bias=True, standardize=True)
PARTITIONS = RowsInMemory({"x": X}, 3)
SHORT = {"max_iter": 12, "tol": 1e-12}
# Of each checkpoint of a fit: the terms, the data, and the backend.
CHECKPOINTS = {
    "proximal": ([NORM], {"x": X}, "proximal"),
    "alternating": ([NORM], {"x": X}, "alternating"),
    "factored": ([mc.MaxNorm(0.5)], {"x": X}, "factored"),
    "splitting": ([NORM, mc.Box(-1.0, 1.0)], {"x": X}, "splitting"),
    "fpc": ([NORM], {"x": X}, "fpc"),
    "partitions": ([NORM], PARTITIONS, "alternating"),
}


def fits():
    """Yield names and fits, one of each backend and of each form of data."""

    def fit(blocks, terms, data, **options):
        return mc.fit(mc.Model(blocks, terms), data, **{"max_iter": 60, **options})

    data = {"x": FRAME, "y": pd.DataFrame(LABELS, index=FRAME.index)}
    blocks = [STANDARD, mc.Block("y", mc.Bernoulli(), bias=True)]
    yield "proximal", fit(blocks, [NORM], data, backend="proximal")
    moved = mc.Observations(X, offset=0.5 * np.ones((10, 1)))
    yield "alternating", fit([GAUSSIAN], [NORM], {"x": moved}, backend="alternating", **SHORT)
    ranks = mc.Block("x", mc.Gaussian(), standardize="ranks")
    yield "factored", fit([ranks], [mc.MaxNorm(0.5)], {"x": X}, backend="factored", **SHORT)
    stars, terms = mc.Block("x", mc.Ordinal(5)), [NORM, mc.Box(-9.0, 9.0)]
    yield "splitting", fit([stars], terms, {"x": STARS}, backend="splitting", **SHORT)
    yield "fpc", fit([GAUSSIAN], [NORM], {"x": X}, backend="fpc", **SHORT)
    plain, rows = mc.Block("x", mc.Gaussian()), mc.GaussianRows(np.eye(5))
    yield "rowwise", fit([plain], [rows], {"x": X}, backend="rowwise")
    effects = mc.Block("x", mc.Gaussian(), bias=True, row_effects=True)
    terms = [NORM, mc.ResidualNuclearNorm("x", 1.0)]
    yield "reference", fit([effects], terms, {"x": X}, backend="reference")
    sums = mc.Calibration("x", np.ones((1, 10)), np.ones((1, 5)))
    yield "calibration", fit([GAUSSIAN], [NORM, sums], {"x": X})
    yield "compact", fit([STANDARD], [NORM], {"x": FRAME}).compact()
    scaled, moved = (
        mc.NuclearNorm(0.5, count_share=0.5),
        mc.Observations(X, offset=np.ones((10, 1))),
    )
    yield "partitions", fit([GAUSSIAN], [scaled], RowsInMemory({"x": moved}, 3), max_iter=40)
    users, films, stars = list("aabbcc"), ["u", "v", "u", "w", "v", "w"], [5.0, 1, 4, 2, 3, 3]
    triples = mc.from_triples(row=users, column=films, value=stars)
    yield "triples", fit([GAUSSIAN], [mc.NuclearNorm(0.1)], {"x": triples})


def posteriors():
    """Yield names and posteriors, of each engine."""

    def posterior(likelihood, term, x, bias=False, **options):
        model = mc.Model([mc.Block("x", likelihood, bias=bias)], [term])
        return mc.posterior(model, {"x": x}, **options)

    few = {"factors": 2, "max_iter": 4}
    unknown = mc.Gaussian(variance=None)
    yield "factors", posterior(unknown, mc.NuclearNorm(), X, bias=True, **few)
    labels = np.where(np.isnan(X), np.nan, X > 0)
    yield "labels", posterior(mc.Bernoulli(), mc.NuclearNorm(), labels, **few)
    yield "rows", posterior(mc.Gaussian(), mc.GaussianRows(), X)
    two = RNG.standard_normal((16, 3)) + 4.0 * (RNG.random((16, 1)) < 0.5)
    two[RNG.random(two.shape) < 0.1] = np.nan
    yield "mixture", posterior(mc.Gaussian(), mc.GaussianRows(components=2), two)
    wide = RNG.standard_normal((6, 1)) @ RNG.standard_normal((1, 129))
    wide += 0.1 * RNG.standard_normal(wide.shape)
    wide[RNG.random(wide.shape) < 0.2] = np.nan
    yield "wide", posterior(mc.Gaussian(), mc.GaussianRows(), wide)


def completions():
    """Yield names and completed tables, by both methods."""
    n_rows = 24
    score = RNG.standard_normal(n_rows)
    towns = np.where(score > 0.4, "Ulm", np.where(score < -0.4, "Bonn", "Kiel"))
    grades = np.where(score > 0.5, "good", np.where(score > -0.5, "fair", "poor"))
    frame = pd.DataFrame(
        {
            "size": np.where(RNG.random(n_rows) < 0.2, np.nan, score),
            "visits": RNG.poisson(np.exp(0.5 * score)),
            "town": pd.Categorical(towns),
            "smokes": pd.array(np.where(RNG.random(n_rows) < 0.2, None, score > 0), "boolean"),
            "grade": pd.Categorical(grades, categories=["poor", "fair", "good"], ordered=True),
            "price": [f"{number:.1f}" if number > -1 else "n/a" for number in score],
            "day": pd.Timestamp("2020-02-29") + pd.to_timedelta(np.round(5 * score), "D"),
        }
    )
    frame.loc[3, "town"] = frame.loc[5, "grade"] = None
    frame.loc[7, "day"] = pd.NaT
    yield "posterior", mc.complete(frame, types={"day": "date", "visits": "count"})
    yield "optimum", mc.complete(frame, method="optimum", types={"visits": "count"})


def write_checkpoints(folder):
    """Write a checkpoint of each verb, and return what the fits predict."""
    expected = {}
    for name, (terms, data, backend) in CHECKPOINTS.items():
        path, model = folder / f"checkpoint_{name}.npz", mc.Model([GAUSSIAN], terms)
        fit = mc.fit(model, data, backend=backend, max_iter=6, tol=1e-12, checkpoint=path)
        expected[path.stem] = fit.predict("x")
    model, options = mc.Model([GAUSSIAN], [NORM]), {"weights": Grid(count=3), "tol": 1e-3}
    path = folder / "checkpoint_path.npz"
    expected[path.stem] = mc.path(model, {"x": X}, checkpoint=path, **options)[2].predict("x")
    path = folder / "checkpoint_cross_validation.npz"
    mc.cross_validate(model, {"x": X}, checkpoint=path, **options)
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=None))], [mc.NuclearNorm()])
    path = folder / "checkpoint_posterior.npz"
    mc.posterior(model, {"x": X}, factors=2, max_iter=4, tol=1e-12, checkpoint=path)
    return expected


def write_all(folder):
    """Write all files, and ``expected.npz`` with what the answers predict."""
    folder.mkdir(parents=True)
    answers = {"fit": fits(), "posterior": posteriors(), "completion": completions()}
    expected = {}
    for kind, pairs in answers.items():
        for name, answer in pairs:
            path = answer.save(folder / f"{kind}_{name}.npz")
            if kind == "completion":
                expected[path.stem] = answer.table["size"].to_numpy()
            elif name != "partitions":  # whose offsets are not kept
                expected[path.stem] = np.asarray(answer.predict("x"))
    mixture = mc.RiskMixture(pn=1.0, missing_rate=0.5, likelihood=mc.Bernoulli("logit"))
    terms = [NORM, mc.Ridge(1.0), mc.Box(-1, 1, "x")]
    text = mc.Model([STANDARD, mc.Block("y", mixture)], terms).to_json()
    (folder / "model.json").write_text(text)
    np.savez(folder / "expected.npz", **expected, **write_checkpoints(folder))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write_all(Path(sys.argv[1]))
