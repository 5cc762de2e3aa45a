"""Random calls of every verb: models of the whole vocabulary, forms of data, wrong data, options.

Each verb of ``VERBS`` is a function of hypothesis' ``draw`` that gives a description of the call
and the call, which returns how it ended in words, or raises. The answers are checked: an
``AssertionError`` says what is wrong of one.
"""

import datetime as dt
import inspect
from functools import cache

import attrs
import matplotlib.pyplot as plt
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from hypothesis import strategies as st
from papers.mulan import read_mulan

import mcframe as mc
from mcframe import datasets, selection
from mcframe.backends import relative_gap
from mcframe.estimators import (
    MatrixCompletionClassifier,
    MatrixCompletionImputer,
    MatrixCompletionRegressor,
)
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.posterior.conformal_rows import answer_of
from mcframe.tables.coding import Numbers
from mcframe.tables.declared_column import codes_of_intervals
from mcframe.tables.rows_choice import RowsChoice
from mcframe.tables.shifts import METHODS

from .fuzzing_commands import command_lines
from .strategies import (
    SCALES,
    everything,
    extreme_models,
    far_models,
    frames,
    huge_models,
    mixed_scales,
    models_in_units,
    nearly_exact_models,
    planted_sets,
    posterior_models,
    residual_models,
    row_models,
    scaled_rows,
    tight_balls,
    values_of,
    vanishing_models,
    weighty_rows,
    whole_vocabulary,
    with_bounds,
)
from .test_bad_tables import check_limits, check_observed_entries, lists_of
from .test_everything import contradictions
from .test_tables_agree import check_answers_agree
from .test_words import LIKELIHOODS, TERMS

# Calls that take longer, in seconds of CPU, are counted.
SLOW = 20.0
MODELS = st.one_of(
    everything().map(lambda case: case[:2]),
    *(
        far_models(),
        whole_vocabulary(),
        row_models(),
        scaled_rows(),
        weighty_rows(),
        residual_models(),
    ),
    *(models_in_units(), posterior_models(), extreme_models().filter(lambda case: case)),
    *(mixed_scales(), tight_balls(), vanishing_models(), huge_models(), nearly_exact_models()),
    planted_sets().map(lambda case: case[:2]),
)
MODELS = with_bounds(MODELS)
WEIGHTED = MODELS.filter(
    lambda case: any(isinstance(term, mc.NuclearNorm | mc.MaxNorm) for term in case[0].terms)
)
STATUSES = {"certified", "limited_by_rounding", "iteration_limit", "time_limit", "interrupted"}
STATUSES |= {"local", "unbounded"}
BACKENDS = ["auto", "proximal", "alternating", "factored", "splitting", "rowwise", "fpc"]
NONSENSE_VALUES = [-1, 0, 1.5, -0.5, np.nan, np.inf, "a", "", None, True, [1], {}, 1j, b"a", 2**70]
NONSENSE_VALUES += [np.int8(3), np.float32(0.5), np.array(2), np.array([1.0, 2.0]), object(), int]
NONSENSE_VALUES += [dt.date(2020, 1, 1), len]
NONSENSE = st.sampled_from(NONSENSE_VALUES)
SMALL = NONSENSE.filter(lambda value: not (isinstance(value, int) and value > 100))

# Forms that mean the same as an array of floats with NaN.
FORMS = {
    "array": lambda x: x,
    "lists": lambda x: x.tolist(),
    "objects": lambda x: np.where(np.isnan(x), None, x.astype(object)),
    "masked": lambda x: np.ma.masked_array(np.nan_to_num(x), np.isnan(x)),
    "columns first": np.asfortranarray,
    "read-only": lambda x: np.broadcast_to(x, x.shape),
    "other bytes": lambda x: x.astype(">f8"),
    "frame": lambda x: pd.DataFrame(x),
    "nullable": lambda x: pd.DataFrame(x).convert_dtypes(),
    "arrow": lambda x: pd.DataFrame(x).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda x: pl.DataFrame(x, schema=[f"c{k}" for k in range(x.shape[1])]).fill_nan(
        None
    ),
    "pyarrow": lambda x: pa.Table.from_pandas(pd.DataFrame(x).rename(columns=str)),
    "sparse": lambda x: sp.csr_array((x[~np.isnan(x)], np.nonzero(~np.isnan(x))), shape=x.shape),
    "sparse frame": lambda x: pd.DataFrame(x).astype(pd.SparseDtype(float, np.nan)),
    "triples": lambda x: mc.from_triples(
        row=np.repeat(range(len(x)), x.shape[1]),
        column=np.tile(range(x.shape[1]), len(x)),
        value=x.ravel(),
    ),
}


def with_cell(value):
    def changed(rng, x):
        x = x.astype(object)
        x[rng.integers(len(x)), rng.integers(x.shape[1])] = value
        return x

    return changed


def weighted(rng, x, **given):
    return mc.Observations(x, **given)


CELLS = (np.inf, -1.0, 0.5, 2.0, 1e300, 1e-300, "a", "1.5", 1j, None, 10**400, [1.0], b"1")
CELLS += (dt.date(2020, 1, 1), np.datetime64("NaT"), pd.NA, True)
# Data that may be wrong for a block, by the generator and its values.
POISONS = {
    **{f"a cell of {value!r}": with_cell(value) for value in CELLS},
    "no rows": lambda rng, x: x[:0],
    "no columns": lambda rng, x: x[:, :0],
    "a row less": lambda rng, x: x[1:],
    "a row more": lambda rng, x: np.vstack([x, x[:1]]),
    "a column missing throughout": lambda rng, x: np.where(np.arange(x.shape[1]) == 0, np.nan, x),
    "nothing observed": lambda rng, x: np.full(x.shape, np.nan),
    "three dimensions": lambda rng, x: x[None],
    "one dimension": lambda rng, x: x[:, 0],
    "complex": lambda rng, x: x + 0j,
    "text": lambda rng, x: x.astype(str),
    "dates": lambda rng, x: np.zeros(x.shape, "datetime64[s]"),
    "booleans": lambda rng, x: x > 0,
    "whole numbers": lambda rng, x: np.nan_to_num(x).clip(-99, 99).astype(np.int8),
    "half precision": lambda rng, x: np.clip(x, -6e4, 6e4).astype(np.float16),
    "huge": lambda rng, x: x * 1e120,
    "tiny": lambda rng, x: x * 1e-120,
    "ragged": lambda rng, x: [*x.tolist(), [1.0] * (x.shape[1] + 1)],
    "none": lambda rng, x: None,
    "a name": lambda rng, x: "table.csv",
    "a generator": lambda rng, x: (row for row in x),
    "a name twice": lambda rng, x: pd.DataFrame(
        np.hstack([x, x]), columns=[*range(x.shape[1])] * 2
    ),
    "other labels": lambda rng, x: pd.DataFrame(x, index=rng.permutation(len(x))),
    "stored twice": lambda rng, x: sp.coo_array((np.ones(2), ([0, 0], [0, 0])), shape=x.shape),
    "zeros not stored": lambda rng, x: sp.csr_array(np.nan_to_num(x)),
    "a damaged matrix": lambda rng, x: damaged_matrix(np.nan_to_num(x)),
    "weights of 0": lambda rng, x: weighted(rng, x, weights=0.0),
    "weights": lambda rng, x: weighted(rng, x, weights=10.0 ** rng.uniform(-9, 9, x.shape)),
    "a negative weight": lambda rng, x: weighted(rng, x, weights=rng.standard_normal(x.shape)),
    "weights that are missing": lambda rng, x: weighted(
        rng, x, weights=np.where(x > 0, 1, np.nan)
    ),
    "weights of another shape": lambda rng, x: weighted(rng, x, weights=np.ones(len(x) + 1)),
    "a vector of weights": lambda rng, x: weighted(rng, x, weights=np.ones(len(x))),
    "an offset": lambda rng, x: weighted(rng, x, offset=10.0 ** rng.uniform(-9, 9, x.shape)),
    "an infinite offset": lambda rng, x: weighted(rng, x, offset=np.inf),
    "exposures": lambda rng, x: weighted(rng, x, exposure=10.0 ** rng.uniform(-9, 9, x.shape)),
    "exposures of 0": lambda rng, x: weighted(rng, x, exposure=0.0),
}


def damaged_matrix(x):
    """A sparse matrix with a place outside of it."""
    matrix = sp.csr_array(np.where(x == 0.0, 1.0, x))
    matrix.indices[-1] = x.shape[1] + 3
    return matrix


def in_forms(draw, data):
    """The data, each block in a form that means the same, and one of them spoiled or not.

    Also whether it means the same, and what was done, in words.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    given, said = {}, []
    for name, block in data.items():
        form = draw(st.sampled_from(list(FORMS)))
        values = values_of(block)
        if isinstance(block, mc.Observations) and form in (
            "triples",
            "frame",
            "nullable",
            "arrow",
        ):
            form = "array"  # whose labels the weights would need, too
        formed = FORMS[form](np.asarray(values, dtype=float))
        plain = isinstance(block, mc.Observations)
        given[name] = attrs.evolve(block, values=formed) if plain else formed
        said.append(form)
    spoiled = draw(st.integers(0, 4)) == 0
    if spoiled:
        name, kind = draw(st.sampled_from(list(data))), draw(st.sampled_from(list(POISONS)))
        with np.errstate(all="ignore"):
            given[name] = POISONS[kind](rng, np.asarray(values_of(data[name]), dtype=float))
        said.append(f"{kind} in {name}")
    return given, not spoiled, said


def options_of(draw, sensible, nonsense=NONSENSE):
    """Options of a call, each in every second draw; one of them is nonsense in every sixth."""
    chosen = {name: draw(values) for name, values in sensible.items() if draw(st.booleans())}
    if draw(st.integers(0, 5)) == 0:
        chosen[draw(st.sampled_from(list(sensible)))] = draw(nonsense)
    return chosen


def described(model, data, said, options):
    return f"{model!r}\n    {said} {options}\n    {data!r}"


LIMITS = {"max_iter": st.sampled_from([0, 1, 30, 200]), "max_seconds": st.sampled_from([0.3, 1.0])}
FIT = {
    "backend": st.sampled_from(BACKENDS),
    "tol": st.sampled_from([0.0, 1e-12, 1e-6, 1e-3, 0.5]),
    **LIMITS,
    "random_state": st.sampled_from([0, 1, None]) | st.builds(np.random.default_rng, st.just(2)),
    "n_jobs": st.sampled_from([1, 2, None]),
    "progress": st.booleans(),
    "callback": st.sampled_from([None, None, lambda record: record.iteration > 99]),
}


def check_fit(fit, tol):
    """What a status promises, computed anew from Z and the data, and answers without NaN."""
    assert fit.status in STATUSES, fit.status
    objective = fit.problem.objective(fit.latent, fit.effects)
    gap = relative_gap(objective, fit.bound, fit.rounding)
    if fit.status == "certified":
        assert gap <= tol, f"certified with a gap of {gap}, tol={tol}"
        assert fit.gap <= tol
    assert not np.isnan(fit.bound)
    for block in fit.model.blocks:
        for answer in (fit.predict(block.name), fit.impute(block.name)):
            numbers = np.asarray(answer, dtype=float)
            assert not np.isnan(numbers).any(), f"NaN in {block.name}"
            assert np.array_equal(block.limited(numbers), numbers), f"{block.name} is beyond"
    assert repr(fit)
    return fit.status


def same_entries(problem, plain):
    """Another form of the data is the same table."""
    for name, table in problem.tables.items():
        other = plain.tables[name]
        np.testing.assert_array_equal(table.rows, other.rows)
        np.testing.assert_array_equal(table.columns, other.columns)
        np.testing.assert_array_equal(table.values, other.values)


def limited(options):
    """Options with limits, so that no call goes on for minutes."""
    return {"max_iter": 300, "max_seconds": 1.0} | options


def fits(draw):
    model, data = draw(MODELS)
    given, same, said = in_forms(draw, data)
    options, file = options_of(draw, FIT), draw(st.integers(0, 3))

    def call():
        fit = mc.fit(model, given, **limited(options))
        end = check_fit(fit, options.get("tol", 1e-6))
        if same:
            same_entries(fit.problem, mc.Problem.bind(model, data))
        if file == 0:
            again = mc.load(fit.save("fit.npz"))
            assert again.gap == fit.gap
            assert check_fit(again, options.get("tol", 1e-6)) == fit.status
        elif file == 1:
            new = fit.impute_rows(model.blocks[0].name, given)
            assert not np.isnan(np.asarray(new, dtype=float)).any()
        elif file == 2:
            assert mc.Model.from_json(model.to_json()) == model
        return end

    return described(model, given, said, options), call


def several_fits(draw):
    """Two backends and partitions of rows, which must not contradict each other."""
    model, data = draw(MODELS)
    tol, names = draw(FIT["tol"]), draw(st.permutations(BACKENDS))
    n_rows = len(values_of(next(iter(data.values()))))
    n_parts, start = draw(st.integers(1, n_rows)), draw(st.booleans())

    def call():
        found = []
        ways = [("auto", data), (names[0], data), (names[1], data)]
        ways.append(("auto", RowsInMemory(data, n_parts)))
        for name, given in ways:
            try:
                found.append(
                    mc.fit(model, given, backend=name, tol=tol, max_seconds=0.7, max_iter=500)
                )
            except mc.McframeError as error:
                refused = error
        if not found:
            raise refused
        if start:
            found.append(mc.fit(model, data, tol=tol, max_seconds=0.5, start=found[0]))
        wrong = list(contradictions(found, tol))
        assert not wrong, wrong
        return " and ".join(sorted({fit.status for fit in found}))

    return described(model, data, names, tol), call


def verifies(draw):
    model, data = draw(MODELS)
    given, _, said = in_forms(draw, data)
    options = options_of(draw, {"tol": FIT["tol"], "backend": FIT["backend"]})

    def call():
        found = mc.verify(model, given, **{"max_seconds": 3.0} | options)
        assert repr(found)
        assert found.verdict != "differ", repr(found)
        return found.verdict

    return described(model, given, said, options), call


def explains(draw):
    model, data = draw(MODELS)
    given, _, said = in_forms(draw, data)

    def call():
        mc.to_cvxpy(model, given)
        found = mc.explain(model, given)
        assert repr(found)
        return "explained" if found.chosen else "none can run"

    return described(model, given, said, ""), call


def weights_max(draw):
    model, data = draw(WEIGHTED)
    given, _, said = in_forms(draw, data)
    options = options_of(draw, {"term": st.sampled_from([None, None, mc.NuclearNorm, mc.Ridge])})

    def call():
        found = mc.weight_max(model, given, **options)
        assert 0.0 < found < np.inf, found
        return "a weight"

    return described(model, given, said, options), call


def paths(draw):
    model, data = draw(WEIGHTED)
    given, _, said = in_forms(draw, data)
    sensible = {
        "weights": st.one_of(
            st.sampled_from([[1.0], [2.0, 1.0, 1e-3], [1e9, 1e-9]]),
            st.builds(
                selection.Grid,
                count=st.integers(2, 4),
                ratio=st.sampled_from([0.5, 1e-3]),
                term=st.sampled_from([None, None, mc.NuclearNorm, mc.MaxNorm]),
            ),
        ),
        **{name: FIT[name] for name in ("tol", "backend", "random_state", *LIMITS)},
    }
    options = options_of(draw, sensible, SMALL)

    def call():
        found = mc.path(model, given, **{"weights": selection.Grid(count=3)} | limited(options))
        assert repr(found)
        return " and ".join(sorted({check_fit(fit, options.get("tol", 1e-6)) for fit in found}))

    return described(model, given, said, options), call


CRITERIA = [
    *(selection.HeldOutLoss(), selection.RelativeDeviance(), selection.LabelError()),
    *(selection.RelativeError(), selection.LogLoss(), selection.OneMinusAUC()),
    *(selection.MeanAbsoluteError(), selection.OrdinalDistance(), lambda fit, held: 1.0),
]


def cross_validates(draw):
    model, data = draw(WEIGHTED)
    given, _, said = in_forms(draw, data)
    sensible = {
        "criterion": st.sampled_from([*CRITERIA, *[CRITERIA[0], None] * 5]),
        "cv": st.one_of(
            st.integers(2, 3), st.sampled_from([selection.RowFolds(2), selection.EntryFolds(2)])
        ),
        "tol": FIT["tol"],
        "random_state": FIT["random_state"],
        "weights": st.one_of(
            st.sampled_from([None, [1.0], [10.0, 0.1]]),
            st.builds(
                selection.Grid, count=st.integers(2, 3), patience=st.sampled_from([None, 1])
            ),
        ),
    }
    options = options_of(draw, sensible, SMALL)
    options = {"criterion": CRITERIA[0], "cv": 2, "weights": selection.Grid(count=2)} | options

    def call():
        limits = {"max_seconds": 0.3}
        found = mc.cross_validate(model, given, **limits, **options)
        assert repr(found)
        assert isinstance(found.best_model, mc.Model)
        return "chosen"

    return described(model, given, said, options), call


POSTERIOR = {
    "method": st.sampled_from(["variational", "variational", "sampler", "auto"]),
    "factors": st.sampled_from(["auto", 1, 3]),
    "tol": st.sampled_from([1e-6, 1e-3, 0.5]),
    "max_iter": st.sampled_from([1, 5, 20]),
    "max_seconds": st.sampled_from([0.5, 2.0]),
    "random_state": FIT["random_state"],
    "n_jobs": FIT["n_jobs"],
}


def ends_of(posterior, rng):
    """Check the answers of a posterior on all its blocks, NaN above all."""
    for block in posterior.model.blocks:
        name = block.name
        for answer in (posterior.predict(name), posterior.sd(name), posterior.impute(name)):
            assert not np.isnan(np.asarray(answer, dtype=float)).any(), f"NaN in {name}"
        for answer in (posterior.predict(name), posterior.sample(name, 2)):
            numbers = np.asarray(answer, dtype=float)
            assert np.array_equal(block.limited(numbers), numbers), f"{name} is beyond"
        assert np.all(np.asarray(posterior.sd(name)) >= 0.0)
        if block.likelihood.width == 1:
            low, high = (
                np.asarray(end) for end in posterior.interval(name, rng.uniform(0.01, 0.99))
            )
            assert np.all(low <= high), name
            assert np.array_equal(block.limited(low), low), name
            assert np.array_equal(block.limited(high), high), name
            for of in ("mean", "predictor"):
                low, high = posterior.interval(name, rng.uniform(0.01, 0.99), of=of)
                assert np.all(np.asarray(low) <= np.asarray(high)), (name, of)
        deviations = [np.asarray(posterior.sd(name, of=of)) for of in ("mean", "observation")]
        assert np.all(deviations[0] <= (1.0 + 1e-6) * deviations[1] + 1e-300), name
        assert not np.isnan(posterior.sample(name, 2)).any()
    if posterior.diagnostics is None:
        assert np.isfinite(posterior.evidence)
    else:
        assert not hasattr(posterior, "evidence")
    assert repr(posterior)
    return posterior.status


def posteriors(draw):
    model, data = draw(st.one_of(with_bounds(posterior_models()), posterior_models(), MODELS))
    given, _, said = in_forms(draw, data)
    options, number = options_of(draw, POSTERIOR), draw(st.integers(0, 2**20))

    def call():
        limits = {"max_iter": 20, "max_seconds": 2.0}
        found = mc.posterior(model, given, **limits | options)
        end = ends_of(found, np.random.default_rng(number))
        if number % 4 == 0:
            ends_of(mc.load(found.save("posterior.npz")), np.random.default_rng(number))
        elif number % 4 == 1:
            ends_of(found.condition(given), np.random.default_rng(number))
        return end

    return described(model, given, said, options), call


def conformal(draw):
    model, data = draw(posterior_models())
    sensible = {
        "confidence_level": st.sampled_from([0.5, 0.9, 1e-9, 1 - 1e-9]),
        "missingness": st.sampled_from(["uniform", "rank1", "bernoulli", 0.3]),
        "by": st.sampled_from(["block", "column"]),
        "share": st.sampled_from([0.1, 0.5, 0.99]),
        "folds": st.sampled_from(["auto", 1, 3]),
        "random_state": FIT["random_state"],
    }
    options = options_of(draw, sensible)

    def call():
        posterior = mc.posterior(model, data, max_iter=10, max_seconds=1.0)
        found = posterior.conformalize(**options)
        for block in model.blocks:
            for what in found.blocks[block.name].scores:
                answer = np.asarray(getattr(found, what)(block.name), dtype=float)
                assert not np.isnan(answer).any(), f"NaN in {what} of {block.name}"
        return "intervals" if repr(found) else ""

    return described(model, data, "", options), call


def joint(draw):
    model, data = draw(posterior_models())
    sensible = {
        "confidence_level": st.sampled_from([0.5, 0.9, 1e-9, 1 - 1e-9]),
        "missingness": st.sampled_from(["uniform", 0.3]),
        "groups": st.sampled_from(["mask", "size"]),
        "folds": st.sampled_from(["auto", 2, 3]),
        "random_state": FIT["random_state"],
    }
    options = options_of(draw, sensible)

    def call():
        posterior = mc.posterior(model, data, max_iter=5, max_seconds=1.0)
        found = posterior.conformalize_jointly(**options)
        for block in model.blocks:
            table = posterior.problem.tables[block.name].observed_entries().in_data_units()
            at = table.rows, table.columns
            likelihood = block.likelihood
            if answer_of(likelihood) == "set":
                chosen = found.set(block.name)
                assert chosen.any(axis=-1).all(), f"an empty set in {block.name}"
                assert np.all(chosen[at].sum(axis=-1) == 1), f"sets of observed {block.name}"
                continue
            for end in found.interval(block.name):
                answer = np.asarray(end, dtype=float)
                assert not np.isnan(answer).any(), f"NaN in the intervals of {block.name}"
                observed = block.limited(table.values)
                assert np.array_equal(answer[at], observed), f"observed entries of {block.name}"
        return "intervals" if repr(found) else ""

    return described(model, data, "", options), call


def compares(draw):
    model, data = draw(posterior_models())
    given, _, said = in_forms(draw, data)
    other = draw(
        st.sampled_from([model, model, draw(posterior_models())[0], *NONSENSE_VALUES[:5]])
    )
    sensible = {"cv": st.integers(2, 3), "random_state": FIT["random_state"]}
    options = options_of(draw, sensible, SMALL)
    names = draw(st.sampled_from([("a", "b"), ("b", ""), ("a", 1)]))

    def call():
        candidates = dict(zip(names, (model, other), strict=True))
        found = mc.compare(candidates, given, max_iter=3, **{"cv": 2} | options)
        return "compared" if repr(found) else ""

    return described((model, other), given, said, options), call


def any_table(draw):
    """A table of any columns in any library, with a column that is none or not."""
    frame, library = draw(frames())
    spoiled = draw(st.sampled_from([None, None, *COLUMNS_TO_SPOIL]))
    if spoiled:
        frame = frame.assign(spoiled=COLUMNS_TO_SPOIL[spoiled](len(frame)))
        library = {True: library, False: lambda table: table}[spoiled in ("infinite", "empty")]
    return library(frame), spoiled


COLUMNS_TO_SPOIL = {
    "infinite": lambda n: np.full(n, np.inf),
    "complex": lambda n: 1j * np.arange(n),
    "lists": lambda n: [[1.0]] * n,
    "bytes": lambda n: [b"a", b"b"] * (n // 2) + [b"c"] * (n % 2),
    "periods": lambda n: pd.period_range("2020-01", periods=n, freq="M"),
    "durations": lambda n: pd.to_timedelta(range(n), "D"),
    "zone": lambda n: pd.date_range("2020-01-01", periods=n, tz="Asia/Tokyo"),
    "intervals": lambda n: pd.interval_range(0, n),
    "sparse": lambda n: pd.arrays.SparseArray([0.0, np.nan, 1.5, -2.0] * n)[:n],
    "sparse zeros": lambda n: pd.arrays.SparseArray([0.0, 1.0] * n, fill_value=0)[:n],
    "empty": lambda n: np.full(n, np.nan),
    "objects": lambda n: [object() for _ in range(n)],
    "dicts": lambda n: [{}] * n,
    "huge whole numbers": lambda n: [10**30 + k for k in range(n)],
    "mixed": lambda n: ([1, "a", None, 2.5, dt.date(2020, 1, 1)] * n)[:n],
}
KINDS = ["number", "count", "label", "category", "ordinal", "date", "skip", "float", 3, None]
KINDS += [("number", 0, 1), ("number", 1, 0), ["a", "b"], [1.0, 2.0, 3.0], [0.5, 1, 1.5, 2.0]]
KINDS += [mc.Gaussian(), mc.Poisson(), mc.Gaussian]


def any_types(draw, table):
    """Kinds of some columns, many of them wrong, or no dict at all."""
    if draw(st.integers(0, 2)):
        return None
    names = [*(table.column_names if isinstance(table, pa.Table) else table.columns), "other"]
    kinds = st.dictionaries(st.sampled_from(names), st.sampled_from(KINDS), max_size=2)
    scales = {name: levels for name, levels in SCALES.items() if name in names}
    if not draw(st.integers(0, 3)):
        return a_condition(draw, table, names)
    if not draw(st.integers(0, 2)):
        return a_limit(draw, names)
    return draw(st.one_of(kinds, st.just(scales), kinds, NONSENSE))


def a_condition(draw, table, names):
    """A column that applies where another one has a value, mostly one of those that it has."""
    name, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    value = draw(st.sampled_from([True, "a", 1]))
    if other in names[:-1] and draw(st.integers(0, 5)):
        values = nw.from_native(table, eager_only=True)[other].to_list()
        value = values[draw(st.integers(0, len(values) - 1))]
    return {name: mc.only_if(other, value, draw(st.sampled_from([None, None, "number"])))}


def a_limit(draw, names):
    """A column whose limits stand in others, most of which have none for it, or are given."""
    ends = [-1e200, -3.0, 0, 0.5, 2, 1e6, dt.date(2020, 3, 1), pd.Timestamp("2020-04-01 12:30")]
    name, number = st.sampled_from(names), st.sampled_from(ends)
    maybe = st.sampled_from([None, None, *names])
    ends = draw(name | number), draw(maybe | number)
    lower, upper = draw(st.permutations(ends))
    kind = draw(st.sampled_from([None, None, "number", "count", "label", "date"]))
    return {draw(name): mc.censored(lower=lower, upper=upper, where=draw(maybe), kind=kind)}


def with_relations(draw, table):
    """A table, mostly with further columns that satisfy relations, and these."""
    frame = nw.from_native(table, eager_only=True)
    numbers = [series for series in frame.iter_columns() if series.dtype.is_numeric()]
    kind = draw(st.sampled_from([None, None, None, "linear", "linear", "two", "formula", "wrong"]))
    if kind is None or not numbers:
        return table, None
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chosen = [numbers[k] for k in rng.permutation(len(numbers))[: rng.integers(1, 4)]]
    values = {
        series.name: np.array([np.nan if pd.isna(x) else float(x) for x in series.to_list()])
        for series in chosen
    }
    first = f"`{chosen[0].name}`"
    if kind == "wrong":
        texts = [f"{first} = ", f"`none` = {first}", f"{first} = 1", "numbers = log(label)", ""]
        return table, [draw(st.sampled_from([*texts, 3]))]
    if kind == "formula":
        x, y = values[chosen[0].name], values[chosen[-1].name]
        with np.errstate(all="ignore"):
            made = {
                "exp(-{0} / 7)": np.exp(-x / 7.0),
                "{0} * {1}": x * y,
                "sqrt(abs({0}))": np.sqrt(np.abs(x)),
                "{0} / {1}": x / y,
            }
        text = draw(st.sampled_from(list(made)))
        result = np.where(np.isfinite(made[text]), made[text], np.nan)
        columns = {"made": result}
        relations = [f"made = {text.format(first, f'`{chosen[-1].name}`')}"]
    else:
        factors = rng.choice([-1.0, 1.0, 2.0], len(chosen))
        if rng.random() < 0.5:
            factors = factors * 10.0 ** rng.uniform(-6.0, 6.0, len(chosen))
        constant = float(rng.choice([0.0, 0.0, -3.5]))
        terms = [f"{a!r} * `{s.name}`" for a, s in zip(factors.tolist(), chosen, strict=True)]
        total = sum(a * values[s.name] for a, s in zip(factors, chosen, strict=True)) + constant
        columns, relations = {"made": total}, [f"made = {' + '.join(terms)} + {constant}"]
        if kind == "two":
            columns["rest of it"] = 100.0 - total
            relations.append("`rest of it` = 100 - made")
    made = []
    for name, column in columns.items():
        column[rng.random(column.size) < 0.3] = np.nan
        native = [None if np.isnan(x) else x for x in column.tolist()]
        series = nw.new_series(name, native, nw.Float64, backend=frame.implementation)
        if frame.implementation.is_pandas():
            series = nw.maybe_set_index(series, index=table.index)
        made.append(series)
    return frame.with_columns(*made).to_native(), relations


def check_relations(completed, table, are_new=False):
    """Identities hold in rows to which their columns apply, and where all are filled."""
    frame = nw.from_native(table, eager_only=True)
    for identity in completed.declared.relations.identities:
        terms = np.array(
            [
                a * np.array([np.nan if pd.isna(x) else float(x) for x in frame[name].to_list()])
                for name, a in zip(identity.columns, identity.coefficients, strict=True)
            ]
        )
        size = np.sum(np.abs(terms), axis=0) + abs(identity.constant)
        apart = np.abs(np.sum(terms, axis=0) - identity.constant)
        holds = completed.declared.related_rows.holds_for(identity.relation)
        if not are_new:  # signs of gaps that stay are no numbers
            holds = holds & ~np.any([completed.left_empty[n] for n in identity.columns], axis=0)
        # Numbers that are filled in the unit of a column are no nearer to 0 than its rounding.
        rounding = np.finfo(float).eps * np.nanmax(size, initial=0.0)
        broken = (apart > 1e-6 * size + rounding) & holds
        assert not np.any(broken), f"{identity.relation} is broken"


# Values that may be declared to stand for missing ones, of which some are none.
GAPS = [None, [], [-99, "ND"], ["?", "<5", 9], "no", {"numbers": [0]}, {"coded": -99}, {"no": 1}]


# Weights of the rows of a table, over many orders of magnitude.
ROW_WEIGHTS = [
    [1.0, 2.0, 5.0] * 8,
    [10.0 ** (k % 7) for k in range(24)],
    np.geomspace(1e-200, 1e200, 24),
    np.full(24, 3),
]


def with_time(draw, table):
    """A table, mostly with columns of times and units of its rows, and the options of both."""
    frame, kind = nw.from_native(table), draw(st.sampled_from(["none", "numbers", "dates"]))
    names = list(frame.columns)
    if kind == "none" or {"at", "unit"} & {*names}:
        return table, {"time": draw(st.sampled_from([*names, "nowhen"]))}
    n_rows, rng = frame.shape[0], np.random.default_rng(draw(st.integers(0, 99)))
    times = rng.permutation(n_rows).tolist()
    if kind == "dates":
        times = [dt.datetime(2020, 1, 1) + dt.timedelta(days=day) for day in times]
    labels = [f"u{number}" for number in rng.integers(draw(st.integers(1, 12)), size=n_rows)]
    made = []
    for name, values in (("at", times), ("unit", labels)):
        series = nw.new_series(name, values, backend=frame.implementation)
        if frame.implementation.is_pandas():
            series = nw.maybe_set_index(series, index=table.index)
        made.append(series)
    options = {"time": "at"}
    if draw(st.integers(0, 3)):
        options["groups"] = draw(st.sampled_from(["unit", "unit", "unit", labels]))
        options["trend"] = draw(st.sampled_from([0, 1, 1, 2, 3]))
    return frame.with_columns(*made).to_native(), options


def completes(draw):
    table, spoiled = any_table(draw)
    types = any_types(draw, table)
    table, relations = with_relations(draw, table)
    sensible = {
        "method": st.sampled_from([None, "posterior", "posterior", "optimum"]),
        "missing": st.sampled_from(GAPS),
        "random_state": FIT["random_state"],
        "groups": st.sampled_from(
            [None, None, [1, 2, 3] * 8, [1, 2] * 12, [*range(24)], *nw.from_native(table).columns]
        ),
        "where": st.sampled_from([None, None, None, "half", "nowhere", True]),
        "nonlinear": st.sampled_from([None, None, False, True]),
        "detect_limits": st.booleans(),
        "row_weights": st.sampled_from(
            [*[None] * 4, *ROW_WEIGHTS, *nw.from_native(table).columns, [0.0] * 24]
        ),
        "progress": st.booleans(),
    }
    of_time = {}
    if draw(st.integers(0, 3)) == 0:
        table, of_time = with_time(draw, table)
    options, number = options_of(draw, sensible) | of_time, draw(st.integers(0, 2**20))
    options |= {} if relations is None else {"relations": relations}
    where = options.get("where")
    if isinstance(where, str) and where in ("half", "nowhere"):
        drawn = np.random.default_rng(number).random(nw.from_native(table).shape)
        options["where"] = drawn < {"half": 0.5, "nowhere": 0.0}[where]

    def call():
        found = mc.complete(table, types, **options)
        if relations is not None:
            return check_completed_by_relations(found, table)
        if any(empty.any() for empty in found.left_empty.values()):
            return check_gaps_that_stay(found, table)
        check_observed_entries(found.table, table, found.declared)
        assert repr(found)
        found.report()
        if found.declared.gap_tests.of_columns:
            plt.close(found.plot.gap_dependence().figure)
        check_answers_of_a_posterior(found, table)
        check_answers_agree(found)
        if number % 3 == 0:
            again = mc.load(found.save("completed.npz"))
            check_observed_entries(again.table, table, again.declared)
        check_observed_entries(found.complete_rows(table), table, found.declared)
        if isinstance(table, pd.DataFrame):  # numbers that may lie outside of their support
            floats = table.select_dtypes("float64").columns[: number % 4]
            new = table.assign(**{name: -3.5 * table[name] - 0.25 for name in floats})
            assert len(found.complete_rows(new)) == len(table)
        return "completed"

    return f"{table!r} {spoiled} {types!r} {options}", call


def check_completed_by_relations(completed, table):
    """Relations hold in the table, in draws and in new rows."""
    assert repr(completed)
    completed.report()
    check_relations(completed, completed.table)
    if not any(empty.any() for empty in completed.left_empty.values()):
        check_observed_entries(completed.table, table, completed.declared)
    if isinstance(completed.answer, mc.Posterior):
        check_relations(completed, completed.draws(1)[0])
        completed.interval(0.8)
        assert len(completed.sd) == len(table)
    check_relations(completed, completed.complete_rows(table), are_new=True)
    return "completed by relations"


def check_gaps_that_stay(completed, table):
    """Entries that are left empty are the gaps of the table, of errors and of draws by masks."""
    assert repr(completed)
    completed.report()
    whole = nw.from_native(completed.table, eager_only=True)
    errors = nw.from_native(completed.sd) if isinstance(completed.answer, mc.Posterior) else None
    if errors is not None:
        check_ends_that_stay(completed, whole)
    for column in completed.declared.columns:
        empty = completed.left_empty[column.name]
        if column.is_filled:
            values = whole[column.name].to_list()
            gaps = [bool(pd.isna(value)) for value in values]
            signs = [type(value) is str for value in values]  # of gaps, as "?", that stay
            assert not np.any(gaps & ~empty)
            assert np.all(np.logical_or(gaps, signs)[empty]) or column.column.gaps
        if errors is not None and column.place is not None:
            gaps = np.isnan(errors[column.name].to_numpy().astype(float))
            np.testing.assert_array_equal(gaps, empty)
    if errors is not None:
        check_answers_of_a_posterior(completed, table, agree=False)
    assert len(completed.complete_rows(table)) == len(table)
    return "completed in part"


def check_ends_that_stay(completed, whole):
    """Intervals have ends where the table is filled."""
    for ends in map(nw.from_native, completed.interval(0.8)):
        for name in ends.columns:
            gaps, filled = (
                [bool(pd.isna(value)) for value in table[name].to_list()]
                for table in (ends, whole)
            )
            assert gaps == filled, name


def check_answers_of_a_posterior(completed, table, agree=True):
    """Draws, intervals and errors of a completed table, if a posterior filled it."""
    if isinstance(completed.answer, mc.Posterior):
        check_limits(lists_of(completed.draws(1)[0]), completed.declared)
        for answer in (*completed.draws(1), *completed.interval(0.8), completed.sd):
            # Intervals of a table without numbers have no column, and then no library counts rows.
            assert len(answer) == len(table) or not nw.from_native(answer).columns
        numbers = completed.declared.missing_entries(Numbers)
        shift = {column.name: (-1) ** k * 1.7 for k, (column, _) in enumerate(numbers)}
        shifts = [shift, shifts_by_group(completed)]
        for shifted in (completed.draws(1, shift=one)[0] for one in shifts):
            if agree:
                check_observed_entries(shifted, table, completed.declared)
        for name, mean in completed.means.items():
            assert completed.shift_to_change(name) > 0.0, name
            assert mean.reported_shift > 0.0, name
        for column, rows in completed.declared.missing_entries(Numbers):
            ends = codes_of_intervals(completed.answer, [(column, rows)], 0.5)
            lower, upper = (end[column.name] for end in ends)
            assert np.all(lower <= upper), column.name
            if column.has_whole_values:
                assert np.all(np.rint(lower) == lower), column.name
                assert np.all(np.rint(upper) == upper), column.name


def numbers_and_groups(completed):
    """The columns of numbers, and those of labels or categories, that stand in the model."""
    modelled = [column for column in completed.declared.columns if column.place is not None]
    numbers = [column for column in modelled if isinstance(column.coding, Numbers)]
    return numbers, [
        column for column in modelled if column not in numbers and not column.constant
    ]


def shifts_by_group(completed):
    """Shifts of numbers by the first column of labels or categories, to its first value too."""
    numbers, groups = numbers_and_groups(completed)
    if not groups:
        return {}
    first, words = groups[0].column.distinct[0], [{"amount": {}, "unit": "sd"}]
    words[0]["amount"][first] = 1.5
    if isinstance(completed.chosen, RowsChoice) and completed.chosen.components is not None:
        words += [{"to": first, "method": word} for word in METHODS]
    return {
        column.name: mc.shift(by=groups[0].name, **words[k % len(words)])
        for k, column in enumerate(numbers)
    }


def declares(draw):
    table, spoiled = any_table(draw)
    types, of_own_model = any_types(draw, table), draw(st.booleans())
    of_posterior = draw(st.booleans())

    def call():
        declared = mc.declare(table, types)
        if of_own_model:  # the model that was found, given back with the columns of its blocks
            names = {block.name: [] for block in declared.model.blocks}
            for each in declared.columns:
                if each.block is not None:
                    names[each.block].append(each.name)
            declared = mc.declare(table, types, model=declared.model, columns=names)
        assert repr(declared)
        fit = mc.fit(declared.model, declared.data, tol=1e-3, max_iter=100, max_seconds=1.0)
        if declared.applicability.has_conditions:
            check_gaps_that_stay(mc.Completion.of(declared, fit), table)
            return check_fit(fit, 1e-3)
        check_observed_entries(declared.table(fit), table, declared)
        if of_posterior:
            posterior = mc.posterior(declared.model, declared.data, max_iter=20, max_seconds=1.0)
            completed = mc.Completion.of(declared, posterior)
            check_observed_entries(completed.table, table, declared)
            check_answers_of_a_posterior(completed, table)
            check_answers_agree(completed)
        return check_fit(fit, 1e-3)

    return f"{table!r} {spoiled} {types!r} {of_own_model=} {of_posterior=}", call


ESTIMATORS = {
    "imputer": MatrixCompletionImputer,
    "classifier": MatrixCompletionClassifier,
    "regressor": MatrixCompletionRegressor,
}


def estimates(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(list(ESTIMATORS)))
    X = rng.standard_normal((draw(st.integers(1, 20)), draw(st.integers(1, 4))))
    X = X * 10.0 ** draw(st.sampled_from([-100.0, 0.0, 0.0, 9.0, 100.0]))
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.3, 0.9]))] = np.nan
    kinds = draw(st.sampled_from([["array", "frame", "table"], FORMS, POISONS]))
    form = draw(st.sampled_from([*kinds]))
    if form == "table":
        table = any_table(draw)[0]
    elif form in FORMS:
        table = FORMS[form](X)
    else:
        table = POISONS[form](rng, X)
    targets = {
        "labels": rng.integers(0, 2, len(X)),
        "three": rng.integers(0, 3, len(X)),
        "words": rng.choice(["low", "high"], len(X)),
        "missing": np.array([None, "a", "b"] * len(X), dtype=object)[: len(X)],
        "one": np.ones(len(X)),
        "several": rng.integers(0, 2, (len(X), 2)),
        "numbers": rng.standard_normal(len(X)),
        "holes": np.where(rng.random(len(X)) < 0.5, np.nan, rng.integers(0, 2, len(X))),
        "none": None,
        "infinite": np.full(len(X), np.inf),
        "short": np.ones(len(X) // 2),
        "complex": 1j * np.ones(len(X)),
    }
    aim = draw(st.sampled_from(list(targets)))
    sensible = {
        "likelihoods": st.sampled_from(["auto", mc.Gaussian(), mc.Huber(1.0), {0: mc.Poisson()}]),
        "terms": st.sampled_from([None, "gaussian", [mc.NuclearNorm(1.0)], [mc.MaxNorm(1.0)]]),
        "weight": st.sampled_from(["cv", 1.0, 1e-6, None]),
        "n_weights": st.just(3),
        "cv": st.just(2),
        "tol": st.sampled_from([1e-6, 1e-2]),
        "max_iter": st.sampled_from([0, 50]),
        "random_state": st.sampled_from([0, None]),
        "unseen": st.sampled_from(["missing", "error"]),
        "missing_values": st.sampled_from([np.nan, -99, [1.0, "ND"], {0: [9]}, None]),
        **({"keep_empty_features": st.booleans()} if kind == "imputer" else {}),
        **({"add_indicator": st.booleans()} if kind == "imputer" else {}),
        **({"min_value": st.sampled_from([-1.0, [0.0]])} if kind == "imputer" else {}),
    }
    options = options_of(draw, sensible, SMALL)

    def call():
        estimator = ESTIMATORS[kind](**{"n_weights": 3, "max_iter": 200} | options)
        if kind == "imputer":
            answer = estimator.fit_transform(table)
            assert len(answer) == len(X) or form in ("table", "a row less", "a row more")
            estimator.transform(table)
        else:
            answer = estimator.fit(table, targets[aim]).predict(table)
            if aim != "missing":
                assert not pd.isna(answer).any()
        if isinstance(answer, np.ndarray) and answer.dtype.kind == "f" and kind != "imputer":
            assert np.isfinite(answer).all()
        return f"{kind} answers"

    return f"{kind} {form} {aim} {options} {X!r}", call


LABELS = st.sampled_from(
    [None, np.nan, "a", "b", 1, 2.5, ("a", 1), dt.date(2020, 1, 1), b"c", [1], True, pd.NA, ""]
)


def triples(draw):
    n, nice = draw(st.integers(0, 6)), st.sampled_from("abcd")
    one = draw(st.sampled_from([nice, nice, LABELS]))
    labels = [draw(st.lists(one, min_size=n, max_size=n)) for _ in range(2)]
    value = draw(
        st.sampled_from([st.floats(-9, 9), st.integers(), st.one_of(st.floats(), LABELS)])
    )
    numbers = draw(st.lists(value, min_size=n, max_size=draw(st.sampled_from([n, n, n, n + 1]))))
    options = options_of(
        draw,
        {
            "duplicates": st.sampled_from(["refuse", "mean", "last", "sum"]),
            "rows": st.lists(LABELS, max_size=3),
            "columns": st.lists(LABELS, max_size=3),
        },
    )

    def call():
        found = mc.from_triples(row=labels[0], column=labels[1], value=numbers, **options)
        model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
        fit = mc.fit(model, {"x": found}, max_iter=50)
        assert np.isfinite(fit.predict_pairs("x", [(labels[0][0], labels[1][0])])).all()
        fit.top("x", labels[0][0])
        return check_fit(fit, 1e-6)

    return f"{labels} {numbers} {options}", call


def pools(draw):
    n = draw(st.integers(1, 4))
    numbers = draw(st.sampled_from([st.floats(0, 1e9), st.floats(0, 9)]))
    if draw(st.integers(0, 4)) == 0:
        numbers = st.one_of(numbers, st.floats(), NONSENSE)
    given = [draw(st.lists(numbers, min_size=n, max_size=n)) for _ in range(2)]
    if draw(st.integers(0, 4)) == 0:
        given[draw(st.integers(0, 1))] = draw(NONSENSE)
    options = options_of(draw, {"complete_degrees_of_freedom": st.sampled_from([1.0, 9, np.inf])})

    def call():
        found = mc.pool(*given, **options)
        low, high = found.interval(0.9)
        assert np.all(np.asarray(low) <= high)
        return "pooled" if repr(found) else ""

    return f"{given} {options}", call


NUMBERS = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])


def files(draw):
    """Text and bytes of any kind, read as every kind of file."""
    pieces = ["a", "b", ",", ";", "\n", "1", "2.5", '"', "\t", "::", " ", "é", "\0", "nan", "inf"]
    pieces += [
        "userId,movieId,rating\n",
        "1,2,3\n",
        "@data\n",
        "@attribute x numeric\n",
        "<",
        "1e999",
    ]
    begins = ["", "a,b\n1,2\n", "userId,movieId,rating\n1,2,3\n", "1\t2\t3\t4\n"]
    begins += [NUMBERS.to_json(), '"a b"\n', "x\n1\n2\n"]
    text = draw(st.sampled_from(begins))
    text += "".join(
        draw(st.lists(st.sampled_from(pieces), max_size=draw(st.sampled_from([0, 3, 30]))))
    )
    encoding = draw(st.sampled_from(["utf-8", "utf-16", "latin-1"]))
    readers = {
        "read_csv": lambda: datasets.read_csv("file", {"x": "*"}, encoding=encoding),
        "read_ratings": lambda: datasets.read_ratings("file"),
        "read_multilabel": lambda: datasets.read_multilabel("file"),
        "read_mulan": lambda: read_mulan("file", "file"),
        "load": lambda: mc.load("file"),
        "on_disk": lambda: datasets.on_disk("file"),
        "from_json": lambda: mc.Model.from_json(text),
    }
    reader = draw(st.sampled_from(list(readers)))

    def call():
        with open("file", "wb") as file:
            file.write(text.encode(encoding, "replace"))
        readers[reader]()
        return "read"

    return f"{reader} {text!r} {encoding}", call


# Classes that are made from words and numbers.
MADE = [
    *(getattr(mc, name) for name in sorted({*TERMS, *LIKELIHOODS, *mc.risks.__all__})),
    *(mc.Block, mc.Model, mc.Observations, mc.Proximal, mc.Alternating, mc.FactoredDescent),
    *(mc.Splitting, mc.Rowwise, mc.FPC, mc.Reference),
    *(selection.EntryFolds, selection.RowFolds, selection.TimeFolds, selection.HeldOutLoss),
    *(selection.RelativeDeviance, selection.LabelError, selection.OneMinusAUC),
]
SENSIBLE = st.sampled_from(
    [
        *("x", "sum", "logit", True, False, 0.1, 0.5, 1.0, 2, 3, [0.0, 1.0], np.eye(2), "auto"),
        *(None, mc.Gaussian(), mc.Bernoulli(), [mc.NuclearNorm(1.0)]),
        [mc.Block("x", mc.Gaussian())],
    ]
)


def words(draw):
    """Any class of the vocabulary with any arguments."""
    word = draw(st.sampled_from(MADE))
    given = {}
    for name, parameter in inspect.signature(word).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.default is parameter.empty or draw(st.booleans()):
            given[name] = draw(draw(st.sampled_from([SENSIBLE, SENSIBLE, NONSENSE])))

    def call():
        return "made" if repr(word(**given)) else ""

    return f"{word!r} {given!r}", call


@cache
def answers():
    """An answer of every kind, of two blocks with labels of rows and columns."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.standard_normal((12, 3)), columns=list("abc"))
    x = x.mask(rng.random((12, 3)) < 0.2)
    y = np.where(rng.random((12, 2)) < 0.2, np.nan, rng.integers(0, 2, (12, 2)))
    data = {"x": x, "y": y}
    blocks = [mc.Block("x", mc.Gaussian(), bias=True), mc.Block("y", mc.Bernoulli())]
    model = mc.Model(blocks, [mc.NuclearNorm(1.0)])
    frame = x.assign(kind=rng.choice(["p", "q", None], 12))
    fit, posterior, completed = mc.fit(model, data), mc.posterior(model, data), mc.complete(frame)
    found = [fit, fit.compact(), posterior, posterior.condition(data), completed]
    found += [completed.declared, posterior.conformalize(0.5), mc.explain(model, data)]
    found += [
        mc.path(model, data, weights=mc.selection.Grid(count=3)),
        mc.pool([1.0, 2.0], [0.1, 0.2]),
        posterior.factors(),
    ]
    found += [mc.compare({"a": model}, data, cv=2), model, mc.verify(model, data)]
    found.append(mc.from_triples(row=[1, 2], column=["a", "b"], value=[0.5, 1.0]))
    found.append(mc.complete(frame, method="optimum"))
    found.append(mc.cross_validate(model, data, weights=mc.selection.Grid(count=2), cv=2))
    return data, frame, found


def arguments():
    """Values of the parameters of methods by their names, sensible ones."""
    data, frame, (fit, *_) = answers()
    places = st.sampled_from([None, [0], [0, 1], np.arange(2), [11, 2], [], [99]])
    return {
        "block": st.sampled_from(["x", "y"]),
        "name": st.sampled_from(["a", "kind", "x"]),
        "rows": places,
        "columns": places,
        "values": st.sampled_from([[0.5], [1.0, 0.0], []]),
        "data": st.sampled_from([data, {"x": data["x"].iloc[:2]}, {"y": [[1, 0]]}, {}]),
        "frame": st.sampled_from([frame, frame.iloc[:1], frame[["a"]], frame.iloc[:0]]),
        "pairs": st.sampled_from([[(0, "a")], [(0, 0)], [], [(0, "z")], data["x"]]),
        "row": st.sampled_from([0, [0, 1], 99, "a"]),
        "fit": st.just(fit),
        "level": st.sampled_from([0.5, 0.9]),
        "confidence_level": st.sampled_from([0.5, 0.9]),
        "missingness": st.sampled_from(["uniform", "rank1", np.full((12, 1), 0.5)]),
        "by": st.sampled_from(["block", "column", {"x": "block", "y": "column"}]),
        "unknown": st.sampled_from(["refuse", "nan"]),
        "unseen": st.sampled_from(["missing", "error"]),
        "path": st.sampled_from(["answer.npz", "no-folder/answer"]),
        "m": st.integers(1, 3),
        "n": st.integers(1, 9),
        "random_state": FIT["random_state"],
        "share": st.sampled_from([0.2, 0.5]),
        "observed": st.booleans(),
        "text": st.just(NUMBERS.to_json()),
    }


# What users never call, and a matrix that can be called.
INNER = {"of", "with_codes", "like_frame", "latent", "checked"}


def questions(draw):
    """Any public method of any answer with any arguments."""
    answer, known = draw(st.sampled_from(answers()[2])), arguments()
    public = [name for name in dir(answer) if not name.startswith("_") and name not in INNER]
    method = draw(st.sampled_from(public))
    found, given = getattr(type(answer), method, None), {}
    for name, parameter in inspect.signature(found).parameters.items() if callable(found) else ():
        if name != "self" and (parameter.default is parameter.empty or draw(st.booleans())):
            odd = name not in known or draw(st.integers(0, 3)) == 0
            given[name] = draw(SMALL if odd else known[name])

    def call():
        if not hasattr(answer, method):  # an answer of the same class has it
            return "not there"
        told = getattr(answer, method)
        repr(told(**given) if callable(told) else told)
        return "answered"

    return f"{type(answer).__name__}.{method} {given!r}", call


TERMS = ["numbers**2", "numbers:first", "sqrt(abs(numbers)):first", "poly(numbers, 2)", "numbers"]
TERMS += ["I(numbers^2)", "exp(first)^2", "as.factor(town)", "np.sin(first)", "0"]
WRONG_TERMS = ["log(numbers)", "numbers:no", "I(town**2)", "(numbers", "1", "", "numbers**town"]
WRONG_TERMS += [
    ".",
    "offset(first)",
    "foo.if(first)",
    "first.mean()",
    "first | numbers",
    "f(first)",
]
OUTCOMES = ["last", "last", "last", "label", "levels", "Q('zero or more')", "log(last)"]


def regressions(draw):
    """A formula, many of them wrong, of a completed table whose draws keep its terms or do not."""
    frame, library = draw(frames())
    rng = np.random.default_rng(0)
    frame = frame.assign(**{name: rng.standard_normal(len(frame)) for name in ("first", "last")})
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    terms = TERMS if draw(st.integers(0, 4)) else TERMS + WRONG_TERMS
    terms = draw(st.lists(st.sampled_from(terms), min_size=1, max_size=3))
    formula = f"{draw(st.sampled_from(OUTCOMES))} ~ {' + '.join(terms)}"
    as_list, tips = draw(st.booleans()), draw(st.booleans())
    compares_terms = draw(st.booleans())
    shifts = [None, None, {"last": 0.5}, {"label": 1.0}, {"last": "x"}, *METHODS]
    given = draw(st.sampled_from(shifts))
    weights = draw(st.sampled_from([None, None, *ROW_WEIGHTS]))
    weights = None if weights is None else np.resize(np.asarray(weights, float), len(frame))

    def call():
        completed, shift = mc.complete(library(frame), row_weights=weights), given
        if given in METHODS:  # to the first value of a column of groups, if there is one
            groups = numbers_and_groups(completed)[1]
            shift = None
            if groups:
                to = groups[0].column.distinct[0]
                shift = {"last": mc.shift(by=groups[0].name, to=to, method=given)}
        if as_list:
            for table in completed.draws(2, terms=terms, shift=shift):
                check_observed_entries(table, library(frame), completed.declared)
            return "drawn"
        if tips:
            tipping = mc.tipping_point(completed, formula, shift or "last", [1], estimate=0, m=2)
            return "tipped" if repr(tipping) else ""
        if compares_terms:
            restricted = f"{formula.split('~')[0]} ~ 1"
            test = mc.pool.compare(formula, restricted, completed, 2, shift=shift)
            return "compared" if repr(test) else ""
        pooled = mc.pool.formula(formula, completed, 2, shift=shift)
        assert len(pooled.names) == np.size(pooled.estimate)
        return "pooled" if repr(pooled) else ""

    return f"{frame!r} {formula!r} {as_list} {tips} {compares_terms} {given} {weights}", call


VERBS = {
    "words": words,
    "questions": questions,
    "fit": fits,
    "several fits": several_fits,
    "verify": verifies,
    "explain and to_cvxpy": explains,
    "weight_max": weights_max,
    "path": paths,
    "cross_validate": cross_validates,
    "posterior": posteriors,
    "conformalize": conformal,
    "conformalize_jointly": joint,
    "compare": compares,
    "complete": completes,
    "declare": declares,
    "estimators": estimates,
    "from_triples": triples,
    "pool": pools,
    "regressions": regressions,
    "files": files,
    "command lines": command_lines,
}
