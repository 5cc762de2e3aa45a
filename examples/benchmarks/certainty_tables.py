"""What is said of uncertainty, against tables whose truth is drawn.

    python examples/benchmarks/certainty_tables.py [--seconds 900] [--first-seed 1000] [--page]

Each line says how often something holds that is said to hold with a nominal probability, or how a
number of draws compares with the truth: intervals of single cells of ``mc.complete``, analyses of
its draws pooled by Rubin's rules, z and totals under both methods of ``mc.posterior``, and the
shape of draws. Lines take turns, a table each, until the seconds are over; results are kept in
``certainty/runs.jsonl`` of ``--out``, and another call goes on with new seeds. Peers that are not
installed have no numbers. ``--page`` writes the table into docs/quality.md.
"""

import argparse
import functools
import importlib.util
import inspect
import pathlib
import time
import warnings

import numpy as np
import pandas as pd
from certainty import SETTINGS, measured
from pages import DOCUMENT, markdown, write_part
from runs import Runs

import mcframe as mc
from mcframe.tables.corrections import FEWEST_ENTRIES

DRAWS = 10
# A line that took less was read off from what another one had computed.
LEAST_SECONDS = 1e-3
BY_CELL = ("MCAR", "MAR", "uneven rows", "self-masking")


def logistic(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def completed(frame, seed, **options):
    """A completed table, without progress."""
    return mc.complete(frame, random_state=seed, progress=False, **options)


def draws_of(frame, method, seed, terms=None):
    """Completed tables of a method, or None where it is not installed."""
    if method in ("mcframe", UNCORRECTED):
        answer = completed(frame, seed, nonlinear=method != UNCORRECTED)
        with_terms = terms and "terms" in inspect.signature(answer.draws).parameters
        more = {"terms": terms} if with_terms else {}
        return answer.draws(DRAWS, random_state=seed, **more)
    if method == "IterativeImputer":
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        def filled(k):
            imputer = IterativeImputer(sample_posterior=True, random_state=1000 * seed + k)
            return pd.DataFrame(imputer.fit_transform(frame), columns=frame.columns)

        return [filled(k) for k in range(DRAWS)]
    if importlib.util.find_spec(method.split()[0]) is None:
        return None
    if method == "miceforest":
        import miceforest

        kernel = miceforest.ImputationKernel(
            frame, num_datasets=DRAWS, mean_match_candidates=5, random_state=seed
        )
        kernel.mice(5, verbose=False, num_threads=1, min_data_in_leaf=5)
        return [kernel.complete_data(k) for k in range(DRAWS)]
    from statsmodels.imputation.mice import MICEData

    np.random.seed(seed)  # noqa: NPY002 -- the only generator that it reads
    chain = MICEData(frame.copy())
    chain.update_all(10)
    tables = []
    for _ in range(DRAWS):
        chain.update_all(3)
        tables.append(chain.data.copy())
    return tables


PEERS = ("mcframe", "IterativeImputer", "statsmodels MICE", "miceforest")
UNCORRECTED = "mcframe, nonlinear=False"


def cells(mechanism, seed, method):
    """The share of hidden cells inside the 90 % intervals of a completed table."""
    if method != "mcframe":
        return None
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((2, 6))
    x = rng.standard_normal((150, 2)) @ loadings
    x += 0.6 * loadings.std() * rng.standard_normal(x.shape)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    hidden = {
        "MCAR": lambda: rng.random(x.shape) < 0.35,
        "MAR": lambda: (
            (rng.random(x.shape) < logistic(2.0 * standard[:, :1] - 0.7)) & (np.arange(6) > 0)
        ),
        "uneven rows": lambda: rng.random(x.shape) < rng.beta(0.6, 1.1, (150, 1)),
        "self-masking": lambda: rng.random(x.shape) < logistic(1.5 * standard - 0.8),
    }[mechanism]()
    frame = pd.DataFrame(x, columns=list("abcdef")).mask(hidden)
    lower, upper = (ends.to_numpy(float) for ends in completed(frame, seed).interval(0.9))
    return float(np.mean(((lower <= x) & (x <= upper))[hidden]))


def regression(table, formula):
    """Coefficients of y and their squared standard errors."""
    columns = [np.ones(len(table)), *(np.asarray(c, dtype=float) for c in formula(table))]
    x, y = np.column_stack(columns), table["y"].to_numpy(float)
    inverse = np.linalg.inv(x.T @ x)
    found = inverse @ x.T @ y
    noise = np.sum(np.square(y - x @ found)) / (len(y) - x.shape[1])
    return found, noise * np.diag(inverse)


# Analyses: mean of y given x1 and x2, columns of the regression, last true coefficients, and terms
# of draws.
ANALYSES = {
    "linear": (lambda a, b: a + 0.5 * b, lambda t: [t["x1"], t["x2"]], (1.0, 0.5), None),
    "square": (lambda a, b: a + 0.7 * a**2, lambda t: [t["x1"], t["x1"] ** 2], (0.7,), ["x1**2"]),
    "product": (
        lambda a, b: a + b + 0.7 * a * b,
        lambda t: [t["x1"], t["x2"], t["x1"] * t["x2"]],
        (0.7,),
        ["x1:x2"],
    ),
}


def incomplete(analysis, n, mechanism, seed):
    """A table with holes in y, and under MCAR in x2; and the whole one."""
    rng = np.random.default_rng(seed)
    x1, x2, noise = rng.standard_normal((3, n))
    whole = pd.DataFrame({"x1": x1, "x2": x2, "y": ANALYSES[analysis][0](x1, x2) + noise})
    probability = logistic(1.5 * x1 - 0.5) if mechanism == "MAR" else np.full(n, 0.3)
    holes = pd.DataFrame({name: rng.random(n) < probability for name in ("x2", "y")})
    frame = whole.copy()
    frame["y"] = frame["y"].mask(holes["y"])
    if analysis != "square":
        frame["x2"] = frame["x2"].mask(holes["x2"])
    return frame, whole


def pooled(analysis, n, mechanism, with_terms, seed, method):
    """The share of true coefficients inside their pooled 95 % intervals."""
    _, formula, truth, terms = ANALYSES[analysis]
    frame, _ = incomplete(analysis, n, mechanism, seed)
    tables = draws_of(frame, method, seed, terms if with_terms else None)
    if tables is None or (with_terms and method != "mcframe"):
        return None
    estimates, variances = zip(*[regression(t, formula) for t in tables], strict=True)
    answer = mc.pool(
        np.array(estimates), np.array(variances), complete_degrees_of_freedom=n - len(truth) - 1
    )
    lower, upper = answer.interval(0.95)
    last = slice(-len(truth), None)
    return float(np.mean((np.asarray(lower)[last] <= truth) & (truth <= np.asarray(upper)[last])))


def variance_of_y(n, seed, method):
    """The variance of y in draws over that of the whole table."""
    frame, whole = incomplete("linear", n, "MCAR", seed)
    tables = draws_of(frame, method, seed)
    if tables is None:
        return None
    return float(np.mean([t["y"].var() for t in tables]) / whole["y"].var())


@functools.cache
def of_posterior(place, seed, method):
    """What ``certainty.measured`` finds of one of its settings, once for all lines about it."""
    _, likelihood, deviation = SETTINGS[place]
    return measured(likelihood, deviation, seed, method)


@functools.cache
def of_rows(seed, method):
    """Whether 90 % intervals of 40 Gaussian rows hold a mean and a slope of the whole table."""
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(np.zeros(3), 0.4 * np.eye(3) + 0.6, 40)
    hidden = np.zeros(x.shape, dtype=bool)
    hidden[:, 2] = rng.random(40) < 0.6
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=None))], [mc.GaussianRows()])
    data = {"x": np.where(hidden, np.nan, x)}
    posterior = mc.posterior(model, data, method=method, random_state=seed)
    drawn = np.where(hidden, posterior.sample("x", 200), x)

    def statistics(tables):
        deviations = tables[..., 0] - np.mean(tables[..., 0], axis=-1, keepdims=True)
        slope = np.sum(deviations * tables[..., 2], axis=-1) / np.sum(deviations**2, axis=-1)
        return np.array([np.mean(tables[..., hidden[:, 2], 2], axis=-1), slope])

    lower, upper = np.quantile(statistics(drawn), (0.05, 0.95), axis=1)
    return (lower <= statistics(x)) & (statistics(x) <= upper)


# The columns of ``shape_of_draws``: their mean, and they themselves, of a standard normal number.
SHAPES = {
    "lognormal": (np.exp(0.5), np.exp),
    "zeros and amounts": (1.0 / np.sqrt(2.0 * np.pi), lambda latent: np.maximum(latent, 0.0)),
}


def shape_of_draws(kind, what, seed, method):
    """Whether the pooled mean of a column is its mean, or a share of the drawn values."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((300, 3))
    latent = x @ [0.6, 0.4, -0.3] + np.sqrt(0.39) * rng.standard_normal(300)
    mean, of_normal = SHAPES[kind]
    y, hidden = of_normal(latent), rng.random(300) < 0.4
    frame = pd.DataFrame(x, columns=list("abc")).assign(y=np.where(hidden, np.nan, y))
    tables = draws_of(frame, method, seed)
    if tables is None:
        return None
    if what == "pooled mean":
        columns = np.array([t["y"].to_numpy(float) for t in tables])
        answer = mc.pool(
            columns.mean(axis=1)[:, None],
            columns.var(axis=1, ddof=1)[:, None] / y.size,
            complete_degrees_of_freedom=y.size - 1,
        )
        lower, upper = answer.interval(0.95)
        return float(lower[0] <= mean <= upper[0])
    drawn = np.array([t["y"].to_numpy(float)[hidden] for t in tables])
    if what == "negative":
        return float(np.mean(drawn < 0.0))
    return float(np.mean(drawn == 0.0) - np.mean(y[hidden] == 0.0))


def lines():
    """Each line: its name, the nominal number, the methods, and a function of seed and method."""
    found = [
        (f"intervals of single cells, {m}", "90 %", PEERS[:1], lambda s, w, m=m: cells(m, s, w))
        for m in BY_CELL
    ]
    found += [
        (
            f"pooled coefficients, {n} rows, {m}",
            "95 %",
            (PEERS[0], UNCORRECTED, *PEERS[1:]) if n > FEWEST_ENTRIES else PEERS,
            lambda s, w, n=n, m=m: pooled("linear", n, m, False, s, w),
        )
        for n in (50, 200)
        for m in ("MCAR", "MAR")
    ]
    found += [
        (
            f"pooled {analysis}, {m}" + ", terms= given" * with_terms,
            "95 %",
            PEERS[:1] if with_terms else (PEERS[0], UNCORRECTED, *PEERS[1:]),
            lambda s, w, a=analysis, m=m, t=with_terms: pooled(a, 200, m, t, s, w),
        )
        for analysis, m in (("square", "MAR"), ("product", "MCAR"))
        for with_terms in (False, True)
    ]
    found += [
        (
            f"variance of y in draws, {n} rows, over that of all values",
            "1",
            PEERS,
            lambda s, w, n=n: variance_of_y(n, s, w),
        )
        for n in (50, 200)
    ]
    for kind, what, nominal in (
        ("lognormal", "pooled mean", "95 %"),
        ("zeros and amounts", "pooled mean", "95 %"),
        ("lognormal", "negative", "0 %"),
        ("zeros and amounts", "negative", "0 %"),
        ("zeros and amounts", "zeros less true share", "0 %"),
    ):
        found.append(
            (
                f"draws, {kind}: {what}",
                nominal,
                PEERS,
                lambda s, w, k=kind, t=what: shape_of_draws(k, t, s, w),
            )
        )
    for place, what in enumerate(("mean of missing values", "slope")):
        found.append(
            (
                f"posterior, 40 Gaussian rows: {what} in intervals",
                "90 %",
                ("variational", "sampler"),
                lambda s, w, p=place: float(of_rows(s, w)[p]),
            )
        )
    for setting, (name, _, _) in enumerate(SETTINGS):
        for place, what, nominal in ((0, "z in intervals", "90 %"), (2, "total in tails", "10 %")):
            found.append(
                (
                    f"posterior, {name}: {what}",
                    nominal,
                    ("variational", "sampler"),
                    lambda s, w, k=setting, p=place: float(of_posterior(k, s, w)[p]),
                )
            )
    return found


def run(runs, seconds, first_seed, chosen):
    """Measure lines in turn, a table each, until the seconds are over."""
    end, seed = time.time() + seconds, first_seed
    while time.time() < end:
        for name, _, methods, measure in lines():
            for method in methods:
                key = {"line": name, "method": method, "seed": seed}
                if key in runs or not any(part in name for part in chosen):
                    continue
                if time.time() > end:
                    return
                began = time.process_time()
                value = measure(seed, method)
                if value is not None:
                    runs.add(key | {"value": value, "seconds": time.process_time() - began})
        seed += 1


def table(runs):
    """The lines with means and Monte Carlo errors of each method."""
    header, rows = ["what", "nominal", "method", "measured", "tables", "CPU s a table"], []
    latest = runs.latest()
    for name, nominal, methods, _ in lines():
        for method in methods:
            mine = [one for one in latest if one["line"] == name and one["method"] == method]
            if len(mine) < 2:
                continue
            values = np.array([one["value"] for one in mine])
            error, unit = values.std(ddof=1) / np.sqrt(values.size), "%" in nominal
            measured_value = (
                f"{values.mean():.1%} ± {error:.1%}"
                if unit
                else f"{values.mean():.3f} ± {error:.3f}"
            )
            seconds = np.mean([one["seconds"] for one in mine])
            cost = f"{seconds:.2g}" if seconds > LEAST_SECONDS else "that of a line above"
            rows.append([name, nominal, method, measured_value, str(values.size), cost])
    return markdown(header, rows)


def main():
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--lines", nargs="+", default=[""], help="lines with one of these texts")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("benchmark-results"))
    parser.add_argument("--page", action="store_true", help="write the table into docs/quality.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = Runs(options.out / "certainty", ("line", "method", "seed"))
    run(runs, options.seconds, options.first_seed, options.lines)
    written = table(runs)
    runs.write_table(written)
    if options.page:
        write_part(DOCUMENT, "certainty", written)


if __name__ == "__main__":
    main()
